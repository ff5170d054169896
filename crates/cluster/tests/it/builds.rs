//! Indexes that are created over documents that are there.

use crate::support::{by_n, collection, fill, found, keys_of};
use flagstone::query::Hint;
use flagstone::{ErrorKind, Index, Json, Space};
use flagstone_cluster::mem::{Fate, Faults, Mem};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn an_index_finds_what_was_there_and_what_comes() {
    let mem = Arc::new(Mem::new());
    let (_cluster, documents) = collection(&mem);
    fill(&documents, 1000);
    let mut seen = Vec::new();
    let built = documents.create_index_with("by n", by_n(), |progress| {
        seen.push((progress.documents, progress.entries));
        ControlFlow::Continue(())
    });
    assert!(built.unwrap().is_continue());
    assert!(seen.is_sorted() && seen.len() > 2);
    assert_eq!(seen.last(), Some(&(1000, 1000)));
    documents.put(2000, Json(r#"{"n":-1}"#)).unwrap();
    let by_index = documents.find(r#"{"n":{"$lt":5}}"#).sort("n").hint(Hint::index("by n"));
    assert_eq!(keys_of(&by_index), [2000, 0, 1, 2, 3, 4]);
    let descending = documents.find("{}").sort("-n").hint(Hint::index("by n"));
    assert_eq!(keys_of(&descending.limit(3)), [999, 998, 997]);
    let report = documents.verify_indexes().unwrap();
    assert_eq!((report.documents, report.entries), (1001, 1001));
}

#[test]
fn a_build_that_was_cut_short_is_completed_by_the_next_call() {
    for done in [3, 17, 20, 30] {
        let mem = Arc::new(Mem::new());
        let ((_a, documents), (_b, other)) = (collection(&mem), collection(&mem));
        fill(&documents, 200);
        let mut plan = vec![Fate::Answered; done];
        plan.resize(done + 60, Fate::Unavailable);
        mem.plan(&plan);
        let failed = documents.create_index("by n", by_n()).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Unknown);
        assert!(failed.to_string().contains("is not complete: the next creation goes on"));
        mem.plan(&[]);
        let error = other.create_index("by n", Index::on("$.m")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(other.remove(5).unwrap());
        assert_eq!(found(&other, r#"{"n":{"$lt":7}}"#), [0, 1, 2, 3, 4, 6]);
        other.create_index("by n", by_n()).unwrap();
        assert_eq!(documents.verify_indexes().unwrap().entries, 199);
    }
}

#[test]
fn a_document_that_does_not_fit_ends_the_build_and_is_named() {
    let mem = Arc::new(Mem::new());
    let (_cluster, documents) = collection(&mem);
    fill(&documents, 100);
    documents.put("bad", Json(r#"{"a":[1],"b":[2]}"#)).unwrap();
    let two = || Index::on("$.a").then("$.b");
    let refused = documents.create_index("a", two()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let text = refused.to_string();
    assert!(text.contains("collection \"c\", document of key \"bad\": "), "{text}");
    assert!(documents.indexes().is_empty());
    documents.put("bad", Json(r#"{"a":1,"b":[2]}"#)).unwrap();
    documents.create_index("a", two()).unwrap();
    // A write that does not fit fails by itself.
    let refused = documents.put("bad", Json(r#"{"a":[1],"b":[2]}"#)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(documents.verify_indexes().unwrap().documents, 101);
}

#[test]
fn a_cancelled_build_leaves_no_index() {
    let mem = Arc::new(Mem::new());
    let (_cluster, documents) = collection(&mem);
    fill(&documents, 100);
    let built = documents.create_index_with("by n", by_n(), |_| ControlFlow::Break(()));
    assert!(built.unwrap().is_break() && documents.indexes().is_empty());
    let entries = mem.partitions().into_iter().flat_map(|place| mem.all_rows(place));
    assert!(entries.into_iter().all(|(kind, _)| kind.0 <= 0), "no entries are left");
}

/// The index was dropped, although the other call had said that it is there.
#[test]
fn a_cancelled_build_leaves_an_index_that_another_build_has_completed() {
    let mem = Arc::new(Mem::new());
    let ((_a, documents), (_b, other)) = (collection(&mem), collection(&mem));
    fill(&documents, 100);
    let built = documents.create_index_with("by n", by_n(), |_| {
        other.create_index("by n", by_n()).unwrap();
        ControlFlow::Break(())
    });
    assert!(built.unwrap().is_break());
    assert_eq!(other.verify_indexes().unwrap().entries, 100);
    assert_eq!(documents.verify_indexes().unwrap().entries, 100);
}

#[test]
fn arrays_that_another_process_puts_are_known_to_plans() {
    let mem = Arc::new(Mem::new());
    let ((_a, documents), (_b, other)) = (collection(&mem), collection(&mem));
    fill(&documents, 20);
    documents.put("array before", Json(r#"{"m":[1,99]}"#)).unwrap();
    documents.create_index("by n", by_n()).unwrap();
    documents.create_index("by m", Index::on("$.m")).unwrap();
    // One element is above the lower bound, another one below the upper bound.
    let between = |path: &str| {
        let filter = format!(r#"{{"{path}":{{"$gt":30,"$lt":50}}}}"#);
        let index = Hint::index(format!("by {path}"));
        documents.find(filter.as_str()).hint(index).count().unwrap()
    };
    assert_eq!((between("n"), between("m")), (0, 1));
    other.put("array", Json(r#"{"n":[10,90],"m":[10,90]}"#)).unwrap();
    assert_eq!((between("n"), between("m")), (1, 2));
}

#[test]
fn what_a_cluster_cannot_keep_is_refused() {
    let (_cluster, documents) = collection(&Arc::new(Mem::new()));
    let expires = by_n().expire_after(std::time::Duration::ZERO);
    let refused = documents.create_index("n", expires).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(documents.indexes().is_empty());
}

#[test]
fn writers_go_on_while_an_index_is_built() {
    for seed in 0..3 {
        let mem = Arc::new(Mem::new());
        let ((_a, documents), (_b, other)) = (collection(&mem), collection(&mem));
        fill(&documents, 400);
        mem.set_faults(Faults { unavailable: 0, ..Faults::MANY });
        let is_built = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (writer, handle) in [&documents, &other, &other].into_iter().enumerate() {
                let is_built = &is_built;
                scope.spawn(move || {
                    let mut key = writer as u64 + seed;
                    while !is_built.load(Ordering::Relaxed) {
                        key = (key + 97) % 400;
                        match key % 4 {
                            0 => drop(handle.remove(key).unwrap()),
                            _ => handle
                                .put(key, Json(format!(r#"{{"n":[{key},{writer}]}}"#)))
                                .unwrap(),
                        }
                    }
                });
            }
            documents.create_index("by n", by_n()).unwrap();
            is_built.store(true, Ordering::Relaxed);
        });
        crate::support::calm(&mem);
        let report = documents.verify_indexes().unwrap();
        assert!(report.indexes == 1 && report.entries > 300);
    }
}
