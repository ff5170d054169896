//! One JSON array as a stream, cut into chunks of whole elements; or documents after one another,
//! each on as many lines as it has.
//!
//! Looks only at brackets, commas and strings; whether an element is JSON is left to the parser. A
//! comma at depth one ends an element. The bracket that closes the array ends the stream, and only
//! white space may follow. Without an array, a bracket that leads back to depth one ends a
//! document.

use super::chunk::{BYTE_ORDER_MARK, CHUNK_BYTES, Chunk, Place, fill, is_space};
use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

/// Reads chunks of whole elements. Takes the memory of a chunk of 1 MiB and of the longest element,
/// which is bounded.
#[derive(Debug)]
pub struct Elements<R> {
    input: R,
    /// The bytes that were read and not returned yet. They begin at `offset`.
    pending: Vec<u8>,
    offset: u64,
    /// The place of `offset`.
    place: Place,
    /// The number of pending bytes that were scanned.
    seen: usize,
    state: ParseState,
    depth: usize,
    /// The beginning of the current element in `pending`.
    start: Option<usize>,
    /// Whether the beginning of that element was returned as cut, so that the rest of it is
    /// dropped.
    drops: bool,
    /// Whether the last token was a comma, so that an element must follow.
    after_comma: bool,
    /// Whether the elements are those of an array.
    is_array: bool,
    found: Vec<Range<usize>>,
    /// The error to be returned after the elements before it.
    failed: Option<ElementsError>,
    element_bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParseState {
    /// Before the bracket that opens the array.
    Before,
    /// Between tokens of the array.
    Inside,
    /// In a string.
    Text,
    /// In a string, after a backslash.
    Escape,
    /// After the bracket that closes the array.
    After,
}

impl<R: Read> Elements<R> {
    /// Creates a reader of the array that `input` holds. An element over `element_bytes_max` bytes
    /// is cut one byte after that, and its chunk is marked.
    pub const fn of_stream(input: R, element_bytes_max: usize) -> Self {
        Self {
            input,
            pending: Vec::new(),
            offset: 0,
            place: Place::START,
            seen: 0,
            state: ParseState::Before,
            depth: 0,
            start: None,
            drops: false,
            after_comma: false,
            is_array: true,
            found: Vec::new(),
            failed: None,
            element_bytes_max,
        }
    }

    /// Creates a reader of the documents that `input` holds one after another, with white space
    /// between them: maps and arrays. A document over `document_bytes_max` bytes is cut as an
    /// element is.
    pub const fn of_documents(input: R, document_bytes_max: usize) -> Self {
        let mut elements = Self::of_stream(input, document_bytes_max);
        elements.is_array = false;
        elements.state = ParseState::Inside;
        elements.depth = 1;
        elements
    }

    /// Returns the next chunk, or `None` at the end of the array. All elements before an error are
    /// returned before it.
    ///
    /// # Errors
    /// The errors of the input, and the place at which it is not an array of elements with commas
    /// between them.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, ElementsError> {
        loop {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            let is_start = self.offset == 0 && self.pending.is_empty();
            let filled = fill(&mut self.input, &mut self.pending);
            if is_start && self.pending.starts_with(BYTE_ORDER_MARK) {
                self.pending.drain(..BYTE_ORDER_MARK.len());
                self.offset = BYTE_ORDER_MARK.len() as u64;
            }
            let is_end = matches!(filled, Ok(false));
            let failed = self.scan().err().or_else(|| filled.err().map(ElementsError::Input));
            if let Some(error) = failed {
                return self.fail(error);
            }
            if !self.found.is_empty() {
                return Ok(Some(self.take()));
            }
            match self.start {
                Some(start) if !self.drops => {
                    if self.seen - start > self.element_bytes_max {
                        return Ok(Some(self.take_cut(start)));
                    }
                }
                _ => self.forget(),
            }
            if is_end {
                return match self.end() {
                    Ok(()) => Ok(None),
                    Err(error) => self.fail(error),
                };
            }
        }
    }

    /// Returns the elements before `error`, which the next call returns; or `error` if there are
    /// none. The last one may lack its comma if a bracket or a quote says where it ends.
    #[cold]
    fn fail(&mut self, error: ElementsError) -> Result<Option<Chunk>, ElementsError> {
        if self.is_array && self.depth == 1 && self.state == ParseState::Inside {
            let last = self.start.map(|start| self.pending[start..self.seen].trim_ascii_end());
            if last.and_then(<[u8]>::last).is_some_and(|byte| b"}]\"".contains(byte)) {
                self.end_element("an element")?;
            }
        }
        if self.found.is_empty() {
            return Err(error);
        }
        self.failed = Some(error);
        Ok(Some(self.take()))
    }

