//! Splits a tree that has grown in two, and one whose writers contend in up to four; merges
//! neighbours that have stayed small.
//!
//! ```text
//! one edit, synced:  the record with another bound, the tables of the new trees
//! numbering lock:    memtables sealed -> new trees -> layout -> old trees retired
//! ```
//! Nothing is written but the edit: both halves hold the tables that have keys of both, and the
//! sealed memtables, until each has flushed and trimmed its part. A crash before the edit leaves
//! the old tree. After it, the log is replayed into the new ones, which are flushed as far as the
//! old one was.
//!
//! Two trees become one only when all they have is in tables: their writers are held for the edit,
//! since the new tree is flushed as far as both of them.

use super::claims::Claims;
use super::seal::{Take, seal, seal_to_replace};
use super::upkeep::Upkeep;
use super::watch::watch;
use crate::catalog::KeyspaceRecord;
use crate::event::Event;
use crate::history::HeldTrees;
use crate::keyspace_core::KeyspaceCore;
use crate::manifest::{Edit, Manifest};
use crate::options::partitions_by_cores;
use crate::partition::{Layout, PARTITIONS_MAX, Route};
use flagstone_base::{Result, SeqNo, TreeId};
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::{
    HashBounds, Successor, Tree, WriteLoad, inherited, replace, retire, split_key,
};
use std::slice::from_ref;
use std::sync::Arc;

/// Neighbours are merged if together they take at most one part in this many of the size at which a
/// tree is split.
const MERGE_PARTS: u64 = 4;
/// A tree whose writers contend is cut into at most this many: each further split would wait until
/// the tables of this one are trimmed.
const LOAD_PARTS: usize = 4;
/// A hash partition is split at this many times the size of a range: every scan merges all of them.
const HASH_TIMES: u64 = 8;

/// Notes `tree`, whose tables take `bytes` now, if it is large enough for a split.
pub(crate) fn note_size(upkeep: &Upkeep, tree: &Arc<Tree>, bytes: u64) {
    let limit = upkeep.setup.options.split_bytes;
    if limit == 0 || bytes < limit || tree.successors().is_some() {
        return;
    }
    let core = upkeep.keyspaces.get(tree.options().keyspace);
    if core.is_some_and(|core| bytes >= limit_of(upkeep, &core.layout().route)) {
        upkeep.splits.note_large(tree);
    }
}

/// The bytes at which a partition of `route` is split.
fn limit_of(upkeep: &Upkeep, route: &Route) -> u64 {
    let times = if route.is_range() { 1 } else { HASH_TIMES };
    upkeep.setup.options.split_bytes.saturating_mul(times)
}

/// Notes the keyspaces with partitions that a split has made. Called after an open.
pub(crate) fn note_divided(upkeep: &Upkeep) {
    for core in upkeep.keyspaces.all() {
        if core.record().given.is_some() {
            upkeep.splits.note_divided(core.id);
        }
    }
}

/// Splits and merges what is due. Flushes and compactions may be due afterwards.
pub(super) fn change_layouts(upkeep: &Arc<Upkeep>) {
    for (tree, load) in upkeep.splits.due() {
        let split = upkeep.health.run_step("a split", || split(upkeep, &tree, load.as_deref()));
        end(upkeep, &tree, split);
    }
    for id in upkeep.splits.take_divided() {
        let Some(core) = upkeep.keyspaces.get(id) else {
            upkeep.splits.note_whole(id);
            continue;
        };
        loop {
            match upkeep.health.run_step("a merge", || merge(upkeep, &core)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    upkeep.ballast.note_failure(&error);
                    upkeep.health.tell(&Event::BackgroundFailed { doing: "merge", error });
                    break;
                }
            }
        }
    }
}

/// What became of a split.
enum Split {
    Done,
    /// Something that will end keeps the tree as it is.
    Later,
    /// The tree need not or cannot be split.
    Never,
}

