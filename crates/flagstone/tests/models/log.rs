//! The write-ahead log alone: groups that share a write and a sync, segments that come and go,
//! appends that fail.

use crate::explore::explore;
use flagstone::changes::SeqNo;
use flagstone::internal::env::names::{FileKind, Name, parse};
use flagstone::internal::env::sync::Mutex;
use flagstone::internal::env::sync::shuttle::thread;
use flagstone::internal::env::{
    Disk, Effect, Failure, Fault, FaultDisk, MemDisk, Op, SeededRandom,
};
use flagstone_base::DatabaseId;
use flagstone_wal::{Listed, Log, LogOptions, Lsn, RecordKind, Recovered, payload_checksum, read};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const ID: DatabaseId = DatabaseId([7; 16]);
const SEGMENT_BYTES: u64 = 8 << 10;

/// A log, and the lock under which its records get their numbers.
struct World {
    mem: MemDisk,
    disk: FaultDisk,
    log: Log,
    next: Mutex<u64>,
}

impl World {
    fn new() -> Arc<Self> {
        let mem = MemDisk::default();
        let disk = FaultDisk::new(Arc::new(mem.clone()));
        disk.create_dir(Path::new("/db")).unwrap();
        let options = LogOptions { segment_bytes: SEGMENT_BYTES, spares: 1, keep: None };
        let random = Arc::new(SeededRandom::new(1));
        let at: Arc<dyn Disk> = Arc::new(disk.clone());
        let none = Recovered::default();
        let log = Log::create(at, Path::new("/db"), ID, random, options, &none).unwrap();
        Arc::new(Self { mem, disk, log, next: Mutex::new(1) })
    }

    fn enqueue(&self, bytes: usize) -> (u64, Lsn) {
        let payload = vec![1; bytes];
        let mut next = self.next.lock();
        // As the manifest does it ahead of use: lists files for the log.
        if self.log.wants_files() {
            let files = self.log.make_files().unwrap();
            self.log.list_files(&files);
        }
        let seqno = *next;
        *next += 1;
        let checksum = payload_checksum(&payload);
        let kind = RecordKind(1);
        (seqno, self.log.enqueue(kind, SeqNo::new(seqno), 1, &payload, checksum).unwrap())
    }
}

/// The SeqNos of the records in the log of a disk.
fn recovered(disk: &MemDisk) -> BTreeSet<u64> {
    let mut seqnos = BTreeSet::new();
    let mut note = |record: flagstone_wal::Record<'_>| {
        seqnos.insert(record.first_seqno.get());
        Ok(())
    };
    let names = disk.list(Path::new("/db")).unwrap_or_default();
    let files = names.iter().filter_map(|name| match parse(name) {
        Name::Numbered(FileKind::Wal, number) => Some(number),
        _ => None,
    });
    let listed = Listed { from: None, files: files.collect(), newest_kept: None };
    read(disk, Path::new("/db"), ID, &listed, &mut note).unwrap();
    seqnos
}

fn spawn_all(world: &Arc<World>, bodies: Vec<fn(&World)>) {
    let threads: Vec<_> = bodies
        .into_iter()
        .map(|body| {
            let world = Arc::clone(world);
            thread::spawn(move || body(&world))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Everything up to `seqno` survives a power cut.
fn check_synced(world: &World, seqno: u64) {
    let found = recovered(&world.mem.crash_losing_unsynced());
    assert!((1..=seqno).all(|n| found.contains(&n)), "{seqno} was synced, found {found:?}");
}

fn grouped(world: &World) {
    for _ in 0..2 {
        let (seqno, lsn) = world.enqueue(40);
        world.log.sync_through(lsn).unwrap();
        check_synced(world, seqno);
    }
}

fn alone(world: &World) {
    for _ in 0..2 {
        let (seqno, lsn) = world.enqueue(40);
        world.log.sync_alone(lsn).unwrap();
        check_synced(world, seqno);
    }
}

fn buffered(world: &World) {
    for _ in 0..2 {
        let (seqno, lsn) = world.enqueue(40);
        world.log.write_through(lsn).unwrap();
        let found = recovered(&world.mem.kill());
        assert!((1..=seqno).all(|n| found.contains(&n)), "{seqno} was written, found {found:?}");
    }
}

#[test]
fn a_sync_that_returns_covers_everything_before_it() {
    explore("a_sync_that_returns_covers_everything_before_it", || {
        spawn_all(&World::new(), vec![grouped, grouped, alone, buffered]);
    });
}

/// Each record fills most of a segment.
fn large(world: &World) {
    for _ in 0..2 {
        let (seqno, lsn) = world.enqueue(SEGMENT_BYTES as usize / 2);
        world.log.sync_through(lsn).unwrap();
        check_synced(world, seqno);
    }
}

fn upkeep(world: &World) {
    for _ in 0..4 {
        while world.log.prepare().unwrap() {}
    }
}

#[test]
fn segments_change_while_records_are_synced() {
    explore("segments_change_while_records_are_synced", || {
        spawn_all(&World::new(), vec![large, large, upkeep]);
    });
}

/// Some appends find no room: what was acknowledged is there, what was refused is not.
fn refused(world: &World) {
    for _ in 0..2 {
        let (seqno, lsn) = world.enqueue(40);
        let done = world.log.sync_through(lsn);
        let synced = recovered(&world.mem.crash_losing_unsynced());
        match done {
            Ok(()) => assert!(synced.contains(&seqno), "{seqno} was synced, found {synced:?}"),
            Err(_) => {
                let killed = recovered(&world.mem.kill());
                assert!(!killed.contains(&seqno), "{seqno} was refused, found {killed:?}");
            }
        }
    }
}

#[test]
fn a_failed_append_refuses_its_group_and_nothing_else() {
    explore("a_failed_append_refuses_its_group_and_nothing_else", || {
        let world = World::new();
        for (nth, effect) in
            [(2, Effect::Fail(Failure::NoSpace)), (4, Effect::Short(50, Failure::NoSpace))]
        {
            world.disk.inject(Fault::new(effect).on(&[Op::Append]).of(FileKind::Wal).nth(nth));
        }
        spawn_all(&world, vec![refused, refused, refused]);
    });
}
