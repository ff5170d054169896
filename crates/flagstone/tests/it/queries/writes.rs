//! Updates and deletes by filter.

use crate::support::{hashed, small};
use flagstone::query::{Changed, Returning};
use flagstone::{
    Collection, DocumentMut, Error, ErrorKind, Index, Patch, Patched, Space, Value, doc,
};
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

fn keys(done: &Changed) -> Vec<i64> {
    done.documents.iter().map(|(key, _)| key.as_i64().unwrap()).collect()
}

#[test]
fn a_function_changes_each_document_that_matches() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 30);
    let add = |key: &Value, document: &mut DocumentMut| {
        assert_eq!(Some(key), document.get("n"));
        if key.as_i64() == Some(6) { Ok(()) } else { document.inc("n", 100) }
    };
    let done = collection.update_many(r#"{"kind":"a"}"#, add).returning(Returning::New).run();
    let done = done.unwrap();
    assert_eq!(counts(&done), (10, 9, 0, false));
    assert_eq!(keys(&done), [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]);
    let new = |(key, document): &(Value, flagstone::Document)| {
        let key = key.as_i64().unwrap();
        document.int("n") == Some(if key == 6 { 6 } else { key + 100 })
    };
    assert!(done.documents.iter().all(new));
    let back = |key: &Value, document: &mut DocumentMut| document.set("n", key.clone());
    let many = collection.update_many(r#"{"n":{"$gte":100}}"#, back).returning(Returning::Old);
    let done = many.run().unwrap();
    assert!(done.documents.iter().all(|(_, old)| old.int("n").unwrap() >= 100));
    assert_eq!(
        (keys(&done).len(), collection.find(r#"{"n":{"$gte":100}}"#).count().unwrap()),
        (9, 0)
    );
    let gone =
        collection.delete_many(r#"{"n":{"$lt":2}}"#).returning(Returning::Old).run().unwrap();
    assert_eq!((keys(&gone), collection.count().unwrap()), (vec![0, 1], 28));
    let gone = collection.delete_many(r#"{"n":2}"#).returning(Returning::New).run().unwrap();
    assert_eq!((gone.modified, keys(&gone)), (1, vec![]));
}

#[test]
fn an_error_of_the_function_leaves_the_document() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 5);
    let refuse = |key: &Value, document: &mut DocumentMut| {
        document.set("seen", true)?;
        if key.as_i64() == Some(2) { Err(Error::invalid("not this one")) } else { Ok(()) }
    };
    let failed = collection.update_many("{}", refuse).run().unwrap_err();
    assert!(failed.error.to_string().contains("document 2: not this one"), "{failed}");
    assert_eq!(counts(&failed.done), (2, 2, 0, true));
    let done = collection.update_many("{}", refuse).keep_going().run().unwrap();
    assert_eq!(counts(&done), (5, 2, 1, false));
    assert_eq!(collection.find(r#"{"seen":{"$exists":false}}"#).count().unwrap(), 1);
    assert_eq!(collection.get(2).unwrap().unwrap().int("n"), Some(2));
}

/// With and without an index that has the order.
#[test]
fn a_sort_decides_which_documents_are_changed() {
    for is_indexed in [false, true] {
        let world = World::new(1);
        let (_session, collection) = opened(&world, 90);
        if is_indexed {
            collection.create_index("by_n", Index::on("kind").then("-n")).unwrap();
        }
        let see = |_: &Value, document: &mut DocumentMut| document.set("seen", true);
        let many = || {
            let many = collection.update_many(r#"{"kind":"a","n":{"$gte":6}}"#, see).sort("-n");
            many.returning(Returning::New)
        };
        let first = many().limit(20).run().unwrap();
        let expected: Vec<i64> = (0..20).map(|at| 87 - 3 * at).collect();
        assert_eq!((keys(&first), counts(&first)), (expected, (20, 20, 0, true)));
        let rest = many().limit(20).after(&first.next.unwrap()).run().unwrap();
        let expected: Vec<i64> = (20..28).map(|at| 87 - 3 * at).collect();
        assert_eq!((keys(&rest), counts(&rest)), (expected, (8, 8, 0, false)));
        let all = many().run().unwrap();
        assert_eq!((all.matched, keys(&all)[27]), (28, 6));
        let one = many().one().run().unwrap();
        assert_eq!((keys(&one), one.next), (vec![87], None));
        let by_key = collection.update_many("{}", see).sort("-$key").limit(2);
        let by_key = by_key.returning(Returning::Old);
        let first = by_key.run().unwrap();
        let next = by_key.after(&first.next.clone().unwrap()).run().unwrap();
        assert_eq!((keys(&first), keys(&next)), (vec![89, 88], vec![87, 86]));
        let wrong = many().sort("").run().unwrap_err();
        assert_eq!(wrong.error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn one_document_is_changed_if_there_is_one() {
    let world = World::new(1);
    let (_session, collection) = opened(&world, 900);
    collection.create_index("kind", Index::on("kind")).unwrap();
    let hit = || collection.update_many(r#"{"kind":"a"}"#, &Patch::new().inc("hits", 1)).one();
    for _ in 0..10 {
        assert_eq!(counts(&hit().run().unwrap()), (1, 1, 0, false));
    }
    let hit = collection.find(r#"{"hits":{"$exists":true}}"#).run().unwrap();
    let hits: i64 = hit.map(|entry| entry.unwrap().1.int("hits").unwrap()).sum();
    assert_eq!(hits, 10);
    let none = collection.update_many(r#"{"kind":"c"}"#, &Patch::new().inc("hits", 1)).one();
    assert_eq!(counts(&none.run().unwrap()), (0, 0, 0, false));
    assert_eq!(collection.delete_many("{}").sort("-n").one().run().unwrap().modified, 1);
    assert!(collection.get(899).unwrap().is_none());
}

/// Each worker takes the most urgent job. A job that another worker has taken meanwhile matches no
/// more when its turn comes, so the next one is taken.
#[test]
fn workers_never_claim_a_job_twice() {
    const JOBS: i64 = 400;
    for is_indexed in [false, true] {
        let world = World::new(1);
        let (_session, collection) = opened(&world, 0);
        for n in 0..JOBS {
            collection.put(n, doc!({"state": "new", "urgency": (n % 7)})).unwrap();
        }
        if is_indexed {
            collection.create_index("jobs", Index::on("state").then("-urgency")).unwrap();
        }
        let work = |worker: i64| {
            let collection = collection.clone();
            move || {
                let mut claimed = Vec::new();
                loop {
                    let claim = |_: &Value, job: &mut DocumentMut| {
                        assert_eq!(job.str("state"), Some("new"));
                        job.set("state", "taken")?;
                        job.set("by", worker)
                    };
                    let many = collection.update_many(r#"{"state":"new"}"#, claim).sort("-urgency");
                    let done = many.one().returning(Returning::New).run().unwrap();
                    let Some((key, job)) = done.documents.first() else { break };
                    assert_eq!(job.int("by"), Some(worker));
                    claimed.push(key.as_i64().unwrap());
                }
                claimed
            }
        };
        let workers: Vec<_> = (0..4).map(|worker| std::thread::spawn(work(worker))).collect();
        let mut all: Vec<i64> = workers.into_iter().flat_map(|one| one.join().unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..JOBS).collect::<Vec<_>>());
    }
}

#[test]
fn a_transaction_changes_the_first_documents_of_a_sort() {
    let world = World::new(1);
    let (session, collection) = opened(&world, 30);
    let mut tx = session.db.begin().unwrap();
    tx.put(&collection, 100, doc!({"n": 100, "kind": "a"})).unwrap();
    let see = |_: &Value, document: &mut DocumentMut| document.set("kind", "seen");
    let many = collection.update_many(r#"{"kind":"a"}"#, see).sort("-n").limit(2);
    let done = many.returning(Returning::Old).run_in(&mut tx).unwrap();
    assert_eq!((keys(&done), done.modified), (vec![100, 27], 2));
    assert_eq!(done.documents[0].1.str("kind"), Some("a"));
    assert_eq!(tx.update_many(&collection, r#"{"kind":"seen"}"#, see).unwrap().matched, 2);
    assert_eq!(collection.find(r#"{"kind":"seen"}"#).count().unwrap(), 0);
    tx.commit().unwrap();
    assert_eq!(collection.find(r#"{"kind":"seen"}"#).count().unwrap(), 2);
}