    /// Scans the pending bytes that were not scanned yet.
    fn scan(&mut self) -> Result<(), ElementsError> {
        while self.seen < self.pending.len() {
            let rest = &self.pending[self.seen..];
            match self.state {
                ParseState::Text => {
                    let skipped = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    self.seen += skipped;
                    if let Some(byte) = rest.get(skipped) {
                        let is_quote = *byte == b'"';
                        self.state = if is_quote { ParseState::Inside } else { ParseState::Escape };
                        self.seen += 1;
                    }
                }
                ParseState::Escape => {
                    self.state = ParseState::Text;
                    self.seen += 1;
                }
                ParseState::Inside => self.inside(rest[0])?,
                ParseState::Before if rest[0] == b'[' => {
                    (self.state, self.depth) = (ParseState::Inside, 1);
                    self.seen += 1;
                }
                ParseState::Before | ParseState::After if is_space(rest[0]) => self.seen += 1,
                ParseState::Before => return Err(self.refused("an array")),
                ParseState::After => return Err(self.refused("nothing after the array")),
            }
        }
        Ok(())
    }

    /// Scans one byte that is in no string.
    #[inline]
    fn inside(&mut self, byte: u8) -> Result<(), ElementsError> {
        match byte {
            b',' | b']' | b'}' if self.depth == 1 && !self.is_array => {
                return Err(self.refused("a document"));
            }
            b',' if self.depth == 1 => {
                self.end_element("an element before the comma")?;
                self.after_comma = true;
            }
            b']' | b'}' if self.depth == 1 => {
                if byte == b'}' {
                    return Err(self.refused("a comma or the array's closing bracket"));
                }
                if self.start.is_some() || self.after_comma {
                    self.end_element("an element after the comma")?;
                }
                (self.state, self.depth) = (ParseState::After, 0);
            }
            _ => {
                if self.start.is_none() && !is_space(byte) {
                    self.start = Some(self.seen);
                }
                match byte {
                    b'[' | b'{' => self.depth += 1,
                    b']' | b'}' => {
                        self.depth -= 1;
                        if self.depth == 1 && !self.is_array {
                            self.seen += 1;
                            return self.end_element("a document");
                        }
                    }
                    b'"' => self.state = ParseState::Text,
                    _ => {}
                }
            }
        }
        self.seen += 1;
        Ok(())
    }

    fn end_element(&mut self, expected: &'static str) -> Result<(), ElementsError> {
        let Some(start) = self.start.take() else { return Err(self.refused(expected)) };
        self.after_comma = false;
        if std::mem::take(&mut self.drops) {
            return Ok(());
        }
        let element = &self.pending[start..self.seen];
        let len = element.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
        self.found.push(start..start + len);
        Ok(())
    }

    /// Returns the elements found.
    fn take(&mut self) -> Chunk {
        let len = self.start.unwrap_or(self.seen);
        let rest = &self.pending[len..];
        let mut next = Vec::with_capacity(rest.len() + CHUNK_BYTES);
        next.extend_from_slice(rest);
        let mut bytes = std::mem::replace(&mut self.pending, next);
        bytes.truncate(len);
        let chunk = Chunk {
            offset: self.offset,
            place: Some(self.place),
            end: self.offset + len as u64,
            is_cut: false,
            elements: Some(std::mem::take(&mut self.found)),
            bytes,
        };
        self.moved(len, self.place.after(&chunk.bytes));
        chunk
    }

    /// Returns the beginning of an element that is too long. The rest of it will be dropped.
    fn take_cut(&mut self, start: usize) -> Chunk {
        let len = start + self.element_bytes_max + 1;
        let chunk = Chunk {
            offset: self.offset,
            place: Some(self.place),
            bytes: self.pending[..len].to_vec(),
            end: self.offset + self.seen as u64,
            is_cut: true,
            elements: Some(std::iter::once(start..len).collect()),
        };
        self.drops = true;
        self.forget();
        chunk
    }

    /// Drops the bytes that were scanned: they hold nothing to return.
    fn forget(&mut self) {
        let place = self.place.after(&self.pending[..self.seen]);
        self.pending.drain(..self.seen);
        self.moved(self.seen, place);
    }

