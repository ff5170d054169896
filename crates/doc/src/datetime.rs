//! A point in time, and its RFC 3339 text.

use std::fmt;

/// Microseconds since 1970-01-01T00:00:00 UTC, leap seconds not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(i64);

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

impl DateTime {
    /// The point `micros` microseconds after the beginning of 1970, before it when negative.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the beginning of 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whether its year has four digits, so that it has a text by RFC 3339.
    pub(crate) const fn has_rfc3339(self) -> bool {
        const YEAR_0: i64 = -719_528 * DAY;
        const YEAR_10000: i64 = 2_932_897 * DAY;
        self.0 >= YEAR_0 && self.0 < YEAR_10000
    }
}

/// Year, month and day of the day `days` after 1970-01-01, in the proleptic Gregorian calendar.
const fn civil(days: i64) -> (i64, i64, i64) {
    // Years are counted from March, so that the leap day ends one; eras have 400 years.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0.div_euclid(DAY));
        let micros = self.0.rem_euclid(DAY);
        let seconds = micros / SECOND;
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match micros % SECOND {
            0 => f.write_str("Z"),
            fraction => write!(f, ".{fraction:06}Z"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_points_are_written_right() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_564_617_600 * SECOND, "2019-08-01T00:00:00Z"),
            (951_782_400 * SECOND + 5, "2000-02-29T00:00:00.000005Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(DateTime::from_micros(micros).to_string(), text);
        }
        for days in [-719_528, 2_932_896] {
            assert!(DateTime::from_micros(days * DAY).has_rfc3339());
            assert_eq!(DateTime::from_micros(days * DAY).to_string().len(), 20);
        }
        for micros in [-719_528 * DAY - 1, 2_932_897 * DAY, i64::MIN, i64::MAX] {
            assert!(!DateTime::from_micros(micros).has_rfc3339(), "{micros}");
        }
        assert!(!DateTime::from_micros(i64::MIN).to_string().is_empty());
        assert!(!DateTime::from_micros(i64::MAX).to_string().is_empty());
    }
}
