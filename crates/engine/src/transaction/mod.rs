//! Transactions: reads of a snapshot that see the transaction's own writes, which are kept in
//! memory until the commit.
//!
//! ```text
//! own      a: put 1      c: deleted   d: +1
//! snapshot        b: 2   c: 3         d: 4
//! seen     a: 1   b: 2                d: 5
//! ```

mod own;

mod retry;

mod scan;

mod handle;

pub use handle::{Isolation, Transaction};
pub(crate) use retry::pause_after;
pub use scan::TransactionScan;

#[cfg(test)]
mod tests;
