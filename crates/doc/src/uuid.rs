//! The text of a UUID.

use std::fmt::{self, Write};

/// Displays a UUID in its usual form: 8-4-4-4-12 hexadecimal digits.
pub(crate) struct UuidText<'a>(pub(crate) &'a [u8; 16]);

impl fmt::Display for UuidText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_char('-')?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Parses a UUID in its usual form, of lower-case or upper-case digits.
pub(crate) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let lens = text.split('-').map(str::len);
    if !lens.eq([8, 4, 4, 4, 12]) || !text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit()) {
        return None;
    }
    let digits: String = text.split('-').collect();
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_parsed_back() {
        let text = "30313233-3435-3637-3839-61626364ff00";
        let bytes = parse_uuid(text).unwrap();
        assert_eq!(UuidText(&bytes).to_string(), text);
        assert_eq!(parse_uuid(&text.to_uppercase()), Some(bytes));
        for bad in [
            "",
            "30313233343536373839616263646566",
            &text[1..],
            "+0313233-3435-3637-3839-616263646566",
        ] {
            assert_eq!(parse_uuid(bad), None, "{bad}");
        }
    }
}
