//! The parts of an open database, from the ground up. Each owns its fields and locks, and names
//! only parts before it.
//!
//! Locks, in the order in which they may be taken together. (The turn of large writes comes before
//! all of them, never under a stripe. So does the turn of cuts and ingests.)
//! 1. the gates of keyspaces (by id), then `stripes` (ascending), then those of values, held by a
//!    write until it is visible; then the turn of large updates
//! 2. `manifest`, held across its own I/O; taken by background work and by changes of the catalog
//! 3. `numbering`, held for a few lines
//! 4. the state of a full compaction that a caller runs, held for a few lines
//! 5. `definitions_due` before the maps of the keyspaces; the queue of background work, the
//!    publisher's line, the recent writes, the snapshots' map, the bells: leaves, held for a few
//!    lines
//!
//! Readers take none of them: they load the visible SeqNo, then a tree's view.

use crate::background::{Deletes, ExpiryTimer, Growth, Pace, Scrubber, Splits, Upkeep, act};
use crate::ballast::{self, Ballast};
use crate::commit::{Admission, Commits, RecentWrites, Stripes, Throttle};
use crate::content::ContentFactory;
use crate::due::Due;
use crate::edits::Edits;
use crate::event::Listener;
use crate::health::Health;
use crate::history::{ExpiryClock, History, HistoryId};
use crate::keyspaces::Keyspaces;
use crate::log_upkeep::LogUpkeep;
use crate::long_chains::LongChains;
use crate::manifest::Manifest;
use crate::memory::Memory;
use crate::queue::Work;
use crate::reads::Reads;
use crate::scratch::Scratch;
use crate::setup::Setup;
use crate::stall::Stall;
use flagstone_base::{Moment, SeqNo};
use flagstone_env::DiskLock;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64};
use flagstone_env::sync::{Mutex, RwLock};
use flagstone_tree::TreeContext;
use flagstone_wal::{Log, LogFiles};
use std::sync::Arc;

/// The parts of an open database. A clone has the same parts.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) setup: Arc<Setup>,
    pub(crate) health: Arc<Health>,
    pub(crate) history: Arc<History>,
    pub(crate) keyspaces: Arc<Keyspaces>,
    pub(crate) trees: Arc<TreeContext>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) ballast: Arc<Ballast>,
    pub(crate) log: Arc<LogUpkeep>,
    pub(crate) edits: Arc<Edits>,
    pub(crate) reads: Reads,
    pub(crate) commits: Commits,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) scrubber: Arc<Scrubber>,
    pub(crate) scratch: Arc<Scratch>,
    /// Knows the contents of keyspaces.
    pub(crate) contents: Arc<dyn ContentFactory>,
    /// The lock of the directory.
    pub(crate) lock: Arc<Mutex<Option<Box<dyn DiskLock>>>>,
}

/// The results of an open, of which the parts are built.
pub(crate) struct OpenedParts {
    pub(crate) setup: Arc<Setup>,
    pub(crate) listeners: Vec<Arc<dyn Listener>>,
    pub(crate) contents: Arc<dyn ContentFactory>,
    pub(crate) history: HistoryId,
    pub(crate) log: Option<Log>,
    /// The files of the log, for readers of changes, if the database is opened for reading only.
    pub(crate) log_files: Option<LogFiles>,
    pub(crate) visible: SeqNo,
    /// The moment that the clock by which entries expire has reached.
    pub(crate) moment: Moment,
    pub(crate) manifest: Option<Manifest>,
    pub(crate) keyspaces: Keyspaces,
    pub(crate) trees: Arc<TreeContext>,
    pub(crate) ballast: ballast::FoundBallast,
    pub(crate) lock: Option<Box<dyn DiskLock>>,
}

/// The lower parts, of which the upper ones are built.
struct Lower {
    setup: Arc<Setup>,
    health: Arc<Health>,
    history: Arc<History>,
    keyspaces: Arc<Keyspaces>,
    trees: Arc<TreeContext>,
    memory: Arc<Memory>,
    ballast: Arc<Ballast>,
    log: Arc<LogUpkeep>,
    edits: Arc<Edits>,
    work: Arc<Work>,
    stall: Arc<Stall>,
}

impl Lower {
    fn reads(&self) -> Reads {
        Reads {
            setup: Arc::clone(&self.setup),
            health: Arc::clone(&self.health),
            history: Arc::clone(&self.history),
            keyspaces: Arc::clone(&self.keyspaces),
            trees: Arc::clone(&self.trees),
            long_chains: Arc::<LongChains>::default(),
        }
    }

