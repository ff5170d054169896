//! Keyspaces whose tables the manifest does not list: merged from everything found.

use super::active::ActiveRepair;
use super::find::Trust;
use super::merge::{Rebuilt, merge};
use super::output::BOTTOM;
use crate::catalog::{KeyspaceRecord, OwnedRecord};
use crate::content::DefinitionKind;
use crate::manifest::{Edit, ManifestState, TreeState};
use flagstone_base::sorted::{SortedMap, sort_by};
use flagstone_base::{KeyspaceId, Moment, Result, TreeId};
use flagstone_sst::Salvage;
use std::sync::Arc;

/// The largest number of field names that a keyspace can have.
const NAMES_MAX: u32 = 65_536;
/// How many names are assumed lost where the number is unknown: few collections have more.
const NAMES_SPARED: u32 = 1024;

/// Adds the keyspaces that only tables and log mention to the catalog.
pub(super) fn create_unknown(
    repair: &mut ActiveRepair<'_>,
    state: &mut ManifestState,
) -> Result<()> {
    let unknown: Vec<KeyspaceId> =
        repair.rebuilt.keys().filter(|id| state.catalog.by_id(**id).is_none()).copied().collect();
    for id in unknown {
        // What it was is lost with the catalog, and so is what its entries mean.
        if let Some(owner) = repair.owner_of(id) {
            repair.rebuilt.remove(&id);
            repair.report.notes.push(format!(
                "{id}: it belonged to {owner}, as an index does, and its definition is lost: it is \
                 left out, create it again"
            ));
            continue;
        }
        let next_tree = state.catalog.counters().next_tree.0.max(repair.trees_max + 1);
        let mut record = repair.record_of_unknown(id, TreeId(next_tree));
        while state.catalog.iter().any(|other| other.name == record.name) {
            record.name.push('\'');
        }
        repair.report.notes.push(format!(
            "{id}: its name is lost, it is now {:?}, holding {}",
            record.name, record.content
        ));
        if repair.names_lost.contains(&id)
            && !repair.contents.defines(&record.content, DefinitionKind::NAMES)
        {
            repair.report.notes.push(format!(
                "{id}: names of fields may be lost: if it held documents, repair \
                 again and name its fold"
            ));
        }
        state.apply(&Edit { keyspaces_created: vec![record], ..Edit::default() })?;
    }
    Ok(())
}

/// Merges the sources of each rebuilt keyspace into new tables.
pub(super) fn rebuild(repair: &mut ActiveRepair<'_>, state: &mut ManifestState) -> Result<()> {
    for (id, mut sources) in std::mem::take(&mut repair.rebuilt) {
        let Some(record) = state.catalog.by_id(id).cloned() else { continue };
        // Of two operands with the same SeqNo, the one in the newer table comes first.
        sort_by(&mut sources, |(a, _), (b, _)| b.cmp(a));
        let sources: Vec<Arc<Salvage>> = sources.into_iter().map(|(_, source)| source).collect();
        let names = repair.names_of(id);
        let rebuilt = Rebuilt { record: &record, names: &names, sources: &sources };
        let merged = merge(&rebuilt, &mut repair.outputs, &mut repair.report)?;
        for (tree, tables) in record.trees.iter().zip(merged.tables) {
            let tables = tables.into_iter();
            let tables = tables.map(|meta| (meta.number, (BOTTOM, meta)));
            let state_of_tree = TreeState {
                tables: tables.collect(),
                flushed_through: Some(repair.last_seqno),
                watermark: repair.last_seqno,
                expired_through: Moment::ZERO,
                untraced_through: repair.last_seqno,
            };
            state.trees.insert(*tree, state_of_tree);
        }
        repair.report.rebuilt.push(record.name.clone());
        if merged.unequal > 0 {
            repair.report.notes.push(format!(
                "keyspace {:?}: {} writes were found in two tables with different contents, \
                 which a compaction can leave of merge operands: look at the values of its \
                 keys",
                record.name, merged.unequal
            ));
        }
        if merged.merges > 0 && record.fold.is_none() {
            repair.report.notes.push(format!(
                "keyspace {:?} holds {} merge operands, and the name of its fold is lost: \
                 repair again and name the fold of keyspace {}",
                record.name, merged.merges, id.0
            ));
        }
    }
    Ok(())
}

