//! Roots, exponentials, logarithms and powers of decimals, to the 34 digits of one.
//!
//! They are computed with fixed-point numbers that have 81 digits behind the point: an exponential
//! by its series, whose argument is made small by powers of ten, and a logarithm by one step from
//! that of the nearest double. What is not exact has all 34 digits.

use super::decimal::{DIGITS, Decimal};
use std::cmp::Ordering;

/// Limbs have nine digits each, the least significant first.
const LIMB: u64 = 1_000_000_000;
const LIMB_DIGITS: usize = 9;
/// The limbs behind the point, and their digits.
const LIMBS: usize = 9;
const BEHIND: usize = LIMBS * LIMB_DIGITS;
/// The natural logarithm of 10, and the logarithm of e to the base 10.
const LN_10: &str =
    "2302585092994045684017991454684364207601101488628772976033327900967572609677352480";
const LOG_E: &str =
    "434294481903251827651128918916605082294397005803666566114453783165864649208870774";

/// A natural number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Natural(Vec<u32>);

impl Natural {
    fn trimmed(mut limbs: Vec<u32>) -> Self {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        Self(limbs)
    }

    /// Makes a number of digits from 0 to 9, the most significant first.
    fn of(digits: &[u8]) -> Self {
        let limb =
            |digits: &[u8]| digits.iter().fold(0, |limb, digit| limb * 10 + u32::from(*digit));
        Self::trimmed(digits.rchunks(LIMB_DIGITS).map(limb).collect())
    }

    fn digits(&self) -> Vec<u8> {
        let text: String = self.0.iter().rev().map(|limb| format!("{limb:09}")).collect();
        text.bytes().map(|digit| digit - b'0').skip_while(|digit| *digit == 0).collect()
    }

    fn plus(&self, other: &Self) -> Self {
        let len = self.0.len().max(other.0.len());
        let (mut limbs, mut carry) = (Vec::with_capacity(len + 1), 0);
        for at in 0..=len {
            let limb = |of: &Self| u64::from(of.0.get(at).copied().unwrap_or(0));
            carry += limb(self) + limb(other);
            limbs.push((carry % LIMB) as u32);
            carry /= LIMB;
        }
        Self::trimmed(limbs)
    }

    /// Subtracts a number that is not larger.
    fn minus(&self, other: &Self) -> Self {
        let (mut limbs, mut borrowed) = (Vec::with_capacity(self.0.len()), 0);
        for (at, limb) in self.0.iter().enumerate() {
            let less = u64::from(other.0.get(at).copied().unwrap_or(0)) + borrowed;
            borrowed = u64::from(u64::from(*limb) < less);
            limbs.push((u64::from(*limb) + borrowed * LIMB).saturating_sub(less) as u32);
        }
        Self::trimmed(limbs)
    }

    fn times(&self, other: &Self) -> Self {
        let mut limbs = vec![0_u32; self.0.len() + other.0.len() + 1];
        for (at, a) in self.0.iter().enumerate() {
            let mut carry = 0;
            let others = other.0.iter().map(|b| u64::from(*b)).chain([0]);
            for (b, limb) in others.zip(&mut limbs[at..]) {
                carry += u64::from(*a) * b + u64::from(*limb);
                *limb = (carry % LIMB) as u32;
                carry /= LIMB;
            }
        }
        Self::trimmed(limbs)
    }

    /// Divides by a number from 1 on.
    fn divided(&self, by: u32) -> Self {
        let mut limbs = vec![0; self.0.len()];
        let mut rest = 0;
        for (limb, quotient) in self.0.iter().zip(&mut limbs).rev() {
            rest = rest * LIMB + u64::from(*limb);
            *quotient = (rest / u64::from(by)) as u32;
            rest %= u64::from(by);
        }
        Self::trimmed(limbs)
    }

