//! The rows of a partition that windows still need.

use crate::error::{PipelineError, Result};
use crate::memory::{Hold, weight};
use crate::stage::row::{Rows, decoded};
use flagstone::Value;
use flagstone::internal::{Sorted, interrupt_check};
use std::collections::VecDeque;

/// Where rows come from.
pub(super) enum Input<R> {
    /// One partition, in any order.
    Rows(R),
    /// The key of an entry is that of the partition and that of the order; the value is the length
    /// of the first, in 4 bytes, and the row.
    Sorted(Sorted),
    Ended,
}

/// A row, and the key of its order.
struct BufferedRow {
    row: Value,
    order: Box<[u8]>,
    bytes: usize,
}

/// The rows of the current partition, from the first one that is needed on.
pub(super) struct Buffer<R> {
    input: Input<R>,
    /// The key of the partition.
    partition: Option<Vec<u8>>,
    rows: VecDeque<BufferedRow>,
    /// The number of the first row.
    first: usize,
    is_complete: bool,
    /// The first row of the next partition.
    next: Option<BufferedRow>,
    hold: Hold,
    place: Box<str>,
}

impl<R: Rows> Buffer<R> {
    pub(super) const fn new(input: Input<R>, hold: Hold, place: Box<str>) -> Self {
        let rows = VecDeque::new();
        Self { input, partition: None, rows, first: 0, is_complete: true, next: None, hold, place }
    }

    /// Gives up memory of the rows that come.
    pub(super) fn park(&mut self) {
        match &mut self.input {
            Input::Rows(rows) => rows.park(),
            Input::Sorted(sorted) => sorted.park(),
            Input::Ended => {}
        }
    }

    /// Begins the next partition. Returns false if there is none.
    pub(super) fn begin(&mut self) -> Result<bool> {
        self.rows.clear();
        self.first = 0;
        self.hold.release(usize::MAX);
        self.is_complete = false;
        if let Some(next) = self.next.take() {
            self.keep(next)?;
        }
        self.load(0)
    }

    /// The number behind the last row that was read.
    pub(super) fn end(&self) -> usize {
        self.first + self.rows.len()
    }

    /// Reads up to row `at`. Returns false if the partition has fewer rows.
    pub(super) fn load(&mut self, at: usize) -> Result<bool> {
        while at >= self.end() && !self.is_complete {
            interrupt_check()?;
            self.pull()?;
        }
        Ok(at < self.end())
    }

    /// Reads all rows of the partition. Returns how many there are.
    pub(super) fn load_all(&mut self) -> Result<usize> {
        self.load(usize::MAX)?;
        Ok(self.end())
    }

    /// Returns row `at`, which was read and is kept.
    pub(super) fn row(&self, at: usize) -> &Value {
        const NULL: &Value = &Value::Null;
        self.kept(at).map_or(NULL, |kept| &kept.row)
    }

    /// Returns the key of the order of row `at`.
    pub(super) fn order(&self, at: usize) -> &[u8] {
        self.kept(at).map_or(&[], |kept| &kept.order)
    }

    fn kept(&self, at: usize) -> Option<&BufferedRow> {
        self.rows.get(at.checked_sub(self.first)?)
    }

    /// Returns row `at`, and forgets the rows before `needed`.
    pub(super) fn take(&mut self, at: usize, needed: usize) -> Value {
        let is_needed = needed <= at;
        let found = at.checked_sub(self.first).and_then(|place| self.rows.get_mut(place));
        let row = match found {
            Some(kept) if is_needed => kept.row.clone(),
            Some(kept) => std::mem::take(&mut kept.row),
            None => Value::Null,
        };
        while self.first < needed.min(at + 1)
            && let Some(kept) = self.rows.pop_front()
        {
            self.hold.release(kept.bytes);
            self.first += 1;
        }
        row
    }

    fn keep(&mut self, kept: BufferedRow) -> Result<()> {
        self.hold.add(kept.bytes, &self.place)?;
        self.rows.push_back(kept);
        Ok(())
    }

    /// Reads a row.
    fn pull(&mut self) -> Result<()> {
        let (kept, is_other) = match &mut self.input {
            Input::Rows(rows) => match rows.next()? {
                Some(row) => (kept(row, &[]), false),
                None => return self.complete(),
            },
            Input::Sorted(sorted) => {
                if !sorted.advance()? {
                    return self.complete();
                }
                let wrong = || {
                    let text = "expected the rows of a window in a spill file";
                    PipelineError::new(1, &self.place, text)
                };
                let (len, row) = sorted.value().split_first_chunk::<4>().ok_or_else(wrong)?;
                let len = u32::from_le_bytes(*len) as usize;
                let key = sorted.key().split_at_checked(len);
                let (partition, order) = key.ok_or_else(wrong)?;
                let known = self.partition.as_deref();
                let is_other = known.is_some_and(|known| known != partition);
                if known != Some(partition) {
                    self.partition = Some(partition.to_vec());
                }
                (kept(decoded(row)?, order), is_other)
            }
            Input::Ended => return self.complete(),
        };
        if is_other {
            self.next = Some(kept);
            self.is_complete = true;
            return Ok(());
        }
        self.keep(kept)
    }

    fn complete(&mut self) -> Result<()> {
        (self.input, self.is_complete) = (Input::Ended, true);
        Ok(())
    }
}

fn kept(row: Value, order: &[u8]) -> BufferedRow {
    let bytes = weight(&row).saturating_add(size_of::<BufferedRow>() + order.len());
    BufferedRow { row, order: order.into(), bytes }
}
