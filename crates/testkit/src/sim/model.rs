//! The expected content of a database of the simulator. There are few keys, so that operations
//! meet. A digest follows each change, so that states are compared quickly.

use super::document::{Fields, document_bytes, fields_of, patched};
use super::step::{SlotChange, ValueOf};
use crate::rng::Rng;
use crate::workload::Workload;
use flagstone::Moment;
use flagstone::fold::{AddI64, Append, Fold};
use flagstone_base::hash::{key_hash, remix};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The number of keyspaces and collections.
pub(super) const SLOTS: usize = 5;
/// The number of keys of a slot.
pub(super) const KEYS: usize = 48;
/// The slot that has documents.
pub(super) const DOCUMENTS: usize = 3;
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
fn hash_of(slot: usize, key: Key, value: &[u8], expiry: Option<Moment>) -> u64 {
    let expiry = expiry.map_or(0, |expiry| remix(expiry.millis() ^ 1));
    key_hash(&[key], key_hash(value, slot as u64 + 1) ^ expiry)
}

/// Returns the digest of the entries of a slot, each with its expiry.
pub(super) fn digest_of(slot: usize, entries: &[(Key, Vec<u8>, Option<Moment>)]) -> u64 {
    let hashes = entries.iter().map(|(key, value, expiry)| hash_of(slot, *key, value, *expiry));
    hashes.fold(0, u64::wrapping_add)
}

/// A value, the event that wrote it, and the moment from which on it is absent.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) bytes: Arc<[u8]>,
    pub(super) event: u64,
    pub(super) expiry: Option<Moment>,
    hash: u64,
}

impl Entry {
    /// Returns whether the entry has not expired at `at`.
    pub(super) fn is_alive(&self, at: Moment) -> bool {
        self.expiry.is_none_or(|expiry| expiry > at)
    }
}

/// The content of a slot.
#[derive(Clone)]
struct Slot {
    entries: Vec<Option<Entry>>,
    /// The sum of the hashes of the entries without an expiry.
    lasting: u64,
    /// The number of entries with an expiry.
    expiring: usize,
}

impl Slot {
    fn empty() -> Arc<Self> {
        Arc::new(Self { entries: vec![None; KEYS], lasting: 0, expiring: 0 })
    }

    fn digest(&self, at: Moment) -> u64 {
        if self.expiring == 0 {
            return self.lasting;
        }
        let entries = self.entries.iter().flatten();
        let expiring = entries.filter(|entry| entry.expiry.is_some() && entry.is_alive(at));
        expiring.fold(self.lasting, |sum, entry| sum.wrapping_add(entry.hash))
    }

    fn set(&mut self, key: Key, entry: Option<Entry>) {
        let place = &mut self.entries[usize::from(key)];
        match place {
            Some(Entry { expiry: None, hash, .. }) => {
                self.lasting = self.lasting.wrapping_sub(*hash)
            }
            Some(_) => self.expiring -= 1,
            None => {}
        }
        match &entry {
            Some(Entry { expiry: None, hash, .. }) => {
                self.lasting = self.lasting.wrapping_add(*hash)
            }
            Some(_) => self.expiring += 1,
            None => {}
        }
        *place = entry;
    }
}

/// The content of all slots, expired entries included. A clone is cheap: slots are shared until one
/// is changed.
#[derive(Clone)]
pub(super) struct State {
    slots: [Arc<Slot>; SLOTS],
}

impl Default for State {
    fn default() -> Self {
        Self { slots: std::array::from_fn(|_| Slot::empty()) }
    }
}

impl State {
    /// Returns the digests of what is alive at `at`.
    pub(super) fn digests(&self, at: Moment) -> Digests {
        std::array::from_fn(|slot| self.slots[slot].digest(at))
    }

    /// Returns the digest of what is alive at `at` in a slot.
    pub(super) fn digest(&self, slot: usize, at: Moment) -> u64 {
        self.slots[slot].digest(at)
    }

