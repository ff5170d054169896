//! A planned compaction.

use crate::version::TableHandle;
use flagstone_base::{FileNumber, Moment};
use std::fmt;
use std::sync::Arc;

/// Tables with their levels.
pub(super) type Tables = Vec<(u8, Arc<TableHandle>)>;

/// The reason for a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobReason {
    /// L0 has too many runs or bytes.
    L0,
    /// L0 has too many runs, which are merged with each other.
    Runs,
    /// A level is larger than its target size.
    Size,
    /// A good part of a table is tombstones.
    Tombstones,
    /// The compaction frees a good part of its inputs.
    Space,
    /// Entries have expired.
    Expired,
    /// A table reaches across the bounds of its tree.
    Bounds,
    /// The user asked for a full compaction.
    Full,
}

/// A planned compaction: the tables that it replaces, and the level of its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The level and number of each input.
    pub inputs: Vec<(u8, FileNumber)>,
    /// The level of the output.
    pub output_level: u8,
    /// The reason for the compaction.
    pub reason: JobReason,
    /// Whether nothing overlaps, so that an edit moves the tables without rewriting them.
    pub is_move: bool,
    /// If set, the inputs are dropped unread: all their entries have expired at this moment.
    pub dropped_at: Option<Moment>,
    /// Bytes of the inputs.
    pub bytes: u64,
}

/// For example `size: L1 000042, L2 000017 000018 -> L2`, with `move` in place of `->` if nothing
/// is written; for example `expired: L6 000042 drop`.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            JobReason::L0 => "l0:",
            JobReason::Runs => "runs:",
            JobReason::Size => "size:",
            JobReason::Tombstones => "tombstones:",
            JobReason::Space => "space:",
            JobReason::Expired => "expired:",
            JobReason::Bounds => "bounds:",
            JobReason::Full => "full:",
        })?;
        let mut last = None;
        for (level, number) in &self.inputs {
            if last != Some(level) {
                let comma = if last.is_some() { "," } else { "" };
                write!(f, "{comma} L{level}")?;
                last = Some(level);
            }
            write!(f, " {number}")?;
        }
        if self.dropped_at.is_some() {
            return f.write_str(" drop");
        }
        let arrow = if self.is_move { "move" } else { "->" };
        write!(f, " {arrow} L{}", self.output_level)
    }
}
