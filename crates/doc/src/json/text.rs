//! Reads and writes JSON strings with escapes.

use super::options::Surrogates;
use super::scan::{special, specials};

/// An error: its offset, and what was expected there.
pub(super) type Refusal = (usize, &'static str);

const HALF_PAIR: &str = "a whole surrogate pair";

/// Appends the string whose first byte after the quote is at `at`; returns the offset after its
/// closing quote.
pub(super) fn unescape(
    json: &[u8],
    mut at: usize,
    surrogates: Surrogates,
    out: &mut Vec<u8>,
) -> Result<usize, Refusal> {
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
) -> Result<usize, Refusal> {
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
) -> Result<usize, Refusal> {
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

fn hex(json: &[u8], at: usize) -> Result<u32, Refusal> {
    let mut value = 0;
    for at in at..at + 4 {
        let digit = json.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        value = value << 4 | digit.ok_or((at, "four hexadecimal digits"))?;
    }
    Ok(value)
}

/// Appends `text` in quotes, with escapes.
///
/// Texts are short, so no piece is copied by a library call: whole blocks are appended, and what is
/// too much is removed again.
#[inline]
pub(super) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk::<16>() {
        if specials(block) != 0 {
            return put_escaped(rest, out);
        }
        out.extend_from_slice(block);
        rest = after;
    }
    let mut last = padded(rest);
    if specials(&last) & ((1 << rest.len()) - 1) != 0 {
        return put_escaped(rest, out);
    }
    last[rest.len()] = b'"';
    let end = out.len() + rest.len() + 1;
    out.extend_from_slice(&last);
    out.truncate(end);
}

/// Appends the rest of a text that has escapes, and the closing quote.
fn put_escaped(text: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    loop {
        let end = special(text, at);
        out.extend_from_slice(&text[at..end]);
        let Some(byte) = text.get(end) else { break };
        put_escape(*byte, out);
        at = end + 1;
    }
    out.push(b'"');
}

/// Returns fewer than 16 bytes as a block, with zeros after them. Loads overlap, so a few of fixed
/// length do for all lengths.
#[inline]
fn padded(bytes: &[u8]) -> [u8; 16] {
    let len = bytes.len();
    let word = if let (Some(front), Some(back)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (front, back) = (u64::from_le_bytes(*front), u64::from_le_bytes(*back));
        u128::from(front) | u128::from(back) << (8 * (len - 8))
    } else if let (Some(front), Some(back)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (front, back) = (u32::from_le_bytes(*front), u32::from_le_bytes(*back));
        u128::from(front) | u128::from(back) << (8 * (len - 4))
    } else if let [first, .., last] = bytes {
        let middle = u128::from(bytes[len / 2]) << (8 * (len / 2));
        u128::from(*first) | middle | u128::from(*last) << (8 * (len - 1))
    } else {
        bytes.first().copied().map_or(0, u128::from)
    };
    word.to_le_bytes()
}

#[cold]
fn put_escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'\n' => b'n',
        b'\t' => b't',
        b'\r' => b'r',
        0x08 => b'b',
        0x0C => b'f',
        b'"' | b'\\' => byte,
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 0xF)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes byte by byte.
    fn plain(text: &[u8]) -> Vec<u8> {
        let mut out = vec![b'"'];
        for byte in text {
            match byte {
                b'"' | b'\\' | 0..0x20 => put_escape(*byte, &mut out),
                _ => out.push(*byte),
            }
        }
        out.push(b'"');
        out
    }

    #[test]
    fn texts_of_every_length_are_written_with_a_special_byte_anywhere() {
        let letters: Vec<u8> = (0..70).map(|i| b'a' + i % 26).collect();
        for len in 0..letters.len() {
            let mut out = b"before".to_vec();
            put_text(&letters[..len], &mut out);
            assert_eq!(out, [b"before", &*plain(&letters[..len])].concat());
            for (at, byte) in (0..len).flat_map(|at| [(at, b'"'), (at, b'\n'), (at, 0)]) {
                let mut text = letters[..len].to_vec();
                text[at] = byte;
                let mut out = Vec::new();
                put_text(&text, &mut out);
                assert_eq!(out, plain(&text), "{len} {at} {byte}");
            }
        }
    }
}
