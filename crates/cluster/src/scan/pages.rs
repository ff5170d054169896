//! The pages of the buckets of a range.
//!
//! A scan is of no one moment. But it must not go on in rows that a dropped index or a replaced
//! generation has left: pages tell the epochs of their buckets, and one that the scan does not
//! know, or that is not told, makes it look at the catalog, before any row of the page is used. The
//! epoch rises before rows are removed, and the catalog before the epoch.
//!
//! A generation with another number of buckets is read behind the rows that were read of the old
//! one: in an order, behind the last one; else behind those of each old bucket.

use crate::ground::{Ground, View, no_answer, pass_fence, place};
use crate::store::{Freshness, Kind, PageRequest, StoredRow};
use flagstone::remote::{Area, Shard, shown_key};
use flagstone_base::hash::key_hash;
use flagstone_base::{Error, KeyRange, Result, Slice, interrupt};
use std::collections::VecDeque;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The rows of the first page, if it is not known how many are wanted.
const FIRST_ROWS: usize = 100;
/// The most rows of a page.
const ROWS_MAX: usize = 5_000;
/// The bytes that the pages of one reading have, about.
const BYTES: usize = 8 << 20;

/// What is scanned.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) area: Area,
    pub(super) range: KeyRange,
    /// Whether the rows of all buckets are merged in the order of their keys.
    pub(super) is_ordered: bool,
    pub(super) is_reversed: bool,
    pub(super) keys_only: bool,
    /// The rows of the first page, if known.
    pub(super) first: Option<usize>,
}

/// The rows of a range that were read ahead, by buckets.
pub(super) struct Pages {
    pub(super) ground: Arc<Ground>,
    pub(super) request: Request,
    pub(super) buckets: Vec<Bucket>,
    view: Arc<View>,
    /// How many rows the next pages have.
    limit: usize,
    /// In an order, the key of the last row that the scan has returned.
    pub(super) returned: Option<Slice>,
    /// Without an order, where old buckets have ended of which several are one now.
    passed: Vec<Vec<Bucket>>,
    /// Whether there are other buckets than the scan knows.
    are_others: bool,
    /// Only buckets are read that documents of this shard can be in.
    shard: Option<Shard>,
}

#[derive(Default)]
pub(super) struct Bucket {
    pub(super) rows: VecDeque<StoredRow>,
    /// Whether no rows come after these.
    pub(super) is_done: bool,
    /// The last key that was read.
    last: Option<Slice>,
}

/// Returns the kind of the rows of an area.
pub(super) fn kind_of(area: Area) -> Kind {
    match area {
        Area::Documents => Kind::DOCUMENTS,
        Area::Index(index) => Kind(index as i32),
    }
}

impl Pages {
    /// Returns the pages of a range, of which none is read yet.
    ///
    /// # Errors
    /// InvalidInput for an index that is not there, or a collection that was dropped.
    pub(super) fn new(ground: &Arc<Ground>, request: Request) -> Result<Self> {
        let mut view = ground.view();
        if !has(&view, request.area) {
            view = ground.reload(Freshness::Settled)?;
            check(ground, &view, request.area)?;
        }
        let is_done = request.range.is_empty();
        let bucket = |_| Bucket { is_done, ..Bucket::default() };
        let buckets = (0..view.note.rows.buckets).map(bucket).collect();
        let limit = request.first.unwrap_or(FIRST_ROWS).clamp(1, ROWS_MAX);
        let (ground, returned, passed) = (Arc::clone(ground), None, Vec::new());
        let (are_others, shard) = (false, None);
        Ok(Self { ground, request, buckets, view, limit, returned, passed, are_others, shard })
    }

    /// Returns, once, whether there are other buckets since the last reading. Then it has read
    /// nothing.
    pub(super) const fn are_others(&mut self) -> bool {
        std::mem::replace(&mut self.are_others, false)
    }

    /// As [`Pages::read_some`], of all buckets.
    pub(super) fn read_all(&mut self, wants: impl Fn(&Bucket) -> bool) -> Result<()> {
        self.read_some(0..self.buckets.len(), wants)
    }

    /// Reads none of the buckets that no document of the shard is in.
    pub(super) fn of_shard(&mut self, shard: Option<Shard>) {
        self.shard = shard;
        self.leave_to_others();
    }

    fn leave_to_others(&mut self) {
        let Some(shard) = self.shard else { return };
        let all = self.buckets.len() as u32;
        for (number, bucket) in (0..).zip(&mut self.buckets) {
            bucket.is_done |= !shard.may_be_in(number, all);
        }
    }

    /// Reads the next page of the buckets of a range of them that have more, and that `wants`
    /// chooses.
    pub(super) fn read_some(
        &mut self,
        range: Range<usize>,
        wants: impl Fn(&Bucket) -> bool,
    ) -> Result<()> {
        let wants = |at: &usize| !self.buckets[*at].is_done && wants(&self.buckets[*at]);
        let wanted: Vec<usize> = range.filter(wants).collect();
        if wanted.is_empty() { Ok(()) } else { self.read(&wanted) }
    }

