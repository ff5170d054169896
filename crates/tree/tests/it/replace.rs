//! Trees that replace others: what readers and scans see, and what becomes of tables and memtables.

use crate::bench_tree::{context, small_options};
use crate::random::Rng;
use flagstone_base::hash::{HashedKey, key_hash};
use flagstone_base::{EntryRef, FileNumber, KeyRange, Kind, SeqNo, TreeId};
use flagstone_env::names::{Name, parse};
use flagstone_env::{Disk, MemDisk};
use flagstone_tree::{
    Compaction, Direction, Flush, FullPass, HashBounds, Job, KeyBounds, Policy, ScanOptions,
    Successor, Tree, TreeContext, TreeOptions, TreeScan, Version, inherited, pick, pick_trim,
    replace, retire,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The trees of one keyspace, in the order of their keys or of the hashes of them, and what they
/// should hold.
struct Keyspace {
    is_hashed: bool,
    disk: MemDisk,
    context: Arc<TreeContext>,
    trees: Vec<Arc<Tree>>,
    next_tree: u32,
    last: SeqNo,
    model: Model,
    snapshots: Vec<(SeqNo, Model)>,
}

fn key(n: u64) -> Vec<u8> {
    format!("k{n:03}").into_bytes()
}

fn bounded(lower: &[u8], upper: Option<&[u8]>) -> TreeOptions {
    let bounds = KeyBounds::new(lower.to_vec(), upper.map(<[u8]>::to_vec));
    TreeOptions { bounds: Some(Arc::new(bounds)), ..small_options() }
}

fn bounds_of(tree: &Tree) -> KeyBounds {
    tree.options().bounds.as_deref().cloned().unwrap_or_default()
}

fn hash(key: &[u8]) -> u64 {
    key_hash(key, small_options().hash_seed)
}

/// Returns whether the entries of `key` are those of `tree`.
fn is_of(tree: &Tree, key: &[u8]) -> bool {
    let options = tree.options();
    bounds_of(tree).contains(key) && options.hashes.is_none_or(|own| own.contains(hash(key)))
}

impl Keyspace {
    fn new(is_hashed: bool) -> Self {
        let disk = MemDisk::default();
        let context = context(&disk, 1, true);
        let tree = Tree::new(TreeId(1), Arc::clone(&context), small_options(), Version::empty());
        Self {
            is_hashed,
            disk,
            context,
            trees: vec![tree],
            next_tree: 2,
            last: SeqNo::ZERO,
            model: Model::new(),
            snapshots: Vec::new(),
        }
    }

    fn tree_of(&self, key: &[u8]) -> &Arc<Tree> {
        self.trees.iter().find(|tree| is_of(tree, key)).unwrap()
    }

    fn write(&mut self, kind: Kind, key: &[u8], value: &[u8]) {
        self.last = self.last.plus(1);
        let entry = EntryRef::new(key, self.last, kind, value);
        let is_met = |tree: &&Arc<Tree>| match kind {
            Kind::RangeDelete => {
                let bounds = bounds_of(tree);
                bounds.lower() < value && bounds.upper().is_none_or(|upper| key < upper)
            }
            _ => is_of(tree, key),
        };
        for tree in self.trees.iter().filter(is_met) {
            tree.reserve(self.last).insert(entry, hash(key)).unwrap();
        }
        match kind {
            Kind::Put => drop(self.model.insert(key.to_vec(), value.to_vec())),
            Kind::Delete => drop(self.model.remove(key)),
            Kind::Merge => {
                let folded = self.model.entry(key.to_vec()).or_insert_with(|| b"_".to_vec());
                folded.extend_from_slice(value);
            }
            Kind::RangeDelete => self.model.retain(|k, _| &k[..] < key || &k[..] >= value),
        }
    }

    fn live(&self) -> Vec<SeqNo> {
        self.snapshots.iter().map(|(seqno, _)| *seqno).collect()
    }

    fn flush(&self, tree: &Arc<Tree>) {
        tree.seal(self.last);
        while let Some(mut flush) = Flush::start(tree, SeqNo::MAX, &self.live(), self.last, &[]) {
            let edit = finish(|| flush.step());
            for (_, meta) in &edit.added {
                assert!(!tree.options().reaches_across(meta), "{meta}");
            }
            tree.install(&edit).unwrap();
        }
    }

    fn run(&self, tree: &Arc<Tree>, job: Job) {
        let mut compaction = Compaction::start(tree, job, &self.live(), self.last).unwrap();
        let edit = finish(|| compaction.step());
        tree.install(&edit).unwrap();
        tree.view().version().check().unwrap();
    }

    /// Replaces the trees in `places` by trees with the bounds between them cut at `cut`.
    fn replace(&mut self, places: std::ops::Range<usize>, cut: Option<&[u8]>) {
        let old = self.trees[places.clone()].to_vec();
        let (first, last) = (bounds_of(&old[0]), bounds_of(&old[old.len() - 1]));
        let parts: Vec<(&[u8], Option<&[u8]>)> = match cut {
            Some(cut) => vec![(first.lower(), Some(cut)), (cut, last.upper())],
            None => vec![(first.lower(), last.upper())],
        };
        let new = parts.into_iter().map(|(lower, upper)| bounded(lower, upper)).collect();
        self.replace_by(places, new);
    }

    /// Replaces the trees in `places` by trees with these options.
    fn replace_by(&mut self, places: std::ops::Range<usize>, new: Vec<TreeOptions>) {
        let old = self.trees[places.clone()].to_vec();
        let new = new.into_iter().map(|options| {
            self.next_tree += 1;
            let bounds = options.bounds.as_deref().cloned().unwrap_or_default();
            let mut edit = inherited(&old, TreeId(self.next_tree), &bounds);
            if old.len() > 1 {
                edit.flushed_through = Some(self.last);
            }
            Successor { edit, options }
        });
        let new: Vec<Successor> = new.collect();
        for tree in &old {
            tree.seal(self.last);
        }
        let new = replace(&old, new).unwrap();
        self.trees.splice(places, new.iter().cloned());
        retire(&old, &new);
    }

    fn split(&mut self, cut: &[u8]) {
        let place = self.trees.iter().position(|tree| is_of(tree, cut)).unwrap();
        if self.is_hashed {
            let own = self.trees[place].options().hashes.unwrap_or(HashBounds::new(0, u64::MAX));
            let (first, last) = own.ends();
            let middle = first + (last - first) / 2;
            let halves = [HashBounds::new(first, middle), HashBounds::new(middle + 1, last)];
            let options = |half| TreeOptions { hashes: Some(half), ..small_options() };
            return self.replace_by(place..place + 1, halves.map(options).to_vec());
        }
        if bounds_of(&self.trees[place]).lower() < cut {
            self.replace(place..place + 1, Some(cut));
        }
    }

    /// Flushes and trims two neighbours, and merges them.
    fn merge(&mut self, place: usize) {
        for tree in &self.trees[place..place + 2] {
            self.flush(tree);
            while let Some(job) = trim_of(tree) {
                self.run(tree, job);
            }
            assert!(!tree.shares_tables());
        }
        self.replace(place..place + 2, None);
    }

    fn scan(&self, range: &KeyRange, at: SeqNo, direction: Direction) -> Entries {
        let mut trees = self.trees.clone();
        if direction == Direction::Reverse {
            trees.reverse();
        }
        let mut found = Vec::new();
        for tree in trees {
            let mut scan = tree.scan(range.clone(), at, direction, ScanOptions::default());
            found.extend(rest_of(&mut scan));
        }
        if self.is_hashed {
            found.sort();
        }
        if self.is_hashed && direction == Direction::Reverse {
            found.reverse();
        }
        found
    }

    fn check(&self, at: SeqNo, model: &Model) {
        let expected: Vec<_> = model.clone().into_iter().collect();
        assert!(self.scan(&KeyRange::ALL, at, Direction::Forward) == expected, "as of {at}");
        let mut back = self.scan(&KeyRange::ALL, at, Direction::Reverse);
        back.reverse();
        assert!(back == expected, "backwards as of {at}");
        for n in 0..KEYS {
            let (key, tree) = (key(n), self.tree_of(&key(n)));
            let hash = key_hash(&key, tree.options().hash_seed);
            let found = tree
                .get(&tree.view(), HashedKey { key: &key, hash }, at, &|| Default::default())
                .unwrap();
            let value = found.value.map(|value| value.to_vec());
            assert_eq!(value.as_ref(), model.get(&key), "{}", key.escape_ascii());
        }
    }

    /// Removes obsolete files, and compares those that are left with the tables of the trees.
    fn check_files(&self) {
        for number in self.context.obsolete.take() {
            self.disk.remove(&self.context.table_path(number)).unwrap();
        }
        let files = self.disk.list(Path::new("/db")).unwrap();
        let found: BTreeSet<FileNumber> = files
            .iter()
            .filter_map(|name| match parse(name) {
                Name::Numbered(_, number) => Some(number),
                _ => None,
            })
            .collect();
        assert_eq!(found, self.tables().into_keys().collect());
    }

    /// The tables, and how many trees hold each.
    fn tables(&self) -> BTreeMap<FileNumber, usize> {
        let mut tables = BTreeMap::new();
        for tree in &self.trees {
            for (_, table) in tree.view().version().tables() {
                *tables.entry(table.meta().number).or_default() += 1;
            }
        }
        tables
    }
}

fn finish<T>(mut step: impl FnMut() -> flagstone_base::Result<Option<T>>) -> T {
    loop {
        if let Some(done) = step().unwrap() {
            return done;
        }
    }
}

fn trim_of(tree: &Tree) -> Option<Job> {
    pick_trim(tree.view().version(), tree.options(), tree.floor())
}

fn rest_of(scan: &mut TreeScan) -> Entries {
    let mut found = Vec::new();
    while scan.advance().unwrap() {
        found.push((scan.key().to_vec(), scan.value().to_vec()));
    }
    found
}

const KEYS: u64 = 200;

fn filled(is_hashed: bool) -> Keyspace {
    let mut keyspace = Keyspace::new(is_hashed);
    for round in 0..3 {
        for n in 0..KEYS {
            keyspace.write(Kind::Put, &key(n), &[b'a' + round; 40]);
        }
        let tree = Arc::clone(&keyspace.trees[0]);
        keyspace.flush(&tree);
    }
    for n in (0..KEYS).step_by(3) {
        keyspace.write(Kind::Merge, &key(n), b"+");
    }
    keyspace
}

#[test]
fn two_trees_share_tables_and_a_memtable_until_each_has_its_part() {
    [false, true].into_iter().for_each(share_tables_and_a_memtable);
}

fn share_tables_and_a_memtable(is_hashed: bool) {
    let mut keyspace = filled(is_hashed);
    let before = keyspace.tables();
    let in_memory = keyspace.trees[0].stats();
    keyspace.split(&key(77));
    let halves = keyspace.trees.iter().map(|tree| tree.stats());
    let (bytes, entries) = halves.fold((0, 0), |(bytes, entries), half| {
        (bytes + half.memtable_bytes, entries + half.memtable_entries)
    });
    assert!((0..2).contains(&(in_memory.memtable_bytes - bytes)), "the memtable once: {bytes}");
    assert!((0..2).contains(&(in_memory.memtable_entries - entries)), "{entries}");
    keyspace.check(keyspace.last, &keyspace.model);
    let shared = keyspace.tables();
    assert!(shared.keys().eq(before.keys()) && shared.values().any(|trees| *trees == 2));
    let bytes = |tree: &Arc<Tree>| tree.stats().levels.iter().map(|l| l.bytes).sum::<u64>();
    let files: u64 = keyspace
        .tables()
        .keys()
        .map(|number| {
            let path = keyspace.context.table_path(*number);
            keyspace.disk.open(&path).unwrap().len()
        })
        .sum();
    let counted: u64 = keyspace.trees.iter().map(bytes).sum();
    // Half of an odd number of bytes is rounded down.
    let rounded = shared.len() as u64;
    assert!(counted <= files && counted + rounded >= files, "{counted} of {files}: each file once");
    for tree in keyspace.trees.clone() {
        assert!(tree.shares_tables() && tree.sealed_count() == 1);
        keyspace.flush(&tree);
        keyspace.check(keyspace.last, &keyspace.model);
        keyspace.check_files();
        while let Some(job) = trim_of(&tree) {
            assert!(job.to_string().starts_with("bounds:"), "{job}");
            keyspace.run(&tree, job);
            keyspace.check_files();
        }
        assert!(!tree.shares_tables());
        tree.verify().unwrap();
    }
    keyspace.check(keyspace.last, &keyspace.model);
    assert!(keyspace.tables().values().all(|trees| *trees == 1));
    assert_eq!(keyspace.context.memtable_bytes.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// A replaced tree is kept for its readers. If each counted, a database that has split and merged
/// often would have hardly any memory for the samples of its trees.
#[test]
fn only_trees_with_tables_share_the_memory_for_samples() {
    let mut keyspace = filled(false);
    let old = Arc::clone(&keyspace.trees[0]);
    let context = Arc::clone(&keyspace.context);
    let counted = |keyspace: &Keyspace| {
        for tree in keyspace.trees.iter().chain([&old]) {
            let _estimate = tree.space(&[], keyspace.last);
        }
        Arc::strong_count(&context.sampled) - 1
    };
    assert_eq!(counted(&keyspace), 1);
    keyspace.split(&key(77));
    assert_eq!(counted(&keyspace), 2);
    keyspace.merge(0);
    assert_eq!(counted(&keyspace), 1);
    keyspace.trees[0].discard();
    assert_eq!(counted(&keyspace), 0);
}

/// Clean tables of the last level stayed as they were, each with the keys of two trees.
#[test]
fn a_full_compaction_trims_the_tables_of_the_last_level() {
    [false, true].into_iter().for_each(trim_by_a_full_compaction);
}

fn trim_by_a_full_compaction(is_hashed: bool) {
    let mut keyspace = filled(is_hashed);
    let full = |keyspace: &Keyspace, tree: &Arc<Tree>| {
        keyspace.flush(tree);
        let mut pass = FullPass::new(tree.view().version());
        while let Some(job) = pass.next(tree.view().version(), tree.options()) {
            keyspace.run(tree, job);
        }
    };
    let tree = Arc::clone(&keyspace.trees[0]);
    full(&keyspace, &tree);
    keyspace.split(&key(77));
    assert!(keyspace.tables().values().any(|trees| *trees == 2));
    keyspace.trees.iter().for_each(|tree| full(&keyspace, tree));
    assert!(keyspace.tables().values().all(|trees| *trees == 1));
    keyspace.check(keyspace.last, &keyspace.model);
}

#[test]
fn a_scan_goes_on_in_the_trees_that_replace_its_own() {
    for (direction, is_hashed) in [
        (Direction::Forward, false),
        (Direction::Reverse, false),
        (Direction::Forward, true),
        (Direction::Reverse, true),
    ] {
        for taken in [0, 1, 60, 100, 199] {
            let mut keyspace = filled(is_hashed);
            let (at, model) = (keyspace.last, keyspace.model.clone());
            keyspace.snapshots.push((at, model.clone()));
            let range = KeyRange::of(Bound::Included(&key(0)), Bound::Unbounded);
            let tree = &keyspace.trees[0];
            let mut scan = tree.scan(range, at, direction, ScanOptions::default());
            let mut found = Vec::new();
            for _ in 0..taken {
                assert!(scan.advance().unwrap());
                found.push((scan.key().to_vec(), scan.value().to_vec()));
            }
            let weak = Arc::downgrade(keyspace.trees[0].view().version());
            keyspace.split(&key(100));
            keyspace.split(&key(150));
            keyspace.split(&key(50));
            assert!(weak.upgrade().is_none(), "an idle scan pins nothing of the old tree");
            (0..KEYS).for_each(|n| keyspace.write(Kind::Delete, &key(n), b""));
            let (first, rest) = (&found.last().cloned(), &mut scan);
            if let Some((last, value)) = first {
                assert_eq!((rest.key(), rest.value().to_vec()), (&last[..], value.clone()));
            }
            let some = 20.min(KEYS as usize - taken);
            for _ in 0..some {
                assert!(scan.advance().unwrap());
                found.push((scan.key().to_vec(), scan.value().to_vec()));
            }
            if is_hashed {
                keyspace.split(&key(3));
                let tree = Arc::clone(keyspace.tree_of(&key(3)));
                keyspace.flush(&tree);
                while let Some(job) = trim_of(&tree) {
                    keyspace.run(&tree, job);
                }
            } else {
                keyspace.merge(1);
                keyspace.merge(1);
            }
            found.extend(rest_of(&mut scan));
            if direction == Direction::Reverse {
                found.reverse();
            }
            assert_eq!(found, model.into_iter().collect::<Vec<_>>(), "{direction:?} {taken}");
        }
    }
}

#[test]
fn a_table_that_two_trees_hold_is_not_moved() {
    let mut keyspace = Keyspace::new(false);
    (0..KEYS).for_each(|n| keyspace.write(Kind::Put, &key(n), &[7; 40]));
    let tree = Arc::clone(&keyspace.trees[0]);
    keyspace.flush(&tree);
    keyspace.split(&key(77));
    let tree = Arc::clone(&keyspace.trees[0]);
    let view = tree.view();
    let tables: Vec<_> = view.version().tables().collect();
    let all = Job {
        inputs: tables.iter().map(|(level, table)| (*level, table.meta().number)).collect(),
        output_level: 6,
        reason: flagstone_tree::JobReason::L0,
        is_move: true,
        dropped_at: None,
        bytes: 0,
    };
    let shared = tables.iter().filter(|(_, t)| tree.options().reaches_across(t.meta())).count();
    assert!(shared > 0 && shared < tables.len());
    let one = |is_shared: bool| {
        let is_it = |t: &&(u8, &Arc<flagstone_tree::TableHandle>)| {
            tree.options().reaches_across(t.1.meta()) == is_shared
        };
        let found = tables.iter().filter(is_it).map(|(level, t)| (*level, t.meta().number));
        Job { inputs: found.collect(), ..all.clone() }
    };
    let started = |job: Job| {
        let compaction = Compaction::start(&tree, job, &[], keyspace.last).unwrap();
        (compaction.job().inputs.len(), compaction.job().is_move)
    };
    assert_eq!(started(all.clone()), (tables.len() - shared, true), "the others are moved");
    assert_eq!(started(one(true)), (shared, false), "it is written again");
    assert_eq!(started(one(false)), (tables.len() - shared, true));
}

#[test]
fn reads_and_scans_see_the_same_while_trees_split_merge_flush_and_compact() {
    let random = Rng::new("replace");
    for round in 0..24 {
        let below = |n: u64| random.below(n);
        let mut keyspace = Keyspace::new(round % 2 == 0);
        let mut scans: Vec<(TreeScan, Entries, usize)> = Vec::new();
        for _ in 0..400 {
            let place = below(keyspace.trees.len() as u64) as usize;
            let tree = Arc::clone(&keyspace.trees[place]);
            let (from, to) = (below(KEYS), below(KEYS));
            match below(40) {
                0..=15 => {
                    let value = vec![b'a' + below(26) as u8; below(60) as usize];
                    keyspace.write(Kind::Put, &key(from), &value);
                }
                16..=18 => keyspace.write(Kind::Delete, &key(from), b""),
                19..=21 => keyspace.write(Kind::Merge, &key(from), b"+"),
                22..=23 if from < to => {
                    keyspace.write(Kind::RangeDelete, &key(from), &key(to));
                }
                24..=27 => keyspace.flush(&tree),
                28..=30 => {
                    let job = pick(tree.view().version(), tree.options(), Policy::Leveling);
                    if let Some(job) = job {
                        keyspace.run(&tree, job);
                    }
                }
                31 => {
                    if let Some(job) = trim_of(&tree) {
                        keyspace.run(&tree, job);
                    }
                }
                32..=33 if keyspace.trees.len() < 8 => keyspace.split(&key(from)),
                34 if place + 1 < keyspace.trees.len() && !keyspace.is_hashed => {
                    keyspace.merge(place);
                }
                35 if keyspace.snapshots.len() < 4 => {
                    keyspace.snapshots.push((keyspace.last, keyspace.model.clone()));
                }
                36 if !keyspace.snapshots.is_empty() && scans.len() < 6 => {
                    let (at, model) = &keyspace.snapshots[0];
                    let is_in = |entry: &(&Vec<u8>, &Vec<u8>)| is_of(&tree, entry.0);
                    let expected = model.iter().filter(is_in);
                    let mut expected: Vec<_> =
                        expected.map(|(k, v)| (k.clone(), v.clone())).collect();
                    let direction = match below(2) {
                        0 => Direction::Forward,
                        _ => Direction::Reverse,
                    };
                    if direction == Direction::Reverse {
                        expected.reverse();
                    }
                    let options = ScanOptions::default();
                    scans.push((tree.scan(KeyRange::ALL, *at, direction, options), expected, 0));
                }
                37 => {
                    for (at, model) in &keyspace.snapshots {
                        keyspace.check(*at, model);
                    }
                    keyspace.check(keyspace.last, &keyspace.model);
                    keyspace.check_files();
                }
                _ => {
                    for (scan, expected, at) in &mut scans {
                        for _ in 0..below(40) {
                            let found = scan
                                .advance()
                                .unwrap()
                                .then(|| (scan.key().to_vec(), scan.value().to_vec()));
                            assert_eq!(found.as_ref(), expected.get(*at));
                            *at += usize::from(found.is_some());
                        }
                    }
                }
            }
        }
        for (scan, expected, at) in &mut scans {
            assert_eq!(rest_of(scan), expected[*at..]);
        }
        drop(scans);
        for tree in &keyspace.trees {
            keyspace.flush(tree);
            tree.verify().unwrap();
        }
        for (at, model) in &keyspace.snapshots {
            keyspace.check(*at, model);
        }
        keyspace.check(keyspace.last, &keyspace.model);
        keyspace.check_files();
    }
}
