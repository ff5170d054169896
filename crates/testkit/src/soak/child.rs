//! The child: fills a database, and then works on it in several lives, from opening to closing.

use super::place::{Handles, Setting, open};
use super::readers::{snapshots, upkeep};
use super::worker::{Checked, Told, Worker, failed};
use flagstone::Database;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The lengths of the lives in each third of the time, in twelfths of a third.
const LIVES: [u32; 7] = [1, 1, 2, 1, 4, 1, 2];
/// The time between two reports of the child.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// The largest space amplification when writers are idle,
const RESTED: f64 = 1.3;
/// and after a compaction.
const COMPACTED: f64 = 1.1;
/// Background work ends within this time plus the time that the live bytes take at this rate. The
/// rule is 10 s and 100 MB/s for a process that has the machine to itself.
const REST_TIME: Duration = Duration::from_secs(60);
const REST_BYTES_PER_SECOND: u64 = 20 << 20;

/// Reports to the parent, in lines.
struct Teller {
    /// The bytes of compacted tables for each live byte.
    stored: f64,
    opens: u64,
}

impl Teller {
    fn tell(&self, state: &str, told: &Told) {
        let (ops, put) = (told.ops.load(Ordering::Relaxed), told.put.load(Ordering::Relaxed));
        let alive = told.alive.load(Ordering::Relaxed) as f64 * self.stored;
        let pinned = put.saturating_sub(told.pinned_from.load(Ordering::Relaxed));
        let mut out = std::io::stdout().lock();
        // If the parent is gone, this process is killed too.
        let _gone = writeln!(out, "{state} {ops} {put} {} {pinned} {}", alive as u64, self.opens);
        let _gone = out.flush();
    }
}

/// Works on a new database in `dir`, and reports on standard output.
///
/// # Errors
/// What is wrong.
pub fn work(dir: &Path, setting: &Setting) -> Result<(), String> {
    let told = Told::default();
    told.pinned_from.store(u64::MAX, Ordering::Relaxed);
    let mut teller = Teller { stored: 1.0, opens: 0 };
    teller.tell("fills", &told);
    let mut workers: Vec<Worker> =
        (0..setting.threads).map(|at| Worker::new(at, setting)).collect();
    fill(dir, setting, &mut workers, &told, &mut teller)?;
    for third in 0..3 {
        for (at, part) in LIVES.iter().enumerate() {
            teller.opens += 1;
            teller.tell("opens", &told);
            let (db, handles) = open(dir, setting.options()).map_err(failed)?;
            for worker in &workers {
                worker.look_at_all(&db, &handles)?;
                teller.tell("opens", &told);
            }
            let time = setting.time / 36 * *part;
            let life = ChildLife {
                dir,
                setting,
                db: &db,
                handles: &handles,
                told: &told,
                teller: &teller,
            };
            life.live(&mut workers, time)?;
            if third == 2 && at + 1 == LIVES.len() {
                rest(&db, &told, &teller)?;
            }
            teller.tell("closes", &told);
            drop(handles);
            if at % 2 == 0 {
                db.close().map_err(failed)?;
            } else {
                drop(db);
            }
        }
    }
    teller.opens += 1;
    teller.tell("opens", &told);
    let (db, handles) = open(dir, setting.options()).map_err(failed)?;
    workers.iter().try_for_each(|worker| worker.look_at_all(&db, &handles))?;
    db.verify().map_err(failed)?;
    drop(handles);
    db.close().map_err(failed)?;
    teller.tell("done", &told);
    Ok(())
}

/// Writes all live data, and measures the space it takes without garbage.
fn fill(
    dir: &Path,
    setting: &Setting,
    workers: &mut [Worker],
    told: &Told,
    teller: &mut Teller,
) -> Checked {
    let (db, handles) = open(dir, setting.options()).map_err(failed)?;
    for worker in workers {
        worker.fill(&db, &handles, told)?;
        teller.tell("fills", told);
    }
    db.compact().map_err(failed)?;
    let alive = told.alive.load(Ordering::Relaxed) as f64;
    teller.stored = db.stats().table_bytes() as f64 / alive;
    drop(handles);
    db.close().map_err(failed)
}

struct ChildLife<'a> {
    dir: &'a Path,
    setting: &'a Setting,
    db: &'a Database,
    handles: &'a Handles,
    told: &'a Told,
    teller: &'a Teller,
}

impl ChildLife<'_> {
    /// Lets all threads work for `time`.
    fn live(&self, workers: &mut [Worker], time: Duration) -> Checked {
        let Self { dir, setting, db, handles, told, teller } = *self;
        told.stop.store(false, Ordering::Relaxed);
        let ops = setting.ops_per_second.div_ceil(setting.threads);
        let seed = setting.seed ^ teller.opens;
        std::thread::scope(|scope| {
            let mut threads: Vec<_> = workers
                .iter_mut()
                .map(|worker| scope.spawn(move || worker.live(db, handles, told, ops)))
                .collect();
            threads.push(scope.spawn(move || snapshots(db, handles, told, seed)));
            threads.push(scope.spawn(move || upkeep(db, dir, told, setting)));
            let since = Instant::now();
            // A thread that ends earlier has found a mistake.
            while since.elapsed() < time && !threads.iter().any(|thread| thread.is_finished()) {
                teller.tell("works", told);
                std::thread::sleep(TELL_EVERY);
            }
            told.stop.store(true, Ordering::Relaxed);
            threads.into_iter().try_for_each(|thread| match thread.join() {
                Ok(done) => done,
                Err(_panic) => Err("a thread has panicked".to_owned()),
            })
        })
    }
}

/// Asserts that after the last write the tables shrink to little more than the live data.
fn rest(db: &Database, told: &Told, teller: &Teller) -> Checked {
    db.flush().map_err(failed)?;
    let alive = told.alive.load(Ordering::Relaxed) as f64 * teller.stored;
    let took = || db.stats().table_bytes() as f64 / alive;
    let limit = REST_TIME + Duration::from_secs(alive as u64 / REST_BYTES_PER_SECOND);
    let since = Instant::now();
    while took() > RESTED {
        if since.elapsed() > limit {
            let took = took();
            return Err(format!(
                "{limit:.0?} after the last write tables take {took:.2} times what is alive"
            ));
        }
        teller.tell("rests", told);
        std::thread::sleep(TELL_EVERY);
    }
    let rested = (took(), since.elapsed());
    db.compact().map_err(failed)?;
    eprintln!(
        "at rest: {:.2} times what is alive after {:.1} s; compacted: {:.2}",
        rested.0,
        rested.1.as_secs_f64(),
        took()
    );
    if took() > COMPACTED {
        return Err(format!("compacted tables take {:.2} times what is alive", took()));
    }
    Ok(())
}
