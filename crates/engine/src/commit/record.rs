//! The payloads of write-ahead-log records.
//!
//! ```text
//! kind 1, batch       op*  old*
//!     op := tag:u8  [expiry:u64]  keyspace:varint  key:bytes  value:bytes
//!     op i of the record has SeqNo first + i; a Delete has an empty value,
//!     a RangeDelete has the end of the range as its value
//!     old := op:varint  0:u8 | op:varint  1:u8  value:bytes
//!     the value that the key of operation number `op` had before the batch, or that it was absent
//! kind 2, definition  keyspace:varint  kind:varint  first_id:varint  item:bytes*
//!     takes one SeqNo
//! kinds 3 to 6        notes for readers of changes, only while changes are kept
//!     3 gap      nothing; its SeqNos may hold writes that are not in the log
//!                1:u8; such writes of an earlier session may be lost   takes one SeqNo
//!     4 ingest   keyspace:varint  start:bytes  end:bytes      takes one SeqNo
//!     5 drop     keyspace:varint  name:bytes                  takes one SeqNo
//!     6 rename   keyspace:varint  from:bytes  to:bytes        takes one SeqNo
//! bytes := length:varint, then that many bytes
//! ```

use flagstone_base::codec::{put_bytes, put_u64, put_varint};
use flagstone_base::{
    Decoder, EntryRef, Error, ErrorKind, KeyspaceId, Kind, Malformed, Moment, SeqNo, Tag, Trailer,
};
use flagstone_wal::RecordKind;
use std::path::Path;

/// A batch of operations.
pub(crate) const BATCH: RecordKind = RecordKind(1);
/// Definitions that are needed to read values: a
/// [`DefinitionRecord`](crate::content::DefinitionRecord).
pub(crate) const DEFINITION: RecordKind = RecordKind(2);

/// Writes that are not in the log follow; one of the log's own kinds.
pub(crate) const GAP: RecordKind = RecordKind::GAP;
/// An ingest into a keyspace, which may have been refused.
pub(crate) const INGEST: RecordKind = RecordKind(4);
/// The drop of a keyspace, which may have been refused.
pub(crate) const DROP: RecordKind = RecordKind(5);
/// The renaming of a keyspace, which may have been refused.
pub(crate) const RENAME: RecordKind = RecordKind(6);
/// The payload of a gap at the begin of a session.
const LOST: u8 = 1;

/// A note for readers of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogNote<'a> {
    /// Unlogged writes follow.
    Gap,
    /// A session begins. Unlogged writes before it are lost, or in tables.
    Lost,
    /// Keys from `start` on, below `end`.
    Ingest {
        keyspace: KeyspaceId,
        start: &'a [u8],
        end: &'a [u8],
    },
    Drop {
        keyspace: KeyspaceId,
        name: &'a str,
    },
    Rename {
        keyspace: KeyspaceId,
        from: &'a str,
        to: &'a str,
    },
}

impl<'a> LogNote<'a> {
    /// The kind of the record that holds the note.
    pub(crate) const fn kind(&self) -> RecordKind {
        match self {
            Self::Gap | Self::Lost => GAP,
            Self::Ingest { .. } => INGEST,
            Self::Drop { .. } => DROP,
            Self::Rename { .. } => RENAME,
        }
    }

    /// The payload of the note.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Gap => {}
            Self::Lost => out.push(LOST),
            Self::Ingest { keyspace, start, end } => {
                put_varint(&mut out, u64::from(keyspace.0));
                put_bytes(&mut out, start);
                put_bytes(&mut out, end);
            }
            Self::Drop { keyspace, name } => {
                put_varint(&mut out, u64::from(keyspace.0));
                put_bytes(&mut out, name.as_bytes());
            }
            Self::Rename { keyspace, from, to } => {
                put_varint(&mut out, u64::from(keyspace.0));
                put_bytes(&mut out, from.as_bytes());
                put_bytes(&mut out, to.as_bytes());
            }
        }
        out
    }

    /// Decodes the payload of a record of `kind`; `None` for other kinds.
    pub(crate) fn decode(kind: RecordKind, payload: &'a [u8]) -> Option<Result<Self, Malformed>> {
        let mut decoder = Decoder::new(payload);
        let note = match kind {
            GAP => Self::read_gap(&mut decoder),
            INGEST => Self::read_ingest(&mut decoder),
            DROP => Self::read_drop(&mut decoder),
            RENAME => Self::read_rename(&mut decoder),
            _ => return None,
        };
        Some(note.and_then(|note| decoder.finish("the end of the note").map(|()| note)))
    }

    fn read_ingest(decoder: &mut Decoder<'a>) -> Result<Self, Malformed> {
        let keyspace = KeyspaceId(decoder.varint_u32("a keyspace")?);
        Ok(Self::Ingest { keyspace, start: decoder.bytes("a key")?, end: decoder.bytes("a key")? })
    }

    fn read_gap(decoder: &mut Decoder<'a>) -> Result<Self, Malformed> {
        if decoder.is_done() {
            return Ok(Self::Gap);
        }
        let at = decoder.position();
        match decoder.u8("what a gap is")? {
            LOST => Ok(Self::Lost),
            _ => Err(Malformed { at, expected: "nothing, or 1: unlogged writes may be lost" }),
        }
    }

    fn read_drop(decoder: &mut Decoder<'a>) -> Result<Self, Malformed> {
        let keyspace = KeyspaceId(decoder.varint_u32("a keyspace")?);
        Ok(Self::Drop { keyspace, name: read_name(decoder)? })
    }

    fn read_rename(decoder: &mut Decoder<'a>) -> Result<Self, Malformed> {
        let keyspace = KeyspaceId(decoder.varint_u32("a keyspace")?);
        Ok(Self::Rename { keyspace, from: read_name(decoder)?, to: read_name(decoder)? })
    }
}

