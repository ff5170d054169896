//! An open engine: its keyspaces, commits over them, upkeep.

use crate::background::CompactProgress;
use crate::backup::BackupReport;
use crate::change::{WantedContent, check_content, closed};
use crate::checkpoint::{self, CheckpointReport};
use crate::commit::{Batch, LargeWrite, Ticket, trees_of};
use crate::config::Config;
use crate::event::Event;
use crate::handle::Handle;
use crate::keyspace::Keyspace;
use crate::options::{Durability, KeyspaceOptions, Options, check_interval};
use crate::read::Snapshot;
use crate::shared::Shared;
use crate::space::KeyspaceCore;
use crate::stats::{self, KeyspaceInfo, Stats, VerifyReport};
use crate::verify;
use flagstone_base::{Error, Result};
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// A handle of an open database; the last handle that goes closes it. Keyspaces and snapshots are handles, too.
#[derive(Clone)]
pub struct Engine {
    handle: Arc<Handle>,
}

impl Engine {
    /// Opens the database for reading and writing; creates it if there is none.
    ///
    /// # Errors
    /// Busy, Corruption, Unsupported, InvalidInput, Io.
    pub fn open(config: Config) -> Result<Self> {
        config.options.check()?;
        crate::open::open(config, false).map(Self::new)
    }

