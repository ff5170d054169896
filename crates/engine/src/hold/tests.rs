//! Batches that are completed under their locks, with an index of values that the tests keep.

use super::*;
use crate::content::KeyspaceContent;
use crate::history::HeldTrees;
use crate::stall::Wait;
use crate::stories::world::World;
use crate::testing::Builder;
use crate::{
    Batch, Durability, Effect, Engine, Error, ErrorKind, Expect, Isolation, Keyspace,
    KeyspaceOptions, Result, Routing, WantedOwned, owned_range,
};
use flagstone_base::key::KeyRange;
use flagstone_base::{Kind, Moment};
use flagstone_env::{Effect as DiskEffect, Failure, Fault, MemDisk, Random, SeededRandom};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn index(db: &Engine, owner: &Keyspace, name: &str) -> Keyspace {
    let options = KeyspaceOptions::new().routing(Routing::Range(Vec::new()));
    let content = KeyspaceContent::of("bytes");
    let wanted = WantedOwned { name, content, options: &options, note: b"" };
    db.create_owned(owner, &wanted).unwrap().keyspace
}

pub(crate) fn open(world: &World) -> (Engine, Keyspace) {
    let db = world.open();
    let kv = db
        .keyspace_with("kv", KeyspaceOptions::new().routing(Routing::Hash(3)).fold("append/1"))
        .unwrap();
    (db, kv)
}

/// The key of an entry: the value, and the key that has it.
pub(crate) fn entry(value: &[u8], key: &[u8]) -> Vec<u8> {
    [value, b"/", key].concat()
}

/// Keeps the entries of all indexes: what a layer above does.
fn keep(held: &mut HeldBatch<'_>) -> Result<()> {
    let mut states: BTreeMap<_, (_, State)> = BTreeMap::new();
    let mut deleted = Vec::new();
    for at in 0..held.len() {
        let HeldOp { keyspace, effect, key, value } = held.op(at);
        let state = match effect.kind() {
            Kind::Put => Some((value.to_vec(), effect.expiry())),
            Kind::Delete => None,
            Kind::Merge if !keyspace.has_owned() => continue,
            Kind::Merge => return Err(Error::invalid("a merge was not resolved")),
            Kind::RangeDelete => {
                let in_range = (keyspace.id(), key.to_vec())..(keyspace.id(), value.to_vec());
                states.range_mut(in_range).for_each(|(_, (_, state))| *state = None);
                deleted.push((keyspace.clone(), key.to_vec(), value.to_vec()));
                continue;
            }
        };
        states.insert((keyspace.id(), key.to_vec()), (keyspace.clone(), state));
    }
    for (keyspace, start, end) in deleted {
        let mut scan = held.scan(&keyspace, owned_range(&(start..end)))?;
        while scan.advance()? {
            let state = (keyspace.clone(), None);
            states.entry((keyspace.id(), scan.key().to_vec())).or_insert(state);
        }
    }
    for ((_, key), (keyspace, state)) in states {
        write_entries(held, &keyspace, &key, state)?;
    }
    Ok(())
}

type State = Option<(Vec<u8>, Option<Moment>)>;

fn write_entries(
    held: &mut HeldBatch<'_>,
    owner: &Arc<crate::KeyspaceCore>,
    key: &[u8],
    state: State,
) -> Result<()> {
    let before = held.get(owner, key)?;
    for index in &owner.owned_set().keyspaces {
        if let Some(value) = &before.value {
            held.push(index, Kind::Delete, &entry(value, key), b"")?;
        }
        if let Some((value, expiry)) = &state {
            held.push(index, Effect::put(*expiry), &entry(value, key), b"")?;
        }
    }
    Ok(())
}

pub(crate) fn commit(db: &Engine, batch: Batch) -> Result<()> {
    let (ticket, ()) = db.hold(batch).commit(keep)?;
    ticket.map_or(Ok(()), |ticket| ticket.wait())
}

pub(crate) fn all(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut scan = keyspace.scan_range(KeyRange::ALL);
    let mut found = BTreeMap::new();
    while scan.advance().unwrap() {
        found.insert(scan.key().to_vec(), scan.value().to_vec());
    }
    found
}

/// Compares each index with the documents.
pub(crate) fn check(kv: &Keyspace, indexes: &[Keyspace]) {
    let expected: BTreeSet<_> = all(kv).iter().map(|(key, value)| entry(value, key)).collect();
    for index in indexes {
        let found: BTreeSet<_> = all(index).into_keys().collect();
        assert_eq!(found, expected, "{index:?}");
    }
}

