//! JSON lines, cut into chunks of whole lines: of a stream, or of a byte range of a file.
//!
//! ```text
//!   file    {..}\n{....}\n{..}\n{......}\n{..}
//!   ranges  |        a        |       b      |     a range owns the lines that begin in it
//! ```
//! A reader of a range begins one byte early: only when that byte ends a line does a line begin at
//! the range's first byte. So every line has one owner, wherever the ranges are cut.

use super::chunk::{BYTE_ORDER_MARK, CHUNK_BYTES, Chunk, Place, fill};
use std::io::{self, Read};
use std::ops::Range;

/// Cuts `len` bytes into ranges of `step` bytes, at least 1; the last range may be shorter.
pub fn ranges(len: u64, step: u64) -> impl Iterator<Item = Range<u64>> {
    let step = step.max(1);
    (0..len.div_ceil(step))
        .map(move |n| n * step..len.min(n.saturating_add(1).saturating_mul(step)))
}

/// Reads chunks of whole lines. Takes the memory of a chunk of 1 MiB and of the longest line, which
/// is bounded.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    /// The bytes that were read and not returned yet. They begin at `offset`.
    pending: Vec<u8>,
    offset: u64,
    /// The offset at which the range ends: lines that begin here or later belong to others.
    end: u64,
    /// The number of the line at `offset`, if lines are counted.
    line: Option<u64>,
    line_bytes_max: usize,
    /// Whether the rest of the line at `offset` is to be dropped.
    skips: bool,
    /// The error of the input, to be returned after the lines before it.
    failed: Option<io::Error>,
}

impl<R: Read> Lines<R> {
    /// Creates a reader of all lines of a stream, which counts them. A line over `line_bytes_max`
    /// bytes is cut one byte after that, and its chunk is marked.
    pub const fn of_stream(input: R, line_bytes_max: usize) -> Self {
        Self {
            input,
            pending: Vec::new(),
            offset: 0,
            end: u64::MAX,
            line: Some(1),
            line_bytes_max,
            skips: false,
            failed: None,
        }
    }

    /// Creates a reader of the lines that begin in `range`, which does not count them. `input` must
    /// begin at [`Lines::first_byte`].
    pub const fn of_range(input: R, range: Range<u64>, line_bytes_max: usize) -> Self {
        Self {
            input,
            pending: Vec::new(),
            offset: Self::first_byte(&range),
            end: range.end,
            line: None,
            line_bytes_max,
            skips: range.start > 0,
            failed: None,
        }
    }

    /// Returns the offset at which the reading of a range begins: one byte before the range.
    pub const fn first_byte(range: &Range<u64>) -> u64 {
        range.start.saturating_sub(1)
    }

    /// Returns the next chunk, or `None` at the end.
    ///
    /// # Errors
    /// The errors of the input.
    pub fn next_chunk(&mut self) -> io::Result<Option<Chunk>> {
        if self.skips {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if !self.skip_line()? {
                return Ok(None);
            }
        }
        while self.offset < self.end {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            let is_start = self.offset == 0 && self.pending.is_empty();
            let filled = fill(&mut self.input, &mut self.pending);
            let is_end = matches!(filled, Ok(false));
            self.failed = filled.err();
            if is_start && self.pending.starts_with(BYTE_ORDER_MARK) {
                self.pending.drain(..BYTE_ORDER_MARK.len());
                self.offset = BYTE_ORDER_MARK.len() as u64;
                // The first line begins with the mark: it is in the range if the first byte is.
                self.end = self.end.max(self.offset + 1);
            }
            if let Some(len) = self.whole_lines() {
                return Ok(Some(self.take(len)));
            }
            if self.pending.len() > self.line_bytes_max {
                return self.take_cut().map(Some);
            }
            if is_end {
                let len = self.pending.len();
                return Ok((len > 0).then(|| self.take(len)));
            }
        }
        Ok(None)
    }

