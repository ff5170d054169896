//! Descriptors are few and tables many. A flush once held one descriptor for each tree until its
//! edit was installed, and every table that was read stayed open: with a hundred keyspaces and 120
//! descriptors no flush ever succeeded.

use crate::support::{hashed, open, small, small_with};
use flagstone::{Database, Durability, Keyspace, Options, Space};
use flagstone_testkit::{Session, World};

const KEYSPACES: usize = 100;

fn options() -> Options {
    small().files_open_max(16).memtable_bytes(64 << 10)
}

fn keyspaces(session: &Session) -> Vec<Keyspace> {
    let named = |n| session.db.space(&format!("k{n}")).options(hashed(2)).keyspace().unwrap();
    (0..KEYSPACES).map(named).collect()
}

fn put_round(keyspaces: &[Keyspace], round: u32) {
    for keyspace in keyspaces {
        for n in 0..8 {
            keyspace.put((round * 8 + n).to_be_bytes(), [7; 500]).unwrap();
        }
    }
}

fn check_all(keyspaces: &[Keyspace], rounds: u32) {
    for keyspace in keyspaces {
        for n in 0..rounds * 8 {
            assert_eq!(keyspace.get(n.to_be_bytes()).unwrap().as_deref(), Some(&[7; 500][..]));
        }
        assert_eq!(keyspace.count().unwrap(), u64::from(rounds * 8));
    }
}

#[test]
fn a_hundred_keyspaces_are_flushed_and_compacted_with_forty_descriptors() {
    let world = World::new(1);
    let session = open(&world, &options());
    let all = keyspaces(&session);
    world.disk.set_open_files_max(Some(40));
    for round in 0..5 {
        put_round(&all, round);
        session.db.flush().unwrap();
        check_all(&all, round + 1);
    }
    assert!(session.db.stats().tables() > 100, "{}", session.db.stats().tables());
    session.db.compact().unwrap();
    check_all(&all, 5);
    session.db.verify().unwrap();
    session.db.close().unwrap();
    drop(all);
    let session = open(&world, &options());
    check_all(&keyspaces(&session), 5);
    let stats = session.db.stats();
    assert_eq!((stats.files_open, stats.files_open_max), (16, 16));
    assert!(stats.files_opened >= 200, "{} opened", stats.files_opened);
}

/// The limit is larger than what the process has: others took descriptors meanwhile.
#[test]
fn a_process_that_runs_out_of_descriptors_closes_tables_and_goes_on() {
    let world = World::new(2);
    let options = options().files_open_max(1000);
    let session = open(&world, &options);
    let all = keyspaces(&session);
    world.disk.set_open_files_max(Some(40));
    put_round(&all, 0);
    session.db.flush().unwrap();
    check_all(&all, 1);
    session.db.compact().unwrap();
    check_all(&all, 1);
}

#[test]
fn scans_that_stand_in_many_tables_go_on_when_these_are_closed() {
    let world = World::new(3);
    let options = small_with(Durability::Buffered).files_open_max(8);
    let session = open(&world, &options);
    let keyspace = session.db.space("k").options(hashed(32)).keyspace().unwrap();
    for n in 0..2000_u32 {
        keyspace.put(n.to_be_bytes(), [n as u8; 300]).unwrap();
    }
    session.db.flush().unwrap();
    let mut scans: Vec<_> = (0..4).map(|_| keyspace.scan(..)).collect();
    for n in 0..2000_u32 {
        for scan in &mut scans {
            let (key, value) = scan.next().unwrap().unwrap();
            assert_eq!((&key[..], &value[..]), (&n.to_be_bytes()[..], &[n as u8; 300][..]));
            assert!(world.disk.open_files() < 20, "{} open", world.disk.open_files());
        }
    }
}

/// A table's second descriptor, for reads past the page cache, counts as well.
#[test]
fn direct_reads_stay_within_the_limit() {
    let world = World::new(4);
    let options = options().direct_reads(true);
    let session = open(&world, &options);
    let all = keyspaces(&session);
    world.disk.set_open_files_max(Some(40));
    put_round(&all, 0);
    session.db.flush().unwrap();
    check_all(&all, 1);
    assert!(session.db.stats().files_open <= 16);
}

/// Run by hand: `ulimit -n 1024; cargo test -p flagstone --test it thirty_thousand -- --ignored`.
#[test]
#[ignore = "minutes, and 2 GB of disk"]
fn thirty_thousand_tables_are_opened_read_scanned_and_compacted() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = Options::new().memory_budget(256 << 20);
    let open = || Database::builder(dir.path()).options(options.clone()).open().unwrap();
    let keyspaces = |db: &Database| -> Vec<Keyspace> {
        (0..120)
            .map(|n| db.space(&format!("k{n}")).options(hashed(256)).keyspace().unwrap())
            .collect()
    };
    let db = open();
    let all = keyspaces(&db);
    let keys = 2000_u32;
    for keyspace in &all {
        let mut batch = db.batch();
        (0..keys).for_each(|n| batch.put(keyspace, n.to_be_bytes(), [n as u8; 40]).unwrap());
        db.commit(batch).unwrap();
    }
    db.flush().unwrap();
    let report = |what: &str, db: &Database| {
        let (stats, status) = (db.stats(), std::fs::read_to_string("/proc/self/status").unwrap());
        let resident = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
        let (tables, open) = (stats.tables(), stats.files_open);
        eprintln!(
            "{what}: {tables} tables, {open} open, {} opened, {resident}",
            stats.files_opened
        );
    };
    report("flushed", &db);
    drop(all);
    db.close().unwrap();
    let db = open();
    let all = keyspaces(&db);
    report("opened again", &db);
    for n in (0..keys).step_by(100) {
        for keyspace in &all {
            assert_eq!(keyspace.get(n.to_be_bytes()).unwrap().as_deref(), Some(&[n as u8; 40][..]));
        }
    }
    report("read", &db);
    all.iter().for_each(|keyspace| assert_eq!(keyspace.count().unwrap(), u64::from(keys)));
    report("scanned", &db);
    db.compact().unwrap();
    report("compacted", &db);
    db.close().unwrap();
}
