//! Groups of sealed memtables, and which of them can be flushed now.
//!
//! ```text
//! number   1: a (failed, pauses)   2: a b c         3: unlogged, b d       4: a
//! flushed                          b c now, a later      now, as one       after 2
//! ```
//! A group whose flush fails pauses alone. A later group overtakes it, except in a tree that both
//! hold, since the memtables of a tree are flushed in order. A group with unlogged writes overtakes
//! no other such group, since a crash must keep a whole cut of them. A group that one edit must
//! install waits as a whole.

use super::back_off::BackOff;
use super::cut::CutRequest;
use flagstone_base::{Error, SeqNo, TreeId};
use flagstone_tree::Tree;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Memtables sealed at one SeqNo.
pub(crate) struct SealGroup {
    /// The position among all groups, from 1 on.
    pub(crate) number: u64,
    /// The SeqNo. The edit holds nothing after it, even if more was sealed meanwhile.
    pub(crate) through: SeqNo,
    pub(crate) trees: Vec<Arc<Tree>>,
    /// A request for the state right after this group. If present, the group holds all trees with
    /// writes.
    pub(crate) cut: Option<CutRequest>,
    /// The group holds unlogged writes.
    pub(crate) is_unlogged: bool,
    /// The failures of this group; and the position of the last one among the failures of all
    /// flushes.
    pub(crate) back_off: Option<BackOff>,
    pub(crate) failed_at: u64,
}

impl SealGroup {
    /// A group that has no number yet.
    pub(crate) fn new(through: SeqNo, trees: Vec<Arc<Tree>>) -> Self {
        Self {
            number: 0,
            through,
            trees,
            cut: None,
            is_unlogged: false,
            back_off: None,
            failed_at: 0,
        }
    }

    /// Returns whether one edit must install the whole group.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_unlogged || self.is_cut()
    }

    /// Returns whether a caller waits for the state after the group. A request that was abandoned,
    /// for example after a failure, delays no flush.
    fn is_cut(&self) -> bool {
        self.cut.as_ref().is_some_and(CutRequest::is_wanted)
    }

    fn is_pausing(&self) -> bool {
        self.back_off.as_ref().is_some_and(|back_off| back_off.is_pausing)
    }

    /// Returns the error if the flush of the group keeps failing.
    pub(crate) fn lasting_error(&self) -> Option<&Error> {
        self.back_off.as_ref()?.lasting_error()
    }
}

/// Groups that wait before another group.
#[derive(Default)]
struct Before {
    any: bool,
    unlogged: bool,
    trees: HashSet<TreeId>,
}

impl Before {
    fn holds(&self, tree: &Arc<Tree>) -> bool {
        self.trees.contains(&tree.id())
    }

    /// Returns whether nothing of `group` can be flushed.
    fn blocks(&self, group: &SealGroup) -> bool {
        let (any, all) = (
            group.trees.iter().any(|tree| self.holds(tree)),
            !group.trees.is_empty() && group.trees.iter().all(|tree| self.holds(tree)),
        );
        let is_late = (group.is_unlogged && self.unlogged) || (group.is_cut() && self.any);
        group.is_pausing() || is_late || all || (group.is_whole() && any)
    }

    fn add(&mut self, group: &SealGroup) {
        self.any = true;
        self.unlogged |= group.is_unlogged;
        self.trees.extend(group.trees.iter().map(|tree| tree.id()));
    }
}

/// The groups that wait for their flush, and the one that is being flushed.
#[derive(Default)]
pub(crate) struct Flushes {
    pub(crate) groups: VecDeque<SealGroup>,
    /// The number of the group that is being flushed.
    pub(crate) running: Option<u64>,
    /// The trees of that group.
    pub(crate) running_trees: Vec<TreeId>,
    /// The group that is being flushed holds unlogged writes.
    pub(crate) runs_unlogged: bool,
    /// A pause of all flushes, after an error that concerns all, such as a full disk.
    pub(crate) pause: Option<BackOff>,
    /// The number of groups that were sealed, and of those that were installed.
    pub(crate) sealed: u64,
    pub(crate) installed: u64,
    /// The number of attempts that failed.
    pub(crate) failures: u64,
}

