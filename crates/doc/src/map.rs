//! A map of values: pairs in insertion order, each key once.

use crate::sort_key;
use crate::value::Value;
use flagstone_base::sorted::sort_by;
use std::collections::{HashMap, HashSet};

/// The most pairs that are searched one by one while others are added.
const FEW: usize = 32;

/// Pairs of a key and a value, in the order in which the keys were first inserted. A key may be
/// any value.
///
/// Equality, order and hash ignore the order of the pairs. A lookup walks the pairs: documents
/// have tens of fields, and for so few a walk is faster than hashing. Many pairs are added by
/// [`Map::extend`] or collected, in the time of one walk.
///
/// ```
/// use flagstone_doc::{Map, Value, doc};
/// let mut map = Map::new();
/// assert_eq!(map.insert("name", "ada"), None);
/// assert_eq!(map.insert(7, "seven"), None);                   // a key may be any value
/// assert_eq!(map.insert("name", "Ada"), Some("ada".into()));  // its place stays
/// assert_eq!(map.get_value(&7.into()), Some(&"seven".into()));
/// assert!(map.len() == 2 && !map.is_empty() && !map.has_only_names());
/// if let Some(Value::Text(name)) = map.get_mut("name") {
///     name.push('!');
/// }
/// assert!(map.rename("name", "title") && map.get("name").is_none());
/// let keys: Vec<String> = map.iter().map(|(key, _)| key.to_string()).collect();
/// assert_eq!(keys, [r#""title""#, "7"]);
/// assert_eq!(map.remove("title"), Some("Ada!".into()));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Map {
    pairs: Vec<(Value, Value)>,
}

