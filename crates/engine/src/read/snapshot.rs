//! A snapshot: the database as of one moment, for as long as it is held.

use super::{Registered, Scan};
use crate::commit::VersionToken;
use crate::handle::Handle;
use crate::keyspace::Keyspace;
use crate::shared::Shared;
use flagstone_base::key::KeyRange;
use flagstone_base::{Result, SeqNo, Slice};
use std::sync::Arc;

/// All keyspaces as of one moment. It pins a SeqNo, no memory and no files.
#[derive(Clone)]
pub struct Snapshot {
    handle: Arc<Handle>,
    registered: Registered,
}

impl Snapshot {
    pub(crate) fn new(handle: &Arc<Handle>) -> Self {
        let shared = handle.shared();
        let registered = shared.snapshots.register(&shared.publisher);
        Self { handle: Arc::clone(handle), registered }
    }

    pub(super) fn shared(&self) -> &Shared {
        self.handle.shared()
    }

    /// The last SeqNo it sees.
    pub fn seqno(&self) -> SeqNo {
        self.registered.seqno()
    }

    /// The last SeqNo it sees, with the history that it belongs to.
    pub fn version(&self) -> VersionToken {
        VersionToken { history: self.shared().history, seqno: self.seqno() }
    }

    /// The value that `key` had.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; InvalidInput for a keyspace of another database.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.handle.check_same(keyspace.handle())?;
        keyspace.get_at(key.as_ref(), Some(self.seqno()))
    }

    /// The entries of `range` as they were, in key order.
    ///
    /// # Errors
    /// InvalidInput for a keyspace of another database.
    pub fn scan(&self, keyspace: &Keyspace, range: KeyRange) -> Result<Scan> {
        self.handle.check_same(keyspace.handle())?;
        Ok(Scan::new(keyspace, range, self.clone()))
    }
}
