//! Reads messages from a stream.

use super::error::WireError;
use super::message::Header;
use super::{HEADER_BYTES, MESSAGE_BYTES_MAX};
use std::fmt;
use std::io::{self, Read};

/// The room for bytes to begin with: what a stream has is mostly one small message.
const ROOM_BYTES: usize = 1 << 10;
/// How many bytes are made room for at a time. A message takes memory as it arrives, not as its
/// header announces.
const STEP_BYTES: usize = 64 << 10;
/// The room up to which the buffer is kept between messages.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Reads whole messages, and keeps its buffer between them. It reads what the stream has, so the
/// beginning of the next message may be in the buffer.
///
/// ```
/// use flagstone_server::wire::MessageReader;
/// let mut stream: &[u8] = b"\x11\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0x";
/// let mut reader = MessageReader::new();
/// assert_eq!(reader.read(&mut stream)?.map(<[u8]>::len), Some(17));
/// assert_eq!(reader.read(&mut stream)?, None);
/// # Ok::<(), flagstone_server::wire::ReadError>(())
/// ```
#[derive(Debug)]
pub struct MessageReader {
    /// The bytes up to `end`, and room.
    buffer: Vec<u8>,
    end: usize,
    /// The bytes at the beginning that the next read forgets: those of the last message.
    used: usize,
    len_max: usize,
}

/// Why no message was read.
#[derive(Debug)]
pub enum ReadError {
    /// The stream failed.
    Io(io::Error),
    /// The bytes are no message.
    Wire(WireError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Wire(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<WireError> for ReadError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl Default for MessageReader {
    fn default() -> Self {
        Self::new()
    }
}

impl MessageReader {
    /// Creates a reader of messages of at most [`MESSAGE_BYTES_MAX`].
    pub const fn new() -> Self {
        Self { buffer: Vec::new(), end: 0, used: 0, len_max: MESSAGE_BYTES_MAX }
    }

    /// Sets the longest message that is accepted from now on: less before a client is known.
    pub const fn set_len_max(&mut self, bytes: usize) {
        self.len_max = bytes;
    }

    /// Returns the longest message that is accepted.
    pub const fn len_max(&self) -> usize {
        self.len_max
    }

    /// Returns whether the buffer has bytes after the last message.
    pub const fn has_more(&self) -> bool {
        self.end > self.used
    }

    /// Returns the bytes of the last message, or those that were refused.
    pub fn last(&self) -> &[u8] {
        &self.buffer[..self.used]
    }

    /// Makes room for `bytes`, so that one read can return as many.
    pub fn reserve(&mut self, bytes: usize) {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
    }

    /// Gives the memory of the buffer back, if there are no bytes after the last message.
    pub fn release(&mut self) {
        if !self.has_more() {
            *self = Self { len_max: self.len_max, ..Self::new() };
        }
    }

    /// Reads once from the stream; returns how many bytes came, 0 at its end.
    ///
    /// # Errors
    /// If the stream fails.
    pub fn read_some(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        self.forget();
        self.read_once(stream, self.end + 1)
    }

    /// Returns the bytes that no message has taken yet: at least `len`, unless the stream ends
    /// before.
    ///
    /// # Errors
    /// If the stream fails.
    pub fn peek(&mut self, stream: &mut impl Read, len: usize) -> io::Result<&[u8]> {
        self.forget();
        self.fill(stream, len)?;
        Ok(&self.buffer[..self.end])
    }

    /// Takes `len` of the bytes that [`MessageReader::peek`] has returned: as another protocol on
    /// the same port does.
    pub const fn take(&mut self, len: usize) {
        self.used = if len < self.end { len } else { self.end };
    }

    /// Reads the next message; `None` if the stream has ended before it.
    ///
    /// # Errors
    /// If the stream fails or ends within a message, or the header announces a length that is out
    /// of range: nothing after it can be read then.
    pub fn read(&mut self, stream: &mut impl Read) -> Result<Option<&[u8]>, ReadError> {
        self.forget();
        let len = self.read_message(stream).inspect_err(|_| self.used = self.end)?;
        self.used = len;
        Ok((len > 0).then(|| self.last()))
    }

    fn read_message(&mut self, stream: &mut impl Read) -> Result<usize, ReadError> {
        self.fill(stream, HEADER_BYTES)?;
        if self.end == 0 {
            return Ok(0);
        }
        let header = Header::parse(&self.buffer[..self.end], self.len_max)?;
        self.fill(stream, header.len)?;
        if self.end < header.len {
            let text = format!("{} bytes of a message before the connection ends", header.len);
            return Err(WireError::new(self.end, text).into());
        }
        Ok(header.len)
    }

    /// Reads until there are `len` bytes or the stream ends.
    fn fill(&mut self, stream: &mut impl Read, len: usize) -> io::Result<()> {
        while self.end < len && self.read_once(stream, len)? > 0 {}
        Ok(())
    }

    /// Reads once, towards `len` bytes.
    fn read_once(&mut self, stream: &mut impl Read, len: usize) -> io::Result<usize> {
        if self.end == self.buffer.len() {
            let step = (len - self.end).min(STEP_BYTES.max(self.end));
            self.buffer.resize(self.end + step.max(ROOM_BYTES), 0);
        }
        loop {
            match stream.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    return read.inspect(|count| self.end += count);
                }
            }
        }
    }

    /// Forgets the last message.
    fn forget(&mut self) {
        if self.buffer.len() > KEPT_BYTES_MAX {
            let rest = self.buffer[self.used..self.end].to_vec();
            (self.end, self.buffer) = (rest.len(), rest);
        } else {
            self.buffer.copy_within(self.used..self.end, 0);
            self.end -= self.used;
        }
        self.used = 0;
    }
}
