//! Encoding of integers and byte strings. The decoder treats every byte as hostile: it refuses, and
//! never panics.
//!
//! Fixed integers are little-endian. A varint is LEB128: 7 bits a byte, low bits first, at most 10
//! bytes, the shortest form only.

use crate::error::{Error, ErrorKind};
use std::fmt;

/// The refusal of a decoder: the offset of the malformed bytes, and what was expected there.
///
/// A decoder does not know which file it reads. The caller turns the refusal into an [`Error`] with
/// [`Malformed::in_file`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The offset within the decoded bytes.
    pub at: usize,
    /// What the decoder expected at `at`.
    pub expected: &'static str,
}

impl Malformed {
    /// A Corruption error that names `file` and the offset in it. `base_offset` is where the
    /// decoded bytes begin.
    #[cold]
    pub fn in_file(self, file: impl fmt::Display, base_offset: u64) -> Error {
        Error::corruption(
            file,
            base_offset.saturating_add(self.at as u64),
            format_args!("expected {}", self.expected),
        )
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: expected {}", self.at, self.expected)
    }
}

impl std::error::Error for Malformed {}

/// Why bytes were not decoded: they are malformed, or a newer flagstone wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecoded {
    /// The bytes do not have the form they should.
    Malformed(Malformed),
    /// The bytes hold something of a newer flagstone that a reader must not skip.
    Newer {
        /// Its offset within the decoded bytes.
        at: usize,
        /// What it is, for example `keyspace field`.
        what: &'static str,
        /// The number that names it on disk.
        number: u64,
    },
}

impl Undecoded {
    /// The offset of the refused bytes within the decoded bytes.
    pub const fn at(&self) -> usize {
        match self {
            Self::Malformed(wrong) => wrong.at,
            Self::Newer { at, .. } => *at,
        }
    }

    /// The same refusal, for bytes that begin `by` bytes earlier.
    #[must_use]
    pub const fn moved(self, by: usize) -> Self {
        match self {
            Self::Malformed(Malformed { at, expected }) => {
                Self::Malformed(Malformed { at: at + by, expected })
            }
            Self::Newer { at, what, number } => Self::Newer { at: at + by, what, number },
        }
    }

    /// The error that names `file` and the offset in it: Corruption, or Unsupported for what a
    /// newer flagstone wrote. `base_offset` is where the decoded bytes begin.
    #[cold]
    pub fn in_file(self, file: impl fmt::Display, base_offset: u64) -> Error {
        match self {
            Self::Malformed(wrong) => wrong.in_file(file, base_offset),
            Self::Newer { at, what, number } => Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{file}, offset {}: {what} {number} is unknown to this flagstone: a newer one \
                     wrote the file",
                    base_offset.saturating_add(at as u64)
                ),
            ),
        }
    }
}

impl From<Malformed> for Undecoded {
    fn from(wrong: Malformed) -> Self {
        Self::Malformed(wrong)
    }
}

impl fmt::Display for Undecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(wrong) => write!(f, "{wrong}"),
            Self::Newer { at, what, number } => {
                write!(f, "at byte {at}: {what} {number} of a newer flagstone")
            }
        }
    }
}

impl std::error::Error for Undecoded {}

