//! Absolute values, and numbers rounded to a place.

use super::arithmetic::{as_double, as_integer, as_whole, exact_as_double, integer, negate};
use super::decimal::{Decimal, Nearest};
use flagstone::Value;
use flagstone::internal::document::NumberType;

/// Where a number is rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest, a half to the even one.
    Even,
    /// Towards zero.
    Zero,
    /// Upward.
    Up,
    /// Downward.
    Down,
}

impl Rounding {
    const fn nearest(self) -> Nearest {
        match self {
            Self::Even => Nearest::Even,
            Self::Zero => Nearest::Zero,
            Self::Up => Nearest::Up,
            Self::Down => Nearest::Down,
        }
    }
}

/// Returns the number without its sign; `None` if it is no number.
pub(crate) fn absolute(value: &Value) -> Option<Value> {
    let kind = NumberType::of(value)?;
    Some(match (value, as_integer(value)) {
        (_, Some(int)) => integer(int.abs(), kind),
        (Value::Float(float), _) => Value::Float(float.abs()),
        _ if value.to_string().starts_with('-') => negate(value),
        _ => value.clone(),
    })
}

/// Rounds a number to `places` digits after the point, or before it if negative. The type stays;
/// `None` if it is no number.
pub(crate) fn round(value: &Value, places: i64, rounding: Rounding) -> Option<Value> {
    let kind = NumberType::of(value)?;
    if let Some(int) = as_integer(value) {
        return Some(if places >= 0 {
            value.clone()
        } else {
            integer(rounded(int, places, rounding), kind)
        });
    }
    if let Value::Float(float) = value
        && (places == 0 || !float.is_finite())
    {
        return Some(Value::Float(match rounding {
            Rounding::Even => float.round_ties_even(),
            Rounding::Zero => float.trunc(),
            Rounding::Up => float.ceil(),
            Rounding::Down => float.floor(),
        }));
    }
    let exact = Decimal::exactly(value)?;
    let more = -places.saturating_add(exact.exponent);
    let cut = match usize::try_from(more) {
        Ok(more) if more > 0 => {
            // Beyond the first digit all cuts are alike.
            let most = exact.digits.len() + 1;
            let mut cut = exact.cut(more.min(most), rounding.nearest());
            if more > most {
                cut.exponent = -places;
            }
            cut
        }
        _ => exact,
    };
    Some(match kind {
        NumberType::Decimal => cut.with_exponent(-places).into_value(),
        _ => {
            let double = cut.literal().parse().unwrap_or_else(|_wrong| as_double(value));
            match value {
                Value::Float(_) => Value::Float(double),
                _ => exact_as_double(&Value::Float(double)),
            }
        }
    })
}

/// Returns the whole number that a number counts as: a double is cut, a decimal goes to the
/// nearest, and what is too large is the largest.
pub(crate) fn to_whole(value: &Value) -> Option<i64> {
    let kind = NumberType::of(value)?;
    let is_decimal = kind == NumberType::Decimal;
    let rounding = if is_decimal { Rounding::Even } else { Rounding::Zero };
    let rounded = round(value, 0, rounding)?;
    Some(as_whole(&rounded).unwrap_or_else(|| as_double(&rounded) as i64))
}

/// Rounds an integer to `-places` digits before the point: towards zero, else half to even.
fn rounded(int: i128, places: i64, rounding: Rounding) -> i128 {
    let unit = u32::try_from(-places).ok().and_then(|digits| 10_i128.checked_pow(digits));
    let Some(unit) = unit else { return 0 };
    if rounding == Rounding::Zero {
        return int - int % unit;
    }
    let (whole, rest) = (int.div_euclid(unit), int.rem_euclid(unit));
    let is_up = rest * 2 > unit || rest * 2 == unit && whole % 2 != 0;
    (whole + i128::from(is_up)) * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone::internal::document::decimal;

    #[test]
    fn numbers_are_rounded_in_their_type() {
        let even = |value: Value, places| round(&value, places, Rounding::Even).unwrap();
        assert_eq!(even(10.5.into(), 0), Value::Float(10.0));
        assert_eq!(even(11.5.into(), 0), Value::Float(12.0));
        assert_eq!(even(1.005.into(), 2), Value::Float(1.0));
        assert_eq!(even(1.2345.into(), 2).to_string(), "1.23");
        assert_eq!(even(12345.into(), -2), Value::Int(12_300));
        assert_eq!(even(12_350.into(), -2), Value::Int(12_400));
        assert_eq!(even((-250).into(), -2), Value::Int(-200));
        assert_eq!(even(7.into(), -30), Value::Int(0));
        assert_eq!(round(&(-1_299).into(), -2, Rounding::Zero), Some((-1_200).into()));
        assert_eq!(even(decimal("1.005").unwrap(), 2).to_string(), "1.00");
        assert_eq!(even(Value::number("2.25").unwrap(), 1).to_string(), "2.2");
        let up = |value: f64| round(&value.into(), 0, Rounding::Up).unwrap();
        assert_eq!((up(1.2), up(-1.2)), (Value::Float(2.0), Value::Float(-1.0)));
        let down = round(&decimal("-1.2").unwrap(), 0, Rounding::Down).unwrap();
        assert_eq!(down.to_string(), "-2");
        assert!(round(&f64::NAN.into(), 2, Rounding::Even).unwrap().as_f64().unwrap().is_nan());
        assert_eq!(absolute(&(-3).into()), Some(3.into()));
        assert_eq!(absolute(&Value::number("-1.50").unwrap()).unwrap().to_string(), "1.50");
        assert_eq!(absolute(&"x".into()), None);
    }
}
