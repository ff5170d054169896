//! Indexes that are created beside writers and readers.

use crate::commits::{hashed, options};
use crate::explore::{explore, open};
use flagstone::internal::env::sync::shuttle::thread;
use flagstone::query::Hint;
use flagstone::{
    Collection, Durability, ErrorKind, Expires, Index, Isolation, Patch, Result, Space,
    TransactionOptions, doc,
};
use flagstone_testkit::World;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// A drop of an index and a put take about this many steps of the scheduler.
const STEPS: usize = 1000;

/// Documents that nobody changes.
const STAY: std::ops::Range<i64> = 100..103;

fn collection(world: &World, durability: Durability) -> (flagstone::Database, Collection) {
    let db = open(world, options(durability));
    let posts = db.space("posts").options(hashed(2)).collection().unwrap();
    for n in STAY {
        posts.put(n, doc!({"v": n})).unwrap();
    }
    for n in 0..3 {
        posts.put(n, doc!({"v": n})).unwrap();
    }
    (db, posts)
}

fn beside_writers(durability: Durability) {
    let world = World::new(1);
    let (db, posts) = collection(&world, durability);
    let spawn = |body: fn(&Collection)| {
        let posts = posts.clone();
        thread::spawn(move || body(&posts))
    };
    let threads = [
        spawn(|posts| {
            posts.put(0, doc!({"v": [7, 8]})).unwrap();
            posts.patch(1, &Patch::new().set("v", 9)).unwrap();
            posts.put(3, doc!({"v": 10})).unwrap();
        }),
        spawn(|posts| {
            posts.delete(2).unwrap();
            posts.patch(0, &Patch::new().upsert().set("other", true)).unwrap();
            posts.remove(1).unwrap();
        }),
        spawn(|posts| {
            for _ in 0..2 {
                let found = posts.find(r#"{"v":{"$gte":100}}"#).count().unwrap();
                assert_eq!(found, 3, "documents that are always there");
            }
        }),
    ];
    posts.create_index("by_v", Index::on("v")).unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    check(&posts);
    db.verify().unwrap();
    posts.put(2, doc!({"v": 11})).unwrap();
    check(&posts);
}

/// Compares what the index finds with what a scan finds.
fn check(posts: &Collection) {
    posts.verify_indexes().unwrap();
    for v in [0, 1, 2, 7, 8, 9, 10, 11, 100] {
        let find = |hint| posts.find(&format!(r#"{{"v":{v}}}"#)).hint(hint).count().unwrap();
        assert_eq!(find(Hint::Index("by_v".into())), find(Hint::Scan), "documents of {v}");
    }
}

#[test]
fn an_index_that_is_created_beside_writers_has_all_documents() {
    explore("an_index_that_is_created_beside_writers_has_all_documents", || {
        beside_writers(Durability::Buffered);
    });
}

/// Documents that are not logged are flushed before their entries are.
#[test]
fn an_index_that_is_created_beside_unlogged_writers_has_all_documents() {
    explore("an_index_that_is_created_beside_unlogged_writers_has_all_documents", || {
        beside_writers(Durability::None);
    });
}

/// Two documents get one value while the index is built: the build or one of the writers fails.
#[test]
fn a_unique_index_that_is_created_beside_writers_has_no_value_twice() {
    explore("a_unique_index_that_is_created_beside_writers_has_no_value_twice", || {
        let world = World::new(1);
        let (_db, posts) = collection(&world, Durability::Buffered);
        let writers = [0, 1].map(|n| {
            let posts = posts.clone();
            thread::spawn(move || posts.put(n, doc!({"v": 50})))
        });
        let built = posts.create_index("by_v", Index::on("v").unique());
        let written = writers.map(|writer| writer.join().unwrap());
        let is_refusal = |error: &flagstone::Error| error.kind() == ErrorKind::Duplicate;
        assert!(written.iter().filter_map(|done| done.as_ref().err()).all(is_refusal));
        let twice = posts.find(r#"{"v":50}"#).count().unwrap();
        match built {
            Ok(()) => {
                assert_eq!(twice, 1, "{written:?}");
                check(&posts);
            }
            Err(error) => {
                assert!(is_refusal(&error), "{error}");
                assert_eq!((twice, posts.indexes().len()), (2, 0), "{written:?}");
            }
        }
    });
}

/// The value of a document is given to another one and taken back, while an index is built that
/// does not have the entry of the first one yet. It must have it in the end.
#[test]
fn a_value_that_is_given_and_taken_back_beside_a_unique_build_keeps_its_entry() {
    explore("a_value_that_is_given_and_taken_back_beside_a_unique_build_keeps_its_entry", || {
        let world = World::new(1);
        let (_db, posts) = collection(&world, Durability::Buffered);
        let writer = thread::spawn({
            let posts = posts.clone();
            move || {
                for n in [0, 1] {
                    let _refused = posts.put("x", doc!({"v": n}));
                    posts.put("x", doc!({"v": "x"})).unwrap();
                }
            }
        });
        let built = posts.create_index("by_v", Index::on("v").unique());
        writer.join().unwrap();
        match built {
            Ok(()) => {
                check(&posts);
                let refused = posts.put("second", doc!({"v": 0})).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Duplicate);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Duplicate, "{error}"),
        }
    });
}

/// Two calls create one index; the first is cancelled. If the second one has got Ok, the index is
/// there; and it meets no error but that another call builds it.
#[test]
fn an_index_that_a_call_has_completed_outlives_another_call_that_is_cancelled() {
    explore("an_index_that_a_call_has_completed_outlives_another_call_that_is_cancelled", || {
        let world = World::new(1);
        let (_db, posts) = collection(&world, Durability::Buffered);
        let second = thread::spawn({
            let posts = posts.clone();
            move || {
                for _ in 0..4 {
                    match posts.create_index("by_v", Index::on("v").unique()) {
                        Ok(()) => return true,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
                    }
                    (0..STEPS / 4).for_each(|_| thread::yield_now());
                }
                false
            }
        });
        let cancel = |_progress| ControlFlow::Break(());
        match posts.create_index_with("by_v", Index::on("v").unique(), cancel) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
        }
        if second.join().unwrap() {
            assert_eq!(posts.indexes().len(), 1, "an index that was acknowledged is gone");
            let refused = posts.put("second", doc!({"v": 0})).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Duplicate);
            check(&posts);
        }
    });
}

/// One document expires while it is renewed or changed, another one takes its unique value, and the
/// clock ticks. Each that was acknowledged is there, unless it has expired; and no two have the
/// value, even by a clock that was set right.
#[test]
fn of_a_document_that_expires_and_one_that_takes_its_value_one_is_left() {
    explore("of_a_document_that_expires_and_one_that_takes_its_value_one_is_left", || {
        let world = World::new(1);
        world.clock.set_wall(Duration::from_secs(1000));
        let (db, posts) = collection(&world, Durability::Buffered);
        posts.create_index("by_v", Index::on("v").unique()).unwrap();
        posts.create_index("by_n", Index::on("n")).unwrap();
        let at = db.now().after(Duration::from_millis(1));
        let expiring = at;
        posts.put("session", doc!({"v": 50, "n": 1}).expires(expiring)).unwrap();
        let is_done = |done: Result<()>| match done {
            Ok(()) => true,
            Err(error) => {
                let expected = [ErrorKind::Duplicate, ErrorKind::Conflict];
                assert!(expected.contains(&error.kind()), "{error}");
                false
            }
        };
        let clock = Arc::clone(&world.clock);
        let ticks = thread::spawn(move || clock.advance(Duration::from_millis(1)));
        let taker = thread::spawn({
            let posts = posts.clone();
            move || is_done(posts.put("other", doc!({"v": 50})))
        });
        let changer = thread::spawn({
            let posts = posts.clone();
            // It keeps the expiry, and gives the value up.
            move || is_done(posts.update("session", |d| d.set("v", 51)).map(drop))
        });
        let renewed = is_done(posts.put("session", doc!({"v": 50, "n": 1})));
        let taken = taker.join().unwrap();
        let _changed = changer.join().unwrap();
        ticks.join().unwrap();
        if renewed {
            assert!(posts.get("session").unwrap().is_some(), "an acknowledged put is lost");
        }
        if taken {
            assert!(posts.get("other").unwrap().is_some(), "an acknowledged put is lost");
        }
        posts.verify_indexes().unwrap();
        drop(posts);
        db.close().unwrap();
        world.clock.set_wall(Duration::from_secs(1000));
        let db = open(&world, options(Durability::Buffered));
        let posts = db.space("posts").options(hashed(2)).collection().unwrap();
        posts.verify_indexes().unwrap();
        let with_it = posts.find(r#"{"v":50}"#).hint(Hint::Scan).count().unwrap();
        assert!(with_it < 2, "two documents have one unique value");
        assert_eq!(posts.find(r#"{"n":1}"#).count().unwrap(), {
            posts.find(r#"{"n":1}"#).hint(Hint::Scan).count().unwrap()
        });
    });
}

/// A serializable transaction counts by an index. Another thread drops it, and writes what would be
/// counted: before the commit, which must notice, or after it, and then it sees what was committed.
#[test]
fn a_serializable_count_beside_the_drop_of_its_index_misses_nothing() {
    explore("a_serializable_count_beside_the_drop_of_its_index_misses_nothing", || {
        let world = World::new(1);
        let (db, posts) = collection(&world, Durability::Buffered);
        posts.create_index("by_v", Index::on("v")).unwrap();
        let dropper = thread::spawn({
            let posts = posts.clone();
            move || {
                posts.drop_index("by_v").unwrap();
                posts.put("phantom", doc!({"v": 101})).unwrap();
                posts.get("total").unwrap().is_some()
            }
        });
        let mut tx =
            TransactionOptions::new().isolation(Isolation::Serializable).begin(&db).unwrap();
        let find = tx.find(&posts, r#"{"v":{"$gte":100}}"#).hint(Hint::index("by_v"));
        let Ok(count) = find.count() else {
            dropper.join().unwrap();
            return;
        };
        // About as many steps as the other thread takes.
        (0..STEPS).for_each(|_| thread::yield_now());
        tx.put(&posts, "total", doc!({"total": (count as i64)})).unwrap();
        let done = tx.commit();
        let is_seen = dropper.join().unwrap();
        match done {
            // Who has written the fourth before the commit does not see the total of three.
            Ok(()) => assert!(count == 4 || is_seen, "{count} documents of 4"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    });
}
