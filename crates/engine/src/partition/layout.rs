//! The layout of a keyspace: its route, and the tree of each partition.
//!
//! ```text
//! layout 0: [------------- tree 1 -------------]
//! layout 1: [---- tree 4 ----)[---- tree 5 ----]     tree 1 was split
//! ```
//! A split or a merge replaces the layout as a whole, under the numbering lock. Readers load a
//! pointer and take no lock.
#![expect(unsafe_code, reason = "a reader borrows a layout that a later one may have replaced")]

use super::route::Route;
use flagstone_env::sync::atomic::{AtomicPtr, Ordering};
use flagstone_tree::Tree;
use std::ops::RangeInclusive;
use std::ptr;
use std::sync::Arc;

/// A route, and the trees that it leads to.
pub(crate) struct Layout {
    /// The position among the layouts of the keyspace since the open, from 0 on.
    number: u32,
    pub(crate) route: Route,
    /// One tree a partition, in the order of the route.
    pub(crate) trees: Vec<Arc<Tree>>,
}

impl Layout {
    /// The number that tells this layout from the others of its keyspace.
    #[inline]
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// The tree that holds `key`, whose hash is `hash`.
    #[inline]
    pub(crate) fn tree_of(&self, key: &[u8], hash: u64) -> &Arc<Tree> {
        &self.trees[self.route.partition(key, hash)]
    }

    /// The partitions that hold keys from `start` on and below `end`.
    pub(crate) fn partitions_of(&self, start: &[u8], end: &[u8]) -> RangeInclusive<usize> {
        self.route.partitions_of(start, end)
    }
}

/// The layouts that a keyspace has had since the open.
///
/// A reader borrows the current one without counting itself, so a layout that was replaced is kept
/// until the keyspace is closed. It takes a pointer and a bound a partition; its trees hold nothing
/// any more once they are replaced.
pub(crate) struct Layouts {
    current: AtomicPtr<Node>,
}

struct Node {
    layout: Layout,
    previous: *mut Self,
}

impl Layouts {
    /// The layouts of a keyspace that begins with this one.
    pub(crate) fn new(route: Route, trees: Vec<Arc<Tree>>) -> Self {
        let layout = Layout { number: 0, route, trees };
        let node = Box::new(Node { layout, previous: ptr::null_mut() });
        Self { current: AtomicPtr::new(Box::into_raw(node)) }
    }

    /// The current layout.
    #[inline]
    pub(crate) fn current(&self) -> &Layout {
        let node = self.current.load(Ordering::Acquire);
        // SAFETY: `new` or `replace` made the node of a box, and only `drop` frees it, which takes
        // `&mut self`. Nobody changes a node.
        unsafe { &(*node).layout }
    }

    /// Makes a layout current. Only one thread at a time may call this.
    pub(crate) fn replace(&self, route: Route, trees: Vec<Arc<Tree>>) {
        let layout = Layout { number: self.current().number + 1, route, trees };
        let previous = self.current.load(Ordering::Acquire);
        let node = Box::into_raw(Box::new(Node { layout, previous }));
        self.current.store(node, Ordering::Release);
    }
}

impl Drop for Layouts {
    fn drop(&mut self) {
        let mut node = self.current.load(Ordering::Acquire);
        while !node.is_null() {
            // SAFETY: each node of the list was made of a box and is freed once, here. `&mut self`
            // shows that nobody borrows a layout.
            let owned = unsafe { Box::from_raw(node) };
            node = owned.previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(bounds: &[&[u8]]) -> Route {
        Route::Range { bounds: bounds.iter().map(|bound| bound.to_vec()).collect(), seed: 0 }
    }

    #[test]
    fn a_borrowed_layout_stays_as_it_is_when_another_one_replaces_it() {
        let layouts = Layouts::new(route(&[]), Vec::new());
        let first = layouts.current();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..3).for_each(|_| layouts.replace(route(&[b"m"]), Vec::new())));
        });
        assert_eq!((first.number(), first.route.partitions()), (0, 1));
        let last = layouts.current();
        assert_eq!((last.number(), last.route.partitions()), (3, 2));
    }
}
