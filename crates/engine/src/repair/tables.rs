//! The tables of the damaged database: kept, or rewritten without what cannot be read.

use super::output::Owner;
use super::report::Loss;
use super::work::{Named, Work};
use crate::content::DefinitionKind;
use crate::copying::{check_table, unpaced};
use crate::manifest::ManifestState;
use flagstone_base::{FileNumber, KeyspaceId, Result};
use flagstone_env::names::{self, FileKind};
use flagstone_sst::{RangeDeletes, Salvage, SalvageCursor, TableIdent, TableMeta};
use std::sync::Arc;

/// Keeps a table of a trusted keyspace unchanged, or writes a new one of its readable entries.
pub(super) fn carry_over(
    work: &mut Work<'_>,
    number: FileNumber,
    named: &Named,
    state: &mut ManifestState,
) -> Result<()> {
    let Err(wrong) =
        check_table(&**work.outputs.disk, &work.path(number), &named.meta, &mut unpaced)
    else {
        work.kept.insert(number);
        work.report.tables_kept += 1;
        work.report.bytes_kept += named.meta.bytes;
        return Ok(());
    };
    let losses = work.report.losses.len();
    let salvage = salvage(work, named.keyspace, number, Some(&named.meta));
    if work.report.losses.len() == losses {
        // Only the index, the filter or the header is damaged.
        work.report.notes.push(format!("{wrong}; all its entries can be read"));
    }
    let left = match salvage {
        Some(salvage) => rewrite(work, &salvage, named)?,
        None => None,
    };
    if let Some(tree) = state.trees.get_mut(&named.tree) {
        tree.tables.remove(&number);
        tree.tables.extend(left.map(|meta| (meta.number, (named.level, meta))));
    }
    Ok(())
}

fn rewrite(
    work: &mut Work<'_>,
    salvage: &Arc<Salvage>,
    named: &Named,
) -> Result<Option<TableMeta>> {
    let Some(record) = work.found.state.catalog.by_id(named.keyspace).cloned() else {
        return Ok(None);
    };
    let names = work.names_of(named.keyspace);
    let owner = Owner { record: &record, tree: named.tree, level: named.level, names: &names };
    let mut output = work.outputs.begin(owner)?;
    let mut cursor = SalvageCursor::new(salvage);
    while cursor.advance()? {
        if let Some(entry) = cursor.entry() {
            output.add(entry)?;
        }
    }
    for range in salvage.range_deletes().into_iter().flat_map(RangeDeletes::iter) {
        output.add_range_delete(range)?;
    }
    work.outputs.end(output, &mut work.report)
}

/// Adds a table to the sources of a keyspace that is rebuilt.
pub(super) fn add_source(
    work: &mut Work<'_>,
    keyspace: KeyspaceId,
    number: FileNumber,
    known: Option<&TableMeta>,
) {
    if let Some(salvage) = salvage(work, keyspace, number, known) {
        work.rebuilt.entry(keyspace).or_default().push((number, salvage));
    }
}

/// Reads a table as far as possible, and reports what cannot be read.
fn salvage(
    work: &mut Work<'_>,
    keyspace: KeyspaceId,
    number: FileNumber,
    known: Option<&TableMeta>,
) -> Option<Arc<Salvage>> {
    let (file, name) = (names::name(FileKind::Table, number), work.name_of(keyspace));
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
    let opened = match work.files.open(&work.path(number), false) {
        Ok(opened) => opened,
        Err(error) => {
            let what = match error.is_missing_file() {
                true => "the manifest names this table, and it is missing".to_owned(),
                false => error.to_string(),
            };
            work.report.losses.push(loss(0..0, keys, what));
            return None;
        }
    };
    let ident = TableIdent { database: work.found.id, number, salt: 0 };
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
        work.names_lost.insert(keyspace);
        let what = "its names of fields, if it had any";
        lost.push(loss(0..0, None, what.to_owned()));
    }
    work.report.losses.extend(lost);
    for (id, name) in salvage.attachments().unwrap_or_default() {
        let names = work.definitions.entry((keyspace, DefinitionKind::NAMES)).or_default();
        names.entry(*id).or_insert_with(|| name.to_vec());
    }
    if let Some(properties) = salvage.properties() {
        work.trees_max = work.trees_max.max(properties.tree.0);
        work.last_seqno = work.last_seqno.max(properties.content.seqno_max);
    }
    Some(Arc::new(salvage))
}
