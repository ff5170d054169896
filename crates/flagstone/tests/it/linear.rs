//! Several threads at once: what each was told fits one order of all calls, key by key; and a bank
//! whose total never changes, in whatever way it is read.

use crate::support::{hashed, small, threaded};
use flagstone::{Database, ErrorKind, Expect, Keyspace, Slice, Space, VersionToken};
use flagstone_testkit::linear::{Call, Op, check};
use flagstone_testkit::{Rng, World, rounds, seed};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: u64 = 12;

/// A clock of calls, and the values that were given.
#[derive(Default)]
struct Shared {
    time: AtomicU64,
    values: AtomicU64,
}

impl Shared {
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    fn fresh(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn value_of(found: Option<Slice>) -> Option<u64> {
    found.map(|value| u64::from_le_bytes(value[..8].try_into().unwrap()))
}

/// Values are long now and then, so that memtables fill.
fn bytes_of(value: u64) -> Vec<u8> {
    let mut bytes = value.to_le_bytes().to_vec();
    bytes.resize(8 + (value % 7 * 100) as usize, 1);
    bytes
}

/// One thread: its calls with their times.
struct Caller<'a> {
    db: &'a Database,
    kv: &'a Keyspace,
    shared: &'a Shared,
    rng: Rng,
    calls: Vec<Call>,
}

impl Caller<'_> {
    fn note(&mut self, key: u64, op: Op, from: u64) {
        let time = (from, self.shared.now());
        self.calls.push(Call { key, op, time });
    }

    fn run(mut self, calls: u64) -> Vec<Call> {
        for _ in 0..calls {
            let (key, from) = (self.rng.below(KEYS), self.shared.now());
            match self.rng.below(100) {
                0..=24 => {
                    let value = self.shared.fresh();
                    self.kv.put(key.to_be_bytes(), bytes_of(value)).unwrap();
                    self.note(key, Op::Put(value), from);
                }
                25..=34 => {
                    self.kv.delete(key.to_be_bytes()).unwrap();
                    self.note(key, Op::Delete, from);
                }
                35..=59 => {
                    let found = value_of(self.kv.get(key.to_be_bytes()).unwrap());
                    self.note(key, Op::Get(found), from);
                }
                60..=69 => self.batch(key, from),
                70..=84 => self.swap(key, from),
                85..=92 => self.snapshot(from),
                _ => self.scan(from),
            }
        }
        self.calls
    }

    /// Several keys at once.
    fn batch(&mut self, key: u64, from: u64) {
        let mut batch = self.db.batch();
        let mut ops = Vec::new();
        for key in key..(key + 3).min(KEYS) {
            let value = self.shared.fresh();
            batch.put(self.kv, key.to_be_bytes(), bytes_of(value)).unwrap();
            ops.push((key, Op::Put(value)));
        }
        self.db.commit(batch).unwrap();
        let to = self.shared.now();
        self.calls.extend(ops.into_iter().map(|(key, op)| Call { key, op, time: (from, to) }));
    }

    /// Reads a version, then writes if it is still there.
    fn swap(&mut self, key: u64, read_from: u64) {
        let found: Option<(VersionToken, Slice)> =
            self.kv.get_versioned(key.to_be_bytes()).unwrap();
        let expected = value_of(found.as_ref().map(|(_, value)| value.clone()));
        self.note(key, Op::Get(expected), read_from);
        let (from, new) = (self.shared.now(), self.shared.fresh());
        let mut batch = self.db.batch();
        match found {
            Some((version, _)) => {
                batch.expect(self.kv, key.to_be_bytes(), Expect::Version(version))
            }
            None => batch.expect(self.kv, key.to_be_bytes(), Expect::Absent),
        }
        .unwrap();
        batch.put(self.kv, key.to_be_bytes(), bytes_of(new)).unwrap();
        let is_done = match self.db.commit(batch) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                false
            }
        };
        self.note(key, Op::Swap { expected, new, is_done }, from);
    }

    /// Two keys of a snapshot: both as of a moment between its beginning and its return.
    fn snapshot(&mut self, from: u64) {
        let snapshot = self.db.snapshot();
        let to = self.shared.now();
        for key in [self.rng.below(KEYS), self.rng.below(KEYS)] {
            let found = value_of(snapshot.get(self.kv, key.to_be_bytes()).unwrap());
            self.calls.push(Call { key, op: Op::Get(found), time: (from, to) });
        }
    }

    fn scan(&mut self, from: u64) {
        let scan = self.kv.scan(..);
        let to = self.shared.now();
        let scan = if self.rng.percent(50) { scan.rev() } else { scan };
        let mut found = vec![None; KEYS as usize];
        for entry in scan {
            let (key, value) = entry.unwrap();
            let key = u64::from_be_bytes(key[..].try_into().unwrap());
            found[key as usize] = value_of(Some(value));
        }
        for (key, found) in (0..KEYS).zip(found) {
            self.calls.push(Call { key, op: Op::Get(found), time: (from, to) });
        }
    }
}

