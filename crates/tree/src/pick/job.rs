//! A compaction as it is planned.

use flagstone_base::FileNumber;
use std::fmt;

/// Why a compaction is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobReason {
    /// L0 has too many runs or bytes.
    L0,
    /// L0 has too many runs, and they are merged among themselves.
    Runs,
    /// A level is larger than it should be.
    Size,
    /// A table consists of tombstones for a good part.
    Tombstones,
    /// It frees a good part of its inputs.
    Space,
    /// Somebody asked for it.
    Full,
}

/// A compaction to be done: tables that go, and the level their content goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The level and number of each input.
    pub inputs: Vec<(u8, FileNumber)>,
    /// Where the output goes.
    pub output_level: u8,
    /// Why.
    pub reason: JobReason,
    /// Nothing overlaps: the tables are moved by an edit alone.
    pub is_move: bool,
    /// Bytes of the inputs.
    pub bytes: u64,
}

/// `size: L1 000042, L2 000017 000018 -> L2`; `move` instead of `->` when nothing is written.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            JobReason::L0 => "l0:",
            JobReason::Runs => "runs:",
            JobReason::Size => "size:",
            JobReason::Tombstones => "tombstones:",
            JobReason::Space => "space:",
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
        let arrow = if self.is_move { "move" } else { "->" };
        write!(f, " {arrow} L{}", self.output_level)
    }
}
