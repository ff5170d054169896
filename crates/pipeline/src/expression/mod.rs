//! Expressions: what computes a value from a document.

mod call;
mod kind;

mod binary;

mod order;

mod arithmetic;
mod array;
mod bits;
mod compare;
mod convert;
mod dates;
mod object;
mod regex;
mod set;
mod text;
mod trigonometry;

mod table;

mod node;

mod eval;
mod parse;

mod whole;

pub(crate) use call::EvalContext;
pub(crate) use eval::path;
pub(crate) use kind::{as_object, is_true, type_name};
pub(crate) use node::Node;
pub(crate) use order::{Ordered, compare, is_null, rank};
pub(crate) use parse::{Names, check_depth, check_variable, is_known, literal, parse, path_names};
pub use whole::Expression;
