//! Recorded histories: many transactions at once append to lists and read them, and what they have
//! read is searched for what their isolation level forbids. The same search finds anomalies where
//! transactions are done wrong, so it would find them in ours.

use crate::support::{folding, small, threaded};
use flagstone::{
    Batch, Database, ErrorKind, Expect, Isolation, Keyspace, Slice, Snapshot, Space, Transaction,
    TransactionOptions, VersionToken,
};
use flagstone_testkit::anomalies::{self, Anomaly, Level, Op, check, find};
use flagstone_testkit::{Rng, World, rounds, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: u64 = 6;

/// How transactions are done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Ours(Isolation),
    /// Reads of a snapshot, and a batch of what was written, without conditions.
    NoConditions,
    /// Conditions on what was written, and reads of what is newest.
    NoSnapshot,
    /// Each write is committed at once.
    NoBuffer,
}

/// A transaction that is open.
enum Open {
    Ours(Transaction),
    Wrong(Box<Wrong>),
}

/// A transaction that is done wrong.
struct Wrong {
    how: How,
    snapshot: Snapshot,
    own: BTreeMap<u64, Vec<u8>>,
}

fn values(list: Option<&[u8]>) -> Vec<u64> {
    let chunks = list.unwrap_or_default().chunks_exact(8);
    chunks.map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect()
}

fn name(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

impl Open {
    fn begin(db: &Database, how: How) -> Self {
        match how {
            How::Ours(isolation) => {
                let options = TransactionOptions::new().isolation(isolation);
                Self::Ours(options.begin(db).unwrap())
            }
            how => {
                let own = BTreeMap::new();
                Self::Wrong(Box::new(Wrong { how, snapshot: db.snapshot(), own }))
            }
        }
    }

    fn read(&self, kv: &Keyspace, key: u64) -> Vec<u64> {
        let found = match self {
            Self::Ours(tx) => tx.get(kv, name(key)).unwrap(),
            Self::Wrong(wrong) => wrong.read(kv, key),
        };
        values(found.as_deref())
    }

    /// Reads all keys, by a scan where there is one.
    fn read_all(&self, kv: &Keyspace, is_reverse: bool) -> Vec<Op> {
        let Self::Ours(tx) = self else {
            return (0..KEYS).map(|key| Op::Read(key, self.read(kv, key))).collect();
        };
        let scan = tx.scan(kv, ..);
        let scan = if is_reverse { scan.rev() } else { scan };
        let mut lists: BTreeMap<u64, Vec<u64>> = (0..KEYS).map(|key| (key, Vec::new())).collect();
        for entry in scan {
            let (key, list) = entry.unwrap();
            let key = u64::from_be_bytes(key[..].try_into().unwrap());
            lists.insert(key, values(Some(&list)));
        }
        lists.into_iter().map(|(key, list)| Op::Read(key, list)).collect()
    }

    fn append(&mut self, kv: &Keyspace, key: u64, value: u64, is_blind: bool) {
        let bytes = value.to_le_bytes();
        match self {
            Self::Ours(tx) if is_blind => tx.merge(kv, name(key), bytes).unwrap(),
            Self::Ours(tx) => {
                let list = tx.get(kv, name(key)).unwrap().unwrap_or_default();
                tx.put(kv, name(key), [&list[..], &bytes].concat()).unwrap();
            }
            Self::Wrong(wrong) => wrong.append(kv, key, bytes),
        }
    }

    /// Returns whether the transaction was committed.
    fn commit(self, db: &Database, kv: &Keyspace) -> bool {
        let done = match self {
            Self::Ours(tx) => tx.commit(),
            Self::Wrong(wrong) => wrong.commit(db, kv),
        };
        match done {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                false
            }
        }
    }
}

impl Wrong {
    fn read(&self, kv: &Keyspace, key: u64) -> Option<Slice> {
        if let Some(own) = self.own.get(&key) {
            return Some(Slice::copy_of(own));
        }
        match self.how {
            How::NoConditions => self.snapshot.get(kv, name(key)).unwrap(),
            _ => kv.get(name(key)).unwrap(),
        }
    }

    fn append(&mut self, kv: &Keyspace, key: u64, value: [u8; 8]) {
        let list = self.read(kv, key).unwrap_or_default();
        let list = [&list[..], &value].concat();
        match self.how {
            How::NoBuffer => kv.put(name(key), list).unwrap(),
            _ => {
                self.own.insert(key, list);
            }
        }
    }

