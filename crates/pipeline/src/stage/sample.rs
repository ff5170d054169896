//! `$sample`: rows that are as likely as all others, within a bound of memory.

use super::row::{RowBytes, Rows, decoded};
use super::sort::Spill;
use crate::error::Result;
use flagstone::internal::{Sorted, interrupt_check};
use flagstone::{Database, Value};
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The largest sample whose random numbers are kept, so that other rows are dropped before they are
/// encoded.
const NUMBERS_MAX: usize = 1 << 16;

/// The rows of a `$sample`: each row gets a random number, and the least ones are kept by a sort.
pub(super) struct Sampled<R> {
    state: SampleState<R>,
}

enum SampleState<R> {
    Rows { rows: R, size: u64, database: Database, spill: Spill },
    Sorted(Sorted),
    Ended,
}

impl<R: Rows> Sampled<R> {
    pub(super) const fn new(rows: R, size: u64, database: Database, spill: Spill) -> Self {
        Self { state: SampleState::Rows { rows, size, database, spill } }
    }

    fn sorted(mut rows: R, size: u64, database: &Database, spill: Spill) -> Result<Sorted> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let mut sorter = spill.sorter(database, Some(size));
        let (random, mut bytes, mut count) = (RandomState::new(), RowBytes::default(), 0);
        let mut least = BinaryHeap::new();
        while let Some(row) = rows.next()? {
            interrupt_check()?;
            count += 1;
            let number = drawn(&random, count);
            if size <= NUMBERS_MAX {
                if least.len() == size && least.peek().is_none_or(|last| number >= *last) {
                    continue;
                }
                if least.len() == size {
                    least.pop();
                }
                least.push(number);
            }
            sorter.push(&number.to_be_bytes(), bytes.of(&row)?)?;
        }
        Ok(sorter.finish()?)
    }
}

/// A random number for each `count`.
fn drawn(random: &RandomState, count: u64) -> u64 {
    let mut hasher = random.build_hasher();
    hasher.write_u64(count);
    hasher.finish()
}

impl<R: Rows> Rows for Sampled<R> {
    fn next(&mut self) -> Result<Option<Value>> {
        if let SampleState::Rows { .. } = self.state
            && let SampleState::Rows { rows, size, database, spill } =
                std::mem::replace(&mut self.state, SampleState::Ended)
        {
            self.state = SampleState::Sorted(Self::sorted(rows, size, &database, spill)?);
        }
        let SampleState::Sorted(sorted) = &mut self.state else { return Ok(None) };
        if sorted.advance()? {
            return decoded(sorted.value()).map(Some);
        }
        self.state = SampleState::Ended;
        Ok(None)
    }

    fn park(&mut self) {
        match &mut self.state {
            SampleState::Rows { rows, .. } => rows.park(),
            SampleState::Sorted(sorted) => sorted.park(),
            SampleState::Ended => {}
        }
    }
}
