//! Reads messages from a stream.

use super::error::WireError;
use super::message::Header;
use super::{HEADER_BYTES, MESSAGE_BYTES_MAX};
use std::fmt;
use std::io::{self, Read};

/// How many bytes are made room for at a time. A message takes memory as it arrives, not as its
/// header announces.
const STEP_BYTES: usize = 64 << 10;
/// The capacity up to which the buffer is kept between messages.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Reads whole messages, and keeps its buffer between them.
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
    buffer: Vec<u8>,
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
        Self { buffer: Vec::new(), len_max: MESSAGE_BYTES_MAX }
    }

    /// Sets the longest message that is accepted from now on: less before a client is known.
    pub const fn set_len_max(&mut self, bytes: usize) {
        self.len_max = bytes;
    }

    /// Reads the next message; `None` if the stream has ended before it.
    ///
    /// # Errors
    /// If the stream fails or ends within a message, or the header announces a length that is out
    /// of range: nothing after it can be read then.
    pub fn read(&mut self, stream: &mut impl Read) -> Result<Option<&[u8]>, ReadError> {
        self.buffer.clear();
        if self.buffer.capacity() > KEPT_BYTES_MAX {
            self.buffer = Vec::new();
        }
        self.fill(stream, HEADER_BYTES)?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let header = Header::parse(&self.buffer, self.len_max)?;
        self.fill(stream, header.len)?;
        if self.buffer.len() < header.len {
            let text = format!("{} bytes of a message before the connection ends", header.len);
            return Err(WireError::new(self.buffer.len(), text).into());
        }
        Ok(Some(&self.buffer))
    }

    /// Reads until there are `len` bytes or the stream ends.
    fn fill(&mut self, stream: &mut impl Read, len: usize) -> io::Result<()> {
        while self.buffer.len() < len {
            let missing = len - self.buffer.len();
            let before = self.buffer.len();
            let step = missing.min(STEP_BYTES.max(before));
            if stream.by_ref().take(step as u64).read_to_end(&mut self.buffer)? == 0 {
                break;
            }
        }
        Ok(())
    }
}
