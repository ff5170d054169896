//! Chooses which memtables to seal, and when.
//!
//! One group at a time: when the memtables together reach half of their share and nothing waits to
//! be flushed, the largest is sealed. So the total stays about constant, and partitions that fill
//! at the same rate are flushed one after another instead of all at once. With the option
//! `memtable_bytes` a memtable is also sealed as soon as it reaches that size.

use super::upkeep::Upkeep;
use crate::history::Numbering;
use crate::queue::{CutRequest, SealGroup};
use flagstone_base::sorted::sort_by;
use flagstone_base::{SeqNo, TreeId};
use flagstone_tree::Tree;
use flagstone_wal::SegmentInfo;
use std::collections::HashSet;
use std::sync::Arc;

/// A seal of the largest memtables takes at least one part in this many of their share, from as
/// many trees as needed. With many trees that hold little, one tree a flush would cost two syncs
/// and an edit for a few MiB.
const GROUP_PARTS: u64 = 16;

/// The memtables that a seal takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Take<'a> {
    /// The largest, or several where each is small. Also the trees that pin the oldest part of the
    /// log, if the log is too long.
    Largest,
    All,
    /// Memtables of at least this many bytes, and those that pin the oldest part of a log that is
    /// too long.
    Over(u64),
    /// Memtables that pin the oldest part of the log.
    Oldest,
    /// Memtables of the given trees.
    Trees(&'a [TreeId]),
    /// Memtables of the given trees, even while others are being flushed.
    Now(&'a [TreeId]),
}

/// Seals everything as one group. Returns whether there was anything to seal.
pub(crate) fn seal_all(upkeep: &Upkeep) -> bool {
    seal(upkeep, Take::All, None)
}

/// Seals everything as one group, even if it is empty. Its install fulfils `request`.
pub(super) fn seal_all_and_cut(upkeep: &Upkeep, request: CutRequest) {
    seal(upkeep, Take::All, Some(request));
}

/// Seals everything during a replay. `through` is the last SeqNo that was inserted; later records
/// of the log are still to come.
pub(crate) fn seal_through(upkeep: &Upkeep, through: SeqNo) {
    let written: Vec<_> = upkeep.core.history.numbering.lock().unflushed().cloned().collect();
    let sealed: Vec<_> = written.into_iter().filter(|tree| tree.seal(through)).collect();
    if !sealed.is_empty() {
        upkeep.core.work.push(SealGroup::new(through, sealed));
    }
}

pub(super) fn seal(upkeep: &Upkeep, take: Take<'_>, cut: Option<CutRequest>) -> bool {
    let mut numbering = upkeep.core.history.numbering.lock();
    // Unlogged writes survive a crash only as a whole cut of history: all trees at one SeqNo,
    // installed by one edit.
    let is_unlogged = numbering.unlogged;
    // Nor may newer unlogged writes be sealed while the flush of older ones fails: every commit
    // would seal another group that waits.
    if is_unlogged && take != Take::All && upkeep.core.work.lock().flushes.has_unlogged() {
        return false;
    }
    let take = if is_unlogged { Take::All } else { take };
    if !matches!(take, Take::All | Take::Now(_)) && upkeep.core.work.is_flush_pending() {
        return false;
    }
    // A memtable that is sealed after one whose flush fails would only wait.
    let stuck = match take {
        Take::All => HashSet::new(),
        _ => upkeep.core.work.lock().flushes.stuck_trees(),
    };
    // Read under the lock, so that every tree whose writes have numbers is included.
    let (trees, stuck): (Vec<_>, Vec<_>) =
        numbering.unflushed().partition(|tree| !stuck.contains(&tree.id()));
    let seal_seqno = SeqNo::new(numbering.next.get() - 1);
    // Full memtables may cause seals so often that a long log must not wait for a turn of its own.
    let oldest = |wanted| trees_of_oldest_segment(upkeep, &trees, &stuck, wanted);
    let chosen = match take {
        Take::All => trees,
        Take::Largest => {
            let largest =
                largest(&trees, upkeep.core.setup().options.memtable_share() / GROUP_PARTS);
            oldest(upkeep.is_log_long()).into_iter().chain(largest).collect()
        }
        Take::Over(limit) => {
            let over = trees.iter().copied().filter(|tree| tree.active_bytes() >= limit);
            oldest(upkeep.is_log_long()).into_iter().chain(over).collect()
        }
        Take::Oldest => {
            let wanted = true;
            oldest(wanted)
        }
        Take::Trees(ids) | Take::Now(ids) => {
            trees.iter().copied().filter(|tree| ids.contains(&tree.id())).collect()
        }
    };
    let sealed: Vec<Arc<Tree>> =
        chosen.into_iter().filter(|tree| tree.seal(seal_seqno)).cloned().collect();
    if take == Take::All {
        numbering.end_unlogged();
    }
    if sealed.is_empty() && cut.is_none() {
        return false;
    }
    upkeep.core.work.push(SealGroup { cut, is_unlogged, ..SealGroup::new(seal_seqno, sealed) });
    true
}

/// Seals the memtables of `trees`, which others are about to replace, as one group. If there are
/// unlogged writes, it takes those of all other trees along.
pub(super) fn seal_to_replace(upkeep: &Upkeep, numbering: &mut Numbering, trees: &[Arc<Tree>]) {
    let (is_unlogged, through) = (numbering.unlogged, SeqNo::new(numbering.next.get() - 1));
    let chosen: Vec<Arc<Tree>> =
        if is_unlogged { numbering.unflushed().cloned().collect() } else { trees.to_vec() };
    let sealed: Vec<_> = chosen.into_iter().filter(|tree| tree.seal(through)).collect();
    numbering.end_unlogged();
    if !sealed.is_empty() {
        upkeep.core.work.push(SealGroup { is_unlogged, ..SealGroup::new(through, sealed) });
    }
}

/// Returns those of `trees` that pin the oldest segment of the log, if `wanted`. If only a `stuck`
/// tree pins it, flushing others would free nothing.
fn trees_of_oldest_segment<'a>(
    upkeep: &Upkeep,
    trees: &[&'a Arc<Tree>],
    stuck: &[&Arc<Tree>],
    wanted: bool,
) -> Vec<&'a Arc<Tree>> {
    let Some(log) = upkeep.core.history.log.as_ref().filter(|_| wanted) else { return Vec::new() };
    let all = trees.iter().chain(stuck);
    let oldest = all.filter_map(|tree| tree.oldest_unflushed()).min();
    let end = log.segments().first().and_then(SegmentInfo::last_seqno).max(oldest);
    let pins = |tree: &&Arc<Tree>| tree.oldest_unflushed().is_some_and(|at| Some(at) <= end);
    trees.iter().copied().filter(pins).collect()
}

