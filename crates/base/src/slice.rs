//! Shared bytes that are cheap to clone: `get` and `scan` return them.

use bytes::Bytes;
use std::fmt;
use std::ops::{Deref, RangeBounds};

/// Immutable shared bytes. A clone raises a reference count and copies no bytes. A slice of a
/// cached block keeps the whole block in memory: copy (`to_vec`) what you keep for long.
///
/// ```
/// use flagstone_base::Slice;
/// let line = Slice::copy_of(b"name=ada");
/// let name = line.slice(5..);
/// assert_eq!(name, b"ada");
/// assert_eq!(name.as_ptr(), line[5..].as_ptr());              // the same memory
/// drop(line);
/// assert_eq!(name.to_vec(), b"ada");
///
/// let mapped: &'static [u8] = b"bytes of a mapped file";      // or anything that owns bytes
/// assert_eq!(Slice::from_owner(mapped).as_ptr(), mapped.as_ptr());
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice(Bytes);

impl Slice {
    /// The empty slice.
    pub const EMPTY: Self = Self(Bytes::new());

    /// A slice with a copy of `bytes`.
    #[inline]
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }

    /// A slice of the bytes of `owner`, which is dropped with the last slice that refers to it.
    /// Copies no bytes; costs one small allocation.
    pub fn from_owner(owner: impl AsRef<[u8]> + Send + 'static) -> Self {
        Self(Bytes::from_owner(owner))
    }

    /// The part `range` of this slice, which shares its memory.
    ///
    /// # Panics
    /// When the range is not inside the slice.
    #[inline]
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        Self(self.0.slice(range))
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Slice {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::from(bytes))
    }
}

impl From<Bytes> for Slice {
    fn from(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

macro_rules! equal_to {
    ($($other:ty),*) => {$(
        impl PartialEq<$other> for Slice {
            fn eq(&self, other: &$other) -> bool {
                self.0[..] == other[..]
            }
        }
    )*};
}
equal_to!([u8], &[u8], Vec<u8>);

impl<const N: usize> PartialEq<[u8; N]> for Slice {
    fn eq(&self, other: &[u8; N]) -> bool {
        self.0[..] == other[..]
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Slice {
    fn eq(&self, other: &&[u8; N]) -> bool {
        self.0[..] == other[..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_shares_the_memory_of_the_whole() {
        let whole = Slice::copy_of(b"abcdef");
        let part = whole.slice(2..4);
        assert_eq!(part, b"cd");
        assert_eq!(part.as_ptr(), whole[2..].as_ptr());
    }
}
