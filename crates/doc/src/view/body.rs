//! The inside of an array or a map: the positions of its keys, tags, fixed area and heap.

use super::view::View;
use crate::layout::{form, heap_len, sum_of_widths, tag, width};
use crate::names::Names;
use flagstone_base::codec::varint_len;
use flagstone_base::{Decoder, Malformed};
use std::ops::Range;

/// The tags of a container's values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tags<'a> {
    Each(&'a [u8]),
    One(u8),
}

/// A container whose areas are known to lie within its bytes. Its values are not checked yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    pub(crate) form: u8,
    /// The number of values. A pair of a map with keys of any value counts as two.
    pub(crate) count: usize,
    pub(crate) keys: &'a [u8],
    pub(crate) tags: Tags<'a>,
    /// The bytes of the fixed area followed by the heap.
    pub(crate) values: &'a [u8],
    /// The offset of the heap in `values`.
    pub(crate) heap_at: usize,
    /// The offset of `values` in the document.
    at: usize,
    pub(crate) names: Option<&'a Names>,
}

/// The positions of a container's areas in its document. The areas follow one another; the fixed
/// area is between the tags and the heap.
#[derive(Clone, Debug)]
pub(crate) struct AreaPositions {
    pub(crate) count: Range<usize>,
    pub(crate) keys: Range<usize>,
    pub(crate) tags: Range<usize>,
    pub(crate) heap: Range<usize>,
}

/// The positions of the bytes of one value in its document.
#[derive(Clone, Debug)]
pub(crate) struct ValueBounds {
    pub(crate) tag: u8,
    pub(crate) fixed: Range<usize>,
    /// The bytes in the heap. If the value has none, an empty range where they would be.
    pub(crate) heap: Range<usize>,
}

/// The position of a value in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueOffset {
    pub(crate) index: usize,
    pub(crate) fixed: usize,
    pub(crate) heap: usize,
}

impl ValueOffset {
    /// Moves to the next value. This one has the tag `tag` and nothing in the heap.
    #[inline]
    pub(crate) fn skip(&mut self, tag: u8) {
        self.index += 1;
        self.fixed += width(tag);
    }
}

impl<'a> Body<'a> {
    pub(crate) fn open(view: &View<'a>) -> Result<Self, Malformed> {
        let payload = view.payload;
        let shifted = |malformed: Malformed| Malformed { at: view.at + malformed.at, ..malformed };
        let mut decoder = Decoder::new(payload);
        Self::read(view, &mut decoder).map_err(shifted)
    }

    fn read(view: &View<'a>, decoder: &mut Decoder<'a>) -> Result<Self, Malformed> {
        const TAGS: &str = "a tag for every value";
        let mut count = decoder.varint_usize("the number of values")?;
        let mut keys: &[u8] = &[];
        let tags = match view.form {
            form::ARRAY => Tags::Each(decoder.take(count, TAGS)?),
            form::ARRAY_OF_ONE_TAG => {
                let tag = decoder.u8(TAGS)?;
                if width(tag) == 0 {
                    return Err(decoder.refuse("a tag with a width for all values"));
                }
                Tags::One(tag)
            }
            form::IDS_1 | form::IDS_2 => {
                let key_width = usize::from(view.form - form::IDS_1) + 1;
                keys = decoder.take(count.saturating_mul(key_width), "a name for every value")?;
                Tags::Each(decoder.take(count, TAGS)?)
            }
            form::INLINE_NAMES => {
                let all = decoder.clone().rest();
                let start = decoder.position();
                for _ in 0..count {
                    decoder.bytes("a name for every value")?;
                }
                keys = &all[..decoder.position() - start];
                Tags::Each(decoder.take(count, TAGS)?)
            }
            form::PAIRS => {
                count = count.saturating_mul(2);
                Tags::Each(decoder.take(count, TAGS)?)
            }
            _ => return Err(decoder.refuse("a form of container that this version knows")),
        };
        let fixed = match tags {
            Tags::Each(tags) => sum_of_widths(tags),
            Tags::One(tag) => width(tag).saturating_mul(count),
        };
        let at = view.at + decoder.position();
        if fixed > decoder.remaining() {
            return Err(decoder.refuse("the fixed area of the values"));
        }
        let values = decoder.rest();
        Ok(Self {
            form: view.form,
            count,
            keys,
            tags,
            values,
            heap_at: fixed,
            at,
            names: view.names,
        })
    }

