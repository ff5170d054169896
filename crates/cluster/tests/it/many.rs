//! Writes of all documents that match a filter, which no snapshot holds still.

use crate::support::{by_n, collection, fill, found, n_of, stored_key};
use flagstone::internal::remote_of;
use flagstone::query::Returning;
use flagstone::remote::Row;
use flagstone::{Collection, Document, ErrorKind, Json, Patch, Patched, Space};
use flagstone_cluster::mem::{Faults, Mem};
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

#[test]
fn each_document_is_inserted_by_one_process_and_replaces_none() {
    const COUNT: u64 = 1_000;
    let mem = Arc::new(Mem::new());
    let (_cluster, documents) = collection(&mem);
    documents.create_index("by n", by_n()).unwrap();
    documents.put(7, Json(r#"{"n":-1}"#)).unwrap();
    let row = |n: u64| {
        let document = Document::from_json(format!(r#"{{"n":{n}}}"#)).unwrap();
        Row { document: document.as_bytes().to_vec().into(), expiry: None }
    };
    let insert = |process: u64| {
        let (_cluster, documents) = collection(&mem);
        let rows = (0..COUNT).map(|key| (stored_key(key), row(key + process * COUNT)));
        // The second of two with one key is not added.
        let rows = rows.chain([(stored_key(9), row(0))]).collect();
        let added = remote_of(&documents).unwrap().insert_many(rows);
        added.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let insert = &insert;
    let added = std::thread::scope(|scope| {
        let processes = [1, 2, 3].map(|process| scope.spawn(move || (process, insert(process))));
        processes.map(|one| one.join().unwrap())
    });
    assert!(added.iter().all(|(_, added)| !added[COUNT as usize]));
    for key in 0..COUNT {
        let mut by = added.iter().filter(|(_, added)| added[key as usize]);
        let n = by.next().map_or(-1, |(process, _)| (key + process * COUNT) as i64);
        assert!(by.next().is_none() && (n == -1) == (key == 7), "{key}");
        assert_eq!(n_of(&documents, key), Some(n));
        assert_eq!(found(&documents, &format!(r#"{{"n":{n}}}"#)), [key]);
    }
}

/// Each removal used to wait for the one before it.
#[test]
fn documents_are_removed_side_by_side_until_none_matches() {
    const COUNT: u64 = 2_000;
    let mem = Arc::new(Mem::new());
    let (_cluster, documents) = collection(&mem);
    fill(&documents, COUNT);
    documents.create_index("by n", by_n()).unwrap();
    let filter = format!(r#"{{"n":{{"$lt":{}}}}}"#, COUNT / 2);
    let old = || documents.delete_many(filter.as_str()).sort("-n");
    let (first, before) = (old().limit(37).run().unwrap(), documents.count().unwrap());
    assert_eq!((first.matched, first.modified, before), (37, 37, COUNT - 37));
    // The greatest are gone.
    let last = COUNT / 2 - 37;
    assert_eq!(n_of(&documents, COUNT / 2 - 1), None);
    assert_eq!(n_of(&documents, last - 1), Some(last as i64 - 1));

    mem.set_faults(Faults { unavailable: 150, ..Faults::default() });
    let (mut removed, mut errors, mut after) = (37, 0, first.next);
    loop {
        let write = match &after {
            Some(token) => old().after(token),
            None => old(),
        };
        match write.returning(Returning::Old).run() {
            Ok(done) => {
                removed += done.documents.len() as u64;
                break;
            }
            Err(stopped) => {
                assert_eq!(stopped.error.kind(), ErrorKind::Unavailable, "{stopped}");
                errors += 1;
                removed += stopped.done.documents.len() as u64;
                after = stopped.done.next.or(after);
            }
        }
    }
    mem.set_faults(Faults::default());
    assert!(errors > 0);
    assert_eq!((removed, documents.count().unwrap()), (COUNT / 2, COUNT / 2));
    assert_eq!(documents.verify_indexes().unwrap().entries, COUNT / 2);

    // What matches no more when its turn comes stays, and does not count.
    let keep = |documents: Collection| {
        let is_kept = |key: &u64| {
            let keep = Patch::new().if_eq("n", *key as i64).set("n", -1);
            documents.patch_if(*key, &keep).unwrap() == Patched::Changed
        };
        (COUNT / 2..COUNT).filter(is_kept).count() as u64
    };
    let (kept, done) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| keep(collection(&mem).1));
        let done = documents.delete_many(r#"{"n":{"$gte":0}}"#).run().unwrap();
        (writer.join().unwrap(), done)
    });
    assert_eq!(documents.count().unwrap(), kept);
    assert_eq!((done.matched, done.modified), (COUNT / 2 - kept, COUNT / 2 - kept));
}
