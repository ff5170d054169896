//! Tests over another store: the collections of the databases of a [`World`](crate::World) are
//! those of a cluster, and their files hold none. `FLAGSTONE_STORE` names it: `mem` is a cluster in
//! memory, an address such as `cql://127.0.0.1:9042/tests?rf=1` a keyspace of Cassandra.

use flagstone::internal::{Redirected, redirect};
use flagstone::{Database, Result};
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::Mem;
use flagstone_cluster::store::Store;
use flagstone_env::Clock;
use std::sync::Arc;

/// The name of the variable.
pub const STORE: &str = "FLAGSTONE_STORE";

/// Returns whether the collections of the tests are elsewhere.
pub fn is_elsewhere() -> bool {
    std::env::var_os(STORE).is_some()
}

/// Returns a store without collections.
///
/// # Panics
/// If the cluster cannot be reached.
pub(crate) fn empty_store() -> Arc<dyn Store> {
    match std::env::var(STORE) {
        Ok(address) if address != "mem" => cassandra(&address),
        _ => Arc::new(Mem::new()),
    }
}

#[cfg(not(feature = "cql"))]
fn cassandra(address: &str) -> Arc<dyn Store> {
    panic!("{STORE} is {address}: this build of testkit is without its feature cql")
}

#[cfg(feature = "cql")]
fn cassandra(address: &str) -> Arc<dyn Store> {
    use flagstone_cluster::cql::Cql;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI32, Ordering};
    static KEYSPACE: OnceLock<Arc<Cql>> = OnceLock::new();
    static NUMBER: AtomicI32 = AtomicI32::new(1);
    let connect = || Arc::new(Cql::connect(address).unwrap_or_else(|error| panic!("{error}")));
    let keyspace = Arc::clone(KEYSPACE.get_or_init(connect)) as _;
    Arc::new(part::Part::new(keyspace, NUMBER.fetch_add(1, Ordering::Relaxed)))
}

/// A part of a store, which is a store: to create a keyspace for each test would take minutes.
#[cfg(feature = "cql")]
mod part {
    use flagstone::Result;
    use flagstone_cluster::store::{
        Batch, Freshness, Kind, Outcome, Page, PageRequest, Partition, Record, Rows, RowsRequest,
        Store,
    };
    use std::sync::Arc;

    /// The generations of a part.
    const GENERATIONS: i32 = 100_000;

    pub(super) struct Part {
        whole: Arc<dyn Store>,
        number: i32,
        /// The names of its notes begin with it.
        prefix: String,
    }

    impl Part {
        pub(super) fn new(whole: Arc<dyn Store>, number: i32) -> Self {
            Self { whole, number, prefix: format!("{number}/") }
        }

        fn partition(&self, Partition { generation, bucket }: Partition) -> Partition {
            assert!((0..GENERATIONS).contains(&generation));
            Partition { generation: generation + self.number * GENERATIONS, bucket }
        }

        fn name(&self, name: &str) -> String {
            format!("{}{name}", self.prefix)
        }
    }

    impl Store for Part {
        fn rows(&self, requests: &[RowsRequest]) -> Vec<Result<Rows>> {
            let mine = |request: &RowsRequest| {
                let partition = self.partition(request.partition);
                RowsRequest { partition, ..request.clone() }
            };
            self.whole.rows(&requests.iter().map(mine).collect::<Vec<_>>())
        }

        fn pages(&self, requests: &[PageRequest]) -> Vec<Result<Page>> {
            let mine = |request: &PageRequest| {
                let partition = self.partition(request.partition);
                PageRequest { partition, ..request.clone() }
            };
            self.whole.pages(&requests.iter().map(mine).collect::<Vec<_>>())
        }

        fn batch(&self, batch: &Batch) -> Result<Outcome> {
            let partition = self.partition(batch.partition);
            self.whole.batch(&Batch { partition, ..batch.clone() })
        }

        fn set_epoch(
            &self,
            partition: Partition,
            expected: Option<i32>,
            new: i32,
        ) -> Result<Outcome> {
            self.whole.set_epoch(self.partition(partition), expected, new)
        }

        fn remove_rows(&self, partition: Partition) -> Result<()> {
            self.whole.remove_rows(self.partition(partition))
        }

        fn remove_kind(&self, partition: Partition, kind: Kind) -> Result<()> {
            self.whole.remove_kind(self.partition(partition), kind)
        }

        fn note(&self, name: &str, freshness: Freshness) -> Result<Option<Record>> {
            self.whole.note(&self.name(name), freshness)
        }

        fn version(&self, name: &str, freshness: Freshness) -> Result<Option<i64>> {
            self.whole.version(&self.name(name), freshness)
        }

        fn notes(&self) -> Result<Vec<(String, Record)>> {
            let mine = |(name, record): (String, Record)| {
                Some((name.strip_prefix(&self.prefix)?.to_owned(), record))
            };
            Ok(self.whole.notes()?.into_iter().filter_map(mine).collect())
        }

        fn set_note(&self, name: &str, expected: Option<i64>, new: &Record) -> Result<Outcome> {
            self.whole.set_note(&self.name(name), expected, new)
        }
    }
}

/// Lets the collections of an open database be those of `store`.
pub(crate) fn redirected(
    database: &Database,
    store: &Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
) -> Result<Redirected> {
    let environment = flagstone::admin::Environment {
        clock: Arc::clone(clock),
        ..flagstone::admin::Environment::default()
    };
    let cluster = Cluster::over_with(Arc::clone(store), environment, &std::env::temp_dir())?;
    let collections = move |name: &str, creates: bool| {
        if creates { cluster.collection(name).map(Some) } else { cluster.existing(name) }
    };
    Ok(redirect(database, Arc::new(collections)))
}
