//! Maps and sets in sorted vectors, and a sort, that rustc compiles in a tenth of the time that it
//! takes for those of the standard library: it compiles these again for each type.
//!
//! Most maps of the engine are small, or get their keys in ascending order: keyspaces, trees and
//! files by their numbers. For these a vector is as fast as a `BTreeMap`. A large map that changes
//! in the middle stays a `BTreeMap`: here an insertion or removal moves all larger keys.

use std::cmp::Ordering;
use std::ops::Index;

/// A map in a vector, sorted by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedMap<K, V>(Vec<(K, V)>);

/// A set in a sorted vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedSet<K>(SortedMap<K, ()>);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> SortedMap<K, V> {
    /// An empty map.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The number of keys.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no key.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys and values, by key.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The keys, ascending.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// The values, by key.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// The values, by key, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Keeps the keys for which `is_kept` returns true.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| is_kept(key, value));
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// Returns the index of the first key that is not below `key`.
    fn index_from(&self, key: &K) -> usize {
        // Most keys are added in ascending order.
        if self.0.last().is_none_or(|(last, _)| last < key) {
            return self.0.len();
        }
        self.0.partition_point(|(at, _)| at < key)
    }

    fn find(&self, key: &K) -> Option<usize> {
        let index = self.index_from(key);
        self.0.get(index).is_some_and(|(found, _)| found == key).then_some(index)
    }

    /// Returns the value of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).map(|index| &self.0[index].1)
    }

    /// Returns the value of `key`, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).map(|index| &mut self.0[index].1)
    }

    /// Returns whether there is a value of `key`.
    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_some()
    }

    /// Sets the value of `key`. Returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let index = self.index_from(&key);
        match self.0.get_mut(index) {
            Some(found) if found.0 == key => Some(std::mem::replace(&mut found.1, value)),
            _ => {
                self.0.insert(index, (key, value));
                None
            }
        }
    }

    /// Returns the value of `key`. If there is none, it is what `make` returns.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let index = self.index_from(&key);
        if self.0.get(index).is_none_or(|(found, _)| *found != key) {
            self.0.insert(index, (key, make()));
        }
        &mut self.0[index].1
    }

    /// Removes `key`. Returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.find(key).map(|index| self.0.remove(index).1)
    }

    /// The keys that are not below `start`, and their values.
    pub fn range_from(&self, start: &K) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0[self.index_from(start)..].iter().map(|(key, value)| (key, value))
    }

    /// Removes the keys that are not below `start`, and returns them with their values.
    pub fn split_off(&mut self, start: &K) -> Self {
        let index = self.index_from(start);
        Self(self.0.split_off(index))
    }
}

impl<K: Ord, V> Index<&K> for SortedMap<K, V> {
    type Output = V;

    /// The value of `key`.
    ///
    /// # Panics
    /// If there is none.
    fn index(&self, key: &K) -> &V {
        &self.0[self.find(key).unwrap_or(self.0.len())].1
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut entries: Vec<(K, V)> = entries.into_iter().collect();
        if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            sort_by(&mut entries, |(a, _), (b, _)| a.cmp(b));
            // The last value of a key remains.
            entries.dedup_by(|later, kept| {
                let is_same = later.0 == kept.0;
                if is_same {
                    std::mem::swap(later, kept);
                }
                is_same
            });
        }
        Self(entries)
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K> Default for SortedSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> SortedSet<K> {
    /// An empty set.
    pub const fn new() -> Self {
        Self(SortedMap::new())
    }

    /// The number of keys.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no key.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.keys()
    }

    /// Keeps the keys for which `is_kept` returns true.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&K) -> bool) {
        self.0.retain(|key, ()| is_kept(key));
    }
}

impl<K: Ord> SortedSet<K> {
    /// Returns whether `key` is in the set.
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Adds `key`. Returns false if it was there.
    pub fn insert(&mut self, key: K) -> bool {
        self.0.insert(key, ()).is_none()
    }

    /// Removes `key`. Returns whether it was there.
    pub fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }
}

impl<K: Ord> Extend<K> for SortedSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        self.0.extend(keys.into_iter().map(|key| (key, ())));
    }
}

impl<K: Ord> FromIterator<K> for SortedSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        Self(keys.into_iter().map(|key| (key, ())).collect())
    }
}

impl<K> IntoIterator for SortedSet<K> {
    type Item = K;
    type IntoIter = std::iter::Map<std::vec::IntoIter<(K, ())>, fn((K, ())) -> K>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|(key, ())| key)
    }
}

