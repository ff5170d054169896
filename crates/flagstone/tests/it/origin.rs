//! The bugs of the programs that this one grows out of, one test each. The comment above each test
//! says what went wrong there; here it must not.

use crate::support::{folding, hashed, open, owned, small, small_with, threaded};
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{
    Compression, Durability, ErrorKind, Json, KeyspaceOptions, Options, Plain, Routing, Space,
    Value,
};
use flagstone_testkit::{Rng, World, dump};
use std::collections::BTreeMap;

/// Bug 1. There, the partition was `abs(hash) % n`, and the absolute value of the smallest integer
/// is negative: a key with that hash went to a partition that did not exist. Here every hash has a
/// partition, for every number of them; a hundred thousand keys hit every one of 256.
#[test]
fn every_key_has_a_partition() {
    let world = World::new(1);
    let session = open(&world, &small().memory_budget(64 << 20));
    for partitions in [1, 2, 3, 7, 255, 256] {
        let kv = session
            .db
            .space(&format!("{partitions}"))
            .options(hashed(partitions))
            .keyspace()
            .unwrap();
        let mut batch = session.db.batch();
        for n in 0..20_000_u32 {
            batch.put(&kv, n.to_be_bytes(), n.to_le_bytes()).unwrap();
        }
        session.db.commit(batch).unwrap();
        for n in 0..20_000_u32 {
            let found = kv.get(n.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(n.to_le_bytes().as_slice()));
        }
        assert_eq!(kv.count().unwrap(), 20_000);
    }
}

/// Bug 2. There, the number of partitions was not stored: 4 reopened as 8 lost 501 of 1,000 keys.
/// Here it is stored, another number is refused, and saying nothing opens what there is.
#[test]
fn another_number_of_partitions_is_refused_and_loses_nothing() {
    let world = World::new(2);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    (0..1000_u32).for_each(|n| kv.put(n.to_be_bytes(), "v").unwrap());
    drop(kv);
    session.db.close().unwrap();
    let session = open(&world, &small());
    let range = hashed(1).routing(Routing::Range(vec![b"m".to_vec()]));
    for other in [hashed(8), hashed(1), range, folding(4, "append/1")] {
        let error = session.db.space("kv").options(other).keyspace().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
    }
    let kv = session.db.keyspace("kv").unwrap();
    assert_eq!(session.db.keyspaces()[0].routing, Routing::Hash(4));
    assert_eq!((0..1000_u32).filter(|n| kv.get(n.to_be_bytes()).unwrap().is_some()).count(), 1000);
}

/// Bug 3. There, a certain value stood for "deleted", so a user who stored it deleted his key. Here
/// any value is a value, the empty one too.
#[test]
fn no_value_means_deleted() {
    let world = World::new(3);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let values = [&b""[..], b"\0", b"\xFF", b"\0\0\0\0", b"__deleted__", &[0xFF; 8], b"null"];
    for (n, value) in values.iter().enumerate() {
        kv.put([n as u8], value).unwrap();
    }
    let check = |kv: &flagstone::Keyspace| {
        for (n, value) in values.iter().enumerate() {
            assert_eq!(kv.get([n as u8]).unwrap().as_deref(), Some(*value));
        }
        assert_eq!(kv.count().unwrap(), values.len() as u64);
    };
    check(&kv);
    session.db.flush().unwrap();
    check(&kv);
    session.db.compact().unwrap();
    check(&kv);
}

/// Bug 4. There, delete answered true for keys that were never there, and the count was wrong after
/// deletes and overwrites.
#[test]
fn remove_tells_whether_the_key_was_there_and_count_counts() {
    let world = World::new(4);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    assert!(!kv.remove("a").unwrap());
    for n in 0..100_u32 {
        kv.put(n.to_be_bytes(), "1").unwrap();
        kv.put(n.to_be_bytes(), "2").unwrap();
    }
    assert_eq!(kv.count().unwrap(), 100);
    for (step, n) in (0..100_u32).step_by(2).enumerate() {
        if step == 20 {
            session.db.flush().unwrap();
        }
        assert!(kv.remove(n.to_be_bytes()).unwrap());
        assert!(!kv.remove(n.to_be_bytes()).unwrap());
    }
    assert_eq!(kv.count().unwrap(), 50);
    kv.delete(0_u32.to_be_bytes()).unwrap();
    session.db.compact().unwrap();
    assert_eq!(kv.count().unwrap(), 50);
    assert!(!kv.remove(0_u32.to_be_bytes()).unwrap());
    assert!(kv.remove(1_u32.to_be_bytes()).unwrap());
    assert_eq!(kv.count().unwrap(), 49);
}

