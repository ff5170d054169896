//! Opening a database: creates one in an empty directory, or recovers an existing one.

use super::build_keyspace::{build_keyspace, open_content, tree_options};
use super::replay;
use crate::background::{note_deletes, schedule_after_open, watch};
use crate::ballast::{self, find_ballast};
use crate::config::Config;
use crate::content::ContentFactory;
use crate::edits::ceiling_above;
use crate::event::Event;
use crate::history::HistoryId;
use crate::keyspace_core::KeyspaceCore;
use crate::keyspaces::Keyspaces;
use crate::manifest::{Loaded, Location, Manifest, ManifestState};
use crate::parts::{OpenedParts, Parts};
use crate::setup::Setup;
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result};
use flagstone_env::disk::create_dir_synced;
use flagstone_env::names::{self, FileKind, Name};
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use flagstone_env::sync::prepare_barriers;
use flagstone_env::{Disk, DiskLock, Executor, LockMode, OpenFiles, ThreadExecutor, lock_to_read};
use flagstone_sst::BlockCache;
use flagstone_tree::{ChunkPool, Damages, Obsolete, Scans, Tree, TreeContext, Unfinished, Version};
use flagstone_wal::{Log, LogOptions};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

/// How many bytes of its log a database opened for reading only may hold in memory beyond the
/// memtables' share of the budget.
const REPLAYED_BEYOND_SHARE: u64 = 64 << 20;

