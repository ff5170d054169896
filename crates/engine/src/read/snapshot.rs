//! A snapshot: the database as of one moment, for as long as it is held.

use super::pin::Pin;
use super::scan::Scan;
use crate::handle::Handle;
use crate::history::{ReadPoint, VersionToken};
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::key::{KeyRange, check_key};
use flagstone_base::{Moment, Result, SeqNo, Slice};
use flagstone_tree::GetResult;
use std::sync::Arc;

/// All keyspaces as of one moment. A snapshot pins a SeqNo, but no memory and no files. What had
/// not expired when it was taken has not expired for it, however long it is held.
#[derive(Clone)]
pub struct Snapshot {
    pin: Pin,
}

/// The put of a key that is stored, whether or not it has expired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredPut {
    /// The value, if there is one.
    pub value: Option<Slice>,
    /// The moment from which on the key is absent, if it has one.
    pub expiry: Option<Moment>,
    /// The SeqNo of its newest write, if there is a value and it is no write of a transaction.
    pub seqno: Option<SeqNo>,
}

impl Snapshot {
    pub(crate) fn new(handle: &Arc<Handle>) -> Self {
        Self { pin: Pin::new(handle) }
    }

    /// The last SeqNo that the snapshot sees.
    pub fn seqno(&self) -> SeqNo {
        self.pin.seqno()
    }

    /// The last SeqNo that the snapshot sees, with the history that it belongs to.
    pub fn version(&self) -> VersionToken {
        VersionToken { history: self.pin.parts().core.history.id, seqno: self.seqno() }
    }

    /// Returns the value that `key` had.
    ///
    /// # Errors
    /// Same as [`Keyspace::get`](crate::Keyspace::get); InvalidInput for a keyspace of another
    /// database.
    pub fn get(
        &self,
        keyspace: &Arc<KeyspaceCore>,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Slice>> {
        Ok(self.find(keyspace, key.as_ref())?.value)
    }

    /// Returns the moment from which on `key` was to be absent; `None` if it had no expiry, or was
    /// absent. Reads nothing if no entry of the keyspace ever had one.
    ///
    /// # Errors
    /// Same as [`Snapshot::get`].
    pub fn expiry(&self, keyspace: &Arc<KeyspaceCore>, key: &[u8]) -> Result<Option<Moment>> {
        if keyspace.expires() { Ok(self.find(keyspace, key)?.lives_until()) } else { Ok(None) }
    }

    /// Returns the put of `key` that was stored, whether or not it had expired. What has expired
    /// may be removed from tables at any time.
    ///
    /// # Errors
    /// Same as [`Snapshot::get`].
    pub fn get_stored(&self, keyspace: &Arc<KeyspaceCore>, key: &[u8]) -> Result<StoredPut> {
        let at = ReadPoint { moment: Moment::ZERO, ..self.pin.point() };
        let found = self.find_at(keyspace, key, at)?;
        let (expiry, seqno) = (found.lives_until(), found.seqno);
        let seqno = seqno.filter(|_| found.value.is_some());
        Ok(StoredPut { value: found.value, expiry, seqno })
    }

    /// Returns whether an entry with this expiry had expired when the snapshot was taken.
    pub fn has_expired(&self, expiry: Moment) -> bool {
        expiry <= self.judged_by()
    }

    /// The moment by which the snapshot judges expiries. Where it sees no entry that expires, any
    /// moment agrees with it.
    pub(crate) fn judged_by(&self) -> Moment {
        match self.moment() {
            Moment::MAX => self.pin.parts().core.history.clock.now(),
            moment => moment,
        }
    }

    /// Returns the newest entry that `key` had.
    pub(crate) fn find(&self, keyspace: &Arc<KeyspaceCore>, key: &[u8]) -> Result<GetResult> {
        self.find_at(keyspace, key, self.pin.point())
    }

    fn find_at(
        &self,
        keyspace: &Arc<KeyspaceCore>,
        key: &[u8],
        at: ReadPoint,
    ) -> Result<GetResult> {
        self.pin.handle().check_same(keyspace)?;
        check_key(key)?;
        let reads = &self.pin.parts().reads;
        reads.get_found(keyspace, key, keyspace.hash(key), Some(at))
    }

    /// The moment by which the snapshot judges expiries. MAX if it sees no entry that expires.
    pub(crate) fn moment(&self) -> Moment {
        self.pin.point().moment
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        self.pin.handle()
    }

    /// Scans the entries of `range` as they were, in key order.
    ///
    /// # Errors
    /// InvalidInput for a keyspace of another database.
    pub fn scan(&self, keyspace: &Arc<KeyspaceCore>, range: KeyRange) -> Result<Scan> {
        self.pin.handle().check_same(keyspace)?;
        Ok(Scan::new(keyspace, range, self.pin.clone()))
    }
}
