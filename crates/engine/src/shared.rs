//! What all handles and all background work of one open database share.
//!
//! ```text
//! Recovering --open--> Open --poison--> Poisoned (reads go on, writes are refused)
//!                        \---close_down---+--close_down--> Closed
//! ```
//! Locks, in the order in which they may be taken together (before all of them the door of large writes, never under
//! a stripe):
//! 1. the gates of keyspaces (by id), then `stripes` (ascending), held by a write until it is visible; then the door of
//!    large updates
//! 2. `manifest`, held across its own I/O; taken by background work and by changes of the catalog
//! 3. `numbering`, held for lines
//! 4. the state of a full compaction that is asked for, held for lines
//! 5. `definitions_due` before the maps of the keyspaces; `background`'s queue, the publisher's line, the snapshots' map:
//!    leaves, held for lines
//!
//! Readers take none of them: they load the visible SeqNo, then a tree's view.

use crate::background::{Background, Ballast, Division, Pace};
use crate::commit::{HistoryId, Numbering, Publisher, Stall, Stripes, Write};
use crate::config::Environment;
use crate::content::ContentFactory;
use crate::event::{Event, Listener};
use crate::inside::Inside;
use crate::keyspaces::Keyspaces;
use crate::long_chains::LongChains;
use crate::manifest::Manifest;
use crate::options::Options;
use crate::read::Snapshots;
use crate::space::KeyspaceCore;
use flagstone_base::{DatabaseId, Error, ErrorKind, KeyspaceId, Kind, Result, SeqNo};
use flagstone_env::executor::Job;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use flagstone_env::{DiskLock, Executor, Progress};
use flagstone_tree::{Found, Tree, TreeContext};
use flagstone_wal::Log;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

pub(crate) struct Shared {
    pub(crate) id: DatabaseId,
    pub(crate) history: HistoryId,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) environment: Environment,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) listeners: Vec<Arc<dyn Listener>>,
    pub(crate) contents: Arc<dyn ContentFactory>,
    /// None in a database opened for reading only.
    pub(crate) log: Option<Log>,
    pub(crate) manifest: Mutex<Option<Manifest>>,
    pub(crate) numbering: Mutex<Numbering>,
    pub(crate) publisher: Publisher,
    pub(crate) stripes: Stripes,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) stall: Stall,
    pub(crate) keyspaces: Keyspaces,
    /// Keyspaces with definitions that are in the log, and perhaps not in the manifest.
    pub(crate) definitions_due: Mutex<BTreeSet<KeyspaceId>>,
    pub(crate) trees: Arc<TreeContext>,
    pub(crate) background: Background,
    pub(crate) division: Division,
    pub(crate) pace: Pace,
    pub(crate) long_chains: LongChains,
    /// Syncs are due at least this often, in nanoseconds; 0: no timer runs.
    pub(crate) sync_interval: AtomicU64,
    pub(crate) weak: OnceLock<std::sync::Weak<Shared>>,
    /// The log is being replayed: what stands behind in it is not in memtables yet, so nothing of it
    /// may be released, and only the replay seals.
    pub(crate) replaying: AtomicBool,
    /// An append of the manifest failed and no later one has succeeded: its tables must stay.
    pub(crate) manifest_in_doubt: AtomicBool,
    state: AtomicU8,
    poison: OnceLock<Error>,
    pub(crate) lock: Mutex<Option<Box<dyn DiskLock>>>,
}

const OPEN: u8 = 0;
const POISONED: u8 = 1;
const READ_ONLY: u8 = 2;
const CLOSED: u8 = 3;

/// The operands that a get may fold before the next write of the key notes the folded value.
const OPERANDS_MAX: usize = 32;
/// And one more for each 128 bytes of the value, which is copied whenever it is noted: a get copies
/// them in about the time in which it folds an operand.
const BYTES_PER_OPERAND: usize = 128;
/// More than that are not left to the next write: gets may be all that comes.
const OPERANDS_FOR_WRITES: usize = 1024;