fn read_name<'a>(decoder: &mut Decoder<'a>) -> Result<&'a str, Malformed> {
    let at = decoder.position();
    let name = std::str::from_utf8(decoder.bytes("the name of a keyspace")?);
    name.map_err(|_not_text| Malformed { at, expected: "a name in UTF-8" })
}

/// One operation of a batch in the form that the log stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedOp<'a> {
    pub(crate) kind: Kind,
    /// Only a Put has an expiry.
    pub(crate) expiry: Option<Moment>,
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> LoggedOp<'a> {
    /// The entry of the operation at `seqno`.
    #[inline]
    pub(crate) const fn at(&self, seqno: SeqNo) -> EntryRef<'a> {
        EntryRef {
            key: self.key,
            trailer: trailer(seqno, self.kind, self.expiry),
            value: self.value,
        }
    }
}

/// The trailer of an operation at `seqno`.
#[inline]
pub(crate) const fn trailer(seqno: SeqNo, kind: Kind, expiry: Option<Moment>) -> Trailer {
    match expiry {
        None => Trailer::new(seqno, kind),
        Some(expiry) => Trailer::expiring(seqno, expiry),
    }
}

/// The reason why a batch of the log cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed(Malformed),
    /// The operation has these unknown flags, so a newer flagstone wrote it.
    Flags {
        at: usize,
        flags: u8,
    },
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Refusal {
    /// The error for a record at `offset` of `file`: Corruption, or Unsupported for unknown flags.
    #[cold]
    pub(crate) fn in_file(self, file: &Path, offset: u64) -> Error {
        match self {
            Self::Malformed(malformed) => malformed.in_file(file.display(), offset),
            Self::Flags { at, flags } => {
                let file = file.display();
                let text = format!(
                    "{file}, offset {offset}, byte {at} of the batch: an operation with flags \
                     {flags:#x}, unknown to this version"
                );
                Error::new(ErrorKind::Unsupported, text)
            }
        }
    }
}

/// Appends an operation to `out`. Returns the offsets of its key and its value.
#[inline]
pub(crate) fn put_op(out: &mut Vec<u8>, op: &LoggedOp<'_>) -> (usize, usize) {
    let places = put_head(out, op);
    out.extend_from_slice(op.value);
    places
}

/// Appends an operation without its value to `out`. Returns the offset of its key, and the offset
/// at which the value must follow.
#[inline]
pub(crate) fn put_head(out: &mut Vec<u8>, op: &LoggedOp<'_>) -> (usize, usize) {
    out.push(trailer(SeqNo::ZERO, op.kind, op.expiry).tag());
    if let Some(expiry) = op.expiry {
        put_u64(out, expiry.millis());
    }
    put_varint(out, u64::from(op.keyspace.0));
    put_bytes(out, op.key);
    let key_at = out.len() - op.key.len();
    put_varint(out, op.value.len() as u64);
    (key_at, out.len())
}

/// Appends to a batch, after its operations, the value that the key of operation number `at` had
/// before.
pub(crate) fn put_old(out: &mut Vec<u8>, at: usize, value: Option<&[u8]>) {
    put_varint(out, at as u64);
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put_bytes(out, value);
    }
}

/// Reads the values before a batch of `count` operations, up to the end of the batch. They come in
/// the order of the operations.
pub(crate) fn read_olds<'a>(
    decoder: &mut Decoder<'a>,
    count: u32,
    mut visit: impl FnMut(usize, Option<&'a [u8]>),
) -> Result<(), Malformed> {
    let mut next = 0;
    while !decoder.is_done() {
        let at = decoder.position();
        let op = decoder.varint_u32("the number of an operation")?;
        if !(next..count).contains(&op) {
            return Err(Malformed { at, expected: "the number of a later operation of the batch" });
        }
        next = op + 1;
        let at = decoder.position();
        let value = match decoder.u8("whether there was a value")? {
            0 => None,
            1 => Some(decoder.bytes("the value before")?),
            _ => return Err(Malformed { at, expected: "0 or 1" }),
        };
        visit(op as usize, value);
    }
    Ok(())
}

