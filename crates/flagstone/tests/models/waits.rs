//! Who waits is woken: background work runs in a thread of its own, and waits end by a notification
//! alone, not by their time limit. A wake-up that is lost blocks all threads, which ends a
//! schedule.

use crate::commits::{hashed, options};
use crate::explore::{explore, open_with};
use flagstone::codec::Serde;
use flagstone::internal::env::executor::Job;
use flagstone::internal::env::sync::shuttle::thread::{self, JoinHandle};
use flagstone::internal::env::sync::{Condvar, Mutex, let_waits_last};
use flagstone::internal::env::{Executor, Lane, Progress};
use flagstone::{Database, Durability, ErrorKind, Expires, Keyspace, Moment, Space, Typed};
use flagstone_testkit::World;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Longer than any delay of a writer, shorter than every "look again".
const LASTS_FROM: Duration = Duration::from_millis(5);
const SHARE: u64 = 2 << 20;
/// What memtables take besides large values, each of which has memory of its own.
const BESIDES: u64 = 64 << 10;

/// One thread that does all background work. No time passes: delayed jobs never run.
#[derive(Default)]
struct Worker {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    queue: VecDeque<Job>,
    is_running: bool,
    is_closed: bool,
}

impl Worker {
    fn work(&self) {
        while let Some(mut job) = self.next() {
            let is_done = job() == Progress::Done;
            let mut jobs = self.jobs.lock();
            jobs.is_running = false;
            self.changed.notify_all();
            if !is_done && !jobs.is_closed {
                jobs.queue.push_back(job);
            } else {
                drop(jobs);
                drop(job);
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        while !jobs.is_closed {
            if let Some(job) = jobs.queue.pop_front() {
                jobs.is_running = true;
                return Some(job);
            }
            self.changed.wait(&mut jobs);
        }
        None
    }
}

impl Executor for Worker {
    fn submit(&self, _lane: Lane, job: Job) {
        let mut jobs = self.jobs.lock();
        if !jobs.is_closed {
            jobs.queue.push_back(job);
            self.changed.notify_all();
        }
    }

    fn submit_after(&self, _delay: Duration, _lane: Lane, _job: Job) {}

    fn assist(&self) -> bool {
        false
    }

    fn workers(&self, _lane: Lane) -> usize {
        1
    }

    fn shut_down(&self) {
        let mut jobs = self.jobs.lock();
        jobs.is_closed = true;
        let dropped = std::mem::take(&mut jobs.queue);
        self.changed.notify_all();
        while jobs.is_running {
            self.changed.wait(&mut jobs);
        }
        drop(jobs);
        drop(dropped);
    }
}

/// A database whose background work a thread does until it is closed.
fn open() -> (Database, JoinHandle<()>) {
    let_waits_last(LASTS_FROM);
    let worker = Arc::new(Worker::default());
    let mut options = options(Durability::Buffered);
    options.memory_budget = 2 * SHARE;
    let db = open_with(&World::new(1), options, Arc::<Worker>::clone(&worker) as _);
    (db, thread::spawn(move || worker.work()))
}

type Write = fn(&Typed<u64, Vec<u8>>);

/// Each of `writes` twice, by a thread of its own, while memtables never hold more than `most`.
fn write_beside_each_other(writes: &[Write], most: u64) {
    let (db, worker) = open();
    let typed = db.space("t").options(hashed(1)).typed_codec::<u64, Vec<u8>, Serde>().unwrap();
    let spawn = |write: Write| {
        let (db, typed) = (db.clone(), typed.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                write(&typed);
                let held = db.stats().memtable_bytes;
                assert!(held <= most + BESIDES, "{held}");
            }
        })
    };
    let threads: Vec<_> = writes.iter().copied().map(spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(typed);
    db.close().unwrap();
    worker.join().unwrap();
}

/// Not all of them fit at a time: they wait for flushes and for each other.
#[test]
fn large_puts_wait_for_their_turns_and_none_for_ever() {
    explore("large_puts_wait_for_their_turns_and_none_for_ever", || {
        let writes: [Write; 3] = [
            |typed| typed.put(&1, &vec![1; 800 << 10]).unwrap(),
            |typed| typed.put(&2, &vec![2; 600 << 10]).unwrap(),
            |typed| typed.put(&3, &vec![3; 1000 << 10]).unwrap(),
        ];
        write_beside_each_other(&writes, SHARE);
    });
}

#[test]
fn large_updates_wait_for_their_turns_and_none_for_ever() {
    explore("large_updates_wait_for_their_turns_and_none_for_ever", || {
        let writes: [Write; 3] = [
            |typed| typed.update(&1, |_| Some(vec![1; 800 << 10])).map(drop).unwrap(),
            |typed| typed.update(&2, |_| Some(vec![2; 600 << 10])).map(drop).unwrap(),
            |typed| typed.update(&3, |_| Some(vec![3; 1000 << 10])).map(drop).unwrap(),
        ];
        write_beside_each_other(&writes, SHARE);
    });
}

/// An update that holds the key of a put that was admitted does not wait for that.
#[test]
fn large_puts_and_updates_of_one_key_do_not_wait_for_each_other() {
    explore("large_puts_and_updates_of_one_key_do_not_wait_for_each_other", || {
        let writes: [Write; 3] = [
            |typed| typed.put(&1, &vec![1; 800 << 10]).unwrap(),
            |typed| typed.update(&1, |_| Some(vec![2; 600 << 10])).map(drop).unwrap(),
            |typed| typed.update(&1, |_| Some(vec![3; 1000 << 10])).map(drop).unwrap(),
        ];
        write_beside_each_other(&writes, 2 * SHARE);
    });
}

/// Where entries expire, merges become large values under the lock of their key. They release it
/// and start again if there is no room for them.
#[test]
fn large_puts_and_merges_of_one_key_do_not_wait_for_each_other() {
    explore("large_puts_and_merges_of_one_key_do_not_wait_for_each_other", || {
        let (db, worker) = open();
        let kv = db.space("kv").options(hashed(1).fold("append/1")).keyspace().unwrap();
        let expiring = Moment::MAX;
        kv.put("a", vec![0; 700 << 10].expires(expiring)).unwrap();
        let spawn = |write: fn(&Keyspace)| {
            let (db, kv) = (db.clone(), kv.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    write(&kv);
                    let held = db.stats().memtable_bytes;
                    assert!(held <= SHARE + BESIDES, "{held}");
                }
            })
        };
        let threads = [
            spawn(|kv| kv.merge("a", "x").unwrap()),
            spawn(|kv| kv.merge("a", "x").unwrap()),
            spawn(|kv| kv.put("a", vec![1; 900 << 10]).unwrap()),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let len = kv.get("a").unwrap().unwrap().len();
        assert!((900 << 10..=(900 << 10) + 4).contains(&len), "{len}");
        drop(kv);
        db.close().unwrap();
        worker.join().unwrap();
    });
}

