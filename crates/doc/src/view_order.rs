//! Compares values in the binary form: scalars without decoding them, numbers by their digits.

use crate::depth::{DEPTH_MAX, TOO_DEEP};
use crate::layout::{tag, unsigned};
use crate::number::{Exact, NumberText};
use crate::order::cmp_exact;
use crate::value::{Limit, exact_float};
use crate::view::{FieldKey, View};
use flagstone_base::Malformed;
use flagstone_base::sorted::sort_by;
use std::cmp::Ordering;

/// Returns the order of two values in the total order of documents.
///
/// # Errors
/// If the bytes read are malformed. Only arrays and maps are read.
pub(crate) fn cmp(a: &View<'_>, b: &View<'_>) -> Result<Ordering, Malformed> {
    let types = a.value_type().cmp(&b.value_type());
    if types.is_ne() {
        return Ok(types);
    }
    match cmp_scalars(a, b) {
        Some(order) => Ok(order),
        None if same(a, b, DEPTH_MAX)? => Ok(Ordering::Equal),
        None => Ok(a.to_value()?.cmp(&b.to_value()?)),
    }
}

/// Returns the order of two scalars of one type; `None` for other values.
pub(crate) fn cmp_scalars(a: &View<'_>, b: &View<'_>) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (a.as_small_int(), b.as_small_int()) {
        return Some(a.cmp(&b));
    }
    if let (Some(a), Some(b)) = (a.as_text_bytes(), b.as_text_bytes()) {
        return Some(a.cmp(b));
    }
    if a.is_number() && b.is_number() {
        let (mut a_text, mut b_text) = ([0; 48], [0; 48]);
        return Some(cmp_exact(&exact(a, &mut a_text), &exact(b, &mut b_text)));
    }
    if let (Some(a), Some(b)) = (a.as_bytes(), b.as_bytes()) {
        return Some(a.cmp(b));
    }
    if let (Some(a), Some(b)) = (a.as_datetime(), b.as_datetime()) {
        return Some(a.cmp(&b));
    }
    if let (Some(a), Some(b)) = (a.as_bool(), b.as_bool()) {
        return Some(a.cmp(&b));
    }
    if let (Some(a), Some(b)) = (a.as_uuid(), b.as_uuid()) {
        return Some(a.cmp(b));
    }
    if let (Some(a), Some(b)) = (a.as_object_id(), b.as_object_id()) {
        return Some(a.cmp(&b));
    }
    (a.is_null() && b.is_null()).then_some(Ordering::Equal)
}

/// Returns the exact value of a number; `text` receives the digits of a machine number. The error
/// is a float that is not finite.
pub(crate) fn exact<'t>(number: &View<'t>, text: &'t mut NumberText) -> Result<Exact<'t>, Limit> {
    if let Some(int) = number.as_small_int() {
        return Ok(Exact::of_int(i128::from(int), text));
    }
    if let Some(literal) = number.as_literal() {
        return Ok(Exact::of_literal(literal));
    }
    if let Some((coefficient, scale)) = number.as_decimal() {
        let mut exact = Exact::of_int(i128::from(coefficient), text);
        if !exact.is_zero() {
            exact.exponent -= i64::from(scale);
        }
        return Ok(exact);
    }
    let (kind, payload) = number.raw_scalar();
    if kind == tag::FLOAT {
        return exact_float(f64::from_bits(unsigned(payload)), text);
    }
    Ok(Exact::of_int(i128::from(unsigned(payload)), text))
}

/// Returns whether two values are equal. Fields of maps may come in any order.
pub(crate) fn same(a: &View<'_>, b: &View<'_>, depth: usize) -> Result<bool, Malformed> {
    if a.is_array() && b.is_array() || a.is_map() && b.is_map() {
        let depth = depth.checked_sub(1).ok_or(a.malformed(TOO_DEEP))?;
        if a.len()? != b.len()? {
            return Ok(false);
        }
        return if a.is_array() { same_items(a, b, depth) } else { same_fields(a, b, depth) };
    }
    Ok(cmp_scalars(a, b).is_some_and(Ordering::is_eq))
}

fn same_items(a: &View<'_>, b: &View<'_>, depth: usize) -> Result<bool, Malformed> {
    for (a, b) in a.items()?.zip(b.items()?) {
        if !same(&a?, &b?, depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}

type MapEntry<'a> = (FieldKey<'a>, View<'a>);

/// Compares the values of maps only when their keys are known to be equal, so each value once.
fn same_fields(a: &View<'_>, b: &View<'_>, depth: usize) -> Result<bool, Malformed> {
    let mut a: Vec<MapEntry<'_>> = a.fields()?.collect::<Result<_, _>>()?;
    let mut b: Vec<MapEntry<'_>> = b.fields()?.collect::<Result<_, _>>()?;
    if !same_keys(&a, &b, depth)? {
        // Pairs with keys of any value are stored in the order of their keys.
        let have_names = [&a, &b].into_iter().flatten().all(|field| name(field).is_some());
        if !have_names {
            return Ok(false);
        }
        let by_name = |a: &MapEntry<'_>, b: &MapEntry<'_>| name(a).cmp(&name(b));
        sort_by(&mut a, by_name);
        sort_by(&mut b, by_name);
        if !same_keys(&a, &b, depth)? {
            return Ok(false);
        }
    }
    for ((_, a), (_, b)) in a.iter().zip(&b) {
        if !same(a, b, depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_keys(a: &[MapEntry<'_>], b: &[MapEntry<'_>], depth: usize) -> Result<bool, Malformed> {
    for pair in a.iter().zip(b) {
        let is_same = match pair {
            ((FieldKey::Name(a), _), (FieldKey::Name(b), _)) => a == b,
            ((FieldKey::Value(a), _), (FieldKey::Value(b), _)) => same(a, b, depth)?,
            _ => false,
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn name<'a>(field: &MapEntry<'a>) -> Option<&'a str> {
    match field.0 {
        FieldKey::Name(name) => Some(name),
        FieldKey::Value(_) => None,
    }
}
