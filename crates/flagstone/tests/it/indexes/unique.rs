//! Unique indexes: no two documents have one value, in single writes, batches and transactions.

use crate::support::{open, small, small_with, threaded};
use flagstone::query::Hint;
use flagstone::{
    Batch, Collection, Database, Durability, ErrorKind, Expires, Index, Json, Patch, Result, Space,
    doc,
};
use flagstone_testkit::World;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn users(db: &Database) -> Collection {
    let users = db.collection("users").unwrap();
    users.create_index("by_email", Index::on("$.email").unique().sparse()).unwrap();
    users
}

#[test]
fn a_violation_names_index_value_and_both_keys() {
    let session = open(&World::new(1), &small());
    let users = users(&session.db);
    users.put("ada", Json(r#"{"email":["a@x","b@x"]}"#)).unwrap();
    let refused = users.put("bob", Json(r#"{"email":"b@x"}"#)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Duplicate);
    assert_eq!(
        refused.to_string(),
        "unique index \"by_email\" has the value \"b@x\" of key \"ada\" already: key \"bob\" \
         cannot have it"
    );
    assert_eq!(users.get("bob").unwrap().map(|_| ()), None);
    users.put("bob", Json("{}")).unwrap();
    let patch = Patch::new().set("email", "a@x");
    assert_eq!(users.patch("bob", &patch).unwrap_err().kind(), ErrorKind::Duplicate);
    let updated = users.update("bob", |bob| bob.set("email", "a@x").map(drop));
    assert_eq!(updated.unwrap_err().kind(), ErrorKind::Duplicate);
    users.delete("ada").unwrap();
    users.patch("bob", &patch).unwrap();
    users.verify_indexes().unwrap();
}

/// It was "has the value missing, missing".
#[test]
fn a_violation_of_several_or_missing_values_names_their_fields() {
    let session = open(&World::new(1), &small());
    let users = session.db.collection("users").unwrap();
    users.create_index("one", Index::on("a").unique()).unwrap();
    users.create_index("two", Index::on("-b").then("lower(c)").unique()).unwrap();
    users.put(1, Json(r#"{"b":7}"#)).unwrap();
    let refused = |json: &'static str| users.put(2, Json(json)).unwrap_err().to_string();
    assert!(refused("{}").contains("\"one\" has the value {a: missing} of key 1 already"));
    let text = refused(r#"{"a":1,"b":7}"#);
    assert!(text.contains("\"two\" has the value {b: 7, c: missing} of key 1 already"), "{text}");
}

#[test]
fn a_batch_may_exchange_values_but_not_give_one_twice() {
    let session = open(&World::new(1), &small());
    let users = users(&session.db);
    users.put(1, Json(r#"{"email":"a"}"#)).unwrap();
    users.put(2, Json(r#"{"email":"b"}"#)).unwrap();
    let mut batch = Batch::default();
    batch.put(&users, 1, doc!({ "email": "b" })).unwrap();
    batch.put(&users, 2, doc!({ "email": "a" })).unwrap();
    session.db.commit(batch).unwrap();
    users.verify_indexes().unwrap();
    let mut batch = Batch::default();
    batch.put(&users, 3, doc!({ "email": "c" })).unwrap();
    batch.put(&users, 4, doc!({ "email": "c" })).unwrap();
    assert_eq!(session.db.commit(batch).unwrap_err().kind(), ErrorKind::Duplicate);
    assert_eq!(users.count().unwrap(), 2);
    let mut batch = Batch::default();
    batch.delete(&users, 1).unwrap();
    batch.put(&users, 3, doc!({ "email": "b" })).unwrap();
    session.db.commit(batch).unwrap();
    users.verify_indexes().unwrap();
}

#[test]
fn values_that_are_cut_are_compared_as_a_whole() {
    let session = open(&World::new(1), &small());
    let users = users(&session.db);
    let long = |end: &str| doc!({ "email": (format!("{}{end}", "x".repeat(2000))) });
    users.put(1, long("a")).unwrap();
    users.put(2, long("b")).unwrap();
    let refused = users.put(3, long("a")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Duplicate);
    users.put(1, long("c")).unwrap();
    users.put(3, long("a")).unwrap();
    users.verify_indexes().unwrap();
}

/// The removal of the entry was newer than what the build ingested: the first document had none.
#[test]
fn a_value_that_a_second_document_has_for_a_while_during_a_build_stays_with_the_first() {
    let session = open(&World::new(1), &small());
    let users = session.db.collection("users").unwrap();
    users.put(1, Json(r#"{"email":"a"}"#)).unwrap();
    let (index, mut has_written) = (Index::on("email").unique(), false);
    let built = users.create_index_with("by_email", index, |progress| {
        if progress.documents == 1 && !std::mem::replace(&mut has_written, true) {
            users.put(2, Json(r#"{"email":"a"}"#)).unwrap();
            users.put(2, Json(r#"{"email":"b"}"#)).unwrap();
        }
        ControlFlow::Continue(())
    });
    assert!(built.unwrap().is_continue());
    users.verify_indexes().unwrap();
    let refused = users.put(3, Json(r#"{"email":"a"}"#)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Duplicate);
}

#[test]
fn a_missing_value_is_a_value_unless_the_index_is_sparse() {
    let session = open(&World::new(1), &small());
    let documents = session.db.collection("documents").unwrap();
    documents.create_index("a", Index::on("$.a").then("$.b").unique()).unwrap();
    documents.put(1, Json("{}")).unwrap();
    assert_eq!(documents.put(2, Json("{}")).unwrap_err().kind(), ErrorKind::Duplicate);
    documents.put(2, Json(r#"{"a":null}"#)).unwrap();
    documents.put(3, Json(r#"{"b":1}"#)).unwrap();
    documents.verify_indexes().unwrap();
}

#[test]
fn of_two_transactions_that_give_one_value_the_second_conflicts_and_then_finds_it() {
    let session = open(&World::new(1), &small());
    let (db, users) = (&session.db, users(&session.db));
    users.put(0, Json(r#"{"email":"old"}"#)).unwrap();
    let (mut first, mut second) = (db.begin().unwrap(), db.begin().unwrap());
    first.put(&users, 1, Json(r#"{"email":"new"}"#)).unwrap();
    second.put(&users, 2, Json(r#"{"email":"new"}"#)).unwrap();
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict);
    let tries = AtomicUsize::new(0);
    let refused = db.transaction(|tx| -> Result<()> {
        tries.fetch_add(1, Ordering::Relaxed);
        tx.put(&users, 2, Json(r#"{"email":"new"}"#))
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Duplicate);
    assert_eq!(tries.into_inner(), 1);
    // A transaction may give on what it takes.
    db.transaction(|tx| {
        tx.delete(&users, 0)?;
        tx.put(&users, 2, Json(r#"{"email":"old"}"#))
    })
    .unwrap();
    users.verify_indexes().unwrap();
}

#[test]
fn a_transaction_takes_no_value_that_another_document_got_while_the_index_was_built() {
    let session = open(&World::new(1), &small());
    let (db, users) = (&session.db, session.db.collection("users").unwrap());
    for key in 0..600 {
        users.put(key, doc!({ "email": key })).unwrap();
    }
    let mut has_moved = false;
    let moves = |progress: flagstone::report::BuildProgress| {
        if progress.entries_written == 0 && !std::mem::replace(&mut has_moved, true) {
            // The index does not have the entry of 599 yet, so 700 may get its value.
            users.put(700, doc!({ "email": 599 })).unwrap();
            db.transaction(|tx| tx.delete(&users, 599)).unwrap();
        }
        std::ops::ControlFlow::Continue(())
    };
    let built = users.create_index_with("by_email", Index::on("$.email").unique(), moves);
    assert!(built.unwrap().is_continue());
    users.verify_indexes().unwrap();
    assert_eq!(users.find(r#"{"email":599}"#).count().unwrap(), 1);
    let refused = users.put(701, doc!({ "email": 599 })).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Duplicate);
}

#[test]
fn an_index_that_comes_or_goes_conflicts_with_open_transactions() {
    let session = open(&World::new(1), &small());
    let (db, users) = (&session.db, users(&session.db));
    let mut open_one = db.begin().unwrap();
    open_one.put(&users, 1, Json(r#"{"email":"a","n":1}"#)).unwrap();
    users.create_index("by_n", Index::on("$.n")).unwrap();
    assert_eq!(open_one.commit().unwrap_err().kind(), ErrorKind::Conflict);
    let mut open_one = db.begin().unwrap();
    open_one.put(&users, 1, Json(r#"{"email":"a","n":1}"#)).unwrap();
    users.drop_index("by_n").unwrap();
    assert_eq!(open_one.commit().unwrap_err().kind(), ErrorKind::Conflict);
    users.drop_index("by_email").unwrap();
    let mut open_one = db.begin().unwrap();
    open_one.put(&users, 1, Json(r#"{"n":1}"#)).unwrap();
    users.create_index("by_n", Index::on("$.n")).unwrap();
    assert_eq!(open_one.commit().unwrap_err().kind(), ErrorKind::Conflict);
    users.verify_indexes().unwrap();
}

#[test]
fn of_many_threads_one_gets_each_value() {
    let world = World::new(1);
    let db = threaded(&world, small());
    let users = users(&db);
    let given = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (users, given) = (&users, &given);
            scope.spawn(move || {
                for value in 0..60_u64 {
                    let email = doc!({ "email": (value % 30) });
                    match users.put(thread * 100 + value, &email) {
                        Ok(()) => {
                            given.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Duplicate),
                    }
                }
            });
        }
    });
    assert_eq!(given.into_inner(), 30);
    assert_eq!(users.count().unwrap(), 30);
    users.verify_indexes().unwrap();
    db.close().unwrap();
}

/// A writer gave the value of a document to another one and took it back, between the floor below
/// which the build ingests and the snapshot that it reads. The tombstone hid the entry of the
/// document for good, and nobody noticed. A model has the same with few threads.
#[test]
fn a_unique_index_that_is_built_beside_a_writer_has_all_documents() {
    let world = World::new(1);
    let db = threaded(&world, small());
    let users = db.collection("users").unwrap();
    for n in 0..20 {
        users.put(n, doc!({ "email": n })).unwrap();
    }
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..20).cycle().take_while(|_| !is_done.load(Ordering::Relaxed)) {
                // Refused once the index is there; accepted, and taken back, before.
                let _refused = users.put("x", doc!({ "email": n }));
                users.put("x", doc!({ "email": "x" })).unwrap();
            }
        });
        for _ in 0..100 {
            let before = db.snapshot();
            match users.create_index("by_email", Index::on("email").unique()) {
                Ok(()) => {
                    users.verify_indexes().unwrap();
                    // A snapshot from before the end of the build may see a value twice.
                    for snapshot in [before, db.snapshot()] {
                        let by = |hint| {
                            let find = snapshot.find(&users, r#"{"email":{"$gte":0}}"#);
                            find.hint(hint).count()
                        };
                        if let Ok(count) = by(Hint::index("by_email")) {
                            assert_eq!(count, by(Hint::Scan).unwrap());
                        }
                    }
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Duplicate, "{error}"),
            }
            users.drop_index("by_email").unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    db.close().unwrap();
}

/// Whether a document that had expired was still the one to be removed was decided by its bytes
/// alone. One that was renewed, with another expiry, was removed although its writer had got Ok.
#[test]
fn a_renewed_document_is_not_removed_for_one_that_takes_its_value() {
    type Renew = fn(&Database, &Collection) -> Result<bool>;
    let renewals: [Renew; 4] = [
        |_, users| users.put("session", Json(r#"{"email":1}"#)).map(|()| true),
        |db, users| {
            let moment = db.now().after(Duration::from_secs(60));
            users.put("session", Json(r#"{"email":1}"#).expires(moment)).map(|()| true)
        },
        |db, users| {
            let mut batch = db.batch();
            batch.put(users, "session", doc!({ "email": 1 }))?;
            db.commit(batch).map(|()| true)
        },
        |db, users| {
            let mut tx = db.begin()?;
            tx.put(users, "session", Json(r#"{"email":1}"#))?;
            tx.commit().map(|()| true)
        },
    ];
    let world = World::new(1);
    let db = threaded(&world, small());
    let users = users(&db);
    let barrier = Barrier::new(2);
    for round in 0..600 {
        users.delete("other").unwrap();
        users.delete("session").unwrap();
        let at = db.now().after(Duration::from_millis(1));
        users.put("session", Json(r#"{"email":1}"#).expires(at)).unwrap();
        world.clock.advance(Duration::from_millis(1));
        let is_done = |done: Result<bool>| {
            done.unwrap_or_else(|error| {
                let expected = [ErrorKind::Duplicate, ErrorKind::Conflict];
                assert!(expected.contains(&error.kind()), "{error}");
                false
            })
        };
        let (renewed, taken) = std::thread::scope(|scope| {
            let taken = scope.spawn(|| {
                barrier.wait();
                is_done(users.put("other", Json(r#"{"email":1}"#)).map(|()| true))
            });
            barrier.wait();
            (is_done(renewals[round % 4](&db, &users)), taken.join().unwrap())
        });
        let is_there = |key: &str| users.get(key).unwrap().is_some();
        assert_eq!((is_there("session"), is_there("other")), (renewed, taken), "round {round}");
        assert!(renewed != taken, "round {round}");
    }
    users.verify_indexes().unwrap();
    db.close().unwrap();
}

/// A document that expired while it was updated, and whose value another one took then, could not
/// be updated as it had the value of that.
#[test]
fn an_update_of_a_document_that_expires_meanwhile_is_no_duplicate_of_its_successor() {
    const DAY: Duration = Duration::from_secs(86_400);
    for (set, value, is_refused) in [("n", 1, false), ("email", 2, false), ("email", 3, true)] {
        let world = World::new(1);
        world.clock.set_wall(100 * DAY);
        let session = open(&world, &small());
        let users = users(&session.db);
        let in_a_day = session.db.now().after(DAY);
        users.put("session", Json(r#"{"email":1,"n":0}"#).expires(in_a_day)).unwrap();
        users.put("third", Json(r#"{"email":3}"#)).unwrap();
        let updated = users.update("session", |document| {
            world.clock.set_wall(102 * DAY);
            std::thread::scope(|scope| {
                let taken = scope.spawn(|| users.put("other", Json(r#"{"email":1}"#)));
                taken.join().unwrap().unwrap();
            });
            document.set(set, value)
        });
        match updated {
            Ok(is_there) => assert!(is_there && !is_refused, "{set} to {value}"),
            Err(error) => {
                assert!(error.kind() == ErrorKind::Duplicate && is_refused, "{error}");
            }
        }
        assert!(users.get("session").unwrap().is_none());
        assert_eq!(users.get("other").unwrap().unwrap().int("email"), Some(1));
        assert_eq!(users.count().unwrap(), 2);
        users.verify_indexes().unwrap();
    }
}

/// Each round of the build met a value that had just been given and taken back, and began again: it
/// ended when the writer did.
#[test]
fn a_unique_build_beside_a_writer_that_gives_and_takes_back_all_the_time_ends() {
    for expires in [false, true] {
        let session = open(&World::new(1), &small());
        let users = session.db.collection("users").unwrap();
        let far = expires.then(|| session.db.now().after(Duration::from_secs(1000)));
        for n in 0..100 {
            users.put(n, doc!({ "email": n }).expires(far)).unwrap();
        }
        let mut rounds = 0;
        let built = users.create_index_with("by_email", Index::on("email").unique(), |progress| {
            let is_read = progress.entries_written == 0;
            rounds += usize::from(is_read && progress.documents == 1);
            assert!(rounds < 5, "the build begins again and again");
            for n in 0..3 {
                let _refused = users.put("x", doc!({ "email": n }));
                users.put("x", doc!({ "email": "x" })).unwrap();
            }
            ControlFlow::Continue(())
        });
        assert!(built.unwrap().is_continue());
        assert_eq!(rounds, 1);
        users.verify_indexes().unwrap();
        for n in 0..3 {
            let refused = users.put("y", doc!({ "email": n })).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Duplicate);
            let found = users.find(&format!(r#"{{"email":{n}}}"#)).hint(Hint::index("by_email"));
            assert_eq!(found.count().unwrap(), 1);
        }
        session.db.verify().unwrap();
    }
}

/// What was put again is there after a power cut, as the note that the index is complete.
#[test]
fn an_entry_that_a_build_puts_again_survives_a_power_cut() {
    for durability in [Durability::None, Durability::Buffered, Durability::Group] {
        let world = World::new(1);
        let session = open(&world, &small_with(durability));
        let users = session.db.collection("users").unwrap();
        users.put(1, Json(r#"{"email":"a"}"#)).unwrap();
        let mut has_written = false;
        let built = users.create_index_with("by_email", Index::on("email").unique(), |_progress| {
            if !std::mem::replace(&mut has_written, true) {
                users.put(2, Json(r#"{"email":"a"}"#)).unwrap();
                users.put(2, Json(r#"{"email":"b"}"#)).unwrap();
            }
            ControlFlow::Continue(())
        });
        assert!(built.unwrap().is_continue());
        let world = world.after_power_cut(4);
        drop((users, session));
        let session = open(&world, &small_with(durability));
        let users = session.db.collection("users").unwrap();
        assert!(users.indexes()[0].is_ready);
        users.verify_indexes().unwrap();
        let refused = users.put(3, Json(r#"{"email":"a"}"#)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Duplicate);
    }
}
