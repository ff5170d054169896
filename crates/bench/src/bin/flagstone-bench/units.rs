//! Numbers as people write them: bytes, durabilities, seconds, shares.

use flagstone::Durability;
use std::time::Duration;

/// Reads a number of bytes: `4096`, `64MiB`, `1.5 GB`, `2g`. Without `i` units are decimal; a single
/// letter means the binary unit.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(format!("{unit:?} is no unit: expected B, KiB, MiB, GiB, KB, MB or GB")),
    };
    let expected = || "expected a number of bytes, as in 64MiB".to_owned();
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(|| "more than 2^64 bytes".to_owned());
    }
    let number: f64 = number.parse().map_err(|_no_number| expected())?;
    let bytes = number * factor as f64;
    if bytes >= 18_446_744_073_709_551_616.0 {
        return Err("more than 2^64 bytes".to_owned());
    }
    Ok(bytes as u64)
}

/// Reads a durability: `none`, `buffered`, `group`, `each`, or `interval:100ms`.
pub(crate) fn durability(text: &str) -> Result<Durability, String> {
    Ok(match text {
        "none" => Durability::None,
        "buffered" => Durability::Buffered,
        "group" => Durability::Group,
        "each" => Durability::Each,
        _ => {
            let expected = "expected none, buffered, group, each or interval:100ms";
            let interval = text.strip_prefix("interval:").ok_or(expected)?;
            Durability::Interval(duration(interval).ok_or(expected)?)
        }
    })
}

fn duration(text: &str) -> Option<Duration> {
    let (number, milliseconds) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    number.parse::<u64>().ok()?.checked_mul(milliseconds).map(Duration::from_millis)
}

/// Reads a time in seconds above 0: `20`, `0.5`.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || "expected seconds above 0, as in 20 or 0.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_no_number| expected())?;
    if !(0.001..=1e9).contains(&seconds) {
        return Err(expected());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads a share: `0.5`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_binary_and_decimal_units() {
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("1.5GB", 1_500_000_000),
            ("2g", 2 << 30),
            ("10kb", 10_000),
            ("7b", 7),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "x", "1x", "-1", "1..2MB", "99999999999999GiB", "99999999999999999999"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durabilities_are_read_by_name() {
        assert_eq!(durability("buffered"), Ok(Durability::Buffered));
        let interval = |ms| Ok(Durability::Interval(Duration::from_millis(ms)));
        assert_eq!(durability("interval:100ms"), interval(100));
        assert_eq!(durability("interval:2s"), interval(2000));
        for text in ["", "sync", "interval", "interval:", "interval:5", "interval:-1s"] {
            assert!(durability(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds_and_shares_are_numbers_within_bounds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(share("1"), Ok(1.0));
        for text in ["", "0", "-1", "inf", "nan", "1e99", "1s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        for text in ["", "-0.1", "1.1", "nan"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
