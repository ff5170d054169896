//! The parts of an open database: the lower ones in one [`Core`], and the upper ones, which share
//! it. Each owns its fields and locks, and names only parts below it.
//!
//! Locks, in the order in which they may be taken together. (The turn of large writes comes before
//! all of them, never under a stripe. So does the turn of cuts and ingests.)
//! 1. the gates of keyspaces (by id), then `stripes` (ascending), then those of values, held by a
//!    write until it is visible; then the turn of large updates
//! 2. `manifest`, held across its own I/O; taken by background work and by changes of the catalog
//! 3. `numbering`, held for a few lines
//! 4. the state of a full compaction that a caller runs, held for a few lines
//! 5. `definitions_due` before the maps of the keyspaces; the queue of background work, the
//!    publisher's line, the recent writes, the snapshots' map, the notifiers: leaves, held for a
//!    few lines
//!
//! Readers take none of them: they load the visible SeqNo, then a tree's view.

use crate::background::{Scrubber, Upkeep, act};
use crate::commit::{Admission, Commits, RecentWrites, Stripes};
use crate::content::ContentFactory;
use crate::core::{Core, OpenedCore};
use crate::due::Due;
use crate::reads::Reads;
use crate::scratch::Scratch;
use flagstone_env::DiskLock;
use flagstone_env::sync::Mutex;
use std::sync::Arc;

/// The parts of an open database. A clone has the same parts.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) core: Arc<Core>,
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

impl Parts {
    pub(crate) fn new(
        opened: OpenedCore,
        contents: Arc<dyn ContentFactory>,
        lock: Option<Box<dyn DiskLock>>,
    ) -> Self {
        let core = Core::new(opened);
        let reads = Reads { core: Arc::clone(&core) };
        let commits = Commits {
            core: Arc::clone(&core),
            stripes: Arc::new(Stripes::new()),
            recent: Arc::new(RecentWrites::new(core.setup().options.recent_writes_bytes())),
            admission: Arc::new(Admission::new(&core)),
            reads: reads.clone(),
        };
        let parts = Self {
            reads,
            commits,
            upkeep: Upkeep::new(&core),
            scrubber: Scrubber::new(&core),
            scratch: Scratch::new(&core),
            contents,
            lock: Arc::new(Mutex::new(lock)),
            core,
        };
        parts.connect();
        parts
    }

    /// Registers the functions that act on what lower parts find due. They keep no part.
    fn connect(&self) {
        let weak = Arc::downgrade(&self.upkeep);
        self.core.health.on_due(move |due| {
            if let Some(upkeep) = weak.upgrade() {
                act(&upkeep, due);
            }
        });
        let weak = Arc::downgrade(&self.core.health);
        self.core.setup().guard.on_lost(move |error| {
            if let Some(health) = weak.upgrade() {
                health.poison(error);
            }
        });
        let weak = Arc::downgrade(&self.core.health);
        self.core.history.snapshots.on_oldest_gone(move || {
            if let Some(health) = weak.upgrade() {
                health.act(Due::COMPACTIONS);
            }
        });
        self.core.memory.move_border();
    }
}