impl Flushes {
    /// Numbers `group` and appends it.
    pub(crate) fn push(&mut self, group: SealGroup) {
        self.sealed += 1;
        self.groups.push_back(SealGroup { number: self.sealed, ..group });
    }

    /// Calls `visit` with each group that can be flushed, in order, and with what waits before it,
    /// until `visit` returns a value.
    fn free_groups<T>(&self, mut visit: impl FnMut(usize, &Before) -> Option<T>) -> Option<T> {
        let mut before = Before::default();
        for (at, group) in self.groups.iter().enumerate() {
            if before.blocks(group) {
                before.add(group);
            } else if let Some(found) = visit(at, &before) {
                return Some(found);
            }
        }
        None
    }

    /// The number of groups that only wait for their turn, or are being flushed.
    pub(crate) fn pending(&self) -> u64 {
        let running = u64::from(self.running.is_some());
        if !self.groups.iter().any(SealGroup::is_pausing) {
            return self.groups.len() as u64 + running;
        }
        let mut free = 0;
        let _all = self.free_groups(|_, _| {
            free += 1;
            None::<()>
        });
        free + running
    }

    /// Takes the first group that can be flushed, if its memtables are complete. Trees that must
    /// wait stay behind as a group of the same number.
    pub(crate) fn take_group(&mut self) -> Option<SealGroup> {
        // Writers may still be active in a memtable; the last of them notifies.
        let is_ready = |tree: &Arc<Tree>| tree.sealed_count() == 0 || tree.flushable();
        let (at, waiting) = self.free_groups(|at, before| {
            let waits = |tree: &&Arc<Tree>| before.holds(tree);
            let waiting: Vec<_> = self.groups[at].trees.iter().filter(waits).cloned().collect();
            Some((at, waiting))
        })?;
        let stays = |tree: &Arc<Tree>| waiting.iter().any(|other| other.id() == tree.id());
        let group = self.groups.get_mut(at)?;
        if !group.trees.iter().filter(|tree| !stays(tree)).all(is_ready) {
            return None;
        }
        if waiting.is_empty() {
            return self.groups.remove(at);
        }
        let (stay, go) = std::mem::take(&mut group.trees).into_iter().partition(stays);
        group.trees = stay;
        Some(SealGroup { number: group.number, ..SealGroup::new(group.through, go) })
    }

    /// Returns whether `tree` is in the group that is being flushed.
    pub(crate) fn runs(&self, tree: &Tree) -> bool {
        self.running.is_some() && self.running_trees.contains(&tree.id())
    }

    /// Puts the trees `new` into the groups of the trees `old`, which they have replaced.
    pub(crate) fn replace(&mut self, old: &[Arc<Tree>], new: &[Arc<Tree>]) {
        let is_old = |tree: &Arc<Tree>| old.iter().any(|old| old.id() == tree.id());
        for group in self.groups.iter_mut().filter(|group| group.trees.iter().any(is_old)) {
            group.trees.retain(|tree| !is_old(tree));
            group.trees.extend(new.iter().cloned());
        }
    }

    /// Puts back the part of a group that could not be flushed.
    pub(crate) fn put_back(&mut self, group: SealGroup) {
        let at = self.groups.partition_point(|other| other.number < group.number);
        self.groups.insert(at, group);
    }

    /// Returns whether a group with unlogged writes waits.
    pub(crate) fn has_unlogged(&self) -> bool {
        self.groups.iter().any(|group| group.is_unlogged)
    }

    /// Returns whether no unlogged write up to the group `number` waits to be installed.
    pub(crate) fn is_unlogged_flushed(&self, number: u64) -> bool {
        let is_unlogged = |group: &SealGroup| group.is_unlogged && group.number <= number;
        let runs = self.runs_unlogged && self.running.is_some_and(|running| running <= number);
        !runs && !self.groups.iter().any(is_unlogged)
    }

