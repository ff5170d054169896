//! The check that bytes are text. Most texts in documents are short and ASCII.

/// Returns the bytes as text if they are UTF-8. Two loads that overlap tell whether a text of at
/// most 32 bytes is ASCII, and ASCII is UTF-8.
#[inline]
#[expect(unsafe_code, reason = "the checked conversion would look at every byte again")]
pub(crate) fn from_utf8(bytes: &[u8]) -> Option<&str> {
    if is_short_ascii(bytes) {
        // SAFETY: all bytes are ASCII, which is UTF-8.
        return Some(unsafe { str::from_utf8_unchecked(bytes) });
    }
    simdutf8::basic::from_utf8(bytes).ok()
}

/// Returns whether the bytes are ASCII, and at most 32.
#[inline]
fn is_short_ascii(bytes: &[u8]) -> bool {
    const HIGH: u128 = u128::from_ne_bytes([0x80; 16]);
    let both = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        if bytes.len() > 32 {
            return false;
        }
        u128::from_ne_bytes(*first) | u128::from_ne_bytes(*last)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u64::from_ne_bytes(*first) | u64::from_ne_bytes(*last)).into()
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last)).into()
    } else {
        return bytes.is_ascii();
    };
    both & HIGH == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_byte_that_is_not_ascii_is_seen() {
        for len in 0..=80 {
            let mut bytes = vec![b'a'; len];
            assert_eq!(from_utf8(&bytes), std::str::from_utf8(&bytes).ok());
            assert_eq!(is_short_ascii(&bytes), len <= 32);
            for at in 0..len {
                for wrong in [0x80, 0xC3, 0xFF] {
                    bytes[at] = wrong;
                    assert_eq!(from_utf8(&bytes), None, "{wrong:#x} at {at} of {len}");
                    assert!(!is_short_ascii(&bytes));
                }
                bytes[at] = b'a';
            }
        }
    }

    #[test]
    fn text_that_is_not_ascii_is_text() {
        for text in
            ["ä", "aä", "日本", "a text with an ä", "and a longer one, with an ä at its end: ä"]
        {
            assert_eq!(from_utf8(text.as_bytes()), Some(text));
        }
    }
}
