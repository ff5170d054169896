//! The child: works on a database until it is killed.

use super::batch::{Left, SLOTS, Source, StressHandles, Window, count_key, fill, key};
use super::ledger::Ledger;
use super::place::{ACCOUNTS, Mode, TOTAL, account, draw_options, handles, number};
use crate::rng::Rng;
use flagstone::{Batch, Database, Durability, Error, ErrorKind, Expect, Moment, Slice, Space};
use flagstone_base::hash::remix;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The state of one life.
struct Child {
    db: Database,
    handles: StressHandles,
    dir: PathBuf,
    source: Source,
    mode: Mode,
    unlogged: bool,
    /// The number of acknowledged batches of each thread. They are in the log, if there is one.
    done: Vec<AtomicU64>,
}

/// The exit code of a child whose disk is gone.
const GONE: i32 = 5;
/// The exit code of a child whose database is poisoned.
const POISONED: i32 = 4;
/// The exit code of a child that found a mistake.
const WRONG: i32 = 3;

/// The seeds of a child.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// The seed of the batches.
    pub batches: u64,
    /// The milliseconds since 1970 after which their entries expire; 0: nothing expires.
    pub created: u64,
    /// The seed of everything else.
    pub life: u64,
}

/// Works on the database in `dir` with `threads` threads, and keeps ledgers in `ledger`. Returns,
/// with an exit code, only if the disk is gone.
pub fn work(dir: &Path, ledger: &Path, threads: usize, seeds: Seeds, mode: &str) -> i32 {
    let mode = Mode::of(mode);
    let created = (seeds.created > 0).then_some(Moment::from_millis(seeds.created));
    let source = Source { seed: seeds.batches, created };
    let mut rng = Rng::new(remix(seeds.life));
    let options = draw_options(&mut rng, mode);
    let opened = Database::builder(dir).options(options).open();
    let opened = opened.and_then(|db| handles(&db).map(|handles| (db, handles)));
    let counted = opened.and_then(|(db, handles)| {
        let count = |thread| Ok(number(handles.sums.get(count_key(thread))?) as u64);
        let counts = (0..threads).map(count).collect::<flagstone::Result<Vec<_>>>()?;
        Ok((db, handles, counts))
    });
    let (db, handles, counts) = match counted {
        Ok(counted) => counted,
        Err(error) => return ended(mode, &error, &mut Ledger::open(ledger, 0).unwrap()),
    };
    let unlogged = rng.percent(15);
    let done = counts.into_iter().map(AtomicU64::new).collect();
    let child = Child { db, handles, dir: dir.to_owned(), source, mode, unlogged, done };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (child, seed) = (&child, rng.number());
            let ledger = Ledger::open(ledger, thread).unwrap();
            scope.spawn(move || {
                let code = child.thread(thread, &mut Rng::new(seed), ledger);
                std::process::exit(code);
            });
        }
    });
    0
}

/// Returns the exit code after an error that ends the child.
fn ended(mode: Mode, error: &Error, ledger: &mut Ledger) -> i32 {
    let is_expected = mode != Mode::Kill;
    match error.kind() {
        ErrorKind::Poisoned if is_expected => POISONED,
        ErrorKind::Io | ErrorKind::OutOfSpace if is_expected => GONE,
        _ => {
            ledger.wrong(&format!("{error:?}"));
            WRONG
        }
    }
}

