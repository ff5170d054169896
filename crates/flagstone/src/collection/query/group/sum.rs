//! Exact sums and averages.

use flagstone_base::codec::put_bytes;
use flagstone_base::{Decoder, Error, Malformed, Result};
use flagstone_doc::{Direction, Value, View, accumulated, accumulated_both, exact_sum, sort_key};

/// The digits of an average that is not exact.
const DIGITS: usize = 34;

const NOT_A_NUMBER: u8 = 1;
const ABOVE_ALL: u8 = 2;
const BELOW_ALL: u8 = 4;
const TOO_LONG: u8 = 8;

/// A sum of numbers. Its result does not depend on their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    /// The sum of the integers of 64 bits.
    ints: i128,
    /// The sum of the other finite numbers.
    others: Option<Value>,
    /// What was met besides finite numbers, or a number with too many digits.
    marks: u8,
}

impl Sum {
    /// Adds a value if it is a number. Returns whether it is one.
    pub(super) fn add(&mut self, value: &View<'_>) -> Result<bool, Malformed> {
        if let Some(int) = value.as_i64() {
            self.add_int(i128::from(int));
            return Ok(true);
        }
        if !value.is_number() {
            return Ok(false);
        }
        Ok(self.add_number(value.to_value()?))
    }

    /// Adds the value of a sort key that decodes to just what the document holds, if it is a
    /// number. Returns whether it is one.
    #[inline]
    pub(super) fn add_key(&mut self, key: &[u8], direction: Direction) -> Result<bool, Malformed> {
        if let Some(int) = sort_key::as_int(key, direction) {
            self.add_int(i128::from(int));
            return Ok(true);
        }
        let mut turned = Vec::new();
        match sort_key::turned(key, direction, &mut turned) {
            [sort_key::MISSING] => Ok(false),
            key => Ok(self.add_number(sort_key::decode(key, Direction::Ascending)?)),
        }
    }

    /// Adds a value if it is a number. Returns whether it is one.
    fn add_number(&mut self, value: Value) -> bool {
        match value {
            Value::Int(int) => self.add_int(i128::from(int)),
            Value::Float(float) if float.is_nan() => self.marks |= NOT_A_NUMBER,
            Value::Float(f64::INFINITY) => self.marks |= ABOVE_ALL,
            Value::Float(f64::NEG_INFINITY) => self.marks |= BELOW_ALL,
            // The shortest decimal that reads back as the float.
            Value::Float(float) => {
                if let Some(number) = Value::number(&float.to_string()) {
                    self.add_other(&number);
                }
            }
            number @ Value::Number(_) => self.add_other(&number),
            _ => return false,
        }
        true
    }

    fn add_int(&mut self, int: i128) {
        match self.ints.checked_add(int) {
            Some(ints) => self.ints = ints,
            None => self.add_other(&Value::from(int)),
        }
    }

    fn add_other(&mut self, number: &Value) {
        let before = self.others.as_ref().unwrap_or(&Value::Int(0));
        match accumulated(before, number) {
            Some(others) => self.others = Some(others),
            None => self.marks |= TOO_LONG,
        }
    }

    /// Adds the sum of other documents.
    pub(super) fn merge(&mut self, other: &Self) {
        self.marks |= other.marks;
        self.add_int(other.ints);
        if let Some(others) = &other.others {
            let own = self.others.as_ref().unwrap_or(&Value::Int(0));
            match accumulated_both(own, others) {
                Some(both) => self.others = Some(both),
                None => self.marks |= TOO_LONG,
            }
        }
    }

    /// Returns the sum.
    ///
    /// # Errors
    /// InvalidInput if it has more than 1,000 digits.
    pub(super) fn total(&self) -> Result<Value> {
        let infinite = self.marks & (ABOVE_ALL | BELOW_ALL);
        if self.marks & NOT_A_NUMBER != 0 || infinite == ABOVE_ALL | BELOW_ALL {
            return Ok(Value::Float(f64::NAN));
        }
        if infinite != 0 {
            let limit = if infinite == ABOVE_ALL { f64::INFINITY } else { f64::NEG_INFINITY };
            return Ok(Value::Float(limit));
        }
        let ints = Value::from(self.ints);
        let total = match &self.others {
            Some(others) => accumulated_both(&ints, others),
            None => Some(ints),
        };
        // Only the result is held to the limit, whatever came between.
        let total = total.and_then(|total| exact_sum(&total, &Value::Int(0)));
        total.filter(|_| self.marks & TOO_LONG == 0).ok_or_else(|| {
            Error::invalid("a sum of numbers with more than 1,000 digits between first and last")
        })
    }

    /// Returns the sum divided by `count`, which is not 0.
    pub(super) fn mean(&self, count: u64) -> Result<Value> {
        let total = self.total()?;
        if let Value::Float(_) = total {
            return Ok(total);
        }
        Ok(divided(&total.to_string(), count))
    }

    /// The bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.others {
            Some(Value::Number(number)) => number.as_str().len(),
            _ => 0,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.marks);
        out.extend_from_slice(&self.ints.to_le_bytes());
        let others = self.others.as_ref().map(Value::to_string).unwrap_or_default();
        put_bytes(out, others.as_bytes());
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let marks = decoder.u8("the marks of a sum")?;
        let ints = i128::from_le_bytes(decoder.array("a sum of integers")?);
        let at = decoder.position();
        let others = match decoder.text("a sum of numbers")? {
            "" => None,
            text => Some(Value::number(text).ok_or(Malformed { at, expected: "a number" })?),
        };
        Ok(Self { ints, others, marks })
    }
}

