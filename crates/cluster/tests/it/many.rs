//! Writes of all documents that match a filter, which no snapshot holds still.

use crate::support::{by_n, collection, fill, n_of};
use flagstone::query::Returning;
use flagstone::{Json, Patch, Space};
use flagstone_cluster::mem::Mem;
use std::sync::Arc;

/// The entries that it wrote came again behind those that it read.
#[test]
fn a_write_in_the_order_of_what_it_changes_changes_each_document_once() {
    const COUNT: u64 = 3_000;
    let mem = Arc::new(Mem::new());
    let (_cluster, documents) = collection(&mem);
    fill(&documents, COUNT);
    documents.create_index("by n", by_n()).unwrap();
    let later = Patch::new().inc("n", 1_000_000);
    let done = documents.update_many(r#"{"n":{"$gte":0}}"#, &later).sort("n").run().unwrap();
    assert_eq!((done.matched, done.modified), (COUNT, COUNT));
    for key in [0, 1, COUNT / 2, COUNT - 1] {
        assert_eq!(n_of(&documents, key), Some(key as i64 + 1_000_000));
    }
}

/// A claim that another process was faster with returned the job nevertheless.
#[test]
fn each_job_is_claimed_by_one_process() {
    const JOBS: u64 = 300;
    let mem = Arc::new(Mem::new());
    let (_cluster, documents) = collection(&mem);
    for key in 0..JOBS {
        documents.put(key, Json(r#"{"state":"new"}"#)).unwrap();
    }
    let claims = |process: &str| {
        let (_cluster, jobs) = collection(&mem);
        let claim = Patch::new().set("state", process);
        let mut claimed = Vec::new();
        loop {
            let claiming = jobs.update_many(r#"{"state":"new"}"#, &claim).one();
            let done = claiming.returning(Returning::New).run().unwrap();
            assert_eq!(done.documents.len() as u64, done.matched);
            match done.documents.first() {
                Some((key, _job)) => claimed.push(key.as_i64().unwrap()),
                None => return claimed,
            }
        }
    };
    let mut all = std::thread::scope(|scope| {
        let processes: Vec<_> =
            ["a", "b", "c"].map(|process| scope.spawn(move || claims(process))).into();
        processes.into_iter().flat_map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    all.sort_unstable();
    assert!(all.into_iter().eq(0..JOBS as i64));
}