/// It waited for the end of the ingest, and kept the locks of its documents meanwhile.
#[test]
fn a_batch_that_must_not_wait_is_busy_while_an_index_is_held() {
    let world = World::new();
    let (db, kv) = open(&world);
    let by_value = index(&db, &kv, "by value");
    let parts = kv.handle().parts();
    let put = |wait: Wait| {
        let mut batch = Batch::default();
        batch.put(&kv, "a", "1").unwrap();
        db.hold(batch).wait(wait).commit(keep).map(drop)
    };
    let held = HeldTrees::new(&parts.core.history, by_value.core().trees());
    assert_eq!(put(Wait::No).unwrap_err().kind(), ErrorKind::Busy);
    drop(held);
    assert!(!parts.commits.stripes.is_any_held());
    assert_eq!(kv.get("a").unwrap(), None);
    put(Wait::Yes).unwrap();
    check(&kv, &[by_value]);
}

#[test]
fn what_is_added_under_the_locks_is_visible_with_the_batch() {
    let world = World::new();
    let (db, kv) = open(&world);
    let by_value = index(&db, &kv, "by value");
    let mut batch = Batch::default();
    batch.put(&kv, "a", "1").unwrap();
    batch.put(&kv, "b", "2").unwrap();
    batch.put(&kv, "a", "3").unwrap();
    let snapshot = db.snapshot();
    let (ticket, seen) = db
        .hold(batch)
        .commit(|held| {
            assert_eq!((held.len(), held.op(2).value), (3, &b"3"[..]));
            keep(held)?;
            assert_eq!(held.len(), 3, "without what was added");
            held.get(&kv, b"a")
        })
        .unwrap();
    assert_eq!((seen.value, seen.version), (None, None));
    // Three documents, two entries.
    assert_eq!(ticket.unwrap().seqno().get(), snapshot.seqno().get() + 5);
    check(&kv, std::slice::from_ref(&by_value));
    assert_eq!(snapshot.get(&by_value, "2/b").unwrap(), None);
    let mut batch = Batch::default();
    batch.delete_range(&kv, "a", "b").unwrap();
    batch.merge(&kv, "b", "x").unwrap();
    batch.merge(&kv, "b", "y").unwrap();
    batch.merge(&kv, "c", "z").unwrap();
    commit(&db, batch).unwrap();
    assert_eq!(all(&by_value).into_keys().collect::<Vec<_>>(), [&b"2xy/b"[..], b"z/c"]);
    check(&kv, std::slice::from_ref(&by_value));
    drop(snapshot);
    kv.clear().unwrap();
    assert_eq!((kv.count().unwrap(), by_value.count().unwrap()), (0, 0));
    assert_eq!(db.stats().tables(), 0);
}

#[test]
fn a_batch_that_is_refused_leaves_nothing_and_no_lock() {
    let world = World::new();
    let (db, kv) = open(&world);
    let by_value = index(&db, &kv, "by value");
    let batch = |condition: bool| {
        let mut batch = Batch::default();
        batch.put(&kv, "a", "1").unwrap();
        if condition {
            batch.expect(&kv, "a", Expect::Absent).unwrap();
        }
        batch
    };
    commit(&db, batch(true)).unwrap();
    let called = db.hold(batch(true)).commit(|_held| -> Result<()> { panic!("not absent") });
    assert_eq!(called.err().map(|error| error.kind()), Some(ErrorKind::Conflict));
    let refused = db.hold(batch(false)).commit(|held| {
        held.push(&by_value, Kind::Put, b"x", b"")?;
        Err::<(), _>(Error::invalid("unique"))
    });
    assert_eq!(refused.err().unwrap().to_string(), "unique");
    let misused = db.hold(batch(false)).commit(|held| {
        let too_long = vec![0; 2 << 20];
        let error = held.push(&by_value, Kind::Put, b"x", &too_long).unwrap_err();
        assert!(error.to_string().contains("with all that changes in the indexes"), "{error}");
        assert!(held.push(&by_value, Kind::Merge, b"x", b"").is_err());
        held.lock_also(&[]);
        kv.put("b", "1")
    });
    assert!(misused.err().unwrap().to_string().contains("closure of an update"));
    assert!(!kv.handle().parts().commits.stripes.is_any_held());
    check(&kv, std::slice::from_ref(&by_value));
    let noted = db.hold(batch(false)).commit(|_held| db.set_note(&by_value, b"noted"));
    assert_eq!((noted.is_ok(), by_value.note()), (true, b"noted".to_vec()));
    let nothing = db.hold(Batch::default()).key(&kv, b"a").commit(|held| held.get(&kv, b"a"));
    let (ticket, found) = nothing.unwrap();
    assert!(ticket.is_none() && found.value.is_some());
    assert!(db.hold(Batch::default()).key(&kv, b"").commit(|_held| Ok(())).is_err());
}

