//! Builds keyspaces ready for use from their records in the catalog.

use crate::catalog::KeyspaceRecord;
use crate::content::{ContentFactory, Described, OpenContent, OwnedBy};
use crate::keyspace_core::KeyspaceCore;
use crate::keyspaces::Keyspaces;
use crate::manifest::ManifestState;
use flagstone_base::{Error, ErrorKind, Result, TreeId};
use flagstone_tree::{OpenTables, Tree, TreeContext, TreeOptions, Version};
use std::sync::Arc;

/// Opens the content of the keyspace of `record`.
///
/// # Errors
/// As [`ContentFactory::open`].
pub(crate) fn open_content(
    contents: &dyn ContentFactory,
    record: &KeyspaceRecord,
) -> Result<OpenContent> {
    let KeyspaceRecord { id, name, content, .. } = record;
    let owned = record.owned.as_ref().map(|owned| OwnedBy {
        owner: owned.owner,
        note: &owned.note,
        is_doubtful: owned.is_doubtful,
    });
    contents.open(Described { id: *id, name, content, fold: record.fold.as_deref(), owned })
}

/// Builds the keyspace of `record`; `create_tree` creates the tree of each partition.
pub(crate) fn build_keyspace(
    record: Arc<KeyspaceRecord>,
    content: OpenContent,
    mut create_tree: impl FnMut(TreeId, TreeOptions) -> Result<Arc<Tree>>,
) -> Result<KeyspaceCore> {
    let mut core = KeyspaceCore::new(Arc::clone(&record), content);
    let trees = (0..).zip(&record.trees);
    let trees = trees.map(|(at, &id)| create_tree(id, core.tree_options(&record, at)));
    let trees = trees.collect::<Result<Vec<_>>>()?;
    core.entry_checks = trees.iter().any(|tree| tree.context().entry_checks);
    core.set_trees(trees);
    Ok(core)
}

/// Builds all keyspaces of `state`, with their trees and definitions.
///
/// # Errors
/// Unsupported for definitions of a kind that this version does not know; any error of
/// [`ContentFactory::open`]; Corruption when the tables of a tree do not fit together.
pub(super) fn build_keyspaces(
    state: &ManifestState,
    contents: &dyn ContentFactory,
    context: &Arc<TreeContext>,
) -> Result<Keyspaces> {
    let keyspaces = Keyspaces::default();
    // Two trees may have the same table.
    let mut known = OpenTables::default();
    for record in state.catalog.iter() {
        let content = open_content(contents, record)?;
        let core = build_keyspace(Arc::clone(record), content, |id, options| {
            let version = match state.trees.get(&id) {
                Some(tree) => Version::open(context, &tree.to_edit(id), &mut known)?,
                None => Version::empty(),
            };
            Ok(Tree::new(id, Arc::clone(context), options, version))
        })?;
        for table in &core.definitions {
            let items = state.definitions_of(core.id, table.kind);
            table.restore(0, items)?;
            table.note_in_manifest(items.len() as u32);
        }
        keyspaces.insert(&Arc::new(core));
    }
    check_definitions_known(state, &keyspaces)?;
    keyspaces.join_owned();
    Ok(keyspaces)
}

/// Refuses definitions of a kind that this version does not know: a newer one wrote them.
fn check_definitions_known(state: &ManifestState, keyspaces: &Keyspaces) -> Result<()> {
    for &(id, kind) in state.definitions.keys() {
        let keyspace = keyspaces.get(id);
        if let Some(keyspace) = keyspace.filter(|keyspace| keyspace.table_of(kind).is_none()) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("keyspace {:?} has {kind}, unknown to this version", keyspace.name()),
            ));
        }
    }
    Ok(())
}
