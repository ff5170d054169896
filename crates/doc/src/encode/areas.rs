//! The values of all open containers: three stacks of tags, fixed bytes and heaps.

use crate::layout::{heap_len, width};

/// The heights of the stacks at the beginning of an open container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) keys: usize,
    pub(super) tags: usize,
    pub(super) fixed: usize,
    pub(super) heap: usize,
}

/// The stacks of the values of all open containers.
#[derive(Default)]
pub(crate) struct Areas {
    pub(super) tags: Vec<u8>,
    pub(super) fixed: Vec<u8>,
    pub(super) heap: Vec<u8>,
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
    fn new(areas: &mut Areas, frame: &Frame) -> Self {
        Self {
            tags: areas.tags.split_off(frame.tags),
            fixed: areas.fixed.split_off(frame.fixed),
            heap: areas.heap.split_off(frame.heap),
            bounds: Vec::new(),
        }
    }

    /// Takes out the values one by one.
    pub(crate) fn take(areas: &mut Areas, frame: &Frame) -> Self {
        let mut all = Self::new(areas, frame);
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
    pub(crate) fn take_groups(areas: &mut Areas, frame: &Frame, starts: &[Frame]) -> Self {
        let mut all = Self::new(areas, frame);
        let bound =
            |at: &Frame| [at.tags - frame.tags, at.fixed - frame.fixed, at.heap - frame.heap];
        all.bounds = starts.iter().map(bound).collect();
        all.bounds.push([all.tags.len(), all.fixed.len(), all.heap.len()]);
        all
    }

    /// Appends value or group `index` to the areas.
    pub(crate) fn put(&self, index: usize, areas: &mut Areas) {
        let ([tags, fixed, heap], end) = (self.bounds[index], self.bounds[index + 1]);
        areas.tags.extend_from_slice(&self.tags[tags..end[0]]);
        areas.fixed.extend_from_slice(&self.fixed[fixed..end[1]]);
        areas.heap.extend_from_slice(&self.heap[heap..end[2]]);
    }
}
