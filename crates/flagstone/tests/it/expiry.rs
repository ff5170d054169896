//! Entries that expire: no read sees them afterwards, wherever they are, and in the end they are
//! gone from the disk.

use crate::support::{folding, hashed, number, open, open_at, owned, small};
use flagstone::admin::{Backups, Event, Repair};
use flagstone::fold::Fold;
use flagstone::fold::{AddI64, Append};
use flagstone::internal::env::Disk;
use flagstone::{
    As, Batch, Database, Document, Durability, ErrorKind, Expect, Expires, Json, Keyspace, Moment,
    Patch, Space, doc,
};
use flagstone_testkit::{Session, World, dump};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns the moment `n` seconds from now.
fn within(session: &Session, n: u64) -> Moment {
    session.db.now().after(seconds(n))
}

fn text(found: Option<flagstone::Slice>) -> Option<String> {
    owned(found).map(|bytes| String::from_utf8(bytes).unwrap())
}

fn keys(kv: &Keyspace) -> Vec<String> {
    dump(kv).unwrap().into_keys().map(|key| String::from_utf8(key).unwrap()).collect()
}

fn tables(world: &World) -> usize {
    world.files().iter().filter(|name| name.ends_with(".sst")).count()
}

/// Brings what was written so far somewhere else.
type Stage = fn(Session, &World) -> Session;

const STAGES: [(&str, Stage); 4] = [
    ("memtable", |session, _| session),
    ("flushed", |session, _| {
        session.db.flush().unwrap();
        session
    }),
    ("compacted", |session, _| {
        session.db.compact().unwrap();
        session
    }),
    ("reopened", |session, world| {
        session.db.clone().close().unwrap();
        drop(session);
        open(world, &small())
    }),
];

#[test]
fn an_entry_is_absent_from_its_moment_on_wherever_it_lies() {
    for (name, stage) in STAGES {
        let world = World::new(1);
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
        kv.put("a", "stays").unwrap();
        kv.put("b", "older").unwrap();
        let at = session.db.now().after(seconds(60));
        kv.put("b", "newer".expires(at)).unwrap();
        drop(kv);
        let session = stage(session, &world);
        let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
        assert_eq!(text(kv.get("b").unwrap()).as_deref(), Some("newer"), "{name}");
        assert_eq!((kv.expiry("b").unwrap(), kv.expiry("a").unwrap()), (Some(at), None));
        assert_eq!(kv.count().unwrap(), 2);
        world.clock.advance(seconds(59));
        assert_eq!(keys(&kv), ["a", "b"], "{name}");
        world.clock.advance(seconds(1));
        assert_eq!(kv.get("b").unwrap(), None, "{name}");
        assert!(kv.expiry("b").unwrap().is_none() && kv.get_versioned("b").unwrap().is_none());
        assert_eq!((keys(&kv), kv.count().unwrap()), (vec!["a".to_owned()], 1), "{name}");
        let back: Vec<_> = kv.scan(..).rev().map(|entry| entry.unwrap().0.to_vec()).collect();
        assert_eq!(back, [b"a"]);
        let many = kv.multi_get(["a", "b"]).unwrap();
        assert!(many[0].is_some() && many[1].is_none());
        assert!(!kv.remove("b").unwrap());
        session.db.compact().unwrap();
        assert_eq!(keys(&kv), ["a"], "{name}");
        session.db.verify().unwrap();
    }
}

#[test]
fn a_snapshot_and_a_scan_keep_the_moment_at_which_they_began() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    for n in 0..100_u32 {
        kv.put(n.to_be_bytes(), [7_u8; 200].expires(within(&session, 60))).unwrap();
    }
    let snapshot = session.db.snapshot();
    let mut scan = kv.scan(..);
    assert!(scan.advance().unwrap());
    world.clock.advance(seconds(60));
    let later = session.db.snapshot();
    session.db.compact().unwrap();
    session.settle();
    assert_eq!(snapshot.scan(&kv, ..).count(), 100);
    assert!(snapshot.get(&kv, 7_u32.to_be_bytes()).unwrap().is_some());
    assert_eq!(later.scan(&kv, ..).count(), 0);
    assert_eq!(kv.count().unwrap(), 0);
    let mut rest = 1;
    while scan.advance().unwrap() {
        rest += 1;
    }
    assert_eq!(rest, 100);
    assert!(tables(&world) > 0, "the snapshot needs them");
    drop((scan, snapshot, later));
    session.db.compact().unwrap();
    session.settle();
    assert_eq!(tables(&world), 0);
}

