//! A cursor over the disjoint tables of a run, which opens them one after another.

use crate::memtable::History;
use crate::options::Direction;
use crate::version::{Run, TableHandle, ends_before};
use flagstone_base::key::successor;
use flagstone_base::{EntryRef, Result, SeqNo, Slice};
use flagstone_sst::{CursorOptions, TableCursor, TableMeta};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Visits the entries of a run in one direction.
pub(crate) struct RunCursor {
    run: Run,
    direction: Direction,
    options: CursorOptions,
    /// The table of `cursor`.
    at: usize,
    cursor: Option<TableCursor>,
}

impl RunCursor {
    /// Creates a cursor without a position.
    pub(crate) fn new(run: Run, direction: Direction, options: CursorOptions) -> Self {
        Self { run, direction, options, at: 0, cursor: None }
    }

    /// Returns another cursor over the same tables, on the first entry of `history` in its
    /// direction. The entries that it visits after those of `history` are meaningless.
    pub(crate) fn again(&self, direction: Direction, history: History<'_>) -> Result<Self> {
        let mut again = Self::new(self.run.clone(), direction, self.options);
        let table = again.table_of(history.key);
        if let Some(table) =
            table.filter(|table| history.overlaps(again.run[*table].meta().seqnos()))
        {
            again.enter_by(table, |cursor| position_in(cursor, direction, history))?;
            again.cursor = again.cursor.take().filter(TableCursor::valid);
        }
        Ok(again)
    }

    /// Returns the first table, in its direction, that may have `key` or keys beyond it.
    fn table_of(&self, key: &[u8]) -> Option<usize> {
        match self.direction {
            Direction::Forward => Some(self.run.place_of(key)).filter(|&at| at < self.run.len()),
            Direction::Reverse => {
                let begins_before = |table: &Arc<TableHandle>| *table.meta().smallest <= *key;
                self.run.partition_point(begins_before).checked_sub(1)
            }
        }
    }

    /// Moves to the first entry, in its direction, of a key within `from`.
    pub(crate) fn seek(&mut self, from: Bound<&[u8]>) -> Result<()> {
        self.cursor = None;
        let table = match (self.direction, from) {
            (Direction::Forward, Bound::Unbounded) => (!self.run.is_empty()).then_some(0),
            (Direction::Reverse, Bound::Unbounded) => self.run.len().checked_sub(1),
            (_, Bound::Included(key) | Bound::Excluded(key)) => self.table_of(key),
        };
        let Some(table) = table else { return Ok(()) };
        self.enter(table, from)?;
        self.skip_ends()
    }

    fn enter(&mut self, table: usize, from: Bound<&[u8]>) -> Result<()> {
        let direction = self.direction;
        self.enter_by(table, |cursor| position(cursor, direction, from))
    }

    fn enter_by(
        &mut self,
        table: usize,
        position: impl FnOnce(&mut TableCursor) -> Result<()>,
    ) -> Result<()> {
        self.at = table;
        let handle = &self.run[table];
        let mut cursor = handle.open()?.cursor(self.options);
        position(&mut cursor).map_err(|error| handle.noted(error))?;
        self.cursor = Some(cursor);
        Ok(())
    }

    /// Moves on to the next table while the cursor is past the end of its table.
    fn skip_ends(&mut self) -> Result<()> {
        while self.cursor.as_ref().is_some_and(|cursor| !cursor.valid()) {
            let next = match self.direction {
                Direction::Forward => Some(self.at + 1).filter(|&at| at < self.run.len()),
                Direction::Reverse => self.at.checked_sub(1),
            };
            self.cursor = None;
            if let Some(next) = next {
                self.enter(next, Bound::Unbounded)?;
            }
        }
        Ok(())
    }

