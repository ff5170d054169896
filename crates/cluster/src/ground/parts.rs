//! The parts in which rows are copied into another generation.
//!
//! Copies into one new bucket that are under way at the same time are in the way of each other. So
//! a process copies such parts side by side that have no new bucket in common: into ranges of keys,
//! all rows of a new bucket are a part, else those of an old one.

use super::copy::{Copy, Goes, PAGE, row_of};
use crate::catalog::Buckets;
use crate::store::{Batch, Change, Kind, Outcome, Partition, RowKey};
use flagstone_base::codec::put_varint;
use flagstone_base::{Decoder, ErrorKind, KeyRange, Result, Slice};
use std::ops::Range;

/// The most keys of a page, where they come into many buckets.
const PAGE_MAX: usize = 5_000;
/// The progress of a part is noted each time this many documents are copied.
const NOTED: u64 = 2_000;
/// The first bytes of the key of the row that says how far a part is copied.
const PROGRESS: &[u8] = b"progress";

/// Rows that are copied one page after another.
pub(super) struct Part {
    /// Of its new bucket if that has ranges of keys, else of its old one.
    number: u32,
    /// The old buckets of which rows are left, one after another.
    from: Range<u32>,
    /// The keys of its rows.
    keys: KeyRange,
    /// The last document of the first of these buckets that is copied.
    last: Option<Slice>,
    /// Whether it is known how far an earlier call has come.
    is_begun: bool,
    pub(super) is_done: bool,
    pub(super) documents: u64,
    /// How many of them were copied when it was noted how far it is.
    noted: u64,
}

impl Copy<'_> {
    /// The parts, of which none is copied yet.
    pub(super) fn parts(&self) -> Vec<Part> {
        let by_ranges = self.to.buckets.are_ranges();
        let count = if by_ranges { self.to.buckets.count() } else { self.from.buckets.count() };
        let part = |number| {
            let (from, keys) = if by_ranges {
                let keys = self.to.buckets.range_of(number);
                (self.from.buckets.meeting(&keys), keys)
            } else {
                (number..number + 1, KeyRange::ALL)
            };
            let (last, is_begun, is_done, documents, noted) = (None, false, false, 0, 0);
            Part { number, from, keys, last, is_begun, is_done, documents, noted }
        };
        (0..count).map(part).collect()
    }

    /// Returns whether two parts have rows for one new bucket.
    pub(super) fn share(&self, a: &Part, b: &Part) -> bool {
        match (&self.from.buckets, &self.to.buckets) {
            (_, Buckets::Ranges(_)) => false,
            (Buckets::Ranges(_), Buckets::Hash(_)) => true,
            // The old buckets whose numbers have the same remainder by the smaller number have the
            // rows of the new buckets whose numbers have it.
            (Buckets::Hash(old), Buckets::Hash(new)) => {
                let families = (*old).min(*new);
                a.number % families == b.number % families
            }
        }
    }

    /// Copies the next page of a part. The documents that an earlier call has copied are passed.
    pub(super) fn page(&self, part: &mut Part) -> Result<Goes> {
        if !part.is_begun {
            self.find_progress(part)?;
            part.is_begun = true;
        }
        let from = self.from.partition(part.from.start);
        // The rows of a page come into so many buckets.
        let growth = match (&self.from.buckets, &self.to.buckets) {
            (_, Buckets::Ranges(_)) => 1,
            (Buckets::Ranges(_), Buckets::Hash(new)) => *new,
            (Buckets::Hash(old), Buckets::Hash(new)) => new.div_ceil(*old),
        };
        let limit = (PAGE * growth as usize).min(PAGE_MAX);
        let kind = Kind::DOCUMENTS;
        let page = self.keys(from, kind, &part.keys, part.last.as_ref(), limit)?;
        let keys: Vec<Slice> = page.rows.into_iter().map(|row| row.key).collect();
        if self.sync_all(from, kind, &keys)? == Goes::NotOn {
            return Ok(Goes::NotOn);
        }
        part.documents += keys.len() as u64;
        part.last = keys.into_iter().next_back().or(part.last.take());
        if page.is_last {
            if self.marks(from, &part.keys)? == Goes::NotOn {
                return Ok(Goes::NotOn);
            }
            (part.from.start, part.last) = (part.from.start + 1, None);
            part.is_done = part.from.is_empty();
        }
        if part.is_done || part.documents - part.noted < NOTED {
            return Ok(Goes::On);
        }
        part.noted = part.documents;
        self.note_progress(part)
    }

    /// Copies the marks of loads of an old bucket.
    fn marks(&self, from: Partition, keys: &KeyRange) -> Result<Goes> {
        let (kind, mut last) = (Kind::LOADS, None);
        loop {
            let page = self.keys(from, kind, keys, last.as_ref(), PAGE)?;
            let keys: Vec<Slice> = page.rows.into_iter().map(|row| row.key).collect();
            if self.sync_all(from, kind, &keys)? == Goes::NotOn {
                return Ok(Goes::NotOn);
            }
            if page.is_last {
                return Ok(Goes::On);
            }
            last = keys.into_iter().next_back();
        }
    }

    /// Where it is noted how far a part is copied: in one of the new buckets.
    fn progress_of(&self, part: &Part) -> (Partition, Slice) {
        let mut key = PROGRESS.to_vec();
        put_varint(&mut key, part.number.into());
        (self.to.partition(part.number % self.to.buckets.count()), key.into())
    }

    /// Finds up to which document an earlier call has copied a part.
    fn find_progress(&self, part: &mut Part) -> Result<()> {
        let (partition, key) = self.progress_of(part);
        let row = self.rows(partition, vec![RowKey { kind: Kind::COPIES, key }])?.rows.pop();
        let Some(row) = row.flatten() else { return Ok(()) };
        let mut decoder = Decoder::new(&row.value);
        if let Ok(bucket) = decoder.varint_u32("a bucket")
            && part.from.contains(&bucket)
        {
            let last = decoder.rest();
            part.from.start = bucket;
            part.last = (!last.is_empty()).then(|| Slice::copy_of(last));
        }
        Ok(())
    }

    /// Notes how far a part is copied. If it is not noted, or late, more is compared again.
    fn note_progress(&self, part: &Part) -> Result<Goes> {
        let (partition, key) = self.progress_of(part);
        let mut value = Vec::new();
        put_varint(&mut value, part.from.start.into());
        value.extend_from_slice(part.last.as_deref().unwrap_or_default());
        let changes = vec![Change::Set { kind: Kind::COPIES, row: row_of(key, value.into()) }];
        let (epoch, conditions) = (self.epoch, Vec::new());
        match self.ground.store.batch(&Batch { partition, epoch, conditions, changes }) {
            Err(error) if error.kind() != ErrorKind::Unknown => Err(error),
            Ok(Outcome::Refused) => Ok(Goes::NotOn),
            _ => Ok(Goes::On),
        }
    }
}
