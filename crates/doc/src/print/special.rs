//! Finds the next special byte of a string: a quote, a backslash or a control byte.

#[inline]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Returns the offset of the first quote, backslash or control byte in `text[at..]`, or
/// `text.len()` if there is none.
#[inline]
pub(crate) fn special(text: &[u8], mut at: usize) -> usize {
    while let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        let mask = specials(block);
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += 16;
    }
    while at < text.len() && !is_special(text[at]) {
        at += 1;
    }
    at.min(text.len())
}

/// Returns a mask with one bit for each special byte of the block.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "SSE2 has to be named to be used, though every x86-64 has it")]
pub(crate) fn specials(block: &[u8; 16]) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
        _mm_set1_epi8,
    };

    #[target_feature(enable = "sse2")]
    #[inline]
    fn with_sse2(block: u128) -> u32 {
        let bytes = _mm_set_epi64x((block >> 64) as i64, block as i64);
        let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
        let slashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, slashes), controls)) as u32
    }

    // SAFETY: SSE2 is part of x86-64.
    unsafe { with_sse2(u128::from_le_bytes(*block)) }
}

/// Returns a mask with one bit for each special byte of the block.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn specials(block: &[u8; 16]) -> u32 {
    block.iter().enumerate().fold(0, |mask, (i, byte)| mask | u32::from(is_special(*byte)) << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_special_byte_is_found_at_every_offset() {
        for len in 0..50 {
            for at in 0..len {
                for byte in (0..=255).step_by(if cfg!(miri) { 34 } else { 1 }) {
                    let mut text = vec![b'a'; len];
                    text[at] = byte;
                    let expected = if is_special(byte) { at } else { len };
                    assert_eq!(special(&text, 0), expected);
                    assert_eq!(special(&text, at + 1), len);
                }
            }
        }
    }
}