/// Reads the next operation of a batch.
pub(crate) fn read_op<'a>(decoder: &mut Decoder<'a>) -> Result<LoggedOp<'a>, Refusal> {
    let at = decoder.position();
    let byte = decoder.u8("a kind of operation")?;
    let Some(tag) = Tag::from_u8(byte) else {
        return Err(match Tag::unknown_flags(byte) {
            0 => Malformed { at, expected: "a kind of operation, 1 to 4, a Put if it expires" }
                .into(),
            flags => Refusal::Flags { at, flags },
        });
    };
    let (kind, expiry) = (tag.kind, tag.read_expiry(decoder)?);
    let keyspace = KeyspaceId(decoder.varint_u32("a keyspace")?);
    let key = decoder.bytes("a key")?;
    if key.is_empty() || key.len() > flagstone_base::key::KEY_BYTES_MAX {
        return Err(Malformed { at, expected: "a key of 1 to 65,535 bytes" }.into());
    }
    let value_at = decoder.position();
    let value = decoder.bytes("a value")?;
    if kind == Kind::RangeDelete && value <= key {
        return Err(
            Malformed { at: value_at, expected: "the end of a range above its start" }.into()
        );
    }
    Ok(LoggedOp { kind, expiry, keyspace, key, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put() -> LoggedOp<'static> {
        let keyspace = KeyspaceId(300);
        LoggedOp { kind: Kind::Put, expiry: None, keyspace, key: b"ab", value: b"xyz" }
    }

    #[test]
    fn notes_have_their_golden_bytes_and_come_back() {
        let keyspace = KeyspaceId(300);
        let ingest = LogNote::Ingest { keyspace, start: b"a", end: b"b\0" };
        let drop = LogNote::Drop { keyspace, name: "kv" };
        for (kind, note, golden) in [
            (GAP, LogNote::Gap, &b""[..]),
            (INGEST, ingest, b"\xAC\x02\x01a\x02b\0"),
            (DROP, drop, b"\xAC\x02\x02kv"),
        ] {
            assert_eq!(note.encode(), golden);
            assert_eq!(LogNote::decode(kind, golden), Some(Ok(note)));
            for end in 0..golden.len() {
                assert!(LogNote::decode(kind, &golden[..end]).unwrap().is_err());
            }
        }
        assert_eq!(LogNote::decode(BATCH, b""), None);
        assert!(LogNote::decode(GAP, b"x").unwrap().is_err());
        assert!(LogNote::decode(DROP, b"\x01\x01\xFF").unwrap().is_err(), "not UTF-8");
    }

    #[test]
    fn an_expiry_follows_the_kind_and_comes_back() {
        let op = LoggedOp { expiry: Some(Moment::from_millis(0x0102_0304_0506)), ..put() };
        let mut out = Vec::new();
        assert_eq!(put_op(&mut out, &op), (12, 15));
        assert_eq!(out, b"\x11\x06\x05\x04\x03\x02\x01\0\0\xAC\x02\x02ab\x03xyz");
        assert_eq!(read_op(&mut Decoder::new(&out)), Ok(op));
        for end in 0..out.len() {
            assert!(read_op(&mut Decoder::new(&out[..end])).is_err());
        }
        assert_eq!(op.at(SeqNo::new(7)).trailer.expiry(), op.expiry);
    }

    #[test]
    fn unknown_flags_are_unsupported_and_an_expiry_of_a_delete_is_malformed() {
        let mut out = Vec::new();
        put_op(&mut out, &put());
        for (tag, flags) in [(0x21, 0x20), (0x41, 0x40), (0xF1, 0xE0), (0x25, 0x20)] {
            out[0] = tag;
            let refusal = read_op(&mut Decoder::new(&out)).unwrap_err();
            assert_eq!(refusal, Refusal::Flags { at: 0, flags });
            let error = refusal.in_file(Path::new("000007.wal"), 512);
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains("000007.wal, offset 512"), "{error}");
        }
        for tag in [0x12, 0x13, 0x14, 0x10, 0, 5] {
            out[0] = tag;
            let refusal = read_op(&mut Decoder::new(&out)).unwrap_err();
            assert!(matches!(refusal, Refusal::Malformed(_)), "{tag:#x}: {refusal:?}");
        }
    }

    #[test]
    fn values_before_a_batch_have_their_golden_bytes_and_come_back() {
        let mut out = Vec::new();
        put_old(&mut out, 1, Some(b"xy"));
        put_old(&mut out, 300, None);
        assert_eq!(out, b"\x01\x01\x02xy\xAC\x02\x00");
        let read = |bytes: &[u8], count| {
            let mut found = Vec::new();
            let visit = |at, value: Option<&[u8]>| found.push((at, value.map(<[u8]>::to_vec)));
            read_olds(&mut Decoder::new(bytes), count, visit).map(|()| found)
        };
        assert_eq!(read(&out, 301), Ok(vec![(1, Some(b"xy".to_vec())), (300, None)]));
        assert!(read(&out, 300).is_err(), "no such operation");
        assert!(read(&[out.as_slice(), &out].concat(), 301).is_err(), "not in order");
        assert!(read(b"\x00\x02", 1).is_err());
        for end in [1, 2, 3, 4, 6] {
            assert!(read(&out[..end], 301).is_err(), "{end}");
        }
    }

    #[test]
    fn an_operation_has_its_golden_bytes_and_comes_back() {
        let op = put();
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
