//! Batches that are completed under their locks, and reads, beside changes of what their keyspace
//! owns. The engine alone: a layer above would keep the index.

use crate::explore::{explore, yielding};
use flagstone::internal::env::sync::shuttle::thread;
use flagstone::{Durability, ErrorKind, Result};
use flagstone_base::key::KeyRange;
use flagstone_engine::content::{
    ContentFactory, DefinitionKind, Described, KeyspaceContent, OpenContent, escaped,
};
use flagstone_engine::{
    Batch, Config, Engine, Environment, HeldBatch, Keyspace, KeyspaceOptions, Kind, Routing,
    WantedContent, WantedOwned, owned_range,
};
use flagstone_testkit::World;
use std::collections::BTreeSet;
use std::sync::Arc;

struct Bytes;

impl ContentFactory for Bytes {
    fn open(&self, _keyspace: Described<'_>) -> Result<OpenContent> {
        Ok(OpenContent {
            fold: None,
            definitions: Vec::new(),
            attachment: Arc::new(()),
            above_keys: None,
            key_text: escaped,
        })
    }

    fn defines(&self, _content: &KeyspaceContent, _kind: DefinitionKind) -> bool {
        false
    }

    fn guess(
        &self,
        _has_definitions: bool,
        _fold: Option<&str>,
    ) -> (KeyspaceContent, Option<&'static str>) {
        (KeyspaceContent::of("bytes"), None)
    }
}

fn opened(world: &World) -> (Engine, Keyspace) {
    opened_with(world, Routing::Hash(2))
}

/// An engine, and a keyspace of bytes with this routing.
pub(crate) fn opened_with(world: &World, routing: Routing) -> (Engine, Keyspace) {
    let environment = world.environment().0;
    let environment = Environment {
        disk: environment.disk,
        clock: environment.clock,
        random: environment.random,
        executor: Some(yielding()),
    };
    let mut config = Config::new(World::dir(), Arc::new(Bytes));
    config.environment = environment;
    config.options.memory_budget = 1 << 20;
    config.options.compaction_workers = 1;
    let db = Engine::open(config).unwrap();
    let wanted = WantedContent {
        content: KeyspaceContent::of("bytes"),
        fold_if_new: None,
        dictionary_if_new: false,
    };
    let options = KeyspaceOptions::new().routing(routing);
    let kv = db.keyspace_of("kv", &wanted, Some(&options)).unwrap();
    (db, kv)
}

fn index(db: &Engine, kv: &Keyspace) -> Keyspace {
    let options = KeyspaceOptions::new().routing(Routing::Range(Vec::new()));
    let content = KeyspaceContent::of("bytes");
    let wanted = WantedOwned { name: "index", content, options: &options, note: b"" };
    db.create_owned(kv, &wanted).unwrap().keyspace
}

/// Keeps an entry for each key: its existence.
fn keep(held: &mut HeldBatch<'_>) -> Result<()> {
    let mut entries = Vec::new();
    for at in 0..held.len() {
        let op = held.op(at);
        if op.effect.kind() != Kind::RangeDelete {
            entries.push((op.keyspace.clone(), op.effect.kind(), op.key.to_vec()));
            continue;
        }
        let mut scan = held.scan(op.keyspace, owned_range(&(op.key..op.value)))?;
        while scan.advance()? {
            entries.push((op.keyspace.clone(), Kind::Delete, scan.key().to_vec()));
        }
    }
    for (owner, kind, key) in entries {
        for owned in &owner.owned_set().keyspaces {
            held.push(owned, kind, &key, b"")?;
        }
    }
    Ok(())
}

/// Puts a key as a layer above does: by the plain path, if nothing is owned.
fn put(kv: &Keyspace, key: &str) {
    if !kv.has_owned() {
        match kv.put(key, "v") {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
            Ok(()) => return,
        }
    }
    let mut batch = Batch::default();
    batch.put(kv, key, "v").unwrap();
    kv.hold(batch).commit(keep).unwrap();
}

fn keys(keyspace: &Keyspace) -> BTreeSet<Vec<u8>> {
    let mut scan = keyspace.scan_range(KeyRange::ALL);
    let mut keys = BTreeSet::new();
    while scan.advance().unwrap() {
        keys.insert(scan.key().to_vec());
    }
    keys
}

/// A layer above plans a read again if the set of indexes has changed meanwhile.
#[test]
fn an_index_that_refuses_to_be_read_is_no_longer_in_its_set() {
    explore("an_index_that_refuses_to_be_read_is_no_longer_in_its_set", || {
        let (db, kv) = opened(&World::new(1));
        let index = index(&db, &kv);
        let epoch = kv.owned_set().epoch;
        let reads = {
            let kv = kv.clone();
            thread::spawn(move || {
                for _ in 0..8 {
                    let Err(error) = index.get("a") else { continue };
                    assert_eq!(error.kind(), ErrorKind::InvalidInput);
                    assert_ne!(kv.owned_set().epoch, epoch);
                }
            })
        };
        assert!(db.drop_owned(&kv, |one| one.name() == "index").unwrap());
        reads.join().unwrap();
    });
}

