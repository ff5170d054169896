//! Clients at the same time: what must hold in whatever order their commands take place.
//!
//! - Transfers between accounts keep the sum, which every query and every cursor sees.
//! - Writes that are sent twice, also by two connections at once, happen once.
//! - No unique value has two documents; each upsert of one value meets the same document.
//! - Each job is taken by one worker.
//! - Indexes come and go meanwhile, and change no answer.

use super::client::{Client, batch, code, count, cursor, is_ok, open};
use super::plain::number;
use bson::{Bson, Document, doc};
use flagstone_server::command::Service;
use flagstone_testkit::Rng;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

const ACCOUNTS: i32 = 12;
const EACH: i32 = 100;
const ROUNDS: usize = 60;
const JOBS: i32 = 80;

struct Shared {
    service: Arc<Service>,
    seed: u64,
    /// The increments that were acknowledged.
    added: AtomicI64,
    taken: Mutex<Vec<i32>>,
    inserted: AtomicI64,
    is_over: AtomicBool,
}

pub(super) fn run(seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let shared = Shared {
        service: open(dir.path()),
        seed,
        added: AtomicI64::new(0),
        taken: Mutex::default(),
        inserted: AtomicI64::new(0),
        is_over: AtomicBool::new(false),
    };
    let mut client = Client::new(&shared.service, 200);
    let accounts: Vec<_> =
        (0..ACCOUNTS).map(|id| doc! { "_id": id, "v": EACH, "k": id % 3 }).collect();
    client.ok(doc! { "insert": "accounts", "documents": accounts });
    let jobs: Vec<_> = (0..JOBS).map(|id| doc! { "_id": id, "state": "new", "at": -id }).collect();
    client.ok(doc! { "insert": "jobs", "documents": jobs });
    client.ok(doc! { "insert": "counters", "documents": [{ "_id": "n", "n": 0 }] });
    client.ok(doc! { "createIndexes": "unique",
    "indexes": [{ "key": { "u": 1 }, "name": "u", "unique": true }] });
    std::thread::scope(|threads| {
        let workers: Vec<_> = (0..6_u8)
            .map(|n| {
                let shared = &shared;
                let work = match n {
                    0 | 1 => transfer,
                    2 => count_up,
                    3 => take_jobs,
                    4 => fill_unique,
                    _ => look,
                };
                threads.spawn(move || work(shared, n))
            })
            .collect();
        let other =
            [threads.spawn(|| count_up(&shared, 7)), threads.spawn(|| take_jobs(&shared, 8))];
        let more = threads.spawn(|| fill_unique(&shared, 9));
        let indexes = threads.spawn(|| change_indexes(&shared, 10));
        let ended: Vec<_> =
            workers.into_iter().chain(other).chain([more]).map(|worker| worker.join()).collect();
        shared.is_over.store(true, Ordering::Release);
        indexes.join().unwrap();
        for end in ended {
            end.unwrap();
        }
    });
    check(&shared, &mut client);
    drop(client);
    let Shared { service, .. } = shared;
    service.close();
    drop(service);
    // The same after all of it was read from the log.
    let service = open(dir.path());
    assert_eq!(sum(&mut Client::new(&service, 201)), i64::from(ACCOUNTS * EACH));
}

fn random(shared: &Shared, n: u8) -> Rng {
    Rng::new(shared.seed.wrapping_mul(1000).wrapping_add(n.into()))
}

/// Returns a command as part of a transaction.
fn part(client: &Client, number: i64, mut command: Document, is_first: bool) -> Document {
    command.extend(client.numbered(number));
    command.insert("autocommit", false);
    if is_first {
        command.insert("startTransaction", true);
    }
    command
}

