//! Documents: exact values, their total order, their binary form, views, sort keys, JSON, paths,
//! JSONPath, field paths, filters, projections, sorts and patches.
//!
//! This crate does not touch files. A [`Value`] is a document in memory. An [`Encoder`] writes a
//! value in the binary form, a [`JsonParser`] writes JSON text in it directly, and a [`View`]
//! reads the form in place. A [`Document`] owns the bytes. [`sort_key`] turns values into keys of
//! a database.
//!
//! Modules are listed from the ground up. Values, their binary form and their sort keys use one
//! another.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

#[cfg(not(feature = "regex"))]
mod no_regex;

mod datetime;
mod depth;
mod number;
mod object_id;
mod print;
mod split;
mod uuid;

mod value_type;

mod map;
mod value;

mod layout;
mod names;
mod utf8;

mod field_name;

mod encode;
mod view;

pub mod sort_key;

mod arithmetic;
mod order;
mod show;
mod view_order;

pub mod json;

mod path_error;
mod pointer;

mod jsonpath;

mod field_path;

mod filter;

mod projection;
mod sort;

mod path;

mod patch;

mod document;

#[cfg(feature = "serde")]
mod structs;

pub use arithmetic::{accumulated, accumulated_both, product as exact_product, sum as exact_sum};
pub use datetime::DateTime;
pub use depth::DEPTH_MAX;
pub use document::{Document, DocumentMut, encoded, is_of};
pub use encode::{DocumentWriter, Duplicates, Encoder};
pub use field_path::{Arrays, FieldPath, IndexKeys, Reached, Trace};
pub use filter::{
    Bounds, FILTER_BYTES_MAX, FILTER_NESTING_MAX, FieldTest, Filter, FilterError, Interval, Matcher,
};
#[doc(hidden)]
pub use json::extended_scalar;
pub use json::{JsonError, JsonMode, JsonOptions, JsonParser, Surrogates};
pub use jsonpath::{
    JSONPATH_BYTES_MAX, JSONPATH_NESTING_MAX, JsonPath, Location, Node, Nodes, PathStep,
};
pub use map::Map;
pub use names::{NAME_BYTES_MAX, NAMES_MAX, Names};
pub use number::{EXPONENT_MAX, Number};
pub use object_id::{NoObjectId, ObjectId};
pub use patch::{EncodedPatch, JsonPatch, MergePatch, NotApplied, Patch, Patcher};
pub use path_error::PathError;
pub use pointer::Pointer;
#[doc(hidden)]
pub use print::{base64, put_base64};
pub use projection::{Composer, Projection, Projector};
pub use sort::SortSpec;
pub use sort_key::Direction;
#[doc(hidden)]
pub use split::{is_one_path, split_calls, split_once_outside, split_paths};
#[cfg(feature = "serde")]
pub use structs::adapt;
pub use value::Value;
#[doc(hidden)]
pub use value::number_type::{
    NumberType, decimal, is_marked_decimal, long, marked_decimal, prints_as,
};
pub use value_type::ValueType;
pub use view::{FieldKey, Fields, Items, OpenView, StoredNumber, View, validate};
