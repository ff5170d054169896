//! A merge of trees: the next key of all, in either direction, by a binary heap of cursors.

use flagstone_base::key::key_front as front;
use flagstone_base::{Result, Slice};
use flagstone_tree::{Direction, TreeScan};

/// Scans of trees that share no key, merged to one order.
pub(crate) struct Merge {
    scans: Vec<TreeScan>,
    /// Scans that stand on an entry; the next entry's scan is at the root.
    heap: Vec<Standing>,
    direction: Direction,
    started: bool,
}

/// A scan and the front of the key it stands on, which decides most comparisons.
#[derive(Clone, Copy)]
struct Standing {
    front: u64,
    scan: usize,
}

impl Merge {
    pub(crate) fn new(scans: Vec<TreeScan>, direction: Direction) -> Self {
        Self { heap: Vec::with_capacity(scans.len()), scans, direction, started: false }
    }

    /// Goes to the next key; false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if !self.started {
            self.started = true;
            for scan in 0..self.scans.len() {
                if self.scans[scan].advance()? {
                    self.heap.push(Standing { front: front(self.scans[scan].key()), scan });
                }
            }
            for root in (0..self.heap.len() / 2).rev() {
                self.sink(root);
            }
        } else if let Some(top) = self.heap.first_mut() {
            let scan = &mut self.scans[top.scan];
            if scan.advance()? {
                top.front = front(scan.key());
            } else {
                self.heap.swap_remove(0);
            }
            self.sink(0);
        }
        Ok(!self.heap.is_empty())
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.heap.first().map_or(&[], |top| self.scans[top.scan].key())
    }

    #[inline]
    pub(crate) fn value(&self) -> Slice {
        self.heap.first().map_or_else(Slice::default, |top| self.scans[top.scan].value())
    }

    #[inline]
    pub(crate) fn value_bytes(&self) -> &[u8] {
        self.heap.first().map_or(&[], |top| self.scans[top.scan].value_bytes())
    }

    #[inline]
    fn comes_before(&self, a: Standing, b: Standing) -> bool {
        let order = a.front.cmp(&b.front);
        let order = order.then_with(|| self.scans[a.scan].key().cmp(self.scans[b.scan].key()));
        match self.direction {
            Direction::Forward => order.is_lt(),
            Direction::Reverse => order.is_gt(),
        }
    }

    #[inline]
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
