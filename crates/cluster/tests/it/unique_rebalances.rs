//! Collections with unique indexes that get another number of buckets while their documents take
//! values from each other.

use crate::support::{Hooked, Hooks, by_n, collection, found, n_of, rebalance, refused};
use flagstone::admin::Environment;
use flagstone::{Collection, ErrorKind, Expires, Index, Json, Result, Space};
use flagstone_base::Moment;
use flagstone_base::fields::{FieldReader, narrow};
use flagstone_cluster::Cluster;
use flagstone_cluster::Layout::{self, Hash};
use flagstone_cluster::mem::{Fate, Mem};
use flagstone_cluster::store::{Batch, Freshness, Kind, Store, StoredRow};
use flagstone_env::{Clock, ManualClock, SystemClock};
use flagstone_testkit::{Rng, rounds, seed};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn put(documents: &Collection, key: u64, n: i64) -> Result<()> {
    documents.put(key, json(n))
}

/// Many values have one remainder.
fn json(n: i64) -> Json<String> {
    Json(format!(r#"{{"n":{n},"rest":{}}}"#, n % 3))
}

/// Connects as a process with this clock.
fn connect_at(clock: &Arc<ManualClock>, store: Arc<dyn Store>, dir: &Path) -> Cluster {
    let clock = Arc::clone(clock) as _;
    Cluster::over_with(store, Environment { clock, ..Environment::default() }, dir).unwrap()
}

/// As [`rebalance`], though now and then nothing is answered.
fn insist(cluster: &Cluster, to: Layout) {
    while let Err(error) = rebalance(cluster, to) {
        // Another process may divide it otherwise.
        let is_known = [ErrorKind::Unavailable, ErrorKind::Conflict].contains(&error.kind());
        assert!(is_known, "{error}");
    }
}

/// Copies up to so many pages, and stops.
fn begin(cluster: &Cluster, to: Layout, pages: u64) {
    let mut left = pages;
    let done = cluster.rebalance("c", to, |_| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let _begun = done.unwrap();
}

/// The documents, marks and entries of each generation that has documents.
type Generations = BTreeMap<i32, Vec<(Kind, StoredRow)>>;

fn generations(mem: &Mem) -> Generations {
    let mut generations = Generations::new();
    for place in mem.partitions() {
        let rows = mem.all_rows(place).into_iter().filter(|(kind, _)| *kind >= Kind::LOADS);
        generations.entry(place.generation).or_default().extend(rows);
    }
    let is_document = |(kind, _): &(Kind, StoredRow)| *kind == Kind::DOCUMENTS;
    generations.retain(|_, rows| rows.iter().any(is_document));
    for rows in generations.values_mut() {
        rows.sort_by(|(a, one), (b, other)| (a, &one.key).cmp(&(b, &other.key)));
    }
    generations
}

/// The number of the generation that a collection has.
fn current(mem: &Mem) -> i32 {
    let (note, mut number) = (mem.note("c", Freshness::Serial).unwrap().unwrap().note, 0);
    let mut read = |tag, field: &[u8]| {
        if tag == 3 {
            number = narrow(field)?;
        }
        Ok::<_, flagstone_base::Undecoded>(true)
    };
    FieldReader::of("field").read(&note, &mut read).unwrap();
    number
}

/// Checks what is stored whenever another generation takes the place of one.
#[derive(Clone)]
struct Witness {
    what: String,
    /// The generation, and how many have taken its place.
    seen: Arc<Mutex<(i32, u32)>>,
}

impl Witness {
    fn of(mem: &Mem, what: &str) -> Self {
        Self { what: what.to_owned(), seen: Arc::new(Mutex::new((current(mem), 0))) }
    }

    /// The new generation has the rows of the old one, whatever has copied them. Returns whether
    /// there is another one.
    fn see(&self, mem: &Mem) -> bool {
        let mut seen = self.seen.lock().unwrap();
        let (old, new) = (seen.0, current(mem));
        if old == new {
            return false;
        }
        *seen = (new, seen.1 + 1);
        let mut all = generations(mem);
        let [old, new] = [old, new].map(|number| all.remove(&number).unwrap());
        assert_eq!(new, old, "{}", self.what);
        true
    }

    /// Returns how often another generation has taken the place.
    fn switches(&self) -> u32 {
        self.seen.lock().unwrap().1
    }
}

/// A process whose changes of notes are seen, and which may end when it has completed a switch.
struct Seen(Arc<Mem>, Witness, Ends);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Never,
    Behind,
}

const NOTHING_MORE: [Fate; 100] = [Fate::Unavailable; 100];

impl Hooks for Seen {
    fn after_note(&self, name: &str) -> Result<()> {
        if name == "c" && self.1.see(&self.0) && self.2 == Ends::Behind {
            self.0.plan(&NOTHING_MORE);
        }
        Ok(())
    }
}

const KEYS: u64 = 7;
const VALUES: u64 = 5;
/// A document that is always there.
const LAST: u64 = 99;
/// How long an expired document keeps its value.
const KEPT: Duration = Duration::from_secs(10);

/// A process that writes, and what is stored then.
struct Scene {
    documents: Collection,
    clocks: [Arc<ManualClock>; 2],
    rng: Rng,
    /// Also those that have expired, as long as nobody has taken their values.
    has: BTreeMap<u64, (i64, Option<Moment>)>,
    left: u32,
}

impl Scene {
    fn now(&self) -> Moment {
        Moment::since_1970(self.clocks[0].wall())
    }

    fn is_there(&self, expiry: Option<Moment>) -> bool {
        expiry.is_none_or(|at| at > self.now())
    }

    fn visible(&self) -> BTreeMap<u64, i64> {
        let there = self.has.iter().filter(|(_, (_, expiry))| self.is_there(*expiry));
        there.map(|(key, (n, _))| (*key, *n)).collect()
    }

    /// Does something, if anything is left to do.
    fn step(&mut self) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let (key, n) = (self.rng.below(KEYS), self.rng.below(VALUES) as i64);
        match self.rng.below(12) {
            0 => {
                let by = SECOND * self.rng.below(40) as u32;
                self.clocks.iter().for_each(|clock| clock.advance(by));
            }
            1 | 2 => {
                let is_there = self.visible().contains_key(&key);
                assert_eq!(self.documents.remove(key).unwrap(), is_there);
                if is_there {
                    self.has.remove(&key);
                }
            }
            3..=6 => self.swap(key),
            7 => {
                let expiry = self.now().after(SECOND * (1 + self.rng.below(60) as u32));
                self.put(key, n, Some(expiry));
            }
            _ => self.put(key, n, None),
        }
    }

    /// Two documents exchange their values.
    fn swap(&mut self, one: u64) {
        let visible = self.visible();
        let other = visible.keys().copied().find(|key| *key > one && *key != LAST);
        if let (Some(a), Some((other, b))) =
            (visible.get(&one), other.map(|other| (other, visible[&other])))
        {
            self.put(one, 1000 + one as i64, None);
            self.put(other, *a, None);
            self.put(one, b, None);
        }
    }

    fn put(&mut self, key: u64, n: i64, expiry: Option<Moment>) {
        let holder = self.has.iter().find(|(other, (of, _))| **other != key && *of == n);
        let holder = holder.map(|(holder, (_, expiry))| (*holder, *expiry));
        let written = match expiry {
            None => put(&self.documents, key, n),
            Some(at) => self.documents.put(key, json(n).expires(at)),
        };
        let now = self.now();
        match holder {
            Some((holder, expiry)) if expiry.is_none_or(|at| at.after(KEPT) > now) => {
                refused(written, &format!("has the value {n} of key {holder} already"));
            }
            _ => {
                written.unwrap();
                self.has.retain(|_, (of, _)| *of != n);
                self.has.insert(key, (n, expiry));
            }
        }
    }

    /// Checks that `documents` has exactly what is stored.
    fn check(&self, documents: &Collection, what: &str) {
        let visible = self.visible();
        for key in (0..KEYS).chain([LAST]) {
            assert_eq!(n_of(documents, key), visible.get(&key).copied(), "{what}, key {key}");
        }
        let (count, report) = (visible.len() as u64, documents.verify_indexes());
        let report = report.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((report.documents, report.entries), (count, 2 * count), "{what}");
        for (key, n) in &visible {
            assert_eq!(found(documents, &format!(r#"{{"n":{n}}}"#)), [*key], "{what}");
            refused(put(documents, 500, *n), &format!("has the value {n} of key {key} already"));
        }
        for n in 0..VALUES as i64 {
            let holder = self.has.values().find(|(of, _)| *of == n);
            let keeps = |at: Option<Moment>| at.is_none_or(|at| at.after(KEPT) > self.now());
            if holder.is_none_or(|(_, expiry)| !keeps(*expiry)) {
                put(documents, 500 + n as u64, n).unwrap();
            }
        }
    }
}

/// A process beside whose calls others write, and another one copies to so many buckets.
struct Beside {
    seen: Seen,
    scene: Arc<Mutex<Scene>>,
    other: Cluster,
    to: Layout,
    rng: Mutex<Rng>,
}

impl Beside {
    fn step(&self) {
        let mut rng = self.rng.lock().unwrap();
        match rng.below(100) {
            0..35 => self.scene.lock().unwrap().step(),
            35..38 => {
                // Its watch ends it, or nothing is answered any more: now and then as soon as it
                // has completed the switch.
                if rng.percent(50) {
                    let answered = vec![Fate::Answered; rng.index(80)];
                    self.seen.0.plan(&[&answered[..], &NOTHING_MORE].concat());
                }
                let mut left = 1 + rng.below(20);
                let _cut_short = self.other.rebalance("c", self.to, |_| {
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                self.seen.0.plan(&[]);
            }
            _ => {}
        }
    }
}

impl Hooks for Beside {
    fn before_rows(&self) {
        self.step();
    }

    fn before_batch(&self, _batch: &Batch) {
        self.step();
    }

    fn after_note(&self, name: &str) -> Result<()> {
        self.seen.after_note(name)
    }
}

/// Documents take values from each other between any two calls of a rebalance.
fn taken_meanwhile(seed: u64) {
    let (mem, dir) = (Arc::new(Mem::new()), tempfile::tempdir().unwrap());
    let mut rng = Rng::new(seed);
    let (from, to) = *rng.pick(&[(2, 1), (4, 1), (8, 2), (1, 2), (1, 4), (2, 8)]);
    let what = format!("seed {seed}: {from} to {to} buckets");
    let clocks: [Arc<ManualClock>; 2] = Default::default();
    // The clocks of the processes differ a little.
    clocks[rng.index(2)].advance(SECOND * rng.below(9) as u32);
    let store = || Arc::clone(&mem) as Arc<dyn Store>;
    rebalance(&collection(&mem).0, Hash(from)).unwrap();
    let (old, witness) = (current(&mem), Witness::of(&mem, &what));
    let seen = |ends| Seen(Arc::clone(&mem), witness.clone(), ends);
    let writers = connect_at(&clocks[0], Hooked::over(store(), seen(Ends::Never)), dir.path());
    let documents = writers.collection("c").unwrap();
    documents.create_index("by n", by_n().unique()).unwrap();
    documents.create_index("by rest", Index::on("$.rest")).unwrap();
    put(&documents, LAST, LAST as i64).unwrap();
    let has = BTreeMap::from([(LAST, (LAST as i64, None))]);
    let scene_rng = Rng::new(rng.number());
    let scene = Scene { documents, clocks: clocks.clone(), rng: scene_rng, has, left: 300 };
    let scene = Arc::new(Mutex::new(scene));
    let steps = |count: u64| (0..count).for_each(|_| scene.lock().unwrap().step());
    steps(10);
    let mover = connect_at(&clocks[1], Hooked::over(store(), seen(Ends::Never)), dir.path());
    let beside = Beside {
        seen: seen(Ends::Never),
        scene: Arc::clone(&scene),
        other: connect_at(&clocks[1], Hooked::over(store(), seen(Ends::Behind)), dir.path()),
        to: Hash(to),
        rng: Mutex::new(Rng::new(seed)),
    };
    let divides = connect_at(&clocks[1], Hooked::over(store(), beside), dir.path());
    for _ in 0..rng.below(4) {
        begin(&mover, Hash(to), 1 + rng.below(u64::from(from) + 1));
        steps(rng.below(4));
        if current(&mem) == old && rng.percent(15) {
            // It is given up.
            insist(&divides, Hash(from));
        }
    }
    insist(&divides, Hash(to));
    let mut scene = scene.lock().unwrap();
    scene.left = 0;
    assert!(witness.switches() > 0, "{what}");
    scene.check(&scene.documents, &what);
}

#[test]
fn documents_take_values_from_each_other_while_they_are_copied() {
    let first = seed("documents_take_values_from_each_other_while_they_are_copied", 1);
    for round in 0..rounds(80, 5_000) {
        taken_meanwhile(first + round);
    }
}

/// Another document had it meanwhile, and was copied with it, alone or together with the one that
/// had given it up.
#[test]
fn a_value_that_was_given_back_has_the_entry_of_its_document() {
    // Two of each bucket.
    let pairs = (0..16).map(|n| (2 + n / 4, 2 + n % 4)).filter(|(one, other)| one != other);
    for ((one, other), pages) in pairs.flat_map(|pair| (1..4).map(move |pages| (pair, pages))) {
        for expires in [false, true] {
            let what = format!("{one} and {other}, {pages} pages, {expires}");
            let mem = Arc::new(Mem::new());
            let (cluster, documents) = collection(&mem);
            rebalance(&cluster, Hash(2)).unwrap();
            documents.create_index("by n", by_n().unique()).unwrap();
            let put = |key: u64, n: i64| {
                let hour = Moment::since_1970(SystemClock::default().wall()).after(SECOND * 3600);
                let expiry = expires.then_some(hour);
                documents.put(key, json(n).expires(expiry)).unwrap();
            };
            put(one, 1);
            put(other, 2);
            begin(&cluster, Hash(1), 2);
            put(one, 3);
            put(other, 1);
            begin(&cluster, Hash(1), pages);
            put(other, 2);
            put(one, 1);
            rebalance(&cluster, Hash(1)).unwrap();
            assert_eq!([one, other].map(|key| n_of(&documents, key)), [Some(1), Some(2)], "{what}");
            assert_eq!(found(&documents, r#"{"n":1}"#), [one], "{what}");
            assert_eq!(found(&documents, r#"{"n":2}"#), [other], "{what}");
            let report = documents.verify_indexes().unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!((report.documents, report.entries), (2, 2), "{what}");
        }
    }
}

/// Who takes its value removes it, beside the copy.
#[test]
fn a_document_that_has_expired_is_copied_again_when_its_value_is_taken() {
    // All pages are copied before the last call if both buckets have documents.
    for (old, new, at) in
        (0..5).flat_map(|old| (1..5).map(move |at| (old, (old + at) % 5, 1 + at % 2)))
    {
        let (mem, clock) = (Arc::new(Mem::new()), Arc::new(ManualClock::default()));
        let dir = tempfile::tempdir().unwrap();
        let (cluster, _documents) = collection(&mem);
        rebalance(&cluster, Hash(2)).unwrap();
        let witness = Witness::of(&mem, &format!("{old} and {new}, {at}"));
        let seen = Seen(Arc::clone(&mem), witness.clone(), Ends::Never);
        let store = Hooked::over(Arc::clone(&mem) as _, seen);
        let cluster = connect_at(&clock, store, dir.path());
        let documents = cluster.collection("c").unwrap();
        documents.create_index("by n", by_n().unique()).unwrap();
        let soon = Moment::since_1970(clock.wall()).after(SECOND * 60);
        documents.put(old, json(1).expires(soon)).unwrap();
        put(&documents, new, 2).unwrap();
        put(&documents, LAST, 3).unwrap();
        let mut calls = 0;
        let divided = cluster.rebalance("c", Hash(1), |_| {
            calls += 1;
            if calls == at {
                clock.advance(SECOND * 71);
                put(&documents, new, 1).unwrap();
            }
            ControlFlow::Continue(())
        });
        assert!(divided.unwrap().is_continue() && calls >= at);
        assert_eq!(witness.switches(), 1);
        assert_eq!(documents.verify_indexes().unwrap().entries, 2);
        refused(put(&documents, old, 1), &format!("has the value 1 of key {new}"));
    }
}

/// A process in which something happens before its nth call.
struct At {
    left: AtomicU64,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Sees what this process completes: its threads that are not at the call go on.
    seen: Option<(Arc<Mem>, Witness)>,
}

impl At {
    fn over(mem: &Arc<Mem>, at: u64, happens: impl FnOnce() + Send + 'static) -> Cluster {
        Self::seen_over(mem, at, None, happens)
    }

    fn seen_over(
        mem: &Arc<Mem>,
        at: u64,
        witness: Option<&Witness>,
        happens: impl FnOnce() + Send + 'static,
    ) -> Cluster {
        let happens = Mutex::new(Some(Box::new(happens) as _));
        let seen = witness.map(|witness| (Arc::clone(mem), witness.clone()));
        let hooks = Self { left: AtomicU64::new(at), happens, seen };
        Cluster::over(Hooked::over(Arc::clone(mem) as _, hooks)).unwrap()
    }

    fn call(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 0
            && let Some(happens) = self.happens.lock().unwrap().take()
        {
            happens();
        }
    }
}

impl Hooks for At {
    fn before_rows(&self) {
        self.call();
    }

    fn before_batch(&self, _batch: &Batch) {
        self.call();
    }

    fn after_note(&self, name: &str) -> Result<()> {
        if let Some((mem, witness)) = self.seen.as_ref().filter(|_| name == "c") {
            witness.see(mem);
        }
        Ok(())
    }
}

/// Each of these documents gets the value of the next one.
fn rotate(documents: &Collection, count: u64) {
    let values: Vec<i64> = (0..count).map(|key| n_of(documents, key).unwrap()).collect();
    put(documents, 0, 1000).unwrap();
    for key in (0..count).rev() {
        put(documents, key, values[((key + 1) % count) as usize]).unwrap();
    }
}

/// Others write, copy and complete the switch, and end there, before any call of a slow process.
#[test]
fn a_slow_copy_of_values_changes_nothing_of_a_complete_one() {
    const COUNT: u64 = 6;
    let mut completed = 0;
    for (from, to) in [(2, 1), (1, 2)] {
        for at in 0..30 {
            let (mem, what) = (Arc::new(Mem::new()), format!("{from} to {to}, before call {at}"));
            let (cluster, documents) = collection(&mem);
            rebalance(&cluster, Hash(from)).unwrap();
            let (old, witness) = (current(&mem), Witness::of(&mem, &what));
            let seen = |ends| {
                let seen = Seen(Arc::clone(&mem), witness.clone(), ends);
                Cluster::over(Hooked::over(Arc::clone(&mem) as _, seen)).unwrap()
            };
            documents.create_index("by n", by_n().unique()).unwrap();
            (0..COUNT).for_each(|key| put(&documents, key, key as i64).unwrap());
            begin(&cluster, Hash(to), 2);
            rotate(&documents, COUNT);
            let (there, turns) = (Arc::clone(&mem), Arc::new(AtomicU64::new(1)));
            let (writes, other, turned) =
                (seen(Ends::Never), seen(Ends::Behind), Arc::clone(&turns));
            let slow = At::seen_over(&mem, at, Some(&witness), move || {
                // Unless it has completed it itself.
                if current(&there) == old {
                    rotate(&writes.collection("c").unwrap(), COUNT);
                    turned.store(2, Ordering::SeqCst);
                    let _ended = rebalance(&other, Hash(to));
                    there.plan(&[]);
                }
            });
            rebalance(&slow, Hash(to)).unwrap();
            completed += witness.switches();
            for key in 0..COUNT {
                let n = ((key + turns.load(Ordering::SeqCst)) % COUNT) as i64;
                assert_eq!(n_of(&documents, key), Some(n), "{what}");
                assert_eq!(found(&documents, &format!(r#"{{"n":{n}}}"#)), [key], "{what}");
            }
            assert_eq!(documents.verify_indexes().unwrap().entries, COUNT, "{what}");
        }
    }
    assert!(completed > 15, "{completed}");
}

/// What happens to a writer that wants the value 77 for key 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The collection is divided, or it is begun.
    Divide,
    Begin,
    /// Another process wants it for key 2.
    Take,
}

/// At whichever call of a writer the collection is divided, and another process takes the value it
/// has claimed: one of both has it.
#[test]
fn a_writer_that_has_claimed_a_value_claims_it_again_behind_the_switch() {
    use Turn::{Begin, Divide, Take};
    let orders: [&[Turn]; 5] =
        [&[Divide], &[Divide, Take], &[Take, Divide], &[Begin, Take], &[Begin, Take, Divide]];
    let (mut took, mut lost) = (0, 0);
    for (turns, has_document) in orders.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        for at in 0..20 {
            let mem = Arc::new(Mem::new());
            let (cluster, documents) = collection(&mem);
            rebalance(&cluster, Hash(1)).unwrap();
            documents.create_index("by n", by_n().unique()).unwrap();
            put(&documents, 2, 1002).unwrap();
            if has_document {
                put(&documents, 1, 1001).unwrap();
            }
            let taken = Arc::new(Mutex::new(None));
            let (there, told) = (Arc::clone(&mem), Arc::clone(&taken));
            let slow = At::over(&mem, at, move || {
                for turn in turns {
                    let (cluster, documents) = collection(&there);
                    match turn {
                        Divide => rebalance(&cluster, Hash(4)).unwrap(),
                        Begin => begin(&cluster, Hash(4), 1),
                        Take => *told.lock().unwrap() = Some(put(&documents, 2, 77).is_ok()),
                    }
                }
            });
            let written = put(&slow.collection("c").unwrap(), 1, 77).is_ok();
            let taken = taken.lock().unwrap().take();
            rebalance(&cluster, Hash(4)).unwrap();
            let what = format!("{turns:?} before call {at}: {written}, {taken:?}");
            let have = [1, 2].map(|key| n_of(&documents, key) == Some(77));
            assert_eq!(have, [written, taken == Some(true)], "{what}");
            assert!(have[0] != have[1], "{what}");
            let report = documents.verify_indexes().unwrap();
            assert_eq!(report.entries, 2 - u64::from(have[1] && !has_document), "{what}");
            refused(put(&documents, 3, 77), if have[0] { "of key 1" } else { "of key 2" });
            took += u32::from(written && taken == Some(false));
            lost += u32::from(taken == Some(true));
        }
    }
    assert!(took > 2 && lost > 20, "{took}, {lost}");
}

/// What a writer that has ended has sent comes when the value was taken behind the switch.
#[test]
fn a_value_of_a_writer_that_has_ended_is_taken_while_the_collection_is_divided() {
    let mut taken = 0;
    for (done, fate) in (0..3).flat_map(|n| [(n, Fate::Late), (n, Fate::Unfinished)]) {
        for at in 0..27 {
            let mem = Arc::new(Mem::new());
            let (cluster, documents) = collection(&mem);
            rebalance(&cluster, Hash(2)).unwrap();
            documents.create_index("by n", by_n().unique()).unwrap();
            (1..3).for_each(|key| put(&documents, key, 1000 + key as i64).unwrap());
            if at % 3 == 0 {
                begin(&cluster, Hash(1), 2);
            }
            let mut plan = vec![Fate::Answered; done];
            plan.push(fate);
            plan.resize(done + 500, Fate::Unavailable);
            mem.plan(&plan);
            let ended = put(&collection(&mem).1, 1, 77);
            mem.plan(&[]);
            let (there, cluster) = (Arc::clone(&mem), Arc::new(cluster));
            let divides = Arc::clone(&cluster);
            let takes = At::over(&mem, at, move || {
                rebalance(&divides, Hash(1)).unwrap();
                there.deliver();
            });
            let second = put(&takes.collection("c").unwrap(), 2, 77);
            mem.deliver();
            rebalance(&cluster, Hash(1)).unwrap();
            mem.deliver();
            let what = format!("{fate:?} after {done}, {at}: {ended:?}, {second:?}");
            let have = [1, 2].map(|key| n_of(&documents, key) == Some(77));
            assert_eq!(have, [second.is_err(), second.is_ok()], "{what}");
            assert!(ended.is_err() || have[0], "{what}");
            assert_eq!(documents.verify_indexes().unwrap().entries, 2, "{what}");
            refused(put(&documents, 3, 77), if have[0] { "of key 1" } else { "of key 2" });
            taken += u32::from(have[1]);
        }
    }
    assert!(taken > 50, "{taken}");
}

/// An index is built without them: their values may be other documents' values.
#[test]
fn documents_that_had_expired_before_the_index_take_no_entries() {
    for (from, to) in [(1, 2), (4, 1)] {
        for (old, new) in (0..6).flat_map(|old| (0..6).map(move |new| (old, new))) {
            if old == new {
                continue;
            }
            let (mem, clock) = (Arc::new(Mem::new()), Arc::new(ManualClock::default()));
            let dir = tempfile::tempdir().unwrap();
            let cluster = connect_at(&clock, Arc::clone(&mem) as _, dir.path());
            let documents = cluster.collection("c").unwrap();
            rebalance(&cluster, Hash(from)).unwrap();
            let after = |seconds| Moment::since_1970(clock.wall()).after(SECOND * seconds);
            documents.put(old, json(1).expires(after(60))).unwrap();
            clock.advance(SECOND * 70);
            // One that expires later, too.
            match old % 2 {
                0 => documents.put(new, json(1).expires(after(3600))).unwrap(),
                _ => put(&documents, new, 1).unwrap(),
            }
            documents.create_index("by n", by_n().unique()).unwrap();
            // Whether it has, by the clock of who copies it, does not matter.
            let slower = Arc::new(ManualClock::default());
            slower.advance(SECOND * (70 * (new as u32 % 2)));
            let mover = connect_at(&slower, Arc::clone(&mem) as _, dir.path());
            rebalance(&mover, Hash(to)).unwrap();
            let what = format!("{old} and {new}, {from} to {to}");
            let report = documents.verify_indexes().unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!((report.documents, report.entries), (1, 1), "{what}");
            assert_eq!(found(&documents, r#"{"n":1}"#), [new], "{what}");
            refused(put(&documents, 9, 1), &format!("has the value 1 of key {new}"));
            refused(put(&documents, old, 1), &format!("has the value 1 of key {new}"));
        }
    }
}

/// An index is built without them: it may not be able to hold them.
#[test]
fn a_document_that_had_expired_before_the_index_need_not_fit() {
    let (mem, clock) = (Arc::new(Mem::new()), Arc::new(ManualClock::default()));
    let dir = tempfile::tempdir().unwrap();
    let cluster = connect_at(&clock, Arc::clone(&mem) as _, dir.path());
    let documents = cluster.collection("c").unwrap();
    let soon = Moment::since_1970(clock.wall()).after(SECOND);
    let both = r#"{"a":[1,2],"b":[3,4]}"#;
    documents.put(1, Json(both).expires(soon)).unwrap();
    documents.put(2, Json(r#"{"a":1,"b":3}"#)).unwrap();
    clock.advance(SECOND * 20);
    let index = || Index::on("$.a").then("$.b").unique();
    documents.create_index("by a and b", index()).unwrap();
    let refused = documents.put(3, Json(both)).unwrap_err();
    assert!(refused.to_string().contains("arrays"), "{refused}");
    rebalance(&cluster, Hash(2)).unwrap();
    assert_eq!(documents.verify_indexes().unwrap().entries, 1);
    documents.put(1, Json(r#"{"a":1,"b":4}"#)).unwrap();
    assert_eq!(documents.verify_indexes().unwrap().entries, 2);
}

#[test]
fn values_are_free_after_a_clear_and_kept_when_a_rebalance_is_given_up() {
    let mem = Arc::new(Mem::new());
    let ((cluster, documents), (other, there)) = (collection(&mem), collection(&mem));
    documents.create_index("by n", by_n().unique()).unwrap();
    let fill =
        |documents: &Collection| (0..50).for_each(|key| put(documents, key, key as i64).unwrap());
    fill(&documents);
    begin(&cluster, Hash(2), 2);
    (0..50).for_each(|key| put(&there, key, 100 + (key as i64 + 1) % 50).unwrap());
    rebalance(&other, Hash(16)).unwrap();
    refused(put(&documents, 77, 100), "of key 49");
    assert_eq!(documents.verify_indexes().unwrap().entries, 50);
    begin(&cluster, Hash(2), 2);
    there.clear().unwrap();
    rebalance(&cluster, Hash(2)).unwrap();
    (0..50).for_each(|key| put(&documents, 50 + key, 100 + key as i64).unwrap());
    refused(put(&there, 1, 100), "of key 50");
    assert_eq!(there.verify_indexes().unwrap().entries, 50);
    begin(&cluster, Hash(64), 2);
    assert!(other.drop_collection("c").unwrap());
    assert!(mem.partitions().is_empty());
}
