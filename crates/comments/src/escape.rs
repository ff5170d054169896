//! Text inside a JSON string, in ASCII: escaping, iterating and cutting by characters.
//!
//! All words are kept escaped, so that writing a comment copies bytes. Functions that count or
//! change characters iterate over the escapes and never cut through one.

/// Appends `c` as JSON with everything outside ASCII escaped, as Python's `json.dumps` does.
pub(crate) fn push(c: char, out: &mut Vec<u8>) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\u{8}' => out.extend_from_slice(b"\\b"),
        '\u{c}' => out.extend_from_slice(b"\\f"),
        ' '..='~' => out.push(c as u8),
        _ => {
            for &mut unit in c.encode_utf16(&mut [0; 2]) {
                push_unit(unit, out);
            }
        }
    }
}

fn push_unit(unit: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\u");
    push_hex(u64::from(unit), 4, out);
}

/// Appends the lowest `digits` (at most 16) hexadecimal digits of `value`, in small letters.
pub(crate) fn push_hex(value: u64, digits: u32, out: &mut Vec<u8>) {
    for k in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (4 * k)) as usize & 15]);
    }
}

/// Appends all of `text`.
pub(crate) fn push_str(text: &str, out: &mut Vec<u8>) {
    for c in text.chars() {
        push(c, out);
    }
}

/// Appends `value` in decimal.
pub(crate) fn push_decimal(value: impl Into<i64>, out: &mut Vec<u8>) {
    let value: i64 = value.into();
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// The bytes of the first character of `escaped` (0 if there is none).
#[inline]
fn first_len(escaped: &[u8]) -> usize {
    match escaped {
        [] => 0,
        [b'\\', b'u', digits @ ..] => {
            let high = matches!(digits, [b'd' | b'D', b'8'..=b'9' | b'a'..=b'b', ..]);
            if high { 12 } else { 6 }
        }
        [b'\\', ..] => 2,
        _ => 1,
    }
}

/// The first character of `escaped` and the bytes it takes; `None` at the end.
pub(crate) fn first(escaped: &[u8]) -> Option<(char, usize)> {
    let len = first_len(escaped);
    let bytes = escaped.get(..len).filter(|b| !b.is_empty())?;
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 4)?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let c = match (bytes, len) {
        (_, 12) => char::decode_utf16([unit(2)?, unit(8)?]).next()?.ok()?,
        (_, 6) => char::from_u32(u32::from(unit(2)?))?,
        (&[_, b'n'], _) => '\n',
        (&[_, b'r'], _) => '\r',
        (&[_, b't'], _) => '\t',
        (&[_, b'b'], _) => '\u{8}',
        (&[_, b'f'], _) => '\u{c}',
        (&[_, c] | &[c], _) => char::from(c),
        _ => return None,
    };
    Some((c, len))
}

/// The characters of `escaped`.
pub(crate) fn chars(escaped: &[u8]) -> impl Iterator<Item = char> + '_ {
    let mut rest = escaped;
    std::iter::from_fn(move || {
        let (c, len) = first(rest)?;
        rest = &rest[len..];
        Some(c)
    })
}

/// The number of characters of `escaped`.
pub(crate) fn count(escaped: &[u8]) -> usize {
    let (mut at, mut n) = (0, 0);
    while at < escaped.len() {
        at += first_len(&escaped[at..]);
        n += 1;
    }
    n
}

/// The bytes that the first `n` characters of `escaped` take, or all of it.
pub(crate) fn prefix_len(escaped: &[u8], n: usize) -> usize {
    let mut at = 0;
    for _ in 0..n {
        at += first_len(&escaped[at..]);
    }
    at.min(escaped.len())
}

/// The bytes of the white space that `escaped` starts with, and its characters.
pub(crate) fn leading_space(escaped: &[u8]) -> (usize, usize) {
    let (mut bytes, mut n) = (0, 0);
    while let Some((c, len)) = first(&escaped[bytes..])
        && c.is_whitespace()
    {
        bytes += len;
        n += 1;
    }
    (bytes, n)
}

/// Appends `value` in base 36.
pub(crate) fn push_base36(value: u64, out: &mut Vec<u8>) {
    let (digits, start) = base36(value);
    out.extend_from_slice(&digits[start..]);
}

/// The digits of `value` in base 36, at the end of the array, and the index of the first.
pub(crate) fn base36(mut value: u64) -> ([u8; 13], usize) {
    let mut digits = [b'0'; 13];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(value % 36) as usize];
        value /= 36;
        if value == 0 {
            return (digits, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        push_str(text, &mut out);
        out
    }

    #[test]
    fn escaped_text_is_ascii_and_reads_back() {
        let text = "a\"b\\c\n\t\r\u{8}\u{c}\u{1}\u{7f}é—\u{1F602}ಠ\u{ffff}z";
        let bytes = escaped(text);
        assert!(bytes.is_ascii());
        let quoted = format!("\"{}\"", String::from_utf8(bytes.clone()).unwrap());
        assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text);
        assert_eq!(chars(&bytes).collect::<String>(), text);
        assert_eq!(count(&bytes), text.chars().count());
    }

    #[test]
    fn a_prefix_never_cuts_through_an_escape() {
        let text = " é\u{1F602}\n\"x";
        let bytes = escaped(text);
        for n in 0..10 {
            let cut = &bytes[..prefix_len(&bytes, n)];
            assert_eq!(chars(cut).collect::<String>(), text.chars().take(n).collect::<String>());
        }
        assert_eq!(leading_space(&escaped("\n\n x ")), (5, 3));
        assert_eq!(leading_space(&escaped("x")), (0, 0));
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for value in [0, 7, -1, 10, 99, 1_564_617_600, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push_decimal(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
        let mut out = Vec::new();
        push_base36(32_430_000_000, &mut out);
        push_hex(0xABC, 5, &mut out);
        assert_eq!(out, b"ewbzg5c00abc");
    }
}
