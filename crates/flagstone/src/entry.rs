//! Options of one commit.

use flagstone_engine::Durability;

/// Options of one commit. `CommitOptions::new()` sets none of them; a [`Durability`] alone becomes
/// one that sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitOptions {
    /// See [`CommitOptions::durability`].
    pub durability: Option<Durability>,
}

impl CommitOptions {
    /// Returns options of which none is set.
    pub const fn new() -> Self {
        Self { durability: None }
    }

    /// Sets when the commit returns. The default is the durability of the database.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}

impl From<Durability> for CommitOptions {
    fn from(durability: Durability) -> Self {
        Self::new().durability(durability)
    }
}
