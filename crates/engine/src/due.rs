//! What is due after a commit, or when somebody waits for background work: a set, returned by those who find it and acted
//! on in one place.

use std::ops::{BitOr, BitOrAssign};

/// A set of things that are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due(u8);

impl Due {
    /// Flushes and compactions to start, if there are any.
    pub(crate) const WORK: Self = Self(1);
    /// The same for compactions, by a worker.
    pub(crate) const COMPACTIONS: Self = Self(2);
    /// Memtables have grown: the cache gives way, or one of them is to be sealed.
    pub(crate) const MEMORY: Self = Self(4);
    /// A memtable to seal: it is larger than the user wants.
    pub(crate) const SEAL_LARGE: Self = Self(16);
    /// Ranges were deleted.
    pub(crate) const RANGES: Self = Self(32);
    /// A look at the log and at tombstones: it has been a while.
    pub(crate) const LOOK: Self = Self(64);

    /// Whether nothing is due.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` is due.
    #[inline]
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// This, if `is_so`; else nothing.
    #[inline]
    pub(crate) const fn when(self, is_so: bool) -> Self {
        if is_so { self } else { Self(0) }
    }
}

impl BitOr for Due {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Due {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
