//! What a write does to a key, and where it goes.

#[cfg(feature = "documents")]
use crate::index::Pending;
use flagstone_base::{Kind, Moment};
use flagstone_engine::{Effect, Transaction};

/// What a write does to the value of one key.
#[derive(Clone, Copy)]
pub enum KeyChange<'a> {
    /// Sets the value to these bytes, with an expiry.
    Put(&'a [u8], Option<Moment>),
    /// Removes the key.
    Delete,
    /// Merges an operand into the value without reading it. In a collection it is a patch.
    Merge(&'a [u8]),
}

impl<'a> KeyChange<'a> {
    pub(crate) fn entry(self) -> (Effect, &'a [u8]) {
        match self {
            Self::Put(bytes, expiry) => (Effect::put(expiry), bytes),
            Self::Delete => (Kind::Delete.into(), b""),
            Self::Merge(operand) => (Kind::Merge.into(), operand),
        }
    }
}

/// Where a write goes.
pub enum Destination<'t> {
    /// In the database, at once.
    Database,
    /// In a transaction.
    Transaction(Own<'t>),
}

/// A transaction, with the work that its commit does for indexes.
pub struct Own<'t> {
    pub(crate) transaction: &'t mut Transaction,
    #[cfg(feature = "documents")]
    pub(crate) pending: &'t mut Option<Box<Pending>>,
}

#[cfg(feature = "documents")]
impl Own<'_> {
    /// Returns the same for a shorter time.
    pub(crate) fn reborrowed(&mut self) -> Own<'_> {
        Own { transaction: self.transaction, pending: self.pending }
    }
}
