//! A merge of trees: the next key of all, in either direction, by a binary heap of cursors.

use flagstone_base::heap::{heapify, sift_down};
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
            let before = comes_before(&self.scans, self.direction);
            heapify(&mut self.heap, before);
        } else if let Some(top) = self.heap.first_mut() {
            let scan = &mut self.scans[top.scan];
            if scan.advance()? {
                top.front = front(scan.key());
            } else {
                self.heap.swap_remove(0);
            }
            sift_down(&mut self.heap, 0, comes_before(&self.scans, self.direction));
        }
        match self.heap.first() {
            Some(top) => self.scans[top.scan].show().map(|()| true),
            None => Ok(false),
        }
    }

    /// Lets go of what the scans read, and keeps their places.
    pub(crate) fn park(&mut self) {
        self.scans.iter_mut().for_each(TreeScan::park);
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
}

#[inline]
fn comes_before(scans: &[TreeScan], direction: Direction) -> impl Fn(&Standing, &Standing) -> bool {
    move |a, b| {
        let order = a.front.cmp(&b.front);
        let order = order.then_with(|| scans[a.scan].key().cmp(scans[b.scan].key()));
        match direction {
            Direction::Forward => order.is_lt(),
            Direction::Reverse => order.is_gt(),
        }
    }
}
