//! Arrays as sets: order and repetitions do not count.

use super::call::{Arg, Call, NULL, arg, found, is_nullish, items};
use super::kind::is_true;
use super::order::Ordered;
use crate::error::Result;
use flagstone::Value;
use std::collections::BTreeSet;

type Set<'a> = BTreeSet<Ordered<&'a Value>>;

fn set<'a>(call: &Call<'_>, arg: &'a Arg<'_>, code: i32) -> Result<Set<'a>> {
    let items = items(arg).ok_or_else(|| call.mistyped(code, "arrays", arg))?;
    let mut set = Set::new();
    for item in items {
        // Of equal ones the first stays.
        set.insert(Ordered(item));
    }
    Ok(set)
}

fn listed(call: &Call<'_>, set: Set<'_>) -> Result<Option<Value>> {
    call.list(set.into_iter().map(|item| item.0)).map(Some)
}

/// Returns whether an argument is missing or null.
fn has_null(args: &[Arg<'_>]) -> bool {
    args.iter().any(is_nullish)
}

pub(super) fn union(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let mut union = Set::new();
    for arg in args {
        if is_nullish(arg) {
            return NULL;
        }
        let items = items(arg).ok_or_else(|| call.mistyped(17043, "arrays", arg))?;
        for item in items {
            union.insert(Ordered(item));
        }
    }
    listed(call, union)
}

pub(super) fn intersection(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    if has_null(args) {
        return NULL;
    }
    let mut common: Option<Set<'_>> = None;
    for arg in args {
        let other = set(call, arg, 17047)?;
        common = Some(match common {
            Some(common) => common.into_iter().filter(|item| other.contains(item)).collect(),
            None => other,
        });
    }
    listed(call, common.unwrap_or_default())
}

pub(super) fn difference(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    if has_null(args) {
        return NULL;
    }
    let first = arg(args, 0);
    let first = items(first).ok_or_else(|| call.mistyped(17048, "arrays", first))?;
    let mut seen = set(call, arg(args, 1), 17049)?;
    call.list(first.iter().filter(|item| seen.insert(Ordered(item)))).map(Some)
}

pub(super) fn is_subset(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let first = set(call, arg(args, 0), 17046)?;
    found(first.is_subset(&set(call, arg(args, 1), 17042)?))
}

pub(super) fn are_equal(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let first = set(call, arg(args, 0), 17044)?;
    for arg in args.iter().skip(1) {
        if set(call, arg, 17044)? != first {
            return found(false);
        }
    }
    found(true)
}

pub(super) fn any_true(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let list = arg(args, 0);
    let list = items(list).ok_or_else(|| call.mistyped(17041, "an array", list))?;
    found(list.iter().any(|item| is_true(Some(item))))
}

pub(super) fn all_true(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let list = arg(args, 0);
    let list = items(list).ok_or_else(|| call.mistyped(17040, "an array", list))?;
    found(list.iter().all(|item| is_true(Some(item))))
}
