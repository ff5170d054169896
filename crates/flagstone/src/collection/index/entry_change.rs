//! One write of an index entry, which a write of a document causes.

use flagstone_base::Moment;
use flagstone_engine::KeyspaceCore;
use std::sync::Arc;

/// A write of one entry of an index.
pub(super) struct EntryWrite {
    pub(super) core: Arc<KeyspaceCore>,
    /// The key of the entry.
    pub(super) key: Vec<u8>,
    /// The value of the entry and its expiry, if the entry is put; `None` if it is removed.
    pub(super) put: Option<(Vec<u8>, Option<Moment>)>,
    /// The primary key of the document. Empty unless the index is unique.
    pub(super) primary_key: Vec<u8>,
}

impl EntryWrite {
    /// Sorts `writes`: an entry that one document gives up may be that of another one afterwards.
    pub(super) fn sort(writes: &mut [Self]) {
        writes.sort_by_key(|write| write.put.is_some());
    }

    /// The same write without the value of the entry.
    pub(super) fn key_only(&self) -> Self {
        let put = self.put.as_ref().map(|(_, expiry)| (Vec::new(), *expiry));
        let (core, key) = (Arc::clone(&self.core), self.key.clone());
        Self { core, key, put, primary_key: self.primary_key.clone() }
    }
}
