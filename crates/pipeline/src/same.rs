//! Whether two values are the same to the last detail.

use flagstone::Value;
use flagstone::internal::document::NumberType;

/// Returns whether two values would be stored as the same bytes, in contrast to `==`, for which
/// `1` and `1.0` are equal, and maps in any order. An update that leaves all values the same
/// changes nothing.
pub fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Int(_) | Value::Number(_) | Value::Float(_), _) => {
            let is_float = matches!(a, Value::Float(_)) == matches!(b, Value::Float(_));
            is_float && NumberType::of(a) == NumberType::of(b) && a.to_string() == b.to_string()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let mut pairs = a.iter().zip(b.iter());
            a.len() == b.len() && pairs.all(|(a, b)| is_same(&a.0, &b.0) && is_same(&a.1, &b.1))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone::doc;
    use flagstone::internal::document::{decimal, long};

    #[test]
    fn types_and_orders_that_equality_does_not_see_are_told_apart() {
        let number = |literal: &str| Value::number(literal).unwrap();
        let line = [
            doc!(1),
            doc!(1.0),
            number("1.0"),
            long(1),
            decimal("1").unwrap(),
            number("1.10"),
            number("1.1"),
            doc!(0.0),
            doc!(-0.0),
            doc!(null),
            doc!("1"),
            doc!([1]),
            doc!([1.0]),
            doc!({"a": 1, "b": 2}),
            doc!({"b": 2, "a": 1}),
            doc!({"a": 1}),
        ];
        for (i, a) in line.iter().enumerate() {
            for (j, b) in line.iter().enumerate() {
                assert_eq!(is_same(a, b), i == j, "{a} and {b}");
            }
        }
        assert!(is_same(&f64::NAN.into(), &f64::NAN.into()));
    }
}
