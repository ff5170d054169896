//! A database in the child of a fork.
//!
//! The child loses the lock of its parent, and has none of its threads. It used to write on: while
//! it appended to the log, another process could open the database. And a child that dropped its
//! last handle closed the database: it wrote a manifest that says so, and removed the log of its
//! parent, which was still at work.
//!
//! Nor may it open another database, which the guides advised: the locks of all databases share a
//! list of waiting threads, and the threads of its parent were still in the child's copy, at
//! addresses that the child used again. Children crashed, or waited for ever. After the parent had
//! closed its database a child gave its first large table to a thread that was resting in the
//! parent, and waited for ever, too.
//!
//! Only a program of its own may fork: this very test binary, told by an environment variable.

use crate::support::hashed;
use flagstone::{Database, Durability, ErrorKind, Keyspace, Options, Space};
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const DIR: &str = "FLAGSTONE_TEST_FORK_DIR";
const DURABILITIES: [(&str, Durability); 3] =
    [("none", Durability::None), ("buffered", Durability::Buffered), ("group", Durability::Group)];

fn open(dir: &Path, durability: Durability) -> (Database, Keyspace) {
    let options = Options::new().memory_budget(4 << 20).durability(durability);
    let db = Database::builder(dir).options(options).open().unwrap();
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    (db, kv)
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let read = |entry: &fs::DirEntry| fs::read(entry.path()).unwrap();
    entries.map(|entry| (entry.file_name().into_string().unwrap(), read(&entry))).collect()
}

/// Runs `work` in a forked child and returns whether it did not panic, and ended in time.
#[expect(unsafe_code, reason = "a fork")]
fn is_good_in_child(work: impl FnOnce()) -> bool {
    // SAFETY: the child runs `work` alone and ends without a return from the test.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        // SAFETY: the call takes an integer only.
        unsafe { libc::alarm(60) };
        let is_good = catch_unwind(AssertUnwindSafe(work)).is_ok();
        // SAFETY: as above, and the call does not return.
        unsafe { libc::_exit(i32::from(!is_good)) }
    }
    let mut status = -1;
    // SAFETY: the pointer is valid for the call.
    let ended = unsafe { libc::waitpid(forked, &raw mut status, 0) };
    ended == forked && status == 0
}

fn assert_forked(result: flagstone::Result<()>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forked);
    let text = error.to_string();
    assert!(text.contains("this process was forked"), "{text}");
}

/// Runs the test `name` in a process of its own, which finds `dir` in its environment.
fn run_apart(name: &str, dir: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    let output = child.env(DIR, dir).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// Writes tables that are large enough to be written by another thread, and closes.
fn fill(dir: &Path) -> flagstone::Result<()> {
    let options = Options::new().memory_budget(4 << 20);
    let db = Database::builder(dir).options(options).open()?;
    let kv = db.keyspace("kv")?;
    for round in 0..4_u8 {
        for key in 0..500_u16 {
            kv.put(key.to_be_bytes(), [round; 1000])?;
        }
        db.flush()?;
    }
    db.compact()?;
    assert_eq!(kv.get(7_u16.to_be_bytes())?.as_deref(), Some(&[3; 1000][..]));
    db.close()
}

#[test]
fn a_forked_child_opens_a_database_only_if_its_parent_had_none_open() {
    let Some(outer) = std::env::var_os(DIR) else {
        let outer = tempfile::tempdir().unwrap();
        let name = "forks::a_forked_child_opens_a_database_only_if_its_parent_had_none_open";
        return run_apart(name, outer.path());
    };
    let dir = |name: &str| Path::new(&outer).join(name);
    let (db, kv) = open(&dir("parent"), Durability::Buffered);
    kv.put("a", "1").unwrap();
    assert!(is_good_in_child(|| {
        assert_forked(fill(&dir("child")));
        assert_forked(Database::builder(dir("parent")).open_read_only().map(drop));
        // Its own children cannot, either.
        assert!(is_good_in_child(|| assert_forked(fill(&dir("grandchild")))));
    }));
    assert!(!dir("child").join("LOCK").exists());
    kv.put("b", "2").unwrap();
    db.close().unwrap();
    // A handle that is left of a closed database does not count.
    for round in 0..3 {
        fill(&dir("parent again")).unwrap();
        assert!(is_good_in_child(|| fill(&dir(&format!("child {round}"))).unwrap()), "{round}");
    }
    drop(kv);
}

#[test]
fn a_forked_child_changes_nothing_and_its_parent_goes_on() {
    let Some(outer) = std::env::var_os(DIR) else {
        let outer = tempfile::tempdir().unwrap();
        let name = "forks::a_forked_child_changes_nothing_and_its_parent_goes_on";
        run_apart(name, outer.path());
        // The parent ended without a close.
        for (name, durability) in DURABILITIES.into_iter().skip(1) {
            let (db, kv) = open(&outer.path().join(name), durability);
            let found = [&b"a"[..], b"b", b"c", b"d"].map(|key| kv.get(key).unwrap().is_some());
            assert_eq!(found, [true, true, true, false], "{name}");
            db.verify().unwrap();
        }
        return;
    };
    for (name, durability) in DURABILITIES {
        let dir = Path::new(&outer).join(name);
        let (db, kv) = open(&dir, durability);
        kv.put("a", "in a table").unwrap();
        db.flush().unwrap();
        kv.put("b", "in memory").unwrap();
        // The threads of the database come to rest, so that none holds a lock at the fork.
        std::thread::sleep(Duration::from_millis(300));
        let before = contents(&dir);
        let (db_of_child, kv_of_child) = (db.clone(), kv.clone());
        let parents = (db, kv);
        let mut handles = Some((parents, db_of_child, kv_of_child));
        assert!(is_good_in_child(|| {
            let ((db, kv), second, _) = handles.take().unwrap();
            assert_eq!(kv.get("a").unwrap().as_deref(), Some(&b"in a table"[..]));
            assert_forked(kv.put("d", "of the child"));
            assert_forked(db.flush());
            assert_forked(db.sync());
            assert_forked(db.keyspace("other").map(drop));
            assert_forked(second.close());
            // All of them: the last one would close the database.
            drop((kv, db));
            assert_forked(Database::open(&dir).map(drop));
        }));
        assert!(is_good_in_child(|| drop(handles.take())));
        assert_eq!(contents(&dir), before, "{name}");
        let ((db, kv), ..) = handles.take().unwrap();
        kv.put("c", "after the forks").unwrap();
        db.sync().unwrap();
        std::mem::forget((db, kv));
    }
}
