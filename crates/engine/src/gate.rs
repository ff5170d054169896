//! The gate of a keyspace keeps range deletes and ingests out of updates: see the stripes of the
//! commit path.

use flagstone_env::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The gate of a keyspace. Writes that read hold it shared, range deletes and ingests exclusively.
#[derive(Default)]
pub(crate) struct Gate(RwLock<()>);

/// A held gate, released when dropped.
pub(crate) enum HeldGate<'a> {
    Shared { _guard: RwLockReadGuard<'a, ()> },
    Alone { _guard: RwLockWriteGuard<'a, ()> },
}

impl Gate {
    pub(crate) fn pass(&self) -> HeldGate<'_> {
        HeldGate::Shared { _guard: self.0.read() }
    }

    pub(crate) fn pass_alone(&self) -> HeldGate<'_> {
        HeldGate::Alone { _guard: self.0.write() }
    }
}
