//! Exact numbers: the literal as it was written, and its value for comparisons.
//!
//! The value of a number has the form `0.d1d2d3.. x 10^exponent`, whose digits have neither
//! leading nor trailing zeros. So all literals of one value have one such form. No function of
//! this module writes out the zeros of an exponent: time and memory are proportional to the
//! length of the literal.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io::Write;

/// The largest magnitude of an exponent: 18 digits, so that sums with lengths fit 64 bits.
pub const EXPONENT_MAX: i64 = 999_999_999_999_999_999;

/// A number that keeps its literal: `1.10`, `1e400`, `-0`, `18446744073709551616`.
///
/// Equality, order and hash compare the value: `1.10` equals `1.1`. `Display` writes the literal.
///
/// A number that was read from a document remembers whether it was stored in a wider form than its
/// literal needs, and is stored so again.
///
/// ```
/// use flagstone_doc::Number;
/// let number = |literal| Number::parse(literal).expect("it is a number");
/// assert_eq!(number("1.10"), number("1.1"));
/// assert_eq!(number("1.10").as_str(), "1.10");
/// assert_eq!((number("7.0").as_i64(), number("7.5").as_i64()), (Some(7), None));
/// assert_eq!(number("18446744073709551615").as_u64(), Some(u64::MAX));
/// assert_eq!((number("1.10").as_f64(), number("1e400").as_f64()), (1.1, f64::INFINITY));
/// assert!(Number::parse("1.").is_none());
/// ```
#[derive(Clone)]
pub struct Number {
    literal: Box<str>,
    width: Width,
}

/// Whether a number is stored in the smallest form that restores its literal. Other databases tell
/// some numbers of equal literals apart by their type; the wider forms stand for these types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Width {
    /// In the smallest form.
    #[default]
    Least,
    /// An integer that fits 32 bits, in more bytes than it needs: one of 64 bits.
    Long,
    /// As its literal: a Decimal128.
    Literal,
}

impl Number {
    /// Parses a number literal by the JSON grammar. Returns `None` if `literal` is not a number or
    /// its exponent exceeds [`EXPONENT_MAX`].
    pub fn parse(literal: &str) -> Option<Self> {
        NumberLiteral::whole(literal.as_bytes()).map(|_| Self::from_checked(literal))
    }

    /// Returns the literal as it was written.
    pub fn as_str(&self) -> &str {
        &self.literal
    }

    /// Returns the number of a literal, to be stored in a wider form.
    pub(crate) fn wide(literal: &str, width: Width) -> Self {
        Self { literal: literal.into(), width }
    }

    pub(crate) const fn width(&self) -> Width {
        self.width
    }

    /// Returns whether the smallest form in which documents store a number is its literal.
    #[doc(hidden)]
    pub fn needs_literal(literal: &str) -> bool {
        let form = NumberLiteral::whole(literal.as_bytes()).map(|literal| literal.least_form());
        form.is_none_or(|form| form == LeastForm::Literal)
    }

    /// Returns the value as an integer, if it is an integer that fits `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        self.exact().as_i64()
    }

    /// Returns the value as an unsigned integer, if it is an integer that fits `u64`.
    pub fn as_u64(&self) -> Option<u64> {
        self.exact().as_u64()
    }

    /// Returns the nearest float; infinity if the number is beyond the range of floats.
    pub fn as_f64(&self) -> f64 {
        self.as_str().parse().unwrap_or(f64::NAN)
    }

    pub(crate) fn from_checked(literal: &str) -> Self {
        Self::wide(literal, Width::Least)
    }

    pub(crate) fn exact(&self) -> Exact<'_> {
        Exact::of_literal(self.as_str().as_bytes())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        self.exact().cmp(&other.exact())
    }
}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.exact().hash(state);
    }
}

/// The parts of a number literal at the start of a byte slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberLiteral<'a> {
    pub(crate) negative: bool,
    pub(crate) whole: &'a [u8],
    pub(crate) fraction: &'a [u8],
    pub(crate) exponent: i64,
    pub(crate) has_exponent: bool,
    /// The length of the literal in bytes.
    pub(crate) len: usize,
}

fn digits_at(bytes: &[u8], at: usize) -> &[u8] {
    let rest = &bytes[at..];
    let len = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    &rest[..len]
}

