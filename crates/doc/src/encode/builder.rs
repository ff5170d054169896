//! Builds the binary form front to back. Each value goes to its areas at once, and the areas of a
//! container are put together when it ends.
//!
//! Four stacks hold the keys, tags, fixed bytes and heaps of the open containers. A container owns
//! what lies above its [`Frame`]. At its end its body is assembled where its heap began, so each
//! level of nesting copies a byte once.

use super::areas::{Areas, Frame};
use super::keys::{BuildError, Duplicates, MapKeys};
use super::memory::KeyMemory;
use crate::layout::{USES_NAMES, VERSION, form, is_small, signed_width, tag, width};
use crate::names::Names;
use flagstone_base::codec::put_varint;
use flagstone_base::key::VALUE_BYTES_MAX;
use flagstone_base::large_buffer::reserve_large;

/// The kind of container that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Array,
    /// A map whose keys were all put as names.
    Names(Duplicates),
    /// A map whose names were appended to [`Builder::inline`] from `at` on; they are distinct.
    #[cfg(feature = "serde")]
    Inline {
        at: usize,
    },
    /// A map whose keys and values were put alternately, in the order of the keys.
    Pairs,
}

/// A container that a [`DocumentWriter`](super::DocumentWriter) has open.
pub(crate) struct OpenContainer {
    pub(crate) frame: Frame,
    pub(crate) container: Container,
    /// The slot of the name whose value the container is.
    pub(crate) parent: u32,
    /// The slot of the last name in it.
    pub(crate) last: u32,
}

impl OpenContainer {
    /// Returns the slot of the name whose value comes next. The items of an array count as values
    /// of the array's name.
    pub(crate) fn parent_of_value(&self) -> u32 {
        if self.container == Container::Array { self.parent } else { self.last }
    }
}

pub(crate) struct Builder {
    pub(crate) keys: MapKeys,
    pub(crate) areas: Areas,
    /// Names of open maps that are stored in the document even if the table has them, each as
    /// length and text.
    pub(crate) inline: Vec<u8>,
    head: Vec<u8>,
    pub(crate) open: Vec<OpenContainer>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            keys: MapKeys {
                memory: KeyMemory::new(),
                slots: Vec::new(),
                places: Vec::new(),
                ids_used: 0,
            },
            areas: Areas::default(),
            inline: Vec::new(),
            head: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Prepares for a document; called before each.
    pub(crate) fn start(&mut self, names: Option<&Names>) {
        self.keys.memory.begin(names);
        self.rest();
        self.keys.slots.clear();
        self.keys.places.clear();
        self.inline.clear();
        self.open.clear();
        self.areas.tags.clear();
        self.areas.fixed.clear();
        self.areas.heap.clear();
        self.keys.ids_used = 0;
    }

    /// Frees the memory that a large document took; called after each document, even a refused one.
    pub(crate) fn rest(&mut self) {
        forget_large(&mut self.keys.slots);
        forget_large(&mut self.keys.places);
        forget_large(&mut self.inline);
        forget_large(&mut self.areas.tags);
        forget_large(&mut self.areas.fixed);
        forget_large(&mut self.areas.heap);
        forget_large(&mut self.head);
    }

    #[cfg(test)]
    pub(crate) const fn kept_bytes(&self) -> usize {
        let keys = (self.keys.slots.capacity() + self.keys.places.capacity()) * size_of::<u32>();
        let values =
            self.areas.tags.capacity() + self.areas.fixed.capacity() + self.areas.heap.capacity();
        keys + values + self.inline.capacity() + self.head.capacity()
    }

    /// Returns the number of heap bytes of all open containers.
    pub(crate) const fn heap_bytes(&self) -> usize {
        self.areas.heap.len()
    }

    /// Opens a container; [`Builder::end`] closes it.
    #[inline]
    pub(crate) fn begin(&self) -> Frame {
        Frame {
            keys: self.keys.slots.len(),
            tags: self.areas.tags.len(),
            fixed: self.areas.fixed.len(),
            heap: self.areas.heap.len(),
        }
    }

    /// Appends a value that consists of its tag alone.
    #[inline]
    pub(crate) fn tag(&mut self, tag: u8) {
        self.areas.tags.push(tag);
    }

    #[inline]
    pub(crate) fn int(&mut self, value: i64) {
        if is_small(value) {
            self.areas.tags.push((i64::from(tag::SMALL_INT_ZERO) + value) as u8);
            return;
        }
        let width = signed_width(value);
        self.areas.tags.push(tag::INT_1 + width as u8 - 1);
        self.areas.fixed.extend_from_slice(&value.to_le_bytes());
        self.areas.fixed.truncate(self.areas.fixed.len() - (8 - width));
    }

