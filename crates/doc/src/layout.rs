//! The constants of the binary form: header, tags and widths. See `docs/format/document.md`.

/// The version of the format, in the upper four bits of a document's first byte.
pub(crate) const VERSION: u8 = 1;
/// The header bit that is set if some field name is stored as an id of the names table.
pub(crate) const USES_NAMES: u8 = 0x08;
/// The header bits that hold the form of the root.
pub(crate) const FORM_BITS: u8 = 0x07;

/// The first byte of the payload of an array or map. The form of the root is in the header.
pub(crate) mod form {
    pub(crate) const ARRAY: u8 = 0;
    /// An array whose elements share one tag.
    pub(crate) const ARRAY_OF_ONE_TAG: u8 = 1;
    pub(crate) const INLINE_NAMES: u8 = 2;
    pub(crate) const IDS_1: u8 = 3;
    pub(crate) const IDS_2: u8 = 4;
    /// A map whose keys are any values, sorted by key.
    pub(crate) const PAIRS: u8 = 5;
    /// Reserved for maps whose keys are given by the id of a shape.
    pub(crate) const SHAPE: u8 = 6;
    /// Used by the root only: a tag and its value instead of a container.
    pub(crate) const BARE: u8 = 7;
}

/// The tag of a value is one byte: its type, and its size in the fixed area and in the heap.
pub(crate) mod tag {
    pub(crate) const NULL: u8 = 0x00;
    pub(crate) const FALSE: u8 = 0x01;
    pub(crate) const TRUE: u8 = 0x02;
    pub(crate) const EMPTY_ARRAY: u8 = 0x03;
    pub(crate) const EMPTY_MAP: u8 = 0x04;
    /// Signed, little-endian; each tag from here to `INT_8` has one byte more than the last.
    pub(crate) const INT_1: u8 = 0x05;
    pub(crate) const INT_8: u8 = 0x0C;
    pub(crate) const U64: u8 = 0x0D;
    /// Scale (the number of digits after the point), then a signed coefficient of 24 bits.
    pub(crate) const DECIMAL_4: u8 = 0x0E;
    /// Scale, then a signed coefficient of 56 bits.
    pub(crate) const DECIMAL_8: u8 = 0x0F;
    pub(crate) const FLOAT: u8 = 0x10;
    pub(crate) const DATE_TIME: u8 = 0x11;
    pub(crate) const UUID: u8 = 0x12;
    /// From here to `LITERAL_4`: the length is in the fixed area, the payload in the heap.
    pub(crate) const TEXT_2: u8 = 0x13;
    pub(crate) const TEXT_4: u8 = 0x14;
    pub(crate) const BYTES_1: u8 = 0x15;
    pub(crate) const BYTES_4: u8 = 0x16;
    pub(crate) const ARRAY_2: u8 = 0x17;
    pub(crate) const ARRAY_4: u8 = 0x18;
    pub(crate) const MAP_2: u8 = 0x19;
    pub(crate) const MAP_4: u8 = 0x1A;
    /// A number stored as its literal.
    pub(crate) const LITERAL_1: u8 = 0x1B;
    pub(crate) const LITERAL_4: u8 = 0x1C;
    pub(crate) const OBJECT_ID: u8 = 0x1D;
    /// The tags 0x1E and 0x1F are reserved; 0x20..=0x3F are the integers -4..=27.
    pub(crate) const RESERVED: u8 = 0x1E;
    pub(crate) const SMALL_INT: u8 = 0x20;
    pub(crate) const SMALL_INT_ZERO: u8 = 0x24;
    /// Text of 0..=191 bytes, stored in the fixed area.
    pub(crate) const TEXT: u8 = 0x40;
    pub(crate) const TEXT_INLINE_MAX: usize = 191;

    /// Returns whether the payload of a value is in the heap and its length in the fixed area.
    #[inline]
    pub(crate) const fn is_in_heap(tag: u8) -> bool {
        tag >= TEXT_2 && tag <= LITERAL_4
    }

