//! Parses requests.

use super::error::WireError;
use super::{DOCUMENT_BYTES_MAX, ENVELOPE_BYTES, HEADER_BYTES, MESSAGE_BYTES_MAX};
use crate::bson::document_len;

/// The codes of messages.
pub(super) const OP_REPLY: i32 = 1;
pub(crate) const OP_QUERY: i32 = 2004;
const OP_COMPRESSED: i32 = 2012;
pub(super) const OP_MSG: i32 = 2013;

pub(super) const CHECKSUM_PRESENT: u32 = 1;
pub(super) const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;
/// A reader must know the flags of the lower half, and may ignore those of the upper.
const REQUIRED_FLAGS: u32 = 0xFFFF;

/// The bytes of a message before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The length of the message, this header included.
    pub len: usize,
    /// The number that the sender gave to the message.
    pub request_id: i32,
    /// The number of the message that this one answers.
    pub response_to: i32,
    /// The code of the message's form.
    pub code: i32,
}

impl Header {
    /// Parses the first bytes of a message of at most `len_max` bytes.
    ///
    /// # Errors
    /// If there are less than 16 bytes, or the announced length is out of range.
    pub fn parse(bytes: &[u8], len_max: usize) -> Result<Self, WireError> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(WireError::new(bytes.len(), "the 16 bytes of a message's header"));
        };
        let (words, _) = header.as_chunks::<4>();
        let word = |at: usize| words.get(at).map_or(0, |word| i32::from_le_bytes(*word));
        let announced = word(0);
        let len = usize::try_from(announced).ok();
        match len.filter(|len| (HEADER_BYTES..=len_max).contains(len)) {
            Some(len) => Ok(Self { len, request_id: word(1), response_to: word(2), code: word(3) }),
            None => Err(WireError::new(
                0,
                format!("a length from {HEADER_BYTES} to {len_max}, found {announced}"),
            )),
        }
    }
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// OP_MSG.
    Message(Message<'a>),
    /// OP_QUERY, with which some drivers still begin a connection. The collection is `DB.$cmd`.
    Query {
        /// The name of the database.
        database: &'a str,
        /// The command, as BSON.
        command: &'a [u8],
    },
}

/// An OP_MSG.
#[derive(Clone, Debug, PartialEq)]
pub struct Message<'a> {
    /// No reply is wanted.
    pub more_to_come: bool,
    /// The reply may consist of several messages.
    pub exhaust_allowed: bool,
    /// The reply must have a checksum, as the request has.
    pub has_checksum: bool,
    /// The command, as BSON.
    pub command: &'a [u8],
    /// Documents that belong to the command, outside of it.
    pub sequences: Vec<Sequence<'a>>,
}

/// Documents that belong to a command under a name: `documents`, `updates`, `deletes`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence<'a> {
    /// The name.
    pub name: &'a str,
    /// The documents.
    pub documents: Documents<'a>,
}

/// Documents of BSON that follow each other. Their lengths were checked, their insides not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Documents<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Documents<'a> {
    /// Returns the number of documents.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no documents.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> Iterator for Documents<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (document, rest) = self.bytes.split_at_checked(document_len(self.bytes).ok()?)?;
        self.bytes = rest;
        self.count = self.count.saturating_sub(1);
        Some(document)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Documents<'_> {}

impl<'a> Request<'a> {
    /// Parses a whole message.
    ///
    /// ```
    /// use flagstone_server::wire::{Request, put_message};
    /// let ping = b"\x0f\0\0\0\x10ping\0\x01\0\0\0\0"; // {"ping": 1}
    /// let mut bytes = Vec::new();
    /// let put = |out: &mut Vec<u8>| Ok::<(), ()>(out.extend_from_slice(ping));
    /// put_message(&mut bytes, (7, 0), false, false, put).unwrap();
    /// let (header, request) = Request::parse(&bytes)?;
    /// let Request::Message(message) = request else { panic!("an OP_MSG") };
    /// assert_eq!((header.request_id, message.command), (7, &ping[..]));
    /// # Ok::<(), flagstone_server::wire::WireError>(())
    /// ```
    ///
    /// # Errors
    /// If the message is damaged, is longer than [`MESSAGE_BYTES_MAX`], has a document of more than
    /// [`DOCUMENT_BYTES_MAX`] bytes and 16 KiB for what is around it, a wrong checksum, an unknown
    /// required flag, or another code.
    pub fn parse(message: &'a [u8]) -> Result<(Header, Self), WireError> {
        let header = Header::parse(message, MESSAGE_BYTES_MAX)?;
        if header.len != message.len() {
            let text = format!("a message of {} bytes, found {}", header.len, message.len());
            return Err(WireError::new(0, text));
        }
        let mut cursor = ByteCursor { bytes: message, at: HEADER_BYTES };
        let request = match header.code {
            OP_MSG => Self::Message(cursor.message()?),
            OP_QUERY => cursor.query()?,
            OP_COMPRESSED => {
                return Err(WireError::new(
                    12,
                    "a message without compression: none was agreed on",
                ));
            }
            code => {
                let text = format!("OP_MSG ({OP_MSG}) or OP_QUERY ({OP_QUERY}), found {code}");
                return Err(WireError::new(12, text));
            }
        };
        Ok((header, request))
    }
}

