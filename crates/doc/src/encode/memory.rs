//! The names that an encoder remembers: their ids, and which name followed which.
//!
//! Documents of one collection have nearly the same names in nearly the same order. So the name
//! that followed last time is compared first; a hit costs one comparison and no hash.

use crate::names::{NAME_BYTES_MAX, NAMES_MAX, Names};
use flagstone_base::hash::key_hash;
use std::hash::{BuildHasher, RandomState};

/// Means "no slot" or "no id".
pub(crate) const NONE: u32 = u32::MAX;

const SLOTS_MAX: usize = 100_000;
/// The most names that one document defines; it stores further new ones in its own bytes. So one
/// document with keys as names, which may be refused after all, cannot fill the table.
const NEW_NAMES_MAX: u32 = 1024;
const TEXT_MAX: usize = 8 << 20;

#[derive(Clone, Copy, Debug)]
struct NameSlot {
    /// The offset of the name in [`KeyMemory`]'s `text`, after its quote.
    at: u32,
    len: u32,
    id: u32,
    /// The slot that came after this one when the name was last met.
    next: u32,
    /// The first slot of the map that was the value of this name when it was last met.
    first: u32,
    /// The map in which the name was last met; see [`KeyMemory::has_twice`].
    stamp: u32,
    /// Whether JSON writes the name without escapes.
    plain: bool,
}

pub(crate) struct KeyMemory {
    owner: u64,
    seed: u64,
    /// All names in their JSON form: quote, name, quote, colon.
    text: Vec<u8>,
    slots: Vec<NameSlot>,
    /// Hash table of slot plus one; zero is free. Empty before the first name.
    table: Vec<u32>,
    root_first: u32,
    serial: u32,
    /// The number of definitions of the names table that the slots reflect: a slot without an id
    /// has a name that none of them defines.
    names_known: u32,
    /// Whether the encoder defines names that the table lacks.
    pub(super) defines: bool,
    /// The names that the document has defined.
    new_names: u32,
    /// Whether the document has had too many new names. The next one may define them.
    has_left_out: bool,
    /// Name sequences of recent maps, indexed by a hash of their slots.
    shapes: Vec<Shape>,
    /// Whether this is the first document. An encoder of one document alone remembers no shapes.
    is_first: bool,
}

/// The distinct names of a map in their order, and the bytes of its keys.
#[derive(Clone, Default)]
struct Shape {
    slots: Vec<u32>,
    keys: Vec<u8>,
    form: u8,
    highest: u32,
}

/// The size of the first hash table: that of a document with few names.
const TABLE: usize = 32;

/// The number of shapes remembered; the next constants limit the names and key bytes of each.
const SHAPES: usize = 64;
const SHAPE_NAMES_MAX: usize = 256;
const SHAPE_BYTES_MAX: usize = 4096;

/// Returns the index in `shapes` for a sequence of slots.
fn place(slots: &[u32]) -> usize {
    let (first, last) = (slots.first().copied(), slots.last().copied());
    let mix = slots.len() + 7 * first.unwrap_or(0) as usize + 31 * last.unwrap_or(0) as usize;
    mix % SHAPES
}

impl KeyMemory {
    pub(crate) fn new() -> Self {
        Self {
            owner: 0,
            seed: RandomState::new().hash_one(0),
            text: Vec::new(),
            slots: Vec::new(),
            table: Vec::new(),
            root_first: NONE,
            serial: 0,
            names_known: 0,
            defines: true,
            new_names: 0,
            has_left_out: false,
            shapes: Vec::new(),
            is_first: true,
        }
    }

    /// Prepares for a document: forgets the names of another table, and a memory grown too large.
    pub(crate) fn begin(&mut self, names: Option<&Names>) {
        let owner = names.map_or(0, Names::identity);
        let too_large = self.slots.len() > SLOTS_MAX || self.text.len() > TEXT_MAX;
        self.new_names = 0;
        if self.owner != owner || too_large || self.has_left_out {
            *self = Self { owner, defines: self.defines, ..Self::new() };
        } else {
            self.is_first &= self.slots.is_empty();
        }
        if let Some(names) = names
            && !self.defines
            && names.len() != self.names_known
        {
            self.learn_ids(names);
        }
    }

    /// Finds the ids that were defined since the last document. An encoder that defines no names
    /// needs this: other writers define names that it remembers as unknown.
    #[cold]
    fn learn_ids(&mut self, names: &Names) {
        self.shapes.clear();
        // No slot needs an id. Count only what a lookup finds, so that the rest is visited again.
        if self.slots.is_empty() {
            let len = names.len();
            let is_found = |(_, name): (u32, &str)| names.id(name).is_some();
            let all = names.since(len.saturating_sub(1)).all(is_found);
            self.names_known = len - u32::from(!all);
            return;
        }
        let first = self.names_known;
        for (id, name) in names.since(first) {
            if let Ok(slot) = self.probe(name.as_bytes()) {
                self.slots[slot as usize].id = id;
            }
            // `len` counts a new definition a moment before a lookup by name finds it.
            if names.id(name).is_some() {
                self.names_known = id + 1;
            }
        }
    }

