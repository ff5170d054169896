//! Rows are copied into another generation while others write them.
//!
//! ```text
//! writers: each batch also sets, for each row it writes, a row that says so, of a kind that its
//!          epoch has alone: when the epoch of all buckets has risen, nothing is added to it
//! copies:  number of the last copy (of the new bucket) -> rows that are there -> rows of the old
//!          bucket -> one batch: the rows that differ and their entries, under the condition that
//!          no other copy came between
//! ```
//! Any number of processes may copy at the same time, and any copy may come late: one that is
//! applied has read the old rows after all copies before it were applied. So no row ever goes back,
//! and none that was removed comes again.

use super::core::{Ground, View, no_answer, place};
use super::entries::Entries;
use crate::backoff::Backoff;
use crate::catalog::{Generation, Note};
use crate::side_by_side::side_by_side;
use crate::store::{
    Batch, Change, Condition, Freshness, Kind, Outcome, PageRequest, Partition, RowKey, Rows,
    RowsRequest, StoredRow, Token,
};
use flagstone_base::codec::put_varint;
use flagstone_base::{Decoder, Error, ErrorKind, KeyRange, Result, Slice, interrupt};
use flagstone_env::{Random, SystemRandom};
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The kinds of rows that are copied. Entries are made of the documents, see `entries`.
const KINDS: [Kind; 2] = [Kind::DOCUMENTS, Kind::LOADS];
/// The keys of a page ..
const PAGE: usize = 200;
/// .. and at most, where the number of buckets grows.
const PAGE_MAX: usize = 5_000;
/// The rows of a batch, and their bytes, about.
const ROWS: usize = 100;
const BATCH_BYTES: usize = 1 << 20;
/// The bytes of the documents that are read at once, about.
const READ_BYTES: usize = 4 << 20;
/// After so many pages it is noted how far a bucket is copied.
const NOTED: u64 = 10;
/// How often rows are tried to be copied while others copy, too.
const TRIES: u32 = 200;

/// A copy into another generation.
pub(super) struct Copy<'g> {
    ground: &'g Ground,
    from: Generation,
    to: Generation,
    /// That of the new buckets: it does not change while rows are copied.
    epoch: i32,
}

/// A bucket whose rows are being copied.
#[derive(Default)]
pub(super) struct Bucket {
    number: u32,
    /// The last document that is copied. `None` at first, then that of an earlier call.
    last: Option<Slice>,
    is_begun: bool,
    pages: u64,
    pub(super) is_done: bool,
    pub(super) documents: u64,
}

/// Whether a copy goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    On,
    /// It was given up, or it is complete and others write to the new generation.
    NotOn,
}

/// What became of an attempt to copy some rows.
enum Attempt {
    /// So many are copied.
    Done(usize),
    Again,
    NotOn,
}

impl<'g> Copy<'g> {
    /// Returns the copy of a collection, as `view` has it, into `to`.
    pub(super) fn new(ground: &'g Ground, view: &View, to: Generation) -> Self {
        let Note { rows: from, copy_epoch: epoch, .. } = view.note;
        Self { ground, from, to, epoch }
    }

    /// Sets the epochs of the new buckets.
    pub(super) fn found(&self) -> Result<()> {
        side_by_side((0..self.to.buckets).collect(), |bucket| {
            let partition = self.to.partition(bucket);
            let mut backoff = Backoff::of(TRIES);
            loop {
                let set = super::core::epoch_of(&*self.ground.store, partition);
                let set = set.and_then(|epoch| match epoch {
                    None => self.ground.store.set_epoch(partition, None, self.epoch).map(|_| false),
                    Some(_) => Ok(true),
                });
                match set {
                    Ok(true) => return Ok(()),
                    Ok(false) => {}
                    Err(error) if error.kind() == ErrorKind::Unknown => {}
                    Err(error) => return Err(error),
                }
                if !backoff.again() {
                    return Err(self.disturbed(partition));
                }
            }
        })
    }

    /// The old buckets, of which none is copied yet.
    pub(super) fn buckets(&self) -> Vec<Bucket> {
        (0..self.from.buckets).map(|number| Bucket { number, ..Bucket::default() }).collect()
    }

