//! The space that garbage takes: when a compaction must free some of it, in which tree, and how
//! much writers are delayed.
//!
//! ```text
//! bytes on the disk:    live      low           high              2 high - low
//!                        |---------|-------------|--------------------|
//! writers active:           nothing  compactions    writers are slowed,
//!                                    for space      never stopped
//! writers idle:           live x 1.15: compactions for space
//! ```
//! `high` is the number of live bytes times [`Options::space_amplification_max`], plus a part of
//! the memtables' share, which even a small database may take. It is one limit for the whole
//! database, so trees need not free space at the same time: the next one is the tree with the
//! largest part of garbage.
//!
//! Tables that flushes and compactions are writing count from their first byte on, since their
//! inputs still exist. Whether another compaction starts is a separate question: it does if there
//! will be too much garbage when the running ones have ended.

use crate::options::Options;
use flagstone_base::TreeId;
use flagstone_base::sorted::{SortedSet, sort_by};
use flagstone_tree::{Space, Tree, Version};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// While writers write, compactions for space begin at this part of the room for garbage.
const LOW_PART: f64 = 0.85;
/// While writers are idle, tables may take this many times the live bytes.
const IDLE_MAX: f64 = 1.15;
/// The parts of the memtables' share that even a small database may take, up to `low` and up to
/// `high`.
const SHARE_LOW: f64 = 0.6;
const SHARE_HIGH: f64 = 0.85;
/// Less garbage than this in a tree is ignored ..
const GARBAGE_MIN: u64 = 1 << 20;
/// .. unless it is at least one part in this many of a small tree: there may be many of them.
const GARBAGE_PARTS: u64 = 10;
/// The most trees that are examined for one compaction.
const CANDIDATES_MAX: usize = 8;
/// The fill at which writers begin to be delayed for space, and the one that they never exceed for
/// space, just below the stop.
const FILL_FROM: f64 = 750.0;
const FILL_MAX: f64 = 990.0;

/// The bytes of the trees, as of the last examination of each.
#[derive(Default)]
pub(crate) struct Spaces {
    trees: HashMap<TreeId, TreeSpace>,
    /// The trees in it with garbage, however little.
    with_garbage: SortedSet<TreeId>,
    bytes: u64,
    live: u64,
    /// How much the writers of wasteful trees are slowed now: see [`Tree::stall_fill`].
    pub(crate) fill: u32,
}

struct TreeSpace {
    tree: Arc<Tree>,
    space: Space,
    /// The version in which no compaction was found that frees enough.
    hopeless: Option<Weak<Version>>,
}

/// The effect of running flushes and compactions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunningJobs {
    /// Bytes that compactions will have freed when they have ended.
    pub(crate) freeing: u64,
    /// Bytes of tables that are not installed yet.
    pub(crate) unfinished: u64,
}

/// The limits for the bytes of all tables, and how many bytes there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SpaceBudget {
    low: f64,
    high: f64,
    /// Bytes on the disk now.
    bytes: f64,
    /// Bytes of tables that will be left when the running compactions have ended.
    left: f64,
}

impl Spaces {
    /// Notes that `tree` takes `space`.
    pub(crate) fn note(&mut self, tree: &Arc<Tree>, space: Space) {
        let old = self.forget(tree.id());
        if space.bytes == 0 {
            return;
        }
        self.bytes += space.bytes;
        self.live += space.live;
        if space.garbage() > 0 {
            self.with_garbage.insert(tree.id());
        }
        // A tree that is unchanged is as hopeless as before.
        let hopeless = old.filter(|old| old.space == space).and_then(|old| old.hopeless);
        let entry = TreeSpace { tree: Arc::clone(tree), space, hopeless };
        self.trees.insert(tree.id(), entry);
    }

    /// The live bytes of the trees that were examined.
    pub(crate) const fn live(&self) -> u64 {
        self.live
    }