    /// Reads the next page of each of these buckets.
    pub(super) fn read(&mut self, wanted: &[usize]) -> Result<()> {
        let has_documents = self.request.area == Area::Documents && !self.request.keys_only;
        if has_documents {
            // Those of another scan may have been longer.
            let fitting = self.ground.sizes.fitting(BYTES) / wanted.len().max(1);
            self.limit = self.limit.min(fitting.max(1));
        }
        loop {
            interrupt::check()?;
            let requests: Vec<_> = wanted.iter().map(|bucket| self.request_of(*bucket)).collect();
            let answers = self.ground.store.pages(&requests);
            let mut pages = answers.into_iter().collect::<Result<Vec<_>>>()?;
            if pages.len() != wanted.len() {
                return Err(no_answer());
            }
            let known = Some(self.view.note.epoch);
            let fenced = pages.iter().any(|page| page.epoch.is_some_and(|epoch| epoch < 0));
            // An epoch that lags behind is not yet raised: its rows are all there.
            if fenced || pages.iter().any(|page| page.epoch.is_none() || page.epoch > known) {
                let generation = self.view.note.rows;
                self.look(fenced)?;
                if self.view.note.rows.buckets != generation.buckets {
                    self.divide();
                    return Ok(());
                }
                if self.view.note.rows != generation {
                    continue;
                }
            }
            if has_documents {
                self.ground.sizes.note(pages.iter().flat_map(|page| &page.rows));
            }
            let (mut rows, mut bytes) = (1, 0);
            for (bucket, page) in wanted.iter().zip(&mut pages) {
                let bucket = &mut self.buckets[*bucket];
                rows += page.rows.len();
                bytes += page.rows.iter().map(|row| row.key.len() + row.value.len()).sum::<usize>();
                bucket.is_done = page.is_last || page.rows.is_empty();
                bucket.last = page.rows.last().map(|row| row.key.clone()).or(bucket.last.take());
                for row in page.rows.drain(..) {
                    if self.passed.is_empty()
                        || !has_passed(&self.view, &self.request, &self.passed, &row)?
                    {
                        bucket.rows.push_back(row);
                    }
                }
            }
            let fitting = BYTES / wanted.len().max(1) / (bytes / rows + 64);
            self.limit = (2 * self.limit).min(fitting.clamp(1, ROWS_MAX));
            return Ok(());
        }
    }

    /// Returns the number of rows of the last pages, about.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    fn request_of(&self, bucket: usize) -> PageRequest {
        let Request { area, range, is_reversed, keys_only, .. } = &self.request;
        let mut range = range.clone();
        if let Some(last) = &self.buckets[bucket].last {
            let side = if *is_reversed { &mut range.end } else { &mut range.start };
            *side = Bound::Excluded(last.to_vec());
        }
        PageRequest {
            partition: self.view.partition(bucket as u32),
            kind: kind_of(*area),
            range,
            is_reversed: *is_reversed,
            limit: self.limit,
            keys_only: *keys_only,
        }
    }

    /// Goes on in a generation with another number of buckets.
    fn divide(&mut self) {
        self.are_others = true;
        let now = self.view.note.rows.buckets as usize;
        let mut before = std::mem::take(&mut self.buckets);
        if self.request.is_ordered {
            let last = self.returned.clone();
            self.buckets.resize_with(now, || Bucket { last: last.clone(), ..Bucket::default() });
            self.leave_to_others();
            return;
        }
        // An old bucket has the rows of the new ones whose numbers have the same remainder.
        let few = before.len().min(now);
        for at in 0..now {
            let parents = || before.iter().skip(at % few).step_by(few);
            let left = || parents().filter(|parent| !parent.is_done);
            let last = left().map(|parent| parent.last.clone()).min().flatten();
            let is_done = left().next().is_none();
            self.buckets.push(Bucket { last, is_done, ..Bucket::default() });
        }
        for (at, bucket) in before.iter_mut().enumerate() {
            self.buckets[at % now].rows.append(&mut bucket.rows);
        }
        if now < before.len() {
            self.passed.push(before);
        }
        self.leave_to_others();
    }

    /// Looks at the catalog. The scan goes on in a new generation behind the rows it has read.
    fn look(&mut self, is_fenced: bool) -> Result<()> {
        self.view = if is_fenced {
            pass_fence(&self.ground, self.view.note.rows.number)?
        } else {
            self.ground.reload(Freshness::Settled)?
        };
        check(&self.ground, &self.view, self.request.area)
    }

    /// Returns the error of a row of a bucket with its place.
    pub(super) fn error_of(&self, bucket: usize, key: &[u8], error: Error) -> Error {
        let place = place(&self.ground.name, self.view.partition(bucket as u32));
        error.context(format!("{place}, document of key {}", shown_key(key)))
    }
}

/// Returns whether a row is one that was read of an old bucket.
fn has_passed(
    view: &View,
    request: &Request,
    passed: &[Vec<Bucket>],
    row: &StoredRow,
) -> Result<bool> {
    let of_entry;
    let key = match request.area {
        Area::Documents => &row.key[..],
        Area::Index(id) => {
            let Some(index) = view.catalog.indexes().iter().find(|index| index.id == id) else {
                return Ok(false);
            };
            of_entry = index.primary_key((&row.key, &row.value))?;
            &of_entry[..]
        }
    };
    Ok(passed.iter().any(|buckets| {
        let bucket = &buckets[key_hash(key, 0) as usize % buckets.len()];
        bucket.is_done || bucket.last.as_ref().is_some_and(|last| row.key <= *last)
    }))
}

fn has(view: &View, area: Area) -> bool {
    match area {
        Area::Documents => true,
        Area::Index(index) => view.has_index(index),
    }
}

fn check(ground: &Ground, view: &View, area: Area) -> Result<()> {
    if has(view, area) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "an index of collection {:?} was dropped while it was read: run the query again",
        ground.name
    )))
}