#[test]
fn expired_tables_go_without_a_write_or_a_call() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    for n in 0..3000_u32 {
        kv.put(n.to_be_bytes(), [7_u8; 200].expires(within(&session, 3600))).unwrap();
    }
    session.db.flush().unwrap();
    session.settle();
    assert!(tables(&world) > 0);
    world.clock.advance(seconds(1800));
    session.settle();
    assert!(tables(&world) > 0);
    world.clock.advance(seconds(1801));
    session.settle();
    assert_eq!(tables(&world), 0);
}

#[test]
fn readers_that_overlap_keep_only_what_one_of_them_sees() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    for n in 0..100_u32 {
        kv.put(n.to_be_bytes(), [7_u8; 200].expires(within(&session, 60))).unwrap();
    }
    session.db.flush().unwrap();
    // Nothing is written meanwhile: all of them read at one SeqNo.
    let first = session.db.snapshot();
    world.clock.advance(seconds(30));
    let second = session.db.snapshot();
    drop(first);
    world.clock.advance(seconds(30));
    session.settle();
    assert_eq!(second.scan(&kv, ..).count(), 100);
    let third = session.db.snapshot();
    drop(second);
    session.settle();
    assert_eq!(tables(&world), 0, "the third one sees none of it");
    assert_eq!(third.scan(&kv, ..).count(), 0);
}

#[test]
fn a_later_put_has_no_expiry_and_an_update_keeps_it() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    let numbers = session.db.typed::<u64, u64>("numbers").unwrap();
    let moment = within(&session, 60);
    kv.put("k", "1".expires(moment)).unwrap();
    kv.put("k", "2").unwrap();
    numbers.put(&1_u64, (&5).expires(moment)).unwrap();
    numbers.update(&1_u64, |old| old.map(|n| n + 1)).unwrap();
    assert_eq!(kv.expiry("k").unwrap(), None);
    assert_eq!(numbers.expiry(&1_u64).unwrap(), Some(moment));
    world.clock.advance(seconds(60));
    assert_eq!(text(kv.get("k").unwrap()).as_deref(), Some("2"));
    assert_eq!(numbers.get(&1_u64).unwrap(), None);
    numbers.update(&1_u64, |old| Some(old.unwrap_or(100))).unwrap();
    assert_eq!(numbers.get(&1_u64).unwrap(), Some(100), "it begins without an expiry");
}

#[test]
fn a_merge_keeps_the_expiry_of_a_value_that_lives_and_begins_again_after_it() {
    for (name, stage) in STAGES {
        let world = World::new(1);
        let session = open(&world, &small());
        let kv = session.db.space("kv").options(folding(1, "add-i64/1")).keyspace().unwrap();
        let one = 1_i64.to_le_bytes();
        kv.merge("blind", one).unwrap();
        kv.put("k", 10_i64.to_le_bytes().expires(within(&session, 60))).unwrap();
        kv.merge("blind", one).unwrap();
        kv.merge("k", one).unwrap();
        drop(kv);
        let session = stage(session, &world);
        let kv = session.db.space("kv").options(folding(1, "add-i64/1")).keyspace().unwrap();
        kv.merge("k", one).unwrap();
        assert_eq!(number(kv.get("k").unwrap()), 12, "{name}");
        world.clock.advance(seconds(60));
        assert_eq!(kv.get("k").unwrap(), None, "{name}");
        kv.merge("k", one).unwrap();
        assert_eq!((number(kv.get("k").unwrap()), kv.expiry("k").unwrap()), (1, None), "{name}");
        world.clock.advance(seconds(600));
        session.db.compact().unwrap();
        assert_eq!(number(kv.get("k").unwrap()), 1, "{name}");
        assert_eq!(number(kv.get("blind").unwrap()), 2, "{name}");
    }
}

