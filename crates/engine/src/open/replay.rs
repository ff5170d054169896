//! The log at open: checked as a whole first, then replayed into memtables.
//!
//! Every entry is replayed exactly once: entries at or below the SeqNo through which their tree is
//! flushed are in tables already (a merge operand would count twice).

use crate::background::flush_replayed;
use crate::commit::record::{self, LogNote, LoggedOp, Refusal};
use crate::content::DefinitionRecord;
use crate::keyspace_core::KeyspaceCore;
use crate::keyspaces::Keyspaces;
use crate::manifest::{Loaded, ManifestState};
use crate::parts::Parts;
use flagstone_base::{Decoder, Error, ErrorKind, KeyspaceId, Kind, Result, SeqNo};
use flagstone_env::Disk;
use flagstone_env::names::{FileKind, path};
use flagstone_tree::Tree;
use flagstone_wal::{ManifestPlace, Record, Recovered};
use std::path::Path;
use std::sync::Arc;

/// The result of pass 1 over the log.
#[derive(Default)]
pub(crate) struct CheckedLog {
    pub(crate) recovered: Recovered,
    last: SeqNo,
    /// The newest note that unlogged writes follow, of the last session that made one.
    gap: Option<SeqNo>,
}

impl CheckedLog {
    /// Returns whether the log says that there were unlogged writes, and the manifest does not say
    /// that they are in tables: a crash may have lost some that readers of changes have seen.
    pub(crate) fn may_have_lost(&self, state: &ManifestState) -> bool {
        !state.clean_close && self.gap.is_some_and(|gap| gap > state.unlogged_through)
    }

    /// The largest SeqNo that a write has, or may have had: after a crash it is unknown which
    /// writes were lost.
    pub(crate) fn last_seqno(&self, state: &ManifestState) -> SeqNo {
        let granted = if state.clean_close { SeqNo::ZERO } else { state.seqno_ceiling };
        self.last_kept(state).max(granted)
    }

    /// The largest SeqNo that a write has which was not lost, or a later one.
    pub(crate) fn last_kept(&self, state: &ManifestState) -> SeqNo {
        let trees = state.trees.values();
        let tables = trees.flat_map(|tree| tree.tables.values()).map(|(_, meta)| meta.seqnos().1);
        let flushed = state.trees.values().filter_map(|tree| tree.flushed_through);
        let known = tables.chain(flushed).max().unwrap_or_default();
        known.max(state.last_seqno).max(self.last)
    }
}

/// Pass 1: reads the whole log, checks every record, loads the definitions. Writes nothing.
pub(crate) fn check(
    disk: &dyn Disk,
    dir: &Path,
    loaded: &Loaded,
    keyspaces: &Keyspaces,
) -> Result<CheckedLog> {
    let state = &loaded.state;
    let known = state.catalog.counters().next_keyspace;
    let (mut last, mut gap) = (SeqNo::ZERO, None);
    let mut visit = |record: Record<'_>| {
        last = last.max(record.first_seqno.plus(u64::from(record.count).saturating_sub(1)));
        match record.kind {
            record::DEFINITION => define(dir, keyspaces, &record),
            record::BATCH => {
                let check = |_, op: LoggedOp<'_>| check_assigned(dir, &record, op, known);
                each_op(&record, check).map_err(|m| damaged(dir, &record, m))?
            }
            _ => {
                match LogNote::decode(record.kind, record.payload) {
                    Some(Ok(LogNote::Gap)) => gap = Some(record.first_seqno),
                    Some(Ok(LogNote::Lost)) => gap = None,
                    _ => {}
                }
                check_note(dir, &record)
            }
        }
    };
    let recovered = flagstone_wal::read(disk, dir, loaded.id, &state.listed(), &mut visit)?;
    check_manifest(dir, loaded, &recovered)?;
    // The log may end with SeqNos that it voided; no reader has seen them.
    let logged = SeqNo::new(recovered.next_seqno.get().saturating_sub(1));
    Ok(CheckedLog { recovered, last: last.max(logged), gap })
}

