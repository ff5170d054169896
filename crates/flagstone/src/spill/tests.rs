//! The sorter against a sort in memory, on disks that fail, and without a place to spill to.

use super::{ExternalSorter, SortOptions, SortedEntries};
use crate::admin::Environment;
use crate::{Database, ErrorKind, Options, Result};
use flagstone_engine::{QueryMemory, Scratch};
use flagstone_env::names::{Name, parse};
use flagstone_env::{
    Disk, Effect, Failure, Fault, FaultDisk, ManualClock, MemDisk, Op, Random, SeededRandom,
    StepExecutor,
};
use std::path::Path;
use std::sync::Arc;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

struct World {
    mem: MemDisk,
    faults: FaultDisk,
}

impl World {
    fn new() -> Self {
        Self::on(MemDisk::default())
    }

    fn on(mem: MemDisk) -> Self {
        Self { faults: FaultDisk::new(Arc::new(mem.clone())), mem }
    }

    fn builder(&self) -> crate::Builder {
        let environment = Environment {
            disk: Arc::new(self.faults.clone()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::<StepExecutor>::default()),
        };
        let options = Options::new().memory_budget(1 << 20).ballast_bytes(0);
        Database::builder("db").options(options).environment(environment)
    }

    fn open(&self) -> Database {
        self.builder().open().unwrap()
    }

    fn spill_files(&self, dir: &str) -> usize {
        let names = self.mem.list(Path::new(dir)).unwrap();
        names.iter().filter(|name| matches!(parse(name), Name::Spill(_))).count()
    }
}

fn scratch(db: &Database) -> Arc<Scratch> {
    Arc::clone(db.keyspace("kv").unwrap().0.scratch())
}

fn options(memory: usize) -> SortOptions {
    SortOptions { memory, limit: None, distinct: false, share: 1 }
}

fn sorted(
    scratch: &Arc<Scratch>,
    options: SortOptions,
    entries: &Entries,
) -> Result<SortedEntries> {
    let mut sorter = ExternalSorter::new(scratch, options);
    entries.iter().try_for_each(|(key, value)| sorter.push(key, value))?;
    sorter.finish()
}

fn read(mut sorted: SortedEntries) -> Result<Entries> {
    let mut entries = Vec::new();
    while sorted.advance()? {
        entries.push((sorted.key().to_vec(), sorted.value().to_vec()));
    }
    assert!(!sorted.advance()?, "the end is final");
    Ok(entries)
}

/// What a sorter returns, by a stable sort in memory.
fn expected(options: SortOptions, entries: &Entries) -> Entries {
    let mut entries = entries.clone();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    if options.distinct {
        entries.dedup_by(|a, b| a.0 == b.0);
    }
    entries.truncate(options.limit.unwrap_or(usize::MAX));
    entries
}

/// Entries with repeated keys, shared prefixes and now and then a large value.
fn drawn(random: &SeededRandom, count: u64) -> Entries {
    let keys = 1 + random.next_u64() % (2 * count);
    let entry = |n: u64| {
        let key = random.next_u64() % keys;
        let len =
            if random.next_u64().is_multiple_of(500) { 9_000 } else { random.next_u64() % 60 };
        let key = match random.next_u64() % 3 {
            0 => key.to_be_bytes()[6..].to_vec(),
            _ => format!("subreddit/{key:05}").into_bytes(),
        };
        let mut value = n.to_be_bytes().to_vec();
        value.resize(8 + len as usize, n as u8);
        (key, value)
    };
    (0..count).map(entry).collect()
}

