//! Tests that a tree does what a map of all versions does, whatever is sealed, flushed and
//! compacted when.

use crate::bench_tree::{Append, AppendApart, BenchTree, first_full, small_options};
use crate::random::Rng;
use flagstone_base::hash::HashedKey;
use flagstone_base::{KeyRange, Kind, Moment, SeqNo};
use flagstone_tree::{
    Compaction, Direction, Flush, Fold, Policy, ScanOptions, TreeEdit, TreeOptions, TreeScan, pick,
    pick_expired,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// A write to one key, and when it expires.
type Write = (SeqNo, Kind, Vec<u8>, Option<Moment>);

/// The SeqNo and the moment of a reader.
type Reader = (SeqNo, Moment);

/// All writes so far.
#[derive(Default)]
struct Model {
    writes: BTreeMap<Vec<u8>, Vec<Write>>,
    ranges: Vec<(SeqNo, Vec<u8>, Vec<u8>)>,
}

impl Model {
    fn get(&self, key: &[u8], (at, moment): Reader) -> Option<Vec<u8>> {
        let ranges = self.ranges.iter().filter(|(seqno, start, end)| {
            *seqno <= at && start.as_slice() <= key && key < end.as_slice()
        });
        let mut events: Vec<(SeqNo, Kind, &[u8])> =
            ranges.map(|(seqno, ..)| (*seqno, Kind::Delete, &[][..])).collect();
        let writes = self.writes.get(key).into_iter().flatten();
        events.extend(writes.filter(|w| w.0 <= at).map(|(seqno, kind, value, expiry)| {
            // A put that has expired is a tombstone.
            if expiry.is_some_and(|expiry| expiry <= moment) {
                (*seqno, Kind::Delete, &[][..])
            } else {
                (*seqno, *kind, value.as_slice())
            }
        }));
        events.sort_by_key(|event| event.0);
        let last = events.iter().rposition(|event| event.1 != Kind::Merge);
        let base = last.map(|last| events[last]).filter(|(_, kind, _)| *kind == Kind::Put);
        let base = base.map(|(.., value)| value);
        let operands = &events[last.map_or(0, |last| last + 1)..];
        if operands.is_empty() {
            return base.map(<[u8]>::to_vec);
        }
        let operands: Vec<&[u8]> = operands.iter().map(|(.., operand)| *operand).collect();
        Append.fold(key, base, &operands)
    }

    fn scan(&self, range: &KeyRange, at: Reader) -> Vec<(Vec<u8>, Vec<u8>)> {
        let keys = self.writes.keys().filter(|key| range.contains(key));
        keys.filter_map(|key| Some((key.clone(), self.get(key, at)?))).collect()
    }
}

struct Run {
    rng: Rng,
    real: BenchTree,
    model: Model,
    keys: u64,
    /// How many of a thousand writes are not merges.
    bases: u64,
    /// How many of a thousand puts expire.
    expiring: u64,
    /// Work in progress, one step at a time, and edits that are not installed yet.
    flush: Option<Flush>,
    compaction: Option<Compaction>,
    edits: VecDeque<TreeEdit>,
}

impl Run {
    fn key(&self) -> Vec<u8> {
        // Long common prefixes, keys that are prefixes of other keys, zero bytes.
        let n = self.rng.below(self.keys);
        let mut key = b"common-prefix/".to_vec();
        if n.is_multiple_of(3) {
            key.truncate(2);
        }
        key.extend_from_slice(format!("{:03}", n / 2).as_bytes());
        key.extend(std::iter::repeat_n(0, (n % 2) as usize));
        key
    }

    fn write(&mut self) {
        let key = self.key();
        let kind = match self.rng.below(14) {
            _ if self.rng.below(1000) >= self.bases => Kind::Merge,
            0..=9 => Kind::Put,
            10..=12 => Kind::Delete,
            _ => Kind::RangeDelete,
        };
        if kind == Kind::RangeDelete {
            let end = self.key();
            let (start, end) = if key < end { (key, end) } else { (end, key) };
            if start < end {
                let seqno = self.real.write(kind, &start, &end);
                self.model.ranges.push((seqno, start, end));
            }
            return;
        }
        let value = match kind {
            Kind::Put => {
                format!("v{}-{}", self.real.last.get(), "x".repeat(self.rng.below(40) as usize))
            }
            Kind::Merge => format!("+{}", self.real.last.get()),
            _ => String::new(),
        };
        let expires = kind == Kind::Put && self.rng.below(1000) < self.expiring;
        let soon = Duration::from_millis(self.rng.below(200));
        let expiry = expires.then(|| self.real.moment.after(soon));
        let seqno = match expiry {
            Some(expiry) => self.real.put_until(&key, value.as_bytes(), expiry),
            None => self.real.write(kind, &key, value.as_bytes()),
        };
        let write = (seqno, kind, value.into_bytes(), expiry);
        self.model.writes.entry(key).or_default().push(write);
    }

    /// The snapshots, and a reader of now.
    fn readers(&self) -> Vec<Reader> {
        let snapshots = self.real.snapshots.iter().copied();
        let now = (self.real.last, self.real.moment);
        snapshots.zip(self.real.moments.iter().copied()).chain([now]).collect()
    }

    fn check_gets(&self, count: u64) {
        for _ in 0..count {
            let key = self.key();
            for (at, moment) in self.readers() {
                let found = self.real.look_by(&key, at, moment);
                let expected = self.model.get(&key, (at, moment));
                let (key, dump) = (key.escape_ascii(), self.real.dump());
                assert_eq!(found, expected, "{key} at {at} {moment}\n{dump}");
            }
        }
    }

    fn check_scan(&self) {
        let bound = |rng: &Rng| match rng.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        };
        let range = KeyRange { start: bound(&self.rng), end: bound(&self.rng) };
        let readers = self.readers();
        let (at, moment) = readers[self.rng.below(readers.len() as u64) as usize];
        let mut expected =
            if range.is_empty() { Vec::new() } else { self.model.scan(&range, (at, moment)) };
        let options = ScanOptions { moment, ..ScanOptions::default() };
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut scan = self.real.tree.scan(range.clone(), at, direction, options);
            let mut found = Vec::new();
            while scan.advance().unwrap() {
                scan.show().unwrap();
                found.push((scan.key().to_vec(), scan.value().to_vec()));
                if self.rng.below(20) == 0 {
                    scan.park();
                }
                if self.rng.below(2) == 0 {
                    self.visit_near(&mut scan, &mut found);
                }
            }
            assert_eq!(found, expected, "{range:?} at {at} {direction:?}\n{}", self.real.dump());
            expected.reverse();
        }
    }

    /// Visits some of the keys that follow in a block.
    fn visit_near(&self, scan: &mut TreeScan, found: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        let (before, most) = (found.len(), self.rng.below(8) as usize);
        let visited = scan.visit_near(most, |key, value| {
            let is_taken = self.rng.below(6) > 0;
            if is_taken {
                found.push((key.to_vec(), value.to_vec()));
            }
            is_taken
        });
        assert_eq!(visited, found.len() - before);
        assert!(visited <= most);
        // The last one is current, with its value.
        let (key, value) = found.last().unwrap();
        assert_eq!((scan.key(), &*scan.value()), (key.as_slice(), value.as_slice()));
        assert_eq!(scan.value_bytes(), value);
    }

    /// Begins, continues or installs something: everything interleaves.
    fn step(&mut self) {
        match self.rng.below(7) {
            0 if self.flush.is_none() => self.flush = self.real.start_flush(),
            1 if self.compaction.is_none() => {
                let version = std::sync::Arc::clone(self.real.tree.view().version());
                let (snapshots, last) = (&self.real.snapshots, self.real.last);
                let safe = self.real.safe();
                let policy = [Policy::Leveling, Policy::Tiering][self.rng.below(2) as usize];
                let job = match self.rng.below(7) {
                    6 => pick_expired(&version, self.real.tree.options(), policy, safe),
                    0 => first_full(&version, self.real.tree.options()),
                    5 => self.real.tree.pick_space(snapshots, last).map(|(job, _)| job),
                    1 | 2 => pick(&version, self.real.tree.options(), Policy::Leveling),
                    _ => pick(&version, self.real.tree.options(), Policy::Tiering),
                };
                let started =
                    job.and_then(|job| Compaction::start(&self.real.tree, job, snapshots, last));
                self.compaction = started.map(|compaction| compaction.expiring_through(safe));
            }
            2 => {
                if let Some(edit) = self.edits.pop_front() {
                    self.real.install(&edit);
                }
            }
            3 if self.rng.below(8) == 0 => {
                self.flush = None;
                self.compaction = None;
            }
            3 if self.rng.below(8) == 0 => {
                if let Some(edit) = self.edits.pop_back() {
                    self.real.tree.abandon(&edit);
                }
            }
            n if n % 2 == 0 => {
                if let Some(edit) = self.flush.as_mut().and_then(|f| f.step().unwrap()) {
                    self.edits.push_back(edit);
                    self.flush = None;
                }
            }
            _ => {
                if let Some(edit) = self.compaction.as_mut().and_then(|c| c.step().unwrap()) {
                    self.edits.push_back(edit);
                    self.compaction = None;
                }
            }
        }
    }

    /// Abandons what runs and installs what is finished.
    fn settle(&mut self) {
        self.flush = None;
        self.compaction = None;
        while let Some(edit) = self.edits.pop_front() {
            self.real.install(&edit);
        }
    }

    /// Notes the folded value of a key next to its operands, as a database does for long chains.
    fn note_folded(&self) {
        let (key, at) = (self.key(), self.real.last);
        let (view, hash) = (self.real.tree.view(), self.real.hash(&key));
        let now = || self.real.moment;
        let found = self.real.tree.get(&view, HashedKey { key: &key, hash }, at, &now).unwrap();
        // The state of a key that expires depends on the reader.
        if let Some(seqno) = found.seqno.filter(|_| found.expiry.is_none()) {
            self.real.tree.note_folded(&key, hash, seqno, found.value.as_deref());
        }
    }

    fn maintain(&mut self) {
        for _ in 0..self.rng.below(20) {
            self.step();
            let passed = Duration::from_millis(self.rng.below(5));
            self.real.moment = self.real.moment.after(passed);
        }
        match self.rng.below(12) {
            0..=2 => {
                self.real.tree.seal(self.real.last);
            }
            3 => {
                self.settle();
                self.real.flush();
            }
            4..=5 => {
                self.settle();
                self.real.compact_once();
            }
            6 if self.rng.below(4) == 0 => {
                self.settle();
                self.real.compact_full();
            }
            7 if self.rng.below(4) == 0 => {
                self.settle();
                self.real.flush();
                self.real.reopen();
            }
            _ => {}
        }
        match self.rng.below(6) {
            0 if self.real.snapshots.len() < 4 => {
                self.real.snapshots.push(self.real.last);
                self.real.moments.push(self.real.moment);
            }
            1 if !self.real.snapshots.is_empty() => {
                let place = self.rng.below(self.real.snapshots.len() as u64) as usize;
                self.real.snapshots.remove(place);
                self.real.moments.remove(place);
            }
            _ => {}
        }
    }
}

