//! A table as a stream, cut into chunks of whole records. Line ends inside of quotes end no record,
//! so one thread finds the ends, and others parse the records.

use crate::table::{BYTE_ORDER_MARK, TableFormat};
use csv_core::ReadRecordResult;
use flagstone::load::{CHUNK_BYTES, Chunk, Place};
use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

/// Reads chunks of whole records. Takes the memory of a chunk of 1 MiB and of the longest record,
/// which is bounded.
pub(crate) struct Records<R> {
    input: R,
    reader: csv_core::Reader,
    /// The bytes that were read and not returned yet. They begin at `offset` and in line `line`.
    pending: Vec<u8>,
    offset: u64,
    line: u64,
    /// How many of the pending bytes the reader has seen.
    seen: usize,
    /// The start of the record that the reader is in.
    start: usize,
    found: Vec<Range<usize>>,
    is_end: bool,
    /// The error of the input, to be returned after the records before it.
    failed: Option<io::Error>,
    record_bytes_max: usize,
}

/// Why there are no more records.
pub(crate) enum RecordsError {
    Input(io::Error),
    /// The record that begins in this line is too long.
    TooLong {
        line: u64,
        bytes_max: usize,
    },
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::TooLong { line, bytes_max } => write!(
                f,
                "{line}:1: expected a record of at most {bytes_max} bytes: is a quote not closed?"
            ),
        }
    }
}

impl<R: Read> Records<R> {
    pub(crate) fn new(input: R, format: &TableFormat, record_bytes_max: usize) -> Self {
        Self {
            input,
            reader: format.reader(),
            pending: Vec::new(),
            offset: 0,
            line: 1,
            seen: 0,
            start: 0,
            found: Vec::new(),
            is_end: false,
            failed: None,
            record_bytes_max,
        }
    }

    /// Returns the first record, which names the columns, if there is one. To be called first.
    pub(crate) fn header(&mut self) -> Result<Option<Vec<u8>>, RecordsError> {
        if !self.find()? {
            return Ok(None);
        }
        let header = self.found.remove(0);
        Ok(self.pending.get(header).map(<[u8]>::to_vec))
    }

    /// Returns the next chunk, or `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<Chunk>, RecordsError> {
        if self.found.is_empty() && !self.find()? {
            return Ok(None);
        }
        let found = std::mem::take(&mut self.found);
        let len = found.last().map_or(0, |last| last.end);
        let mut rest = Vec::with_capacity(self.pending.len() - len + CHUNK_BYTES);
        rest.extend_from_slice(&self.pending[len..]);
        let mut bytes = std::mem::replace(&mut self.pending, rest);
        bytes.truncate(len);
        let (offset, place) = (self.offset, Place::line(self.line));
        self.line = place.after(&bytes).line;
        self.offset += len as u64;
        self.seen -= len;
        self.start -= len;
        Ok(Some(Chunk::of_ranges(bytes, found, offset, place)))
    }

    /// Reads until there is a whole record. Returns false if there is none before the end.
    fn find(&mut self) -> Result<bool, RecordsError> {
        while self.found.is_empty() && !self.is_end {
            if let Some(error) = self.failed.take() {
                return Err(RecordsError::Input(error));
            }
            self.pending.reserve(CHUNK_BYTES);
            let part = &mut self.input.by_ref().take(CHUNK_BYTES as u64);
            let read = part.read_to_end(&mut self.pending);
            if self.offset == 0 && self.seen == 0 && self.pending.starts_with(BYTE_ORDER_MARK) {
                self.pending.drain(..BYTE_ORDER_MARK.len());
                self.offset = BYTE_ORDER_MARK.len() as u64;
            }
            match read {
                Ok(read) => self.is_end = read == 0,
                Err(error) => self.failed = Some(error),
            }
            self.scan();
            if self.found.is_empty() && self.pending.len() - self.start > self.record_bytes_max {
                let line = Place::line(self.line).after(&self.pending[..self.start]).line;
                return Err(RecordsError::TooLong { line, bytes_max: self.record_bytes_max });
            }
        }
        Ok(!self.found.is_empty())
    }

    /// Finds the ends of records in the pending bytes that the reader has not seen.
    fn scan(&mut self) {
        let (mut text, mut ends) = ([0; 4096], [0; 64]);
        while self.seen < self.pending.len() || self.is_end {
            let rest = &self.pending[self.seen..];
            let (result, taken, ..) = self.reader.read_record(rest, &mut text, &mut ends);
            self.seen += taken;
            match result {
                ReadRecordResult::Record => self.found_one(),
                ReadRecordResult::End => return,
                ReadRecordResult::InputEmpty
                | ReadRecordResult::OutputFull
                | ReadRecordResult::OutputEndsFull => {}
            }
        }
    }

    /// Adds the record that ends where the reader is, without the line ends before it.
    fn found_one(&mut self) {
        let record = &self.pending[self.start..self.seen];
        let ends = record.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        self.found.push(self.start + ends..self.seen);
        self.start = self.seen;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_testkit::ShortReads;

    /// The records with their offsets and lines.
    fn records(text: &str, step: usize) -> Vec<(u64, u64, String)> {
        let mut records =
            Records::new(ShortReads(text.as_bytes(), step), &TableFormat::csv(), 1 << 20);
        let mut found = Vec::new();
        while let Some(chunk) = records.next_chunk().unwrap_or_else(|error| panic!("{error}")) {
            for (at, record) in chunk.documents() {
                let line = chunk.place.unwrap().after(&chunk.bytes[..at]).line;
                let record = std::str::from_utf8(record).unwrap().trim_end().to_owned();
                found.push((chunk.offset + at as u64, line, record));
            }
        }
        found
    }

    #[test]
    fn records_end_at_line_ends_outside_of_quotes() {
        let text = "a,b\r\n\r\n\"x\n,\"\"y\",1\nlast,\"\u{e9}\"";
        let expected = [
            (0, 1, "a,b".to_owned()),
            (7, 3, "\"x\n,\"\"y\",1".to_owned()),
            (18, 5, "last,\"\u{e9}\"".to_owned()),
        ];
        for step in [1, 3, usize::MAX] {
            assert_eq!(records(text, step), expected, "{step}");
        }
        assert_eq!(records("", 1), []);
        assert_eq!(records("\n\r\n", 1), []);
        assert_eq!(records("\u{feff}a\n", 1), [(3, 1, "a".to_owned())]);
    }

    #[test]
    fn many_records_come_whole_and_in_order_over_the_ends_of_chunks() {
        let text: String = (0..40_000)
            .map(|n| format!("{n},\"{}\n\",{}\n", "x".repeat(n % 90), "y".repeat(n % 7)))
            .collect();
        assert!(text.len() > 2 * CHUNK_BYTES);
        let found = records(&text, usize::MAX);
        assert_eq!(found.len(), 40_000);
        for (n, (offset, line, record)) in found.iter().enumerate() {
            assert!(record.starts_with(&format!("{n},")), "{n}: {record}");
            assert!(text[*offset as usize..].starts_with(record.as_str()), "{n}");
            assert_eq!(*line, 2 * n as u64 + 1);
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_ends_in_an_error_with_its_line() {
        let text = format!("a\nb,\"{}", "x\n".repeat(2 << 20));
        let mut records = Records::new(text.as_bytes(), &TableFormat::csv(), 1 << 20);
        assert_eq!(records.header().ok().flatten().unwrap(), b"a\n");
        let error = records.next_chunk().err().unwrap();
        assert!(error.to_string().starts_with("2:1: expected a record of at most"), "{error}");
    }
}
