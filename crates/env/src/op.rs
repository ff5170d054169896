//! The operations of a disk by name, so that tests can count them and fail one of them.

use std::fmt;

/// One kind of disk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Creating a file.
    Create,
    /// Opening a file to be overwritten.
    Reuse,
    /// Opening a file for reading.
    Open,
    /// Opening a file for reading blocks without the page cache.
    OpenDirect,
    /// Reading from a file.
    Read,
    /// Appending to a file.
    Append,
    /// Overwriting a refused append with zeroes.
    Blank,
    /// Syncing a file.
    Sync,
    /// Reserving space for a file.
    Reserve,
    /// Renaming a file.
    Rename,
    /// Giving a file a second name.
    Link,
    /// Removing the name of a file.
    Remove,
    /// Creating a directory.
    CreateDir,
    /// Listing a directory.
    List,
    /// Syncing a directory.
    SyncDir,
    /// Taking a lock.
    Lock,
}

impl Op {
    /// All operations, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::Create,
        Self::Reuse,
        Self::Open,
        Self::OpenDirect,
        Self::Read,
        Self::Append,
        Self::Blank,
        Self::Sync,
        Self::Reserve,
        Self::Rename,
        Self::Link,
        Self::Remove,
        Self::CreateDir,
        Self::List,
        Self::SyncDir,
        Self::Lock,
    ];

    /// The operations that change the disk, so that a crash before or after them makes a
    /// difference.
    pub const CHANGES: [Self; 9] = [
        Self::Create,
        Self::Reuse,
        Self::Append,
        Self::Blank,
        Self::Sync,
        Self::Rename,
        Self::Link,
        Self::Remove,
        Self::SyncDir,
    ];

    /// The operation as a verb, for the error text "cannot .. FILE".
    pub(crate) const fn doing(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Reuse => "reuse",
            Self::Open | Self::OpenDirect => "open",
            Self::Read => "read",
            Self::Append => "append to",
            Self::Blank => "blank a part of",
            Self::Sync => "sync",
            Self::Reserve => "reserve room for",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Remove => "remove",
            Self::CreateDir => "create the directory",
            Self::List => "list",
            Self::SyncDir => "sync the directory",
            Self::Lock => "lock",
        }
    }
}

/// Counts of performed operations, and of bytes appended and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    counts: [u64; Op::ALL.len()],
    /// The number of bytes appended to all files.
    pub bytes_appended: u64,
    /// The number of bytes read from all files.
    pub bytes_read: u64,
}

impl OpCounts {
    /// The number of times that `op` was performed.
    pub const fn of(&self, op: Op) -> u64 {
        self.counts[op as usize]
    }

    /// The number of operations of all kinds.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) const fn add(&mut self, op: Op) {
        self.counts[op as usize] += 1;
    }
}

impl fmt::Display for OpCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for op in Op::ALL {
            if self.of(op) > 0 {
                write!(f, "{op:?} {}, ", self.of(op))?;
            }
        }
        write!(f, "{} bytes appended, {} read", self.bytes_appended, self.bytes_read)
    }
}
