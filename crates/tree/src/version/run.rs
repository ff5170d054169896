//! The disjoint tables of a level, or of a run of L0, and the search among them.

use super::handle::TableHandle;
use super::span::ends_before;
use flagstone_base::key::key_front;
use std::ops::{Bound, Deref, Range};
use std::sync::Arc;

/// With fewer tables, comparing whole keys is as fast as the search by their fronts.
const FENCED_FROM: usize = 4;

/// Tables sorted by key, disjoint.
#[derive(Clone, Default)]
pub(crate) struct Run {
    tables: Arc<[Arc<TableHandle>]>,
    /// Of a run that gets search. A part of a run has none: it is read once.
    fences: Option<Arc<Fences>>,
}

impl Run {
    /// Creates a run for gets.
    pub(super) fn searched(tables: Vec<Arc<TableHandle>>) -> Self {
        if tables.is_empty() {
            return Self::default();
        }
        let uppers = || tables.iter().map(|table| table.meta().upper());
        let fences = (tables.len() >= FENCED_FROM).then(|| Arc::new(Fences::new(uppers)));
        Self { tables: tables.into(), fences }
    }

    /// Returns the tables in `places`, as a run of their own.
    pub(crate) fn part(&self, places: Range<usize>) -> Self {
        match places == (0..self.len()) {
            true => self.clone(),
            false => Self { tables: self[places].into(), fences: None },
        }
    }

    /// Returns the place of the first table that does not end before `key`, or the number of
    /// tables.
    #[inline]
    pub(crate) fn place_of(&self, key: &[u8]) -> usize {
        let places = match &self.fences {
            Some(fences) => fences.around(key),
            None => 0..self.len(),
        };
        let start = places.start;
        start + self[places].partition_point(|table| ends_before(table.meta().upper(), key))
    }

    /// Returns the table whose bounds contain `key`.
    #[inline]
    pub(crate) fn table_of(&self, key: &[u8]) -> Option<&Arc<TableHandle>> {
        self.get(self.place_of(key)).filter(|table| table.meta().smallest.as_slice() <= key)
    }
}

impl Deref for Run {
    type Target = [Arc<TableHandle>];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.tables
    }
}

/// A part of a run.
impl FromIterator<Arc<TableHandle>> for Run {
    fn from_iter<T: IntoIterator<Item = Arc<TableHandle>>>(tables: T) -> Self {
        Self { tables: tables.into_iter().collect(), fences: None }
    }
}

/// The upper bounds of the tables of a run, cut to eight bytes each. They lie together, so a search
/// reads few cache lines, and compares numbers. The tables, their records and the bounds
/// themselves are three reads of memory a step.
struct Fences {
    /// What all bounds begin with.
    shared: Box<[u8]>,
    /// The eight bytes of each bound that follow. They ascend.
    fronts: Box<[u64]>,
}

impl Fences {
    /// `uppers` are sorted; at least one.
    fn new<'a, T: DoubleEndedIterator<Item = Bound<&'a [u8]>>>(uppers: impl Fn() -> T) -> Self {
        let shared = match (uppers().next().and_then(key_at), uppers().next_back().and_then(key_at))
        {
            (Some(first), Some(last)) => {
                let len = first.iter().zip(last).take_while(|(a, b)| a == b).count();
                &first[..len]
            }
            _ => &[],
        };
        let front = |upper| key_at(upper).map_or(u64::MAX, |key| key_front(&key[shared.len()..]));
        Self { shared: shared.into(), fronts: uppers().map(front).collect() }
    }

    /// Returns the places of the bounds that must be compared as a whole with `key`: all before
    /// them are below it, all after them are not.
    #[inline]
    fn around(&self, key: &[u8]) -> Range<usize> {
        let Some(rest) = key.strip_prefix(&*self.shared) else {
            let place = if key < &*self.shared { 0 } else { self.fronts.len() };
            return place..place;
        };
        let front = key_front(rest);
        let start = self.fronts.partition_point(|other| *other < front);
        let is_equal = self.fronts.get(start) == Some(&front);
        let equal =
            if is_equal { self.fronts[start..].partition_point(|o| *o == front) } else { 0 };
        start..start + equal
    }
}

fn key_at(bound: Bound<&[u8]>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches as [`Run::place_of`] does.
    fn place_of(uppers: &[Bound<&[u8]>], key: &[u8]) -> usize {
        let places = Fences::new(|| uppers.iter().copied()).around(key);
        let start = places.start;
        start + uppers[places].partition_point(|upper| ends_before(*upper, key))
    }

    fn check(uppers: &[Bound<&[u8]>], keys: &[&[u8]]) {
        for key in keys {
            let expected = uppers.partition_point(|upper| ends_before(*upper, key));
            assert_eq!(place_of(uppers, key), expected, "{key:?} in {uppers:?}");
        }
    }

    #[test]
    fn fences_find_the_place_that_whole_keys_have() {
        // All keys of up to four of these bytes, after nothing, a short and a long prefix; bounds
        // that differ within eight bytes, after them, and in trailing zeros.
        let bytes = [0, 1, 0x7F, 0xFF];
        let mut tails: Vec<Vec<u8>> = vec![Vec::new()];
        for len in 0..4_usize {
            let longest: Vec<_> = tails.iter().filter(|tail| tail.len() == len).cloned().collect();
            tails.extend(longest.iter().flat_map(|tail| bytes.map(|b| [&tail[..], &[b]].concat())));
        }
        for prefix in ["", "ab", "a prefix of more than eight bytes"] {
            let with = |tail: &[u8]| [prefix.as_bytes(), tail].concat();
            let mut keys: Vec<_> = tails.iter().map(|tail| with(tail)).collect();
            keys.extend(tails.iter().map(|tail| with(&[b"seven..", &tail[..]].concat())));
            keys.extend(["", "a", "aa", "ac", "b", "a prefiw", "a prefiy"].map(|k| k.into()));
            keys.sort();
            keys.dedup();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let ours = || keys.iter().copied().filter(|key| key.starts_with(prefix.as_bytes()));
            for step in [1, 2, 7, 50, 400] {
                for bound in [Bound::Included, Bound::Excluded] {
                    let mut uppers: Vec<_> = ours().step_by(step).map(bound).collect();
                    check(&uppers, &keys);
                    uppers.push(Bound::Unbounded);
                    check(&uppers, &keys);
                }
            }
        }
    }

    #[test]
    fn a_single_bound_is_its_own_prefix() {
        let keys: [&[u8]; 6] =
            [b"", b"a", b"ab", b"abc", b"ac", b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"];
        for upper in [Bound::Included(&b"ab"[..]), Bound::Excluded(b"ab"), Bound::Unbounded] {
            check(&[upper], &keys);
        }
    }
}
