//! Which memtables to seal, and when.
//!
//! One group at a time: when the memtables together reach half of their share and nothing waits to
//! be flushed, the largest is sealed. The total stays about constant, and partitions that fill alike
//! are flushed one after another instead of all at once.

use super::state::SealGroup;
use crate::shared::Shared;
use flagstone_base::SeqNo;
use flagstone_tree::Tree;
use flagstone_wal::Log;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a seal takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Take {
    Largest,
    All,
    /// The trees that hold the oldest part of the log.
    Oldest,
}

impl Shared {
    /// Seals the largest memtable if the memtables are half full. Called after every commit: cheap
    /// when there is nothing to do.
    #[inline]
    pub(crate) fn seal_if_full(&self) {
        if self.memtable_bytes() >= self.options.memtable_share() / 2 {
            self.seal_one(Take::Largest);
        }
    }

    /// Seals the memtables that pin the oldest part of the log if it is too long.
    pub(crate) fn keep_log_short(&self) {
        let is_long = |log: &Log| log.bytes() > self.options.wal_bytes_max();
        if self.log.as_ref().is_some_and(is_long) {
            self.seal_one(Take::Oldest);
        }
    }

    fn seal_one(&self, take: Take) {
        let busy = self.background.is_flush_pending() || self.replaying.load(Ordering::Relaxed);
        if !busy && self.seal(take) {
            self.schedule();
        }
    }

    /// Seals everything, as one group.
    pub(crate) fn seal_all(&self) -> bool {
        self.seal(Take::All)
    }

    /// Seals everything at `through`, the last SeqNo that a replay has inserted: what stands behind
    /// it in the log is still to come.
    pub(crate) fn seal_through(&self, through: SeqNo) {
        let trees = self.all_trees();
        let sealed: Vec<_> = trees.into_iter().filter(|tree| tree.seal(through)).collect();
        if !sealed.is_empty() {
            self.background.push(SealGroup { through, trees: sealed });
        }
    }

    fn seal(&self, take: Take) -> bool {
        let trees = self.all_trees();
        let mut numbering = self.numbering.lock();
        // Unlogged writes survive a crash only as a whole cut of history: all trees at one SeqNo,
        // installed by one edit.
        let take = if numbering.unlogged { Take::All } else { take };
        if take != Take::All && self.background.is_flush_pending() {
            return false;
        }
        let seal_seqno = SeqNo::new(numbering.next.get() - 1);
        let chosen: Vec<Arc<Tree>> = match take {
            Take::All => trees,
            Take::Largest => {
                trees.into_iter().max_by_key(|tree| tree.active_bytes()).into_iter().collect()
            }
            Take::Oldest => {
                let oldest = trees.iter().filter_map(|tree| tree.oldest_unflushed()).min();
                let pins = |tree: &Arc<Tree>| oldest.is_some() && tree.oldest_unflushed() == oldest;
                trees.into_iter().filter(pins).collect()
            }
        };
        let sealed: Vec<Arc<Tree>> =
            chosen.into_iter().filter(|tree| tree.seal(seal_seqno)).collect();
        if take == Take::All {
            numbering.unlogged = false;
        }
        if sealed.is_empty() {
            return false;
        }
        self.background.push(SealGroup { through: seal_seqno, trees: sealed });
        true
    }
}
