//! A run of whole documents as text, and the place of each byte in the input.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

/// The number of bytes that are read at once, and about the size of a chunk. 1 MiB: a reader fills
/// it in a tenth of a millisecond, a parser works on it for about one, and some dozens take little
/// memory.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Whole lines, or whole elements of an array, as the input has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The offset of the first byte in the input.
    pub offset: u64,
    /// The line and column of the first byte; `None` if the lines before it were not counted.
    pub place: Option<Place>,
    /// The text.
    pub bytes: Vec<u8>,
    /// The offset in the input up to which this chunk has consumed it, skipped bytes included.
    pub end: u64,
    /// Whether the last document was longer than the limit. Its first bytes are here, one more than
    /// the limit, so that a parser refuses it.
    pub is_cut: bool,
    /// The ranges of the elements in `bytes`; `None` if every line is a document.
    pub(super) elements: Option<Vec<Range<usize>>>,
}

impl Chunk {
    /// Returns a chunk of the documents at `ranges` of `bytes`, in ascending order, for inputs that
    /// the caller cuts. The first byte is at `offset` of the input, and at `place`.
    pub fn of_ranges(bytes: Vec<u8>, ranges: Vec<Range<usize>>, offset: u64, place: Place) -> Self {
        let end = offset + bytes.len() as u64;
        let (place, elements) = (Some(place), Some(ranges));
        Self { offset, place, bytes, end, is_cut: false, elements }
    }

    /// Returns the documents with their offsets in [`Chunk::bytes`]. Lines come without their ends;
    /// lines of white space are left out.
    pub fn documents(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let is_cut_line = self.is_cut && self.elements.is_none();
        ChunkDocuments {
            bytes: &self.bytes,
            elements: self.elements.as_deref(),
            next: 0,
            is_cut_line,
        }
    }
}

/// A line and a column of a text, both counted from 1. Columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the line, from 1.
    pub line: u64,
    /// The number of the character in the line, from 1.
    pub column: u64,
}

impl Place {
    /// The place of the first character of a text.
    pub const START: Self = Self { line: 1, column: 1 };

    /// Returns the place of the first character of a line.
    pub const fn line(line: u64) -> Self {
        Self { line, column: 1 }
    }

    /// Returns the place after `text`, which begins at this place.
    pub fn after(self, text: &[u8]) -> Self {
        let lines = memchr::memchr_iter(b'\n', text).count() as u64;
        let last = memchr::memrchr(b'\n', text).map_or(0, |newline| newline + 1);
        // The upper bits of a byte that continues a character are 10.
        let characters = text[last..].iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
        let before = if lines == 0 { self.column } else { 1 };
        Self { line: self.line + lines, column: before + characters }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

struct ChunkDocuments<'a> {
    bytes: &'a [u8],
    elements: Option<&'a [Range<usize>]>,
    /// The offset of the next line, or the index of the next element.
    next: usize,
    /// Whether all of `bytes` is the beginning of one line, in which nothing counts as its end.
    is_cut_line: bool,
}

impl<'a> Iterator for ChunkDocuments<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(elements) = self.elements {
            let element = elements.get(self.next)?.clone();
            self.next += 1;
            return Some((element.start, self.bytes.get(element)?));
        }
        if self.is_cut_line {
            let is_first = self.next == 0;
            self.next = self.bytes.len();
            return is_first.then_some((0, self.bytes));
        }
        while self.next < self.bytes.len() {
            let start = self.next;
            let rest = &self.bytes[start..];
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            self.next = start + len + 1;
            let line = &rest[..len];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !is_blank(line) {
                return Some((start, line));
            }
        }
        None
    }
}

/// Returns whether all bytes are white space by the JSON grammar.
fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| is_space(*byte))
}

/// Returns whether `byte` is white space by the JSON grammar.
#[inline]
pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Reads about one chunk from `input` and appends it to `pending`. Returns false at the end of the
/// input.
pub(super) fn fill(input: &mut impl Read, pending: &mut Vec<u8>) -> io::Result<bool> {
    pending.reserve(CHUNK_BYTES);
    let read = input.by_ref().take(CHUNK_BYTES as u64).read_to_end(pending)?;
    Ok(read > 0)
}

/// The mark that some editors put in front of UTF-8 text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(usize, String)> {
        let chunk = Chunk { bytes: text.into(), ..Chunk::default() };
        let text = |line: &[u8]| String::from_utf8(line.to_vec()).unwrap();
        chunk.documents().map(|(at, line)| (at, text(line))).collect()
    }

    #[test]
    fn lines_come_without_their_ends_and_blank_ones_not_at_all() {
        assert_eq!(lines("{}\n[]"), [(0, "{}".into()), (3, "[]".into())]);
        assert_eq!(lines("\n \t\r\n{}\r\n\r\n1\r"), [(5, "{}".into()), (11, "1".into())]);
        assert_eq!(lines(""), []);
        assert_eq!(lines(" "), []);
    }

    #[test]
    fn the_beginning_of_a_line_that_is_too_long_comes_as_it_is() {
        for text in [" ", "  \r", "{}\r"] {
            let chunk = Chunk { bytes: text.into(), is_cut: true, ..Chunk::default() };
            assert_eq!(chunk.documents().collect::<Vec<_>>(), [(0, text.as_bytes())]);
        }
    }

    #[test]
    fn a_place_counts_lines_and_characters() {
        assert_eq!(Place::START.after(b""), Place::START);
        assert_eq!(Place::START.after("aé".as_bytes()), Place { line: 1, column: 3 });
        assert_eq!(Place { line: 4, column: 9 }.after(b"ab"), Place { line: 4, column: 11 });
        assert_eq!(Place { line: 4, column: 9 }.after(b"a\nb\ncd").to_string(), "6:3");
    }
}
