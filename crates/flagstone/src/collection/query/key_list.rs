//! Stored keys in one piece of memory.

use flagstone_doc::Direction;
use std::ops::Range;

/// Stored keys, which are taken one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyList {
    bytes: Vec<u8>,
    places: Vec<Range<u32>>,
    /// The place of the key that is taken next.
    next: usize,
}

impl KeyList {
    /// Adds a key at the end. A list has less than 4 GiB of keys: those of a probe, of a batch, or
    /// of one filter.
    pub(super) fn push(&mut self, key: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.places.push(start..self.bytes.len() as u32);
    }

    /// The number of keys, those that were taken included.
    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }

    fn at(&self, place: &Range<u32>) -> &[u8] {
        &self.bytes[place.start as usize..place.end as usize]
    }

    /// The bytes of all keys, those that were taken included.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether all keys were taken.
    pub(super) const fn is_done(&self) -> bool {
        self.next >= self.places.len()
    }

    /// Takes the next key.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        let place = self.places.get(self.next)?.clone();
        self.next += 1;
        Some(self.at(&place))
    }

    /// All keys, those that were taken included.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| self.at(place))
    }

    /// Sorts the keys.
    pub(super) fn sort(&mut self) {
        let Self { bytes, places, .. } = self;
        let key = |place: &Range<u32>| &bytes[place.start as usize..place.end as usize];
        places.sort_unstable_by(|a, b| key(a).cmp(key(b)));
    }

    /// Sorts the keys by the number that `part_of` gives each, and those with one number as
    /// [`KeyList::sort`] does.
    pub(super) fn sort_by_part(&mut self, part_of: impl Fn(&[u8]) -> usize) {
        let Self { bytes, places, .. } = self;
        let key = |place: &Range<u32>| &bytes[place.start as usize..place.end as usize];
        let mut parts: Vec<_> =
            places.drain(..).map(|place| (part_of(key(&place)), place)).collect();
        parts.sort_unstable_by(|(part_a, a), (part_b, b)| {
            part_a.cmp(part_b).then_with(|| key(a).cmp(key(b)))
        });
        places.extend(parts.into_iter().map(|(_, place)| place));
    }

    /// Sorts the keys in a direction, and removes repeated ones.
    #[must_use]
    pub(super) fn sorted(mut self, direction: Direction) -> Self {
        self.sort();
        if direction == Direction::Descending {
            self.places.reverse();
        }
        let Self { bytes, places, .. } = &mut self;
        let key = |place: &Range<u32>| &bytes[place.start as usize..place.end as usize];
        places.dedup_by(|a, b| key(a) == key(b));
        self
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.next = 0;
    }
}

impl<'k> FromIterator<&'k [u8]> for KeyList {
    fn from_iter<I: IntoIterator<Item = &'k [u8]>>(keys: I) -> Self {
        let mut list = Self::default();
        keys.into_iter().for_each(|key| list.push(key));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_part_by_part() {
        let texts = ["a2", "b1", "a1", "c2", "b2", "c1", "b1"];
        let mut list: KeyList = texts.iter().map(|text| text.as_bytes()).collect();
        let of = |list: &KeyList| -> Vec<String> {
            list.iter().map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
        };
        list.sort_by_part(|key| usize::from(key[1] == b'1'));
        assert_eq!(of(&list), ["a2", "b2", "c2", "a1", "b1", "b1", "c1"]);
        list.sort();
        assert!(list.iter().is_sorted());
        let descending = list.sorted(Direction::Descending);
        assert_eq!(of(&descending), ["c2", "c1", "b2", "b1", "a2", "a1"]);
    }
}
