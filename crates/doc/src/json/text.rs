//! Reads JSON strings with escapes.

use super::options::Surrogates;
use crate::print::special;

/// An error: its offset, and what was expected there.
pub(super) type TextError = (usize, &'static str);

const HALF_PAIR: &str = "a whole surrogate pair";

/// Appends the string whose first byte after the quote is at `at`; returns the offset after its
/// closing quote.
pub(super) fn unescape(
    json: &[u8],
    mut at: usize,
    surrogates: Surrogates,
    out: &mut Vec<u8>,
) -> Result<usize, TextError> {
    loop {
        let end = special(json, at);
        out.extend_from_slice(&json[at..end]);
        match json.get(end) {
            Some(b'"') => return Ok(end + 1),
            Some(b'\\') => at = escape(json, end + 1, surrogates, out)?,
            Some(_) => return Err((end, "a control character to be escaped")),
            None => return Err((end, "the closing quote of a string")),
        }
    }
}

/// Appends the character of an escape. The backslash is just before `at`.
fn escape(
    json: &[u8],
    at: usize,
    surrogates: Surrogates,
    out: &mut Vec<u8>,
) -> Result<usize, TextError> {
    let byte = match json.get(at) {
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 0x08,
        Some(b'f') => 0x0C,
        Some(same @ (b'"' | b'\\' | b'/')) => *same,
        Some(b'u') => return unicode(json, at + 1, surrogates, out),
        _ => return Err((at, "an escape: one of \" \\ / b f n r t u")),
    };
    out.push(byte);
    Ok(at + 1)
}

fn unicode(
    json: &[u8],
    at: usize,
    surrogates: Surrogates,
    out: &mut Vec<u8>,
) -> Result<usize, TextError> {
    let unit = hex(json, at)?;
    let mut end = at + 4;
    let mut code = unit;
    if (0xD800..0xDC00).contains(&unit) && json[end..].starts_with(b"\\u") {
        let low = hex(json, end + 2)?;
        if (0xDC00..0xE000).contains(&low) {
            code = 0x1_0000 + ((unit - 0xD800) << 10 | (low - 0xDC00));
            end += 6;
        }
    }
    let character = match (char::from_u32(code), surrogates) {
        (Some(character), _) => character,
        (None, Surrogates::Replace) => char::REPLACEMENT_CHARACTER,
        (None, Surrogates::Error) => return Err((at - 2, HALF_PAIR)),
    };
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(end)
}

fn hex(json: &[u8], at: usize) -> Result<u32, TextError> {
    let mut value = 0;
    for at in at..at + 4 {
        let digit = json.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        value = value << 4 | digit.ok_or((at, "four hexadecimal digits"))?;
    }
    Ok(value)
}