impl<'a> NumberLiteral<'a> {
    /// Scans the number at the start of `bytes` by the JSON grammar. The error is an offset and
    /// what was expected there.
    pub(crate) fn scan(bytes: &'a [u8]) -> Result<Self, (usize, &'static str)> {
        let negative = bytes.first() == Some(&b'-');
        let mut at = usize::from(negative);
        let whole = digits_at(bytes, at);
        if whole.is_empty() {
            return Err((at, "a digit"));
        }
        if whole.len() > 1 && whole[0] == b'0' {
            return Err((at + 1, "no digit after a leading zero"));
        }
        at += whole.len();
        let mut fraction: &[u8] = &[];
        if bytes.get(at) == Some(&b'.') {
            fraction = digits_at(bytes, at + 1);
            if fraction.is_empty() {
                return Err((at + 1, "a digit after the point"));
            }
            at += 1 + fraction.len();
        }
        let has_exponent = matches!(bytes.get(at), Some(b'e' | b'E'));
        let mut exponent = 0;
        if has_exponent {
            let sign = bytes.get(at + 1).copied();
            let start = at + 1 + usize::from(matches!(sign, Some(b'+' | b'-')));
            let digits = digits_at(bytes, start.min(bytes.len()));
            if digits.is_empty() {
                return Err((start, "a digit of the exponent"));
            }
            let Some(magnitude) = small_int(digits) else {
                return Err((start, "an exponent of at most 18 digits"));
            };
            exponent = if sign == Some(b'-') { -magnitude } else { magnitude };
            at = start + digits.len();
        }
        Ok(Self { negative, whole, fraction, exponent, has_exponent, len: at })
    }

    /// Scans `bytes` as one literal; `None` if the literal does not fill all of it.
    pub(crate) fn whole(bytes: &'a [u8]) -> Option<Self> {
        Self::scan(bytes).ok().filter(|literal| literal.len == bytes.len())
    }

    /// Returns the smallest form from which the literal can be restored.
    #[inline]
    pub(crate) fn least_form(&self) -> LeastForm {
        let digits = self.whole.len() + self.fraction.len();
        let value = self
            .whole
            .iter()
            .chain(self.fraction)
            .take(20)
            .fold(0_i128, |value, digit| value * 10 + i128::from(digit - b'0'));
        let negative_zero = self.negative && value == 0;
        if self.has_exponent || negative_zero || digits > 20 {
            return LeastForm::Literal;
        }
        let value = if self.negative { -value } else { value };
        if self.fraction.is_empty() {
            match (i64::try_from(value), u64::try_from(value)) {
                (Ok(int), _) => LeastForm::Int(int),
                (_, Ok(int)) => LeastForm::U64(int),
                _ => LeastForm::Literal,
            }
        } else if value.unsigned_abs() < 1 << 55 {
            LeastForm::Decimal(value as i64, self.fraction.len() as u8)
        } else {
            LeastForm::Literal
        }
    }
}

/// A smallest form of a number in documents, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeastForm {
    Int(i64),
    U64(u64),
    /// Coefficient and scale.
    Decimal(i64, u8),
    Literal,
}

