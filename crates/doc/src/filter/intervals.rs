//! Sets of sort keys: sorted, disjoint intervals.
//!
//! An end of an interval is a run of bytes, and a key is inside from the first such run on up to,
//! but without, the second one. The run after all keys that begin with the ascending sort key `k`,
//! whatever part of a compound key follows, is `k FF`: no part begins with FF. See
//! `docs/format/sort-key.md`.

use crate::sort_key::{self, Direction, MISSING, kind};
use crate::value::Value;
use crate::value_type::ValueType;
use flagstone_base::sorted::sort_by;
use std::cmp::Ordering;

/// An interval of the ascending sort keys of one path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    from: Vec<u8>,
    /// `None` if there is no end.
    to: Option<Vec<u8>>,
}

/// The byte that no part of a compound key begins with.
const AFTER: u8 = 0xFF;

impl Interval {
    pub(super) const fn new(from: Vec<u8>, to: Option<Vec<u8>>) -> Self {
        Self { from, to }
    }

    /// The interval of all keys whose first byte is in `kinds`.
    pub(super) fn of_kinds(from: u8, to: u8) -> Self {
        Self::new(vec![from], Some(vec![to + 1]))
    }

    /// The interval of one sort key.
    pub(super) fn point(key: Vec<u8>) -> Self {
        let to = after(&key);
        Self::new(key, Some(to))
    }

    /// The interval of all keys that begin with `prefix`.
    pub(super) fn of_prefix(prefix: Vec<u8>) -> Self {
        let to = successor(&prefix);
        Self::new(prefix, to)
    }

    fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    /// Returns the sort key if the interval is that of one value.
    pub fn as_point(&self) -> Option<&[u8]> {
        let to = self.to.as_ref()?;
        (to.strip_suffix(&[AFTER]) == Some(&self.from)).then_some(&self.from)
    }

    /// Returns the keys of an index that belong to the interval, when this path is the part of the
    /// key that comes next: the first of them, and the first one after them. Whatever follows this
    /// part is included. `None` is the end of all keys.
    pub fn bytes(&self, direction: Direction) -> (Vec<u8>, Option<Vec<u8>>) {
        if direction == Direction::Ascending {
            return (self.from.clone(), self.to.clone());
        }
        // A descending key is the inverted `key 01`. Keys from `from` on begin with the inverted
        // `from`, or come before it.
        let inverted = |bytes: &[u8]| bytes.iter().map(|byte| !byte).collect::<Vec<_>>();
        let start = self.to.as_ref().map(|to| successor(&inverted(to)));
        let start = start.map_or(Vec::new(), |start| start.unwrap_or_default());
        (start, successor(&inverted(&self.from)))
    }
}

/// Returns the first run of bytes after all keys that begin with the sort key `key`.
pub(super) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[AFTER]].concat()
}

/// Returns the first run of bytes after all that begin with `prefix`; `None` if there is none.
pub(super) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let len = prefix.iter().rposition(|byte| *byte != 0xFF)? + 1;
    let mut out = prefix[..len].to_vec();
    out[len - 1] += 1;
    Some(out)
}

/// Returns the ascending sort key of a value.
pub(super) fn key(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    sort_key::encode(value, Direction::Ascending, &mut out);
    out
}

/// Returns the first and the last byte that keys of a type begin with.
pub(super) const fn kinds_of(one: ValueType) -> (u8, u8) {
    match one {
        ValueType::Null => (kind::NULL, kind::NULL),
        ValueType::Bool => (kind::FALSE, kind::TRUE),
        ValueType::Number => (kind::NOT_A_NUMBER, kind::ABOVE_ALL),
        ValueType::Text => (kind::TEXT, kind::TEXT),
        ValueType::Bytes => (kind::BYTES, kind::BYTES),
        ValueType::ObjectId => (kind::OBJECT_ID, kind::OBJECT_ID),
        ValueType::DateTime => (kind::DATE_TIME, kind::DATE_TIME),
        ValueType::Uuid => (kind::UUID, kind::UUID),
        ValueType::Array => (kind::ARRAY, kind::ARRAY),
        ValueType::Map => (kind::MAP, kind::MAP),
    }
}

