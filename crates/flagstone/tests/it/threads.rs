//! Is it right under many threads? Histories are checked, not samples: every read against the write
//! that made it, by SeqNo.

use crate::support::{folding, hashed, number, open, owned, small, small_with, threaded};
use flagstone::changes::SeqNo;
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{Database, Durability, ErrorKind, Expect, Json, Keyspace, Options, Space};
use flagstone_testkit::{Rng, World, rounds, seed};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Percent of gets, puts and deletes.
const PUT_HEAVY: (u64, u64) = (20, 70);
const DELETE_HEAVY: (u64, u64) = (20, 40);
const GET_HEAVY: (u64, u64) = (80, 15);

fn key_of(thread: u64, n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&flagstone_testkit::Rng::new(n).number().to_be_bytes());
    key[8..].copy_from_slice(&(thread << 32 | n).to_be_bytes());
    key
}

fn big_value(thread: u64, n: u64) -> Vec<u8> {
    let mut value = [thread.to_le_bytes(), n.to_le_bytes()].concat().repeat(256);
    value.truncate(4096);
    value
}

fn mixed_operations(kv: &Keyspace, thread: u64, mix: (u64, u64), operations: u64, seed: u64) {
    let mut rng = Rng::new(seed ^ thread << 40);
    let mut known: HashMap<u64, u64> = HashMap::new();
    for at in 0..operations {
        let n = rng.below(2000);
        let key = key_of(thread, n);
        let dice = rng.below(100);
        if dice < mix.0 {
            let found = owned(kv.get(key).unwrap());
            assert_eq!(found, known.get(&n).map(|at| big_value(thread, *at)), "{thread}/{n}");
        } else if dice < mix.0 + mix.1 {
            kv.put(key, big_value(thread, at)).unwrap();
            known.insert(n, at);
        } else if rng.percent(50) {
            assert_eq!(kv.remove(key).unwrap(), known.remove(&n).is_some());
        } else {
            kv.delete(key).unwrap();
            known.remove(&n);
        }
    }
    for n in 0..2000 {
        let found = owned(kv.get(key_of(thread, n)).unwrap());
        assert_eq!(found, known.get(&n).map(|at| big_value(thread, *at)), "{thread}/{n}");
    }
}

/// The multi-threaded test of the origin: 4 partitions, one put-heavy, one delete-heavy and eight
/// get-heavy threads, 16-byte keys, 4 KiB values.
#[test]
fn ten_threads_with_keys_of_their_own_read_what_they_wrote() {
    let seed = seed("ten_threads_with_keys_of_their_own_read_what_they_wrote", 2);
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().memory_budget(16 << 20);
    let db = Database::builder(dir.path()).options(options).open().unwrap();
    let kv = db.space("kv").options(hashed(4)).keyspace().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..10 {
            let (kv, mix) = (&kv, [PUT_HEAVY, DELETE_HEAVY, GET_HEAVY][thread.min(2) as usize]);
            scope.spawn(move || mixed_operations(kv, thread, mix, 25_000, seed));
        }
    });
    db.verify().unwrap();
}

/// One write of a shared key, as its thread knows it.
type Written = (u64, SeqNo, Option<Vec<u8>>);

#[derive(Default)]
struct Seen {
    writes: Vec<Written>,
    /// Key, SeqNo and value of plain reads.
    reads: Vec<(u64, SeqNo, Vec<u8>)>,
    /// Key, SeqNo of the snapshot and what it showed.
    at_snapshots: Vec<(u64, SeqNo, Option<Vec<u8>>)>,
}

