//! Messages: golden ones, damaged ones, and streams that end, lie or send byte by byte.

use super::{mutate, unhex};
use flagstone_server::bson::{BsonError, BsonWriter};
use flagstone_server::wire::{
    DOCUMENT_BYTES_MAX, Header, MESSAGE_BYTES_MAX, MessageReader, ReadError, Request, WireError,
    put_message, put_reply,
};
use flagstone_testkit::ShortReads;
use std::io::{self, Read};

/// `{"ping":1,"$db":"admin"}`
const PING: &str = "1e000000 10 70696e6700 01000000 02 24646200 06000000 61646d696e00 00";
/// `{"_id":1}`
const ONE: &str = "0e000000 10 5f696400 01000000 00";
/// `{}`
const EMPTY: &str = "05000000 00";

fn message(code: i32, body: &str) -> Vec<u8> {
    let body = unhex(body);
    let len = body.len() as i32 + 16;
    let words = [len, 7, 0, code].map(i32::to_le_bytes).concat();
    [words, body].concat()
}

fn msg(body: &str) -> Vec<u8> {
    message(2013, body)
}

fn error(message: &[u8]) -> WireError {
    Request::parse(message).unwrap_err()
}

#[test]
fn a_command_and_its_documents_are_parsed() {
    let documents = unhex(&format!("{ONE} {EMPTY}"));
    // The length, the name and the documents.
    let len = 4 + 10 + documents.len();
    let sequence = format!("01 {len:02x}000000 646f63756d656e747300 {ONE} {EMPTY}");
    for (body, has_checksum) in [
        (format!("00000000 00 {PING} {sequence}"), false),
        (format!("00000000 {sequence} 00 {PING}"), false),
        (format!("01000000 00 {PING} {sequence} 00000000"), true),
    ] {
        let mut bytes = msg(&body);
        if has_checksum {
            let (before, _) = bytes.split_last_chunk::<4>().unwrap();
            let checksum = crc_of(before);
            let at = bytes.len() - 4;
            bytes[at..].copy_from_slice(&checksum.to_le_bytes());
        }
        let (header, request) = Request::parse(&bytes).unwrap();
        assert_eq!((header.request_id, header.response_to, header.code), (7, 0, 2013));
        let Request::Message(message) = request else { panic!("a query") };
        assert_eq!(message.command, unhex(PING));
        assert_eq!(message.has_checksum, has_checksum);
        assert!(!message.more_to_come && !message.exhaust_allowed);
        let [sequence] = &message.sequences[..] else { panic!("{message:?}") };
        assert_eq!((sequence.name, sequence.documents.len()), ("documents", 2));
        let found: Vec<&[u8]> = sequence.documents.collect();
        assert_eq!(found, [&unhex(ONE)[..], &unhex(EMPTY)]);
    }
    let bytes = msg(&format!("02000100 00 {PING}"));
    let (_, Request::Message(message)) = Request::parse(&bytes).unwrap() else { panic!() };
    assert!(message.more_to_come && message.exhaust_allowed && message.sequences.is_empty());
    // Unknown flags of the upper half are optional.
    assert!(Request::parse(&msg(&format!("00000080 00 {PING}"))).is_ok());
}

