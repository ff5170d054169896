//! Builds of indexes over existing documents: in bounded memory, beside writers, cancelled.

use super::model::{Computed, Documents, Spec, check};
use crate::support::{open, small, threaded};
use flagstone::report::BuildProgress;
use flagstone::{
    Batch, Collection, Database, DocumentMut, ErrorKind, Index, Json, Space, Value, doc,
};
use flagstone_testkit::World;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

const BY_N: Spec = Spec {
    name: "by_n",
    fields: &[("n", Computed::Value, true), ("tags", Computed::Value, false)],
    is_unique: false,
    is_sparse: false,
    at_least: None,
};

fn value(key: u32, salt: u32) -> Value {
    let tags: Value = (0..key % 4).map(|tag| format!("tag {}", tag + salt)).collect();
    doc!({ "n": (key.wrapping_mul(7919) % 1000), "tags": (tags), "text": ("x".repeat(40)) })
}

fn fill(db: &Database, documents: &Collection, count: u32) -> Documents {
    let mut model = Documents::new();
    for first in (0..count).step_by(500) {
        let mut batch = Batch::default();
        for key in first..first + 500 {
            batch.put(documents, key, value(key, 0)).unwrap();
            model.insert(key, (value(key, 0), None));
        }
        db.commit(batch).unwrap();
    }
    model
}

#[test]
fn an_index_of_more_entries_than_memory_holds_is_built_by_spilling() {
    let world = World::new(1);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    let model = fill(&session.db, &documents, 8000);
    let mut seen = Vec::new();
    let built = documents.create_index_with("by_n", BY_N.index(), |progress| {
        seen.push(progress);
        ControlFlow::Continue(())
    });
    assert!(built.unwrap().is_continue());
    let last = *seen.last().unwrap();
    assert_eq!((last.documents, last.entries, last.entries_written), (8000, 14_000, 14_000));
    assert!(seen.is_sorted_by_key(|progress| (progress.documents, progress.entries_written)));
    assert!(seen.len() > 50);
    check(&documents, &[&BY_N], &model, session.db.now());
}

