//! How writes share batches, and how closures run.

use crate::support::{collection, fill, n_of, stored_key};
use flagstone::admin::Environment;
use flagstone::internal;
use flagstone::remote::{Row, Write};
use flagstone::{DocumentMut, ErrorKind, Expires, Json, Slice, Space};
use flagstone_base::Moment;
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::{Faults, Mem};
use flagstone_cluster::store::{Batch, Change, Kind, Record, Store, StoredRow};
use flagstone_doc::Encoder;
use flagstone_env::{Clock, ManualClock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn updates_of_one_document_share_batches() {
    let mem = Arc::new(Mem::with_faults(1, Faults { pauses: 1000, ..Faults::default() }));
    let (_cluster, documents) = collection(&mem);
    documents.put(1, Json(r#"{"n":0}"#)).unwrap();
    let before = mem.batches();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let increment = |document: &mut DocumentMut| document.inc("n", 1);
                    assert!(documents.update(1, increment).unwrap());
                }
            });
        }
    });
    assert_eq!(n_of(&documents, 1), Some(400));
    assert!(mem.batches() - before < 350, "{}", mem.batches() - before);
}

/// Encodes documents for a remote: numbers 0 and up, of about so many bytes.
fn rows(count: u64, bytes: usize) -> Vec<(Vec<u8>, Row)> {
    let text = "y".repeat(bytes);
    let value = |n: u64| flagstone::doc!({ "n": n, "text": (text.clone()) });
    let row = |n: u64| {
        let mut document = Vec::new();
        Encoder::default().encode(&value(n), None, &mut document).unwrap();
        (stored_key(n), Row { document: Slice::from(document), expiry: None })
    };
    (0..count).map(row).collect()
}

#[test]
fn many_documents_are_put_by_few_batches_of_a_limited_size() {
    for (count, bytes, most) in [(1000, 10, 16), (64, 300 << 10, 64)] {
        let mem = Arc::new(Mem::new());
        let (_cluster, documents) = collection(&mem);
        fill(&documents, 100);
        let before = mem.batches();
        internal::remote_of(&documents).unwrap().put_many(rows(count, bytes)).unwrap();
        let sent = mem.batches() - before;
        assert!(sent <= most, "{sent} batches");
        assert!(sent * (1 << 20) >= count * bytes as u64 / 2, "{sent} batches");
        assert_eq!(documents.count().unwrap(), count.max(100));
        assert_eq!(n_of(&documents, 63), Some(63));
    }
}

#[test]
fn of_two_documents_with_one_key_the_later_one_counts() {
    let (_cluster, documents) = collection(&Arc::new(Mem::new()));
    let (first, second) = (rows(1, 5).remove(0), rows(2, 5).remove(1));
    let key = first.0.clone();
    internal::remote_of(&documents).unwrap().put_many(vec![first, (key, second.1)]).unwrap();
    assert_eq!(n_of(&documents, 0), Some(1));
}

#[test]
fn a_closure_that_panics_ends_only_its_own_call() {
    let mem = Arc::new(Mem::with_faults(1, Faults { pauses: 1000, ..Faults::default() }));
    let (_cluster, documents) = collection(&mem);
    documents.put(1, Json(r#"{"n":0}"#)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let documents = &documents;
            scope.spawn(move || {
                for turn in 0..20 {
                    let panics = thread == 0 && turn % 2 == 0;
                    let updated = catch_unwind(AssertUnwindSafe(|| {
                        documents.update(1, |document: &mut DocumentMut| {
                            assert!(!panics, "as planned");
                            document.inc("n", 1)
                        })
                    }));
                    assert_eq!(updated.is_err(), panics);
                    assert!(panics || updated.unwrap().unwrap());
                }
            });
        }
    });
    assert_eq!(n_of(&documents, 1), Some(70));
}

