//! The expected content of a database of the simulator. There are few keys, so that operations
//! meet. A digest follows each change, so that states are compared quickly.

use super::step::{Change, Edit, ValueOf};
use crate::rng::Rng;
use crate::workload::Workload;
use flagstone::fold::{AddI64, Append, Fold};
use flagstone_base::hash::key_hash;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

/// The number of keyspaces and collections.
pub(super) const SLOTS: usize = 5;
/// The number of keys of a slot.
pub(super) const KEYS: usize = 48;
/// A key: its rank among all keys.
pub(super) type Key = u8;
/// The entries of a slot in the order of their keys; documents in the form of [`document_bytes`].
pub(super) type Entries = Vec<(Key, Vec<u8>)>;
/// A hash of the content of each slot.
pub(super) type Digests = [u64; SLOTS];

/// The kind of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Counters,
    Appends,
    Documents,
}

pub(super) const KINDS: [Kind; SLOTS] =
    [Kind::Plain, Kind::Counters, Kind::Appends, Kind::Documents, Kind::Plain];

static ALL_KEYS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut keys: Vec<_> = (0..KEYS as u64).map(Workload::key).collect();
    keys.sort();
    keys
});

static PLACES: LazyLock<HashMap<&'static [u8], Key>> = LazyLock::new(|| {
    ALL_KEYS.iter().enumerate().map(|(at, key)| (key.as_slice(), at as Key)).collect()
});

/// Returns the bytes of a key.
pub(super) fn key_bytes(key: Key) -> &'static [u8] {
    &ALL_KEYS[usize::from(key)]
}

/// Returns the key with these bytes, if there is one.
pub(super) fn key_of(bytes: &[u8]) -> Option<Key> {
    PLACES.get(bytes).copied()
}

/// Returns the value of a put.
pub(super) fn value_bytes(slot: usize, value: ValueOf) -> Vec<u8> {
    let mut rng = Rng::new(u64::from(value.seed));
    if KINDS[slot] == Kind::Counters && !value.seed.is_multiple_of(16) {
        return rng.number().to_le_bytes().to_vec();
    }
    let len = value.len as usize;
    if value.seed.is_multiple_of(2) {
        return rng.bytes(len);
    }
    let text = format!("value {} ", value.seed).into_bytes();
    text.iter().copied().cycle().take(len).collect()
}

/// Returns the operand of a merge. Sometimes that of a counter does not apply.
pub(super) fn operand_bytes(slot: usize, seed: u32) -> Vec<u8> {
    let mut rng = Rng::new(u64::from(seed));
    match KINDS[slot] {
        Kind::Counters => {
            let len = if seed.is_multiple_of(16) { 3 } else { 8 };
            rng.number().to_le_bytes()[..len].to_vec()
        }
        _ => rng.bytes(seed as usize % 12),
    }
}

/// The length from which the engine treats values as large.
pub(super) const LARGE_FROM: u32 = 64 << 10;
/// The field that makes a document large: a text of [`pad`].
pub(super) const PAD: u16 = u16::MAX - 1;

/// Returns the text of a pad, four letters for each unit of its number.
pub(super) fn pad(number: i16) -> String {
    "pad ".repeat(number as usize)
}

/// A document: field number to value.
pub(super) type Fields = BTreeMap<u16, i64>;

/// Returns the fields of a document as bytes. Equal documents have equal bytes.
pub(super) fn document_bytes(fields: &Fields) -> Vec<u8> {
    let pair =
        |(name, value): (&u16, &i64)| [&name.to_le_bytes()[..], &value.to_le_bytes()].concat();
    fields.iter().flat_map(pair).collect()
}

pub(super) fn fields_of(bytes: &[u8]) -> Fields {
    let pair = |pair: &[u8]| {
        let (name, value) = pair.split_at(2);
        (u16::from_le_bytes([name[0], name[1]]), i64::from_le_bytes(value.try_into().unwrap()))
    };
    bytes.chunks(10).map(pair).collect()
}

fn hash_of(slot: usize, key: Key, value: &[u8]) -> u64 {
    key_hash(&[key], key_hash(value, slot as u64 + 1))
}

