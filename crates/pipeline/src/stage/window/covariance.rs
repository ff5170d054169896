//! The covariance of pairs of numbers.

use crate::number::{add, as_double, divide, multiply, subtract};
use flagstone::Value;
use flagstone::internal::document::{NumberType, decimal};

/// What is known of pairs: sums, and the sum of the products of the differences from the means.
#[derive(Clone)]
pub(super) struct Pairs {
    count: u64,
    x: Value,
    y: Value,
    products: Value,
    /// What is not finite has no part in the sums.
    has_nan: bool,
    has_infinity: bool,
    has_negative_infinity: bool,
}

impl Pairs {
    pub(super) const fn new() -> Self {
        const ZERO: Value = Value::Int(0);
        Self {
            count: 0,
            x: ZERO,
            y: ZERO,
            products: ZERO,
            has_nan: false,
            has_infinity: false,
            has_negative_infinity: false,
        }
    }

    /// Adds a pair; what is no pair of numbers does not count.
    pub(super) fn add(&mut self, pair: Option<&Value>) {
        let Some([x, y]) = pair.and_then(Value::as_array) else { return };
        let (Some(x), Some(y)) = (number(x), number(y)) else { return };
        let odd = |value: &Value| match value {
            Value::Float(float) if !float.is_finite() => Some(*float),
            _ => None,
        };
        if odd(&x).or(odd(&y)).is_some() {
            for float in [odd(&x), odd(&y)].into_iter().flatten() {
                self.has_nan |= float.is_nan();
                self.has_infinity |= float == f64::INFINITY;
                self.has_negative_infinity |= float == f64::NEG_INFINITY;
            }
            return;
        }
        let before = if self.count == 0 { Value::Int(0) } else { mean(&self.x, self.count) };
        self.count += 1;
        self.y = of(&self.y, &y, add);
        let after = mean(&self.y, self.count);
        let product = of(&of(&x, &before, subtract), &of(&y, &after, subtract), multiply);
        self.products = of(&self.products, &product, add);
        self.x = of(&self.x, &x, add);
    }

    /// Adds later pairs.
    pub(super) fn merge(&mut self, later: &Self) {
        self.has_nan |= later.has_nan;
        self.has_infinity |= later.has_infinity;
        self.has_negative_infinity |= later.has_negative_infinity;
        if later.count > 0 && self.count > 0 {
            let off =
                |a: &Value, b: &Value| of(&mean(b, later.count), &mean(a, self.count), subtract);
            let product = of(&off(&self.x, &later.x), &off(&self.y, &later.y), multiply);
            let (n, m) = (self.count as f64, later.count as f64);
            let product = of(&product, &Value::Float(n * m), multiply);
            let product = of(&product, &Value::Float(n + m), divide);
            self.products = of(&self.products, &product, add);
        }
        self.products = of(&self.products, &later.products, add);
        self.x = of(&self.x, &later.x, add);
        self.y = of(&self.y, &later.y, add);
        self.count += later.count;
    }

    /// Returns the covariance of the pairs, or of the values that they are a sample of.
    pub(super) fn result(&self, is_sample: bool) -> Value {
        let by = self.count.saturating_sub(u64::from(is_sample));
        match self.count {
            _ if by == 0 => Value::Null,
            1 => Value::Float(0.0),
            _ if self.has_nan || self.has_infinity && self.has_negative_infinity => {
                Value::Float(f64::NAN)
            }
            _ if self.has_infinity => Value::Float(f64::INFINITY),
            _ if self.has_negative_infinity => Value::Float(f64::NEG_INFINITY),
            _ => mean(&self.products, by),
        }
    }
}

/// Returns a number; one that is no integer and no decimal as a float.
fn number(value: &Value) -> Option<Value> {
    match NumberType::of(value)? {
        NumberType::Double => Some(Value::Float(as_double(value))),
        _ => Some(value.clone()),
    }
}

fn mean(sum: &Value, count: u64) -> Value {
    of(sum, &Value::Float(count as f64), divide)
}

/// Computes with two numbers. A double beside a decimal counts with its first 15 digits.
fn of(a: &Value, b: &Value, operation: fn(&Value, &Value) -> Option<Value>) -> Value {
    let exact = |value: &Value, other: &Value| match value {
        Value::Float(float)
            if float.is_finite() && NumberType::of(other) == Some(NumberType::Decimal) =>
        {
            decimal(&format!("{float:.14e}"))
        }
        _ => None,
    };
    let (exact_a, exact_b) = (exact(a, b), exact(b, a));
    operation(exact_a.as_ref().unwrap_or(a), exact_b.as_ref().unwrap_or(b)).unwrap_or_default()
}
