//! Processes that know an older state of the catalog, and calls that are cut short.

use crate::support::{Hooked, Hooks, by_n, collection, connect, fill, found, n_of, rebalance};
use flagstone::admin::Environment;
use flagstone::{Collection, Error, ErrorKind, Json, Result, Space};
use flagstone_cluster::mem::{Fate, Mem};
use flagstone_cluster::store::Store;
use flagstone_cluster::{Cluster, Layout};
use flagstone_env::ManualClock;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn a_writer_that_does_not_know_an_index_keeps_it_nevertheless() {
    for before in [0, 3, 20] {
        let mem = Arc::new(Mem::new());
        let ((_a, knows), (_b, slept)) = (collection(&mem), collection(&mem));
        fill(&slept, before);
        knows.create_index("by n", by_n()).unwrap();
        fill(&slept, 30);
        assert!(slept.remove(3).unwrap());
        assert_eq!(found(&knows, r#"{"n":{"$gte":0}}"#).len(), 29);
        assert_eq!(knows.verify_indexes().unwrap().entries, 29);
        assert!(knows.drop_index("by n").unwrap());
        slept.put(40, Json(r#"{"n":40}"#)).unwrap();
        assert_eq!(knows.verify_indexes().unwrap().indexes, 0);
        assert!(!slept.drop_index("by n").unwrap());
        let mut rows = mem.partitions().into_iter().flat_map(|place| mem.all_rows(place));
        assert!(rows.all(|(kind, _)| kind.0 <= 0), "no entries are left");
    }
}

#[test]
fn a_process_that_slept_through_a_clear_goes_on_behind_it() {
    let mem = Arc::new(Mem::new());
    let ((_a, clears), (_b, slept)) = (collection(&mem), collection(&mem));
    fill(&slept, 50);
    let before = mem.partitions();
    clears.clear().unwrap();
    clears.put(7, Json(r#"{"n":70}"#)).unwrap();
    assert!(before.iter().all(|place| mem.all_rows(*place).is_empty()));
    let scanned = |documents: &Collection| documents.scan(..).count();
    assert_eq!((n_of(&slept, 7), n_of(&slept, 8)), (Some(70), None));
    clears.clear().unwrap();
    fill(&clears, 3);
    assert_eq!(scanned(&slept), 3);
    clears.clear().unwrap();
    clears.put(7, Json(r#"{"n":70}"#)).unwrap();
    fill(&slept, 3);
    assert_eq!((clears.count().unwrap(), slept.count().unwrap()), (4, 4));
}

#[test]
fn a_dropped_collection_is_gone_for_all_processes() {
    let mem = Arc::new(Mem::new());
    let ((a, _drops), (b, slept)) = (collection(&mem), collection(&mem));
    fill(&slept, 20);
    assert_eq!(a.collections().unwrap(), ["c"]);
    assert!(a.drop_collection("c").unwrap() && !a.drop_collection("c").unwrap());
    assert!(a.collections().unwrap().is_empty() && mem.partitions().is_empty());
    let gone = |result: flagstone::Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "collection \"c\" was dropped from the cluster");
    };
    gone(slept.put(1, Json("{}")));
    gone(slept.get(1).map(drop));
    gone(slept.scan(..).try_for_each(|row| row.map(drop)));
    gone(slept.clear());
    let again = b.collection("c").unwrap();
    assert_ne!(again.id(), slept.id());
    fill(&again, 5);
    gone(slept.put(1, Json("{}")));
    assert_eq!((again.count().unwrap(), a.collection("c").unwrap().count().unwrap()), (5, 5));
}

#[test]
fn a_clear_that_was_cut_short_is_completed_by_whoever_meets_it() {
    // The number of the generation, the note, then the fences.
    for fences in [0, 1, 7, 16] {
        let mem = Arc::new(Mem::new());
        let ((_a, clears), (_b, other)) = (collection(&mem), collection(&mem));
        fill(&clears, 60);
        let mut plan = vec![Fate::Answered; 2 + fences];
        plan.resize(60, Fate::Unavailable);
        mem.plan(&plan);
        let error = clears.clear().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown);
        assert!(error.to_string().contains("has begun, and the next calls complete it"), "{error}");
        mem.plan(&[]);
        if fences == 0 {
            assert!(found(&other, r#"{"n":{"$gte":0}}"#).is_empty(), "a query completes it");
        }
        for key in 100..160 {
            other.put(key, Json("{}")).unwrap();
        }
        if fences == 0 {
            assert_eq!(other.count().unwrap(), 60);
        } else {
            // Some may have been put before the first fence was met.
            let left = other.count().unwrap();
            assert!((1..=60).contains(&left), "{left}");
            assert!((0..60_u64).all(|key| other.get(key).unwrap().is_none()));
            assert!(other.get(159).unwrap().is_some());
        }
    }
}

/// A rebalance completed it weeks later: all that was acknowledged since was lost.
#[test]
fn a_clear_that_nobody_meets_is_completed_within_seconds() {
    let cut_short = || {
        let mem = Arc::new(Mem::new());
        let (cluster, clears) = collection(&mem);
        fill(&clears, 60);
        (mem, cluster, clears)
    };
    let cut = |mem: &Mem, clears: &Collection| {
        mem.plan(&[vec![Fate::Answered; 2], vec![Fate::Unavailable; 60]].concat());
        assert_eq!(clears.clear().unwrap_err().kind(), ErrorKind::Unknown);
        mem.plan(&[]);
    };
    // By a process that only writes.
    let (mem, _cluster, clears) = cut_short();
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let environment = Environment { clock: Arc::clone(&clock) as _, ..Environment::default() };
    let writes = Cluster::over_with(Arc::clone(&mem) as _, environment, dir.path()).unwrap();
    let writes = writes.collection("c").unwrap();
    cut(&mem, &clears);
    writes.put(1, Json(r#"{"n":100}"#)).unwrap();
    clock.advance(Duration::from_secs(5));
    // If it cannot be completed, nothing is acknowledged that it would take.
    mem.plan(&[Fate::Unavailable; 40]);
    for _ in 0..2 {
        let refused = writes.put(2, Json(r#"{"n":200}"#)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    }
    mem.plan(&[]);
    writes.put(2, Json(r#"{"n":200}"#)).unwrap();
    assert_eq!((n_of(&writes, 1), n_of(&writes, 2)), (None, Some(200)));
    // By the one that has begun it, by one that opens the collection, and before a rebalance.
    let (mem, _cluster, clears) = cut_short();
    cut(&mem, &clears);
    clears.put(1, Json(r#"{"n":100}"#)).unwrap();
    assert_eq!((clears.count().unwrap(), n_of(&clears, 1)), (1, Some(100)));
    let (mem, _cluster, clears) = cut_short();
    let (_other, builds) = collection(&mem);
    cut(&mem, &clears);
    builds.create_index("by n", by_n().unique()).unwrap();
    assert_eq!(builds.verify_indexes().unwrap().documents, 0, "it indexes nothing that goes");
    let (mem, _cluster, clears) = cut_short();
    cut(&mem, &clears);
    let (opens, opened) = collection(&mem);
    opened.put(1, Json(r#"{"n":100}"#)).unwrap();
    rebalance(&opens, Layout::Hash(4)).unwrap();
    assert_eq!((clears.count().unwrap(), n_of(&clears, 1)), (1, Some(100)));
}

#[test]
fn a_drop_that_was_cut_short_is_completed_by_the_next_call() {
    for done in [1, 4, 20, 36] {
        let mem = Arc::new(Mem::new());
        let (cluster, documents) = collection(&mem);
        fill(&documents, 60);
        let mut plan = vec![Fate::Answered; done];
        plan.resize(done + 60, Fate::Unavailable);
        mem.plan(&plan);
        let dropped = cluster.drop_collection("c");
        mem.plan(&[]);
        assert_eq!(dropped.is_err(), done < 34, "16 fences, 16 buckets, two notes");
        if let Err(error) = dropped {
            assert_eq!(error.kind(), ErrorKind::Unknown, "it may not be tried again: {error}");
        }
        assert!(cluster.collections().unwrap().is_empty(), "nobody uses it any more");
        if done > 17 {
            assert_eq!(documents.get(1).unwrap_err().kind(), ErrorKind::InvalidInput, "fenced");
        }
        let again = connect(&mem).collection("c").unwrap();
        assert_eq!((again.count().unwrap(), mem.partitions().len()), (0, 0));
    }
}

/// A process that gets no answer to its first change of the note of `c`, although it is made, and
/// something happens before it asks what became of it.
struct Unanswered(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Unanswered {
    fn over(mem: &Arc<Mem>, meanwhile: impl FnOnce() + Send + 'static) -> Arc<dyn Store> {
        let meanwhile = Self(Mutex::new(Some(Box::new(meanwhile))));
        Hooked::over(Arc::clone(mem) as _, meanwhile)
    }
}

impl Hooks for Unanswered {
    fn after_note(&self, name: &str) -> Result<()> {
        let Some(meanwhile) = self.0.lock().unwrap().take_if(|_| name == "c") else {
            return Ok(());
        };
        meanwhile();
        Err(Error::new(ErrorKind::Unknown, "not answered"))
    }
}

/// The number was used again. Its buckets had a fence for ever.
#[test]
fn a_clear_that_others_completed_before_it_was_answered_is_not_begun_again() {
    let mem = Arc::new(Mem::new());
    let (_a, other) = collection(&mem);
    fill(&other, 50);
    let store = Unanswered::over(&mem, {
        let other = other.clone();
        move || {
            // It meets the first fence, and completes the clear.
            other.clear().unwrap();
            fill(&other, 3);
        }
    });
    Cluster::over(store).unwrap().collection("c").unwrap().clear().unwrap();
    assert_eq!(other.count().unwrap(), 3);
    fill(&other, 50);
    assert_eq!(connect(&mem).collection("c").unwrap().count().unwrap(), 50);
}

/// The same of a collection that was dropped as soon as it was created.
#[test]
fn a_creation_that_was_undone_before_it_was_answered_is_done_with_another_number() {
    let mem = Arc::new(Mem::new());
    let dropping = connect(&mem);
    let store = Unanswered::over(&mem, move || {
        fill(&dropping.existing("c").unwrap().unwrap(), 20);
        assert!(dropping.drop_collection("c").unwrap());
    });
    let created = Cluster::over(store).unwrap();
    let documents = created.collection("c").unwrap();
    fill(&documents, 50);
    assert_eq!(connect(&mem).collection("c").unwrap().count().unwrap(), 50);
}

/// The name was another collection's then, or another index's, and that was dropped, too.
#[test]
fn a_drop_that_is_not_answered_drops_nothing_that_came_after() {
    let mem = Arc::new(Mem::new());
    let (creates, documents) = collection(&mem);
    fill(&documents, 20);
    let store = Unanswered::over(&mem, move || fill(&creates.collection("c").unwrap(), 5));
    assert!(Cluster::over(store).unwrap().drop_collection("c").unwrap());
    let (_cluster, documents) = collection(&mem);
    assert_eq!(documents.count().unwrap(), 5);
    for index in [by_n(), by_n().unique()] {
        documents.create_index("by n", by_n()).unwrap();
        let (other, again) = (documents.clone(), index.clone());
        let store = Unanswered::over(&mem, move || other.create_index("by n", again).unwrap());
        assert!(Cluster::over(store).unwrap().collection("c").unwrap().drop_index("by n").unwrap());
        assert_eq!(documents.verify_indexes().unwrap().entries, 5);
        assert!(documents.drop_index("by n").unwrap());
    }
}

/// The claims of the second attempt had the number of the first one, whose buckets had fences: no
/// value could be written.
#[test]
fn a_unique_index_that_is_dropped_before_its_creation_is_answered_works() {
    let mem = Arc::new(Mem::new());
    let (_a, documents) = collection(&mem);
    fill(&documents, 20);
    let other = documents.clone();
    let store = Unanswered::over(&mem, move || {
        // Another call that wants the same completes it.
        other.create_index("by n", by_n().unique()).unwrap();
        assert!(other.drop_index("by n").unwrap());
    });
    let creates = Cluster::over(store).unwrap().collection("c").unwrap();
    creates.create_index("by n", by_n().unique()).unwrap();
    documents.put(100, Json(r#"{"n":100}"#)).unwrap();
    let duplicate = documents.put(101, Json(r#"{"n":100}"#)).unwrap_err();
    assert_eq!(duplicate.kind(), ErrorKind::Duplicate, "{duplicate}");
    assert_eq!(documents.verify_indexes().unwrap().entries, 21);
}

#[test]
fn names_and_notes_that_cannot_be_are_refused() {
    let mem = Arc::new(Mem::new());
    let cluster = connect(&mem);
    let long = "x".repeat(256);
    for name in ["", "\u{1}numbers", "a\nb", &long] {
        assert_eq!(cluster.collection(name).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(cluster.drop_collection(name).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    for name in ["b", "a", "ü"] {
        cluster.collection(name).unwrap();
    }
    assert_eq!(cluster.collections().unwrap(), ["a", "b", "ü"]);
}
