//! Cassandra nodes, and a load on them.

use flagstone::{Collection, DocumentMut, ErrorKind, Index, Json, Space};
use flagstone_cluster::Cluster;
use flagstone_cluster::cql::Cql;
use flagstone_cluster::store::Store;
use flagstone_testkit::cassandra::{CommitLog, Nodes, Setup};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) const KEYSPACE: &str = "shop";
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A node that many tests use.
pub(crate) fn one() -> &'static Nodes {
    static NODE: OnceLock<Nodes> = OnceLock::new();
    NODE.get_or_init(|| {
        let commit_log = CommitLog::Periodic;
        Nodes::start(Setup::of(1, commit_log))
    })
}

/// Returns a keyspace of it, and the number of a generation for one test.
pub(crate) fn shared() -> (Cql, i32) {
    static GENERATION: AtomicI32 = AtomicI32::new(1);
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
    (Cql::connect(&format!("cql://{}/shared?rf=1", one().hosts())).unwrap(), generation)
}

/// Three nodes of which tests kill some.
pub(crate) fn three(commit_log: CommitLog) -> Nodes {
    Nodes::start(Setup::of(3, commit_log))
}

/// Within so many seconds each node tells clients of all others.
const SEEN_WITHIN: u32 = 30;

/// Connects to the keyspace of nodes.
pub(crate) fn connect(nodes: &Nodes, copies: u32, patience: Duration) -> Arc<dyn Store> {
    let address = format!("cql://{}/{KEYSPACE}?rf={copies}", nodes.hosts());
    for _ in 0..SEEN_WITHIN {
        match Cql::connect_impatiently(&address, patience) {
            // A node that is up may not have told clients of all others yet.
            Err(error) if error.to_string().contains("add nodes") => {
                std::thread::sleep(Duration::from_secs(1));
            }
            connected => return Arc::new(connected.unwrap()),
        }
    }
    panic!("the nodes do not see each other within {SEEN_WITHIN} s")
}

/// Threads of each store.
const THREADS: u64 = 3;
/// Documents that all threads increment.
const COUNTERS: u64 = 4;
const INDEX: &str = "by n";

/// Threads that put documents and increment others.
pub(crate) struct Load {
    is_ended: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Told>>,
    /// Of the collection.
    name: String,
}

/// What became of the writes.
#[derive(Debug, Default)]
pub(crate) struct Told {
    name: String,
    pub(crate) acknowledged: u64,
    pub(crate) unknown: u64,
    pub(crate) unavailable: u64,
    /// Acknowledged and unknown increments of each counter.
    increments: BTreeMap<u64, (u64, u64)>,
    /// The keys of documents with their `n`: those that must be there, and must not.
    there: Vec<(u64, u64)>,
    absent: Vec<u64>,
}