fn crc_of(bytes: &[u8]) -> u32 {
    // Bit by bit, as the definition has it.
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn the_old_query_of_a_handshake_is_parsed() {
    let body = format!("04000000 61646d696e2e24636d6400 00000000 ffffffff {PING}");
    let command = unhex(PING);
    let expected = Request::Query { database: "admin", command: &command };
    let bytes = message(2004, &body);
    assert_eq!(Request::parse(&bytes).unwrap().1, expected);
    // With the fields to return.
    let bytes = message(2004, &format!("{body} {EMPTY}"));
    assert_eq!(Request::parse(&bytes).unwrap().1, expected);
    let other = body.replace("24636d64", "636d6478");
    let refused = error(&message(2004, &other));
    assert_eq!(refused.offset, 20);
    assert!(refused.expected.contains("found \"admin.cmdx\""), "{refused}");
    assert_eq!(error(&message(2004, &format!("{body} {EMPTY} 00"))).offset, 74);
}

#[test]
fn damaged_messages_are_refused_at_their_place() {
    for (bytes, offset, expected) in [
        (msg(""), 16, "the flags of the message"),
        (msg("00000000"), 20, "a section of kind 0"),
        (msg(&format!("04000000 00 {PING}")), 16, "flags that this version knows, found 0x4"),
        (msg(&format!("00000000 02 {PING}")), 20, "a section of kind 0 or 1, found 2"),
        (msg(&format!("00000000 00 {PING} 00 {PING}")), 51, "one command, found a second one"),
        (msg("00000000 00 06000000 00"), 21, "the length of a document"),
        (msg("00000000 00 05000000 01"), 25, "a zero at the end"),
        (msg("00000000 01 05000000 61"), 25, "a name that ends with a zero"),
        (msg("00000000 01 ffffffff 6100"), 21, "a length within the message, found -1"),
        (msg("00000000 01 03000000 6100"), 21, "a length within the message, found 3"),
        (msg("00000000 01 ff000000 6100"), 21, "a length within the message, found 255"),
        (msg("00000000 01 0a000000 6100 05000000"), 27, "the length of a document"),
        (msg("00000000 01 06000000 ff00"), 25, "a name in UTF-8"),
        (msg("01000000"), 20, "a checksum of 4 bytes"),
        (msg(&format!("01000000 00 {PING} 01020304")), 51, "found 0x04030201"),
        (message(2012, EMPTY), 12, "a message without compression"),
        (message(2010, EMPTY), 12, "OP_MSG (2013) or OP_QUERY (2004), found 2010"),
        (unhex("10000000 00"), 5, "the 16 bytes of a message's header"),
    ] {
        let refused = error(&bytes);
        assert_eq!(refused.offset, offset, "{refused}");
        assert!(refused.expected.contains(expected), "{refused}");
    }
    let two = "01 06000000 6100".repeat(2);
    assert!(error(&msg(&format!("00000000 {two}"))).expected.contains("that differ: \"a\""));
    let many: String = (0..17).map(|n| format!("01 06000000 {:02x}00", 0x61 + n)).collect();
    assert!(error(&msg(&format!("00000000 {many}"))).expected.contains("at most 16 sequences"));
    let mut long = msg(&format!("00000000 00 {PING}"));
    long.push(0);
    assert!(error(&long).expected.contains("a message of 51 bytes, found 52"));
    for len in [15, -1, MESSAGE_BYTES_MAX as i32 + 1, i32::MIN] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        let refused = Header::parse(&bytes, MESSAGE_BYTES_MAX).unwrap_err();
        assert!(refused.expected.contains(&format!("found {len}")), "{refused}");
    }
    // A document that is too large, all of which is there.
    let with_document = |len: usize| {
        let mut document = vec![0; len];
        document[..4].copy_from_slice(&(len as i32).to_le_bytes());
        let mut bytes = msg("00000000 00");
        bytes.extend_from_slice(&document);
        let all = bytes.len() as i32;
        bytes[..4].copy_from_slice(&all.to_le_bytes());
        bytes
    };
    // A command with a document of the greatest length has something around it.
    let most = DOCUMENT_BYTES_MAX + (16 << 10);
    assert!(Request::parse(&with_document(most)).is_ok());
    let refused = error(&with_document(most + 1));
    assert!(refused.expected.contains("at most 16793600 bytes, found 16793601"), "{refused}");
}

fn ok(out: &mut Vec<u8>) -> Result<(), BsonError> {
    let mut document = BsonWriter::new(out);
    document.begin();
    document.double("ok", 1.0)?;
    document.end()
}

#[test]
fn replies_have_their_bytes() {
    const OK: &str = "11000000 01 6f6b00 000000000000f03f 00";
    let mut out = b"before".to_vec();
    put_message(&mut out, (1, 7), false, false, ok).unwrap();
    let expected = format!("26000000 01000000 07000000 dd070000 00000000 00 {OK}");
    assert_eq!(out[6..], unhex(&expected));
    let mut out = Vec::new();
    put_message(&mut out, (2, 7), true, true, ok).unwrap();
    let before = unhex(&format!("2a000000 02000000 07000000 dd070000 03000000 00 {OK}"));
    assert_eq!(out, [&before[..], &crc_of(&before).to_le_bytes()].concat());
    assert!(Request::parse(&out).is_ok());
    let mut out = Vec::new();
    put_reply(&mut out, (3, 7), ok).unwrap();
    let expected = format!(
        "35000000 03000000 07000000 01000000 08000000 0000000000000000 00000000 01000000 {OK}"
    );
    assert_eq!(out, unhex(&expected));
    // What cannot be written leaves nothing behind.
    let mut out = b"before".to_vec();
    let refused = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"part");
        Err("refused")
    };
    assert_eq!(put_message(&mut out, (1, 7), false, true, refused), Err("refused"));
    assert_eq!(put_reply(&mut out, (1, 7), refused), Err("refused"));
    assert_eq!(out, b"before");
}

