//! The disjoint tables of a level, or of a run of L0, and the search among them.

use super::handle::TableHandle;
use super::span::ends_before;
use flagstone_base::bytes::{common_prefix, same};
use flagstone_base::key::key_front;
use std::cmp::Ordering;
use std::ops::{Bound, Deref, Range};
use std::sync::Arc;

/// Tables sorted by key, disjoint.
#[derive(Clone, Default)]
pub(crate) struct Run {
    tables: Arc<[Arc<TableHandle>]>,
    /// `None` for a part of a run, which has too few searches to pay for it.
    fronts: Option<Arc<Fronts>>,
}

impl Run {
    /// Creates a run for gets.
    pub(super) fn searched(tables: Vec<Arc<TableHandle>>) -> Self {
        let Some((first, last)) = tables.first().zip(tables.last()) else { return Self::default() };
        let ends = (first.meta().smallest.as_slice(), last.meta().upper());
        let bounds = tables.iter().map(|table| (&*table.meta().smallest, table.meta().upper()));
        let fronts = Some(Arc::new(Fronts::new(ends, bounds)));
        Self { tables: tables.into(), fronts }
    }

    /// Returns the tables in `places`, as a run of their own.
    pub(crate) fn part(&self, places: Range<usize>) -> Self {
        if places == (0..self.len()) {
            self.clone()
        } else {
            Self { tables: self[places].into(), fronts: None }
        }
    }

    /// Returns the place of the first table that does not end before `key`, or the number of
    /// tables.
    #[inline]
    pub(crate) fn place_of(&self, key: &[u8]) -> usize {
        let ends = |place: usize| ends_before(self[place].meta().upper(), key);
        match &self.fronts {
            Some(fronts) => fronts.place_of(key, ends),
            None => partition_point(0..self.len(), ends),
        }
    }

    /// Returns the table whose bounds contain `key`.
    #[inline]
    pub(crate) fn table_of(&self, key: &[u8]) -> Option<&Arc<TableHandle>> {
        let ends = |place: usize| ends_before(self[place].meta().upper(), key);
        let begins = |place: usize| self[place].meta().smallest.as_slice() <= key;
        let place = match &self.fronts {
            Some(fronts) => fronts.find(key, ends, begins)?,
            None => Some(self.place_of(key)).filter(|&at| at < self.len() && begins(at))?,
        };
        Some(&self[place])
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
        Self { tables: tables.into_iter().collect(), fronts: None }
    }
}

/// The bounds of the tables of a run, cut to eight bytes each. They lie together, so a search reads
/// few cache lines, and compares numbers. A search of the tables themselves would read three places
/// of memory a step: the table, its record and the bound.
///
/// The cut follows what all bounds share. If that is little, but most bounds share more, their
/// fronts are equal, and the bounds are compared as a whole.
struct Fronts {
    /// What all bounds begin with.
    shared: Box<[u8]>,
    /// They ascend.
    of_tables: Box<[Front]>,
}

/// The eight bytes of both bounds of a table that follow what all bounds share.
struct Front {
    smallest: u64,
    upper: u64,
}

