//! BSON: what is read is a valid document, which is written as BSON that reads and writes the same;
//! and messages: what a stream gives is parsed, and the documents in it are as many as they say.

use super::{bounded, note};
use flagstone_doc::{DateTime, Names, ObjectId, Value, View, doc, validate};
use flagstone_server::bson::{BsonError, BsonReader, BsonWriter};
use flagstone_server::wire::{MessageReader, ReadError, Request, put_message, put_reply};

pub(super) fn body(bytes: &[u8]) {
    // Stored bytes may be damaged.
    if let Ok(view) = View::of(bytes, None) {
        let _refused = written(&view);
    }
    let (names, mut reader) = (Names::new(), BsonReader::new());
    let (mut own, mut by_ids) = (Vec::new(), Vec::new());
    let read = bounded(bytes.len(), 300, "BSON", || reader.read(bytes, None, &mut own));
    assert_eq!(reader.read(bytes, Some(&names), &mut by_ids).err(), read.clone().err());
    if let Err(error) = read {
        assert!(error.offset <= bytes.len(), "{error}");
        assert!(own.is_empty() && by_ids.is_empty(), "a refused document leaves nothing");
        return note(error.expected);
    }
    let view = validate(&own, None).expect("a document that was read is valid");
    let by_id = validate(&by_ids, Some(&names)).expect("a document that was read is valid");
    let (out, other) = (written(&view), written(&by_id));
    assert_eq!(out, other, "names as ids change nothing");
    // A field that is too long for its name, or a pattern, may have no BSON.
    let Ok(out) = out else { return };
    let mut again = Vec::new();
    reader.read(&out, None, &mut again).expect("what was written is read");
    let again = validate(&again, None).expect("a document that was read is valid");
    assert_eq!(written(&again), Ok(out), "it comes back");
    // A value in memory keeps the types of numbers.
    let mut of_value = Vec::new();
    let value = view.to_value().expect("a valid document");
    flagstone_doc::Encoder::new().encode(&value, None, &mut of_value).expect("not too large");
    let of_value = View::of(&of_value, None).expect("a document");
    assert_eq!(written(&of_value), written(&view));
    note(super::document::shape(&value, 4));
}

fn written(view: &View<'_>) -> Result<Vec<u8>, BsonError> {
    let mut out = Vec::new();
    BsonWriter::new(&mut out).document(view).map(|()| out)
}

fn bson_of(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    flagstone_doc::Encoder::new().encode(value, None, &mut bytes).expect("a small document");
    written(&View::of(&bytes, None).expect("a document")).expect("what BSON has")
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let values = [
        doc!({}),
        doc!({ "a": 1, "b": "text", "c": [1, [2, { "d": null }], {}], "e": { "f": true } }),
        doc!({ "double": 1.5, "date": (DateTime::from_micros(5000)), "bytes": (vec![1_u8, 2]),
            "id": (ObjectId::from_bytes([7; 12])), "uuid": (Value::Uuid([7; 16])),
            "long": (1_i64 << 40), "decimal": (Value::number("1.10").unwrap_or_default()) }),
        doc!({ "t": { "$timestamp": { "t": 1, "i": 2 } },
            "c": { "$code": "x", "$scope": { "y": 1 } },
            "r": { "$regularExpression": { "pattern": "a", "options": "i" } },
            "b": { "$binary": { "base64": "AQI=", "subType": "80" } }, "m": { "$minKey": 1 },
            "p": { "$dbPointer": { "$ref": "c", "$id": (ObjectId::from_bytes([1; 12])) } },
            "s": { "$symbol": "x" }, "u": { "$undefined": true }, "x": { "$maxKey": 1 } }),
    ];
    let mut seeds: Vec<_> = values.iter().map(bson_of).collect();
    // A long, a decimal and old binary, which values written above have not.
    seeds.push(b"\x10\0\0\0\x12a\0\x01\0\0\0\0\0\0\0\0".to_vec());
    seeds.push(b"\x18\0\0\0\x13a\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\x30\0".to_vec());
    seeds.push(b"\x13\0\0\0\x05a\0\x06\0\0\0\x02\x02\0\0\0\x01\x02\0".to_vec());
    seeds
}

/// A stream of messages.
pub(super) fn wire(bytes: &[u8]) {
    let (mut stream, mut reader) = (bytes, MessageReader::new());
    let mut rest = bytes;
    loop {
        let read = bounded(bytes.len(), 4, "a message", || {
            reader.read(&mut stream).map(|message| message.map(<[u8]>::to_vec))
        });
        let message = match read {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(ReadError::Wire(error)) => return note(error.expected),
            Err(ReadError::Io(error)) => panic!("memory does not fail: {error}"),
        };
        assert_eq!(rest[..message.len()], message, "a message is what the stream has");
        rest = &rest[message.len()..];
        match Request::parse(&message) {
            Ok((header, Request::Message(parsed))) => {
                assert_eq!(header.len, message.len());
                for sequence in &parsed.sequences {
                    assert_eq!(sequence.documents.count(), sequence.documents.len());
                }
                note(format!("a command with {} sequences", parsed.sequences.len()));
            }
            Ok((_, Request::Query { .. })) => note("a query"),
            Err(error) => {
                assert!(error.offset <= message.len(), "{error}");
                note(error.expected);
            }
        }
    }
}

pub(super) fn wire_seeds() -> Vec<Vec<u8>> {
    let command = bson_of(&doc!({ "insert": "c", "$db": "d" }));
    let put = |out: &mut Vec<u8>| {
        out.extend_from_slice(&command);
        Ok::<(), BsonError>(())
    };
    let mut all = Vec::new();
    for has_checksum in [false, true] {
        let mut out = Vec::new();
        put_message(&mut out, (1, 0), has_checksum, has_checksum, put).expect("a small message");
        all.push(out);
    }
    let mut sequence = Vec::new();
    let with_documents = |out: &mut Vec<u8>| {
        put(out)?;
        let documents = [bson_of(&doc!({ "a": 1 })), bson_of(&doc!({}))].concat();
        out.push(1);
        out.extend_from_slice(&(documents.len() as u32 + 14).to_le_bytes());
        out.extend_from_slice(b"documents\0");
        out.extend_from_slice(&documents);
        Ok::<(), BsonError>(())
    };
    put_message(&mut sequence, (2, 0), false, true, with_documents).expect("a small message");
    let mut reply = Vec::new();
    put_reply(&mut reply, (3, 0), put).expect("a small message");
    let mut query =
        b"\0\0\0\0\x04\0\0\0\0\0\0\0\xd4\x07\0\0\0\0\0\0d.$cmd\0\0\0\0\0\x01\0\0\0".to_vec();
    query.extend_from_slice(&command);
    let len = query.len() as u32;
    query[..4].copy_from_slice(&len.to_le_bytes());
    all.push([&sequence[..], &query].concat());
    all.extend([sequence, reply, query]);
    all
}