fn end(upkeep: &Upkeep, tree: &Tree, split: Result<Split>) {
    match split {
        Ok(Split::Later) => {}
        Ok(Split::Done | Split::Never) => upkeep.splits.forget(tree.id()),
        // The next change of the tree tries again.
        Err(error) => {
            upkeep.splits.forget(tree.id());
            upkeep.ballast.note_failure(&error);
            upkeep.health.tell(&Event::BackgroundFailed { doing: "split", error });
        }
    }
}

fn split(upkeep: &Arc<Upkeep>, tree: &Arc<Tree>, load: Option<&WriteLoad>) -> Result<Split> {
    let Some(core) = upkeep.keyspaces.get(tree.options().keyspace) else { return Ok(Split::Never) };
    let layout = core.layout();
    let Some(at) = layout.trees.iter().position(|other| Arc::ptr_eq(other, tree)) else {
        return Ok(Split::Never);
    };
    let limit = limit_of(upkeep, &layout.route);
    let is_large = limit > 0 && tree.table_bytes() >= limit;
    let load = load.filter(|_| limit > 0).and_then(|load| Cuts::of_load(load, tree, layout, at));
    if (!is_large && load.is_none()) || layout.trees.len() >= PARTITIONS_MAX {
        return Ok(Split::Never);
    }
    // Until its tables are trimmed, its size is not known.
    if tree.shares_tables() || is_kept(upkeep, &core) {
        return Ok(Split::Later);
    }
    let Some(_stopped) = Stopped::take(upkeep, from_ref(tree)) else { return Ok(Split::Later) };
    let is_by_load = load.is_some();
    let Some(cuts) = load.or_else(|| Cuts::of_size(tree, layout, at)) else {
        return Ok(Split::Never);
    };
    let mut guard = upkeep.edits.manifest.lock();
    let Some(manifest) = guard.as_mut() else { return Ok(Split::Never) };
    let Some(record) = manifest.state().catalog.by_id(core.id) else { return Ok(Split::Never) };
    if is_kept(upkeep, &core) {
        return Ok(Split::Later);
    }
    let first = manifest.state().catalog.counters().next_tree.0;
    let Some(last) = first.checked_add(cuts.len() as u32) else { return Ok(Split::Never) };
    let trees: Vec<TreeId> = (first..=last).map(TreeId).collect();
    let record = match &cuts {
        Cuts::Keys(cuts) => record.split(at, cuts, &trees),
        Cuts::Hashes(cuts) => record.split_hashes(at, cuts, &trees),
    };
    change(upkeep, manifest, &core, Change { old: from_ref(tree), at, record, through: None })?;
    drop(guard);
    if layout.route.is_range() {
        upkeep.splits.note_divided(core.id);
    }
    if is_by_load {
        upkeep.splits.note_split_by_load(core.id, upkeep.setup.now());
    }
    upkeep.splits.splits.fetch_add(cuts.len() as u64, Ordering::Relaxed);
    for (partition, bound) in (at..).zip(cuts.bounds()) {
        let keyspace = core.name();
        upkeep.health.tell(&Event::PartitionSplit { keyspace, partition, bound });
    }
    Ok(Split::Done)
}

/// Where a partition is cut: at least one place.
enum Cuts {
    Keys(Vec<Vec<u8>>),
    Hashes(Vec<u64>),
}

impl Cuts {
    /// Cuts `tree`, the one at `at` in `layout`, in two of about the same size. `None` if it
    /// cannot be cut.
    fn of_size(tree: &Tree, layout: &Layout, at: usize) -> Option<Self> {
        match layout.route.hashes_of(at) {
            Some(hashes) => Self::of_hashes(hashes, 2),
            None => split_key(tree).map(|key| Self::Keys(vec![key])),
        }
    }