impl<'a, K> IntoIterator for &'a SortedSet<K> {
    type Item = &'a K;
    type IntoIter = std::iter::Map<std::slice::Iter<'a, (K, ())>, fn(&(K, ())) -> &K>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.0.iter().map(|(key, ())| key)
    }
}

/// Slices up to this length are sorted by insertion.
const INSERTION_MAX: usize = 20;

/// Sorts like `slice::sort_by`, for slices that are short or rarely sorted.
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    if items.len() <= INSERTION_MAX {
        for end in 1..items.len() {
            let mut at = end;
            while at > 0 && compare(&items[at - 1], &items[at]).is_gt() {
                items.swap(at - 1, at);
                at -= 1;
            }
        }
        return;
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    sort_order(&mut order, &mut |a, b| compare(&items[a], &items[b]));
    // Each cycle of the order, from its first place on.
    for first in 0..order.len() {
        let mut at = first;
        loop {
            let from = std::mem::replace(&mut order[at], at);
            if from == first {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

/// The part that is the same for all types.
fn sort_order(order: &mut [usize], compare: &mut dyn FnMut(usize, usize) -> Ordering) {
    order.sort_by(|a, b| compare(*a, *b));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// A sequence that depends on `seed` alone.
    fn numbers(mut seed: u32) -> impl FnMut(u32) -> u32 {
        move |below| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % below
        }
    }

    #[test]
    fn a_map_does_what_a_btree_map_does() {
        let (mut map, mut model, mut random) = (SortedMap::new(), BTreeMap::new(), numbers(7));
        for step in 0..20_000 {
            let key = random(40);
            match random(10) {
                0..4 => assert_eq!(map.insert(key, step), model.insert(key, step)),
                4 => assert_eq!(
                    map.get_or_insert_with(key, || step),
                    model.entry(key).or_insert(step)
                ),
                5..8 => assert_eq!(map.remove(&key), model.remove(&key)),
                8 => {
                    map.retain(|at, value| *at % 7 != key % 7 || *value % 2 == 0);
                    model.retain(|at, value| *at % 7 != key % 7 || *value % 2 == 0);
                }
                _ => {
                    let (mut right, mut expected) = (map.split_off(&key), model.split_off(&key));
                    right.values_mut().chain(expected.values_mut()).for_each(|value| *value += 1);
                    map.extend(right.into_iter().rev());
                    model.append(&mut expected);
                }
            }
            assert_eq!(map.get(&key), model.get(&key));
            assert_eq!(map.get_mut(&key), model.get_mut(&key));
            assert_eq!(map.contains_key(&key), model.contains_key(&key));
            assert!(map.iter().eq(&model) && map.len() == model.len());
            assert!(map.keys().eq(model.keys()) && map.values().eq(model.values()));
            assert!(map.range_from(&key).eq(model.range(key..)));
            assert_eq!(map.is_empty(), model.is_empty());
        }
        let before = model.keys().map(|key| (*key, 0));
        let again: SortedMap<_, _> = before.chain(model.clone().into_iter().rev()).collect();
        assert!(again == map && again.into_iter().eq(model));
    }

    #[test]
    fn a_set_does_what_a_btree_set_does() {
        let (mut set, mut model, mut random) = (SortedSet::new(), BTreeSet::new(), numbers(9));
        for _ in 0..20_000 {
            let key = random(40);
            match random(9) {
                0..5 => assert_eq!(set.insert(key), model.insert(key)),
                5..8 => assert_eq!(set.remove(&key), model.remove(&key)),
                _ => {
                    set.retain(|at| at % 7 != key % 7);
                    model.retain(|at| at % 7 != key % 7);
                }
            }
            assert_eq!(set.contains(&key), model.contains(&key));
            assert!(set.iter().eq(&model) && set.len() == model.len());
            assert_eq!(set.is_empty(), model.is_empty());
        }
        let again: SortedSet<_> = model.iter().chain(model.iter().rev()).copied().collect();
        assert!(again == set && (&again).into_iter().eq(&model) && again.into_iter().eq(model));
    }

    #[test]
    fn it_sorts_like_the_standard_library() {
        let mut random = numbers(11);
        for len in (0..60).chain([1000]) {
            for below in [1, 3, 1000] {
                let items: Vec<_> = (0..len).map(|at| (random(below), at.to_string())).collect();
                let (mut sorted, mut expected) = (items.clone(), items);
                sort_by(&mut sorted, |a, b| a.0.cmp(&b.0));
                expected.sort_by_key(|item| item.0);
                assert_eq!(sorted, expected, "{len} below {below}");
            }
        }
    }
}
