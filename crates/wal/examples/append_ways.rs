//! Measures the cost of a record for several ways of appending to the log: with `write` or by
//! copying into a memory map, into new files or recycled ones.
//!
//! Usage, where DIR must not exist:
//! `cargo run --release -p flagstone-wal --example append_ways --
//! DIR [record bytes] [records a group] [MiB a turn] [turns] [threads beside] [ways]`
//!
//! Segments have 64 MiB, the engine's largest. Each way writes its four segments again and again.
//! As in the engine, writing out begins after every MiB (which makes the pages of a map read-only
//! again), and a full segment is synced. With `write` a record is first copied into the group's
//! buffer; with a map it is copied only into the map. The ways alternate within each turn. The
//! processor time is that of the appending thread, page faults included; medians are printed. The
//! threads beside it only spin: if a process has a thread on another processor, that processor must
//! be told of each page that becomes read-only. The last two ways begin with files that are not
//! cached; `ways` = 13 adds them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]
#![allow(unsafe_code, reason = "memory maps, and calls without a safe wrapper")]

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::mm::{Advice as MapAdvice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

const SEGMENT: usize = 64 << 20;
const SEGMENTS: usize = 4;
const STEP: usize = 1 << 20;
/// Records come from memory of this size, so that they are in the processor's cache as if just
/// encoded.
const SOURCE: usize = 256 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    New,
    /// Files that were filled before in the same way, and are in the page cache.
    Recycled,
    /// Files that were filled with zeroes in steps of 1 MiB, as segments are prepared for a log
    /// that is often synced.
    Zeroed,
    /// Recycled files whose pages are no longer in the page cache.
    Evicted,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Write,
    Map,
    /// The pages are mapped when the segment is opened; a first store still faults.
    MapPopulated,
    /// The pages are made writable when the segment is opened.
    MapWritable,
    /// The map stays and is used again for the next segment in the same file.
    MapKept,
    /// The map stays, and its pages are made writable when the segment is opened.
    MapKeptWritable,
    /// One MiB at a time is mapped and made writable, and unmapped before it is written out, so
    /// that other processors are told once per MiB.
    MapByStep,
}

impl By {
    const fn is_kept(self) -> bool {
        matches!(self, Self::MapKept | Self::MapKeptWritable)
    }
}

const WAYS: [(&str, By, Files); 13] = [
    ("write, recycled", By::Write, Files::Recycled),
    ("write, new", By::Write, Files::New),
    ("write, zeroed", By::Write, Files::Zeroed),
    ("map, new", By::Map, Files::New),
    ("map, new, POPULATE_WRITE", By::MapWritable, Files::New),
    ("map, recycled", By::Map, Files::Recycled),
    ("map, recycled, MAP_POPULATE", By::MapPopulated, Files::Recycled),
    ("map, recycled, POPULATE_WRITE", By::MapWritable, Files::Recycled),
    ("map kept", By::MapKept, Files::Recycled),
    ("map kept, POPULATE_WRITE", By::MapKeptWritable, Files::Recycled),
    ("map by MiB, POPULATE_WRITE", By::MapByStep, Files::Recycled),
    ("write, recycled, not in the cache", By::Write, Files::Evicted),
    ("map, recycled, not in the cache", By::Map, Files::Evicted),
];

/// The processor time of this thread in nanoseconds, and its page faults.
fn spent() -> (u64, u64) {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to memory for exactly this struct.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(answer, 0);
    // SAFETY: the call succeeded, so it filled the struct.
    let usage = unsafe { usage.assume_init() };
    (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64, usage.ru_minflt as u64)
}

/// A shared map of a part of a segment.
struct Map {
    start: *mut u8,
    /// The offset in the segment at which the map begins.
    from: usize,
    len: usize,
}

