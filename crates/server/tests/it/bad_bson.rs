//! BSON that lies: every error names the place, and no bytes do harm.

use super::golden::{TYPES, document};
use super::{json, mutate, read, unhex, written};
use flagstone::View;
use flagstone_server::bson::{BsonReader, BsonWriter, document_len};

#[test]
fn errors_name_offset_and_field() {
    for (elements, offset, path, expected) in [
        ("10 61 00 01 00 00", 7, "a", "the 4 bytes of an integer"),
        ("10 61", 5, "", "the name of a field and a zero after it"),
        ("10 ff 00 01 00 00 00", 5, "\u{fffd}", "a name in UTF-8"),
        ("02 61 00 03 00 00 00 78 78 01", 7, "a", "text that is there and ends with a zero"),
        ("02 61 00 09 00 00 00 78 00", 7, "a", "text that is there and ends with a zero"),
        ("02 61 00 00 00 00 00 00", 7, "a", "text that is there and ends with a zero"),
        ("02 61 00 ff ff ff ff 00", 7, "a", "the length of text"),
        ("02 61 00 03 00 00 00 78 ff 00", 12, "a", "text in UTF-8"),
        ("08 61 00 02", 7, "a", "0 or 1 as a boolean"),
        ("14 61 00", 4, "a", "a type of BSON, found 0x14"),
        ("00 61 00", 4, "a", "a type of BSON, found 0x00"),
        ("0a 61 00 0a 62 00 0a 61 00", 14, "", "field \"a\" comes twice"),
        ("09 61 00 ff ff ff ff ff ff ff 7f", 7, "a", "a date of less than 2^63 microseconds"),
        ("05 61 00 ff ff ff 7f 00 01", 12, "a", "2147483647 bytes"),
        ("05 61 00 04 00 00 00 02 05 00 00 00", 12, "a", "the length of the bytes after it"),
        ("0b 61 00 78 00 69", 9, "a", "text that ends with a zero"),
        ("03 61 00 04 00 00 00 00", 7, "a", "the length of a document, from 5"),
        ("03 61 00 06 00 00 00 00", 7, "a", "the length of a document, from 5"),
        ("03 61 00 05 00 00 00 01", 11, "a", "a zero at the end of the document"),
        ("03 61 00 ff ff ff ff 00", 7, "a", "found -1"),
        ("03 61 00 09 00 00 00 10 62 00 01 00", 14, "a.b", "the 4 bytes of an integer"),
        (
            "03 61 00 11 00 00 00 04 62 00 09 00 00 00 08 30 00 05 00 00",
            21,
            "a.b[0]",
            "0 or 1 as a boolean",
        ),
        (
            "0f 61 00 17 00 00 00 02 00 00 00 78 00 0c 00 00 00 10 79 00 01 00 00 00 00",
            17,
            "a",
            "a scope that ends where its code says",
        ),
    ] {
        let bson = document(elements);
        let error = read(&bson).unwrap_err();
        assert_eq!((error.offset, &*error.path), (offset, path), "{elements}: {error}");
        assert!(error.expected.contains(expected), "{elements}: {error}");
    }
    let empty = unhex("05 00 00 00 00");
    assert_eq!(json(&read(&empty).unwrap()), "{}");
    for (bson, offset) in [
        ("", 0),
        ("05 00 00", 0),
        ("04 00 00 00", 0),
        ("06 00 00 00 00", 0),
        ("05 00 00 00 01", 4),
        ("05 00 00 00 00 00", 5),
        ("00 00 00 80 00", 0),
    ] {
        assert_eq!(read(&unhex(bson)).unwrap_err().offset, offset, "{bson}");
    }
    assert_eq!(document_len(&unhex("05 00 00 00 00 ff")), Ok(5));
}

/// A parser that calls itself for each level would overflow the stack.
#[test]
fn documents_nested_ten_thousand_deep_are_refused() {
    for kind in [3, 4] {
        let mut bson = unhex("05 00 00 00 00");
        for _ in 0..10_000 {
            let len = bson.len() as i32 + 8;
            bson = [&len.to_le_bytes(), &[kind, b'0', 0][..], &bson, &[0]].concat();
        }
        let error = read(&bson).unwrap_err();
        assert!(error.expected.contains("nested deeper than 512"), "{error}");
        assert_eq!(error.offset, 7 * 512);
    }
    let mut bson = unhex("05 00 00 00 00");
    for _ in 0..511 {
        let len = bson.len() as i32 + 8;
        bson = [&len.to_le_bytes(), &[3, b'0', 0][..], &bson, &[0]].concat();
    }
    assert_eq!(written(&read(&bson).unwrap()).unwrap(), bson);
}

/// The writer calls itself for each level: it exhausted the stack, which ends the process.
#[test]
fn a_stored_document_that_is_nested_too_deep_is_refused() {
    let levels = 100_000_u32;
    // A map of one name, and in it arrays of one element: docs/format/document.md.
    let mut stored = vec![0x12, 1, 1, b'a', 0x18];
    for level in (0..levels).rev() {
        stored.extend_from_slice(&(3 + 7 * level).to_le_bytes());
        stored.extend_from_slice(if level > 0 { &[0, 1, 0x18] } else { &[0, 1, 0] });
    }
    let mut out = b"before".to_vec();
    let view = View::of(&stored, None).unwrap();
    let refused = BsonWriter::new(&mut out).document(&view).unwrap_err();
    assert!(refused.to_string().contains("nesting of at most 512 levels"), "{refused}");
    assert_eq!(out, b"before");
}

#[test]
fn no_bytes_do_harm() {
    let mut random = super::random("no_bytes_do_harm");
    let all: String = TYPES
        .iter()
        .enumerate()
        .map(|(at, (elements, _))| elements.replacen("61", &format!("{:02x}", 0x41 + at), 1))
        .collect();
    let whole = document(&all);
    for cut in 0..whole.len() {
        assert!(read(&whole[..cut]).is_err());
    }
    let mut reader = BsonReader::new();
    let seeds: Vec<_> =
        TYPES.iter().map(|(elements, _)| document(elements)).chain([whole]).collect();
    for _ in 0..20_000 {
        let mut bson = seeds[random.index(seeds.len())].clone();
        mutate(&mut random, &mut bson);
        match reader.read(&bson, None, &mut Vec::new()) {
            // What was read is written, and that reads the same.
            Ok(_) => {
                let own = read(&bson).unwrap();
                if let Ok(again) = written(&own) {
                    assert_eq!(written(&read(&again).unwrap()).unwrap(), again);
                }
            }
            Err(error) => assert!(error.offset <= bson.len(), "{error}"),
        }
    }
}
