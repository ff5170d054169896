//! From a record of the catalog to a keyspace ready for use.

use crate::catalog::KeyspaceRecord;
use crate::commit::Gate;
use crate::content::{Content, ContentFactory, Described};
use crate::space::{Fate, KeyspaceCore};
use flagstone_base::{Result, TreeId};
use flagstone_env::sync::atomic::{AtomicU8, AtomicUsize};
use flagstone_tree::{Tree, TreeOptions};
use std::sync::Arc;

/// Opens what the keyspace of `record` holds.
///
/// # Errors
/// As [`ContentFactory::open`].
pub(crate) fn open_content(
    contents: &dyn ContentFactory,
    record: &KeyspaceRecord,
) -> Result<Content> {
    let (name, content) = (&record.name, &record.content);
    contents.open(Described { name, content, fold: record.fold.as_deref() })
}

/// A keyspace of `record`; `make_tree` makes the tree of each partition.
pub(crate) fn make_core(
    record: Arc<KeyspaceRecord>,
    content: Content,
    mut make_tree: impl FnMut(TreeId, &KeyspaceCore) -> Result<Arc<Tree>>,
) -> Result<KeyspaceCore> {
    let mut core = KeyspaceCore {
        id: record.id,
        name: record.name.clone(),
        route: record.route.clone(),
        trees: Vec::with_capacity(record.trees.len()),
        fold: content.fold,
        definitions: content.definitions,
        attachment: content.attachment,
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
        fold: core.fold.clone(),
        ..TreeOptions::default()
    }
}
