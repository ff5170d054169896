//! Replaces values in the bytes of a document: keeps the bytes before and after the value, replaces
//! its tag and payload, and corrects the lengths of the containers around it.
//!
//! A document in normal form (the bytes that encoding its value gives) stays in normal form. A
//! change that needs another form of container is not spliced.

use super::follow::{ContainerLayout, ContainerOnPath};
use super::form::PathSegment;
use crate::encode::forget_large;
use crate::layout::{FORM_BITS, USES_NAMES, form, tag, width};
use crate::names::Names;
use flagstone_base::codec::put_varint;
use flagstone_base::key::VALUE_BYTES_MAX;
use std::ops::Range;

/// Replacements of byte ranges that do not overlap.
#[derive(Default)]
pub(super) struct Edits {
    list: Vec<Edit>,
    /// The new bytes of all replacements.
    bytes: Vec<u8>,
    grows_by: isize,
    /// The first byte of the document.
    header: u8,
}

struct Edit {
    at: Range<usize>,
    with: Range<usize>,
}

/// Reports that the bytes cannot be spliced: the caller decodes the document instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotSpliced;

/// A container that receives one more value.
pub(super) struct Open<'a> {
    pub(super) container: &'a ContainerLayout,
    /// The name of the new value, if the container is a map.
    pub(super) name: Option<PathSegment<'a>>,
    pub(super) names: Option<&'a Names>,
}

/// A value in the form it has in a container, taken from a document of its own.
pub(super) struct ContainerValue<'a> {
    pub(super) tag: u8,
    fixed: &'a [u8],
    /// The length of a container's payload, which is stored in the fixed area.
    length: [u8; 4],
    /// The form of a container, which comes before the rest of its payload.
    head: Option<u8>,
    heap: &'a [u8],
    uses_names: bool,
}

impl<'a> ContainerValue<'a> {
    /// Takes the root of a validated document.
    pub(super) fn of(document: &'a [u8]) -> Option<Self> {
        let (header, rest) = document.split_first()?;
        let uses_names = header & USES_NAMES != 0;
        let root = header & FORM_BITS;
        if root == form::BARE {
            let (tag, rest) = rest.split_first()?;
            let (fixed, heap) = rest.split_at_checked(width(*tag))?;
            return Some(Self { tag: *tag, fixed, length: [0; 4], head: None, heap, uses_names });
        }
        let len = rest.len() + 1;
        let long = u8::from(len > usize::from(u16::MAX));
        let short = if root <= form::ARRAY_OF_ONE_TAG { tag::ARRAY_2 } else { tag::MAP_2 };
        let length = u32::try_from(len).ok()?.to_le_bytes();
        let head = Some(root);
        Some(Self { tag: short + long, fixed: &[], length, head, heap: rest, uses_names })
    }

    fn fixed(&self) -> &[u8] {
        if self.head.is_some() { &self.length[..width(self.tag)] } else { self.fixed }
    }
}

impl Edits {
    /// Prepares for a splice of a document with this `header`; called before each.
    pub(super) fn begin(&mut self, header: u8) {
        self.header = header;
        self.list.clear();
        self.bytes.clear();
        self.grows_by = 0;
    }

    /// Frees the memory that a large document took; called after its splices.
    pub(super) fn rest(&mut self) {
        forget_large(&mut self.bytes);
    }

    #[cfg(test)]
    pub(super) const fn kept_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    fn replace(&mut self, at: Range<usize>, with: &[u8]) {
        self.replace_by(at, |bytes| bytes.extend_from_slice(with));
    }

    fn replace_by(&mut self, at: Range<usize>, put: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        put(&mut self.bytes);
        let with = start..self.bytes.len();
        if at.is_empty() && with.is_empty() {
            return;
        }
        self.grows_by += with.len() as isize - at.len() as isize;
        self.list.push(Edit { at, with });
    }

    fn put_heap(&mut self, at: Range<usize>, piece: &ContainerValue<'_>) {
        self.replace_by(at, |bytes| {
            bytes.extend(piece.head);
            bytes.extend_from_slice(piece.heap);
        });
    }

    fn note_names(&mut self, uses_names: bool) {
        if uses_names && self.header & USES_NAMES == 0 {
            self.replace(0..1, &[self.header | USES_NAMES]);
        }
    }

    /// Refuses to remove a value that may be the last one with names stored as ids.
    fn take_names(&self, tag: u8) -> Result<(), NotSpliced> {
        let root = self.header & FORM_BITS;
        let others_have = matches!(root, form::IDS_1 | form::IDS_2);
        let is_container = (tag::ARRAY_2..=tag::MAP_4).contains(&tag);
        let may_be_last = self.header & USES_NAMES != 0 && !others_have && is_container;
        if may_be_last { Err(NotSpliced) } else { Ok(()) }
    }

    /// Replaces the tag of the value that `level` leads to.
    fn put_tag(
        &mut self,
        document: &[u8],
        level: &ContainerOnPath,
        tag: u8,
    ) -> Result<(), NotSpliced> {
        let at = tag_at(level)?;
        if gets_one_tag(document, level, Some(tag)) {
            return Err(NotSpliced);
        }
        self.replace(at, &[tag]);
        Ok(())
    }

