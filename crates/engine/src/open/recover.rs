//! Opening a database: creates one in an empty directory, or recovers an existing one.

use super::build_keyspace::build_keyspaces;
use super::directory::{
    Directory, OpenMode, check_tables_exist, free_kept, hold_directory, no_database,
    remove_leftovers,
};
use super::replay::{self, CheckedLog};
use crate::background::{note_deletes, note_divided, note_size, schedule_after_open, watch};
use crate::ballast::{self, find_ballast};
use crate::commit::note_lost;
use crate::config::Config;
use crate::core::OpenedCore;
use crate::edits::ceiling_above;
use crate::event::Event;
use crate::health::{WhyDropped, tell_of_dropped};
use crate::history::HistoryId;
use crate::keyspaces::Keyspaces;
use crate::manifest::{Loaded, Location, Manifest, ManifestState};
use crate::options::ChangeRetention;
use crate::parts::Parts;
use crate::setup::Setup;
use crate::supply::supply;
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::names::{self, FileKind, Name};
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use flagstone_env::sync::prepare_barriers;
use flagstone_env::{Executor, OpenFiles, ThreadExecutor};
use flagstone_sst::BlockCache;
use flagstone_tree::{ChunkPool, Damages, Obsolete, Scans, TreeContext, Unfinished};
use flagstone_wal::{Log, LogFiles, LogOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How many bytes of its log a database opened for reading only may hold in memory beyond the
/// memtables' share of the budget.
const REPLAYED_BEYOND_SHARE: u64 = 64 << 20;

/// Opens the database that `config` describes.
pub(crate) fn open(config: Config, mode: OpenMode) -> Result<Parts> {
    let read_only = mode == OpenMode::ReadOnly;
    let started = config.environment.clock.monotonic();
    let (config, directory) = hold_directory(config, mode)?;
    let loaded = Manifest::load(&*config.environment.disk, &config.dir)?;
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
    let (parts, mut event) = opening.finish(directory)?;
    if let Event::Opened { took, .. } = &mut event {
        *took = parts.core.setup().now() - started;
    }
    parts.core.health.tell(&event);
    if let Some(log) = &parts.core.history.log {
        tell_of_dropped(&parts.core.health, log.lost_changes(), WhyDropped::Damage);
    }
    for tree in parts.core.keyspaces.all_trees() {
        if tree.has_tables() {
            let bytes = tree.table_bytes();
            parts.upkeep.core.work.note_table_bytes(0, bytes);
            note_size(&parts.upkeep, &tree, bytes);
            watch(&parts.upkeep, &tree);
        }
    }
    note_divided(&parts.upkeep);
    // The trees whose memtables hold replayed entries.
    let replayed: Vec<_> = parts.core.history.numbering.lock().unflushed().cloned().collect();
    replayed.iter().for_each(|tree| note_deletes(&parts.upkeep, tree));
    parts.upkeep.ensure_ballast();
    if parts.core.ballast.is_given_up() {
        parts.core.ballast.retry_later();
    }
    parts.scratch.remove_leftovers();
    parts.scrubber.start();
    if !read_only {
        schedule_after_open(&parts.upkeep);
    }
    Ok(parts)
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
    log: CheckedLog,
}

impl Opening {
    /// Pass 1: reads and checks everything that an open needs, and changes nothing.
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
        let keyspaces = build_keyspaces(&state, &*config.contents, &context)?;
        let disk = &*environment.disk;
        if !read_only {
            flagstone_wal::read_from_device(disk, &config.dir)?;
        }
        let log = match &loaded {
            Some(loaded) => replay::check(disk, &config.dir, loaded, &keyspaces)?,
            None => CheckedLog::default(),
        };
        if read_only {
            check_fits(&config, &log)?;
        } else {
            log.recovered.check_writable()?;
        }
        Ok(Self { config, read_only, id, state, loaded, context, keyspaces, files, log })
    }

    /// Pass 2: starts a manifest and a log unless the database is opened for reading only, puts the
    /// parts together, and replays the log.
    fn finish(mut self, directory: Directory) -> Result<(Parts, Event)> {
        let manifest_torn = self.loaded.as_ref().map_or(0, |loaded| loaded.torn_bytes);
        let lost_at = self.may_have_lost().then(|| self.log.last_seqno(&self.state).plus(1));
        let visible = lost_at.unwrap_or_else(|| self.log.last_seqno(&self.state));
        let history = match self.state.history {
            Some(history) => history,
            // Opening a checkpoint for reading only begins no history.
            None if self.read_only => HistoryId::default(),
            None => HistoryId(self.config.environment.random.next_u64()),
        };
        let writable = if self.read_only {
            Writable::default()
        } else {
            self.start_writing(visible, history)?
        };
        let mut log_files = self.find_log_files()?;
        log_files.iter_mut().for_each(|files| files.lost_at = lost_at);
        let executor = executor(&self.config)?;
        let setup = Setup {
            id: self.id,
            dir: self.config.dir,
            guard: directory.guard,
            options: self.config.options,
            scratch_dir: self.config.scratch_dir,
            environment: self.config.environment,
            executor,
        };
        let opened = OpenedCore {
            setup,
            listeners: self.config.listeners,
            history,
            log: writable.log,
            log_files,
            visible,
            moment: self.state.moment,
            manifest: writable.manifest,
            keyspaces: self.keyspaces,
            trees: self.context,
            ballast: writable.ballast,
        };
        let parts = Parts::new(opened, self.config.contents, directory.lock);
        let told = match lost_at {
            Some(seqno) if !self.read_only => tell_of_lost(&parts, seqno),
            _ => Ok(()),
        };
        let replayed = told.and_then(|()| replay::replay(&parts, &self.state));
        // A job that is still queued would keep the directory locked.
        let replayed_records = replayed.inspect_err(|_| parts.core.setup().executor.shut_down())?;
        parts.core.history.replaying.store(false, Ordering::Release);
        // Divides the budget now that memtables hold what was replayed: no commit has done it.
        parts.core.memory.move_border();
        if let crate::Durability::Interval(interval) = parts.core.setup().options.durability
            && !self.read_only
        {
            parts.core.log.sync_every(interval);
        }
        let torn_bytes = self.log.recovered.dropped_bytes + manifest_torn;
        let (removed_files, took) = (writable.removed_files, Duration::ZERO);
        Ok((parts, Event::Opened { replayed_records, torn_bytes, removed_files, took }))
    }

    /// Returns whether a crash may have lost unlogged writes that readers of changes have seen.
    fn may_have_lost(&self) -> bool {
        let asked = self.config.options.change_retention.filter(|_| !self.read_only);
        let retention = asked.or(self.state.retention);
        retention.is_some_and(ChangeRetention::is_on) && self.log.may_have_lost(&self.state)
    }

    /// Finds what readers of changes may read of a log that is not written.
    fn find_log_files(&self) -> Result<Option<LogFiles>> {
        let Config { environment, dir, .. } = &self.config;
        if !self.read_only || !self.state.retention.is_some_and(ChangeRetention::is_on) {
            return Ok(None);
        }
        let last = self.log.last_kept(&self.state);
        LogFiles::find(&*environment.disk, dir, self.id, &self.log.recovered, last).map(Some)
    }

    /// Starts a new manifest, removes leftovers, and creates a log.
    fn start_writing(&mut self, visible: SeqNo, history: HistoryId) -> Result<Writable> {
        let Config { environment, options, dir, .. } = &self.config;
        let disk = &environment.disk;
        // A snapshot of the manifest is no longer than the manifest.
        let needed = self.loaded.as_ref().map_or(0, |loaded| loaded.valid_end);
        let needed = needed + options.segment_bytes();
        // Kept changes and the ballast come first: a full disk has no room for a manifest.
        free_kept(&**disk, dir, &self.files, needed)?;
        let ballast = find_ballast(&**disk, dir, &self.files, options.ballast())?;
        let with_needed = |error| with_bytes_needed(dir, needed, error);
        let location = Location {
            disk: Arc::clone(disk),
            dir: dir.clone(),
            next_file: Arc::clone(&self.context.next_file),
        };
        let started = |state: ManifestState| {
            let retention = options.change_retention.or(state.retention);
            let is_kept = retention.is_some_and(ChangeRetention::is_on);
            ManifestState {
                seqno_ceiling: ceiling_above(visible),
                history: Some(history),
                retention,
                // What comes from here on is not kept, so nothing may continue what was.
                newest_kept: state.newest_kept.filter(|_| is_kept),
                ..state
            }
        };
        let manifest = match self.loaded.take() {
            Some(mut loaded) => {
                loaded.state = started(loaded.state);
                Manifest::reopen(location, loaded)
            }
            None => Manifest::create(location, self.id, started(ManifestState::default())),
        };
        let manifest = manifest.map_err(with_needed)?;
        let removed_files = remove_leftovers(&**disk, dir, &self.files, &manifest)?;
        let retention = manifest.state().retention;
        let log_options = LogOptions {
            segment_bytes: options.segment_bytes(),
            keep: retention.and_then(ChangeRetention::keep),
            ..LogOptions::default()
        };
        let (random, recovered) = (Arc::clone(&environment.random), &self.log.recovered);
        let log = Log::create(Arc::clone(disk), dir, self.id, random, log_options, recovered);
        let log = log.map_err(with_needed)?.with_clock(Arc::clone(&environment.clock));
        log.begin_changes(self.log.last_kept(&self.state));
        Ok(Writable { manifest: Some(manifest), log: Some(log), ballast, removed_files })
    }
}

/// Tells readers of changes that unlogged writes of an earlier session may be lost.
fn tell_of_lost(parts: &Parts, seqno: SeqNo) -> Result<()> {
    while !note_lost(&parts.core.history, seqno)? {
        supply(&parts.core.edits, 1)?;
    }
    Ok(())
}

/// What an open for writing has started; empty for an open for reading only.
#[derive(Default)]
struct Writable {
    manifest: Option<Manifest>,
    log: Option<Log>,
    ballast: ballast::FoundBallast,
    removed_files: usize,
}

fn executor(config: &Config) -> Result<Arc<dyn Executor>> {
    if let Some(executor) = &config.environment.executor {
        return Ok(Arc::clone(executor));
    }
    let started = ThreadExecutor::start(config.options.compaction_workers);
    let started = started.map_err(|error| Error::io("start threads for", &config.dir, error))?;
    Ok(Arc::new(started))
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
fn check_fits(config: &Config, log: &CheckedLog) -> Result<()> {
    let bytes: u64 = log.recovered.segments.iter().map(|segment| segment.bytes).sum();
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
