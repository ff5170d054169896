//! Torn is not corrupt: the manifest lists the log's files before they are used, and segments say
//! how far the manifest was synced, so a file of either that is lost or rolled back is missed.

use crate::support::{files_of, hashed, open, small_with};
use flagstone::admin::TryCommit;
use flagstone::internal::env::names::{CURRENT, FileKind};
use flagstone::internal::env::{Disk, Effect, Failure, Fault, MemDisk, Op};
use flagstone::{Database, Durability, Error, ErrorKind, Keyspace, Options, Space};
use flagstone_testkit::{Session, World};

fn options() -> Options {
    small_with(Durability::Each)
}

fn put(kv: &Keyspace, from: u32, to: u32) {
    (from..to).for_each(|n| kv.put(n.to_be_bytes(), [1; 500]).unwrap());
}

fn count(session: &Session) -> u64 {
    session.db.space("kv").options(hashed(1)).keyspace().unwrap().count().unwrap()
}

fn copy(disk: &MemDisk) -> World {
    World::on(disk.kill(), 1)
}

fn corruption(world: &World, name: &str) -> Error {
    let error = world.open(&options()).err().expect("it opens with a shorter history");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains(name), "{name}: {error}");
    error
}

/// Several segments of synced puts, killed.
fn killed() -> World {
    let world = World::new(8);
    let session = open(&world, &options());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    put(&kv, 0, 1000);
    world.after_kill(1)
}

/// Without the newest segment a database opened with 916 of 1,000 synced puts, without any with
/// none.
#[test]
fn every_file_of_the_log_is_missed() {
    let image = killed();
    let logs = files_of(&image, FileKind::Wal);
    assert!(logs.len() > 2, "{logs:?}");
    for name in &logs {
        let world = copy(&image.mem);
        world.mem.remove(&World::path(name)).unwrap();
        corruption(&world, name);
    }
    let world = copy(&image.mem);
    logs.iter().for_each(|name| world.mem.remove(&World::path(name)).unwrap());
    corruption(&world, &logs[0]);
    assert_eq!(count(&open(&image, &options())), 1000);
}

/// The first 512 bytes of the newest segment held both copies of its header: without them a
/// database opened empty.
#[test]
fn no_lost_sector_of_a_segment_shortens_history() {
    let image = killed();
    let path = |name: &String| World::path(name);
    let is_used = |name: &&String| !image.mem.content(&path(name)).unwrap().is_empty();
    let logs = files_of(&image, FileKind::Wal);
    let newest = logs.iter().rfind(is_used).unwrap();
    let whole = image.mem.content(&path(newest)).unwrap();
    // The last synced group is the exception.
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() - 600;
    for sector in (0..end / 512).map(|sector| sector * 512) {
        let world = copy(&image.mem);
        let mut damaged = whole.clone();
        damaged[sector..sector + 512].fill(0);
        world.mem.put_content(&path(newest), &damaged);
        match world.open(&options()) {
            Ok(session) => {
                assert!([0, 4096].contains(&sector) || whole[sector..sector + 512] == [0; 512]);
                assert_eq!(count(&session), 1000, "sector at {sector}");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                assert!(error.to_string().contains(newest), "{error}");
            }
        }
    }
    for name in [newest, &logs[0]] {
        let world = copy(&image.mem);
        let mut damaged = image.mem.content(&path(name)).unwrap();
        damaged[..512].fill(0);
        damaged[4096..4608].fill(0);
        world.mem.put_content(&path(name), &damaged);
        corruption(&world, name);
    }
}