    /// Returns whether two old buckets have rows for one new bucket.
    pub(super) const fn share(&self, a: &Bucket, b: &Bucket) -> bool {
        a.number % self.families() == b.number % self.families()
    }

    /// The old buckets whose numbers have the same remainder by it have the rows of the new buckets
    /// whose numbers have it.
    const fn families(&self) -> u32 {
        if self.from.buckets < self.to.buckets { self.from.buckets } else { self.to.buckets }
    }

    /// Copies the next page of a bucket. The documents that an earlier call has copied are passed.
    pub(super) fn page(&self, bucket: &mut Bucket) -> Result<Goes> {
        let from = self.from.partition(bucket.number);
        if !bucket.is_begun {
            bucket.last = self.progress(from)?;
            bucket.is_begun = true;
        }
        let page = self.keys(from, Kind::DOCUMENTS, bucket.last.as_ref())?;
        let keys: Vec<Slice> = page.iter().map(|row| row.key.clone()).collect();
        if self.sync_all(from, Kind::DOCUMENTS, &keys)? == Goes::NotOn {
            return Ok(Goes::NotOn);
        }
        bucket.documents += keys.len() as u64;
        bucket.pages += 1;
        match keys.into_iter().next_back() {
            Some(last) => {
                let notes = bucket.pages.is_multiple_of(NOTED);
                let goes = if notes { self.note_progress(from, &last)? } else { Goes::On };
                bucket.last = Some(last);
                Ok(goes)
            }
            None => {
                bucket.is_done = true;
                self.each_page(from, Kind::LOADS, &mut |rows| {
                    let keys: Vec<Slice> = rows.iter().map(|row| row.key.clone()).collect();
                    self.sync_all(from, Kind::LOADS, &keys)
                })
            }
        }
    }

    /// Copies the rows again that were written under these epochs. If `removes`, nothing is written
    /// under them any more, and what says so is removed. Returns how many there were; `None` if it
    /// does not go on.
    pub(super) fn again(&self, epochs: Range<i32>, removes: bool) -> Result<Option<u64>> {
        let (count, families) = (AtomicU64::new(0), self.families());
        let has_ended = AtomicBool::new(false);
        side_by_side((0..families).collect(), |family| {
            for bucket in (family..self.from.buckets).step_by(families as usize) {
                let from = self.from.partition(bucket);
                for (epoch, kind) in epochs.clone().flat_map(|one| KINDS.map(|kind| (one, kind))) {
                    let mut found = 0;
                    let goes = self.each_page(from, kind.changed(epoch), &mut |changed| {
                        found += changed.len() as u64;
                        let keys: Vec<Slice> = changed.iter().map(|row| row.key.clone()).collect();
                        self.sync_all(from, kind, &keys)
                    })?;
                    count.fetch_add(found, Ordering::Relaxed);
                    if goes == Goes::NotOn {
                        has_ended.store(true, Ordering::Relaxed);
                        return Ok(());
                    }
                    if removes && found > 0 {
                        self.remove(from, kind.changed(epoch))?;
                    }
                }
            }
            Ok(())
        })?;
        Ok((!has_ended.into_inner()).then(|| count.into_inner()))
    }

    /// Removes what says that rows were written under these epochs. Nothing is written under them
    /// any more, and nobody needs it.
    pub(super) fn forget(&self, epochs: Range<i32>) -> Result<()> {
        side_by_side((0..self.from.buckets).collect(), |bucket| {
            let from = self.from.partition(bucket);
            let kinds = epochs.clone().flat_map(|epoch| KINDS.map(|kind| kind.changed(epoch)));
            kinds.into_iter().try_for_each(|kind| {
                let is_empty = self.keys(from, kind, None)?.is_empty();
                if is_empty { Ok(()) } else { self.remove(from, kind) }
            })
        })
    }

