//! The operations of a disk by name, so that tests can count them and fail one of them.

use std::fmt;

/// One kind of disk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// A new file.
    Create,
    /// A file to be written again.
    Reuse,
    /// A file opened for reading.
    Open,
    /// A file opened for reading blocks past the page cache.
    OpenDirect,
    /// Bytes read.
    Read,
    /// Bytes appended.
    Append,
    /// Bytes that an append left replaced by zeroes.
    Blank,
    /// A file synced.
    Sync,
    /// Room reserved.
    Reserve,
    /// A file renamed.
    Rename,
    /// A file linked.
    Link,
    /// A file's name removed.
    Remove,
    /// A directory made.
    CreateDir,
    /// A directory listed.
    List,
    /// A directory synced.
    SyncDir,
    /// A lock taken.
    Lock,
}

impl Op {
    /// All of them, in the order of their numbers.
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

    /// The operations that change the disk: where a crash makes a difference.
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

    /// What was being done, for the text "cannot .. FILE".
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

/// How often each operation was performed, and how many bytes were appended and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    counts: [u64; Op::ALL.len()],
    /// Bytes appended to all files.
    pub bytes_appended: u64,
    /// Bytes read from all files.
    pub bytes_read: u64,
}

impl OpCounts {
    /// How often `op` was performed.
    pub const fn of(&self, op: Op) -> u64 {
        self.counts[op as usize]
    }

    /// How many operations were performed in all.
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