/// Refuses a manifest that has lost its end: each segment records how far the manifest was synced
/// when the segment was begun.
fn check_manifest(dir: &Path, loaded: &Loaded, recovered: &Recovered) -> Result<()> {
    let found = ManifestPlace { number: loaded.number, end: loaded.valid_end };
    match recovered.manifest {
        Some((synced, segment)) if synced > found => Err(Error::corruption(
            path(dir, FileKind::Manifest, found.number).display(),
            found.end,
            format_args!(
                "the manifest ends here, but segment {segment} of the log has seen manifest {} \
                 up to offset {}",
                synced.number, synced.end
            ),
        )),
        _ => Ok(()),
    }
}

/// Refuses an operation of a keyspace whose number the catalog has never assigned: then the
/// manifest has lost its end. A keyspace with a smaller number that is not in the catalog was
/// dropped.
fn check_assigned(
    dir: &Path,
    record: &Record<'_>,
    op: LoggedOp<'_>,
    next: KeyspaceId,
) -> Result<()> {
    if op.keyspace < next {
        return Ok(());
    }
    Err(Error::corruption(
        path(dir, FileKind::Wal, record.segment).display(),
        record.offset,
        format_args!(
            "a write of {}, which the manifest has never heard of: its end is lost",
            op.keyspace
        ),
    ))
}

/// Checks a record of the log of an open database; `next` is the number that the next keyspace will
/// get.
pub(crate) fn check_record(dir: &Path, record: &Record<'_>, next: KeyspaceId) -> Result<()> {
    match record.kind {
        record::DEFINITION => DefinitionRecord::decode(record.payload)
            .map(|_definition| ())
            .map_err(|malformed| damaged(dir, record, malformed)),
        record::BATCH => each_op(record, |_, op| check_assigned(dir, record, op, next))
            .map_err(|malformed| damaged(dir, record, malformed))?,
        _ => check_note(dir, record),
    }
}

/// Checks a note for readers of changes, which recovery does not need.
fn check_note(dir: &Path, record: &Record<'_>) -> Result<()> {
    match LogNote::decode(record.kind, record.payload) {
        Some(note) => note.map(|_note| ()).map_err(|malformed| damaged(dir, record, malformed)),
        None => Err(unknown(dir, record)),
    }
}

fn define(dir: &Path, keyspaces: &Keyspaces, record: &Record<'_>) -> Result<()> {
    let definition =
        DefinitionRecord::decode(record.payload).map_err(|m| damaged(dir, record, m))?;
    let Some(keyspace) = keyspaces.get(definition.keyspace) else { return Ok(()) };
    let Some(table) = keyspace.table_of(definition.kind) else {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{}, offset {}: keyspace {:?} has {}, unknown to this version",
                path(dir, FileKind::Wal, record.segment).display(),
                record.offset,
                keyspace.name(),
                definition.kind
            ),
        ));
    };
    table.restore(definition.first_id, &definition.items)?;
    table.note_logged(table.len());
    Ok(())
}

fn damaged(dir: &Path, record: &Record<'_>, refusal: impl Into<Refusal>) -> Error {
    refusal.into().in_file(&path(dir, FileKind::Wal, record.segment), record.offset)
}

fn unknown(dir: &Path, record: &Record<'_>) -> Error {
    Error::new(
        flagstone_base::ErrorKind::Unsupported,
        format!(
            "{}, offset {}: unknown record kind {}",
            path(dir, FileKind::Wal, record.segment).display(),
            record.offset,
            record.kind.0
        ),
    )
}

