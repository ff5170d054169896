//! Options of one write and of one commit.

use flagstone_base::Moment;
use flagstone_engine::{Durability, Effect};

/// Options of one put. `EntryOptions::new()` sets none of them.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::EntryOptions;
/// use std::time::Duration;
///
/// let sessions = db.keyspace("sessions")?;
/// let in_an_hour = db.now().after(Duration::from_secs(3600));
/// sessions.put_with("alice", "logged in", EntryOptions::new().expires(in_an_hour))?;
/// assert_eq!(sessions.expiry("alice")?, Some(in_an_hour));
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryOptions {
    /// See [`EntryOptions::expires`].
    pub expires: Option<Moment>,
}

impl EntryOptions {
    /// Returns options of which none is set.
    pub const fn new() -> Self {
        Self { expires: None }
    }

    /// Sets the moment from which on the key is absent, as if it had been deleted. A later put
    /// without this option has no expiry; updates, patches and merges keep the expiry of the value
    /// that they change.
    ///
    /// The first such write of a keyspace costs a sync of the manifest. From then on merges and
    /// patches of this keyspace read the value that they change and write the result, and the limit
    /// of a batch counts the results.
    #[must_use]
    pub const fn expires(mut self, at: Moment) -> Self {
        self.expires = Some(at);
        self
    }

    pub(crate) const fn effect(self) -> Effect {
        Effect::put(self.expires)
    }
}

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
