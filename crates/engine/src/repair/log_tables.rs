//! The entries of the log that are in no table, written to new tables.

use super::active::ActiveRepair;
use super::find::Trust;
use super::log::{self, Decoded, GATHERED_BYTES, RepairTarget};
use super::output::{RepairOutput, TableOwner};
use super::report::{Loss, RepairReport};
use crate::commit::record::LoggedOp;
use crate::content::DefinitionRecord;
use crate::manifest::ManifestState;
use flagstone_base::hash::key_hash;
use flagstone_base::sorted::SortedMap;
use flagstone_base::{FileNumber, KeyspaceId, Kind, Result, SeqNo, TreeId};
use flagstone_env::names::{self, FileKind};
use flagstone_sst::{Salvage, TableIdent};
use flagstone_wal::{Listed, Record};
use std::sync::Arc;

/// Gathers the entries of the log that are in no table.
pub(super) fn read_log(repair: &mut ActiveRepair<'_>, state: &mut ManifestState) -> Result<()> {
    // A manifest that lost its end does not know which segments were released later.
    let listed = match repair.found.trust {
        Trust::Whole => state.listed(),
        _ => Listed::default(),
    };
    let (disk, dir) = (Arc::clone(repair.outputs.disk), repair.from.to_owned());
    let (database, in_tables) = (repair.found.id, in_tables(repair));
    let mut visit = |record: Record<'_>| take_record(repair, &record, state);
    let read = flagstone_wal::salvage(&*disk, &dir, database, &listed, &mut visit)?;
    repair.report.log_records = read.records;
    let of_log = |segment, bytes, seqnos, may_be_torn, what| Loss {
        file: names::name(FileKind::Wal, segment),
        bytes,
        keyspace: None,
        keys: None,
        seqnos: Some(seqnos),
        may_be_torn,
        what,
    };
    let mut losses = Vec::new();
    for lost in read.lost {
        let seqnos = (lost.from.max(in_tables.plus(1)), lost.to);
        losses.push(of_log(lost.segment, lost.bytes, seqnos, lost.may_be_torn, lost.what));
    }
    if read.segments == 0
        && losses.is_empty()
        && repair.found.trust == Trust::Whole
        && !state.clean_close
    {
        let what = "there is no log, and the database was not closed: the last writes, if \
                    any, are lost";
        let segment = state.wal_from.unwrap_or(FileNumber(1));
        let (seqnos, may_be_torn) = ((in_tables.plus(1), None), true);
        losses.push(of_log(segment, 0..0, seqnos, may_be_torn, what.to_owned()));
    }
    repair.report.losses.extend(losses);
    Ok(())
}

/// Gathers what a record holds, and writes tables when enough is gathered.
fn take_record(
    repair: &mut ActiveRepair<'_>,
    record: &Record<'_>,
    state: &mut ManifestState,
) -> Result<()> {
    let last = record.first_seqno.plus(u64::from(record.count).saturating_sub(1));
    repair.last_seqno = repair.last_seqno.max(last);
    let lost = |what: String| Loss {
        file: names::name(FileKind::Wal, record.segment),
        bytes: record.offset..record.offset + record.payload.len() as u64,
        keyspace: None,
        keys: None,
        seqnos: Some((record.first_seqno, Some(last.plus(1)))),
        may_be_torn: false,
        what,
    };
    match log::decode(record) {
        Ok(Decoded::Definition(DefinitionRecord { keyspace, kind, first_id, items })) => {
            let known = repair.definitions.get_or_insert_with((keyspace, kind), SortedMap::new);
            for (id, item) in (first_id..).zip(items) {
                known.get_or_insert_with(id, || item);
            }
        }
        Ok(Decoded::Operations(operations)) => {
            for (seqno, op) in operations {
                gather(repair, seqno, &op);
            }
        }
        Ok(Decoded::Unknown) => {
            let kind = record.kind.0;
            let what = format!("a record of kind {kind} that a newer version wrote");
            repair.report.losses.push(lost(what));
        }
        Err(wrong) => repair.report.losses.push(lost(format!("expected {}", wrong.expected))),
    }
    if repair.gathered.bytes >= GATHERED_BYTES {
        write_gathered(repair, state)?;
    }
    Ok(())
}