    /// Replaces the value that `levels` lead to by `piece`.
    pub(super) fn put(
        &mut self,
        document: &[u8],
        levels: &[ContainerOnPath],
        piece: &ContainerValue<'_>,
    ) -> Result<(), NotSpliced> {
        let Some((last, around)) = levels.split_last() else { return Err(NotSpliced) };
        if !piece.uses_names {
            self.take_names(last.slot.tag)?;
        }
        if last.slot.tag != piece.tag {
            self.put_tag(document, last, piece.tag)?;
        }
        self.replace(last.slot.fixed.clone(), piece.fixed());
        self.put_heap(last.slot.heap.clone(), piece);
        self.stretch(document, around)?;
        self.note_names(piece.uses_names);
        Ok(())
    }

    /// Adds `piece` as the last value of the container that `levels` lead to.
    pub(super) fn add(
        &mut self,
        document: &[u8],
        levels: &[ContainerOnPath],
        open: &Open<'_>,
        piece: &ContainerValue<'_>,
    ) -> Result<(), NotSpliced> {
        let areas = &open.container.areas;
        let at = [areas.tags.end, areas.heap.start, areas.heap.end];
        self.insert_at(document, open, at, piece)?;
        self.stretch(document, levels)?;
        self.note_names(piece.uses_names);
        Ok(())
    }

    /// Inserts `piece` before the element that `levels` lead to.
    pub(super) fn insert(
        &mut self,
        document: &[u8],
        levels: &[ContainerOnPath],
        piece: &ContainerValue<'_>,
    ) -> Result<(), NotSpliced> {
        let Some((ContainerOnPath { container, index, slot }, around)) = levels.split_last() else {
            return Err(NotSpliced);
        };
        let at = [container.areas.tags.start + index, slot.fixed.start, slot.heap.start];
        self.insert_at(document, &Open { container, name: None, names: None }, at, piece)?;
        self.stretch(document, around)?;
        self.note_names(piece.uses_names);
        Ok(())
    }

    /// Inserts tag, fixed bytes and heap bytes of `piece` at these offsets of the document.
    fn insert_at(
        &mut self,
        document: &[u8],
        open: &Open<'_>,
        [tag_at, fixed_at, heap_at]: [usize; 3],
        piece: &ContainerValue<'_>,
    ) -> Result<(), NotSpliced> {
        let container = open.container;
        let areas = &container.areas;
        // Values that all share one tag with a width form an array of one tag.
        let is_alike = document.get(areas.tags.start) == Some(&piece.tag);
        let begins_alike = container.form == form::ARRAY && container.count == 1 && is_alike;
        if begins_alike && width(piece.tag) > 0 {
            return Err(NotSpliced);
        }
        self.replace_by(areas.count.clone(), |bytes| put_varint(bytes, container.count as u64 + 1));
        if let Some(step) = open.name {
            self.add_key(container, step, open.names)?;
        }
        if !container.has_one_tag() {
            self.replace(tag_at..tag_at, &[piece.tag]);
        } else if !is_alike {
            return Err(NotSpliced);
        }
        self.replace(fixed_at..fixed_at, piece.fixed());
        self.put_heap(heap_at..heap_at, piece);
        Ok(())
    }

    fn add_key(
        &mut self,
        container: &ContainerLayout,
        step: PathSegment<'_>,
        names: Option<&Names>,
    ) -> Result<(), NotSpliced> {
        let end = container.areas.keys.end;
        let width = container.id_width();
        if width == 0 {
            self.replace_by(end..end, |bytes| {
                put_varint(bytes, step.name.len() as u64);
                bytes.extend_from_slice(step.name.as_bytes());
            });
            return Ok(());
        }
        self.replace(end..end, &id_bytes(step, names, width)?[..width]);
        Ok(())
    }

    /// Renames the field that `levels` lead to; its map has no field of the new name.
    pub(super) fn rename(
        &mut self,
        document: &[u8],
        levels: &[ContainerOnPath],
        step: PathSegment<'_>,
        names: Option<&Names>,
    ) -> Result<(), NotSpliced> {
        let Some(ContainerOnPath { container, index, .. }) = levels.last() else {
            return Err(NotSpliced);
        };
        let width = container.id_width();
        if width == 0 {
            return Err(NotSpliced);
        }
        let id = id_bytes(step, names, width)?;
        if id[1] == 0 && gets_short_ids(document, container, *index) {
            return Err(NotSpliced);
        }
        let keys = &document[container.areas.keys.clone()];
        if keys.chunks_exact(width).any(|key| key == &id[..width]) {
            return Err(NotSpliced);
        }
        let at = container.areas.keys.start + index * width;
        self.replace(at..at + width, &id[..width]);
        Ok(())
    }

