//! What calls return, and what is stored, when changes are lost, late or not answered.

use crate::support::{Hooked, Hooks, by_n, calm, collection, fill, found, n_of};
use flagstone::{Collection, DocumentMut, ErrorKind, Group, Json, Space};
use flagstone_base::interrupt;
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::{Fate, Faults, Mem};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The store is gone from the third reading of pages on.
struct Dies(Arc<Mem>, AtomicU64);

impl Hooks for Dies {
    fn before_pages(&self) {
        if self.1.fetch_add(1, Ordering::SeqCst) == 2 {
            self.0.set_faults(Faults { unavailable: 1000, ..Faults::default() });
        }
    }
}

#[test]
fn a_group_in_whose_middle_all_nodes_die_ends_with_an_error() {
    let mem = Arc::new(Mem::new());
    fill(&collection(&mem).1, 2000);
    let store = Hooked::over(Arc::clone(&mem) as _, Dies(Arc::clone(&mem), AtomicU64::new(0)));
    let cluster = Cluster::over(store).unwrap();
    let documents = cluster.collection("c").unwrap();
    let groups = || -> flagstone::Result<usize> {
        let group = Group::by("n").count("count");
        let groups = documents.find("{}").group(&group)?;
        groups.map(|group| group.map(drop)).try_fold(0, |count, group| group.map(|()| count + 1))
    };
    assert_eq!(groups().unwrap_err().kind(), ErrorKind::Unavailable);
    calm(&mem);
    assert_eq!(groups().unwrap(), 2000);
}