/// Divides a plain decimal literal by `count`, exactly if [`DIGITS`] digits suffice.
/// Otherwise the quotient is rounded to that many digits, half to even.
fn divided(literal: &str, count: u64) -> Value {
    let (is_negative, literal) = match literal.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, literal),
    };
    let (whole, fraction) = literal.split_once('.').unwrap_or((literal, ""));
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
    let (mut quotient, mut rest) = (Vec::with_capacity(digits.len() + DIGITS), 0_u128);
    // How many digits of the quotient are after the point.
    let mut scale = fraction.len();
    let count = u128::from(count);
    for digit in digits {
        rest = rest * 10 + u128::from(digit);
        quotient.push((rest / count) as u8);
        rest %= count;
    }
    let significant =
        |quotient: &[u8]| quotient.len() - quotient.iter().take_while(|digit| **digit == 0).count();
    while rest > 0 && significant(&quotient) < DIGITS {
        rest *= 10;
        quotient.push((rest / count) as u8);
        rest %= count;
        scale += 1;
    }
    let is_up = match (2 * rest).cmp(&count) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => quotient.last().is_some_and(|digit| digit % 2 == 1),
    };
    if is_up {
        raise(&mut quotient);
    }
    // A whole number of places after the point, and at least one before it.
    while quotient.len() <= scale {
        quotient.insert(0, 0);
    }
    let text: String = quotient.iter().map(|digit| char::from(b'0' + digit)).collect();
    let (whole, fraction) = text.split_at(quotient.len() - scale);
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let is_zero = whole == "0" && fraction.is_empty();
    let sign = if is_negative && !is_zero { "-" } else { "" };
    Value::number(&format!("{sign}{whole}{point}{fraction}")).unwrap_or_default()
}

/// Adds one to the last digit.
fn raise(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
    digits.insert(0, 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_doc::Document;

    fn sum_of(values: &[Value]) -> Sum {
        let mut sum = Sum::default();
        for value in values {
            sum.add(&Document::from_value(value).unwrap().root()).unwrap();
        }
        sum
    }

    fn number(literal: &str) -> Value {
        Value::number(literal).unwrap()
    }

    #[test]
    fn sums_are_exact_in_any_order_and_parts() {
        let values = [
            Value::from(0.1),
            number("0.2"),
            Value::from(i64::MAX),
            Value::from(u64::MAX),
            number("-1e20"),
            number("1.0"),
            Value::from("text"),
            Value::from(1e300),
            Value::from(-1e300),
        ];
        // 2^63 - 1 + 2^64 - 1 - 10^20 + 1 + 0.3.
        let expected = number("-72329883889435672576.7");
        for turn in 0..values.len() {
            let mut turned = values.to_vec();
            turned.rotate_left(turn);
            assert_eq!(sum_of(&turned).total().unwrap(), expected);
            let (left, right) = turned.split_at(4);
            let mut bytes = Vec::new();
            sum_of(left).encode(&mut bytes);
            let mut merged = Sum::decode(&mut Decoder::new(&bytes)).unwrap();
            merged.merge(&sum_of(right));
            assert_eq!(merged.total().unwrap(), expected);
        }
    }

    #[test]
    fn a_sum_depends_on_the_order_neither_of_the_largest_nor_of_the_smallest() {
        let values = [number("1e999"), number("1e-999"), number("-1e999")];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let turned = order.map(|at| values[at].clone());
            assert_eq!(sum_of(&turned).total().unwrap(), values[1], "{order:?}");
            for cut in 1..3 {
                let mut merged = sum_of(&turned[..cut]);
                merged.merge(&sum_of(&turned[cut..]));
                assert_eq!(merged.total().unwrap(), values[1], "{order:?}, cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        let limits = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(Value::from);
        assert_eq!(sum_of(&limits[..1]).total().unwrap(), limits[0]);
        assert_eq!(sum_of(&limits[1..2]).total().unwrap(), limits[1]);
        assert_eq!(sum_of(&limits[..2]).total().unwrap(), limits[2]);
        assert_eq!(sum_of(&limits[2..]).total().unwrap(), limits[2]);
    }

    #[test]
    fn a_sum_of_too_many_digits_is_refused() {
        let refused = sum_of(&[number("1e2000"), 1.into()]).total().unwrap_err();
        assert_eq!(refused.kind(), flagstone_base::ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("1,000 digits"), "{refused}");
    }

    #[test]
    fn averages_are_exact_or_have_34_digits() {
        for (total, count, expected) in [
            ("6", 3, "2"),
            ("7", 2, "3.5"),
            ("-7", 2, "-3.5"),
            ("0", 9, "0"),
            ("1", 8, "0.125"),
            ("0.3", 3, "0.1"),
            ("100", 100, "1"),
            ("1", 3, "0.3333333333333333333333333333333333"),
            ("2", 3, "0.6666666666666666666666666666666667"),
            ("-0.002", 3, "-0.0006666666666666666666666666666666667"),
            ("29999999999999999999999999999999999", 3, "10000000000000000000000000000000000"),
            ("99999999999999999999999999999999999", 2, "50000000000000000000000000000000000"),
        ] {
            assert_eq!(divided(total, count).to_string(), expected, "{total} / {count}");
        }
    }
}
