//! What is known of an index at the time of a query.

use crate::collection::index::UsableIndex;
use crate::index::Definition;
use flagstone_doc::Arrays;

/// A complete index, and what its documents are like.
pub(super) struct Known<'a> {
    pub(super) index: &'a UsableIndex,
    pub(super) definition: &'a Definition,
    /// The number of what plans rest on, before any of it was looked at.
    pub(super) premise: u64,
    /// Own writes of a transaction may have arrays and long values that the index has not noted.
    pub(super) is_certain: bool,
}

impl Known<'_> {
    /// Where on the path of field number `field` there may be arrays.
    pub(super) fn arrays(&self, field: usize) -> Arrays {
        if self.is_certain { self.index.arrays(field) } else { Arrays::ANY }
    }

    /// The keyspace of the index.
    pub(super) fn id(&self) -> u32 {
        self.index.id()
    }

    /// Whether a value may be cut.
    pub(super) fn has_cut(&self) -> bool {
        !self.is_certain || self.index.has_cut()
    }
}