impl Load {
    /// Starts threads on a new collection.
    pub(crate) fn start(stores: &[Arc<dyn Store>]) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("load {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let (is_ended, acknowledged) = <(Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let mut threads = Vec::new();
        for (n, store) in (0_u64..).zip(stores) {
            let cluster = Arc::new(Cluster::over(Arc::clone(store)).unwrap());
            let collection = cluster.collection(&name).unwrap();
            if n == 0 {
                collection.create_index(INDEX, Index::on("$.n")).unwrap();
                for counter in 0..COUNTERS {
                    collection.put(counter, Json(r#"{"count":0}"#)).unwrap();
                }
            }
            for thread in 0..THREADS {
                let mut writer = Writer {
                    collection: collection.clone(),
                    first: (1 + n * THREADS + thread) << 32,
                    acknowledged: Arc::clone(&acknowledged),
                    told: Told::default(),
                };
                let (is_ended, cluster) = (Arc::clone(&is_ended), Arc::clone(&cluster));
                threads.push(std::thread::spawn(move || {
                    let _lives = cluster;
                    for at in 0.. {
                        if is_ended.load(Ordering::Relaxed) {
                            break;
                        }
                        writer.put(at);
                        writer.increment(at % COUNTERS);
                    }
                    writer.told
                }));
            }
        }
        Self { is_ended, acknowledged, threads, name }
    }

    /// Returns the name of the collection.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns how many writes were acknowledged up to now.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    pub(crate) fn end(self) -> Told {
        self.is_ended.store(true, Ordering::Relaxed);
        let mut all = Told { name: self.name, ..Told::default() };
        for thread in self.threads {
            let told = thread.join().unwrap();
            all.acknowledged += told.acknowledged;
            all.unknown += told.unknown;
            all.unavailable += told.unavailable;
            all.there.extend(told.there);
            all.absent.extend(told.absent);
            for (counter, (known, unknown)) in told.increments {
                let of = all.increments.entry(counter).or_default();
                *of = (of.0 + known, of.1 + unknown);
            }
        }
        eprintln!(
            "{} acknowledged, {} unknown, {} unavailable",
            all.acknowledged, all.unknown, all.unavailable
        );
        all
    }
}

struct Writer {
    collection: Collection,
    first: u64,
    acknowledged: Arc<AtomicU64>,
    told: Told,
}

impl Writer {
    fn put(&mut self, at: u64) {
        let (key, n) = (self.first + at, at % 50);
        match self.collection.put(key, Json(format!(r#"{{"n":{n},"own":{key}}}"#))) {
            Ok(()) => {
                self.acknowledge();
                self.told.there.push((key, n));
            }
            Err(error) if self.is_unknown(&error) => {}
            Err(_unavailable) => self.told.absent.push(key),
        }
    }

    fn increment(&mut self, counter: u64) {
        let increment = |document: &mut DocumentMut| document.inc("count", 1);
        match self.collection.update(counter, increment) {
            Ok(is_there) => {
                assert!(is_there, "counter {counter} is gone");
                self.acknowledge();
                self.told.increments.entry(counter).or_default().0 += 1;
            }
            Err(error) if self.is_unknown(&error) => {
                self.told.increments.entry(counter).or_default().1 += 1;
            }
            Err(_unavailable) => {}
        }
    }

    fn acknowledge(&mut self) {
        self.told.acknowledged += 1;
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether a write may have happened. After other errors it waits a little.
    fn is_unknown(&mut self, error: &flagstone::Error) -> bool {
        match error.kind() {
            ErrorKind::Unknown => {
                self.told.unknown += 1;
                true
            }
            ErrorKind::Unavailable | ErrorKind::Conflict => {
                self.told.unavailable += 1;
                std::thread::sleep(Duration::from_millis(50));
                false
            }
            _ => panic!("{error}"),
        }
    }
}

impl Told {
    /// Compares what is stored.
    pub(crate) fn check(&self, store: &Arc<dyn Store>) {
        let cluster = Cluster::over(Arc::clone(store)).unwrap();
        let collection = cluster.collection(&self.name).unwrap();
        let stored = collection.scan(..).map(|row| {
            let (key, document) = row.unwrap();
            (key.as_i64().unwrap() as u64, document.int("n"))
        });
        let stored: BTreeMap<u64, Option<i64>> = stored.collect();
        for (key, n) in &self.there {
            assert_eq!(stored.get(key), Some(&Some(*n as i64)), "acknowledged document {key}");
        }
        for key in &self.absent {
            assert_eq!(stored.get(key), None, "document {key}, whose put failed for good");
        }
        for (counter, (known, unknown)) in &self.increments {
            let count = collection.get(*counter).unwrap().unwrap().int("count").unwrap() as u64;
            let may_be = *known..=known + unknown;
            assert!(may_be.contains(&count), "counter {counter}: {count}, not {may_be:?}");
        }
        collection.verify_indexes().unwrap();
        let found = collection.find(r#"{"n":{"$gte":0}}"#).count().unwrap();
        let most = self.there.len() as u64 + self.unknown;
        assert!((self.there.len() as u64..=most).contains(&found), "{found} by the index");
    }
}
