//! Writes the keys of a map of names: no duplicates, in the shortest form that fits all of them.

use super::builder::{BuildError, Builder, Duplicates, Frame};
use super::memory::{KeyMemory, NONE};
use crate::layout::{form, heap_len, width};
use flagstone_base::codec::put_varint;

impl Builder {
    /// Appends count, names, tags and fixed bytes of an open map of names; returns its form.
    pub(super) fn put_names(
        &mut self,
        frame: &Frame,
        duplicates: Duplicates,
        out: &mut Vec<u8>,
    ) -> Result<u8, BuildError> {
        let start = out.len();
        put_varint(out, (self.tags.len() - frame.tags) as u64);
        let mut put = self.memory.known_keys(&self.keys[frame.keys..], out);
        if put.is_none() {
            self.settle_duplicates(frame, duplicates)?;
            out.truncate(start);
            put_varint(out, (self.tags.len() - frame.tags) as u64);
            let (names, at) = (&self.keys[frame.keys..], out.len());
            let (form, highest) = put_keys(&self.memory, names, out);
            self.memory.know_keys(names, &out[at..], form, highest);
            put = Some((form, highest));
        }
        let (form, highest) = put.unwrap_or((form::INLINE_NAMES, NONE));
        if form != form::INLINE_NAMES {
            self.names_used = self.names_used.max(highest + 1);
        }
        out.extend_from_slice(&self.tags[frame.tags..]);
        out.extend_from_slice(&self.fixed[frame.fixed..]);
        Ok(form)
    }

    #[inline]
    fn settle_duplicates(
        &mut self,
        frame: &Frame,
        duplicates: Duplicates,
    ) -> Result<(), BuildError> {
        // Each slot below 128 sets one bit: if the bits are as many as the keys, no key repeats.
        let keys = &self.keys[frame.keys..];
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
        self.drop_duplicates(frame, duplicates);
        Ok(())
    }

    /// Rewrites the areas of the open container with one value for each key.
    #[cold]
    fn drop_duplicates(&mut self, frame: &Frame, duplicates: Duplicates) {
        let keys = self.keys.split_off(frame.keys);
        let values = Scattered::take(self, frame);
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
            self.keys.push(key);
            values.put(i, self);
        }
    }
}

/// Values taken out of an open container, to be put back in another order or number.
pub(crate) struct Scattered {
    tags: Vec<u8>,
    fixed: Vec<u8>,
    heap: Vec<u8>,
    /// The offset of each value in tags, fixed bytes and heap, then the ends of the three.
    bounds: Vec<[usize; 3]>,
}

impl Scattered {
    fn new(builder: &mut Builder, frame: &Frame) -> Self {
        Self {
            tags: builder.tags.split_off(frame.tags),
            fixed: builder.fixed.split_off(frame.fixed),
            heap: builder.heap.split_off(frame.heap),
            bounds: Vec::new(),
        }
    }

    /// Takes out the values one by one.
    pub(crate) fn take(builder: &mut Builder, frame: &Frame) -> Self {
        let mut all = Self::new(builder, frame);
        let (mut fixed_at, mut heap_at) = (0, 0);
        all.bounds.push([0; 3]);
        for (i, tag) in all.tags.iter().enumerate() {
            heap_at += heap_len(*tag, &all.fixed[fixed_at..]);
            fixed_at += width(*tag);
            all.bounds.push([i + 1, fixed_at, heap_at]);
        }
        all
    }

    /// Takes out the values in groups; each group begins at one of `starts`.
    #[cfg(feature = "serde")]
    pub(crate) fn take_groups(builder: &mut Builder, frame: &Frame, starts: &[Frame]) -> Self {
        let mut all = Self::new(builder, frame);
        let bound =
            |at: &Frame| [at.tags - frame.tags, at.fixed - frame.fixed, at.heap - frame.heap];
        all.bounds = starts.iter().map(bound).collect();
        all.bounds.push([all.tags.len(), all.fixed.len(), all.heap.len()]);
        all
    }

    /// Appends value or group `index` to the builder.
    pub(crate) fn put(&self, index: usize, builder: &mut Builder) {
        let ([tags, fixed, heap], end) = (self.bounds[index], self.bounds[index + 1]);
        builder.tags.extend_from_slice(&self.tags[tags..end[0]]);
        builder.fixed.extend_from_slice(&self.fixed[fixed..end[1]]);
        builder.heap.extend_from_slice(&self.heap[heap..end[2]]);
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
