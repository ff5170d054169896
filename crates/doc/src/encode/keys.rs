//! The names of all open maps, and the keys of a map of names: no duplicates, in the shortest form
//! that fits all of them.

use super::areas::{Areas, Frame, Scattered};
use super::memory::{KeyMemory, NONE};
use crate::layout::form;
use flagstone_base::codec::put_varint;

/// What an encoder or parser does with a key that comes twice in one map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// The last value wins and takes the place of the first.
    #[default]
    Last,
    /// The first value wins; later ones are dropped.
    First,
    /// The whole document is refused.
    Error,
}

/// The reason why a document cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuildError {
    /// The document would be larger than the largest allowed value.
    TooLarge,
    /// A key comes twice. `at` is the entry of its second occurrence in [`Keys::places`], or 0
    /// if `places` is empty.
    Duplicate { at: u32 },
}

/// The names of all open maps.
pub(crate) struct MapKeys {
    pub(crate) memory: KeyMemory,
    /// The slots of the names.
    pub(crate) slots: Vec<u32>,
    /// The positions of the names in the input, for errors about duplicates; empty if unused.
    pub(crate) places: Vec<u32>,
    /// One more than the highest name id used.
    pub(super) ids_used: u32,
}

impl MapKeys {
    /// Appends count, names, tags and fixed bytes of an open map of names; returns its form.
    pub(super) fn put(
        &mut self,
        areas: &mut Areas,
        frame: &Frame,
        duplicates: Duplicates,
        out: &mut Vec<u8>,
    ) -> Result<u8, BuildError> {
        let start = out.len();
        put_varint(out, (areas.tags.len() - frame.tags) as u64);
        let mut put = self.memory.known_keys(&self.slots[frame.keys..], out);
        if put.is_none() {
            self.settle_duplicates(areas, frame, duplicates)?;
            out.truncate(start);
            put_varint(out, (areas.tags.len() - frame.tags) as u64);
            let (names, at) = (&self.slots[frame.keys..], out.len());
            let (form, highest) = put_keys(&self.memory, names, out);
            self.memory.know_keys(names, &out[at..], form, highest);
            put = Some((form, highest));
        }
        let (form, highest) = put.unwrap_or((form::INLINE_NAMES, NONE));
        if form != form::INLINE_NAMES {
            self.ids_used = self.ids_used.max(highest + 1);
        }
        out.extend_from_slice(&areas.tags[frame.tags..]);
        out.extend_from_slice(&areas.fixed[frame.fixed..]);
        Ok(form)
    }

    #[inline]
    fn settle_duplicates(
        &mut self,
        areas: &mut Areas,
        frame: &Frame,
        duplicates: Duplicates,
    ) -> Result<(), BuildError> {
        // Each slot below 128 sets one bit: if the bits are as many as the keys, no key repeats.
        let keys = &self.slots[frame.keys..];
        let mut marks = 0_u128;
        let mut largest = 0;
        for &slot in keys {
            largest = largest.max(slot);
            marks |= 1 << (slot & 127);
        }
        if largest < 128 && marks.count_ones() as usize == keys.len() {
            return Ok(());
        }
        let Some(second) = self.memory.has_twice(keys.iter().copied()) else {
            return Ok(());
        };
        if duplicates == Duplicates::Error {
            let at = self.places.get(frame.keys + second).copied().unwrap_or(0);
            return Err(BuildError::Duplicate { at });
        }
        self.drop_duplicates(areas, frame, duplicates);
        Ok(())
    }

    /// Rewrites the areas of the open container with one value for each key.
    #[cold]
    fn drop_duplicates(&mut self, areas: &mut Areas, frame: &Frame, duplicates: Duplicates) {
        let keys = self.slots.split_off(frame.keys);
        let values = Scattered::take(areas, frame);
        let mut places = std::collections::HashMap::new();
        let mut kept: Vec<(u32, usize)> = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            let place = *places.entry(*key).or_insert(kept.len());
            if place == kept.len() {
                kept.push((*key, i));
            } else if duplicates == Duplicates::Last {
                kept[place].1 = i;
            }
        }
        for (key, i) in kept {
            self.slots.push(key);
            values.put(i, areas);
        }
    }
}

/// Appends the keys in the shortest form that fits all; returns the form and the highest id.
fn put_keys(memory: &KeyMemory, keys: &[u32], out: &mut Vec<u8>) -> (u8, u32) {
    let highest = keys.iter().fold(0, |highest, slot| memory.id(*slot).max(highest));
    if highest == NONE {
        for slot in keys {
            let name = memory.name(*slot);
            put_varint(out, name.len() as u64);
            out.extend_from_slice(name);
        }
        return (form::INLINE_NAMES, highest);
    }
    if highest < 256 {
        out.extend(keys.iter().map(|slot| memory.id(*slot) as u8));
        return (form::IDS_1, highest);
    }
    for slot in keys {
        out.extend_from_slice(&(memory.id(*slot) as u16).to_le_bytes());
    }
    (form::IDS_2, highest)
}
