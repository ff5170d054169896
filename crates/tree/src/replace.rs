//! Replaces trees by others: a split gives the tables and memtables of a tree to two new ones, a
//! merge those of two neighbours to one.
//!
//! ```text
//! edits of the new trees --> manifest synced --> sealed --> replaced, all at once:
//!   tables      the same handles, each held by every new tree that it has keys of
//!   memtables   the same sealed ones, each flushed by every new tree up to its bounds
//!   old trees   retired: they lead to the new ones
//! ```
//! A reader that still has an old tree finds it retired, and goes on in the new ones. A scan does
//! so in the middle.

use crate::bounds::KeyBounds;
use crate::memtable::{Memtable, MemtableSize};
use crate::options::TreeOptions;
use crate::tree::Tree;
use crate::version::{TableHandle, TreeEdit, Version, missing};
use crate::view::View;
use flagstone_base::sorted::sort_by;
use flagstone_base::{FileNumber, Result, SeqNo, TreeId};
use std::collections::HashMap;
use std::sync::Arc;

/// A tree that replaces others.
pub struct Successor {
    /// The tables that it gets, as [`inherited`] lists them.
    pub edit: TreeEdit,
    /// Its options.
    pub options: TreeOptions,
}

/// Returns the edit that gives the tables of `trees` to the new tree `id`, as far as they may
/// have keys within `bounds`. The new tree is flushed as far as the first of them.
pub fn inherited(trees: &[Arc<Tree>], id: TreeId, bounds: &KeyBounds) -> TreeEdit {
    let (mut edit, mut untraced) = (TreeEdit::new(id), SeqNo::ZERO);
    for (at, tree) in trees.iter().enumerate() {
        let view = tree.view();
        let version = view.version();
        let met = version.tables().filter(|(_, table)| bounds.meets(table.meta()));
        edit.added.extend(met.map(|(level, table)| (level, table.meta().clone())));
        edit.watermark = edit.watermark.max(version.watermark());
        edit.expired_through = edit.expired_through.max(version.expired_through());
        untraced = untraced.max(version.untraced_through());
        if at == 0 {
            let through = version.flushed_through();
            edit.flushed_through = Some(through).filter(|through| *through > SeqNo::ZERO);
        }
    }
    edit.untraced_through = (edit.watermark.max(untraced) > SeqNo::ZERO).then_some(untraced);
    edit
}

/// Returns `new` trees with everything that the trees `old` have. Must be called after the
/// manifest has synced the edits, after the active memtables were sealed, and under the locks
/// that keep others from sealing and installing. No flush or compaction of the old trees may
/// run. [`retire`] follows, once the new trees are the ones that a reader looks up.
///
/// # Errors
/// Corruption if an edit names a table that the old trees do not have, or that does not fit;
/// nothing has changed then.
pub fn replace(old: &[Arc<Tree>], new: Vec<Successor>) -> Result<Vec<Arc<Tree>>> {
    let views: Vec<Arc<View>> = old.iter().map(|tree| tree.view()).collect();
    let tables = views.iter().flat_map(|view| view.version().tables());
    let known: HashMap<FileNumber, &Arc<TableHandle>> =
        tables.map(|(_, table)| (table.number(), table)).collect();
    let sealed = sealed_of(&views);
    let versions = new.iter().map(|new| version_of(&known, &new.edit));
    let versions = versions.collect::<Result<Vec<_>>>()?;
    sealed.iter().for_each(|memtable| memtable.share(new.len()));
    let trees = new
        .into_iter()
        .zip(versions)
        .map(|(Successor { edit, options }, version)| {
            version.tables().for_each(|(_, table)| table.hold(edit.tree));
            let context = Arc::clone(old[0].context());
            let dead_ranges = Arc::default();
            let fold = options.fold.as_ref();
            let active = Memtable::new(&context, fold, &dead_ranges, MemtableSize::default());
            let view = View { active, sealed: sealed.clone(), version: version.shared() };
            let tree = Tree::with_view(edit.tree, context, options, view, dead_ranges);
            tree.set_keep_tombstones(old.iter().any(|old| old.keeps_tombstones()));
            tree
        })
        .collect();
    Ok(trees)
}

/// Makes readers of the trees `old` go on in `new` ones, which have replaced them.
pub fn retire(old: &[Arc<Tree>], new: &[Arc<Tree>]) {
    if let Some(first) = new.first() {
        old.iter().for_each(|tree| first.counters.add(tree.counters.get()));
    }
    for tree in old {
        let view = tree.view();
        tree.lead_to(new);
        // The new trees hold them.
        view.version().tables().for_each(|(_, table)| table.set_removed());
    }
}

/// The sealed memtables of all `views`, newest first.
fn sealed_of(views: &[Arc<View>]) -> Vec<Arc<Memtable>> {
    let mut sealed: Vec<_> = views.iter().flat_map(|view| view.sealed.iter().cloned()).collect();
    sort_by(&mut sealed, |a, b| b.seal_seqno().cmp(&a.seal_seqno()));
    sealed
}

/// The version of `edit`, whose tables are all `known`.
fn version_of(known: &HashMap<FileNumber, &Arc<TableHandle>>, edit: &TreeEdit) -> Result<Version> {
    let numbers = || edit.added.iter().map(|(_, meta)| meta.number);
    if let Some(number) = numbers().find(|number| !known.contains_key(number)) {
        return Err(missing(number));
    }
    Version::empty().apply_new(edit, |meta| Arc::clone(known[&meta.number]))
}
