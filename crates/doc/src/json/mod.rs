//! Reads and writes JSON; numbers stay exact in both directions.

mod error;
mod extended;
mod options;
mod parse;
mod stored_form;
mod text;
mod write;
mod write_extended;

pub use error::JsonError;
pub use extended::extended_scalar;
pub(crate) use extended::{
    is_form, put_binary, put_date, put_not_finite, put_object_id, put_uuid, scalar,
};
pub use options::{JsonMode, JsonOptions, Surrogates};
pub use parse::{JsonParser, parse};
pub(crate) use stored_form::StoredForm;
pub use write::{append_json, append_json_bytes, append_value_json};
pub use write_extended::{append_json_as, append_relaxed_json, append_value_json_as};