#[test]
fn merges_of_a_batch_see_what_the_batch_wrote_before() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(2, "add-i64/1")).keyspace().unwrap();
    let plain = session.db.space("plain").options(folding(1, "add-i64/1")).keyspace().unwrap();
    let value = |n: i64| n.to_le_bytes();
    kv.put("x", value(1).expires(within(&session, 60))).unwrap();
    kv.put("y", value(5)).unwrap();
    let mut batch = Batch::default();
    batch.merge(&kv, "x", value(1)).unwrap();
    batch.merge(&plain, "x", value(1)).unwrap();
    batch.merge(&kv, "x", value(1)).unwrap();
    batch.delete(&kv, "y").unwrap();
    batch.merge(&kv, "y", value(1)).unwrap();
    batch.put(&kv, "z", value(7).expires(within(&session, 90))).unwrap();
    batch.merge(&kv, "z", value(1)).unwrap();
    batch.put(&kv, "w", value(9)).unwrap();
    batch.delete_range(&kv, "w".."x").unwrap();
    batch.merge(&kv, "w", value(2)).unwrap();
    batch.merge(&kv, "w", value(2)).unwrap();
    session.db.commit(batch).unwrap();
    let now = |key: &str| number(kv.get(key).unwrap());
    assert_eq!([now("w"), now("x"), now("y"), now("z")], [4, 3, 1, 8]);
    assert_eq!(number(plain.get("x").unwrap()), 1);
    world.clock.advance(seconds(60));
    assert_eq!(keys(&kv), ["w", "y", "z"]);
    world.clock.advance(seconds(30));
    assert_eq!(keys(&kv), ["w", "y"]);
}

/// Its merge was not resolved once: as an operand it outlived its base.
#[test]
fn merges_of_the_batch_that_brings_the_first_expiry_expire_with_what_they_change() {
    for (name, stage) in STAGES {
        let world = World::new(1);
        let session = open(&world, &small());
        let open_both = |session: &Session| {
            let kv = session.db.space("kv").options(folding(2, "add-i64/1")).keyspace().unwrap();
            (kv, session.db.collection("documents").unwrap())
        };
        let (kv, documents) = open_both(&session);
        let one = 1_i64.to_le_bytes();
        let plus_one = Patch::new().upsert().inc("n", 1);
        let document = Document::from_json(r#"{"n":10}"#).unwrap();
        let mut batch = Batch::default();
        batch.put(&kv, "k", 10_i64.to_le_bytes().expires(within(&session, 60))).unwrap();
        batch.merge(&kv, "k", one).unwrap();
        batch.put(&documents, "k", (&document).expires(within(&session, 60))).unwrap();
        batch.patch(&documents, "k", &plus_one).unwrap();
        session.db.commit(batch).unwrap();
        drop((kv, documents));
        let session = stage(session, &world);
        let (kv, documents) = open_both(&session);
        let now = || {
            let found =
                documents.get("k").unwrap().map_or(0, |document| document.int("n").unwrap());
            (number(kv.get("k").unwrap()), found)
        };
        assert_eq!(now(), (11, 11), "{name}");
        world.clock.advance(seconds(60));
        assert!(kv.get("k").unwrap().is_none() && documents.get("k").unwrap().is_none(), "{name}");
        assert_eq!((kv.expiry("k").unwrap(), documents.expiry("k").unwrap()), (None, None));
        kv.merge("k", one).unwrap();
        documents.patch("k", &plus_one).unwrap();
        session.db.compact().unwrap();
        assert_eq!(now(), (1, 1), "{name}");
        assert_eq!((kv.expiry("k").unwrap(), documents.expiry("k").unwrap()), (None, None));
    }
}

/// Adds numbers. The first fold has another thread put an expiring entry into the keyspace given.
#[derive(Clone, Default)]
struct Interrupted(Arc<Mutex<Option<Keyspace>>>);

impl Fold for Interrupted {
    fn name(&self) -> &str {
        "interrupted/1"
    }

    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        if let Some(kv) = self.0.lock().unwrap().take() {
            let moment = Moment::MAX;
            let put = std::thread::spawn(move || kv.put("expires", "".expires(moment)).unwrap());
            put.join().unwrap();
        }
        AddI64.fold(key, base, operands)
    }
}

