//! A point in time and its RFC 3339 text.

use std::fmt;

/// A point in time: microseconds since 1970-01-01T00:00:00 UTC, not counting leap seconds.
///
/// ```
/// use flagstone_doc::DateTime;
/// let time = DateTime::parse_rfc3339("2019-08-01T02:00:00.25+02:00").unwrap();
/// assert_eq!(time.as_micros(), 1_564_617_600_250_000);
/// assert_eq!(time, DateTime::from_micros(1_564_617_600_250_000));
/// assert_eq!(time.to_string(), "2019-08-01T00:00:00.250000Z");
/// assert_eq!(DateTime::parse_rfc3339("2019-02-29T00:00:00Z"), None);   // no such day
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(i64);

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

impl DateTime {
    /// Creates the point `micros` microseconds after the beginning of 1970, or before it if
    /// `micros` is negative.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since the beginning of 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Parses RFC 3339 text such as `2019-08-01T02:00:00.5+02:00`; `T` and `Z` may be lower-case,
    /// and a space may stand for `T`. Returns `None` if `text` has another form, or names a day or
    /// a time that no calendar has.
    ///
    /// What is finer than a microsecond is cut off, which is towards the past, also before 1970. A
    /// leap second, `23:59:60` in UTC at the end of a month, is the first second of the next one,
    /// as in Unix time. The offset `-00:00` says that the local offset is unknown: the time is in
    /// UTC.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let (separator, rest) = rest.split_at_checked(1)?;
        let (time, rest) = rest.split_at_checked(8)?;
        let [year, month, day] = numbers(date, b'-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(time, b':', [2, 2, 2])?;
        let days = days_before(year, month, day)?;
        let is_time = hour < 24 && minute < 60 && second <= 60 && "Tt ".contains(separator);
        let digits = rest
            .strip_prefix('.')
            .map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        if !is_time || rest.starts_with('.') && digits == 0 {
            return None;
        }
        let (fraction, zone) = rest.split_at(if digits == 0 { 0 } else { digits + 1 });
        let of_day = (hour * 60 + minute) * 60 + second - offset_seconds(zone)?;
        let seconds = days * DAY / SECOND + of_day;
        if second == 60 && !begins_month(seconds) {
            return None;
        }
        Some(Self(seconds * SECOND + micros(fraction.trim_start_matches('.'))))
    }

    /// Returns whether the year has four digits, so that the point has RFC 3339 text.
    pub(crate) const fn has_rfc3339(self) -> bool {
        const YEAR_0: i64 = -719_528 * DAY;
        const YEAR_10000: i64 = 2_932_897 * DAY;
        self.0 >= YEAR_0 && self.0 < YEAR_10000
    }
}

/// Returns year, month and day of the day `days` after 1970-01-01, in the proleptic Gregorian
/// calendar.
const fn civil(days: i64) -> (i64, i64, i64) {
    // A year counts from March, so that the leap day is its last day. An era has 400 years.
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

/// Returns the number of days from 1970-01-01 to a day; `None` if the calendar has no such day.
fn days_before(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days_of_month).contains(&day) {
        return None;
    }
    // A year counts from March, as in `civil`.
    let march_year = if month <= 2 { year - 1 } else { year };
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let (era, year_of_era) = (march_year.div_euclid(400), march_year.rem_euclid(400));
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Parses three numbers separated by `mark`, each of exactly the given number of digits.
fn numbers(text: &str, mark: u8, widths: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(char::from(mark));
    let mut found = [0; 3];
    for (number, width) in found.iter_mut().zip(widths) {
        *number = digits(parts.next()?, width)?;
    }
    parts.next().is_none().then_some(found)
}

/// Parses a number of exactly `width` digits.
fn digits(text: &str, width: usize) -> Option<i64> {
    let is_number = text.len() == width && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Returns whether a month begins at this second.
fn begins_month(seconds: i64) -> bool {
    const DAY_SECONDS: i64 = DAY / SECOND;
    seconds % DAY_SECONDS == 0 && civil(seconds / DAY_SECONDS).2 == 1
}

/// Returns the whole microseconds of a fraction of a second.
fn micros(fraction: &str) -> i64 {
    fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(6)
        .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'))
}

/// Returns the seconds by which a zone is ahead of UTC.
fn offset_seconds(zone: &str) -> Option<i64> {
    if zone == "Z" || zone == "z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hour, minute) = zone[1..].split_once(':')?;
    let (hour, minute) = (digits(hour, 2)?, digits(minute, 2)?);
    (hour < 24 && minute < 60).then_some(sign * (hour * 60 + minute) * 60)
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
        let mut micros = -719_528 * DAY;
        while micros < 2_932_897 * DAY {
            let time = DateTime::from_micros(micros);
            assert_eq!(DateTime::parse_rfc3339(&time.to_string()), Some(time), "{time}");
            micros += 97 * DAY + 12_345_678_901;
        }
        for (text, micros) in [
            ("2019-08-01T02:00:00+02:00", Some(1_564_617_600 * SECOND)),
            ("2019-07-31t23:30:00.250-00:30", Some(1_564_617_600 * SECOND + 250_000)),
            ("2000-02-29 00:00:00.000005000z", Some(951_782_400 * SECOND + 5)),
            ("2000-02-29T00:00:00.0000059Z", Some(951_782_400 * SECOND + 5)),
            ("1900-02-29T00:00:00Z", None),
            ("2019-08-01T00:00:60Z", None),
            ("2019-08-01T24:00:00Z", None),
            ("2019-08-01T00:00:00.Z", None),
            ("2019-08-01T00:00:00", None),
            ("2019-08-01T00:00:00+0200", None),
            ("2019-8-01T00:00:00Z", None),
            ("+019-08-01T00:00:00Z", None),
            ("2019-08-01T00:00:00é", None),
            ("", None),
        ] {
            assert_eq!(DateTime::parse_rfc3339(text), micros.map(DateTime::from_micros), "{text}");
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
