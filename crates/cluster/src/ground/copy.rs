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

use super::core::{Ground, TRIES, View, no_answer, place, set_epoch};
use super::entries::Entries;
use crate::backoff::Backoff;
use crate::catalog::{Generation, Note};
use crate::side_by_side::side_by_side;
use crate::store::{
    Batch, Change, Condition, Freshness, Kind, Outcome, Page, PageRequest, Partition, RowKey, Rows,
    RowsRequest, STATEMENTS_FULL, StoredRow, Token,
};
use flagstone_base::{Error, ErrorKind, KeyRange, Result, Slice, interrupt};
use flagstone_env::{Random, SystemRandom};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The kinds of rows that are copied. Entries are made of the documents, see `entries`.
const KINDS: [Kind; 2] = [Kind::DOCUMENTS, Kind::LOADS];
/// The keys of a page.
pub(super) const PAGE: usize = 200;
/// The pages of keys that were written meanwhile that are read at once.
const PAGES: usize = 64;
/// The rows of a batch, and their bytes, about.
const ROWS: usize = 100;
const BATCH_BYTES: usize = 1 << 20;
/// The bytes of the documents that are read at once, about.
const READ_BYTES: usize = 4 << 20;

/// A copy into another generation.
pub(super) struct Copy<'g> {
    pub(super) ground: &'g Ground,
    pub(super) from: Generation,
    pub(super) to: Generation,
    /// That of the new buckets: it does not change while rows are copied.
    pub(super) epoch: i32,
}

/// Rows of an old bucket that were written meanwhile.
struct Written {
    bucket: u32,
    kind: Kind,
    /// The kind of the rows that say so.
    changed: Kind,
    last: Option<Slice>,
    found: u64,
}

/// Whether a copy goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    On,
    /// It was given up, or it is complete and others write to the new generation.
    NotOn,
}