/// Those who flush, and those who wait for memory, hear of the end of each flush and of a close.
#[test]
fn flushes_and_a_close_wake_all_who_wait_for_them() {
    explore("flushes_and_a_close_wake_all_who_wait_for_them", || {
        let (db, worker) = open();
        let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
        let spawn = |work: fn(&Database, &Keyspace) -> flagstone::Result<()>| {
            let (db, kv) = (db.clone(), kv.clone());
            thread::spawn(move || {
                for _ in 0..3 {
                    if let Err(error) = work(&db, &kv) {
                        assert_eq!(error.kind(), ErrorKind::Closed);
                    }
                }
            })
        };
        let threads = [
            spawn(|_, kv| kv.put("a", vec![1; 1000 << 10])),
            spawn(|_, kv| kv.put("b", [2; 100])),
            spawn(|db, _| db.flush()),
        ];
        thread::yield_now();
        db.clone().close().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop((kv, db));
        worker.join().unwrap();
    });
}

/// A keyspace is dropped while its memtables are full: writers of another one get the room.
#[test]
fn the_room_of_a_dropped_keyspace_wakes_writers() {
    explore("the_room_of_a_dropped_keyspace_wakes_writers", || {
        let (db, worker) = open();
        let [kept, dropped] =
            ["kept", "dropped"].map(|name| db.space(name).options(hashed(1)).keyspace());
        let (kept, dropped) = (kept.unwrap(), dropped.unwrap());
        dropped.put("a", vec![1; 800 << 10]).unwrap();
        let writer = thread::spawn(move || {
            for _ in 0..3 {
                kept.put("a", vec![1; 800 << 10]).unwrap();
            }
        });
        assert!(db.drop_keyspace("dropped").unwrap());
        writer.join().unwrap();
        drop(dropped);
        db.close().unwrap();
        worker.join().unwrap();
    });
}
