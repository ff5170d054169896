//! An immutable list of levels.
//!
//! ```text
//! L0   runs, the newest last; tables of one run do not overlap; flushes and ingests go here
//! L1+  one run each, sorted by key, disjoint; deeper is older
//! ```
//!
//! Every entry of a key in a run is newer than every entry of that key in an older run or a deeper
//! level. L0 tables are put into runs by SeqNo, never by the order of their installation.

use super::handle::TableHandle;
use super::run::Run;
use super::span::ends_before;
use flagstone_base::sorted::sort_by;
use flagstone_base::{Error, ErrorKind, Moment, Result, SeqNo};
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// The number of levels of a tree: L0 to L6.
pub const LEVELS: usize = 7;

/// The tables of a tree at one moment, by level.
#[derive(Clone)]
pub struct Version {
    /// The runs of L0, oldest first.
    pub(super) runs: Vec<Run>,
    /// L1 and deeper.
    pub(super) levels: [Run; LEVELS - 1],
    pub(super) flushed_through: SeqNo,
    pub(super) watermark: SeqNo,
    pub(super) expired_through: Moment,
    pub(super) untraced_through: SeqNo,
    pub(super) wasteful: Mark,
    pub(super) live: LiveEntries,
}

/// The result of the last estimate. A clone begins with the same value and changes independently.
#[derive(Default)]
pub(super) struct Mark(AtomicBool);

impl Clone for Mark {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.0.load(Ordering::Relaxed)))
    }
}

/// The number of live entries, once it was computed. A clone begins without it.
pub(super) struct LiveEntries(AtomicU64);

impl LiveEntries {
    const UNKNOWN: u64 = u64::MAX;
}

impl Default for LiveEntries {
    fn default() -> Self {
        Self(AtomicU64::new(Self::UNKNOWN))
    }
}

impl Clone for LiveEntries {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The tables of runs, with their levels: one type, so that its many users share its code.
struct VersionTables<'a> {
    /// The rest of the run that is visited.
    run: std::slice::Iter<'a, Arc<TableHandle>>,
    /// The next runs of L0.
    l0: std::slice::Iter<'a, Run>,
    level: u8,
    /// The runs of the next deeper levels.
    deeper: std::slice::Iter<'a, Run>,
}

impl<'a> Iterator for VersionTables<'a> {
    type Item = (u8, &'a Arc<TableHandle>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(table) = self.run.next() {
                return Some((self.level, table));
            }
            self.run = match self.l0.next() {
                Some(run) => run.iter(),
                None => {
                    let run = self.deeper.next()?;
                    self.level += 1;
                    run.iter()
                }
            };
        }
    }
}

impl Version {
    /// Returns a version without tables.
    pub fn empty() -> Self {
        Self {
            runs: Vec::new(),
            // The default run is one allocation shared by all levels of all trees.
            levels: Default::default(),
            flushed_through: SeqNo::ZERO,
            watermark: SeqNo::ZERO,
            expired_through: Moment::ZERO,
            untraced_through: SeqNo::ZERO,
            wasteful: Mark::default(),
            live: LiveEntries::default(),
        }
    }

    /// Returns the version of a tree that others have replaced: no SeqNo and no moment may be read
    /// in it.
    pub(crate) fn retired() -> Self {
        Self { watermark: SeqNo::MAX, expired_through: Moment::MAX, ..Self::empty() }
    }

    /// Returns the version for use in a view. All empty versions share one allocation.
    pub(crate) fn shared(self) -> Arc<Self> {
        static EMPTY: LazyLock<Arc<Version>> = LazyLock::new(|| Arc::new(Version::empty()));
        let is_empty = self.tables().next().is_none()
            && self.flushed_through.max(self.watermark).max(self.untraced_through) == SeqNo::ZERO
            && self.expired_through == Moment::ZERO;
        if is_empty { Arc::clone(&EMPTY) } else { Arc::new(self) }
    }

    /// The runs of L0, oldest first.
    pub(crate) fn l0_runs(&self) -> &[Run] {
        &self.runs
    }

    /// The tables of level 1..=6.
    pub(crate) fn level(&self, level: usize) -> &Run {
        &self.levels[level - 1]
    }

    /// The runs in the order in which a get searches them: newest first.
    #[inline]
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Run> {
        let levels = self.levels.iter().filter(|run| !run.is_empty());
        self.runs.iter().rev().chain(levels)
    }

    /// Every write of the tree up to this SeqNo is in tables.
    pub fn flushed_through(&self) -> SeqNo {
        self.flushed_through
    }

    /// A reader at a SeqNo below the watermark that is not registered may miss versions.
    pub fn watermark(&self) -> SeqNo {
        self.watermark
    }