/// The second merge was resolved then and the first was not, so the second did not see it.
#[test]
fn a_keyspace_may_see_its_first_expiry_while_a_batch_that_merges_into_it_is_resolved() {
    let world = World::new(1);
    let (environment, executor) = world.environment();
    let fold = Interrupted::default();
    let builder = Database::builder(World::dir()).options(small()).environment(environment);
    let db = builder.fold(fold.clone()).open().unwrap();
    let session = Session::of(&world, db, executor);
    let keyspace =
        |name| session.db.space(name).options(folding(1, "interrupted/1")).keyspace().unwrap();
    let (first, second) = (keyspace("first"), keyspace("second"));
    let one = 1_i64.to_le_bytes();
    first.put("expires", "".expires(within(&session, 60))).unwrap();
    *fold.0.lock().unwrap() = Some(second.clone());
    let mut batch = Batch::default();
    batch.merge(&second, "k", one).unwrap();
    batch.merge(&first, "k", one).unwrap();
    batch.merge(&second, "k", one).unwrap();
    session.db.commit(batch).unwrap();
    assert!(second.expiry("expires").unwrap().is_some());
    assert_eq!((number(first.get("k").unwrap()), number(second.get("k").unwrap())), (1, 2));
}

/// Appends, and counts how often.
struct Counting(Arc<AtomicUsize>);

impl Fold for Counting {
    fn name(&self) -> &str {
        "counting/1"
    }

    fn fold(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Append.fold(key, base, operands)
    }
}

/// All of them were made, gigabytes perhaps, before the batch was refused.
#[test]
fn the_limit_of_a_batch_counts_the_values_that_its_merges_result_in() {
    let world = World::new(1);
    let folded = Arc::new(AtomicUsize::new(0));
    let builder = Database::builder(World::dir()).options(small());
    let builder = builder.environment(world.environment().0);
    let db = builder.fold(Counting(Arc::clone(&folded))).open().unwrap();
    let kv = db.space("kv").options(folding(1, "counting/1")).keyspace().unwrap();
    kv.put("expires", "".expires(Moment::MAX)).unwrap();
    (0..40_u8).for_each(|n| kv.put([n], vec![7; 20_000]).unwrap());
    let merge = |keys: u8| {
        let mut batch = db.batch();
        (0..keys).for_each(|n| batch.merge(&kv, [n], "x").unwrap());
        db.commit(batch)
    };
    let len = |n: u8| kv.get([n]).unwrap().unwrap().len();
    let refused = merge(40).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("262144 bytes"), "{refused}");
    assert_eq!(folded.load(Ordering::Relaxed), 14, "13 of them fit");
    assert!((0..40).all(|n| len(n) == 20_000));
    merge(13).unwrap();
    assert_eq!((len(0), len(12), len(13)), (20_001, 20_001, 20_000));
}

#[test]
fn the_batch_that_brings_the_first_expiry_resolves_its_merges() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(1, "add-i64/1")).keyspace().unwrap();
    let one = 1_i64.to_le_bytes();
    kv.merge("older", one).unwrap();
    let moment = within(&session, 60);
    let mut batch = session.db.batch();
    batch.put(&kv, "k", one.expires(moment)).unwrap();
    batch.merge(&kv, "k", one).unwrap();
    batch.merge(&kv, "older", one).unwrap();
    session.db.commit(batch).unwrap();
    let now = |key: &str| number(kv.get(key).unwrap());
    assert_eq!((now("k"), now("older")), (2, 2));
    assert_eq!(kv.expiry("k").unwrap(), Some(moment));
    world.clock.advance(seconds(60));
    assert_eq!(keys(&kv), ["older"]);
}

#[test]
fn a_keyspace_tells_whether_its_entries_may_expire() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    kv.put("a", "1").unwrap();
    assert!(!session.db.keyspaces()[0].expires);
    kv.put("b", "1".expires(within(&session, 60))).unwrap();
    session.db.flush().unwrap();
    let stats = session.db.stats().keyspaces.remove(0);
    assert_eq!((stats.levels[0].entries, stats.levels[0].expiring), (2, 1));
    kv.delete("b").unwrap();
    session.db.compact().unwrap();
    session.db.rename_keyspace("kv", "renamed").unwrap();
    drop((kv, session));
    let session = open(&world, &small());
    let stats = session.db.stats().keyspaces.remove(0);
    assert_eq!((stats.info.name.as_str(), stats.info.expires), ("renamed", true));
    assert_eq!(stats.levels.iter().map(|level| level.expiring).sum::<u64>(), 0);
}

