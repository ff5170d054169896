//! The scans of all trees, so that idle scans can be made to release what they hold.
//!
//! A scan that is not being read holds blocks, read-ahead buffers, memtables and tables. It cannot
//! know whether it will be read again soon or in an hour. So other threads take these from it: from
//! all scans of a tree when memtables or tables of the tree are replaced, and from scans that were
//! not read lately when all scans together hold more than their
//! [allowance](flagstone_sst::Allowance). A scan that is read again seeks its position again.

use flagstone_base::TreeId;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use flagstone_sst::BlockCache;
use std::sync::Weak;

/// The number of locks, so that scans of different trees rarely contend for one.
const SHARDS: usize = 32;
/// A shard removes dropped scans when it has doubled in size, and never below this size.
const FORGET_FROM: usize = 64;
/// After a pass that released nothing, the next calls do nothing: one for each so many scans that
/// held something.
const PATIENCE: u64 = 2;

/// A scan as other threads see it.
pub(crate) trait ParkableScan: Send + Sync {
    /// Returns whether the scan may hold something.
    fn holds(&self) -> bool;

    /// Makes the scan release what it holds, unless it is being read, or `spared`. Returns whether
    /// it released something.
    fn park(&self, spared: Spared) -> bool;
}

/// The scans that go on holding what they hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spared {
    None,
    /// Those that were read since the last call that spared them.
    Fresh,
}

type Scan = (TreeId, Weak<dyn ParkableScan>);

/// All scans that ever held something and still exist.
#[derive(Default)]
pub struct Scans {
    shards: [Mutex<Shard>; SHARDS],
    /// The number of next calls of `make_room` that do nothing.
    patience: AtomicU64,
}

#[derive(Default)]
struct Shard {
    scans: Vec<Scan>,
    forget_at: usize,
}

impl Scans {
    fn shard(&self, tree: TreeId) -> &Mutex<Shard> {
        &self.shards[tree.0 as usize % SHARDS]
    }

    /// Registers a scan of `tree`.
    pub(crate) fn add(&self, tree: TreeId, scan: Weak<dyn ParkableScan>) {
        let mut shard = self.shard(tree).lock();
        if shard.scans.len() >= shard.forget_at.max(FORGET_FROM) {
            shard.scans.retain(|(_, scan)| scan.strong_count() > 0);
            shard.forget_at = shard.scans.len() * 2;
        }
        shard.scans.push((tree, scan));
    }

    /// Makes the scans of `tree` release what they hold, which is out of date.
    pub(crate) fn park_scans_of(&self, tree: TreeId) {
        let mut scans = Vec::new();
        let shard = self.shard(tree).lock();
        scans.extend(shard.scans.iter().filter(|scan| scan.0 == tree).cloned());
        drop(shard);
        let _released = park(&scans, Spared::None);
    }

    /// Makes scans that were not read since the last call release what they hold. Called when scans
    /// hold too much, or one could not read ahead.
    #[cold]
    pub(crate) fn make_room(&self, cache: &BlockCache) {
        let wait = |patience: u64| patience.checked_sub(1);
        if self.patience.fetch_update(Ordering::Relaxed, Ordering::Relaxed, wait).is_ok() {
            return;
        }
        cache.scans().forget_short();
        let (mut holding, mut released) = (0, 0);
        for shard in &self.shards {
            let scans = shard.lock().scans.clone();
            let (shard_holding, shard_released) = park(&scans, Spared::Fresh);
            (holding, released) = (holding + shard_holding, released + shard_released);
        }
        if released == 0 {
            self.patience.store(holding / PATIENCE, Ordering::Relaxed);
        }
    }
}

/// Returns how many of the scans held something, and how many released it.
fn park(scans: &[Scan], spared: Spared) -> (u64, u64) {
    let (mut holding, mut released) = (0, 0);
    for scan in scans.iter().filter_map(|(_, scan)| scan.upgrade()).filter(|scan| scan.holds()) {
        holding += 1;
        released += u64::from(scan.park(spared));
    }
    (holding, released)
}
