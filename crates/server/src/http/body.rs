//! The body of a request, taken from bytes as they come.

use super::head::{Framing, HEAD_BYTES_MAX, Head};
use super::refusal::BadRequest;

/// The longest body that is taken whole, in bytes: a document of 16 MiB, and the command around it.
pub(crate) const BODY_BYTES_MAX: u64 = (16 << 20) + (16 << 10);

/// How a body is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Not at all: the connection ends after the answer if there is one.
    Nothing,
    /// Whole, before it is answered.
    Whole,
    /// While it is answered, however long it is.
    Stream,
}

/// The longest line that announces a chunk, in bytes.
const LINE_BYTES_MAX: usize = 256;

/// Where a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyState {
    /// Within this many bytes of the body.
    Bytes(u64),
    /// In the line that announces a chunk.
    Size,
    /// In the line end after a chunk.
    AfterChunk,
    /// In the fields after the last chunk.
    Trailer,
    Done,
}

/// Takes the bytes of a body out of those of a connection. It holds nothing by what is announced.
#[derive(Debug)]
pub struct BodyReader {
    state: BodyState,
    is_chunked: bool,
    /// How many bytes the body may still have.
    left: u64,
    /// The beginning of a line.
    line: Vec<u8>,
    /// The bytes of the trailer up to here.
    trailer: usize,
}

impl BodyReader {
    /// Creates a reader of the body that comes after a head.
    ///
    /// # Errors
    /// If it is too large.
    pub fn new(head: &Head, takes: Takes) -> Result<Self, BadRequest> {
        let left = match takes {
            Takes::Nothing | Takes::Whole => BODY_BYTES_MAX,
            Takes::Stream => u64::MAX,
        };
        let (state, is_chunked) = match head.framing {
            Framing::Length(0) => (BodyState::Done, false),
            Framing::Length(bytes) if bytes > left => return Err(too_large()),
            Framing::Length(bytes) => (BodyState::Bytes(bytes), false),
            Framing::Chunks => (BodyState::Size, true),
        };
        Ok(Self { state, is_chunked, left, line: Vec::new(), trailer: 0 })
    }

    /// Returns how many bytes are to come at least; 0 when the body is whole.
    pub const fn missing(&self) -> u64 {
        match self.state {
            BodyState::Done => 0,
            BodyState::Bytes(bytes) => bytes,
            BodyState::Size | BodyState::AfterChunk | BodyState::Trailer => 1,
        }
    }

    /// Appends what `bytes` have of the body to `body`. Returns how many of them belong to it: all,
    /// unless the body ends before.
    ///
    /// # Errors
    /// If they are no chunks, or the body is too large.
    pub fn take(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<usize, BadRequest> {
        let mut rest = bytes;
        while !rest.is_empty() && self.state != BodyState::Done {
            if let BodyState::Bytes(left) = self.state {
                let here = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                body.extend_from_slice(&rest[..here]);
                rest = &rest[here..];
                self.state = match left - here as u64 {
                    0 if self.is_chunked => BodyState::AfterChunk,
                    0 => BodyState::Done,
                    left => BodyState::Bytes(left),
                };
                continue;
            }
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at(end);
            self.line.extend_from_slice(line);
            rest = after;
            self.check_length()?;
            if self.line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.state = self.take_line(&line)?;
            }
        }
        Ok(bytes.len() - rest.len())
    }

    fn check_length(&self) -> Result<(), BadRequest> {
        let (most, what) = match self.state {
            BodyState::Trailer => {
                (HEAD_BYTES_MAX - self.trailer, "shorter fields after the last chunk")
            }
            _ => (LINE_BYTES_MAX, "the size of a chunk"),
        };
        if self.line.len() > most {
            return Err(BadRequest::malformed(format!("expected {what}")));
        }
        Ok(())
    }

    /// Takes a whole line.
    fn take_line(&mut self, line: &[u8]) -> Result<BodyState, BadRequest> {
        // Some end lines at a bare \r as well, and would see other chunks.
        let is_text = |line: &[u8]| line.iter().all(|byte| !byte.is_ascii_control() || *byte == 9);
        let Some(line) = line.strip_suffix(b"\r\n").filter(|line| is_text(line)) else {
            let text = "expected lines of chunks that are text and end with \\r\\n";
            return Err(BadRequest::malformed(text));
        };
        match self.state {
            BodyState::AfterChunk if line.is_empty() => Ok(BodyState::Size),
            BodyState::AfterChunk => {
                Err(BadRequest::malformed("expected the end of a chunk where its size says"))
            }
            BodyState::Trailer if line.is_empty() => Ok(BodyState::Done),
            BodyState::Trailer
                if !line.contains(&b':') || line.starts_with(b":") || is_space(line) =>
            {
                Err(BadRequest::malformed("expected fields after the last chunk"))
            }
            BodyState::Trailer => {
                self.trailer += line.len() + 2;
                Ok(BodyState::Trailer)
            }
            _ => match chunk_size(line)? {
                0 => Ok(BodyState::Trailer),
                size => {
                    self.left = self.left.checked_sub(size).ok_or_else(too_large)?;
                    Ok(BodyState::Bytes(size))
                }
            },
        }
    }
}

