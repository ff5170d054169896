//! Which keyspaces are trusted: the manifest lists their tables. The others are rebuilt.

use super::find::Trust;
use super::tables::add_source;
use super::work::{Named, Work};
use flagstone_base::{FileNumber, KeyspaceId, Result};
use flagstone_sst::{BlockCache, Properties, Salvage, Table, TableIdent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Returns the tables that the manifest lists, by number.
pub(super) fn named(work: &Work<'_>) -> BTreeMap<FileNumber, Named> {
    let state = &work.found.state;
    let mut named = BTreeMap::new();
    for (&tree, tables) in &state.trees {
        let Some(keyspace) = state.catalog.keyspace_of(tree) else { continue };
        for (level, meta) in tables.tables.values() {
            let level = *level;
            named.insert(meta.number, Named { keyspace, tree, level, meta: meta.clone() });
        }
    }
    named
}

/// Finds the keyspaces to be rebuilt: those whose tables the manifest does not list, because
/// there is no manifest, or because there are tables that it should list and does not.
pub(super) fn find_rebuilt(work: &mut Work<'_>, named: &BTreeMap<FileNumber, Named>) -> Result<()> {
    let missing: BTreeSet<KeyspaceId> = named
        .iter()
        .filter(|(number, _)| !work.found.tables.contains(number))
        .map(|(_, named)| named.keyspace)
        .collect();
    let trust = work.found.trust;
    // With a whole log no entry is in an unlisted table alone: such tables are left from work
    // that was not installed.
    let is_log_whole = trust == Trust::Whole && is_log_whole(work)?;
    if matches!(trust, Trust::Beginning | Trust::Nothing) {
        for record in work.found.state.catalog.iter() {
            work.rebuilt.entry(record.id).or_default();
        }
    }
    let mut unnamed = Vec::new();
    for number in work.found.tables.clone() {
        if named.contains_key(&number) {
            continue;
        }
        let Some(properties) = properties_of(work, number) else {
            if trust != Trust::Whole {
                let what = "nothing tells which keyspace it belongs to".to_owned();
                work.report_lost_file(number, what);
            }
            continue;
        };
        let catalog = &work.found.state.catalog;
        let id = properties.keyspace;
        let is_known = catalog.by_id(id).is_some();
        if !is_known && id < catalog.counters().next_keyspace {
            // The table of a keyspace that was dropped.
            continue;
        }
        // `None` if the table is left from a tree that was removed.
        let tree = work.found.state.trees.get(&properties.tree);
        let is_newer = tree.is_some_and(|tree| {
            properties.content.seqno_max > tree.flushed_through.unwrap_or_default()
        });
        let is_doubtful = !is_known || trust != Trust::Whole || missing.contains(&id);
        if is_doubtful || (is_newer && !is_log_whole) {
            work.rebuilt.entry(id).or_default();
            unnamed.push((number, properties));
        } else {
            // The manifest lists all tables of this keyspace. An older table holds entries that
            // compactions have dropped since.
            work.properties.entry(id).or_insert(properties);
        }
    }
    for (number, properties) in unnamed {
        let id = properties.keyspace;
        if work.rebuilt.contains_key(&id) {
            add_source(work, id, number, None);
        }
        work.properties.entry(id).or_insert(properties);
    }
    Ok(())
}

/// Returns the properties of a table, read from its tail or, if that is damaged, from what can be
/// salvaged.
fn properties_of(work: &Work<'_>, number: FileNumber) -> Option<Properties> {
    let ident = TableIdent { database: work.found.id, number, salt: 0 };
    let file = work.files.open(&work.path(number), false).ok()?;
    match Table::open(Arc::clone(&file), ident, None, &BlockCache::new(0)) {
        Ok(table) => Some(table.properties().clone()),
        Err(_damaged) => Salvage::of(file, ident, None).properties().cloned(),
    }
}

/// Returns whether the log holds everything since the last flush.
fn is_log_whole(work: &Work<'_>) -> Result<bool> {
    let state = &work.found.state;
    if state.clean_close {
        return Ok(true);
    }
    let disk = &**work.outputs.disk;
    let listed = state.listed();
    let read = flagstone_wal::salvage(disk, work.from, work.found.id, &listed, &mut |_| Ok(()));
    Ok(read?.lost.iter().all(|lost| lost.may_be_torn))
}