#[test]
fn a_closure_may_read_but_not_write() {
    let (_cluster, documents) = collection(&Arc::new(Mem::new()));
    fill(&documents, 10);
    let updated = documents.update(1, |document: &mut DocumentMut| {
        let other = n_of(&documents, 2).unwrap();
        let refused = documents.put(3, Json("{}")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert_eq!(documents.clear().unwrap_err().kind(), ErrorKind::InvalidInput);
        document.inc("n", other)
    });
    assert!(updated.unwrap());
    assert_eq!((n_of(&documents, 1), n_of(&documents, 3)), (Some(3), Some(3)));
}

#[test]
fn an_expired_document_is_not_there_and_leaves_no_entry_behind() {
    let clock = Arc::new(ManualClock::default());
    let environment = Environment { clock: Arc::clone(&clock) as _, ..Environment::default() };
    let dir = tempfile::tempdir().unwrap();
    let mem = Arc::new(Mem::new());
    let cluster = Cluster::over_with(Arc::clone(&mem) as _, environment, dir.path()).unwrap();
    let documents = cluster.collection("c").unwrap();
    documents.create_index("by n", crate::support::by_n()).unwrap();
    let soon = Moment::since_1970(clock.wall()).after(Duration::from_secs(60));
    documents.put(1, Json(r#"{"n":1}"#).expires(soon)).unwrap();
    documents.put(2, Json(r#"{"n":2}"#)).unwrap();
    assert!(documents.update(1, |document: &mut DocumentMut| document.inc("n", 4)).unwrap());
    assert_eq!(documents.expiry(1).unwrap(), Some(soon));
    assert_eq!((documents.count().unwrap(), n_of(&documents, 1)), (2, Some(5)));
    clock.advance(Duration::from_secs(60));
    assert_eq!((documents.count().unwrap(), n_of(&documents, 1)), (1, None));
    assert_eq!(crate::support::found(&documents, r#"{"n":{"$gt":0}}"#), [2]);
    assert!(!documents.remove(1).unwrap());
    let remote = internal::remote_of(&documents).unwrap();
    let none = &mut |row: Option<&Row>| {
        assert!(row.is_none());
        Ok(Write::Nothing)
    };
    assert!(!remote.rewrite(&stored_key(1), none).unwrap());
    documents.put(1, Json(r#"{"n":7}"#)).unwrap();
    let report = documents.verify_indexes().unwrap();
    assert_eq!((report.documents, report.entries), (2, 2));
    let rows = mem.partitions().into_iter().flat_map(|place| mem.all_rows(place));
    assert_eq!(rows.filter(|(kind, _)| kind.0 > 0).count(), 2, "the old entry is gone");
    cluster.close().unwrap();
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing is left for spill files");
}

#[test]
fn marks_of_loads_are_kept_beside_the_documents() {
    let mem = Arc::new(Mem::new());
    let ((_a, documents), (_b, other)) = (collection(&mem), collection(&mem));
    fill(&documents, 5);
    let (remote, other) =
        (internal::remote_of(&documents).unwrap(), internal::remote_of(&other).unwrap());
    let mark = |key: &[u8], value: Option<&[u8]>| (key.to_vec(), value.map(<[u8]>::to_vec));
    remote.put_marks(vec![mark(b"a", Some(b"1")), mark(b"b", Some(b"2"))]).unwrap();
    remote.put_marks(vec![mark(b"a", Some(b"3")), mark(b"b", None)]).unwrap();
    assert_eq!(other.mark(b"a").unwrap().as_deref(), Some(&b"3"[..]));
    assert_eq!((other.mark(b"b").unwrap(), documents.count().unwrap()), (None, 5));
    let many = (0..500_u32).map(|key| mark(&key.to_be_bytes(), Some(b"x"))).collect();
    remote.put_marks(many).unwrap();
    other.end_loads().unwrap();
    assert_eq!((remote.mark(b"a").unwrap(), documents.count().unwrap()), (None, 5));
    let rows = mem.partitions().into_iter().flat_map(|place| mem.all_rows(place));
    assert_eq!(rows.filter(|(kind, _)| *kind == Kind::LOADS).count(), 0);
    remote.put_marks(vec![mark(b"a", Some(b"1"))]).unwrap();
    let mut next = |row: Option<&Row>| match row {
        Some(row) => Ok(Write::Put([&row.document[..], b"2"].concat(), None)),
        None => Ok(Write::Nothing),
    };
    assert!(remote.rewrite_mark(b"a", &mut next).unwrap());
    assert_eq!(other.mark(b"a").unwrap().as_deref(), Some(&b"12"[..]));
    documents.clear().unwrap();
    // Its process does not know that the documents are gone.
    assert!(!other.rewrite_mark(b"a", &mut next).unwrap());
    assert_eq!(other.mark(b"a").unwrap(), None);
    assert_eq!(documents.count().unwrap(), 0);
}

#[test]
fn what_cannot_be_decoded_is_named() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    fill(&documents, 3);
    let key = Slice::from(stored_key(1));
    let row = StoredRow { key, value: Slice::copy_of(b"\x01junk"), token: None, expiry: None };
    for partition in mem.partitions() {
        let conditions = Vec::new();
        let changes = vec![Change::Set { kind: Kind::DOCUMENTS, row: row.clone() }];
        mem.batch(&Batch { partition, epoch: 1, conditions, changes }).unwrap();
    }
    let named = |error: flagstone::Error, kind: ErrorKind, texts: &[&str]| {
        let text = error.to_string();
        assert!(error.kind() == kind && texts.iter().all(|one| text.contains(one)), "{text}");
    };
    let place = ["collection \"c\" (table rows, c = 1, b = ", "document of key 1: "];
    named(documents.get(1).unwrap_err(), ErrorKind::Corruption, &place);
    named(documents.remove(1).unwrap_err(), ErrorKind::Corruption, &place);
    let scanned = documents.scan(..).try_for_each(|row| row.map(drop));
    named(scanned.unwrap_err(), ErrorKind::Corruption, &place);
    // A write that need not read it replaces it, and others go on beside it.
    fill(&documents, 3);
    assert_eq!(n_of(&documents, 1), Some(1));
    let note = Record { version: 9, note: Slice::copy_of(b"junk") };
    mem.set_note("d", None, &note).unwrap();
    let place = ["table catalog, collection \"d\", offset "];
    named(cluster.collection("d").unwrap_err(), ErrorKind::Corruption, &place);
    named(cluster.collections().unwrap_err(), ErrorKind::Corruption, &place);
}
