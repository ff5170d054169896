//! Models of the memtable under loom, which tries every order in which the memory model lets two
//! threads see each other's writes. Shuttle cannot: it runs atomics one after another.
//!
//! The memtable's atomics are in raw memory, where loom's cannot be. So the protocol is repeated
//! here, step by step: `memtable/store.rs` (slots, links of versions, tables that grow) and
//! `memtable/ordered.rs` (the tail of new keys, the runs it becomes). Plain memory is a loom cell,
//! which fails if a read and a write of it are not ordered. Each model also runs with an ordering
//! that is too weak, and must then fail.

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU64, AtomicUsize};
use loom::thread;
use std::sync::Arc;

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// The slots of the first table and of the next.
const SLOTS: [usize; 2] = [2, 4];
/// Addresses of keys and versions; 0 means none.
const CELLS: usize = 8;

/// The store: plain memory, tables of addresses, one link a key.
struct Store {
    /// The payload of the key or version at each address.
    memory: [UnsafeCell<u64>; CELLS],
    /// The newest version of the key at each address.
    newest: [AtomicUsize; CELLS],
    tables: [Vec<AtomicUsize>; 2],
    tables_len: AtomicUsize,
    visible: AtomicU64,
    publish: Ordering,
}

// The cells are the subject of the model: loom checks every access.
unsafe_sync::mark!(Store);
unsafe_sync::mark!(Ordered);

/// The only place with the memtable's `unsafe` claim that many threads may read its memory.
mod unsafe_sync {
    macro_rules! mark {
        ($name:ident) => {
            #[expect(unsafe_code, reason = "the memtable's memory is shared in the same way")]
            // SAFETY: loom's cells check every access of every thread.
            unsafe impl Sync for $name {}
            #[expect(unsafe_code, reason = "as above")]
            // SAFETY: as above.
            unsafe impl Send for $name {}
        };
    }
    pub(super) use mark;
}

#[expect(unsafe_code, reason = "loom checks the access")]
fn write(cell: &UnsafeCell<u64>, value: u64) {
    // SAFETY: loom fails if the access is not ordered against the others.
    cell.with_mut(|place| unsafe { *place = value });
}

#[expect(unsafe_code, reason = "loom checks the access")]
fn read(cell: &UnsafeCell<u64>) -> u64 {
    // SAFETY: loom fails if the access is not ordered against the others.
    cell.with(|place| unsafe { *place })
}

impl Store {
    fn new(publish: Ordering) -> Self {
        let table = |slots: usize| (0..slots).map(|_| AtomicUsize::new(0)).collect();
        Self {
            memory: std::array::from_fn(|_| UnsafeCell::new(0)),
            newest: std::array::from_fn(|_| AtomicUsize::new(0)),
            tables: SLOTS.map(table),
            tables_len: AtomicUsize::new(1),
            visible: AtomicU64::new(0),
            publish,
        }
    }

    /// As `claim`: takes the first free slot from the key's own place on.
    fn claim(&self, table: usize, at: usize) {
        let slots = &self.tables[table];
        let mut place = at % slots.len();
        while slots[place].load(Relaxed) != 0 {
            place = (place + 1) % slots.len();
        }
        slots[place].store(at, self.publish);
    }

    /// Inserts a new key at `at`, with its first version after it.
    fn insert_key(&self, table: usize, at: usize, value: u64) {
        write(&self.memory[at], 100 + at as u64);
        write(&self.memory[at + 1], value);
        self.newest[at].store(at + 1, Relaxed);
        self.claim(table, at);
    }

    /// Adds a newer version of the key at `at`.
    fn insert_version(&self, at: usize, version: usize, value: u64) {
        write(&self.memory[version], value);
        self.newest[at].store(version, self.publish);
    }

    /// Publishes the next table, with everything that is in this one.
    fn grow(&self) {
        for slot in &self.tables[0] {
            let at = slot.load(Relaxed);
            if at != 0 {
                self.claim(1, at);
            }
        }
        self.tables_len.store(2, self.publish);
    }

    /// As `find` and a get: returns the value of the key at `at`, if it is visible.
    fn get(&self, at: usize) -> Option<u64> {
        let slots = &self.tables[self.tables_len.load(Acquire) - 1];
        let mut place = at % slots.len();
        loop {
            match slots[place].load(Acquire) {
                0 => return None,
                found if found == at => break,
                _ => place = (place + 1) % slots.len(),
            }
        }
        assert_eq!(read(&self.memory[at]), 100 + at as u64, "the bytes of the key");
        Some(read(&self.memory[self.newest[at].load(Acquire)]))
    }
}