#[test]
fn a_stream_gives_its_messages_however_it_is_cut() {
    let mut first = Vec::new();
    put_message(&mut first, (1, 2), false, true, ok).unwrap();
    let large = [&200_016_u32.to_le_bytes()[..], &[7; 200_012]].concat();
    let all = [&first[..], &large, &first].concat();
    for step in [1, 3, 16, 17, 1000, usize::MAX] {
        let (mut stream, mut reader) = (ShortReads(&all, step), MessageReader::new());
        for expected in [&first, &large, &first] {
            assert_eq!(reader.read(&mut stream).unwrap(), Some(&expected[..]), "{step}");
        }
        assert_eq!(reader.read(&mut stream).unwrap(), None);
    }
}

/// A stream that has more than one message, as of a client that does not wait for replies.
#[test]
fn what_comes_after_a_message_is_kept() {
    let mut one = Vec::new();
    put_message(&mut one, (1, 2), false, false, ok).unwrap();
    let (all, mut reader) = (one.repeat(3), MessageReader::new());
    let mut stream = &all[..];
    assert_eq!(reader.peek(&mut stream, 16).unwrap(), all);
    assert!(stream.is_empty() && reader.has_more());
    for rest in (0..3).rev() {
        reader.release();
        assert_eq!(reader.read(&mut stream).unwrap(), Some(&one[..]));
        assert_eq!((reader.has_more(), reader.last()), (rest > 0, &one[..]));
    }
    reader.release();
    assert!(reader.last().is_empty());
    assert_eq!(reader.read_some(&mut stream).unwrap(), 0);
    assert_eq!(reader.read_some(&mut &one[..]).unwrap(), one.len());
    assert_eq!(reader.read(&mut stream).unwrap(), Some(&one[..]));
    assert!(reader.peek(&mut stream, 16).unwrap().is_empty());
}

#[test]
fn a_stream_that_lies_takes_no_memory() {
    // 48 MB are announced, and 20 bytes come.
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&(MESSAGE_BYTES_MAX as u32).to_le_bytes());
    let mut reader = MessageReader::new();
    let Err(ReadError::Wire(error)) = reader.read(&mut &bytes[..]) else { panic!() };
    assert_eq!(error.offset, 20);
    assert!(error.to_string().contains("48000000 bytes of a message before the connection ends"));
    // A limit for those who are not known yet.
    reader.set_len_max(1000);
    let Err(ReadError::Wire(error)) = reader.read(&mut &bytes[..]) else { panic!() };
    assert!(error.to_string().contains("a length from 16 to 1000, found 48000000"), "{error}");
    let mut short = &bytes[..5];
    let Err(ReadError::Wire(error)) = reader.read(&mut short) else { panic!() };
    assert_eq!(error.offset, 5);
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    let failed = reader.read(&mut Failing);
    assert!(matches!(failed, Err(ReadError::Io(e)) if e.kind() == io::ErrorKind::ConnectionReset));
}

#[test]
fn no_message_does_harm() {
    let mut random = super::random("no_message_does_harm");
    let documents = format!("01 1d000000 646f637300 {ONE} {EMPTY} {EMPTY}");
    let seeds = [
        msg(&format!("00000000 00 {PING}")),
        msg(&format!("00000000 00 {PING} {documents}")),
        msg(&format!("01000000 00 {PING} 00000000")),
        message(2004, &format!("04000000 61646d696e2e24636d6400 00000000 ffffffff {PING}")),
    ];
    let (mut parsed, mut refused) = (0, 0);
    for _ in 0..50_000 {
        let mut bytes = seeds[random.index(seeds.len())].clone();
        mutate(&mut random, &mut bytes);
        if let Some(head) = bytes.first_chunk_mut::<4>().filter(|_| random.index(4) > 0) {
            *head = [0; 4];
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_le_bytes());
        }
        match Request::parse(&bytes) {
            Ok((_, Request::Message(message))) => {
                for sequence in &message.sequences {
                    assert_eq!(sequence.documents.count(), sequence.documents.len());
                }
                parsed += 1;
            }
            Ok(_) => parsed += 1,
            Err(error) => {
                assert!(error.offset <= bytes.len(), "{error}");
                refused += 1;
            }
        }
    }
    assert!(parsed > 1000 && refused > 1000, "{parsed} {refused}");
}