    /// Returns how many of the pending bytes are whole lines of the range.
    fn whole_lines(&self) -> Option<usize> {
        // The last line that begins before `end` ends at the first newline at or after `end - 1`.
        let before_end = (self.end - 1 - self.offset).min(self.pending.len() as u64) as usize;
        let (before, after) = self.pending.split_at(before_end);
        let last = memchr::memchr(b'\n', after).map(|at| before_end + at);
        Some(1 + last.or_else(|| memchr::memrchr(b'\n', before))?)
    }

    /// Returns the first `len` pending bytes.
    fn take(&mut self, len: usize) -> Chunk {
        let rest = &self.pending[len..];
        let mut next = Vec::with_capacity(rest.len() + CHUNK_BYTES);
        next.extend_from_slice(rest);
        let mut bytes = std::mem::replace(&mut self.pending, next);
        bytes.truncate(len);
        let (offset, place) = (self.offset, self.line.map(Place::line));
        self.offset += len as u64;
        if let Some(line) = &mut self.line {
            *line += memchr::memchr_iter(b'\n', &bytes).count() as u64;
        }
        Chunk { offset, place, bytes, end: self.offset, is_cut: false, elements: None }
    }

    /// Returns the beginning of a line that is too long, and drops the rest of it. The line of a
    /// stream may have no end, so that its rest is dropped by the next call.
    fn take_cut(&mut self) -> io::Result<Chunk> {
        let mut chunk = Chunk {
            offset: self.offset,
            place: self.line.map(Place::line),
            bytes: self.pending[..=self.line_bytes_max].to_vec(),
            is_cut: true,
            ..Chunk::default()
        };
        match &mut self.line {
            Some(line) => {
                *line += 1;
                self.offset += self.pending.len() as u64;
                self.pending.clear();
                self.skips = true;
            }
            None => {
                self.skip_line()?;
            }
        }
        chunk.end = self.offset;
        Ok(chunk)
    }

