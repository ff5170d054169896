//! What the tests share.

use flagstone::{Collection, Error, ErrorKind, Find, Index, Json, Result, Space, Value, doc};
use flagstone_cluster::mem::{Faults, Mem};
use flagstone_cluster::store::{
    Batch, Freshness, Kind, Outcome, Page, PageRequest, Partition, Record, Rows, RowsRequest, Store,
};
use flagstone_cluster::{Cluster, Layout};
use flagstone_doc::{Direction, sort_key};
use flagstone_testkit::Rng;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Connects to a store, as another process would.
pub(crate) fn connect(mem: &Arc<Mem>) -> Cluster {
    Cluster::over(Arc::clone(mem) as _).unwrap()
}

/// Returns a collection `c`, whose cluster lives as long as the handle.
pub(crate) fn collection(mem: &Arc<Mem>) -> (Cluster, Collection) {
    let cluster = connect(mem);
    let collection = cluster.collection("c").unwrap();
    (cluster, collection)
}

/// Gives a collection `c` another layout.
pub(crate) fn rebalance(cluster: &Cluster, layout: Layout) -> Result<()> {
    let done = cluster.rebalance("c", layout, |_| ControlFlow::Continue(()))?;
    assert!(done.is_continue());
    Ok(())
}

/// Returns whether a collection has too few keys for so many ranges.
pub(crate) fn is_too_few(error: &Error) -> bool {
    let text = "Ask for fewer ranges";
    error.kind() == ErrorKind::InvalidInput && error.to_string().contains(text)
}

/// Ends all faults, and lets everything that is late come.
pub(crate) fn calm(mem: &Mem) {
    mem.plan(&[]);
    mem.set_faults(Faults::default());
    mem.deliver();
}

pub(crate) fn by_n() -> Index {
    Index::on("$.n")
}

/// Puts the documents `0..count`, each with its number as `n`.
pub(crate) fn fill(collection: &Collection, count: u64) {
    for key in 0..count {
        collection.put(key, Json(format!(r#"{{"n":{key}}}"#))).unwrap();
    }
}

/// Returns `n` of a document.
pub(crate) fn n_of(collection: &Collection, key: u64) -> Option<i64> {
    collection.get(key).unwrap().map(|document| document.int("n").unwrap())
}

/// Returns the keys of the documents that a query finds.
pub(crate) fn keys_of(find: &Find<'_>) -> Vec<u64> {
    let (mut keys, mut cursor) = (Vec::new(), find.run().unwrap());
    while cursor.advance().unwrap() {
        keys.push(cursor.key().unwrap().as_i64().unwrap() as u64);
    }
    keys
}

/// Returns the keys of the documents that a filter finds, sorted.
pub(crate) fn found(collection: &Collection, filter: &str) -> Vec<u64> {
    let mut keys = keys_of(&collection.find(filter));
    keys.sort_unstable();
    keys
}

/// Returns a document of random fields.
pub(crate) fn random_document(rng: &mut Rng) -> Value {
    let tags: Value = (0..rng.below(3)).map(|_| format!("t{}", rng.below(6))).collect();
    let text = "x".repeat(rng.index(300));
    doc!({ "n": (rng.below(20)), "a": (rng.below(5)), "tags": (tags), "text": (text) })
}

/// Checks that a write is refused because another document has the value.
#[track_caller]
pub(crate) fn refused<T>(written: Result<T>, said: &str) {
    let Err(error) = written else { panic!("expected a duplicate: {said}") };
    assert_eq!(error.kind(), ErrorKind::Duplicate, "{error}");
    assert!(error.to_string().contains(said), "{error}");
}

/// Returns the stored form of a key.
pub(crate) fn stored_key(key: u64) -> Vec<u8> {
    let mut out = Vec::new();
    sort_key::encode(&Value::from(key), Direction::Ascending, &mut out);
    out
}

/// What happens beside the calls of one process.
pub(crate) trait Hooks: Send + Sync {
    fn before_rows(&self) {}

    fn before_pages(&self) {}

    fn before_batch(&self, _batch: &Batch) {}

    fn before_note(&self) {}

    /// Called when a note was set. An error is what the process gets.
    fn after_note(&self, _name: &str) -> Result<()> {
        Ok(())
    }
}

/// A process in which something happens before the nth reading of rows by their keys.
pub(crate) struct Meanwhile {
    pub(crate) left: AtomicU64,
    pub(crate) happens: Box<dyn Fn() + Send + Sync>,
}

impl Hooks for Meanwhile {
    fn before_rows(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            (self.happens)();
        }
    }
}

/// A store as one process sees it.
pub(crate) struct Hooked<H> {
    store: Arc<dyn Store>,
    hooks: H,
}

impl<H: Hooks + 'static> Hooked<H> {
    pub(crate) fn over(store: Arc<dyn Store>, hooks: H) -> Arc<dyn Store> {
        Arc::new(Self { store, hooks })
    }
}

impl<H: Hooks> Store for Hooked<H> {
    fn rows(&self, requests: &[RowsRequest]) -> Vec<Result<Rows>> {
        self.hooks.before_rows();
        self.store.rows(requests)
    }

    fn pages(&self, requests: &[PageRequest]) -> Vec<Result<Page>> {
        self.hooks.before_pages();
        self.store.pages(requests)
    }

    fn batch(&self, batch: &Batch) -> Result<Outcome> {
        self.hooks.before_batch(batch);
        self.store.batch(batch)
    }

    fn set_epoch(&self, partition: Partition, expected: Option<i32>, new: i32) -> Result<Outcome> {
        self.store.set_epoch(partition, expected, new)
    }

    fn remove_rows(&self, partition: Partition) -> Result<()> {
        self.store.remove_rows(partition)
    }

    fn remove_kind(&self, partition: Partition, kind: Kind) -> Result<()> {
        self.store.remove_kind(partition, kind)
    }

    fn note(&self, name: &str, freshness: Freshness) -> Result<Option<Record>> {
        self.hooks.before_note();
        self.store.note(name, freshness)
    }

    fn notes(&self) -> Result<Vec<(String, Record)>> {
        self.store.notes()
    }

    fn set_note(&self, name: &str, expected: Option<i64>, new: &Record) -> Result<Outcome> {
        let outcome = self.store.set_note(name, expected, new)?;
        if outcome == Outcome::Applied {
            self.hooks.after_note(name)?;
        }
        Ok(outcome)
    }
}
