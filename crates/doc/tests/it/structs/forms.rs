//! The form that each kind of Rust value has in a document.

use super::{comes_back, from_json, json_of};
use flagstone_doc::{DateTime, Document, Encoder, Map, Names, ObjectId, Value, adapt, doc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

fn hex(document: &Document) -> String {
    document.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Unit;
#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Wrapped(u8);
#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Two(u8, String);
#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Point {
    x: i32,
    y: i32,
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
enum External {
    Unit,
    New(u8),
    Tuple(u8, bool),
    Struct { x: i32 },
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(tag = "kind")]
enum Internal {
    Unit,
    New(Point),
    Struct { x: i32 },
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    Unit,
    New(u8),
    Tuple(u8, bool),
    Struct { x: i32 },
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(untagged)]
enum Untagged {
    Unit,
    Int(u8),
    Tuple(u8, bool),
    Struct { x: i32 },
    Text(String),
}

/// The bytes must never change: other programs read the documents.
#[test]
fn every_form_of_enum_has_its_bytes() {
    let golden = |document: Document, bytes: &str| assert_eq!(hex(&document), bytes, "{document}");
    golden(comes_back(&External::Unit), "17 44 55 6e 69 74");
    golden(comes_back(&External::New(7)), "12 01 03 4e 65 77 2b");
    golden(comes_back(&External::Tuple(7, true)), "12 01 05 54 75 70 6c 65 17 04 00 00 02 2b 02");
    golden(
        comes_back(&External::Struct { x: 1 }),
        "12 01 06 53 74 72 75 63 74 19 05 00 02 01 01 78 25",
    );
    golden(comes_back(&Internal::Unit), "12 01 04 6b 69 6e 64 44 55 6e 69 74");
    golden(
        comes_back(&Internal::Struct { x: 1 }),
        "12 02 04 6b 69 6e 64 01 78 46 25 53 74 72 75 63 74",
    );
    golden(comes_back(&Adjacent::Unit), "12 01 01 74 44 55 6e 69 74");
    golden(comes_back(&Adjacent::New(7)), "12 02 01 74 01 63 43 2b 4e 65 77");
    golden(comes_back(&Untagged::Int(7)), "17 2b");
    golden(comes_back(&Untagged::Struct { x: 1 }), "12 01 01 78 25");
}

#[test]
fn enums_have_the_forms_that_json_gives_them() {
    let all = |external: External| json_of(&external);
    assert_eq!(all(External::Unit), r#""Unit""#);
    assert_eq!(all(External::New(7)), r#"{"New":7}"#);
    assert_eq!(all(External::Tuple(7, true)), r#"{"Tuple":[7,true]}"#);
    assert_eq!(all(External::Struct { x: 1 }), r#"{"Struct":{"x":1}}"#);
    assert_eq!(json_of(&Internal::Unit), r#"{"kind":"Unit"}"#);
    assert_eq!(json_of(&Internal::New(Point { x: 1, y: 2 })), r#"{"kind":"New","x":1,"y":2}"#);
    assert_eq!(json_of(&Internal::Struct { x: 1 }), r#"{"kind":"Struct","x":1}"#);
    assert_eq!(json_of(&Adjacent::Unit), r#"{"t":"Unit"}"#);
    assert_eq!(json_of(&Adjacent::New(7)), r#"{"t":"New","c":7}"#);
    assert_eq!(json_of(&Adjacent::Tuple(7, true)), r#"{"t":"Tuple","c":[7,true]}"#);
    assert_eq!(json_of(&Adjacent::Struct { x: 1 }), r#"{"t":"Struct","c":{"x":1}}"#);
    assert_eq!(json_of(&Untagged::Unit), "null");
    assert_eq!(json_of(&Untagged::Tuple(7, true)), "[7,true]");
    assert_eq!(json_of(&Untagged::Text("a".into())), r#""a""#);
    // The content may precede the tag.
    assert_eq!(from_json::<Adjacent>(r#"{"c":7,"t":"New"}"#), Adjacent::New(7));
    assert_eq!(from_json::<Internal>(r#"{"x":1,"kind":"Struct"}"#), Internal::Struct { x: 1 });
    assert_eq!(from_json::<External>(r#"{"Unit":null}"#), External::Unit);
    let nested = vec![Some(External::Tuple(1, false)), None, Some(External::Unit)];
    assert_eq!(json_of(&nested), r#"[{"Tuple":[1,false]},null,"Unit"]"#);
}

#[test]
fn structs_have_the_forms_that_json_gives_them() {
    assert_eq!(json_of(&Unit), "null");
    assert_eq!(json_of(&Wrapped(7)), "7");
    assert_eq!(json_of(&Two(7, "a".into())), r#"[7,"a"]"#);
    assert_eq!(json_of(&Point { x: -1, y: 300 }), r#"{"x":-1,"y":300}"#);
    assert_eq!(
        json_of(&((), true, 'é', "a".to_owned(), [1_u8, 2])),
        r#"[null,true,"é","a",[1,2]]"#
    );
    assert_eq!(json_of(&(vec![Point { x: 1, y: 2 }], Vec::<u8>::new())), r#"[[{"x":1,"y":2}],[]]"#);
    assert_eq!(json_of(&BTreeMap::<String, u8>::new()), "{}");
}

#[test]
fn none_is_null_and_a_missing_field_is_none() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Options {
        a: Option<u8>,
        b: Option<String>,
        #[serde(default)]
        c: u8,
    }
    let value = Options { a: None, b: Some("x".into()), c: 3 };
    assert_eq!(json_of(&value), r#"{"a":null,"b":"x","c":3}"#);
    assert_eq!(from_json::<Options>(r#"{"b":null}"#), Options { a: None, b: None, c: 0 });
    assert_eq!(
        from_json::<Options>(r#"{"unknown":[{}],"a":1}"#),
        Options { a: Some(1), b: None, c: 0 }
    );
    // A document has one null, so several layers of options in Rust read back as one `None`.
    let read = |value: Option<Option<u8>>| {
        Document::from_serialize(&value).unwrap().to::<Option<Option<u8>>>().unwrap()
    };
    assert_eq!((read(Some(Some(1))), read(Some(None)), read(None)), (Some(Some(1)), None, None));
    let unit = Document::from_serialize(&Some(())).unwrap();
    assert_eq!(unit.to::<Option<()>>().unwrap(), None);
}

/// Does what the crate `serde_bytes` does.
mod as_bytes {
    use serde::de::{Deserializer, Error, SeqAccess, Visitor};

    pub(super) fn serialize<S: serde::Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<u8>, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = items.next_element()? {
                    bytes.push(byte);
                }
                Ok(bytes)
            }
        }
        from.deserialize_byte_buf(Bytes)
    }
}

#[test]
fn bytes_are_read_from_bytes_and_from_arrays() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Blob(#[serde(with = "as_bytes")] Vec<u8>);
    let stored = comes_back(&Blob(vec![1, 2, 255]));
    assert_eq!(stored.to_value(), Value::Bytes(vec![1, 2, 255]));
    assert_eq!(stored.to::<Vec<u8>>().unwrap(), [1, 2, 255]);
    assert_eq!(stored.to::<[u8; 3]>().unwrap(), [1, 2, 255]);
    assert!(stored.to::<[u8; 2]>().unwrap_err().to_string().contains("length 3"));
    assert_eq!(from_json::<Blob>("[1,2]"), Blob(vec![1, 2]));
    let array = comes_back(&vec![1_u8, 2, 255]);
    assert_eq!(array.to_value(), doc!([1, 2, 255]), "serde takes a Vec<u8> for an array");
    assert_eq!(stored.to::<&[u8]>().unwrap(), [1, 2, 255], "borrowed");
}

#[test]
fn keys_of_maps_may_be_any_value() {
    let numbers: HashMap<u64, u8> = (0..50).map(|n| (n * 7919 % 5003, n as u8)).collect();
    let document = comes_back(&numbers);
    let value: Map = numbers.iter().map(|(key, value)| (*key, *value)).collect();
    assert_eq!(document.as_bytes(), Document::from_value(&Value::Map(value)).unwrap().as_bytes());
    let json: HashMap<u64, String> = from_json(r#"{"1":"a","18446744073709551615":"b"}"#);
    assert_eq!(json, HashMap::from([(1, "a".to_owned()), (u64::MAX, "b".to_owned())]));
    comes_back(&BTreeMap::from([(true, 1), (false, 2)]));
    comes_back(&BTreeMap::from([(-3_i8, 'a'), (100, 'b')]));
    comes_back(&BTreeMap::from([(i128::MIN, 1), (u64::MAX.into(), 2)]));
    comes_back(&BTreeMap::from([((1, "a".to_owned()), 1), ((1, "b".to_owned()), 2)]));
    comes_back(&BTreeMap::from([(Some(3), 1), (None, 2)]));
    #[derive(Serialize, Deserialize, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    enum Color {
        Red,
        Green,
    }
    let colors = BTreeMap::from([(Color::Red, 1), (Color::Green, 2)]);
    assert_eq!(json_of(&colors), r#"{"Red":1,"Green":2}"#);
    #[derive(Serialize, Deserialize, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Id(u32);
    comes_back(&BTreeMap::from([(Id(7), "x".to_owned())]));
    let json: BTreeMap<Id, u8> = from_json(r#"{"7":1}"#);
    assert_eq!(json, BTreeMap::from([(Id(7), 1)]));
    // The first keys are text, a later key is not.
    #[derive(Serialize, Deserialize, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[serde(untagged)]
    enum Key {
        Text(String),
        Int(i64),
    }
    let text = |text: &str| Key::Text(text.into());
    let long = "x".repeat(300);
    comes_back(&BTreeMap::from([
        (text("a"), vec![long.clone()]),
        (text("b"), Vec::new()),
        (text(&long), vec!["y".into()]),
        (Key::Int(3), vec!["z".into()]),
        (Key::Int(-3), vec![long.clone(), "z".into()]),
    ]));
}

#[test]
fn fields_enter_the_names_table_and_keys_of_maps_do_not() {
    #[derive(Serialize)]
    struct Page {
        title: &'static str,
        hits: BTreeMap<String, u32>,
        extra: Value,
    }
    let page = Page {
        title: "x",
        hits: BTreeMap::from([("2019-08-01".into(), 3), ("title".into(), 4)]),
        extra: doc!({ "seen": true }),
    };
    let names = Names::new();
    let mut bytes = Vec::new();
    let used = Encoder::new().encode_serialize(&page, Some(&names), &mut bytes).unwrap();
    let defined: Vec<&str> = names.since(0).map(|(_, name)| name).collect();
    assert_eq!((used, defined), (4, vec!["title", "hits", "extra", "seen"]));
    let view = flagstone_doc::validate(&bytes, Some(&names)).unwrap();
    let json = r#"{"title":"x","hits":{"2019-08-01":3,"title":4},"extra":{"seen":true}}"#;
    assert_eq!(view.to_value().unwrap().to_string(), json);
}

#[test]
fn a_struct_is_written_as_the_equal_value_is() {
    #[derive(Serialize)]
    struct Comment<'a> {
        id: &'a str,
        score: i64,
        tags: [&'a str; 2],
        author: Author<'a>,
    }
    #[derive(Serialize)]
    struct Author<'a> {
        name: &'a str,
        karma: u64,
    }
    let comment = Comment {
        id: "evn2i5p",
        score: -30,
        tags: ["a", "bc"],
        author: Author { name: "x", karma: u64::MAX },
    };
    let value = doc!({
        "id": "evn2i5p", "score": (-30), "tags": ["a", "bc"],
        "author": { "name": "x", "karma": (u64::MAX) },
    });
    let names = Names::new();
    let (mut encoder, mut of_value, mut of_struct) = (Encoder::new(), Vec::new(), Vec::new());
    for _ in 0..2 {
        of_value.clear();
        of_struct.clear();
        encoder.encode(&value, Some(&names), &mut of_value).unwrap();
        encoder.encode_serialize(&comment, Some(&names), &mut of_struct).unwrap();
        assert_eq!(of_value, of_struct);
    }
}

#[test]
fn text_and_bytes_are_borrowed_from_the_document() {
    #[derive(Deserialize)]
    struct Borrowed<'a> {
        id: &'a str,
        #[serde(borrow)]
        tags: BTreeMap<&'a str, &'a str>,
    }
    let document = Document::from_json(r#"{"id":"evn2i5p","tags":{"a":"b"},"rest":[1]}"#).unwrap();
    let read: Borrowed<'_> = document.to().unwrap();
    let within = |text: &str| document.as_bytes().as_ptr_range().contains(&text.as_ptr());
    assert!(within(read.id) && within(read.tags["a"]));
    let (key, _) = read.tags.first_key_value().unwrap();
    assert!(within(key));
}

#[test]
fn values_that_are_not_asked_for_are_not_decoded() {
    // A map of `a` and `b`; the text of `b` is not UTF-8.
    let bytes = b"\x12\x02\x01a\x01b\x25\x41\xFF";
    let view = flagstone_doc::View::of(bytes, None).unwrap();
    #[derive(Deserialize, Debug)]
    struct A {
        a: u8,
    }
    #[derive(Deserialize, Debug)]
    struct Both {
        #[expect(dead_code, reason = "read alone")]
        b: String,
    }
    assert_eq!(view.to::<A>().unwrap().a, 1);
    let error = view.to::<Both>().unwrap_err();
    assert_eq!(error.kind(), flagstone_base::ErrorKind::Corruption);
    assert!(error.to_string().starts_with("b: "), "{error}");
}

#[test]
fn other_formats_get_the_nearest_type_they_have() {
    let value = doc!({
        "price": (Value::number("1.10")), "big": (u64::MAX), "far": (Value::number("1e400")),
        "time": (DateTime::from_micros(1_564_617_600_000_000)), "id": (Value::Uuid([1; 16])),
        "oid": (ObjectId::from_bytes([1; 12])),
    });
    let json = serde_json::to_string(&value).unwrap();
    assert_eq!(
        json,
        concat!(
            r#"{"price":1.1,"big":18446744073709551615,"far":"1e400","#,
            r#""time":"2019-08-01T00:00:00Z","id":"01010101-0101-0101-0101-010101010101","#,
            r#""oid":"010101010101010101010101"}"#
        )
    );
    let back: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(back.get("price"), value.get("price"));
    assert_eq!(back.get("time"), Some(&Value::from("2019-08-01T00:00:00Z")));
    let time: DateTime = serde_json::from_str(r#""2019-08-01T00:00:00Z""#).unwrap();
    assert_eq!(Some(&Value::from(time)), value.get("time"));
    let id: ObjectId = serde_json::from_str(r#""010101010101010101010101""#).unwrap();
    assert_eq!(Some(&Value::from(id)), value.get("oid"));
    assert!(serde_json::from_str::<ObjectId>(r#""0101""#).is_err());
    let text = Document::from_value(&value).unwrap();
    #[derive(Deserialize)]
    struct AsText {
        time: String,
        id: String,
    }
    let as_text: AsText = text.to().unwrap();
    assert_eq!(as_text.time, "2019-08-01T00:00:00Z");
    assert_eq!(as_text.id, "01010101-0101-0101-0101-010101010101");
}

#[test]
fn adapters_change_the_stored_form() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Order {
        #[serde(with = "adapt::number")]
        price: i128,
        #[serde(with = "adapt::text")]
        count: u64,
        #[serde(with = "adapt::millis")]
        placed: DateTime,
        #[serde(with = "adapt::rfc3339")]
        due: DateTime,
    }
    let at = DateTime::from_micros(1_564_617_600_250_000);
    let order = Order { price: i128::MAX, count: 7, placed: at, due: at };
    let json = json_of(&order);
    assert_eq!(
        json,
        concat!(
            r#"{"price":170141183460469231731687303715884105727,"count":"7","#,
            r#""placed":1564617600250,"due":"2019-08-01T00:00:00.250000Z"}"#
        )
    );
    let read: Order =
        from_json(r#"{"price":"5","count":7,"placed":-1,"due":"2019-08-01T02:00:00+02:00"}"#);
    assert_eq!((read.price, read.count, read.placed.as_micros()), (5, 7, -1000));
    #[derive(Serialize)]
    struct Word(#[serde(with = "adapt::number")] &'static str);
    let error = Document::from_serialize(&Word("seven")).unwrap_err();
    assert!(error.to_string().contains(r#""seven" is not a number"#), "{error}");
}