/// Appends `value` as a varint: 1 to 10 bytes.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number of bytes that [`put_varint`] appends for `value`.
#[inline]
pub const fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends the length of `bytes` as a varint, then `bytes`.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a little-endian u32.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a little-endian u64.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Reads bytes from front to back. Each step names what it expects; if that is not there, the error
/// is [`Malformed`] with this name.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    /// A decoder at the start of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The offset of the next byte.
    #[inline]
    pub const fn position(&self) -> usize {
        self.at
    }

    /// The number of bytes that were not read yet.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns whether all bytes were read.
    #[inline]
    pub const fn is_done(&self) -> bool {
        self.remaining() == 0
    }

    /// The error that `expected` is not at the current position.
    #[cold]
    pub const fn refuse(&self, expected: &'static str) -> Malformed {
        Malformed { at: self.at, expected }
    }

    /// Fails unless all bytes were read: bytes after the last field are malformed.
    pub const fn finish(&self, expected: &'static str) -> Result<(), Malformed> {
        if self.is_done() { Ok(()) } else { Err(self.refuse(expected)) }
    }

    /// Reads the next `len` bytes, without copying.
    #[inline]
    pub fn take(&mut self, len: usize, expected: &'static str) -> Result<&'a [u8], Malformed> {
        let Some(bytes) = self.bytes[self.at..].get(..len) else {
            return Err(self.refuse(expected));
        };
        self.at += len;
        Ok(bytes)
    }

    /// Reads all remaining bytes.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    /// Reads the next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], Malformed> {
        let Some(bytes) = self.bytes[self.at..].first_chunk::<N>() else {
            return Err(self.refuse(expected));
        };
        self.at += N;
        Ok(*bytes)
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self, expected: &'static str) -> Result<u8, Malformed> {
        Ok(self.array::<1>(expected)?[0])
    }

    /// Reads a byte that is 0 for false or 1 for true.
    pub fn flag(&mut self, expected: &'static str) -> Result<bool, Malformed> {
        let at = self.at;
        match self.u8(expected)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed { at, expected }),
        }
    }

    /// Reads a little-endian u16.
    #[inline]
    pub fn u16(&mut self, expected: &'static str) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array(expected)?))
    }

    /// Reads a little-endian u32.
    #[inline]
    pub fn u32(&mut self, expected: &'static str) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array(expected)?))
    }

    /// Reads a little-endian u64.
    #[inline]
    pub fn u64(&mut self, expected: &'static str) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array(expected)?))
    }

    /// Reads a varint of at most 64 bits. A varint that is not in its shortest form is malformed.
    #[inline]
    pub fn varint(&mut self, expected: &'static str) -> Result<u64, Malformed> {
        // Most lengths have one byte or two.
        match *self.bytes.get(self.at..).unwrap_or_default() {
            [low @ ..0x80, ..] => {
                self.at += 1;
                Ok(u64::from(low))
            }
            [low, high @ 1..0x80, ..] => {
                self.at += 2;
                Ok(u64::from(low & 0x7F) | u64::from(high) << 7)
            }
            _ => self.long_varint(expected),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self, expected: &'static str) -> Result<u64, Malformed> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8(expected)?;
            let bits = u64::from(byte & 0x7F);
            let overflows = shift == 63 && bits > 1;
            let padded = byte == 0 && shift > 0;
            if overflows || padded {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed { at: start, expected })
    }

    /// Reads a varint that must fit 32 bits.
    #[inline]
    pub fn varint_u32(&mut self, expected: &'static str) -> Result<u32, Malformed> {
        let start = self.at;
        let value = self.varint(expected)?;
        u32::try_from(value).map_err(|_too_large| Malformed { at: start, expected })
    }

    /// Reads a varint that must fit `usize`.
    #[inline]
    pub fn varint_usize(&mut self, expected: &'static str) -> Result<usize, Malformed> {
        let start = self.at;
        let value = self.varint(expected)?;
        usize::try_from(value).map_err(|_too_large| Malformed { at: start, expected })
    }

    /// Reads a varint length and that many bytes, without copying.
    #[inline]
    pub fn bytes(&mut self, expected: &'static str) -> Result<&'a [u8], Malformed> {
        let len = self.varint_usize(expected)?;
        self.take(len, expected)
    }

    /// Reads a varint length and that many bytes of UTF-8 text, without copying.
    pub fn text(&mut self, expected: &'static str) -> Result<&'a str, Malformed> {
        let start = self.at;
        let bytes = self.bytes(expected)?;
        std::str::from_utf8(bytes).map_err(|_not_utf8| Malformed { at: start, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_width_survive_a_round_trip() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value));
                let mut decoder = Decoder::new(&out);
                assert_eq!(decoder.varint("v"), Ok(value));
                assert!(decoder.is_done());
            }
        }
    }

    #[test]
    fn a_varint_that_is_padded_or_too_long_is_refused() {
        assert!(Decoder::new(&[0x80, 0x00]).varint("v").is_err());
        assert!(Decoder::new(&[0xFF; 11]).varint("v").is_err());
        let mut too_large = [0xFF_u8; 10];
        too_large[9] = 2;
        assert!(Decoder::new(&too_large).varint("v").is_err());
        assert_eq!(Decoder::new(&[0x80]).varint("v"), Err(Malformed { at: 1, expected: "v" }));
    }

    #[test]
    fn a_flag_is_zero_or_one() {
        let flag = |byte| {
            let bytes = [7, byte];
            let mut decoder = Decoder::new(&bytes);
            decoder.u8("v")?;
            decoder.flag("f")
        };
        assert_eq!((flag(0), flag(1)), (Ok(false), Ok(true)));
        assert_eq!(flag(2), Err(Malformed { at: 1, expected: "f" }));
    }

    #[test]
    fn a_length_beyond_the_end_is_refused_without_allocating() {
        let mut out = Vec::new();
        put_varint(&mut out, u64::MAX);
        assert!(Decoder::new(&out).bytes("b").is_err());
    }
}
