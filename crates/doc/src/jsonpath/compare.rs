//! Compares values as filters do: numbers by their exact value, text by its characters, arrays and
//! maps for equality alone.

use crate::depth::DEPTH_MAX;
use crate::layout::{tag, unsigned};
use crate::number::{Exact, NumberText};
use crate::order::cmp_exact;
use crate::value::{Limit, exact_float};
use crate::view::{FieldKey, View};
use flagstone_base::Malformed;
use std::cmp::Ordering;

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub(super) enum Comparand<'a> {
    /// No value: a query selected none, or a function has no result.
    Nothing,
    Value(View<'a>),
    Int(i64),
}

/// Returns whether both sides are equal; two sides without a value are.
pub(super) fn equal(a: &Comparand<'_>, b: &Comparand<'_>) -> Result<bool, Malformed> {
    match (a, b) {
        (Comparand::Nothing, Comparand::Nothing) => Ok(true),
        (Comparand::Value(a), Comparand::Value(b)) => same(a, b, DEPTH_MAX),
        _ => Ok(order(a, b) == Some(Ordering::Equal)),
    }
}

/// Returns whether `a` is less than `b`. Only two numbers, two texts or two datetimes can be.
pub(super) fn less(a: &Comparand<'_>, b: &Comparand<'_>) -> bool {
    order(a, b) == Some(Ordering::Less)
}

/// Returns the order of two numbers, two texts or two datetimes; other values have none.
fn order(a: &Comparand<'_>, b: &Comparand<'_>) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (small_int(a), small_int(b)) {
        return Some(a.cmp(&b));
    }
    if is_number(a) && is_number(b) {
        let (mut a_text, mut b_text) = ([0; 48], [0; 48]);
        return Some(cmp_exact(&exact(a, &mut a_text), &exact(b, &mut b_text)));
    }
    let (Comparand::Value(a), Comparand::Value(b)) = (a, b) else { return None };
    if let (Some(a), Some(b)) = (a.as_text_bytes(), b.as_text_bytes()) {
        return Some(a.cmp(b));
    }
    Some(a.as_datetime()?.cmp(&b.as_datetime()?))
}

const fn is_number(comparand: &Comparand<'_>) -> bool {
    match comparand {
        Comparand::Nothing => false,
        Comparand::Value(view) => view.is_number(),
        Comparand::Int(_) => true,
    }
}

fn small_int(comparand: &Comparand<'_>) -> Option<i64> {
    match comparand {
        Comparand::Nothing => None,
        Comparand::Value(view) => view.as_small_int(),
        Comparand::Int(int) => Some(*int),
    }
}

/// Returns the exact value of a number; `text` receives the digits of a machine number. The error
/// is a float that is not finite.
fn exact<'t>(number: &Comparand<'t>, text: &'t mut NumberText) -> Result<Exact<'t>, Limit> {
    if let Some(int) = small_int(number) {
        return Ok(Exact::of_int(i128::from(int), text));
    }
    let Comparand::Value(view) = number else { return Ok(Exact::of_int(0, text)) };
    if let Some(literal) = view.as_literal() {
        return Ok(Exact::of_literal(literal));
    }
    if let Some((coefficient, scale)) = view.as_decimal() {
        let mut exact = Exact::of_int(i128::from(coefficient), text);
        if !exact.is_zero() {
            exact.exponent -= i64::from(scale);
        }
        return Ok(exact);
    }
    let (kind, payload) = view.raw_scalar();
    if kind == tag::FLOAT {
        return exact_float(f64::from_bits(unsigned(payload)), text);
    }
    Ok(Exact::of_int(i128::from(unsigned(payload)), text))
}

/// Returns whether two values are equal. Fields of maps may come in any order.
pub(crate) fn same(a: &View<'_>, b: &View<'_>, depth: usize) -> Result<bool, Malformed> {
    if a.is_array() && b.is_array() || a.is_map() && b.is_map() {
        let depth = depth.checked_sub(1).ok_or(a.malformed("nesting of at most 512 levels"))?;
        if a.len()? != b.len()? {
            return Ok(false);
        }
        return if a.is_array() { same_items(a, b, depth) } else { same_fields(a, b, depth) };
    }
    if let (Some(a), Some(b)) = (a.as_bytes(), b.as_bytes()) {
        return Ok(a == b);
    }
    let (one, other) = (a.raw_scalar(), b.raw_scalar());
    // Text and numbers have several forms for one value; these have one.
    let is_alike = !a.is_array() && !a.is_map() && one == other;
    let order = order(&Comparand::Value(*a), &Comparand::Value(*b));
    Ok(order.map_or(is_alike, Ordering::is_eq))
}

fn same_items(a: &View<'_>, b: &View<'_>, depth: usize) -> Result<bool, Malformed> {
    for (a, b) in a.items()?.zip(b.items()?) {
        if !same(&a?, &b?, depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}

type Field<'a> = (FieldKey<'a>, View<'a>);

/// Compares the values of maps only when their keys are known to be equal, so each value once.
fn same_fields(a: &View<'_>, b: &View<'_>, depth: usize) -> Result<bool, Malformed> {
    let mut a: Vec<Field<'_>> = a.fields()?.collect::<Result<_, _>>()?;
    let mut b: Vec<Field<'_>> = b.fields()?.collect::<Result<_, _>>()?;
    if !same_keys(&a, &b, depth)? {
        // Pairs with keys of any value are stored in the order of their keys.
        let have_names = [&a, &b].into_iter().flatten().all(|field| name(field).is_some());
        if !have_names {
            return Ok(false);
        }
        a.sort_unstable_by_key(name);
        b.sort_unstable_by_key(name);
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

fn same_keys(a: &[Field<'_>], b: &[Field<'_>], depth: usize) -> Result<bool, Malformed> {
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

fn name<'a>(field: &Field<'a>) -> Option<&'a str> {
    match field.0 {
        FieldKey::Name(name) => Some(name),
        FieldKey::Value(_) => None,
    }
}