    fn throttle(&self) -> Throttle {
        Throttle {
            setup: Arc::clone(&self.setup),
            health: Arc::clone(&self.health),
            history: Arc::clone(&self.history),
            memory: Arc::clone(&self.memory),
            keyspaces: Arc::clone(&self.keyspaces),
            work: Arc::clone(&self.work),
            stall: Arc::clone(&self.stall),
        }
    }

    fn commits(&self, reads: &Reads) -> Commits {
        Commits {
            health: Arc::clone(&self.health),
            history: Arc::clone(&self.history),
            ballast: Arc::clone(&self.ballast),
            edits: Arc::clone(&self.edits),
            stripes: Arc::new(Stripes::new()),
            recent: Arc::new(RecentWrites::new(self.setup.options.recent_writes_bytes())),
            admission: Arc::new(Admission::new(self.throttle())),
            reads: reads.clone(),
        }
    }

    fn upkeep(&self) -> Upkeep {
        Upkeep {
            setup: Arc::clone(&self.setup),
            health: Arc::clone(&self.health),
            history: Arc::clone(&self.history),
            memory: Arc::clone(&self.memory),
            ballast: Arc::clone(&self.ballast),
            edits: Arc::clone(&self.edits),
            keyspaces: Arc::clone(&self.keyspaces),
            trees: Arc::clone(&self.trees),
            work: Arc::clone(&self.work),
            stall: Arc::clone(&self.stall),
            log: Arc::clone(&self.log),
            deletes: Deletes::default(),
            pace: Pace::default(),
            growth: Growth::default(),
            full_since: Mutex::default(),
            is_settling: AtomicBool::new(false),
            is_look_queued: AtomicBool::new(false),
            expiry_timer: ExpiryTimer::default(),
            splits: Splits::default(),
            cuts: RwLock::default(),
            fills: AtomicU64::default(),
        }
    }

    /// Builds the upper parts, and joins all of them.
    fn join(
        self,
        contents: Arc<dyn ContentFactory>,
        lock: Arc<Mutex<Option<Box<dyn DiskLock>>>>,
    ) -> Parts {
        let reads = self.reads();
        let commits = self.commits(&reads);
        let upkeep = Arc::new(self.upkeep());
        let scratch = Scratch::new(&self.setup, &self.health, self.history.log.is_none());
        let scrubber = Scrubber::new(&self.setup, &self.health, &self.keyspaces, &self.trees);
        let Self { setup, health, history, keyspaces, trees, memory, ballast, log, edits, .. } =
            self;
        Parts {
            setup,
            health,
            history,
            keyspaces,
            trees,
            memory,
            ballast,
            log,
            edits,
            reads,
            commits,
            upkeep,
            scrubber,
            scratch,
            contents,
            lock,
        }
    }
}

impl Parts {
    pub(crate) fn new(opened: OpenedParts) -> Self {
        let (contents, lock) = (opened.contents, Arc::new(Mutex::new(opened.lock)));
        let (setup, trees) = (opened.setup, opened.trees);
        let health = Health::new(Arc::clone(&setup), opened.listeners, opened.log.is_none());
        let health = Arc::new(health);
        let keyspaces = Arc::new(opened.keyspaces);
        let is_used = keyspaces.all().iter().any(|keyspace| keyspace.expires());
        let clock = Arc::clone(&setup.environment.clock);
        let clock = ExpiryClock::new(clock, opened.moment, is_used);
        let (id, logs) = (opened.history, (opened.log, opened.log_files));
        let history = Arc::new(History::new(id, logs, opened.visible, clock));
        let memory = Memory::new(&setup, &trees);
        let ballast = Ballast::new(&setup, (&health, &history), opened.ballast);
        let log = LogUpkeep::new(&setup, &health, &history, &ballast);
        let edits = Edits::new(&health, &history, (&setup, &ballast), &keyspaces, opened.manifest);
        let (work, stall) = (Work::new(&health), Arc::<Stall>::default());
        let lower = Lower {
            setup,
            health,
            history,
            keyspaces,
            trees,
            memory,
            ballast,
            log,
            edits,
            work,
            stall,
        };
        let parts = lower.join(contents, lock);
        parts.connect();
        parts
    }

    /// Registers the functions that act on what lower parts find due. They keep no part.
    fn connect(&self) {
        let weak = Arc::downgrade(&self.upkeep);
        self.health.on_due(move |due| {
            if let Some(upkeep) = weak.upgrade() {
                act(&upkeep, due);
            }
        });
        let weak = Arc::downgrade(&self.health);
        self.setup.guard.on_lost(move |error| {
            if let Some(health) = weak.upgrade() {
                health.poison(error);
            }
        });
        let weak = Arc::downgrade(&self.health);
        self.history.snapshots.on_oldest_gone(move || {
            if let Some(health) = weak.upgrade() {
                health.act(Due::COMPACTIONS);
            }
        });
        self.memory.move_border();
    }
}