#[test]
fn entries_come_sorted_whatever_memory_limit_and_repetitions_are() {
    let seed = flagstone_testkit::seed("spill", 7);
    let random = SeededRandom::new(seed);
    let world = World::new();
    let db = world.open();
    let scratch = scratch(&db);
    let (mut spills, mut passes, mut kept) = (0, 0, 0);
    for _ in 0..60 {
        let count = random.next_u64() % 8_000;
        let entries = drawn(&random, count);
        let options = SortOptions {
            memory: 1 << (14 + random.next_u64() % 8),
            limit: [None, Some((random.next_u64() % (2 * count + 1)) as usize)]
                [random.next_u64() as usize % 2],
            distinct: random.next_u64().is_multiple_of(2),
            share: 1,
        };
        let sorted = sorted(&scratch, options, &entries).unwrap();
        let spilled = sorted.spilled();
        spills += usize::from(spilled.runs > 0);
        passes += usize::from(spilled.passes > 0);
        kept += usize::from(spilled.runs == 0);
        assert_eq!(spilled.runs > 0, spilled.bytes > 0);
        let found = read(sorted).unwrap();
        assert!(found == expected(options, &entries), "seed {seed}, {count}, {options:?}");
        assert_eq!(world.spill_files("db"), 0);
    }
    assert!(spills > 5 && passes > 2 && kept > 5, "{spills} {passes} {kept}");
}

#[test]
fn entries_larger_than_the_memory_are_sorted() {
    let world = World::new();
    let db = world.open();
    let entries: Entries =
        (0..20_u8).map(|n| (vec![n.wrapping_mul(37); 1000], vec![n; 50_000])).collect();
    let sorted = sorted(&scratch(&db), options(0), &entries).unwrap();
    assert!(sorted.spilled().passes > 1);
    assert!(read(sorted).unwrap() == expected(options(0), &entries));
}

#[test]
fn a_small_limit_never_spills() {
    let world = World::new();
    let db = world.open();
    let random = SeededRandom::new(3);
    let entries: Entries = (0..20_000)
        .map(|_| (random.next_u64().to_be_bytes().to_vec(), vec![1; 40]))
        .chain((0..20_000_u64).rev().map(|n| (n.to_be_bytes().to_vec(), vec![2; 40])))
        .collect();
    let options = SortOptions { limit: Some(100), ..options(64 << 10) };
    world.faults.inject(Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Create]).forever());
    let sorted = sorted(&scratch(&db), options, &entries).unwrap();
    assert_eq!(sorted.spilled().runs, 0);
    assert!(read(sorted).unwrap() == expected(options, &entries));
}

#[test]
fn a_full_disk_is_out_of_space_and_keeps_no_file() {
    let world = World::new();
    let db = world.open();
    let entries = drawn(&SeededRandom::new(5), 5_000);
    let scratch = scratch(&db);
    // Writers keep what they need to flush.
    let kept = scratch.bytes_kept_back();
    world.faults.set_room(Some(kept + 150_000));
    let refused = sorted(&scratch, options(32 << 10), &entries).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused}");
    assert!(refused.to_string().contains("are kept back for writers"), "{refused}");
    assert_eq!(world.spill_files("db"), 0);
    // The room is free again, and enough for a smaller sort.
    let fewer = entries[..600].to_vec();
    let done = sorted(&scratch, options(16 << 10), &fewer).unwrap();
    assert!(done.spilled().runs > 0 && read(done).is_ok());
}

