//! Histories of conditional updates by several processes fit one order of all calls.
//!
//! A write whose outcome is unknown may have happened or not. If its value is seen, it has, at some
//! time after its begin; if not, nothing tells.

use crate::support::{calm, connect};
use flagstone::{Collection, DocumentMut, ErrorKind, Json, Space};
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::{Faults, Mem};
use flagstone_testkit::linear::{Call, Op, check};
use flagstone_testkit::{Rng, rounds, seed};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: u64 = 6;
/// The time of a return that never came.
const NEVER: u64 = u64::MAX;

#[derive(Default)]
struct Shared {
    time: AtomicU64,
    values: AtomicU64,
}

impl Shared {
    fn now(&self) -> u64 {
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    fn fresh(&self) -> u64 {
        self.values.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// One thread of one process.
struct Caller<'a> {
    documents: Collection,
    shared: &'a Shared,
    rng: Rng,
    calls: Vec<Call>,
    /// Calls of unknown outcome. A removal has no value that could be seen.
    unknown: Vec<Call>,
}

fn value_of(documents: &Collection, key: u64) -> flagstone::Result<Option<u64>> {
    Ok(documents.get(key)?.map(|document| document.int("v").unwrap() as u64))
}

impl Caller<'_> {
    fn note(&mut self, key: u64, op: Op, from: u64) {
        let time = (from, self.shared.now());
        self.calls.push(Call { key, op, time });
    }

    /// Notes a write that has happened, has not, or is unknown.
    fn note_write<T>(&mut self, key: u64, op: Op, from: u64, written: flagstone::Result<T>) {
        match written.map_err(|error| error.kind()) {
            Ok(_) => self.note(key, op, from),
            Err(ErrorKind::Unknown) => self.unknown.push(Call { key, op, time: (from, NEVER) }),
            Err(kind) => assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Conflict)),
        }
    }

    fn run(mut self, calls: u64) -> (Vec<Call>, Vec<Call>) {
        for _ in 0..calls {
            let (key, from) = (self.rng.below(KEYS), self.shared.now());
            match self.rng.below(100) {
                0..=19 => {
                    let value = self.shared.fresh();
                    let put = self.documents.put(key, Json(format!(r#"{{"v":{value}}}"#)));
                    self.note_write(key, Op::Put(value), from, put);
                }
                20..=27 => {
                    let removed = self.documents.delete(key);
                    self.note_write(key, Op::Delete, from, removed);
                }
                28..=49 => {
                    if let Ok(found) = value_of(&self.documents, key) {
                        self.note(key, Op::Get(found), from);
                    }
                }
                _ => self.swap(key, from),
            }
        }
        (self.calls, self.unknown)
    }

    /// Reads a value, and sets another if it is still there when the update comes.
    fn swap(&mut self, key: u64, read_from: u64) {
        let Ok(expected) = value_of(&self.documents, key) else { return };
        self.note(key, Op::Get(expected), read_from);
        let (from, new) = (self.shared.now(), self.shared.fresh());
        let mut seen = None;
        let updated = self.documents.update(key, |document: &mut DocumentMut| {
            seen = document.int("v").map(|v| v as u64);
            if seen == expected { document.set("v", new).map(drop) } else { Ok(()) }
        });
        match updated {
            // There was no document, whatever was expected.
            Ok(false) => self.note(key, Op::Get(None), from),
            Ok(true) if seen != expected => self.note(key, Op::Get(seen), from),
            updated => {
                self.note_write(key, Op::Swap { expected, new, is_done: true }, from, updated);
            }
        }
    }
}

/// The values that calls have seen.
fn seen(calls: &[Call]) -> HashSet<u64> {
    let value = |call: &Call| match call.op {
        Op::Get(value) | Op::Swap { expected: value, .. } => value,
        Op::Put(_) | Op::Delete => None,
    };
    calls.iter().filter_map(value).collect()
}

/// Lets four threads of two processes call, and checks what they have seen. `calm` ends all faults.
pub(crate) fn history(clusters: &[Cluster; 2], seed: u64, calls: u64, calm: impl FnOnce()) {
    let shared = Shared::default();
    let (mut done, mut unknown) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let cluster = &clusters[thread as usize % 2];
                let (shared, rng) = (&shared, Rng::new(seed ^ (thread << 32)));
                scope.spawn(move || {
                    let documents = loop {
                        if let Ok(documents) = cluster.collection("c") {
                            break documents;
                        }
                    };
                    let (calls_of, unknown) = (Vec::new(), Vec::new());
                    Caller { documents, shared, rng, calls: calls_of, unknown }.run(calls)
                })
            })
            .collect();
        for thread in threads {
            let (calls, unknown_of) = thread.join().unwrap();
            done.extend(calls);
            unknown.extend(unknown_of);
        }
    });
    calm();
    let documents = clusters[0].collection("c").unwrap();
    for key in 0..KEYS {
        let from = shared.now();
        let op = Op::Get(value_of(&documents, key).unwrap());
        done.push(Call { key, op, time: (from, shared.now()) });
    }
    // An unknown removal may explain anything.
    let removals: HashSet<u64> =
        unknown.iter().filter(|call| call.op == Op::Delete).map(|call| call.key).collect();
    done.retain(|call| !removals.contains(&call.key));
    let mut left: Vec<Call> =
        unknown.into_iter().filter(|call| !removals.contains(&call.key)).collect();
    // What is seen has happened, and has seen what it expected.
    loop {
        let seen = seen(&done);
        let happened = |call: &Call| match call.op {
            Op::Put(new) | Op::Swap { new, .. } => seen.contains(&new),
            Op::Get(_) | Op::Delete => false,
        };
        let (more, rest): (Vec<Call>, Vec<Call>) = left.into_iter().partition(happened);
        left = rest;
        if more.is_empty() {
            break;
        }
        done.extend(more);
    }
    check(&done).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
}

#[test]
fn conditional_updates_of_two_processes_are_linearizable() {
    let first = seed("conditional_updates_of_two_processes_are_linearizable", 1);
    for round in 0..rounds(12, 300) {
        let seed = first + round;
        let mem = Arc::new(Mem::with_faults(seed, Faults::default()));
        let clusters = [connect(&mem), connect(&mem)];
        clusters.iter().for_each(|cluster| drop(cluster.collection("c").unwrap()));
        mem.set_faults(Faults::MANY);
        history(&clusters, seed, 50, || calm(&mem));
    }
}