    #[inline]
    pub(crate) fn id(&self, slot: u32) -> u32 {
        self.slots[slot as usize].id
    }

    /// Returns the name in `slot`.
    #[inline]
    pub(crate) fn name(&self, slot: u32) -> &[u8] {
        let slot = &self.slots[slot as usize];
        &self.text[slot.at as usize..][..slot.len as usize]
    }

    /// Predicts the slot after `previous`, or the first slot of the map that is the value of
    /// `parent`.
    #[inline]
    pub(crate) fn likely(&self, parent: u32, previous: u32) -> u32 {
        if previous != NONE {
            self.slots[previous as usize].next
        } else if parent != NONE {
            self.slots[parent as usize].first
        } else {
            self.root_first
        }
    }

    /// Records the slot that really came there, for the next prediction.
    #[inline]
    pub(crate) fn learn(&mut self, parent: u32, previous: u32, slot: u32) {
        if previous != NONE {
            self.slots[previous as usize].next = slot;
        } else if parent != NONE {
            self.slots[parent as usize].first = slot;
        } else {
            self.root_first = slot;
        }
    }

    /// If `json` begins with the name in `slot`, in quotes and followed by a colon, returns their
    /// length and the predicted next slot.
    #[inline]
    pub(crate) fn matches(&self, slot: u32, json: &[u8]) -> Option<(usize, u32)> {
        let slot = self.slots.get(slot as usize)?;
        let text = self.text.get(slot.at as usize - 1..)?.get(..slot.len as usize + 3)?;
        (slot.plain && begins(json, text)).then_some((text.len(), slot.next))
    }

    /// Appends the keys of a map from a remembered shape with the same slots. Returns their form
    /// and the highest id, or `None` if no such shape is remembered.
    #[inline]
    pub(super) fn known_keys(&self, slots: &[u32], out: &mut Vec<u8>) -> Option<(u8, u32)> {
        let shape = self.shapes.get(place(slots))?;
        if shape.slots.is_empty() || shape.slots != slots {
            return None;
        }
        out.extend_from_slice(&shape.keys);
        Some((shape.form, shape.highest))
    }

    /// Remembers the keys of a map with distinct names.
    pub(super) fn know_keys(&mut self, slots: &[u32], keys: &[u8], form: u8, highest: u32) {
        if self.is_first || slots.len() > SHAPE_NAMES_MAX || keys.len() > SHAPE_BYTES_MAX {
            return;
        }
        self.shapes.resize(SHAPES, Shape::default());
        let shape = &mut self.shapes[place(slots)];
        shape.slots.clear();
        shape.slots.extend_from_slice(slots);
        shape.keys.clear();
        shape.keys.extend_from_slice(keys);
        shape.form = form;
        shape.highest = highest;
    }

    /// Returns the slot of `name`, or the free index of the hash table where it belongs.
    #[inline]
    fn probe(&self, name: &[u8]) -> Result<u32, usize> {
        if self.table.is_empty() {
            return Err(0);
        }
        let mut at = key_hash(name, self.seed) as usize & (self.table.len() - 1);
        while let Some(slot) = self.table[at].checked_sub(1) {
            if self.name(slot) == name {
                return Ok(slot);
            }
            at = (at + 1) & (self.table.len() - 1);
        }
        Err(at)
    }