    /// Moves to the next entry in its direction.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        let moved = match self.direction {
            Direction::Forward => cursor.next(),
            Direction::Reverse => cursor.prev(),
        };
        moved.map_err(|error| self.run[self.at].noted(error))?;
        if cursor.valid() { Ok(()) } else { self.skip_ends() }
    }

    /// The cursor over the current table, to move within its block.
    #[inline]
    pub(crate) fn in_table(&mut self) -> Option<&mut TableCursor> {
        self.cursor.as_mut()
    }

    /// Skips entries up to `limit` that are in tables whose newest SeqNo is below `seqno`. Returns
    /// whether it skipped any table.
    pub(crate) fn skip_older(&mut self, limit: Bound<&[u8]>, seqno: SeqNo) -> Result<bool> {
        let is_older = |table: &TableHandle| table.meta().seqnos().1 < seqno;
        if self.cursor.is_none() || !is_older(&self.run[self.at]) {
            return Ok(false);
        }
        let mut at = self.at;
        loop {
            let table = &self.run[at];
            let lies_within = match (self.direction, limit) {
                (Direction::Forward, Bound::Included(end)) => {
                    ends_before(table.meta().upper(), end)
                }
                (Direction::Reverse, Bound::Excluded(start)) => {
                    table.meta().smallest.as_slice() >= start
                }
                _ => false,
            };
            let next = match self.direction {
                Direction::Forward => Some(at + 1).filter(|&at| at < self.run.len()),
                Direction::Reverse => at.checked_sub(1),
            };
            match next {
                Some(next) if lies_within && is_older(&self.run[next]) => at = next,
                Some(next) if lies_within => {
                    self.enter(next, Bound::Unbounded)?;
                    break;
                }
                None if lies_within => {
                    self.cursor = None;
                    break;
                }
                _ => {
                    self.enter(at, limit)?;
                    break;
                }
            }
        }
        self.skip_ends()?;
        Ok(true)
    }

    /// The record of the table of the current entry.
    #[inline]
    pub(crate) fn meta(&self) -> Option<&TableMeta> {
        self.cursor.as_ref().map(|_| self.run[self.at].meta())
    }

    /// Bytes of the current block.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.cursor.as_ref().map_or(0, TableCursor::block_bytes)
    }

    /// As [`TableCursor::release_block`].
    pub(crate) fn release_block(&mut self) -> bool {
        self.cursor.as_mut().is_some_and(TableCursor::release_block)
    }

    /// As [`TableCursor::reload_block`].
    pub(crate) fn reload_block(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.reload_block().map_err(|error| self.run[self.at].noted(error))
    }

    /// The file of the current entry, and the offset of its block.
    pub(crate) fn table(&self) -> Option<(&Path, u64)> {
        self.cursor.as_ref().map(|cursor| (cursor.table().path(), cursor.block_offset()))
    }

    #[inline]
    pub(crate) fn entry(&self) -> Option<EntryRef<'_>> {
        self.cursor.as_ref().map(TableCursor::entry)
    }

    /// The current value, which shares the memory of its block.
    #[inline]
    pub(crate) fn value(&self) -> Slice {
        self.cursor.as_ref().map(TableCursor::value).unwrap_or_default()
    }
}

fn position(cursor: &mut TableCursor, way: Direction, from: Bound<&[u8]>) -> Result<()> {
    match (way, from) {
        (Direction::Forward, Bound::Unbounded) => cursor.seek_first(),
        (Direction::Forward, Bound::Included(key)) => cursor.seek(key, SeqNo::MAX),
        (Direction::Forward, Bound::Excluded(key)) => cursor.seek(&successor(key), SeqNo::MAX),
        (Direction::Reverse, Bound::Unbounded) => cursor.seek_last(),
        (Direction::Reverse, Bound::Included(key)) => cursor.seek_before(&successor(key)),
        (Direction::Reverse, Bound::Excluded(key)) => cursor.seek_before(key),
    }
}

/// Moves to the first entry of `history`, or beyond it if there is none. All entries of a key are
/// in one table.
fn position_in(cursor: &mut TableCursor, way: Direction, history: History<'_>) -> Result<()> {
    match (way, history.above) {
        (Direction::Forward, _) => cursor.seek(history.key, history.newest),
        (Direction::Reverse, None) => cursor.seek_before(&successor(history.key)),
        (Direction::Reverse, Some(above)) => {
            cursor.seek(history.key, above)?;
            if cursor.valid() { cursor.prev() } else { cursor.seek_last() }
        }
    }
}
