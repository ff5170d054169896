//! Sums, products, quotients, powers.

use super::decimal::Decimal;
use super::transcendental;
use flagstone::Value;
use flagstone::internal::document::{NumberType, exact_product, exact_sum, long, prints_as};

/// The widest type of two numbers.
fn widest(a: &Value, b: &Value) -> Option<NumberType> {
    Some(NumberType::of(a)?.max(NumberType::of(b)?))
}

/// Returns an integer of type `kind`, or a wider one that it fits; a double beyond 64 bits.
pub(super) fn integer(value: i128, kind: NumberType) -> Value {
    match i64::try_from(value) {
        Ok(int) if kind == NumberType::Int => Value::Int(int),
        Ok(int) => long(int),
        Err(_beyond) => Value::Float(value as f64),
    }
}

/// Returns an exact number as a double: as it is if a double prints it, else the nearest float.
pub(super) fn exact_as_double(exact: &Value) -> Value {
    let text = exact.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = match fraction.trim_end_matches('0') {
        "" => "0",
        fraction => fraction,
    };
    let shortest = format!("{whole}.{fraction}");
    let double = exact.as_f64().unwrap_or(f64::NAN);
    let is_plain = !text.contains(['e', 'E']) && prints_as(double, &shortest);
    let number = is_plain.then(|| Value::number(&shortest)).flatten();
    number.unwrap_or(Value::Float(double))
}

/// What is computed of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Sum,
    Product,
}

/// Adds or multiplies two numbers that are not both integers.
fn computed(a: &Value, b: &Value, kind: NumberType, operation: Operation) -> Value {
    let (x, y) = (as_double(a), as_double(b));
    let nearest = match operation {
        Operation::Sum => x + y,
        Operation::Product => x * y,
    };
    if kind == NumberType::Decimal {
        let both = Decimal::of(a).zip(Decimal::of(b));
        let found = both.and_then(|(a, b)| match operation {
            Operation::Sum => a.plus(&b),
            Operation::Product => a.times(&b),
        });
        return found.map_or(Value::Float(nearest), Decimal::into_value);
    }
    let exactly = |a: &Value, b: &Value| match operation {
        Operation::Sum => exact_sum(a, b),
        Operation::Product => exact_product(a, b),
    };
    match (a, b) {
        (Value::Float(_), _) | (_, Value::Float(_)) => Value::Float(nearest),
        _ => exactly(a, b).map_or(Value::Float(nearest), |exact| exact_as_double(&exact)),
    }
}

/// Returns the integer that a number of an integer type is.
pub(super) fn as_integer(value: &Value) -> Option<i128> {
    let is_integer = NumberType::of(value).is_some_and(|kind| kind <= NumberType::Long);
    value.as_i64().filter(|_| is_integer).map(i128::from)
}

