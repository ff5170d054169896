//! Recovery: torn or corrupt, two passes, a bounded log, names, the manifest's size.

use crate::support::{folding, hashed, open, small, small_with};
use flagstone::admin::Event;
use flagstone::internal::env::{MemDisk, StepExecutor};
use flagstone::{Database, Durability, ErrorKind, Json, Routing, Space};
use flagstone_testkit::{Rng, World};
use std::sync::{Arc, Mutex};

fn used(content: &[u8]) -> usize {
    content.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

/// Torn is not corrupt: a bad record that a later one says was synced is corruption; the last one
/// is torn.
#[test]
fn a_damaged_synced_record_is_corruption_and_a_damaged_last_one_is_torn() {
    let world = World::new(1);
    let options = small_with(Durability::Group);
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let mut ends = Vec::new();
    let log = |world: &World| {
        let segments = world.contents().into_iter().filter(|(name, _)| name.ends_with(".wal"));
        segments.max_by_key(|(_, content)| used(content)).unwrap()
    };
    for n in 0..5_u8 {
        kv.put([n], vec![0xAB; 50]).unwrap();
        ends.push(used(&log(&world).1));
    }
    let (name, content) = log(&world);
    for (n, end) in ends.iter().enumerate() {
        let mut damaged = content.clone();
        damaged[end - 20] ^= 1;
        let after = World::on(world.mem.kill(), n as u64);
        after.mem.put_content(&World::path(&name), &damaged);
        match after.open(&options) {
            Ok(session) => {
                assert_eq!(n, 4, "record {n} was synced, and its damage not noticed");
                assert_eq!(session.db.keyspace("kv").unwrap().count().unwrap(), 4);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "record {n}: {error:?}");
                assert!(error.to_string().contains(&name), "{error}");
                assert!(n < 4);
            }
        }
    }
}

/// A refusal changes nothing, not even what a crash left behind. (`damage` and `input` check it for
/// every other refusal.)
#[test]
fn recovery_that_is_refused_leaves_every_file_as_it_was() {
    let world = World::new(2);
    let session = open(&world, &small_with(Durability::Group));
    let kv = session.db.space("kv").options(folding(2, "append/1")).keyspace().unwrap();
    (0..50_u32).for_each(|n| kv.merge(n.to_be_bytes(), "x").unwrap());
    let world = world.after_kill(1);
    world.mem.put_content(&World::path("000999.sst"), b"left by a crash");
    let files = world.contents().into_iter();
    let (name, whole) =
        files.filter(|(name, _)| name.ends_with(".wal")).max_by_key(|(_, c)| used(c)).unwrap();
    let mut damaged = whole.clone();
    damaged[4616] ^= 0x80;
    world.mem.put_content(&World::path(&name), &damaged);
    let before = world.contents();
    for _ in 0..2 {
        assert_eq!(world.open(&small()).err().unwrap().kind(), ErrorKind::Corruption);
        let after = world.contents().into_iter().filter(|(name, _)| name != "LOCK");
        assert!(
            before.iter().filter(|(name, _)| name != "LOCK").eq(after.collect::<Vec<_>>().iter())
        );
    }
    world.mem.put_content(&World::path(&name), &whole);
    let session = open(&world, &small());
    assert_eq!(session.db.keyspace("kv").unwrap().count().unwrap(), 50);
    assert!(!world.files().contains(&"000999.sst".to_owned()));
}

/// The sizes of the log's files, summed.
fn log_bytes(world: &World) -> u64 {
    let log = world.contents().into_iter().filter(|(name, _)| name.ends_with(".wal"));
    log.map(|(_, content)| content.len() as u64).sum()
}

/// Resources are bounded: one old entry in a quiet tree pins the log only until the log is long
/// enough; then that tree is flushed.
#[test]
fn the_log_is_bounded_although_a_quiet_tree_pins_it() {
    let world = World::new(3);
    let options = small().memory_budget(4 << 20);
    let session = open(&world, &options);
    let quiet = session.db.space("quiet").options(hashed(1)).keyspace().unwrap();
    let busy = session.db.space("busy").options(hashed(2)).keyspace().unwrap();
    quiet.put("old", "1").unwrap();
    let mut longest = 0;
    for n in 0..20_000_u64 {
        busy.put((n % 3000).to_be_bytes(), Rng::new(n).bytes(1000)).unwrap();
        if n % 16 == 0 {
            session.settle();
        }
        longest = longest.max(session.db.stats().wal_bytes);
    }
    // Twice the memtables' share, and the segments that are begun or ready.
    let limit = 4 << 20;
    assert!(longest <= limit + (3 << 20), "the log grew to {longest} bytes");
    assert!(log_bytes(&world) <= limit + (4 << 20), "files of {} bytes", log_bytes(&world));
    let after = world.after_kill(3);
    let again = open(&after, &options);
    assert!(again.db.keyspace("quiet").unwrap().get("old").unwrap().is_some());
    assert_eq!(again.db.keyspace("busy").unwrap().count().unwrap(), 3000);
}

/// Resources are bounded: a new database stays small.
#[test]
fn a_new_database_takes_little_room() {
    let world = World::new(4);
    let session = open(&world, &small().memory_budget(64 << 20));
    session.db.space("kv").options(hashed(16)).keyspace().unwrap().put("a", "1").unwrap();
    session.settle();
    let bytes: usize = world.contents().iter().map(|(_, content)| content.len()).sum();
    assert!(bytes <= 16 << 20, "{bytes} bytes");
}