/// Returns the value of at most 18 significant digits; `None` if there are more.
fn small_int(digits: &[u8]) -> Option<i64> {
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    let significant = &digits[zeros..];
    (significant.len() <= 18)
        .then(|| significant.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

/// A buffer for the text of a machine number.
pub(crate) type NumberText = [u8; 48];

/// The value of a number: `0.{head}{tail} x 10^exponent`, with ASCII digits; zero has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact<'a> {
    pub(crate) negative: bool,
    pub(crate) head: &'a [u8],
    pub(crate) tail: &'a [u8],
    pub(crate) exponent: i64,
}

impl<'a> Exact<'a> {
    const ZERO: Exact<'static> = Exact { negative: false, head: &[], tail: &[], exponent: 0 };

    /// Returns the value of a validated literal; bytes that are not a literal count as zero.
    pub(crate) fn of_literal(bytes: &'a [u8]) -> Self {
        NumberLiteral::scan(bytes).map_or(Self::ZERO, |literal| Self::of(&literal))
    }

    pub(crate) fn of(literal: &NumberLiteral<'a>) -> Self {
        let mut head = literal.whole;
        let mut tail = literal.fraction;
        let mut exponent = literal.exponent + head.len() as i64;
        let zeros = |digits: &[u8]| digits.iter().take_while(|&&digit| digit == b'0').count();
        let leading = zeros(head);
        head = &head[leading..];
        exponent -= leading as i64;
        if head.is_empty() {
            let leading = zeros(tail);
            head = &tail[leading..];
            tail = &[];
            exponent -= leading as i64;
        }
        tail = without_trailing_zeros(tail);
        if tail.is_empty() {
            head = without_trailing_zeros(head);
        }
        if head.is_empty() {
            return Self::ZERO;
        }
        Self { negative: literal.negative, head, tail, exponent }
    }

    pub(crate) fn of_int(value: i128, text: &'a mut NumberText) -> Self {
        let len = written(text, format_args!("{value}"));
        Self::of_literal(&text[..len])
    }

    /// Returns the value of a finite float: the float itself if it is an integer below 2^64,
    /// otherwise the shortest decimal that reads back as the float.
    pub(crate) fn of_float(value: f64, text: &'a mut NumberText) -> Self {
        let len = float_text(value, text);
        Self::of_literal(&text[..len])
    }

    pub(crate) const fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    pub(crate) const fn is_zero(&self) -> bool {
        self.head.is_empty()
    }

    /// Returns the digits as values 0..=9.
    pub(crate) fn digits(&self) -> impl Iterator<Item = u8> + Clone + '_ {
        self.head.iter().chain(self.tail).map(|digit| digit - b'0')
    }

    /// Returns the magnitude of the integer part, and whether a fraction follows it. Returns
    /// `None` if the integer part has more than 19 digits.
    pub(crate) fn whole_part(&self) -> Option<(u64, bool)> {
        if self.exponent > 19 {
            return None;
        }
        let places = self.exponent.max(0) as usize;
        let zeros = places.saturating_sub(self.len()) as u32;
        let whole = self.digits().take(places).fold(0_u64, |v, d| v * 10 + u64::from(d));
        Some((whole * 10_u64.pow(zeros), self.len() > places))
    }

    pub(crate) fn as_i64(&self) -> Option<i64> {
        let (whole, false) = self.whole_part()? else { return None };
        let value = if self.negative { -i128::from(whole) } else { i128::from(whole) };
        i64::try_from(value).ok()
    }

    pub(crate) fn as_u64(&self) -> Option<u64> {
        let places = self.exponent.max(0) as usize;
        // The largest magnitude has 20 digits, one more than `whole_part` handles.
        if places > 20 || self.len() > places || self.negative && !self.is_zero() {
            return None;
        }
        let zeros = (places - self.len()) as u32;
        let whole = self.digits().fold(0_u128, |whole, digit| whole * 10 + u128::from(digit));
        u64::try_from(whole * 10_u128.pow(zeros)).ok()
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        let exponents = self.exponent.cmp(&other.exponent);
        if self.is_zero() || other.is_zero() {
            return other.is_zero().cmp(&self.is_zero());
        }
        exponents.then_with(|| self.digits().cmp(other.digits()))
    }

    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.cmp_magnitude(other),
            (true, true) => other.cmp_magnitude(self),
        }
    }

    pub(crate) fn hash<H: Hasher>(&self, state: &mut H) {
        if let Some(int) = self.as_i64() {
            int.hash(state);
            return;
        }
        (self.negative, self.exponent, self.len()).hash(state);
        for digit in self.digits() {
            state.write_u8(digit);
        }
    }
}

/// Returns whether a literal is the number of a double: a double prints the same digits, or it has
/// an exponent and equals one. `0.10` is none, and neither is an integer, or a literal that is
/// marked as a decimal by the exponent that drivers write: a capital letter and a sign.
pub(crate) fn is_double(literal: &str) -> bool {
    let Ok(double) = literal.parse::<f64>() else { return false };
    match literal.split_once(['e', 'E']) {
        Some((_, exponent)) => {
            let is_marked = literal.contains('E') && exponent.starts_with(['+', '-']);
            if is_marked || !double.is_finite() {
                return false;
            }
            let mut text = [0; 48];
            let shortest = Exact::of_float(double, &mut text);
            Exact::of_literal(literal.as_bytes()).cmp(&shortest).is_eq()
        }
        None => {
            let has_point = literal.contains('.') || literal == "-0";
            has_point && (format!("{double}") == literal || format!("{double:?}") == literal)
        }
    }
}

