//! The handle of a transaction over keyspaces of bytes.

use super::own::{OwnWrite, OwnWrites};
use super::scan::TransactionScan;
use crate::commit::{
    Batch, CONDITION_OVERHEAD, Effect, Expect, OP_OVERHEAD, ReadSet, check_expected, conflict,
};
use crate::handle::Handle;
use crate::history::VersionToken;
use crate::keyspace_core::{KeyspaceCore, Prepared};
use crate::parts::Parts;
use crate::read::{Snapshot, StoredPut};
use flagstone_base::key::{KeyRange, check_key, check_value};
use flagstone_base::{Error, Kind, Moment, Result, SeqNo, Slice};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::AtomicU64;
use std::sync::Arc;

/// What a transaction promises beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// All reads are of one snapshot, and the commit returns Conflict if another commit has written
    /// one of the written keys since. Of two transactions that read what the other writes, and
    /// write different keys, both may commit (write skew).
    #[default]
    Snapshot,
    /// The commit returns Conflict if another commit has written something that was read since the
    /// snapshot, absent keys and scanned ranges included. So serializable transactions have the
    /// effect of some order in which they run one after another.
    Serializable,
}

/// A transaction: a snapshot, and writes that are kept in memory until they are committed.
pub struct Transaction {
    snapshot: Snapshot,
    own: OwnWrites,
    /// The sets of owned keyspaces that were noted.
    prepared: Vec<Prepared>,
    /// What was read, if the transaction is serializable.
    reads: Option<Mutex<ReadSet>>,
    /// The keys that must be unchanged at the commit, if it is not.
    expected: Vec<(Arc<KeyspaceCore>, Vec<u8>)>,
    /// The bytes that these take as conditions of a batch.
    expected_bytes: usize,
}

impl Transaction {
    /// Begins a transaction on what is visible now. A serializable one first waits until the
    /// commits that are under way are visible, unless another one is open.
    pub(crate) fn begin(handle: &Arc<Handle>, isolation: Isolation) -> Result<Self> {
        let parts = handle.parts();
        parts.core.health.check_open()?;
        let watch = match isolation {
            Isolation::Snapshot => None,
            Isolation::Serializable => {
                parts.core.health.check_may_wait("the begin of a serializable transaction")?;
                Some(parts.commits.watch())
            }
        };
        let snapshot = Snapshot::new(handle);
        let reads = watch.map(|watch| Mutex::new(ReadSet::new(watch, snapshot.seqno())));
        let (own, prepared, expected) = (OwnWrites::default(), Vec::new(), Vec::new());
        Ok(Self { snapshot, own, prepared, reads, expected, expected_bytes: 0 })
    }

    fn parts(&self) -> &Parts {
        self.snapshot.handle().parts()
    }

    /// The last SeqNo that the transaction's snapshot sees.
    pub fn seqno(&self) -> SeqNo {
        self.snapshot.seqno()
    }

    /// The last SeqNo that the transaction's snapshot sees, with its history.
    pub fn version(&self) -> VersionToken {
        self.snapshot.version()
    }