impl Map {
    fn new(file: &File, flags: MapFlags, from: usize, len: usize) -> Self {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, flags | MapFlags::SHARED);
        let anywhere = std::ptr::null_mut();
        assert!(from.is_multiple_of(4096) && from + len <= SEGMENT);
        // SAFETY: a new map at a place of the system's choice overlaps no memory in use; the file
        // has SEGMENT bytes and is never cut, and no reference into the map is ever made.
        let start = unsafe { mmap(anywhere, len, access, flags, file, from as u64) };
        Self { start: start.unwrap().cast(), from, len }
    }

    /// A map of a whole segment.
    fn whole(file: &File, flags: MapFlags) -> Self {
        Self::new(file, flags, 0, SEGMENT)
    }

    /// A writable map of one step from `at` on, and of one group more.
    fn step(file: &File, at: usize) -> Self {
        let from = at & !4095;
        let map = Self::new(file, MapFlags::empty(), from, (STEP + STEP / 8).min(SEGMENT - from));
        map.make_writable(STEP);
        map
    }

    fn make_writable(&self, len: usize) {
        let len = len.min(self.len);
        // SAFETY: the range is this map's, and the advice changes no content.
        unsafe { madvise(self.start.cast(), len, MapAdvice::LinuxPopulateWrite) }.unwrap();
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at >= self.from && at + bytes.len() <= self.from + self.len);
        // SAFETY: `at` was just checked to be in the map.
        let target = unsafe { self.start.add(at - self.from) };
        // SAFETY: the target was checked to have space. `bytes` is outside of the map, and there
        // are no references into the map.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: this value owns the map, and there are no references into it.
        unsafe { munmap(self.start.cast(), self.len) }.unwrap();
    }
}

fn start_writeback(file: &File, from: usize, to: usize) {
    let (from, len, flag) = (from as i64, (to - from) as i64, libc::SYNC_FILE_RANGE_WRITE);
    // SAFETY: the descriptor is open for as long as `file` is borrowed; the call takes integers.
    let answer = unsafe { libc::sync_file_range(file.as_raw_fd(), from, len, flag) };
    assert_eq!(answer, 0);
}

/// The processor time of a turn by what it was spent on, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Cost {
    records: u64,
    segments: u64,
    opening: u64,
    appending: u64,
    writing_out: u64,
    closing: u64,
    wall: u64,
    faults: u64,
}

impl Cost {
    const fn processor(&self) -> u64 {
        self.opening + self.appending + self.writing_out + self.closing
    }
}

/// The sizes of records, groups and turns.
struct Case {
    source: Vec<u8>,
    record: usize,
    group: usize,
    segments: usize,
}

/// One way, with its segments and maps.
struct Runner {
    by: By,
    files: Files,
    dir: PathBuf,
    maps: [Option<Map>; SEGMENTS],
    buffer: Vec<u8>,
}

