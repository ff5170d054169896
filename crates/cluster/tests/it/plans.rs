//! Which of several indexes a query reads, and what the choice costs.

use crate::support::{Hooked, Hooks, collection, keys_of};
use flagstone::query::Hint;
use flagstone::{Collection, Index, Json, Space};
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::Mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the readings of pages, each of which may ask for those of several buckets.
struct Counted(Arc<AtomicU64>);

impl Hooks for Counted {
    fn before_pages(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The plan that is chosen.
fn plan(documents: &Collection, filter: &str) -> String {
    documents.find(filter).explain().unwrap().to_string()
}

#[test]
fn the_index_with_fewer_entries_is_chosen_by_one_small_read() {
    let mem = Arc::new(Mem::new());
    {
        let (_cluster, documents) = collection(&mem);
        for key in 0..2000 {
            let document = format!(r#"{{"a":{},"b":{},"c":{}}}"#, key % 2, key % 400, key % 3);
            documents.put(key, Json(document)).unwrap();
        }
        // Whichever is created first.
        for path in ["a", "b", "c"] {
            documents.create_index(path, Index::on(format!("$.{path}").as_str())).unwrap();
        }
    }
    let reads = Arc::new(AtomicU64::new(0));
    let store = Hooked::over(Arc::clone(&mem) as _, Counted(Arc::clone(&reads)));
    let cluster = Cluster::over(store).unwrap();
    let documents = cluster.collection("c").unwrap();
    let count = |find: &flagstone::Find<'_>| {
        let before = reads.load(Ordering::SeqCst);
        let keys = keys_of(find);
        (keys, reads.load(Ordering::SeqCst) - before)
    };
    for (filter, best) in [
        (r#"{"a":1,"b":37}"#, "b"),
        (r#"{"b":37,"c":1}"#, "b"),
        // A value that is not there, and a range of few.
        (r#"{"a":7,"b":{"$gte":0}}"#, "a"),
        (r#"{"c":{"$gte":0},"b":{"$gte":398}}"#, "b"),
        (r#"{"a":{"$in":[0,1]},"b":{"$in":[3,4,5]},"c":2}"#, "b"),
    ] {
        // What is known of the sizes of indexes is read once a minute.
        let explained = plan(&documents, filter);
        let chosen = explained.lines().find(|line| line.contains("index \"")).unwrap();
        assert!(chosen.contains(&format!("index \"{best}\"")), "{filter}: {explained}");
        let (keys, planned) = count(&documents.find(filter));
        let (same, hinted) = count(&documents.find(filter).hint(Hint::index(best)));
        assert_eq!(keys, same);
        assert!(planned <= hinted + 1, "{filter}: {planned} reads, with a hint {hinted}");
        assert!(planned > hinted, "{filter}: {planned} reads, with a hint {hinted}");
    }
    // With one index, or none, nothing is read for the choice.
    for (filter, index) in [(r#"{"b":37}"#, "b"), (r#"{"b":37,"x":1}"#, "b")] {
        let (_, planned) = count(&documents.find(filter));
        let (_, hinted) = count(&documents.find(filter).hint(Hint::index(index)));
        assert_eq!(planned, hinted, "{filter}");
    }
}
