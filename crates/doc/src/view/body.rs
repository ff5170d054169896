//! The inside of an array or a map: where its keys, tags, fixed area and heap lie.

use super::view::View;
use crate::layout::{form, heap_len, sum_of_widths, tag, width};
use crate::names::Names;
use flagstone_base::{Decoder, Malformed};

/// The tags of a container's values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tags<'a> {
    Each(&'a [u8]),
    One(u8),
}

/// A container whose areas are known to lie within its bytes; its values are not checked yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a> {
    pub(super) form: u8,
    /// How many values; a pair of a map with keys of any value counts as two.
    pub(super) count: usize,
    pub(super) keys: &'a [u8],
    pub(super) tags: Tags<'a>,
    /// The fixed area, then the heap.
    pub(super) values: &'a [u8],
    /// Where the heap begins in `values`.
    pub(super) heap_at: usize,
    /// Where `values` begins in the document.
    at: usize,
    pub(super) names: Option<&'a Names>,
}

/// Where a value lies in a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) fixed: usize,
    pub(super) heap: usize,
}

impl<'a> Body<'a> {
    pub(super) fn open(view: &View<'a>) -> Result<Self, Malformed> {
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
                    return Err(decoder.refuse("a tag with a width, for all values"));
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

    #[inline]
    fn tag(&self, index: usize) -> u8 {
        match self.tags {
            Tags::Each(tags) => tags[index],
            Tags::One(tag) => tag,
        }
    }

    /// The place of the first value.
    pub(super) const fn start(&self) -> Place {
        Place { index: 0, fixed: 0, heap: self.heap_at }
    }

    /// The place of value `index`, which is one of the container's.
    pub(super) fn place(&self, index: usize) -> Place {
        match self.tags {
            Tags::Each(tags) if !tag::is_in_heap(tags[index]) => {
                Place { index, fixed: sum_of_widths(&tags[..index]), heap: self.heap_at }
            }
            Tags::One(tag) if !tag::is_in_heap(tag) => {
                Place { index, fixed: width(tag) * index, heap: self.heap_at }
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

    /// From one value to the next.
    #[inline]
    pub(super) fn step(&self, place: &mut Place) {
        let tag = self.tag(place.index);
        if tag::is_in_heap(tag) {
            let len = heap_len(tag, &self.values[place.fixed..]);
            place.heap = place.heap.saturating_add(len);
        }
        place.fixed += width(tag);
        place.index += 1;
    }

    /// The value at `place`.
    #[inline]
    pub(super) fn value(&self, place: Place) -> Result<View<'a>, Malformed> {
        let tag = self.tag(place.index);
        let fixed = &self.values[place.fixed..place.fixed + width(tag)];
        if !tag::is_in_heap(tag) {
            if tag::is_reserved(tag) {
                return Err(self.refuse(place.fixed, "a tag that this version knows"));
            }
            let at = self.at + place.fixed;
            return Ok(View { tag, form: 0, at, payload: fixed, names: self.names });
        }
        let len = heap_len(tag, fixed);
        let Some(payload) = self.values.get(place.heap..).and_then(|heap| heap.get(..len)) else {
            return Err(self.refuse(place.fixed, "a length that ends in the heap"));
        };
        View::of_heap(tag, payload, self.at + place.heap, self.names)
    }

    /// The refusal of what stands `at` bytes behind the beginning of the fixed area.
    pub(super) const fn refuse(&self, at: usize, expected: &'static str) -> Malformed {
        Malformed { at: self.at + at, expected }
    }

    /// Refuses names that are not UTF-8, and ids that stand for none.
    pub(super) fn check_names(&self) -> Result<(), Malformed> {
        let highest = match self.form {
            form::INLINE_NAMES => {
                let mut decoder = Decoder::new(self.keys);
                for _ in 0..self.count {
                    decoder.text("a name in UTF-8")?;
                }
                return Ok(());
            }
            form::IDS_1 => self.keys.iter().max().map(|id| u32::from(*id)),
            form::IDS_2 => {
                self.keys.as_chunks().0.iter().map(|id| u16::from_le_bytes(*id).into()).max()
            }
            _ => None,
        };
        match highest {
            Some(id) if self.names.is_none_or(|names| id >= names.len()) => {
                Err(self.refuse(0, "names that are defined"))
            }
            _ => Ok(()),
        }
    }

    /// The place of the field `name` among those of a map that has names.
    pub(super) fn find(&self, name: &str) -> Result<Option<usize>, Malformed> {
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
            return Err(self.refuse(0, "a names table beside the document"));
        };
        Ok(names.id(name).and_then(|id| self.find_id(id)))
    }

    /// The place of the field whose name has this id.
    pub(super) fn find_id(&self, id: u32) -> Option<usize> {
        if self.form == form::IDS_1 {
            return memchr::memchr(u8::try_from(id).ok()?, self.keys);
        }
        let id = u16::try_from(id).ok()?.to_le_bytes();
        self.keys.as_chunks().0.iter().position(|key| *key == id)
    }
}