    /// Returns the entry of a key if it is alive at `at`.
    pub(super) fn get(&self, slot: usize, key: Key, at: Moment) -> Option<&Entry> {
        let entry = self.slots[slot].entries[usize::from(key)].as_ref();
        entry.filter(|entry| entry.is_alive(at))
    }

    /// Returns the value of a key if it is alive at `at`.
    pub(super) fn bytes(&self, slot: usize, key: Key, at: Moment) -> Option<Vec<u8>> {
        self.get(slot, key, at).map(|entry| entry.bytes.to_vec())
    }

    /// Returns the entries from one key up to another, which is excluded, that are alive at `at`.
    pub(super) fn range(&self, slot: usize, (from, to): (Key, Key), at: Moment) -> Entries {
        let entry = |key: Key| Some((key, self.get(slot, key, at)?.bytes.to_vec()));
        (from..to).filter_map(entry).collect()
    }

    pub(super) fn entries(&self, slot: usize, at: Moment) -> Entries {
        self.range(slot, (0, KEYS as Key), at)
    }

    /// Returns the entries of a slot, those that have expired, too.
    pub(super) fn stored(&self, slot: usize) -> impl Iterator<Item = (Key, &Entry)> {
        let entries = self.slots[slot].entries.iter().enumerate();
        entries.filter_map(|(key, entry)| Some((key as Key, entry.as_ref()?)))
    }

    /// Returns the entry of a key, also if it has expired.
    pub(super) fn entry(&self, slot: usize, key: Key) -> Option<&Entry> {
        self.slots[slot].entries[usize::from(key)].as_ref()
    }

    /// Returns the value of a key, also if it has expired.
    pub(super) fn stored_bytes(&self, slot: usize, key: Key) -> Option<Vec<u8>> {
        self.entry(slot, key).map(|entry| entry.bytes.to_vec())
    }

    /// Returns whether an entry of the slot has an expiry, also if it has expired.
    pub(super) fn has_expiries(&self, slot: usize) -> bool {
        self.slots[slot].expiring > 0
    }

    /// Returns slot, key and moment of each entry with an expiry.
    pub(super) fn expiries(&self) -> impl Iterator<Item = (usize, Key, Moment)> {
        self.slots.iter().enumerate().flat_map(|(slot, of)| {
            let entries = of.entries.iter().enumerate();
            entries
                .filter_map(move |(key, entry)| Some((slot, key as Key, entry.as_ref()?.expiry?)))
        })
    }

    fn set(
        &mut self,
        slot: usize,
        key: Key,
        value: Option<Vec<u8>>,
        expiry: Option<Moment>,
        event: u64,
    ) {
        let entry = value.map(|bytes| {
            let hash = hash_of(slot, key, &bytes, expiry);
            Entry { bytes: bytes.into(), event, expiry, hash }
        });
        Arc::make_mut(&mut self.slots[slot]).set(key, entry);
    }

    /// Empties a slot.
    pub(super) fn clear(&mut self, slot: usize) {
        self.slots[slot] = Slot::empty();
    }

    /// Applies a change of the event `event`. What a merge or patch is folded into has no expiry:
    /// [`State::resolved`] does others.
    pub(super) fn apply(&mut self, change: &SlotChange, event: u64) {
        match *change {
            SlotChange::Put(slot, key, value, lasts) => {
                let value = Some(value_bytes(slot, value));
                self.set(slot, key, value, lasts.expiry(), event);
            }
            SlotChange::Delete(slot, key) => self.set(slot, key, None, None, event),
            SlotChange::DeleteRange(slot, from, to) => {
                (from..to).for_each(|key| self.set(slot, key, None, None, event));
            }
            SlotChange::Document(slot, key, ref fields, lasts) => {
                let fields: Fields = fields.iter().copied().collect();
                let value = Some(document_bytes(&fields));
                self.set(slot, key, value, lasts.expiry(), event);
            }
            SlotChange::Made(slot, key, ref bytes, expiry) => {
                self.set(slot, key, bytes.clone(), expiry, event);
            }
            SlotChange::Merge(..) | SlotChange::Patch(..) => {
                let made = self.resolved(change, Moment::ZERO);
                self.apply(&made, event);
            }
        }
    }