    fn order(&self, other: &Self) -> Ordering {
        let len = self.0.len().cmp(&other.0.len());
        len.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

/// A number with a fixed point.
#[derive(Clone, Debug)]
struct Fixed {
    is_negative: bool,
    magnitude: Natural,
}

impl Fixed {
    fn one() -> Self {
        Self::of(&Decimal { is_negative: false, digits: vec![1], exponent: 0 })
    }

    fn constant(digits: &str) -> Self {
        let digits: Vec<u8> = digits.bytes().map(|digit| digit - b'0').collect();
        Self { is_negative: false, magnitude: Natural::of(&digits) }
    }

    /// Returns a decimal below 10^41 without what is behind the last digit.
    fn of(decimal: &Decimal) -> Self {
        let zeros = decimal.exponent.saturating_add(BEHIND as i64);
        let mut digits = decimal.digits.clone();
        match usize::try_from(zeros) {
            Ok(zeros) => digits.resize(digits.len() + zeros.min(2 * BEHIND), 0),
            Err(_fewer) => {
                let cut = usize::try_from(zeros.unsigned_abs()).unwrap_or(usize::MAX);
                digits.truncate(digits.len().saturating_sub(cut));
            }
        }
        Self { is_negative: decimal.is_negative, magnitude: Natural::of(&digits) }
    }

    fn of_double(double: f64) -> Self {
        let decimal = Decimal::parse(&format!("{double:e}"));
        decimal.map_or_else(Self::one, |decimal| Self::of(&decimal))
    }

    /// Returns the number times ten to an exponent, to 34 digits.
    fn into_decimal(self, exponent: i64) -> Decimal {
        if self.is_zero() {
            return Decimal::default();
        }
        let (is_negative, digits) = (self.is_negative, self.magnitude.digits());
        Decimal { is_negative, digits, exponent: exponent - BEHIND as i64 }.rounded()
    }

    fn is_zero(&self) -> bool {
        self.magnitude.0.is_empty()
    }

    fn negated(self) -> Self {
        Self { is_negative: !self.is_negative, ..self }
    }

    fn plus(&self, other: &Self) -> Self {
        let (a, b) = (&self.magnitude, &other.magnitude);
        if self.is_negative == other.is_negative {
            return Self { is_negative: self.is_negative, magnitude: a.plus(b) };
        }
        if a.order(b).is_lt() {
            return Self { is_negative: other.is_negative, magnitude: b.minus(a) };
        }
        Self { is_negative: self.is_negative, magnitude: a.minus(b) }
    }

    fn times(&self, other: &Self) -> Self {
        let mut product = self.magnitude.times(&other.magnitude);
        product.0.drain(..LIMBS.min(product.0.len()));
        Self { is_negative: self.is_negative != other.is_negative, magnitude: product }
    }

    fn divided(&self, by: u32) -> Self {
        Self { is_negative: self.is_negative, magnitude: self.magnitude.divided(by) }
    }

    /// Returns the exponential of a number of a few units.
    fn exponential(&self) -> Self {
        let (mut sum, mut term, mut n) = (Self::one(), Self::one(), 0);
        while !term.is_zero() {
            n += 1;
            term = term.times(self).divided(n);
            sum = sum.plus(&term);
        }
        sum
    }
}

/// Returns the number times a power of ten, from 0.1 to 10, and the exponent of that power. What is
/// near 1 stays, so that its logarithm is exact.
fn scaled(decimal: &Decimal) -> (Decimal, i64) {
    let len = decimal.digits.len() as i64;
    let magnitude = decimal.exponent.saturating_add(len);
    // 0.x stays, x.x stays.
    let exponent = if magnitude == 0 || magnitude == 1 { 0 } else { magnitude - 1 };
    (Decimal { exponent: decimal.exponent - exponent, ..decimal.clone() }, exponent)
}

/// Returns the natural logarithm of a positive decimal near 1.
fn logarithm_near_1(near: &Decimal) -> Fixed {
    let double: f64 = near.literal().parse().unwrap_or(1.0);
    let first = Fixed::of_double(double.ln());
    // What is left is the logarithm of a number that is 1 to 15 digits.
    let rest = Fixed::of(near).times(&first.clone().negated().exponential());
    let off = rest.plus(&Fixed::one().negated());
    let (mut sum, mut power, mut n) = (first, off.clone(), 1);
    while !power.is_zero() {
        sum = sum.plus(&power.divided(n));
        power = power.times(&off).negated();
        n += 1;
    }
    sum
}

fn whole(int: i64) -> Fixed {
    Fixed::of_double(int as f64)
}

/// Returns the natural logarithm of a positive decimal.
fn logarithm_of(decimal: &Decimal) -> Fixed {
    let (near, exponent) = scaled(decimal);
    logarithm_near_1(&near).plus(&whole(exponent).times(&Fixed::constant(LN_10)))
}

/// Returns the exponential of a number below 10^6, with 34 digits.
fn exponential_of(number: &Fixed) -> Decimal {
    let approximate: f64 = number.clone().into_decimal(0).literal().parse().unwrap_or_default();
    let tens = (approximate / std::f64::consts::LN_10).round();
    let less = whole(tens as i64).times(&Fixed::constant(LN_10));
    number.plus(&less.negated()).exponential().into_decimal(tens as i64)
}

/// What is below all decimals but 0.
fn vanished() -> Decimal {
    Decimal { is_negative: false, digits: Vec::new(), exponent: -6_176 }
}

/// Returns the exponential; `None` if it is beyond all decimals.
pub(super) fn exponential(decimal: &Decimal) -> Option<Decimal> {
    let one = Decimal { is_negative: false, digits: vec![1], exponent: 0 };
    let magnitude = decimal.magnitude();
    if decimal.is_zero() || magnitude < -(DIGITS as i64) {
        return Some(one);
    }
    // Decimals end near e^14150.
    if magnitude > 5 {
        return decimal.is_negative.then(vanished);
    }
    Some(exponential_of(&Fixed::of(decimal)))
}

/// Returns the natural logarithm of a positive decimal.
pub(super) fn logarithm(decimal: &Decimal) -> Decimal {
    logarithm_of(decimal).into_decimal(0)
}

/// Returns the logarithm to the base 10 of a positive decimal.
pub(super) fn logarithm_of_ten(decimal: &Decimal) -> Decimal {
    let (near, exponent) = scaled(decimal);
    let logarithm = logarithm_near_1(&near).times(&Fixed::constant(LOG_E)).plus(&whole(exponent));
    let mut found = logarithm.into_decimal(0);
    // A whole one is written as such.
    let behind = usize::try_from(found.exponent.saturating_neg())
        .unwrap_or_default()
        .min(found.digits.len());
    let kept = found.digits.len() - behind;
    if kept > 0 && found.digits[kept..].iter().all(|digit| *digit == 0) {
        found.digits.truncate(kept);
        found.exponent = found.exponent.max(0);
    }
    found
}

/// Returns the power of a positive decimal; `None` if it is beyond all decimals.
pub(super) fn power(base: &Decimal, exponent: &Decimal) -> Option<Decimal> {
    let logarithm = logarithm_of(base);
    if exponent.is_zero() || logarithm.is_zero() {
        return Some(Decimal { is_negative: false, digits: vec![1], exponent: 0 });
    }
    let is_large = |is_negative: bool| is_negative.then(vanished);
    let is_negative = logarithm.is_negative != exponent.is_negative;
    let magnitude = logarithm.clone().into_decimal(0).magnitude();
    let magnitude = magnitude.saturating_add(exponent.magnitude());
    if magnitude > 7 || exponent.magnitude() > 40 {
        return is_large(is_negative);
    }
    let product = Fixed::of(exponent).times(&logarithm);
    if product.clone().into_decimal(0).magnitude() > 5 {
        return is_large(is_negative);
    }
    Some(exponential_of(&product))
}

/// Returns the square root of a decimal that is not negative. If it is exact, its exponent is half
/// of that of the decimal, or less if need be.
pub(super) fn square_root(decimal: &Decimal) -> Decimal {
    let ideal = decimal.exponent.div_euclid(2);
    if decimal.is_zero() {
        return Decimal { exponent: ideal, ..decimal.clone() };
    }
    // An even exponent, and enough digits that the root has more than are kept.
    let mut digits = decimal.digits.clone();
    let zeros = 2 * (DIGITS + 1) - digits.len().min(2 * DIGITS);
    let zeros = zeros + usize::from((decimal.exponent - zeros as i64).rem_euclid(2) == 1);
    digits.resize(digits.len() + zeros, 0);
    let exponent = (decimal.exponent - zeros as i64) / 2;
    if digits.len() % 2 == 1 {
        digits.insert(0, 0);
    }
    let (hundred, twenty) = (Natural(vec![100]), Natural(vec![20]));
    let (mut root, mut rest) = (Natural(Vec::new()), Natural(Vec::new()));
    let mut found = Vec::with_capacity(digits.len() / 2);
    for pair in digits.chunks(2) {
        rest = rest.times(&hundred).plus(&Natural::of(pair));
        let doubled = root.times(&twenty);
        // The largest digit that the rest has room for.
        let mut digit = 9_u8;
        let less = loop {
            let one = Natural::of(&[digit]);
            let less = doubled.plus(&one).times(&one);
            if digit == 0 || !rest.order(&less).is_lt() {
                break less;
            }
            digit -= 1;
        };
        rest = rest.minus(&less);
        root = root.times(&Natural(vec![10])).plus(&Natural::of(&[digit]));
        found.push(digit);
    }
    let mut digits: Vec<u8> = found.into_iter().skip_while(|digit| *digit == 0).collect();
    let mut exponent = exponent;
    if !rest.0.is_empty() {
        // A mark of what is behind.
        digits.push(1);
        exponent -= 1;
    }
    let mut root = Decimal { is_negative: false, digits, exponent };
    while rest.0.is_empty() && root.exponent < ideal && root.digits.last() == Some(&0) {
        root.digits.pop();
        root.exponent += 1;
    }
    root.rounded()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn roots_are_right_to_34_digits() {
        for (of, expected) in [
            ("2", "1.414213562373095048801688724209698"),
            ("0.5", "0.7071067811865475244008443621048490"),
            ("0.001", "0.03162277660168379331998893544432719"),
            ("4", "2"),
            ("2.25", "1.5"),
            ("400", "20"),
            ("1.0000", "1.00"),
            ("1E-6176", "1E-3088"),
            ("1E-6143", "3.162277660168379331998893544432719E-3072"),
            (
                "9999999999999999999999999999999999E6111",
                "3.162277660168379331998893544432718E+3072",
            ),
            ("0", "0"),
            ("-0.00", "-0.0"),
        ] {
            assert_eq!(square_root(&decimal(of)).literal(), expected, "{of}");
        }
    }

    #[test]
    fn exponentials_and_logarithms_are_right_to_34_digits() {
        for (of, expected) in [
            ("1", "2.718281828459045235360287471352662"),
            ("-1", "0.3678794411714423215955237701614609"),
            ("0", "1"),
            ("1E-100", "1"),
            ("14000", "1.326620321137711275937776890335631E+6080"),
            ("-99999", "0E-6176"),
        ] {
            let found = exponential(&decimal(of)).unwrap().into_value().to_string();
            assert_eq!(found.strip_suffix("E+0").unwrap_or(&found), expected, "{of}");
        }
        assert_eq!(exponential(&decimal("1e9")), None);
        for (of, expected) in [
            ("10", "2.302585092994045684017991454684364"),
            ("1", "0"),
            ("1.0", "0"),
            ("2.718281828459045", "0.9999999999999999134157889710887612"),
            ("0.9999999999999999999999999999999999", "-1.000000000000000000000000000000000E-34"),
            ("1.000000000000000000000000000000001", "9.999999999999999999999999999999995E-34"),
            ("1E-6176", "-14220.76553433122614449511522413063"),
            ("9999999999999999999999999999999999E6111", "14149.38539644841072829055748903542"),
        ] {
            assert_eq!(logarithm(&decimal(of)).literal(), expected, "ln {of}");
        }
        for (of, expected) in [
            ("2", "0.3010299956639811952137388947244930"),
            ("1000", "3"),
            ("1E-6143", "-6143"),
            ("1", "0"),
        ] {
            assert_eq!(logarithm_of_ten(&decimal(of)).literal(), expected, "log10 {of}");
        }
    }

    #[test]
    fn powers_are_right_to_34_digits() {
        for (base, exponent, expected) in [
            ("2", "100", "1267650600228229401496703205376.000"),
            ("1.5", "2", "2.250000000000000000000000000000000"),
            ("2", "-1", "0.5000000000000000000000000000000000"),
            ("2", "0.5", "1.414213562373095048801688724209698"),
            ("7", "0", "1"),
            ("1", "5.5", "1"),
            ("0.1", "100000", "0E-6176"),
            ("0.5", "1E+6000", "0E-6176"),
        ] {
            let found = power(&decimal(base), &decimal(exponent)).unwrap().into_value();
            let found = found.to_string();
            assert_eq!(found.strip_suffix("E+0").unwrap_or(&found), expected, "{base}^{exponent}");
        }
        assert_eq!(power(&decimal("10"), &decimal("100000")), None);
        assert_eq!(power(&decimal("1.5"), &decimal("1E+6000")), None);
    }
}