/// Sets `expires` on keyspaces with tables that hold expiring entries: a rebuilt keyspace has
/// lost this mark.
pub(super) fn note_expiries(state: &mut ManifestState) -> Result<()> {
    let expires = |tree: &TreeId| {
        let tables = state.trees.get(tree).into_iter().flat_map(|tree| tree.tables.values());
        tables.into_iter().any(|(_, meta)| meta.expiries.count > 0)
    };
    let records = state.catalog.iter().filter(|record| !record.expires);
    let records = records.filter(|record| record.trees.iter().any(expires));
    let altered = records.map(|record| KeyspaceRecord { expires: true, ..(**record).clone() });
    let edit = Edit { keyspaces_altered: altered.collect(), ..Edit::default() };
    state.apply(&edit)
}

/// Marks owned keyspaces as doubtful if something may be lost: their entries, or those from which
/// they were made.
pub(super) fn note_doubts(repair: &ActiveRepair<'_>, state: &mut ManifestState) -> Result<()> {
    let report = &repair.report;
    if repair.found.trust == Trust::Whole && report.losses.is_empty() && report.rebuilt.is_empty() {
        return Ok(());
    }
    let doubtful = state.catalog.iter().filter_map(|record| {
        let owned = Some(OwnedRecord { is_doubtful: true, ..record.owned.clone()? });
        Some(KeyspaceRecord { owned, ..(**record).clone() })
    });
    let edit = Edit { keyspaces_altered: doubtful.collect(), ..Edit::default() };
    state.apply(&edit)
}

/// Fills in the definitions. Their ids have no gaps, so a lost definition gets a text that says
/// so. Where it is unknown how many names are lost, the next ids are reserved: if they were
/// assigned again, fields of old documents would appear under new names.
pub(super) fn define(repair: &mut ActiveRepair<'_>, state: &mut ManifestState) {
    if repair.found.trust != Trust::Whole {
        for id in &repair.names_lost {
            repair.definitions.get_or_insert_with((*id, DefinitionKind::NAMES), SortedMap::new);
        }
    }
    for (&(id, kind), items) in repair.definitions.iter() {
        let Some(record) = state.catalog.by_id(id) else { continue };
        let may_be_more = kind == DefinitionKind::NAMES
            && repair.found.trust != Trust::Whole
            && repair.names_lost.contains(&id);
        let end = items.keys().next_back().map_or(0, |last| last.saturating_add(1));
        let spared = NAMES_MAX.saturating_sub(end).min(NAMES_SPARED);
        let end = if may_be_more { end + spared } else { end };
        if end == 0 {
            continue;
        }
        if !repair.contents.defines(&record.content, kind) {
            if kind != DefinitionKind::NAMES {
                let text = format!(
                    "{id} {:?}: its {kind} are left out, unknown to this version",
                    record.name
                );
                repair.report.notes.push(text);
            }
            continue;
        }
        let is_good =
            |item: &&Vec<u8>| kind != DefinitionKind::NAMES || std::str::from_utf8(item).is_ok();
        let item = |id: u32| {
            let known = items.get(&id).filter(is_good).cloned();
            known.unwrap_or_else(|| format!("lost name {id}").into_bytes())
        };
        // The limit guards against a damaged id: each table carries all names of its
        // collection, so few are missing.
        let most = items.len().saturating_mul(2) + 2 * NAMES_SPARED as usize;
        let known = (0..end).take(most).map(item);
        state.definitions.insert((id, kind), known.collect());
    }
}