#[test]
fn what_threads_are_told_fits_one_order_of_their_calls() {
    let seed = seed("what_threads_are_told_fits_one_order_of_their_calls", 1);
    for round in 0..rounds(4, 400) {
        let world = World::new(seed + round);
        let db = threaded(&world, small());
        let kv = db.space("kv").options(hashed(1 + (round % 4) as u16)).keyspace().unwrap();
        let shared = Shared::default();
        let is_over = AtomicBool::new(false);
        let calls = std::thread::scope(|scope| {
            let caller = |thread| {
                let rng = Rng::new((seed + round) * 100 + thread);
                let caller = Caller { db: &db, kv: &kv, shared: &shared, rng, calls: Vec::new() };
                scope.spawn(move || caller.run(400))
            };
            let callers: Vec<_> = (0..4).map(caller).collect();
            // Flushes and compactions go on beneath.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    db.flush().unwrap();
                    db.compact().unwrap();
                }
            });
            let calls: Vec<Call> =
                callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
            is_over.store(true, Ordering::Relaxed);
            calls
        });
        check(&calls).unwrap_or_else(|what| panic!("seed {}: {what}", seed + round));
    }
}

const ACCOUNTS: u64 = 10;
const TOTAL: i64 = 1000;

fn amount(found: Slice) -> i64 {
    i64::from_le_bytes(found[..].try_into().unwrap())
}

/// Moves something between two accounts unless one of them changes meanwhile.
fn transfer(db: &Database, banks: &[Keyspace; 2], rng: &mut Rng) {
    let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
    if from == to {
        return;
    }
    // Accounts lie in two keyspaces by turns.
    let bank = |at: u64| &banks[at as usize % 2];
    let read = |at: u64| bank(at).get_versioned(at.to_be_bytes()).unwrap().unwrap();
    let ((from_version, from_has), (to_version, to_has)) = (read(from), read(to));
    let by = rng.below(100) as i64;
    let mut batch = db.batch();
    batch.expect(bank(from), from.to_be_bytes(), Expect::Version(from_version)).unwrap();
    batch.expect(bank(to), to.to_be_bytes(), Expect::Version(to_version)).unwrap();
    let mut put = |at: u64, has: i64| {
        batch.put(bank(at), at.to_be_bytes(), has.to_le_bytes()).unwrap();
    };
    put(from, amount(from_has) - by);
    put(to, amount(to_has) + by);
    if let Err(error) = db.commit(batch) {
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
}

#[test]
fn the_total_of_a_bank_never_changes_in_any_snapshot() {
    let seed = seed("the_total_of_a_bank_never_changes_in_any_snapshot", 1);
    for round in 0..rounds(3, 200) {
        let world = World::new(seed + round);
        let db = threaded(&world, small());
        let banks = ["a", "b"].map(|name| db.space(name).options(hashed(2)).keyspace().unwrap());
        let mut batch = db.batch();
        for at in 0..ACCOUNTS {
            let has = (TOTAL / ACCOUNTS as i64).to_le_bytes();
            batch.put(&banks[at as usize % 2], at.to_be_bytes(), has).unwrap();
        }
        db.commit(batch).unwrap();
        std::thread::scope(|scope| {
            let (db, banks) = (&db, &banks);
            for thread in 0..3 {
                scope.spawn(move || {
                    let mut rng = Rng::new((seed + round) * 10 + thread);
                    (0..600).for_each(|_| transfer(db, banks, &mut rng));
                });
            }
            scope.spawn(move || {
                for turn in 0..150 {
                    let snapshot = db.snapshot();
                    if turn % 20 == 0 {
                        db.flush().unwrap();
                    }
                    let mut total = 0;
                    for bank in banks {
                        let scan = snapshot.scan(bank, ..);
                        let scan = if turn % 2 == 0 { scan.rev() } else { scan };
                        total += scan.map(|entry| amount(entry.unwrap().1)).sum::<i64>();
                    }
                    let by_key = (0..ACCOUNTS).map(|at| {
                        let bank = &banks[at as usize % 2];
                        amount(snapshot.get(bank, at.to_be_bytes()).unwrap().unwrap())
                    });
                    assert_eq!([total, by_key.sum()], [TOTAL; 2], "round {round}, turn {turn}");
                }
            });
        });
    }
}