fn share_keys(db: &Database, kv: &Keyspace, thread: u64, seed: u64, operations: u64) -> Seen {
    const KEYS: u64 = 200;
    let mut rng = Rng::new(seed ^ thread << 32);
    let mut seen = Seen::default();
    let mut floors: HashMap<u64, SeqNo> = HashMap::new();
    for at in 0..operations {
        let n = rng.below(KEYS);
        let key = n.to_be_bytes();
        match rng.below(100) {
            0..=39 => {
                let mut value = [thread.to_le_bytes(), at.to_le_bytes()].concat();
                value.resize(16 + rng.index(600), thread as u8);
                let value = rng.percent(85).then_some(value);
                let mut batch = db.batch();
                match &value {
                    Some(value) => batch.put(kv, key, value).unwrap(),
                    None => batch.delete(kv, key).unwrap(),
                }
                let ticket = db.commit_start(batch).unwrap();
                let seqno = ticket.seqno();
                ticket.wait().unwrap();
                assert!(floors.insert(n, seqno).is_none_or(|floor| floor < seqno));
                seen.writes.push((n, seqno, value));
            }
            40..=84 => {
                if let Some((version, value)) = kv.get_versioned(key).unwrap() {
                    let seqno = version.seqno();
                    let floor = floors.insert(n, seqno).unwrap_or(SeqNo::ZERO);
                    assert!(floor <= seqno, "key {n} went back from {floor} to {seqno}");
                    seen.reads.push((n, seqno, value.to_vec()));
                }
            }
            85..=96 => {
                let snapshot = db.snapshot();
                for n in [n, (n + 1) % KEYS] {
                    let found = owned(snapshot.get(kv, n.to_be_bytes()).unwrap());
                    seen.at_snapshots.push((n, snapshot.version().seqno(), found));
                }
            }
            _ => {
                let snapshot = db.snapshot();
                let range = key.to_vec()..(n + 10).min(KEYS).to_be_bytes().to_vec();
                let mut found: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
                for entry in snapshot.scan(kv, range) {
                    let (key, value) = entry.unwrap();
                    found.insert(u64::from_be_bytes(key[..].try_into().unwrap()), value.to_vec());
                }
                for n in n..(n + 10).min(KEYS) {
                    seen.at_snapshots.push((n, snapshot.version().seqno(), found.get(&n).cloned()));
                }
            }
        }
    }
    seen
}

/// A reader sees one moment: whatever a reader sees is what history holds at that SeqNo.
#[test]
fn sixteen_threads_that_share_keys_see_one_history() {
    let seed = seed("sixteen_threads_that_share_keys_see_one_history", 4);
    let operations = rounds(3000, 100_000);
    let world = World::new(seed);
    let db = threaded(&world, Options::new().memory_budget(2 << 20));
    let kv = db.space("kv").options(hashed(4)).keyspace().unwrap();
    let done = AtomicBool::new(false);
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let upkeep = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.compact().unwrap();
            }
        });
        let threads: Vec<_> = (0..16)
            .map(|thread| {
                let (db, kv) = (&db, &kv);
                scope.spawn(move || share_keys(db, kv, thread, seed, operations))
            })
            .collect();
        let seen = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        upkeep.join().unwrap();
        seen
    });
    let mut history: HashMap<u64, BTreeMap<SeqNo, Option<Vec<u8>>>> = HashMap::new();
    for (key, seqno, value) in seen.iter().flat_map(|seen| seen.writes.clone()) {
        let twice = history.entry(key).or_default().insert(seqno, value);
        assert_eq!(twice, None, "{seqno} was given twice");
    }
    let none = BTreeMap::new();
    for (key, seqno, value) in seen.iter().flat_map(|seen| &seen.reads) {
        let written = history.get(key).unwrap_or(&none).get(seqno);
        assert_eq!(written, Some(&Some(value.clone())), "key {key} at {seqno}");
    }
    for (key, seqno, value) in seen.iter().flat_map(|seen| &seen.at_snapshots) {
        let before = history.get(key).unwrap_or(&none).range(..=*seqno).next_back();
        let expected = before.and_then(|(_, value)| value.clone());
        assert_eq!(*value, expected, "key {key} in the snapshot at {seqno}");
    }
    for (key, writes) in &history {
        let last = writes.values().next_back().unwrap();
        assert_eq!(owned(kv.get(key.to_be_bytes()).unwrap()), *last, "key {key} at the end");
    }
    db.verify().unwrap();
}

