//! Writes numbers and bytes as characters.

/// Appends the decimal digits of `value`.
pub(crate) fn put_u64(value: u64, out: &mut Vec<u8>) {
    const GROUP: u64 = 100_000_000;
    if value < GROUP {
        return put_first(value, out);
    }
    let (front, last) = (value / GROUP, value % GROUP);
    if front < GROUP {
        put_first(front, out);
    } else {
        put_first(front / GROUP, out);
        out.extend_from_slice(&eight_digits(front % GROUP).to_le_bytes());
    }
    out.extend_from_slice(&eight_digits(last).to_le_bytes());
}

/// Appends the digits of a number below 10^8, without zeros before them.
#[inline]
fn put_first(value: u64, out: &mut Vec<u8>) {
    let digits = eight_digits(value);
    // The zeros before the digits are in the low bytes. The last digit stays even if it is a zero.
    let zeros = ((digits - ZEROS) | 1 << 56).trailing_zeros() / 8;
    let end = out.len() + 8 - zeros as usize;
    // A copy of fixed length needs no call. What is too much is removed again.
    out.extend_from_slice(&(digits >> (8 * zeros)).to_le_bytes());
    out.truncate(end);
}

const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// Returns the eight digits of a number below 10^8, the first in the lowest byte. All are computed
/// at once, in the lanes of one word.
#[inline]
const fn eight_digits(value: u64) -> u64 {
    // Two lanes of 32 bits with four digits each, then four of 16 bits with two, then eight bytes.
    // The factors divide by 100 and 10: 10,486 / 2^20 and 103 / 2^10 are exact in these ranges.
    let fours = (value / 10_000) | (value % 10_000) << 32;
    let fronts = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let twos = fronts | (fours - 100 * fronts) << 16;
    let tens = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    ZEROS + (tens | (twos - 10 * tens) << 8)
}

/// Appends an integer in decimal.
pub(crate) fn put_i64(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    put_u64(value.unsigned_abs(), out);
}

/// Appends `coefficient / 10^scale` with `scale` digits after the point.
pub(crate) fn put_decimal(coefficient: i64, scale: u8, out: &mut Vec<u8>) {
    if coefficient < 0 {
        out.push(b'-');
    }
    let start = out.len();
    put_u64(coefficient.unsigned_abs(), out);
    let scale = usize::from(scale);
    if scale == 0 {
        return;
    }
    let digits = out.len() - start;
    if digits <= scale {
        let zeros = scale + 1 - digits;
        out.splice(start..start, std::iter::repeat_n(b'0', zeros));
    }
    let point = out.len() - scale;
    out.insert(point, b'.');
}

/// Appends bytes in base64 with padding (RFC 4648, section 4).
pub fn put_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= group.len() { digit } else { b'=' });
        }
    }
}

/// Decodes base64 with padding; `None` if `text` is not that.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let sextet = |byte: &u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (groups, []) = text.as_bytes().as_chunks::<4>() else { return None };
    let mut out = Vec::with_capacity(3 * groups.len());
    for (i, group) in groups.iter().enumerate() {
        let is_last = i + 1 == groups.len();
        let padding = group.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > if is_last { 2 } else { 0 } {
            return None;
        }
        let bits = group[..4 - padding]
            .iter()
            .try_fold(0_u32, |bits, byte| Some(bits << 6 | u32::from(sextet(byte)?)))?;
        let bytes = (bits << (6 * padding + 8)).to_be_bytes();
        // Bits that no byte uses are zero, so that bytes have one text.
        if bytes[3 - padding..].iter().any(|byte| *byte != 0) {
            return None;
        }
        out.extend_from_slice(&bytes[..3 - padding]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = b"x".to_vec();
        write(&mut out);
        String::from_utf8(out).unwrap().split_off(1)
    }

    #[test]
    fn eight_digits_are_those_of_the_number() {
        let (step, small) = if cfg!(miri) { (999_983, 101) } else { (997, 10_001) };
        for value in (0..100_000_000).step_by(step).chain(0..small).chain([99_999_999]) {
            assert_eq!(eight_digits(value).to_le_bytes(), *format!("{value:08}").as_bytes());
        }
    }

    #[test]
    fn integers_and_decimals_are_written_whole() {
        for value in [0, 7, 10, 99, 100, 12345, -1, i64::MIN, i64::MAX] {
            assert_eq!(text(|out| put_i64(value, out)), value.to_string());
        }
        for exponent in 0..20 {
            let power = 10_u64.pow(exponent);
            let digits = 12_345_678_901_234_567_890 / 10_u64.pow(19 - exponent);
            for value in [power - 1, power, power + 1, digits, u64::MAX / power] {
                assert_eq!(text(|out| put_u64(value, out)), value.to_string());
            }
        }
        for (coefficient, scale, expected) in [
            (110, 2, "1.10"),
            (5, 1, "0.5"),
            (-5, 3, "-0.005"),
            (0, 2, "0.00"),
            (-12, 0, "-12"),
            (36_028_797_018_963_967, 16, "3.6028797018963967"),
        ] {
            assert_eq!(text(|out| put_decimal(coefficient, scale, out)), expected);
        }
    }

    #[test]
    fn base64_pads_what_does_not_fill_a_group() {
        for (bytes, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(text(|out| put_base64(bytes.as_bytes(), out)), expected);
            assert_eq!(base64(expected).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(base64("+/+/"), Some(vec![0xFB, 0xFF, 0xBF]));
        for bad in ["Zg", "Zg=", "Zh==", "Zg==Zg==", "Z===", "====", "Zm9=", "Zm 9", "Zg=a"] {
            assert_eq!(base64(bad), None, "{bad}");
        }
    }
}