    /// The number of keys that were written.
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.own.len() == 0
    }

    /// The number of bytes that the limit of a batch counts: what the writes take in the log, at
    /// most, and the conditions.
    pub const fn bytes(&self) -> usize {
        self.own.bytes() + self.expected_bytes
    }

    /// Returns whether the transaction has set or removed `key`: a merge into it looks at that.
    pub fn has_set(&self, keyspace: &Arc<KeyspaceCore>, key: &[u8]) -> bool {
        matches!(self.own.get(keyspace, key), Some(OwnWrite::Put { .. } | OwnWrite::Delete))
    }

    fn note_read(&self, keyspace: &Arc<KeyspaceCore>, key: &[u8]) {
        if let Some(reads) = &self.reads {
            reads.lock().add_key(keyspace, key);
        }
    }

    /// Returns the value of `key` as the transaction sees it, and the moment from which on it is
    /// absent if it has one.
    ///
    /// # Errors
    /// Same as [`Snapshot::get`].
    pub fn get_with_expiry(
        &self,
        keyspace: &Arc<KeyspaceCore>,
        key: &[u8],
    ) -> Result<(Option<Slice>, Option<Moment>)> {
        let own = self.own.get(keyspace, key);
        if let Some(OwnWrite::Put { expiry, .. }) = own {
            let value = own.and_then(|own| own.over(keyspace, key, None));
            let lives_until = expiry.filter(|_| value.is_some());
            return Ok((value, lives_until));
        }
        if let Some(OwnWrite::Delete) = own {
            return Ok((None, None));
        }
        let found = self.snapshot.find(keyspace, key)?;
        self.note_read(keyspace, key);
        let lives_until = found.lives_until();
        Ok(match own {
            None => (found.value, lives_until),
            Some(own) => {
                let value = own.over(keyspace, key, found.value.as_deref());
                let lives_until = lives_until.filter(|_| value.is_some());
                (value, lives_until)
            }
        })
    }

    /// Returns the put of `key` that is stored with the transaction's writes, whether or not it has
    /// expired. That is no read of the transaction.
    ///
    /// # Errors
    /// Same as [`Snapshot::get`].
    pub fn get_stored(&self, keyspace: &Arc<KeyspaceCore>, key: &[u8]) -> Result<StoredPut> {
        match self.own.get(keyspace, key) {
            None => self.snapshot.get_stored(keyspace, key),
            Some(OwnWrite::Put { value, expiry, .. }) => {
                Ok(StoredPut { value: Some(value.clone()), expiry: *expiry, seqno: None })
            }
            Some(OwnWrite::Delete) => Ok(StoredPut::default()),
            Some(own @ OwnWrite::Merge(_)) => {
                let StoredPut { value: base, expiry, .. } =
                    self.snapshot.get_stored(keyspace, key)?;
                let value = own.over(keyspace, key, base.as_deref());
                let expiry = expiry.filter(|_| value.is_some());
                Ok(StoredPut { value, expiry, seqno: None })
            }
        }
    }

    /// Returns the SeqNo of the put of `key` that was stored before the transaction, whether or not
    /// it has expired. That is no read of the transaction.
    ///
    /// # Errors
    /// Same as [`Snapshot::get`].
    pub fn seqno_before(&self, keyspace: &Arc<KeyspaceCore>, key: &[u8]) -> Result<Option<SeqNo>> {
        Ok(self.snapshot.get_stored(keyspace, key)?.seqno)
    }

    /// Checks that `key` is as `expected` in what the transaction sees, and makes its commit return
    /// Conflict if another commit has written the key since. For a key that the transaction has
    /// written itself, `Version` and `UnchangedSince` are a Conflict, and `Absent` judges by what
    /// was written.
    ///
    /// # Errors
    /// Conflict if the key is not as expected; InvalidInput for more bytes than a batch may have;
    /// otherwise those of [`Snapshot::get`].
    pub fn expect(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        key: &[u8],
        expected: Expect,
    ) -> Result<()> {
        if self.own.get(keyspace, key).is_some() {
            if expected != Expect::Absent || self.get(keyspace, key)?.is_some() {
                let what = format_args!("was written by the transaction, expected {expected:?}");
                return Err(conflict(keyspace, key, what));
            }
        } else {
            let found = self.snapshot.find(keyspace, key)?;
            let seqno = found.value.as_ref().and(found.seqno);
            check_expected(&self.parts().reads, keyspace, key, expected, || Ok(seqno))?;
        }
        match &self.reads {
            Some(reads) => reads.lock().add_key(keyspace, key),
            None => {
                let more = key.len() + CONDITION_OVERHEAD;
                self.parts().commits.check_batch_bytes(self.bytes() + more)?;
                self.expected.push((Arc::clone(keyspace), key.to_vec()));
                self.expected_bytes += more;
            }
        }
        Ok(())
    }

    /// Notes that what the transaction reads rests on something that is true of `keyspace` as long
    /// as `number` is `then`, and on the keyspace being there. `then` was loaded before that was
    /// looked at. If it changes before the commit of a serializable transaction, it is a Conflict.
    pub fn note_premise(&self, keyspace: &Arc<KeyspaceCore>, number: &Arc<AtomicU64>, then: u64) {
        if let Some(reads) = &self.reads {
            reads.lock().add_premise(keyspace, number, then);
        }
    }

    /// Notes that all of `range` was read.
    pub fn note_range(&self, keyspace: &Arc<KeyspaceCore>, range: &KeyRange) {
        if let Some(reads) = &self.reads {
            reads.lock().add_range(keyspace, range);
        }
    }

    /// Returns the value of `key` as the transaction sees it.
    ///
    /// # Errors
    /// Same as [`Snapshot::get`].
    pub fn get(
        &self,
        keyspace: &Arc<KeyspaceCore>,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Slice>> {
        Ok(self.get_with_expiry(keyspace, key.as_ref())?.0)
    }

    /// Notes which keyspaces `keyspace` owns now. Called before it is looked up which ones it owns,
    /// and before the transaction writes to them what its writes to `keyspace` mean for them, or
    /// writes nothing there since there are none. Its commit returns Conflict if that has changed.
    pub fn note_set(&mut self, keyspace: &KeyspaceCore) {
        note_set(&mut self.prepared, keyspace);
    }

    /// Scans the entries of `range` as the transaction sees them, in key order.
    ///
    /// # Errors
    /// InvalidInput for a keyspace of another database.
    pub fn scan(
        &self,
        keyspace: &Arc<KeyspaceCore>,
        range: KeyRange,
    ) -> Result<TransactionScan<'_>> {
        self.scan_noting(keyspace, range, self.reads.as_ref())
    }

    /// As [`Transaction::scan`], to find out how much there is. That is no read of the transaction:
    /// what more is made of it must be noted.
    ///
    /// # Errors
    /// Same as [`Transaction::scan`].
    pub fn probe(
        &self,
        keyspace: &Arc<KeyspaceCore>,
        range: KeyRange,
    ) -> Result<TransactionScan<'_>> {
        self.scan_noting(keyspace, range, None)
    }

    fn scan_noting<'t>(
        &'t self,
        keyspace: &Arc<KeyspaceCore>,
        range: KeyRange,
        reads: Option<&'t Mutex<ReadSet>>,
    ) -> Result<TransactionScan<'t>> {
        let base = self.snapshot.scan(keyspace, range.clone())?;
        let own = self.own.range(keyspace, &range);
        Ok(TransactionScan::new(keyspace, range, base, own, reads))
    }

    /// Writes `key`: a put, a delete or a merge.
    ///
    /// # Errors
    /// InvalidInput for a key or value out of bounds, a merge without a fold, a dropped keyspace or
    /// one of another database, or more bytes than a batch may have; errors of reading, for a merge
    /// where entries expire. Everything is as before then.
    pub fn write(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        effect: impl Into<Effect>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        self.snapshot.handle().check_same(keyspace)?;
        keyspace.check_not_dropped()?;
        let effect: Effect = effect.into();
        match effect.kind {
            Kind::Put => {
                let own = self.put(effect.expiry, Slice::copy_of(value));
                self.set(keyspace, key, own)
            }
            Kind::Merge => self.merge(keyspace, key, value),
            Kind::Delete => self.set(keyspace, key, OwnWrite::Delete),
            Kind::RangeDelete => Err(Error::invalid(
                "a transaction deletes a range key by key: call its delete_range",
            )),
        }
    }

    fn put(&self, expiry: Option<Moment>, value: Slice) -> OwnWrite {
        let has_expired = expiry.is_some_and(|expiry| self.snapshot.has_expired(expiry));
        OwnWrite::Put { value, expiry, has_expired }
    }

    /// Merges `operand` into the value of `key`. Where the transaction has written the value, or
    /// entries expire, that is a put of the result, as of the transaction's moment.
    fn merge(&mut self, keyspace: &Arc<KeyspaceCore>, key: &[u8], operand: &[u8]) -> Result<()> {
        keyspace.check_fold()?;
        let is_blind = match self.own.get(keyspace, key) {
            Some(OwnWrite::Merge(_)) => true,
            Some(OwnWrite::Put { .. } | OwnWrite::Delete) => false,
            None => !keyspace.expires(),
        };
        if is_blind {
            let commits = &self.snapshot.handle().parts().commits;
            let expected = self.expected_bytes;
            let check = |bytes| commits.check_batch_bytes(bytes + expected);
            note_none(&mut self.prepared, keyspace);
            return self.own.add_operand(keyspace, key, operand, check);
        }
        let (base, expiry) = self.get_with_expiry(keyspace, key)?;
        let fold = keyspace.fold.as_deref();
        let folded = fold.and_then(|fold| fold.fold(key, base.as_deref(), &[operand]));
        let Some(value) = folded else { return self.set(keyspace, key, OwnWrite::Delete) };
        check_value(&value)?;
        let own = OwnWrite::Put { value: Slice::from(value), expiry, has_expired: false };
        self.set(keyspace, key, own)
    }

    fn set(&mut self, keyspace: &Arc<KeyspaceCore>, key: &[u8], own: OwnWrite) -> Result<()> {
        let commits = &self.snapshot.handle().parts().commits;
        note_none(&mut self.prepared, keyspace);
        let expected = self.expected_bytes;
        self.own.set(keyspace, key, own, |bytes| commits.check_batch_bytes(bytes + expected))
    }

    /// Removes the keys of `range` that the transaction sees, one by one.
    ///
    /// # Errors
    /// Errors of reading; otherwise those of [`Transaction::write`].
    pub fn delete_range(&mut self, keyspace: &Arc<KeyspaceCore>, range: KeyRange) -> Result<()> {
        keyspace.check_not_dropped()?;
        let mut keys = Vec::new();
        let mut bytes = self.bytes();
        let mut scan = self.scan(keyspace, range)?;
        while scan.advance()? {
            bytes += scan.key().len() + OP_OVERHEAD;
            // Nothing is deleted if not everything can be.
            self.parts().commits.check_batch_bytes(bytes)?;
            keys.push(scan.key().to_vec());
        }
        drop(scan);
        keys.iter().try_for_each(|key| self.set(keyspace, key, OwnWrite::Delete))
    }

    /// Reads `key`, calls `change` to find out what to write (`None`: nothing), and writes it. A
    /// put keeps the expiry of the value that it replaces. Returns whether something was written.
    ///
    /// # Errors
    /// The error that `change` returns; otherwise those of [`Transaction::write`].
    pub fn read_modify_write(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        key: &[u8],
        change: impl FnOnce(Option<&[u8]>) -> Result<Option<(Kind, Vec<u8>)>>,
    ) -> Result<bool> {
        let (old, expiry) = self.get_with_expiry(keyspace, key)?;
        let Some((kind, value)) = change(old.as_deref())? else { return Ok(false) };
        let effect = if kind == Kind::Put { Effect::put(expiry) } else { kind.into() };
        self.write(keyspace, effect, key, &value)?;
        Ok(true)
    }

    /// Returns the batch whose commit is that of the transaction.
    pub(crate) fn into_batch(self) -> Result<Batch> {
        let Some(reads) = self.reads else {
            let version = self.snapshot.version();
            let mut batch = self.own.into_batch(Some(version))?;
            for (keyspace, key) in self.expected {
                batch.expect(&keyspace, key, Expect::UnchangedSince(version))?;
            }
            batch.prepared = self.prepared;
            return Ok(batch);
        };
        let mut reads = reads.into_inner();
        reads.settle();
        reads.check()?;
        let mut batch = self.own.into_batch(None)?;
        batch.reads = Some(Box::new(reads));
        batch.prepared = self.prepared;
        Ok(batch)
    }
}

/// Adds the set of `keyspace` to those that were noted. The first one of a keyspace counts.
fn note_set(prepared: &mut Vec<Prepared>, keyspace: &KeyspaceCore) {
    if prepared.iter().all(|known| known.owner != keyspace.id) {
        prepared.push(keyspace.prepared());
    }
}

/// As [`note_set`], for a write that is prepared for no owned keyspaces, as those of a keyspace
/// without any are. One that is not noted is refused where the keyspace owns others.
fn note_none(prepared: &mut Vec<Prepared>, keyspace: &KeyspaceCore) {
    if prepared.iter().all(|known| known.owner != keyspace.id) {
        let now = keyspace.prepared();
        // After the number was read: if the first one has come in between, it is another number.
        if !keyspace.has_owned() {
            prepared.push(now);
        }
    }
}