impl Map {
    /// Creates an empty map.
    pub const fn new() -> Self {
        Self { pairs: Vec::new() }
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether the map has no pairs.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the value of the field `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.pairs.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
    }

    /// Returns a mutable reference to the value of the field `name`.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.pairs.iter_mut().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
    }

    /// Returns the value of `key`, which may be of any type.
    pub fn get_value(&self, key: &Value) -> Option<&Value> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// Sets `key` to `value` and returns its previous value. A new key is added at the end.
    pub fn insert(&mut self, key: impl Into<Value>, value: impl Into<Value>) -> Option<Value> {
        let key = key.into();
        let value = value.into();
        if let Some((_, old)) = self.pairs.iter_mut().find(|(k, _)| *k == key) {
            return Some(std::mem::replace(old, value));
        }
        self.pairs.push((key, value));
        None
    }

    /// Removes the field `name` and returns its value; the other pairs keep their order.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.place(name)?;
        Some(self.pairs.remove(at).1)
    }

    /// Renames the field `name` to `new` and keeps its place; an existing field `new` is removed.
    /// Returns false if there is no field `name`.
    pub fn rename(&mut self, name: &str, new: &str) -> bool {
        let Some(at) = self.place(name) else { return false };
        let other = self.place(new).filter(|other| *other != at);
        self.pairs[at].0 = Value::from(new);
        if let Some(other) = other {
            self.pairs.remove(other);
        }
        true
    }

    /// Iterates over the pairs in insertion order.
    pub fn iter(&self) -> std::slice::Iter<'_, (Value, Value)> {
        self.pairs.iter()
    }

    /// Returns the index of the field `name` among the pairs.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.pairs.iter().position(|(key, _)| key.as_str() == Some(name))
    }

    /// Returns the pairs for changes; the caller keeps their keys distinct.
    pub(crate) const fn pairs_mut(&mut self) -> &mut Vec<(Value, Value)> {
        &mut self.pairs
    }

    /// Returns whether every key is text, which JSON requires.
    pub fn has_only_names(&self) -> bool {
        self.pairs.iter().all(|(key, _)| matches!(key, Value::Text(_)))
    }

    /// Returns the pairs sorted by key.
    pub(crate) fn sorted(&self) -> Vec<&(Value, Value)> {
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        if self.has_only_names() {
            sort_by(&mut pairs, |a, b| a.0.cmp(&b.0));
        } else {
            pairs.sort_by_cached_key(|(key, _)| sort_key::of(key));
        }
        pairs
    }

    /// Returns the seconds and the increment of a MongoDB timestamp, which is the map
    /// `{"$timestamp":{"t":1,"i":2}}`. Timestamps compare by their seconds first, although maps
    /// compare in the order of names.
    pub(crate) fn timestamp(&self) -> Option<[&Value; 2]> {
        let [(name, Value::Map(inner))] = self.pairs.as_slice() else { return None };
        if name.as_str() != Some("$timestamp") || inner.len() != 2 {
            return None;
        }
        Some([inner.get("t")?, inner.get("i")?])
    }

    /// Creates a map from pairs whose keys the caller knows to be distinct.
    #[doc(hidden)]
    pub fn from_distinct(pairs: Vec<(Value, Value)>) -> Self {
        Self { pairs }
    }
}

impl<K: Into<Value>, V: Into<Value>> FromIterator<(K, V)> for Map {
    /// Collects pairs; if a key comes twice, its last value wins.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Value, Value)> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let mut seen = HashSet::with_capacity(pairs.len());
        let keep: Vec<bool> =
            pairs.iter().rev().map(|(key, _)| seen.insert(key)).collect::<Vec<_>>();
        if keep.iter().any(|keep| !keep) {
            let mut keep = keep.into_iter().rev();
            pairs.retain(|_| keep.next().unwrap_or(true));
        }
        Self { pairs }
    }
}

impl<K: Into<Value>, V: Into<Value>> Extend<(K, V)> for Map {
    /// Sets each key to its value, as [`Map::insert`] does.
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        let new: Vec<(Value, Value)> =
            pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        if self.len() + new.len() <= FEW {
            new.into_iter().for_each(|(key, value)| drop(self.insert(key, value)));
            return;
        }
        let places: Vec<usize> = {
            let mut next = self.len();
            let known = self.pairs.iter().enumerate().map(|(at, (key, _))| (key, at));
            let mut known: HashMap<&Value, usize> = known.collect();
            let mut place = |key| {
                let at = *known.entry(key).or_insert(next);
                next += usize::from(at == next);
                at
            };
            new.iter().map(|(key, _)| place(key)).collect()
        };
        for ((key, value), at) in new.into_iter().zip(places) {
            match self.pairs.get_mut(at) {
                Some((_, old)) => *old = value,
                None => self.pairs.push((key, value)),
            }
        }
    }
}

impl IntoIterator for Map {
    type Item = (Value, Value);
    type IntoIter = std::vec::IntoIter<(Value, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.pairs.into_iter()
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = &'a (Value, Value);
    type IntoIter = std::slice::Iter<'a, (Value, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.pairs.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_pairs_with_one_key_the_last_wins() {
        let map = Map::from_iter([("a", 1), ("b", 2), ("a", 3)]);
        assert_eq!(map.len(), 2);
        assert_eq!(map.get("a"), Some(&Value::Int(3)));
        let mut map = Map::new();
        assert_eq!(map.insert(1, "x"), None);
        assert_eq!(map.insert(Value::number("1.0").unwrap(), "y"), Some(Value::from("x")));
        assert!(!map.has_only_names());
    }

    #[test]
    fn extending_sets_keys_as_inserting_does() {
        for (old, new) in [(0, 3), (5, 20), (20, 40), (100, 7)] {
            let pairs = |from: i64, count: i64| (from..from + count).map(|n| (n % 50, n));
            let mut inserted = Map::from_iter(pairs(0, old));
            let mut extended = inserted.clone();
            extended.extend(pairs(old / 2, new));
            pairs(old / 2, new).for_each(|(key, value)| drop(inserted.insert(key, value)));
            assert!(inserted.iter().eq(extended.iter()), "{old} {new}");
        }
    }

    #[test]
    fn a_key_of_any_type_is_found_by_a_value_that_equals_it() {
        let map = Map::from_iter([(Value::from(1), "one"), (Value::from("1"), "text")]);
        let found = |key: Value| map.get_value(&key).and_then(Value::as_str);
        assert_eq!(found(1.into()), Some("one"));
        assert_eq!(found(Value::number("1.0").unwrap()), Some("one"));
        assert_eq!(found("1".into()), Some("text"));
        assert_eq!((found(2.into()), map.get("2")), (None, None));
    }
}