#[cold]
fn too_large() -> BadRequest {
    BadRequest::new(413, format!("expected a body of at most {BODY_BYTES_MAX} bytes"))
}

/// Returns whether a line continues the one before it.
fn is_space(line: &[u8]) -> bool {
    line.first().is_some_and(u8::is_ascii_whitespace)
}

/// Returns the size that a line announces; extensions after it are ignored.
fn chunk_size(line: &[u8]) -> Result<u64, BadRequest> {
    let digits = line.split(|byte| matches!(byte, b';' | b' ' | b'\t')).next().unwrap_or_default();
    let rest = line[digits.len()..].trim_ascii_start();
    let size = str::from_utf8(digits).ok().filter(|_| !digits.starts_with(b"+"));
    let size = size.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match size {
        Some(size) if digits.len() <= 16 && (rest.is_empty() || rest.starts_with(b";")) => Ok(size),
        _ => {
            let found = line.escape_ascii();
            Err(BadRequest::malformed(format!("expected the size of a chunk, found \"{found}\"")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(field: &str) -> BodyReader {
        let text = format!("POST / HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\n");
        let (head, _) = Head::parse(text.as_bytes()).unwrap().unwrap();
        BodyReader::new(&head, Takes::Whole).unwrap()
    }

    fn take(bytes: &[u8], step: usize) -> Result<(Vec<u8>, usize), BadRequest> {
        let (mut reader, mut body, mut used) =
            (reader("Transfer-Encoding: chunked"), Vec::new(), 0);
        for piece in bytes.chunks(step) {
            used += reader.take(piece, &mut body)?;
        }
        assert_eq!(reader.missing(), 0, "the body is whole");
        Ok((body, used))
    }

    #[test]
    fn chunks_are_joined_however_they_are_cut() {
        let text = b"3\r\nabc\r\n0a;x=y\r\n0123456789\r\n0\r\nA: b\r\n\r\nGET";
        for step in 1..text.len() {
            let (body, used) = take(text, step).unwrap();
            assert_eq!((body.as_slice(), used), (&b"abc0123456789"[..], text.len() - 3), "{step}");
        }
    }

    #[test]
    fn chunks_that_lie_are_refused() {
        for bad in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\na\r\n",
            "0x1\r\na\r\n",
            "1 2\r\n",
            "1\na\r\n",
            "1\r\nab\r\n0\r\n\r\n",
            "2\r\na\r\n0\r\n\r\n",
            "11111111111111111\r\n",
            " 1\r\n",
            "1\r\na\n0\r\n\r\n",
            "1;a\rb\r\na\r\n0\r\n\r\n",
            "1;\0\r\na\r\n0\r\n\r\n",
            "0\r\nA: b\r\n c\r\n\r\n",
            "0\r\nno field\r\n\r\n",
            "0\r\n: x\r\n\r\n",
            "0\r\nA: \r b\r\n\r\n",
        ] {
            let found = take(bad.as_bytes(), 1).map_err(|bad| bad.status);
            assert_eq!(found, Err(400), "{bad:?}");
        }
        for large in ["ffffffffffffffff\r\n", "1004001\r\n", "1\r\na\r\n1004000\r\n"] {
            assert_eq!(take(large.as_bytes(), 1).unwrap_err().status, 413, "{large:?}");
        }
        let long = format!("1;{}\r\n", "x".repeat(LINE_BYTES_MAX));
        assert_eq!(take(long.as_bytes(), 100).unwrap_err().status, 400);
        let fields = format!("0\r\n{}", "a: b\r\n".repeat(HEAD_BYTES_MAX / 6 + 1));
        assert_eq!(take(fields.as_bytes(), 100).unwrap_err().status, 400);
    }

    #[test]
    fn only_a_body_that_is_taken_whole_has_a_longest_length() {
        let text = |bytes: u64| format!("POST / HTTP/1.0\r\nContent-Length: {bytes}\r\n\r\n");
        for (bytes, is_taken) in [(BODY_BYTES_MAX, true), (BODY_BYTES_MAX + 1, false)] {
            let (head, _) = Head::parse(text(bytes).as_bytes()).unwrap().unwrap();
            let reader = BodyReader::new(&head, Takes::Whole);
            assert_eq!(reader.map_err(|bad| bad.status).is_ok(), is_taken, "{bytes}");
            assert_eq!(BodyReader::new(&head, Takes::Stream).unwrap().missing(), bytes);
        }
        let (head, _) = Head::parse(text(9_999_999_999_999_999_999).as_bytes()).unwrap().unwrap();
        assert_eq!(BodyReader::new(&head, Takes::Whole).unwrap_err().status, 413);
    }

    #[test]
    fn a_length_ends_a_body() {
        let (mut reader, mut body) = (reader("Content-Length: 3"), Vec::new());
        assert_eq!(reader.take(b"ab", &mut body).unwrap(), 2);
        assert_eq!((reader.missing(), reader.take(b"cde", &mut body).unwrap()), (1, 1));
        assert_eq!((reader.missing(), body.as_slice()), (0, &b"abc"[..]));
    }
}