/// Names are defined before use: names of fields are known again after a crash, whether their
/// documents stood in the log or in tables, and ids are not given twice.
#[test]
fn names_of_fields_survive_crashes_flushes_and_compactions() {
    let mut world = World::new(5);
    let options = small_with(Durability::Group);
    let json = |n: u64| format!(r#"{{"all":{n},"field{n}":{{"nested{}":[1]}}}}"#, n % 7);
    let mut written = 0;
    for round in 0..9_u64 {
        let session = open(&world, &options);
        let documents = session.db.space("documents").options(hashed(2)).collection().unwrap();
        for n in 0..written {
            let found = documents.get(n as i64).unwrap().unwrap();
            assert_eq!(found.to_json().unwrap(), json(n));
        }
        for _ in 0..12 {
            documents.put(written as i64, Json(json(written))).unwrap();
            written += 1;
        }
        if round % 3 == 1 {
            session.db.flush().unwrap();
        } else if round % 3 == 2 {
            session.db.compact().unwrap();
        }
        world = match round % 2 {
            0 => World::on(world.mem.crash_losing_unsynced(), round + 100),
            _ => world.after_kill(round),
        };
    }
}

/// Names are defined before use: names are kept even when only unlogged commits came before the one
/// that is logged.
#[test]
fn names_first_used_by_unlogged_commits_are_known_to_logged_ones() {
    let world = World::new(6);
    let session = open(&world, &small());
    let documents = session.db.space("documents").options(hashed(2)).collection().unwrap();
    let put = |key: &str, json: &str, durability: Durability| {
        let document = flagstone::Document::from_json(json).unwrap();
        let mut batch = session.db.batch();
        batch.put(&documents, key, &document).unwrap();
        session.db.commit(batch.durability(durability)).unwrap();
    };
    put("unlogged", r#"{"first":1,"second":2}"#, Durability::None);
    put("logged", r#"{"second":2,"third":3}"#, Durability::Buffered);
    let kept = world.after_kill(1);
    let again = open(&kept, &small());
    let found = again.db.collection("documents").unwrap().get("logged").unwrap().unwrap();
    assert_eq!(found.to_json().unwrap(), r#"{"second":2,"third":3}"#);
    // And the other way round, through a flush.
    put("later", r#"{"fourth":4}"#, Durability::None);
    session.db.flush().unwrap();
    let kept = World::on(world.mem.crash_losing_unsynced(), 2);
    let again = open(&kept, &small());
    let documents = again.db.collection("documents").unwrap();
    assert_eq!(documents.count().unwrap(), 3);
    let found = documents.get("later").unwrap().unwrap();
    assert_eq!(found.to_json().unwrap(), r#"{"fourth":4}"#);
}

/// Resources are bounded: a new manifest is written before the log of the old one grows far beyond
/// its snapshot.
#[test]
fn the_manifest_is_rolled() {
    let world = World::new(7);
    let session = open(&world, &small());
    let kept = session.db.space("kept").options(hashed(2)).keyspace().unwrap();
    kept.put("a", "1").unwrap();
    let mut names = std::collections::BTreeSet::new();
    let manifests = |world: &World| {
        let files = world.contents().into_iter();
        files.filter(|(name, _)| name.ends_with(".manifest")).collect::<Vec<_>>()
    };
    for n in 0..120_u8 {
        // An edit of about 60 KB.
        let bound = [&[n], &[b'x'; 60_000][..]].concat();
        let routing = Routing::Range(vec![bound]);
        let options = hashed(1).routing(routing);
        session.db.space("large").options(options).keyspace().unwrap();
        assert!(session.db.drop_keyspace("large").unwrap());
        for (name, content) in manifests(&world) {
            assert!(content.len() < (1 << 20) + 200_000, "{name}: {} bytes", content.len());
            names.insert(name);
        }
    }
    assert!(names.len() >= 4, "never rolled: {names:?}");
    session.settle();
    let again = open(&World::on(world.mem.crash_losing_unsynced(), 1), &small());
    assert_eq!(again.db.keyspaces().len(), 1);
    assert_eq!(manifests(&world).len(), 1, "old manifests stayed");
}

/// A clean close leaves nothing to replay; a kill does, and the listener hears of it.
#[test]
fn after_a_clean_close_nothing_is_replayed() {
    let replayed_by = |mem: &MemDisk| {
        let world = World::on(mem.clone(), 77);
        let heard: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
        let list = Arc::clone(&heard);
        let (environment, _executor): (_, Arc<StepExecutor>) = world.environment();
        let listener = move |event: &Event| {
            if let Event::Opened { replayed_records, torn_bytes, .. } = event {
                list.lock().unwrap().push((*replayed_records, *torn_bytes));
            }
        };
        let builder = Database::builder(World::dir()).options(small()).listener(listener);
        drop(builder.environment(environment).open().unwrap());
        let heard = heard.lock().unwrap().clone();
        assert_eq!(heard.len(), 1);
        heard[0]
    };
    let world = World::new(8);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    (0..20_u8).for_each(|n| kv.put([n], "1").unwrap());
    assert_eq!(replayed_by(&world.mem.kill()).0, 20);
    drop(kv);
    session.db.close().unwrap();
    assert_eq!(replayed_by(&world.mem.kill()), (0, 0));
}

/// Dropping the last handle closes as `close` does: even what was never logged is there.
#[test]
fn dropping_the_last_handle_closes_the_database() {
    let world = World::new(9);
    let session = open(&world, &small_with(Durability::None));
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    drop(session);
    kv.put("b", "2").unwrap();
    drop(kv);
    let again = open(&World::on(world.mem.crash_losing_unsynced(), 1), &small());
    assert_eq!(again.db.keyspace("kv").unwrap().count().unwrap(), 2);
}
