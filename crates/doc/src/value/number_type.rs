//! The types of numbers that MongoDB drivers tell apart, and numbers of a given type.

use crate::number::{Number, Width};
use crate::value::Value;

/// A type of numbers in BSON. The result of an operation has the greater type of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NumberType {
    /// An integer of 32 bits.
    Int,
    /// An integer of 64 bits.
    Long,
    /// A binary float.
    Double,
    /// An exact decimal.
    Decimal,
}

impl NumberType {
    /// Returns the type as which a number goes out to a driver; `None` if the value is no number.
    pub fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Int(int) if i32::try_from(*int).is_ok() => Self::Int,
            Value::Int(_) => Self::Long,
            Value::Float(_) => Self::Double,
            Value::Number(number) => match number.width() {
                Width::Long => Self::Long,
                Width::Literal => Self::Decimal,
                Width::Least if is_marked_decimal(number.as_str()) => Self::Decimal,
                Width::Least if is_double(number.as_str()) => Self::Double,
                Width::Least => Self::Decimal,
            },
            _ => return None,
        })
    }
}

/// Returns an integer of 64 bits, which it stays even if 32 bits would do.
pub fn long(value: i64) -> Value {
    match i32::try_from(value) {
        Ok(_) => Value::Number(Number::wide(&value.to_string(), Width::Long)),
        Err(_) => Value::Int(value),
    }
}

/// Returns the exact decimal of a literal; `None` if it is no number by the JSON grammar.
pub fn decimal(literal: &str) -> Option<Value> {
    Number::parse(literal)?;
    let literal = match literal.split_once(['e', 'E']) {
        Some((digits, exponent)) if exponent.starts_with(['+', '-']) => {
            format!("{digits}E{exponent}")
        }
        Some((digits, exponent)) => format!("{digits}E+{exponent}"),
        None => marked_decimal(literal.to_owned()),
    };
    Some(Value::Number(Number::wide(&literal, Width::Literal)))
}

/// Returns whether a double prints the number of a literal. Without an exponent the digits are the
/// same: `0.10` is no double, and neither is an integer.
pub fn prints_as(double: f64, literal: &str) -> bool {
    if literal.contains(['e', 'E']) {
        return Value::number(literal) == Some(Value::Float(double));
    }
    let is_whole = !literal.contains('.') && literal != "-0";
    !is_whole && (format!("{double}") == literal || format!("{double:?}") == literal)
}

fn is_double(literal: &str) -> bool {
    literal.parse().is_ok_and(|double| prints_as(double, literal))
}

/// Returns whether a literal has the exponent that decimals have, which few programs write in JSON:
/// a capital letter and always a sign.
pub fn is_marked_decimal(literal: &str) -> bool {
    literal.split_once('E').is_some_and(|(_, exponent)| exponent.starts_with(['+', '-']))
}

/// Adds an exponent to the literal of a decimal if nothing else would tell it from the double that
/// JSON may have: both are stored as literals, such as a negative zero.
pub fn marked_decimal(literal: String) -> String {
    let is_marked = is_marked_decimal(&literal);
    if !is_marked && Number::needs_literal(&literal) && is_double(&literal) {
        return literal + "E+0";
    }
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_types_of_drivers() {
        let of = |text: &str| NumberType::of(&Value::number(text).unwrap()).unwrap();
        assert_eq!(of("1"), NumberType::Int);
        assert_eq!(of("2147483648"), NumberType::Long);
        assert_eq!(
            (of("1.5"), of("1e3"), of("-0")),
            (NumberType::Double, NumberType::Double, NumberType::Double)
        );
        assert_eq!((of("1.50"), of("1.5E+0")), (NumberType::Decimal, NumberType::Decimal));
        assert_eq!(of("18446744073709551616"), NumberType::Decimal);
        assert_eq!(NumberType::of(&"1".into()), None);
        for literal in ["1", "1.5", "-0", "1e3", "2.5e-1", "1E5", "0.10"] {
            let made = decimal(literal).unwrap();
            assert_eq!(NumberType::of(&made), Some(NumberType::Decimal), "{literal}");
            assert_eq!(made, Value::number(literal).unwrap());
            let mut bytes = Vec::new();
            crate::Encoder::new().encode(&made, None, &mut bytes).unwrap();
            let stored = crate::validate(&bytes, None).unwrap().to_value().unwrap();
            assert_eq!(NumberType::of(&stored), Some(NumberType::Decimal), "{literal}");
        }
        assert_eq!(decimal("x"), None);
        assert_eq!(NumberType::of(&long(1)), Some(NumberType::Long));
    }
}