impl Run {
    fn new(test: &str, options: TreeOptions, keys: u64, bases: u64) -> Self {
        let (rng, real, model) = (Rng::new(test), BenchTree::new(options), Model::default());
        let (flush, compaction, edits) = (None, None, VecDeque::new());
        Self { rng, real, model, keys, bases, expiring: 0, flush, compaction, edits }
    }

    /// Runs rounds of fewer than `writes` writes, background work and checks. Then compacts
    /// everything.
    fn play(mut self, rounds: u64, writes: u64) {
        for _ in 0..rounds {
            for _ in 0..self.rng.below(writes) {
                self.write();
                if self.rng.below(100) == 0 {
                    self.note_folded();
                }
            }
            self.maintain();
            self.check_gets(12);
            self.check_scan();
        }
        self.settle();
        self.real.flush();
        self.real.reopen();
        self.real.snapshots.clear();
        self.real.moments.clear();
        self.real.compact_full();
        self.check_gets(30);
        self.check_scan();
        self.real.moment = self.real.moment.after(Duration::from_secs(1));
        while self.real.expire_once() {}
        self.check_gets(30);
        self.check_scan();
        self.real.tree.verify().unwrap();
        let stats = self.real.tree.stats();
        let left: u64 = stats.levels.iter().map(|l| l.deletes + l.range_deletes).sum();
        assert_eq!(left, 0, "{}", self.real.dump());
    }
}

