//! Which of several indexes a query reads, and what the choice costs.

use crate::support::{Hooked, Hooks, by_n, collection, fill, found, keys_of};
use flagstone::query::Hint;
use flagstone::{Collection, Index, Json, Space};
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::Mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

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

/// What a process reads, and what others do once, before the pages or the rows of a query are read.
#[derive(Default)]
struct Watched {
    pages: AtomicU64,
    rows: AtomicU64,
    notes: AtomicU64,
    before_pages: Mutex<Option<Happens>>,
    before_rows: Mutex<Option<Happens>>,
}

type Happens = Box<dyn Fn() + Send + Sync>;

impl Watched {
    /// Lets something happen, and returns what is read meanwhile: pages, rows and notes.
    fn count<R>(&self, run: impl FnOnce() -> R) -> (R, [u64; 3]) {
        let all = [&self.pages, &self.rows, &self.notes];
        let before = all.map(|count| count.load(Ordering::SeqCst));
        let done = run();
        let mut read = all.map(|count| count.load(Ordering::SeqCst));
        read.iter_mut().zip(before).for_each(|(read, before)| *read -= before);
        (done, read)
    }

    fn note(count: &AtomicU64, happens: &Mutex<Option<Happens>>) {
        count.fetch_add(1, Ordering::SeqCst);
        let happens = happens.lock().unwrap().take();
        if let Some(happens) = happens {
            happens();
        }
    }
}

impl Hooks for Arc<Watched> {
    fn before_pages(&self) {
        Watched::note(&self.pages, &self.before_pages);
    }

    fn before_rows(&self) {
        Watched::note(&self.rows, &self.before_rows);
    }

    fn before_note(&self) {
        self.notes.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns a collection of documents with an index, as one process sees it that is watched, and as
/// another one does.
fn watched(documents: u64) -> (Arc<Watched>, (Cluster, Collection), (Cluster, Collection)) {
    let mem = Arc::new(Mem::new());
    let (cluster, other) = collection(&mem);
    fill(&other, documents);
    other.create_index("by n", by_n()).unwrap();
    let watched = Arc::new(Watched::default());
    let own = Cluster::over(Hooked::over(Arc::clone(&mem) as _, Arc::clone(&watched))).unwrap();
    let documents = own.collection("c").unwrap();
    (watched, (own, documents), (cluster, other))
}

#[test]
fn a_query_reads_the_catalog_once_and_beside_its_documents() {
    let (watched, (_own, documents), _other) = watched(1000);
    // What is known of the sizes is read once a minute.
    assert_eq!(found(&documents, r#"{"n":42}"#), [42]);
    for (filter, reads) in [
        // The entries, of which most buckets have none, and the document.
        (r#"{"n":42}"#, [1, 1, 1]),
        (r#"{"n":5000}"#, [1, 0, 1]),
        (r#"{"$key":{"$in":[3,4]}}"#, [0, 1, 1]),
    ] {
        let (_, read) = watched.count(|| documents.find(filter).run().map(drop).unwrap());
        assert_eq!(read, reads, "{filter}: pages, rows, notes");
    }
    // The catalog is read before the second pages, not at the end of a long sort.
    let find = documents.find("{}").sort("text");
    let (keys, [pages, rows, notes]) = watched.count(|| keys_of(&find));
    assert_eq!((keys.len(), rows), (1000, 0));
    assert!(pages > notes, "{pages} pages, {notes} notes");
}

#[test]
fn hints_and_page_tokens_of_indexes_that_others_made_are_known() {
    let (_watched, (_own, documents), (_cluster, other)) = watched(100);
    assert_eq!(found(&documents, r#"{"n":42}"#), [42]);
    other.create_index("later", Index::on("$.n").then("$.m")).unwrap();
    let hinted = documents.find(r#"{"n":{"$gte":98}}"#).hint(Hint::index("later"));
    assert_eq!(keys_of(&hinted), [98, 99]);
    let none = documents.find("{}").hint(Hint::index("none")).run().unwrap_err();
    assert!(none.to_string().contains("\"none\""), "{none}");
    // A page in the order of an index, and the next one.
    let (_watched, (_own, documents), (_cluster, other)) = watched(0);
    for key in 0..10 {
        other.put(key, Json(format!(r#"{{"n":{key},"m":{{"a":1}}}}"#))).unwrap();
    }
    assert_eq!(found(&documents, r#"{"n":4}"#), [4]);
    other.create_index("by m", Index::on("$.m").then("$.n").descending()).unwrap();
    let sorted = |of: &Collection| of.find("{}").sort("m").hint(Hint::index("by m"));
    let page = sorted(&other).page(3).unwrap();
    let next = sorted(&documents).after(&page.next.unwrap()).page(3).unwrap();
    let keys = |page: &flagstone::query::Page| -> Vec<i64> {
        page.documents.iter().map(|(key, _)| key.as_i64().unwrap()).collect()
    };
    assert_eq!(keys(&next), [6, 5, 4]);
}

#[test]
fn a_query_is_planned_again_if_others_changed_the_catalog() {
    type Change = fn(&Collection);
    let changes: [(&str, Change); 5] = [
        ("none", |_| ()),
        ("an array, whose elements meet both bounds", |other| {
            other.put(7, Json(r#"{"n":[1,900]}"#)).unwrap();
        }),
        ("no index", |other| assert!(other.drop_index("by n").unwrap())),
        ("another index of that name", |other| {
            assert!(other.drop_index("by n").unwrap());
            other.create_index("by n", Index::on("$.other")).unwrap();
        }),
        ("other documents", |other| {
            other.clear().unwrap();
            other.put(3, Json(r#"{"n":[1,900]}"#)).unwrap();
            other.put(4, Json(r#"{"n":42}"#)).unwrap();
        }),
    ];
    let filters = [
        r#"{"n":{"$gte":800,"$lte":100}}"#,
        r#"{"n":42}"#,
        r#"{"n":5000}"#,
        r#"{"n":{"$gte":40,"$lt":45}}"#,
    ];
    for (what, change) in changes {
        for filter in filters {
            for when in ["before the query", "before its pages", "before its documents"] {
                let (watched, (_own, documents), (_cluster, other)) = watched(100);
                let before = found(&documents, filter);
                let of_other = other.clone();
                let happens: Happens = Box::new(move || change(&of_other));
                match when {
                    "before the query" => happens(),
                    "before its pages" => *watched.before_pages.lock().unwrap() = Some(happens),
                    _ => *watched.before_rows.lock().unwrap() = Some(happens),
                }
                let is_found = found(&documents, filter);
                let has_happened = watched.before_pages.lock().unwrap().is_none()
                    && watched.before_rows.lock().unwrap().is_none();
                let after = found(&other, filter);
                // What happens beside a query may be seen or not, but for its own index.
                let expected = if has_happened { [&after, &after] } else { [&before, &before] };
                let expected = match when {
                    "before its documents" if what == "other documents" => [&after, &before],
                    _ => expected,
                };
                assert!(
                    expected.contains(&&is_found),
                    "{what} {when}, {filter}: {is_found:?} and not {expected:?}"
                );
            }
        }
    }
}
