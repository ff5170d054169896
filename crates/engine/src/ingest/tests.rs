//! Ingests beside merges and checkpoints.

use crate::hold::tests::open;
use crate::stories::world::World;
use crate::{Engine, ErrorKind, Keyspace, Result};
use flagstone_env::names::FileKind;
use flagstone_env::{Disk, Effect, Failure, Fault, Op};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const KEYS: u8 = 20;

fn ingest(kv: &Keyspace, value: &str) -> Result<()> {
    let mut ingest = kv.ingest()?;
    (0..KEYS).try_for_each(|key| ingest.put(&[key], value.as_bytes(), None))?;
    ingest.finish().map(drop)
}

fn value(db: &Engine, key: u8) -> String {
    let kv = db.keyspace("kv").unwrap();
    String::from_utf8(kv.get([key]).unwrap().unwrap().to_vec()).unwrap()
}

/// If it got a number while the refused edit could still come back, a crash would fold it onto a
/// value that its writer has not seen.
#[test]
fn a_merge_beside_a_refused_ingest_comes_before_it_or_is_refused() {
    let mut came_back = 0;
    for nth in (1..5).cycle().take(24) {
        let world = World::new();
        let (db, kv) = open(&world);
        (0..KEYS).for_each(|key| kv.put([key], "old").unwrap());
        db.flush().unwrap();
        let (merged, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut done = Ok(());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    match kv.merge([3], "x") {
                        Ok(()) => drop(merged.fetch_add(1, Ordering::Relaxed)),
                        // Writers that fill the memory meanwhile wait for a flush, which fails
                        // because there is no new manifest.
                        Err(error) => assert!(
                            matches!(error.kind(), ErrorKind::Io | ErrorKind::OutOfSpace),
                            "{error}"
                        ),
                    }
                }
            });
            while merged.load(Ordering::Relaxed) < 10 {
                std::thread::yield_now();
            }
            let append = Fault::new(Effect::FailAfter(Failure::Io)).on(&[Op::Append]);
            world.faults.inject(append.of(FileKind::Manifest).nth(nth));
            let create = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Create]);
            world.faults.inject(create.of(FileKind::Manifest).forever());
            done = ingest(&kv, "new");
            is_over.store(true, Ordering::Relaxed);
        });
        let crashed = World::on(world.disk.kill());
        let db = crashed.open();
        if value(&db, 4) == "new" {
            let after = value(&db, 3);
            assert_eq!(value(&db, KEYS - 1), "new", "it came as a whole");
            // Where it was not refused, later merges are folded onto what it wrote.
            assert!(after == "new" || (done.is_ok() && after.starts_with("new")), "{after}");
            came_back += usize::from(done.is_err());
        } else {
            let count = merged.load(Ordering::Relaxed);
            assert_eq!(value(&db, 3), format!("old{}", "x".repeat(count)));
        }
        db.verify().unwrap();
    }
    assert!(came_back > 0);
}

/// So the second attempt of a cut is not spoiled as the first was.
#[test]
fn an_ingest_waits_while_a_cut_is_taken_again() {
    let world = World::new();
    let (db, kv) = open(&world);
    ingest(&kv, "first").unwrap();
    let again = kv.handle().parts().upkeep.cuts.write();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| ingest(&kv, "more"));
        // Long enough to get there. An ingest that gets there later waits, too.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(value(&db, 3), "first");
        drop(again);
        waits.join().unwrap().unwrap();
    });
    assert_eq!(value(&db, 3), "more");
}

#[test]
fn checkpoints_do_not_starve_where_ingests_follow_one_another() {
    let world = World::new();
    let (db, kv) = open(&world);
    ingest(&kv, "first").unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    ingest(&kv, "more").unwrap();
                    kv.put("other", "1").unwrap();
                }
            });
        }
        let checkpoints: Vec<_> = (0..8).map(|n| db.checkpoint(format!("copy {n}"))).collect();
        is_over.store(true, Ordering::Relaxed);
        for checkpoint in checkpoints {
            assert!(checkpoint.unwrap().tables > 0);
        }
    });
    assert!(world.disk.exists(Path::new("copy 7")).unwrap());
}
