//! The primary keys that a filter allows.

use super::token::KeyPosition;
use flagstone_base::key::KeyRange;
use flagstone_doc::{Direction, Filter, Interval};
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

    /// Returns the part after a position.
    pub(super) fn after(self, position: &KeyPosition) -> Self {
        match self {
            Self::All => Self::Ranges([KeyRange::ALL].into()).after(position),
            Self::Points(mut points) => {
                points.retain(|point| !position.has_passed(point));
                Self::Points(points)
            }
            Self::Ranges(ranges) => {
                let after = |it| rest(it, &position.key, position.direction);
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
    let (start, end) = interval.bytes(Direction::Ascending);
    let start = if start.is_empty() { Bound::Unbounded } else { Bound::Included(start) };
    KeyRange { start, end: end.map_or(Bound::Unbounded, Bound::Excluded) }
}

/// Returns the part of a range that is read after `key` in a direction; `None` if it is empty.
pub(super) fn rest(mut range: KeyRange, key: &[u8], direction: Direction) -> Option<KeyRange> {
    match direction {
        Direction::Ascending if range.starts_before(key) => {
            range.start = Bound::Excluded(key.to_vec());
        }
        Direction::Descending if range.ends_behind(key) => {
            range.end = Bound::Excluded(key.to_vec());
        }
        _ => {}
    }
    (!range.is_empty()).then_some(range)
}

fn one(key: Vec<u8>) -> KeyRange {
    KeyRange { start: Bound::Included(key.clone()), end: Bound::Included(key) }
}
