//! Newtypes for numbers that must not be mixed up: SeqNos, moments, files, keyspaces, trees,
//! databases.

use std::fmt;
use std::time::Duration;

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

/// A point in time: milliseconds since 1970-01-01 00:00 UTC. Entries expire at a moment, and
/// readers judge by one.
///
/// ```
/// use flagstone_base::Moment;
/// use std::time::Duration;
/// let start = Moment::since_1970(Duration::from_micros(1_234_567));
/// assert_eq!(start, Moment::from_millis(1_234));              // whole milliseconds
/// let later = start.after(Duration::from_secs(60));
/// assert_eq!(later.millis() - start.millis(), 60_000);
/// assert!(start < later && later < Moment::MAX);
/// assert_eq!(later.after(Duration::MAX), Moment::MAX);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The first moment: 1970-01-01 00:00 UTC.
    pub const ZERO: Self = Self(0);
    /// The last moment.
    pub const MAX: Self = Self(u64::MAX);

    /// The moment `millis` milliseconds after 1970-01-01 00:00 UTC.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The moment `time` after 1970-01-01 00:00 UTC, as `SystemTime::duration_since(UNIX_EPOCH)`
    /// returns it. A part of a millisecond is not counted.
    pub fn since_1970(time: Duration) -> Self {
        Self::ZERO.after(time)
    }

    /// Milliseconds since 1970-01-01 00:00 UTC.
    #[inline]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The moment `by` later, at most [`Moment::MAX`]. A part of a millisecond is not counted.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

/// For example `@1700000000000`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
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
    fn a_moment_counts_whole_milliseconds_since_1970_and_never_overflows() {
        let time = Duration::from_micros(1_234_567);
        assert_eq!(Moment::since_1970(time), Moment::from_millis(1234));
        assert_eq!(Moment::MAX.after(Duration::MAX), Moment::MAX);
        assert_eq!(Moment::from_millis(5).after(Duration::from_secs(1)).to_string(), "@1005");
    }

    #[test]
    fn a_seqno_never_leaves_its_56_bits() {
        assert_eq!(SeqNo::new(u64::MAX), SeqNo::MAX);
        assert_eq!(SeqNo::MAX.plus(1), SeqNo::MAX);
        assert_eq!(SeqNo::new(5).plus(2).to_string(), "#7");
        assert_eq!(FileNumber(42).to_string(), "000042");
    }
}
