//! Updates and deletes by filter.

use crate::support::{hashed, small};
use flagstone::query::Changed;
use flagstone::{Collection, ErrorKind, Index, Patch, Patched, Space, doc};
use flagstone_testkit::{Session, World};

fn opened(world: &World, count: i64) -> (Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("posts").options(hashed(2)).collection().unwrap();
    for n in 0..count {
        collection.put(n, doc!({"n": n, "kind": if n % 3 == 0 { "a" } else { "b" }})).unwrap();
    }
    (session, collection)
}

fn counts(done: &Changed) -> (u64, u64, u64, bool) {
    (done.matched, done.modified, done.refused, done.next.is_some())
}

#[test]
fn documents_that_match_are_changed_once_and_no_others() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 900);
    let done = collection.update_many(r#"{"kind":"a"}"#, &Patch::new().inc("n", 1000)).run();
    assert_eq!(counts(&done.unwrap()), (300, 300, 0, false));
    for entry in collection.scan(..) {
        let (key, document) = entry.unwrap();
        let n = key.as_i64().unwrap();
        assert_eq!(document.int("n").unwrap(), if n % 3 == 0 { n + 1000 } else { n });
    }
    let same = collection.update_many(r#"{"kind":"a"}"#, &Patch::new().set("kind", "a"));
    assert_eq!(counts(&same.run().unwrap()), (300, 0, 0, false));
    let done = collection.delete_many(r#"{"n":{"$gte":1000}}"#).run().unwrap();
    assert_eq!(counts(&done), (300, 300, 0, false));
    assert_eq!(collection.count().unwrap(), 600);
}

#[test]
fn a_change_that_moves_a_document_into_the_filter_is_made_once() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 100);
    // Every changed document still matches: a scan that saw its own writes would not end.
    let done = collection.update_many(r#"{"n":{"$gte":0}}"#, &Patch::new().inc("n", 1)).run();
    assert_eq!(done.unwrap().modified, 100);
    assert_eq!(collection.get(7).unwrap().unwrap().int("n").unwrap(), 8);
}

#[test]
fn batches_continue_after_their_token() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 100);
    let hot = || collection.update_many(r#"{"kind":"b"}"#, &Patch::new().inc("hits", 1));
    let (mut token, mut modified, mut batches) = (None::<String>, 0, 0);
    loop {
        let batch = hot().limit(10);
        let batch = match &token {
            Some(token) => batch.after(&token.parse().unwrap()),
            None => batch,
        };
        let done = batch.run().unwrap();
        (modified, batches) = (modified + done.modified, batches + 1);
        let Some(next) = done.next else { break };
        token = Some(next.to_string());
    }
    assert_eq!((modified, batches), (66, 7));
    assert_eq!(collection.find(r#"{"hits":1}"#).count().unwrap(), 66);
}

#[test]
fn an_error_returns_what_was_done_and_where_to_continue() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 100);
    collection.put(40, doc!({"n": "forty"})).unwrap();
    let patch = Patch::new().inc("n", 1);
    let failed = collection.update_many("{}", &patch).run().unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    assert!(failed.error.to_string().starts_with("document 40: "), "{failed}");
    assert_eq!(counts(&failed.done), (40, 40, 0, true));
    let error = flagstone::Error::from(failed.clone());
    assert!(error.to_string().contains("40 documents matched, 40 changed"), "{error}");
    // The document is corrected, and the rest is changed once.
    collection.put(40, doc!({"n": 40})).unwrap();
    let token = failed.done.next.unwrap();
    let done = collection.update_many("{}", &patch).after(&token).run().unwrap();
    assert_eq!(counts(&done), (60, 60, 0, false));
    for entry in collection.scan(..) {
        let (key, document) = entry.unwrap();
        assert_eq!(document.int("n").unwrap(), key.as_i64().unwrap() + 1);
    }
    // Another write does not take its token.
    let other = collection.update_many(r#"{"n":1}"#, &patch).after(&token).run().unwrap_err();
    assert_eq!(other.error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn documents_that_refuse_the_patch_can_be_counted_instead() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 10);
    collection.put(4, doc!({"n": "four"})).unwrap();
    let patch = Patch::new().inc("n", 1);
    let done = collection.update_many("{}", &patch).keep_going().run().unwrap();
    assert_eq!(counts(&done), (10, 9, 1, false));
    assert_eq!(collection.get(4).unwrap().unwrap().str("n").unwrap(), "four");
}

#[test]
fn a_document_that_matches_no_more_when_its_turn_comes_is_left_alone() {
    let world = World::new(1);
    let (session, collection) = opened(&world, 3000);
    // Threads count the same documents up while they are deleted below a limit.
    let deleted = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in (0..3000_i64).rev() {
                collection
                    .patch_if(n, &Patch::new().set("kept", true))
                    .and_then(Patched::applied)
                    .unwrap();
            }
        });
        let mut deleted = 0;
        loop {
            let is_last = writer.is_finished();
            deleted +=
                collection.delete_many(r#"{"kept":{"$exists":false}}"#).run().unwrap().modified;
            if is_last {
                return deleted;
            }
        }
    });
    // Whatever was kept was not deleted, and whatever was deleted was never kept.
    assert_eq!(collection.count().unwrap() + deleted, 3000);
    assert_eq!(collection.find(r#"{"kept":true}"#).count().unwrap(), collection.count().unwrap());
    drop(session);
}

#[test]
fn a_transaction_changes_what_it_sees_and_all_or_nothing() {
    let world = World::new(1);
    let (session, collection) = opened(&world, 30);
    let patch = Patch::new().set("seen", true);
    let mut tx = session.db.begin().unwrap();
    tx.put(&collection, 100, doc!({"kind": "a"})).unwrap();
    tx.delete(&collection, 0).unwrap();
    let done = tx.update_many(&collection, r#"{"kind":"a"}"#, &patch).unwrap();
    assert_eq!(counts(&done), (10, 10, 0, false));
    let gone = tx.delete_many(&collection, r#"{"kind":"b"}"#).unwrap();
    assert_eq!(counts(&gone), (20, 20, 0, false));
    assert_eq!(tx.find(&collection, "{}").count().unwrap(), 10);
    assert_eq!(collection.find(r#"{"seen":true}"#).count().unwrap(), 0);
    tx.commit().unwrap();
    assert_eq!(collection.find(r#"{"seen":true}"#).count().unwrap(), 10);
    assert_eq!(collection.count().unwrap(), 10);
}

/// It stopped at the first of them.
#[test]
fn documents_that_a_unique_index_refuses_are_counted() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 10);
    collection.create_index("by_n", Index::on("n").unique()).unwrap();
    let patch = Patch::new().set("n", 7);
    let failed = collection.update_many("{}", &patch).run().unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Duplicate, "{failed}");
    let done = collection.update_many("{}", &patch).keep_going().run().unwrap();
    assert_eq!(counts(&done), (10, 0, 9, false));
}

/// Every document was counted as one that the patch does not apply to.
#[test]
fn a_write_that_may_not_happen_at_all_refuses_no_documents() {
    let world = World::new(1);
    let (session, collection) = opened(&world, 10);
    let many = collection.update_many("{}", &Patch::new().inc("n", 1)).keep_going();
    let mut inside = None;
    collection
        .update(3, |_document| {
            inside = Some(many.run());
            Ok(())
        })
        .unwrap();
    let failed = inside.unwrap().unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::InvalidInput);
    assert_eq!((failed.done.matched, failed.done.refused), (0, 0), "{failed}");
    let mut outcome = None;
    session
        .db
        .transaction(|_tx| -> flagstone::Result<()> {
            outcome = Some(many.run());
            Ok(())
        })
        .unwrap();
    assert!(outcome.unwrap().is_err());
}

/// An index may be dropped while a write reads its entries: the write goes on where it is.
#[test]
fn a_write_goes_on_when_its_index_is_dropped() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 0);
    for n in 0..30_000 {
        let kind = if n % 10 == 0 { "a" } else { "b" };
        collection.put(n, doc!({"n": n, "kind": kind})).unwrap();
    }
    // The entries of one value come in the order of the keys, so they are read as they are needed.
    collection.create_index("by_kind", Index::on("kind")).unwrap();
    let filter = r#"{"kind":"a"}"#;
    assert!(collection.find(filter).explain().unwrap().to_string().contains("by_kind"));
    let is_changed = |n: i64| collection.get(n).unwrap().unwrap().get("hits").is_some();
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_changed(1_000) {
                std::thread::yield_now();
            }
            collection.drop_index("by_kind").unwrap();
        });
        collection.update_many(filter, &Patch::new().inc("hits", 1)).run()
    });
    assert_eq!(counts(&done.unwrap()), (3_000, 3_000, 0, false));
    for n in 0..30_000 {
        let document = collection.get(n).unwrap().unwrap();
        assert_eq!(document.get("hits").is_some(), n % 10 == 0);
        assert!(n % 10 > 0 || document.int("hits").unwrap() == 1);
    }
}

/// It answered that all documents were looked at, and a caller that asked for batches was done.
#[test]
fn a_write_of_at_most_no_documents_is_refused() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 3);
    let refused = collection.delete_many("{}").limit(0).run().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::InvalidInput);
    assert_eq!(collection.count().unwrap(), 3);
}