/// Bug 5. There, maps compared by their size alone and 5 was below 1.5, since integers and decimals
/// were types of their own; and bytes compared signed. Here primary keys come in one total order.
#[test]
fn keys_come_in_the_total_order_of_values() {
    let world = World::new(5);
    let session = open(&world, &small());
    let documents = session.db.space("documents").options(hashed(3)).collection().unwrap();
    let number = |literal: &str| Value::number(literal).unwrap();
    let map = |n: i64| {
        let mut map = flagstone_doc::Map::new();
        map.insert("a", n);
        Value::Map(map)
    };
    let ascending = vec![
        number("-1e30"),
        number("-9223372036854775808"),
        number("-1.5"),
        number("0"),
        number("1.5"),
        number("5"),
        number("5.0001"),
        number("18446744073709551617"),
        Value::from(""),
        Value::from("a"),
        Value::from("a\0"),
        Value::from("ab"),
        Value::from("\u{7f}"),
        Value::from("\u{80}"),
        Value::from("\u{10FFFF}"),
        map(1),
        map(2),
    ];
    let mut sorted = ascending.clone();
    sorted.sort();
    let mut rng = Rng::new(5);
    let mut shuffled = ascending.clone();
    for at in (1..shuffled.len()).rev() {
        shuffled.swap(at, rng.index(at + 1));
    }
    for key in &shuffled {
        documents.put(key.clone(), Json("{}")).unwrap();
    }
    session.db.flush().unwrap();
    let found: Vec<Value> = documents.scan(..).keys().collect::<Result<_, _>>().unwrap();
    assert_eq!(found, sorted);
    let numbers: Vec<&Value> = found.iter().filter(|v| v.as_f64().is_some()).collect();
    assert_eq!(numbers, ascending[..8].iter().collect::<Vec<_>>());
    let kv = session.db.space("bytes").options(hashed(3)).keyspace().unwrap();
    (0..=255_u8).rev().for_each(|byte| kv.put([byte], "").unwrap());
    let bytes: Vec<u8> = dump(&kv).unwrap().into_keys().map(|key| key[0]).collect();
    assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
}