#[test]
fn every_failure_of_the_disk_is_an_error_and_keeps_no_file() {
    let world = World::new();
    let db = world.open();
    let scratch = scratch(&db);
    let entries = drawn(&SeededRandom::new(6), 3_000);
    let expected = expected(options(16 << 10), &entries);
    let mut failed = 0;
    for nth in 1.. {
        let before = world.faults.hits();
        let fault = Fault::new(Effect::Fail(Failure::Io));
        let ops = [Op::Create, Op::Append, Op::Open, Op::Read];
        world.faults.inject(fault.on(&ops).nth(nth * nth));
        let done = sorted(&scratch, options(16 << 10), &entries).and_then(read);
        world.faults.heal();
        assert_eq!(world.spill_files("db"), 0);
        if world.faults.hits() == before {
            assert!(done.unwrap() == expected);
            break;
        }
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Io);
        failed += 1;
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_flipped_bit_in_a_spill_file_is_corruption() {
    let world = World::new();
    let db = world.open();
    let scratch = scratch(&db);
    let entries = drawn(&SeededRandom::new(8), 2_000);
    for bit in [0, 9, 35, 1001] {
        world.faults.inject(Fault::new(Effect::FlipBit(bit)).on(&[Op::Read]).nth(20));
        let refused = sorted(&scratch, options(16 << 10), &entries).and_then(read).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
        let text = refused.to_string();
        assert!(text.contains(".spill, offset ") && text.contains("expected"), "{text}");
        world.faults.heal();
    }
}

#[test]
fn an_open_removes_what_a_crash_left() {
    let world = World::new();
    let db = world.open();
    let mut sorter = ExternalSorter::new(&scratch(&db), options(0));
    for (key, value) in drawn(&SeededRandom::new(9), 2_000) {
        sorter.push(&key, &value).unwrap();
    }
    assert_eq!(world.spill_files("db"), 1);
    let crashed = World::on(world.mem.kill());
    assert_eq!(crashed.spill_files("db"), 1);
    crashed.open().close().unwrap();
    assert_eq!(crashed.spill_files("db"), 0);
    // What was begun can be completed.
    assert!(read(sorter.finish().unwrap()).is_ok());
    assert_eq!(world.spill_files("db"), 0);
}

#[test]
fn a_sort_in_a_closed_database_is_refused() {
    let world = World::new();
    let db = world.open();
    let scratch = scratch(&db);
    db.close().unwrap();
    let entries = drawn(&SeededRandom::new(9), 2_000);
    assert_eq!(sorted(&scratch, options(0), &entries).err().unwrap().kind(), ErrorKind::Closed);
}

#[test]
fn a_database_open_for_reading_names_the_memory_that_a_sort_needs() {
    let world = World::new();
    world.open().keyspace("kv").unwrap();
    let db = world.builder().open_read_only().unwrap();
    let scratch = scratch(&db);
    let entries = drawn(&SeededRandom::new(10), 4_000);
    for wanted in [
        options(32 << 10),
        SortOptions { distinct: true, ..options(32 << 10) },
        SortOptions { limit: Some(3_000), ..options(32 << 10) },
    ] {
        let refused = sorted(&scratch, wanted, &entries).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        let text = refused.to_string();
        let needed = text.split("needs ").nth(1).and_then(|rest| rest.split(',').next());
        let memory = needed.and_then(|needed| needed.parse().ok()).expect(&text);
        assert!(memory < 2 << 20, "{text}");
        let enough = SortOptions { memory, ..wanted };
        let sorted = sorted(&scratch, enough, &entries).expect(&text);
        assert!(read(sorted).unwrap() == expected(enough, &entries));
    }
}

#[test]
fn a_scratch_directory_is_used_by_one_database_and_emptied_first() {
    let world = World::new();
    world.open().keyspace("kv").unwrap();
    let left = Path::new("scratch").join("00000000000000ff.spill");
    let leave = || world.mem.put_content(&left, b"left by a crash");
    leave();
    world.mem.put_content(Path::new("scratch/kept"), b"foreign");
    let open = || world.builder().scratch_dir("scratch").open_read_only().unwrap();
    let names = || world.mem.list(Path::new("scratch")).unwrap();
    let first = open();
    // The open removes what a killed process has left, ..
    assert_eq!(names(), ["kept"]);
    leave();
    let second = open();
    leave();
    let entries = drawn(&SeededRandom::new(11), 2_000);
    let sort = |db: &Database| sorted(&scratch(db), options(0), &entries);
    let done = sort(&first).unwrap();
    assert!(world.spill_files("scratch") > 0 && world.spill_files("db") == 0);
    // .. and so does the first file, but not while another database is using the directory.
    assert!(!world.mem.exists(&left).unwrap());
    assert_eq!(sort(&second).err().unwrap().kind(), ErrorKind::Busy);
    leave();
    let third = open();
    assert!(world.mem.exists(&left).unwrap());
    drop((done, third));
    world.mem.remove(&left).unwrap();
    assert_eq!(names(), ["LOCK", "kept"]);
    first.close().unwrap();
    assert_eq!(names(), ["kept"]);
    let done = sort(&second).unwrap();
    assert!(read(done).unwrap() == expected(options(0), &entries));
    second.close().unwrap();
    assert_eq!(names(), ["kept"]);
}

#[test]
fn a_scratch_directory_that_holds_a_database_is_refused() {
    let world = World::new();
    let db = world.builder().scratch_dir("db").open().unwrap();
    let entries = drawn(&SeededRandom::new(11), 2_000);
    let refused = sorted(&scratch(&db), options(0), &entries).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("holds a database"), "{refused}");
}

