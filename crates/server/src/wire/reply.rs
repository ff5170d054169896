//! Writes messages.

use super::message::{CHECKSUM_PRESENT, MORE_TO_COME, OP_MSG, OP_REPLY, checksum_of};

/// Appends an OP_MSG with one document, which `put` appends.
///
/// ```
/// use flagstone_server::bson::BsonWriter;
/// use flagstone_server::wire::{Request, put_message};
/// let mut out = Vec::new();
/// put_message(&mut out, (1, 7), false, true, |out| {
///     let mut document = BsonWriter::new(out);
///     document.begin();
///     document.double("ok", 1.0)?;
///     document.end()
/// })?;
/// let (header, _) = Request::parse(&out).unwrap();
/// assert_eq!(header.response_to, 7);
/// # Ok::<(), flagstone_server::bson::BsonError>(())
/// ```
///
/// # Errors
/// That of `put`; `out` is as before then.
pub fn put_message<E>(
    out: &mut Vec<u8>,
    (request_id, response_to): (i32, i32),
    more_to_come: bool,
    has_checksum: bool,
    put: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    put_header(out, request_id, response_to, OP_MSG);
    let checksum = if has_checksum { CHECKSUM_PRESENT } else { 0 };
    let more = if more_to_come { MORE_TO_COME } else { 0 };
    out.extend_from_slice(&(checksum | more).to_le_bytes());
    out.push(0);
    put(out).inspect_err(|_| out.truncate(start))?;
    finish(out, start, if has_checksum { 4 } else { 0 });
    if has_checksum {
        let checksum = checksum_of(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }
    Ok(())
}

/// Appends the OP_REPLY with one document, which `put` appends, to an OP_QUERY.
///
/// # Errors
/// That of `put`; `out` is as before then.
pub fn put_reply<E>(
    out: &mut Vec<u8>,
    (request_id, response_to): (i32, i32),
    put: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    /// The server can wait for data: all versions since long say so.
    const AWAIT_CAPABLE: u32 = 1 << 3;
    let start = out.len();
    put_header(out, request_id, response_to, OP_REPLY);
    out.extend_from_slice(&AWAIT_CAPABLE.to_le_bytes());
    // No cursor, from document 0, one document.
    out.extend_from_slice(&[0; 12]);
    out.extend_from_slice(&1_u32.to_le_bytes());
    put(out).inspect_err(|_| out.truncate(start))?;
    finish(out, start, 0);
    Ok(())
}

fn put_header(out: &mut Vec<u8>, request_id: i32, response_to: i32, code: i32) {
    for word in [0, request_id, response_to, code] {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// Writes the length of the message that begins at `start`, with `more` bytes that will follow.
fn finish(out: &mut [u8], start: usize, more: usize) {
    // The document in it has at most 2 GiB, and batches end long before.
    let len = i32::try_from(out.len() - start + more).unwrap_or(i32::MAX);
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}
