//! Changes of a document in memory at the place of a JSON Pointer.

use crate::pointer::index;
use crate::value::Value;

pub(in crate::patch) const NO_PARENT: &str = "there is no array or map around the place";
pub(in crate::patch) const NO_VALUE: &str = "there is no value at this place";
pub(in crate::patch) const NO_INDEX: &str = "expected the index of an element";
pub(in crate::patch) const NO_PLACE: &str =
    "expected an index up to the number of elements, or '-'";

/// Returns the value at the place of these tokens.
pub(in crate::patch) fn at<'v>(root: &'v Value, tokens: &[&str]) -> Option<&'v Value> {
    tokens.iter().try_fold(root, |value, token| match value {
        Value::Map(map) => map.get(token),
        Value::Array(items) => items.get(index(token)?),
        _ => None,
    })
}

fn at_mut<'v>(root: &'v mut Value, tokens: &[&str]) -> Option<&'v mut Value> {
    tokens.iter().try_fold(root, |value, token| match value {
        Value::Map(map) => map.get_mut(token),
        Value::Array(items) => items.get_mut(index(token)?),
        _ => None,
    })
}

/// Adds `value`: as the root, as an element before the present one, or as a field.
pub(in crate::patch) fn add(
    root: &mut Value,
    tokens: &[&str],
    value: Value,
) -> Result<(), &'static str> {
    let Some((last, above)) = tokens.split_last() else {
        *root = value;
        return Ok(());
    };
    match at_mut(root, above) {
        Some(Value::Map(map)) => drop(map.insert(*last, value)),
        Some(Value::Array(items)) => {
            let at = if *last == "-" { Some(items.len()) } else { index(last) };
            items.insert(at.filter(|at| *at <= items.len()).ok_or(NO_PLACE)?, value);
        }
        _ => return Err(NO_PARENT),
    }
    Ok(())
}

/// Removes the value at the place, and returns it.
pub(in crate::patch) fn remove(root: &mut Value, tokens: &[&str]) -> Result<Value, &'static str> {
    let Some((last, above)) = tokens.split_last() else { return Err(WHOLE) };
    match at_mut(root, above) {
        Some(Value::Map(map)) => map.remove(last).ok_or(NO_VALUE),
        Some(Value::Array(items)) => {
            let at = index(last).ok_or(NO_INDEX)?;
            if at >= items.len() {
                return Err(NO_VALUE);
            }
            Ok(items.remove(at))
        }
        _ => Err(NO_PARENT),
    }
}

/// Replaces the value at the place.
pub(in crate::patch) fn replace(
    root: &mut Value,
    tokens: &[&str],
    value: Value,
) -> Result<(), &'static str> {
    let Some((last, above)) = tokens.split_last() else {
        *root = value;
        return Ok(());
    };
    let found = match at_mut(root, above) {
        Some(Value::Map(map)) => map.get_mut(last),
        Some(Value::Array(items)) => items.get_mut(index(last).ok_or(NO_INDEX)?),
        _ => return Err(NO_PARENT),
    };
    *found.ok_or(NO_VALUE)? = value;
    Ok(())
}

pub(in crate::patch) const WHOLE: &str = "the whole document cannot be removed by a patch";
