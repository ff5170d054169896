//! Numbers as people read them: counts, bytes, rates.

use std::time::Duration;

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
