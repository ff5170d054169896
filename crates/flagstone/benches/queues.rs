//! The cost of a job of a queue, by the kind of the queue and the number of jobs.
//!
//! `cargo bench -p flagstone --bench queues [-- KIND .. JOBS ..]` prints microseconds of wall time
//! per job. A job is taken from the queue and removed; in `index` it gets another state, so that it
//! leaves the range of the index that the consumer asks for.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::panic,
    reason = "a benchmark: what it prints is its result, and a panic is a report"
)]

use flagstone::{Collection, Database, Index, Json, Keyspace, Patch, Prefix, Space};
use std::time::Instant;

const KINDS: [&str; 7] = ["front", "back", "flow", "consumers", "tenants", "snapshot", "index"];
const JOBS: [u64; 4] = [1000, 10_000, 100_000, 1_000_000];
/// The jobs that wait in `flow`.
const WAITING: u64 = 1000;
/// The queues of `tenants`.
const TENANTS: u64 = 1000;
const VALUE: [u8; 100] = [7; 100];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|w| !w.starts_with("--")).collect();
    let mut jobs: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if jobs.is_empty() {
        jobs = JOBS.to_vec();
    }
    let is_wanted = |kind: &&str| {
        let mut kinds = words.iter().filter(|word| word.parse::<u64>().is_err()).peekable();
        kinds.peek().is_none() || kinds.any(|word| word == kind)
    };
    let head: Vec<String> = jobs.iter().map(|n| format!("{n:>9}")).collect();
    println!("us a job   {}", head.join(" "));
    for kind in KINDS.into_iter().filter(is_wanted) {
        let costs: Vec<String> = jobs.iter().map(|&n| format!("{:9.2}", cost(kind, n))).collect();
        println!("{kind:<10} {}", costs.join(" "));
    }
}

/// Microseconds a job.
fn cost(kind: &str, jobs: u64) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("queue")).unwrap();
    let queue = db.keyspace("queue").unwrap();
    let documents = db.collection("jobs").unwrap();
    match kind {
        "index" => {
            documents.create_index("due", Index::on("state").then("at")).unwrap();
            let job = |n| format!(r#"{{"state":"new","at":{n}}}"#);
            (0..jobs).for_each(|n| documents.put(n, Json(job(n))).unwrap());
        }
        "flow" => (0..WAITING).for_each(|n| queue.put(n.to_be_bytes(), VALUE).unwrap()),
        "tenants" => (0..jobs).for_each(|n| queue.put(of_tenant(n), VALUE).unwrap()),
        _ => (0..jobs).for_each(|n| queue.put(n.to_be_bytes(), VALUE).unwrap()),
    }
    let snapshot = (kind == "snapshot").then(|| db.snapshot());
    let began = Instant::now();
    match kind {
        "front" | "snapshot" => (0..jobs).for_each(|_| assert!(take(&queue))),
        "back" => (0..jobs).for_each(|_| {
            let mut scan = queue.scan(..).rev();
            assert!(scan.advance().unwrap());
            queue.delete(scan.key()).unwrap();
        }),
        "flow" => (0..jobs).for_each(|n| {
            assert!(take(&queue));
            queue.put((n + WAITING).to_be_bytes(), VALUE).unwrap();
        }),
        "consumers" => std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| while take(&queue) {});
            }
        }),
        "tenants" => (0..jobs).for_each(|n| {
            let mut scan = queue.scan(Prefix((n % TENANTS).to_be_bytes()));
            assert!(scan.advance().unwrap());
            queue.delete(scan.key()).unwrap();
        }),
        "index" => {
            let done = Patch::new().set("state", "done");
            (0..jobs).for_each(|_| claim(&documents, &done));
        }
        other => panic!("no kind of queue is called {other}"),
    }
    let seconds = began.elapsed().as_secs_f64();
    drop(snapshot);
    seconds * 1e6 / jobs as f64
}

fn of_tenant(n: u64) -> Vec<u8> {
    [(n % TENANTS).to_be_bytes(), n.to_be_bytes()].concat()
}

/// Takes the first job. Returns false if there is none.
fn take(queue: &Keyspace) -> bool {
    loop {
        let mut scan = queue.scan(..);
        if !scan.advance().unwrap() {
            return false;
        }
        if queue.remove(scan.key()).unwrap() {
            return true;
        }
    }
}

fn claim(documents: &Collection, done: &Patch) {
    let due = documents.find(r#"{"state":"new"}"#).sort("at").limit(1);
    let (key, _document) = due.run().unwrap().next().unwrap().unwrap();
    documents.patch(key, done).unwrap();
}
