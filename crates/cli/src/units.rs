//! Numbers as people write and read them: bytes, durabilities, rates.

use flagstone::Durability;
use std::time::Duration;

/// Reads a number of bytes: `4096`, `64MiB`, `1.5 GB`, `2g`. Units without `i` are decimal; a
/// single letter is the binary unit.
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

/// Returns 1234567 as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
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
    fn numbers_are_shown_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(show_bytes(999), "999 B");
        assert_eq!(show_bytes(1000), "1.00 KB");
        assert_eq!(show_bytes(12_345_678), "12.3 MB");
        assert_eq!(show_bytes(379_500_000_000), "380 GB");
        assert_eq!(per_second(10, Duration::from_secs(2)), 5);
    }
}
