//! Unique indexes: of several writers of one value exactly one wins, whatever fails, and no value
//! is lost to a writer that has ended.

#[cfg(feature = "cql")]
use crate::support::keys_of;
use crate::support::{
    Hooked, Hooks, Meanwhile, by_n, calm, collection, connect, found, is_too_few, n_of, rebalance,
    refused, stored_key,
};
use flagstone::admin::Environment;
use flagstone::remote::Row;
use flagstone::{
    Collection, DocumentMut, ErrorKind, Expires, Index, Json, Patch, Result, Space, doc,
};
use flagstone_base::{Moment, Slice};
use flagstone_cluster::mem::{Fate, Faults, Mem};
use flagstone_cluster::store::{
    Batch, Change, Freshness, Kind, Outcome, Partition, RowKey, RowsRequest, Store, StoredRow,
    Token,
};
use flagstone_cluster::{Cluster, Layout};
use flagstone_doc::Encoder;
use flagstone_env::{Clock, ManualClock};
use flagstone_testkit::{Rng, rounds, seed};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

fn put(documents: &Collection, key: u64, n: i64) -> Result<()> {
    documents.put(key, Json(format!(r#"{{"n":{n}}}"#)))
}

/// How many claims there are: rows of index 1 in another generation than that of the documents.
fn claims(mem: &Mem) -> usize {
    let all: Vec<_> =
        mem.partitions().into_iter().map(|at| (at.generation, mem.all_rows(at))).collect();
    let has_some = |rows: &[(Kind, StoredRow)]| rows.iter().any(|(one, _)| *one == Kind::DOCUMENTS);
    let has_documents =
        |generation: i32| all.iter().any(|(one, rows)| *one == generation && has_some(rows));
    let others = all.iter().filter(|(generation, _)| !has_documents(*generation));
    others.flat_map(|(_, rows)| rows).filter(|(kind, _)| kind.0 > 0).count()
}

#[test]
fn no_two_documents_have_one_value() {
    let mem = Arc::new(Mem::new());
    let ((_a, documents), (_b, other)) = (collection(&mem), collection(&mem));
    documents.create_index("by n", by_n().unique()).unwrap();
    for (documents, first) in [(&documents, 0), (&other, 100)] {
        put(documents, first, first as i64).unwrap();
        put(documents, first + 1, first as i64 + 1).unwrap();
        // The same again, and a change of another field.
        put(documents, first, first as i64).unwrap();
        assert!(documents.update(first, |it: &mut DocumentMut| it.set("m", 1).map(drop)).unwrap());
        let said = format!("\"by n\" has the value {first} of key {first} already: key 7 cannot");
        refused(put(documents, 7, first as i64), &said);
        let to = |n: u64| move |it: &mut DocumentMut| it.set("n", n).map(drop);
        refused(
            documents.update(first + 1, to(first)),
            &said.replace("key 7", &format!("key {}", first + 1)),
        );
        // One that has given it up, by each of the ways.
        assert!(documents.update(first, to(first + 50)).unwrap());
        put(documents, 7, first as i64).unwrap();
        assert!(documents.remove(7).unwrap());
        put(documents, 8, first as i64).unwrap();
        documents.delete_range(8..9).unwrap();
        assert!(documents.update(first, to(first)).unwrap());
        refused(put(documents, 7, first as i64), &said);
    }
    assert_eq!(documents.count().unwrap(), 4);
    // A missing value is one, too.
    documents.put("a", Json("{}")).unwrap();
    refused(other.put("b", Json(r#"{"m":2}"#)), "has the value {n: missing} of key \"a\" already");
    // Each element of an array.
    documents.put("a", Json(r#"{"n":[7,8,9]}"#)).unwrap();
    refused(other.put("b", Json(r#"{"n":[10,9]}"#)), "has the value 9 of key \"a\"");
    other.put("b", Json(r#"{"n":[10,11]}"#)).unwrap();
    refused(put(&documents, 7, 11), "has the value 11 of key \"b\"");
    let report = other.verify_indexes().unwrap();
    assert_eq!((report.documents, report.entries), (6, 9));
    assert_eq!(claims(&mem), 9, "those of values that were given up are gone");
    assert_eq!(found(&documents, r#"{"n":101}"#), [101]);
    // Those that are refused do not keep others from it.
    let renumber = Patch::new().set("n", 500);
    let done = documents.update_many(r#"{"n":{"$gte":0}}"#, &renumber).run();
    refused(done.map_err(|interrupted| interrupted.error), "has the value 500 of key ");
    assert_eq!(found(&documents, r#"{"n":500}"#).len(), 1);
    documents.clear().unwrap();
    assert_eq!(claims(&mem), 0);
    put(&other, 1, 500).unwrap();
    assert!(other.drop_index("by n").unwrap());
    assert_eq!(claims(&mem), 0);
    put(&documents, 2, 500).unwrap();
    refused(documents.create_index("by n", by_n().unique()), "has the value 500 of key ");
    assert!(documents.indexes().is_empty());
    put(&documents, 2, 501).unwrap();
    documents.create_index("by n", by_n().unique()).unwrap();
    refused(put(&other, 3, 501), "has the value 501 of key 2");
    assert_eq!(documents.verify_indexes().unwrap().entries, 2);
}

/// Documents with these keys and `n`, as a remote takes them.
fn encoded(pairs: &[(u64, i64)]) -> Vec<(Vec<u8>, Row)> {
    let row = |(key, n): &(u64, i64)| {
        let mut document = Vec::new();
        Encoder::default().encode(&doc!({ "n": (*n) }), None, &mut document).unwrap();
        (stored_key(*key), Row { document: document.into(), expiry: None })
    };
    pairs.iter().map(row).collect()
}

#[test]
fn documents_of_one_call_are_judged_one_after_another() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    rebalance(&cluster, Layout::Hash(1)).unwrap();
    documents.create_index("by n", by_n().unique()).unwrap();
    let remote = flagstone::internal::remote_of(&documents).unwrap();
    remote.put_many(encoded(&[(1, 1), (2, 2), (3, 3)])).unwrap();
    // What an earlier one gives up, a later one may have.
    remote.put_many(encoded(&[(1, 4), (2, 1), (3, 2), (1, 3), (4, 4)])).unwrap();
    let all = || (0..8).map(|key| n_of(&documents, key)).collect::<Vec<_>>();
    let expected = [None, Some(3), Some(1), Some(2), Some(4), None, None, None];
    assert_eq!(all(), expected);
    refused(remote.put_many(encoded(&[(5, 5), (6, 1), (7, 7)])), "value 1 of key 2 already: key 6");
    assert_eq!(all()[5..], [Some(5), None, Some(7)]);
    // Two new ones of one value.
    refused(remote.put_many(encoded(&[(8, 8), (9, 8)])), "value 8 of key 8 already: key 9");
    remote.put_many(encoded(&[(7, 10), (7, 11)])).unwrap();
    // One before the refused one is put, though it comes once more behind it.
    refused(remote.put_many(encoded(&[(7, 12), (9, 8), (7, 8)])), "value 8 of key 8 already");
    assert_eq!(all()[7], Some(12));
    assert_eq!(documents.verify_indexes().unwrap().entries, 7);
    assert_eq!(claims(&mem), 7);
}

/// Calls of one process that wait for one bucket are written together.
#[test]
fn a_refused_write_does_not_undo_one_of_its_group() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    rebalance(&cluster, Layout::Hash(1)).unwrap();
    documents.create_index("by n", by_n().unique()).unwrap();
    put(&documents, 5, 5).unwrap();
    documents.put(1, Json(r#"{"n":1,"m":0}"#)).unwrap();
    let count = |it: &mut DocumentMut| {
        let m = it.int("m").unwrap();
        it.set("m", m + 1).map(drop)
    };
    let (begun, begins) = mpsc::channel();
    let (ends, end) = mpsc::channel();
    let soon = || std::thread::sleep(Duration::from_millis(100));
    std::thread::scope(|scope| {
        let documents = &documents;
        let mut is_first = true;
        let leader = scope.spawn(move || {
            documents.update(5, |_: &mut DocumentMut| {
                if std::mem::take(&mut is_first) {
                    begun.send(()).unwrap();
                    end.recv().unwrap();
                }
                Ok(())
            })
        });
        begins.recv().unwrap();
        let first = scope.spawn(|| documents.update(1, count));
        soon();
        let second = scope.spawn(|| put(documents, 2, 5));
        soon();
        let third = scope.spawn(|| documents.update(1, count));
        soon();
        ends.send(()).unwrap();
        leader.join().unwrap().unwrap();
        assert!(first.join().unwrap().unwrap() && third.join().unwrap().unwrap());
        refused(second.join().unwrap(), "has the value 5 of key 5");
    });
    assert_eq!(documents.get(1).unwrap().unwrap().int("m"), Some(2));
    assert_eq!(n_of(&documents, 2), None);
}

#[test]
fn a_document_that_has_expired_gives_its_value_up() {
    let clock = Arc::new(ManualClock::default());
    let environment = || Environment { clock: Arc::clone(&clock) as _, ..Environment::default() };
    let (dir, mem) = (tempfile::tempdir().unwrap(), Arc::new(Mem::new()));
    let open = || Cluster::over_with(Arc::clone(&mem) as _, environment(), dir.path()).unwrap();
    let cluster = open();
    let documents = cluster.collection("c").unwrap();
    documents.create_index("by n", by_n().unique()).unwrap();
    documents.create_index("by m", Index::on("$.m")).unwrap();
    let soon = Moment::since_1970(clock.wall()).after(Duration::from_secs(60));
    documents.put(1, Json(r#"{"n":1,"m":1}"#).expires(soon)).unwrap();
    refused(put(&documents, 2, 1), "has the value 1 of key 1");
    // A reader whose clock is behind still sees it a little later.
    clock.advance(Duration::from_secs(60));
    assert_eq!(n_of(&documents, 1), None);
    refused(put(&documents, 2, 1), "has the value 1 of key 1");
    // A build does not leave it out either.
    assert!(documents.drop_index("by n").unwrap());
    documents.create_index("by n", by_n().unique()).unwrap();
    clock.advance(Duration::from_millis(9_999));
    refused(put(&documents, 2, 1), "has the value 1 of key 1");
    clock.advance(Duration::from_millis(1));
    put(&documents, 2, 1).unwrap();
    refused(put(&documents, 1, 1), "has the value 1 of key 2");
    let report = documents.verify_indexes().unwrap();
    assert_eq!((report.documents, report.entries), (1, 2));
    let rows = mem.partitions().into_iter().flat_map(|place| mem.all_rows(place));
    assert_eq!(rows.filter(|(kind, _)| kind.0 > 0).count(), 3, "two entries and a claim");
    put(&documents, 1, 3).unwrap();
    assert_eq!(documents.count().unwrap(), 2);
    // A row that says that there is none is none for all calls.
    assert!(documents.remove(1).unwrap() && !documents.remove(1).unwrap());
    assert_eq!((n_of(&documents, 1), documents.count().unwrap()), (None, 1));
    assert_eq!(documents.scan(..).count(), 1);
    assert!(documents.drop_index("by n").unwrap());
    documents.create_index("all", Index::on("$.x")).unwrap();
    assert_eq!(documents.verify_indexes().unwrap().entries, 2);
    rebalance(&cluster, Layout::Hash(2)).unwrap();
    assert_eq!(documents.verify_indexes().unwrap().entries, 2);
    assert_eq!(n_of(&documents, 2), Some(1));
}

/// A writer that ends at any step is in nobody's way, and what it sent may still come.
#[test]
fn a_writer_that_ends_blocks_no_value() {
    for fate in [Fate::Unavailable, Fate::Late, Fate::Unanswered, Fate::Unfinished] {
        for (done, is_new) in (0..8).flat_map(|done| [(done, true), (done, false)]) {
            let mem = Arc::new(Mem::new());
            let (_a, documents) = collection(&mem);
            documents.create_index("by n", by_n().unique()).unwrap();
            (10..60).for_each(|key| put(&documents, key, key as i64).unwrap());
            put(&documents, 2, 20_000).unwrap();
            if !is_new {
                put(&documents, 1, 10_000).unwrap();
            }
            let mut plan = vec![Fate::Answered; done];
            plan.push(fate);
            plan.resize(done + 500, Fate::Unavailable);
            mem.plan(&plan);
            let first = put(&collection(&mem).1, 1, 77);
            mem.plan(&[]);
            let second = put(&collection(&mem).1, 2, 77);
            if second.is_ok() && is_new {
                // What comes late must not take it for the same that there is no document again.
                put(&documents, 1, 900).unwrap();
                assert!(documents.remove(1).unwrap());
            }
            mem.deliver();
            let (one, two) = (n_of(&documents, 1) == Some(77), n_of(&documents, 2) == Some(77));
            let what = format!("{fate:?} after {done}: {first:?}, {second:?}");
            assert!(!(one && two), "both have it: {what}");
            match &second {
                Ok(()) => assert!(two, "{what}"),
                Err(error) => {
                    assert!(error.kind() == ErrorKind::Duplicate && one && !two, "{what}");
                }
            }
            assert!(first.is_err() || one, "{what}");
            // Whoever has it gives it to a third one.
            assert!(documents.remove(if one { 1 } else { 2 }).unwrap());
            put(&documents, 3, 77).unwrap();
            mem.deliver();
            refused(put(&documents, 1, 77), "has the value 77 of key 3");
            documents.verify_indexes().unwrap();
        }
    }
}

/// Whoever keeps a slow writer from its document does not undo what others write to it.
#[test]
fn a_value_is_taken_without_a_change_of_the_document_that_claimed_it() {
    let mut changed = 0;
    for (done, at) in (1..5).flat_map(|done| (0..5).map(move |at| (done, at))) {
        let mem = Arc::new(Mem::new());
        let ((_a, documents), (_b, other)) = (collection(&mem), collection(&mem));
        documents.create_index("by n", by_n().unique()).unwrap();
        (1..3).for_each(|key| put(&documents, key, 1000 + key as i64).unwrap());
        mem.plan(&[vec![Fate::Answered; done], vec![Fate::Unavailable; 500]].concat());
        let cut_short = put(&collection(&mem).1, 1, 77).is_err();
        mem.plan(&[]);
        let (before, handle) = (mem.batches(), other.clone());
        mem.before_batches(move |_, number| {
            if number == before + at {
                let to = |it: &mut DocumentMut| it.set("m", 7).map(drop);
                assert!(handle.update(1, to).unwrap());
            }
        });
        let taken = put(&documents, 2, 77).is_ok();
        let found = other.get(1).unwrap().unwrap();
        assert!(found.int("m") == Some(7) || mem.batches() <= before + at + 1, "{done}, {at}");
        assert_eq!(taken, cut_short, "{done}, {at}");
        changed += u32::from(found.int("m") == Some(7) && taken);
    }
    assert!(changed > 3, "{changed}");
}

/// A document without an entry, because the index is being built, takes none from another one.
#[test]
fn a_document_that_goes_during_a_build_leaves_the_entry_of_who_has_got_its_value() {
    let mem = Arc::new(Mem::new());
    let ((cluster, documents), (_b, other)) = (collection(&mem), collection(&mem));
    rebalance(&cluster, Layout::Hash(1)).unwrap();
    (0..400).for_each(|key| put(&documents, key, key as i64).unwrap());
    let mut is_given = false;
    let built = documents.create_index_with("by n", by_n().unique(), |_| {
        if !std::mem::replace(&mut is_given, true) {
            // The build is behind its place already.
            other.put(-1, Json(r#"{"n":380}"#)).unwrap();
            assert!(other.remove(380).unwrap());
        }
        ControlFlow::Continue(())
    });
    assert!(built.unwrap().is_continue() && is_given);
    assert_eq!(documents.verify_indexes().unwrap().entries, 400);
    refused(put(&documents, 7, 380), "has the value 380 of key -1");
}

/// What each of several threads knows of the documents that it alone writes, and who has which
/// value for certain.
struct Shared {
    holders: Mutex<BTreeMap<i64, u64>>,
    taken: AtomicU64,
    duplicates: AtomicU64,
}

const VALUES: u64 = 12;
const OWNED: u64 = 5;
/// The most ranges of keys.
const RANGES: u64 = 5;

struct Owner<'a> {
    documents: Collection,
    mem: &'a Arc<Mem>,
    clusters: Vec<Cluster>,
    shared: &'a Shared,
    rng: Rng,
    first: u64,
    /// The values that each document may have.
    known: BTreeMap<u64, BTreeSet<Option<i64>>>,
    /// The document that all threads of its process count in.
    counter: u64,
    /// How often this one has counted: for certain, and at most.
    counted: (i64, i64),
}

impl Owner<'_> {
    /// Puts several documents by one call.
    fn put_many(&mut self) {
        let first = self.rng.below(OWNED);
        let keys: Vec<u64> = (0..3).map(|at| self.first + (first + at) % OWNED).collect();
        let rows: Vec<(u64, i64)> =
            keys.iter().map(|key| (*key, self.rng.below(VALUES) as i64)).collect();
        self.shared.holders.lock().unwrap().retain(|_, holder| !keys.contains(holder));
        let remote = flagstone::internal::remote_of(&self.documents).unwrap();
        let written = remote.put_many(encoded(&rows));
        for (key, n) in rows {
            let may_be = self.known.entry(key).or_insert_with(|| BTreeSet::from([None]));
            match &written {
                Ok(()) => {
                    *may_be = BTreeSet::from([Some(n)]);
                    let other = self.shared.holders.lock().unwrap().insert(n, key);
                    assert_eq!(other, None, "value {n} of key {key}");
                }
                // Some of them may be put.
                Err(_) => drop(may_be.insert(Some(n))),
            }
        }
    }

    fn count(&mut self) {
        let counted = self.documents.update(self.counter, |it: &mut DocumentMut| {
            let m = it.int("m").unwrap();
            it.set("m", m + 1).map(drop)
        });
        let (certain, most) = &mut self.counted;
        match counted.map_err(|error| error.kind()) {
            Ok(is_there) => {
                assert!(is_there);
                *certain += 1;
                *most += 1;
            }
            Err(ErrorKind::Unknown) => *most += 1,
            Err(ErrorKind::Unavailable | ErrorKind::Conflict) => {}
            Err(kind) => panic!("{kind}"),
        }
    }

    fn step(&mut self) {
        match self.rng.below(6) {
            0 => return self.put_many(),
            1 | 2 => self.count(),
            _ => {}
        }
        let key = self.first + self.rng.below(OWNED);
        let may_be = self.known.entry(key).or_insert_with(|| BTreeSet::from([None])).clone();
        if self.rng.below(60) == 0 {
            let cluster = connect(self.mem);
            if let Ok(documents) = cluster.collection("c") {
                self.documents = documents;
                self.clusters.push(cluster);
            }
        }
        let n = self.rng.below(VALUES) as i64;
        let removes = self.rng.below(4) == 0;
        let new = (!removes).then_some(n);
        // From here on it may be given up at any time.
        self.shared.holders.lock().unwrap().retain(|_, holder| *holder != key);
        let written = match (removes, self.rng.below(2)) {
            (true, _) => self.documents.delete(key),
            (false, 0) => put(&self.documents, key, n),
            _ => {
                let patch = Patch::new().upsert().set("n", n);
                self.documents.patch_if(key, &patch).map(drop)
            }
        };
        let known = match written.as_ref().map_err(flagstone::Error::kind) {
            Ok(()) => BTreeSet::from([new]),
            Err(ErrorKind::Unknown) => may_be.iter().copied().chain([new]).collect(),
            Err(ErrorKind::Duplicate) => {
                self.shared.duplicates.fetch_add(1, Ordering::Relaxed);
                may_be
            }
            Err(ErrorKind::Unavailable | ErrorKind::Conflict) => may_be,
            Err(kind) => panic!("{kind}"),
        };
        if known.len() == 1
            && let Some(Some(n)) = known.first()
        {
            let other = self.shared.holders.lock().unwrap().insert(*n, key);
            assert_eq!(other, None, "value {n} of key {key}");
            self.shared.taken.fetch_add(1, Ordering::Relaxed);
        }
        self.known.insert(key, known);
    }
}

/// Divides a collection again and again, and counts how often.
fn divide(mem: &Arc<Mem>, seed: u64, is_over: &AtomicBool, divided: &AtomicU64) {
    let mut rng = Rng::new(seed ^ 77);
    while !is_over.load(Ordering::Relaxed) {
        let mut pages = 1 + rng.below(40);
        let layout = match rng.below(2) {
            0 => Layout::Hash(1 << rng.below(4)),
            _ => Layout::Ranges(1 + rng.below(RANGES) as u32),
        };
        let done = connect(mem).rebalance("c", layout, |_| {
            pages -= 1;
            if pages == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match done {
            Ok(done) => drop(divided.fetch_add(done.is_continue().into(), Ordering::Relaxed)),
            Err(error) if is_too_few(&error) => {}
            Err(error) => match error.kind() {
                ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::Conflict => {}
                ErrorKind::Busy => {}
                _ => panic!("{error}"),
            },
        }
    }
}

/// Threads of several processes that want the same few values, over a store with faults; the index
/// is created beside them. Meanwhile another process divides the collection, if it `is_divided`.
fn race(seed: u64, steps: u64, is_divided: bool) {
    let mem = Arc::new(Mem::with_faults(seed, Faults::default()));
    let (cluster, documents) = collection(&mem);
    let is_first = seed.is_multiple_of(2);
    if is_divided || !seed.is_multiple_of(3) {
        // The calls of a process often meet in one group.
        rebalance(&cluster, Layout::Hash(1)).unwrap();
    }
    if is_first {
        documents.create_index("by n", by_n().unique()).unwrap();
    }
    let shared = Shared {
        holders: Mutex::default(),
        taken: AtomicU64::new(0),
        duplicates: AtomicU64::new(0),
    };
    let processes = [collection(&mem), collection(&mem)];
    let counters = [2000, 2001];
    for counter in counters {
        documents.put(counter, Json(format!(r#"{{"n":{counter},"m":0}}"#))).unwrap();
    }
    let owners: Vec<Owner<'_>> = (0..6)
        .map(|thread| {
            let process = thread as usize % 2;
            let (documents, counter) = (processes[process].1.clone(), counters[process]);
            let (rng, first) = (Rng::new(seed ^ (thread << 32)), thread * 100);
            let (mem, shared, known, clusters) = (&mem, &shared, BTreeMap::new(), Vec::new());
            let counted = (0, 0);
            Owner { documents, mem, clusters, shared, rng, first, known, counter, counted }
        })
        .collect();
    if !is_first {
        // Nobody has a value twice, but no document has a claim.
        (0..4).for_each(|at| put(&documents, 1000 + at, 1000 + at as i64).unwrap());
        documents.create_index("by n", by_n().unique()).unwrap();
    }
    mem.set_faults(Faults::MANY);
    let (is_over, divided) = (AtomicBool::new(false), AtomicU64::new(0));
    let owners: Vec<Owner<'_>> = std::thread::scope(|scope| {
        let divides = is_divided.then(|| scope.spawn(|| divide(&mem, seed, &is_over, &divided)));
        let divided = &divided;
        let is_enough = move || !is_divided || divided.load(Ordering::Relaxed) >= 3;
        let threads: Vec<_> = owners
            .into_iter()
            .map(|mut owner| {
                scope.spawn(move || {
                    let mut done = 0;
                    while done < steps || done < 50 * steps && !is_enough() {
                        owner.step();
                        done += 1;
                    }
                    owner
                })
            })
            .collect();
        let owners: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        // It ends even if one of them has panicked.
        is_over.store(true, Ordering::Relaxed);
        divides.map_or(Ok(()), |divides| divides.join()).unwrap();
        assert!(is_enough(), "seed {seed}");
        owners.into_iter().map(|owner| owner.unwrap()).collect()
    });
    calm(&mem);
    if is_divided {
        // What was cut short is completed, or given up.
        let by_hash = (0..4).map(|power| Layout::Hash(1 << power));
        let mut all = by_hash.chain((1..=RANGES as u32).map(Layout::Ranges));
        assert!(all.any(|layout| rebalance(&cluster, layout).is_ok()), "seed {seed}");
        rebalance(&cluster, Layout::Hash(1 << (seed % 5))).unwrap();
    }
    for counter in counters {
        let own = || owners.iter().filter(|owner| owner.counter == counter);
        let (certain, most) =
            own().fold((0, 0), |sum, owner| (sum.0 + owner.counted.0, sum.1 + owner.counted.1));
        let m = documents.get(counter).unwrap().unwrap().int("m").unwrap();
        assert!(certain <= m && m <= most, "seed {seed}: {m} of {certain} to {most}");
        assert!(certain > 10, "seed {seed}: {certain}");
    }
    let mut holders: BTreeMap<i64, u64> = BTreeMap::new();
    for (key, may_be) in owners.iter().flat_map(|owner| &owner.known) {
        let n = n_of(&documents, *key);
        assert!(may_be.contains(&n), "seed {seed}, key {key}: {n:?}, not one of {may_be:?}");
        if let Some(n) = n {
            assert_eq!(holders.insert(n, *key), None, "seed {seed}: value {n} twice");
        }
    }
    assert!(shared.taken.load(Ordering::Relaxed) > 20, "seed {seed}");
    assert!(shared.duplicates.load(Ordering::Relaxed) > 20, "seed {seed}");
    let report = documents.verify_indexes().unwrap();
    assert_eq!((report.documents, report.entries), (documents.count().unwrap(), report.documents));
    // Each value is somebody's, or free.
    for n in 0..VALUES as i64 {
        let written = put(&documents, 5000 + n as u64, n);
        match holders.get(&n) {
            None => written.unwrap(),
            Some(holder) => refused(written, &format!("has the value {n} of key {holder}")),
        }
    }
    mem.deliver();
    assert_eq!(found(&documents, r#"{"n":{"$lt":12}}"#).len() as u64, VALUES);
    assert!(cluster.drop_collection("c").unwrap());
    let left: Vec<Partition> = mem.partitions();
    assert!(left.is_empty(), "seed {seed}: {left:?}");
}

#[test]
fn of_several_writers_of_one_value_exactly_one_wins() {
    let first = seed("of_several_writers_of_one_value_exactly_one_wins", 1);
    for round in 0..rounds(6, 200) {
        eprintln!("round {round}");
        race(first + round, 60, false);
    }
}

#[test]
fn of_several_writers_of_one_value_exactly_one_wins_while_the_collection_is_divided() {
    let name = "of_several_writers_of_one_value_exactly_one_wins_while_the_collection_is_divided";
    let first = seed(name, 1);
    for round in 0..rounds(6, 200) {
        eprintln!("round {round}");
        race(first + round, 60, true);
    }
}

/// The rows of documents and entries by their partitions.
fn stored(mem: &Mem, kind: Kind) -> Vec<(Partition, StoredRow)> {
    let is_claim = |row: &StoredRow| kind > Kind::DOCUMENTS && row.token.is_some();
    let rows = |at: Partition| mem.all_rows(at).into_iter().map(move |(of, row)| (at, of, row));
    let rows = mem.partitions().into_iter().flat_map(rows);
    let of_kind = rows.filter(|(_, of, row)| *of == kind && !is_claim(row));
    of_kind.map(|(at, _, row)| (at, row)).collect()
}

/// An entry of another document, and a value that two documents have, are found.
#[test]
fn a_verification_looks_whose_the_entries_are() {
    for (first, second) in [(0, 1), (1, 0)] {
        let mem = Arc::new(Mem::new());
        let (cluster, documents) = one_bucket(&mem);
        (0..30).for_each(|key| put(&documents, key, key as i64).unwrap());
        rebalance(&cluster, Layout::Hash(2)).unwrap();
        assert_eq!(documents.verify_indexes().unwrap().entries, 30);
        let (entries, rows) = (stored(&mem, Kind(1)), stored(&mem, Kind::DOCUMENTS));
        let in_bucket = |bucket| entries.iter().find(|(at, _)| at.bucket == bucket).unwrap();
        let ((at, one), (other_at, other)) = (in_bucket(first), in_bucket(second));
        let is_found = |said: &str| {
            let error = documents.verify_indexes().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        };
        set_row(&mem, *at, Kind(1), StoredRow { value: other.value.clone(), ..one.clone() });
        is_found("lacks an entry of the document of");
        set_row(&mem, *at, Kind(1), one.clone());
        assert_eq!(documents.verify_indexes().unwrap().entries, 30);
        // Behind its flags, the value of an entry is the key of its document.
        let document = |entry: &StoredRow| {
            let is_it = |(_, row): &&(Partition, StoredRow)| row.key[..] == entry.value[1..];
            rows.iter().find(is_it).unwrap().1.clone()
        };
        let (a, b) = (document(one), document(other));
        set_row(&mem, *other_at, Kind::DOCUMENTS, StoredRow { value: a.value, ..b });
        is_found(" an entry");
        let key = one.key.clone();
        set_row(&mem, *other_at, Kind(1), StoredRow { key, ..other.clone() });
        let removed = RowKey { kind: Kind(1), key: other.key.clone() };
        change(&mem, *other_at, Change::Delete(removed));
        is_found("has another entry with a value of the document of");
    }
}

/// Documents that get and give up values while the index is built, by a build that is tried again.
fn beside_a_build(seed: u64) {
    let mem = Arc::new(Mem::with_faults(seed, Faults::default()));
    let (_cluster, documents) = collection(&mem);
    (0..200).for_each(|key| put(&documents, key, key as i64).unwrap());
    let handles = [collection(&mem), collection(&mem)];
    mem.set_faults(Faults { unavailable: 2, ..Faults::MANY });
    let is_built = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (thread, (_, handle)) in (0_u64..).zip(&handles) {
            let (is_built, mut rng) = (&is_built, Rng::new(seed ^ (thread << 32)));
            scope.spawn(move || {
                while !is_built.load(Ordering::Relaxed) {
                    // Each thread swaps the values of its own half.
                    let key = 2 * rng.below(100) + thread;
                    let n = 2 * rng.below(100) + thread;
                    let written = match rng.below(3) {
                        0 => handle.delete(key),
                        _ => put(handle, key, n as i64),
                    };
                    if let Err(error) = written {
                        let known = [ErrorKind::Duplicate, ErrorKind::Unavailable];
                        let is_known = known.contains(&error.kind());
                        assert!(is_known || error.kind() == ErrorKind::Unknown, "{error}");
                    }
                }
            });
        }
        // Without the index there may be duplicates: then it is refused.
        let mut tries = 0;
        while tries < 20 {
            tries += 1;
            match documents.create_index("by n", by_n().unique()) {
                Ok(()) => break,
                Err(error) => assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::Duplicate | ErrorKind::Unavailable | ErrorKind::Unknown
                    ),
                    "{error}"
                ),
            }
        }
        is_built.store(true, Ordering::Relaxed);
    });
    calm(&mem);
    let all: Vec<i64> = (0..200).filter_map(|key| n_of(&documents, key)).collect();
    let distinct: BTreeSet<i64> = all.iter().copied().collect();
    let is_there = documents.indexes().iter().any(|index| index.is_ready);
    assert!(
        !is_there || distinct.len() == all.len(),
        "seed {seed}: {} of {}",
        distinct.len(),
        all.len()
    );
    documents.verify_indexes().unwrap();
    if !is_there {
        let _incomplete = documents.drop_index("by n").unwrap();
        for key in 0..200 {
            documents.delete(key).unwrap();
        }
        documents.create_index("by n", by_n().unique()).unwrap();
    }
    for n in 0..200 {
        let written = put(&documents, 9000 + n, n as i64);
        assert_eq!(
            written.is_err(),
            is_there && distinct.contains(&(n as i64)),
            "seed {seed}: {n}"
        );
    }
}

#[test]
fn an_index_that_is_built_beside_writers_has_no_value_twice() {
    let first = seed("an_index_that_is_built_beside_writers_has_no_value_twice", 1);
    for round in 0..rounds(4, 100) {
        eprintln!("round {round}");
        beside_a_build(first + round);
    }
}

/// At whichever step another process takes the value from a slow writer, one of both has it.
#[test]
fn a_slow_writer_does_not_write_a_value_that_was_taken() {
    for has_document in [false, true] {
        for at in 0..24 {
            let mem = Arc::new(Mem::new());
            let (_a, documents) = collection(&mem);
            documents.create_index("by n", by_n().unique()).unwrap();
            (1..3).for_each(|key| put(&documents, key, 1000 + key as i64).unwrap());
            if !has_document {
                assert!(documents.remove(1).unwrap());
            }
            let other = collection(&mem);
            let happens = Box::new(move || {
                let _refused = put(&other.1, 2, 77);
            });
            let slow = Meanwhile { left: AtomicU64::new(at), happens };
            let slow = Cluster::over(Hooked::over(Arc::clone(&mem) as _, slow)).unwrap();
            let slow = slow.collection("c").map(|documents| put(&documents, 1, 77)).unwrap();
            let have = [1, 2].map(|key| n_of(&documents, key) == Some(77));
            assert!(have[0] != have[1] || !have[0] && slow.is_err(), "{at}: {have:?}, {slow:?}");
            assert_eq!(slow.is_ok(), have[0], "{at}: {slow:?}");
            documents.verify_indexes().unwrap();
        }
    }
}

/// Others that claim the value that key 2 is to get, each before a batch of its claim.
struct Others {
    mem: Arc<Mem>,
    /// Their keys; the last one comes again and again if `is_endless`.
    keys: Mutex<VecDeque<u64>>,
    is_endless: bool,
    tokens: AtomicU64,
    reads: AtomicU64,
    /// Each that has claimed, and each whose document was changed, and how many readings there
    /// were before.
    seen: Mutex<Vec<(u64, &'static str, u64)>>,
}

impl Others {
    fn of(mem: &Arc<Mem>, keys: &[u64], is_endless: bool) -> Arc<Self> {
        let (keys, seen) = (Mutex::new(keys.iter().copied().collect()), Mutex::default());
        let (tokens, reads) = (AtomicU64::new(1), AtomicU64::new(0));
        Arc::new(Self { mem: Arc::clone(mem), keys, is_endless, tokens, reads, seen })
    }
}

impl Hooks for Arc<Others> {
    fn before_rows(&self) {
        self.reads.fetch_add(1, Ordering::SeqCst);
    }

    fn before_batch(&self, batch: &Batch) {
        let see = |key: u64, what: &'static str| {
            self.seen.lock().unwrap().push((key, what, self.reads.load(Ordering::SeqCst)));
        };
        for change in &batch.changes {
            let Change::Set { kind, row } = change else { continue };
            if *kind == Kind::DOCUMENTS {
                let all = [98, 99].into_iter();
                all.filter(|key| row.key[..] == stored_key(*key)).for_each(|key| see(key, "kept"));
                continue;
            }
            if row.token.is_none() || row.value[..] != stored_key(2) {
                continue;
            }
            let mut keys = self.keys.lock().unwrap();
            let Some(key) = keys.pop_front() else { continue };
            if self.is_endless {
                keys.push_front(key);
            }
            see(key, "claims");
            let number = self.tokens.fetch_add(1, Ordering::SeqCst);
            let token = Some(Token(number.to_be_bytes()));
            let row = StoredRow { value: stored_key(key).into(), token, ..row.clone() };
            set_row(&self.mem, batch.partition, *kind, row);
        }
    }
}

/// Sets a row, whatever is there.
fn set_row(mem: &Mem, partition: Partition, kind: Kind, row: StoredRow) {
    change(mem, partition, Change::Set { kind, row });
}

fn change(mem: &Mem, partition: Partition, change: Change) {
    let (keys, freshness) = (Vec::new(), Freshness::Serial);
    let read = mem.rows(&[RowsRequest { partition, keys, freshness }]).pop().unwrap().unwrap();
    let (conditions, changes) = (Vec::new(), vec![change]);
    let batch = Batch { partition, epoch: read.epoch.unwrap(), conditions, changes };
    assert_eq!(mem.batch(&batch).unwrap(), Outcome::Applied);
}

/// A collection of one bucket with the index.
fn one_bucket(mem: &Arc<Mem>) -> (Cluster, Collection) {
    let (cluster, documents) = collection(mem);
    rebalance(&cluster, Layout::Hash(1)).unwrap();
    documents.create_index("by n", by_n().unique()).unwrap();
    (cluster, documents)
}

#[test]
fn a_value_that_cannot_be_claimed_fails_only_its_own_write() {
    let mem = Arc::new(Mem::new());
    let (_a, documents) = one_bucket(&mem);
    put(&documents, 5, 50).unwrap();
    let all = || [1, 2, 3].map(|key| n_of(&documents, key));
    // Others claim it all the time.
    let others = Others::of(&mem, &[99], true);
    let cluster = Cluster::over(Hooked::over(Arc::clone(&mem) as _, others)).unwrap();
    let contested = cluster.collection("c").unwrap();
    let remote = flagstone::internal::remote_of(&contested).unwrap();
    let error = remote.put_many(encoded(&[(1, 1), (2, 77), (3, 3)])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("claimed by others"), "{error}");
    assert_eq!(all(), [Some(1), None, Some(3)]);
    // The document that has it cannot be read.
    let is_document =
        |(kind, row): &(Kind, StoredRow)| *kind == Kind::DOCUMENTS && row.key[..] == stored_key(5);
    let has_it = |at: &Partition| mem.all_rows(*at).iter().any(is_document);
    let at = mem.partitions().into_iter().find(has_it).unwrap();
    let (kind, row) = mem.all_rows(at).into_iter().find(is_document).unwrap();
    set_row(&mem, at, kind, StoredRow { value: Slice::copy_of(b"\x01junk"), ..row });
    let remote = flagstone::internal::remote_of(&documents).unwrap();
    let error = remote.put_many(encoded(&[(1, 4), (2, 50), (3, 5)])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("document of key 5"), "{error}");
    assert_eq!(all(), [Some(4), None, Some(5)]);
}

/// What a refusal rests on is looked at again: a document that was changed meanwhile has no
/// duplicate.
#[test]
fn a_document_that_was_changed_meanwhile_is_no_duplicate() {
    for at in 0..4 {
        let mem = Arc::new(Mem::new());
        let (_a, documents) = one_bucket(&mem);
        put(&documents, 5, 50).unwrap();
        documents.put(1, Json(r#"{"n":1,"m":50}"#)).unwrap();
        let handle = documents.clone();
        let to = |it: &mut DocumentMut| it.set("m", 60).map(drop);
        let happens = Box::new(move || assert!(handle.update(1, to).unwrap()));
        let slow = Meanwhile { left: AtomicU64::new(at), happens };
        let slow = Cluster::over(Hooked::over(Arc::clone(&mem) as _, slow)).unwrap();
        let copied = slow.collection("c").unwrap().update(1, |it: &mut DocumentMut| {
            let m = it.int("m").unwrap();
            it.set("n", m).map(drop)
        });
        assert!(copied.unwrap(), "{at}");
        assert_eq!(n_of(&documents, 1), Some(60), "{at}");
    }
}

/// A document that gives its value to another one after a build has read its page.
struct Given {
    documents: Collection,
    /// 1 when the catalog has the index, 2 when a page was read, 3 when it is given.
    state: AtomicU64,
    /// The document that gets it.
    to: u64,
}

impl Given {
    fn turns(&self, from: u64) -> bool {
        let turned =
            self.state.compare_exchange(from, from + 1, Ordering::SeqCst, Ordering::SeqCst);
        turned.is_ok()
    }
}

impl Hooks for Given {
    fn after_note(&self, _name: &str) -> Result<()> {
        self.turns(0);
        Ok(())
    }

    fn before_pages(&self) {
        self.turns(1);
    }

    fn before_rows(&self) {
        if self.turns(2) {
            put(&self.documents, 1, 100).unwrap();
            put(&self.documents, self.to, 1).unwrap();
        }
    }
}

#[test]
fn a_build_goes_on_when_a_value_is_given_to_another_document() {
    for to in [0, 7] {
        let mem = Arc::new(Mem::new());
        let (cluster, documents) = collection(&mem);
        rebalance(&cluster, Layout::Hash(1)).unwrap();
        put(&documents, 1, 1).unwrap();
        let given = Given { documents: documents.clone(), state: AtomicU64::new(0), to };
        let store = Hooked::over(Arc::clone(&mem) as _, given);
        let builder = Cluster::over(store).unwrap();
        builder.collection("c").unwrap().create_index("by n", by_n().unique()).unwrap();
        assert_eq!([1, to].map(|key| n_of(&documents, key)), [Some(100), Some(1)]);
        assert_eq!(documents.verify_indexes().unwrap().entries, 2);
        refused(put(&documents, 3, 1), &format!("has the value 1 of key {to}"));
    }
}

/// A document that is written all the time, before each call of another process.
struct Busy {
    documents: Collection,
    writes: Arc<AtomicU64>,
}

impl Busy {
    fn write(&self) {
        let m = self.writes.fetch_add(1, Ordering::SeqCst) as i64;
        let to = |it: &mut DocumentMut| it.set("m", m).map(drop);
        assert!(self.documents.update(1, to).unwrap());
    }
}

impl Hooks for Busy {
    fn before_rows(&self) {
        self.write();
    }

    fn before_batch(&self, _batch: &Batch) {
        self.write();
    }
}

#[test]
fn a_value_is_taken_from_a_document_that_others_write_all_the_time() {
    let mut stale = 0;
    for done in 0..5 {
        let mem = Arc::new(Mem::new());
        let (_a, documents) = one_bucket(&mem);
        (1..3).for_each(|key| put(&documents, key, 1000 + key as i64).unwrap());
        mem.plan(&[vec![Fate::Answered; done], vec![Fate::Unavailable; 500]].concat());
        let cut_short = put(&collection(&mem).1, 1, 77);
        mem.plan(&[]);
        if cut_short.is_ok() || n_of(&documents, 1) == Some(77) {
            continue;
        }
        stale += u32::from(claims(&mem) == 3);
        let writes = Arc::new(AtomicU64::new(0));
        let busy = Busy { documents: documents.clone(), writes: Arc::clone(&writes) };
        let cluster = Cluster::over(Hooked::over(Arc::clone(&mem) as _, busy)).unwrap();
        put(&cluster.collection("c").unwrap(), 2, 77).unwrap();
        assert_eq!((n_of(&documents, 1), n_of(&documents, 2)), (Some(1001), Some(77)), "{done}");
        let m = documents.get(1).unwrap().unwrap().int("m").unwrap();
        assert_eq!(m + 1, writes.load(Ordering::SeqCst) as i64, "{done}");
    }
    assert!(stale > 0);
}

#[test]
fn who_takes_a_value_first_is_looked_at_as_long_as_its_holder_was() {
    let mem = Arc::new(Mem::new());
    let (_a, documents) = one_bucket(&mem);
    let others = Others::of(&mem, &[98, 99], false);
    let hooked = Hooked::over(Arc::clone(&mem) as _, Arc::clone(&others));
    let cluster = Cluster::over(hooked).unwrap();
    put(&cluster.collection("c").unwrap(), 2, 77).unwrap();
    assert_eq!(n_of(&documents, 2), Some(77));
    let seen = others.seen.lock().unwrap().clone();
    let what: Vec<_> = seen.iter().map(|(key, what, _)| (*key, *what)).collect();
    assert_eq!(what, [(98, "claims"), (98, "kept"), (99, "claims"), (99, "kept")]);
    let waits = [seen[1].2 - seen[0].2, seen[3].2 - seen[2].2];
    assert!(waits[0] > 10 && waits[0] == waits[1], "{waits:?}");
}

/// Claims have the buckets that the documents have when the first unique index is created.
#[test]
fn claims_go_with_the_last_unique_index() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = one_bucket(&mem);
    documents.create_index("by m", Index::on("$.m").unique()).unwrap();
    (0..50).for_each(|key| {
        documents.put(key, Json(format!(r#"{{"n":{key},"m":{key}}}"#))).unwrap();
    });
    let buckets = || {
        let places = mem.partitions().into_iter();
        let claims = |(kind, row): &(Kind, StoredRow)| kind.0 > 0 && row.token.is_some();
        let with_claims = places.filter(|at| mem.all_rows(*at).iter().any(claims));
        with_claims.collect::<Vec<_>>()
    };
    let before = buckets();
    assert_eq!((before.len(), claims(&mem)), (1, 100));
    assert!(documents.drop_index("by n").unwrap());
    assert_eq!((buckets(), claims(&mem)), (before.clone(), 50));
    // One that a writer has left which did not know of the drop.
    let key = Slice::copy_of(b"left");
    let row =
        StoredRow { key, value: stored_key(1).into(), token: Some(Token([1; 8])), expiry: None };
    set_row(&mem, before[0], Kind(1), row);
    assert!(documents.drop_index("by m").unwrap());
    assert_eq!(claims(&mem), 0);
    rebalance(&cluster, Layout::Hash(4)).unwrap();
    documents.create_index("by n", by_n().unique()).unwrap();
    assert_eq!((buckets().len(), claims(&mem)), (4, 50));
    refused(put(&documents, 99, 7), "has the value 7 of key 7");
}

/// The same in Cassandra, without faults but those of the races.
#[cfg(feature = "cql")]
#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn of_several_writers_of_one_value_exactly_one_wins_in_cassandra() {
    const COUNT: i64 = 30;
    let store = || crate::nodes::connect(crate::nodes::one(), 1, crate::nodes::PATIENCE);
    let clusters: [Cluster; 4] = std::array::from_fn(|_| Cluster::over(store()).unwrap());
    let documents = clusters[0].collection("unique").unwrap();
    documents.create_index("by n", by_n().unique()).unwrap();
    let tries = |first: u64, others: &[u64]| {
        let mut wins = vec![0; COUNT as usize];
        let won: Vec<Vec<i64>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0_u64..)
                .zip(&clusters)
                .filter(|(at, _)| !others.contains(at))
                .map(|(at, cluster)| {
                    scope.spawn(move || {
                        let documents = cluster.collection("unique").unwrap();
                        let put = |n: &i64| match put(&documents, first + 100 * at + *n as u64, *n)
                        {
                            Ok(()) => true,
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Duplicate, "{error}");
                                false
                            }
                        };
                        (0..COUNT).filter(put).collect()
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        won.into_iter().flatten().for_each(|n| wins[n as usize] += 1);
        wins
    };
    assert_eq!(tries(0, &[]), [1; COUNT as usize]);
    assert_eq!(tries(1000, &[]), [0; COUNT as usize]);
    documents.delete_many(r#"{"n":{"$lt":10}}"#).run().unwrap();
    assert_eq!(tries(2000, &[0, 1]).iter().sum::<i32>(), 10);
    // The same while the collection is divided and documents take values from each other.
    let keys: Vec<u64> = keys_of(&documents.find("{}"));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            let documents = clusters[1].collection("unique").unwrap();
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                for pair in keys.chunks_exact(2) {
                    let [a, b] = [pair[0], pair[1]].map(|key| n_of(&documents, key).unwrap());
                    put(&documents, pair[0], 1000 + a).unwrap();
                    put(&documents, pair[1], a).unwrap();
                    put(&documents, pair[0], b).unwrap();
                    count += 1;
                }
            }
            count
        });
        for buckets in [4, 32, 2] {
            let watch = |_| ControlFlow::Continue(());
            assert!(
                clusters[0]
                    .rebalance("unique", Layout::Hash(buckets), watch)
                    .unwrap()
                    .is_continue()
            );
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(swaps.join().unwrap() >= keys.len() / 2, "each pair once, at least");
    });
    assert_eq!(tries(3000, &[]), [0; COUNT as usize]);
    let report = documents.verify_indexes().unwrap();
    assert_eq!((report.documents, report.entries), (COUNT as u64, COUNT as u64));
}
