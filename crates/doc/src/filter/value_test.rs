//! The operators that test each value by itself. The type of an operator says all about it: how its
//! operand is parsed and written, which values pass it, and which index keys such values have.

use super::bits::BitTest;
use super::cursor::Cursor;
use super::error::FilterError;
use super::intervals::{Interval, KeySet, key};
use super::pattern::Pattern;
use super::sets::Sets;
use super::types::TypeSet;
use crate::map::Map;
use crate::number::Exact;
use crate::show::quoted;
use crate::value::Value;
use crate::value_type::ValueType;
use crate::view::View;
use crate::view_order;
use flagstone_base::Malformed;
use memchr::memmem::Finder;
use std::fmt;

/// Declares [`ValueTest`]: a line for each operator, with the type that implements it.
macro_rules! value_tests {
    ($($name:literal => $variant:ident($operator:ty),)+) => {
        /// A test of one value; an array is tested as a whole.
        #[derive(Clone, Debug, PartialEq)]
        pub(super) enum ValueTest {
            $($variant($operator),)+
        }

        impl ValueTest {
            /// The names of the operators, and the functions that parse their operands.
            pub(super) const OPERATORS: &[(&str, ParseOperand)] = &[
                $(($name, |cursor, operators| {
                    <$operator>::parse(cursor, operators).map(Self::$variant)
                }),)+
            ];

            /// Returns the name of the operator.
            pub(super) const fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)+
                }
            }

            pub(super) fn operator(&self) -> &dyn ValueOperator {
                match self {
                    $(Self::$variant(operator) => operator,)+
                }
            }

            /// As [`ValueOperator::holds`], which is inlined here.
            #[inline]
            pub(super) fn holds(&self, value: &View<'_>) -> Result<bool, Malformed> {
                match self {
                    $(Self::$variant(operator) => operator.holds(value),)+
                }
            }
        }
    };
}

value_tests! {
    "$type" => Type(TypeSet),
    "$prefix" => Prefix(Prefix),
    "$contains" => Contains(Contains),
    "$regex" => Regex(Pattern),
    "$mod" => Remainder(Remainder),
    "$bitsAllSet" => BitsAllSet(BitTest<false, true>),
    "$bitsAnySet" => BitsAnySet(BitTest<true, true>),
    "$bitsAllClear" => BitsAllClear(BitTest<false, false>),
    "$bitsAnyClear" => BitsAnyClear(BitTest<true, false>),
}