/// Calls `visit` for every operation of a batch with its SeqNo. A record that holds more or fewer
/// operations than its count says is malformed.
fn each_op(
    record: &Record<'_>,
    visit: impl FnMut(SeqNo, LoggedOp<'_>) -> Result<()>,
) -> Result<Result<()>, Refusal> {
    each_op_and_old(record, visit, |_op, _old| {})
}

/// As [`each_op`], and calls `visit_old` with the number of each operation whose key's value before
/// was kept, and that value.
pub(crate) fn each_op_and_old(
    record: &Record<'_>,
    mut visit: impl FnMut(SeqNo, LoggedOp<'_>) -> Result<()>,
    visit_old: impl FnMut(usize, Option<&[u8]>),
) -> Result<Result<()>, Refusal> {
    let mut decoder = Decoder::new(record.payload);
    for i in 0..record.count {
        let op = record::read_op(&mut decoder)?;
        if let Err(error) = visit(record.first_seqno.plus(u64::from(i)), op) {
            return Ok(Err(error));
        }
    }
    record::read_olds(&mut decoder, record.count, visit_old)?;
    Ok(Ok(()))
}

/// Pass 2: inserts the entries that are not in tables yet, and flushes when memtables are full.
/// Returns how many records held such entries.
pub(crate) fn replay(parts: &Parts, state: &ManifestState) -> Result<u64> {
    let (disk, dir) = (&*parts.core.setup().environment.disk, &parts.core.setup().dir);
    // Most operations belong to the same keyspace as the operation before.
    let mut last: Option<Arc<KeyspaceCore>> = None;
    let mut memory = ReplayMemory::default();
    let mut replayed = 0;
    let mut visit = |record: Record<'_>| {
        if record.kind != record::BATCH {
            return Ok(());
        }
        let mut is_new = false;
        let done = each_op(&record, |seqno, op| {
            if last.as_ref().is_none_or(|last| last.id != op.keyspace) {
                last = parts.core.keyspaces.get(op.keyspace);
            }
            // The keyspace was dropped.
            let Some(keyspace) = &last else { return Ok(()) };
            is_new |= insert(parts, keyspace, state, seqno, &op)?;
            Ok(())
        });
        done.map_err(|malformed| damaged(dir, &record, malformed))??;
        replayed += u64::from(is_new);
        let through = record.first_seqno.plus(u64::from(record.count).saturating_sub(1));
        memory.flush_if_full(parts, through)
    };
    flagstone_wal::read(disk, dir, parts.core.setup().id, &state.listed(), &mut visit)?;
    Ok(replayed)
}

/// Inserts an operation into the trees that do not have it in tables. Returns whether there was
/// one.
fn insert(
    parts: &Parts,
    keyspace: &KeyspaceCore,
    state: &ManifestState,
    seqno: SeqNo,
    op: &LoggedOp<'_>,
) -> Result<bool> {
    let hash = keyspace.hash(op.key);
    let layout = keyspace.layout();
    let into = |tree: &Arc<Tree>| {
        let flushed = state.trees.get(&tree.id()).and_then(|tree| tree.flushed_through);
        if flushed.is_some_and(|through| seqno <= through) {
            return Ok(false);
        }
        let memtable = parts.core.history.numbering.lock().reserve(tree, seqno);
        memtable.insert(op.at(seqno), hash)?;
        Ok(true)
    };
    if op.kind == Kind::RangeDelete {
        let met = layout.partitions_of(op.key, op.value);
        layout.trees[met].iter().try_fold(false, |is_new, tree| Ok(into(tree)? | is_new))
    } else {
        into(layout.tree_of(op.key, hash))
    }
}

/// Keeps replay within the memory budget: it flushes as writes do, but in this thread. On a full
/// disk the replayed entries stay in memory, up to the whole budget, which nothing else uses yet:
/// once the database is open, it can free disk space.
#[derive(Default)]
struct ReplayMemory {
    /// After a full disk: the size of the memtables, in bytes, at which a flush is tried again.
    again_at: u64,
}

impl ReplayMemory {
    fn flush_if_full(&mut self, parts: &Parts, through: SeqNo) -> Result<()> {
        let share = parts.core.setup().options.memtable_share();
        let bytes = parts.core.memory.memtable_bytes();
        if parts.core.history.is_read_only() || bytes < self.again_at.max(share / 2) {
            return Ok(());
        }
        let had_ballast = !parts.core.ballast.is_given_up();
        let mut flushed = flush_replayed(&parts.upkeep, through);
        let is_full = |flushed: &Result<()>| {
            flushed.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfSpace)
        };
        if is_full(&flushed) && had_ballast && parts.core.ballast.is_given_up() {
            // Giving up the ballast has freed space.
            flushed = flush_replayed(&parts.upkeep, through);
        }
        if !is_full(&flushed) {
            self.again_at = 0;
            return flushed;
        }
        if bytes >= parts.core.setup().options.memory_budget {
            return flushed.map_err(|error| memory_full(parts, error));
        }
        self.again_at = bytes + share / 4;
        Ok(())
    }
}

#[cold]
fn memory_full(parts: &Parts, error: Error) -> Error {
    error.context(format_args!(
        "{}: the disk is full, and the log holds more writes than the memory budget of {} bytes: \
         free about {} bytes on the disk, or open it once with a larger budget",
        parts.core.setup().dir.display(),
        parts.core.setup().options.memory_budget,
        parts.core.history.log_bytes()
    ))
}
