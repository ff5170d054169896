//! Groups of documents, and what they accumulate.
//!
//! ```text
//! documents --> table: key of a group -> states      at most half of the memory
//!                 | when full, and at the end
//!                 v
//!               sorter: keys with partial states     the other half, then a spill file
//!                 |
//!                 v
//!               groups: neighbours with one key are merged, in the order of the keys
//! ```
//! All accumulators give the same result whatever the order of documents and however partial
//! states are merged: sums are exact.

mod spec;
mod sum;

mod state;

mod table;

mod groups;

pub use groups::Groups;
pub use spec::Group;