/// The parts of [`Shared`] that opening has made.
pub(crate) struct Parts {
    pub(crate) id: DatabaseId,
    pub(crate) history: HistoryId,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) environment: Environment,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) listeners: Vec<Arc<dyn Listener>>,
    pub(crate) contents: Arc<dyn ContentFactory>,
    pub(crate) log: Option<Log>,
    pub(crate) manifest: Option<Manifest>,
    pub(crate) visible: SeqNo,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) trees: Arc<TreeContext>,
    pub(crate) ballast: Ballast,
    pub(crate) lock: Option<Box<dyn DiskLock>>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let read_only = parts.log.is_none();
        let shared = Arc::new(Self {
            id: parts.id,
            history: parts.history,
            dir: parts.dir,
            options: parts.options,
            environment: parts.environment,
            executor: parts.executor,
            listeners: parts.listeners,
            contents: parts.contents,
            log: parts.log,
            manifest: Mutex::new(parts.manifest),
            numbering: Mutex::new(Numbering::new(parts.visible)),
            publisher: Publisher::new(parts.visible),
            stripes: Stripes::new(),
            snapshots: Arc::default(),
            stall: Stall::default(),
            definitions_due: Mutex::new(with_definitions_due(&parts.keyspaces)),
            keyspaces: parts.keyspaces,
            trees: parts.trees,
            background: Background::new(parts.ballast),
            division: Division::default(),
            pace: Pace::default(),
            long_chains: LongChains::default(),
            sync_interval: AtomicU64::new(0),
            weak: OnceLock::new(),
            replaying: AtomicBool::new(true),
            manifest_in_doubt: AtomicBool::new(false),
            state: AtomicU8::new(if read_only { READ_ONLY } else { OPEN }),
            poison: OnceLock::new(),
            lock: Mutex::new(parts.lock),
        });
        let _first = shared.weak.set(Arc::downgrade(&shared));
        let weak = Arc::downgrade(&shared);
        shared.snapshots.when_gone(move || {
            if let Some(shared) = weak.upgrade() {
                shared.schedule_compactions_soon();
            }
        });
        if let Some(manifest) = &*shared.manifest.lock() {
            shared.note_granted(manifest);
        }
        shared.divide_memory();
        shared
    }

    /// A counted handle of itself, for background jobs.
    pub(crate) fn arc(&self) -> Option<Arc<Self>> {
        self.weak.get()?.upgrade()
    }

    /// A background job that does not keep the database, and is done when that is gone.
    pub(crate) fn job(&self, step: impl Fn(&Arc<Self>) -> Progress + Send + 'static) -> Job {
        let weak = self.weak.get().cloned().unwrap_or_default();
        Box::new(move || weak.upgrade().map_or(Progress::Done, |shared| step(&shared)))
    }

    /// A listener that panics poisons, as every panic in background work does; it unwinds no further, since
    /// what is being told about must be brought to its end.
    pub(crate) fn tell(&self, event: &Event) {
        if self.listeners.is_empty() {
            return;
        }
        let _inside = self.run_inside(Inside::Listener);
        for listener in &self.listeners {
            let told = std::panic::catch_unwind(AssertUnwindSafe(|| listener.event(event)));
            if told.is_err() {
                self.poison(&Error::new(ErrorKind::Poisoned, "a listener of events panicked"));
            }
        }
    }

    /// Refuses writes unless the database is open for them.
    #[inline]
    pub(crate) fn check_open_for_writing(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            OPEN => Ok(()),
            state => Err(self.refusal(state)),
        }
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            CLOSED => Err(self.refusal(CLOSED)),
            _ => Ok(()),
        }
    }

    /// Refuses once poisoned, open or closed.
    pub(crate) fn check_poison(&self) -> Result<()> {
        self.poison.get().map_or(Ok(()), |_| Err(self.refusal(POISONED)))
    }

    #[cold]
    fn refusal(&self, state: u8) -> Error {
        let dir = self.dir.display();
        match state {
            POISONED => {
                let cause = self.poison.get().map_or(String::new(), ToString::to_string);
                Error::new(
                    ErrorKind::Poisoned,
                    format!("{dir} takes no writes until it is opened again: {cause}"),
                )
            }
            READ_ONLY => Error::invalid(format!("{dir} is open for reading only")),
            _ => Error::new(ErrorKind::Closed, format!("{dir} is closed")),
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.log.is_none()
    }

    /// Nothing more is written: what is on disk is no longer known.
    pub(crate) fn poison(&self, error: &Error) {
        if self.poison.set(error.clone()).is_ok() {
            let _was_open =
                self.state.compare_exchange(OPEN, POISONED, Ordering::AcqRel, Ordering::Acquire);
            self.tell(&Event::Poisoned { error: error.clone() });
            self.stall.ring();
            self.background.ring();
        }
    }

    pub(crate) fn poisoned(&self) -> Option<&Error> {
        self.poison.get()
    }

    /// Poisons the database if `error` says so, or gives up the ballast.
    pub(crate) fn note_failure(&self, error: &Error) {
        match error.kind() {
            ErrorKind::Poisoned => self.poison(error),
            ErrorKind::OutOfSpace => self.give_up_ballast(),
            _ => {}
        }
    }

    /// From here on nothing is numbered; true for the one who closes.
    pub(crate) fn set_closed(&self) -> bool {
        let _numbering = self.numbering.lock();
        self.state.swap(CLOSED, Ordering::AcqRel) != CLOSED
    }

    pub(crate) fn batch_bytes_max(&self) -> u64 {
        (self.options.memory_budget / 4).min(1 << 30)
    }

    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.trees.memtable_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, flagstone_wal::Log::bytes)
    }

    /// Every tree of every keyspace, by number. Costs all of them: not for what is done again and again.
    pub(crate) fn all_trees(&self) -> Vec<Arc<Tree>> {
        let keyspaces = self.keyspaces.all();
        keyspaces.iter().flat_map(|keyspace| keyspace.trees.iter().cloned()).collect()
    }

    pub(crate) fn keyspace_of(&self, tree: &Tree) -> Option<Arc<KeyspaceCore>> {
        self.keyspaces.get(tree.options().keyspace)
    }

    /// The newest entry of `key` at `at`, which is registered; or now.
    #[inline]
    pub(crate) fn get_found(
        &self,
        keyspace: &KeyspaceCore,
        key: &[u8],
        hash: u64,
        at: Option<SeqNo>,
    ) -> Result<Found> {
        let found = self.find(keyspace, key, hash, at)?;
        if is_long(&found) {
            self.note_long(keyspace, key, hash, &found);
        }
        Ok(found)
    }

    /// A get that folded very many operands notes the value itself: after a recovery, perhaps, when nobody
    /// writes the key any more.
    #[cold]
    fn note_long(&self, keyspace: &KeyspaceCore, key: &[u8], hash: u64, found: &Found) {
        match found.operands as usize > OPERANDS_FOR_WRITES {
            true => self.note_value(keyspace, key, hash, found),
            false => self.long_chains.note(keyspace.id, key, hash),
        }
    }

    #[inline]
    fn find(
        &self,
        keyspace: &KeyspaceCore,
        key: &[u8],
        hash: u64,
        at: Option<SeqNo>,
    ) -> Result<Found> {
        self.check_open()?;
        let tree = &keyspace.trees[keyspace.route.partition(key, hash)];
        loop {
            // The SeqNo first, then the view: entries up to it are in the view, unless a flush or
            // compaction has dropped some for a newer watermark meanwhile.
            let seqno = at.unwrap_or_else(|| self.publisher.visible());
            let view = tree.peek();
            if at.is_none() && view.watermark() > seqno {
                continue;
            }
            let found = tree.get(&view, key, hash, seqno).map_err(|error| self.told(error))?;
            if found.value.is_none() {
                keyspace.check_readable()?;
            }
            return Ok(found);
        }
    }

    /// Notes the folded values of the keys of `write` whose operands have become many, beside them in the
    /// memtable. Nothing is written or numbered for it: it changes nothing that can be read.
    #[inline]
    pub(crate) fn fold_long_chains(&self, write: &Write<'_>) {
        if self.long_chains.is_any() {
            self.fold_noted(write);
        }
    }

    #[cold]
    fn fold_noted(&self, write: &Write<'_>) {
        for op in write.ops.iter().filter(|op| op.kind == Kind::Merge) {
            let key = write.bytes(&op.key);
            let keyspace = &write.keyspaces[usize::from(op.keyspace)];
            if !self.long_chains.take(keyspace.id, key, op.hash) {
                continue;
            }
            // What cannot be read is told to who asks for it.
            let Ok(found) = self.find(keyspace, key, op.hash, None) else { continue };
            if is_long(&found) {
                self.note_value(keyspace, key, op.hash, &found);
            }
        }
    }

    fn note_value(&self, keyspace: &KeyspaceCore, key: &[u8], hash: u64, found: &Found) {
        let bytes = found.value.as_ref().map_or(0, |value| value.len());
        let Some(seqno) = found.seqno.filter(|_| bytes as u64 <= self.batch_bytes_max()) else {
            return;
        };
        let tree = &keyspace.trees[keyspace.route.partition(key, hash)];
        if tree.note_folded(key, hash, seqno, found.value.as_deref()) {
            self.schedule();
        }
    }
}

