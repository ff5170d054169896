//! Merges many sorted sources into one: memtables and runs of tables.

mod run_cursor;

mod cursor;
mod deleted;

mod chain;

mod retain;

pub(crate) use chain::Chain;
pub(crate) use cursor::{MergeCursor, MergeSource};
pub(crate) use deleted::{AllRanges, RangeSource};
pub(crate) use retain::{Retention, fold_operands};
pub(crate) use run_cursor::RunCursor;