/// Returns the digest of the entries of a slot.
pub(super) fn digest_of(slot: usize, entries: &Entries) -> u64 {
    let hashes = entries.iter().map(|(key, value)| hash_of(slot, *key, value));
    hashes.fold(0, u64::wrapping_add)
}

/// A value and the event that wrote it.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) bytes: Arc<[u8]>,
    pub(super) event: u64,
    hash: u64,
}

/// The content of all slots. A clone is cheap: slots are shared until one is changed.
#[derive(Clone)]
pub(super) struct State {
    slots: [Arc<Vec<Option<Entry>>>; SLOTS],
    digests: Digests,
}

impl Default for State {
    fn default() -> Self {
        let empty = || Arc::new(vec![None; KEYS]);
        Self { slots: std::array::from_fn(|_| empty()), digests: [0; SLOTS] }
    }
}

impl State {
    pub(super) const fn digests(&self) -> Digests {
        self.digests
    }

    pub(super) fn get(&self, slot: usize, key: Key) -> Option<&Entry> {
        self.slots[slot][usize::from(key)].as_ref()
    }

    /// Returns the entries from one key up to another, which is excluded.
    pub(super) fn range(&self, slot: usize, from: Key, to: Key) -> Entries {
        let entry = |key: Key| Some((key, self.get(slot, key)?.bytes.to_vec()));
        (from..to).filter_map(entry).collect()
    }

    pub(super) fn entries(&self, slot: usize) -> Entries {
        self.range(slot, 0, KEYS as Key)
    }

    fn set(&mut self, slot: usize, key: Key, value: Option<Vec<u8>>, event: u64) {
        let entry = value.map(|bytes| {
            let hash = hash_of(slot, key, &bytes);
            Entry { bytes: bytes.into(), event, hash }
        });
        let added = entry.as_ref().map_or(0, |entry| entry.hash);
        let place = &mut Arc::make_mut(&mut self.slots[slot])[usize::from(key)];
        let removed = std::mem::replace(place, entry).map_or(0, |entry| entry.hash);
        self.digests[slot] = self.digests[slot].wrapping_add(added).wrapping_sub(removed);
    }

    /// Empties a slot.
    pub(super) fn clear(&mut self, slot: usize) {
        self.slots[slot] = Arc::new(vec![None; KEYS]);
        self.digests[slot] = 0;
    }

    /// Applies a change of the event `event`.
    pub(super) fn apply(&mut self, change: &Change, event: u64) {
        match *change {
            Change::Put(slot, key, value) => {
                self.set(slot, key, Some(value_bytes(slot, value)), event);
            }
            Change::Delete(slot, key) => self.set(slot, key, None, event),
            Change::Merge(slot, key, seed) => {
                let old = self.get(slot, key).map(|entry| &*entry.bytes);
                let (bytes, operand) = (key_bytes(key), operand_bytes(slot, seed));
                let value = match KINDS[slot] {
                    Kind::Counters => AddI64.fold(bytes, old, &[&operand]),
                    _ => Append.fold(bytes, old, &[&operand]),
                };
                self.set(slot, key, value, event);
            }
            Change::DeleteRange(slot, from, to) => {
                (from..to).for_each(|key| self.set(slot, key, None, event));
            }
            Change::Document(slot, key, ref fields) => {
                let fields: Fields = fields.iter().map(|(n, v)| (*n, i64::from(*v))).collect();
                self.set(slot, key, Some(document_bytes(&fields)), event);
            }
            Change::Result(slot, key, ref bytes) => {
                self.set(slot, key, Some(bytes.clone()), event);
            }
            Change::Patch(slot, key, upsert, ref edits) => {
                let old = self.get(slot, key).map(|entry| fields_of(&entry.bytes));
                if old.is_none() && !upsert {
                    return;
                }
                let mut fields = old.unwrap_or_default();
                for edit in edits {
                    match *edit {
                        Edit::Set(name, value) => *fields.entry(name).or_default() = value.into(),
                        Edit::Add(name, value) => {
                            *fields.entry(name).or_default() += i64::from(value);
                        }
                    }
                }
                self.set(slot, key, Some(document_bytes(&fields)), event);
            }
        }
    }
}
