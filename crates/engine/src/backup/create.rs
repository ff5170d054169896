//! Writing a generation: a cut of the database, the tables that the directory lacks, then the
//! generation.

use super::folder::{Folder, open_to_write};
use super::generation::Generation;
use crate::background::{cut, sweep};
use crate::copy_pace::copy_pace;
use crate::copying::{CopyPace, check_held_outside, check_outside, copy_table, state_of_copy};
use crate::manifest::{Manifest, ManifestState};
use crate::parts::Parts;
use crate::queue::Cut;
use flagstone_base::{Error, Result, SeqNo};
use flagstone_env::disk::create_dir_synced;
use flagstone_env::names;
use flagstone_env::{Disk, HeldDir};
use std::fmt;
use std::path::Path;

/// What a backup holds, and how much of it was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// The number of the new generation.
    pub generation: u64,
    /// The SeqNo of the last write in the generation.
    pub seqno: SeqNo,
    /// The number of tables that the generation needs.
    pub tables: u64,
    /// The size of these tables, in bytes.
    pub bytes: u64,
    /// The number of tables that were copied: the directory had the others already.
    pub tables_copied: u64,
    /// The size of the copied tables, in bytes.
    pub bytes_copied: u64,
}

/// The state to be backed up.
struct BackupSource {
    seqno: SeqNo,
    state: ManifestState,
    /// The cut keeps the files of the tables.
    _cut: Option<Cut>,
}

/// Adds a generation of the open database to the backups in `dir`.
pub(crate) fn create(parts: &Parts, dir: &Path) -> Result<BackupReport> {
    if !parts.core.history.is_read_only() {
        parts.core.health.check_open_for_writing()?;
    }
    parts.core.health.check_open()?;
    let disk = &parts.core.setup().environment.disk;
    let dir = disk.absolute(dir)?;
    let from = &*parts.core.setup().dir;
    check_outside(&**disk, &dir, from, "backups")?;
    create_dir_synced(&**disk, &dir)?;
    let held = disk.hold(&dir)?;
    check_held_outside(&held, from, "backups")?;
    let (lock, folder) = open_to_write(&*held.disk, &held.path)?;
    // Checked before the flush, so that a bad argument costs nothing.
    check_same_database(parts, &folder, &held)?;
    let source = source(parts)?;
    let report = copy(parts, &source, &folder, &held);
    drop(source);
    drop(lock);
    if !parts.core.history.is_read_only() {
        sweep(&parts.upkeep);
    }
    report
}

/// Refuses a directory with backups of another database: generations of two databases share no
/// table, so this is a mistake. A generation that cannot be read is passed over; `verify` finds it.
fn check_same_database(parts: &Parts, folder: &Folder, held: &HeldDir) -> Result<()> {
    let readable = folder.generations.iter().rev();
    let newest = readable
        .map(|number| Generation::read(&*held.disk, &held.path, *number))
        .find_map(Result::ok);
    match newest.filter(|newest| newest.database != parts.core.setup().id) {
        None => Ok(()),
        Some(other) => Err(Error::invalid(format!(
            "{} holds backups of database {}, and {} is database {}",
            held.path.display(),
            other.database,
            parts.core.setup().dir.display(),
            parts.core.setup().id
        ))),
    }
}

fn source(parts: &Parts) -> Result<BackupSource> {
    if !parts.core.history.is_read_only() {
        let cut = cut(&parts.upkeep)?;
        let log_from = parts.core.history.log.as_ref().map(flagstone_wal::Log::next_number);
        let state = state_of_copy(&cut.state, log_from);
        return Ok(BackupSource { seqno: cut.seqno, state, _cut: Some(cut) });
    }
    let dir = parts.core.setup().dir.display();
    if parts.core.memory.memtable_bytes() > 0 {
        return Err(Error::invalid(format!(
            "the log of {dir} holds writes that are in no table, and it is open for reading only: \
             open it for writing to back it up"
        )));
    }
    // An open for reading only holds the lock, so the manifest is the one that was read at the
    // open.
    let loaded = Manifest::load(&*parts.core.setup().environment.disk, &parts.core.setup().dir)?
        .ok_or_else(|| Error::invalid(format!("{dir} holds no database any more")))?;
    let state = state_of_copy(&loaded.state, None);
    Ok(BackupSource { seqno: parts.core.history.visible(), state, _cut: None })
}

fn copy(
    parts: &Parts,
    source: &BackupSource,
    folder: &Folder,
    held: &HeldDir,
) -> Result<BackupReport> {
    let (disk, dir) = (&*held.disk, &*held.path);
    let generation = Generation {
        number: folder.generations.last().map_or(1, |newest| newest.saturating_add(1)),
        database: parts.core.setup().id,
        seqno: source.seqno,
        made_at: parts.core.setup().environment.clock.wall(),
        state: source.state.clone(),
    };
    let mut report = BackupReport {
        generation: generation.number,
        seqno: source.seqno,
        ..BackupReport::default()
    };
    let mut pace = copy_pace(&parts.core.health);
    for meta in generation.tables() {
        report.tables += 1;
        report.bytes += meta.bytes;
        let name = generation.name_of(meta);
        let to = dir.join(&name);
        if folder.tables.contains(&name) {
            // A table gets this name only after it was copied, synced and read back.
            if disk.open(&to)?.len() == meta.bytes {
                continue;
            }
            disk.remove(&to)?;
        }
        copy_whole(disk, &parts.core.trees.table_path(meta.number), &to, meta, &mut pace)?;
        report.tables_copied += 1;
        report.bytes_copied += meta.bytes;
    }
    // The names of the tables are synced before the generation that needs them.
    disk.sync_dir(dir)?;
    generation.write(disk, dir)?;
    // Removes what an interrupted backup left. The generation is complete: a failure here does not
    // fail the backup.
    if let Ok(folder) = Folder::list(disk, dir) {
        let _left = folder.sweep(disk, dir);
    }
    Ok(report)
}

/// Copies a table under a temporary name, and renames it once it is whole.
fn copy_whole(
    disk: &dyn Disk,
    from: &Path,
    to: &Path,
    meta: &flagstone_sst::TableMeta,
    pace: CopyPace<'_>,
) -> Result<()> {
    let mut temporary = to.as_os_str().to_owned();
    temporary.push(names::TEMPORARY);
    let temporary = Path::new(&temporary);
    if disk.exists(temporary)? {
        disk.remove(temporary)?;
    }
    copy_table(disk, from, temporary, meta, pace)?;
    disk.rename(temporary, to)
}

impl fmt::Display for BackupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "generation {}: {} tables of {} bytes at {}, {} of {} bytes copied",
            self.generation,
            self.tables,
            self.bytes,
            self.seqno,
            self.tables_copied,
            self.bytes_copied
        )
    }
}
