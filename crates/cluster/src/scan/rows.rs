//! The rows of a range, one after another.

use super::pages::{First, Pages, Request};
use crate::form::{is_nothing, unpacked};
use crate::ground::Ground;
use crate::premise::Premise;
use crate::store::StoredRow;
use flagstone::remote::{Area, RemoteScan, ScanOrder, Shard};
use flagstone_base::{KeyRange, Moment, Result, Slice};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// How many buckets a scan without an order reads at once.
const WINDOW: usize = 4;
/// How many ranges a scan in order reads at once, at most, while it finds none but empty ones.
const EMPTY_WINDOW: usize = 16;

/// A scan of a range.
pub(crate) struct Scan {
    pages: Pages,
    next: Next,
    now: Moment,
    key: Slice,
    value: Slice,
    expiry: Option<Moment>,
}

/// Where the next row is.
enum Next {
    /// The first rows of the buckets, in their order. One whose rows are used up is not in it.
    Merged(BinaryHeap<Head>),
    /// This bucket's, and then those of the buckets that come behind it in the scan. Without an
    /// order, [`WINDOW`] of them are read at once.
    Bucket(usize),
}

/// What became of a look for the next row.
enum NextRow {
    /// It is of this bucket.
    Row(usize, StoredRow),
    End,
    /// There are other buckets now.
    Others,
}

/// The first row of a bucket.
struct Head {
    row: StoredRow,
    bucket: usize,
    is_reversed: bool,
}

impl Ord for Head {
    /// The row that comes first is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        let order = other.row.key.cmp(&self.row.key);
        if self.is_reversed { order.reverse() } else { order }
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl Scan {
    /// Returns a scan of a range, of which `most` rows will be taken, if that is known.
    ///
    /// # Errors
    /// InvalidInput for an index that is not there, or a collection that was dropped.
    pub(crate) fn new(
        ground: &Arc<Ground>,
        area: Area,
        range: &KeyRange,
        order: ScanOrder,
        most: Option<u64>,
        keys_only: bool,
    ) -> Result<Self> {
        let is_reversed = order == ScanOrder::Descending;
        let (range, is_ordered) = (range.clone(), order != ScanOrder::Any);
        let first = First::Of(most);
        let request = Request { area, range, is_ordered, is_reversed, keys_only, first };
        let (pages, now) = (Pages::new(ground, request)?, ground.now());
        let next = Next::of(&pages);
        Ok(Self { pages, next, now, key: Slice::EMPTY, value: Slice::EMPTY, expiry: None })
    }

    /// Leaves out the buckets that no document of the shard is in.
    pub(crate) fn of_shard(mut self, shard: Option<Shard>) -> Self {
        self.pages.of_shard(shard);
        self
    }

    /// Lets the first pages rest on what the plan of the query rests on.
    pub(crate) fn resting_on(mut self, premise: Option<Arc<Premise>>) -> Self {
        self.pages.premise = premise;
        self
    }

    fn next_row(&mut self) -> Result<Option<(usize, StoredRow)>> {
        loop {
            let found = match self.next {
                Next::Merged(_) => self.next_merged()?,
                Next::Bucket(at) => self.next_in_turn(at)?,
            };
            match found {
                NextRow::Row(bucket, row) => return Ok(Some((bucket, row))),
                NextRow::End => return Ok(None),
                NextRow::Others => self.next = Next::of(&self.pages),
            }
        }
    }

    fn next_merged(&mut self) -> Result<NextRow> {
        let Next::Merged(heads) = &mut self.next else { return Ok(NextRow::Others) };
        let is_reversed = self.pages.request.is_reversed;
        if heads.is_empty() {
            // The first call, or the end.
            self.pages.read_all(|bucket| bucket.rows.is_empty())?;
            if self.pages.are_others() {
                return Ok(NextRow::Others);
            }
            for (bucket, of) in self.pages.buckets.iter_mut().enumerate() {
                heads.extend(of.rows.pop_front().map(|row| Head { row, bucket, is_reversed }));
            }
        }
        let Some(Head { row, bucket, .. }) = heads.pop() else { return Ok(NextRow::End) };
        // A unique entry of an expired document may hide one that is behind a switch.
        if row.expiry.is_none_or(|at| at > self.now) {
            self.pages.returned = Some(row.key.clone());
        }
        if self.pages.buckets[bucket].rows.is_empty() {
            // Others will soon be used up, too.
            let few = self.pages.limit() / 8;
            if !self.pages.buckets[bucket].is_done {
                self.pages.read_all(|bucket| bucket.rows.len() <= few)?;
            }
            if self.pages.are_others() {
                self.next = Next::of(&self.pages);
                return Ok(NextRow::Row(bucket, row));
            }
        }
        let next = self.pages.buckets[bucket].rows.pop_front();
        heads.extend(next.map(|row| Head { row, bucket, is_reversed }));
        Ok(NextRow::Row(bucket, row))
    }

    /// Returns the next row of the bucket `at`, or of those behind it.
    fn next_in_turn(&mut self, mut at: usize) -> Result<NextRow> {
        let Request { is_ordered, is_reversed, .. } = self.pages.request;
        let all = self.pages.buckets.len();
        let mut window = if is_ordered { 1 } else { WINDOW };
        while at < all {
            self.next = Next::Bucket(at);
            let number = if is_reversed { all - 1 - at } else { at };
            let bucket = &mut self.pages.buckets[number];
            if let Some(row) = bucket.rows.pop_front() {
                if is_ordered {
                    self.pages.returned = Some(row.key.clone());
                }
                return Ok(NextRow::Row(number, row));
            }
            if bucket.is_done {
                at += 1;
                continue;
            }
            let behind = if is_reversed {
                (number + 1).saturating_sub(window)..number + 1
            } else {
                number..(number + window).min(all)
            };
            self.pages.read_some(behind, |bucket| bucket.rows.is_empty())?;
            if self.pages.are_others() {
                return Ok(NextRow::Others);
            }
            if is_ordered {
                // Ranges whose keys were all removed may be many.
                window = (2 * window).min(EMPTY_WINDOW);
            }
        }
        Ok(NextRow::End)
    }
}

impl Next {
    /// Where a scan begins, or goes on behind the last row that it has returned.
    fn of(pages: &Pages) -> Self {
        if pages.request.is_ordered && !pages.are_in_order() {
            Self::Merged(BinaryHeap::new())
        } else {
            Self::Bucket(0)
        }
    }
}

impl RemoteScan for Scan {
    fn advance(&mut self) -> Result<bool> {
        while let Some((bucket, row)) = self.next_row()? {
            if row.expiry.is_some_and(|at| at <= self.now) {
                continue;
            }
            let has_documents = self.pages.request.area == Area::Documents;
            if has_documents && is_nothing(&row.value) {
                continue;
            }
            self.value = match self.pages.request.area {
                Area::Documents if !self.pages.request.keys_only => unpacked(&row.value)
                    .map_err(|error| self.pages.error_of(bucket, &row.key, error))?,
                _ => row.value,
            };
            (self.key, self.expiry) = (row.key, row.expiry);
            return Ok(true);
        }
        Ok(false)
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn value(&self) -> &Slice {
        &self.value
    }

    fn expiry(&self) -> Option<Moment> {
        self.expiry
    }
}
