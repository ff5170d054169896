//! Real kill -9: a child process writes and acknowledges over a pipe, is killed in the middle, and
//! its database is opened and compared.
//!
//! The child is this very test binary, told by an environment variable to be it.

use crate::support::hashed;
use flagstone::{Database, Durability, Keyspace, Options, Space};
use flagstone_testkit::{Rng, rounds, seed};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const DIR: &str = "FLAGSTONE_TEST_CHILD_DIR";
const DURABILITY: &str = "FLAGSTONE_TEST_CHILD_DURABILITY";
const FIRST: &str = "FLAGSTONE_TEST_CHILD_FIRST";

fn open(dir: &Path, durability: Durability) -> (Database, Keyspace, Keyspace) {
    let options = Options::new().memory_budget(2 << 20).durability(durability);
    let db = Database::builder(dir).options(options).open().unwrap();
    let (a, b) =
        (db.space("a").options(hashed(4)).keyspace(), db.space("b").options(hashed(2)).keyspace());
    (db, a.unwrap(), b.unwrap())
}

fn value(n: u64) -> Vec<u8> {
    Rng::new(n).bytes(100 + (n % 900) as usize)
}

/// Batch `n`: a key of its own in both keyspaces, the one of batch n - 10 removed from one, and a
/// counter in the other.
fn write(db: &Database, a: &Keyspace, b: &Keyspace, n: u64) {
    let mut batch = db.batch();
    batch.put(a, n.to_be_bytes(), value(n)).unwrap();
    batch.put(b, n.to_be_bytes(), value(n)).unwrap();
    if n >= 10 {
        batch.delete(b, (n - 10).to_be_bytes()).unwrap();
    }
    batch.put(a, "counter", n.to_be_bytes()).unwrap();
    db.commit(batch).unwrap();
}

#[test]
fn the_child_of_the_kill_tests() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let durability = match std::env::var(DURABILITY).as_deref() {
        Ok("group") => Durability::Group,
        Ok("none") => Durability::None,
        _ => Durability::Buffered,
    };
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let (db, a, b) = open(Path::new(&dir), durability);
    let mut out = std::io::stdout().lock();
    for n in first.. {
        write(&db, &a, &b, n);
        if durability != Durability::None {
            writeln!(out, "ack {n}").unwrap();
        } else if n % 500 == 499 {
            db.flush().unwrap();
            writeln!(out, "ack {n}").unwrap();
        }
        out.flush().unwrap();
    }
}

/// Starts a child and kills it after `acks` acknowledgements. Returns the last one that was heard.
fn kill_after(dir: &Path, durability: &str, first: u64, acks: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["kill::the_child_of_the_kill_tests", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(DURABILITY, durability)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    let mut heard = 0;
    let ack = |line: &str| line.split("ack ").nth(1).and_then(|n| n.trim().parse().ok());
    while heard < acks {
        let line = lines.next().expect("the child lives").unwrap();
        if let Some(n) = ack(&line) {
            last = Some(n);
            heard += 1;
        }
    }
    // SIGKILL on Unix.
    child.kill().unwrap();
    child.wait().unwrap();
    // What was acknowledged before the signal arrived.
    for line in lines.map_while(Result::ok) {
        last = ack(&line).or(last);
    }
    last.unwrap()
}

/// What is there is the result of the first n batches, for one n that is returned.
fn check(dir: &Path, durability: Durability, acknowledged: u64) -> u64 {
    let (db, a, b) = open(dir, durability);
    let counter = a.get("counter").unwrap().expect("something was acknowledged");
    let last = u64::from_be_bytes(counter[..].try_into().unwrap());
    assert!(last >= acknowledged, "{acknowledged} was acknowledged, {last} is the last there");
    assert_eq!(a.count().unwrap(), last + 2);
    assert_eq!(b.count().unwrap(), (last + 1).min(10));
    for n in 0..=last {
        assert_eq!(a.get(n.to_be_bytes()).unwrap().unwrap(), value(n), "batch {n}");
        let in_b = b.get(n.to_be_bytes()).unwrap();
        assert_eq!(in_b.is_some(), n + 10 > last, "batch {n} is whole");
    }
    db.verify().unwrap();
    db.close().unwrap();
    last
}

fn kill_again_and_again(name: &str, durability: Durability, text: &str, acks: u64) {
    let mut rng = Rng::new(seed(name, 1));
    let dir = tempfile::tempdir().unwrap();
    let mut next = 0;
    for _ in 0..rounds(3, 30) {
        let acknowledged = kill_after(dir.path(), text, next, 1 + rng.below(acks));
        next = check(dir.path(), durability, acknowledged) + 1;
    }
}

#[test]
fn kill_9_loses_no_buffered_commit() {
    kill_again_and_again("kill_9_loses_no_buffered_commit", Durability::Buffered, "buffered", 4000);
}

#[test]
fn kill_9_loses_no_group_commit() {
    kill_again_and_again("kill_9_loses_no_group_commit", Durability::Group, "group", 300);
}

#[test]
fn kill_9_keeps_a_whole_cut_of_unlogged_commits() {
    let name = "kill_9_keeps_a_whole_cut_of_unlogged_commits";
    kill_again_and_again(name, Durability::None, "none", 5);
}