/// Returns the tree with the largest active memtable. If that is smaller than `bytes`, returns as
/// many of the largest as reach `bytes` together.
fn largest<'a>(trees: &[&'a Arc<Tree>], bytes: u64) -> Vec<&'a Arc<Tree>> {
    let sized = trees.iter().map(|&tree| (tree.active_bytes(), tree));
    let Some(first) = sized.clone().max_by_key(|(bytes, _)| *bytes) else { return Vec::new() };
    if first.0 >= bytes {
        return vec![first.1];
    }
    let mut all: Vec<(u64, &Arc<Tree>)> = sized.collect();
    sort_by(&mut all, |(a, _), (b, _)| b.cmp(a));
    let mut sum = 0;
    let is_wanted = |(of_tree, _): &(u64, _)| {
        let is_wanted = sum < bytes;
        sum += *of_tree;
        is_wanted
    };
    all.into_iter().take_while(is_wanted).map(|(_, tree)| tree).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::Builder;
    use crate::{Durability, Environment, KeyspaceOptions, Options, Routing};
    use flagstone_env::names::FileKind;
    use flagstone_env::{
        Effect, Executor, Failure, Fault, FaultDisk, ManualClock, MemDisk, Op, SeededRandom,
        StepExecutor,
    };
    use std::sync::Arc;

    fn flushes_of_8_mib(memtable_bytes: Option<u64>) -> u64 {
        let dir = tempfile::tempdir().unwrap();
        let mut builder = Builder::at(dir.path()).memory_budget(64 << 20);
        if let Some(bytes) = memtable_bytes {
            builder = builder.memtable_bytes(bytes);
        }
        let db = builder.open().unwrap();
        let options = KeyspaceOptions::new().routing(Routing::Hash(2));
        let kv = db.keyspace_with("k", options).unwrap();
        for i in 0..8192_u32 {
            kv.put(i.to_be_bytes(), [7; 1000]).unwrap();
        }
        // Sealed memtables may still wait for their flush.
        db.flush().unwrap();
        db.stats().flushes
    }

    /// Each commit sealed another group, and every group waited for the one before it.
    #[test]
    fn unlogged_writes_after_a_flush_that_failed_are_not_sealed_by_every_commit() {
        let (disk, steps) = (FaultDisk::new(Arc::new(MemDisk::default())), StepExecutor::default());
        let steps = Arc::new(steps);
        let environment = Environment {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::<StepExecutor>::clone(&steps)),
        };
        let options =
            Options { memory_budget: 1 << 20, durability: Durability::None, ..Options::default() };
        let db = Builder::at("db").options(options).environment(environment).open().unwrap();
        // Memtables of one tree would be more than half full.
        let four = KeyspaceOptions::new().routing(Routing::Hash(4));
        let kv = db.keyspace_with("kv", four).unwrap();
        let other = db.keyspace("other").unwrap();
        let work = &kv.handle().parts().upkeep.core.work;
        let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Create]);
        disk.inject(fault.of(FileKind::Table).forever());
        let sealed = || work.lock().flushes.sealed;
        let is_enough = (0..1000_u32).any(|n| {
            kv.put(n.to_be_bytes(), [7; 1000]).unwrap();
            sealed() > 0
        });
        assert!(is_enough);
        while work.lock().flushes.failures == 0 {
            assert!(steps.assist());
        }
        // The memtables are still half full.
        (0..20_u32).for_each(|n| other.put(n.to_be_bytes(), "1").unwrap());
        assert_eq!(sealed(), 1);
    }

    #[test]
    fn a_memtable_is_sealed_at_the_bytes_that_a_user_sets() {
        assert_eq!(flushes_of_8_mib(None), 2, "one for each partition, at the end");
        let flushes = flushes_of_8_mib(Some(256 << 10));
        // At least one before the end; the exact number depends on the speed of flushes.
        assert!(flushes > 2, "{flushes} flushes");
    }
}