    /// Returns the tag of value `index`, which must be less than the number of values.
    #[inline]
    pub(crate) fn tag(&self, index: usize) -> u8 {
        match self.tags {
            Tags::Each(tags) => tags[index],
            Tags::One(tag) => tag,
        }
    }

    /// Returns the bytes from the fixed area of the value at `place` on: at least its width.
    #[inline]
    pub(crate) fn bytes_at(&self, place: ValueOffset) -> &'a [u8] {
        &self.values[place.fixed..]
    }

    /// Returns the place of the first value.
    pub(crate) const fn start(&self) -> ValueOffset {
        ValueOffset { index: 0, fixed: 0, heap: self.heap_at }
    }

    /// Returns the place of value `index`, which must be less than the number of values.
    pub(crate) fn place(&self, index: usize) -> ValueOffset {
        match self.tags {
            Tags::Each(tags) if !tag::is_in_heap(tags[index]) => {
                // The fixed area takes the sum of all widths, so summing the shorter side suffices.
                let fixed = if index <= tags.len() / 2 {
                    sum_of_widths(&tags[..index])
                } else {
                    self.heap_at - sum_of_widths(&tags[index..])
                };
                ValueOffset { index, fixed, heap: self.heap_at }
            }
            Tags::One(tag) if !tag::is_in_heap(tag) => {
                ValueOffset { index, fixed: width(tag) * index, heap: self.heap_at }
            }
            _ => {
                let mut place = self.start();
                while place.index < index {
                    self.step(&mut place);
                }
                place
            }
        }
    }

    /// Returns the same, with an exact heap offset even if the value has nothing in the heap.
    pub(crate) fn exact_place(&self, index: usize) -> ValueOffset {
        let mut place = self.start();
        while place.index < index {
            self.step(&mut place);
        }
        place
    }

    /// Returns the positions of the areas in the document.
    pub(crate) fn areas(&self) -> AreaPositions {
        let tags_len = if let Tags::Each(tags) = self.tags { tags.len() } else { 1 };
        let tags = self.at - tags_len..self.at;
        let keys = tags.start - self.keys.len()..tags.start;
        let count = if self.form == form::PAIRS { self.count / 2 } else { self.count };
        let count = keys.start - varint_len(count as u64)..keys.start;
        AreaPositions {
            count,
            keys,
            tags,
            heap: self.at + self.heap_at..self.at + self.values.len(),
        }
    }

    /// Returns the positions of the bytes of the value at an exact place.
    pub(crate) fn slot(&self, place: ValueOffset) -> Result<ValueBounds, Malformed> {
        let tag = self.tag(place.index);
        let fixed = place.fixed..place.fixed + width(tag);
        let len = heap_len(tag, &self.values[fixed.clone()]);
        let heap = place.heap..place.heap.saturating_add(len);
        if heap.end > self.values.len() {
            return Err(self.refuse(place.fixed, "a length within the heap"));
        }
        let shifted = |range: Range<usize>| self.at + range.start..self.at + range.end;
        Ok(ValueBounds { tag, fixed: shifted(fixed), heap: shifted(heap) })
    }

    /// Moves `place` to the next value.
    #[inline]
    pub(crate) fn step(&self, place: &mut ValueOffset) {
        let tag = self.tag(place.index);
        if tag::is_in_heap(tag) {
            let len = heap_len(tag, &self.values[place.fixed..]);
            place.heap = place.heap.saturating_add(len);
        }
        place.fixed += width(tag);
        place.index += 1;
    }

    /// Returns the value at `place`.
    #[inline]
    pub(crate) fn value(&self, mut place: ValueOffset) -> Result<View<'a>, Malformed> {
        self.next(&mut place)
    }

    /// Returns the value at `place`, and moves `place` to the next one. After an error `place` is
    /// meaningless.
    // Inlined always: a view that is returned in memory is stored in pieces and loaded as a whole,
    // which waits for all of them.
    #[inline(always)]
    pub(crate) fn next(&self, place: &mut ValueOffset) -> Result<View<'a>, Malformed> {
        let ValueOffset { index, fixed: fixed_at, heap: heap_at } = *place;
        let tag = self.tag(index);
        let fixed_end = fixed_at + width(tag);
        (place.index, place.fixed) = (index + 1, fixed_end);
        let names = self.names;
        if !tag::is_in_heap(tag) {
            if tag::is_reserved(tag) {
                return Err(self.refuse(fixed_at, "a tag that this version knows"));
            }
            let payload = &self.values[fixed_at..fixed_end];
            return Ok(View { tag, form: 0, at: self.at + fixed_at, payload, names });
        }
        let len = heap_len(tag, &self.values[fixed_at..]);
        let Some(payload) = self.values.get(heap_at..).and_then(|heap| heap.get(..len)) else {
            return Err(self.refuse(fixed_at, "a length within the heap"));
        };
        place.heap = heap_at + len;
        View::of_heap(tag, payload, self.at + heap_at, names)
    }

    /// Makes an error about the bytes `at` bytes after the beginning of the fixed area.
    pub(crate) const fn refuse(&self, at: usize, expected: &'static str) -> Malformed {
        Malformed { at: self.at + at, expected }
    }

    /// Checks that the names are UTF-8, that their ids are defined and that they are distinct.
    pub(crate) fn check_names(&self) -> Result<(), Malformed> {
        let (highest, differ) = match self.form {
            form::INLINE_NAMES => {
                let mut decoder = Decoder::new(self.keys);
                let name = |_| decoder.text("a name in UTF-8");
                let names = (0..self.count).map(name).collect::<Result<Vec<_>, _>>()?;
                (None, are_distinct(names.into_iter()))
            }
            form::IDS_1 => {
                let mut seen = [false; 256];
                let is_new = |id: &u8| !std::mem::replace(&mut seen[usize::from(*id)], true);
                (self.keys.iter().max().map(|id| u32::from(*id)), self.keys.iter().all(is_new))
            }
            form::IDS_2 => {
                let ids = self.keys.as_chunks().0.iter().map(|id| u16::from_le_bytes(*id));
                (ids.clone().max().map(u32::from), are_distinct(ids))
            }
            _ => (None, true),
        };
        if !differ {
            return Err(self.refuse(0, "distinct names"));
        }
        match highest {
            Some(id) if self.names.is_none_or(|names| id >= names.len()) => {
                Err(self.refuse(0, "defined names"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the index of the field `name` in a map of names.
    pub(crate) fn find(&self, name: &str) -> Result<Option<usize>, Malformed> {
        if self.form == form::INLINE_NAMES {
            let mut decoder = Decoder::new(self.keys);
            for index in 0..self.count {
                if decoder.bytes("a name")? == name.as_bytes() {
                    return Ok(Some(index));
                }
            }
            return Ok(None);
        }
        let Some(names) = self.names else {
            return Err(self.refuse(0, "a names table for the document"));
        };
        Ok(names.id(name).and_then(|id| self.find_id(id)))
    }

    /// Returns the id of the name of field `index`, in a map whose names are in the table.
    #[inline]
    pub(crate) fn id(&self, index: usize) -> u32 {
        if self.form == form::IDS_1 {
            return self.keys.get(index).copied().map_or(0, u32::from);
        }
        self.keys.as_chunks().0.get(index).map_or(0, |id| u16::from_le_bytes(*id).into())
    }

    /// Returns the index of the field whose name has this id.
    pub(crate) fn find_id(&self, id: u32) -> Option<usize> {
        if self.form == form::IDS_1 {
            return memchr::memchr(u8::try_from(id).ok()?, self.keys);
        }
        let id = u16::try_from(id).ok()?.to_le_bytes();
        self.keys.as_chunks().0.iter().position(|key| *key == id)
    }
}

/// Returns whether all keys are distinct: compares a few keys in pairs, sorts more of them.
fn are_distinct<K: Ord>(mut keys: impl ExactSizeIterator<Item = K> + Clone) -> bool {
    if keys.len() > 32 {
        let mut keys: Vec<K> = keys.collect();
        keys.sort_unstable();
        return keys.windows(2).all(|pair| pair[0] != pair[1]);
    }
    while let Some(key) = keys.next() {
        if keys.clone().any(|other| other == key) {
            return false;
        }
    }
    true
}
