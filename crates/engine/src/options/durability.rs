//! The promise that the acknowledgement of a commit makes.

use flagstone_base::{Error, Result};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When a commit returns, and so what its acknowledgement promises.
///
/// A commit is acknowledged only when everything before it in the log is as durable as itself.
///
/// As text: `none`, `buffered`, `interval:100ms`, `group` or `each`. Intervals are read in `s`,
/// `ms` and `ns`.
///
/// ```
/// # use flagstone_engine::Durability;
/// # use std::time::Duration;
/// let durability: Durability = "interval:2s".parse()?;
/// assert_eq!(durability, Durability::Interval(Duration::from_secs(2)));
/// assert_eq!(durability.to_string(), "interval:2000ms");
/// # Ok::<(), flagstone_engine::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// Not logged. Kept only once a later `Database::flush` or `Database::close` has returned; an
    /// earlier crash keeps a whole cut of history.
    None,
    /// Handed to the operating system: survives the death of the process (kill -9), but not that of
    /// the machine. The default: about a microsecond a commit.
    #[default]
    Buffered,
    /// As `Buffered`, and synced in the background, each time this long after the last sync has
    /// ended. A power cut loses what came after the start of the last finished sync: writes of
    /// about this time plus that of a sync, more while a flush keeps the disk busy.
    Interval(Duration),
    /// Synced before it returns. Commits that wait at the same time share one sync.
    Group,
    /// Synced before it returns, by a sync of its own. For devices where only latency counts.
    Each,
}

impl Durability {
    /// Returns whether the commit is written to the write-ahead log.
    pub(crate) const fn is_logged(self) -> bool {
        !matches!(self, Self::None)
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Buffered => f.pad("buffered"),
            Self::Interval(time) if time.subsec_nanos().is_multiple_of(1_000_000) => {
                f.pad(&format!("interval:{}ms", time.as_millis()))
            }
            Self::Interval(time) => f.pad(&format!("interval:{}ns", time.as_nanos())),
            Self::Group => f.pad("group"),
            Self::Each => f.pad("each"),
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            let expected = "expected none, buffered, group, each or interval:100ms";
            Error::invalid(format!("durability {text:?}: {expected}"))
        };
        match text {
            "none" => Ok(Self::None),
            "buffered" => Ok(Self::Buffered),
            "group" => Ok(Self::Group),
            "each" => Ok(Self::Each),
            _ => {
                let time = text.strip_prefix("interval:").and_then(duration);
                time.map(Self::Interval).ok_or_else(unknown)
            }
        }
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number = number.parse().ok()?;
    match unit {
        "s" => Some(Duration::from_secs(number)),
        "ms" => Some(Duration::from_millis(number)),
        "ns" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// Refuses an interval that is too short to keep.
pub(crate) fn check_interval(interval: Duration) -> Result<()> {
    if interval < Duration::from_millis(1) {
        return Err(Error::invalid(format!("a sync every {interval:?}: expected at least 1 ms")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durability_is_read_as_it_is_written() {
        let all = [Durability::None, Durability::Buffered, Durability::Group, Durability::Each];
        let times =
            [Duration::from_millis(100), Duration::from_secs(2), Duration::from_micros(1500)];
        for one in all.into_iter().chain(times.map(Durability::Interval)) {
            assert_eq!(one.to_string().parse::<Durability>().unwrap(), one);
        }
        assert_eq!(Durability::Group.to_string(), "group");
        assert_eq!(Durability::Interval(Duration::from_secs(2)).to_string(), "interval:2000ms");
        assert_eq!(format!("{:<6}|", Durability::Each), "each  |");
    }

    #[test]
    fn what_is_no_durability_is_refused_with_what_was_expected() {
        let huge = format!("interval:{}ms", "9".repeat(30));
        for text in
            ["", "sync", "Group", "interval", "interval:", "interval:5", "interval:-1s", &huge]
        {
            let refused = text.parse::<Durability>().unwrap_err();
            assert_eq!(refused.kind(), flagstone_base::ErrorKind::InvalidInput);
            let said = refused.to_string();
            assert!(said.contains(&format!("{text:?}: expected none, buffered")), "{said}");
        }
    }
}