    /// Returns whether everything up to the group `number` is installed.
    pub(crate) fn is_flushed(&self, number: u64) -> bool {
        self.running.is_none_or(|running| running > number)
            && self.groups.front().is_none_or(|group| group.number > number)
    }

    /// Returns an error if no group up to `number` can be flushed: each has failed since there were
    /// `failures`, or waits for one that has.
    pub(crate) fn why_not_flushed(&self, number: u64, failures: u64) -> Option<Error> {
        if self.running.is_some_and(|running| running <= number) {
            return None;
        }
        let is_wanted = |at: usize| self.groups.get(at).is_some_and(|group| group.number <= number);
        if self.pause.is_none() && self.free_groups(|at, _| is_wanted(at).then_some(())).is_some() {
            return None;
        }
        let mut failed = self.groups.iter().filter(|group| group.failed_at > failures);
        Some(failed.find(|group| group.number <= number)?.back_off.as_ref()?.error().clone())
    }

    /// Returns an error if no flush will make room for a writer that has waited since there were
    /// `failures`: the flushes of all trees fail, or those that hold the memory fail and no other
    /// is left. They have failed twice while it waited, or often before, and the next attempt is
    /// far off at the time `now`.
    pub(crate) fn why_no_room(&self, failures: u64, now: Duration) -> Option<Error> {
        let is_stuck = self.pause.is_some() || self.pending() == 0;
        if !is_stuck {
            return None;
        }
        let back_offs = || self.groups.iter().filter_map(|group| group.back_off.as_ref());
        let is_far_off = match &self.pause {
            Some(pause) => pause.is_far_off(now),
            None => back_offs().all(|back_off| back_off.is_far_off(now)),
        };
        let failures = match (is_far_off, self.failures > failures + 1) {
            (true, _) => 0,
            (false, true) => failures,
            (false, false) => return None,
        };
        let failed = self.groups.iter().filter(|group| group.failed_at > failures);
        let last = failed.max_by_key(|group| group.failed_at)?;
        last.back_off.as_ref().map(|back_off| back_off.error().clone())
    }

    /// Like [`Flushes::why_no_room`], for a writer that does not wait. Counts what has failed more
    /// than once since it last succeeded.
    pub(crate) fn why_no_room_now(&self) -> Option<Error> {
        let is_of_all = self.pause.as_ref().is_some_and(|pause| pause.lasting_error().is_some());
        if self.pause.is_none() && self.pending() > 0 {
            return None;
        }
        let failed = self.groups.iter().filter_map(|group| Some((group, group.back_off.as_ref()?)));
        let lasting =
            failed.filter(|(_, back_off)| is_of_all || back_off.lasting_error().is_some());
        let (_, last) = lasting.max_by_key(|(group, _)| group.failed_at)?;
        Some(last.error().clone())
    }

    /// Ends the pauses of all groups up to `number`, because a caller waits for them.
    pub(crate) fn wake(&mut self, number: u64) {
        if let Some(pause) = &mut self.pause {
            pause.is_pausing = false;
        }
        for group in self.groups.iter_mut().filter(|group| group.number <= number) {
            if let Some(back_off) = &mut group.back_off {
                back_off.is_pausing = false;
            }
        }
    }

    /// Ends the pause of what is left of the group `number`.
    pub(crate) fn end_pause(&mut self, number: u64) {
        let of_group = self.groups.iter_mut().filter(|group| group.number == number);
        of_group
            .filter_map(|group| group.back_off.as_mut())
            .for_each(|back_off| back_off.is_pausing = false);
    }

    /// Trees of groups that fail, or that wait for such a group. They are not sealed for their
    /// size.
    pub(crate) fn stuck_trees(&self) -> HashSet<TreeId> {
        let mut before = Before::default();
        for group in &self.groups {
            if before.blocks(group) {
                before.add(group);
            }
        }
        before.trees
    }

    /// Groups whose own flush keeps failing, with their errors.
    pub(crate) fn lasting_groups(&self) -> impl Iterator<Item = (&SealGroup, &Error)> {
        self.groups.iter().filter_map(|group| Some((group, group.lasting_error()?)))
    }
}
