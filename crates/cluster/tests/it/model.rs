//! Random writes, changes of indexes and of the layout, clears and restarts of processes by several
//! threads of two processes, over a store with faults, compared with what the threads know of their
//! own documents.
//!
//! Each document of `owned` is written by one thread, which knows what may be stored: the last
//! acknowledged state, and those of unknown writes since. Those of `counted` are incremented by all
//! threads and never cleared.

use crate::support::{by_n, calm, connect, is_too_few, keys_of, random_document};
use flagstone::{Collection, Database, DocumentMut, ErrorKind, Index, Json, Patch, Space, Value};
use flagstone_cluster::mem::{Faults, Mem};
use flagstone_cluster::{Cluster, Layout};
use flagstone_testkit::{Rng, rounds, seed};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: u64 = 4;
/// The documents of each thread.
const OWNED: u64 = 10;
const COUNTED: u64 = 4;
const NEVER: u64 = u64::MAX;
/// The values that no two documents have while there is a unique index.
const UNIQUE: u64 = 3 * OWNED;

/// Makes an index.
type MakeIndex = fn() -> Index;

/// The indexes that come and go.
const INDEXES: [(&str, MakeIndex); 5] = [
    ("by u", || Index::on("$.u").unique().sparse()),
    ("by n", by_n),
    ("by tags", || Index::on("$.tags")),
    ("by a and n", || Index::on("-$.a").then("$.n")),
    ("by a", || Index::on("$.a").sparse()),
];

/// What all threads know.
#[derive(Default)]
struct Shared {
    time: AtomicU64,
    /// Acknowledged and unknown increments of each counted document.
    increments: [(AtomicU64, AtomicU64); COUNTED as usize],
}

impl Shared {
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }
}

/// What may be stored of one document.
#[derive(Clone, Debug, Default)]
struct Known {
    /// States, as text; `None` without a document.
    may_be: Vec<Option<String>>,
    /// When the write began that made it, and when it was acknowledged.
    since: u64,
    until: u64,
}

struct Writer<'a> {
    mem: &'a Arc<Mem>,
    cluster: Arc<Cluster>,
    owned: Collection,
    counted: Collection,
    shared: &'a Shared,
    rng: Rng,
    first: u64,
    known: HashMap<u64, Known>,
    /// The begin and the return of clears.
    clears: Vec<(u64, u64)>,
}

/// Returns whether a write was acknowledged, or is unknown; `None` if it was not done.
fn outcome<T>(written: flagstone::Result<T>) -> Option<bool> {
    match written {
        Ok(_) => Some(true),
        Err(error) => match error.kind() {
            ErrorKind::Unknown => Some(false),
            ErrorKind::Unavailable | ErrorKind::Conflict | ErrorKind::Duplicate => None,
            _ => panic!("{error}"),
        },
    }
}

