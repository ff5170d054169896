//! Builds of indexes that a crash, a close or a full disk interrupts.

use super::model::{Computed, Documents, Spec, check};
use crate::support::{hashed, open, small, small_with};
use flagstone::report::BuildProgress;
use flagstone::{
    Batch, Collection, Database, Durability, ErrorKind, Patch, Space, Value, doc, internal,
};
use flagstone_testkit::{Rng, World, rounds, seed};
use std::ops::ControlFlow;

const BY_N: Spec = Spec {
    name: "by_n",
    fields: &[("n", Computed::Value, true), ("tags", Computed::Value, false)],
    is_unique: false,
    is_sparse: false,
    at_least: None,
};

const BY_U: Spec =
    Spec { name: "by_u", fields: &[("u", Computed::Value, false)], is_unique: true, ..BY_N };

fn value(key: u32, salt: u32) -> Value {
    let tags: Value = (0..key % 4).map(|tag| format!("tag {}", tag + salt)).collect();
    doc!({ "n": (key.wrapping_mul(7919) % 100), "tags": (tags), "u": (key) })
}

/// Writes the documents 0 to `count`.
fn fill(db: &Database, documents: &Collection, count: u32, durability: Durability) {
    for first in (0..count).step_by(100) {
        let mut batch = Batch::default();
        for key in first..count.min(first + 100) {
            batch.put(documents, key, value(key, 0)).unwrap();
        }
        db.commit(batch.durability(durability)).unwrap();
    }
}

fn model_of(documents: &Collection) -> Documents {
    let entries = documents.scan(..).map(|entry| {
        let (key, document) = entry.unwrap();
        (key.as_i64().unwrap() as u32, (document.to_value(), None))
    });
    entries.collect()
}