/// A read-modify-write is one step: reading, changing and writing a document is one step to all
/// others.
#[test]
fn concurrent_updates_of_documents_lose_no_increment() {
    let world = World::new(1);
    let db = threaded(&world, small());
    let documents = db.space("documents").options(hashed(4)).collection().unwrap();
    for n in 0..5 {
        documents.put(n, Json(br#"{"score":0,"name":"x"}"#)).unwrap();
    }
    let each = rounds(400, 20_000);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let documents = &documents;
            scope.spawn(move || {
                for n in 0..each {
                    let key = ((n + thread) % 5) as i64;
                    let found = documents.update(key, |d| d.inc("score", 1));
                    assert!(found.unwrap());
                }
            });
        }
        scope.spawn(|| (0..5).for_each(|_| db.flush().unwrap()));
    });
    let score = |n: i64| documents.get(n).unwrap().unwrap().int("score").unwrap();
    assert_eq!((0..5).map(score).sum::<i64>(), 8 * each as i64);
}

/// A fold is total: merge operands are folded exactly once, in memory, by flushes, by compactions
/// and when the log is replayed.
#[test]
fn concurrent_merges_lose_no_increment_and_count_none_twice() {
    let world = World::new(2);
    let db = threaded(&world, small());
    let counters = db.space("counters").options(folding(4, "add-i64/1")).keyspace().unwrap();
    let each = rounds(1500, 100_000);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let counters = &counters;
            scope.spawn(move || {
                for n in 0..each {
                    let key = ((n + thread) % 7).to_be_bytes();
                    counters.merge(key, 1_i64.to_le_bytes()).unwrap();
                    if n % 64 == 0 {
                        counters.get(key).unwrap();
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..4 {
                db.flush().unwrap();
                db.compact().unwrap();
            }
        });
    });
    let total =
        |kv: &Keyspace| (0..7_u64).map(|n| number(kv.get(n.to_be_bytes()).unwrap())).sum::<i64>();
    assert_eq!(total(&counters), 8 * each as i64);
    let after = world.after_kill(3);
    let session = open(&after, &small());
    let recovered =
        session.db.space("counters").options(folding(4, "add-i64/1")).keyspace().unwrap();
    assert_eq!(total(&recovered), 8 * each as i64);
}

/// A read-modify-write is one step: of many that remove a key, one hears that it was there.
#[test]
fn one_of_many_removers_hears_that_the_key_was_there() {
    let world = World::new(3);
    let db = threaded(&world, small());
    let kv = db.space("kv").options(hashed(4)).keyspace().unwrap();
    for n in 0..500_u64 {
        kv.put(n.to_be_bytes(), b"x").unwrap();
    }
    let heard = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let removed = (0..500_u64).filter(|n| kv.remove(n.to_be_bytes()).unwrap()).count();
                heard.fetch_add(removed as u64, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(heard.into_inner(), 500);
    assert_eq!(kv.count().unwrap(), 0);
}

/// A read-modify-write is one step: batches with conditions move money between accounts in two
/// keyspaces; every snapshot sees all of it.
#[test]
fn every_snapshot_sees_all_the_money_while_batches_move_it() {
    const ACCOUNTS: u64 = 40;
    let seed = seed("every_snapshot_sees_all_the_money_while_batches_move_it", 5);
    let world = World::new(seed);
    let db = threaded(&world, small());
    let kvs = [
        db.space("a").options(hashed(4)).keyspace().unwrap(),
        db.space("b").options(hashed(3)).keyspace().unwrap(),
    ];
    for n in 0..ACCOUNTS {
        kvs[n as usize % 2].put(n.to_be_bytes(), 100_i64.to_le_bytes()).unwrap();
    }
    let conflicts = AtomicU64::new(0);
    let transfer = |rng: &mut Rng| {
        let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
        if from == to {
            return;
        }
        let mut batch = db.batch();
        for (n, change) in [(from, -1), (to, 1)] {
            let kv = &kvs[n as usize % 2];
            let (version, value) = kv.get_versioned(n.to_be_bytes()).unwrap().unwrap();
            let value = i64::from_le_bytes(value[..].try_into().unwrap()) + change;
            batch.expect(kv, n.to_be_bytes(), Expect::Version(version)).unwrap();
            batch.put(kv, n.to_be_bytes(), value.to_le_bytes()).unwrap();
        }
        match db.commit(batch) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Conflict => {
                conflicts.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => panic!("{error:?}"),
        }
    };
    let sum = || -> i64 {
        let snapshot = db.snapshot();
        let entries = kvs.iter().flat_map(|kv| snapshot.scan(kv, ..));
        entries.map(|entry| i64::from_le_bytes(entry.unwrap().1[..].try_into().unwrap())).sum()
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..6)
            .map(|thread| {
                let transfer = &transfer;
                scope.spawn(move || {
                    let mut rng = Rng::new(seed + thread);
                    (0..rounds(1500, 50_000)).for_each(|_| transfer(&mut rng));
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        assert_eq!(sum(), 100 * ACCOUNTS as i64);
                    }
                })
            })
            .collect();
        let upkeep = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.flush().unwrap();
            }
        });
        movers.into_iter().for_each(|mover| mover.join().unwrap());
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        upkeep.join().unwrap();
    });
    assert_eq!(sum(), 100 * ACCOUNTS as i64);
    eprintln!("{} conflicts", conflicts.into_inner());
}