    fn remove(&self, from: Partition, kind: Kind) -> Result<()> {
        match self.ground.store.remove_kind(from, kind) {
            // If it is still there, nobody reads it, and it goes with its generation.
            Err(error) if error.kind() == ErrorKind::Unknown => Ok(()),
            answered => answered,
        }
    }

    /// Calls `work` with the keys and tokens of all rows of a kind, by pages.
    fn each_page(
        &self,
        partition: Partition,
        kind: Kind,
        work: &mut dyn FnMut(&[StoredRow]) -> Result<Goes>,
    ) -> Result<Goes> {
        let mut last = None;
        loop {
            let rows = self.keys(partition, kind, last.as_ref())?;
            let Some(row) = rows.last() else { return Ok(Goes::On) };
            last = Some(row.key.clone());
            if work(&rows)? == Goes::NotOn {
                return Ok(Goes::NotOn);
            }
        }
    }

    fn keys(
        &self,
        partition: Partition,
        kind: Kind,
        last: Option<&Slice>,
    ) -> Result<Vec<StoredRow>> {
        interrupt::check()?;
        let start = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last.to_vec()));
        let range = KeyRange { start, end: Bound::Unbounded };
        // The rows of a page come into so many more buckets.
        let growth = (self.to.buckets / self.from.buckets).max(1) as usize;
        let (is_reversed, limit, keys_only) = (false, (PAGE * growth).min(PAGE_MAX), true);
        let request = PageRequest { partition, kind, range, is_reversed, limit, keys_only };
        Ok(self.ground.store.pages(&[request]).pop().ok_or_else(no_answer)??.rows)
    }

    /// Brings rows of the new generation into agreement with those of an old bucket.
    fn sync_all(&self, from: Partition, kind: Kind, keys: &[Slice]) -> Result<Goes> {
        let mut buckets: BTreeMap<u32, Vec<&Slice>> = BTreeMap::new();
        for key in keys {
            buckets.entry(self.to.bucket_of(key)).or_default().push(key);
        }
        for (bucket, keys) in buckets {
            let (to, mut left) = (self.to.partition(bucket), &keys[..]);
            let mut backoff = Backoff::of(TRIES);
            while !left.is_empty() {
                let most = self.ground.sizes.fitting(READ_BYTES).min(ROWS);
                match self.sync((from, to), kind, &left[..left.len().min(most)])? {
                    Attempt::Done(count) => {
                        left = &left[count..];
                        backoff = Backoff::of(TRIES);
                    }
                    Attempt::Again if backoff.again() => {}
                    Attempt::Again => return Err(self.disturbed(to)),
                    Attempt::NotOn => return Ok(Goes::NotOn),
                }
            }
        }
        Ok(Goes::On)
    }

    /// As [`Copy::sync_all`], of rows for one new bucket, by one batch.
    fn sync(
        &self,
        (from, to): (Partition, Partition),
        kind: Kind,
        keys: &[&Slice],
    ) -> Result<Attempt> {
        let row_key = |key: &&Slice| RowKey { kind, key: (*key).clone() };
        // First those that are there: the copy that made them has read the old ones before.
        let own = RowKey { kind: Kind::COPIES, key: Slice::copy_of(LAST) };
        let wanted = keys.iter().map(row_key).chain([own.clone()]).collect();
        let Rows { epoch, rows: mut there } = self.rows(to, wanted)?;
        if epoch != Some(self.epoch) {
            return Ok(Attempt::NotOn);
        }
        let last = there.pop().flatten().and_then(|row| row.token);
        let here = self.rows(from, keys.iter().map(row_key).collect())?.rows;
        let token = Token(SystemRandom.next_u64().to_be_bytes());
        let conditions = vec![Condition { row: own.clone(), token: last }];
        let row = StoredRow { token: Some(token), ..row_of(own.key, Slice::EMPTY) };
        let changes = vec![Change::Set { kind: Kind::COPIES, row }];
        let mut batch = Batch { partition: to, epoch: self.epoch, conditions, changes };
        if kind == Kind::DOCUMENTS {
            self.ground.sizes.note(here.iter().flatten());
        }
        let mut entries = Entries::new(self.ground);
        let (mut count, mut bytes, mut is_needed) = (0, 0, false);
        for ((key, there), here) in keys.iter().zip(there).zip(here) {
            let token_of = |row: &Option<StoredRow>| row.as_ref().and_then(|row| row.token);
            count += 1;
            let is_same = token_of(&here).is_some() && token_of(&here) == token_of(&there);
            if is_same {
                continue;
            }
            // If it is in neither, an earlier copy of it must not come later.
            is_needed = true;
            if kind == Kind::DOCUMENTS {
                bytes += entries.add(key, (there.as_ref(), here.as_ref()))?;
            }
            bytes += here.as_ref().map_or(0, |row| row.value.len());
            batch.changes.push(match here {
                Some(row) => Change::Set { kind, row },
                None => Change::Delete(row_key(key)),
            });
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        if !entries.notes.is_empty() {
            drop(self.ground.unite(&entries.notes)?);
            return Ok(Attempt::Again);
        }
        if !is_needed {
            return Ok(Attempt::Done(count));
        }
        batch.changes.extend(entries.changes(to)?);
        match self.ground.store.batch(&batch) {
            Ok(Outcome::Applied) => Ok(Attempt::Done(count)),
            Ok(Outcome::Refused) => Ok(Attempt::Again),
            // Whether it was applied or not, the next attempt begins with what is there.
            Err(error) if error.kind() == ErrorKind::Unknown => Ok(Attempt::Again),
            Err(error) => Err(error),
        }
    }

    /// Reads rows in the order of the batches.
    fn rows(&self, partition: Partition, keys: Vec<RowKey>) -> Result<Rows> {
        let request = RowsRequest { partition, keys, freshness: Freshness::Serial };
        self.ground.store.rows(&[request]).pop().ok_or_else(no_answer)?
    }

    /// Reads up to which document a bucket is copied into this generation.
    fn progress(&self, from: Partition) -> Result<Option<Slice>> {
        let key = RowKey { kind: Kind::COPIES, key: Slice::copy_of(PROGRESS) };
        let row = self.rows(from, vec![key])?.rows.pop().flatten();
        Ok(row.and_then(|row| {
            let mut decoder = Decoder::new(&row.value);
            let generation = decoder.varint_u32("a generation").ok();
            let is_this = generation.is_some_and(|number| number == self.to.number as u32);
            is_this.then(|| Slice::copy_of(decoder.rest()))
        }))
    }

    /// Notes how far a bucket is copied. If it is not noted, or late, more is compared again.
    fn note_progress(&self, from: Partition, last: &Slice) -> Result<Goes> {
        let mut value = Vec::new();
        put_varint(&mut value, self.to.number as u64);
        value.extend_from_slice(last);
        let row = row_of(Slice::copy_of(PROGRESS), value.into());
        let changes = vec![Change::Set { kind: Kind::COPIES, row }];
        let (epoch, conditions) = (self.ground.view().note.epoch, Vec::new());
        let written =
            self.ground.store.batch(&Batch { partition: from, epoch, conditions, changes });
        match written {
            Err(error) if error.kind() != ErrorKind::Unknown => Err(error),
            Ok(Outcome::Refused) => {
                // Another call has raised the epoch, or has given the copy up.
                let is_this = self.ground.reload(Freshness::Serial)?.note.next() == Some(self.to);
                Ok(if is_this { Goes::On } else { Goes::NotOn })
            }
            _ => Ok(Goes::On),
        }
    }

    #[cold]
    fn disturbed(&self, partition: Partition) -> Error {
        let place = place(&self.ground.name, partition);
        let text = format!(
            "rows of {place} could not be copied in {TRIES} attempts, because others copy them, \
             too: try again"
        );
        Error::new(ErrorKind::Unavailable, text)
    }
}

/// The key of the row in a new bucket whose token is that of the last copy.
const LAST: &[u8] = b"last";
/// The key of the row in an old bucket that says how far it is copied.
const PROGRESS: &[u8] = b"progress";

fn row_of(key: Slice, value: Slice) -> StoredRow {
    StoredRow { key, value, token: None, expiry: None }
}
