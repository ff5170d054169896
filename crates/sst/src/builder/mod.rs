//! Writes a table: entries in order, then the sections, then the footer.
//!
//! ```text
//! add -> entries -> blocks -> file        finish: the last block -> sections -> footer
//! ```

mod blocks;
mod entries;
mod finish;

pub use entries::TableBuilder;
