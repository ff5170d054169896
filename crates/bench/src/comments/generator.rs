//! The door to the comments: one of them, its key, or a run of lines.

use std::fmt;
use std::ops::Range;

use super::document::DocumentWriter;
use super::facts::Facts;
use super::key::{self, Key};
use super::params;
use super::tables::{Tables, tables};

/// An endless sequence of realistic Reddit comments; comment `i` depends on the seed and `i` alone.
///
/// `Copy`, and shared by threads without locks. The sequence resembles the comments of August 2019
/// in order of time: [`Comments::MONTH`] of them fill that month. Sizes in bytes: least 919,
/// median 1184, mean 1265, 99th percentile 2510.
///
/// ```
/// use flagstone_bench::Comments;
///
/// let comments = Comments::new(1);
/// let mut line = Vec::new();
/// comments.write(42, &mut line);
/// let comment: serde_json::Value = serde_json::from_slice(&line).unwrap();
/// assert_eq!(comment["id"], comments.key(42).as_str());
///
/// let mut lines = Vec::new();
/// comments.generate(0..1000, 2, &mut lines).unwrap();
/// assert_eq!(lines.split(|&b| b == b'\n').nth(42), Some(&line[..]));
/// ```
#[derive(Clone, Copy)]
pub struct Comments {
    seed: u64,
    tables: &'static Tables,
}

impl Comments {
    /// The comments of the month that the sequence resembles. Those beyond it go on in time.
    pub const MONTH: u64 = params::MONTH_COMMENTS;

    /// The comments of `seed`. The first call of a process unpacks the tables, in about 13 ms.
    pub fn new(seed: u64) -> Self {
        Self { seed, tables: tables() }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The `id` of comment `i`, without making the comment. Ids are unique, do not depend on the seed, and
    /// ascend with `i`; they have 7 bytes while `i` is below 15 billion.
    pub fn key(&self, i: u64) -> Key {
        Key::new(i)
    }

    /// The number of the comment whose `id` this is; `None` if no comment has it.
    pub fn number(&self, id: &[u8]) -> Option<u64> {
        key::comment_of(id)
    }

    /// Appends comment `i` to `out`: one JSON object in ASCII, without spaces and line ends.
    /// `i` is meant to stay below 2^40.
    pub fn write(&self, i: u64, out: &mut Vec<u8>) {
        DocumentWriter::new(self.tables, out).write(Facts::decide(self.tables, self.seed, i));
    }

    /// Appends the comments of `range` to `out`, each with a newline behind it: a little faster
    /// than one by one.
    pub fn write_lines(&self, range: Range<u64>, out: &mut Vec<u8>) {
        let mut writer = DocumentWriter::new(self.tables, out);
        for i in range {
            writer.write(Facts::decide(self.tables, self.seed, i));
            writer.end_line();
        }
    }
}

impl fmt::Debug for Comments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comments(seed {})", self.seed)
    }
}