    /// Opens the database for reading only: the log is replayed in memory, no file is changed.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_read_only(config: Config) -> Result<Self> {
        config.options.check()?;
        crate::open::open(config, true).map(Self::new)
    }

    fn new(shared: Arc<Shared>) -> Self {
        Self { handle: Handle::new(shared) }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.handle.shared()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.shared().dir
    }

    /// What it was opened with.
    pub fn options(&self) -> &Options {
        &self.shared().options
    }

    /// The keyspaces `names`. Those that are missing are created by one edit of the manifest.
    ///
    /// # Errors
    /// InvalidInput for a bad name, or a keyspace with other content or another value of an option that is set; Io, OutOfSpace, Poisoned, Closed.
    pub fn keyspaces_of(
        &self,
        names: &[&str],
        wanted: &WantedContent<'_>,
        options: Option<&KeyspaceOptions>,
    ) -> Result<Vec<Keyspace>> {
        let cores = self.shared().open_or_make(names, wanted, options)?;
        Ok(cores.into_iter().map(|core| self.handle_of(core)).collect())
    }

    /// The keyspace `name`, created if it is missing.
    ///
    /// # Errors
    /// As [`Engine::keyspaces_of`].
    pub fn keyspace_of(
        &self,
        name: &str,
        wanted: &WantedContent<'_>,
        options: Option<&KeyspaceOptions>,
    ) -> Result<Keyspace> {
        let mut made = self.shared().open_or_make(&[name], wanted, options)?;
        made.pop().map(|core| self.handle_of(core)).ok_or_else(|| closed(self.shared()))
    }

    /// The keyspace `name`, if there is one.
    ///
    /// # Errors
    /// InvalidInput when it has other content; Closed.
    pub fn existing(&self, name: &str, wanted: &WantedContent<'_>) -> Result<Option<Keyspace>> {
        self.shared().check_open()?;
        let Some(core) = self.shared().keyspaces.named(name) else { return Ok(None) };
        check_content(&core, &wanted.content)?;
        Ok(Some(self.handle_of(core)))
    }

    fn handle_of(&self, core: Arc<KeyspaceCore>) -> Keyspace {
        Keyspace::new(Arc::clone(&self.handle), core)
    }

    /// Removes a keyspace with all it holds; false when there is none.
    ///
    /// # Errors
    /// Io, OutOfSpace, Poisoned, Closed.
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        self.shared().drop_keyspace(name)
    }

    /// Gives the keyspace `old` the name `new`. Its handles stay valid.
    ///
    /// # Errors
    /// InvalidInput when there is no keyspace `old`, or one named `new`; Io, OutOfSpace, Poisoned, Closed.
    pub fn rename_keyspace(&self, old: &str, new: &str) -> Result<()> {
        self.shared().rename_keyspace(old, new)
    }

    /// The keyspaces, by name.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        let keyspaces = self.shared().keyspaces.all_by_name();
        keyspaces.iter().map(|core| KeyspaceInfo::of(core)).collect()
    }

    /// Makes the writes of `batch` visible together; the ticket waits until they are durable. With `wait`, it waits while
    /// writers are stopped.
    ///
    /// # Errors
    /// Busy without `wait`; Conflict, InvalidInput, OutOfSpace, Io, Poisoned, Closed: then nothing of it has happened.
    pub fn start(&self, batch: &Batch, durability: Durability, wait: bool) -> Result<Ticket> {
        self.start_large(batch, None, durability, wait)
    }

    /// As [`Engine::start`] with `wait`. The log shares the payload of a large batch; nobody else holds it when this
    /// returns.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_owned(&self, mut batch: Batch, durability: Durability) -> Result<Ticket> {
        let large = LargeWrite::of_batch(&mut batch);
        self.start_large(&batch, large, durability, true)
    }

    fn start_large(
        &self,
        batch: &Batch,
        large: Option<LargeWrite>,
        durability: Durability,
        wait: bool,
    ) -> Result<Ticket> {
        let shared = self.shared();
        if let Durability::Interval(interval) = durability {
            check_interval(interval)?;
        }
        for core in &batch.keyspaces {
            if !core.belongs_to(&shared.trees) {
                return Err(Error::invalid("the batch holds a keyspace of another database"));
            }
        }
        let write = batch.as_write();
        let write = large.as_ref().map_or(write, |large| large.as_write(write));
        let admitted = shared.before_write(write.len(), wait, || trees_of(&write))?;
        let committed = shared.write(&write, durability, None)?;
        // The memory first, then the room for it.
        drop(large);
        drop(admitted);
        Ok(Ticket {
            shared: Arc::clone(shared),
            lsn: committed.lsn,
            durability,
            seqno: committed.last,
        })
    }

    /// All keyspaces as of now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.handle)
    }

    /// Makes everything acknowledged and logged so far survive a power cut.
    ///
    /// # Errors
    /// Io, Poisoned, Closed.
    pub fn sync(&self) -> Result<()> {
        let shared = self.shared();
        shared.check_may_wait("a sync")?;
        shared.check_open_for_writing()?;
        let Some(log) = &shared.log else { return Ok(()) };
        log.sync_all().inspect_err(|error| shared.note_failure(error))
    }

    /// Writes all memtables to tables.
    ///
    /// # Errors
    /// OutOfSpace, Io, Poisoned, Closed.
    pub fn flush(&self) -> Result<()> {
        self.shared().check_may_wait("a flush")?;
        self.shared().check_open_for_writing()?;
        self.shared().flush_all()
    }

    /// Flushes, then merges every tree down to its deepest level, in pieces; `watch` may break off.
    ///
    /// # Errors
    /// OutOfSpace, Io, Corruption, Poisoned, Closed.
    pub fn compact_with(
        &self,
        mut watch: impl FnMut(CompactProgress) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.flush()?;
        let shared = self.shared();
        let mut trees = shared.all_trees();
        trees.retain(|tree| tree.has_tables());
        trees.sort_by_cached_key(|tree| tree.table_bytes());
        let compacted = shared.compact_trees(trees, &mut watch);
        shared.sweep();
        compacted.inspect_err(|error| shared.note_failure(error))
    }

    /// Makes an independent copy of the database in `dir`, of hard links where it can.
    ///
    /// # Errors
    /// InvalidInput, Busy, OutOfSpace, Io, Poisoned, Closed: then there is no database in `dir`.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.shared().check_may_wait("a checkpoint")?;
        checkpoint::checkpoint(self.shared(), dir.as_ref())
    }

    /// Adds a generation to the backups in `dir`.
    ///
    /// # Errors
    /// InvalidInput, Busy, Corruption, OutOfSpace, Io, Poisoned, Closed.
    pub fn backup(&self, dir: &Path) -> Result<BackupReport> {
        self.shared().check_may_wait("a backup")?;
        crate::backup::make(self.shared(), dir)
    }

    /// Reads everything and checks every checksum, order and bound.
    ///
    /// # Errors
    /// Corruption: the first thing found; Io, Closed.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.shared().check_may_wait("a verification")?;
        self.shared().check_open()?;
        verify::verify(self.shared(), false)
    }

    /// Checks what can be checked without reading data.
    ///
    /// # Errors
    /// As [`Engine::verify`].
    pub fn verify_quickly(&self) -> Result<VerifyReport> {
        self.shared().check_may_wait("a verification")?;
        self.shared().check_open()?;
        verify::verify(self.shared(), true)
    }

    /// Counters and sizes of everything, as of now.
    pub fn stats(&self) -> Stats {
        stats::stats(self.shared())
    }

    /// Flushes what is only in memory, syncs, and closes for all handles.
    ///
    /// # Errors
    /// What kept it from a clean close; Closed when it was closed already.
    pub fn close(self) -> Result<()> {
        let shared = self.shared();
        shared.check_may_wait("a close")?;
        let Some(closed) = crate::open::close(shared) else { return Err(closed(shared)) };
        shared.tell(&Event::Closed { error: closed.as_ref().err().cloned() });
        closed
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({})", self.path().display())
    }
}