impl Runner {
    fn new(dir: &Path, number: usize, case: &Case) -> Self {
        let (_, by, files) = WAYS[number];
        let dir = dir.join(number.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        let mut made =
            Self { by, files, dir, maps: [const { None }; SEGMENTS], buffer: Vec::new() };
        if files == Files::Zeroed {
            for n in 0..SEGMENTS {
                let mut file = File::create(made.dir.join(n.to_string())).unwrap();
                (0..SEGMENT / STEP).for_each(|_| file.write_all(&vec![0; STEP]).unwrap());
                file.sync_all().unwrap();
            }
        } else {
            // Small maps work best with small pages in the page cache, as small appends leave them.
            let first = if by == By::MapByStep { By::Write } else { by };
            (made.by, made.files) = (first, Files::New);
            made.turn(case);
            (made.by, made.files) = (by, files);
        }
        made
    }

    fn open(&mut self, n: usize) -> (File, Option<Map>) {
        let path = self.dir.join(n.to_string());
        let is_new = self.files == Files::New;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(is_new).open(path).unwrap();
        if is_new && self.by != By::Write {
            fallocate(&file, FallocateFlags::empty(), 0, SEGMENT as u64).unwrap();
        }
        if self.by == By::Write {
            return (file, None);
        }
        let flags =
            if self.by == By::MapPopulated { MapFlags::POPULATE } else { MapFlags::empty() };
        if self.by == By::MapByStep {
            let map = Map::step(&file, 0);
            return (file, Some(map));
        }
        let map = self.maps[n].take().unwrap_or_else(|| Map::whole(&file, flags));
        if matches!(self.by, By::MapWritable | By::MapKeptWritable) {
            map.make_writable(SEGMENT);
        }
        (file, Some(map))
    }

    /// Fills a segment. Returns the number of records.
    fn fill(&mut self, case: &Case, file: &File, map: &mut Option<Map>, cost: &mut Cost) {
        let size = case.record * case.group;
        let (mut at, mut written_out, mut from) = (0, 0, 0);
        let mut since = spent().0;
        while at + size <= SEGMENT {
            for place in 0..case.group {
                let bytes = &case.source[from..from + case.record];
                match &*map {
                    Some(map) => map.put(at + place * case.record, bytes),
                    None => self.buffer.extend_from_slice(bytes),
                }
                from += case.record;
                if from + case.record > SOURCE {
                    from = 0;
                }
            }
            if map.is_none() {
                let mut file = file;
                file.write_all(&self.buffer).unwrap();
                self.buffer.clear();
            }
            at += size;
            cost.records += case.group as u64;
            if at - written_out >= STEP {
                if self.by == By::MapByStep {
                    *map = None;
                }
                let appended = spent().0;
                start_writeback(file, written_out, at);
                let now = spent().0;
                cost.appending += appended - since;
                cost.writing_out += now - appended;
                (since, written_out) = (now, at);
                if self.by == By::MapByStep {
                    *map = Some(Map::step(file, at));
                }
            }
        }
        cost.appending += spent().0 - since;
    }

    fn turn(&mut self, case: &Case) -> Cost {
        let mut cost = Cost { segments: case.segments as u64, ..Cost::default() };
        for number in 0..case.segments {
            let n = number % SEGMENTS;
            if self.files == Files::New {
                let _first_time = std::fs::remove_file(self.dir.join(n.to_string()));
            } else if self.files == Files::Evicted {
                let file = File::open(self.dir.join(n.to_string())).unwrap();
                fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            }
            let (clock, before) = (Instant::now(), spent());
            let (file, mut map) = self.open(n);
            cost.opening += spent().0 - before.0;
            self.fill(case, &file, &mut map, &mut cost);
            let filled = spent().0;
            file.sync_data().unwrap();
            if self.by.is_kept() {
                self.maps[n] = map;
            } else {
                drop(map);
            }
            drop(file);
            let after = spent();
            cost.closing += after.0 - filled;
            cost.faults += after.1 - before.1;
            cost.wall += clock.elapsed().as_nanos() as u64;
        }
        cost
    }
}

/// The median of `of` over all turns.
fn median(turns: usize, of: impl Fn(usize) -> f64) -> f64 {
    let mut all: Vec<f64> = (0..turns).map(of).collect();
    all.sort_by(f64::total_cmp);
    all[turns / 2]
}

fn report(costs: &[Vec<Cost>]) {
    println!(
        "{:<34} {:>6} {:>6} {:>7} {:>7} {:>7} {:>7} {:>8} {:>14}",
        "way", "all", "ratio", "opening", "append", "out", "closing", "wall", "faults/segment"
    );
    let today = &costs[0];
    for ((name, ..), all) in WAYS.iter().zip(costs) {
        let a_record = |of: fn(&Cost) -> u64| {
            median(all.len(), |turn| of(&all[turn]) as f64 / all[turn].records as f64)
        };
        let ratio = |turn: usize| all[turn].processor() as f64 / today[turn].processor() as f64;
        println!(
            "{name:<34} {:>6.0} {:>6.2} {:>7.0} {:>7.0} {:>7.0} {:>7.0} {:>8.0} {:>14.0}",
            a_record(Cost::processor),
            median(all.len(), ratio),
            a_record(|cost| cost.opening),
            a_record(|cost| cost.appending),
            a_record(|cost| cost.writing_out),
            a_record(|cost| cost.closing),
            a_record(|cost| cost.wall),
            median(all.len(), |turn| all[turn].faults as f64 / all[turn].segments as f64),
        );
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap());
    let mut number = |default| arguments.next().map_or(default, |a| a.parse::<usize>().unwrap());
    let (record, group, mebibytes, turns, beside, ways) =
        (number(1100), number(1), number(256), number(5), number(0), number(11));
    let source = (0..SOURCE).map(|i| i as u8).collect();
    let case = Case { source, record, group, segments: (mebibytes << 20) / SEGMENT };
    std::fs::create_dir(&dir).unwrap();
    for _ in 0..beside {
        // The thread ends with the process.
        let _spinner = std::thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    let mut runners: Vec<_> = (0..ways).map(|n| Runner::new(&dir, n, &case)).collect();
    let mut costs = vec![Vec::new(); ways];
    // The first turn is not counted: it creates the kept maps and fills the page cache.
    for turn in 0..=turns {
        for (runner, costs) in runners.iter_mut().zip(&mut costs) {
            let cost = runner.turn(&case);
            if turn > 0 {
                costs.push(cost);
            }
        }
    }
    println!("{record} B a record, {group} a group; ns a record of processor time, medians");
    report(&costs);
    std::fs::remove_dir_all(dir).unwrap();
}