#[test]
fn conditions_judge_by_the_moment_of_the_commit() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    kv.put("k", "1".expires(within(&session, 60))).unwrap();
    let (version, _) = kv.get_versioned("k").unwrap().unwrap();
    let snapshot = session.db.snapshot();
    let commit = |add: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::default();
        add(&mut batch);
        batch.put(&kv, "other", "x").unwrap();
        session.db.commit(batch).map_err(|error| error.kind())
    };
    let absent = |batch: &mut Batch| batch.expect(&kv, "k", Expect::Absent).unwrap();
    let same = |batch: &mut Batch| batch.expect(&kv, "k", Expect::Version(version)).unwrap();
    let unchanged = |batch: &mut Batch| {
        batch.expect(&kv, "k", Expect::UnchangedSince(snapshot.version())).unwrap();
    };
    assert_eq!(commit(&absent), Err(ErrorKind::Conflict));
    assert_eq!((commit(&same), commit(&unchanged)), (Ok(()), Ok(())));
    world.clock.advance(seconds(60));
    assert_eq!(commit(&same), Err(ErrorKind::Conflict));
    // Nobody has written the key: expiry is no write.
    assert_eq!((commit(&absent), commit(&unchanged)), (Ok(()), Ok(())));
    let since = snapshot.version();
    drop(snapshot);
    session.db.compact().unwrap();
    assert_eq!((commit(&absent), commit(&same)), (Ok(()), Err(ErrorKind::Conflict)));
    // The entry is gone, and what left no trace is known to be older than the snapshot.
    let unchanged =
        |batch: &mut Batch| batch.expect(&kv, "k", Expect::UnchangedSince(since)).unwrap();
    assert_eq!(commit(&unchanged), Ok(()));
    let now = session.db.snapshot().version();
    let unchanged =
        |batch: &mut Batch| batch.expect(&kv, "k", Expect::UnchangedSince(now)).unwrap();
    assert_eq!(commit(&unchanged), Ok(()));
}

#[test]
fn what_a_crash_leaves_still_expires() {
    for luck in 0..8 {
        let world = World::new(luck);
        let session = open(&world, &small().durability(Durability::Group));
        let kv = session.db.keyspace("kv").unwrap();
        kv.put("a", "stays").unwrap();
        kv.put("b", "goes".expires(within(&session, 60))).unwrap();
        let mut batch = session.db.batch();
        batch.put(&kv, "c", vec![7_u8; 100_000].expires(within(&session, 90))).unwrap();
        session.db.commit(batch).unwrap();
        let world = world.after_power_cut(luck);
        drop((kv, session));
        let session = open(&world, &small());
        let kv = session.db.keyspace("kv").unwrap();
        assert_eq!(keys(&kv), ["a", "b", "c"]);
        world.clock.advance(seconds(60));
        assert_eq!(keys(&kv), ["a", "c"]);
        world.clock.advance(seconds(30));
        assert_eq!(keys(&kv), ["a"]);
        session.db.compact().unwrap();
        session.db.verify().unwrap();
        assert_eq!(keys(&kv), ["a"]);
    }
}

#[test]
fn the_clock_of_a_database_never_goes_back_behind_what_an_edit_records() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    kv.put("k", "1".expires(within(&session, 60))).unwrap();
    session.db.flush().unwrap();
    world.clock.advance(seconds(100));
    let now = session.db.now();
    assert_eq!(kv.get("k").unwrap(), None);
    kv.put("other", "1").unwrap();
    session.db.flush().unwrap();
    drop(kv);
    // The clock of the next world begins where that of the first one began.
    let world = world.after_kill(1);
    drop(session);
    let session = open(&world, &small());
    assert_eq!(session.db.now(), now);
    assert_eq!(session.db.keyspace("kv").unwrap().get("k").unwrap(), None);
    world.clock.set_wall(seconds(5));
    assert_eq!(session.db.now(), now);
    world.clock.set_wall(Duration::from_millis(now.millis()) + seconds(7));
    assert_eq!(session.db.now(), now.after(seconds(7)));
}