/// What becomes of the notes of written rows once the rows are copied again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Notes {
    Keep,
    /// Nothing is written under their epochs any more.
    Remove,
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
    pub(super) fn new(ground: &'g Ground, view: &View, to: &Generation) -> Self {
        let Note { rows: from, copy_epoch: epoch, .. } = &view.note;
        Self { ground, from: from.clone(), to: to.clone(), epoch: *epoch }
    }

    /// Sets the epochs of the new buckets.
    pub(super) fn found(&self) -> Result<()> {
        side_by_side(self.to.partitions().collect(), |partition| {
            let is_set = |epoch: Option<i32>| epoch.is_some();
            if set_epoch(&*self.ground.store, partition, self.epoch, is_set)? {
                return Ok(());
            }
            Err(self.disturbed(partition))
        })
    }

    /// Copies the rows again that were written under these epochs. Returns how many there were;
    /// `None` if it does not go on.
    pub(super) fn again(&self, epochs: Range<i32>, notes: Notes) -> Result<Option<u64>> {
        let mut left: Vec<Written> = Vec::new();
        for (bucket, epoch) in (0..self.from.buckets.count())
            .flat_map(|bucket| epochs.clone().map(move |epoch| (bucket, epoch)))
        {
            left.extend(KINDS.map(|kind| {
                let (changed, last, found) = (kind.changed(epoch), None, 0);
                Written { bucket, kind, changed, last, found }
            }));
        }
        let mut count = 0;
        while !left.is_empty() {
            let some = left.split_off(left.len().saturating_sub(PAGES));
            let read = Mutex::new(Vec::with_capacity(some.len()));
            side_by_side(some, |written| {
                let (from, last) = (self.from.partition(written.bucket), written.last.as_ref());
                let page = self.keys(from, written.changed, &KeyRange::ALL, last, PAGE)?;
                read.lock().unwrap_or_else(PoisonError::into_inner).push((written, page));
                Ok(())
            })?;
            let read = read.into_inner().unwrap_or_else(PoisonError::into_inner);
            if self.sync_written(&read)? == Goes::NotOn {
                return Ok(None);
            }
            let mut done = Vec::new();
            for (mut written, mut page) in read {
                written.found += page.rows.len() as u64;
                count += page.rows.len() as u64;
                if !page.is_last {
                    written.last = page.rows.pop().map(|row| row.key);
                    left.push(written);
                } else if notes == Notes::Remove && written.found > 0 {
                    done.push((self.from.partition(written.bucket), written.changed));
                }
            }
            side_by_side(done, |(from, changed)| self.remove(from, changed))?;
        }
        Ok(Some(count))
    }

    /// Copies rows that were written meanwhile, those of the new buckets side by side.
    fn sync_written(&self, read: &[(Written, Page)]) -> Result<Goes> {
        // One that was written several times is copied once.
        type Of<'r> = BTreeMap<(u32, Kind), BTreeSet<&'r Slice>>;
        let mut buckets: BTreeMap<u32, Of<'_>> = BTreeMap::new();
        for (written, page) in read {
            for row in &page.rows {
                let of = buckets.entry(self.to.buckets.bucket_of(&row.key)).or_default();
                of.entry((written.bucket, written.kind)).or_default().insert(&row.key);
            }
        }
        let has_ended = AtomicBool::new(false);
        side_by_side(buckets.into_iter().collect(), |(bucket, of): (u32, Of<'_>)| {
            for ((from, kind), keys) in of {
                let keys: Vec<&Slice> = keys.into_iter().collect();
                if self.sync_bucket(self.from.partition(from), bucket, kind, &keys)? == Goes::NotOn
                {
                    has_ended.store(true, Ordering::Relaxed);
                    break;
                }
            }
            Ok(())
        })?;
        Ok(if has_ended.into_inner() { Goes::NotOn } else { Goes::On })
    }

    /// Removes what says that rows were written under these epochs. Nothing is written under them
    /// any more, and nobody needs it.
    pub(super) fn forget(&self, epochs: Range<i32>) -> Result<()> {
        side_by_side(self.from.partitions().collect(), |from| {
            let kinds = epochs.clone().flat_map(|epoch| KINDS.map(|kind| kind.changed(epoch)));
            kinds.into_iter().try_for_each(|kind| {
                let is_empty = self.keys(from, kind, &KeyRange::ALL, None, 1)?.rows.is_empty();
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

    /// Reads the next keys of a range behind `last`.
    pub(super) fn keys(
        &self,
        partition: Partition,
        kind: Kind,
        range: &KeyRange,
        last: Option<&Slice>,
        limit: usize,
    ) -> Result<Page> {
        interrupt::check()?;
        let start = last.map_or_else(|| range.start.clone(), |at| Bound::Excluded(at.to_vec()));
        let range = KeyRange { start, end: range.end.clone() };
        let (is_reversed, keys_only) = (false, true);
        let request = PageRequest { partition, kind, range, is_reversed, limit, keys_only };
        let mut page = self.ground.store.pages(&[request]).pop().ok_or_else(no_answer)??;
        page.is_last |= page.rows.is_empty();
        Ok(page)
    }

    /// Brings rows of the new generation into agreement with those of an old bucket.
    pub(super) fn sync_all(&self, from: Partition, kind: Kind, keys: &[Slice]) -> Result<Goes> {
        let mut buckets: BTreeMap<u32, Vec<&Slice>> = BTreeMap::new();
        for key in keys {
            buckets.entry(self.to.buckets.bucket_of(key)).or_default().push(key);
        }
        let has_ended = AtomicBool::new(false);
        let sync = |(bucket, keys): (u32, Vec<&Slice>)| -> Result<()> {
            if self.sync_bucket(from, bucket, kind, &keys)? == Goes::NotOn {
                has_ended.store(true, Ordering::Relaxed);
            }
            Ok(())
        };
        if self.from.buckets.are_ranges() && !self.to.buckets.are_ranges() {
            // No other part is copied meanwhile.
            side_by_side(buckets.into_iter().collect(), sync)?;
        } else {
            buckets.into_iter().try_for_each(sync)?;
        }
        Ok(if has_ended.into_inner() { Goes::NotOn } else { Goes::On })
    }

    /// As [`Copy::sync_all`], of rows for one new bucket.
    fn sync_bucket(
        &self,
        from: Partition,
        bucket: u32,
        kind: Kind,
        keys: &[&Slice],
    ) -> Result<Goes> {
        let (to, mut left) = (self.to.partition(bucket), keys);
        let mut backoff = Backoff::of(TRIES);
        while !left.is_empty() {
            let most = self.ground.sizes.fitting(READ_BYTES).min(ROWS);
            match self.sync(from, to, kind, &left[..left.len().min(most)])? {
                Attempt::Done(count) => {
                    left = &left[count..];
                    backoff = Backoff::of(TRIES);
                }
                Attempt::Again if backoff.again() => {}
                Attempt::Again => return Err(self.disturbed(to)),
                Attempt::NotOn => return Ok(Goes::NotOn),
            }
        }
        Ok(Goes::On)
    }

    /// As [`Copy::sync_bucket`], of the first of these rows, by one batch.
    fn sync(&self, from: Partition, to: Partition, kind: Kind, keys: &[&Slice]) -> Result<Attempt> {
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
                bytes += entries.add(key, there.as_ref(), here.as_ref())?;
            }
            bytes += here.as_ref().map_or(0, |row| row.value.len());
            batch.changes.push(match here {
                Some(row) => Change::Set { kind, row },
                None => Change::Delete(row_key(key)),
            });
            if bytes >= BATCH_BYTES || entries.count() >= STATEMENTS_FULL {
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
    pub(super) fn rows(&self, partition: Partition, keys: Vec<RowKey>) -> Result<Rows> {
        let request = RowsRequest { partition, keys, freshness: Freshness::Serial };
        self.ground.store.rows(&[request]).pop().ok_or_else(no_answer)?
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
pub(super) fn row_of(key: Slice, value: Slice) -> StoredRow {
    StoredRow { key, value, token: None, expiry: None }
}
