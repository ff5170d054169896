//! Indexes that are created beside writers and readers.

use crate::commits::{hashed, options};
use crate::explore::{explore, open};
use flagstone::env::sync::shuttle::thread;
use flagstone::{Collection, Durability, ErrorKind, Hint, Index, Patch, doc};
use flagstone_testkit::World;

/// Documents that nobody changes.
const STAY: std::ops::Range<i64> = 100..103;

fn collection(world: &World, durability: Durability) -> (flagstone::Database, Collection) {
    let db = open(world, options(durability));
    let posts = db.collection_with("posts", hashed(2)).unwrap();
    for n in STAY {
        posts.put_value(n, &doc!({"v": n})).unwrap();
    }
    for n in 0..3 {
        posts.put_value(n, &doc!({"v": n})).unwrap();
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
            posts.put_value(0, &doc!({"v": [7, 8]})).unwrap();
            posts.patch(1, &Patch::new().set("v", 9)).unwrap();
            posts.put_value(3, &doc!({"v": 10})).unwrap();
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
    posts.put_value(2, &doc!({"v": 11})).unwrap();
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
            thread::spawn(move || posts.put_value(n, &doc!({"v": 50})))
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
