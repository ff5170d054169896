//! Comparisons.

use super::call::{Arg, Call, arg, found, items};
use super::kind::is_true;
use super::order::{compare, compare_any};
use crate::error::Result;
use flagstone::Value;
use std::cmp::Ordering;

fn order(args: &[Arg<'_>]) -> Ordering {
    compare_any(arg(args, 0).as_deref(), arg(args, 1).as_deref())
}

pub(super) fn equal(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(order(args).is_eq())
}

pub(super) fn not_equal(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(order(args).is_ne())
}

pub(super) fn greater(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(order(args).is_gt())
}

pub(super) fn greater_or_equal(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(order(args).is_ge())
}

pub(super) fn less(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(order(args).is_lt())
}

pub(super) fn less_or_equal(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(order(args).is_le())
}

pub(super) fn compared(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(order(args) as i32)
}

pub(super) fn not(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(!is_true(arg(args, 0).as_deref()))
}

/// `$in`: whether an array has an element that equals a value.
pub(super) fn is_in(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let list = arg(args, 1);
    let list = items(list).ok_or_else(|| call.mistyped(40081, "an array as second", list))?;
    let wanted = arg(args, 0).as_deref();
    found(wanted.is_some_and(|wanted| list.iter().any(|item| compare(item, wanted).is_eq())))
}