    /// Cuts `tree` where it divides the `load`. `None` also if there are partitions for all cores
    /// already.
    fn of_load(load: &WriteLoad, tree: &Tree, layout: &Layout, at: usize) -> Option<Self> {
        let more = partitions_by_cores().saturating_sub(layout.trees.len());
        let parts = [LOAD_PARTS.min(more + 1), 2];
        let mut parts = parts.into_iter().filter(|parts| *parts > 1 && more > 0);
        if let Some(hashes) = layout.route.hashes_of(at) {
            // Hashes spread every load but that of few keys.
            return Self::of_hashes(hashes, parts.next()?);
        }
        let bounds = tree.options().bounds.as_deref().cloned().unwrap_or_default();
        let is_inside = |cut: &Vec<u8>| bounds.contains(cut) && cut.as_slice() > bounds.lower();
        let mut cuts =
            parts.map(|parts| load.cuts(parts)).filter(|cuts| cuts.iter().all(is_inside));
        cuts.find(|cuts| !cuts.is_empty()).map(Self::Keys)
    }

    /// Cuts `hashes` into even `parts`.
    fn of_hashes(hashes: HashBounds, parts: usize) -> Option<Self> {
        let (first, last) = hashes.ends();
        let step = (u128::from(last - first) + 1) / parts as u128;
        let cut = |part| (u128::from(first) + part as u128 * step) as u64;
        (step > 0).then(|| Self::Hashes((1..parts).map(cut).collect()))
    }

    fn len(&self) -> usize {
        match self {
            Self::Keys(cuts) => cuts.len(),
            Self::Hashes(cuts) => cuts.len(),
        }
    }

    /// The cuts as events show them.
    fn bounds(self) -> Vec<Vec<u8>> {
        match self {
            Self::Keys(cuts) => cuts,
            Self::Hashes(cuts) => cuts.iter().map(|cut| cut.to_be_bytes().to_vec()).collect(),
        }
    }
}

/// Returns whether something keeps the trees of `core` as they are.
fn is_kept(upkeep: &Upkeep, core: &KeyspaceCore) -> bool {
    upkeep.splits.is_cut()
        || core.is_ingesting()
        || core.is_filling()
        || core.check_not_dropped().is_err()
        || upkeep.history.replaying.load(Ordering::Acquire)
        || upkeep.health.check_open_for_writing().is_err()
        || upkeep.health.poisoned().is_some()
}

/// Merges two neighbours of `core`, if some are small enough. Returns whether it has.
fn merge(upkeep: &Arc<Upkeep>, core: &Arc<KeyspaceCore>) -> Result<bool> {
    let record = core.record();
    if record.given.is_none() {
        upkeep.splits.note_whole(core.id);
        return Ok(false);
    }
    if upkeep.splits.must_stay(core.id, upkeep.setup.now()) {
        return Ok(false);
    }
    let Some(at) = small_neighbours(upkeep, core, &record) else { return Ok(false) };
    let old = &core.trees()[at..at + 2];
    if is_kept(upkeep, core) || old.iter().any(|tree| tree.shares_tables()) {
        return Ok(false);
    }
    if old.iter().any(|tree| tree.oldest_unflushed().is_some()) {
        // The end of the flush leads here again.
        let is_flushing = old.iter().any(|tree| tree.sealed_count() > 0);
        if upkeep.splits.delay_merge(core.id, is_flushing, upkeep.setup.now()) {
            seal(upkeep, Take::Trees(&old.iter().map(|tree| tree.id()).collect::<Vec<_>>()), None);
        }
        return Ok(false);
    }
    let Some(_stopped) = Stopped::take(upkeep, old) else { return Ok(false) };
    let mut guard = upkeep.edits.manifest.lock();
    let Some(manifest) = guard.as_mut() else { return Ok(false) };
    let Some(record) = manifest.state().catalog.by_id(core.id) else { return Ok(false) };
    if is_kept(upkeep, core) {
        return Ok(false);
    }
    let held = HeldTrees::new(&upkeep.history, old);
    let through = SeqNo::new(upkeep.history.numbering.lock().next.get() - 1);
    if old.iter().any(|tree| tree.oldest_unflushed().is_some()) {
        return Ok(false);
    }
    let next = manifest.state().catalog.counters().next_tree;
    if next.0 == u32::MAX {
        return Ok(false);
    }
    let record = record.merged(at, next);
    change(upkeep, manifest, core, Change { old, at, record, through: Some(through) })?;
    drop(held);
    drop(guard);
    upkeep.splits.note_merged(core.id);
    let keyspace = core.name();
    upkeep.health.tell(&Event::PartitionsMerged { keyspace, partition: at });
    Ok(true)
}