/// A writer inserts a key, publishes it, adds a version, and grows the table for a second key.
fn store_model(publish: Ordering) {
    explore(move || {
        let store = Arc::new(Store::new(publish));
        let writer = {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                store.insert_key(0, 1, 10);
                store.visible.store(1, Release);
                store.insert_version(1, 3, 11);
                store.grow();
                store.insert_key(1, 4, 20);
            })
        };
        let visible = store.visible.load(Acquire);
        let (first, second) = (store.get(1), store.get(4));
        assert!(matches!(first, None | Some(10 | 11)), "{first:?}");
        assert!(matches!(second, None | Some(20)), "{second:?}");
        assert!(visible == 0 || first.is_some(), "a visible key is found, also while tables grow");
        writer.join().unwrap();
        assert_eq!((store.get(1), store.get(4)), (Some(11), Some(20)));
    });
}

#[test]
fn a_reader_finds_what_is_visible_and_reads_only_what_was_written() {
    store_model(Release);
}

#[test]
#[should_panic]
fn links_that_are_not_released_let_readers_see_memory_before_it_is_written() {
    store_model(Relaxed);
}

const TAIL: usize = 2;

/// What a reader loads: runs and a tail that together hold every key so far.
struct Shown {
    runs: Vec<usize>,
    tail: Arc<Tail>,
}

struct Tail {
    keys: [AtomicUsize; TAIL],
    len: AtomicUsize,
}

/// The ordered view. The pointer that readers load is a mutex, because loom has no atomic pointer
/// that counts.
struct Ordered {
    memory: [UnsafeCell<u64>; CELLS],
    shown: Mutex<Arc<Shown>>,
    visible: AtomicU64,
    publish: Ordering,
}

impl Ordered {
    fn new(publish: Ordering) -> Self {
        Self {
            memory: std::array::from_fn(|_| UnsafeCell::new(0)),
            shown: Mutex::new(Arc::new(Shown { runs: Vec::new(), tail: Tail::new() })),
            visible: AtomicU64::new(0),
            publish,
        }
    }

    /// As `OrderedWriter::push`: a full tail becomes a run, and the next tail is published before
    /// its first key.
    fn push(&self, pending: &mut Vec<usize>, at: usize) {
        write(&self.memory[at], 100 + at as u64);
        let mut current = Arc::clone(&self.shown.lock().unwrap());
        if pending.len() == TAIL {
            let runs = current.runs.iter().copied().chain(pending.drain(..)).collect();
            current = Arc::new(Shown { runs, tail: Tail::new() });
            *self.shown.lock().unwrap() = Arc::clone(&current);
        }
        current.tail.keys[pending.len()].store(at, Relaxed);
        pending.push(at);
        current.tail.len.store(pending.len(), self.publish);
    }

    /// Returns every key that a scan visits.
    fn keys(&self) -> Vec<usize> {
        let shown = Arc::clone(&self.shown.lock().unwrap());
        let len = shown.tail.len.load(Acquire);
        let tail = shown.tail.keys[..len].iter().map(|key| key.load(Relaxed));
        let keys: Vec<usize> = shown.runs.iter().copied().chain(tail).collect();
        for at in &keys {
            assert_eq!(read(&self.memory[*at]), 100 + *at as u64, "the bytes of key {at}");
        }
        keys
    }
}

impl Tail {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            keys: std::array::from_fn(|_| AtomicUsize::new(0)),
            len: AtomicUsize::new(0),
        })
    }
}

fn ordered_model(publish: Ordering) {
    explore(move || {
        let ordered = Arc::new(Ordered::new(publish));
        let writer = {
            let ordered = Arc::clone(&ordered);
            thread::spawn(move || {
                let mut pending = Vec::new();
                for at in 1..=3 {
                    ordered.push(&mut pending, at);
                    ordered.visible.store(at as u64, Release);
                }
            })
        };
        let visible = ordered.visible.load(Acquire) as usize;
        let keys = ordered.keys();
        assert!(keys.len() >= visible, "{visible} keys are visible, a scan sees {keys:?}");
        assert!(keys.iter().copied().eq(1..=keys.len()), "{keys:?}");
        writer.join().unwrap();
        assert_eq!(ordered.keys(), [1, 2, 3]);
    });
}

#[test]
fn a_scan_sees_every_visible_key_while_tails_become_runs() {
    ordered_model(Release);
}

#[test]
#[should_panic]
fn a_length_that_is_not_released_lets_a_scan_read_keys_before_they_are_written() {
    ordered_model(Relaxed);
}