fn without_trailing_zeros(digits: &[u8]) -> &[u8] {
    let len = digits.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1);
    &digits[..len]
}

fn written(text: &mut NumberText, args: fmt::Arguments<'_>) -> usize {
    let mut rest = text.as_mut_slice();
    // The longest machine number has 40 characters, so writing cannot fail.
    let _fits = rest.write_fmt(args);
    let left = rest.len();
    text.len() - left
}

/// Writes a finite float by the JSON grammar, in a form that reads as a float: `1.0`, `1e300`.
pub(crate) fn float_text(value: f64, text: &mut NumberText) -> usize {
    if value.fract() == 0.0 && value.abs() < 18_446_744_073_709_551_616.0 {
        let sign = if value == 0.0 && value.is_sign_negative() { "-" } else { "" };
        return written(text, format_args!("{sign}{}.0", value as i128));
    }
    match value.abs() {
        1e-5..1e17 => written(text, format_args!("{value}")),
        _ => written(text, format_args!("{value:e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    #[test]
    fn a_value_has_many_literals() {
        for (a, b) in [
            ("1", "1.0"),
            ("1", "10e-1"),
            ("0", "-0.00e7"),
            ("1.10", "1.1"),
            ("100", "1E+2"),
            ("0.001", "1e-3"),
            ("18446744073709551616", "1.8446744073709551616e19"),
        ] {
            assert_eq!(number(a), number(b));
            assert_eq!(number(a).as_str(), a);
        }
        assert!(number("1e400") < number("1e401"));
        assert!(number("-1e400") < number("-1e399"));
        assert!(number("1e1000000000") > number("9e999999999"));
        assert!(number("1e-1000000000") > number("0"));
    }

    #[test]
    fn a_number_remembers_its_width_and_nothing_else_sees_it() {
        for (literal, width) in
            [("5", Width::Least), ("5", Width::Long), ("-0", Width::Long), ("1.10", Width::Literal)]
        {
            let wide = Number::wide(literal, width);
            assert_eq!((wide.width(), wide.as_str()), (width, literal));
            assert_eq!((wide.clone(), wide.to_string()), (number(literal), literal.to_owned()));
            assert_eq!(wide.as_i64(), number(literal).as_i64());
            assert_eq!(wide.as_f64(), number(literal).as_f64());
        }
        // The width takes no room in a value.
        assert_eq!(size_of::<crate::Value>(), 32);
    }

    #[test]
    fn a_literal_is_that_of_a_double_or_of_a_decimal() {
        for literal in ["1.5", "1.0", "1e3", "1E3", "-0", "-0.0", "1e300", "0.1", "5e-324"] {
            assert!(is_double(literal), "{literal}");
        }
        for literal in ["1.10", "1", "1.5E+0", "1e400", "0.1000000000000000055", "1E-7", "1.00"] {
            assert!(!is_double(literal), "{literal}");
        }
    }

    #[test]
    fn every_unsigned_integer_of_64_bits_is_one() {
        let of = |literal: &str| Number::parse(literal).and_then(|number| number.as_u64());
        for literal in
            ["18446744073709551615", "18446744073709551615.0", "184467440737095516150e-1"]
        {
            assert_eq!(of(literal), Some(u64::MAX), "{literal}");
        }
        assert_eq!(of("12345678901234567890"), Some(12_345_678_901_234_567_890));
        assert_eq!(of("1.8e19"), Some(18_000_000_000_000_000_000));
        assert_eq!((of("-0"), of("0.0"), of("0e-999999999")), (Some(0), Some(0), Some(0)));
        for literal in
            ["18446744073709551616", "99999999999999999999", "1e20", "-1", "0.5", "1e999"]
        {
            assert_eq!(of(literal), None, "{literal}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in
            ["", "-", "01", "1.", ".5", "1e", "1e+", "+1", "1 ", "0x1", "1e9999999999999999999"]
        {
            assert!(Number::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_float_stands_for_the_shortest_decimal() {
        let mut text = [0; 48];
        for (float, literal) in [
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1e300, "1e300"),
            (5e-324, "5e-324"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (-0.0, "-0.0"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e308"),
            (-2.225_073_858_507_201_4e-308, "-2.2250738585072014e-308"),
        ] {
            let len = float_text(float, &mut text);
            assert_eq!(std::str::from_utf8(&text[..len]), Ok(literal));
        }
    }
}
