//! Writes values as characters.

mod number;
mod special;
mod text;

pub use number::{base64, put_base64};
pub(crate) use number::{put_decimal, put_i64, put_u64};
pub(crate) use special::{special, specials};
pub(crate) use text::{JsonKey, put_key, put_text, put_text_of};