#[test]
fn a_clean_close_records_the_clock() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    kv.put("k", "1".expires(within(&session, 60))).unwrap();
    session.db.flush().unwrap();
    let began = Duration::from_millis(session.db.now().millis());
    world.clock.advance(seconds(100));
    drop(kv);
    session.db.close().unwrap();
    world.clock.set_wall(began);
    let session = open(&world, &small());
    assert_eq!(session.db.now(), Moment::since_1970(began + seconds(100)));
    assert_eq!(session.db.keyspace("kv").unwrap().get("k").unwrap(), None);
}

#[test]
fn a_clock_that_jumps_ahead_destroys_nothing_for_an_hour() {
    let world = World::new(1);
    let (environment, executor) = world.environment();
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    let builder = Database::builder(World::dir()).options(small()).environment(environment);
    let db = builder.listener(move |event: &Event| {
        if let Event::ClockJumped { by } = event {
            listener.lock().unwrap().push(*by);
        }
    });
    let session = Session::of(&world, db.open().unwrap(), executor);
    let kv = session.db.keyspace("kv").unwrap();
    kv.put("k", "1".expires(within(&session, 1_000_000))).unwrap();
    session.db.flush().unwrap();
    let right = Duration::from_millis(session.db.now().millis());
    world.clock.set_wall(right + seconds(100_000_000));
    assert_eq!(kv.get("k").unwrap(), None, "reads follow the clock");
    kv.put("other", "1").unwrap();
    session.db.compact().unwrap();
    assert_eq!(told.lock().unwrap()[..], [seconds(100_000_000)]);
    assert_eq!(kv.get("k").unwrap(), None);
    drop((kv, session));
    world.clock.set_wall(right);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    assert_eq!(keys(&kv), ["k", "other"]);
    world.clock.set_wall(right + seconds(100_000_000));
    session.settle();
    kv.put("other", "2").unwrap();
    session.db.compact().unwrap();
    world.clock.advance(seconds(3700));
    kv.put("other", "3").unwrap();
    session.db.compact().unwrap();
    drop((kv, session));
    world.clock.set_wall(right);
    let session = open(&world, &small());
    assert_eq!(keys(&session.db.keyspace("kv").unwrap()), ["other"]);
}