    /// Returns what a write makes of a merge or patch that it resolves at `at`. A value that is
    /// alive keeps its expiry.
    pub(super) fn resolved(&self, change: &SlotChange, at: Moment) -> SlotChange {
        let (slot, key, value) = match *change {
            SlotChange::Merge(slot, key, seed) => {
                let old = self.get(slot, key, at).map(|entry| &*entry.bytes);
                let (bytes, operand) = (key_bytes(key), operand_bytes(slot, seed));
                let value = match KINDS[slot] {
                    Kind::Counters => AddI64.fold(bytes, old, &[&operand]),
                    _ => Append.fold(bytes, old, &[&operand]),
                };
                (slot, key, value)
            }
            SlotChange::Patch(slot, key, missing, ref edits) => {
                let old = self.get(slot, key, at).map(|entry| fields_of(&entry.bytes));
                let patched = patched(old.clone(), missing, edits).or(old);
                (slot, key, patched.map(|fields| document_bytes(&fields)))
            }
            _ => return change.clone(),
        };
        let expiry = self.get(slot, key, at).and_then(|entry| entry.expiry);
        let expiry = expiry.filter(|_| value.is_some());
        SlotChange::Made(slot, key, value, expiry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::step::Lasts;

    const fn at(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    fn put(key: Key, lasts: Lasts) -> SlotChange {
        SlotChange::Put(0, key, ValueOf { len: 20, seed: u32::from(key) }, lasts)
    }

    /// The digest of what is alive, entry by entry.
    fn counted(state: &State, moment: Moment) -> u64 {
        let entry = |key| state.get(0, key, moment).map(|e| (key, e.bytes.to_vec(), e.expiry));
        digest_of(0, &(0..KEYS as Key).filter_map(entry).collect::<Vec<_>>())
    }

    #[test]
    fn a_digest_covers_what_is_alive_at_its_moment() {
        let mut state = State::default();
        let changes = [
            put(1, Lasts::Forever),
            put(2, Lasts::Until(at(10))),
            put(3, Lasts::Until(at(20))),
            put(4, Lasts::Until(at(30))),
            // What had an expiry loses it, and the other way round.
            put(2, Lasts::Forever),
            put(1, Lasts::Until(at(15))),
            SlotChange::Delete(0, 4),
        ];
        for change in &changes {
            state.apply(change, 1);
            for moment in [0, 9, 10, 14, 15, 19, 20, 40].map(at) {
                assert_eq!(state.digests(moment)[0], counted(&state, moment), "{moment}");
            }
        }
        let keys = |moment| state.entries(0, moment).into_iter().map(|e| e.0).collect::<Vec<_>>();
        assert_eq!(
            (keys(at(14)), keys(at(15)), keys(at(20))),
            (vec![1, 2, 3], vec![2, 3], vec![2])
        );
    }

    #[test]
    fn a_merge_keeps_the_expiry_of_a_value_that_is_alive() {
        let mut state = State::default();
        let slot = 2;
        let merge = SlotChange::Merge(slot, 5, 7);
        state.apply(&SlotChange::Made(slot, 5, Some(b"x".to_vec()), Some(at(10))), 1);
        let operand = operand_bytes(slot, 7);
        let longer = [b"x", &operand[..]].concat();
        let kept = SlotChange::Made(slot, 5, Some(longer), Some(at(10)));
        assert_eq!(state.resolved(&merge, at(9)), kept);
        assert_eq!(state.resolved(&merge, at(10)), SlotChange::Made(slot, 5, Some(operand), None));
    }
}