fn transfer(shared: &Shared, n: u8) {
    let (mut random, mut client) = (random(shared, n), Client::new(&shared.service, n));
    let mut number = 0;
    for _ in 0..ROUNDS {
        let (from, to) =
            (random.index(ACCOUNTS as usize) as i32, random.index(ACCOUNTS as usize) as i32);
        let amount = random.index(5) as i32;
        loop {
            number += 1;
            let reads = doc! { "find": "accounts", "batchSize": 100 };
            let seen = client.call(part(&client, number, reads, true));
            if code(&seen) == 175 {
                continue;
            }
            let sum: i64 = batch(&seen).iter().map(value).sum();
            assert_eq!(sum, i64::from(ACCOUNTS * EACH), "a transaction sees one state");
            let of = |id: i32, by: i32| {
                let update = doc! { "q": { "_id": id }, "u": { "$inc": { "v": by } } };
                doc! { "update": "accounts", "updates": [update] }
            };
            let (first, second) = (of(from, -amount), of(to, amount));
            let moved = [first, second].map(|change| {
                let reply = client.call(part(&client, number, change, false));
                let code = code(&reply);
                // An index was dropped, which ends the transaction.
                assert!(matches!(code, 0 | 112 | 175 | 251), "{reply}");
                is_ok(&reply)
            });
            if moved != [true; 2] {
                continue;
            }
            if random.percent(10) {
                client.ok(part(&client, number, doc! { "abortTransaction": 1 }, false));
                break;
            }
            let commit = part(&client, number, doc! { "commitTransaction": 1 }, false);
            let reply = client.call(commit.clone());
            if is_ok(&reply) {
                if random.percent(30) {
                    client.ok(commit);
                }
                break;
            }
            assert_eq!(code(&reply), 112, "{reply}");
            assert!(reply.get_array("errorLabels").is_ok(), "{reply}");
        }
    }
}

fn value(document: &Document) -> i64 {
    number(document.get("v").unwrap()).unwrap() as i64
}

/// Increments a counter by writes that are sent twice: one after the other, or by two connections
/// at once.
fn count_up(shared: &Shared, n: u8) {
    let (mut random, mut client) = (random(shared, n), Client::new(&shared.service, n));
    let mut second = Client::new(&shared.service, n);
    for number in 1..=ROUNDS as i64 {
        let by = 1 + random.index(3) as i32;
        let mut command = if random.percent(50) {
            let update = doc! { "q": { "_id": "n" }, "u": { "$inc": { "n": by } } };
            doc! { "update": "counters", "updates": [update] }
        } else {
            doc! { "findAndModify": "counters", "query": { "_id": "n" },
            "update": { "$inc": { "n": by } }, "new": true }
        };
        command.extend(client.numbered(number));
        let first = if random.percent(50) {
            let replies = std::thread::scope(|threads| {
                let again = threads.spawn(|| second.call(command.clone()));
                [client.call(command.clone()), again.join().unwrap()]
            });
            assert_eq!(replies[0], replies[1], "{command}");
            replies[0].clone()
        } else {
            client.call(command.clone())
        };
        assert!(is_ok(&first), "{first}");
        if random.percent(50) {
            assert_eq!(client.call(command.clone()), first, "{command}");
        }
        shared.added.fetch_add(by.into(), Ordering::AcqRel);
    }
}

fn take_jobs(shared: &Shared, n: u8) {
    let (mut random, mut client) = (random(shared, n), Client::new(&shared.service, n));
    let mut number = 0;
    loop {
        number += 1;
        let mut command = doc! { "findAndModify": "jobs", "query": { "state": "new" },
        "sort": { "at": 1 }, "update": { "$set": { "state": "taken", "by": i32::from(n) } } };
        command.extend(client.numbered(number));
        let reply = client.ok(command.clone());
        let Some(Bson::Document(job)) = reply.get("value") else { return };
        if random.percent(30) {
            assert_eq!(client.ok(command), reply);
        }
        shared.taken.lock().unwrap().push(job.get_i32("_id").unwrap());
    }
}

