//! Hostile bytes: decoders return an error or a value and never panic.

use flagstone_base::hash::remix;
use flagstone_doc::{
    DEPTH_MAX, Direction, Document, Encoder, JsonMode, JsonOptions, JsonParser, Names, ObjectId,
    Value, View, doc, json, sort_key, validate,
};

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(test: &str) -> Self {
        Self(super::seed(test))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (remix(self.0) % end as u64) as usize
    }

    pub(crate) fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len().max(1));
            match self.below(5) {
                0 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.below(256) as u8),
                _ if !bytes.is_empty() => drop(bytes.remove(at)),
                _ => {}
            }
        }
    }
}

pub(crate) fn samples(names: &Names) -> Vec<Vec<u8>> {
    let mut pairs = flagstone_doc::Map::new();
    pairs.insert(1, "one");
    pairs.insert("two", doc!([2, 2, 2]));
    let text = "x".repeat(300);
    let value = doc!({
        "id": "evn2i5p", "score": 7, "price": (flagstone_doc::Value::number("1.10")), "n": null,
        "long": (text), "tags": ["a", "b", { "c": 1e300 }], "big": 123456789012_i64,
        "bytes": (vec![1_u8, 2]), "time": (flagstone_doc::DateTime::from_micros(5)),
        "pairs": (flagstone_doc::Value::Map(pairs)), "ints": [1000, 1001, 1002],
        "odd": (flagstone_doc::Value::number("1e400")), "id12": (ObjectId::from_bytes([9; 12])),
    });
    let (mut by_id, mut inline) = (Vec::new(), Vec::new());
    let mut encoder = Encoder::new();
    encoder.encode(&value, Some(names), &mut by_id).unwrap();
    encoder.encode(&value, None, &mut inline).unwrap();
    vec![by_id, inline]
}

#[test]
fn maps_with_repeated_or_unsorted_keys_are_refused() {
    let names = Names::new();
    let (a, b) = (names.intern("a").unwrap(), names.intern("b").unwrap());
    assert_eq!((a, b), (0, 1));
    // Two fields with tags of width 1 and 2; headers as the encoder writes them.
    let cases: [(&[u8], &[u8]); 4] = [
        (b"\x12\x02\x01a\x01b\x25\x26", b"\x12\x02\x01a\x01a\x25\x26"),
        (b"\x1b\x02\x00\x01\x25\x26", b"\x1b\x02\x01\x01\x25\x26"),
        (b"\x1c\x02\x00\x00\x01\x00\x25\x26", b"\x1c\x02\x01\x00\x01\x00\x25\x26"),
        (b"\x15\x02\x25\x26\x26\x26", b"\x15\x02\x26\x26\x25\x26"),
    ];
    for (right, wrong) in cases {
        validate(right, Some(&names)).unwrap_or_else(|error| panic!("{right:?}: {error}"));
        let error = validate(wrong, Some(&names)).unwrap_err();
        assert!(
            error.expected.contains("distinct") || error.expected.contains("ascend"),
            "{error}"
        );
    }
    let only_text = b"\x15\x01\x41\x25a";
    assert!(validate(only_text, Some(&names)).unwrap_err().expected.contains("not text"));
}

#[test]
fn mutated_documents_do_no_harm() {
    let mut random = Random(super::seed("mutated_documents_do_no_harm"));
    let names = Names::new();
    let samples = samples(&names);
    for round in 0..60_000 {
        let mut bytes = samples[round % samples.len()].clone();
        random.mutate(&mut bytes);
        let valid = validate(&bytes, Some(&names)).is_ok();
        let Ok(view) = View::of(&bytes, Some(&names)) else {
            assert!(!valid);
            continue;
        };
        let (mut out, mut unchecked, mut of_value) = (Vec::new(), Vec::new(), Vec::new());
        let value = view.to_value();
        let json = json::append_json(&view, &mut out);
        match (&json, json::append_json_bytes(&view, &mut unchecked)) {
            (Ok(()), written) => assert!(written.is_ok() && unchecked == out, "{bytes:?}"),
            (Err(_), Ok(())) => assert!(str::from_utf8(&unchecked).is_err(), "{bytes:?}"),
            (Err(_), Err(_)) => {}
        }
        let again = Encoder::new().encode_view(&view, None, &mut Vec::new());
        if valid {
            assert!(value.is_ok() && again.is_ok(), "a valid document can be read: {bytes:?}");
            assert!(json.is_ok(), "a valid document has a text: {bytes:?}");
            let value = value.unwrap();
            json::append_value_json(&value, &mut of_value);
            assert_eq!(out, of_value, "{bytes:?}");
            comes_back(&view, &value);
        }
        for path in ["id", "tags.2.c", "pairs.two.1", "ints.2", "nothing", "long"] {
            if let Ok(Some(found)) = view.path(path) {
                let _read = (found.as_str(), found.as_i64(), found.as_f64(), found.as_u64());
                let _len = (found.len(), found.to_string());
                let _key = sort_key::encode_view(&found, Direction::Ascending, &mut Vec::new());
            }
        }
        let _document = Document::from_bytes(bytes, None);
    }
}

