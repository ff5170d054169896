//! The work that is due after a commit, or because a thread waits for background work: a set of
//! flags. The function that finds it returns it, and one place acts on it.

use std::ops::{BitOr, BitOrAssign};

/// A set of actions that are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due(u8);

impl Due {
    /// Start flushes and compactions, if there are any. To look for compactions may take reads of
    /// tables, so only callers that wait anyway ask for it.
    pub(crate) const WORK: Self = Self(1);
    /// Start compactions, if there are any, in a worker.
    pub(crate) const COMPACTIONS: Self = Self(2);
    /// Start a flush, if there is one: a sealed memtable is complete. No file is read for that.
    pub(crate) const FLUSHES: Self = Self(8);
    /// Memtables have grown: shrink the cache, or seal one of them.
    pub(crate) const MEMORY: Self = Self(4);
    /// Seal a memtable that is larger than the user wants.
    pub(crate) const SEAL_LARGE: Self = Self(16);
    /// Note that ranges were deleted.
    pub(crate) const RANGES: Self = Self(32);
    /// Check the log and the tombstones, which is done now and then.
    pub(crate) const CHECK: Self = Self(64);

    /// Returns whether nothing is due.
    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether all of `other` is due.
    #[inline]
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns this set if `is_due`, otherwise an empty one.
    #[inline]
    pub(crate) const fn when(self, is_due: bool) -> Self {
        if is_due { self } else { Self(0) }
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
