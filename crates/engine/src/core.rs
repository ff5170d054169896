//! The lower parts of an open database, which the upper ones share.

use crate::ballast::{Ballast, FoundBallast};
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
use crate::setup::Setup;
use crate::stall::Stall;
use flagstone_base::{Moment, SeqNo};
use flagstone_tree::TreeContext;
use flagstone_wal::{Log, LogFiles};
use std::sync::Arc;

/// The lower parts of an open database, from the ground up. A part holds those before it that it
/// needs.
pub(crate) struct Core {
    pub(crate) health: Arc<Health>,
    pub(crate) history: Arc<History>,
    pub(crate) keyspaces: Arc<Keyspaces>,
    pub(crate) trees: Arc<TreeContext>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) ballast: Arc<Ballast>,
    pub(crate) log: Arc<LogUpkeep>,
    pub(crate) edits: Arc<Edits>,
    pub(crate) work: Work,
    pub(crate) stall: Stall,
    pub(crate) long_chains: LongChains,
}

/// The results of an open, of which the lower parts are built.
pub(crate) struct OpenedCore {
    pub(crate) setup: Setup,
    pub(crate) listeners: Vec<Arc<dyn Listener>>,
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
    pub(crate) ballast: FoundBallast,
}

impl Core {
    pub(crate) fn new(opened: OpenedCore) -> Arc<Self> {
        let health = Health::new(opened.setup, opened.listeners, opened.log.is_none());
        let health = Arc::new(health);
        let (keyspaces, trees) = (Arc::new(opened.keyspaces), opened.trees);
        let is_used = keyspaces.all().iter().any(|keyspace| keyspace.expires());
        let clock = Arc::clone(&health.setup.environment.clock);
        let clock = ExpiryClock::new(clock, opened.moment, is_used);
        let OpenedCore { log, log_files, visible, .. } = opened;
        let history = Arc::new(History::new(opened.history, log, log_files, visible, clock));
        let memory = Memory::new(&health, &trees);
        let ballast = Ballast::new(&health, &history, opened.ballast);
        let log = LogUpkeep::new(&ballast);
        let edits = Edits::new(&ballast, &keyspaces, opened.manifest);
        let (work, stall) = (Work::new(&health), Stall::default());
        let long_chains = LongChains::default();
        Arc::new(Self {
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
            long_chains,
        })
    }

    #[inline]
    pub(crate) fn setup(&self) -> &Setup {
        &self.health.setup
    }
}