/// Opens the database that `config` describes.
pub(crate) fn open(config: Config, read_only: bool) -> Result<Parts> {
    let started = config.environment.clock.monotonic();
    let disk = Arc::clone(&config.environment.disk);
    let lock = take_directory(&*disk, &config, read_only)?;
    let loaded = Manifest::load(&*disk, &config.dir)?;
    if loaded.is_none() && (read_only || !config.options.create_if_missing) {
        return Err(no_database(&config.dir));
    }
    if let Some(text) = loaded.as_ref().and_then(|l| l.write_refused.clone())
        && !read_only
    {
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    let opening = Opening::plan(config, loaded, read_only)?;
    // Pass 1 ends here. It changed nothing, and from here on only the disk can fail the open.
    let (parts, mut event) = opening.finish(lock)?;
    if let Event::Opened { took, .. } = &mut event {
        *took = parts.setup.now() - started;
    }
    parts.health.tell(&event);
    for tree in parts.keyspaces.all_trees() {
        if tree.has_tables() {
            parts.upkeep.work.note_table_bytes(0, tree.table_bytes());
            watch(&parts.upkeep, &tree);
        }
    }
    // The trees whose memtables hold replayed entries.
    let replayed: Vec<_> = parts.history.numbering.lock().unflushed().cloned().collect();
    replayed.iter().for_each(|tree| note_deletes(&parts.upkeep, tree));
    parts.upkeep.ensure_ballast();
    if parts.ballast.is_given_up() {
        parts.ballast.retry_later();
    }
    parts.scrubber.start();
    if !read_only {
        schedule_after_open(&parts.upkeep);
    }
    Ok(parts)
}

fn no_database(dir: &Path) -> Error {
    Error::io(
        "open the database in",
        dir,
        std::io::Error::new(std::io::ErrorKind::NotFound, "there is no database here"),
    )
}

/// Creates the directory if the options ask for that, and locks it. A reader that may not write the
/// directory opens it without a lock.
fn take_directory(
    disk: &dyn Disk,
    config: &Config,
    read_only: bool,
) -> Result<Option<Box<dyn DiskLock>>> {
    let dir = &config.dir;
    if !disk.exists(dir)? {
        if read_only || !config.options.create_if_missing {
            return Err(no_database(dir));
        }
        create_dir_synced(disk, dir)?;
    }
    // Looks for a database before a lock file is created in a directory without one. If a lock file
    // exists, another process may be creating a database: the lock tells. `load` tells a
    // foreign directory from one whose `CURRENT` was lost. If a database has appeared in the
    // meantime, it is locked like any other.
    if (read_only || !config.options.create_if_missing)
        && !disk.exists(&dir.join(names::CURRENT))?
        && !disk.exists(&dir.join(names::LOCK))?
        && Manifest::load(disk, dir)?.is_none()
    {
        return Err(no_database(dir));
    }
    let path = dir.join(names::LOCK);
    match read_only {
        true => lock_to_read(disk, &path),
        false => disk.lock(&path, LockMode::Exclusive).map(Some),
    }
}

/// What pass 1 found, and what pass 2 needs.
struct Opening {
    config: Config,
    read_only: bool,
    id: DatabaseId,
    state: ManifestState,
    loaded: Option<Loaded>,
    context: Arc<TreeContext>,
    keyspaces: Keyspaces,
    files: Vec<String>,
    found: replay::CheckedLog,
}

impl Opening {
    fn plan(config: Config, loaded: Option<Loaded>, read_only: bool) -> Result<Self> {
        let environment = &config.environment;
        let files = environment.disk.list(&config.dir)?;
        let state = loaded.as_ref().map(|l| l.state.clone()).unwrap_or_default();
        let id = match &loaded {
            Some(loaded) => loaded.id,
            None => draw_id(&config),
        };
        check_tables_exist(&config.dir, &state, &files)?;
        let numbers = files.iter().filter_map(|name| match names::parse(name) {
            Name::Numbered(FileKind::Manifest | FileKind::Table, number) => Some(number.0 + 1),
            _ => None,
        });
        let next_file = Arc::new(AtomicU64::new(numbers.max().unwrap_or(1).max(state.next_file.0)));
        prepare_barriers();
        let context = Arc::new(TreeContext {
            disk: Arc::clone(&environment.disk),
            files: OpenFiles::new(Arc::clone(&environment.disk), config.options.files_open()),
            dir: config.dir.clone(),
            direct_reads: config.options.direct_reads,
            entry_checks: config.options.entry_checks,
            database: id,
            random: Arc::clone(&environment.random),
            cache: BlockCache::new(config.options.cache_bytes(0)),
            next_file: Arc::new(move || FileNumber(next_file.fetch_add(1, Ordering::Relaxed))),
            memtable_bytes: Arc::default(),
            // A new chunk is allocated only when the pool is empty, so memtables and pool together
            // hold no more than the memtables' share, and in the long run no insert touches a fresh
            // page.
            chunks: ChunkPool::new(config.options.memtable_share() as usize),
            obsolete: Obsolete::default(),
            unfinished: Unfinished::default(),
            damages: Damages::default(),
            scans: Scans::default(),
            sampled: Arc::default(),
        });
        let keyspaces = make_keyspaces(&state, &*config.contents, &context)?;
        let disk = &*environment.disk;
        if !read_only {
            flagstone_wal::read_from_device(disk, &config.dir)?;
        }
        let found = match &loaded {
            Some(loaded) => replay::check(disk, &config.dir, loaded, &keyspaces)?,
            None => replay::CheckedLog::default(),
        };
        if read_only {
            check_fits(&config, &found)?;
        } else {
            found.recovered.check_writable()?;
        }
        Ok(Self { config, read_only, id, state, loaded, context, keyspaces, files, found })
    }

    fn finish(self, lock: Option<Box<dyn DiskLock>>) -> Result<(Parts, Event)> {
        let environment = &self.config.environment;
        let (disk, dir) = (Arc::clone(&environment.disk), self.config.dir.clone());
        let manifest_torn = self.loaded.as_ref().map_or(0, |loaded| loaded.torn_bytes);
        let visible = self.found.last_seqno(&self.state);
        let history = match self.state.history {
            Some(history) => history,
            // Opening a checkpoint for reading only begins no history.
            None if self.read_only => HistoryId::default(),
            None => HistoryId(environment.random.next_u64()),
        };
        let mut manifest = None;
        let mut removed_files = 0;
        let mut log = None;
        let mut ballast = ballast::FoundBallast::default();
        if !self.read_only {
            // The ballast comes first: a full disk has no room for a manifest.
            ballast = find_ballast(&*disk, &dir, &self.files, self.config.options.ballast())?;
            let location = Location {
                disk: Arc::clone(&disk),
                dir: dir.clone(),
                next_file: Arc::clone(&self.context.next_file),
            };
            let granted = |state| ManifestState {
                seqno_ceiling: ceiling_above(visible),
                history: Some(history),
                ..state
            };
            // A snapshot of the manifest is no longer than the manifest.
            let needed = self.loaded.as_ref().map_or(0, |loaded| loaded.valid_end)
                + self.config.options.segment_bytes();
            let told = |error| with_bytes_needed(&dir, needed, error);
            let opened = match self.loaded {
                Some(mut loaded) => {
                    loaded.state = granted(loaded.state);
                    Manifest::reopen(location, loaded).map_err(told)?
                }
                None => Manifest::create(location, self.id, granted(ManifestState::default()))
                    .map_err(told)?,
            };
            removed_files = remove_leftovers(&*disk, &dir, &self.files, &opened)?;
            manifest = Some(opened);
            let options = LogOptions {
                segment_bytes: self.config.options.segment_bytes(),
                ..LogOptions::default()
            };
            let random = Arc::clone(&environment.random);
            let recovered = &self.found.recovered;
            let made = Log::create(Arc::clone(&disk), &dir, self.id, random, options, recovered);
            log = Some(made.map_err(told)?.with_clock(Arc::clone(&environment.clock)));
        }
        let executor: Arc<dyn Executor> = match &environment.executor {
            Some(executor) => Arc::clone(executor),
            None => Arc::new(
                ThreadExecutor::start(self.config.options.compaction_workers)
                    .map_err(|error| Error::io("start threads for", &dir, error))?,
            ),
        };
        let setup = Setup {
            id: self.id,
            dir: dir.clone(),
            options: self.config.options,
            environment: self.config.environment,
            executor,
        };
        let parts = Parts::new(OpenedParts {
            setup: Arc::new(setup),
            listeners: self.config.listeners,
            contents: self.config.contents,
            history,
            log,
            visible,
            moment: self.state.moment,
            manifest,
            keyspaces: self.keyspaces,
            trees: self.context,
            ballast,
            lock,
        });
        let replayed = replay::replay(&parts, &self.state);
        // A job that is still queued would keep the directory locked.
        let replayed_records = replayed.inspect_err(|_| parts.setup.executor.shut_down())?;
        parts.history.replaying.store(false, Ordering::Release);
        // Divides the budget now that memtables hold what was replayed: no commit has done it.
        parts.memory.move_border();
        if let crate::Durability::Interval(interval) = parts.setup.options.durability
            && !self.read_only
        {
            parts.log.sync_every(interval);
        }
        let torn_bytes = self.found.recovered.dropped_bytes + manifest_torn;
        let took = std::time::Duration::ZERO;
        Ok((parts, Event::Opened { replayed_records, torn_bytes, removed_files, took }))
    }
}

/// Adds to an error of a full disk how many bytes an open for writing needs: it starts a manifest
/// and a segment of the log.
fn with_bytes_needed(dir: &Path, needed: u64, error: Error) -> Error {
    if error.kind() != ErrorKind::OutOfSpace {
        return error;
    }
    error.context(format_args!(
        "{}: the disk is full: an open for writing needs about {needed} bytes, \
         to be freed outside of the database; an open for reading needs none",
        dir.display()
    ))
}

/// Refuses a log that does not fit into memory: an open for reading only cannot flush what it
/// replays.
fn check_fits(config: &Config, found: &replay::CheckedLog) -> Result<()> {
    let bytes: u64 = found.recovered.segments.iter().map(|segment| segment.bytes).sum();
    let share = config.options.memtable_share();
    if bytes <= share + REPLAYED_BEYOND_SHARE {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{}: its log of {bytes} bytes would stay in memory while the database is open for \
         reading only: expected a memory budget of at least {}, or open it for writing once",
        config.dir.display(),
        2 * (bytes - REPLAYED_BEYOND_SHARE)
    )))
}