/// What is not visible when the index has been created was prepared with it.
#[test]
fn no_write_misses_an_index_that_is_created_before_it() {
    explore("no_write_misses_an_index_that_is_created_before_it", || {
        let (db, kv) = opened(&World::new(1));
        let writers = ["a", "b"].map(|name| {
            let kv = kv.clone();
            thread::spawn(move || (0..3).for_each(|n| put(&kv, &format!("{name}{n}"))))
        });
        let creates = {
            let (db, kv) = (db.clone(), kv.clone());
            thread::spawn(move || {
                let index = index(&db, &kv);
                (keys(&kv), index)
            })
        };
        writers.into_iter().for_each(|thread| thread.join().unwrap());
        let (before, index) = creates.join().unwrap();
        let kept = keys(&index);
        let missed: Vec<_> = keys(&kv).into_iter().filter(|key| !kept.contains(key)).collect();
        assert!(missed.iter().all(|key| before.contains(key)), "{missed:?}, {before:?}");
    });
}

/// A deleted range removes the entries of all that it deletes, also of what transactions commit
/// that read nothing.
#[test]
fn a_deleted_range_leaves_no_entry_of_what_it_deletes() {
    explore("a_deleted_range_leaves_no_entry_of_what_it_deletes", || {
        let (db, kv) = opened(&World::new(1));
        let index = index(&db, &kv);
        let writer = {
            let kv = kv.clone();
            thread::spawn(move || ["a", "b"].iter().for_each(|key| put(&kv, key)))
        };
        let transaction = {
            let (db, kv, index) = (db.clone(), kv.clone(), index.clone());
            thread::spawn(move || {
                let isolation = flagstone_engine::Isolation::Serializable;
                let mut transaction = db.begin(isolation).unwrap();
                transaction.note_set(&kv);
                transaction.write(&kv, Kind::Put, b"c", b"v").unwrap();
                transaction.write(&index, Kind::Put, b"c", b"").unwrap();
                db.start_transaction(transaction, Durability::Buffered).unwrap();
            })
        };
        let deletes = {
            let kv = kv.clone();
            thread::spawn(move || {
                let mut batch = Batch::default();
                batch.delete_range(&kv, "a", "d").unwrap();
                kv.hold(batch).commit(keep).unwrap();
            })
        };
        [writer, transaction, deletes].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(keys(&kv), keys(&index));
    });
}

/// Both hold the locks of their keys when they ask for the value.
#[test]
fn of_two_writers_of_a_unique_value_one_sees_the_other() {
    explore("of_two_writers_of_a_unique_value_one_sees_the_other", || {
        let (db, kv) = opened(&World::new(1));
        let index = index(&db, &kv);
        let claims = ["a", "b"].map(|key| {
            let (kv, index) = (kv.clone(), index.clone());
            thread::spawn(move || {
                let mut batch = Batch::default();
                batch.put(&kv, key, "value").unwrap();
                let claimed = kv.hold(batch).commit(|held| {
                    held.lock_also(&[((*index).clone(), b"value".to_vec())]);
                    let is_free = held.get(&index, b"value")?.value.is_none();
                    if is_free {
                        held.push(&index, Kind::Put, b"value", key.as_bytes())?;
                    }
                    is_free.then_some(()).ok_or_else(|| flagstone::Error::invalid("taken"))
                });
                claimed.is_ok()
            })
        });
        let claimed = claims.map(|thread| thread.join().unwrap());
        assert_eq!(claimed.iter().filter(|claimed| **claimed).count(), 1);
        assert_eq!(keys(&kv).len(), 1);
    });
}

/// The writer goes on while a fill takes its floor and ingests.
#[test]
fn a_fill_beside_a_writer_misses_nothing_and_brings_nothing_back() {
    explore("a_fill_beside_a_writer_misses_nothing_and_brings_nothing_back", || {
        let (db, kv) = opened(&World::new(1));
        ["a", "b", "c"].iter().for_each(|key| kv.put(key, "v").unwrap());
        let index = index(&db, &kv);
        let writer = {
            let kv = kv.clone();
            thread::spawn(move || {
                let mut batch = Batch::default();
                batch.delete(&kv, "b").unwrap();
                kv.hold(batch).commit(keep).unwrap();
                put(&kv, "d");
            })
        };
        let fill = db.begin_fill(&index).unwrap();
        let mut scan = fill.snapshot().scan(&kv, KeyRange::ALL).unwrap();
        let mut ingest = fill.ingest().unwrap();
        while scan.advance().unwrap() {
            ingest.put(scan.key(), b"", None).unwrap();
        }
        ingest.finish().unwrap();
        drop(fill);
        writer.join().unwrap();
        db.flush().unwrap();
        assert_eq!(keys(&kv), keys(&index));
    });
}
