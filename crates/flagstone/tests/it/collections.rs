//! What a collection promises beyond single documents: conditions, ranges, and what is stored.

use flagstone::{Database, ErrorKind, Result, Value, doc};

#[test]
fn conditions_on_documents_hold_or_refuse_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let (documents, log) = (db.collection("documents").unwrap(), db.keyspace("log").unwrap());
    let put = |change: &dyn Fn(&mut flagstone::Batch)| {
        let mut batch = db.batch();
        change(&mut batch);
        batch.put(&log, "last", "batch").unwrap();
        batch.put_value(&documents, 1, &doc!({ "n": 1 })).unwrap();
        db.commit(batch)
    };
    let is_new = |batch: &mut flagstone::Batch| batch.expect_no_document(&documents, 1).unwrap();
    put(&is_new).unwrap();
    assert_eq!(put(&is_new).unwrap_err().kind(), ErrorKind::Conflict);
    let (version, found) = documents.get_versioned(1).unwrap().unwrap();
    assert_eq!(found.int("n"), 1);
    let is_same = |batch: &mut flagstone::Batch| {
        batch.expect_document_version(&documents, 1, version).unwrap();
    };
    put(&is_same).unwrap();
    assert_eq!(put(&is_same).unwrap_err().kind(), ErrorKind::Conflict);
    assert!(documents.get_versioned(2).unwrap().is_none());
}

#[test]
fn a_range_of_documents_is_removed_by_the_order_of_values() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let documents = db.collection("documents").unwrap();
    for n in -3..=12 {
        documents.put_value(n, &doc!({ "n": n })).unwrap();
    }
    documents.put_value("text", &doc!({})).unwrap();
    documents.delete_range(-1..10).unwrap();
    let left: Vec<Value> = documents.scan_all().keys().map(Result::unwrap).collect();
    let expected = [-3, -2, 10, 11, 12].map(Value::from);
    assert_eq!(left[..5], expected);
    assert_eq!(left[5..], [Value::from("text")]);
    assert_eq!(documents.stored().scan_all().count(), 6);
    let snapshot = db.snapshot();
    documents.delete_range::<Value>(..).unwrap();
    assert_eq!((documents.count().unwrap(), documents.stored().scan_unordered().count()), (0, 0));
    assert_eq!(snapshot.scan_documents::<Value>(&documents, ..).unwrap().count(), 6);
}
