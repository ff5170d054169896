//! A run of comments as lines, made in chunks by several threads and written in their order.
//!
//! ```text
//!   thread 0:  chunk 0   chunk 2   chunk 4  ...  \
//!   thread 1:  chunk 1   chunk 3   chunk 5  ...  --> the caller writes 0, 1, 2, 3, ..
//! ```
//! Each thread hands its chunks over in order and at most one waits, so memory is a few chunks a
//! thread, whatever the count, and a slow writer slows the threads down.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::generator::Comments;

/// 1024 comments are about 1.3 MB: far more work than handing them over, and still small.
const CHUNK: u64 = 1024;

impl Comments {
    /// Writes the comments of `range` to `writer`, one a line, and gives the bytes written.
    ///
    /// With two `threads` or more these make the comments and the caller only writes; else the
    /// caller does both. The bytes do not depend on `threads`. About 600 MB/s a thread (example
    /// `comment_figures speed`); memory is some chunks of 2 MB a thread, whatever the range.
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
                // A thread that has made its last chunk wants no buffer back.
                let _ = written.send(buffer);
            }
            Ok(sum)
        })
    }
}

/// Makes the chunks of one thread, until the caller has gone.
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