/// A manifest from before the newest segment was begun.
#[test]
fn a_manifest_that_was_rolled_back_is_missed() {
    let world = World::new(8);
    let session = open(&world, &options());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    put(&kv, 0, 10);
    let old = copy(&world.mem);
    for n in 0..20 {
        put(&kv, n * 200, n * 200 + 200);
        session.settle();
    }
    session.db.flush().unwrap();
    put(&kv, 9000, 9400);
    let image = copy(&world.mem);
    let manifests = files_of(&image, FileKind::Manifest);
    let [manifest] = &manifests[..] else { panic!("{manifests:?}") };
    let whole = image.mem.content(&World::path(manifest)).unwrap();
    let synced_long_ago = old.mem.content(&World::path(manifest)).unwrap();
    assert!(synced_long_ago.len() < whole.len() && whole.starts_with(&synced_long_ago));
    image.mem.put_content(&World::path(manifest), &synced_long_ago);
    let error = image.open(&options()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(image.files().contains(&CURRENT.to_owned()));
}

/// Cuts the power at every change of the disk of a run with many rotations, flushes and recycled
/// segments.
#[test]
fn a_power_cut_around_listing_rotation_recycling_and_release_loses_nothing_synced() {
    let run = |world: &World| -> Result<u32, Error> {
        let mut synced = 0;
        let mut work = || -> Result<(), Error> {
            let session = world.open(&options())?;
            let kv = session.db.space("kv").options(hashed(1)).keyspace()?;
            for n in 0..40_u32 {
                kv.put(n.to_be_bytes(), vec![n as u8; 200 << 10])?;
                synced = n + 1;
                for _ in 0..12 {
                    flagstone::internal::env::Executor::assist(&*session.executor);
                }
                if n % 9 == 8 {
                    session.db.flush()?;
                }
            }
            session.db.close()
        };
        let ended = work();
        if ended.is_err() {
            assert!(world.disk.is_off(), "{ended:?}");
        }
        Ok(synced)
    };
    let world = World::new(3);
    assert_eq!(run(&world).unwrap(), 40);
    let counts = world.mem.counts();
    assert!(counts.of(Op::Rename) > 4, "segments are recycled: {counts}");
    let total: u64 = Op::CHANGES.iter().map(|op| counts.of(*op)).sum();
    let stride = (total / flagstone_testkit::rounds(60, 2000)).max(1);
    for at in (1..=total).step_by(stride as usize) {
        let world = World::new(3);
        world.disk.cut_power_at(at);
        let synced = run(&world).unwrap();
        for luck in 0..4 {
            let after = world.after_power_cut(at * 4 + luck);
            let session = after.open(&options()).unwrap_or_else(|e| panic!("cut at {at}: {e}"));
            let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
            for n in 0..synced {
                let value = kv.get(n.to_be_bytes()).unwrap();
                assert!(value.is_some_and(|value| value[0] == n as u8), "cut at {at}: {n}");
            }
            // The next life goes on, and is cut off as well.
            put(&kv, 100, 110);
            let again = after.after_power_cut(luck).open(&options());
            let again = again.unwrap_or_else(|e| panic!("cut at {at}, again: {e}"));
            let kv = again.db.space("kv").options(hashed(1)).keyspace().unwrap();
            assert!(kv.get(109_u32.to_be_bytes()).unwrap().is_some(), "cut at {at}, again");
        }
    }
}

/// Segments of 4 MiB, and memory for several of them.
fn roomy() -> Options {
    small_with(Durability::Buffered).memory_budget(64 << 20)
}

/// Puts until `files` files of the log are in use. There is no background work.
fn put_until_used(world: &World, kv: &Keyspace, files: usize) {
    let is_used = |name: &&String| !world.mem.content(&World::path(name)).unwrap().is_empty();
    for n in 0..2000_u32 {
        if n % 64 == 0 && files_of(world, FileKind::Wal).iter().filter(is_used).count() >= files {
            return;
        }
        kv.put(n.to_be_bytes(), vec![0; 20 << 10]).unwrap();
    }
    panic!("the log does not go on");
}

/// A commit costs no sync more, and a rotation less: it had synced the directory.
#[test]
fn a_rotation_syncs_neither_manifest_nor_directory() {
    let world = World::new(5);
    let session = open(&world, &roomy());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("first", "1").unwrap();
    let (before, counts) = (session.db.stats().wal_syncs, world.mem.counts());
    put_until_used(&world, &kv, 3);
    let after = world.mem.counts();
    assert_eq!(after.of(Op::SyncDir), counts.of(Op::SyncDir));
    assert_eq!(after.of(Op::Create), counts.of(Op::Create));
    let log_syncs = session.db.stats().wal_syncs - before;
    assert_eq!(after.of(Op::Sync) - counts.of(Op::Sync), log_syncs);
    assert_eq!(log_syncs, 2, "each segment that was left");
}

/// The manifest had lost a keyspace that had no writes yet: it was gone without an error.
#[test]
fn a_manifest_that_ends_before_a_segment_was_begun_is_missed() {
    let world = World::new(5);
    let session = open(&world, &roomy());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("first", "1").unwrap();
    let manifest = files_of(&world, FileKind::Manifest).remove(0);
    let old = world.mem.content(&World::path(&manifest)).unwrap();
    session.db.space("lost").options(hashed(1)).keyspace().unwrap();
    let image = copy(&world.mem);
    image.mem.put_content(&World::path(&manifest), &old);
    assert!(image.open(&roomy()).is_ok(), "the last frame is the exception");
    put_until_used(&world, &kv, 2);
    let image = copy(&world.mem);
    image.mem.put_content(&World::path(&manifest), &old);
    let error = corruption(&image, &manifest);
    assert!(error.to_string().contains("the manifest ends here"), "{error}");
}

/// The edit that drops a keyspace may be the last frame of the manifest: damage to it takes the
/// drop back. Then the keyspace is whole, or the open is refused; once a segment was begun after
/// the drop, the damage is missed.
#[test]
fn a_drop_in_the_last_frame_is_taken_back_whole_or_missed() {
    for is_flushed in [false, true] {
        let world = World::new(5);
        let session = open(&world, &roomy());
        let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
        let gone = session.db.space("gone").options(hashed(1)).keyspace().unwrap();
        put(&gone, 0, 100);
        kv.put("first", "1").unwrap();
        if is_flushed {
            session.db.flush().unwrap();
        }
        drop(gone);
        assert!(session.db.drop_keyspace("gone").unwrap());
        let manifest = files_of(&world, FileKind::Manifest).remove(0);
        let with_damage = || {
            let image = copy(&world.mem);
            let mut bytes = image.mem.content(&World::path(&manifest)).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            image.mem.put_content(&World::path(&manifest), &bytes);
            image
        };
        if is_flushed {
            corruption(&with_damage(), ".sst");
        } else {
            let again = open(&with_damage(), &roomy());
            let gone = again.db.space("gone").options(hashed(1)).keyspace().unwrap();
            assert_eq!((gone.count().unwrap(), count(&again)), (100, 1));
        }
        assert!(open(&copy(&world.mem), &roomy()).db.keyspaces().len() == 1);
        put_until_used(&world, &kv, 2);
        corruption(&with_damage(), if is_flushed { ".sst" } else { &manifest });
    }
}

/// A full disk takes no edit: the log goes on in what is listed, then refuses, and goes on when
/// there is room.
#[test]
fn a_full_disk_delays_the_listing_and_poisons_nothing() {
    let (world, options) = (World::new(6), small_with(Durability::Buffered));
    let session = open(&world, &options);
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("first", "1").unwrap();
    let full = || Fault::new(Effect::Fail(Failure::NoSpace));
    world.disk.inject(full().on(&[Op::Create]).of(FileKind::Wal).forever());
    world.disk.inject(full().on(&[Op::Append]).of(FileKind::Manifest).forever());
    world.disk.inject(full().on(&[Op::Create]).of(FileKind::Table).forever());
    let mut written = 0_u32;
    let mut refused = None;
    while refused.is_none() && written < 4000 {
        let mut batch = session.db.batch();
        batch.put(&kv, "same", vec![7; 60 << 10]).unwrap();
        match session.db.try_commit(&batch) {
            Ok(TryCommit::Started { .. }) => written += 1,
            Ok(TryCommit::RetryAfter(_)) => refused = Some(None),
            Err(error) => refused = Some(Some(error.kind())),
        }
        flagstone::internal::env::Executor::assist(&*session.executor);
    }
    let refused = refused.expect("the log has an end");
    assert!([Some(ErrorKind::OutOfSpace), None].contains(&refused), "{refused:?}");
    assert!(kv.get("same").unwrap().is_some());
    let after = world.after_kill(2);
    assert!(open(&after, &options).db.keyspace("kv").unwrap().get("same").unwrap().is_some());
    world.disk.heal();
    session.settle();
    kv.put("last", "1").unwrap();
    drop(kv);
    session.db.close().unwrap();
    let again = open(&world, &options);
    assert_eq!(again.db.keyspace("kv").unwrap().count().unwrap(), 3);
}

/// Opening for reading checks the same and changes nothing.
#[test]
fn a_reader_misses_a_segment_too() {
    let image = killed();
    let logs = files_of(&image, FileKind::Wal);
    let read = |world: &World| {
        let (environment, _executor) = world.environment();
        Database::builder(World::dir()).environment(environment).open_read_only()
    };
    let db = read(&image).unwrap();
    assert_eq!(db.keyspace("kv").unwrap().count().unwrap(), 1000);
    drop(db);
    image.mem.remove(&World::path(&logs[0])).unwrap();
    assert_eq!(read(&image).err().unwrap().kind(), ErrorKind::Corruption);
}