    /// Returns whether the tag is reserved: no value has it.
    #[inline]
    pub(crate) const fn is_reserved(tag: u8) -> bool {
        tag >= RESERVED && tag < SMALL_INT
    }
}

/// The number of bytes that a value of each tag takes in the fixed area.
pub(crate) static WIDTHS: [u8; 256] = widths();

const fn widths() -> [u8; 256] {
    let mut widths = [0; 256];
    let mut tag = 0;
    while tag < 256 {
        widths[tag] = match tag as u8 {
            int @ tag::INT_1..=tag::INT_8 => int - tag::INT_1 + 1,
            tag::U64 | tag::DECIMAL_8 | tag::FLOAT | tag::DATE_TIME => 8,
            tag::DECIMAL_4 => 4,
            tag::UUID => 16,
            tag::OBJECT_ID => 12,
            tag::BYTES_1 | tag::LITERAL_1 => 1,
            tag::TEXT_2 | tag::ARRAY_2 | tag::MAP_2 => 2,
            tag::TEXT_4 | tag::BYTES_4 | tag::ARRAY_4 | tag::MAP_4 | tag::LITERAL_4 => 4,
            text @ tag::TEXT..=0xFF => text - tag::TEXT,
            _ => 0,
        };
        tag += 1;
    }
    widths
}

/// Returns the number of bytes that a value of this tag takes in the fixed area.
#[inline]
pub(crate) fn width(tag: u8) -> usize {
    WIDTHS[usize::from(tag)] as usize
}

/// Returns the sum of the widths of `tags`.
#[inline]
pub(crate) fn sum_of_widths(tags: &[u8]) -> usize {
    let mut sums = [0_usize; 4];
    let mut groups = tags.chunks_exact(4);
    for group in &mut groups {
        for (sum, tag) in sums.iter_mut().zip(group) {
            *sum += width(*tag);
        }
    }
    let rest: usize = groups.remainder().iter().map(|tag| width(*tag)).sum();
    rest + sums.iter().sum::<usize>()
}

/// Returns the number of bytes that a value takes in the heap. `fixed` begins with the value's
/// bytes in the fixed area.
#[inline]
pub(crate) fn heap_len(tag: u8, fixed: &[u8]) -> usize {
    if !tag::is_in_heap(tag) {
        return 0;
    }
    match fixed.first_chunk() {
        // One load and a mask instead of a copy: the widths are 1, 2 and 4.
        Some(bytes) => (u64::from_le_bytes(*bytes) & ((1 << (8 * width(tag))) - 1)) as usize,
        None => fixed.get(..width(tag)).map_or(0, |bytes| unsigned(bytes) as usize),
    }
}

/// Decodes a little-endian unsigned integer of at most 8 bytes.
#[inline]
pub(crate) fn unsigned(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    let len = bytes.len().min(8);
    wide[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(wide)
}

/// Decodes a little-endian two's complement integer of 1 to 8 bytes.
#[inline]
pub(crate) fn signed(bytes: &[u8]) -> i64 {
    let shift = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    ((unsigned(bytes) << shift) as i64) >> shift
}

/// Returns whether an integer has a tag of its own.
#[inline]
pub(crate) const fn is_small(value: i64) -> bool {
    value >= -4 && value <= 27
}

/// Returns the number of bytes, 1 to 8, that `value` needs as a two's complement integer.
#[inline]
pub(crate) const fn signed_width(value: i64) -> usize {
    let significant = 65 - (value ^ (value >> 63)).leading_zeros() as usize;
    significant.div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_takes_as_few_bytes_as_it_needs() {
        for (value, width) in [
            (0, 1),
            (-1, 1),
            (127, 1),
            (128, 2),
            (-128, 1),
            (-129, 2),
            (32_768, 3),
            (i64::MAX, 8),
            (i64::MIN, 8),
        ] {
            assert_eq!(signed_width(value), width, "{value}");
            assert_eq!(signed(&value.to_le_bytes()[..width]), value);
        }
    }
}
