//! The tables of the damaged database: kept, or rewritten without what cannot be read.

use super::active::{ActiveRepair, ListedTable};
use super::output::TableOwner;
use super::report::Loss;
use crate::catalog::KeyspaceRecord;
use crate::content::DefinitionKind;
use crate::copying::{check_table, unpaced};
use crate::manifest::ManifestState;
use flagstone_base::sorted::SortedMap;
use flagstone_base::{FileNumber, KeyspaceId, Result, TreeId};
use flagstone_env::names::{self, FileKind};
use flagstone_sst::{RangeDeletes, Salvage, SalvageCursor, TableIdent, TableMeta};
use std::sync::Arc;

/// Keeps a table of a trusted keyspace unchanged, or writes a new one of its readable entries.
pub(super) fn carry_over(
    repair: &mut ActiveRepair<'_>,
    number: FileNumber,
    listed: &ListedTable,
    state: &mut ManifestState,
) -> Result<()> {
    let Err(wrong) =
        check_table(&**repair.outputs.disk, &repair.path(number), &listed.meta, &mut unpaced)
    else {
        repair.kept.insert(number);
        repair.report.tables_kept += 1;
        repair.report.bytes_kept += listed.meta.bytes;
        return Ok(());
    };
    let losses = repair.report.losses.len();
    let salvage = salvage(repair, listed.keyspace, number, Some(&listed.meta));
    if repair.report.losses.len() == losses {
        // Only the index, the filter or the header is damaged.
        repair.report.notes.push(format!("{wrong}; all its entries can be read"));
    }
    let left = match salvage {
        Some(salvage) => rewrite(repair, &salvage, listed)?,
        None => None,
    };
    // It has the keys of the same trees.
    let left = left.map(|meta| TableMeta { hashes: listed.meta.hashes, ..meta });
    let record = repair.found.state.catalog.by_id(listed.keyspace).cloned();
    // Several trees may have the table. Of what is left of it one of them may hold nothing.
    let mut is_used = false;
    for (id, tree) in &mut state.trees {
        let Some((level, _)) = tree.tables.remove(&number) else { continue };
        let left = left.as_ref().filter(|meta| may_hold(record.as_deref(), *id, meta));
        is_used |= left.is_some();
        tree.tables.extend(left.cloned().map(|meta| (meta.number, (level, meta))));
    }
    if let Some(unused) = left.filter(|_| !is_used) {
        repair.outputs.drop_table(&unused, &mut repair.report)?;
    }
    Ok(())
}

/// Returns whether a table has keys within the bounds of a tree.
fn may_hold(record: Option<&KeyspaceRecord>, tree: TreeId, meta: &TableMeta) -> bool {
    record.is_none_or(|record| {
        let partition = record.trees.iter().position(|other| *other == tree);
        let bounds = partition.and_then(|partition| record.route.bounds_of(partition));
        bounds.is_none_or(|bounds| bounds.meets(meta))
    })
}

fn rewrite(
    repair: &mut ActiveRepair<'_>,
    salvage: &Arc<Salvage>,
    listed: &ListedTable,
) -> Result<Option<TableMeta>> {
    let Some(record) = repair.found.state.catalog.by_id(listed.keyspace).cloned() else {
        return Ok(None);
    };
    let names = repair.names_of(listed.keyspace);
    let owner =
        TableOwner { record: &record, tree: listed.tree, level: listed.level, names: &names };
    let mut output = repair.outputs.begin(owner)?;
    let mut cursor = SalvageCursor::new(salvage);
    while cursor.advance()? {
        if let Some(entry) = cursor.entry() {
            output.add(entry)?;
        }
    }
    for range in salvage.range_deletes().into_iter().flat_map(RangeDeletes::iter) {
        output.add_range_delete(range)?;
    }
    repair.outputs.end(output, &mut repair.report)
}

/// Adds a table to the sources of a keyspace that is rebuilt.
pub(super) fn add_source(
    repair: &mut ActiveRepair<'_>,
    keyspace: KeyspaceId,
    number: FileNumber,
    known: Option<&TableMeta>,
) {
    if let Some(salvage) = salvage(repair, keyspace, number, known) {
        repair.rebuilt.get_or_insert_with(keyspace, Vec::new).push((number, salvage));
    }
}

/// Reads a table as far as possible, and reports what cannot be read.
fn salvage(
    repair: &mut ActiveRepair<'_>,
    keyspace: KeyspaceId,
    number: FileNumber,
    known: Option<&TableMeta>,
) -> Option<Arc<Salvage>> {
    let (file, name) = (names::name(FileKind::Table, number), repair.name_of(keyspace));
    let keys = known.map(|meta| (meta.smallest.clone(), Some(meta.largest.clone())));
    let loss = |bytes, keys, what| Loss {
        file: file.clone(),
        bytes,
        keyspace: Some(name.clone()),
        keys,
        seqnos: None,
        may_be_torn: false,
        what,
    };
    let opened = match repair.files.open(&repair.path(number)) {
        Ok(opened) => opened,
        Err(error) => {
            let what = if error.is_missing_file() {
                "the manifest names this table, and it is missing".to_owned()
            } else {
                error.to_string()
            };
            repair.report.losses.push(loss(0..0, keys, what));
            return None;
        }
    };
    let ident = TableIdent { database: repair.found.id, number, salt: 0 };
    let salvage = Salvage::of(opened, ident, known);
    let mut lost = Vec::new();
    for part in salvage.lost() {
        let keys = Some((part.from.clone(), part.to.clone()));
        lost.push(loss(part.bytes.clone(), keys, part.what.clone()));
    }
    if salvage.range_deletes().is_none() {
        let what = "its deleted ranges, if it had any: what they deleted may be back";
        lost.push(loss(0..0, keys, what.to_owned()));
    }
    if salvage.attachments().is_none() {
        repair.names_lost.insert(keyspace);
        let what = "its names of fields, if it had any";
        lost.push(loss(0..0, None, what.to_owned()));
    }
    repair.report.losses.extend(lost);
    for (id, name) in salvage.attachments().unwrap_or_default() {
        let names = repair
            .definitions
            .get_or_insert_with((keyspace, DefinitionKind::NAMES), SortedMap::new);
        names.get_or_insert_with(*id, || name.to_vec());
    }
    if let Some(properties) = salvage.properties() {
        repair.trees_max = repair.trees_max.max(properties.tree.0);
        repair.last_seqno = repair.last_seqno.max(properties.content.seqno_max);
    }
    Some(Arc::new(salvage))
}