/// A set of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeySet {
    /// In ascending order, disjoint, none empty, and no two adjacent but points.
    pub(super) intervals: Vec<Interval>,
}

impl KeySet {
    pub(super) const fn nothing() -> Self {
        Self { intervals: Vec::new() }
    }

    pub(super) fn everything() -> Self {
        Self { intervals: vec![Interval::new(Vec::new(), None)] }
    }

    /// The keys of all values.
    pub(super) fn values() -> Self {
        Self::of([Interval::new(vec![MISSING + 1], None)])
    }

    /// The keys of all values of a type.
    pub(super) fn of_type(one: ValueType) -> Self {
        let (from, to) = kinds_of(one);
        Self::of([Interval::of_kinds(from, to)])
    }

    pub(super) fn is_everything(&self) -> bool {
        matches!(&*self.intervals, [all] if all.from.is_empty() && all.to.is_none())
    }

    pub(super) fn of(intervals: impl IntoIterator<Item = Interval>) -> Self {
        Self::of_list(intervals.into_iter().collect())
    }

    fn of_list(mut intervals: Vec<Interval>) -> Self {
        intervals.retain(|interval| !interval.is_empty());
        sort_by(&mut intervals, |a, b| a.from.cmp(&b.from));
        let mut out: Vec<Interval> = Vec::with_capacity(intervals.len());
        for next in intervals {
            match out.last_mut() {
                Some(last) if last.to.as_ref().is_none_or(|to| *to >= next.from) => {
                    if cmp_ends(&next.to, &last.to).is_gt() {
                        last.to = next.to;
                    }
                }
                _ => out.push(next),
            }
        }
        Self { intervals: out }
    }

    #[must_use]
    pub(super) fn union(self, other: Self) -> Self {
        Self::of(self.intervals.into_iter().chain(other.intervals))
    }

    #[must_use]
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let (mut out, mut i, mut j) = (Vec::new(), 0, 0);
        while let (Some(a), Some(b)) = (self.intervals.get(i), other.intervals.get(j)) {
            let from = a.from.clone().max(b.from.clone());
            let ends = cmp_ends(&a.to, &b.to);
            out.push(Interval::new(from, if ends.is_le() { a.to.clone() } else { b.to.clone() }));
            i += usize::from(ends.is_le());
            j += usize::from(ends.is_ge());
        }
        Self::of(out)
    }

    /// Returns the set of all other keys.
    #[must_use]
    pub(super) fn complement(&self) -> Self {
        let (mut out, mut from) = (Vec::new(), Some(Vec::new()));
        for interval in &self.intervals {
            if let Some(from) = from {
                out.push(Interval::new(from, Some(interval.from.clone())));
            }
            from = interval.to.clone();
        }
        out.extend(from.map(|from| Interval::new(from, None)));
        Self::of(out)
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        let after = self.intervals.partition_point(|interval| interval.from.as_slice() <= key);
        let last = after.checked_sub(1).map(|at| &self.intervals[at]);
        last.is_some_and(|last| last.to.as_ref().is_none_or(|to| key < to.as_slice()))
    }

    pub(super) fn is_subset_of(&self, other: &Self) -> bool {
        self.intersection(other) == *self
    }

    pub(super) fn are_points(&self) -> bool {
        self.intervals.iter().all(|interval| interval.as_point().is_some())
    }

    /// Returns a rank by which a planner without statistics prefers a set: lower is narrower.
    pub(super) fn breadth(&self) -> (u8, usize) {
        let is_open =
            |one: &&Interval| one.from.len() < 2 || one.to.as_ref().is_none_or(|to| to.len() < 2);
        let open = self.intervals.iter().filter(is_open);
        let class = match open.count() {
            _ if self.are_points() => 0,
            0 => 1,
            _ if self.is_everything() => 3,
            _ => 2,
        };
        (class, self.intervals.len())
    }
}

/// Compares the ends of two intervals; `None` is after all.
fn cmp_ends(a: &Option<Vec<u8>>, b: &Option<Vec<u8>>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