    fn commit(self, db: &Database, kv: &Keyspace) -> flagstone::Result<()> {
        let mut batch = Batch::default();
        let version: VersionToken = self.snapshot.version();
        for (key, list) in self.own {
            batch.put(kv, name(key), list)?;
            if self.how == How::NoSnapshot {
                batch.expect(kv, name(key), Expect::UnchangedSince(version))?;
            }
        }
        db.commit(batch)
    }
}

/// What all transactions share.
struct Shared<'a> {
    db: &'a Database,
    kv: &'a Keyspace,
    time: AtomicU64,
    values: AtomicU64,
}

impl<'a> Shared<'a> {
    const fn new(db: &'a Database, kv: &'a Keyspace) -> Self {
        Self { db, kv, time: AtomicU64::new(0), values: AtomicU64::new(1) }
    }

    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }
}

/// A transaction with what it has done so far.
struct Recorded<'a> {
    shared: &'a Shared<'a>,
    open: Open,
    ops: Vec<Op>,
    begin: u64,
}

impl<'a> Recorded<'a> {
    fn begin(shared: &'a Shared<'a>, how: How) -> Self {
        let begin = shared.now();
        Self { shared, open: Open::begin(shared.db, how), ops: Vec::new(), begin }
    }

    fn step(&mut self, rng: &mut Rng) {
        let (kv, key) = (self.shared.kv, rng.below(KEYS));
        match rng.below(10) {
            0..=3 => self.ops.push(Op::Read(key, self.open.read(kv, key))),
            4 => self.ops.append(&mut self.open.read_all(kv, rng.percent(50))),
            other => {
                let value = self.shared.values.fetch_add(1, Ordering::Relaxed);
                let is_blind = other < 7;
                if !is_blind {
                    self.ops.push(Op::Read(key, self.open.read(kv, key)));
                }
                self.open.append(kv, key, value, is_blind);
                self.ops.push(Op::Append(key, value));
            }
        }
    }

    fn end(self, is_aborted: bool) -> anomalies::Transaction {
        let Self { shared, open, ops, begin } = self;
        let is_committed = !is_aborted && open.commit(shared.db, shared.kv);
        anomalies::Transaction { ops, is_committed, time: (begin, shared.now()) }
    }
}

/// Reads everything, as the last transaction of a history.
fn last(shared: &Shared<'_>) -> anomalies::Transaction {
    let mut last = Recorded::begin(shared, How::Ours(Isolation::Snapshot));
    last.ops = last.open.read_all(shared.kv, false);
    last.end(false)
}

/// A write of one key without a transaction.
fn plain(shared: &Shared<'_>, rng: &mut Rng) -> anomalies::Transaction {
    let (begin, key) = (shared.now(), rng.below(KEYS));
    let value = shared.values.fetch_add(1, Ordering::Relaxed);
    shared.kv.merge(name(key), value.to_le_bytes()).unwrap();
    let ops = vec![Op::Append(key, value)];
    anomalies::Transaction { ops, is_committed: true, time: (begin, shared.now()) }
}

fn open(world: &World, partitions: u16) -> (Database, Keyspace) {
    let db = threaded(world, small());
    let kv = db.space("kv").options(folding(partitions, "append/1")).keyspace().unwrap();
    (db, kv)
}

/// Several transactions are open at once, and one thread takes a step of one of them at a time: a
/// seed gives the same history each time.
fn interleaved(how: How, seed: u64, ended: usize) -> Vec<anomalies::Transaction> {
    let (world, mut rng) = (World::new(seed), Rng::new(seed));
    let (db, kv) = open(&world, 1 + (seed % 3) as u16);
    let shared = Shared::new(&db, &kv);
    let mut open: Vec<Recorded<'_>> = Vec::new();
    let mut history = Vec::new();
    while history.len() < ended {
        if open.len() < 5 && rng.percent(20) {
            open.push(Recorded::begin(&shared, how));
        }
        match rng.below(100) {
            0 => db.flush().unwrap(),
            1..=4 => history.push(plain(&shared, &mut rng)),
            _ if open.is_empty() => {}
            5..=74 => {
                let at = rng.index(open.len());
                open[at].step(&mut rng);
            }
            _ => {
                let ending = open.swap_remove(rng.index(open.len()));
                history.push(ending.end(rng.percent(15)));
            }
        }
    }
    history.extend(open.into_iter().map(|open| open.end(true)));
    history.push(last(&shared));
    history
}

