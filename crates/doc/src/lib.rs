//! Documents: exact values, their total order, binary form, views, sort keys, JSON, paths and patches.
//!
//! The crate knows no files. A [`Value`] is a document in memory; its binary form is made by an
//! [`Encoder`] or straight from JSON by a [`JsonParser`], and read in place by a [`View`]. A
//! [`Document`] owns those bytes. [`sort_key`] makes keys of a database from values.
//!
//! Modules stand from the ground up; values, their order and their text know one another.

mod datetime;
mod number;

mod map;
mod order;
mod show;
mod value;

mod arithmetic;

mod layout;
mod names;

mod encode;
mod view;

pub mod json;
pub mod sort_key;

mod path;

mod patch;

mod document;

#[cfg(feature = "serde")]
mod structs;

pub use datetime::DateTime;
pub use document::{Document, DocumentMut};
pub use encode::{Duplicates, Encoder};
pub use json::{JsonError, JsonOptions, JsonParser, NoJson, Surrogates};
pub use map::Map;
pub use names::{NAME_BYTES_MAX, NAMES_MAX, Names};
pub use number::{EXPONENT_MAX, Number};
pub use patch::{Patch, Patcher};
pub use sort_key::Direction;
#[cfg(feature = "serde")]
pub use structs::adapt;
pub use value::{DEPTH_MAX, Value};
pub use view::{FieldKey, Fields, Items, View, validate};
