//! Numbers that must not be mixed up: positions in history, files, keyspaces, trees, databases.

use std::fmt;

/// The position of a write in the history of its database; 56 bits, so that a kind fits beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqNo(u64);

impl SeqNo {
    /// Before every write.
    pub const ZERO: Self = Self(0);
    /// The largest number there is: 2^56 - 1. At 10 million writes a second it lasts 228 years.
    pub const MAX: Self = Self((1 << 56) - 1);

    /// The number `value`, which must not exceed [`SeqNo::MAX`]; larger ones are cut to it.
    #[inline]
    pub const fn new(value: u64) -> Self {
        if value > Self::MAX.0 { Self::MAX } else { Self(value) }
    }

    /// The number as an integer.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number `n` places later.
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
    /// The number in a file's name; never reused in one database.
    FileNumber, u64, "{:06}");
id!(
    /// The number of a keyspace; never reused in one database.
    KeyspaceId, u32, "keyspace {}");
id!(
    /// The number of a tree (one partition of a keyspace); never reused in one database.
    TreeId, u32, "tree {}");

/// The identity of a database, drawn at creation; every file carries it, so files of two databases
/// cannot be mixed up.
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
