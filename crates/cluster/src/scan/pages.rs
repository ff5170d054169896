//! The pages of the buckets of a range.
//!
//! A scan is of no one moment. But it must not go on in rows that a dropped index or a replaced
//! generation has left: pages tell the epochs of their buckets, and one that the scan does not
//! know, or that is not told, makes it look at the catalog, before any row of the page is used. The
//! epoch rises before rows are removed, and the catalog before the epoch. The first pages of a
//! query are an exception: the query checks the catalog after it has read them (module `premise`).
//!
//! A generation with another layout is read behind the rows that were read of the old one: in an
//! order, behind the last one; else behind those of each old bucket.

use crate::catalog::Buckets;
use crate::ground::{Ground, View, no_answer, pass_fence, place};
use crate::premise::Premise;
use crate::store::{Freshness, Kind, Page, PageRequest, StoredRow};
use flagstone::remote::{Area, Shard, shown_key};
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
    /// Whether the rows come in the order of their keys.
    pub(super) is_ordered: bool,
    pub(super) is_reversed: bool,
    pub(super) keys_only: bool,
    /// The rows of the first page, if known.
    pub(super) first: First,
}

/// The rows of the first page of each bucket.
#[derive(Clone, Copy)]
pub(super) enum First {
    Rows(usize),
    /// So many will be taken in all, if that is known.
    Of(Option<u64>),
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
    /// Without an order, where old buckets have ended whose rows may be read again.
    passed: Vec<Passed>,
    /// Whether there are other buckets than the scan knows.
    are_others: bool,
    /// Only buckets are read that documents of this shard can be in.
    shard: Option<Shard>,
    /// Instead of the catalog, for the first pages.
    pub(super) premise: Option<Arc<Premise>>,
}

