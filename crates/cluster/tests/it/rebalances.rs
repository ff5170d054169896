//! Collections that get another layout while they are read and written.

use crate::support::{
    Hooked, Hooks, Meanwhile, by_n, calm, collection, connect, fill, found, keys_of, n_of,
    rebalance, stored_key,
};
use flagstone::query::Hint;
use flagstone::remote::{Area, ScanOrder};
use flagstone::{Collection, DocumentMut, Error, ErrorKind, Index, Json, Space, internal};
use flagstone_base::KeyRange;
use flagstone_cluster::Cluster;
use flagstone_cluster::Layout::{self, Hash, Ranges};
use flagstone_cluster::mem::{Fate, Faults, Mem};
use flagstone_cluster::store::{Batch, Change, Kind, Partition};
use flagstone_testkit::{Rng, rounds, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The generation of the buckets that have rows of documents, and how many those are.
fn generations(mem: &Mem) -> BTreeMap<i32, usize> {
    let mut generations = BTreeMap::new();
    for Partition { generation, bucket } in mem.partitions() {
        let rows = mem.all_rows(Partition { generation, bucket });
        if rows.iter().any(|(kind, _)| *kind == Kind::DOCUMENTS) {
            *generations.entry(generation).or_default() += 1;
        }
    }
    generations
}

const fn count_of(layout: Layout) -> usize {
    match layout {
        Hash(buckets) | Ranges(buckets) => buckets as usize,
    }
}

fn tags(key: u64) -> Json<String> {
    Json(format!(r#"{{"n":{key},"tags":["a{}","b"]}}"#, key % 7))
}

#[test]
fn all_processes_go_on_with_another_layout() {
    let mem = Arc::new(Mem::new());
    let ((a, documents), (_b, other)) = (collection(&mem), collection(&mem));
    (0..700).for_each(|key| documents.put(key, tags(key)).unwrap());
    documents.create_index("by n", by_n()).unwrap();
    documents.create_index("by tags", Index::on("$.tags")).unwrap();
    let mark = (b"load".to_vec(), Some(b"7".to_vec()));
    internal::remote_of(&documents).unwrap().put_marks(vec![mark]).unwrap();
    let page = documents.find("{}").sort("-n").page(300).unwrap();
    let mut count = 700;
    for layout in [
        Hash(64),
        Ranges(5),
        Hash(4),
        Hash(4),
        Ranges(64),
        Ranges(7),
        Ranges(7),
        Hash(1),
        Ranges(1),
        Hash(32),
    ] {
        let mut seen = Vec::new();
        let watch = |copied| {
            seen.push(copied);
            ControlFlow::Continue(())
        };
        assert!(a.rebalance("c", layout, watch).unwrap().is_continue());
        assert!(seen.is_sorted());
        assert_eq!(generations(&mem).into_values().collect::<Vec<_>>(), [count_of(layout)]);
        for documents in [&other, &documents, &collection(&mem).1] {
            documents.put(count, tags(count)).unwrap();
            assert!(documents.update(count, |it: &mut DocumentMut| it.inc("m", 1)).unwrap());
            assert!(documents.remove(count - 1).unwrap());
            documents.put(count - 1, tags(count - 1)).unwrap();
            count += 1;
            assert_eq!(documents.count().unwrap(), count);
            assert_eq!(found(documents, r#"{"n":{"$gte":0}}"#).len() as u64, count);
            let report = documents.verify_indexes().unwrap();
            assert_eq!((report.documents, report.entries), (count, 3 * count));
            let remote = internal::remote_of(documents).unwrap();
            assert_eq!(remote.mark(b"load").unwrap().as_deref(), Some(&b"7"[..]));
        }
    }
    let rest = documents.find("{}").sort("-n").after(&page.next.unwrap()).page(999).unwrap();
    assert_eq!((rest.documents.len(), rest.next.is_none()), (400, true));
    let rows = mem.partitions().into_iter().flat_map(|place| mem.all_rows(place));
    assert!(rows.into_iter().all(|(kind, _)| kind.0 > -5), "nothing is noted any more");
}

#[test]
fn what_cannot_be_is_refused() {
    let mem = Arc::new(Mem::new());
    let (cluster, _documents) = collection(&mem);
    let power = "a collection cannot have {} buckets: expected a power of two up to 4096";
    let any = "a collection cannot have {} ranges of keys: expected 1 to 4096";
    let few = "collection \"c\" cannot be divided into {} ranges of keys: 0 keys that differ in \
               their first 256 bytes were found. Ask for fewer ranges";
    for (layout, text) in [
        (Hash(0), power),
        (Hash(3), power),
        (Hash(1 << 13), power),
        (Ranges(0), any),
        (Ranges(4097), any),
        (Ranges(2), few),
    ] {
        let refused = rebalance(&cluster, layout).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert_eq!(refused.to_string(), text.replace("{}", &count_of(layout).to_string()));
    }
    let refused = cluster.rebalance("d", Hash(16), |_| ControlFlow::Continue(())).unwrap_err();
    assert!(refused.to_string().contains("there is no collection \"d\""), "{refused}");
    assert_eq!(cluster.collections().unwrap(), ["c"]);
}

/// Returns a collection of this layout, with the documents `0..count`.
fn laid_out(mem: &Arc<Mem>, layout: Layout, count: u64) -> (Cluster, Collection) {
    let (cluster, documents) = collection(mem);
    fill(&documents, count);
    rebalance(&cluster, layout).unwrap();
    (cluster, documents)
}

/// From each kind of layout into each.
const MOVES: [(Layout, Layout); 5] = [
    (Hash(2), Hash(4)),
    (Hash(4), Hash(1)),
    (Hash(2), Ranges(3)),
    (Ranges(3), Hash(2)),
    (Ranges(3), Ranges(5)),
];

/// Whichever changes fail, one of both layouts is whole, and the next call completes or gives up.
#[test]
fn a_rebalance_that_was_cut_short_leaves_the_old_or_the_new_one() {
    for (from, to) in MOVES {
        let (mut ends, mut complete) = (BTreeSet::new(), 0);
        for done in 0.. {
            let mem = Arc::new(Mem::new());
            let (cluster, documents) = laid_out(&mem, from, 30);
            documents.create_index("by n", by_n()).unwrap();
            let indexes = 1 + done as u64 % 2;
            if indexes == 2 {
                documents.create_index("unique", by_n().unique()).unwrap();
            }
            let mut plan = vec![Fate::Answered; done];
            plan.resize(done + 100, Fate::Unavailable);
            mem.plan(&plan);
            let failed = rebalance(&cluster, to);
            mem.plan(&[]);
            let (other, there) = collection(&mem);
            assert_eq!((there.count().unwrap(), n_of(&there, 7)), (30, Some(7)));
            for handle in [&documents, &there] {
                assert!(handle.update(3, |it: &mut DocumentMut| it.inc("n", 100)).unwrap());
                assert!(handle.remove(5).unwrap());
                handle.put(5, Json(r#"{"n":-5}"#)).unwrap();
            }
            assert!(there.remove(4).unwrap());
            // By the layout that it has it is given up, by another one it begins anew.
            let next = [to, from, Hash(8)][done % 3];
            if let Err(busy) = rebalance(&other, next) {
                let text = busy.to_string();
                assert!(next == Hash(8) && busy.kind() == ErrorKind::Busy, "{text}");
                assert!(text.contains(&format!("divided into {to}: divide it again")), "{text}");
                rebalance(&other, from).unwrap();
                rebalance(&other, next).unwrap();
            }
            assert_eq!((there.count().unwrap(), documents.count().unwrap()), (29, 29));
            assert_eq!((n_of(&documents, 3), n_of(&there, 5)), (Some(203), Some(-5)));
            assert_eq!(documents.verify_indexes().unwrap().entries, indexes * 29);
            assert_eq!(generations(&mem).len(), 1, "{from} to {to}, cut after {done}");
            ends.insert(generations(&mem).into_values().next());
            // What fails behind the switch is only the removal of the old rows.
            complete += usize::from(failed.is_ok());
            if complete > 10 {
                break;
            }
        }
        assert!(ends.len() > 1);
    }
}

/// The same, when the answers are lost although the changes are made.
#[test]
fn a_rebalance_goes_on_without_answers() {
    for ((from, to), at) in MOVES.into_iter().flat_map(|of| (0..60).map(move |at| (of, at))) {
        let mem = Arc::new(Mem::new());
        let (cluster, documents) = laid_out(&mem, from, 30);
        documents.create_index("by n", by_n()).unwrap();
        let indexes = 1 + at as u64 % 2;
        if indexes == 2 {
            documents.create_index("unique", by_n().unique()).unwrap();
        }
        let mut plan = vec![Fate::Answered; at];
        plan.extend([[Fate::Unanswered, Fate::Late, Fate::Unfinished][at % 3]; 3]);
        mem.plan(&plan);
        let _done = rebalance(&cluster, to);
        mem.plan(&[]);
        assert!(documents.remove(4).unwrap());
        mem.deliver();
        rebalance(&cluster, to).unwrap();
        mem.deliver();
        assert_eq!((documents.count().unwrap(), n_of(&documents, 4)), (29, None));
        assert_eq!(documents.verify_indexes().unwrap().entries, indexes * 29);
    }
}

#[test]
fn a_process_that_copies_slowly_spoils_no_complete_copy() {
    copy_slowly((0..32).map(|done| (Hash(2), Hash(1), done)));
}

#[test]
fn a_process_that_copies_slowly_spoils_no_complete_copy_of_ranges() {
    let moves = [(Hash(2), Ranges(2)), (Ranges(2), Hash(1))].into_iter();
    copy_slowly(moves.flat_map(|(from, to)| (0..40).step_by(9).map(move |done| (from, to, done))));
}

/// The rows that it read last may be removed already because the copy is complete: they are not
/// removed from the copy, too.
fn copy_slowly(moves: impl Iterator<Item = (Layout, Layout, usize)>) {
    for ((from, to, done), removes) in moves.flat_map(|one| [(one, true), (one, false)]) {
        for at in 0.. {
            let mem = Arc::new(Mem::new());
            let (cluster, documents) = laid_out(&mem, from, 6);
            let index = if done % 4 == 0 { by_n().unique() } else { by_n() };
            documents.create_index("by n", index).unwrap();
            begun(&cluster, to);
            documents.put(3, Json(r#"{"n":33}"#)).unwrap();
            if removes {
                assert!(documents.remove(4).unwrap());
            }
            mem.plan(&[vec![Fate::Answered; done], vec![Fate::Unavailable; 100]].concat());
            let cut_short = rebalance(&cluster, to).is_err();
            mem.plan(&[]);
            let has_happened = Arc::new(AtomicBool::new(false));
            let happens = {
                let ((cluster, documents), happened) =
                    (collection(&mem), Arc::clone(&has_happened));
                Box::new(move || {
                    happened.store(true, Ordering::SeqCst);
                    rebalance(&cluster, to).unwrap();
                    if removes {
                        documents.put(7, Json(r#"{"n":7}"#)).unwrap();
                        assert!(documents.remove(2).unwrap());
                    }
                })
            };
            let slow = Meanwhile { left: AtomicU64::new(at), happens };
            let slow = Cluster::over(Hooked::over(Arc::clone(&mem) as _, slow)).unwrap();
            let [before, after] = [(); 2].map(|()| {
                let _given_up = rebalance(&slow, to);
                found(&documents, "{}")
            });
            let count = if removes { 5 } else { 6 };
            assert_eq!(documents.count().unwrap(), count, "{done} {at}: {before:?}");
            assert_eq!(before, after, "{done} {at}");
            let happened = has_happened.load(Ordering::SeqCst);
            match (removes, happened) {
                (true, true) => assert_eq!(before, [0, 1, 3, 5, 7]),
                (true, false) => assert_eq!(before, [0, 1, 2, 3, 5]),
                (false, _) => assert_eq!(before, [0, 1, 2, 3, 4, 5]),
            }
            assert_eq!(n_of(&documents, 3), Some(33));
            assert_eq!(documents.verify_indexes().unwrap().entries, count);
            if !happened || !cut_short {
                break;
            }
        }
    }
}

/// A copy that was sent by a process that ended, and comes when its document is removed.
#[test]
fn a_late_copy_does_not_bring_a_document_back() {
    for (from, to) in [(Hash(1), Hash(2)), (Hash(1), Ranges(1)), (Ranges(1), Hash(2))] {
        let mut came = 0;
        for done in 0..40 {
            let mem = Arc::new(Mem::new());
            let (cluster, documents) = laid_out(&mem, from, 1);
            begun_late(&mem, &cluster, to);
            assert!(documents.remove(0).unwrap());
            mem.plan(&[vec![Fate::Answered; done], vec![Fate::Unavailable; 100]].concat());
            came += u32::from(rebalance(&connect(&mem), to).is_ok());
            mem.plan(&[]);
            mem.deliver();
            for turn in 0..2 {
                assert_eq!(documents.count().unwrap(), 0, "cut after {done}, {turn}");
                rebalance(&connect(&mem), to).unwrap();
            }
        }
        assert!(came > 0);
    }
}

/// Begins a rebalance, whose first copy comes late, and of which nothing is answered then.
fn begun_late(mem: &Mem, cluster: &Cluster, to: Layout) {
    let before = mem.batches();
    mem.before_batches(move |mem, number| {
        if number == before {
            mem.plan(&[vec![Fate::Late], vec![Fate::Unavailable; 100]].concat());
        }
    });
    rebalance(cluster, to).unwrap_err();
    mem.plan(&[]);
}

/// A rebalance that stops behind the first pages.
fn begun(cluster: &Cluster, to: Layout) {
    let stopped = cluster.rebalance("c", to, |copied| {
        // Before, it reads keys to choose ranges.
        if copied > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(stopped.unwrap().is_break());
}

/// How a move from 16 buckets to 64 ends.
const fn ends(to: Layout) -> &'static str {
    match to {
        Hash(_) => "with --buckets 64 completes it, and with --buckets 16 gives it up",
        Ranges(_) => "with --buckets 64 --ranges completes it, and with --buckets 16 gives it up",
    }
}

/// It began again, and the other one did, too.
#[test]
fn a_call_whose_move_was_given_up_ends() {
    for (at, to) in [(1, Hash(64)), (2, Hash(64)), (1, Ranges(64)), (9, Ranges(64))] {
        let mem = Arc::new(Mem::new());
        let ((a, documents), (b, _)) = (collection(&mem), collection(&mem));
        fill(&documents, 1_000);
        let mut pages = 0;
        let ended = a.rebalance("c", to, |copied| {
            pages += u32::from(copied > 0);
            if pages == at {
                let busy = rebalance(&b, Hash(32)).unwrap_err();
                assert_eq!(busy.kind(), ErrorKind::Busy);
                assert!(busy.to_string().contains(ends(to)), "{busy}");
                rebalance(&b, Hash(16)).unwrap();
            }
            ControlFlow::Continue(())
        });
        let ended = ended.unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::Conflict);
        assert!(ended.to_string().contains("given up to divide collection \"c\" into 64"));
        assert_eq!(generations(&mem).into_values().collect::<Vec<_>>(), [16]);
        assert_eq!(documents.count().unwrap(), 1_000);
        rebalance(&a, to).unwrap();
        assert_eq!((documents.count().unwrap(), generations(&mem).len()), (1_000, 1));
    }
}

/// Counts the rows that are deleted one by one.
#[derive(Clone, Default)]
struct Deletes(Arc<AtomicU64>);

impl Hooks for Deletes {
    fn before_batch(&self, batch: &Batch) {
        let is_delete = |change: &&Change| matches!(change, Change::Delete(_));
        let count = batch.changes.iter().filter(is_delete).count();
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Each row that is deleted alone leaves a tombstone: Cassandra reads no more than 100,000 of them.
#[test]
fn what_writers_note_is_not_deleted_row_by_row() {
    for to in [Hash(4), Ranges(4)] {
        let mem = Arc::new(Mem::new());
        let (_a, documents) = collection(&mem);
        fill(&documents, 2_000);
        let deletes = Deletes::default();
        let cluster = Hooked::over(Arc::clone(&mem) as _, deletes.clone());
        let cluster = Cluster::over(cluster).unwrap();
        let mut turns = 0;
        let watch = |copied| {
            turns += u32::from(copied > 0);
            if turns == 1 {
                (0..2_000).for_each(|key| documents.put(key, Json(r#"{"n":-1}"#)).unwrap());
            }
            ControlFlow::Continue(())
        };
        assert!(cluster.rebalance("c", to, watch).unwrap().is_continue());
        assert_eq!(found(&documents, r#"{"n":-1}"#).len(), 2_000);
        assert_eq!(deletes.0.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn indexes_are_not_changed_meanwhile() {
    [Hash(64), Ranges(64)].into_iter().for_each(change_indexes_meanwhile);
}

fn change_indexes_meanwhile(to: Layout) {
    let mem = Arc::new(Mem::new());
    let ((cluster, documents), (_b, other)) = (collection(&mem), collection(&mem));
    fill(&documents, 100);
    documents.create_index("by n", by_n()).unwrap();
    begun(&cluster, to);
    for documents in [&documents, &other] {
        let busy = documents.create_index("by m", Index::on("$.m")).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy);
        assert!(busy.to_string().contains(ends(to)), "{busy}");
        assert_eq!(documents.drop_index("by n").unwrap_err().kind(), ErrorKind::Busy);
        documents.create_index("by n", by_n()).unwrap();
        fill(documents, 120);
    }
    rebalance(&cluster, Hash(16)).unwrap();
    let rows = mem.partitions().into_iter().flat_map(|place| mem.all_rows(place));
    assert!(rows.into_iter().all(|(kind, _)| kind.0 > -5), "nothing is noted any more");
    documents.create_index("by m", Index::on("$.m")).unwrap();
    assert_eq!(other.verify_indexes().unwrap().entries, 240);
    rebalance(&cluster, to).unwrap();
    assert_eq!(other.verify_indexes().unwrap().entries, 240);
    // The copies of a build that goes on would lack entries.
    mem.plan(&[vec![Fate::Answered; 20], vec![Fate::Unavailable; 60]].concat());
    documents.create_index("by x", Index::on("$.x")).unwrap_err();
    mem.plan(&[]);
    let busy = rebalance(&cluster, Hash(8)).unwrap_err();
    assert!(busy.kind() == ErrorKind::Busy && busy.to_string().contains("\"by x\""), "{busy}");
    assert!(documents.drop_index("by x").unwrap());
    rebalance(&cluster, Hash(8)).unwrap();
    assert_eq!(other.verify_indexes().unwrap().entries, 240);
}

#[test]
fn marks_of_loads_that_are_set_meanwhile_are_kept() {
    let mem = Arc::new(Mem::new());
    let (cluster, documents) = collection(&mem);
    let remote = internal::remote_of(&documents).unwrap();
    let mark = |key: &[u8], value: Option<&[u8]>| (key.to_vec(), value.map(<[u8]>::to_vec));
    remote.put_marks(vec![mark(b"a", Some(b"1")), mark(b"b", Some(b"1"))]).unwrap();
    // Some of them are between the documents.
    fill(&documents, 300);
    let between = mark(&stored_key(170), Some(b"m"));
    remote.put_marks(vec![between.clone()]).unwrap();
    for to in [Hash(4), Ranges(4), Ranges(9), Hash(8)] {
        let mut turns = 0;
        let watch = |_| {
            turns += 1;
            let even = (turns % 2 == 0).then_some(&b"2"[..]);
            remote.put_marks(vec![mark(b"a", Some(&[turns])), mark(b"b", even)]).unwrap();
            ControlFlow::Continue(())
        };
        assert!(cluster.rebalance("c", to, watch).unwrap().is_continue());
        assert_eq!(remote.mark(b"a").unwrap().as_deref(), Some(&[turns][..]));
        assert_eq!(remote.mark(b"b").unwrap().is_some(), turns % 2 == 0);
        assert_eq!(remote.mark(&between.0).unwrap().as_deref(), Some(&b"m"[..]));
    }
    remote.end_loads().unwrap();
    assert_eq!(remote.mark(&between.0).unwrap(), None);
}

#[test]
fn a_collection_that_is_moved_can_be_cleared_and_dropped() {
    for (to, then) in [(Hash(64), Hash(4)), (Ranges(4), Hash(4)), (Ranges(4), Ranges(9))] {
        let mem = Arc::new(Mem::new());
        let ((cluster, documents), (other, there)) = (collection(&mem), collection(&mem));
        fill(&documents, 100);
        begun(&cluster, to);
        there.clear().unwrap();
        fill(&there, 5);
        rebalance(&cluster, to).unwrap();
        assert_eq!((documents.count().unwrap(), generations(&mem).len()), (5, 1));
        fill(&documents, 50);
        begun(&cluster, then);
        assert_eq!(generations(&mem).len(), 2);
        assert!(other.drop_collection("c").unwrap());
        assert!(mem.partitions().is_empty());
        assert_eq!(rebalance(&cluster, then).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

/// A clear that drew its number before a rebalance is none of those that are complete.
#[test]
fn a_clear_and_a_rebalance_of_two_processes_are_both_done() {
    for (done, to) in (0..40).flat_map(|done| [(done, Hash(2)), (done, Ranges(2))]) {
        let mem = Arc::new(Mem::new());
        let ((cluster, documents), (other, there)) = (collection(&mem), collection(&mem));
        fill(&documents, 20);
        let fates = [vec![Fate::Answered; done], vec![Fate::Unavailable; 100]].concat();
        mem.plan(&fates);
        let _cut_short = rebalance(&cluster, to);
        mem.plan(&[]);
        there.clear().unwrap();
        assert_eq!(documents.count().unwrap(), 0, "{done}");
        fill(&documents, 20);
        mem.plan(&fates);
        let _cut_short = documents.clear();
        mem.plan(&[]);
        rebalance(&other, Hash(32)).unwrap();
        assert!([0, 20].contains(&there.count().unwrap()));
        documents.put(1, Json(r#"{"n":1}"#)).unwrap();
        documents.clear().unwrap();
        assert_eq!((there.count().unwrap(), generations(&mem).len()), (0, 0));
    }
}

/// Something that happens when this process has set a note for the first time.
struct Behind {
    name: &'static str,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    is_answered: bool,
}

impl Hooks for Behind {
    fn after_note(&self, name: &str) -> flagstone::Result<()> {
        let Some(happens) = self.happens.lock().unwrap().take_if(|_| name == self.name) else {
            return Ok(());
        };
        happens();
        if self.is_answered { Ok(()) } else { Err(Error::new(ErrorKind::Unknown, "no answer")) }
    }
}

/// Connects as a process in which `happens` behind its first change of a note.
fn behind(
    mem: &Arc<Mem>,
    (name, is_answered): (&'static str, bool),
    happens: impl FnOnce(&Cluster) + Send + 'static,
) -> Cluster {
    let other = connect(mem);
    let happens = Mutex::new(Some(Box::new(move || happens(&other)) as _));
    Cluster::over(Hooked::over(Arc::clone(mem) as _, Behind { name, happens, is_answered }))
        .unwrap()
}

/// The rebalance has the greater number: the clear took itself for done.
#[test]
fn a_clear_that_has_its_number_is_done_after_a_rebalance() {
    let mem = Arc::new(Mem::new());
    let (_a, documents) = collection(&mem);
    fill(&documents, 20);
    let numbers = ("\u{1}numbers", true);
    let clears = behind(&mem, numbers, |other| rebalance(other, Hash(4)).unwrap());
    clears.collection("c").unwrap().clear().unwrap();
    assert_eq!(documents.count().unwrap(), 0);
    fill(&documents, 3);
    assert_eq!(documents.count().unwrap(), 3);
}

/// Its number was used again, whose buckets had fences.
#[test]
fn a_rebalance_that_was_given_up_before_it_was_answered_is_begun_with_another_number() {
    let mem = Arc::new(Mem::new());
    let (_a, documents) = collection(&mem);
    fill(&documents, 20);
    let begins = behind(&mem, ("c", false), |other| rebalance(other, Hash(16)).unwrap());
    rebalance(&begins, Hash(4)).unwrap();
    assert_eq!((documents.count().unwrap(), generations(&mem).into_values().next()), (20, Some(4)));
}

fn scanned(scan: &mut flagstone::Scan<'_, Collection>, most: usize) -> Vec<u64> {
    let row = |row: flagstone::Result<(flagstone::Value, _)>| row.unwrap().0.as_i64().unwrap();
    scan.take(most).map(|one| row(one) as u64).collect()
}

#[test]
fn scans_go_on_in_other_buckets_behind_what_they_have_read() {
    let mem = Arc::new(Mem::new());
    let ((cluster, documents), (_b, there)) = (collection(&mem), collection(&mem));
    (0..2500).for_each(|key| documents.put(key, tags(key)).unwrap());
    documents.create_index("by n", by_n()).unwrap();
    documents.create_index("by -n", Index::on("-$.n")).unwrap();
    let (all, some): (Vec<u64>, Vec<u64>) = ((0..2500).collect(), (300..2200).collect());
    for layouts in [
        [Hash(64), Hash(16)],
        [Hash(2), Hash(16)],
        [Hash(256), Hash(8)],
        [Hash(4), Hash(128)],
        [Hash(1), Hash(2)],
        [Ranges(9), Hash(16)],
        [Ranges(40), Ranges(7)],
        [Hash(8), Ranges(64)],
        [Ranges(3), Ranges(300)],
        [Hash(64), Hash(4)],
        [Ranges(30), Ranges(31)],
        [Hash(2), Ranges(2)],
    ] {
        let scan = || there.scan(..);
        let part = || there.scan(300..2200);
        let mut scans =
            [scan(), scan().rev(), scan().unordered(), part(), part().rev(), part().unordered()];
        let find = there.find(r#"{"n":{"$gte":0}}"#).sort("-n").hint(Hint::index("by n"));
        let (mut cursor, mut by_index) = (find.run().unwrap(), Vec::new());
        let remote = internal::remote_of(&there).unwrap();
        let entries = Area::Index(remote.catalog().indexes()[1].id);
        let any = remote.scan(entries, &KeyRange::ALL, ScanOrder::Any, None);
        let (mut any, mut entries) = (any.unwrap(), Vec::new());
        let mut keys: [Vec<u64>; 6] = Default::default();
        for (turn, most) in [130, 900, usize::MAX].into_iter().enumerate() {
            for (scan, keys) in scans.iter_mut().zip(&mut keys) {
                keys.extend(scanned(scan, most));
            }
            while by_index.len() < most && cursor.advance().unwrap() {
                by_index.push(cursor.key().unwrap().as_i64().unwrap() as u64);
            }
            while entries.len() < most && any.advance().unwrap() {
                entries.push(any.key().to_vec());
            }
            if let Some(layout) = layouts.get(turn) {
                rebalance(&cluster, *layout).unwrap();
            }
        }
        for (at, keys) in keys.iter_mut().enumerate() {
            let wanted = if at < 3 { &all } else { &some };
            assert_eq!(keys.len(), wanted.len(), "{layouts:?}, scan {at}: each once");
            match at % 3 {
                0 => {}
                1 => keys.reverse(),
                _ => keys.sort_unstable(),
            }
            assert!(keys == wanted, "{layouts:?}, scan {at}");
        }
        by_index.reverse();
        assert!(by_index == all, "{layouts:?}");
        assert_eq!(entries.len(), all.len(), "{layouts:?}: each once");
        entries.sort_unstable();
        entries.dedup();
        assert_eq!(entries.len(), all.len(), "{layouts:?}");
    }
}

/// Counts and finds of several threads while another one changes the layout.
#[test]
fn readers_see_all_documents_at_any_time() {
    let mem = Arc::new(Mem::with_faults(1, Faults { pauses: 300, ..Faults::default() }));
    let ((cluster, documents), (_b, there)) = (collection(&mem), collection(&mem));
    fill(&documents, 600);
    documents.create_index("by n", by_n()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for documents in [&documents, &there] {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(documents.count().unwrap(), 600);
                    let find = documents.find(r#"{"n":{"$lt":500}}"#).hint(Hint::index("by n"));
                    assert_eq!(find.count().unwrap(), 500);
                    assert_eq!(keys_of(&find.sort("n").skip(90).limit(3)), [90, 91, 92]);
                    let by_key = documents.find("{}").sort("-$key").skip(90).limit(3);
                    assert_eq!(keys_of(&by_key), [509, 508, 507]);
                    assert_eq!(n_of(documents, 77), Some(77));
                }
            });
        }
        for layout in [
            Hash(64),
            Ranges(3),
            Hash(32),
            Ranges(20),
            Ranges(8),
            Hash(4),
            Hash(16),
            Ranges(1),
            Hash(8),
        ] {
            rebalance(&cluster, layout).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// The documents that each writer puts and removes, and counters that all increment.
const OWNED: u64 = 60;
const COUNTERS: u64 = 3;
/// The most ranges into which they are divided.
const RANGES: u64 = 9;

#[derive(Default)]
struct Counter {
    known: AtomicU64,
    unknown: AtomicU64,
}

/// What one writer knows of its documents: the values they may have.
type Known = BTreeMap<u64, BTreeSet<Option<i64>>>;

fn write(handle: &Collection, counters: &[Counter], first: u64, rng: &mut Rng, known: &mut Known) {
    let key = 100 + first * OWNED + rng.below(OWNED);
    let n = rng.below(1000) as i64;
    let may_be = known.entry(key).or_insert_with(|| BTreeSet::from([None]));
    let (new, written) = match rng.below(10) {
        0..=5 => (Some(n), handle.put(key, Json(format!(r#"{{"n":{n}}}"#)))),
        6..=8 => (None, handle.delete(key)),
        _ => {
            let counter = rng.below(COUNTERS);
            let updated = handle.update(counter, |it: &mut DocumentMut| it.inc("n", 1));
            let of = &counters[counter as usize];
            match updated.map_err(|error| error.kind()) {
                Ok(true) => of.known.fetch_add(1, Ordering::SeqCst),
                Ok(false) => panic!("counter {counter} is gone"),
                Err(ErrorKind::Unknown) => of.unknown.fetch_add(1, Ordering::SeqCst),
                Err(_nothing_written) => 0,
            };
            return;
        }
    };
    match written {
        Ok(()) => *may_be = BTreeSet::from([new]),
        Err(error) if error.kind() == ErrorKind::Unknown => drop(may_be.insert(new)),
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Conflict),
                "{error}"
            );
        }
    }
}

/// Writers of two processes, while two others divide the collection, over a store with faults.
fn beside_writers(seed: u64) {
    let mem = Arc::new(Mem::with_faults(seed, Faults::default()));
    let (cluster, documents) = collection(&mem);
    documents.create_index("by n", by_n()).unwrap();
    (0..COUNTERS).for_each(|key| documents.put(key, Json(r#"{"n":0}"#)).unwrap());
    (1000..1150).for_each(|key| documents.put(key, Json(format!(r#"{{"n":{key}}}"#))).unwrap());
    rebalance(&cluster, Hash(4)).unwrap();
    let counters: [Counter; COUNTERS as usize] = Default::default();
    let (switched, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    // Those that divide the collection do not write to it.
    let processes: [Cluster; 4] = std::array::from_fn(|_| connect(&mem));
    let handles = [0, 1].map(|process: usize| processes[process].collection("c").unwrap());
    mem.set_faults(Faults::MANY);
    let known: Vec<Known> = std::thread::scope(|scope| {
        let (counters, switched, is_over) = (&counters, &switched, &is_over);
        let writers: Vec<_> = (0..3)
            .map(|first| {
                let handle = &handles[first as usize % 2];
                let mut rng = Rng::new(seed ^ (first << 32));
                scope.spawn(move || {
                    let mut known = Known::new();
                    while !is_over.load(Ordering::Relaxed) {
                        write(handle, counters, first, &mut rng, &mut known);
                    }
                    known
                })
            })
            .collect();
        let (processes, seed) = (&processes, seed);
        let divide = move |process: usize| {
            let (mut rng, mut tries) = (Rng::new(seed ^ (process as u64 + 77)), 0);
            while switched.load(Ordering::Relaxed) < 4 && tries < 3000 {
                tries += 1;
                let (few, power) = (1 + rng.below(RANGES) as u32, 1 << rng.below(5));
                let layout = if rng.percent(50) { Ranges(few) } else { Hash(power) };
                // Another process may want another layout.
                let mut pages = 0;
                let done = processes[process].rebalance("c", layout, |_| {
                    pages += 1;
                    if pages > 200 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                match done {
                    Ok(ControlFlow::Continue(())) => {
                        switched.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(ControlFlow::Break(())) => {}
                    Err(error) => assert!(
                        matches!(
                            error.kind(),
                            ErrorKind::Unavailable
                                | ErrorKind::Unknown
                                | ErrorKind::Conflict
                                | ErrorKind::Busy
                        ),
                        "{error}"
                    ),
                }
            }
        };
        // The writers end even if it panics.
        let divided = std::thread::scope(|inner| {
            [2, 3].map(|process| inner.spawn(move || divide(process))).map(|one| one.join())
        });
        is_over.store(true, Ordering::Relaxed);
        divided.into_iter().for_each(|one| one.unwrap());
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    calm(&mem);
    assert!(switched.load(Ordering::Relaxed) >= 4, "seed {seed}");
    for (turn, process) in processes.iter().chain([&cluster]).enumerate() {
        let documents = process.collection("c").unwrap();
        for (key, may_be) in known.iter().flatten() {
            let n = n_of(&documents, *key);
            assert!(may_be.contains(&n), "seed {seed}, key {key}: {n:?}, not {may_be:?}");
        }
        for (key, counter) in counters.iter().enumerate() {
            let n = n_of(&documents, key as u64).unwrap() as u64;
            let at_least = counter.known.load(Ordering::SeqCst);
            let most = at_least + counter.unknown.load(Ordering::SeqCst);
            assert!((at_least..=most).contains(&n), "seed {seed}: {n}, not {at_least}..={most}");
        }
        let report = documents.verify_indexes().unwrap();
        assert_eq!(report.documents, report.entries);
        assert_eq!(report.documents, documents.count().unwrap());
        (1000..1150).for_each(|key| assert_eq!(n_of(&documents, key), Some(key as i64)));
        mem.deliver();
        if turn == 0 {
            // What was cut short is completed, or given up.
            let by_hash = (0..5).map(|power| Hash(1 << power));
            let mut all = by_hash.chain((1..=RANGES as u32).map(Ranges));
            assert!(all.any(|layout| rebalance(process, layout).is_ok()));
        }
        let layout = [Hash(8), Ranges(11), Hash(16), Ranges(2), Hash(1)][turn];
        rebalance(process, layout).unwrap();
    }
    assert_eq!(generations(&mem).len(), 1);
}

#[test]
fn writers_go_on_while_a_collection_is_divided() {
    let first = seed("writers_go_on_while_a_collection_is_divided", 1);
    for round in 0..rounds(4, 100) {
        eprintln!("round {round}");
        beside_writers(first + round);
    }
}