    /// Removes the value that `levels` lead to.
    pub(super) fn remove(
        &mut self,
        document: &[u8],
        levels: &[ContainerOnPath],
    ) -> Result<(), NotSpliced> {
        let Some((last, around)) = levels.split_last() else { return Err(NotSpliced) };
        let ContainerOnPath { container, index, slot } = last;
        let areas = &container.areas;
        let width = container.id_width();
        // An empty container has another form, and so has one value left of an array of one tag.
        let is_last = container.count == 1 || container.count == 2 && container.has_one_tag();
        if is_last
            || container.form == form::INLINE_NAMES
            || gets_one_tag(document, last, None)
            || gets_short_ids(document, container, *index)
        {
            return Err(NotSpliced);
        }
        self.take_names(slot.tag)?;
        self.replace_by(areas.count.clone(), |bytes| put_varint(bytes, container.count as u64 - 1));
        let key_at = areas.keys.start + index * width;
        self.replace(key_at..key_at + width, &[]);
        if !container.has_one_tag() {
            self.replace(tag_at(last)?, &[]);
        }
        self.replace(slot.fixed.clone(), &[]);
        self.replace(slot.heap.clone(), &[]);
        self.stretch(document, around)
    }

    /// Writes the new lengths of the enclosing containers, which have grown by the edits so far.
    fn stretch(&mut self, document: &[u8], around: &[ContainerOnPath]) -> Result<(), NotSpliced> {
        let mut grows_by = self.grows_by;
        for level in around.iter().rev() {
            if grows_by == 0 {
                return Ok(());
            }
            let slot = &level.slot;
            let len = slot.heap.len().saturating_add_signed(grows_by);
            let bytes = u32::try_from(len).map_err(|_too_long| NotSpliced)?.to_le_bytes();
            let width = if len > usize::from(u16::MAX) { 4 } else { 2 };
            // The next tag is the same kind of container with a wider length.
            if slot.fixed.len() < width {
                self.put_tag(document, level, slot.tag + 1)?;
                grows_by += 2;
            } else if slot.fixed.len() > width {
                self.put_tag(document, level, slot.tag - 1)?;
                grows_by -= 2;
            }
            self.replace(slot.fixed.clone(), &bytes[..width]);
        }
        Ok(())
    }

    /// Performs the edits. Returns false if the document would be larger than the limit.
    pub(super) fn perform(&mut self, document: &mut Vec<u8>, scratch: &mut Vec<u8>) -> bool {
        let len = document.len().saturating_add_signed(self.grows_by);
        if len > VALUE_BYTES_MAX {
            return false;
        }
        if self.list.iter().all(|edit| edit.at.len() == edit.with.len()) {
            for Edit { at, with } in &self.list {
                document[at.clone()].copy_from_slice(&self.bytes[with.clone()]);
            }
            return true;
        }
        // The sort is stable: edits at one offset stay in the order in which they were added.
        self.list.sort_by_key(|edit| edit.at.start);
        scratch.clear();
        scratch.reserve(len);
        let mut from = 0;
        for Edit { at, with } in &self.list {
            scratch.extend_from_slice(&document[from..at.start]);
            scratch.extend_from_slice(&self.bytes[with.clone()]);
            from = at.end;
        }
        scratch.extend_from_slice(&document[from..]);
        std::mem::swap(document, scratch);
        true
    }
}

/// Returns the position of the tag of the value that `level` leads to, if the value has a tag of
/// its own.
fn tag_at(level: &ContainerOnPath) -> Result<Range<usize>, NotSpliced> {
    if level.container.has_one_tag() {
        return Err(NotSpliced);
    }
    let at = level.container.areas.tags.start + level.index;
    Ok(at..at + 1)
}

/// Returns whether all values of an array of many tags would share one tag if the value that
/// `level` leads to got `tag`, or were removed.
fn gets_one_tag(document: &[u8], level: &ContainerOnPath, tag: Option<u8>) -> bool {
    let ContainerOnPath { container, index, .. } = level;
    if container.form != form::ARRAY {
        return false;
    }
    let tags = &document[container.areas.tags.clone()];
    let mut others = tags[..*index].iter().chain(&tags[index + 1..]);
    let Some(one) = tag.or_else(|| others.clone().next().copied()) else { return false };
    let left = container.count - usize::from(tag.is_none());
    left > 1 && width(one) > 0 && others.all(|other| *other == one)
}

/// Returns whether ids of one byte would suffice for a map without value `index`.
fn gets_short_ids(document: &[u8], container: &ContainerLayout, index: usize) -> bool {
    let ids = document[container.areas.keys.clone()].as_chunks::<2>().0;
    container.form == form::IDS_2
        && !ids.iter().enumerate().any(|(at, id)| at != index && id[1] != 0)
}

/// Returns the id of a name as a map stores it whose ids have `width` bytes.
fn id_bytes(
    step: PathSegment<'_>,
    names: Option<&Names>,
    width: usize,
) -> Result<[u8; 4], NotSpliced> {
    let id = step.id.or_else(|| names?.id(step.name)).ok_or(NotSpliced)?;
    if id >> (8 * width) != 0 {
        return Err(NotSpliced);
    }
    Ok(id.to_le_bytes())
}