    /// Returns the slot of `name`, which is UTF-8. A new name gets a slot, and its id from `names`.
    pub(crate) fn slot(&mut self, name: &[u8], names: Option<&Names>) -> u32 {
        let at = match self.probe(name) {
            Ok(slot) => return slot,
            Err(free) => free,
        };
        if 2 * (self.slots.len() + 1) > self.table.len() {
            self.grow();
            return self.slot(name, names);
        }
        let slot = self.slots.len() as u32;
        let plain = !name.iter().any(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
        let id = names.and_then(|names| self.id_of(name, names));
        self.slots.push(NameSlot {
            at: self.text.len() as u32 + 1,
            len: name.len() as u32,
            id: id.unwrap_or(NONE),
            next: NONE,
            first: NONE,
            stamp: 0,
            plain,
        });
        self.text.push(b'"');
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(b"\":");
        self.table[at] = slot + 1;
        slot
    }

    /// Returns the id of a name that has no slot.
    fn id_of(&mut self, name: &[u8], names: &Names) -> Option<u32> {
        let name = std::str::from_utf8(name).ok()?;
        let known = names.id(name);
        if known.is_some() || !self.defines {
            return known;
        }
        if self.new_names >= NEW_NAMES_MAX {
            self.has_left_out |= name.len() <= NAME_BYTES_MAX && names.len() < NAMES_MAX;
            return None;
        }
        self.new_names += 1;
        names.intern(name)
    }

    #[cold]
    fn grow(&mut self) {
        let mut table = vec![0; (self.table.len() * 2).max(TABLE)];
        for slot in 0..self.slots.len() as u32 {
            let mut at = key_hash(self.name(slot), self.seed) as usize & (table.len() - 1);
            while table[at] != 0 {
                at = (at + 1) & (table.len() - 1);
            }
            table[at] = slot + 1;
        }
        self.table = table;
    }

    /// Returns the position of the first slot that repeats an earlier one of the same map.
    pub(crate) fn has_twice(&mut self, slots: impl Iterator<Item = u32>) -> Option<usize> {
        if self.serial == u32::MAX {
            self.slots.iter_mut().for_each(|slot| slot.stamp = 0);
            self.serial = 0;
        }
        self.serial += 1;
        for (i, slot) in slots.enumerate() {
            let stamp = &mut self.slots[slot as usize].stamp;
            if *stamp == self.serial {
                return Some(i);
            }
            *stamp = self.serial;
        }
        None
    }
}

/// Returns whether `json` begins with `text`, which has at least three bytes. Compares whole words;
/// the last word overlaps the one before. A call to `memcmp` would cost as much as the comparison.
#[inline]
fn begins(json: &[u8], text: &[u8]) -> bool {
    let Some(json) = json.get(..text.len()) else { return false };
    if let (Some(a), Some(b)) = (json.last_chunk::<16>(), text.last_chunk::<16>()) {
        let wide = |bytes: &[u8; 16]| u128::from_le_bytes(*bytes);
        let mut differ = wide(a) ^ wide(b);
        for (a, b) in json.as_chunks::<16>().0.iter().zip(text.as_chunks::<16>().0) {
            differ |= wide(a) ^ wide(b);
        }
        return differ == 0;
    }
    if let (Some(a), Some(b)) = (json.last_chunk::<8>(), text.last_chunk::<8>())
        && let (Some(c), Some(d)) = (json.first_chunk::<8>(), text.first_chunk::<8>())
    {
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        return (word(a) ^ word(b)) | (word(c) ^ word(d)) == 0;
    }
    if let (Some(a), Some(b)) = (json.last_chunk::<4>(), text.last_chunk::<4>())
        && let (Some(c), Some(d)) = (json.first_chunk::<4>(), text.first_chunk::<4>())
    {
        return a == b && c == d;
    }
    json == text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encoder;
    use crate::doc;

    #[test]
    fn bytes_that_differ_anywhere_do_not_begin_alike() {
        for len in 3..60_u8 {
            let text: Vec<u8> = (0..len).collect();
            let mut json = text.clone();
            assert!(begins(&json, &text));
            json.push(200);
            assert!(begins(&json, &text) && !begins(&text, &json));
            for at in 0..text.len() {
                json[at] ^= 0x40;
                assert!(!begins(&json, &text), "{at} of {len}");
                json[at] ^= 0x40;
            }
        }
    }

    #[test]
    fn the_first_document_leaves_no_shapes_and_is_encoded_as_later_ones_are() {
        let document = doc!({ "a": { "b": 1 }, "c": [] });
        let (mut encoder, mut first, mut later) = (Encoder::new(), Vec::new(), Vec::new());
        encoder.encode(&document, None, &mut first).unwrap();
        assert!(encoder.builder.keys.memory.shapes.is_empty());
        for _ in 0..2 {
            later.clear();
            encoder.encode(&document, None, &mut later).unwrap();
            assert_eq!(later, first);
            assert!(!encoder.builder.keys.memory.shapes.is_empty());
        }
    }

    #[test]
    fn a_name_that_others_define_later_is_known_from_then_on() {
        let names = Names::new();
        let mut folds = Encoder::of_known_names();
        let encoded = |encoder: &mut Encoder| {
            let mut bytes = Vec::new();
            encoder.encode(&doc!({ "a": { "b": 1 } }), Some(&names), &mut bytes).unwrap();
            bytes
        };
        let inline = encoded(&mut folds);
        names.intern("b");
        let half = encoded(&mut folds);
        let whole = encoded(&mut Encoder::new());
        assert!(inline.len() > half.len() && half.len() > whole.len());
        assert_eq!(encoded(&mut folds), whole);
        assert_eq!(encoded(&mut Encoder::of_known_names()), whole);
    }

    /// One document with keys as names could fill the table for all others.
    #[test]
    fn a_document_defines_some_names_and_the_next_one_more() {
        let names = Names::new();
        let map = (0..2500).map(|n| (format!("name {n}"), n));
        let value = crate::Value::Map(map.collect());
        let mut encoder = Encoder::new();
        for len in [1024, 2048, 2500, 2500] {
            let mut bytes = Vec::new();
            encoder.encode(&value, Some(&names), &mut bytes).unwrap();
            assert_eq!(names.len(), len);
            let view = crate::View::of(&bytes, Some(&names)).unwrap();
            assert_eq!(view.to_value().unwrap(), value);
        }
        // Those that are known have their ids, however many there are.
        let mut other = Encoder::new();
        let (mut inside, mut alone) = (Vec::new(), Vec::new());
        other.encode(&value, Some(&names), &mut inside).unwrap();
        other.encode(&value, None, &mut alone).unwrap();
        assert!(inside.len() + 2500 * 6 < alone.len());
    }
}