    /// Appends an integer of 64 bits: one that fits 32 bits takes more bytes than it needs.
    pub(crate) fn long(&mut self, value: i64) {
        if i32::try_from(value).is_err() {
            return self.int(value);
        }
        let width = if is_small(value) { 1 } else { signed_width(value) + 1 };
        self.areas.tags.push(tag::INT_1 + width as u8 - 1);
        self.areas.fixed.extend_from_slice(&value.to_le_bytes()[..width]);
    }

    /// Appends a value of fixed width.
    #[inline]
    pub(crate) fn fixed(&mut self, tag: u8, bytes: &[u8]) {
        debug_assert_eq!(width(tag), bytes.len(), "the width of a tag");
        self.areas.tags.push(tag);
        self.areas.fixed.extend_from_slice(bytes);
    }

    /// Appends the number `coefficient / 10^scale`; the coefficient has at most 56 bits.
    #[inline]
    pub(crate) fn decimal(&mut self, coefficient: i64, scale: u8) {
        let wide = (coefficient << 8 | i64::from(scale)).to_le_bytes();
        if signed_width(coefficient) <= 3 {
            self.fixed(tag::DECIMAL_4, &wide[..4]);
        } else {
            self.fixed(tag::DECIMAL_8, &wide);
        }
    }

    #[inline]
    pub(crate) fn text(&mut self, text: &[u8]) {
        if text.len() <= tag::TEXT_INLINE_MAX {
            self.areas.tags.push(tag::TEXT + text.len() as u8);
            self.areas.fixed.extend_from_slice(text);
        } else if text.len() <= usize::from(u16::MAX) {
            self.in_heap(tag::TEXT_2, text);
        } else {
            self.in_heap(tag::TEXT_4, text);
        }
    }

    /// Appends the text in the first `len` bytes of a block of 16.
    #[inline]
    pub(crate) fn short_text(&mut self, block: &[u8; 16], len: usize) {
        self.areas.tags.push(tag::TEXT + len as u8);
        // Copying all 16 bytes is faster than calling a copy of variable length.
        let end = self.areas.fixed.len() + len;
        self.areas.fixed.extend_from_slice(block);
        self.areas.fixed.truncate(end);
    }

    /// Appends a number as its literal. If a smaller form fits, it is a Decimal128.
    pub(crate) fn literal(&mut self, literal: &[u8]) {
        let short = literal.len() <= usize::from(u8::MAX);
        self.in_heap(if short { tag::LITERAL_1 } else { tag::LITERAL_4 }, literal);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let short = bytes.len() <= usize::from(u8::MAX);
        self.in_heap(if short { tag::BYTES_1 } else { tag::BYTES_4 }, bytes);
    }

    /// Appends a value whose payload is in the heap.
    pub(crate) fn in_heap(&mut self, tag: u8, payload: &[u8]) {
        self.areas.tags.push(tag);
        self.areas.fixed.extend_from_slice(&(payload.len() as u64).to_le_bytes()[..width(tag)]);
        if payload.len() >= KEPT_BYTES_MAX {
            reserve_large(&mut self.areas.heap, payload.len());
        }
        self.areas.heap.extend_from_slice(payload);
    }

    /// Appends an array or a map whose form and payload are copied from a document that uses the
    /// same names table. All names of the table count as used.
    pub(crate) fn copied(
        &mut self,
        is_array: bool,
        form: u8,
        payload: &[u8],
        names: Option<&Names>,
    ) -> Result<(), BuildError> {
        let len = payload.len() + 1;
        if len > VALUE_BYTES_MAX {
            return Err(BuildError::TooLarge);
        }
        let tag = container_tag(is_array, len);
        self.areas.tags.push(tag);
        self.areas.fixed.extend_from_slice(&(len as u64).to_le_bytes()[..width(tag)]);
        self.areas.heap.push(form);
        self.areas.heap.extend_from_slice(payload);
        self.keys.ids_used = self.keys.ids_used.max(names.map_or(0, Names::len));
        Ok(())
    }