/// A position in a message.
struct ByteCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ByteCursor<'a> {
    fn message(&mut self) -> Result<Message<'a>, WireError> {
        let flags_at = self.at;
        let flags = u32::from_le_bytes(self.word("the flags of the message")?);
        let unknown = flags & REQUIRED_FLAGS & !(CHECKSUM_PRESENT | MORE_TO_COME);
        if unknown != 0 {
            let text = format!("flags that this version knows, found {unknown:#x} besides");
            return Err(WireError::new(flags_at, text));
        }
        let has_checksum = flags & CHECKSUM_PRESENT != 0;
        if has_checksum {
            self.cut_checksum()?;
        }
        let (mut command, mut sequences) = (None, Vec::new());
        while self.at < self.bytes.len() {
            let kind_at = self.at;
            let kind = self.bytes[kind_at];
            self.at += 1;
            match kind {
                0 if command.is_none() => command = Some(self.document()?),
                0 => return Err(WireError::new(kind_at, "one command, found a second one")),
                1 => {
                    let sequence = self.sequence()?;
                    if sequences.iter().any(|other: &Sequence<'_>| other.name == sequence.name) {
                        let text = format!("names of documents that differ: {:?}", sequence.name);
                        return Err(WireError::new(kind_at, text));
                    }
                    // A command has one or two.
                    if sequences.len() == SEQUENCES_MAX {
                        let text = format!("at most {SEQUENCES_MAX} sequences of documents");
                        return Err(WireError::new(kind_at, text));
                    }
                    sequences.push(sequence);
                }
                _ => {
                    let text = format!("a section of kind 0 or 1, found {kind}");
                    return Err(WireError::new(kind_at, text));
                }
            }
        }
        let Some(command) = command else {
            return Err(WireError::new(self.at, "a section of kind 0: the command"));
        };
        Ok(Message {
            more_to_come: flags & MORE_TO_COME != 0,
            exhaust_allowed: flags & EXHAUST_ALLOWED != 0,
            has_checksum,
            command,
            sequences,
        })
    }

    /// Checks the checksum at the end of the message, and ends the message before it.
    fn cut_checksum(&mut self) -> Result<(), WireError> {
        let Some((before, checksum)) = self.bytes.split_last_chunk() else {
            return Err(WireError::new(self.at, "a checksum of 4 bytes"));
        };
        if before.len() < self.at {
            return Err(WireError::new(self.at, "a checksum of 4 bytes"));
        }
        let (computed, found) = (checksum_of(before), u32::from_le_bytes(*checksum));
        if computed != found {
            let text = format!("the checksum {computed:#010x}, found {found:#010x}");
            return Err(WireError::new(before.len(), text));
        }
        self.bytes = before;
        Ok(())
    }

    fn sequence(&mut self) -> Result<Sequence<'a>, WireError> {
        let start = self.at;
        let announced = i32::from_le_bytes(self.word("the length of a sequence of documents")?);
        let end = usize::try_from(announced).ok().map(|len| start + len);
        let Some(end) = end.filter(|end| (self.at..=self.bytes.len()).contains(end)) else {
            let text = format!("a length within the message, found {announced}");
            return Err(WireError::new(start, text));
        };
        let mut inside = ByteCursor { bytes: &self.bytes[..end], at: self.at };
        let name = inside.c_string()?;
        let first = inside.at;
        let mut count = 0;
        while inside.at < end {
            inside.document()?;
            count += 1;
        }
        self.at = end;
        Ok(Sequence { name, documents: Documents { bytes: &self.bytes[first..end], count } })
    }

    fn query(&mut self) -> Result<Request<'a>, WireError> {
        self.word("the flags of the query")?;
        let name_at = self.at;
        let name = self.c_string()?;
        self.word("the number of documents to skip")?;
        self.word("the number of documents to return")?;
        let command = self.document()?;
        if self.at < self.bytes.len() {
            // The fields to return.
            self.document()?;
        }
        if self.at < self.bytes.len() {
            return Err(WireError::new(self.at, "the end of the message"));
        }
        match name.strip_suffix(".$cmd") {
            Some(database) => Ok(Request::Query { database, command }),
            None => {
                let text = format!("a collection DATABASE.$cmd in OP_QUERY, found {name:?}");
                Err(WireError::new(name_at, text))
            }
        }
    }

    fn word(&mut self, expected: &'static str) -> Result<[u8; 4], WireError> {
        match self.bytes[self.at..].first_chunk() {
            Some(word) => {
                self.at += 4;
                Ok(*word)
            }
            None => Err(WireError::new(self.at, expected)),
        }
    }

    fn c_string(&mut self) -> Result<&'a str, WireError> {
        let rest = &self.bytes[self.at..];
        let Some(len) = memchr::memchr(0, rest) else {
            return Err(WireError::new(self.at, "a name that ends with a zero"));
        };
        match str::from_utf8(&rest[..len]) {
            Ok(name) => {
                self.at += len + 1;
                Ok(name)
            }
            Err(error) => Err(WireError::new(self.at + error.valid_up_to(), "a name in UTF-8")),
        }
    }

    fn document(&mut self) -> Result<&'a [u8], WireError> {
        let start = self.at;
        let len = document_len(&self.bytes[start..])
            .map_err(|error| WireError::new(start + error.offset, error.expected))?;
        let most = DOCUMENT_BYTES_MAX + ENVELOPE_BYTES;
        if len > most {
            let text = format!("a document of at most {most} bytes, found {len}");
            return Err(WireError::new(start, text));
        }
        self.at += len;
        Ok(&self.bytes[start..self.at])
    }
}

/// The most sequences of documents that a message may have.
const SEQUENCES_MAX: usize = 16;

/// The CRC-32C of a message.
pub(super) fn checksum_of(message: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, message) as u32
}