#[test]
fn updates_of_threads_lose_nothing_and_unique_values_stay_unique() {
    const THREADS: u64 = 4;
    let dir = tempfile::tempdir().unwrap();
    let db = Builder::at(dir.path()).open().unwrap();
    let kv = db.keyspace("kv").unwrap();
    let by_value = index(&db, &kv, "by value");
    // Each update appends a byte to a document, or takes a value that no other document may have.
    let update = |key: &[u8], n: u64| -> Result<()> {
        let hold = kv.hold(Batch::default()).key(&kv, key);
        let done = hold.commit(|held| {
            let before = held.get(&kv, key)?.value.map_or(Vec::new(), |value| value.to_vec());
            let value = match n % 3 {
                0 => vec![b'u', (n % 7) as u8],
                _ => [&before[..], b"x"].concat(),
            };
            held.lock_also(&[((*by_value).clone(), value.clone())]);
            let mut others = held.scan(&by_value, owned_range(&(entry(&value, b"")..)))?;
            while others.advance()? && others.key().starts_with(&entry(&value, b"")) {
                if others.key() != entry(&value, key) {
                    return Err(Error::new(ErrorKind::Conflict, "the value is taken"));
                }
            }
            held.push(&kv, Kind::Put, key, &value)?;
            if !before.is_empty() {
                held.push(&by_value, Kind::Delete, &entry(&before, key), b"")?;
            }
            held.push(&by_value, Kind::Put, &entry(&value, key), b"")
        });
        done.map(drop)
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let update = &update;
            scope.spawn(move || {
                let random = SeededRandom::new(thread);
                for _ in 0..300 {
                    let (key, n) = (random.next_u64() % 8, random.next_u64());
                    if let Err(error) = update(&key.to_be_bytes(), n) {
                        assert_eq!(error.to_string(), "the value is taken");
                    }
                }
            });
        }
    });
    check(&kv, std::slice::from_ref(&by_value));
    let values: Vec<_> = all(&kv).into_values().collect();
    let unique: BTreeSet<_> = values.iter().collect();
    assert_eq!(unique.len(), values.len(), "{values:?}");
    assert!(!kv.handle().parts().commits.stripes.is_any_held());
}

#[test]
fn a_transaction_that_noted_a_set_conflicts_when_that_has_changed() {
    let world = World::new();
    let (db, kv) = open(&world);
    let by_value = index(&db, &kv, "by value");
    let begin = |isolation| {
        let mut transaction = db.begin(isolation).unwrap();
        transaction.note_set(&kv);
        transaction.write(&kv, Kind::Put, b"a", b"1").unwrap();
        transaction.write(&by_value, Kind::Put, &entry(b"1", b"a"), b"").unwrap();
        transaction
    };
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let transaction = begin(isolation);
        let other = index(&db, &kv, "other");
        let refused = db.start_transaction(transaction, Durability::Buffered).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        let transaction = begin(isolation);
        let held = db.hold_transaction(transaction).unwrap();
        drop(other);
        assert!(db.drop_owned(&kv, |one| one.name() == "other").unwrap());
        assert_eq!(held.commit(|_| Ok(())).err().unwrap().kind(), ErrorKind::Conflict);
        assert_eq!((kv.count().unwrap(), by_value.count().unwrap()), (0, 0));
    }
    let transaction = begin(Isolation::Snapshot);
    db.start_transaction(transaction, Durability::Buffered).unwrap().unwrap().wait().unwrap();
    check(&kv, std::slice::from_ref(&by_value));
    // The index that it has written to is gone.
    let mut transaction = db.begin(Isolation::Serializable).unwrap();
    transaction.note_set(&kv);
    transaction.write(&by_value, Kind::Put, b"x", b"").unwrap();
    assert!(db.drop_owned(&kv, |one| one.name() == "by value").unwrap());
    let refused = db.start_transaction(transaction, Durability::Buffered).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

/// A plan of random batches, updates, deleted ranges, transactions and changes of the set.
pub(crate) struct Plan {
    pub(crate) random: SeededRandom,
    pub(crate) db: Engine,
    pub(crate) kv: Keyspace,
}

impl Plan {
    pub(crate) fn below(&self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    fn key(&self) -> Vec<u8> {
        vec![b'k', self.below(40) as u8]
    }

    fn batch(&self) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..=self.below(6) {
            let (key, value) = (self.key(), [b'a' + self.below(5) as u8]);
            let kv = &self.kv;
            match self.below(6) {
                0 => batch.delete(kv, key),
                1 => batch.merge(kv, key, value),
                2 => batch.delete_range(kv, &key, [b'k', key[1] + 1 + self.below(9) as u8]),
                3 => {
                    let expiry = self.db.now().after(Duration::from_secs(self.below(20)));
                    batch.push(kv, Effect::put(Some(expiry)), &key, &value)
                }
                _ => batch.put(kv, key, value),
            }
            .unwrap();
        }
        batch
    }

