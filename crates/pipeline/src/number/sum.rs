//! Sums of many numbers.

use super::arithmetic::{add, as_double};
use flagstone::Value;
use flagstone::internal::document::{
    NumberType, accumulated, accumulated_both, decimal, long, prints_as,
};

/// Returns an integer of the least type that holds it; a double beyond 64 bits.
fn integer(value: i128) -> Value {
    i64::try_from(value).map_or(Value::Float(value as f64), Value::Int)
}

/// A sum of numbers, which does not depend on their order.
#[derive(Clone)]
pub(crate) struct Sum {
    /// The sum of the integers.
    ints: i128,
    /// The exact sum of the other finite numbers; a float counts as its shortest decimal.
    others: Option<Value>,
    /// The sum of what is not finite, and of what has too many digits.
    rest: Value,
    kind: NumberType,
}

impl Sum {
    pub(crate) const fn new() -> Self {
        Self { ints: 0, others: None, rest: Value::Int(0), kind: NumberType::Int }
    }

    /// Adds a value if it is a number. Returns whether it is one.
    pub(crate) fn add(&mut self, value: &Value) -> bool {
        let Some(kind) = NumberType::of(value) else { return false };
        self.kind = self.kind.max(kind);
        if kind <= NumberType::Long
            && let Some(int) = value.as_i64()
        {
            self.ints = self.ints.saturating_add(int.into());
            return true;
        }
        let exact = match value {
            Value::Float(float) if float.is_finite() => Value::number(&format!("{float:e}")),
            Value::Float(_) => None,
            number => Some(number.clone()),
        };
        let before = self.others.as_ref().unwrap_or(&Value::Int(0));
        match exact.and_then(|exact| accumulated(before, &exact)) {
            Some(sum) => self.others = Some(sum),
            None => self.rest = add(&self.rest, value).unwrap_or_default(),
        }
        true
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.kind = self.kind.max(other.kind);
        self.ints = self.ints.saturating_add(other.ints);
        self.rest = add(&self.rest, &other.rest).unwrap_or_default();
        if let Some(more) = other.others {
            let own = self.others.as_ref().unwrap_or(&Value::Int(0));
            match accumulated_both(own, &more) {
                Some(both) => self.others = Some(both),
                None => self.rest = add(&self.rest, &more).unwrap_or_default(),
            }
        }
    }

    pub(crate) fn total(&self) -> Value {
        if self.kind <= NumberType::Long {
            return match (self.kind, i64::try_from(self.ints)) {
                (NumberType::Long, Ok(int)) => long(int),
                _ => integer(self.ints),
            };
        }
        let ints = Value::from(self.ints);
        let total = match &self.others {
            Some(others) => accumulated_both(&ints, others),
            None => Some(ints),
        };
        let total = total.or_else(|| self.others.clone()).unwrap_or_default();
        if self.kind == NumberType::Decimal {
            // As a sum of decimals it is rounded to the digits of one.
            let exact = decimal(&total.to_string()).unwrap_or_default();
            return add(&exact, &self.rest).unwrap_or_default();
        }
        if !matches!(self.rest, Value::Int(0)) {
            return Value::Float(as_double(&total) + as_double(&self.rest));
        }
        let double = as_double(&total);
        let text = total.to_string();
        if prints_as(double, &text) { total } else { Value::Float(double) }
    }

    pub(crate) fn into_value(self, count: u64) -> Value {
        let kind = match self.kind {
            NumberType::Int => 0,
            NumberType::Long => 1,
            NumberType::Double => 2,
            NumberType::Decimal => 3,
        };
        let others = self.others.unwrap_or(Value::Null);
        let ints = Value::from(self.ints);
        Value::Array(vec![ints, others, self.rest, Value::Int(kind), count.into()])
    }

    pub(crate) fn of(parts: &[Value]) -> Option<Self> {
        let [ints, others, rest, kind, _count] = parts else { return None };
        let kind = match kind.as_i64()? {
            0 => NumberType::Int,
            1 => NumberType::Long,
            2 => NumberType::Double,
            _ => NumberType::Decimal,
        };
        let ints = ints.to_string().parse().ok()?;
        let others = Some(others.clone()).filter(|others| !others.is_null());
        Some(Self { ints, others, rest: rest.clone(), kind })
    }
}