#[test]
fn a_document_expires_and_patches_keep_its_expiry() {
    let world = World::new(1);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    documents.put("plain", Json(r#"{"n":1}"#)).unwrap();
    let moment = within(&session, 60);
    documents.put("k", Json(r#"{"n":1}"#).expires(moment)).unwrap();
    let mut batch = session.db.batch();
    let document = documents.get("plain").unwrap().unwrap();
    batch.put(&documents, "l", (&document).expires(moment)).unwrap();
    session.db.commit(batch).unwrap();
    documents.patch("k", &Patch::new().inc("n", 1)).unwrap();
    assert!(documents.update("l", |d| d.set("n", 9)).unwrap());
    session.db.compact().unwrap();
    assert_eq!(documents.expiry("k").unwrap(), Some(moment));
    assert_eq!(documents.expiry("l").unwrap(), Some(moment));
    assert_eq!(documents.get("k").unwrap().unwrap().int("n").unwrap(), 2);
    world.clock.advance(seconds(60));
    documents.patch("k", &Patch::new().inc("n", 1)).unwrap();
    assert!(!documents.update("l", |d| d.set("n", 9)).unwrap());
    assert_eq!(documents.count().unwrap(), 1);
    documents.patch("k", &Patch::new().upsert().inc("n", 1)).unwrap();
    assert_eq!(documents.get("k").unwrap().unwrap().int("n").unwrap(), 1);
    assert_eq!(documents.expiry("k").unwrap(), None);
}

#[test]
fn every_form_of_a_value_can_expire_alone_and_in_a_batch() {
    let world = World::new(1);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    let numbers = session.db.typed::<u64, u64>("numbers").unwrap();
    let moment = within(&session, 60);
    let value = doc!({ "n": 1 });
    let names = BTreeMap::from([("n", 1)]);
    documents.put("value", (&value).expires(moment)).unwrap();
    documents.put("struct", As(&names).expires(moment)).unwrap();
    let mut batch = session.db.batch();
    batch.put(&documents, "value in a batch", (&value).expires(moment)).unwrap();
    batch.put(&documents, "struct in a batch", As(&names).expires(moment)).unwrap();
    batch.put(&numbers, &1, (&5).expires(moment)).unwrap();
    // What says nothing of an expiry has none.
    batch.put(&documents, "stays", &value).unwrap();
    batch.put(&documents, "stays, too", As(&names)).unwrap();
    batch.put(&numbers, &2, &6).unwrap();
    session.db.commit(batch).unwrap();
    assert_eq!((documents.count().unwrap(), numbers.count().unwrap()), (6, 2));
    for key in ["value", "struct", "value in a batch", "struct in a batch"] {
        assert_eq!(documents.expiry(key).unwrap(), Some(moment), "{key}");
        assert_eq!(documents.get(key).unwrap().unwrap().int("n").unwrap(), 1, "{key}");
    }
    assert_eq!(numbers.expiry(&1).unwrap(), Some(moment));
    assert_eq!(numbers.expiry(&2).unwrap(), None);
    world.clock.advance(seconds(60));
    assert_eq!((documents.count().unwrap(), numbers.count().unwrap()), (2, 1));
    assert_eq!((numbers.get(&1).unwrap(), numbers.get(&2).unwrap()), (None, Some(6)));
}

#[test]
fn copies_and_repaired_databases_know_what_expires() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(folding(1, "add-i64/1")).keyspace().unwrap();
    kv.put("a", 1_i64.to_le_bytes()).unwrap();
    kv.put("b", 1_i64.to_le_bytes().expires(within(&session, 60))).unwrap();
    session.db.flush().unwrap();
    kv.put("c", 1_i64.to_le_bytes().expires(within(&session, 60))).unwrap();
    session.db.checkpoint("/checkpoint").unwrap();
    session.db.backup("/backups").unwrap();
    let disk = || Arc::new(world.mem.clone());
    Backups::on_disk("/backups", disk()).restore(None, "/restored").unwrap();
    drop((kv, session));
    Repair::of(World::dir()).on_disk(disk()).into_dir("/repaired").unwrap();
    world.mem.remove(&World::path("CURRENT")).unwrap();
    let manifests = world.files().into_iter().filter(|name| name.ends_with(".manifest"));
    manifests.for_each(|name| world.mem.remove(&World::path(&name)).unwrap());
    let repair = Repair::of(World::dir()).on_disk(disk());
    repair.fold(1, "add-i64/1").into_dir("/rebuilt").unwrap();
    let mut copies = Vec::new();
    for dir in ["/checkpoint", "/restored", "/repaired", "/rebuilt"] {
        let db = open_at(&world, dir).unwrap();
        let name = db.keyspaces()[0].name.clone();
        let kv = db.space(&name).existing().keyspace().unwrap().unwrap();
        assert_eq!(keys(&kv), ["a", "b", "c"], "{dir}");
        // It is still known that entries expire: the merge is resolved.
        kv.merge("b", 1_i64.to_le_bytes()).unwrap();
        assert_eq!(number(kv.get("b").unwrap()), 2, "{dir}");
        copies.push((dir, db, kv));
    }
    world.clock.advance(seconds(60));
    for (dir, db, kv) in copies {
        assert_eq!(keys(&kv), ["a"], "{dir}");
        db.compact().unwrap();
        db.verify().unwrap();
        assert_eq!(keys(&kv), ["a"], "{dir}");
    }
}

#[test]
fn a_moment_long_past_is_no_error() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    kv.put("k", "older").unwrap();
    kv.put("k", "1".expires(Moment::ZERO)).unwrap();
    assert_eq!(kv.get("k").unwrap(), None);
    kv.put("k", "2".expires(Moment::MAX)).unwrap();
    assert_eq!(text(kv.get("k").unwrap()).as_deref(), Some("2"));
    session.db.compact().unwrap();
    assert_eq!(kv.expiry("k").unwrap(), Some(Moment::MAX));
}
