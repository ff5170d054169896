//! Keys in order, at one point in time, either way.
#![expect(
    unsafe_code,
    reason = "a value is lent out of memory that others may take, but for what is lent"
)]

use super::held::Held;
use super::walk::{ScanOptions, Walk};
use crate::options::Direction;
use crate::reads::SCAN_WEIGHT;
use crate::tree::Tree;
use flagstone_base::{KeyRange, Result, SeqNo, Slice};
use flagstone_env::Owned;
use std::sync::{Arc, Weak};

/// Walks the live keys of a range as they were at a SeqNo.
///
/// The caller keeps that SeqNo registered as a snapshot while the scan lives: the scan moves on to
/// the current view whenever its own is old, and while nobody reads it others may take what it holds, so it pins memory
/// and files only for a short while.
pub struct TreeScan {
    held: Owned<Held>,
    walk: Walk,
    /// Others can find it.
    is_known: bool,
}

impl Tree {
    /// A scan of the keys of `range` as they were at `at`, which the caller has registered as a
    /// snapshot. Costs nothing before the first [`TreeScan::advance`].
    pub fn scan(
        self: &Arc<Self>,
        range: KeyRange,
        at: SeqNo,
        direction: Direction,
        options: ScanOptions,
    ) -> TreeScan {
        self.reads.note(SCAN_WEIGHT);
        let held = Owned::new(Held::new(&self.context().cache));
        let walk = Walk::new(Arc::clone(self), range, (at, direction), options);
        TreeScan { held, walk, is_known: false }
    }
}

impl TreeScan {
    /// Goes to the next live key; false at the end of the range.
    ///
    /// # Errors
    /// Io or Corruption of a table; Unsupported when an operand is met without a fold. The next
    /// call tries the same key again.
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
        // Not `advanced`: it is written in pieces, and a load of all of it waits for these.
        match advanced {
            Ok(is_found) => Ok(is_found),
            Err(error) => Err(error),
        }
    }

    /// From here to the next [`TreeScan::advance`] the value is asked for. Only a scan that is one of several needs it.
    ///
    /// # Errors
    /// As [`TreeScan::advance`], when the value has to be read again.
    #[inline]
    pub fn show(&mut self) -> Result<()> {
        let Self { held, walk, .. } = self;
        if walk.is_kept() {
            return Ok(());
        }
        let shown = held.with_mut(|held| match held.show() {
            true => walk.find_again(held),
            false => Ok(()),
        });
        if !self.walk.is_settled() {
            self.settle();
        }
        shown
    }

    /// Counts what it holds, and makes others give up some if that is too much together.
    #[cold]
    fn settle(&mut self) {
        let (tree, scans) = (Arc::clone(self.walk.tree()), self.walk.scans());
        self.walk.set_settled();
        let holds = self.held.with_mut(|held| {
            held.settle(scans);
            held.pinned.is_some()
        });
        if holds && !self.is_known {
            self.is_known = true;
            let room: Weak<dyn crate::scans::Rests> = self.held.room();
            tree.context().scans.add(tree.id(), room);
        }
        if holds {
            self.held.open();
        }
        let cache = &tree.context().cache;
        if cache.scans().is_short() {
            tree.context().scans.make_room(cache);
        }
    }

    /// The key it stands at; empty before the first [`TreeScan::advance`].
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.walk.key()
    }

    /// The value of the key it stands at; shares the memory of its block, copies out of a memtable.
    #[inline]
    pub fn value(&self) -> Slice {
        self.held.with(Held::value)
    }

    /// The same value in place: cheaper where it is only looked at.
    #[inline]
    pub fn value_bytes(&self) -> &[u8] {
        let lent = self.held.with(|held| std::ptr::from_ref(held.lend()));
        // SAFETY: who lends a value keeps its memory: `Held::give_up` leaves what is lent or copied where it is, and
        // nothing else changes it but this scan when it goes on, which takes `&mut self`.
        unsafe { &*lent }
    }

    /// The next live key and its value; `None` at the end.
    ///
    /// # Errors
    /// As [`TreeScan::advance`].
    #[expect(clippy::should_implement_trait, reason = "an iterator could not fail and go on")]
    pub fn next(&mut self) -> Result<Option<(Slice, Slice)>> {
        if !self.advance()? {
            return Ok(None);
        }
        self.show()?;
        Ok(Some((Slice::copy_of(self.key()), self.value())))
    }

    /// Lets go of memtables and tables but keeps the place: for a scan that will wait a while. Others may do the same to
    /// it while it waits.
    pub fn park(&mut self) {
        drop(self.held.with_mut(Held::give_up));
    }
}
