//! The pages of the buckets of a range.
//!
//! A scan is of no one moment. But it must not go on in rows that a dropped index or a replaced
//! generation has left: pages tell the epochs of their buckets, and one that the scan does not
//! know, or that is not told, makes it look at the catalog, before any row of the page is used. The
//! epoch rises before rows are removed, and the catalog before the epoch.

use crate::ground::{Ground, View, no_answer, pass_fence, place};
use crate::store::{Freshness, Kind, PageRequest, StoredRow};
use flagstone::remote::{Area, shown_key};
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
        Ok(Self { ground: Arc::clone(ground), request, buckets, view, limit })
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
                bucket.rows.extend(page.rows.drain(..));
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