fn draw_id(config: &Config) -> DatabaseId {
    let random = &config.environment.random;
    let mut id = [0; 16];
    id[..8].copy_from_slice(&random.next_u64().to_le_bytes());
    id[8..].copy_from_slice(&random.next_u64().to_le_bytes());
    DatabaseId(id)
}

/// Refuses a database that lacks a table which its manifest names.
fn check_tables_exist(dir: &Path, state: &ManifestState, files: &[String]) -> Result<()> {
    let files: HashSet<&str> = files.iter().map(String::as_str).collect();
    for number in state.live_tables() {
        let name = names::name(FileKind::Table, number);
        if !files.contains(name.as_str()) {
            return Err(Error::corruption(
                dir.join(name).display(),
                0,
                "the manifest names this table, and it is missing",
            ));
        }
    }
    Ok(())
}

/// Removes what a crash left: temporary files, and tables and manifests that nothing names. Returns
/// how many files were removed.
fn remove_leftovers(
    disk: &dyn Disk,
    dir: &Path,
    files: &[String],
    manifest: &Manifest,
) -> Result<usize> {
    let live: BTreeSet<FileNumber> = manifest.state().live_tables().collect();
    let mut removed = 0;
    for name in files {
        let is_leftover = match names::parse(name) {
            Name::Temporary => true,
            Name::Numbered(FileKind::Table, number) => !live.contains(&number),
            Name::Numbered(FileKind::Manifest, number) => number != manifest.number(),
            _ => false,
        };
        if !is_leftover {
            continue;
        }
        match disk.remove(&dir.join(name)) {
            Ok(()) => removed += 1,
            Err(error) if error.is_missing_file() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

fn make_keyspaces(
    state: &ManifestState,
    contents: &dyn ContentFactory,
    context: &Arc<TreeContext>,
) -> Result<Keyspaces> {
    let keyspaces = Keyspaces::default();
    for record in state.catalog.iter() {
        let content = open_content(contents, record)?;
        let core = build_keyspace(Arc::clone(record), content, |id, core: &KeyspaceCore| {
            let version = match state.trees.get(&id) {
                Some(tree) => Version::empty().apply(context, &tree.to_edit(id))?,
                None => Version::empty(),
            };
            Ok(Tree::new(id, Arc::clone(context), tree_options(core, id), version))
        })?;
        for table in &core.definitions {
            let items = state.definitions_of((core.id, table.kind));
            table.restore(0, items)?;
            table.note_in_manifest(items.len() as u32);
        }
        keyspaces.insert(&Arc::new(core));
    }
    check_definitions_known(state, &keyspaces)?;
    Ok(keyspaces)
}

/// Refuses definitions of a kind that this version does not know: a newer one wrote them.
fn check_definitions_known(state: &ManifestState, keyspaces: &Keyspaces) -> Result<()> {
    for &(id, kind) in state.definitions.keys() {
        let keyspace = keyspaces.get(id);
        if let Some(keyspace) = keyspace.filter(|keyspace| keyspace.table_of(kind).is_none()) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("keyspace {:?} has {kind}, unknown to this version", keyspace.name()),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing;
    use crate::{Engine, ErrorKind};

    #[test]
    fn readers_open_side_by_side_and_keep_writers_out() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        db.keyspace("k").unwrap().put("a", "1").unwrap();
        let busy = |error: crate::Error| assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        busy(testing::open_read_only(dir.path()).unwrap_err());
        db.close().unwrap();
        let readers: Vec<Engine> =
            (0..2).map(|_| testing::open_read_only(dir.path()).unwrap()).collect();
        busy(testing::open(dir.path()).unwrap_err());
        for reader in readers {
            assert_eq!(reader.keyspace("k").unwrap().get("a").unwrap().unwrap(), b"1");
            reader.close().unwrap();
        }
        testing::open(dir.path()).unwrap().close().unwrap();
    }
}
