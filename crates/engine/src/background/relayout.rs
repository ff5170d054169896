//! Puts trees in the place of others, by one edit and without a stop of readers or writers.
//!
//! ```text
//! one edit, synced:  the record with another bound, the tables of the new trees
//! numbering lock:    memtables sealed -> new trees -> layout -> old trees retired
//! ```
//! Nothing is written but the edit: the new trees hold the tables with their keys, and the sealed
//! memtables, until each has flushed and trimmed its part. A crash before the edit leaves the old
//! trees. After it, the log is replayed into the new ones, which are flushed as far as the old ones
//! were.

use super::claims::TreeClaims;
use super::seal::seal_to_replace;
use super::split_size::note_size;
use super::upkeep::Upkeep;
use super::watch::watch;
use crate::catalog::KeyspaceRecord;
use crate::keyspace_core::KeyspaceCore;
use crate::manifest::{Edit, Manifest};
use flagstone_base::{Result, SeqNo};
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::{Successor, Tree, inherited, replace, retire};
use std::sync::Arc;

/// Returns whether something keeps the trees of `core` as they are.
pub(super) fn is_kept(upkeep: &Upkeep, core: &KeyspaceCore) -> bool {
    upkeep.splits.is_cut()
        || core.is_ingesting()
        || core.is_filling()
        || core.check_not_dropped().is_err()
        || upkeep.core.history.replaying.load(Ordering::Acquire)
        || upkeep.core.health.check_open_for_writing().is_err()
        || upkeep.core.health.poisoned().is_some()
}

/// A change of the layout of a keyspace.
pub(super) struct Change<'a> {
    /// The trees that are replaced, neighbours.
    pub(super) old: &'a [Arc<Tree>],
    /// The partition of the first of them.
    pub(super) at: usize,
    pub(super) record: KeyspaceRecord,
    /// The SeqNo through which all that was written to them is in tables, if all is.
    pub(super) through: Option<SeqNo>,
}

/// Makes `change` durable, then current. After an error it is neither.
pub(super) fn change(
    upkeep: &Upkeep,
    manifest: &mut Manifest,
    core: &KeyspaceCore,
    change: &Change<'_>,
) -> Result<()> {
    let &Change { old, at, ref record, through } = change;
    let count = record.trees.len() + old.len() - core.trees().len();
    let new = (at..at + count).map(|partition| {
        let id = record.trees[partition];
        let bounds = record.route.bounds_of(partition).unwrap_or_default();
        let mut edit = inherited(old, id, &bounds);
        edit.flushed_through = through.or(edit.flushed_through);
        Successor { edit, options: core.tree_options(record, partition) }
    });
    let new: Vec<Successor> = new.collect();
    let edit = Edit {
        keyspaces_altered: vec![record.clone()],
        tables: new.iter().map(|new| new.edit.clone()).collect(),
        ..upkeep.core.edits.edit_of_now(std::iter::once(core.id))
    };
    upkeep.core.edits.append_whole(manifest, &edit)?;
    upkeep.core.edits.note_definitions(&edit);
    let before: u64 = old.iter().map(|tree| tree.table_bytes()).sum();
    // The manifest has the edit. Without the new trees writes would go to trees that it lacks.
    let trees = put_in_place(upkeep, core, change, new);
    let trees = trees.inspect_err(|error| upkeep.core.health.poison(error))?;
    if let Some(record) = manifest.state().catalog.by_id(core.id) {
        upkeep.core.keyspaces.replace_record(core, record);
    }
    upkeep.core.work.note_table_bytes(before, trees.iter().map(|tree| tree.table_bytes()).sum());
    for tree in old {
        upkeep.splits.forget(tree.id());
        watch(upkeep, tree);
    }
    for tree in &trees {
        watch(upkeep, tree);
        note_size(upkeep, tree, tree.table_bytes());
    }
    Ok(())
}

/// Seals the memtables of the old trees and puts the `new` ones in their place.
fn put_in_place(
    upkeep: &Upkeep,
    core: &KeyspaceCore,
    change: &Change<'_>,
    new: Vec<Successor>,
) -> Result<Vec<Arc<Tree>>> {
    let &Change { old, at, ref record, .. } = change;
    let mut numbering = upkeep.core.history.numbering.lock();
    seal_to_replace(upkeep, &mut numbering, old);
    let trees = replace(old, new)?;
    {
        let mut queue = upkeep.core.work.lock();
        queue.flushes.replace(old, &trees);
        upkeep.core.work.recount(&queue);
    }
    let mut all = core.trees().to_vec();
    all.splice(at..at + old.len(), trees.iter().cloned());
    core.set_layout(record.route.clone(), all);
    retire(old, &trees);
    old.iter().for_each(|tree| numbering.forget(tree));
    trees.iter().for_each(|tree| numbering.note_unflushed(tree));
    Ok(trees)
}

/// Trees that are neither flushed nor compacted until this is dropped.
pub(super) struct StoppedTrees {
    upkeep: Arc<Upkeep>,
    trees: Vec<Arc<Tree>>,
    _claims: TreeClaims,
}

impl StoppedTrees {
    /// Stops `trees`, unless one of them is being flushed or compacted.
    pub(super) fn take(upkeep: &Arc<Upkeep>, trees: &[Arc<Tree>]) -> Option<Self> {
        let mut claims = TreeClaims::new(upkeep);
        if !trees.iter().all(|tree| claims.take(tree)) {
            return None;
        }
        let mut stopped = Self { upkeep: Arc::clone(upkeep), trees: Vec::new(), _claims: claims };
        // Under the lock no flush takes a tree in between.
        let queue = upkeep.core.work.lock();
        for tree in trees {
            if queue.flushes.runs(tree) || !tree.stop_flushes() {
                drop(queue);
                return None;
            }
            stopped.trees.push(Arc::clone(tree));
        }
        drop(queue);
        Some(stopped)
    }
}

impl Drop for StoppedTrees {
    fn drop(&mut self) {
        self.trees.iter().for_each(|tree| tree.let_flush());
        self.upkeep.core.work.notify_all();
    }
}
