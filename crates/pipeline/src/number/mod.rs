//! Arithmetic with the types of drivers: integers stay integers while they fit, decimals are exact
//! to 34 digits, and other numbers are doubles.

mod decimal;

mod arithmetic;
mod rounding;

pub(crate) use arithmetic::{
    add, as_double, as_whole, divide, multiply, negate, power, remainder, square_root, subtract,
};
pub(crate) use rounding::{Rounding, absolute, round};
