//! Which keyspaces are trusted: the manifest lists their tables. The others are rebuilt.

use super::active::{ActiveRepair, ListedTable};
use super::find::Trust;
use super::tables::add_source;
use flagstone_base::sorted::SortedSet;
use flagstone_base::{FileNumber, KeyspaceId, Result};
use flagstone_sst::{BlockCache, Properties, Salvage, Table, TableIdent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the tables that the manifest lists, by number.
pub(super) fn listed_tables(repair: &ActiveRepair<'_>) -> BTreeMap<FileNumber, ListedTable> {
    let state = &repair.found.state;
    let mut listed = BTreeMap::new();
    for (&tree, tables) in &state.trees {
        let Some(keyspace) = state.catalog.keyspace_of(tree) else { continue };
        for (level, meta) in tables.tables.values() {
            let level = *level;
            listed.insert(meta.number, ListedTable { keyspace, tree, level, meta: meta.clone() });
        }
    }
    listed
}

/// Finds the keyspaces to be rebuilt: those whose tables the manifest does not list, because
/// there is no manifest, or because there are tables that it should list and does not.
pub(super) fn find_rebuilt(
    repair: &mut ActiveRepair<'_>,
    listed: &BTreeMap<FileNumber, ListedTable>,
) -> Result<()> {
    let missing: SortedSet<KeyspaceId> = listed
        .iter()
        .filter(|(number, _)| !repair.found.tables.contains(number))
        .map(|(_, listed)| listed.keyspace)
        .collect();
    let trust = repair.found.trust;
    // With a whole log no entry is in an unlisted table alone: such tables are left from work
    // that was not installed.
    let is_log_whole = trust == Trust::Whole && is_log_whole(repair)?;
    if matches!(trust, Trust::Beginning | Trust::Nothing) {
        for record in repair.found.state.catalog.iter() {
            repair.rebuilt.get_or_insert_with(record.id, Vec::new);
        }
    }
    let mut unnamed = Vec::new();
    for number in repair.found.tables.clone() {
        if listed.contains_key(&number) {
            continue;
        }
        let Some(properties) = properties_of(repair, number) else {
            if trust != Trust::Whole {
                let what = "nothing tells which keyspace it belongs to".to_owned();
                repair.report_lost_file(number, what);
            }
            continue;
        };
        let catalog = &repair.found.state.catalog;
        let id = properties.keyspace;
        let is_known = catalog.by_id(id).is_some();
        if !is_known && id < catalog.counters().next_keyspace {
            // The table of a keyspace that was dropped.
            continue;
        }
        // `None` if the table is left from a tree that was removed.
        let tree = repair.found.state.trees.get(&properties.tree);
        let is_newer = tree.is_some_and(|tree| {
            properties.content.seqno_max > tree.flushed_through.unwrap_or_default()
        });
        let is_doubtful = !is_known || trust != Trust::Whole || missing.contains(&id);
        if is_doubtful || (is_newer && !is_log_whole) {
            repair.rebuilt.get_or_insert_with(id, Vec::new);
            unnamed.push((number, properties));
        } else {
            // The manifest lists all tables of this keyspace. An older table holds entries that
            // compactions have dropped since.
            repair.properties.get_or_insert_with(id, || properties);
        }
    }
    for (number, properties) in unnamed {
        let id = properties.keyspace;
        if repair.rebuilt.contains_key(&id) {
            add_source(repair, id, number, None);
        }
        repair.properties.get_or_insert_with(id, || properties);
    }
    Ok(())
}

/// Returns the properties of a table, read from its tail or, if that is damaged, from what can be
/// salvaged.
fn properties_of(repair: &ActiveRepair<'_>, number: FileNumber) -> Option<Properties> {
    let ident = TableIdent { database: repair.found.id, number, salt: 0 };
    let file = repair.files.open(&repair.path(number)).ok()?;
    match Table::open(Arc::clone(&file), ident, None, &BlockCache::new(0)) {
        Ok(table) => Some(table.properties().clone()),
        Err(_damaged) => Salvage::of(file, ident, None).properties().cloned(),
    }
}

/// Returns whether the log holds everything since the last flush.
fn is_log_whole(repair: &ActiveRepair<'_>) -> Result<bool> {
    let state = &repair.found.state;
    if state.clean_close {
        return Ok(true);
    }
    let disk = &**repair.outputs.disk;
    let listed = state.listed();
    let read = flagstone_wal::salvage(disk, repair.from, repair.found.id, &listed, &mut |_| Ok(()));
    Ok(read?.lost.iter().all(|lost| lost.may_be_torn))
}
