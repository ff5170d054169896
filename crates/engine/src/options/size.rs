//! Numbers of bytes as people write them.

use flagstone_base::{Error, Result};

/// Reads a number of bytes, as an option on a command line or in a file of settings has it: `4096`,
/// `64MiB`, `1.5 GB`, `2g`. Units without `i` are decimal; a single letter is the binary unit.
///
/// ```
/// # use flagstone_engine::parse_bytes;
/// assert_eq!(parse_bytes("64MiB")?, 64 << 20);
/// assert_eq!(parse_bytes("1.5 GB")?, 1_500_000_000);
/// # Ok::<(), flagstone_engine::Error>(())
/// ```
///
/// # Errors
/// InvalidInput: the text is no number, its unit is unknown, or it means 2^64 bytes or more.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let wrong = |expected: &str| Error::invalid(format!("{text:?}: {expected}"));
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
        _ => {
            let text = format!("{unit:?} is no unit: expected B, KiB, MiB, GiB, KB, MB or GB");
            return Err(Error::invalid(text));
        }
    };
    let too_many = || wrong("more than 2^64 bytes");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(too_many);
    }
    let number: f64 =
        number.parse().map_err(|_no_number| wrong("expected a number of bytes, as in 64MiB"))?;
    let bytes = number * factor as f64;
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(too_many()) }
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
            assert_eq!(parse_bytes(text).unwrap(), expected, "{text}");
        }
        for text in ["", "x", "1x", "-1", "1..2MB", "99999999999999GiB", "99999999999999999999"] {
            let refused = parse_bytes(text).unwrap_err();
            assert_eq!(refused.kind(), flagstone_base::ErrorKind::InvalidInput, "{text}");
        }
        let refused = parse_bytes("1XB").unwrap_err().to_string();
        assert!(refused.contains("\"XB\" is no unit: expected B, KiB"), "{refused}");
    }
}
