//! The comments: one of them, its key, or a run of lines.
//!
//! A run is generated in chunks by several threads and written in their order:
//!
//! ```text
//!   thread 0:  chunk 0   chunk 2   chunk 4  ...  \
//!   thread 1:  chunk 1   chunk 3   chunk 5  ...  --> the caller writes 0, 1, 2, 3, ..
//! ```
//! Each thread passes its chunks on in order and at most one waits, so memory is a few chunks a
//! thread, whatever the count, and a slow writer slows the threads down.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::document::DocumentWriter;
use crate::facts::Facts;
use crate::key::{self, Key};
use crate::params;
use crate::tables::{Tables, tables};

/// 1024 comments are about 1.3 MB: far more work than passing them on, and still small.
const CHUNK: u64 = 1024;

/// An endless sequence of realistic Reddit comments; comment `i` depends on the seed and `i` alone.
///
/// `Copy`, and shared by threads without locks. The sequence resembles the comments of August 2019
/// in order of time: [`Comments::MONTH`] of them fill that month. Sizes in bytes: least 919,
/// median 1184, mean 1265, 99th percentile 2510.
///
/// ```
/// use flagstone_comments::Comments;
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
    /// The comments of the month that the sequence resembles. The time of later ones continues.
    pub const MONTH: u64 = params::MONTH_COMMENTS;

    /// The comments of `seed`. The first call of a process unpacks the tables, in about 13 ms.
    pub fn new(seed: u64) -> Self {
        Self { seed, tables: tables() }
    }

    /// The `id` of comment `i`, without generating the comment. Ids are unique, do not depend on
    /// the seed, and ascend with `i`; they have 7 bytes while `i` is below 15 billion.
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

    /// Appends the comments of `range` to `out`, each with a newline at its end: a little faster
    /// than one by one.
    pub fn write_lines(&self, range: Range<u64>, out: &mut Vec<u8>) {
        let mut writer = DocumentWriter::new(self.tables, out);
        for i in range {
            writer.write(Facts::decide(self.tables, self.seed, i));
            writer.end_line();
        }
    }

    /// Writes the comments of `range` to `writer`, one a line, and returns the bytes written.
    ///
    /// Two `threads` or more generate the comments while the caller writes; otherwise the
    /// caller does both. The bytes do not depend on `threads`. About 600 MB/s a thread
    /// (`flagstone generate comments`); memory is some chunks of 2 MB a thread, whatever the range.
    ///
    /// # Errors
    /// The first error of `writer`; how much it took by then is not known.
    pub fn generate(
        &self,
        range: Range<u64>,
        threads: usize,
        writer: &mut dyn Write,
    ) -> io::Result<u64> {
        let chunks = range.end.saturating_sub(range.start).div_ceil(CHUNK);
        let threads = chunks.min(threads.max(1) as u64);
        let chunk = |number: u64| {
            let start = range.start + number * CHUNK;
            start..range.end.min(start.saturating_add(CHUNK))
        };
        if threads <= 1 {
            let mut buffer = Vec::new();
            return (0..chunks).try_fold(0, |sum, number| {
                buffer.clear();
                self.write_lines(chunk(number), &mut buffer);
                writer.write_all(&buffer).map(|()| sum + buffer.len() as u64)
            });
        }
        std::thread::scope(|scope| {
            let mut lanes = Vec::new();
            for first in 0..threads {
                let (full, written) = (sync_channel(1), sync_channel(2));
                lanes.push((full.1, written.0));
                let numbers = (first..chunks).step_by(threads as usize);
                scope.spawn(move || make_chunks(*self, numbers.map(chunk), &full.0, &written.1));
            }
            let mut sum = 0;
            for number in 0..chunks {
                let (full, written) = &lanes[(number % threads) as usize];
                let Ok(buffer) = full.recv() else {
                    return Err(io::Error::other("a thread that makes comments ended early"));
                };
                writer.write_all(&buffer)?;
                sum += buffer.len() as u64;
                // A thread after its last chunk needs no buffer back.
                let _ = written.send(buffer);
            }
            Ok(sum)
        })
    }
}

impl fmt::Debug for Comments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comments(seed {})", self.seed)
    }
}

/// Generates the chunks of one thread, until the caller has gone.
fn make_chunks(
    comments: Comments,
    chunks: impl Iterator<Item = Range<u64>>,
    full: &SyncSender<Vec<u8>>,
    written: &Receiver<Vec<u8>>,
) {
    for chunk in chunks {
        let mut buffer = written.try_recv().unwrap_or_default();
        buffer.clear();
        comments.write_lines(chunk, &mut buffer);
        if full.send(buffer).is_err() {
            return;
        }
    }
}
