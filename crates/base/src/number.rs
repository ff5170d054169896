//! Newtypes for numbers that must not be mixed up: SeqNos, files, keyspaces, trees, databases.

use std::fmt;

/// The position of a write in the history of its database. It has 56 bits, so that a kind fits into
/// the same word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqNo(u64);

impl SeqNo {
    /// The SeqNo before the first write.
    pub const ZERO: Self = Self(0);
    /// The largest SeqNo: 2^56 - 1. At 10 million writes a second it is reached after 228 years.
    pub const MAX: Self = Self((1 << 56) - 1);

    /// The SeqNo `value`; [`SeqNo::MAX`] if `value` is larger.
    #[inline]
    pub const fn new(value: u64) -> Self {
        if value > Self::MAX.0 { Self::MAX } else { Self(value) }
    }

    /// The SeqNo as an integer.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The SeqNo `n` positions later, at most [`SeqNo::MAX`].
    #[inline]
    #[must_use]
    pub const fn plus(self, n: u64) -> Self {
        Self::new(self.0.saturating_add(n))
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $int:ty, $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

id!(
    /// The number in the name of a file. A database never reuses one.
    FileNumber, u64, "{:06}");
id!(
    /// The number of a keyspace. A database never reuses one.
    KeyspaceId, u32, "keyspace {}");
id!(
    /// The number of a tree, which is one partition of a keyspace. A database never reuses one.
    TreeId, u32, "tree {}");

/// The identity of a database: a random number, drawn at creation. Every file stores it, so that
/// files of two databases cannot be mixed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DatabaseId(pub [u8; 16]);

impl fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seqno_never_leaves_its_56_bits() {
        assert_eq!(SeqNo::new(u64::MAX), SeqNo::MAX);
        assert_eq!(SeqNo::MAX.plus(1), SeqNo::MAX);
        assert_eq!(SeqNo::new(5).plus(2).to_string(), "#7");
        assert_eq!(FileNumber(42).to_string(), "000042");
    }
}