    /// A reader that judges by an earlier moment may miss entries that have expired at this one.
    pub fn expired_through(&self) -> Moment {
        self.expired_through
    }

    /// Every write after this SeqNo has left a trace: an entry of its key, or a deleted range over
    /// it, that is as new. Of older writes there may be none.
    ///
    /// What replaces a write is itself a trace, and operands that are folded keep the SeqNo of the
    /// newest. So a key loses its last trace only when a tombstone, or a deleted range, is dropped
    /// because nothing older is left below it. Flushes and compactions record the newest SeqNo of
    /// these here; the watermark, which rises with all that they drop, says nothing about traces.
    pub fn untraced_through(&self) -> SeqNo {
        self.untraced_through
    }

    /// Returns whether much of the tables was garbage at the last estimate.
    pub(crate) fn is_wasteful(&self) -> bool {
        self.wasteful.0.load(Ordering::Relaxed)
    }

    /// Returns about how many keys the tables hold: each delete is taken to hide one entry. Cheap
    /// after the first call. A table that several trees share counts in part.
    pub(crate) fn live_entries(&self) -> u64 {
        let known = self.live.0.load(Ordering::Relaxed);
        if known != LiveEntries::UNKNOWN {
            return known;
        }
        let mut live = 0;
        for level in 0..LEVELS {
            let (mut entries, mut deletes) = (0, 0);
            for table in self.tables_of(level) {
                let (meta, trees) = (table.meta(), u64::from(table.holders().max(1)));
                entries += meta.entries / trees;
                deletes += meta.deletes / trees;
            }
            live += u64::saturating_sub(entries, 2 * deletes);
        }
        self.live.0.store(live, Ordering::Relaxed);
        live
    }

    /// Sets what [`Version::is_wasteful`] returns, for this version and those made from it.
    pub(crate) fn set_wasteful(&self, is_wasteful: bool) {
        self.wasteful.0.store(is_wasteful, Ordering::Relaxed);
    }

    /// The newest SeqNo in any table, or `flushed_through` if that is newer.
    pub fn seqno_max(&self) -> SeqNo {
        let newest = self.tables().map(|(_, table)| table.meta().seqnos().1).max();
        newest.unwrap_or(SeqNo::ZERO).max(self.flushed_through)
    }

    /// All tables with their levels: L0 first, its oldest run first, then the deeper levels.
    pub fn tables(&self) -> impl Iterator<Item = (u8, &Arc<TableHandle>)> {
        VersionTables { run: [].iter(), l0: self.runs.iter(), level: 0, deeper: self.levels.iter() }
    }

    /// The tables of one level; for L0 in any order.
    pub(crate) fn tables_of(&self, level: usize) -> impl Iterator<Item = &Arc<TableHandle>> {
        let runs = if level == 0 { &self.runs[..] } else { &self.levels[level - 1..level] };
        let all = VersionTables { run: [].iter(), l0: runs.iter(), level: 0, deeper: [].iter() };
        all.map(|(_, table)| table)
    }

    /// Bytes of the tables of one level.
    pub(crate) fn level_bytes(&self, level: usize) -> u64 {
        self.tables_of(level).map(|table| table.meta().bytes).sum()
    }

    /// Returns the damage of the first quarantined table, which compactions skip.
    pub fn damage(&self) -> Option<Error> {
        self.tables().find(|(_, table)| table.is_quarantined())?.1.damage()
    }

    /// Checks what must always hold: order and disjointness in every run, and each file only once.
    ///
    /// # Errors
    /// Corruption, which names the tables.
    pub fn check(&self) -> Result<()> {
        let mut numbers: Vec<_> = self.tables().map(|(_, table)| table.number()).collect();
        sort_by(&mut numbers, Ord::cmp);
        if let Some(pair) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(format!("table {} appears twice in a version", pair[0])));
        }
        for run in self.runs.iter().chain(&self.levels) {
            check_run(run)?;
        }
        Ok(())
    }
}

pub(super) fn check_run(run: &[Arc<TableHandle>]) -> Result<()> {
    for pair in run.windows(2) {
        if !ends_before(pair[0].meta().upper(), &pair[1].meta().smallest) {
            let text = format!("tables of one run overlap: {} and {}", pair[0], pair[1]);
            return Err(wrong(text));
        }
    }
    Ok(())
}

#[cold]
pub(super) fn wrong(text: String) -> Error {
    Error::new(ErrorKind::Corruption, text)
}

/// One line a table: `L1 000042 [a..m] #3..#9 120 entries 2.1 MiB`. L0 with its run: `L0.2`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, run) in self.runs.iter().enumerate().rev() {
            for table in run.iter() {
                writeln!(f, "L0.{number} {table}")?;
            }
        }
        for (level, table) in self.tables().filter(|(level, _)| *level > 0) {
            writeln!(f, "L{level} {table}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
