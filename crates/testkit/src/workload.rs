//! Random operations. They use few keys, so that they meet, and some keys and values of odd shapes.

use crate::model::Change;
use crate::rng::Rng;
use std::ops::Bound;

/// A range with owned bounds.
pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A step of a test on a database.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes one change through its keyspace.
    Write(Change),
    /// Removes all keys within the bounds.
    DeleteRange(usize, Bounds),
    /// Commits a batch.
    Commit(Vec<Change>),
    /// Removes a key, which reports whether it was there.
    Remove(usize, Vec<u8>),
    /// Reads a key.
    Get(usize, Vec<u8>),
    /// Reads keys as of one moment.
    MultiGet(usize, Vec<Vec<u8>>),
    /// Reads a range, forward or back.
    Scan(usize, Bounds, bool),
    /// Reads the keys with a prefix, forward or back.
    Prefix(usize, Vec<u8>, bool),
    /// Reads everything, tree by tree.
    ScanUnordered(usize),
    /// Counts the keys.
    Count(usize),
    /// Takes a snapshot.
    TakeSnapshot,
    /// Reads a key and a range of a snapshot.
    ReadSnapshot(usize, Vec<u8>, Bounds, bool),
    /// Drops the oldest snapshot.
    DropSnapshot,
    /// Runs this number of steps of background work.
    Assist(u64),
    /// Makes acknowledged writes durable.
    Sync,
    /// Writes memtables to tables.
    Flush,
    /// Merges all tables.
    Compact,
    /// Reads and checks every table.
    Verify,
    /// Closes the database and opens it again.
    Reopen,
}

/// A generator of steps.
pub struct Workload {
    rng: Rng,
    folds: Vec<Option<String>>,
    keys: u64,
    value_bytes_max: u64,
}

impl Workload {
    /// Creates a generator for a keyspace for each of `folds`, with `keys` keys each.
    pub fn new(seed: u64, folds: &[Option<&str>], keys: u64) -> Self {
        let folds = folds.iter().map(|fold| fold.map(str::to_owned)).collect();
        Self { rng: Rng::new(seed), folds, keys, value_bytes_max: 20_000 }
    }

    /// Limits values to `bytes`.
    #[must_use]
    pub const fn values_up_to(mut self, bytes: u64) -> Self {
        self.value_bytes_max = bytes;
        self
    }

    /// Returns key number `n`. Most keys are plain text, some are long, and some have bytes that a
    /// signed comparison would misplace.
    pub fn key(n: u64) -> Vec<u8> {
        match n % 10 {
            7 => [vec![0xFF; (n % 4) as usize], n.to_be_bytes()[6..].to_vec()].concat(),
            8 => [vec![0; (n % 3) as usize], n.to_le_bytes()[..2].to_vec()].concat(),
            9 => [format!("k{n:03}").into_bytes(), vec![b'x'; (n % 7) as usize * 40]].concat(),
            _ => format!("k{n:03}").into_bytes(),
        }
    }

    fn any_key(&mut self) -> Vec<u8> {
        Self::key(self.rng.below(self.keys))
    }

    fn any_keyspace(&mut self) -> usize {
        self.rng.index(self.folds.len())
    }

    fn value(&mut self, keyspace: usize) -> Vec<u8> {
        if self.folds[keyspace].as_deref() == Some("add-i64/1") && self.rng.percent(95) {
            return self.rng.number().to_le_bytes().to_vec();
        }
        let len = match self.rng.below(20) {
            0 => 0,
            1..=12 => self.rng.below(64),
            13..=18 => self.rng.below(1000),
            _ => self.rng.below(20_000),
        };
        let len = len.min(self.value_bytes_max) as usize;
        if self.rng.percent(50) {
            return self.rng.bytes(len);
        }
        let text = format!("value {} ", self.rng.below(100_000)).into_bytes();
        text.iter().copied().cycle().take(len).collect()
    }

