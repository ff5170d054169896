//! Writes text as JSON has it.

use super::special::{special, specials};

/// Appends `text` in quotes, with escapes.
///
/// Texts are short, so no piece is copied by a library call: whole blocks are appended, and what is
/// too much is removed again.
#[inline]
pub(crate) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let Some(last) = text.last_chunk::<16>() else { return put_short(text, out) };
    let end = out.len() + text.len();
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk::<16>() {
        if specials(block) != 0 {
            return put_escaped(rest, out);
        }
        out.extend_from_slice(block);
        rest = after;
    }
    if specials(last) != 0 {
        return put_escaped(rest, out);
    }
    // Writes the last 15 bytes again, with the quote, so no jump depends on how many are left.
    let last = u128::from_le_bytes(*last) >> 8 | u128::from(b'"') << 120;
    out.truncate(end - 15);
    out.extend_from_slice(&last.to_le_bytes());
}

/// Appends a text of fewer than 16 bytes and the closing quote.
#[inline]
fn put_short(text: &[u8], out: &mut Vec<u8>) {
    put_block(padded(text), text.len(), out, text);
}

/// As [`put_text`], for the first `len` bytes of `bytes`. If a block of 16 bytes can be read, no
/// jump depends on the length of a short text.
#[inline]
pub(crate) fn put_text_of(bytes: &[u8], len: usize, out: &mut Vec<u8>) {
    match bytes.first_chunk::<16>() {
        Some(block) if len < 16 => {
            out.push(b'"');
            let text = u128::from_le_bytes(*block) & ((1 << (8 * len)) - 1);
            put_block(text, len, out, &block[..len]);
        }
        _ => put_text(&bytes[..len], out),
    }
}

/// Appends the text of `len` bytes that begins `block`, with zeros after it, and the closing quote.
/// `text` is that text as bytes, for the case that it has escapes.
#[inline]
fn put_block(block: u128, len: usize, out: &mut Vec<u8>, text: &[u8]) {
    if specials(&block.to_le_bytes()) & ((1 << len) - 1) != 0 {
        return put_escaped(text, out);
    }
    // The quote is added in the register: a load of the block would wait for a store of one byte.
    let block = block | u128::from(b'"') << (8 * len);
    let end = out.len() + len + 1;
    out.extend_from_slice(&block.to_le_bytes());
    out.truncate(end);
}

/// Appends the name of a field with its punctuation: `,"name":`.
pub(crate) fn put_key(name: &str, out: &mut Vec<u8>) {
    out.push(b',');
    put_text(name.as_bytes(), out);
    out.push(b':');
}

/// The name of a field with its punctuation, `,"name":`, ready to be copied.
pub(crate) enum JsonKey {
    /// Most names: a block, and the length of the text in it. A copy of fixed length needs no call.
    Short([u8; 30], u8),
    Long(Box<[u8]>),
}

impl JsonKey {
    pub(crate) fn new(name: &str) -> Self {
        let mut text = Vec::with_capacity(name.len() + 4);
        put_key(name, &mut text);
        let mut block = [0; 30];
        match block.get_mut(..text.len()) {
            Some(short) => {
                short.copy_from_slice(&text);
                Self::Short(block, text.len() as u8)
            }
            None => Self::Long(text.into()),
        }
    }

    /// Appends the name with its punctuation.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Short(block, len) => {
                let end = out.len() + usize::from(*len);
                out.extend_from_slice(block);
                out.truncate(end);
            }
            Self::Long(text) => out.extend_from_slice(text),
        }
    }
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

/// Returns fewer than 16 bytes as a block in little-endian order, with zeros after them. Loads
/// overlap, so a few of fixed length do for all lengths.
#[inline]
fn padded(bytes: &[u8]) -> u128 {
    let len = bytes.len();
    if let (Some(front), Some(back)) = (bytes.first_chunk(), bytes.last_chunk()) {
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
    }
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

    /// Writes `text` alone, and with others after it.
    fn check(text: &[u8]) {
        let mut out = b"before".to_vec();
        put_text(text, &mut out);
        assert_eq!(out, [b"before", &*plain(text)].concat(), "{text:?}");
        for after in ["", "\"", "after it", "\\\"\n and more than a block after it"] {
            let mut out = b"before".to_vec();
            put_text_of(&[text, after.as_bytes()].concat(), text.len(), &mut out);
            assert_eq!(out, [b"before", &*plain(text)].concat(), "{text:?}, then {after:?}");
        }
    }

    #[test]
    fn names_of_every_length_are_copied() {
        for len in 0..70 {
            let name = "n".repeat(len);
            let mut out = b"{".to_vec();
            JsonKey::new(&name).put(&mut out);
            assert_eq!(out, format!("{{,\"{name}\":").as_bytes());
        }
    }

    #[test]
    fn texts_of_every_length_are_written_with_a_special_byte_anywhere() {
        let letters: Vec<u8> = (0..70).map(|i| b'a' + i % 26).collect();
        for len in (0..letters.len()).step_by(if cfg!(miri) { 9 } else { 1 }) {
            check(&letters[..len]);
            for (at, byte) in (0..len).flat_map(|at| [(at, b'"'), (at, b'\n'), (at, 0)]) {
                let mut text = letters[..len].to_vec();
                text[at] = byte;
                check(&text);
            }
        }
    }
}
