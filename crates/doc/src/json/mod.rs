//! Reads and writes JSON; numbers stay exact in both directions.

mod error;
mod options;
mod parse;
mod text;
mod write;

pub use error::{JsonError, NoJson};
pub use options::{JsonOptions, Surrogates};
pub use parse::{JsonParser, parse};
pub use write::{append_json, append_json_bytes, append_value_json};