/// Writers of one history: each commits `(thread, counter)` and says which SeqNo it got.
struct Writers {
    /// What each thread was told, in order: counter and SeqNo.
    acknowledged: Vec<Told>,
}

/// A list that one thread appends to and others copy.
#[derive(Default)]
struct Told(Mutex<Vec<(u64, SeqNo)>>);

impl Told {
    fn push(&self, counter: u64, seqno: SeqNo) {
        self.0.lock().unwrap().push((counter, seqno));
    }

    fn get(&self) -> Vec<(u64, SeqNo)> {
        self.0.lock().unwrap().clone()
    }
}

fn shared_key(thread: u64, counter: u64) -> Vec<u8> {
    [thread.to_be_bytes(), counter.to_be_bytes()].concat()
}

impl Writers {
    fn new(threads: usize) -> Self {
        Self { acknowledged: (0..threads).map(|_| Default::default()).collect() }
    }

    fn write(&self, db: &Database, kvs: &[Keyspace], thread: usize, stop: &AtomicBool) {
        for counter in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let mut batch = db.batch();
            for kv in kvs {
                let value = vec![thread as u8; (counter % 700) as usize];
                batch.put(kv, shared_key(thread as u64, counter), value).unwrap();
            }
            let Ok(ticket) = db.commit_start(batch) else { continue };
            let seqno = ticket.seqno();
            if ticket.wait().is_ok() {
                self.acknowledged[thread].push(counter, seqno);
            }
        }
    }

    /// Every batch acknowledged in `before` is there whole, and what is there of those acknowledged
    /// at all is a prefix of history.
    fn check(&self, kvs: &[Keyspace], before: &[Vec<(u64, SeqNo)>]) {
        let mut there = Vec::new();
        let mut missing = Vec::new();
        for (thread, log) in self.acknowledged.iter().enumerate() {
            for (counter, seqno) in log.get() {
                let key = shared_key(thread as u64, counter);
                let found = kvs.iter().filter(|kv| kv.get(&key).unwrap().is_some()).count();
                assert!(found == 0 || found == kvs.len(), "a batch was broken: {thread}/{counter}");
                if found == 0 {
                    missing.push(seqno);
                    let promised = before[thread].iter().any(|(c, _)| *c == counter);
                    assert!(!promised, "{thread}/{counter} was acknowledged and is gone");
                } else {
                    there.push(seqno);
                }
            }
        }
        let first_missing = missing.iter().min().copied().unwrap_or(SeqNo::MAX);
        let last_there = there.iter().max().copied().unwrap_or(SeqNo::ZERO);
        assert!(last_there < first_missing, "a hole in history at {first_missing}");
    }
}