impl Fronts {
    /// `ends` are the first and the last of all bounds.
    fn new<'a>(
        ends: (&[u8], Bound<&[u8]>),
        bounds: impl Iterator<Item = (&'a [u8], Bound<&'a [u8]>)>,
    ) -> Self {
        let (first, last) = (ends.0, key_at(ends.1).unwrap_or_default());
        let shared = common_prefix(first, last);
        // Only tables that overlap can have a shorter bound. Such a run is refused after this.
        let front = |key: &[u8]| key_front(key.get(shared..).unwrap_or_default());
        let of_tables = bounds.map(|(smallest, upper)| Front {
            smallest: front(smallest),
            upper: key_at(upper).map_or(u64::MAX, front),
        });
        Self { shared: first[..shared].into(), of_tables: of_tables.collect() }
    }

    /// Returns the eight bytes of `key` that are compared, or, if the key does not begin as all
    /// bounds do, whether it lies before or after them.
    #[inline]
    fn front_of(&self, key: &[u8]) -> Result<u64, Ordering> {
        match key.split_at_checked(self.shared.len()) {
            Some((head, rest)) if same(head, &self.shared) => Ok(key_front(rest)),
            _ => Err(key.cmp(&self.shared)),
        }
    }

    /// Returns the place of the first table that does not end before the key of `front`, or the
    /// number of tables. Asks `ends` of the tables for which the fronts do not tell.
    #[inline]
    fn place(&self, front: u64, ends: impl Fn(usize) -> bool) -> usize {
        let start = self.of_tables.partition_point(|other| other.upper < front);
        if self.of_tables.get(start).is_none_or(|other| other.upper != front) {
            return start;
        }
        let equal = self.of_tables[start..].partition_point(|other| other.upper == front);
        partition_point(start..start + equal, ends)
    }

    /// As [`Fronts::place`].
    #[inline]
    fn place_of(&self, key: &[u8], ends: impl Fn(usize) -> bool) -> usize {
        match self.front_of(key) {
            Ok(front) => self.place(front, ends),
            Err(Ordering::Less) => 0,
            Err(_) => self.of_tables.len(),
        }
    }

    /// Returns the place of the table whose bounds contain `key`. If the fronts do not tell, asks
    /// `ends` whether a table ends before the key, and `begins` whether it begins at the key or
    /// before it.
    #[inline]
    fn find(
        &self,
        key: &[u8],
        ends: impl Fn(usize) -> bool,
        begins: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let front = self.front_of(key).ok()?;
        let place = self.place(front, ends);
        let contains = match self.of_tables.get(place)?.smallest.cmp(&front) {
            Ordering::Less => true,
            Ordering::Equal => begins(place),
            Ordering::Greater => false,
        };
        contains.then_some(place)
    }
}

/// Returns the first of `places` for which `is_before` is false. It is true for all before that.
#[inline]
fn partition_point(mut places: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    while !places.is_empty() {
        let middle = places.start + places.len() / 2;
        if is_before(middle) { places.start = middle + 1 } else { places.end = middle }
    }
    places.start
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

    type Bounds<'a> = (&'a [u8], Bound<&'a [u8]>);

    /// Compares the search by fronts with one by whole keys.
    fn check(tables: &[Bounds<'_>], keys: &[&[u8]]) {
        let (Some(first), Some(last)) = (tables.first(), tables.last()) else { return };
        let fronts = Fronts::new((first.0, last.1), tables.iter().copied());
        for key in keys {
            let ends = |place: usize| ends_before(tables[place].1, key);
            let begins = |place: usize| tables[place].0 <= *key;
            let place = tables.partition_point(|table| ends_before(table.1, key));
            assert_eq!(fronts.place_of(key, ends), place, "{key:?} in {tables:?}");
            let found = Some(place).filter(|&at| at < tables.len() && begins(at));
            assert_eq!(fronts.find(key, ends, begins), found, "{key:?} in {tables:?}");
        }
    }

    #[test]
    fn fronts_find_the_place_that_whole_keys_have() {
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
                let chosen: Vec<_> = ours().step_by(step).collect();
                let pairs = || chosen.as_chunks::<2>().0.iter();
                let bound = |place: usize, to| match place % 3 {
                    0 => Bound::Excluded(to),
                    _ => Bound::Included(to),
                };
                let pairs = pairs().enumerate();
                let mut apart: Vec<_> =
                    pairs.map(|(place, [from, to])| (*from, bound(place, *to))).collect();
                check(&apart, &keys);
                // Each table begins where the one before it ends.
                let touching = chosen.windows(2).map(|pair| (pair[0], Bound::Excluded(pair[1])));
                check(&touching.collect::<Vec<_>>(), &keys);
                if let Some(last) = apart.last_mut() {
                    last.1 = Bound::Unbounded;
                }
                check(&apart, &keys);
            }
        }
    }

    #[test]
    fn a_table_may_hold_a_single_key() {
        let keys: [&[u8]; 6] = [b"", b"a", b"ab", b"ab\0", b"abc", b"ac"];
        for upper in [Bound::Included(&b"ab"[..]), Bound::Excluded(b"ab\0"), Bound::Unbounded] {
            check(&[(b"ab", upper)], &keys);
        }
    }
}
