//! The primary keys that a filter allows.

use super::spec::Spec;
use flagstone_base::key::KeyRange;
use flagstone_doc::{Filter, Interval};
use std::collections::VecDeque;
use std::ops::Bound;

/// The stored keys of the documents that may match.
#[derive(Clone, Debug)]
pub(super) enum KeyAccess {
    All,
    /// Single keys, ascending.
    Points(VecDeque<Vec<u8>>),
    /// Ranges of keys, ascending and disjoint.
    Ranges(VecDeque<KeyRange>),
}

impl KeyAccess {
    /// Returns the keys of documents that may match. `None` if there are none.
    pub(super) fn of(filter: &Filter) -> Option<Self> {
        let bounds = filter.key_bounds();
        if bounds.is_nothing() {
            return None;
        }
        if bounds.is_everything() {
            return Some(Self::All);
        }
        let points = bounds.intervals().iter().map(|one| Some(one.as_point()?.to_vec()));
        let points: Option<VecDeque<Vec<u8>>> = points.collect();
        Some(match points {
            Some(points) => Self::Points(points),
            None => Self::Ranges(bounds.intervals().iter().map(range).collect()),
        })
    }

    /// Returns the part after the position of a token in the order of the keys.
    pub(super) fn after(self, spec: &Spec) -> Self {
        let position = match &spec.sort {
            None => spec.after.as_ref().map(|token| token.key.as_slice()),
            Some(_) => None,
        };
        let Some(position) = position else { return self };
        match self {
            Self::All => Self::Ranges([KeyRange::ALL].into()).after(spec),
            Self::Points(mut points) => {
                points.retain(|point| point.as_slice() > position);
                Self::Points(points)
            }
            Self::Ranges(ranges) => {
                let after = |mut range: KeyRange| {
                    let is_over = match &range.end {
                        Bound::Included(end) | Bound::Excluded(end) => end.as_slice() <= position,
                        Bound::Unbounded => false,
                    };
                    let is_before = match &range.start {
                        Bound::Included(start) | Bound::Excluded(start) => {
                            start.as_slice() <= position
                        }
                        Bound::Unbounded => true,
                    };
                    if is_before {
                        range.start = Bound::Excluded(position.to_vec());
                    }
                    (!is_over).then_some(range)
                };
                Self::Ranges(ranges.into_iter().filter_map(after).collect())
            }
        }
    }

    /// The ranges to scan.
    pub(super) fn into_ranges(self) -> VecDeque<KeyRange> {
        match self {
            Self::All => [KeyRange::ALL].into(),
            Self::Ranges(ranges) => ranges,
            Self::Points(points) => points.into_iter().map(one).collect(),
        }
    }

    /// Says what is read, for users.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::All => "scan of all documents".to_owned(),
            Self::Points(points) if points.len() == 1 => "get of one key".to_owned(),
            Self::Points(points) => format!("gets of {} keys", points.len()),
            Self::Ranges(ranges) if ranges.len() == 1 => "scan of a range of keys".to_owned(),
            Self::Ranges(ranges) => format!("scan of {} ranges of keys", ranges.len()),
        }
    }
}

/// The keys of an interval. No key is empty.
pub(super) fn range(interval: &Interval) -> KeyRange {
    let (start, end) = interval.bytes(flagstone_doc::Direction::Ascending);
    let start = if start.is_empty() { Bound::Unbounded } else { Bound::Included(start) };
    KeyRange { start, end: end.map_or(Bound::Unbounded, Bound::Excluded) }
}

fn one(key: Vec<u8>) -> KeyRange {
    KeyRange { start: Bound::Included(key.clone()), end: Bound::Included(key) }
}
