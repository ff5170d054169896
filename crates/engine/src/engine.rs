//! An open engine: its keyspaces, commits over them, and maintenance.

use crate::background::{CompactProgress, compact_trees, flush_all, flush_trees, sweep};
use crate::backup::BackupReport;
use crate::change::{self, WantedContent};
use crate::checkpoint::{self, CheckpointReport};
use crate::commit::{
    Batch, Committed, LargeWrite, Ticket, TryCommit, WriteAdmission, retry_after, trees_of,
};
use crate::config::Config;
use crate::event::Event;
use crate::feed::{Changes, ChangesFrom};
use crate::fill::Fill;
use crate::handle::Handle;
use crate::hold::Hold;
use crate::ingest::Ingest;
use crate::keyspace::Keyspace;
use crate::keyspace_core::KeyspaceCore;
use crate::note::set_note;
use crate::open::{self, OpenMode};
use crate::options::{Durability, KeyspaceOptions, Options, check_interval};
use crate::owned::{self, OwnedCreated, WantedOwned};
use crate::parts::Parts;
use crate::read::Snapshot;
use crate::scratch::Scratch;
use crate::stall::Wait;
use crate::stats::{self, KeyspaceInfo, Stats, VerifyReport};
use crate::transaction::{Isolation, Transaction, pause_after};
use crate::user_code::{UserCode, UserCodeGuard};
use crate::verify;
use crate::write::commit_with;
use flagstone_base::{Error, ErrorKind, Moment, Result, SeqNo};
use flagstone_tree::Tree;
use flagstone_wal::{Log, VerifyDepth};
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// A handle of an open database. Dropping the last handle closes the database. Keyspaces and
/// snapshots are handles, too.
#[derive(Clone)]
pub struct Engine {
    handle: Arc<Handle>,
}

/// This thread runs the closure of a transaction.
pub struct InTransaction {
    _guard: UserCodeGuard,
}

impl Engine {
    /// Opens the database for reading and writing. Creates it if there is none.
    ///
    /// # Errors
    /// Busy, Corruption, Unsupported, InvalidInput, Io.
    pub fn open(config: Config) -> Result<Self> {
        config.options.check()?;
        open::open(config, OpenMode::ReadWrite).map(Self::new)
    }

    /// Opens the database for reading only: the log is replayed in memory, and no file is changed.
    ///
    /// # Errors
    /// Same as [`Engine::open`].
    pub fn open_read_only(config: Config) -> Result<Self> {
        config.options.check()?;
        open::open(config, OpenMode::ReadOnly).map(Self::new)
    }

    fn new(parts: Parts) -> Self {
        Self { handle: Handle::new(parts) }
    }

    pub(crate) fn parts(&self) -> &Parts {
        self.handle.parts()
    }

    /// The directory of the database, as an absolute path without symbolic links.
    pub fn path(&self) -> &Path {
        &self.parts().core.setup().dir
    }

    /// The options that the database was opened with.
    pub fn options(&self) -> &Options {
        &self.parts().core.setup().options
    }

    /// Opens the keyspaces `names`. Those that are missing are created by one edit of the manifest.
    ///
    /// # Errors
    /// InvalidInput for a bad name, or a keyspace with other content or another value of an option
    /// that is set; Io, OutOfSpace, Poisoned, Closed.
    pub fn keyspaces_of(
        &self,
        names: &[&str],
        wanted: &WantedContent<'_>,
        options: Option<&KeyspaceOptions>,
    ) -> Result<Vec<Keyspace>> {
        let cores = change::open_or_create(self.parts(), names, wanted, options)?;
        Ok(cores.into_iter().map(|core| self.handle_of(core)).collect())
    }

    /// Opens the keyspace `name`, and creates it if it is missing.
    ///
    /// # Errors
    /// Same as [`Engine::keyspaces_of`].
    pub fn keyspace_of(
        &self,
        name: &str,
        wanted: &WantedContent<'_>,
        options: Option<&KeyspaceOptions>,
    ) -> Result<Keyspace> {
        let mut cores = change::open_or_create(self.parts(), &[name], wanted, options)?;
        cores
            .pop()
            .map(|core| self.handle_of(core))
            .ok_or_else(|| self.parts().core.setup().closed())
    }