/// Parses the operand at the cursor, which is in this map of operators.
pub(super) type ParseOperand = fn(&mut Cursor<'_>, &Map) -> Result<ValueTest, FilterError>;

/// An operator that tests each value by itself.
pub(super) trait ValueOperator {
    /// Parses the operand at the cursor, which is in the map `operators`.
    fn parse(cursor: &mut Cursor<'_>, operators: &Map) -> Result<Self, FilterError>
    where
        Self: Sized;

    /// Writes the operand so that `parse` reads it back.
    fn write_operand(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;

    /// Estimates the time of a test; only the order of estimates matters.
    fn cost(&self) -> usize;

    /// Returns whether a value passes the test.
    fn holds(&self, value: &View<'_>) -> Result<bool, Malformed>;

    /// Returns the keys of values that pass. An array is one value, too.
    fn keys(&self) -> Sets;

    /// Returns the keys of documents in which a value passes: the same, if no array passes.
    fn document_keys(&self) -> Sets {
        self.keys()
    }

    /// Returns whether it is certain that a value that passes also passes `other`. The keys were
    /// compared already.
    fn implies(&self, _other: &ValueTest) -> bool {
        false
    }
}

/// The name in Extended JSON of a regular expression, which drivers have a type for.
pub(super) const REGEX_FORM: &str = "$regularExpression";

/// Returns pattern and options of a regular expression in Extended JSON.
pub(super) fn regex_parts(form: &Value) -> Option<(&str, &str)> {
    let Value::Map(parts) = form else { return None };
    let text = |name| parts.get(name).and_then(Value::as_str);
    text("pattern").zip(text("options")).filter(|_| parts.len() == 2)
}

/// Returns the text at the cursor.
fn text<'v>(cursor: &Cursor<'v>) -> Result<&'v str, FilterError> {
    cursor.value().as_str().ok_or_else(|| cursor.refuse("text"))
}

/// `$prefix`: a text begins with this.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prefix(pub(super) Box<str>);

impl ValueOperator for Prefix {
    fn parse(cursor: &mut Cursor<'_>, _operators: &Map) -> Result<Self, FilterError> {
        text(cursor).map(|text| Self(text.into()))
    }

    fn write_operand(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quoted(f, &self.0)
    }

    fn cost(&self) -> usize {
        2
    }

    #[inline]
    fn holds(&self, value: &View<'_>) -> Result<bool, Malformed> {
        Ok(value.as_text_bytes().is_some_and(|text| text.starts_with(self.0.as_bytes())))
    }

    fn keys(&self) -> Sets {
        let mut from = key(&Value::from(&*self.0));
        // The end byte of the text.
        from.pop();
        Sets::exactly(KeySet::of([Interval::of_prefix(from)]))
    }

    fn implies(&self, other: &ValueTest) -> bool {
        matches!(other, ValueTest::Contains(part) if self.0.contains(&*part.text))
    }
}

/// `$contains`: a text contains this.
#[derive(Clone, Debug)]
pub(super) struct Contains {
    text: Box<str>,
    finder: Box<Finder<'static>>,
}

impl Contains {
    pub(super) fn new(text: &str) -> Self {
        let finder = Box::new(Finder::new(text.as_bytes()).into_owned());
        Self { text: text.into(), finder }
    }
}

impl PartialEq for Contains {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl ValueOperator for Contains {
    fn parse(cursor: &mut Cursor<'_>, _operators: &Map) -> Result<Self, FilterError> {
        text(cursor).map(Self::new)
    }

    fn write_operand(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quoted(f, &self.text)
    }

    fn cost(&self) -> usize {
        30
    }

    #[inline]
    fn holds(&self, value: &View<'_>) -> Result<bool, Malformed> {
        Ok(value.as_text_bytes().is_some_and(|text| self.finder.find(text).is_some()))
    }

    fn keys(&self) -> Sets {
        Sets::at_most(KeySet::of_type(ValueType::Text))
    }

    fn implies(&self, other: &ValueTest) -> bool {
        matches!(other, ValueTest::Contains(part) if self.text.contains(&*part.text))
    }
}

/// `$regex`: the pattern matches a part of a text. `$options`, beside it, has the options.
impl ValueOperator for Pattern {
    fn parse(cursor: &mut Cursor<'_>, operators: &Map) -> Result<Self, FilterError> {
        let (pattern, own) = match cursor.value() {
            Value::Map(map) => match map.get(REGEX_FORM).and_then(regex_parts) {
                Some(parts) => parts,
                None => return Err(cursor.refuse("text, or a regular expression")),
            },
            _ => (text(cursor)?, ""),
        };
        let options = match operators.get("$options") {
            None => own,
            Some(options) if own.is_empty() => options
                .as_str()
                .ok_or_else(|| cursor.refuse("options of text: letters among imsx"))?,
            Some(_) => return Err(cursor.refuse("options beside the expression, or in it")),
        };
        Self::new(pattern, options).map_err(|expected| cursor.refuse(expected))
    }

    fn write_operand(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quoted(f, self.text())?;
        if !self.options().is_empty() {
            write!(f, ",\"$options\":\"{}\"", self.options())?;
        }
        Ok(())
    }

    fn cost(&self) -> usize {
        90
    }

    #[inline]
    fn holds(&self, value: &View<'_>) -> Result<bool, Malformed> {
        Ok(value.as_str().is_some_and(|text| self.matches(text)))
    }

    fn keys(&self) -> Sets {
        Sets::at_most(KeySet::of_type(ValueType::Text))
    }
}

/// `$mod`: the integer part of a number has this remainder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Remainder {
    divisor: i64,
    remainder: i64,
}

impl Remainder {
    /// Makes the test, unless the divisor is 0.
    pub(super) fn new(divisor: i64, remainder: i64) -> Option<Self> {
        (divisor != 0).then_some(Self { divisor, remainder })
    }
}

impl ValueOperator for Remainder {
    fn parse(cursor: &mut Cursor<'_>, _operators: &Map) -> Result<Self, FilterError> {
        let numbers = match cursor.value() {
            Value::Array(items) if items.len() == 2 => {
                let [divisor, remainder] = [&items[0], &items[1]].map(|item| cursor.plain_of(item));
                whole(&divisor).zip(whole(&remainder))
            }
            _ => None,
        };
        numbers.and_then(|(divisor, remainder)| Self::new(divisor, remainder)).ok_or_else(|| {
            cursor.refuse("[divisor, remainder]: two integers of 64 bits, the divisor not 0")
        })
    }

    fn write_operand(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{},{}]", self.divisor, self.remainder)
    }

    fn cost(&self) -> usize {
        4
    }

    #[inline]
    fn holds(&self, value: &View<'_>) -> Result<bool, Malformed> {
        Ok(remainder(value, self.divisor) == Some(self.remainder))
    }

    fn keys(&self) -> Sets {
        Sets::at_most(KeySet::of_type(ValueType::Number))
    }
}

/// Returns the integer part of a number, if it fits 64 bits.
fn whole(value: &Value) -> Option<i64> {
    let mut text = [0; 48];
    match value.value_type() {
        ValueType::Number => match value.exact(&mut text).ok()?.whole_part()? {
            (whole, _) if value.as_f64()? < 0.0 => 0_i64.checked_sub_unsigned(whole),
            (whole, _) => i64::try_from(whole).ok(),
        },
        _ => None,
    }
}

/// Returns the remainder of a number's integer part; `None` for other values and for floats that
/// are not finite.
fn remainder(value: &View<'_>, divisor: i64) -> Option<i64> {
    if let Some(int) = value.as_small_int() {
        return Some(int.wrapping_rem(divisor));
    }
    if !value.is_number() {
        return None;
    }
    let mut text = [0; 48];
    let exact = view_order::exact(value, &mut text).ok()?;
    let magnitude = remainder_of_magnitude(&exact, divisor.unsigned_abs().into());
    // The magnitude is less than that of the divisor, which is an i64.
    let magnitude = i64::try_from(magnitude).ok()?;
    Some(if exact.negative { -magnitude } else { magnitude })
}

/// Returns the remainder of the integer part, without its sign.
fn remainder_of_magnitude(exact: &Exact<'_>, divisor: u128) -> u128 {
    let places = usize::try_from(exact.exponent).unwrap_or(0);
    let digits = exact.digits().take(places);
    let rest = digits.fold(0, |rest, digit| (rest * 10 + u128::from(digit)) % divisor);
    let mut zeros = places.saturating_sub(exact.len());
    // Ten to the power of `zeros`, by squaring. The divisor has at most 64 bits.
    let (mut power, mut base) = (1 % divisor, 10 % divisor);
    while zeros > 0 {
        if zeros & 1 == 1 {
            power = power * base % divisor;
        }
        base = base * base % divisor;
        zeros >>= 1;
    }
    rest * power % divisor
}
