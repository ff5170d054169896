//! What a caller may ask of the layout of a collection.

use flagstone_base::{Error, Result};
use std::fmt;

/// The most buckets of a collection.
pub(crate) const BUCKETS_MAX: u32 = 4096;

/// How a collection is divided into buckets, the partitions of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// By the hash of each key, into so many buckets, a power of two up to 4,096. All buckets grow
    /// alike, whatever is written. A query by the order of keys reads all of them.
    Hash(u32),
    /// By ranges of keys, into so many buckets, up to 4,096, which are about equal when they are
    /// made. A query by the order of keys reads only the buckets it meets. Keys that only rise all
    /// go to the last one, and each shard of an export reads all.
    Ranges(u32),
}

impl Layout {
    pub(crate) fn check(self) -> Result<()> {
        let expected = match self {
            Self::Hash(buckets) if buckets.is_power_of_two() && buckets <= BUCKETS_MAX => {
                return Ok(());
            }
            Self::Ranges(1..=BUCKETS_MAX) => return Ok(()),
            Self::Hash(_) => "a power of two up to",
            Self::Ranges(_) => "1 to",
        };
        Err(Error::invalid(format!(
            "a collection cannot have {self}: expected {expected} {BUCKETS_MAX}"
        )))
    }

    /// Returns the options of the tool that ask for it.
    pub(crate) fn options(self) -> String {
        match self {
            Self::Hash(buckets) => format!("--buckets {buckets}"),
            Self::Ranges(buckets) => format!("--buckets {buckets} --ranges"),
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash(buckets) => write!(f, "{buckets} buckets"),
            Self::Ranges(buckets) => write!(f, "{buckets} ranges of keys"),
        }
    }
}