impl Writer<'_> {
    fn note(&mut self, key: u64, since: u64, state: Option<String>, outcome: Option<bool>) {
        let known = self.known.entry(key).or_default();
        match outcome {
            Some(true) => {
                *known = Known { may_be: vec![state], since, until: self.shared.now() };
            }
            Some(false) => {
                if known.may_be.is_empty() {
                    known.may_be.push(None);
                }
                known.may_be.push(state);
            }
            None => {}
        }
    }

    fn run(mut self, steps: u64) -> Self {
        for _ in 0..steps {
            let (key, since) = (self.first + self.rng.below(OWNED), self.shared.now());
            match self.rng.below(100) {
                0..=28 => {
                    let mut value = random_document(&mut self.rng);
                    if let (Value::Map(map), true) = (&mut value, self.rng.percent(60)) {
                        map.insert("u", self.rng.below(UNIQUE));
                    }
                    let text = value.to_string();
                    let put = outcome(self.owned.put(key, value));
                    self.note(key, since, Some(text), put);
                }
                29..=38 => {
                    let removed = outcome(self.owned.remove(key));
                    self.note(key, since, None, removed);
                }
                39..=53 => self.update(key, since),
                54..=60 => self.patch(key, since),
                61..=93 => self.increment(),
                94 => {
                    let cleared = outcome(self.owned.clear());
                    let to = if cleared == Some(true) { self.shared.now() } else { NEVER };
                    self.clears.push((since, to));
                }
                95 => self.restart(),
                96 => self.rebalance(),
                _ => self.change_index(),
            }
        }
        self
    }

    /// Changes a document after it was read: what it becomes is known from what was seen.
    fn update(&mut self, key: u64, since: u64) {
        let (n, u, mut new) = (self.rng.below(20), self.rng.below(UNIQUE), None);
        let updated = self.owned.update(key, |document: &mut DocumentMut| {
            document.set("n", n)?;
            document.set("u", u)?;
            new = Some(document.value().to_string());
            Ok(())
        });
        let is_there = *updated.as_ref().unwrap_or(&true);
        let new = new.filter(|_| is_there);
        self.note(key, since, new, outcome(updated));
    }

    fn patch(&mut self, key: u64, since: u64) {
        let patch = Patch::new().upsert().set("p", self.rng.below(9)).push("tags", "t9");
        match self.owned.patch_if(key, &patch) {
            // What it was made of is not known: read it, as nobody else writes it.
            Ok(_) => {
                let read = loop {
                    if let Ok(read) = self.owned.get(key) {
                        break read;
                    }
                };
                let new = read.map(|document| document.to_value().to_string());
                self.note(key, since, new, Some(true));
            }
            Err(error) if error.kind() == ErrorKind::Unknown => {
                // Nothing is known of it until the next write.
                self.known.insert(key, Known { may_be: Vec::new(), since: NEVER, until: NEVER });
            }
            refused => drop(outcome(refused)),
        }
    }

    fn increment(&mut self) {
        let key = self.rng.below(COUNTED);
        let updated = self.counted.update(key, |document: &mut DocumentMut| {
            document.set("a", self.first)?;
            document.inc("n", 1)
        });
        let (acknowledged, unknown) = &self.shared.increments[key as usize];
        match outcome(updated) {
            Some(true) => acknowledged.fetch_add(1, Ordering::SeqCst),
            Some(false) => unknown.fetch_add(1, Ordering::SeqCst),
            None => 0,
        };
    }

    fn change_index(&mut self) {
        let (name, index) = *self.rng.pick(&INDEXES);
        let documents = if self.rng.percent(70) { &self.owned } else { &self.counted };
        let changed = match self.rng.below(3) {
            0 => documents.drop_index(name).map(drop),
            _ => documents.create_index(name, index()),
        };
        // Another thread may drop an index that is being built, or divide the collection.
        if let Err(error) = changed {
            let is_dropped = error.to_string().contains("was dropped while it was built");
            let is_busy = error.kind() == ErrorKind::Busy;
            assert!(is_dropped || is_busy || outcome::<()>(Err(error)) != Some(true));
        }
    }

    /// Divides a collection, or stops on the way.
    fn rebalance(&mut self) {
        let (name, power) = (*self.rng.pick(&["owned", "counted"]), self.rng.below(6));
        let layout = match self.rng.below(2) {
            0 => Layout::Hash(1 << power),
            _ => Layout::Ranges(1 + power as u32),
        };
        let mut pages = self.rng.below(30);
        let divided = self.cluster.rebalance(name, layout, |_| {
            pages = pages.saturating_sub(1);
            if pages == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // An index may be incomplete, or the documents few.
        if let Err(error) = divided {
            let is_refused = error.kind() == ErrorKind::Busy || is_too_few(&error);
            assert!(is_refused || outcome::<()>(Err(error)) != Some(true));
        }
    }

    /// Goes on as a process that knows nothing.
    fn restart(&mut self) {
        self.cluster = Arc::new(connect(self.mem));
        let open = |name| loop {
            if let Ok(collection) = self.cluster.collection(name) {
                break collection;
            }
        };
        (self.owned, self.counted) = (open("owned"), open("counted"));
    }
}

/// Checks that the documents are among what their writers know. A clear that may come after a write
/// may have removed it; one that has, has.
fn check_owned(owned: &Collection, writers: &[Writer<'_>]) {
    let clears: Vec<(u64, u64)> =
        writers.iter().flat_map(|writer| writer.clears.iter().copied()).collect();
    for (key, known) in writers.iter().flat_map(|writer| &writer.known) {
        let stored = owned.get(*key).unwrap().map(|document| document.to_value().to_string());
        let may_be_cleared = clears.iter().any(|(_, to)| *to > known.since);
        let is_known = known.may_be.contains(&stored) || known.may_be.is_empty();
        let is_cleared = stored.is_none() && may_be_cleared;
        // Nothing that was acknowledged before a clear began is there after it.
        let must_be_cleared = clears.iter().any(|(from, to)| *from > known.until && *to != NEVER);
        if must_be_cleared && known.may_be.len() == 1 {
            assert_eq!(stored, None, "key {key}: {known:?}, {clears:?}");
        }
        assert!(is_known || is_cleared, "key {key}: {stored:?} is none of {known:?}, {clears:?}");
    }
}

fn check_counted(counted: &Collection, shared: &Shared) {
    for (key, (acknowledged, unknown)) in shared.increments.iter().enumerate() {
        let n = counted.get(key as u64).unwrap().unwrap().int("n").unwrap() as u64;
        let (done, unknown) = (acknowledged.load(Ordering::SeqCst), unknown.load(Ordering::SeqCst));
        assert!((done..=done + unknown).contains(&n), "{key}: {n}, not {done} + {unknown}");
    }
}

/// Compares queries with those of an embedded database of the same documents and indexes.
fn check_queries(documents: &Collection, rng: &mut Rng) {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path()).unwrap();
    let model = database.collection("model").unwrap();
    for row in documents.scan(..) {
        let (key, document) = row.unwrap();
        model.put(key.as_i64().unwrap(), &document).unwrap();
    }
    for info in documents.indexes().iter().filter(|info| info.is_ready) {
        let (_, index) = INDEXES.iter().find(|(name, _)| *name == info.name.as_str()).unwrap();
        model.create_index(&info.name, index()).unwrap();
    }
    assert_eq!(documents.count().unwrap(), model.count().unwrap());
    for _ in 0..25 {
        let (n, a, tag) = (rng.below(20), rng.below(5), rng.below(6));
        let filter = rng
            .pick(&[
                format!(r#"{{"n":{{"$gte":{n}}}}}"#),
                format!(r#"{{"a":{a},"n":{{"$lt":{n}}}}}"#),
                format!(r#"{{"tags":"t{tag}"}}"#),
                format!(r#"{{"$or":[{{"a":{a}}},{{"tags":"t9"}}]}}"#),
                "{}".to_owned(),
            ])
            .clone();
        let sorted = |documents: &Collection, sort: &str| {
            keys_of(&documents.find(filter.as_str()).sort(sort).limit(20))
        };
        // With the key, so that the order is one alone.
        for sort in ["n,$key", "-a,n,-$key"] {
            assert_eq!(sorted(documents, sort), sorted(&model, sort), "{filter} by {sort}");
        }
        let count = |documents: &Collection| documents.find(filter.as_str()).count();
        let counted = count(documents).map_err(|error| error.to_string());
        assert_eq!(counted, Ok(count(&model).unwrap()), "{filter}");
    }
}

fn round(seed: u64, steps: u64) {
    let mem = Arc::new(Mem::with_faults(seed, Faults::default()));
    let clusters = [Arc::new(connect(&mem)), Arc::new(connect(&mem))];
    let handles = |cluster: &Cluster| {
        let open = |name| cluster.collection(name).unwrap();
        (open("owned"), open("counted"))
    };
    let shared = Shared::default();
    for key in 0..COUNTED {
        handles(&clusters[0]).1.put(key, Json(r#"{"n":0}"#)).unwrap();
    }
    let writers: Vec<Writer<'_>> = (0..THREADS)
        .map(|thread| {
            let cluster = Arc::clone(&clusters[thread as usize % 2]);
            let ((owned, counted), mem) = (handles(&cluster), &mem);
            let rng = Rng::new(seed ^ (thread << 32));
            let (shared, first) = (&shared, thread * 100);
            let (known, clears) = (HashMap::new(), Vec::new());
            Writer { mem, cluster, owned, counted, shared, rng, first, known, clears }
        })
        .collect();
    if seed.is_multiple_of(2) {
        let (name, index) = INDEXES[0];
        handles(&clusters[0]).0.create_index(name, index()).unwrap();
    }
    mem.set_faults(Faults::MANY);
    let writers: Vec<Writer<'_>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            writers.into_iter().map(|writer| scope.spawn(move || writer.run(steps))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    calm(&mem);
    for (turn, cluster) in clusters.iter().enumerate() {
        let (owned, counted) = handles(cluster);
        check_owned(&owned, &writers);
        check_counted(&counted, &shared);
        for documents in [&owned, &counted] {
            documents.verify_indexes().unwrap();
            check_queries(documents, &mut Rng::new(seed));
        }
        // A build that was cut short may be in the way.
        let watch = |_| ControlFlow::Continue(());
        let layout = [Layout::Hash(8), Layout::Ranges(3)][turn];
        match cluster.rebalance("owned", layout, watch) {
            Ok(done) => assert!(done.is_continue()),
            Err(error) => assert!(error.kind() == ErrorKind::Busy || is_too_few(&error), "{error}"),
        }
    }
}

#[test]
fn random_calls_of_two_processes_keep_what_they_acknowledged() {
    let first = seed("random_calls_of_two_processes_keep_what_they_acknowledged", 1);
    for one in 0..rounds(6, 200) {
        eprintln!("round {one}");
        round(first + one, 100);
    }
}