    /// Drops the rest of the line at `offset`. Returns false if the input ends with it.
    fn skip_line(&mut self) -> io::Result<bool> {
        self.skips = false;
        loop {
            if let Some(newline) = memchr::memchr(b'\n', &self.pending) {
                self.pending.drain(..=newline);
                self.offset += newline as u64 + 1;
                return Ok(true);
            }
            self.offset += self.pending.len() as u64;
            self.pending.clear();
            if !fill(&mut self.input, &mut self.pending)? {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_testkit::ShortReads;

    /// The lines that the ranges between `cuts` give one after another.
    fn read_ranges(text: &[u8], cuts: &[u64]) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Vec::new();
        for cut in cuts.windows(2) {
            let range = cut[0]..cut[1];
            let from = Lines::<&[u8]>::first_byte(&range) as usize;
            collect(Lines::of_range(&text[from..], range, 1 << 20), &mut lines);
        }
        lines
    }

    fn collect(mut reader: Lines<impl Read>, lines: &mut Vec<(u64, Vec<u8>)>) {
        while let Some(chunk) = reader.next_chunk().unwrap() {
            let of_chunk =
                chunk.documents().map(|(at, line)| (chunk.offset + at as u64, line.into()));
            lines.extend(of_chunk);
        }
    }

    fn stream(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Vec::new();
        collect(Lines::of_stream(text, 1 << 20), &mut lines);
        lines
    }

    /// A splitter that loses or doubles lines was a bug of the origin: 18 of 40,000 lines were lost
    /// with 36 readers. Here every pair of cuts of every text is tried.
    #[test]
    fn no_line_is_lost_or_doubled_at_any_split_point() {
        let texts: [&[u8]; 10] = [
            b"",
            b"\n",
            b"a",
            b"a\n",
            b"a\nbb\nccc",
            b"a\nbb\nccc\n",
            b"\n\na\n\n\nbb\n\n",
            b"a\r\nbb\r\n\r\nccc\r\n",
            b"long line without any end in sight",
            b"\xEF\xBB\xBFa\nbb\n",
        ];
        for text in texts {
            let (expected, len) = (stream(text), text.len() as u64);
            for first in 0..=len {
                for second in first..=len {
                    let found = read_ranges(text, &[0, first, second, len]);
                    assert_eq!(found, expected, "{text:?} cut at {first} and {second}");
                }
            }
        }
    }

    #[test]
    fn no_line_is_lost_or_doubled_with_any_count_of_readers() {
        let text: Vec<u8> =
            (0..60).flat_map(|n| format!("{n:0w$}\n", w = n % 17).into_bytes()).collect();
        let expected = stream(&text);
        assert_eq!(expected.len(), 60);
        for readers in 1..=text.len() as u64 {
            let step = (text.len() as u64).div_ceil(readers);
            let mut cuts: Vec<u64> = ranges(text.len() as u64, step).map(|r| r.start).collect();
            cuts.push(text.len() as u64);
            assert_eq!(read_ranges(&text, &cuts), expected, "{readers} readers");
        }
    }

    #[test]
    fn ranges_cover_every_byte_once() {
        for (len, step) in [(0, 5), (1, 5), (5, 5), (6, 5), (u64::MAX, u64::MAX / 2)] {
            let mut at = 0;
            for range in ranges(len, step) {
                assert_eq!(range.start, at);
                assert!(range.end - range.start <= step && range.start < range.end);
                at = range.end;
            }
            assert_eq!(at, len);
        }
    }

    #[test]
    fn chunks_hold_every_byte_in_order_whatever_a_read_returns() {
        let text: Vec<u8> = (0..9000)
            .flat_map(|n| format!("line {n} {}\n", "x".repeat(n % 700)).into_bytes())
            .collect();
        assert!(text.len() > 3 * CHUNK_BYTES / 2);
        for step in [1, 1000, 65_536, usize::MAX] {
            let mut reader = Lines::of_stream(ShortReads(&text, step), 1 << 20);
            let (mut joined, mut line) = (Vec::new(), 1);
            while let Some(chunk) = reader.next_chunk().unwrap() {
                assert_eq!(chunk.offset, joined.len() as u64);
                assert_eq!(chunk.place, Some(Place::line(line)));
                assert!(chunk.bytes.len() <= 2 * CHUNK_BYTES);
                line += chunk.documents().count() as u64;
                joined.extend_from_slice(&chunk.bytes);
                assert_eq!(chunk.end, joined.len() as u64);
            }
            assert!(joined == text);
        }
    }

    #[test]
    fn a_line_over_the_limit_is_cut_and_those_around_it_stay_whole() {
        for long in [11, 12, 5000, 3 * CHUNK_BYTES] {
            let text = format!("short\n{}\nafter\n", "x".repeat(long)).into_bytes();
            let mut reader = Lines::of_stream(&text[..], 10);
            let mut chunks = Vec::new();
            while let Some(chunk) = reader.next_chunk().unwrap() {
                chunks.push(chunk);
            }
            let lines: Vec<_> = chunks.iter().flat_map(Chunk::documents).collect();
            assert_eq!(lines.len(), 3, "{long}");
            assert!(lines[1].1.len() > 10);
            assert_eq!((lines[0].1, lines[2].1), (&b"short"[..], &b"after"[..]));
            let last = chunks.last().unwrap();
            let (at, _) = last.documents().last().unwrap();
            assert_eq!(last.place.unwrap().after(&last.bytes[..at]), Place::line(3));
            assert_eq!(chunks.last().unwrap().end, text.len() as u64);
        }
    }

    /// The rest of such a line was read before its beginning was returned: for ever, if a client
    /// sent a line without end.
    #[test]
    fn a_line_without_end_is_returned_as_soon_as_it_is_too_long() {
        let mut reader = Lines::of_stream(std::io::repeat(b'x'), 10);
        let chunk = reader.next_chunk().unwrap().unwrap();
        assert!(chunk.is_cut && chunk.bytes == b"x".repeat(11));
        assert_eq!(chunk.end, CHUNK_BYTES as u64);
        let broken = std::io::repeat(b'x').take(10 << 20).chain(Broken);
        let mut reader = Lines::of_stream(broken, 10);
        assert!(reader.next_chunk().unwrap().unwrap().is_cut);
        assert_eq!(reader.next_chunk().unwrap_err().to_string(), "broken");
    }

    /// An input that fails.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }
}
