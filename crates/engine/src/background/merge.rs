//! Merges neighbours that have stayed small.
//!
//! Two trees become one only when all they have is in tables: their writers are held for the edit,
//! since the new tree is flushed as far as both of them.

use super::relayout::{Change, StoppedTrees, change, is_kept};
use super::seal::{Take, seal};
use super::upkeep::Upkeep;
use crate::catalog::KeyspaceRecord;
use crate::event::Event;
use crate::history::HeldTrees;
use crate::keyspace_core::KeyspaceCore;
use crate::partition::Route;
use flagstone_base::sorted::sort_by;
use flagstone_base::{KeyspaceId, Result, SeqNo};
use flagstone_tree::Tree;
use std::sync::Arc;

/// Neighbours are merged if together they take at most one part in this many of the size at which a
/// tree is split.
const MERGE_PARTS: u64 = 4;

/// Notes the keyspaces with partitions that a split has made. Called after an open.
pub(crate) fn note_divided(upkeep: &Upkeep) {
    for core in upkeep.core.keyspaces.all() {
        if core.record().given.is_some() {
            upkeep.splits.note_divided(core.id);
        }
    }
}

/// Merges neighbours in the keyspace `id` as long as some are small enough.
pub(super) fn merge_small(upkeep: &Arc<Upkeep>, id: KeyspaceId) {
    let Some(core) = upkeep.core.keyspaces.get(id) else {
        upkeep.splits.note_whole(id);
        return;
    };
    loop {
        match upkeep.core.health.run_step("a merge", || merge(upkeep, &core)) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                upkeep.core.ballast.note_failure(&error);
                upkeep.core.health.tell(&Event::BackgroundFailed { doing: "merge", error });
                return;
            }
        }
    }
}

/// Merges two neighbours of `core`, if some are small enough. Returns whether it has.
fn merge(upkeep: &Arc<Upkeep>, core: &Arc<KeyspaceCore>) -> Result<bool> {
    let record = core.record();
    if record.given.is_none() {
        upkeep.splits.note_whole(core.id);
        return Ok(false);
    }
    if upkeep.splits.must_stay(core.id, upkeep.core.setup().now()) {
        return Ok(false);
    }
    if is_kept(upkeep, core) {
        return Ok(false);
    }
    let mut unflushed = None;
    for at in small_neighbours(upkeep, core, &record) {
        let old = &core.trees()[at..at + 2];
        if old.iter().any(|tree| tree.shares_tables()) {
            continue;
        }
        if old.iter().any(|tree| tree.oldest_unflushed().is_some()) {
            unflushed.get_or_insert(old);
        } else if merge_at(upkeep, core, at)? {
            return Ok(true);
        }
    }
    if let Some(old) = unflushed {
        // The end of the flush leads here again.
        let is_flushing = old.iter().any(|tree| tree.sealed_count() > 0);
        if upkeep.splits.delay_merge(core.id, is_flushing, upkeep.core.setup().now()) {
            seal(upkeep, Take::Trees(&old.iter().map(|tree| tree.id()).collect::<Vec<_>>()), None);
        }
    }
    Ok(false)
}

/// Merges the trees of the partitions `at` and `at + 1` of `core`, which have nothing in memory.
/// Returns false if something keeps them as they are.
fn merge_at(upkeep: &Arc<Upkeep>, core: &Arc<KeyspaceCore>, at: usize) -> Result<bool> {
    let old = &core.trees()[at..at + 2];
    let Some(_stopped) = StoppedTrees::take(upkeep, old) else { return Ok(false) };
    let mut guard = upkeep.core.edits.manifest.lock();
    let Some(manifest) = guard.as_mut() else { return Ok(false) };
    let Some(record) = manifest.state().catalog.by_id(core.id) else { return Ok(false) };
    if is_kept(upkeep, core) {
        return Ok(false);
    }
    let held = HeldTrees::new(&upkeep.core.history, old);
    let through = SeqNo::new(upkeep.core.history.numbering.lock().next.get() - 1);
    if old.iter().any(|tree| tree.oldest_unflushed().is_some()) {
        return Ok(false);
    }
    let next = manifest.state().catalog.counters().next_tree;
    if next.0 == u32::MAX {
        return Ok(false);
    }
    let record = record.merged(at, next);
    change(upkeep, manifest, core, &Change { old, at, record, through: Some(through) })?;
    drop(held);
    drop(guard);
    upkeep.splits.note_merged(core.id);
    let keyspace = upkeep.core.keyspaces.full_name(core);
    upkeep.core.health.tell(&Event::PartitionsMerged { keyspace, partition: at });
    Ok(true)
}