    /// Notes that the first `len` pending bytes were removed.
    fn moved(&mut self, len: usize, place: Place) {
        (self.offset, self.place) = (self.offset + len as u64, place);
        self.seen -= len;
        self.start = self.start.map(|start| start.saturating_sub(len));
    }

    fn end(&self) -> Result<(), ElementsError> {
        match self.state {
            ParseState::After => Ok(()),
            ParseState::Before => Err(self.refused("an array")),
            _ if self.is_array => Err(self.refused("the end of the array")),
            _ if self.start.is_some() => Err(self.refused("the end of the document")),
            _ => Ok(()),
        }
    }

    #[cold]
    fn refused(&self, expected: &'static str) -> ElementsError {
        let place = self.place.after(&self.pending[..self.seen]);
        ElementsError::NoArray { place, expected }
    }
}

/// Why there are no more elements.
#[derive(Debug)]
pub enum ElementsError {
    /// The input failed.
    Input(io::Error),
    /// The text is not an array of elements with commas between them, or does not hold documents
    /// one after another.
    NoArray {
        /// The place at which the text is wrong.
        place: Place,
        /// What was expected there.
        expected: &'static str,
    },
}

impl From<io::Error> for ElementsError {
    fn from(error: io::Error) -> Self {
        Self::Input(error)
    }
}

impl fmt::Display for ElementsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => write!(f, "{error}"),
            Self::NoArray { place, expected } => write!(f, "{place}: expected {expected}"),
        }
    }
}

