//! What a collection promises beyond single documents: conditions, ranges, and what is stored.

use flagstone::{Database, ErrorKind, Expect, Result, Space, Value, doc, internal};

#[test]
fn conditions_on_documents_hold_or_refuse_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let (documents, log) = (db.collection("documents").unwrap(), db.keyspace("log").unwrap());
    let put = |change: &dyn Fn(&mut flagstone::Batch)| {
        let mut batch = db.batch();
        change(&mut batch);
        batch.put(&log, "last", "batch").unwrap();
        batch.put(&documents, 1, doc!({ "n": 1 })).unwrap();
        db.commit(batch)
    };
    let is_new =
        |batch: &mut flagstone::Batch| batch.expect(&documents, 1, Expect::Absent).unwrap();
    put(&is_new).unwrap();
    assert_eq!(put(&is_new).unwrap_err().kind(), ErrorKind::Conflict);
    let (version, found) = documents.get_versioned(1).unwrap().unwrap();
    assert_eq!(found.int("n").unwrap(), 1);
    let is_same = |batch: &mut flagstone::Batch| {
        batch.expect(&documents, 1, Expect::Version(version)).unwrap();
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
        documents.put(n, doc!({ "n": n })).unwrap();
    }
    documents.put("text", doc!({})).unwrap();
    documents.delete_range(-1..10).unwrap();
    let left: Vec<Value> = documents.scan(..).keys().map(Result::unwrap).collect();
    let expected = [-3, -2, 10, 11, 12].map(Value::from);
    assert_eq!(left[..5], expected);
    assert_eq!(left[5..], [Value::from("text")]);
    assert_eq!(internal::stored(&documents).unwrap().scan(..).count(), 6);
    let snapshot = db.snapshot();
    documents.delete_range(..).unwrap();
    assert_eq!(
        (
            documents.count().unwrap(),
            internal::stored(&documents).unwrap().scan(..).unordered().count()
        ),
        (0, 0)
    );
    assert_eq!(snapshot.scan(&documents, ..).count(), 6);
}

#[test]
fn a_snapshot_has_documents_and_stored_bytes_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let documents = db.collection("documents").unwrap();
    for n in 1..=3 {
        documents.put(n, doc!({ "n": n })).unwrap();
    }
    let before = db.snapshot();
    let stored = |snapshot: &flagstone::Snapshot| -> Vec<(Vec<u8>, Vec<u8>)> {
        let entries = snapshot.scan(&internal::stored(&documents).unwrap(), ..);
        entries.map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect()
    };
    let bytes = stored(&before);
    documents.put(2, doc!({ "n": 20 })).unwrap();
    documents.delete(3).unwrap();
    let n = |snapshot: &flagstone::Snapshot, key: i64| {
        snapshot.get(&documents, key).unwrap().map(|document| document.int("n").unwrap())
    };
    assert_eq!([1, 2, 3].map(|key| n(&before, key)), [Some(1), Some(2), Some(3)]);
    let after = db.snapshot();
    assert_eq!([1, 2, 3].map(|key| n(&after, key)), [Some(1), Some(20), None]);
    let scanned: Vec<(Value, i64)> = before
        .scan(&documents, 2..)
        .map(|entry| entry.map(|(key, document)| (key, document.int("n").unwrap())).unwrap())
        .collect();
    assert_eq!(scanned, [(Value::from(2), 2), (Value::from(3), 3)]);
    assert_eq!((bytes.len(), stored(&before) == bytes, stored(&after).len()), (3, true, 2));
    let (key, value) = &bytes[2];
    assert_eq!(before.get(&internal::stored(&documents).unwrap(), key).unwrap().unwrap(), *value);
    assert_eq!(internal::stored(&documents).unwrap().get(key).unwrap(), None);
    let too_long = "x".repeat(70_000);
    let refused = before.get(&documents, too_long.as_str()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let refused = before.scan(&documents, too_long.as_str()..).next().unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_snapshot_refuses_a_collection_of_another_database() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let snapshot = Database::open(dir.path()).unwrap().snapshot();
    let theirs = Database::open(other.path()).unwrap().collection("documents").unwrap();
    let kinds = [
        snapshot.get(&theirs, 1).map(|_| ()),
        snapshot.scan(&theirs, ..).try_for_each(|entry| entry.map(|_| ())),
        snapshot.get(&internal::stored(&theirs).unwrap(), "a").map(|_| ()),
        snapshot
            .scan(&internal::stored(&theirs).unwrap(), ..)
            .try_for_each(|entry| entry.map(|_| ())),
    ];
    for refused in kinds {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_batch_deletes_documents_with_its_other_writes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let documents = db.collection("documents").unwrap();
    documents.put("old", doc!({ "n": 1 })).unwrap();
    let mut batch = db.batch();
    batch.delete(&documents, "old").unwrap();
    batch.delete(&documents, "never there").unwrap();
    batch.put(&documents, "new", doc!({ "n": 2 })).unwrap();
    batch.put(&documents, "copy", &documents.get("old").unwrap().unwrap()).unwrap();
    let refused = batch.delete(&documents, "x".repeat(70_000)).unwrap_err();
    assert_eq!((refused.kind(), batch.len()), (ErrorKind::InvalidInput, 4));
    assert!(documents.get("old").unwrap().is_some());
    db.commit(batch).unwrap();
    let keys: Vec<Value> = documents.scan(..).keys().map(Result::unwrap).collect();
    assert_eq!(keys, [Value::from("copy"), Value::from("new")]);
    assert_eq!(documents.get("copy").unwrap().unwrap().int("n").unwrap(), 1);
}

#[test]
fn a_condition_sees_that_a_document_was_written_or_removed_since() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let documents = db.collection("documents").unwrap();
    documents.put(1, doc!({ "n": 1 })).unwrap();
    let commit = |version| {
        let mut batch = db.batch();
        for key in [1, 2] {
            batch.expect(&documents, key, Expect::UnchangedSince(version)).unwrap();
        }
        batch.put(&documents, 3, doc!({})).unwrap();
        db.commit(batch)
    };
    commit(db.snapshot().version()).unwrap();
    let version = db.snapshot().version();
    documents.delete(1).unwrap();
    assert_eq!(commit(version).unwrap_err().kind(), ErrorKind::Conflict);
    let version = db.snapshot().version();
    documents.put(2, doc!({})).unwrap();
    assert_eq!(commit(version).unwrap_err().kind(), ErrorKind::Conflict);
    commit(db.snapshot().version()).unwrap();
}