/// Gathers an operation for each tree that does not have it in tables, or for a rebuilt keyspace.
fn gather(repair: &mut ActiveRepair<'_>, seqno: SeqNo, op: &LoggedOp<'_>) {
    let catalog = &repair.found.state.catalog;
    let record = match catalog.by_id(op.keyspace) {
        Some(record) if !repair.rebuilt.contains_key(&op.keyspace) => record,
        None if op.keyspace < catalog.counters().next_keyspace => return,
        _ => {
            repair.rebuilt.get_or_insert_with(op.keyspace, Vec::new);
            repair.gathered.add(RepairTarget::Rebuilt(op.keyspace), seqno, op);
            return;
        }
    };
    let partitions = if op.kind == Kind::RangeDelete {
        record.route.partitions_of(op.key, op.value)
    } else {
        let hash = key_hash(op.key, record.route.seed());
        let partition = record.route.partition(op.key, hash);
        partition..=partition
    };
    for tree in &record.trees[partitions] {
        let flushed = repair.found.state.trees.get(tree).and_then(|tree| tree.flushed_through);
        if flushed.is_none_or(|through| seqno > through) {
            repair.gathered.add(RepairTarget::Tree(*tree), seqno, op);
        }
    }
}

/// Writes the gathered entries: to tables of L0, or to sources of a keyspace that is rebuilt.
pub(super) fn write_gathered(
    repair: &mut ActiveRepair<'_>,
    state: &mut ManifestState,
) -> Result<()> {
    let gathered = std::mem::take(&mut repair.gathered);
    for (target, entries) in gathered.by_target {
        let (keyspace, tree) = match target {
            RepairTarget::Tree(tree) => (state.catalog.keyspace_of(tree).unwrap_or_default(), tree),
            RepairTarget::Rebuilt(keyspace) => (keyspace, TreeId(0)),
        };
        // The catalog may lack the keyspace; its rebuilding reads this table again.
        let record = state.catalog.by_id(keyspace).cloned();
        let record =
            record.unwrap_or_else(|| Arc::new(repair.record_of_unknown(keyspace, TreeId(1))));
        let names = repair.names_of(keyspace);
        let owner = TableOwner { record: &record, tree, level: 0, names: &names };
        let output = log::write(&mut repair.outputs, owner, entries)?;
        match target {
            RepairTarget::Tree(tree) => finish_log_table(repair, output, tree, state)?,
            RepairTarget::Rebuilt(keyspace) => finish_source(repair, output, keyspace)?,
        }
    }
    Ok(())
}

/// Finishes a table of L0 that holds entries of the log.
fn finish_log_table(
    repair: &mut ActiveRepair<'_>,
    output: RepairOutput,
    tree: TreeId,
    state: &mut ManifestState,
) -> Result<()> {
    let meta = repair.outputs.end(output, &mut repair.report)?;
    let Some(meta) = meta else { return Ok(()) };
    let tree = state.trees.entry(tree).or_default();
    // No part of the log remains to be replayed.
    tree.flushed_through = tree.flushed_through.max(Some(meta.seqnos().1));
    tree.tables.insert(meta.number, (0, meta));
    Ok(())
}

/// Finishes a table that is a source of a rebuilt keyspace.
fn finish_source(
    repair: &mut ActiveRepair<'_>,
    output: RepairOutput,
    keyspace: KeyspaceId,
) -> Result<()> {
    let mut passing = RepairReport::default();
    let Some(meta) = repair.outputs.end(output, &mut passing)? else { return Ok(()) };
    let path = names::path(repair.outputs.dir, FileKind::Table, meta.number);
    let ident = TableIdent { database: repair.found.id, number: meta.number, salt: meta.salt };
    let salvage = Salvage::of(repair.files.open(&path)?, ident, Some(&meta));
    repair.scratch.push(path);
    repair.rebuilt.get_or_insert_with(keyspace, Vec::new).push((meta.number, Arc::new(salvage)));
    Ok(())
}

/// Returns the SeqNo up to which all writes are in tables; zero if the manifest is not whole.
fn in_tables(repair: &ActiveRepair<'_>) -> SeqNo {
    if repair.found.trust != Trust::Whole {
        return SeqNo::ZERO;
    }
    let trees = repair.found.state.trees.values();
    trees.map(|tree| tree.flushed_through.unwrap_or_default()).min().unwrap_or_default()
}