    /// Ends the container that [`Builder::begin`] opened. It becomes a value of its parent.
    pub(crate) fn end(&mut self, frame: Frame, container: Container) -> Result<(), BuildError> {
        if self.areas.tags.len() == frame.tags {
            let is_array = container == Container::Array;
            self.areas.tags.push(if is_array { tag::EMPTY_ARRAY } else { tag::EMPTY_MAP });
            return Ok(());
        }
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        head.push(0);
        head[0] = self.put_head(&frame, container, &mut head)?;
        let inner = frame.heap..self.areas.heap.len();
        if inner.is_empty() {
            self.areas.heap.extend_from_slice(&head);
        } else {
            self.areas.heap.resize(inner.end + head.len(), 0);
            self.areas.heap.copy_within(inner, frame.heap + head.len());
            self.areas.heap[frame.heap..][..head.len()].copy_from_slice(&head);
        }
        self.head = head;
        self.keys.slots.truncate(frame.keys);
        self.keys.places.truncate(frame.keys);
        self.areas.tags.truncate(frame.tags);
        self.areas.fixed.truncate(frame.fixed);
        let len = self.areas.heap.len() - frame.heap;
        let tag = container_tag(container == Container::Array, len);
        if len > VALUE_BYTES_MAX {
            return Err(BuildError::TooLarge);
        }
        self.areas.tags.push(tag);
        self.areas.fixed.extend_from_slice(&(len as u64).to_le_bytes()[..width(tag)]);
        Ok(())
    }

    /// Appends the finished document. Its root is the open container, or the only value if no
    /// container is open. Returns one more than the highest name id used.
    pub(crate) fn finish(
        &mut self,
        root: Option<Container>,
        out: &mut Vec<u8>,
    ) -> Result<u32, BuildError> {
        let finished = self.finish_document(root, out);
        self.rest();
        finished
    }

    fn finish_document(
        &mut self,
        root: Option<Container>,
        out: &mut Vec<u8>,
    ) -> Result<u32, BuildError> {
        let start = out.len();
        let all = Frame { keys: 0, tags: 0, fixed: 0, heap: 0 };
        let room = self.areas.fixed.len() + self.areas.heap.len() + 4 * self.areas.tags.len() + 16;
        if room < KEPT_BYTES_MAX {
            out.reserve(room)
        } else {
            reserve_large(out, room)
        }
        out.push(0);
        let form = match root {
            Some(container) if !self.areas.tags.is_empty() => {
                self.put_head(&all, container, out)?
            }
            _ => {
                if let Some(container) = root {
                    self.end(all, container)?;
                }
                out.extend_from_slice(&self.areas.tags);
                out.extend_from_slice(&self.areas.fixed);
                form::BARE
            }
        };
        out.extend_from_slice(&self.areas.heap);
        if out.len() - start > VALUE_BYTES_MAX {
            out.truncate(start);
            return Err(BuildError::TooLarge);
        }
        let uses_names = if self.keys.ids_used > 0 { USES_NAMES } else { 0 };
        out[start] = VERSION << 4 | uses_names | form;
        Ok(self.keys.ids_used)
    }

    /// Appends count, keys, tags and fixed bytes of a container; returns its form.
    fn put_head(
        &mut self,
        frame: &Frame,
        container: Container,
        out: &mut Vec<u8>,
    ) -> Result<u8, BuildError> {
        if let Container::Names(duplicates) = container {
            return self.keys.put(&mut self.areas, frame, duplicates, out);
        }
        let tags = &self.areas.tags[frame.tags..];
        let fixed = &self.areas.fixed[frame.fixed..];
        let form = match container {
            Container::Array => {
                put_varint(out, tags.len() as u64);
                let one = tags.len() > 1 && width(tags[0]) > 0 && all_same(tags);
                out.extend_from_slice(if one { &tags[..1] } else { tags });
                out.extend_from_slice(fixed);
                return Ok(if one { form::ARRAY_OF_ONE_TAG } else { form::ARRAY });
            }
            #[cfg(feature = "serde")]
            Container::Inline { at } => {
                put_varint(out, tags.len() as u64);
                out.extend_from_slice(&self.inline[at..]);
                self.inline.truncate(at);
                form::INLINE_NAMES
            }
            _ => {
                put_varint(out, tags.len() as u64 / 2);
                form::PAIRS
            }
        };
        out.extend_from_slice(tags);
        out.extend_from_slice(fixed);
        Ok(form)
    }
}

/// The capacity in bytes up to which each buffer is kept for the next document. Only rare
/// documents need more.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Frees a buffer that is too large to be kept.
#[inline]
pub(crate) fn forget_large<T>(buffer: &mut Vec<T>) {
    if buffer.capacity() * size_of::<T>() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
    }
}

/// Returns the tag of an array or a map of this many bytes.
fn container_tag(is_array: bool, len: usize) -> u8 {
    let (short, long) =
        if is_array { (tag::ARRAY_2, tag::ARRAY_4) } else { (tag::MAP_2, tag::MAP_4) };
    if len <= usize::from(u16::MAX) { short } else { long }
}

fn all_same(tags: &[u8]) -> bool {
    tags.iter().all(|tag| *tag == tags[0])
}