#[test]
fn counts_are_exact_by_reading_and_near_by_counters() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let documents = db.collection("documents").unwrap();
    let bytes = db.keyspace("bytes").unwrap();
    assert_eq!((documents.approximate_count(), bytes.approximate_count()), (0, 0));
    for n in 0..100 {
        documents.put(n, doc!({})).unwrap();
        bytes.put([n as u8], "").unwrap();
    }
    db.flush().unwrap();
    assert_eq!((documents.approximate_count(), bytes.approximate_count()), (100, 100));
    documents.delete_range(..50).unwrap();
    assert_eq!(documents.count().unwrap(), 50);
    db.compact().unwrap();
    assert_eq!(documents.approximate_count(), 50);
}

/// A load that has failed drops what it has created and not filled. Whether it is empty was asked
/// before the drop, and a document that came between the two went with it.
#[test]
fn only_a_collection_that_nobody_writes_to_is_dropped_as_unwritten() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let is_there = || db.keyspaces().iter().any(|info| info.name == "new");
    let new = db.collection("new").unwrap();
    new.keep_old_documents(true).unwrap();
    assert!(internal::drop_unwritten(&db, &new).unwrap() && !is_there());
    assert!(new.put(1, doc!({})).unwrap_err().to_string().contains("was dropped"));
    assert!(!internal::drop_unwritten(&db, &new).unwrap());
    // Each of these is a use of it, whatever is left.
    let uses: [&dyn Fn(&flagstone::Collection); 3] = [
        &|new| new.put(1, doc!({})).unwrap(),
        &|new| {
            new.put(1, doc!({})).unwrap();
            db.flush().unwrap();
        },
        &|new| new.create_index("n", flagstone::Index::on("n")).unwrap(),
    ];
    for used in uses {
        let new = db.collection("new").unwrap();
        used(&new);
        assert!(!internal::drop_unwritten(&db, &new).unwrap() && is_there());
        db.drop_keyspace("new").unwrap();
    }
    for round in 0..60 {
        let new = db.collection("new").unwrap();
        let put = std::thread::scope(|threads| {
            let put = threads.spawn(|| {
                (0..round % 20).for_each(|_| std::thread::yield_now());
                new.put(1, doc!({}))
            });
            internal::drop_unwritten(&db, &new).unwrap();
            put.join().unwrap()
        });
        assert_eq!(put.is_ok(), is_there());
        match put {
            Ok(()) => {
                assert_eq!(new.count().unwrap(), 1);
                db.drop_keyspace("new").unwrap();
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput),
        }
    }
    drop(new);
    db.close().unwrap();
    assert!(Database::open(dir.path()).unwrap().keyspaces().is_empty());
}

/// The server reads documents with the names of the collection that they are for, and a put stores
/// their bytes as they are: the names that they define must reach the log with them.
#[test]
fn a_document_with_the_names_of_its_collection_is_put_as_it_is_and_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let (documents, others) =
        (db.collection("documents").unwrap(), db.collection("others").unwrap());
    // Another order of the same names in the other table.
    others.put(0, doc!({ "b": 0, "a": 0 })).unwrap();
    let value = doc!({ "a": { "b": 1 }, "c": [1, "x"] });
    let names = internal::names(&documents).unwrap();
    let mut bytes = Vec::new();
    let mut encoder = internal::document::Encoder::new();
    encoder.encode(&value, Some(&names), &mut bytes).unwrap();
    let document = internal::document::encoded(flagstone::Slice::copy_of(&bytes), Some(names));
    documents.put(1, &document).unwrap();
    others.put(1, &document).unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&documents, 2, &document).unwrap();
    tx.commit().unwrap();
    let stored = internal::stored(&documents).unwrap();
    assert!(stored.scan(..).all(|entry| *entry.unwrap().1 == *bytes));
    drop((stored, document, documents, others));
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    for (name, key) in [("documents", 1), ("documents", 2), ("others", 1)] {
        let found = db.collection(name).unwrap().get(key).unwrap().unwrap();
        assert_eq!(found.to_value(), value, "{name} {key}");
    }
}
