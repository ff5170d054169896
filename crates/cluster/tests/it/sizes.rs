//! Documents may have 8 MiB: what is read at once has few of long ones.

use crate::support::{by_n, calm, collection, keys_of, rebalance};
use flagstone::doc::JsonOptions;
use flagstone::load::DocumentParser;
use flagstone::query::Hint;
use flagstone::{Collection, ErrorKind, Index, Patch, Space, Value, doc};
use flagstone_cluster::Layout;
use flagstone_cluster::mem::Mem;
use flagstone_testkit::Rng;
use std::ops::Range;
use std::sync::Arc;

const COUNT: u64 = 150;
const BYTES: usize = 512 << 10;
/// What the largest read may have; all documents together have 75 MiB.
const MOST: u64 = 12 << 20;

/// Puts documents that no compression makes shorter.
fn fill_long(documents: &Collection) {
    let mut rng = Rng::new(1);
    for key in 0..COUNT {
        let letters = (0..BYTES).map(|_| char::from(b' ' + rng.below(90) as u8));
        let text: String = letters.collect();
        documents.put(key, doc!({ "n": (key), "text": (text) })).unwrap();
    }
}

#[test]
fn long_documents_are_read_few_at_once() {
    let mem = Arc::new(Mem::new());
    {
        let (_cluster, documents) = collection(&mem);
        fill_long(&documents);
    }
    // Each begins as a process that knows nothing of the documents.
    type Read = fn(&Collection);
    let reads: [(&str, Read); 5] = [
        ("a scan", |documents| assert_eq!(documents.scan(..).count() as u64, COUNT)),
        ("a build", |documents| documents.create_index("by n", by_n()).unwrap()),
        ("a fetch by index", |documents| {
            let find = documents.find(r#"{"n":{"$gte":0}}"#).hint(Hint::index("by n"));
            assert_eq!(keys_of(&find.sort("n")), (0..COUNT).collect::<Vec<_>>());
        }),
        ("a read by keys", |documents| {
            let found = documents.multi_get(0..COUNT).unwrap();
            assert_eq!(found.into_iter().flatten().count() as u64, COUNT);
        }),
        ("writes of many", |documents| {
            let patch = Patch::new().inc("n", 1);
            let done = documents.update_many("{}", &patch).run().unwrap();
            assert_eq!(done.modified, COUNT);
            documents.delete_range(..).unwrap();
        }),
    ];
    for (what, read) in reads {
        mem.forget_largest_read();
        read(&collection(&mem).1);
        let largest = mem.largest_read();
        assert!(largest <= MOST && largest >= BYTES as u64, "{what}: {largest} bytes at once");
    }
    calm(&mem);
    assert_eq!(collection(&mem).1.count().unwrap(), 0);
}

/// What is read for the entries of new documents does not tell how long they are.
#[test]
fn new_documents_with_entries_are_written_many_at_once() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    documents.create_index("by n", by_n()).unwrap();
    let before = mem.batches();
    let scratch = cluster.scratch().unwrap();
    let mut batch = scratch.batch();
    let mut parser = DocumentParser::new(&documents, JsonOptions::new());
    for n in 0..4_000 {
        let line = format!(r#"{{"id":{n},"n":{n}}}"#);
        parser.put(&mut batch, line.as_bytes(), "id").unwrap();
    }
    scratch.commit(batch).unwrap();
    assert_eq!(documents.verify_indexes().unwrap().entries, 4_000);
    let batches = mem.batches() - before;
    assert!(batches < 200, "{batches} batches, of which each of 16 buckets needs two");
}

/// Each entry is a statement of a batch, and Cassandra's protocol counts them with 16 bits. An
/// index of these documents could not be created, nor could they be written or copied.
#[test]
fn documents_with_many_entries_are_written_some_at_once() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    rebalance(&cluster, Layout::Hash(1)).unwrap();
    let tags: Value = (0..2_000_i64).collect();
    let many = |keys: Range<u64>| {
        let scratch = cluster.scratch().unwrap();
        let mut batch = scratch.batch();
        let mut parser = DocumentParser::new(&documents, JsonOptions::new());
        for key in keys {
            let line = format!(r#"{{"id":{key},"t":{tags}}}"#);
            parser.put(&mut batch, line.as_bytes(), "id").unwrap();
        }
        scratch.commit(batch).unwrap();
    };
    many(0..40);
    documents.create_index("tags", Index::on("$.t")).unwrap();
    many(40..80);
    assert_eq!(documents.verify_indexes().unwrap().entries, 160_000);
    rebalance(&cluster, Layout::Hash(2)).unwrap();
    assert_eq!(documents.verify_indexes().unwrap().entries, 160_000);
    // Those of all indexes are in the batch of one document.
    for field in ["a", "b", "c"] {
        documents.create_index(field, Index::on(field)).unwrap();
    }
    let ten_thousand: Value = (0..10_000_i64).collect();
    let document = || doc!({ "a": (ten_thousand.clone()), "b": (ten_thousand.clone()) });
    documents.put(100, document()).unwrap();
    let more = doc!({ "a": (ten_thousand.clone()), "b": (ten_thousand.clone()),
        "c": (ten_thousand.clone()) });
    let error = documents.put(101, more).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("more than 30000 entries in the indexes"), "{error}");
    assert!(documents.get(101).unwrap().is_none());
    // An index that would make too many of them is not built: nothing could write the document.
    documents.drop_index("c").unwrap();
    let more = doc!({ "a": (ten_thousand.clone()), "b": (ten_thousand.clone()),
        "c": (ten_thousand) });
    documents.put(101, more).unwrap();
    let error = documents.create_index("c", Index::on("c")).unwrap_err();
    assert!(
        error.to_string().contains("document of key 101: the document has more than"),
        "{error}"
    );
    assert_eq!(documents.indexes().len(), 3);
    documents.update(101, |document| document.set("d", 1)).unwrap();
    assert!(documents.remove(101).unwrap());
}