/// Four threads run transactions, beneath them flushes and compactions.
fn of_threads(isolation: Isolation, seed: u64, each: u64) -> Vec<anomalies::Transaction> {
    let world = World::new(seed);
    let (db, kv) = open(&world, 1 + (seed % 3) as u16);
    let shared = Shared::new(&db, &kv);
    let is_over = AtomicBool::new(false);
    let run = |thread: u64| {
        let mut rng = Rng::new(seed * 100 + thread);
        let mut history = Vec::new();
        for _ in 0..each {
            if rng.percent(10) {
                history.push(plain(&shared, &mut rng));
                continue;
            }
            let mut open = Recorded::begin(&shared, How::Ours(isolation));
            (0..rng.between(1, 5)).for_each(|_| open.step(&mut rng));
            history.push(open.end(rng.percent(5)));
        }
        history
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || run(thread))).collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                db.flush().unwrap();
                db.compact().unwrap();
            }
        });
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        let ended = ended.into_iter().flat_map(|history| history.unwrap());
        let mut history: Vec<anomalies::Transaction> = ended.collect();
        history.push(last(&shared));
        history
    })
}

fn committed(history: &[anomalies::Transaction]) -> usize {
    history.iter().filter(|transaction| transaction.is_committed).count()
}

const LEVELS: [(Isolation, Level); 2] =
    [(Isolation::Snapshot, Level::Snapshot), (Isolation::Serializable, Level::Serializable)];

#[test]
fn no_history_has_an_anomaly_that_its_level_forbids() {
    let seed = seed("no_history_has_an_anomaly_that_its_level_forbids", 1);
    for round in 0..rounds(10, 1000) {
        for (isolation, level) in LEVELS {
            let history = interleaved(How::Ours(isolation), seed + round, 150);
            let found = check(&history, level);
            found.unwrap_or_else(|what| panic!("seed {}, {level:?}: {what}", seed + round));
            assert!(committed(&history) > 30, "{level:?}");
        }
    }
}

#[test]
fn no_history_of_threads_has_an_anomaly_that_its_level_forbids() {
    let seed = seed("no_history_of_threads_has_an_anomaly_that_its_level_forbids", 1);
    for round in 0..rounds(2, 200) {
        for (isolation, level) in LEVELS {
            let history = of_threads(isolation, seed + round, 120);
            let found = check(&history, level);
            found.unwrap_or_else(|what| panic!("seed {}, {level:?}: {what}", seed + round));
            assert!(committed(&history) > 50, "{level:?}");
        }
    }
}

/// The anomalies of some histories of `how`.
fn anomalies_of(how: How) -> BTreeSet<Anomaly> {
    let histories = (0..10).map(|seed| interleaved(how, seed, 150));
    histories.flat_map(|history| find(&history)).map(|found| found.anomaly).collect()
}

#[test]
fn histories_of_snapshots_show_write_skew_and_nothing_else() {
    let found = anomalies_of(How::Ours(Isolation::Snapshot));
    assert_eq!(found, BTreeSet::from([Anomaly::AntiDependencyCycle]));
    assert_eq!(anomalies_of(How::Ours(Isolation::Serializable)), BTreeSet::new());
}

#[test]
fn transactions_without_conditions_lose_updates() {
    let found = anomalies_of(How::NoConditions);
    assert!(
        found.contains(&Anomaly::LostUpdate) && found.contains(&Anomaly::LostWrite),
        "{found:?}"
    );
}

#[test]
fn transactions_without_a_snapshot_skew_reads() {
    let found = anomalies_of(How::NoSnapshot);
    assert!(found.contains(&Anomaly::SingleAntiDependency), "{found:?}");
    assert!(!found.contains(&Anomaly::AbortedRead), "{found:?}");
}

#[test]
fn transactions_without_a_buffer_show_what_is_aborted_and_unfinished() {
    let found = anomalies_of(How::NoBuffer);
    assert!(found.contains(&Anomaly::AbortedRead), "{found:?}");
    assert!(found.contains(&Anomaly::IntermediateRead), "{found:?}");
}
