//! Checks that the tables and definitions of an edit fit the state of the manifest.

use super::tree_state::TreeState;
use crate::catalog::ChangedCatalog;
use crate::content::{DefinitionKind, DefinitionRecord, DefinitionText};
use flagstone_base::{Error, ErrorKind, FileNumber, KeyspaceId, Result, SeqNo, TreeId};
use flagstone_tree::TreeEdit;
use std::collections::{BTreeMap, HashMap};

/// The definitions of each keyspace, by kind; the index of a definition is its id.
pub(super) type DefinitionItems = BTreeMap<(KeyspaceId, DefinitionKind), Vec<Vec<u8>>>;

/// Checks that trees are in `catalog`, added tables absent, removed ones present, and that no tree
/// is flushed through a smaller SeqNo than before.
pub(super) fn check_tables(
    trees: &BTreeMap<TreeId, TreeState>,
    catalog: &ChangedCatalog<'_>,
    edits: &[TreeEdit],
) -> Result<()> {
    // What earlier edits of this list did to tables: present or not.
    let mut changed: HashMap<(TreeId, FileNumber), bool> = HashMap::new();
    let mut flushed: HashMap<TreeId, SeqNo> = HashMap::new();
    for edit in edits {
        let tree = edit.tree;
        if catalog.keyspace_of(tree).is_none() {
            return Err(wrong(format!("an edit of {tree}: expected a tree of the catalog")));
        }
        let known = trees.get(&tree);
        let was_there = |file| known.is_some_and(|known| known.tables.contains_key(&file));
        for &file in &edit.removed {
            let is_there = changed.insert((tree, file), false).unwrap_or_else(|| was_there(file));
            if !is_there {
                return Err(wrong(format!("{tree} removes table {file}, which it does not have")));
            }
        }
        for (_, meta) in &edit.added {
            let file = meta.number;
            if changed.insert((tree, file), true).unwrap_or_else(|| was_there(file)) {
                return Err(wrong(format!("{tree} adds table {file}, which it already has")));
            }
        }
        if let Some(seqno) = edit.flushed_through {
            let known = known.and_then(|known| known.flushed_through).unwrap_or_default();
            let before = flushed.insert(tree, seqno).unwrap_or(known);
            if seqno < before {
                return Err(wrong(format!(
                    "{tree} is flushed through {seqno}, but was through {before} before"
                )));
            }
        }
    }
    Ok(())
}

/// Checks that new definitions belong to keyspaces of `catalog`, follow `known` ones without a gap,
/// and repeat known ones only with the same content.
pub(super) fn check_definitions(
    known: &DefinitionItems,
    catalog: &ChangedCatalog<'_>,
    definitions: &[DefinitionRecord],
) -> Result<()> {
    let mut added: HashMap<(KeyspaceId, DefinitionKind), Vec<&Vec<u8>>> = HashMap::new();
    for DefinitionRecord { keyspace, kind, first_id, items } in definitions {
        if !catalog.has(*keyspace) {
            return Err(wrong(format!("{kind} of {keyspace}: expected one of the catalog")));
        }
        let table = (*keyspace, *kind);
        let known = known.get(&table).map_or(&[][..], Vec::as_slice);
        let added = added.entry(table).or_default();
        for (id, item) in (*first_id as usize..).zip(items) {
            let next = known.len() + added.len();
            match known.get(id).or_else(|| added.get(id.checked_sub(known.len())?).copied()) {
                Some(has) if has == item => {}
                Some(has) => {
                    return Err(wrong(format!(
                        "{keyspace} {kind}: {id} is {:?}, but it was {:?}",
                        DefinitionText(item),
                        DefinitionText(has)
                    )));
                }
                None if id == next && id <= u32::MAX as usize => added.push(item),
                None => {
                    return Err(wrong(format!(
                        "{keyspace} {kind}: {id} follows {next} definitions: expected no gap"
                    )));
                }
            }
        }
    }
    Ok(())
}

#[cold]
fn wrong(text: String) -> Error {
    Error::new(ErrorKind::Corruption, text)
}
