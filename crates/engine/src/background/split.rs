//! Splits a tree that has grown in two, and one whose writers contend in up to four.

use super::cuts::Cuts;
use super::relayout::{Change, StoppedTrees, change, is_kept};
use super::split_size::limit_of;
use super::upkeep::Upkeep;
use crate::event::Event;
use crate::partition::PARTITIONS_MAX;
use flagstone_base::{Result, TreeId};
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::{Tree, WriteLoad};
use std::slice::from_ref;
use std::sync::Arc;

/// Splits what is due.
pub(super) fn split_due(upkeep: &Arc<Upkeep>) {
    for (tree, load) in upkeep.splits.due() {
        let split =
            upkeep.core.health.run_step("a split", || split(upkeep, &tree, load.as_deref()));
        end(upkeep, &tree, split);
    }
}

/// What became of a split.
enum Split {
    Done,
    /// Something that will end keeps the tree as it is.
    Later,
    /// The tree need not or cannot be split.
    Never,
}

fn end(upkeep: &Upkeep, tree: &Tree, split: Result<Split>) {
    match split {
        Ok(Split::Later) => {}
        Ok(Split::Done | Split::Never) => upkeep.splits.forget(tree.id()),
        // The next change of the tree tries again.
        Err(error) => {
            upkeep.splits.forget(tree.id());
            upkeep.core.ballast.note_failure(&error);
            upkeep.core.health.tell(&Event::BackgroundFailed { doing: "split", error });
        }
    }
}

fn split(upkeep: &Arc<Upkeep>, tree: &Arc<Tree>, load: Option<&WriteLoad>) -> Result<Split> {
    let Some(core) = upkeep.core.keyspaces.get(tree.options().keyspace) else {
        return Ok(Split::Never);
    };
    let layout = core.layout();
    let Some(at) = layout.trees.iter().position(|other| Arc::ptr_eq(other, tree)) else {
        return Ok(Split::Never);
    };
    let limit = limit_of(upkeep, &layout.route, tree);
    let is_large = limit > 0 && tree.table_bytes() >= limit;
    let load = load.filter(|_| limit > 0).and_then(|load| Cuts::of_load(load, tree, layout, at));
    if (!is_large && load.is_none()) || layout.trees.len() >= PARTITIONS_MAX {
        return Ok(Split::Never);
    }
    // Until its tables are trimmed, its size is not known.
    if tree.shares_tables() || is_kept(upkeep, &core) {
        upkeep.splits.note_awaited(tree.id(), false);
        return Ok(Split::Later);
    }
    let stopped = StoppedTrees::take(upkeep, from_ref(tree));
    upkeep.splits.note_awaited(tree.id(), stopped.is_none());
    let Some(_stopped) = stopped else { return Ok(Split::Later) };
    let is_by_load = load.is_some();
    let Some(cuts) = load.or_else(|| Cuts::of_size(tree, layout, at)) else {
        return Ok(Split::Never);
    };
    let mut guard = upkeep.core.edits.manifest.lock();
    let Some(manifest) = guard.as_mut() else { return Ok(Split::Never) };
    let Some(record) = manifest.state().catalog.by_id(core.id) else { return Ok(Split::Never) };
    if is_kept(upkeep, &core) {
        return Ok(Split::Later);
    }
    let first = manifest.state().catalog.counters().next_tree.0;
    let Some(last) = first.checked_add(cuts.len() as u32) else { return Ok(Split::Never) };
    let trees: Vec<TreeId> = (first..=last).map(TreeId).collect();
    let record = match &cuts {
        Cuts::Keys(cuts) => record.split(at, cuts, &trees),
        Cuts::Hashes(cuts) => record.split_hashes(at, cuts, &trees),
    };
    change(upkeep, manifest, &core, &Change { old: from_ref(tree), at, record, through: None })?;
    drop(guard);
    if layout.route.is_range() {
        upkeep.splits.note_divided(core.id);
    }
    if is_by_load {
        upkeep.splits.note_split_by_load(core.id, upkeep.core.setup().now());
    }
    upkeep.splits.splits.fetch_add(cuts.len() as u64, Ordering::Relaxed);
    for (partition, bound) in (at..).zip(cuts.bounds()) {
        let keyspace = upkeep.core.keyspaces.full_name(&core);
        upkeep.core.health.tell(&Event::PartitionSplit { keyspace, partition, bound });
    }
    Ok(Split::Done)
}
