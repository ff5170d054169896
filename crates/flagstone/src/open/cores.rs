//! From a record of the catalog to a keyspace ready for use.

use crate::catalog::{KeyspaceContent, KeyspaceRecord};
use crate::commit::Gate;
use crate::fold::{Fold, PATCH_FOLD, PatchFold, TreeFold};
use crate::keyspace::{Fate, KeyspaceCore};
use crate::shared::Shared;
use flagstone_base::{Error, Result, TreeId};
use flagstone_doc::Names;
use flagstone_env::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize};
use flagstone_tree::{Tree, TreeOptions};
use std::sync::Arc;

/// Finds the fold that a keyspace names, or refuses.
pub(crate) fn find_fold(
    folds: &[Arc<dyn Fold>],
    wanted: Option<&str>,
    keyspace: &str,
) -> Result<Option<Arc<TreeFold>>> {
    // The fold of patches is made with its collection, whose names it needs.
    let Some(wanted) = wanted.filter(|wanted| *wanted != PATCH_FOLD) else { return Ok(None) };
    // The last one registered under a name wins.
    let found = folds.iter().rev().find(|fold| fold.name() == wanted);
    let Some(fold) = found else {
        return Err(Error::invalid(format!(
            "keyspace {keyspace:?} needs the fold {wanted:?}: register it with Builder::fold"
        )));
    };
    Ok(Some(Arc::new(TreeFold(Arc::clone(fold)))))
}

impl Shared {
    pub(crate) fn fold_named(
        &self,
        wanted: Option<&str>,
        keyspace: &str,
    ) -> Result<Option<Arc<TreeFold>>> {
        find_fold(&self.folds, wanted, keyspace)
    }
}

/// A keyspace of `record`; `make_tree` makes the tree of each partition.
pub(crate) fn make_core(
    record: Arc<KeyspaceRecord>,
    fold: Option<Arc<TreeFold>>,
    mut make_tree: impl FnMut(TreeId, &KeyspaceCore) -> Result<Arc<Tree>>,
) -> Result<KeyspaceCore> {
    let documents = record.content == KeyspaceContent::Documents;
    let names = documents.then(|| Arc::new(Names::new()));
    let takes_patches = record.fold.as_deref() == Some(PATCH_FOLD);
    let patches =
        names.clone().filter(|_| takes_patches).map(|names| Arc::new(PatchFold::new(names)));
    let fold = match &patches {
        Some(patches) => Some(Arc::new(TreeFold(Arc::clone(patches) as Arc<dyn Fold>))),
        None => fold,
    };
    let mut core = KeyspaceCore {
        id: record.id,
        name: record.name.clone(),
        route: record.route.clone(),
        trees: Vec::with_capacity(record.trees.len()),
        names,
        names_logged: AtomicU32::new(0),
        names_in_manifest: AtomicU32::new(0),
        fold,
        patches,
        fate: AtomicU8::new(Fate::Lives as u8),
        gate: Gate::default(),
        updated_bytes: AtomicUsize::new(0),
        entry_checks: false,
        record,
    };
    for at in 0..core.record.trees.len() {
        let tree = make_tree(core.record.trees[at], &core)?;
        core.entry_checks = tree.context().entry_checks;
        core.trees.push(tree);
    }
    Ok(core)
}

/// The turn in which L0 grows as large as is meant on average.
const LONE_TURN: u8 = 4;

/// The options of a keyspace's tree `id`.
///
/// Trees of one keyspace fill alike: they take turns, those of neighbours far apart. A single tree has nobody
/// to be out of step with.
pub(crate) fn tree_options(core: &KeyspaceCore, id: TreeId) -> TreeOptions {
    let turn = match core.record.trees.len() {
        1 => LONE_TURN,
        _ => (id.0 as u8).reverse_bits() >> 5,
    };
    TreeOptions {
        turn,
        keyspace: core.id,
        hash_seed: core.route.seed(),
        block_bytes: core.record.block_bytes,
        filter_bits: core.record.filter_bits,
        upper_compression: core.record.compression,
        bottom_compression: core.record.bottom_compression,
        fold: core.fold.clone().map(|fold| fold as Arc<dyn flagstone_tree::Fold>),
        ..TreeOptions::default()
    }
}
