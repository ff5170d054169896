//! Transactions beside indexes that come, go and learn: what was written is in every index, and
//! what a plan rested on counts as read.

use crate::support::{open, small};
use flagstone::doc::FieldPath;
use flagstone::internal::keys_written;
use flagstone::query::Hint;
use flagstone::{
    Collection, Database, ErrorKind, Expires, Find, Index, Isolation, Json, Patch, Space,
    Transaction, TransactionOptions, doc,
};
use flagstone_testkit::{Session, World};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

fn serializable(db: &Database) -> Transaction {
    TransactionOptions::new().isolation(Isolation::Serializable).begin(db).unwrap()
}

fn assert_conflict(tx: Transaction, why: &str) {
    let error = tx.commit().expect_err(why);
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

/// A collection without indexes and one with an index of `u`.
fn two(session: &Session, is_unique: bool) -> (Collection, Collection) {
    let (a, b) = (session.db.collection("a").unwrap(), session.db.collection("b").unwrap());
    a.put("old", Json(r#"{"x":1}"#)).unwrap();
    a.put("gone", Json(r#"{"x":2}"#)).unwrap();
    let index = Index::on("u");
    b.create_index("u", if is_unique { index.unique() } else { index }).unwrap();
    (a, b)
}

/// The commit noted the sets of indexes of now for collections that had none when they were
/// written. With a unique value in another collection, or a first array, it succeeded, and the new
/// index did not have what the transaction wrote.
#[test]
fn what_was_written_before_the_first_index_is_in_it_or_the_commit_conflicts() {
    type Write = fn(&mut Transaction, &Collection);
    let writes: [Write; 6] = [
        |tx, a| tx.put(a, "new", Json(r#"{"x":3}"#)).unwrap(),
        |tx, a| tx.delete(a, "gone").unwrap(),
        |tx, a| tx.patch(a, "old", &Patch::new().set("x", 4)).unwrap(),
        |tx, a| assert!(tx.update(a, "old", |d| d.set("x", 4)).unwrap()),
        |tx, a| drop(tx.update_many(a, r#"{"x":1}"#, &Patch::new().inc("x", 7)).unwrap()),
        |tx, a| drop(tx.delete_many(a, r#"{"x":2}"#).unwrap()),
    ];
    for (at, write) in writes.iter().enumerate() {
        for (is_unique, claims) in [(true, r#"{"u":1}"#), (false, r#"{"u":[1,2]}"#), (false, "{}")]
        {
            let session = open(&World::new(1), &small());
            let (a, b) = two(&session, is_unique);
            let mut tx = session.db.begin().unwrap();
            write(&mut tx, &a);
            tx.put(&b, "k", Json(claims)).unwrap();
            a.create_index("x", Index::on("x")).unwrap();
            assert_conflict(tx, &format!("write {at} with {claims}"));
            a.verify_indexes().unwrap();
            let mut tx = session.db.begin().unwrap();
            write(&mut tx, &a);
            tx.put(&b, "k", Json(claims)).unwrap();
            tx.commit().unwrap();
            a.verify_indexes().unwrap();
        }
    }
}

/// A patch of a path that no index reads stays as it is; one that is created meanwhile may read it.
#[test]
fn a_patch_of_no_index_conflicts_with_the_index_of_its_path() {
    let session = open(&World::new(1), &small());
    let (a, b) = two(&session, true);
    a.create_index("y", Index::on("y")).unwrap();
    let mut tx = session.db.begin().unwrap();
    tx.patch(&a, "old", &Patch::new().set("x", 9)).unwrap();
    tx.put(&b, "k", Json(r#"{"u":1}"#)).unwrap();
    a.create_index("x", Index::on("x")).unwrap();
    assert_conflict(tx, "the index does not have 9");
    a.verify_indexes().unwrap();
}

/// What reads three documents in a transaction.
type Read = fn(&Transaction, &Collection) -> u64;

const READS: [Read; 7] = [
    |tx, c| tx.find(c, r#"{"g":1}"#).count().unwrap(),
    |tx, c| found(tx.find(c, r#"{"g":1}"#).hint(Hint::index("g"))),
    |tx, c| found(tx.find(c, r#"{"g":{"$gte":0}}"#).sort("g").limit(100)),
    |tx, c| {
        tx.find(c, r#"{"g":1}"#).hint(Hint::index("g")).page(10).unwrap().documents.len() as u64
    },
    |tx, c| tx.find(c, r#"{"$or":[{"g":1},{"g":2}]}"#).hint(Hint::Union).count().unwrap(),
    |tx, c| {
        let values = tx.find(c, r#"{"g":1}"#).hint(Hint::index("g")).distinct("g").unwrap();
        values.count() as u64 * 3
    },
    |tx, c| {
        let path = FieldPath::parse("g").unwrap();
        let mut values = tx.find(c, r#"{"g":1}"#).hint(Hint::index("g")).values(&[path]).unwrap();
        let mut count = 0;
        while values.advance().unwrap() {
            count += 1;
        }
        count
    },
];

fn found(find: Find<'_>) -> u64 {
    find.run().unwrap().count() as u64
}

/// A collection with three documents of `{"g":1}`, and an index of `g`.
fn three(session: &Session) -> Collection {
    let c = session.db.collection("c").unwrap();
    for n in 0..3 {
        c.put(n, Json(r#"{"g":1,"n":1}"#)).unwrap();
    }
    c.create_index("g", Index::on("g")).unwrap();
    c
}

/// The range of the index was all that was noted as read. After the drop nobody wrote there, so a
/// document that appeared in what was counted did not refuse the commit: a phantom.
#[test]
fn a_read_by_an_index_that_is_dropped_meanwhile_is_a_conflict() {
    for (at, read) in READS.iter().enumerate() {
        for writes_there in [false, true] {
            let session = open(&World::new(1), &small());
            let c = three(&session);
            let other = session.db.keyspace("other").unwrap();
            let mut tx = serializable(&session.db);
            assert_eq!(read(&tx, &c), 3, "read {at}");
            c.drop_index("g").unwrap();
            c.put("phantom", Json(r#"{"g":1,"n":1}"#)).unwrap();
            if writes_there {
                tx.put(&c, "mine", Json(r#"{"g":1,"n":1}"#)).unwrap()
            } else {
                tx.put(&other, "there are", "3").unwrap()
            }
            assert_conflict(tx, &format!("read {at}"));
        }
    }
}

/// The index may be back, with another number, and even with the same definition.
#[test]
fn an_index_that_was_made_again_is_another_one() {
    let session = open(&World::new(1), &small());
    let c = three(&session);
    let other = session.db.keyspace("other").unwrap();
    let mut tx = serializable(&session.db);
    assert_eq!(tx.find(&c, r#"{"g":1}"#).count().unwrap(), 3);
    c.drop_index("g").unwrap();
    c.put("phantom", Json(r#"{"g":1}"#)).unwrap();
    c.create_index("g", Index::on("g")).unwrap();
    // It is newer than the snapshot.
    assert_eq!(tx.find(&c, r#"{"g":1}"#).count().unwrap(), 3);
    tx.put(&other, "there are", "3").unwrap();
    assert_conflict(tx, "there are 4");
}

/// The drop of a keyspace removes everything that was read in it.
#[test]
fn a_read_of_a_keyspace_that_is_dropped_meanwhile_is_a_conflict() {
    let session = open(&World::new(1), &small());
    let (kv, other) = (session.db.keyspace("kv").unwrap(), session.db.keyspace("other").unwrap());
    kv.put("a", "1").unwrap();
    let mut tx = serializable(&session.db);
    assert!(tx.get(&kv, "a").unwrap().is_some());
    session.db.drop_keyspace("kv").unwrap();
    tx.put(&other, "there is", "a").unwrap();
    assert_conflict(tx, "there is no a");
    let mut tx = serializable(&session.db);
    tx.put(&other, "nothing", "read").unwrap();
    tx.commit().unwrap();
}

/// Others go on: what was read did not change.
#[test]
fn an_index_that_comes_or_that_no_query_has_asked_conflicts_with_no_reader() {
    for read in READS {
        let session = open(&World::new(1), &small());
        let c = three(&session);
        let (aside, other) =
            (session.db.collection("aside").unwrap(), session.db.keyspace("other").unwrap());
        aside.create_index("g", Index::on("g")).unwrap();
        let mut tx = serializable(&session.db);
        assert_eq!(read(&tx, &c), 3);
        c.create_index("n", Index::on("n")).unwrap();
        aside.put(1, Json(r#"{"g":[1,2]}"#)).unwrap();
        aside.drop_index("g").unwrap();
        c.drop_index("n").unwrap();
        tx.put(&other, "there are", "3").unwrap();
        tx.commit().unwrap();
        c.verify_indexes().unwrap();
    }
}

/// The entries that were counted to compare plans are read, if the plan is the one of their index.
#[test]
fn a_document_that_comes_among_those_that_were_read_by_an_index_is_a_conflict() {
    for (at, read) in READS.iter().enumerate() {
        let session = open(&World::new(1), &small());
        let c = three(&session);
        let other = session.db.keyspace("other").unwrap();
        let mut tx = serializable(&session.db);
        assert_eq!(read(&tx, &c), 3, "read {at}");
        c.put("phantom", Json(r#"{"g":1,"n":1}"#)).unwrap();
        tx.put(&other, "there are", "3").unwrap();
        assert_conflict(tx, &format!("read {at}"));
    }
}

/// Every index that was compared counted as read, with the entries that were counted for that. So
/// documents elsewhere, its first array, and its drop refused commits that had not used it.
#[test]
fn an_index_that_was_compared_and_not_chosen_conflicts_with_no_reader() {
    type Meanwhile = fn(&Collection);
    let meanwhile: [Meanwhile; 4] = [
        |c| c.put("more", Json(r#"{"g":2,"h":5}"#)).unwrap(),
        |c| c.put("array", Json(r#"{"g":2,"h":[5,6]}"#)).unwrap(),
        |c| assert!(c.drop_index("h").unwrap()),
        |c| {
            assert!(c.drop_index("h").unwrap());
            c.put("more", Json(r#"{"g":2,"h":5}"#)).unwrap();
        },
    ];
    for (at, meanwhile) in meanwhile.iter().enumerate() {
        for hint in [None, Some(Hint::index("g"))] {
            let session = open(&World::new(1), &small());
            let c = three(&session);
            for n in 3..60 {
                c.put(n, Json(r#"{"g":2,"h":5}"#)).unwrap();
            }
            c.put("both", Json(r#"{"g":1,"h":5}"#)).unwrap();
            c.create_index("h", Index::on("h")).unwrap();
            let other = session.db.keyspace("other").unwrap();
            let mut tx = serializable(&session.db);
            let find = tx.find(&c, r#"{"g":1,"h":5}"#);
            let find = hint.iter().fold(find, |find, hint| find.hint(hint.clone()));
            assert!(find.explain().unwrap().plans[0].access.contains("\"g\""));
            assert_eq!(found(find), 1);
            meanwhile(&c);
            tx.put(&other, "there is", "1").unwrap();
            let committed = tx.commit();
            assert!(committed.is_ok(), "change {at}: {committed:?}");
        }
    }
}

/// It reads no document.
#[test]
fn explain_is_no_read_of_a_transaction() {
    for filter in [r#"{"g":1}"#, r#"{"g":{"$gt":5,"$lt":2}}"#, r#"{"g":{"$gte":0}}"#, "{}"] {
        let session = open(&World::new(1), &small());
        let c = three(&session);
        let other = session.db.keyspace("other").unwrap();
        let mut tx = serializable(&session.db);
        tx.find(&c, filter).explain().unwrap();
        c.put("array", Json(r#"{"g":[0,9]}"#)).unwrap();
        c.put("more", Json(r#"{"g":1}"#)).unwrap();
        c.drop_index("g").unwrap();
        tx.put(&other, "nothing", "read").unwrap();
        tx.commit().unwrap();
    }
}

/// 500 documents with a number, and an index of it.
fn numbers(session: &Session, index: Index) -> Collection {
    let c = session.db.collection("c").unwrap();
    for n in 0..500 {
        c.put(n, Json(format!(r#"{{"a":{n},"b":{}}}"#, n % 7))).unwrap();
    }
    c.create_index("a", index).unwrap();
    c
}

/// No document had an array, so the bounds of two conditions met, and only what was between them
/// was noted as read; or nothing at all, where nothing was between them.
#[test]
fn the_first_array_is_a_conflict_for_who_has_planned_without() {
    for (filter, document) in [
        (r#"{"a":{"$gte":100,"$lte":105}}"#, r#"{"a":[0,1000]}"#),
        (r#"{"a":{"$gt":105,"$lt":100}}"#, r#"{"a":[0,1000]}"#),
        (r#"{"a":1,"$and":[{"a":2}]}"#, r#"{"a":[1,2]}"#),
        (r#"{"a":{"$gte":450}}"#, r#"{"a":[0,1000]}"#),
        (r#"{"$or":[{"a":{"$gt":105,"$lt":100}},{"a":7}]}"#, r#"{"a":[0,1000]}"#),
    ] {
        for index in [Index::on("a"), Index::on("-a").then("b"), Index::on("a").sparse()] {
            let session = open(&World::new(1), &small());
            let c = numbers(&session, index);
            let other = session.db.keyspace("other").unwrap();
            let mut tx = serializable(&session.db);
            let before = tx.find(&c, filter).count().unwrap();
            c.put("phantom", Json(document)).unwrap();
            assert_eq!(c.find(filter).count().unwrap(), before + 1, "{filter}");
            assert_eq!(tx.find(&c, filter).count().unwrap(), before, "{filter}");
            tx.put(&other, "there are", before.to_string()).unwrap();
            assert_conflict(tx, filter);
        }
    }
}

/// With the index goes the mark: no document notes that it has the first array.
#[test]
fn a_filter_that_nothing_matched_by_an_index_that_is_dropped_is_a_conflict() {
    let session = open(&World::new(1), &small());
    let c = numbers(&session, Index::on("a"));
    let other = session.db.keyspace("other").unwrap();
    let filter = r#"{"a":{"$gt":105,"$lt":100}}"#;
    let mut tx = serializable(&session.db);
    assert_eq!(tx.find(&c, filter).count().unwrap(), 0);
    assert!(tx.find(&c, filter).run().unwrap().next().is_none());
    c.drop_index("a").unwrap();
    c.put("phantom", Json(r#"{"a":[0,1000]}"#)).unwrap();
    tx.put(&other, "there are", "none").unwrap();
    assert_conflict(tx, "there is one");
}

/// The first array of its own changes nothing of what it has read before.
#[test]
fn a_transaction_does_not_conflict_with_its_own_first_array() {
    let session = open(&World::new(1), &small());
    let c = numbers(&session, Index::on("a"));
    let mut tx = serializable(&session.db);
    assert_eq!(tx.find(&c, r#"{"a":{"$gte":100,"$lte":105}}"#).count().unwrap(), 6);
    tx.put(&c, "mine", Json(r#"{"a":[0,1000]}"#)).unwrap();
    assert_eq!(tx.find(&c, r#"{"a":{"$gte":100,"$lte":105}}"#).count().unwrap(), 7);
    tx.commit().unwrap();
    c.verify_indexes().unwrap();
}

/// As far as its own queries go, a transaction reads by the index that it began with, or without
/// one.
#[test]
fn a_transaction_reads_right_answers_beside_an_index_that_is_dropped() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let session = open(&World::new(1), &small());
        let c = three(&session);
        let tx = TransactionOptions::new().isolation(isolation).begin(&session.db).unwrap();
        c.drop_index("g").unwrap();
        c.put("later", Json(r#"{"g":1}"#)).unwrap();
        assert_eq!(tx.find(&c, r#"{"g":1}"#).count().unwrap(), 3);
        assert_eq!(found(tx.find(&c, r#"{"g":{"$gte":0}}"#).sort("g")), 3);
        c.create_index("g", Index::on("g")).unwrap();
        assert_eq!(tx.find(&c, r#"{"g":1}"#).count().unwrap(), 3);
        tx.commit().unwrap();
    }
}

/// Only a holder that lived was looked for at the commit, and only the snapshot for one that had
/// expired: one that came after the snapshot, and had expired by the clock that was ahead, stayed,
/// and its entry was overwritten. When the clock was set right, both were there.
#[test]
fn a_value_has_one_document_when_the_clock_is_set_right() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let world = World::new(1);
        world.clock.set_wall(100 * DAY);
        let session = open(&world, &small());
        let c = session.db.collection("c").unwrap();
        c.create_index("u", Index::on("u").unique()).unwrap();
        let in_a_day = session.db.now().after(DAY);
        c.put("first", Json(r#"{"u":0}"#).expires(in_a_day)).unwrap();
        let begin = || {
            let options = TransactionOptions::new().isolation(isolation);
            let mut tx = options.begin(&session.db).unwrap();
            tx.put(&c, "mine", Json(r#"{"u":1}"#)).unwrap();
            tx
        };
        let tx = begin();
        c.put("other", Json(r#"{"u":1}"#).expires(in_a_day)).unwrap();
        world.clock.set_wall(107 * DAY);
        assert_conflict(tx, "another document had the value");
        begin().commit().unwrap();
        drop(c);
        session.db.close().unwrap();
        world.clock.set_wall(100 * DAY + Duration::from_secs(60));
        let session = open(&world, &small());
        let c = session.db.collection("c").unwrap();
        c.verify_indexes().unwrap();
        let with_one = c.find(r#"{"u":1}"#).hint(Hint::Scan).run().unwrap();
        let with_one: Vec<String> = with_one.map(|e| e.unwrap().0.to_string()).collect();
        assert_eq!(with_one, ["\"mine\""]);
        assert_eq!(c.count().unwrap(), 2);
    }
}

/// It was written as a put without the locks of its unique values. One of a document that has
/// expired removed it, and left its entries.
#[test]
fn a_patch_in_a_transaction_of_what_has_expired_leaves_documents_and_entries_as_they_are() {
    let world = World::new(1);
    world.clock.set_wall(100 * DAY);
    let session = open(&world, &small());
    let c = session.db.collection("c").unwrap();
    c.create_index("u", Index::on("u").unique()).unwrap();
    let in_a_day = session.db.now().after(DAY);
    c.put("a", Json(r#"{"u":0,"n":1}"#).expires(in_a_day)).unwrap();
    let patch = Patch::new().inc("n", 1);
    let mut tx = session.db.begin().unwrap();
    tx.patch(&c, "a", &patch).unwrap();
    tx.commit().unwrap();
    world.clock.set_wall(107 * DAY);
    let mut tx = session.db.begin().unwrap();
    tx.patch(&c, "a", &patch).unwrap();
    tx.put(&c, "b", doc!({ "u": 1 })).unwrap();
    tx.commit().unwrap();
    drop(c);
    session.db.close().unwrap();
    world.clock.set_wall(100 * DAY);
    let session = open(&world, &small());
    let c = session.db.collection("c").unwrap();
    c.verify_indexes().unwrap();
    assert_eq!(c.get("a").unwrap().map(|a| a.int("n")), Some(Some(2)));
}

/// The put was refused for its second value when the removal of the document that had expired, and
/// had its first one, was already in the transaction: its commit removed that document for nothing.
#[test]
fn a_put_that_is_refused_leaves_no_removal_of_what_has_expired() {
    let world = World::new(1);
    world.clock.set_wall(100 * DAY);
    let session = open(&world, &small());
    let c = session.db.collection("c").unwrap();
    c.create_index("u", Index::on("u").unique().sparse()).unwrap();
    c.create_index("w", Index::on("w").unique().sparse()).unwrap();
    let in_a_day = session.db.now().after(DAY);
    c.put("holder", Json(r#"{"u":1}"#).expires(in_a_day)).unwrap();
    c.put("lives", Json(r#"{"w":2}"#)).unwrap();
    world.clock.set_wall(107 * DAY);
    let mut tx = session.db.begin().unwrap();
    let refused = tx.put(&c, "new", Json(r#"{"u":1,"w":2}"#)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Duplicate);
    assert_eq!(keys_written(&tx), 0);
    tx.put(&c, "other", Json(r#"{"u":3}"#)).unwrap();
    tx.commit().unwrap();
    drop(c);
    session.db.close().unwrap();
    world.clock.set_wall(100 * DAY + Duration::from_secs(60));
    let session = open(&world, &small());
    let c = session.db.collection("c").unwrap();
    assert!(c.get("holder").unwrap().is_some(), "what counted as expired is back");
    c.verify_indexes().unwrap();
    // A put that is not refused takes both values of one document, which is removed once.
    c.put("both", Json(r#"{"u":5,"w":6}"#).expires(in_a_day)).unwrap();
    world.clock.set_wall(107 * DAY);
    let mut tx = session.db.begin().unwrap();
    tx.put(&c, "new", Json(r#"{"u":[1,5],"w":6}"#)).unwrap();
    tx.commit().unwrap();
    drop(c);
    session.db.close().unwrap();
    world.clock.set_wall(100 * DAY + Duration::from_secs(60));
    let session = open(&world, &small());
    let c = session.db.collection("c").unwrap();
    c.verify_indexes().unwrap();
    let keys: Vec<String> = c.scan(..).map(|entry| entry.unwrap().0.to_string()).collect();
    assert_eq!(keys, ["\"lives\"", "\"new\"", "\"other\""]);
}

/// The patch became a removal at the commit, since the document had expired by then: its entries
/// stayed, and were without a document when the clock was set right.
#[test]
fn a_patch_without_a_look_conflicts_with_the_first_expiry() {
    let world = World::new(1);
    world.clock.set_wall(100 * DAY);
    let session = open(&world, &small());
    let c = session.db.collection("c").unwrap();
    c.create_index("a", Index::on("a")).unwrap();
    let mut tx = serializable(&session.db);
    tx.patch(&c, "k", &Patch::new().set("b", 1)).unwrap();
    c.put("k", Json(r#"{"a":1}"#).expires(session.db.now().after(DAY))).unwrap();
    world.clock.set_wall(107 * DAY);
    assert_conflict(tx, "the document has expired");
    drop(c);
    session.db.close().unwrap();
    world.clock.set_wall(100 * DAY + Duration::from_secs(60));
    let session = open(&world, &small());
    let c = session.db.collection("c").unwrap();
    c.verify_indexes().unwrap();
    assert!(c.get("k").unwrap().is_some());
}

/// Such a patch was noted as one without a look. The commit took the removal of the document for
/// that of one that had expired, and was a conflict whenever it was tried.
#[test]
fn a_patch_of_what_the_transaction_has_removed_or_set_is_no_conflict() {
    type Write = fn(&mut Transaction, &Collection);
    let writes: [(Write, Option<&str>); 4] = [
        (|tx, c| tx.delete(c, "k").unwrap(), None),
        (|tx, c| tx.delete_range(c, "a".."z").unwrap(), None),
        (|tx, c| tx.put(c, "k", doc!({ "a": 2 })).unwrap(), Some(r#"{"a":2,"b":1}"#)),
        (|tx, c| tx.put(c, "k", doc!({ "a": 2 }).expires(flagstone::Moment::ZERO)).unwrap(), None),
    ];
    for (write, expected) in writes {
        let world = World::new(1);
        world.clock.set_wall(100 * DAY);
        let session = open(&world, &small());
        let c = session.db.collection("c").unwrap();
        c.create_index("a", Index::on("a").unique()).unwrap();
        c.put("k", doc!({ "a": 1 })).unwrap();
        let mut tx = session.db.begin().unwrap();
        write(&mut tx, &c);
        tx.patch(&c, "k", &Patch::new().set("b", 1)).unwrap();
        tx.commit().unwrap();
        let found = c.get("k").unwrap().map(|document| document.to_json().unwrap());
        assert_eq!(found.as_deref(), expected);
        c.verify_indexes().unwrap();
    }
}
