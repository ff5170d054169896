//! The scans of all trees, so that those that wait can be made to give up what they hold.
//!
//! A scan that is not read holds blocks, what it has read ahead, memtables and tables. It cannot know that nobody will
//! read it for an hour. So others take these from it: all of a tree when memtables or tables of it are replaced, and
//! those that were not read lately when all together hold more than their [allowance](flagstone_sst::Allowance). A scan
//! that is read again looks for its place again.

use flagstone_base::TreeId;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use flagstone_sst::BlockCache;
use std::sync::Weak;

/// Scans of different trees seldom wait for the same lock.
const SHARDS: usize = 32;
/// Scans that are gone are forgotten when a shard has doubled, and not below this.
const FORGET_FROM: usize = 64;
/// A look that found nothing to take is not repeated at once: so many scans that hold something are worth one call less.
const PATIENCE: u64 = 2;

/// A scan, seen from outside.
pub(crate) trait Rests: Send + Sync {
    /// Whether it may hold something.
    fn holds(&self) -> bool;

    /// Makes it give up what it holds, unless it is being read, or was read since this was last asked and that
    /// `spares_fresh` ones. Whether it gave up something.
    fn rest(&self, spares_fresh: bool) -> bool;
}

type Scan = (TreeId, Weak<dyn Rests>);

/// All scans that ever held something and are not gone.
#[derive(Default)]
pub struct Scans {
    shards: [Mutex<Shard>; SHARDS],
    /// So many calls of `make_room` do nothing.
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

    /// Notes a scan of `tree`.
    pub(crate) fn add(&self, tree: TreeId, scan: Weak<dyn Rests>) {
        let mut shard = self.shard(tree).lock();
        if shard.scans.len() >= shard.forget_at.max(FORGET_FROM) {
            shard.scans.retain(|(_, scan)| scan.strong_count() > 0);
            shard.forget_at = shard.scans.len() * 2;
        }
        shard.scans.push((tree, scan));
    }

    /// What scans of `tree` hold is out of date.
    pub(crate) fn rest_of(&self, tree: TreeId) {
        let mut scans = Vec::new();
        let shard = self.shard(tree).lock();
        scans.extend(shard.scans.iter().filter(|scan| scan.0 == tree).cloned());
        drop(shard);
        let _given = rest(&scans, false);
    }

    /// Scans hold too much, or one wants to read ahead and there is no room: takes what those hold that were not read
    /// since this was last done.
    #[cold]
    pub(crate) fn make_room(&self, cache: &BlockCache) {
        let wait = |patience: u64| patience.checked_sub(1);
        if self.patience.fetch_update(Ordering::Relaxed, Ordering::Relaxed, wait).is_ok() {
            return;
        }
        cache.scans().forget_short();
        let (mut holding, mut given) = (0, 0);
        for shard in &self.shards {
            let scans = shard.lock().scans.clone();
            let (shard_holding, shard_given) = rest(&scans, true);
            (holding, given) = (holding + shard_holding, given + shard_given);
        }
        if given == 0 {
            self.patience.store(holding / PATIENCE, Ordering::Relaxed);
        }
    }
}

/// How many of them held something, and how many gave it up.
fn rest(scans: &[Scan], spares_fresh: bool) -> (u64, u64) {
    let (mut holding, mut given) = (0, 0);
    for scan in scans.iter().filter_map(|(_, scan)| scan.upgrade()).filter(|scan| scan.holds()) {
        holding += 1;
        given += u64::from(scan.rest(spares_fresh));
    }
    (holding, given)
}
