//! How long changes are kept for readers.

use flagstone_base::{Error, Result};
use flagstone_wal::Keep;
use std::fmt;
use std::time::Duration;

/// How much of the log is kept for readers of changes (`Database::changes`) when recovery does not
/// need it any more. Beyond that the oldest segments are removed, whoever may still want to read
/// them. Segments are removed when memtables are flushed and when the database is closed, so an
/// idle database may keep more.
///
/// ```
/// # use flagstone_engine::ChangeRetention;
/// # use std::time::Duration;
/// let retention = ChangeRetention::bytes(1 << 30).and_age(Duration::from_secs(7 * 86_400));
/// assert_eq!(retention.to_string(), "1073741824 bytes, 604800 s");
/// assert_eq!(ChangeRetention::OFF.to_string(), "off");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChangeRetention {
    bytes: u64,
    age: Option<Duration>,
}

impl ChangeRetention {
    /// Changes are not kept, and cannot be read.
    pub const OFF: Self = Self { bytes: 0, age: None };

    /// Keeps at most this many bytes of log; 0 is [`ChangeRetention::OFF`].
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes, age: None }
    }

    /// Keeps changes for this long after their segment was released, whatever their size.
    pub const fn age(age: Duration) -> Self {
        Self { bytes: u64::MAX, age: Some(age) }
    }

    /// Keeps changes no longer than this.
    #[must_use]
    pub const fn and_age(mut self, age: Duration) -> Self {
        self.age = Some(age);
        self
    }

    /// Returns whether changes are kept.
    pub const fn is_on(self) -> bool {
        self.bytes > 0
    }

    /// The most bytes that are kept, and for how long, in milliseconds.
    pub(crate) fn parts(self) -> (u64, Option<u64>) {
        let millis = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        (self.bytes, self.age.map(millis))
    }

    pub(crate) fn of_parts(bytes: u64, millis: Option<u64>) -> Self {
        Self { bytes, age: millis.map(Duration::from_millis) }
    }

    /// What the log is told.
    pub(crate) fn keep(self) -> Option<Keep> {
        let age = self.age.unwrap_or(Duration::MAX);
        self.is_on().then_some(Keep { bytes: self.bytes, age })
    }

    pub(crate) fn check(self) -> Result<()> {
        match self.age {
            Some(age) if age < Duration::from_millis(1) => {
                Err(Error::invalid(format!("changes kept for {age:?}: expected at least 1 ms")))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for ChangeRetention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.age) {
            (0, _) => f.write_str("off"),
            (u64::MAX, Some(age)) => write!(f, "{} s", age.as_secs_f64()),
            (bytes, None) => write!(f, "{bytes} bytes"),
            (bytes, Some(age)) => write!(f, "{bytes} bytes, {} s", age.as_secs_f64()),
        }
    }
}
