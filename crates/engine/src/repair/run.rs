//! The repair of a database into another directory, or in place.

use super::active::ActiveRepair;
use super::find::FoundDatabase;
use super::log_tables::{read_log, write_gathered};
use super::output::RepairOutputs;
use super::rebuild::{create_unknown, define, note_doubts, note_expiries, rebuild};
use super::report::RepairReport;
use super::tables::{add_source, carry_over};
use super::trust::{find_rebuilt, listed_tables};
use crate::content::ContentFactory;
use crate::copying::{
    check_empty, check_outside, copy_file, create_database, state_of_copy, unpaced,
};
use crate::manifest::{Location, Manifest, ManifestState};
use crate::options::Options;
use flagstone_base::sorted::SortedMap;
use flagstone_base::{Error, ErrorKind, FileNumber, Result};
use flagstone_env::names::{self, FileKind, Name};
use flagstone_env::{Disk, HeldDir, LockMode, OpenFiles, OsDisk, lock_to_read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes a new database of everything that can still be read of a damaged one.
///
/// Everything that can be read is kept, and a [`RepairReport`] lists what cannot: file, offset,
/// keys, writes. Whole tables are kept unchanged; of a damaged table the good blocks are kept, and
/// of the log every whole record, also after damage. Without a manifest the keyspaces are rebuilt
/// from their tables and the log. Then the names of keyspaces (they become `keyspace-3`), folds and
/// codecs are lost; names of fields are not.
///
/// The original is read, never written: [`Repair::into_dir`] creates another database. Copy the
/// damaged database before you repair it.
#[must_use = "nothing is repaired until a destination is named"]
pub struct Repair {
    /// The path as it was given.
    given: PathBuf,
    /// The absolute path, and why there is none, if so.
    dir: PathBuf,
    lost: Option<Error>,
    disk: Arc<dyn Disk>,
    folds: SortedMap<u32, String>,
    contents: Arc<dyn ContentFactory>,
}

const WHAT: &str = "a repaired database";
/// The ending that is appended to the name of a file that is not needed any more.
const ASIDE: &str = ".aside";

impl Repair {
    /// Returns a repair of the database in `dir`. Nothing is read yet, but a relative path means
    /// what it means now.
    pub fn of(dir: &Path, contents: Arc<dyn ContentFactory>) -> Self {
        let (given, folds) = (dir.to_owned(), SortedMap::new());
        let repair = Self {
            given,
            dir: dir.to_owned(),
            lost: None,
            disk: Arc::new(OsDisk),
            folds,
            contents,
        };
        repair.located()
    }

    /// Finds the absolute path. If even the current directory is gone, the repair says so.
    fn located(mut self) -> Self {
        match self.disk.absolute(&self.given) {
            Ok(dir) => (self.dir, self.lost) = (dir, None),
            Err(error) => self.lost = Some(error),
        }
        self
    }

    /// Names the fold of the keyspace with number `keyspace`, for when the manifest does not tell
    /// it.
    pub fn fold(mut self, keyspace: u32, name: &str) -> Self {
        self.folds.insert(keyspace, name.to_owned());
        self
    }

    /// Uses another disk, for tests.
    pub fn on_disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self.located()
    }

    /// Writes the repaired database to `to`, which must be missing or empty. Whole tables are
    /// linked, or copied where the file system cannot link. After an error or a crash `to` holds no
    /// database.
    ///
    /// # Errors
    /// InvalidInput when there is nothing to repair, or `to` is not empty, or inside of the
    /// database; Busy when the database is open; Unsupported when a newer flagstone wrote it;
    /// OutOfSpace, Io.
    pub fn into_dir(self, to: &Path) -> Result<RepairReport> {
        let absolute = self.disk.absolute(to)?;
        let (original, _held) = self.hold()?;
        check_outside(&*original.disk, &absolute, &original.dir, WHAT)?;
        check_empty(&*original.disk, &absolute, WHAT)?;
        let lock = lock_to_read(&*original.disk, &original.dir.join(names::LOCK))?;
        let found = FoundDatabase::read(&*original.disk, &original.dir)?;
        let made = create_database(&*original.disk, &absolute, &original.dir, WHAT, |held| {
            let mut repair = original.start(found, held);
            let state = finished(repaired_state(&mut repair)?, &repair);
            for number in std::mem::take(&mut repair.kept) {
                link_or_copy(&*held.disk, &original.dir, &held.path, number)?;
            }
            let location = Location::of_copy(&held.disk, &held.path, &state);
            Manifest::create(location, repair.found.id, state)?;
            repair.report.dir = to.to_owned();
            Ok(repair.report)
        });
        drop(lock);
        made
    }

    /// Repairs the database in its own directory: writes new tables and a new manifest next to the
    /// old files, switches `CURRENT`, and renames every file that the repaired database does not
    /// need to `NAME.aside`. Nothing is removed, so unreadable files can be examined later. The old
    /// files are unchanged until `CURRENT` is switched.
    ///
    /// # Errors
    /// As [`Repair::into_dir`].
    pub fn in_place(self) -> Result<RepairReport> {
        self.check_located()?;
        if !self.disk.exists(&self.dir)? {
            let text = format!("{}: there is nothing to repair", self.given.display());
            return Err(Error::invalid(text));
        }
        let dir = self.given.clone();
        let (original, held) = self.hold()?;
        let made = original.in_held(&held)?;
        Ok(RepairReport { dir, ..made })
    }

    fn check_located(&self) -> Result<()> {
        self.lost.clone().map_or(Ok(()), Err)
    }

    /// The same repair of the directory itself, whatever happens to its path.
    fn hold(self) -> Result<(Self, HeldDir)> {
        self.check_located()?;
        let held = self.disk.hold(&self.dir)?;
        let (dir, disk) = (held.path.clone(), Arc::clone(&held.disk));
        Ok((Self { dir, disk, ..self }, held))
    }

    fn in_held(self, held: &HeldDir) -> Result<RepairReport> {
        let disk = &*self.disk;
        let lock = disk.lock(&self.dir.join(names::LOCK), LockMode::Exclusive)?;
        let found = FoundDatabase::read(disk, &self.dir)?;
        let files = found.files.clone();
        let mut repair = self.start(found, held);
        let state = match repaired_state(&mut repair) {
            Ok(state) => finished(state, &repair),
            Err(error) => {
                self.remove(&repair.outputs.created);
                return Err(error);
            }
        };
        // The second names come first: the next open removes tables that the new manifest does not
        // name.
        let unneeded = files.iter().filter(|name| !is_needed(name, &repair));
        let aside =
            self.link_aside(unneeded).inspect_err(|_| self.remove(&repair.outputs.created))?;
        let location = Location::of_copy(&self.disk, &self.dir, &state);
        Manifest::replace(location, repair.found.id, state)?;
        for (name, to) in aside {
            // `CURRENT` has been replaced already.
            if name != names::CURRENT {
                disk.remove(&self.dir.join(name))?;
            }
            repair.report.set_aside.push(to);
        }
        disk.sync_dir(&self.dir)?;
        drop(lock);
        Ok(repair.report)
    }

    /// Gives each of the files a second name, durably, and returns the names. After an error none
    /// of them is left.
    fn link_aside<'n>(
        &self,
        files: impl Iterator<Item = &'n String>,
    ) -> Result<Vec<(&'n str, String)>> {
        let mut aside = Vec::new();
        let link = || {
            for name in files {
                let to = self.free_name(name)?;
                self.disk.link(&self.dir.join(name), &self.dir.join(&to)).map_err(|error| {
                    error.context(
                        "a repair in place sets files aside by hard links: repair into another \
                         directory",
                    )
                })?;
                aside.push((name.as_str(), to));
            }
            self.disk.sync_dir(&self.dir)
        };
        let linked = link();
        if let Err(error) = linked {
            self.remove(&aside.iter().map(|(_, to)| self.dir.join(to)).collect::<Vec<_>>());
            return Err(error);
        }
        Ok(aside)
    }

    /// Removes the files that a failed repair has created, as far as possible.
    fn remove(&self, created: &[PathBuf]) {
        for path in created {
            let _gone = self.disk.remove(path);
        }
    }

    /// Returns the new name of a file that is set aside: one that no file has.
    fn free_name(&self, name: &str) -> Result<String> {
        let mut free = format!("{name}{ASIDE}");
        let mut again = 1;
        while self.disk.exists(&self.dir.join(&free))? {
            again += 1;
            free = format!("{name}{ASIDE}-{again}");
        }
        Ok(free)
    }

    fn start<'a>(&'a self, found: FoundDatabase, to: &'a HeldDir) -> ActiveRepair<'a> {
        let outputs = RepairOutputs::new(&to.disk, &to.path, &found);
        let files = OpenFiles::new(Arc::clone(&self.disk), Options::default().files_open());
        ActiveRepair::new(&self.dir, found, outputs, &self.folds, &*self.contents, files)
    }
}

