//! A merge of trees: the next key of all, in either direction, by a binary heap of cursors.

use flagstone_base::{Result, Slice};
use flagstone_tree::{Direction, TreeScan};

/// Scans of trees that share no key, merged to one order.
pub(crate) struct Merge {
    scans: Vec<TreeScan>,
    /// Indices of scans that stand on an entry; the next entry's scan is at the root.
    heap: Vec<usize>,
    direction: Direction,
    started: bool,
}

impl Merge {
    pub(crate) fn new(scans: Vec<TreeScan>, direction: Direction) -> Self {
        Self { heap: Vec::with_capacity(scans.len()), scans, direction, started: false }
    }

    /// Goes to the next key; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if !self.started {
            self.started = true;
            for at in 0..self.scans.len() {
                if self.scans[at].advance()? {
                    self.heap.push(at);
                }
            }
            for root in (0..self.heap.len() / 2).rev() {
                self.sink(root);
            }
        } else if let Some(&top) = self.heap.first() {
            if !self.scans[top].advance()? {
                self.heap.swap_remove(0);
            }
            self.sink(0);
        }
        Ok(!self.heap.is_empty())
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.heap.first().map_or(&[], |&top| self.scans[top].key())
    }

    pub(crate) fn value(&self) -> Slice {
        self.heap.first().map_or_else(Slice::default, |&top| self.scans[top].value())
    }

    fn comes_before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.scans[a].key(), self.scans[b].key());
        match self.direction {
            Direction::Forward => a < b,
            Direction::Reverse => a > b,
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.heap.len() {
                return;
            }
            let right_first =
                right < self.heap.len() && self.comes_before(self.heap[right], self.heap[left]);
            let child = if right_first { right } else { left };
            if !self.comes_before(self.heap[child], self.heap[at]) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }
}
