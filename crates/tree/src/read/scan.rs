//! Scans: keys in order, at one point in time, in either direction.
#![expect(
    unsafe_code,
    reason = "a value is lent out of memory that others may take, but for what is lent"
)]

use super::held::ScanResources;
use super::walk::{ScanOptions, ScanWalk};
use crate::options::Direction;
use crate::read_load::SCAN_WEIGHT;
use crate::tree::Tree;
use flagstone_base::{KeyRange, Result, SeqNo, Slice, TreeId};
use flagstone_env::BiasedOwner;
use std::sync::{Arc, Weak};

/// Iterates over the live keys of a range as they were at a SeqNo.
///
/// The caller keeps that SeqNo registered as a snapshot while the scan exists. A scan switches to
/// the current view whenever its own is out of date, and other threads take what an idle scan
/// holds, so it pins memory and files only for a short time.
pub struct TreeScan {
    held: BiasedOwner<ScanResources>,
    walk: ScanWalk,
    /// The tree for which the scan is registered, so that other threads can find it.
    known: Option<TreeId>,
}

impl Tree {
    /// Returns a scan of the keys of `range` as they were at `at`, which the caller has registered
    /// as a snapshot. Does no work before the first [`TreeScan::advance`].
    pub fn scan(
        self: &Arc<Self>,
        range: KeyRange,
        at: SeqNo,
        direction: Direction,
        options: ScanOptions,
    ) -> TreeScan {
        self.note_read(SCAN_WEIGHT);
        let held = BiasedOwner::new(ScanResources::new(&self.context().cache));
        let walk = ScanWalk::new(Arc::clone(self), range, at, direction, options);
        TreeScan { held, walk, known: None }
    }
}

impl TreeScan {
    /// Moves to the next live key. Returns false at the end of the range.
    ///
    /// # Errors
    /// Io or Corruption of a table; Unsupported if a key has a merge operand and the tree no fold.
    /// The next call tries the same key again.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        let Self { held, walk, .. } = self;
        if walk.is_done() {
            return Ok(false);
        }
        let advanced = held.with_mut(|held| walk.advance(held));
        if !self.walk.is_settled() {
            self.settle();
        }
        // Not `advanced`: it is written in pieces, and a load of the whole waits for all of them.
        match advanced {
            Ok(is_found) => Ok(is_found),
            Err(error) => {
                self.walk.end_watch();
                Err(error)
            }
        }
    }

    /// Moves to the live keys that follow in the block of the current one, at most `most`, and
    /// calls `visit` with each and its value, as long as it returns true: false leaves the key as
    /// the next one. Returns how many were visited: the last of them is the current key then.
    ///
    /// It costs less than [`TreeScan::advance`] for each, but visits only what is quick to reach: 0
    /// does not mean the end of the range. Call it after each `advance`. `visit` must not wait.
    #[inline]
    pub fn visit_near(&mut self, most: usize, visit: impl FnMut(&[u8], &[u8]) -> bool) -> usize {
        let Self { held, walk, .. } = self;
        if walk.is_done() {
            return 0;
        }
        held.with_mut(|held| walk.visit_near(held, most, visit))
    }

    /// Allows the caller to ask for the value until the next [`TreeScan::advance`]. Only needed for
    /// one of several merged scans.
    ///
    /// # Errors
    /// As [`TreeScan::advance`], if the value must be read again.
    #[inline]
    pub fn show(&mut self) -> Result<()> {
        let Self { held, walk, .. } = self;
        if walk.is_kept() {
            return Ok(());
        }
        let shown = held.with_mut(|held| if held.show() { walk.find_again(held) } else { Ok(()) });
        if !self.walk.is_settled() {
            self.settle();
        }
        shown
    }

    /// Counts what the scan holds, and makes idle scans release memory if all scans together hold
    /// too much.
    #[cold]
    fn settle(&mut self) {
        let (tree, scans) = (Arc::clone(self.walk.tree()), self.walk.scans());
        self.walk.set_settled();
        let holds = self.held.with_mut(|held| {
            held.settle(scans);
            held.pinned.is_some()
        });
        if holds && self.known != Some(tree.id()) {
            self.known = Some(tree.id());
            let scan: Weak<dyn crate::scans::ParkableScan> = self.held.contender();
            tree.context().scans.add(tree.id(), scan);
        }
        if holds {
            self.held.open();
        }
        let cache = &tree.context().cache;
        if cache.scans().is_short() {
            tree.context().scans.make_room(cache);
        }
    }

    /// The current key. Empty before the first [`TreeScan::advance`].
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.walk.key()
    }

    /// The value of the current key. Shares the memory of its block; a value in a memtable is
    /// copied.
    #[inline]
    pub fn value(&self) -> Slice {
        self.held.with(ScanResources::value)
    }

    /// The value of the current key, in place: cheaper if the caller only reads it.
    #[inline]
    pub fn value_bytes(&self) -> &[u8] {
        let lent = self.held.with(|held| std::ptr::from_ref(held.lend()));
        // SAFETY: `Held::lend` keeps the memory of a value it lends: `Held::give_up` leaves in
        // place what is lent or copied, and nothing else changes it except this scan when it
        // advances, which takes `&mut self`.
        unsafe { &*lent }
    }

    /// Releases memtables and tables but keeps the position: for a scan that will be idle for a
    /// while. Other threads may do the same to an idle scan.
    pub fn park(&mut self) {
        drop(self.held.with_mut(ScanResources::give_up));
    }
}
