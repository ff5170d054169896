//! Writes text as JSON has it.

use super::special::{special, specials};

/// Appends `text` in quotes, with escapes.
///
/// Texts are short, so no piece is copied by a library call: whole blocks are appended, and what is
/// too much is removed again.
#[inline]
pub(crate) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk::<16>() {
        if specials(block) != 0 {
            return put_escaped(rest, out);
        }
        out.extend_from_slice(block);
        rest = after;
    }
    let last = padded(rest);
    if specials(&last.to_le_bytes()) & ((1 << rest.len()) - 1) != 0 {
        return put_escaped(rest, out);
    }
    // The quote is added in the register: a load of the block would wait for a store of one byte.
    let last = last | u128::from(b'"') << (8 * rest.len());
    let end = out.len() + rest.len() + 1;
    out.extend_from_slice(&last.to_le_bytes());
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