    /// Opens the keyspace `name` if it exists.
    ///
    /// # Errors
    /// InvalidInput if it has other content, or if an option that is set differs; Closed.
    pub fn existing(
        &self,
        name: &str,
        wanted: &WantedContent<'_>,
        options: Option<&KeyspaceOptions>,
    ) -> Result<Option<Keyspace>> {
        self.parts().core.health.check_open()?;
        let core = change::existing(self.parts(), name, wanted, options)?;
        Ok(core.map(|core| self.handle_of(core)))
    }

    pub(crate) fn handle_of(&self, core: Arc<KeyspaceCore>) -> Keyspace {
        Keyspace::new(Arc::clone(&self.handle), core)
    }

    /// Removes a keyspace with all its entries. Returns false if there is none.
    ///
    /// # Errors
    /// Io, OutOfSpace, Poisoned, Closed.
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        change::drop_keyspace(self.parts(), name)
    }

    /// Removes a keyspace if nothing was written to it since it was created, and it owns none but
    /// that of old values. Returns whether it did.
    ///
    /// # Errors
    /// Io, OutOfSpace, Poisoned, Closed.
    pub fn drop_unwritten(&self, keyspace: &Keyspace) -> Result<bool> {
        change::drop_unwritten(self.parts(), keyspace)
    }

    /// Changes how the tables of the keyspace `name` are written, from the next table on.
    ///
    /// # Errors
    /// InvalidInput if there is no such keyspace, for an option that is out of range or fixed at
    /// creation; Io, OutOfSpace, Poisoned, Closed.
    pub fn alter_keyspace(&self, name: &str, options: &KeyspaceOptions) -> Result<()> {
        change::alter_keyspace(self.parts(), name, options)
    }

    /// Gives the keyspace `old` the name `new`. Its handles stay valid.
    ///
    /// # Errors
    /// InvalidInput if there is no keyspace `old`, or there is one named `new`; Io, OutOfSpace,
    /// Poisoned, Closed.
    pub fn rename_keyspace(&self, old: &str, new: &str) -> Result<()> {
        change::rename_keyspace(self.parts(), old, new)
    }

    /// The keyspaces, by name.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        let keyspaces = self.parts().core.keyspaces.all_by_name();
        keyspaces.iter().map(|core| KeyspaceInfo::of(&self.parts().core.keyspaces, core)).collect()
    }

    /// Creates a keyspace that `owner` owns. It is renamed, emptied and dropped with its owner.
    ///
    /// If this fails, a crash may still create the keyspace: so its note must say that it is to be
    /// filled.
    ///
    /// # Errors
    /// InvalidInput for a name that is bad or taken, a long note, options out of range, an owner
    /// that is owned or was dropped, or inside a closure; OutOfSpace, Io, Poisoned, Closed.
    pub fn create_owned(
        &self,
        owner: &KeyspaceCore,
        wanted: &WantedOwned<'_>,
    ) -> Result<OwnedCreated> {
        let (core, seqno) = owned::create(self.parts(), owner, wanted)?;
        Ok(OwnedCreated { keyspace: self.handle_of(core), seqno })
    }

    /// The keyspaces that `owner` owns, by number.
    pub fn owned(&self, owner: &KeyspaceCore) -> Vec<Keyspace> {
        let set = owner.owned_set();
        set.keyspaces.iter().map(|core| self.handle_of(Arc::clone(core))).collect()
    }

    /// All keyspaces that have an owner, in the order of the names of the owners.
    #[cfg(test)]
    pub fn owned_keyspaces(&self) -> Vec<KeyspaceInfo> {
        let keyspaces = &self.parts().core.keyspaces;
        let sets = keyspaces.all_by_name().into_iter().map(|owner| owner.owned_set());
        let info = |core: &Arc<KeyspaceCore>| KeyspaceInfo::of(keyspaces, core);
        sets.flat_map(|set| set.keyspaces.iter().map(info).collect::<Vec<_>>()).collect()
    }

    /// Removes the keyspace of `owner` that `is_it` chooses, which must be no more than one.
    /// Returns false if there is none. A caller that has worked with one asks for its number:
    /// another caller may have replaced it by one of the same name.
    ///
    /// # Errors
    /// Same as [`Engine::create_owned`].
    pub fn drop_owned(
        &self,
        owner: &KeyspaceCore,
        is_it: impl Fn(&KeyspaceCore) -> bool,
    ) -> Result<bool> {
        owned::drop_one(self.parts(), owner, &is_it)
    }

    /// Sets the bytes that the layer above keeps with an owned keyspace, durably, and ends the
    /// doubt that a repair has noted.
    ///
    /// # Errors
    /// InvalidInput for a long note, or a keyspace without an owner; otherwise as
    /// [`Engine::create_owned`].
    pub fn set_note(&self, owned: &KeyspaceCore, note: &[u8]) -> Result<()> {
        self.parts().core.health.check_may_change("the note of a keyspace")?;
        set_note(self.parts(), owned, note)
    }

    /// Makes the writes of `batch` visible together. The ticket waits until they are durable.
    ///
    /// # Errors
    /// Busy if it would have to wait and may not; Conflict, InvalidInput, OutOfSpace, Io, Poisoned,
    /// Closed: then none of the writes has happened.
    pub fn start(&self, batch: &Batch, durability: Durability, wait: Wait) -> Result<Ticket> {
        self.start_large(batch, &mut None, durability, wait)
    }

    /// Like [`Engine::start`], and may wait. The log shares the payload of a large batch; nothing
    /// else holds it when this returns. `batch` is whole again after a Conflict, and after no other
    /// result.
    ///
    /// # Errors
    /// Same as [`Engine::start`].
    pub fn start_owned(&self, batch: &mut Batch, durability: Durability) -> Result<Ticket> {
        let mut large = LargeWrite::of_batch(batch);
        let started = self.start_large(batch, &mut large, durability, Wait::Yes);
        if let Some(large) = large {
            batch.payload = large.give_back();
        }
        started
    }

    /// Like [`Engine::start`], but never sleeps until flushes or compactions have caught up:
    /// returns how long to wait instead.
    ///
    /// # Errors
    /// Same as [`Engine::start`], except Busy.
    pub fn try_start(&self, batch: &Batch, durability: Durability) -> Result<TryCommit> {
        self.check_start(batch, durability)?;
        let (parts, write) = (self.parts(), batch.as_write());
        let admission = &parts.commits.admission;
        let started = admission.try_admit(write.len(), || trees_of(&write)).and_then(
            |(mut admitted, pause)| {
                let admission = WriteAdmission { admitted: admitted.as_mut(), wait: Wait::No };
                let committed = commit_with(parts, &write, durability, None, admission)?;
                Ok(TryCommit::Started { ticket: self.ticket(&committed, durability), pause })
            },
        );
        match started {
            Err(error) if error.kind() == ErrorKind::Busy => {
                Ok(TryCommit::RetryAfter(retry_after(&parts.core)))
            }
            started => started,
        }
    }

    fn ticket(&self, committed: &Committed, durability: Durability) -> Ticket {
        let (log, seqno) = (Arc::clone(&self.parts().core.log), committed.last);
        Ticket { log, lsn: committed.lsn, durability, seqno }
    }

    /// Refuses a batch that no commit can take.
    fn check_start(&self, batch: &Batch, durability: Durability) -> Result<()> {
        if let Durability::Interval(interval) = durability {
            check_interval(interval)?;
        }
        if batch.keyspaces.iter().all(|core| core.belongs_to(&self.parts().core.trees)) {
            Ok(())
        } else {
            Err(Error::invalid("the batch holds a keyspace of another database"))
        }
    }

    fn start_large(
        &self,
        batch: &Batch,
        large: &mut Option<LargeWrite>,
        durability: Durability,
        wait: Wait,
    ) -> Result<Ticket> {
        self.check_start(batch, durability)?;
        let parts = self.parts();
        let write = batch.as_write();
        let write = large.as_ref().map_or(write, |large| large.as_write(write));
        let mut admitted = parts.commits.admission.admit(write.len(), wait, || trees_of(&write))?;
        let admission = WriteAdmission { admitted: admitted.as_mut(), wait };
        let committed = commit_with(parts, &write, durability, None, admission);
        if !committed.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict) {
            // The memory is freed before the room for it is given to others.
            *large = None;
        }
        drop(admitted);
        Ok(self.ticket(&committed?, durability))
    }

    /// Prepares `batch` for a commit that is completed under its locks: see [`Hold`].
    pub fn hold(&self, batch: Batch) -> Hold<'_> {
        Hold::new(&self.handle, batch)
    }

    /// Like [`Engine::hold`], for the writes of `transaction`.
    ///
    /// # Errors
    /// Conflict if another commit came between.
    pub fn hold_transaction(&self, transaction: Transaction) -> Result<Hold<'_>> {
        Ok(self.hold(transaction.into_batch()?))
    }

    /// Begins to fill the owned keyspace `owned`: see [`Fill`].
    ///
    /// # Errors
    /// Busy if it is being filled; InvalidInput for a keyspace without an owner, or inside a
    /// callback; OutOfSpace, Io, Poisoned, Closed.
    pub fn begin_fill(&self, owned: &Keyspace) -> Result<Fill> {
        Fill::begin(&self.handle, owned)
    }

    /// Starts an ingest into `keyspace`.
    ///
    /// # Errors
    /// InvalidInput for a keyspace of another database; otherwise as [`Keyspace::ingest`].
    pub fn ingest(&self, keyspace: &Keyspace) -> Result<Ingest> {
        self.handle.check_same(keyspace)?;
        keyspace.ingest()
    }

    /// The moment by which a read judges expiries now.
    pub fn now(&self) -> Moment {
        self.handle.parts().core.history.clock.now()
    }

    /// The SeqNo of the newest write that reads see.
    pub fn visible(&self) -> SeqNo {
        self.handle.parts().core.history.visible()
    }

    /// Creates the temporary files of the database.
    pub fn scratch(&self) -> &Arc<Scratch> {
        &self.parts().scratch
    }

    /// A snapshot of all keyspaces as of now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.handle)
    }

    /// Begins a transaction on what is visible now.
    ///
    /// # Errors
    /// Closed; InvalidInput for a serializable one inside a listener.
    pub fn begin(&self, isolation: Isolation) -> Result<Transaction> {
        Transaction::begin(&self.handle, isolation)
    }

    /// Makes the writes of `transaction` visible together. If there are none, nothing is checked,
    /// since its snapshot is a state that the database had. Then the ticket is that of everything
    /// before it, which the transaction may have read.
    ///
    /// # Errors
    /// Conflict if another commit came between; otherwise those of [`Engine::start`]. Without
    /// writes only InvalidInput and Closed.
    pub fn start_transaction(
        &self,
        transaction: Transaction,
        durability: Durability,
    ) -> Result<Option<Ticket>> {
        if transaction.is_empty() {
            self.parts().core.health.check_open()?;
            if let Durability::Interval(interval) = durability {
                check_interval(interval)?;
            }
            let log = self.parts().core.history.log.as_ref().filter(|_| durability.is_logged());
            let read = Committed { last: transaction.seqno(), lsn: log.map(Log::enqueued) };
            return Ok(Some(self.ticket(&read, durability)));
        }
        let batch = transaction.into_batch()?;
        if batch.prepared.is_empty() {
            let mut batch = batch;
            return self.start_owned(&mut batch, durability).map(Some);
        }
        // What it has written to owned keyspaces needs the locks of their owners.
        Ok(self.hold(batch).durability(durability).commit(|_held| Ok(()))?.0)
    }

    /// Notes that this thread runs the closure of a transaction, until the result is dropped.
    ///
    /// # Errors
    /// InvalidInput inside a closure that may not write.
    pub fn enter_transaction(&self) -> Result<InTransaction> {
        self.parts().core.health.check_may_write()?;
        Ok(InTransaction {
            _guard: self.parts().core.health.enter_user_code(UserCode::Transaction),
        })
    }

    /// Pauses before a transaction is tried again, after `conflicts` in a row: not at all at first,
    /// then for a random time, at most 10 ms.
    ///
    /// # Errors
    /// Poisoned, Closed.
    pub fn pause_before_retry(&self, conflicts: u32) -> Result<()> {
        pause_after(self.parts(), conflicts)
    }

    /// Begins to read changes: see [`Changes`].
    ///
    /// # Errors
    /// TooOld for changes that are not kept any more; InvalidInput if changes are not kept, or for
    /// a token of another history; Closed.
    pub fn changes(&self, from: ChangesFrom) -> Result<Changes> {
        Changes::new(&self.handle, from)
    }

    /// Makes everything acknowledged and logged so far survive a power cut.
    ///
    /// # Errors
    /// Io, Poisoned, Closed.
    pub fn sync(&self) -> Result<()> {
        let parts = self.parts();
        parts.core.health.check_may_wait("a sync")?;
        parts.core.health.check_open_for_writing()?;
        // Files of a directory that was removed are synced to nothing.
        parts.core.setup().guard.check()?;
        let Some(log) = &parts.core.history.log else { return Ok(()) };
        log.sync_all().inspect_err(|error| parts.core.ballast.note_failure(error))
    }

    /// Writes all memtables to tables.
    ///
    /// # Errors
    /// OutOfSpace, Io, Poisoned, Closed.
    pub fn flush(&self) -> Result<()> {
        self.parts().core.health.check_may_wait("a flush")?;
        self.parts().core.health.check_open_for_writing()?;
        self.parts().core.setup().guard.check()?;
        flush_all(&self.parts().upkeep)
    }

    /// Flushes, then merges every tree down to its deepest level, in pieces. Stops early if `watch`
    /// returns `Break`.
    ///
    /// # Errors
    /// OutOfSpace, Io, Corruption, Poisoned, Closed.
    pub fn compact_with(
        &self,
        watch: impl FnMut(CompactProgress) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.flush()?;
        self.compact_trees(self.parts().core.keyspaces.all_trees(), watch)
    }

    /// As [`Engine::compact_with`], but the trees of `keyspace` and of those that it owns alone.
    ///
    /// # Errors
    /// As [`Engine::compact_with`].
    pub fn compact_keyspace(
        &self,
        keyspace: &KeyspaceCore,
        watch: impl FnMut(CompactProgress) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let parts = self.parts();
        parts.core.health.check_may_wait("a flush")?;
        parts.core.health.check_open_for_writing()?;
        parts.core.setup().guard.check()?;
        let trees = || {
            let owned = keyspace.owned_set();
            let cores = owned.keyspaces.iter().map(|core| &**core).chain([keyspace]);
            cores.flat_map(|core| core.trees().iter().cloned()).collect::<Vec<_>>()
        };
        flush_trees(&parts.upkeep, &trees())?;
        self.compact_trees(trees(), watch)
    }

    fn compact_trees(
        &self,
        mut trees: Vec<Arc<Tree>>,
        mut watch: impl FnMut(CompactProgress) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let parts = self.parts();
        trees.retain(|tree| tree.has_tables());
        trees.sort_by_cached_key(|tree| tree.table_bytes());
        let compacted = compact_trees(&parts.upkeep, trees, &mut watch);
        sweep(&parts.upkeep);
        compacted.inspect_err(|error| parts.core.ballast.note_failure(error))
    }

    /// Creates an independent copy of the database in `dir`, of hard links where possible.
    ///
    /// # Errors
    /// InvalidInput, Busy, OutOfSpace, Io, Poisoned, Closed: then there is no database in `dir`.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.parts().core.health.check_may_wait("a checkpoint")?;
        checkpoint::checkpoint(self.parts(), dir.as_ref())
    }

    /// Adds a generation to the backups in `dir`.
    ///
    /// # Errors
    /// InvalidInput, Busy, Corruption, OutOfSpace, Io, Poisoned, Closed.
    pub fn backup(&self, dir: &Path) -> Result<BackupReport> {
        self.parts().core.health.check_may_wait("a backup")?;
        crate::backup::create(self.parts(), dir)
    }

    /// Reads everything and checks every checksum, order and bound.
    ///
    /// # Errors
    /// Corruption: the first damage found; Io, Closed.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.parts().core.health.check_may_wait("a verification")?;
        self.parts().core.health.check_open()?;
        verify::verify(self.parts(), VerifyDepth::Full)
    }

    /// Checks what can be checked without reading data.
    ///
    /// # Errors
    /// Same as [`Engine::verify`].
    pub fn verify_quickly(&self) -> Result<VerifyReport> {
        self.parts().core.health.check_may_wait("a verification")?;
        self.parts().core.health.check_open()?;
        verify::verify(self.parts(), VerifyDepth::Quick)
    }

    /// Counters and sizes of everything, as of now.
    pub fn stats(&self) -> Stats {
        stats::stats(self.parts())
    }

    /// About how many keys without a live entry scans have walked over since the database was
    /// opened. A dead range that was skipped counts as a few. For tests of queues.
    pub fn dead_keys(&self) -> u64 {
        stats::dead_keys(self.parts())
    }

    /// Flushes what is only in memory, syncs, and closes for all handles.
    ///
    /// # Errors
    /// Errors that prevented a clean close; Closed if the database was closed already.
    pub fn close(self) -> Result<()> {
        let parts = self.parts();
        parts.core.setup().guard.check_process()?;
        parts.core.health.check_may_wait("a close")?;
        let Some(closed) = crate::open::close(parts) else {
            return Err(parts.core.setup().closed());
        };
        parts.core.health.tell(&Event::Closed { error: closed.as_ref().err().cloned() });
        closed
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({})", self.path().display())
    }
}