/// Entries of `count` times some 100 bytes, in no order.
fn many(count: usize) -> Entries {
    let entry = |at: usize| {
        let key = ((at * 7919) % count) as u32;
        (key.to_be_bytes().to_vec(), vec![at as u8; 90])
    };
    (0..count).map(entry).collect()
}

/// Each sort had memory of its own, and nothing knew of the sum.
#[test]
fn sorts_spill_sooner_where_all_queries_together_hold_what_they_may() {
    let world = World::new();
    let db = world.open();
    let (scratch, entries) = (scratch(&db), many(20_000));
    let roomy = sorted(&scratch, options(8 << 20), &entries).unwrap();
    assert_eq!(roomy.spilled().runs, 0);
    let one = db.stats().query_bytes;
    assert!((1 << 20..4 << 20).contains(&one), "{one}");
    let mut others = QueryMemory::new(&scratch);
    let rest = (16 << 20) - one as usize;
    assert!(!others.grow(rest + (65 << 10)) && others.grow(rest + (64 << 10)));
    let crowded = sorted(&scratch, options(8 << 20), &entries).unwrap();
    assert!(crowded.spilled().runs > 4, "{:?}", crowded.spilled());
    assert_eq!(read(crowded).unwrap(), expected(options(8 << 20), &entries));
    // Those of few bytes have their room all the same.
    let few = sorted(&scratch, options(8 << 20), &many(300)).unwrap();
    assert_eq!(few.spilled().runs, 0);
    drop((others, few));
    assert_eq!(read(roomy).unwrap(), expected(options(8 << 20), &entries));
    assert_eq!(db.stats().query_bytes, 0);
}

/// What had been sorted stayed in memory while nobody read it.
#[test]
fn a_sort_that_waits_for_its_reader_gives_its_memory_up() {
    let (world, entries) = (World::new(), many(20_000));
    let db = world.open();
    let scratch = scratch(&db);
    for memory in [8 << 20, 1 << 20] {
        for (step, most) in [(1, 3), (7_000, usize::MAX)] {
            let mut sorted = sorted(&scratch, options(memory), &entries).unwrap();
            let (mut found, mut parks) = (Entries::new(), 0);
            sorted.park();
            while sorted.advance().unwrap() {
                if found.len() % step == 0 && parks < most {
                    sorted.park();
                    parks += 1;
                    assert_eq!((db.stats().query_bytes, world.spill_files("db")), (0, 1));
                }
                found.push((sorted.key().to_vec(), sorted.value().to_vec()));
            }
            assert_eq!(found, expected(options(memory), &entries));
            drop(sorted);
            assert_eq!(world.spill_files("db"), 0);
        }
    }
    // A disk that is full changes nothing.
    let mut sorted = sorted(&scratch, options(8 << 20), &entries).unwrap();
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Create, Op::Append]);
    world.faults.inject(full.forever());
    sorted.park();
    world.faults.heal();
    assert!(db.stats().query_bytes > 0);
    assert_eq!(read(sorted).unwrap(), expected(options(8 << 20), &entries));
}
