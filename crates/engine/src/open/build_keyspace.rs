//! Builds a keyspace ready for use from its record in the catalog.

use crate::catalog::KeyspaceRecord;
use crate::content::{Content, ContentFactory, Described};
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::{Result, TreeId};
use flagstone_tree::{Tree, TreeOptions};
use std::sync::Arc;

/// Opens the content of the keyspace of `record`.
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

/// Builds the keyspace of `record`; `create_tree` creates the tree of each partition.
pub(crate) fn build_keyspace(
    record: Arc<KeyspaceRecord>,
    content: Content,
    mut create_tree: impl FnMut(TreeId, &KeyspaceCore) -> Result<Arc<Tree>>,
) -> Result<KeyspaceCore> {
    let mut core = KeyspaceCore::new(Arc::clone(&record), content);
    for &id in &record.trees {
        let tree = create_tree(id, &core)?;
        core.entry_checks = tree.context().entry_checks;
        core.trees.push(tree);
    }
    Ok(core)
}

/// The turn of the only tree of a keyspace: its L0 grows to the average size.
const LONE_TURN: u8 = 4;

/// The options of tree `id` of a keyspace.
///
/// The trees of one keyspace fill at the same rate, so they would all be compacted at once. Turns
/// spread this out; neighbouring trees get distant turns. A single tree needs no turn.
pub(crate) fn tree_options(core: &KeyspaceCore, id: TreeId) -> TreeOptions {
    let record = core.record();
    let turn = match record.trees.len() {
        1 => LONE_TURN,
        _ => (id.0 as u8).reverse_bits() >> 5,
    };
    TreeOptions {
        turn,
        keyspace: core.id,
        hash_seed: core.route.seed(),
        tables: record.tables,
        fold: core.fold.clone(),
        ..TreeOptions::default()
    }
}
