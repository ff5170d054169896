//! Arithmetic with the types of drivers: integers stay integers while they fit, decimals are exact
//! to 34 digits, and other numbers are doubles.

mod decimal;

mod transcendental;

mod arithmetic;

mod rounding;
mod sum;

pub(crate) use arithmetic::{
    add, as_decimal, as_double, as_whole, decimal_of_text, divide, exponential, logarithm,
    logarithm_of_ten, multiply, negate, power, remainder, square_root, subtract,
};
pub(crate) use rounding::{Rounding, absolute, round, to_whole};
pub(crate) use sum::Sum;

/// Returns the number of a sorted list that a share of it does not exceed; `None` of an empty one.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil().max(1.0);
    sorted.get(rank as usize - 1).copied()
}