/// The first of the two neighbours that are the smallest together, if they are small enough and a
/// split has made the bound between them.
fn small_neighbours(
    upkeep: &Upkeep,
    core: &KeyspaceCore,
    record: &KeyspaceRecord,
) -> Option<usize> {
    let limit = upkeep.setup.options.split_bytes / MERGE_PARTS;
    let layout = core.layout();
    let Route::Range { bounds, .. } = &layout.route else { return None };
    let bytes = |tree: &Arc<Tree>| tree.table_bytes() + tree.active_bytes() + tree.sealed_bytes();
    let sizes: Vec<u64> = layout.trees.iter().map(bytes).collect();
    let pairs = sizes.windows(2).map(|pair| pair[0] + pair[1]).enumerate();
    let small = pairs.filter(|(at, sum)| *sum < limit && !record.is_given(&bounds[*at]));
    small.min_by_key(|(_, sum)| *sum).map(|(at, _)| at)
}

/// A change of the layout of a keyspace.
struct Change<'a> {
    /// The trees that are replaced, neighbours.
    old: &'a [Arc<Tree>],
    /// The partition of the first of them.
    at: usize,
    record: KeyspaceRecord,
    /// The SeqNo through which all that was written to them is in tables, if all is.
    through: Option<SeqNo>,
}

/// Makes `change` durable, then current. After an error it is neither.
fn change(
    upkeep: &Upkeep,
    manifest: &mut Manifest,
    core: &KeyspaceCore,
    change: Change<'_>,
) -> Result<()> {
    let Change { old, at, record, through } = change;
    let count = record.trees.len() + old.len() - core.trees().len();
    let new = (at..at + count).map(|partition| {
        let id = record.trees[partition];
        let bounds = record.route.bounds_of(partition).unwrap_or_default();
        let mut edit = inherited(old, id, &bounds);
        edit.flushed_through = through.or(edit.flushed_through);
        Successor { edit, options: core.tree_options(&record, partition) }
    });
    let new: Vec<Successor> = new.collect();
    let edit = Edit {
        keyspaces_altered: vec![record.clone()],
        tables: new.iter().map(|new| new.edit.clone()).collect(),
        ..upkeep.edits.edit_of_now(std::iter::once(core.id))
    };
    upkeep.edits.append_whole(manifest, &edit)?;
    upkeep.edits.note_definitions(&edit);
    let before: u64 = old.iter().map(|tree| tree.table_bytes()).sum();
    // The manifest has the edit. Without the new trees writes would go to trees that it has not.
    let trees = put_in_place(upkeep, core, (old, at), (&record.route, new));
    let trees = trees.inspect_err(|error| upkeep.health.poison(error))?;
    if let Some(record) = manifest.state().catalog.by_id(core.id) {
        upkeep.keyspaces.replace_record(core, record);
    }
    upkeep.work.note_table_bytes(before, trees.iter().map(|tree| tree.table_bytes()).sum());
    for tree in old {
        upkeep.splits.forget(tree.id());
        watch(upkeep, tree);
    }
    for tree in &trees {
        watch(upkeep, tree);
        note_size(upkeep, tree, tree.table_bytes());
    }
    Ok(())
}