#[test]
fn a_tree_is_a_map_of_versions() {
    for (rounds, keys) in [(60, 12), (60, 60), (40, 400)] {
        // From trees of one segment to trees of many.
        for job_bytes_min in [64 << 20, 16 << 10, 4 << 10] {
            let options = TreeOptions { job_bytes_min, ..small_options() };
            Run::new("a_tree_is_a_map_of_versions", options, keys, 700).play(rounds, 100);
        }
    }
}

#[test]
fn a_tree_whose_entries_expire_is_a_map_of_versions() {
    for (rounds, keys, expiring) in [(60, 12, 1000), (60, 60, 500), (40, 400, 900)] {
        for job_bytes_min in [64 << 20, 4 << 10] {
            let options = TreeOptions { job_bytes_min, ..small_options() };
            let run = Run::new("a_tree_whose_entries_expire", options, keys, 900);
            Run { expiring, ..run }.play(rounds, 100);
        }
    }
}

/// Chains of hundreds of operands, with few values between them, held whole or in small parts.
#[test]
fn a_tree_with_long_chains_is_a_map_of_versions() {
    let folds: [Arc<dyn Fold>; 2] = [Arc::new(Append), Arc::new(AppendApart)];
    for fold in folds {
        for (keys, bases, fold_bytes) in [(1, 2, 4 << 20), (2, 5, 3000), (6, 10, 0)] {
            let options =
                TreeOptions { fold: Some(Arc::clone(&fold)), fold_bytes, ..small_options() };
            let run = Run::new("a_tree_with_long_chains", options, keys, bases);
            run.play(25, 900);
        }
    }
}