    /// The number of trees with garbage.
    pub(crate) fn trees_with_garbage(&self) -> usize {
        self.with_garbage.len()
    }

    /// The trees with garbage, and those of `others` that are known.
    pub(crate) fn with_garbage(&self, others: impl Iterator<Item = TreeId>) -> Vec<Arc<Tree>> {
        let mut ids = self.with_garbage.clone();
        ids.extend(others);
        let known = ids.iter().filter_map(|id| self.trees.get(id));
        known.map(|entry| Arc::clone(&entry.tree)).collect()
    }

    /// Removes a tree that is gone, or that will be noted again.
    fn forget(&mut self, tree: TreeId) -> Option<TreeSpace> {
        self.with_garbage.remove(&tree);
        let old = self.trees.remove(&tree)?;
        self.bytes -= old.space.bytes;
        self.live -= old.space.live;
        Some(old)
    }

    /// Notes that no compaction of `tree` frees enough before the tree changes.
    pub(crate) fn note_hopeless(&mut self, tree: TreeId, version: &Arc<Version>) {
        if let Some(entry) = self.trees.get_mut(&tree) {
            entry.hopeless = Some(Arc::downgrade(version));
        }
    }

    /// Returns whether `tree` has so much garbage that its writers are delayed when there is too
    /// much of it.
    pub(crate) fn is_wasteful(&self, tree: TreeId, options: &Options) -> bool {
        self.trees.get(&tree).is_some_and(|entry| {
            let max = 1.0 + (options.space_amplification_max - 1.0) / 2.0;
            entry.space.bytes as f64 > entry.space.live as f64 * max
        })
    }

    /// Returns how much garbage there may be and how much there is, given `running_jobs`. `is_idle`
    /// tells whether writers are idle.
    pub(crate) fn budget(
        &self,
        options: &Options,
        is_idle: bool,
        running_jobs: RunningJobs,
    ) -> SpaceBudget {
        let (live, share) = (self.live as f64, options.memtable_share() as f64);
        let left = self.bytes.saturating_sub(running_jobs.freeing) as f64;
        let bytes = (self.bytes + running_jobs.unfinished) as f64;
        let max = options.space_amplification_max;
        if is_idle {
            let low = live * IDLE_MAX.min(max) + GARBAGE_MIN as f64;
            SpaceBudget { low, high: low * 2.0, bytes, left }
        } else {
            SpaceBudget {
                low: live * (1.0 + LOW_PART * (max - 1.0)) + share * SHARE_LOW,
                high: live * max + share * SHARE_HIGH,
                bytes,
                left,
            }
        }
    }

    /// Trees for which `is_free` holds and that could free space, the one with the largest part of
    /// garbage first.
    pub(crate) fn candidates(&self, is_free: impl Fn(&TreeId) -> bool) -> Vec<Arc<Tree>> {
        let is_hopeless = |entry: &TreeSpace| {
            entry.hopeless.as_ref().is_some_and(|version| {
                std::ptr::eq(version.as_ptr(), Arc::as_ptr(entry.tree.view().version()))
            })
        };
        let known = self.with_garbage.iter().filter_map(|id| Some((id, self.trees.get(id)?)));
        let mut found: Vec<&TreeSpace> = known
            .filter(|(id, entry)| {
                let least = GARBAGE_MIN.min(entry.space.bytes / GARBAGE_PARTS);
                entry.space.garbage() >= least && is_free(id) && !is_hopeless(entry)
            })
            .map(|(_, entry)| entry)
            .collect();
        let part =
            |entry: &TreeSpace| entry.space.garbage() as f64 / entry.space.bytes.max(1) as f64;
        sort_by(&mut found, |a, b| part(b).total_cmp(&part(a)));
        found.iter().take(CANDIDATES_MAX).map(|entry| Arc::clone(&entry.tree)).collect()
    }
}

