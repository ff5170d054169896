//! The payloads of write-ahead-log records.
//!
//! ```text
//! kind 1, batch       op*          op := kind:u8  keyspace:varint  key:bytes  value:bytes
//!                                  op i of the record has SeqNo first + i; a Delete has an empty value,
//!                                  a RangeDelete has the end of the range as its value
//! kind 2, definition  keyspace:varint  kind:varint  first_id:varint  item:bytes*     takes one SeqNo
//! bytes := length:varint, then that many bytes
//! ```

use flagstone_base::codec::{put_bytes, put_varint};
use flagstone_base::{Decoder, KeyspaceId, Kind, Malformed};
use flagstone_wal::RecordKind;

/// A batch of operations.
pub(crate) const BATCH: RecordKind = RecordKind(1);
/// What values need to be read: a [`Definition`](crate::content::Definition).
pub(crate) const DEFINITION: RecordKind = RecordKind(2);

/// One operation of a batch, as it stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedOp<'a> {
    pub(crate) kind: Kind,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// Appends an operation to `out`; returns the offsets of its key and its value.
#[inline]
pub(crate) fn put_op(out: &mut Vec<u8>, op: &LoggedOp<'_>) -> (usize, usize) {
    let places = put_head(out, op);
    out.extend_from_slice(op.value);
    places
}

/// Appends an operation without its value to `out`; returns the offset of its key, and the offset at which the value
/// must follow.
#[inline]
pub(crate) fn put_head(out: &mut Vec<u8>, op: &LoggedOp<'_>) -> (usize, usize) {
    out.push(op.kind as u8);
    put_varint(out, u64::from(op.keyspace.0));
    put_bytes(out, op.key);
    let key_at = out.len() - op.key.len();
    put_varint(out, op.value.len() as u64);
    (key_at, out.len())
}

/// The operations of a batch, one after another.
pub(crate) fn read_op<'a>(decoder: &mut Decoder<'a>) -> Result<LoggedOp<'a>, Malformed> {
    let at = decoder.position();
    let kind = Kind::from_u8(decoder.u8("a kind of operation")?)
        .ok_or(Malformed { at, expected: "a kind of operation, 1 to 4" })?;
    let keyspace = KeyspaceId(decoder.varint_u32("a keyspace")?);
    let key = decoder.bytes("a key")?;
    if key.is_empty() || key.len() > flagstone_base::key::KEY_BYTES_MAX {
        return Err(Malformed { at, expected: "a key of 1 to 65,535 bytes" });
    }
    let value_at = decoder.position();
    let value = decoder.bytes("a value")?;
    if kind == Kind::RangeDelete && value <= key {
        return Err(Malformed { at: value_at, expected: "the end of a range above its start" });
    }
    Ok(LoggedOp { kind, keyspace, key, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_has_its_golden_bytes_and_comes_back() {
        let op = LoggedOp { kind: Kind::Put, keyspace: KeyspaceId(300), key: b"ab", value: b"xyz" };
        let mut out = Vec::new();
        assert_eq!(put_op(&mut out, &op), (4, 7));
        assert_eq!(out, b"\x01\xAC\x02\x02ab\x03xyz");
        let mut head = Vec::new();
        assert_eq!(put_head(&mut head, &op), (4, 7));
        assert_eq!(head, out[..7]);
        assert_eq!(read_op(&mut Decoder::new(&out)), Ok(op));
        for end in 0..out.len() {
            assert!(read_op(&mut Decoder::new(&out[..end])).is_err());
        }
        assert!(read_op(&mut Decoder::new(b"\x01\x01\x00\x00")).is_err(), "an empty key");
        out.clear();
        put_op(&mut out, &LoggedOp { kind: Kind::RangeDelete, key: b"b", value: b"b", ..op });
        assert!(read_op(&mut Decoder::new(&out)).is_err(), "an empty range");
    }
}