    pub(crate) fn step(&self, world: &World) -> Result<()> {
        match self.below(40) {
            0 => self.db.flush(),
            1 => self.kv.clear(),
            2 => {
                world.clock.advance(Duration::from_secs(self.below(8)));
                Ok(())
            }
            3 => {
                let mut transaction = self.db.begin(Isolation::Snapshot)?;
                transaction.write(&self.kv, Kind::Put, &self.key(), b"t")?;
                let held = self.db.hold_transaction(transaction)?;
                held.commit(keep).map(drop)
            }
            _ => commit(&self.db, self.batch()),
        }
    }
}

/// The world with `disk`. The clock goes on.
pub(crate) fn restarted(world: &World, disk: MemDisk) -> World {
    World { clock: Arc::clone(&world.clock), ..World::on(disk) }
}

#[test]
fn indexes_agree_with_their_documents_after_random_histories_and_crashes() {
    for seed in 0..6 {
        let world = World::new();
        let (db, kv) = open(&world);
        let indexes = [index(&db, &kv, "one"), index(&db, &kv, "two")];
        let plan = Plan { random: SeededRandom::new(seed), db, kv };
        for step in 0..80 {
            plan.step(&world).unwrap();
            world.steps.run_all();
            if step % 20 == 0 {
                check(&plan.kv, &indexes);
            }
        }
        check(&plan.kv, &indexes);
        for disk in [world.disk.kill(), world.disk.crash(seed), world.disk.crash_losing_unsynced()]
        {
            let after = restarted(&world, disk);
            let db = after.open();
            let Some(info) = db.keyspaces().pop() else { continue };
            let kv = db.keyspace(&info.name).unwrap();
            check(&kv, &db.owned(&kv));
            db.verify().unwrap();
        }
    }
}

#[test]
fn a_failing_disk_leaves_documents_and_entries_together_or_neither() {
    for effect in [DiskEffect::Fail(Failure::Io), DiskEffect::Fail(Failure::NoSpace)] {
        for at in (1..60).step_by(6) {
            let world = World::new();
            let (db, kv) = open(&world);
            let by_value = index(&db, &kv, "by value");
            let plan = Plan { random: SeededRandom::new(at), db, kv };
            world.faults.inject(Fault::new(effect).nth(at));
            for _ in 0..40 {
                let _may_fail = plan.step(&world);
                world.steps.run_all();
            }
            world.faults.heal();
            check(&plan.kv, &[by_value]);
            let after = restarted(&world, world.disk.crash(at));
            let db = after.open();
            let kv = db.keyspace_with("kv", KeyspaceOptions::new()).unwrap();
            check(&kv, &db.owned(&kv));
        }
    }
}

/// The writers go on while indexes come and go: each index has what was written since it exists.
#[test]
fn writers_keep_every_index_from_its_creation_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = Builder::at(dir.path()).open().unwrap();
    let kv = db.keyspace("kv").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let write = |key: u32| -> Result<()> {
        // As a layer above does: the plain path, if nothing is owned.
        if !kv.has_owned() {
            match kv.put(key.to_be_bytes(), "v") {
                Err(error) if error.kind() == ErrorKind::Conflict && kv.has_owned() => {}
                done => return done,
            }
        }
        let mut batch = Batch::default();
        batch.put(&kv, key.to_be_bytes(), "v")?;
        commit(&db, batch)
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u32)
            .map(|thread| {
                let (write, stop) = (&write, &stop);
                scope.spawn(move || {
                    // Later ones are overwritten, so that scans stay short.
                    let keys = (0..).map(|n| (thread << 24) | (n % 300));
                    for key in keys {
                        write(key).unwrap();
                        if stop.load(std::sync::atomic::Ordering::Relaxed) {
                            return;
                        }
                    }
                })
            })
            .collect();
        for round in 0..10 {
            let owned = index(&db, &kv, "by value");
            let before: BTreeSet<_> = all(&kv).into_keys().collect();
            std::thread::sleep(Duration::from_millis(round % 3));
            // What is visible now and was not before has its entry.
            let snapshot = db.snapshot();
            let mut scan = snapshot.scan(&kv, KeyRange::ALL).unwrap();
            while scan.advance().unwrap() {
                let entry = entry(b"v", scan.key());
                let is_kept = snapshot.get(&owned, &entry).unwrap().is_some();
                assert!(is_kept || before.contains(scan.key()), "{:?}", scan.key());
            }
            assert!(db.drop_owned(&kv, |one| one.name() == "by value").unwrap());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}