/// The first of each two neighbours that are small enough together and have a bound between them
/// that a split has made, the smallest first.
fn small_neighbours(upkeep: &Upkeep, core: &KeyspaceCore, record: &KeyspaceRecord) -> Vec<usize> {
    let limit = upkeep.core.setup().options.split_bytes / MERGE_PARTS;
    let layout = core.layout();
    let Route::Range { bounds, .. } = &layout.route else { return Vec::new() };
    let bytes = |tree: &Arc<Tree>| tree.table_bytes() + tree.active_bytes() + tree.sealed_bytes();
    let sizes: Vec<u64> = layout.trees.iter().map(bytes).collect();
    let pairs = sizes.windows(2).map(|pair| pair[0] + pair[1]).enumerate();
    let small = pairs.filter(|(at, sum)| *sum < limit && !record.is_given(&bounds[*at]));
    let mut small: Vec<(usize, u64)> = small.collect();
    sort_by(&mut small, |(_, a), (_, b)| a.cmp(b));
    small.into_iter().map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use crate::background::TreeClaims;
    use crate::stories::world::World;
    use crate::{Engine, Keyspace, KeyspaceOptions, Options, Routing};
    use flagstone_env::{Lane, Random, SeededRandom};
    use std::time::Duration;

    const KEYS: u32 = 4000;

    /// A keyspace with several partitions, nearly everything in which was deleted.
    fn shrunk(world: &World) -> (Engine, Keyspace) {
        let options =
            Options { memory_budget: 4 << 20, split_bytes: 512 << 10, ..Options::default() };
        let db = world.builder().options(options).open().unwrap();
        let auto = KeyspaceOptions::new().routing(Routing::Auto);
        let kv = db.keyspace_with("kv", auto).unwrap();
        let random = SeededRandom::new(3);
        for n in 0..KEYS {
            let words = (0..125).flat_map(|_| random.next_u64().to_le_bytes());
            kv.put((n * 1237 % KEYS).to_be_bytes(), words.collect::<Vec<_>>()).unwrap();
            if n % 400 == 399 {
                db.flush().unwrap();
                world.steps.run_all();
            }
        }
        kv.delete_range(0_u32.to_be_bytes()..KEYS.to_be_bytes()).unwrap();
        db.flush().unwrap();
        world.steps.run_all();
        db.compact().unwrap();
        world.steps.run_all();
        assert!(kv.core().trees().len() > 4, "{} partitions", kv.core().trees().len());
        (db, kv)
    }

    /// Queues what waits for a time, which has passed.
    fn ring_timers(world: &World) {
        for _ in 0..3 {
            world.steps.ring_timer();
        }
    }

    /// Writes a little into each partition.
    fn trickle(kv: &Keyspace) {
        for n in (0..KEYS).step_by(200) {
            kv.put(n.to_be_bytes(), "1").unwrap();
        }
    }

    /// They were flushed each time, and merged a second later if nobody had written by then.
    #[test]
    fn small_neighbours_that_are_written_now_and_then_merge() {
        let world = World::new();
        let (db, kv) = shrunk(&world);
        for _ in 0..20 {
            trickle(&kv);
            world.clock.advance(Duration::from_secs(2));
            ring_timers(&world);
            world.steps.run_all();
        }
        assert_eq!(kv.core().trees().len(), 1);
        assert_eq!(kv.count().unwrap(), 20);
        db.verify().unwrap();
    }

    /// Only the smallest pair was tried, and no other one while it was not ready.
    #[test]
    fn neighbours_merge_while_smaller_ones_cannot() {
        let world = World::new();
        let (db, kv) = shrunk(&world);
        let before = kv.core().trees().len();
        let parts = kv.handle().parts();
        // The first partitions are compacted all the time. The others hold more.
        let stopped: Vec<_> = kv.core().trees()[..2].to_vec();
        let mut claims = TreeClaims::new(&parts.upkeep);
        assert!(stopped.iter().all(|tree| claims.take(tree)));
        for n in (KEYS / 2..KEYS).step_by(10) {
            kv.put(n.to_be_bytes(), "1").unwrap();
        }
        db.flush().unwrap();
        world.clock.advance(Duration::from_secs(2));
        ring_timers(&world);
        world.steps.run_all();
        let after = kv.core().trees();
        assert!(after.len() < before, "{before} partitions");
        assert!(stopped.iter().zip(after).all(|(old, tree)| old.id() == tree.id()));
        drop(claims);
        db.verify().unwrap();
    }

    #[test]
    fn small_neighbours_that_are_written_all_the_time_are_not_flushed_again_and_again() {
        let world = World::new();
        let (db, kv) = shrunk(&world);
        let before = db.stats().flushes;
        for _ in 0..20 {
            trickle(&kv);
            world.clock.advance(Duration::from_secs(2));
            ring_timers(&world);
            while world.steps.step(Lane::Flush) || world.steps.step(Lane::Compaction) {
                trickle(&kv);
            }
        }
        let flushes = db.stats().flushes - before;
        assert!(flushes <= 4, "{flushes} trees were flushed in 40 seconds");
        assert!(kv.core().trees().len() > 1, "there was no moment to merge all");
    }
}
