//! Filters: conditions on documents, in the manner of MongoDB, evaluated on the binary form.
//!
//! ```text
//! Rust --build--> Filter (model) --compile--> Matcher (check, probe) --> does a document match?
//! JSON --parse-->  |    |    \--print--> JSON
//!                  |    \--bounds--> intervals of index keys     for a planner
//!                  \--implies--> may a partial index serve it?
//! ```
//!
//! The model has one normal form for all ways to say the same. The modules are listed from the
//! ground up.

mod error;
mod operator;
mod pattern;

mod cursor;

mod intervals;

mod sets;

mod bits;
mod types;
mod value_test;

mod model;

mod test_keys;

mod probe;

mod joined;
mod marks;

mod check;

mod matcher;

mod build;

mod literal;

mod parse;

mod print;

mod bounds;

mod alternatives;

mod implies;

pub use bounds::Bounds;
pub use build::{FILTER_NESTING_MAX, FieldTest, Filter};
pub use cursor::FILTER_BYTES_MAX;
pub(crate) use cursor::{Cursor, parse_json};
pub use error::FilterError;
pub use intervals::Interval;
pub use matcher::Matcher;