    /// Returns two different keys in ascending order.
    fn ends(&mut self) -> (Vec<u8>, Vec<u8>) {
        loop {
            let (a, b) = (self.any_key(), self.any_key());
            if a != b {
                return if a < b { (a, b) } else { (b, a) };
            }
        }
    }

    /// Returns a change of one keyspace.
    pub fn change(&mut self) -> Change {
        let at = self.any_keyspace();
        match self.rng.below(100) {
            0..=24 => Change::Delete(at, self.any_key()),
            25..=27 => {
                let (start, end) = self.ends();
                Change::DeleteRange(at, start, end)
            }
            28..=50 if self.folds[at].is_some() => {
                let operand = self.operand(at);
                Change::Merge(at, self.any_key(), operand)
            }
            _ => {
                let value = self.value(at);
                Change::Put(at, self.any_key(), value)
            }
        }
    }

    fn operand(&mut self, at: usize) -> Vec<u8> {
        if self.folds[at].as_deref() == Some("append/1") {
            let len = self.rng.index(12);
            return self.rng.bytes(len);
        }
        // Sometimes the operand does not apply.
        let len = if self.rng.percent(5) { 3 } else { 8 };
        self.rng.number().to_le_bytes()[..len].to_vec()
    }

    /// Returns some changes, rarely many.
    pub fn batch(&mut self) -> Vec<Change> {
        let len = if self.rng.percent(5) { self.rng.below(60) } else { self.rng.between(1, 6) };
        (0..len).map(|_| self.change()).collect()
    }

    /// Returns bounds of every kind. Sometimes the start is after the end.
    pub fn bounds(&mut self) -> Bounds {
        let bound = |this: &mut Self| match this.rng.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(this.any_key()),
            _ => Bound::Excluded(this.any_key()),
        };
        (bound(self), bound(self))
    }

    /// Returns a step of a model test.
    pub fn step(&mut self) -> Step {
        let at = self.any_keyspace();
        let reverse = self.rng.percent(50);
        match self.rng.below(1000) {
            0..=299 => Step::Write(self.change()),
            300..=304 => Step::DeleteRange(at, self.bounds()),
            305..=479 => Step::Commit(self.batch()),
            480..=519 => Step::Remove(at, self.any_key()),
            520..=699 => Step::Get(at, self.any_key()),
            700..=719 => {
                let keys = (0..self.rng.below(12)).map(|_| self.any_key()).collect();
                Step::MultiGet(at, keys)
            }
            720..=789 => Step::Scan(at, self.bounds(), reverse),
            790..=799 => {
                let key = self.any_key();
                let len = self.rng.index(key.len() + 1);
                Step::Prefix(at, key[..len].to_vec(), reverse)
            }
            800..=809 => Step::ScanUnordered(at),
            810..=819 => Step::Count(at),
            820..=829 => Step::TakeSnapshot,
            830..=869 => {
                let key = self.any_key();
                Step::ReadSnapshot(at, key, self.bounds(), reverse)
            }
            870..=878 => Step::DropSnapshot,
            879..=979 => Step::Assist(self.rng.between(1, 8)),
            980..=983 => Step::Sync,
            984..=991 => Step::Flush,
            992..=994 => Step::Compact,
            995 => Step::Verify,
            996..=997 => Step::Reopen,
            _ => Step::Assist(50),
        }
    }

    /// Returns a step of a crash or fault test, mostly a batch.
    pub fn write_step(&mut self) -> Step {
        match self.rng.below(100) {
            0..=74 => Step::Commit(self.batch()),
            75..=89 => Step::Assist(self.rng.between(1, 6)),
            90..=92 => Step::Sync,
            93..=96 => Step::Flush,
            97 => Step::Compact,
            98 => Step::Reopen,
            _ => {
                let at = self.any_keyspace();
                Step::Get(at, self.any_key())
            }
        }
    }

    /// Returns `count` steps of a crash or fault test.
    pub fn write_steps(&mut self, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.write_step()).collect()
    }
}
