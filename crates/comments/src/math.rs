//! Logarithm, exponential and the tail of the normal distribution, the same bits on every machine.
//!
//! The standard library takes `ln` and `exp` from the platform, and platforms differ in the last
//! bit; one bit is enough for another document. Only exact operations are used here.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LOG2_E};

/// The natural logarithm of a positive normal number, to about 1e-14.
pub(crate) fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7FF) as i64 - 1022;
    let mut m = f64::from_bits((bits & MANTISSA) | (1022 << 52));
    if m < FRAC_1_SQRT_2 {
        m *= 2.0;
        exponent -= 1;
    }
    // ln m = 2 artanh s with |s| <= 0.172: eight terms leave 1e-14.
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let series = 1.0
        + q * (1.0 / 3.0
            + q * (1.0 / 5.0
                + q * (1.0 / 7.0
                    + q * (1.0 / 9.0
                        + q * (1.0 / 11.0
                            + q * (1.0 / 13.0 + q * (1.0 / 15.0 + q * (1.0 / 17.0))))))));
    exponent as f64 * LN_2 + 2.0 * s * series
}

const INVERSE_FACTORIALS: [f64; 13] = {
    let mut terms = [1.0; 13];
    let mut n = 1;
    while n < terms.len() {
        terms[n] = terms[n - 1] / n as f64;
        n += 1;
    }
    terms
};

/// e to the power of `x`, to about 1e-13; zero far below and huge far above.
pub(crate) fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let scaled = x * LOG2_E;
    let whole = (if scaled < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i64;
    let r = x - whole as f64 * LN_2;
    // |r| <= 0.347: thirteen terms leave 1e-15.
    let sum = INVERSE_FACTORIALS.iter().rev().fold(0.0, |sum, term| sum * r + term);
    sum * f64::from_bits(((whole + 1023) as u64) << 52)
}

/// `base` (positive) to the power of `exponent`.
pub(crate) fn pow(base: f64, exponent: f64) -> f64 {
    exp(ln(base) * exponent)
}

/// The share of a normal distribution above a point, as a table with linear interpolation.
pub(crate) struct NormalTail(Vec<f64>);

const LOWEST: f64 = -7.0;
const HIGHEST: f64 = 9.0;
const KNOTS_PER_UNIT: f64 = 128.0;

impl NormalTail {
    /// Integrates the density from the far end downwards.
    pub(crate) fn new() -> Self {
        const DENSITY_AT_0: f64 = 0.398_942_280_401_432_7;
        let density = |x: f64| DENSITY_AT_0 * exp(-0.5 * x * x);
        let knots = ((HIGHEST - LOWEST) * KNOTS_PER_UNIT) as usize;
        let step = 1.0 / KNOTS_PER_UNIT;
        let mut tail = vec![0.0; knots + 1];
        // Beyond the last knot: the first two terms of Mills' ratio.
        tail[knots] = density(HIGHEST) / HIGHEST * (1.0 - 1.0 / (HIGHEST * HIGHEST));
        for k in (0..knots).rev() {
            let x = LOWEST + k as f64 * step;
            let simpson = density(x) + 4.0 * density(x + 0.5 * step) + density(x + step);
            tail[k] = tail[k + 1] + simpson * step / 6.0;
        }
        Self(tail)
    }

    /// The share above `x`; points beyond the table count as its ends.
    pub(crate) fn above(&self, x: f64) -> f64 {
        let at = (x.clamp(LOWEST, HIGHEST - 1e-9) - LOWEST) * KNOTS_PER_UNIT;
        let k = at as usize;
        let (left, right) = (self.0[k], self.0[k + 1]);
        left + (right - left) * (at - k as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_exponential_agree_with_the_platform() {
        let mut x = 1e-12;
        while x < 1e12 {
            assert!((ln(x) - x.ln()).abs() < 1e-12, "ln {x}: {} {}", ln(x), x.ln());
            let y = x.ln() * 3.0;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-11, "exp {y}");
            x *= 1.37;
        }
        assert!((pow(2_491_887.0, 0.85) / 2_491_887_f64.powf(0.85) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_tail_of_the_normal_distribution_has_its_known_values() {
        let tail = NormalTail::new();
        for (x, share) in [
            (-6.0, 1.0),
            (-1.0, 0.841_344_746),
            (0.0, 0.5),
            (1.9, 0.028_716_560),
            (3.090_232_306, 0.001),
            (5.0, 2.866_515_719e-7),
            (6.0, 9.865_876_45e-10),
        ] {
            let got = tail.above(x);
            assert!((got / share - 1.0).abs() < 1e-3, "{x}: {got}, not {share}");
        }
        assert!(tail.above(1e9) > 0.0 && tail.above(-1e9) <= 1.0 + 1e-9);
    }
}