/// Bug 6. There, duplicate keys, integers over 64 bits, the smallest integer, 100,000 nested arrays
/// and text in another charset than the environment's failed or came back changed.
#[test]
fn json_of_every_kind_comes_back_exactly() {
    let world = World::new(6);
    let session = open(&world, &small());
    let documents = session.db.space("documents").options(hashed(2)).collection().unwrap();
    for json in [
        r#"{"n":123456789012345678901234567890}"#,
        r#"{"n":-9223372036854775808}"#,
        r#"{"n":18446744073709551617}"#,
        r#"{"n":1.10}"#,
        r#"{"n":1e400}"#,
        r#"{"n":-0}"#,
        r#"{"text":"Grüße, 世界, 🚀"}"#,
        r#"{"":[[[[]]],{}]}"#,
    ] {
        documents.put("key", Json(json)).unwrap();
        assert_eq!(documents.get("key").unwrap().unwrap().to_json().unwrap(), json);
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let error = documents.put("deep", Json(deep)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    // Duplicates are refused or the last one wins; never both kept.
    if documents.put("twice", Json(r#"{"a":1,"a":2}"#)).is_ok() {
        let found = documents.get("twice").unwrap().unwrap();
        assert_eq!(found.to_json().unwrap(), r#"{"a":2}"#);
    }
}

/// The last segment of the log that holds anything, and how many bytes.
fn log_of(world: &World) -> (String, Vec<u8>, usize) {
    let segments = world.contents().into_iter().filter(|(name, _)| name.ends_with(".wal"));
    let used = segments.map(|(name, content)| {
        let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        (name, content, used)
    });
    used.max_by_key(|(_, _, used)| *used).unwrap()
}

/// Bug 7. There, a log whose last record was cut short by a crash refused to open. Here what was
/// never acknowledged is dropped, for a cut at any byte of it.
#[test]
fn a_torn_tail_of_the_log_is_dropped() {
    let world = World::new(7);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    kv.put("first", "1").unwrap();
    let before = log_of(&world).2;
    kv.put("second", vec![9; 100]).unwrap();
    let (name, content, after) = log_of(&world);
    for cut in before + 1..after {
        let torn = World::on(world.mem.kill(), cut as u64);
        let mut bytes = content.clone();
        bytes[cut..].fill(0);
        torn.mem.put_content(&World::path(&name), &bytes);
        let session = open(&torn, &small());
        let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
        assert_eq!(kv.get("first").unwrap().as_deref(), Some(b"1".as_slice()));
        assert_eq!(kv.get("second").unwrap(), None, "cut at {cut}");
        kv.put("third", "3").unwrap();
    }
}

/// Bug 8. There, a log of many files refused to open, or lost data while it was replayed. Here a
/// log of many segments is replayed within the memory budget, and again if that is cut short.
#[test]
fn a_log_of_many_segments_is_replayed() {
    let world = World::new(8);
    let options = small().memory_budget(16 << 20);
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    for n in 0..600_u32 {
        kv.put((n % 500).to_be_bytes(), Rng::new(u64::from(n)).bytes(9000)).unwrap();
    }
    let segments = world.files().iter().filter(|name| name.ends_with(".wal")).count();
    assert!(segments >= 4, "only {segments} segments");
    let world = world.after_kill(8);
    let check = |world: &World, options: &Options| {
        let session = open(world, options);
        assert!(session.db.stats().memtable_bytes <= options.memory_budget);
        let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
        for n in 100..600_u32 {
            let found = owned(kv.get((n % 500).to_be_bytes()).unwrap());
            assert_eq!(found, Some(Rng::new(u64::from(n)).bytes(9000)), "{n}");
        }
        assert_eq!(kv.count().unwrap(), 500);
    };
    for at in [2, 5, 9, 14] {
        world.disk.cut_power_at(at);
        drop(world.open(&small()));
        world.disk.heal();
    }
    let world = world.after_kill(9);
    check(&world, &small());
    check(&world.after_kill(10), &options);
}

/// Bug 9. There, a temporary file left by a crash kept the store from opening. Here leftovers are
/// removed, and what is not ours is left alone.
#[test]
fn leftover_files_are_removed_and_foreign_ones_stay() {
    let world = World::new(9);
    let session = open(&world, &small());
    session.db.space("kv").options(hashed(2)).keyspace().unwrap().put("a", "1").unwrap();
    session.db.close().unwrap();
    let junk = ["CURRENT.tmp", "000900.sst", "000901.manifest"];
    for name in junk.iter().chain(&["notes.txt", "report.tmp"]) {
        world.mem.put_content(&World::path(name), b"left by a crash");
    }
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    assert_eq!(kv.get("a").unwrap().as_deref(), Some(b"1".as_slice()));
    let files = world.files();
    assert!(junk.iter().all(|name| !files.contains(&(*name).to_owned())), "{files:?}");
    assert!(["notes.txt", "report.tmp"].iter().all(|name| files.contains(&(*name).to_owned())));
    // New files take no number that a leftover had.
    kv.put("b", "2").unwrap();
    session.db.flush().unwrap();
    session.db.verify().unwrap();
}

/// Bug 10. There, two files were to change together, and a crash between them left one of each.
/// Here one edit of the manifest installs the tables of all trees: at every change of the disk
/// during a flush and a compaction of four partitions, a power cut leaves all or nothing.
#[test]
fn tables_of_many_trees_are_installed_together() {
    for at in 1..70 {
        let (world, options) = (World::new(10), small_with(Durability::None));
        let session = open(&world, &options);
        let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
        let mut batch = session.db.batch();
        (0..64_u32).for_each(|n| batch.put(&kv, n.to_be_bytes(), [1; 64]).unwrap());
        session.db.commit(batch).unwrap();
        world.disk.cut_power_at(at);
        let flushed = session.db.flush().is_ok();
        let compacted = flushed && session.db.compact().is_ok();
        let after = world.after_power_cut(at);
        drop((kv, session));
        let session = open(&after, &options);
        let found = session.db.space("kv").options(hashed(4)).keyspace().unwrap().count().unwrap();
        assert!(found == 64 || (found == 0 && !flushed), "{found} of 64 after change {at}");
        session.db.verify().unwrap();
        if compacted {
            break;
        }
    }
}

/// Bug 11. There, no checksum guarded the data: damaged bytes came back as values. Here each
/// flipped bit of a table is found by a read or does not matter to it, and verify names the file.
/// (`damage` does this for every kind of file.)
#[test]
fn damaged_bytes_are_detected() {
    let world = World::new(11);
    let session = open(&world, &small());
    let plain = hashed(1).compression(Compression::None).bottom_compression(Compression::None);
    let kv = session.db.space("kv").options(plain.clone()).keyspace().unwrap();
    (0..200_u32).for_each(|n| kv.put(n.to_be_bytes(), [b'v'; 100]).unwrap());
    drop(kv);
    session.db.close().unwrap();
    let name = world.files().into_iter().find(|name| name.ends_with(".sst")).unwrap();
    let content = world.mem.content(&World::path(&name)).unwrap();
    // A byte in the midst of the values.
    let at = content.windows(50).position(|window| window == [b'v'; 50]).unwrap() + 7;
    let mut damaged = content.clone();
    damaged[at] = b'w';
    world.mem.put_content(&World::path(&name), &damaged);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(plain).keyspace().unwrap();
    let error = session.db.verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(&name), "{error}");
    let reads = (0..200_u32).map(|n| kv.get(n.to_be_bytes()));
    let mut refused = 0;
    for found in reads {
        match found {
            Ok(found) => assert_eq!(found.as_deref(), Some([b'v'; 100].as_slice())),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

/// Bug 12. There, flushes that ran side by side were installed as they finished, so an old value
/// could bury a newer one for ever. Here the newest wins, however often flushes and compactions
/// run.
#[test]
fn an_old_value_never_buries_a_newer_one() {
    let world = World::new(12);
    let db = threaded(&world, small());
    let kv = db.space("kv").options(hashed(4)).keyspace().unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (db, kv) = (&db, &kv);
                scope.spawn(move || {
                    for round in 0..60_u64 {
                        for n in 0..20_u64 {
                            let key = [thread, n as u8];
                            kv.put(key, [&round.to_le_bytes()[..], &[1; 600]].concat()).unwrap();
                        }
                        if round % 8 == u64::from(thread) {
                            db.flush().unwrap();
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let check = |kv: &flagstone::Keyspace| {
        for (_, value) in dump(kv).unwrap() {
            assert_eq!(value[..8], 59_u64.to_le_bytes());
        }
        assert_eq!(kv.count().unwrap(), 60);
    };
    check(&kv);
    db.compact().unwrap();
    check(&kv);
    drop(kv);
    db.close().unwrap();
    check(&open(&world, &small()).db.keyspace("kv").unwrap());
}

/// Bug 13. There, the log was removed as soon as a flush had written its file, before the file or
/// its directory was synced: a power cut lost both. Here, whenever a segment of the log goes, what
/// stood in it survives the hardest power cut.
#[test]
fn the_log_goes_only_after_its_data_is_durable() {
    let (world, options) = (World::new(13), small_with(Durability::Group));
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    let mut written = 0_u32;
    let mut power_cuts = 0;
    let mut segments = Vec::new();
    while power_cuts < 6 {
        kv.put(written.to_be_bytes(), Rng::new(u64::from(written)).bytes(4000)).unwrap();
        written += 1;
        assert!(written < 20_000, "no segment of the log ever goes");
        let now: Vec<_> = world.files().into_iter().filter(|n| n.ends_with(".wal")).collect();
        let is_gone = segments.iter().any(|name| !now.contains(name));
        segments = now;
        if is_gone {
            power_cuts += 1;
            let after = World::on(world.mem.crash_losing_unsynced(), u64::from(written));
            let session = open(&after, &options);
            let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
            assert_eq!(kv.count().unwrap(), u64::from(written));
        }
    }
}

/// Bug 14. There, two open results shared a buffer, so reading one changed the other. Here every
/// result is its own, and outlives snapshots, flushes, compactions and the database.
#[test]
fn results_do_not_share_memory_with_anything_that_changes() {
    let world = World::new(14);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let value = |n: u32| Rng::new(u64::from(n)).bytes(700);
    (0..300_u32).for_each(|n| kv.put(n.to_be_bytes(), value(n)).unwrap());
    let mut kept: Vec<_> =
        (0..300_u32).map(|n| kv.get(n.to_be_bytes()).unwrap().unwrap()).collect();
    session.db.flush().unwrap();
    kept.extend((0..300_u32).map(|n| kv.get(n.to_be_bytes()).unwrap().unwrap()));
    let (mut one, mut other) = (kv.scan(..), kv.scan(..).rev());
    let mut entries: Vec<_> = Vec::new();
    while let (Some(a), Some(b)) = (one.next(), other.next()) {
        entries.extend([a.unwrap(), b.unwrap()]);
    }
    (0..300_u32).for_each(|n| kv.put(n.to_be_bytes(), "overwritten").unwrap());
    session.db.compact().unwrap();
    drop((one, other, kv));
    session.db.close().unwrap();
    for (at, found) in kept.iter().enumerate() {
        assert_eq!(*found, value(at as u32 % 300));
    }
    for (key, found) in &entries {
        assert_eq!(*found, value(u32::from_be_bytes(key[..].try_into().unwrap())));
    }
}

/// Bug 15. There, an option added the number of a file instead of its size, so it did nothing. Here
/// each option of a keyspace and of a database changes what it says.
#[test]
fn every_option_changes_something() {
    let tables_of = |options: KeyspaceOptions| {
        let world = World::new(15);
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(options).keyspace().unwrap();
        for n in 0..1500_u32 {
            kv.put(n.to_be_bytes(), format!("value {n} ").repeat(20)).unwrap();
        }
        session.db.flush().unwrap();
        let upper = session.db.stats().table_bytes();
        session.db.compact().unwrap();
        let stats = session.db.stats();
        (upper, stats.table_bytes(), stats.tables(), world.mem.counts().of(Op::Append))
    };
    let with = |change: fn(KeyspaceOptions) -> KeyspaceOptions| {
        let plain = hashed(1).compression(Compression::None).bottom_compression(Compression::None);
        tables_of(change(plain.filter_bits(0)))
    };
    let plain = with(|o| o);
    assert!(with(|o| o.compression(Compression::Lz4)).0 * 2 < plain.0);
    assert!(with(|o| o.bottom_compression(Compression::Zstd(1))).1 * 2 < plain.1);
    assert!(with(|o| o.filter_bits(20)).1 > plain.1 + 1500);
    assert!(with(|o| o.block_bytes(1024)).1 > plain.1);
    assert_eq!(with(|o| o.routing(Routing::Hash(4))).2, 4);
    // The memory budget: how often a flood is flushed.
    let flushes = |memory_budget: u64| {
        let world = World::new(15);
        let session = open(&world, &small().memory_budget(memory_budget));
        let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
        (0..2000_u32).for_each(|n| kv.put(n.to_be_bytes(), [7; 1000]).unwrap());
        session.settle();
        session.db.stats().flushes
    };
    assert!(flushes(1 << 20) > flushes(4 << 20));
    // The durability: how often the log is synced.
    let syncs = |durability: Durability| {
        let world = World::new(15);
        let session = open(&world, &small_with(durability));
        let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
        (0..50_u32).for_each(|n| kv.put(n.to_be_bytes(), "v").unwrap());
        let stats = session.db.stats();
        (stats.wal_syncs, stats.wal_bytes_written)
    };
    assert_eq!(syncs(Durability::None), (0, syncs(Durability::None).1));
    assert!(syncs(Durability::None).1 < syncs(Durability::Buffered).1);
    assert!(syncs(Durability::Buffered).0 < 5);
    assert!(syncs(Durability::Group).0 >= 50 && syncs(Durability::Each).0 >= 50);
}

/// Bug 17. There, two threads that read, changed and wrote a document lost one change. Here none is
/// lost; `threads` has the same for documents and merges among many threads.
#[test]
fn concurrent_updates_lose_no_increment() {
    let world = World::new(17);
    let db = threaded(&world, small());
    let counters =
        db.space("counters").options(hashed(2)).typed_codec::<u64, i64, Plain>().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..500 {
                    counters.update(&(n % 3), |old| Some(old.unwrap_or(0) + 1)).unwrap();
                }
            });
        }
    });
    let total: i64 = (0..3).map(|n| counters.get(&n).unwrap().unwrap()).sum();
    assert_eq!(total, 2000);
}

/// Bug 18. There, memory was bounded by a number of jobs, not bytes, and a flood of puts ended in
/// writers that woke to write near-empty files. Here a flood stays within the budget, and its
/// tables are not tiny.
#[test]
fn a_flood_of_puts_stays_within_the_memory_budget() {
    let world = World::new(18);
    let options = small().memory_budget(2 << 20);
    let db = threaded(&world, options.clone());
    let kv = db.space("kv").options(hashed(8)).keyspace().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (db, kv) = (&db, &kv);
            scope.spawn(move || {
                for n in 0..2500_u32 {
                    let len = if n % 100 == 0 { 60_000 } else { 500 };
                    kv.put([thread.to_be_bytes(), n.to_be_bytes()].concat(), vec![7; len]).unwrap();
                    if n % 50 == 0 {
                        let used = db.stats().memtable_bytes;
                        assert!(used <= 2 << 20, "{used} bytes in memtables");
                    }
                }
            });
        }
    });
    let stats = db.stats();
    let written: u64 = stats.keyspaces.iter().map(|k| k.flush_bytes_written).sum();
    assert!(stats.flushes > 3);
    assert!(stats.flushes < 400, "{} flushes for {written} bytes", stats.flushes);
}

/// Bug 19. There, tables were searched oldest first, so overwritten keys returned old values;
/// compaction with deletes lost all live keys; and reopening, then compacting, panicked.
#[test]
fn overwrites_deletes_compactions_and_reopening_mix() {
    let world = World::new(19);
    let mut expected: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for round in 0..6_u8 {
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
        if round > 0 {
            // Reopened, then compacted at once.
            session.db.compact().unwrap();
            assert_eq!(dump(&kv).unwrap(), expected);
        }
        for n in 0..100_u8 {
            let key = vec![n];
            if (n + round) % 2 == 0 {
                kv.delete(&key).unwrap();
                expected.remove(&key);
            } else {
                kv.put(&key, vec![round; 100]).unwrap();
                expected.insert(key, vec![round; 100]);
            }
        }
        session.db.flush().unwrap();
        for n in 0..50_u8 {
            kv.put([n], [round, 1]).unwrap();
            expected.insert(vec![n], vec![round, 1]);
        }
        assert_eq!(dump(&kv).unwrap(), expected);
        if round % 2 == 0 {
            session.db.compact().unwrap();
        }
        for (key, value) in &expected {
            assert_eq!(owned(kv.get(key).unwrap()).as_ref(), Some(value));
        }
    }
}

/// Bug 13, again: a directory that could not be synced was taken for one that was. Here the flush
/// fails, and the log stays.
#[test]
fn a_flush_fails_whose_directory_cannot_be_synced() {
    let (world, options) = (World::new(130), small_with(Durability::Group));
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::SyncDir]).forever();
    world.disk.inject(fault);
    assert!(session.db.flush().is_err());
    let after = World::on(world.mem.crash_losing_unsynced(), 1);
    let session = open(&after, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    assert_eq!(kv.get("a").unwrap().as_deref(), Some(b"1".as_slice()));
}