impl std::error::Error for ElementsError {}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_testkit::ShortReads;

    /// Every element with its place, read in steps of `step` bytes; or the error.
    fn elements(text: &str, step: usize, bytes_max: usize) -> Result<Vec<String>, String> {
        let mut reader = Elements::of_stream(ShortReads(text.as_bytes(), step), bytes_max);
        let (mut found, mut end) = (Vec::new(), 0);
        while let Some(chunk) = reader.next_chunk().map_err(|error| error.to_string())? {
            assert!(chunk.offset >= end && chunk.end > chunk.offset);
            end = chunk.end;
            for (at, element) in chunk.documents() {
                let place = chunk.place.unwrap().after(&chunk.bytes[..at]);
                let len = element.len().min(bytes_max + 1);
                found.push(format!("{place} {}", String::from_utf8_lossy(&element[..len])));
            }
        }
        Ok(found)
    }

    fn whole(text: &str) -> Result<Vec<String>, String> {
        let found = elements(text, usize::MAX, 1 << 20);
        assert_eq!(found, elements(text, 1, 1 << 20));
        found
    }

    #[test]
    fn elements_are_parted_at_commas_of_the_first_level_only() {
        assert_eq!(whole("[]").unwrap(), [""; 0]);
        assert_eq!(whole(" \n[ \n ] \n").unwrap(), [""; 0]);
        assert_eq!(whole("[1,2]").unwrap(), ["1:2 1", "1:4 2"]);
        assert_eq!(
            whole("\u{feff}[{\"a\":[1,{\"b\":2}]} ,\n  \"x,]}\\\"[\", [] ,null ]\n").unwrap(),
            ["1:2 {\"a\":[1,{\"b\":2}]}", "2:3 \"x,]}\\\"[\"", "2:14 []", "2:18 null"]
        );
        assert_eq!(whole("[\"\\\\\",\"é\",3]").unwrap(), ["1:2 \"\\\\\"", "1:7 \"é\"", "1:11 3"]);
    }

    #[test]
    fn documents_end_where_their_brackets_close() {
        let documents = |text: &str| {
            let all = |step| {
                let mut reader = Elements::of_documents(ShortReads(text.as_bytes(), step), 1 << 20);
                let mut found = Vec::new();
                while let Some(chunk) = reader.next_chunk().map_err(|error| error.to_string())? {
                    for (at, document) in chunk.documents() {
                        let place = chunk.place.unwrap().after(&chunk.bytes[..at]);
                        found.push(format!("{place} {}", String::from_utf8_lossy(document)));
                    }
                }
                Ok(found)
            };
            let found: Result<Vec<String>, String> = all(usize::MAX);
            assert_eq!(found, all(1), "{text}");
            found
        };
        assert_eq!(documents(" \n ").unwrap(), [""; 0]);
        assert_eq!(
            documents("\u{feff}{\n \"a\": \"}{\"\n}\n{\"b\":[{},[]]}[1] {\n}").unwrap(),
            ["1:1 {\n \"a\": \"}{\"\n}", "4:1 {\"b\":[{},[]]}", "4:14 [1]", "4:18 {\n}"]
        );
        for (text, error) in [
            ("{\n}\n,{}", "3:1: expected a document"),
            ("{\n}}", "2:2: expected a document"),
            ("{\n {", "2:3: expected the end of the document"),
        ] {
            assert_eq!(documents(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn what_is_no_array_is_refused_with_its_place() {
        let refused =
            |text: &str, error: &str| assert_eq!(whole(text).unwrap_err(), error, "{text}");
        refused("", "1:1: expected an array");
        refused("{}", "1:1: expected an array");
        refused("[", "1:2: expected the end of the array");
        refused("[1\n", "2:1: expected the end of the array");
        refused("[1,]", "1:4: expected an element after the comma");
        refused("[,1]", "1:2: expected an element before the comma");
        refused("[1,\n,2]", "2:1: expected an element before the comma");
        refused("[1}", "1:3: expected a comma or the array's closing bracket");
        refused("[1] \n 2", "2:2: expected nothing after the array");
        refused("[\"a", "1:4: expected the end of the array");
    }

    struct Fails;

    impl Read for Fails {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the end of a tape"))
        }
    }

    /// They were dropped: all that the chunk had before the error.
    #[test]
    fn elements_before_an_error_are_returned_first() {
        let before_error = |text: &str, error: &str, expected: &[&str]| {
            for step in [1, 7, usize::MAX] {
                let input = ShortReads(text.as_bytes(), step).chain(Fails);
                let mut reader = Elements::of_stream(input, 1 << 20);
                let bytes: Vec<Vec<u8>> =
                    expected.iter().map(|one| one.as_bytes().into()).collect();
                let mut found = Vec::new();
                let failed = loop {
                    match reader.next_chunk() {
                        Ok(chunk) => {
                            let chunk = chunk.unwrap();
                            found.extend(chunk.documents().map(|(_, element)| element.to_vec()));
                        }
                        Err(error) => break error.to_string(),
                    }
                };
                assert_eq!((found, &failed[..]), (bytes, error), "{text}");
            }
        };
        before_error(
            "[{},[2]]\n{\"id\":3}\n",
            "2:1: expected nothing after the array",
            &["{}", "[2]"],
        );
        before_error("[{},[2],]", "1:9: expected an element after the comma", &["{}", "[2]"]);
        before_error(
            "[{},\"b\" }",
            "1:9: expected a comma or the array's closing bracket",
            &["{}", "\"b\""],
        );
        before_error("[{},[2]", "the end of a tape", &["{}", "[2]"]);
        // Perhaps not all of it.
        before_error("[{},12", "the end of a tape", &["{}"]);
        before_error("[{},{\"a\":[]", "the end of a tape", &["{}"]);
        assert_eq!(whole("[{},{}").unwrap_err(), "1:7: expected the end of the array");
    }

    #[test]
    fn an_element_over_the_limit_is_cut_and_those_around_it_stay_whole() {
        for long in [11, 5000, 3 * CHUNK_BYTES] {
            let text = format!("[1,\n\"{}\" ,\n3]", "é,".repeat(long / 3));
            let found = elements(&text, usize::MAX, 10);
            if long < 100 {
                continue;
            }
            let found = found.unwrap();
            assert_eq!(found.len(), 3, "{long}: {found:?}");
            assert_eq!((&found[0][..], &found[2][..]), ("1:2 1", "3:1 3"));
            assert!(found[1].starts_with("2:1 \"é,"));
        }
    }

    #[test]
    fn a_long_array_comes_in_bounded_chunks() {
        let body: Vec<String> = (0..30_000)
            .map(|n| format!("{{\"id\":{n},\"x\":\"{}\"}}", "y".repeat(n % 200)))
            .collect();
        let text = format!("[{}]", body.join(",\n"));
        let mut reader = Elements::of_stream(text.as_bytes(), 1 << 20);
        let mut found = Vec::new();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            assert!(chunk.bytes.len() < 2 * CHUNK_BYTES);
            for (at, element) in chunk.documents() {
                let at = chunk.offset as usize + at;
                assert_eq!(&text.as_bytes()[at..at + element.len()], element);
                found.push(String::from_utf8(element.to_vec()).unwrap());
            }
        }
        assert!(found == body);
    }
}