/// Asserts that the text of a document in Extended JSON reads back as an equal value.
fn comes_back(view: &View<'_>, value: &Value) {
    let (mut text, mut of_value) = (Vec::new(), Vec::new());
    json::append_json_as(view, JsonMode::Extended, &mut text).unwrap();
    json::append_value_json_as(value, JsonMode::Extended, &mut of_value);
    assert_eq!(text, of_value);
    let options = JsonOptions::new().mode(JsonMode::Extended).depth_max(DEPTH_MAX);
    assert_eq!(JsonParser::new(options).parse_value(&text).as_ref(), Ok(value));
}

#[test]
fn text_that_is_not_utf8_is_refused_unless_the_caller_checks_it() {
    // Maps of `a` and `b`, the text of `b` is damaged: with names, and with their ids.
    let names = Names::new();
    assert_eq!((names.intern("a"), names.intern("b")), (Some(0), Some(1)));
    let with_names: &[u8] = b"\x12\x02\x01a\x01b\x25\x41\xFF";
    let with_ids = b"\x1B\x02\x00\x01\x25\x41\xFF";
    for bytes in [with_names, with_ids] {
        let view = View::of(bytes, Some(&names)).unwrap();
        let error = json::append_json(&view, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("text in UTF-8"), "{error}");
        let mut out = Vec::new();
        json::append_json_bytes(&view, &mut out).unwrap();
        assert_eq!(out, b"{\"a\":1,\"b\":\"\xFF\"}");
    }
}

#[test]
fn random_bytes_are_no_documents() {
    let mut random = Random(super::seed("random_bytes_are_no_documents"));
    for _ in 0..60_000 {
        let mut bytes: Vec<u8> = (0..random.below(40)).map(|_| random.below(256) as u8).collect();
        if let Some(first) = bytes.first_mut() {
            *first = 0x10 | *first & 7;
        }
        let _valid = validate(&bytes, None);
        if let Ok(view) = View::of(&bytes, None) {
            let _read = (view.to_value(), json::append_json(&view, &mut Vec::new()));
        }
        let _value = sort_key::decode(&bytes, Direction::Ascending);
    }
}

#[test]
fn mutated_sort_keys_do_no_harm() {
    let mut random = Random(super::seed("mutated_sort_keys_do_no_harm"));
    let value = doc!([
        null, true, 7, (-1234567), 0.5, (-0.25), 1e300, (-1e-300), "a\0b", { "a": [1] },
        (vec![0_u8]), (flagstone_doc::DateTime::from_micros(-1))
    ]);
    for direction in [Direction::Ascending, Direction::Descending] {
        let mut key = Vec::new();
        sort_key::encode(&value, direction, &mut key);
        assert_eq!(sort_key::decode(&key, direction).unwrap(), value);
        for _ in 0..30_000 {
            let mut bytes = key.clone();
            random.mutate(&mut bytes);
            if let Ok((value, len)) = sort_key::decode_first(&bytes, direction) {
                assert!(len <= bytes.len());
                let mut again = Vec::new();
                sort_key::encode(&value, direction, &mut again);
                assert_eq!(sort_key::decode(&again, direction).unwrap(), value);
            }
        }
    }
}

#[test]
fn mutated_json_does_no_harm() {
    let mut random = Random(super::seed("mutated_json_does_no_harm"));
    let text = r#"{"a":[1,2.50,-0,1e400,"x\n\ud83d\ude00",null],"b":{"c":true,"a":""},"é":false}"#;
    let names = Names::new();
    let mut parser = flagstone_doc::JsonParser::default();
    for _ in 0..60_000 {
        let mut bytes = text.as_bytes().to_vec();
        random.mutate(&mut bytes);
        let oracle = serde_json::from_slice::<serde_json::Value>(&bytes);
        let mut out = Vec::new();
        let ours = parser.parse(&bytes, Some(&names), &mut out);
        let beyond_the_oracle = oracle.as_ref().is_err_and(|e| e.to_string().contains("range"));
        if !beyond_the_oracle {
            let text = String::from_utf8_lossy(&bytes);
            assert_eq!(ours.is_ok(), oracle.is_ok(), "{text}: {ours:?} {oracle:?}");
        }
        if ours.is_ok() {
            validate(&out, Some(&names)).unwrap();
        }
    }
}

#[test]
fn nesting_beyond_the_limit_is_refused_from_bytes_too() {
    // Arrays nested in one another, each with a correct 16-bit length of its content.
    let mut bytes = vec![0_u8, 1, 3];
    for _ in 0..DEPTH_MAX {
        let mut outer = vec![0, 1, 0x17];
        outer.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    bytes[0] = 0x10;
    assert!(validate(&bytes, None).is_err());
    let view = View::of(&bytes, None).unwrap();
    assert!(view.to_value().is_err());
    assert!(json::append_json(&view, &mut Vec::new()).is_err());
    assert!(Encoder::new().encode_view(&view, None, &mut Vec::new()).is_err());
    let key = vec![0x70; 100_000];
    assert!(sort_key::decode(&key, Direction::Ascending).is_err());
}

#[test]
fn counts_beyond_the_bytes_are_refused() {
    for bytes in [
        &[0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F][..],
        &[0x11, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0x20],
        &[0x11, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0x05, 0x00],
        &[0x12, 0xFF, 0xFF, 0x03, 0x01, b'a'],
        &[0x15, 0x81, 0x01, 0x20],
        &[0x16, 0x00],
        &[0x17, 0x1E],
        &[0x27, 0x00],
        &[0x17, 0x00, 0x00],
        &[0x1F, 0x00],
        &[],
    ] {
        assert!(validate(bytes, None).is_err(), "{bytes:?}");
    }
}