fn fill_unique(shared: &Shared, n: u8) {
    let (mut random, mut client) = (random(shared, n), Client::new(&shared.service, n));
    for round in 0..ROUNDS as i32 {
        let u = random.index(40) as i32;
        if random.percent(50) {
            // Two that upsert one value meet in one document.
            let update = doc! { "q": { "u": u }, "u": { "$inc": { "n": 1 } }, "upsert": true };
            let reply = client.ok(doc! { "update": "unique", "updates": [update] });
            assert_eq!(count(&reply, "n"), 1, "{reply}");
            if reply.get_array("upserted").is_ok() {
                shared.inserted.fetch_add(1, Ordering::AcqRel);
            }
            continue;
        }
        let id = i32::from(n) * 1000 + round;
        let reply = client.ok(doc! { "insert": "unique", "documents": [{ "_id": id, "u": u }] });
        match reply.get_array("writeErrors") {
            Ok(errors) => {
                let error = errors[0].as_document().unwrap();
                assert_eq!(code(error), 11000, "{reply}");
            }
            Err(_) => drop(shared.inserted.fetch_add(1, Ordering::AcqRel)),
        }
    }
}

fn sum(client: &mut Client) -> i64 {
    let group = doc! { "$group": { "_id": Bson::Null, "v": { "$sum": "$v" } } };
    let reply = client.ok(doc! { "aggregate": "accounts", "pipeline": [group], "cursor": {} });
    batch(&reply).iter().map(value).sum()
}

/// Sums up the accounts in several ways, by indexes that come and go.
fn look(shared: &Shared, n: u8) {
    let (mut random, mut client) = (random(shared, n), Client::new(&shared.service, n));
    let whole = i64::from(ACCOUNTS * EACH);
    for _ in 0..ROUNDS {
        assert_eq!(sum(&mut client), whole, "a pipeline reads one state");
        let mut find = doc! { "find": "accounts", "batchSize": 1 + random.index(4) as i32,
        "filter": { "k": { "$gte": 0 } } };
        match random.index(3) {
            0 => drop(find.insert("sort", doc! { "v": 1 })),
            1 => drop(find.insert("hint", *random.pick(&["v", "k", "_id_"]))),
            _ => {}
        }
        let mut reply = client.call(find.clone());
        // Of one that was chosen by its name, or that a cursor had begun to read.
        assert!(is_ok(&reply) || find.contains_key("hint"), "{reply}");
        let mut all: i64 = 0;
        let mut documents = 0;
        loop {
            if !is_ok(&reply) {
                assert!(matches!(code(&reply), 2 | 175), "{reply}");
                break;
            }
            all += batch(&reply).iter().map(value).sum::<i64>();
            documents += batch(&reply).len() as i32;
            let Some(id) = cursor(&reply) else {
                assert_eq!((all, documents), (whole, ACCOUNTS), "a cursor reads one state: {find}");
                break;
            };
            reply = client.call(doc! { "getMore": id, "collection": "accounts", "batchSize": 3 });
        }
    }
}

fn change_indexes(shared: &Shared, n: u8) {
    let (mut random, mut client) = (random(shared, n), Client::new(&shared.service, n));
    while !shared.is_over.load(Ordering::Acquire) {
        let field = *random.pick(&["v", "k"]);
        let index = doc! { "key": { field: 1 }, "name": field };
        let create = doc! { "createIndexes": "accounts", "indexes": [index] };
        client.ok(create);
        std::thread::sleep(std::time::Duration::from_millis(random.below(5)));
        let drop = doc! { "dropIndexes": "accounts", "index": field };
        client.ok(drop);
    }
}

fn check(shared: &Shared, client: &mut Client) {
    assert_eq!(sum(client), i64::from(ACCOUNTS * EACH));
    let counters = client.all(doc! { "find": "counters" });
    let n = number(counters[0].get("n").unwrap()).unwrap() as i64;
    assert_eq!(n, shared.added.load(Ordering::Acquire), "each write happened once");
    let mut taken = shared.taken.lock().unwrap().clone();
    taken.sort_unstable();
    assert_eq!(taken, (0..JOBS).collect::<Vec<_>>(), "each job was taken once");
    let documents = client.all(doc! { "find": "unique" });
    let values: BTreeSet<_> = documents.iter().map(|one| one.get_i32("u").unwrap()).collect();
    assert_eq!(values.len(), documents.len(), "unique values");
    assert_eq!(documents.len() as i64, shared.inserted.load(Ordering::Acquire));
    for name in ["accounts", "jobs", "counters", "unique"] {
        let reply = client.ok(doc! { "validate": name });
        assert!(reply.get_bool("valid").unwrap(), "{reply}");
    }
}
