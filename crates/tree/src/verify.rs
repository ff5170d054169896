//! Verifies the tables of a tree: each by itself, and all of them against each other.
//!
//! A get searches the newest run first and stops at the first put or tombstone of its key. So every
//! entry of a key in a run must be newer than those in older runs and deeper levels, and so must a
//! deleted range be where it covers the key. Tables that are valid by themselves do not show a
//! violation, such as tables on wrong levels, or an older table in place of a newer one: reads
//! would return old values. A walk over all runs in the order of keys does show it.

use crate::merge::{MergeCursor, MergeSource, RangeSource, RunCursor};
use crate::options::Direction;
use crate::tree::{Tree, TreeReport};
use crate::version::{Run, TableHandle, Version};
use flagstone_base::{EntryRef, Error, Result, SeqNo, interrupt};
use flagstone_sst::CursorOptions;
use std::ops::Bound;
use std::sync::Arc;

impl Tree {
    /// Reads every table from disk and checks everything that can be checked. Memory: a few blocks
    /// of each run.
    ///
    /// # Errors
    /// Corruption, the first fault found; Io.
    pub fn verify(&self) -> Result<TreeReport> {
        let version = Arc::clone(self.view().version());
        let report = self.verify_tables(&version, |table| {
            let checked = table.open()?.verify()?;
            Ok((checked.bytes, checked.entries))
        })?;
        check_order(&version)?;
        Ok(report)
    }

    /// Opens every table and checks its length, header, footer, index, filter and properties, but
    /// no data block.
    ///
    /// # Errors
    /// Corruption; any error of reading the files.
    pub fn verify_quickly(&self) -> Result<TreeReport> {
        let version = Arc::clone(self.view().version());
        self.verify_tables(&version, |table| {
            table.open()?.verify_header()?;
            Ok((table.meta().bytes, table.meta().entries))
        })
    }

    fn verify_tables(
        &self,
        version: &Version,
        mut check: impl FnMut(&TableHandle) -> Result<(u64, u64)>,
    ) -> Result<TreeReport> {
        version.check()?;
        let mut report = TreeReport::default();
        for (_, table) in version.tables() {
            let (bytes, entries) = check(table)?;
            self.check_place(version, table)?;
            report.tables += 1;
            report.bytes += bytes;
            report.entries += entries;
        }
        Ok(report)
    }

    /// Checks that a table holds only what its tree may hold.
    fn check_place(&self, version: &Version, table: &TableHandle) -> Result<()> {
        let (meta, path) = (table.meta(), || table.open().map(|table| table.path().display()));
        let (newest, flushed) = (meta.seqnos().1, version.flushed_through());
        if newest > flushed {
            // A replay of the log would add merge operands a second time.
            let found = format_args!("an entry of {newest}: expected none above {flushed}");
            return Err(Error::corruption(path()?, 0, found));
        }
        if self.options().bounds.as_ref().is_some_and(|bounds| !bounds.meets(meta)) {
            let found = format_args!("keys of {meta}: expected some within the bounds of the tree");
            return Err(Error::corruption(path()?, 0, found));
        }
        if meta.merges > 0 && self.options().fold.is_none() {
            let found =
                format_args!("{} merge operands: expected none without a fold", meta.merges);
            return Err(Error::corruption(path()?, 0, found));
        }
        Ok(())
    }
}

/// Visits all runs of `version` in the order of keys, and checks the order of SeqNos.
fn check_order(version: &Version) -> Result<()> {
    let runs: Vec<&Run> = version.newest_first().collect();
    if runs.len() < 2 {
        return Ok(());
    }
    let options = CursorOptions::COMPACTION.shared_by(runs.len());
    let cursor = |run: &Run| RunCursor::new(run.clone(), Direction::Forward, options);
    let sources = runs.iter().map(|run| MergeSource::Run(cursor(run))).collect();
    let ranges = runs.iter().map(|run| RangeSource::of_run(run)).collect::<Vec<_>>();
    let mut merge = MergeCursor::new(sources, Direction::Forward);
    merge.seek(Bound::Unbounded)?;
    let mut last = Last { key: Vec::new(), run: 0, seqno: SeqNo::MAX, is_any: false };
    while let Some(entry) = merge.entry() {
        let run = merge.source().unwrap_or_default();
        let wrong = match last.note(entry, run) {
            Some(wrong) => Some(wrong),
            None => range_out_of_order(&ranges, entry, run)?,
        };
        if let Some(wrong) = wrong {
            let (key, seqno) = (entry.key.escape_ascii(), entry.seqno());
            let found = format_args!("key {key} {seqno} in {}: {wrong}", place(version, run));
            return Err(match merge.table() {
                Some((path, offset)) => Error::corruption(path.display(), offset, found),
                None => Error::corruption("a table", 0, found),
            });
        }
        interrupt::tick()?;
        merge.next()?;
    }
    Ok(())
}

/// The previous entry of the walk.
struct Last {
    key: Vec<u8>,
    run: usize,
    seqno: SeqNo,
    is_any: bool,
}

impl Last {
    /// Moves on to `entry` of `run`, where 0 is the newest. Returns what is wrong with it.
    fn note(&mut self, entry: EntryRef<'_>, run: usize) -> Option<String> {
        let is_same_key = self.is_any && self.key == entry.key;
        let (before, newer) = (self.run, self.seqno);
        (self.run, self.seqno, self.is_any) = (run, entry.seqno(), true);
        if !is_same_key {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            return None;
        }
        if entry.seqno() >= newer {
            return Some("expected each SeqNo of a key once".to_owned());
        }
        (run < before).then(|| format!("expected newer entries than {newer} of an older run alone"))
    }
}

/// Returns what is wrong with the deleted ranges of other runs that cover the key of `entry`.
fn range_out_of_order(
    ranges: &[Option<RangeSource>],
    entry: EntryRef<'_>,
    run: usize,
) -> Result<Option<String>> {
    for (other, source) in ranges.iter().enumerate() {
        let Some(source) = source else { continue };
        if other < run {
            let older = source.covering(entry.key, entry.seqno())?;
            if older > SeqNo::ZERO {
                return Ok(Some(format!("a newer run deletes a range over it at {older}")));
            }
        } else if other > run {
            let newest = source.covering(entry.key, SeqNo::MAX)?;
            if newest >= entry.seqno() {
                return Ok(Some(format!("an older run deletes a range over it at {newest}")));
            }
        }
    }
    Ok(None)
}

/// The name of a run that is counted from the newest.
fn place(version: &Version, run: usize) -> String {
    match version.l0_runs().len().checked_sub(run + 1) {
        Some(l0) => format!("L0.{l0}"),
        None => {
            let levels =
                (1..crate::version::LEVELS).filter(|level| !version.level(*level).is_empty());
            let deeper = levels.skip(run - version.l0_runs().len());
            deeper.map(|level| format!("L{level}")).next().unwrap_or_default()
        }
    }
}