/// The keyspaces with definitions that a recovery has found in the log alone.
fn with_definitions_due(keyspaces: &Keyspaces) -> BTreeSet<KeyspaceId> {
    let all = keyspaces.all();
    all.iter()
        .filter(|keyspace| keyspace.has_definitions_due())
        .map(|keyspace| keyspace.id)
        .collect()
}

/// Whether a get folded enough operands that it pays to note the value.
#[inline]
fn is_long(found: &Found) -> bool {
    let operands = found.operands as usize;
    operands >= OPERANDS_MAX
        && operands >= found.value.as_ref().map_or(0, |value| value.len()) / BYTES_PER_OPERAND
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyspaceOptions, testing};

    /// A fold whose operands cannot be combined.
    #[test]
    fn a_get_of_a_key_that_is_merged_again_and_again_folds_few_operands() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let options = KeyspaceOptions::new().fold("count/1");
        let kv = db.keyspace_with("kv", options).unwrap();
        let (shared, core) = (kv.handle().shared(), kv.core());
        for n in 1..=1000_u64 {
            kv.merge("key", "").unwrap();
            if n % 77 == 0 {
                let found = shared.find(core, b"key", core.hash(b"key"), None).unwrap();
                assert!(found.operands <= OPERANDS_MAX as u32, "{} at {n}", found.operands);
                assert_eq!(kv.get("key").unwrap().unwrap(), n.to_le_bytes());
            }
        }
    }
}