#[test]
fn a_cancelled_build_leaves_no_index() {
    let session = open(&World::new(1), &small());
    let documents = session.db.collection("documents").unwrap();
    let model = fill(&session.db, &documents, 1500);
    for stop_at in [256, 1280, 1500] {
        let watch = |progress: BuildProgress| {
            if progress.documents >= stop_at {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        assert!(documents.create_index_with("by_n", BY_N.index(), watch).unwrap().is_break());
        assert!(documents.indexes().is_empty());
    }
    documents.create_index("by_n", BY_N.index()).unwrap();
    check(&documents, &[&BY_N], &model, session.db.now());
}

#[test]
fn a_document_that_does_not_fit_ends_the_build_and_is_named() {
    let session = open(&World::new(1), &small());
    let documents = session.db.collection("documents").unwrap();
    documents.put("bad", Json(r#"{"a":[1],"b":[2]}"#)).unwrap();
    let refused = documents.create_index("a", Index::on("$.a").then("$.b")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(
        refused.to_string().starts_with("the document of key \"bad\": index \"a\""),
        "{refused}"
    );
    assert!(documents.indexes().is_empty());
    documents.put("twin", Json(r#"{"a":1}"#)).unwrap();
    let refused = documents.create_index("a", Index::on("$.a").unique()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Duplicate);
    assert_eq!(
        refused.to_string(),
        "unique index \"a\" has the value 1 of key \"bad\" already: key \"twin\" cannot have it"
    );
    assert!(documents.indexes().is_empty());
    documents.put("bad", Json(r#"{"a":[1],"b":[2]}"#)).unwrap();
}

#[test]
fn writers_go_on_while_an_index_is_built() {
    for round in 0..3 {
        let world = World::new(round);
        let db = threaded(&world, small());
        let documents = db.collection("documents").unwrap();
        fill(&db, &documents, 3000);
        let is_built = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2_u32 {
                let (documents, is_built) = (&documents, &is_built);
                scope.spawn(move || {
                    let mut key = writer;
                    while !is_built.load(Ordering::Relaxed) {
                        key = (key + 97) % 3000;
                        match key % 5 {
                            0 => documents.delete(key).unwrap(),
                            1 => {
                                let set = |d: &mut DocumentMut| d.set("n", key).map(drop);
                                documents.update(key, set).unwrap();
                            }
                            _ => documents.put(key, value(key, writer + 1)).unwrap(),
                        }
                    }
                });
            }
            documents.create_index("by_n", BY_N.index()).unwrap();
            is_built.store(true, Ordering::Relaxed);
        });
        let model: Documents = documents
            .scan(..)
            .map(|entry| {
                let (key, document) = entry.unwrap();
                (key.as_i64().unwrap() as u32, (document.to_value(), None))
            })
            .collect();
        check(&documents, &[&BY_N], &model, db.now());
        db.close().unwrap();
    }
}

#[test]
fn the_first_index_conflicts_with_no_write() {
    let world = World::new(9);
    let db = threaded(&world, small());
    let documents = db.collection("documents").unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut key = 0_u32;
            while !is_done.load(Ordering::Relaxed) {
                key = (key + 1) % 50;
                documents.put(key, value(key, 1)).unwrap();
                documents.update(key, |d| d.set("n", 1).map(drop)).unwrap();
                documents.delete(key).unwrap();
            }
        });
        scope.spawn(|| {
            // Their buffers are given to the log.
            let large = doc!({ "n": 1, "text": ("x".repeat(70_000)) });
            for key in (50..53_u32).cycle().take_while(|_| !is_done.load(Ordering::Relaxed)) {
                documents.put(key, &large).unwrap();
                let mut batch = Batch::default();
                batch.put(&documents, key, &large).unwrap();
                if key == 51 {
                    db.commit(batch).unwrap();
                } else {
                    let _or_there_is_no_room = db.try_commit(&batch).unwrap();
                }
            }
        });
        for _ in 0..30 {
            documents.create_index("by_n", BY_N.index()).unwrap();
            documents.verify_indexes().unwrap();
            assert!(documents.drop_index("by_n").unwrap());
        }
        is_done.store(true, Ordering::Relaxed);
    });
    db.close().unwrap();
}

/// The call dropped, by its name, what had the name by then: the index for which another call had
/// got Ok. With that ended the promise that no two documents have one value.
#[test]
fn a_build_that_fails_or_is_cancelled_leaves_the_index_of_another_call() {
    for end in [ControlFlow::Continue(()), ControlFlow::Break(())] {
        let session = open(&World::new(1), &small());
        let documents = session.db.collection("documents").unwrap();
        fill(&session.db, &documents, 500);
        let (mut is_first, mut refused) = (true, None);
        let built = documents.create_index_with("x", BY_N.index(), |_progress| {
            if !std::mem::take(&mut is_first) {
                return end;
            }
            assert!(documents.drop_index("x").unwrap());
            documents.create_index("x", Index::on("text").unique().sparse()).unwrap_err();
            documents.create_index("x", Index::on("u").unique().sparse()).unwrap();
            documents.put("a", Json(r#"{"u":7}"#)).unwrap();
            refused = documents.put("b", Json(r#"{"u":7}"#)).err();
            end
        });
        assert_eq!(built.is_ok(), end.is_break(), "{built:?}");
        assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::Duplicate));
        let again = documents.put("b", Json(r#"{"u":7}"#)).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::Duplicate);
        let names: Vec<String> = documents.indexes().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["x on u, unique, sparse, about 1 entries"]);
        documents.verify_indexes().unwrap();
    }
}

/// The keyspace that marks a collection which keeps old documents was dropped as an index.
#[test]
fn a_drop_of_an_index_drops_indexes_alone() {
    let session = open(&World::new(1), &small());
    let documents = session.db.collection("documents").unwrap();
    documents.keep_old_documents(true).unwrap();
    assert!(!documents.drop_index("old documents").unwrap());
    assert!(documents.keeps_old_documents());
    documents.keep_old_documents(false).unwrap();
    documents.create_index("old documents", Index::on("n")).unwrap();
    documents.keep_old_documents(false).unwrap();
    assert_eq!(documents.indexes().len(), 1);
}

/// A second call for the same index began to build it when the first one had given the build up and
/// had not dropped the index yet. It got Ok, and then the first call dropped what it had built; or
/// it failed since the keyspace was dropped.
#[test]
fn an_index_that_another_call_has_completed_outlives_a_cancelled_build_of_it() {
    let world = World::new(1);
    let db = threaded(&world, small());
    for round in 0..60 {
        let documents = db.collection(&format!("documents {round}")).unwrap();
        documents.put("a", Json(r#"{"n":1}"#)).unwrap();
        let index = || Index::on("n").unique();
        let is_begun = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                while !is_begun.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                loop {
                    match documents.create_index("by_n", index()) {
                        Err(error) if error.kind() == ErrorKind::Busy => {}
                        done => break done,
                    }
                }
            });
            let first = documents.create_index_with("by_n", index(), |_progress| {
                is_begun.store(true, Ordering::Relaxed);
                ControlFlow::Break(())
            });
            assert!(first.unwrap().is_break());
            second.join().unwrap().unwrap();
        });
        assert_eq!(documents.indexes().len(), 1, "round {round}");
        let refused = documents.put("b", Json(r#"{"n":1}"#)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Duplicate);
        documents.verify_indexes().unwrap();
    }
    db.close().unwrap();
}