/// Returns the nearest float of a number.
pub(crate) fn as_double(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Returns the sum; `None` if an operand is no number.
pub(crate) fn add(a: &Value, b: &Value) -> Option<Value> {
    let kind = widest(a, b)?;
    if let (Some(a), Some(b)) = (as_integer(a), as_integer(b)) {
        return Some(integer(a + b, kind));
    }
    Some(computed(a, b, kind, Operation::Sum))
}

/// Returns the difference; `None` if an operand is no number.
pub(crate) fn subtract(a: &Value, b: &Value) -> Option<Value> {
    let kind = widest(a, b)?;
    if let (Some(a), Some(b)) = (as_integer(a), as_integer(b)) {
        return Some(integer(a - b, kind));
    }
    if kind == NumberType::Double && [a, b].iter().any(|one| matches!(one, Value::Float(_))) {
        return Some(Value::Float(as_double(a) - as_double(b)));
    }
    Some(computed(a, &negate(b), kind, Operation::Sum))
}

/// Returns the number with the other sign.
pub(crate) fn negate(value: &Value) -> Value {
    let kind = NumberType::of(value);
    match (value, as_integer(value), kind) {
        (_, Some(int), Some(kind)) => integer(-int, kind),
        (Value::Float(float), ..) => Value::Float(-float),
        (Value::Number(_), _, Some(NumberType::Decimal)) => {
            Decimal::of(value).map_or(Value::Null, |found| found.negated().into_value())
        }
        (Value::Number(number), ..) => {
            let text = number.as_str();
            let turned =
                text.strip_prefix('-').map_or_else(|| format!("-{text}"), ToOwned::to_owned);
            Value::number(&turned).unwrap_or_default()
        }
        _ => Value::Null,
    }
}

/// Returns the product; `None` if an operand is no number.
pub(crate) fn multiply(a: &Value, b: &Value) -> Option<Value> {
    let kind = widest(a, b)?;
    if let (Some(a), Some(b)) = (as_integer(a), as_integer(b)) {
        return Some(integer(a * b, kind));
    }
    Some(computed(a, b, kind, Operation::Product))
}

/// Returns the quotient, a double or a decimal; the divisor is not 0. `None` if an operand is no
/// number.
pub(crate) fn divide(a: &Value, b: &Value) -> Option<Value> {
    let kind = widest(a, b)?;
    if kind == NumberType::Decimal
        && let (Some(a), Some(b)) = (Decimal::of(a), Decimal::of(b))
        && let Some(quotient) = a.divided(&b)
    {
        return Some(quotient.into_value());
    }
    Some(Value::Float(as_double(a) / as_double(b)))
}

/// Returns the rest of a division, with the sign of the dividend; the divisor is not 0. `None` if
/// an operand is no number.
pub(crate) fn remainder(a: &Value, b: &Value) -> Option<Value> {
    let kind = widest(a, b)?;
    if let (Some(a), Some(b)) = (as_integer(a), as_integer(b)) {
        return Some(integer(a.checked_rem(b).unwrap_or_default(), kind));
    }
    if kind == NumberType::Decimal
        && let (Some(a), Some(b)) = (Decimal::of(a), Decimal::of(b))
        && let Some(rest) = a.remainder(&b)
    {
        return Some(rest.into_value());
    }
    Some(Value::Float(as_double(a) % as_double(b)))
}

/// Returns the power; `None` if an operand is no number. The base is not 0 if the exponent is
/// negative.
pub(crate) fn power(base: &Value, exponent: &Value) -> Option<Value> {
    let kind = widest(base, exponent)?;
    let nearest = || as_double(base).powf(as_double(exponent));
    if let (Some(base), Some(exponent)) = (as_integer(base), as_integer(exponent)) {
        let whole = match (base, exponent) {
            (0, 1..) => Some(0),
            (1, _) => Some(1),
            (-1, _) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
            _ => u32::try_from(exponent).ok().and_then(|exponent| base.checked_pow(exponent)),
        };
        let whole = whole.filter(|whole| i64::try_from(*whole).is_ok());
        return Some(whole.map_or_else(|| Value::Float(nearest()), |whole| integer(whole, kind)));
    }
    match Decimal::of(base).zip(Decimal::of(exponent)) {
        Some((base, exponent)) if kind == NumberType::Decimal => {
            Some(decimal_power(&base.rounded(), &exponent.rounded()))
        }
        _ => Some(Value::Float(nearest())),
    }
}

fn decimal_power(base: &Decimal, exponent: &Decimal) -> Value {
    if base.is_zero() {
        // The least exponent, as other servers have it.
        let one = exponent.is_zero();
        let digits = if one { vec![1] } else { Vec::new() };
        let exponent = if one { 0 } else { i64::MIN / 2 };
        return Decimal { is_negative: false, digits, exponent }.into_value();
    }
    let is_odd = match exponent.is_odd() {
        _ if !base.is_negative => false,
        Some(is_odd) => is_odd,
        None => return Value::Float(f64::NAN),
    };
    let magnitude = Decimal { is_negative: false, ..base.clone() };
    let sign = if is_odd { -1.0 } else { 1.0 };
    match transcendental::power(&magnitude, exponent) {
        Some(power) => Decimal { is_negative: is_odd, ..power }.into_value(),
        None => Value::Float(f64::INFINITY * sign),
    }
}

/// A function of a decimal.
type OfDecimal = fn(&Decimal) -> Option<Decimal>;

/// Applies a function to a finite decimal, else its like to a double; beyond all decimals is
/// infinity. `None` if the value is no number.
fn applied(value: &Value, of_decimal: OfDecimal, of_double: fn(f64) -> f64) -> Option<Value> {
    let kind = NumberType::of(value)?;
    match Decimal::of(value) {
        Some(decimal) if kind == NumberType::Decimal => {
            let found = of_decimal(&decimal.rounded());
            Some(found.map_or(Value::Float(f64::INFINITY), Decimal::into_value))
        }
        _ => Some(Value::Float(of_double(as_double(value)))),
    }
}

/// Returns the square root of a number that is not negative; `None` if it is no number.
pub(crate) fn square_root(value: &Value) -> Option<Value> {
    applied(value, |decimal| Some(transcendental::square_root(decimal)), f64::sqrt)
}

/// Returns the exponential; `None` if it is no number.
pub(crate) fn exponential(value: &Value) -> Option<Value> {
    applied(value, transcendental::exponential, f64::exp)
}

/// Returns the natural logarithm of a positive number; `None` if it is no number.
pub(crate) fn logarithm(value: &Value) -> Option<Value> {
    applied(value, |decimal| Some(transcendental::logarithm(decimal)), f64::ln)
}

/// Returns the logarithm to the base 10 of a positive number; `None` if it is no number.
pub(crate) fn logarithm_of_ten(value: &Value) -> Option<Value> {
    applied(value, |decimal| Some(transcendental::logarithm_of_ten(decimal)), f64::log10)
}

/// Returns the decimal nearest to a number in text; `None` if it is none, or beyond all decimals.
pub(crate) fn decimal_of_text(text: &str) -> Option<Value> {
    Value::number(text)?;
    let decimal = Decimal::parse(text)?.rounded();
    let is_zero = decimal.is_zero();
    let found = decimal.into_value();
    Some(found).filter(|found| match found {
        Value::Float(_) => false,
        found => is_zero || *found != Value::Int(0),
    })
}

/// Returns a double beside a decimal as one of 15 digits, and any other number as it is.
pub(crate) fn as_decimal(value: &Value) -> Option<Value> {
    Decimal::of(value).map(|decimal| decimal.rounded().into_value())
}

/// Returns the integer that a number equals, if it is one of 64 bits.
pub(crate) fn as_whole(value: &Value) -> Option<i64> {
    NumberType::of(value)?;
    value.as_i64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone::internal::document::decimal;

    fn number(text: &str) -> Value {
        Value::number(text).unwrap()
    }

    fn kind(value: &Value) -> NumberType {
        NumberType::of(value).unwrap()
    }

    #[test]
    fn integers_grow_to_longs_and_then_to_doubles() {
        let sum = add(&Value::from(i32::MAX), &1.into()).unwrap();
        assert_eq!((kind(&sum), sum), (NumberType::Long, (1_i64 << 31).into()));
        let sum = add(&Value::from(i64::MAX), &1.into()).unwrap();
        assert!(matches!(sum, Value::Float(float) if float == 9_223_372_036_854_775_808.0));
        let sum = add(&long(1), &1.into()).unwrap();
        assert_eq!((kind(&sum), sum), (NumberType::Long, 2.into()));
        let product = multiply(&Value::from(i64::MIN), &(-1).into()).unwrap();
        assert_eq!(kind(&product), NumberType::Double);
        assert_eq!(negate(&i64::MIN.into()), Value::Float(9_223_372_036_854_775_808.0));
        assert_eq!(remainder(&i64::MIN.into(), &(-1).into()), Some(0.into()));
    }

    #[test]
    fn decimals_stay_decimals_and_doubles_stay_doubles() {
        let sum = add(&number("0.1"), &number("0.2")).unwrap();
        assert_eq!((kind(&sum), sum.to_string()), (NumberType::Double, "0.3".to_owned()));
        let sum = add(&number("0.75"), &number("0.25")).unwrap();
        assert_eq!((kind(&sum), sum.to_string()), (NumberType::Double, "1.0".to_owned()));
        let sum = add(&decimal("1.5").unwrap(), &Value::Float(0.25)).unwrap();
        assert_eq!(
            (kind(&sum), sum.to_string()),
            (NumberType::Decimal, "1.750000000000000".to_owned())
        );
        let sum = add(&number("1.10"), &number("0.05")).unwrap();
        assert_eq!(
            (kind(&sum), sum.to_string()),
            (NumberType::Decimal, "1.1500000000000000".to_owned())
        );
        let sum = add(&Value::Float(0.5), &number("0.25")).unwrap();
        assert!(matches!(sum, Value::Float(0.75)));
        let quotient = divide(&decimal("1").unwrap(), &3.into()).unwrap();
        assert_eq!(quotient.to_string(), "0.3333333333333333333333333333333333");
        let tiny = subtract(&decimal("1E-6143").unwrap(), &0.into()).unwrap();
        assert_eq!(tiny.to_string(), "1E-6143");
        let huge = add(&decimal("1E+6144").unwrap(), &decimal("1E-6143").unwrap()).unwrap();
        assert_eq!(huge.to_string(), "1.000000000000000000000000000000000E+6144");
        let product = multiply(&decimal("3E+3000").unwrap(), &decimal("-2.5E+3000").unwrap());
        assert_eq!(product.unwrap().to_string(), "-7.5E+6000");
        let infinite = add(&decimal("1").unwrap(), &Value::Float(f64::INFINITY)).unwrap();
        assert!(matches!(infinite, Value::Float(f64::INFINITY)));
    }

    #[test]
    fn powers_and_roots_are_as_exact_as_their_type() {
        assert_eq!(power(&2.into(), &10.into()), Some(1024.into()));
        assert_eq!(power(&2.into(), &(-1).into()), Some(Value::Float(0.5)));
        assert_eq!(power(&2.into(), &64.into()), Some(Value::Float(18_446_744_073_709_551_616.0)));
        assert_eq!(power(&(-1).into(), &i64::MAX.into()), Some((-1).into()));
        let square = power(&decimal("1.1").unwrap(), &2.into()).unwrap();
        assert_eq!(square.to_string(), "1.210000000000000000000000000000000");
        assert_eq!(power(&0.into(), &i64::MAX.into()), Some(0.into()));
        let cube = power(&decimal("-2").unwrap(), &decimal("3.0").unwrap()).unwrap();
        assert_eq!(cube.to_string(), "-8.000000000000000000000000000000000");
        let root = power(&decimal("-2").unwrap(), &decimal("0.5").unwrap()).unwrap();
        assert!(root.as_f64().unwrap().is_nan());
        let nothing = power(&decimal("-0").unwrap(), &3.into()).unwrap();
        assert_eq!(nothing.to_string(), "0E-6176");
        let root = square_root(&decimal("2").unwrap()).unwrap();
        assert_eq!(root.to_string(), "1.414213562373095048801688724209698");
    }
}