/// A write that has begun learns what became of it, and of those that it works for.
#[test]
fn reads_are_interrupted_and_writes_are_not() {
    for_both(|mem, documents| {
        for fate in FATES {
            mem.plan(&[fate]);
            interrupt::interruptible(
                || true,
                || {
                    let get = documents.get(1).map(drop).unwrap_err();
                    let find = documents.find(r#"{"n":1}"#).first().map(drop).unwrap_err();
                    for kind in [get.kind(), find.kind()] {
                        assert_eq!(kind, ErrorKind::Interrupted);
                    }
                    assert!(increment(documents).unwrap(), "{fate:?}");
                },
            );
        }
        mem.deliver();
        assert_eq!(n_of(documents, 1), Some(1 + FATES.len() as i64));
    });
}

const FATES: [Fate; 5] =
    [Fate::Refused, Fate::Lost, Fate::Unanswered, Fate::Late, Fate::Unfinished];

/// Runs a test with and without an index: the latter writes blindly. Key 1 has `n` 1.
fn for_both(test: impl Fn(&Mem, &Collection)) {
    for is_indexed in [false, true] {
        let mem = Arc::new(Mem::new());
        let (_cluster, documents) = collection(&mem);
        fill(&documents, 2);
        if is_indexed {
            documents.create_index("by n", by_n()).unwrap();
        }
        test(&mem, &documents);
        calm(&mem);
        documents.verify_indexes().unwrap();
    }
}

fn increment(documents: &Collection) -> flagstone::Result<bool> {
    documents.update(1, |document: &mut DocumentMut| document.inc("n", 1))
}

#[test]
fn an_update_is_done_once_whatever_happens_to_its_batch() {
    for_both(|mem, documents| {
        let mut n = 1;
        for first in FATES {
            for second in FATES {
                mem.plan(&[first, second]);
                assert!(increment(documents).unwrap());
                n += 1;
                assert_eq!(n_of(documents, 1), Some(n), "{first:?}, {second:?}");
                calm(mem);
                assert_eq!(n_of(documents, 1), Some(n), "{first:?}, {second:?}, later");
            }
        }
    });
}

#[test]
fn what_fails_as_unavailable_is_not_done() {
    for_both(|mem, documents| {
        mem.plan(&[Fate::Unavailable]);
        assert_eq!(increment(documents).unwrap_err().kind(), ErrorKind::Unavailable);
        calm(mem);
        assert_eq!(n_of(documents, 1), Some(1));
    });
}

#[test]
fn a_late_write_does_not_come_after_the_next_one() {
    for_both(|mem, documents| {
        for fate in [Fate::Late, Fate::Unfinished] {
            mem.plan(&[fate]);
            documents.put(1, Json(r#"{"n":7}"#)).unwrap();
            documents.put(1, Json(r#"{"n":8}"#)).unwrap();
            calm(mem);
            assert_eq!(n_of(documents, 1), Some(8));
            mem.plan(&[fate]);
            documents.put(9, Json(r#"{"n":9}"#)).unwrap();
            assert!(documents.remove(9).unwrap());
            calm(mem);
            assert_eq!(n_of(documents, 9), None, "a put after the document was removed");
        }
        mem.plan(&[Fate::Late]);
        assert!(documents.remove(1).unwrap());
        documents.put(1, Json(r#"{"n":3}"#)).unwrap();
        calm(mem);
        assert_eq!(n_of(documents, 1), Some(3), "a removal after the document was put again");
    });
}

#[test]
fn a_batch_that_was_refused_after_no_answer_never_comes() {
    for_both(|mem, documents| {
        mem.plan(&[Fate::Late, Fate::Refused]);
        let mut calls = 0;
        let updated = documents.update(1, |document: &mut DocumentMut| {
            calls += 1;
            if calls == 2 {
                return Err(flagstone::Error::new(ErrorKind::ConditionFailed, "no more"));
            }
            document.inc("n", 1)
        });
        assert_eq!(updated.unwrap_err().kind(), ErrorKind::ConditionFailed);
        calm(mem);
        assert_eq!(n_of(documents, 1), Some(1));
    });
}

#[test]
fn a_late_first_write_of_a_bucket_is_done_once() {
    let mem = Arc::new(Mem::new());
    let ((_a, documents), (_b, other)) = (collection(&mem), collection(&mem));
    // The bucket has no epoch yet: the second attempt is refused for that, and the first one must
    // not come when it has.
    mem.plan(&[Fate::Late, Fate::Answered]);
    let was_updated = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&was_updated);
    mem.before_batches(move |mem, number| {
        if number > 2 && !noted.load(Ordering::Relaxed) {
            mem.deliver();
            let set = |document: &mut DocumentMut| document.set("n", 8).map(drop);
            noted.store(other.update(1, set).unwrap(), Ordering::Relaxed);
        }
    });
    documents.put(1, Json(r#"{"n":7}"#)).unwrap();
    calm(&mem);
    let is_updated = was_updated.load(Ordering::Relaxed);
    assert_eq!(n_of(&documents, 1), Some(if is_updated { 8 } else { 7 }));
}

#[test]
fn an_outcome_that_cannot_be_told_is_unknown() {
    for late in [0, 1000] {
        for_both(|mem, documents| {
            mem.set_faults(Faults { lost: 1000 - late, late, ..Faults::default() });
            let error = documents.put(1, Json(r#"{"n":7}"#)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unknown);
            let text = error.to_string();
            assert!(text.contains("collection \"c\" (table rows, c = "), "{text}");
            assert!(text.contains("may still happen"), "{text}");
            mem.set_faults(Faults::default());
            assert_eq!(n_of(documents, 1), Some(1));
            assert!(increment(documents).unwrap());
            calm(mem);
            assert_eq!(n_of(documents, 1), Some(2), "the next write ends it");
        });
    }
}

#[test]
fn late_writes_do_not_come_after_a_clear() {
    for_both(|mem, documents| {
        mem.set_faults(Faults { late: 1000, ..Faults::default() });
        assert_eq!(documents.put(1, Json("{}")).unwrap_err().kind(), ErrorKind::Unknown);
        mem.set_faults(Faults::default());
        documents.clear().unwrap();
        mem.deliver();
        assert_eq!((documents.count().unwrap(), n_of(documents, 1)), (0, None));
        fill(documents, 3);
        assert_eq!(found(documents, r#"{"n":{"$gte":1}}"#), [1, 2]);
    });
}

#[test]
fn a_clear_a_build_and_a_drop_go_through_many_faults() {
    for seed in 0..4 {
        let mem = Arc::new(Mem::with_faults(seed, Faults::default()));
        let (cluster, documents) = collection(&mem);
        fill(&documents, 40);
        mem.set_faults(Faults { unavailable: 0, pauses: 0, ..Faults::MANY });
        documents.create_index("by n", by_n()).unwrap();
        assert_eq!(found(&documents, r#"{"n":{"$lt":5}}"#), [0, 1, 2, 3, 4]);
        documents.clear().unwrap();
        fill(&documents, 3);
        assert!(documents.drop_index("by n").unwrap());
        assert_eq!(documents.count().unwrap(), 3);
        calm(&mem);
        assert_eq!(documents.count().unwrap(), 3);
        mem.set_faults(Faults { unavailable: 0, pauses: 0, ..Faults::MANY });
        // One whose last step is not answered may say so; then it is called again.
        while cluster.collections().unwrap() == ["c"] {
            let _dropped = cluster.drop_collection("c");
        }
        calm(&mem);
        let again = cluster.collection("c").unwrap();
        assert_eq!(again.count().unwrap(), 0);
    }
}
