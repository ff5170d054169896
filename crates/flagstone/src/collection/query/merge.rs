//! Which ranges of an index are read at once, to merge their entries.
//!
//! The entries of one value of the first fields are in the order of the fields after these, then of
//! the stored keys. Those of several values are merged by what comes after the values: so they are
//! in this order, too, and entries of one document follow one another.

use crate::collection::index::{IndexRange, Order};
use flagstone_doc::Direction;
use std::cmp::Ordering;
use std::ops::Range;

/// The ranges with one value of each of the first fields.
pub(super) struct Stream {
    /// The components of these fields.
    pub(super) prefix: Vec<u8>,
    /// In the order of the entries.
    pub(super) ranges: Vec<IndexRange>,
}

/// How the ranges of an access are merged.
#[derive(Clone, Debug)]
pub(super) struct RangeMerge {
    /// The ranges of each stream, which are read one after another, and the length of the
    /// components that they have in common.
    pub(super) streams: Vec<(usize, Range<usize>)>,
    /// The direction of the stored keys of entries that are equal otherwise.
    pub(super) ties: Direction,
    /// Only entries after this position count: components after the common ones, and a stored key.
    pub(super) after: Option<(Vec<u8>, Vec<u8>)>,
}

/// The components of an entry after those that its stream has in common, and its stored key.
pub(super) type Rest<'a> = (&'a [u8], &'a [u8]);

impl RangeMerge {
    /// Returns the ranges of all streams, and how they are merged. Streams without a range are left
    /// out.
    pub(super) fn of(streams: Vec<Stream>, ties: Direction) -> (Vec<IndexRange>, Self) {
        let (mut all, mut merged) = (Vec::new(), Vec::with_capacity(streams.len()));
        for Stream { prefix, ranges } in streams.into_iter().filter(|it| !it.ranges.is_empty()) {
            let start = all.len();
            all.extend(ranges);
            merged.push((prefix.len(), start..all.len()));
        }
        (all, Self { streams: merged, ties, after: None })
    }

    /// Compares two entries, which are read in `order`.
    pub(super) fn compare(&self, a: Rest<'_>, b: Rest<'_>, order: Order) -> Ordering {
        let components = match order {
            Order::Forward => a.0.cmp(b.0),
            Order::Reverse => b.0.cmp(a.0),
        };
        components.then_with(|| match self.ties {
            Direction::Ascending => a.1.cmp(b.1),
            Direction::Descending => b.1.cmp(a.1),
        })
    }
}
