//! Spans of keys: from a key up to a bound, as tables have them.

use super::handle::TableHandle;
use super::run::Run;
pub(crate) use crate::bounds::ends_before;
use flagstone_base::KeyRange;
use flagstone_sst::TableMeta;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The keys from `lower` up to `upper`.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Bound<Vec<u8>>,
}

impl Span {
    pub(crate) fn of(meta: &TableMeta) -> Self {
        Self { lower: meta.smallest.clone(), upper: meta.upper().map(<[u8]>::to_vec) }
    }

    /// Returns the smallest span over all `metas`, or `None` if there are none.
    pub(crate) fn over<'a>(metas: impl IntoIterator<Item = &'a TableMeta>) -> Option<Self> {
        let mut metas = metas.into_iter();
        let mut span = Self::of(metas.next()?);
        metas.for_each(|meta| span.grow(meta));
        Some(span)
    }

    pub(crate) fn grow(&mut self, meta: &TableMeta) {
        if meta.smallest < self.lower {
            self.lower.clone_from(&meta.smallest);
        }
        if upper_is_less(self.upper(), meta.upper()) {
            self.upper = meta.upper().map(<[u8]>::to_vec);
        }
    }

    pub(crate) fn upper(&self) -> Bound<&[u8]> {
        self.upper.as_ref().map(Vec::as_slice)
    }

    pub(crate) fn overlaps(&self, meta: &TableMeta) -> bool {
        !ends_before(self.upper(), &meta.smallest) && !ends_before(meta.upper(), &self.lower)
    }

    /// Returns the tables of a sorted, disjoint run that may have a key in `range`.
    pub(crate) fn within_range(range: &KeyRange, run: &Run) -> Range<usize> {
        let start = match &range.start {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => run.place_of(key),
        };
        let end = run.partition_point(|table| range.ends_behind(&table.meta().smallest));
        start..end.max(start)
    }

    /// Returns the tables of a sorted, disjoint run that may have a key in the span.
    pub(crate) fn within(&self, run: &[Arc<TableHandle>]) -> Range<usize> {
        let start = run.partition_point(|t| ends_before(t.meta().upper(), &self.lower));
        let end = run.partition_point(|t| !ends_before(self.upper(), &t.meta().smallest));
        start..end.max(start)
    }
}

fn upper_is_less(a: Bound<&[u8]>, b: Bound<&[u8]>) -> bool {
    match (a, b) {
        (Bound::Unbounded, _) => false,
        (_, Bound::Unbounded) => true,
        (Bound::Excluded(a), Bound::Included(b)) => a <= b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a < b,
    }
}