/// Seals the memtables of the trees `old` and puts the `new` trees in their place.
fn put_in_place(
    upkeep: &Upkeep,
    core: &KeyspaceCore,
    (old, at): (&[Arc<Tree>], usize),
    (route, new): (&Route, Vec<Successor>),
) -> Result<Vec<Arc<Tree>>> {
    let mut numbering = upkeep.history.numbering.lock();
    seal_to_replace(upkeep, &mut numbering, old);
    let trees = replace(old, new)?;
    {
        let mut queue = upkeep.work.lock();
        queue.flushes.replace(old, &trees);
        upkeep.work.recount(&queue);
    }
    let mut all = core.trees().to_vec();
    all.splice(at..at + old.len(), trees.iter().cloned());
    core.set_layout(route.clone(), all);
    retire(old, &trees);
    old.iter().for_each(|tree| numbering.forget(tree));
    trees.iter().for_each(|tree| numbering.note_unflushed(tree));
    Ok(trees)
}

/// Trees that are neither flushed nor compacted until this is dropped.
struct Stopped {
    upkeep: Arc<Upkeep>,
    trees: Vec<Arc<Tree>>,
    _claims: Claims,
}

impl Stopped {
    /// Stops `trees`, unless one of them is being flushed or compacted.
    fn take(upkeep: &Arc<Upkeep>, trees: &[Arc<Tree>]) -> Option<Self> {
        let mut claims = Claims::new(upkeep);
        if !trees.iter().all(|tree| claims.take(tree)) {
            return None;
        }
        let mut stopped = Self { upkeep: Arc::clone(upkeep), trees: Vec::new(), _claims: claims };
        // Under the lock no flush takes a tree in between.
        let queue = upkeep.work.lock();
        for tree in trees {
            if queue.flushes.runs(tree) || !tree.stop_flushes() {
                drop(queue);
                return None;
            }
            stopped.trees.push(Arc::clone(tree));
        }
        drop(queue);
        Some(stopped)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.trees.iter().for_each(|tree| tree.let_flush());
        self.upkeep.work.ring();
    }
}

#[cfg(test)]
mod tests {
    use crate::background::splits::Splits;
    use crate::stories::world::World;
    use crate::{Engine, Keyspace, KeyspaceOptions, Options, Routing};
    use flagstone_base::{FileNumber, TreeId};
    use flagstone_env::{Lane, Random, SeededRandom};
    use flagstone_sst::TableMeta;
    use flagstone_tree::{KeyBounds, Known, Tree, TreeEdit, TreeOptions, Version};
    use std::sync::Arc;
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

    /// Each flush of a tree that is large and cannot be split began its minute again.
    #[test]
    fn a_tree_that_is_not_split_is_trimmed_in_time() {
        let world = World::new();
        let db = world.open();
        let kv = db.keyspace("kv").unwrap();
        let context = kv.core().trees()[0].context();
        let meta = TableMeta {
            number: FileNumber(99),
            smallest: b"a".to_vec(),
            largest: b"z".to_vec(),
            ..TableMeta::default()
        };
        let edit = TreeEdit { added: vec![(6, meta)], ..TreeEdit::new(TreeId(99)) };
        let version = Version::open(context, &edit, &mut Known::default()).unwrap();
        let bounds = Some(Arc::new(KeyBounds::new(b"m".to_vec(), None)));
        let options = TreeOptions { bounds, ..TreeOptions::default() };
        let tree = Tree::new(TreeId(99), Arc::clone(context), options, version);
        assert!(tree.shares_tables());
        let splits = Splits::default();
        let at = Duration::from_secs;
        splits.note_sharing(&tree, at(1));
        splits.forget(tree.id());
        splits.note_sharing(&tree, at(40));
        assert!(!splits.is_trim_late(&tree, at(60)) && splits.is_trim_late(&tree, at(61)));
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