fn go_on(_progress: BuildProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_build_that_a_crash_has_interrupted_continues_where_it_was() {
    let world = World::new(1);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    fill(&session.db, &documents, 2000, Durability::Buffered);
    let mut after = None;
    let crash = |progress: BuildProgress| {
        if progress.documents >= 1500 && after.is_none() {
            after = Some(world.after_power_cut(3));
        }
        ControlFlow::Continue(())
    };
    let built = internal::create_index_in_parts(&documents, "by_n", BY_N.index(), 8 << 10, crash);
    assert!(built.unwrap().is_continue());
    let world = after.unwrap();
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    let info = documents.indexes().remove(0);
    assert!(!info.is_ready && (1000..=1536).contains(&info.documents_done), "{info}");
    assert!(
        info.to_string().ends_with(&format!("built: {} documents are done", info.documents_done)),
        "{info}"
    );
    assert!(internal::index_entries(&documents, "by_n").is_err());
    let mut seen = Vec::new();
    let watch = |progress| {
        seen.push(progress);
        ControlFlow::Continue(())
    };
    let built = internal::create_index_in_parts(&documents, "by_n", BY_N.index(), 8 << 10, watch);
    assert!(built.unwrap().is_continue());
    assert!(seen.iter().all(|progress| progress.documents >= info.documents_done));
    let last = seen.last().unwrap();
    assert_eq!((last.documents, last.entries, last.entries_written), (2000, 3500, 3500));
    assert!(documents.indexes()[0].is_ready && documents.indexes()[0].documents_done == 0);
    check(&documents, &[&BY_N], &model_of(&documents), session.db.now());
}

#[test]
fn a_build_that_a_close_has_interrupted_continues_where_it_was() {
    let world = World::new(1);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    fill(&session.db, &documents, 1000, Durability::Buffered);
    let close = |progress: BuildProgress| {
        if progress.documents == 768 {
            session.db.clone().close().unwrap();
        }
        ControlFlow::Continue(())
    };
    let closed = internal::create_index_in_parts(&documents, "by_n", BY_N.index(), 4 << 10, close);
    assert_eq!(closed.unwrap_err().kind(), ErrorKind::Closed);
    drop((documents, session));
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    assert!(documents.indexes()[0].documents_done > 256);
    documents.create_index("by_n", BY_N.index()).unwrap();
    check(&documents, &[&BY_N], &model_of(&documents), session.db.now());
}

/// Changes some documents.
fn change(documents: &Collection, rng: &mut Rng) {
    for _ in 0..rng.below(6) {
        let key = rng.below(350) as u32;
        match rng.below(4) {
            0 => documents.delete(key).unwrap(),
            1 => documents.patch(key, &Patch::new().push("tags", rng.below(9))).unwrap(),
            _ => documents.put(key, value(key, rng.below(5) as u32)).unwrap(),
        }
    }
}

#[test]
fn a_build_that_crashes_again_and_again_beside_writers_ends_with_the_right_entries() {
    let seed = seed("a_build_that_crashes_again_and_again", 4);
    for round in 0..rounds(10, 200) {
        eprintln!("seed {}", seed + round);
        let rng = &mut Rng::new(seed + round);
        let durability = *rng.pick(&[Durability::None, Durability::Buffered, Durability::Group]);
        let options = small_with(durability);
        let mut world = World::new(seed + round);
        let mut session = open(&world, &options);
        let documents = session.db.space("documents").options(hashed(3)).collection().unwrap();
        fill(&session.db, &documents, 300, durability);
        session.db.sync().unwrap();
        drop(documents);
        for _ in 0..4 {
            let documents = session.db.space("documents").options(hashed(3)).collection().unwrap();
            let (crash_at, mut after, part) = (rng.below(900), None, rng.below(3000));
            let watch = |progress: BuildProgress| {
                change(&documents, rng);
                if progress.documents + progress.entries_written >= crash_at && after.is_none() {
                    let luck = rng.number();
                    let cut = rng.percent(60);
                    let crash =
                        if cut { world.after_power_cut(luck) } else { world.after_kill(luck) };
                    after = Some(crash);
                }
                if rng.percent(20) {
                    session.settle();
                }
                ControlFlow::Continue(())
            };
            let built =
                internal::create_index_in_parts(&documents, "by_n", BY_N.index(), part, watch);
            assert!(built.unwrap().is_continue());
            check(&documents, &[&BY_N], &model_of(&documents), session.db.now());
            let Some(next) = after else { break };
            drop((documents, session));
            world = next;
            session = open(&world, &options);
            if let Some(documents) = session.db.space("documents").existing().collection().unwrap()
            {
                change(&documents, rng);
            }
        }
        let documents = session.db.space("documents").options(hashed(3)).collection().unwrap();
        documents.create_index("by_n", BY_N.index()).unwrap();
        check(&documents, &[&BY_N], &model_of(&documents), session.db.now());
        session.db.verify().unwrap();
    }
}

/// The value of a document that was not done could be given to one that was.
#[test]
fn a_unique_index_whose_build_was_interrupted_is_built_from_the_beginning() {
    let world = World::new(1);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    fill(&session.db, &documents, 600, Durability::Group);
    let mut after = None;
    let watch = |progress: BuildProgress| {
        if progress.documents >= 512 && after.is_none() {
            after = Some(world.after_kill(3));
        }
        ControlFlow::Continue(())
    };
    let built = internal::create_index_in_parts(&documents, "by_u", BY_U.index(), 100, watch);
    assert!(built.unwrap().is_continue());
    let world = after.unwrap();
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    assert_eq!(documents.indexes()[0].documents_done, 0);
    // The index does not know yet that document 599 has the value.
    documents.put(7, value(599, 0)).unwrap();
    let refused = documents.create_index("by_u", BY_U.index()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Duplicate);
    assert!(documents.indexes().is_empty());
    documents.delete(7).unwrap();
    documents.create_index("by_u", BY_U.index()).unwrap();
    check(&documents, &[&BY_U], &model_of(&documents), session.db.now());
}

#[test]
fn a_build_that_finds_the_disk_full_says_so_and_leaves_documents_and_no_index() {
    let world = World::new(1);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    fill(&session.db, &documents, 2000, Durability::Buffered);
    session.db.flush().unwrap();
    session.settle();
    let before = model_of(&documents);
    let mut refused = 0;
    for room in [0, 2 << 10, 16 << 10, 40 << 10] {
        world.disk.set_room(Some(room));
        let built =
            internal::create_index_in_parts(&documents, "by_n", BY_N.index(), 16 << 10, go_on);
        world.disk.set_room(None);
        let Err(error) = built else { break };
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        refused += 1;
        // The removal of the index may have found no room, either.
        assert!(documents.indexes().iter().all(|index| !index.is_ready));
        assert!(documents.drop_index("by_n").is_ok());
        assert_eq!(model_of(&documents), before);
    }
    assert!(refused >= 2, "{refused}");
    documents.create_index("by_n", BY_N.index()).unwrap();
    check(&documents, &[&BY_N], &before, session.db.now());
}

/// A continued build that found the disk full dropped the index, with what the first build and the
/// continued one had done.
#[test]
fn a_continued_build_that_finds_the_disk_full_can_be_continued_again() {
    let world = World::new(1);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    fill(&session.db, &documents, 2000, Durability::Buffered);
    session.db.flush().unwrap();
    let mut after = None;
    let crash = |progress: BuildProgress| {
        if progress.documents >= 500 && after.is_none() {
            after = Some(world.after_power_cut(3));
        }
        ControlFlow::Continue(())
    };
    let built = internal::create_index_in_parts(&documents, "by_n", BY_N.index(), 4 << 10, crash);
    assert!(built.unwrap().is_continue());
    let world = after.unwrap();
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    let first = documents.indexes()[0].documents_done;
    assert!((1..2000).contains(&first), "{first}");
    let watch = |progress: BuildProgress| {
        if progress.documents >= 1200 {
            world.disk.set_room(Some(0));
        }
        ControlFlow::Continue(())
    };
    let built = internal::create_index_in_parts(&documents, "by_n", BY_N.index(), 4 << 10, watch);
    assert_eq!(built.unwrap_err().kind(), ErrorKind::OutOfSpace);
    let done = documents.indexes()[0].documents_done;
    assert!(done > first, "{done} after {first}");
    world.disk.set_room(None);
    // Writers keep it up to date meanwhile.
    documents.put(3, value(3, 5)).unwrap();
    let mut least = u64::MAX;
    let watch = |progress: BuildProgress| {
        least = least.min(progress.documents);
        ControlFlow::Continue(())
    };
    let built = internal::create_index_in_parts(&documents, "by_n", BY_N.index(), 4 << 10, watch);
    assert!(built.unwrap().is_continue());
    assert!(least >= done, "{least}, {done} were done");
    check(&documents, &[&BY_N], &model_of(&documents), session.db.now());
    session.db.verify().unwrap();
}

#[test]
fn the_entries_of_documents_that_were_written_without_a_log_are_durable_after_them() {
    let options = small_with(Durability::None);
    for at in [1, 300, 700, 1100] {
        let world = World::new(at);
        let session = open(&world, &options);
        let documents = session.db.collection("documents").unwrap();
        fill(&session.db, &documents, 400, Durability::None);
        let mut after = None;
        let watch = |progress: BuildProgress| {
            if progress.documents + progress.entries_written >= at && after.is_none() {
                after = Some(world.after_power_cut(at));
            }
            ControlFlow::Continue(())
        };
        let built =
            internal::create_index_in_parts(&documents, "by_n", BY_N.index(), 1 << 10, watch);
        assert!(built.unwrap().is_continue());
        drop((documents, session));
        let session = open(&after.unwrap(), &options);
        let documents = session.db.collection("documents").unwrap();
        documents.create_index("by_n", BY_N.index()).unwrap();
        check(&documents, &[&BY_N], &model_of(&documents), session.db.now());
        assert_eq!(documents.count().unwrap(), 400);
    }
}
