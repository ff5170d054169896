//! Numbers as people read them: counts, bytes, rates; times as people write them.

use flagstone::Moment;
use flagstone::doc::DateTime;
use flagstone::internal::Shard;
use std::str::FromStr;
use std::time::Duration;

/// When an entry expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// This time after the entry is written.
    After(Duration),
    At(Moment),
}

/// Reads when an entry expires: `90s`, `1h30m` or `7d` from now, or the moment
/// `2026-12-31T00:00:00Z`.
pub(crate) fn expiry(text: &str) -> Result<Expiry, String> {
    match duration(text)? {
        Some(Duration::ZERO) => return Err("expected more than 0".to_owned()),
        Some(duration) => return Ok(Expiry::After(duration)),
        None => {}
    }
    let time = DateTime::parse_rfc3339(text).map(DateTime::as_micros);
    let expected = "expected a duration such as 90s, 15m, 2h or 7d, or a moment such as \
                    2026-12-31T00:00:00Z";
    let micros = u64::try_from(time.ok_or(expected)?);
    let micros = micros.map_err(|_before_1970| "this moment has passed")?;
    Ok(Expiry::At(Moment::since_1970(Duration::from_micros(micros))))
}

/// Returns a moment as RFC 3339 text.
pub(crate) fn show_moment(moment: Moment) -> String {
    let micros = i64::try_from(moment.millis()).ok().and_then(|millis| millis.checked_mul(1000));
    DateTime::from_micros(micros.unwrap_or(i64::MAX)).to_string()
}

/// Reads a number of things as an argument.
pub(crate) fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let number = text.parse::<T>().ok().filter(|number| *number >= T::from(1));
    number.ok_or_else(|| "expected a number of at least 1".to_owned())
}

/// Reads a number of things as an argument, of which there may be none.
pub(crate) fn count<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_other| "expected a number of at least 0".to_owned())
}

/// Reads which part of the documents is meant: 1/4 is the first of four.
pub(crate) fn shard(text: &str) -> Result<Shard, String> {
    let parsed = text.split_once('/').and_then(|(number, of)| {
        let (number, of) = (number.parse().ok()?, of.parse().ok()?);
        Shard::new(number, of)
    });
    parsed.ok_or_else(|| "expected a part I/N, from 1/N to N/N, such as 1/4".to_owned())
}

/// Reads a duration as an argument.
pub(crate) fn duration_of(text: &str) -> Result<Duration, String> {
    duration(text)?.ok_or_else(|| "expected a duration such as 90s, 15m, 2h or 7d".to_owned())
}

/// Reads a duration: numbers, each with its unit, as in `1h30m`. `None` is for another text.
fn duration(text: &str) -> Result<Option<Duration>, String> {
    let (mut rest, mut millis) = (text, None);
    while !rest.is_empty() {
        let Some(unit) = rest.find(|c: char| !c.is_ascii_digit()).filter(|at| *at > 0) else {
            return Ok(None);
        };
        let (number, after) = rest.split_at(unit);
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let factor: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            _ => return Ok(None),
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        let sum = part.and_then(|part| part.checked_add(millis.unwrap_or(0)));
        millis = Some(sum.ok_or("the duration is too long: expected 213503982334d or less")?);
        rest = after;
    }
    Ok(millis.map(Duration::from_millis))
}

/// Returns 1234567 as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// Returns 1 and `document` as `1 document`, 1234 as `1,234 documents`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// A rate as a whole number a second.
pub(crate) fn per_second(count: u64, time: Duration) -> u64 {
    (count as f64 / time.as_secs_f64().max(1e-9)) as u64
}

/// Bytes with three digits and a decimal unit: `1.27 GB`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KB", "MB", "GB"] {
        if value < 999.5 || unit == "GB" {
            let decimals =
                if unit == "B" || value >= 99.95 { 0 } else { 1 + usize::from(value < 9.995) };
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1000.0;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_a_duration_or_a_moment() {
        let seconds = |n| Ok(Expiry::After(Duration::from_secs(n)));
        for (text, expected) in [
            ("90s", seconds(90)),
            ("15m", seconds(900)),
            ("1h30m", seconds(5400)),
            ("7d", seconds(7 * 86_400)),
            ("2w", seconds(14 * 86_400)),
            ("250ms", Ok(Expiry::After(Duration::from_millis(250)))),
            ("2026-12-31T00:00:00Z", Ok(Expiry::At(Moment::from_millis(1_798_675_200_000)))),
            ("1970-01-01T01:00:00.0015+01:00", Ok(Expiry::At(Moment::from_millis(1)))),
            ("1970-01-01t00:00:00.001999999z", Ok(Expiry::At(Moment::from_millis(1)))),
            ("2016-12-31 23:59:60Z", Ok(Expiry::At(Moment::from_millis(1_483_228_800_000)))),
        ] {
            assert_eq!(expiry(text), expected, "{text}");
        }
        for text in ["", "2", "h", "2 h", "2h30", "-2h", "1.5h", "2y", "tomorrow", "2026-12-31"] {
            assert!(expiry(text).unwrap_err().contains("such as 90s"), "{text}");
        }
        assert_eq!(expiry("1969-12-31T23:59:59Z"), Err("this moment has passed".into()));
        assert!(expiry("2026-02-30T00:00:00Z").unwrap_err().contains("such as 90s"));
        // They were called no durations.
        for text in ["99999999999999999999s", "18446744073709551615w", "213503982334d24h"] {
            assert!(expiry(text).unwrap_err().starts_with("the duration is too long"), "{text}");
            assert!(duration_of(text).unwrap_err().starts_with("the duration is too long"));
        }
        assert_eq!(expiry("0h"), Err("expected more than 0".into()));
    }

    /// The largest number that the program has was said to be the limit.
    #[test]
    fn a_number_of_things_is_at_least_one() {
        assert_eq!(at_least_one::<u32>("7"), Ok(7));
        for text in ["0", "-1", "x", "", "99999999999999999999"] {
            let refused = at_least_one::<u64>(text).unwrap_err();
            assert_eq!(refused, "expected a number of at least 1", "{text}");
        }
    }

    #[test]
    fn a_moment_is_shown_as_it_is_read() {
        for text in ["2026-12-31T00:00:00Z", "2100-01-01T12:30:00.250000Z"] {
            let Ok(Expiry::At(moment)) = expiry(text) else { panic!("{text}") };
            assert_eq!(show_moment(moment), text);
        }
        assert!(!show_moment(Moment::MAX).is_empty());
    }

    #[test]
    fn numbers_are_shown_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(counted(1, "document"), "1 document");
        assert_eq!(counted(1_234_567, "document"), "1,234,567 documents");
        assert_eq!(show_bytes(999), "999 B");
        assert_eq!(show_bytes(1000), "1.00 KB");
        assert_eq!(show_bytes(12_345_678), "12.3 MB");
        assert_eq!(show_bytes(379_500_000_000), "380 GB");
        assert_eq!(per_second(10, Duration::from_secs(2)), 5);
    }
}
