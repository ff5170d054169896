//! The messages of MongoDB drivers: requests are parsed, replies written, both as functions over
//! bytes. A stream gives the bytes of one message after the other.
//!
//! ```text
//! message  := len:i32 request id:i32 response to:i32 code:i32 body       little-endian; len of all
//! OP_MSG   := flags:u32 section+ [CRC-32C of all before it:u32]          code 2013
//! section  := 0:u8 document                                              exactly one
//!           | 1:u8 len:i32 name:cstring document*                        len: of all but the 1
//! OP_QUERY := flags:i32 name:cstring skip:i32 limit:i32 document         code 2004, for handshakes
//! OP_REPLY := flags:i32 cursor:i64 from:i32 count:i32 document*          code 1, answers OP_QUERY
//! ```

mod error;
mod message;

mod reply;

mod stream;

pub use error::WireError;
pub(crate) use message::OP_QUERY;
pub use message::{Documents, Header, Message, Request, Sequence};
pub use reply::{put_message, put_reply};
pub use stream::{MessageReader, ReadError};

/// The longest message, in bytes, as servers of MongoDB have it.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;
/// The longest stored document, in bytes of BSON.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;
/// What a command or a statement may have around a document of this length.
pub(crate) const ENVELOPE_BYTES: usize = 16 << 10;
/// The bytes before the body of a message.
pub const HEADER_BYTES: usize = 16;