impl Child {
    fn thread(&self, thread: usize, rng: &mut Rng, mut ledger: Ledger) -> i32 {
        let mut left = Left::default();
        for _ in 0..self.done[thread].load(Ordering::Relaxed) {
            left.apply(self.source, thread);
        }
        if self.unlogged {
            ledger.unlogged();
        }
        loop {
            let done = match rng.below(100) {
                0..=84 => self.batch(thread, rng, &mut left, &mut ledger),
                85..=92 => self.transfer(rng, &mut ledger),
                93..=95 => self.look(thread, rng, &left, &mut ledger),
                96 => self.look_at_bank(&mut ledger),
                97..=98 => self.save(thread, rng, &mut ledger),
                _ => self.upkeep(thread, rng),
            };
            let Err(error) = done else { continue };
            match error.kind() {
                ErrorKind::Busy => {}
                // The commit was refused, so nothing happened: the child tries again when there is
                // room.
                ErrorKind::OutOfSpace if self.mode == Mode::Power => {
                    ledger.full();
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return ended(self.mode, &error, &mut ledger),
            }
        }
    }

    fn batch(
        &self,
        thread: usize,
        rng: &mut Rng,
        left: &mut Left,
        ledger: &mut Ledger,
    ) -> flagstone::Result<()> {
        let n = left.batches + 1;
        let mut batch = self.db.batch();
        fill(&mut batch, &self.handles, self.source, thread, n)?;
        let durability = match (self.unlogged, rng.below(100)) {
            (true, _) => Durability::None,
            (_, 0..=69) => Durability::Buffered,
            (_, 70..=79) => Durability::Interval(Duration::from_millis(10)),
            (_, 80..=94) => Durability::Group,
            _ => Durability::Each,
        };
        // Batches acknowledged by now are before this one in the log.
        let mut before = self.all_done();
        self.db.commit(batch.durability(durability))?;
        left.apply(self.source, thread);
        self.done[thread].store(n, Ordering::Release);
        ledger.done(n);
        if matches!(durability, Durability::Group | Durability::Each) {
            before[thread] = n;
            ledger.safe(&before);
        }
        Ok(())
    }

    fn all_done(&self) -> Vec<u64> {
        self.done.iter().map(|done| done.load(Ordering::Acquire)).collect()
    }

    /// Makes all acknowledged batches durable.
    fn save(&self, thread: usize, rng: &mut Rng, ledger: &mut Ledger) -> flagstone::Result<()> {
        let before = self.all_done();
        match rng.below(3) {
            0 if !self.unlogged => self.db.sync()?,
            1 => {
                // A commit without operations waits for everything before it in the log.
                self.db.commit(Batch::default().durability(Durability::Group))?;
                if self.unlogged {
                    return Ok(());
                }
            }
            _ if thread == 0 || rng.percent(20) => self.db.flush()?,
            _ => return Ok(()),
        }
        ledger.safe(&before);
        Ok(())
    }

    fn upkeep(&self, thread: usize, rng: &mut Rng) -> flagstone::Result<()> {
        match rng.below(100) {
            0..=5 => self.db.compact(),
            6..=9 if thread == 0 && self.mode == Mode::Kill => {
                let copy = self.dir.with_extension("copy");
                let _none = std::fs::remove_dir_all(&copy);
                self.db.checkpoint(&copy).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Reads keys of this thread, which no other thread writes, and compares them.
    fn look(
        &self,
        thread: usize,
        rng: &mut Rng,
        left: &Left,
        ledger: &mut Ledger,
    ) -> flagstone::Result<()> {
        let slot = rng.below(SLOTS);
        let (from, to) = (key(thread, slot), key(thread, slot + 20));
        let backwards = rng.percent(50);
        let (found, scanned) = Window::of(&self.db, || {
            let scan = self.handles.ranged.scan(from.as_bytes()..to.as_bytes());
            let scan = if backwards { scan.rev() } else { scan };
            let entries =
                scan.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())));
            entries.collect::<flagstone::Result<BTreeMap<_, _>>>()
        })?;
        let (got, read) = Window::of(&self.db, || self.handles.hashed.get(key(thread, slot)))?;
        let is_same = scanned.allows_all(thread, left.ranged.range(slot..slot + 20), found)
            && read.allows_one(left.hashed.get(&slot), got.as_deref());
        if !is_same {
            ledger.wrong(&format!("thread {thread} reads other than it wrote, slots {slot}.."));
            std::process::exit(WRONG);
        }
        Ok(())
    }

    /// Transfers an amount between two accounts, unless one of them changed meanwhile.
    fn transfer(&self, rng: &mut Rng, ledger: &mut Ledger) -> flagstone::Result<()> {
        let bank = &self.handles.bank;
        let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
        if from == to {
            return Ok(());
        }
        let versioned = |at| bank.get_versioned(account(at));
        let (Some((from_version, from_has)), Some((to_version, to_has))) =
            (versioned(from)?, versioned(to)?)
        else {
            ledger.wrong("an account is gone");
            std::process::exit(WRONG);
        };
        let amount = rng.below(50) as i64;
        let moved = |has: Slice, by: i64| (number(Some(has)) + by).to_le_bytes();
        let mut batch = self.db.batch();
        batch.expect(bank, account(from), Expect::Version(from_version))?;
        batch.expect(bank, account(to), Expect::Version(to_version))?;
        batch.put(bank, account(from), moved(from_has, -amount))?;
        batch.put(bank, account(to), moved(to_has, amount))?;
        let durability = if self.unlogged { Durability::None } else { Durability::Buffered };
        match self.db.commit(batch.durability(durability)) {
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(()),
            done => done?,
        }
        ledger.transfer();
        Ok(())
    }

    fn look_at_bank(&self, ledger: &mut Ledger) -> flagstone::Result<()> {
        let snapshot = self.db.snapshot();
        let mut sums = [0, 0];
        for entry in self.handles.bank.scan(..) {
            sums[0] += number(Some(entry?.1));
        }
        for at in 0..ACCOUNTS {
            sums[1] += number(snapshot.get(&self.handles.bank, account(at))?);
        }
        if sums != [TOTAL; 2] {
            ledger.wrong(&format!("the bank holds {sums:?}, expected {TOTAL}"));
            std::process::exit(WRONG);
        }
        Ok(())
    }
}