/// Writes the new tables and returns the state of the repaired database.
fn repaired_state(repair: &mut ActiveRepair<'_>) -> Result<ManifestState> {
    let listed = listed_tables(repair);
    find_rebuilt(repair, &listed)?;
    let mut state = repair.found.state.clone();
    for (number, listed) in &listed {
        if repair.rebuilt.contains_key(&listed.keyspace) {
            add_source(repair, listed.keyspace, *number, Some(&listed.meta));
        } else {
            carry_over(repair, *number, listed, &mut state)?;
        }
    }
    read_log(repair, &mut state)?;
    create_unknown(repair, &mut state)?;
    write_gathered(repair, &mut state)?;
    rebuild(repair, &mut state)?;
    note_expiries(&mut state)?;
    note_doubts(repair, &mut state)?;
    for path in std::mem::take(&mut repair.scratch) {
        repair.outputs.disk.remove(&path)?;
    }
    define(repair, &mut state);
    state.last_seqno = state.last_seqno.max(repair.last_seqno);
    state.next_file = state.next_file.max(repair.outputs.next_file);
    repair.report.seqno = state.last_seqno;
    Ok(state)
}

/// The final state: all entries are in tables, and a log would begin above every file number.
fn finished(state: ManifestState, repair: &ActiveRepair<'_>) -> ManifestState {
    state_of_copy(&state, Some(FileNumber(repair.outputs.next_file.0 + 1)))
}

fn is_needed(name: &str, repair: &ActiveRepair<'_>) -> bool {
    match names::parse(name) {
        Name::Numbered(FileKind::Table, number) => repair.kept.contains(&number),
        // Temporary files are no part of a database.
        Name::Foreign | Name::Lock | Name::Ballast | Name::Spill(_) | Name::Temporary => true,
        // Kept changes belong to the history before the repair.
        Name::Numbered(..) | Name::Kept(_) | Name::Current => false,
    }
}

/// Links a table into another directory, or copies it where links are not possible.
fn link_or_copy(disk: &dyn Disk, from: &Path, to: &Path, number: FileNumber) -> Result<()> {
    let (from, to) =
        (names::path(from, FileKind::Table, number), names::path(to, FileKind::Table, number));
    match disk.link(&from, &to) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Io => {
            copy_file(disk, &from, &to, &mut unpaced).map(drop)
        }
        Err(error) => Err(error),
    }
}