fn crash_among_threads(durability: Durability, power_cut: bool, seed: u64) {
    const THREADS: usize = 6;
    let world = World::new(seed);
    let options = small_with(durability);
    let db = threaded(&world, options.clone());
    let make = |db: &Database| {
        [
            db.space("a").options(hashed(4)).keyspace().unwrap(),
            db.space("b").options(hashed(2)).keyspace().unwrap(),
        ]
    };
    let kvs = make(&db);
    let (writers, stop) = (Writers::new(THREADS), AtomicBool::new(false));
    let mut crashes = Vec::new();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (writers, db, kvs, stop) = (&writers, &db, &kvs, &stop);
            scope.spawn(move || writers.write(db, kvs, thread, stop));
        }
        let mut rng = Rng::new(seed);
        for round in 0..rounds(4, 40) {
            let total = || writers.acknowledged.iter().map(|log| log.get().len()).sum::<usize>();
            let goal = total() + 100 + rng.index(800);
            while total() < goal {
                std::thread::yield_now();
            }
            // Without a log, only what a flush that has returned covers is promised.
            let promised: Vec<_> = writers.acknowledged.iter().map(|log| log.get()).collect();
            if durability == Durability::None {
                db.flush().unwrap();
            }
            let after = if power_cut {
                world.after_power_cut(seed + round)
            } else {
                world.after_kill(seed + round)
            };
            crashes.push((promised, after));
        }
        stop.store(true, Ordering::Relaxed);
    });
    for (promised, after) in crashes {
        let session = open(&after, &options);
        writers.check(&make(&session.db), &promised);
    }
}

/// Nothing acknowledged is lost: a crash at any moment among many writers.
#[test]
fn a_power_cut_among_many_group_commits_keeps_the_acknowledged_and_leaves_no_hole() {
    let name = "a_power_cut_among_many_group_commits_keeps_the_acknowledged_and_leaves_no_hole";
    crash_among_threads(Durability::Group, true, seed(name, 6));
}

#[test]
fn a_kill_among_many_buffered_commits_keeps_the_acknowledged_and_leaves_no_hole() {
    let name = "a_kill_among_many_buffered_commits_keeps_the_acknowledged_and_leaves_no_hole";
    crash_among_threads(Durability::Buffered, false, seed(name, 7));
}

#[test]
fn a_crash_among_many_unlogged_commits_keeps_a_whole_cut_behind_the_last_flush() {
    let name = "a_crash_among_many_unlogged_commits_keeps_a_whole_cut_behind_the_last_flush";
    crash_among_threads(Durability::None, true, seed(name, 8));
}

/// A refusal changes nothing: one write of the log fails among many writers. Those batches are
/// refused and absent, now and after a crash; the rest are there; nothing is appended after a hole.
#[test]
fn a_failed_log_write_among_many_writers_leaves_no_hole() {
    const THREADS: usize = 6;
    let seed = seed("a_failed_log_write_among_many_writers_leaves_no_hole", 9);
    for round in 0..rounds(6, 100) {
        let world = World::new(seed + round);
        let options = small_with(Durability::Buffered);
        let db = threaded(&world, options.clone());
        let kv = db.space("kv").options(hashed(4)).keyspace().unwrap();
        let effect = [
            Effect::Fail(Failure::Io),
            Effect::Short(40, Failure::Io),
            Effect::FailAfter(Failure::NoSpace),
        ][round as usize % 3];
        let fault = Fault::new(effect).on(&[Op::Append]).of(FileKind::Wal).nth(20 + round * 7);
        world.disk.inject(fault);
        let refused = Mutex::new(Vec::new());
        let accepted = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let (kv, refused, accepted) = (&kv, &refused, &accepted);
                scope.spawn(move || {
                    for counter in 0..200 {
                        let key = shared_key(thread, counter);
                        let list = if kv.put(&key, [7; 30]).is_ok() { accepted } else { refused };
                        list.lock().unwrap().push(key);
                    }
                });
            }
        });
        let (refused, accepted) = (refused.into_inner().unwrap(), accepted.into_inner().unwrap());
        assert!(!refused.is_empty() && world.disk.hits() == 1, "the fault was never hit");
        let check = |kv: &Keyspace| {
            assert!(accepted.iter().all(|key| kv.get(key).unwrap().is_some()));
            assert!(refused.iter().all(|key| kv.get(key).unwrap().is_none()));
            assert_eq!(kv.count().unwrap(), accepted.len() as u64);
        };
        check(&kv);
        let after = world.after_kill(round);
        let session = open(&after, &options);
        check(&session.db.space("kv").options(hashed(4)).keyspace().unwrap());
    }
}