/// Buckets of which a scan has read some.
struct Passed {
    of: Buckets,
    buckets: Vec<Bucket>,
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
        let (ground, returned, passed) = (Arc::clone(ground), None, Vec::new());
        let (are_others, shard, premise, limit, buckets) = (false, None, None, 1, Vec::new());
        let mut pages = Self {
            ground,
            request,
            buckets,
            view,
            limit,
            returned,
            passed,
            are_others,
            shard,
            premise,
        };
        pages.buckets.resize_with(pages.of().count() as usize, Bucket::default);
        pages.leave_out();
        pages.limit = pages.first().clamp(1, ROWS_MAX);
        Ok(pages)
    }

    fn of(&self) -> &Buckets {
        &self.view.note.rows.buckets
    }

    /// Returns whether the rows of each bucket come before those of the next one, in the order of
    /// the scan or in the reverse.
    pub(super) fn are_in_order(&self) -> bool {
        self.request.area == Area::Documents && self.of().are_ranges()
    }

    fn first(&self) -> usize {
        let most = match self.request.first {
            First::Rows(rows) => return rows,
            First::Of(None) => return FIRST_ROWS,
            First::Of(Some(most)) => most,
        };
        let is_merged = self.request.is_ordered && !self.are_in_order();
        // Twice the share of a bucket is seldom too little.
        let share = |most: u64| most.saturating_mul(2) / u64::from(self.of().count()) + 6;
        usize::try_from(if is_merged { share(most) } else { most }).unwrap_or(usize::MAX)
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
        self.leave_out();
    }

    /// Leaves out the buckets that none of the rows is in.
    fn leave_out(&mut self) {
        let (of, left) = (self.of(), self.behind(self.returned.as_ref()));
        let met = match self.request.area {
            _ if left.is_empty() => 0..0,
            Area::Documents => of.meeting(&left),
            Area::Index(_) => 0..of.count(),
        };
        let shard = match of {
            Buckets::Hash(all) => self.shard.map(|shard| (shard, *all)),
            // The keys of a range are in all shards.
            Buckets::Ranges(_) => None,
        };
        for (number, bucket) in (0..).zip(&mut self.buckets) {
            let is_of = shard.is_none_or(|(shard, all)| shard.may_be_in(number, all));
            bucket.is_done |= !is_of || !met.contains(&number);
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
            if let Some(premise) = &self.premise {
                premise.before_pages()?;
            }
            let requests: Vec<_> = wanted.iter().map(|bucket| self.request_of(*bucket)).collect();
            let answers = self.ground.store.pages(&requests);
            let mut pages = answers.into_iter().collect::<Result<Vec<_>>>()?;
            if pages.len() != wanted.len() {
                return Err(no_answer());
            }
            let known = Some(self.view.note.epoch);
            let fenced = pages.iter().any(|page| page.epoch.is_some_and(|epoch| epoch < 0));
            let is_covered = self.premise.as_ref().is_some_and(|premise| premise.covers_pages());
            let is_unsure = |page: &Page| page.epoch.is_none() && !is_covered;
            // An epoch that lags behind is not yet raised: its rows are all there.
            if fenced || pages.iter().any(|page| page.epoch > known || is_unsure(page)) {
                let before = Arc::clone(&self.view);
                self.look(fenced)?;
                if let Some(premise) = &self.premise {
                    premise.check(&self.view)?;
                }
                let (before, now) = (&before.note.rows, &self.view.note.rows);
                if now.buckets != before.buckets {
                    self.divide(&before.buckets);
                    return Ok(());
                }
                if now.number != before.number {
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
            if rows > 1 {
                let fitting = BYTES / wanted.len().max(1) / (bytes / rows + 64);
                self.limit = (2 * self.limit).min(fitting.clamp(1, ROWS_MAX));
            }
            return Ok(());
        }
    }

    /// Returns the number of rows of the last pages, about.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    fn request_of(&self, bucket: usize) -> PageRequest {
        let Request { area, is_reversed, keys_only, .. } = self.request;
        PageRequest {
            partition: self.view.partition(bucket as u32),
            kind: kind_of(area),
            range: self.behind(self.buckets[bucket].last.as_ref()),
            is_reversed,
            limit: self.limit,
            keys_only,
        }
    }

    /// Returns the part of the range behind a key.
    fn behind(&self, last: Option<&Slice>) -> KeyRange {
        let mut range = self.request.range.clone();
        if let Some(last) = last {
            let is_reversed = self.request.is_reversed;
            let side = if is_reversed { &mut range.end } else { &mut range.start };
            *side = Bound::Excluded(last.to_vec());
        }
        range
    }

    /// Goes on in a generation with another layout than `old`.
    fn divide(&mut self, old: &Buckets) {
        self.are_others = true;
        let (view, mut before) = (Arc::clone(&self.view), std::mem::take(&mut self.buckets));
        let new = &view.note.rows.buckets;
        // As many rows of all buckets together as before.
        let share = self.limit as u64 * u64::from(old.count()) / u64::from(new.count());
        self.limit = usize::try_from(share).unwrap_or(ROWS_MAX).clamp(1, ROWS_MAX);
        if self.request.is_ordered {
            let last = self.returned.clone();
            let bucket = || Bucket { last: last.clone(), ..Bucket::default() };
            self.buckets.resize_with(new.count() as usize, bucket);
        } else {
            let is_sorted = self.request.area == Area::Documents && old.are_ranges();
            for number in 0..new.count() {
                let parents = parents(old, &before, new, number);
                self.buckets.push(begun(&parents, is_sorted));
            }
            let now = self.buckets.len();
            for (at, bucket) in before.iter_mut().enumerate() {
                self.buckets[at % now].rows.append(&mut bucket.rows);
            }
            let are_by_hash = !old.are_ranges() && !new.are_ranges();
            // Then each new bucket begins where its only parent has ended.
            if !are_by_hash || new.count() < old.count() {
                self.passed.push(Passed { of: old.clone(), buckets: before });
            }
        }
        self.leave_out();
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

/// Returns the old buckets that can have had rows of a new one.
fn parents<'b>(old: &Buckets, before: &'b [Bucket], new: &Buckets, number: u32) -> Vec<&'b Bucket> {
    let (first, step, end) = match (old, new) {
        // The numbers of both have the same remainder.
        (Buckets::Hash(old), Buckets::Hash(new)) => {
            let few = (*old).min(*new);
            (number % few, few, *old)
        }
        (Buckets::Ranges(_), Buckets::Ranges(_)) => {
            let met = old.meeting(&new.range_of(number));
            (met.start, 1, met.end)
        }
        _ => (0, 1, old.count()),
    };
    before[..end as usize].iter().skip(first as usize).step_by(step as usize).collect()
}

/// Returns a new bucket that begins where none of the rows before it is missed: what was read of
/// it is left out later. `is_sorted` if the rows of each parent come before those of the next one.
fn begun(parents: &[&Bucket], is_sorted: bool) -> Bucket {
    let is_done = parents.iter().all(|parent| parent.is_done);
    let last = if is_sorted {
        // Up to the first one that is not read to its end.
        let end = parents.iter().position(|parent| !parent.is_done).unwrap_or(parents.len());
        parents.iter().take(end + 1).rev().find_map(|parent| parent.last.clone())
    } else {
        let left = parents.iter().filter(|parent| !parent.is_done);
        left.map(|parent| parent.last.clone()).min().flatten()
    };
    Bucket { last, is_done, ..Bucket::default() }
}

/// Returns whether a row is one that was read of an old bucket.
fn has_passed(view: &View, request: &Request, passed: &[Passed], row: &StoredRow) -> Result<bool> {
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
    Ok(passed.iter().any(|Passed { of, buckets }| {
        let bucket = &buckets[of.bucket_of(key) as usize];
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
