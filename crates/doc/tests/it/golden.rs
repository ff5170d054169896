//! The bytes of every tag, form and kind of sort key, which must never change.

use flagstone_doc::{
    DateTime, Direction, Document, DocumentWriter, Encoder, JsonParser, Map, Names, ObjectId,
    Value, doc, sort_key,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn number(literal: &str) -> Value {
    Value::number(literal).unwrap()
}

#[test]
fn every_tag_has_its_bytes() {
    for (value, expected) in [
        (Value::Null, "17 00"),
        (false.into(), "17 01"),
        (true.into(), "17 02"),
        (doc!([]), "17 03"),
        (doc!({}), "17 04"),
        ((-4).into(), "17 20"),
        (27.into(), "17 3f"),
        (28.into(), "17 05 1c"),
        ((-5).into(), "17 05 fb"),
        (300.into(), "17 06 2c 01"),
        (0x01_0203.into(), "17 07 03 02 01"),
        (0x0102_0304.into(), "17 08 04 03 02 01"),
        (0x01_0203_0405_i64.into(), "17 09 05 04 03 02 01"),
        (0x0102_0304_0506_i64.into(), "17 0a 06 05 04 03 02 01"),
        (0x01_0203_0405_0607_i64.into(), "17 0b 07 06 05 04 03 02 01"),
        (i64::MIN.into(), "17 0c 00 00 00 00 00 00 00 80"),
        (u64::MAX.into(), "17 0d ff ff ff ff ff ff ff ff"),
        (number("1.10"), "17 0e 02 6e 00 00"),
        (number("-0.5"), "17 0e 01 fb ff ff"),
        (number("83886.08"), "17 0f 02 00 00 80 00 00 00 00"),
        (1.5.into(), "17 10 00 00 00 00 00 00 f8 3f"),
        (DateTime::from_micros(1).into(), "17 11 01 00 00 00 00 00 00 00"),
        (Value::Uuid([7; 16]), "17 12 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07 07"),
        (ObjectId::from_bytes([7; 12]).into(), "17 1d 07 07 07 07 07 07 07 07 07 07 07 07"),
        (Value::Bytes(vec![1, 2]), "17 15 02 01 02"),
        (number("-0"), "17 1b 02 2d 30"),
        (number("1e400"), "17 1b 05 31 65 34 30 30"),
        ("".into(), "17 40"),
        ("ab".into(), "17 42 61 62"),
        (doc!([1, "a"]), "10 02 25 41 61"),
        (doc!(["a", "b"]), "11 02 41 61 62"),
        (doc!([[1, 2], "a"]), "10 02 17 41 04 00 61 00 02 25 26"),
        (doc!({ "a": 1, "b": null }), "12 02 01 61 01 62 25 00"),
        (doc!({ "a": { "b": 1 } }), "12 01 01 61 19 05 00 02 01 01 62 25"),
    ] {
        let document = Document::from_value(&value).unwrap();
        assert_eq!(hex(document.as_bytes()), expected, "{value}");
        assert_eq!(document.to_value(), value);
    }
    let mut pairs = Map::new();
    pairs.insert("x", true);
    pairs.insert(1, "one");
    let document = Document::from_value(&Value::Map(pairs)).unwrap();
    assert_eq!(hex(document.as_bytes()), "15 02 25 43 41 02 6f 6e 65 78");
}

/// A long is an integer in one byte more than it needs, a Decimal128 is any number as its literal.
/// Before, a long that fits 32 bits came back as an integer of 32 bits.
#[test]
fn wide_numbers_have_their_bytes() {
    let bytes = |write: &dyn Fn(&mut DocumentWriter<'_>)| {
        let (mut encoder, mut bytes) = (Encoder::new(), Vec::new());
        let mut writer = encoder.write(None);
        write(&mut writer);
        writer.finish(&mut bytes).unwrap();
        let value = flagstone_doc::validate(&bytes, None).unwrap().to_value().unwrap();
        assert_eq!(Document::from_value(&value).unwrap().as_bytes(), bytes);
        hex(&bytes)
    };
    for (int, expected) in [
        (1, "17 05 01"),
        (-4, "17 05 fc"),
        (28, "17 06 1c 00"),
        (-5, "17 06 fb ff"),
        (300, "17 07 2c 01 00"),
        (i64::from(i32::MAX), "17 09 ff ff ff 7f 00"),
        (0x01_0203_0405, "17 09 05 04 03 02 01"),
    ] {
        assert_eq!(bytes(&|to| to.long(int)), expected, "{int}");
    }
    for (literal, expected) in
        [("5", "17 1b 01 35"), ("1.10", "17 1b 04 31 2e 31 30"), ("1E+3", "17 1b 04 31 45 2b 33")]
    {
        assert_eq!(bytes(&|to| to.number(literal, true).unwrap()), expected, "{literal}");
    }
}

#[test]
fn long_payloads_have_their_bytes() {
    let head = |value: &Value, len| hex(&Document::from_value(value).unwrap().as_bytes()[..len]);
    assert_eq!(head(&"x".repeat(191).into(), 3), "17 ff 78");
    assert_eq!(head(&"x".repeat(192).into(), 5), "17 13 c0 00 78");
    assert_eq!(head(&"x".repeat(65_536).into(), 7), "17 14 00 00 01 00 78");
    assert_eq!(head(&Value::Bytes(vec![9; 256]), 7), "17 16 00 01 00 00 09");
    assert_eq!(head(&number(&"7".repeat(256)), 7), "17 1c 00 01 00 00 37");
    let long = "x".repeat(70_000);
    let value = doc!([[(long.as_str())]]);
    assert_eq!(head(&value, 7), "10 01 18 77 11 01 00");
    let value = doc!([{ "a": (long.as_str()) }]);
    assert_eq!(head(&value, 7), "10 01 1a 79 11 01 00");
}

#[test]
fn names_by_id_have_their_bytes() {
    let names = Names::new();
    let mut parser = JsonParser::default();
    let mut out = Vec::new();
    let used = parser.parse(br#"{"id":"x","score":300,"tags":[]}"#, Some(&names), &mut out);
    assert_eq!(used, Ok(3));
    assert_eq!(hex(&out), "1b 03 00 01 02 41 06 03 78 2c 01");
    for id in 3..300 {
        names.intern(&format!("n{id}"));
    }
    out.clear();
    let value = doc!({ "score": 1, "n299": { "id": 2 } });
    Encoder::new().encode(&value, Some(&names), &mut out).unwrap();
    assert_eq!(hex(&out), "1c 02 01 00 2b 01 25 19 04 00 03 01 00 26");
}

#[test]
fn every_sort_key_has_its_bytes() {
    for (value, expected) in [
        (Value::Null, "08"),
        (false.into(), "0c"),
        (true.into(), "0d"),
        (f64::NAN.into(), "20"),
        (f64::NEG_INFINITY.into(), "21"),
        (number("-1e400"), "36 06 fe 6e f4 ff"),
        (number("-9223372036854775809"), "36 ec a2 e7 d9 ea da a9 cf b3 ae a4 ff"),
        (i64::MIN.into(), "37 7f ff ff ff ff ff ff ff"),
        ((-256).into(), "3d fe ff"),
        ((-1).into(), "3e fe"),
        (number("-0.25"), "3e fe ff 4c 00"),
        (number("-1e-18"), "3f 11 f4 ff"),
        (0.into(), "40"),
        (number("-0.0"), "40"),
        (number("1e-1000000000"), "41 04 c4 65 36 00 0b 00"),
        (number("0.05"), "42 ff 06 00"),
        (7.into(), "43 07"),
        (number("7.250"), "43 07 ff 1a 00"),
        (1_564_617_600.into(), "46 5d 42 2b 80"),
        (i64::MAX.into(), "4a 7f ff ff ff ff ff ff ff"),
        (number("9223372036854775808"), "4b 13 5d 18 26 15 25 56 30 4c 51 51 00"),
        (number("1e1000000000"), "4b fb 3b 9a ca 01 0b 00"),
        (f64::INFINITY.into(), "4c"),
        ("a\0b".into(), "60 61 00 ff 62 00"),
        (Value::Bytes(vec![0]), "64 00 ff 00"),
        (ObjectId::from_bytes([1; 12]).into(), "66 01 01 01 01 01 01 01 01 01 01 01 01"),
        (DateTime::from_micros(-1).into(), "68 7f ff ff ff ff ff ff ff"),
        (Value::Uuid([1; 16]), "6c 01 01 01 01 01 01 01 01 01 01 01 01 01 01 01 01"),
        (doc!([1, "a"]), "70 43 01 60 61 00 01"),
        (doc!({ "b": 1, "a": [] }), "74 60 61 00 70 01 60 62 00 43 01 01"),
        (
            doc!({ "$timestamp": { "i": 2, "t": 1 } }),
            "74 60 24 74 69 6d 65 73 74 61 6d 70 00 74 60 74 00 43 01 60 69 00 43 02 01 01",
        ),
        (
            Value::Map([(Value::from("a"), 2), (1.into(), 3)].into_iter().collect()),
            "74 43 01 43 03 60 61 00 43 02 01",
        ),
    ] {
        let mut key = Vec::new();
        sort_key::encode(&value, Direction::Ascending, &mut key);
        assert_eq!(hex(&key), expected, "{value}");
        assert_eq!(sort_key::decode(&key, Direction::Ascending).unwrap(), value);
        let mut inverted = Vec::new();
        sort_key::encode(&value, Direction::Descending, &mut inverted);
        key.push(1);
        assert_eq!(inverted, key.iter().map(|byte| !byte).collect::<Vec<_>>());
    }
}