impl SpaceBudget {
    /// How far `bytes` is from `low` (0) to `high` (1). Below 0 there is nothing to do.
    fn fill(self) -> f64 {
        (self.bytes - self.low) / (self.high - self.low).max(1.0)
    }

    /// The urgency of another compaction for space, as a score of a tree; `None` if there shall be
    /// none.
    pub(crate) fn score(self) -> Option<f64> {
        (self.left > self.low).then(|| self.urgency())
    }

    /// The urgency of the running compactions for space, as a score of a tree; 0 if there is none.
    pub(crate) fn urgency(self) -> f64 {
        if self.fill() > 0.0 { 1.0 + self.fill() / 2.0 } else { 0.0 }
    }

    /// How much the writers of wasteful trees are slowed: see [`Tree::stall_fill`].
    pub(crate) fn fill_of_trees(self) -> u32 {
        let excess = self.fill() - 1.0;
        if excess <= 0.0 {
            return 0;
        }
        (FILL_FROM + (FILL_MAX - FILL_FROM) * excess.min(1.0)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn budget(bytes: u64, live: u64, is_idle: bool) -> SpaceBudget {
        let options = Options { memory_budget: 64 * MIB, ..Options::default() };
        let spaces = Spaces { bytes: bytes * MIB, live: live * MIB, ..Spaces::default() };
        spaces.budget(&options, is_idle, RunningJobs::default())
    }

    #[test]
    fn compactions_for_space_begin_before_the_limit_and_writers_are_slowed_after_it() {
        // Low at 1,869 MiB, high at 2,027.
        assert_eq!(budget(1800, 1000, false).score(), None);
        let early = budget(1900, 1000, false);
        assert!(early.score().is_some_and(|score| (1.0..1.2).contains(&score)), "{early:?}");
        assert_eq!(early.fill_of_trees(), 0);
        let late = budget(2030, 1000, false);
        assert!(late.score().is_some_and(|score| score > 1.5), "{late:?}");
        assert!((750..800).contains(&late.fill_of_trees()), "{late:?}");
        assert_eq!(budget(9000, 1000, false).fill_of_trees(), 990, "never stopped");
    }

    #[test]
    fn hardly_any_garbage_is_left_while_writers_are_idle() {
        assert_eq!(budget(1150, 1000, true).score(), None);
        assert!(budget(1200, 1000, true).score().is_some());
        // The memtables' share counts only while writers write.
        assert_eq!(budget(20, 10, false).score(), None);
        assert!(budget(20, 10, true).score().is_some());
    }

    #[test]
    fn space_being_freed_is_not_freed_twice() {
        let options = Options { memory_budget: 64 * MIB, ..Options::default() };
        let spaces = Spaces { bytes: 1900 * MIB, live: 1000 * MIB, ..Spaces::default() };
        let budget = |freeing| {
            let running_jobs = RunningJobs { freeing, unfinished: 0 };
            spaces.budget(&options, false, running_jobs)
        };
        assert!(budget(0).score().is_some());
        assert_eq!(budget(100 * MIB).score(), None);
        assert!(budget(100 * MIB).urgency() > 1.0, "it is still there");
    }

    /// Inputs and outputs exist side by side until a job has ended. Writers used to be released as
    /// soon as a job began.
    #[test]
    fn tables_being_written_hold_writers_back_besides_those_being_freed() {
        let options = Options { memory_budget: 64 * MIB, ..Options::default() };
        let spaces = Spaces { bytes: 1950 * MIB, live: 1000 * MIB, ..Spaces::default() };
        let budget = |unfinished| {
            let running_jobs = RunningJobs { freeing: 200 * MIB, unfinished };
            spaces.budget(&options, false, running_jobs)
        };
        assert_eq!(budget(0).fill_of_trees(), 0);
        assert!((750..990).contains(&budget(100 * MIB).fill_of_trees()), "{:?}", budget(100 * MIB));
        assert_eq!(budget(100 * MIB).score(), None, "no other compaction starts");
    }
}
