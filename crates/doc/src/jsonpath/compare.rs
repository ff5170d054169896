//! Compares values as filters do: numbers by their exact value, text by its characters, arrays and
//! maps for equality alone.

use crate::depth::DEPTH_MAX;
use crate::number::{Exact, NumberText};
use crate::order::cmp_exact;
use crate::value::Limit;
use crate::view::View;
use crate::view_order;
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
        (Comparand::Value(a), Comparand::Value(b)) => view_order::same(a, b, DEPTH_MAX),
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
    match number {
        Comparand::Value(view) => view_order::exact(view, text),
        Comparand::Int(int) => Ok(Exact::of_int(i128::from(*int), text)),
        Comparand::Nothing => Ok(Exact::of_int(0, text)),
    }
}
