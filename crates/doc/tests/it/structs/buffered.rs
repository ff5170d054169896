//! Types that serde reads through its own buffer because it does not know the type yet: flattened
//! structs, untagged and internally tagged enums.

use super::{comes_back, from_json, json_of, refusal};
use flagstone_doc::{DateTime, Document, Encoder, Names, ObjectId, Value, doc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Page {
    id: u64,
    #[serde(flatten)]
    range: Range,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Range {
    from: f64,
    to: Option<i64>,
}

#[test]
fn a_flattened_struct_is_part_of_the_one_around_it() {
    let rest = BTreeMap::from([("more".to_owned(), doc!([1, { "a": null }]))]);
    let page = Page { id: 1, range: Range { from: 0.5, to: Some(-3) }, rest };
    assert_eq!(json_of(&page), r#"{"id":1,"from":0.5,"to":-3,"more":[1,{"a":null}]}"#);
    let page: Page = from_json(r#"{"to":null,"from":3,"id":1e0}"#);
    assert_eq!(page.range, Range { from: 3.0, to: None });
    // The names of its fields enter the names table, and so do the keys of the flattened map.
    let names = Names::new();
    let rest = BTreeMap::from([("more".to_owned(), Value::Null)]);
    let page = Page { rest, ..page };
    Encoder::new().encode_serialize(&page, Some(&names), &mut Vec::new()).unwrap();
    assert_eq!(names.len(), 4);
}

#[test]
fn types_that_serde_lacks_pass_its_buffer() {
    let value = doc!({
        "id": 1, "from": 1.5, "time": (DateTime::from_micros(5)), "uuid": (Value::Uuid([3; 16])),
        "far": (Value::number("1e400")), "long": (Value::number("0.12345678901234567890123")),
        "bytes": (vec![1_u8, 2]), "nan": (f64::NAN), "big": (Value::number("18446744073709551616")),
        "oid": (ObjectId::from_bytes([3; 12])),
    });
    let document = Document::from_value(&value).unwrap();
    let page: Page = document.to().unwrap();
    for name in ["time", "uuid", "far", "long", "bytes", "nan", "big", "oid"] {
        assert_eq!(page.rest.get(name), value.get(name), "{name}");
    }
    assert_eq!(page.rest["far"].to_string(), "1e400");
    assert_eq!(
        comes_back(&page).get("time").and_then(|view| view.as_datetime()),
        Some(DateTime::from_micros(5))
    );
}

#[test]
fn serdes_buffer_loses_literals() {
    // The buffer has a float of equal value for a decimal, which a float field accepts.
    let page: Page = from_json(r#"{"id":1,"from":1.10,"price":1.10}"#);
    assert_eq!((page.range.from, page.rest["price"].to_string()), (1.1, "1.1".to_owned()));
    // An integer field needs an integer literal; a float field refuses what no float equals.
    assert!(
        refusal::<Page>(r#"{"id":1,"from":1,"to":1.0}"#)
            .contains("floating point `1.0`, expected i64")
    );
    assert!(
        refusal::<Page>(r#"{"id":1,"from":0.12345678901234567890123}"#).contains("expected f64")
    );
    // Serde's buffer has no 128-bit integers.
    #[derive(Deserialize, Debug)]
    struct Wide {
        #[serde(flatten)]
        #[expect(dead_code, reason = "read alone")]
        inner: Inner,
    }
    #[derive(Deserialize, Debug)]
    struct Inner {
        #[expect(dead_code, reason = "read alone")]
        wide: i128,
    }
    assert!(refusal::<Wide>(r#"{"wide":-5}"#).contains("i128 is not supported"));
}

#[test]
fn a_map_in_a_document_is_never_taken_for_a_private_form() {
    let value = doc!({ "$flagstone::DateTime": 5, "$serde_json::private::Number": "7" });
    let document = Document::from_value(&value).unwrap();
    assert_eq!(document.to::<Value>().unwrap(), value);
    let value = doc!([{ "$flagstone::Uuid": [1, 2] }, { "$flagstone::DateTime": 5 }]);
    assert_eq!(Document::from_serialize(&value).unwrap().to::<Value>().unwrap(), value);
}

#[test]
fn a_field_that_comes_twice_is_refused() {
    #[derive(Serialize)]
    struct Twice {
        id: u8,
        #[serde(flatten)]
        rest: HashMap<&'static str, u8>,
    }
    let twice = Twice { id: 1, rest: HashMap::from([("id", 2)]) };
    let error = Document::from_serialize(&twice).unwrap_err().to_string();
    assert_eq!(error, r#"field "id" comes twice"#);
    let error = Document::from_serialize(&[[twice]]).unwrap_err().to_string();
    assert_eq!(error, r#"0.0: field "id" comes twice"#);
    #[derive(Serialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        A(Inner),
    }
    #[derive(Serialize)]
    struct Inner {
        kind: u8,
    }
    let error = Document::from_serialize(&Tagged::A(Inner { kind: 1 })).unwrap_err().to_string();
    assert_eq!(error, r#"field "kind" comes twice"#);
    // These keys differ in Rust but not in a document.
    struct Alike(u8);
    impl Serialize for Alike {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let keys = ["same", "same"].iter().map(|key| (key, self.0));
            serializer.collect_map(keys)
        }
    }
    let error = Document::from_serialize(&(1, Alike(3))).unwrap_err().to_string();
    assert_eq!(error, "1: key same comes twice");
    struct Numbers;
    impl Serialize for Numbers {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map([(1.0, 'a'), (2.0, 'b'), (1.0, 'c')])
        }
    }
    let error = Document::from_serialize(&Numbers).unwrap_err().to_string();
    assert_eq!(error, "key 1 comes twice");
}

#[test]
fn enums_nest_in_flattened_and_untagged_ones() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Event {
        at: u64,
        #[serde(flatten)]
        what: What,
    }
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum What {
        Login { user: String, score: f64 },
        Moved(Moved),
        Logout,
    }
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    #[serde(untagged)]
    enum Moved {
        To { x: i8 },
        By { dx: Vec<f32> },
    }
    let login = Event { at: 1, what: What::Login { user: "x".into(), score: 1.5 } };
    assert_eq!(json_of(&login), r#"{"at":1,"type":"login","user":"x","score":1.5}"#);
    let moved = Event { at: 1, what: What::Moved(Moved::By { dx: vec![0.1, -2.0] }) };
    assert_eq!(json_of(&moved), r#"{"at":1,"type":"moved","dx":[0.1,-2.0]}"#);
    assert_eq!(json_of(&Event { at: 1, what: What::Logout }), r#"{"at":1,"type":"logout"}"#);
    comes_back(&Event { at: 2, what: What::Moved(Moved::To { x: -4 }) });
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Shape {
        #[serde(flatten)]
        form: Form,
    }
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    enum Form {
        Circle { r: u8 },
        Square(u8),
    }
    assert_eq!(json_of(&Shape { form: Form::Circle { r: 2 } }), r#"{"Circle":{"r":2}}"#);
    assert_eq!(json_of(&Shape { form: Form::Square(2) }), r#"{"Square":2}"#);
}

#[test]
fn an_untagged_enum_takes_the_first_variant_that_fits() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    #[serde(untagged)]
    enum Any {
        Int(i64),
        Float(f64),
        Text(String),
        Other(Value),
    }
    for (json, expected) in [
        ("7", Any::Int(7)),
        ("7.0", Any::Float(7.0)),
        ("1.5", Any::Float(1.5)),
        (r#""a""#, Any::Text("a".into())),
        ("1e400", Any::Other(Value::number("1e400").unwrap())),
        ("[1]", Any::Other(doc!([1]))),
    ] {
        assert_eq!(from_json::<Any>(json), expected, "{json}");
    }
    comes_back(&Any::Float(7.0));
}

/// Every way to tag an enum, inside every type that serde reads through its buffer.
mod combinations {
    use super::{comes_back, json_of};
    use flagstone_doc::{Number, Value};
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
    struct Point {
        x: i64,
        far: u64,
        ratio: f64,
        name: Option<String>,
        list: Vec<i8>,
        number: Number,
        any: Value,
    }

    fn point() -> Point {
        let number = Number::parse("1e400").unwrap();
        let any = Value::from("text");
        let list = vec![-1, 2];
        Point { x: -3, far: u64::MAX, ratio: 0.5, name: None, list, number, any }
    }

    macro_rules! inner {
        ($($name:ident $(#[$form:meta])?;)*) => {$(
            #[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
            $(#[$form])?
            enum $name {
                New(Point),
                Struct { y: i64, ratio: f64 },
                Unit,
            }

            impl Inner for $name {
                fn all() -> [Self; 3] {
                    [Self::New(point()), Self::Struct { y: 1 << 40, ratio: -0.25 }, Self::Unit]
                }
            }
        )*};
    }

    trait Inner: Sized {
        fn all() -> [Self; 3];
    }

    inner! {
        External;
        Internal #[serde(tag = "kind")];
        Adjacent #[serde(tag = "t", content = "c")];
        Untagged #[serde(untagged)];
    }

    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Flat<T> {
        id: u64,
        #[serde(flatten)]
        inner: T,
    }

    macro_rules! outer {
        ($($name:ident $(#[$form:meta])?;)*) => {$(
            #[derive(Serialize, Deserialize, Debug, PartialEq)]
            $(#[$form])?
            enum $name<T> {
                Holds(T),
                Named { id: u64, inner: T },
            }
        )*};
    }

    outer! {
        InExternal;
        InInternal #[serde(tag = "outer")];
        InAdjacent #[serde(tag = "a", content = "b")];
        InUntagged #[serde(untagged)];
    }

    macro_rules! check {
        ($($inner:ident)*) => {$(
            for inner in $inner::all() {
                comes_back(&InExternal::Holds(inner.clone()));
                comes_back(&InExternal::Named { id: 1, inner: inner.clone() });
                comes_back(&InAdjacent::Holds(inner.clone()));
                comes_back(&InAdjacent::Named { id: 1, inner: inner.clone() });
                comes_back(&InInternal::Named { id: 1, inner: inner.clone() });
                comes_back(&InUntagged::Holds(inner.clone()));
                comes_back(&InUntagged::Named { id: 1, inner: inner.clone() });
            }
        )*};
    }

    #[test]
    fn every_form_of_enum_comes_back_inside_every_other() {
        check!(External Internal Adjacent Untagged);
    }

    #[test]
    fn every_form_of_enum_comes_back_as_a_part_of_the_struct_or_variant_around_it() {
        for inner in External::all() {
            comes_back(&Flat { id: 1, inner: inner.clone() });
            comes_back(&InInternal::Holds(inner));
        }
        for inner in Internal::all() {
            comes_back(&Flat { id: 1, inner: inner.clone() });
            comes_back(&InInternal::Holds(inner));
        }
        for inner in Adjacent::all() {
            comes_back(&Flat { id: 1, inner: inner.clone() });
            comes_back(&InInternal::Holds(inner));
        }
        let [new, fields, _unit_has_no_map] = Untagged::all();
        for inner in [new, fields] {
            comes_back(&Flat { id: 1, inner: inner.clone() });
            comes_back(&InInternal::Holds(inner));
        }
        let flat = Flat { id: 1, inner: Internal::Struct { y: 2, ratio: 0.5 } };
        assert_eq!(json_of(&flat), r#"{"id":1,"kind":"Struct","y":2,"ratio":0.5}"#);
        let held = InInternal::Holds(Adjacent::Struct { y: 2, ratio: 0.5 });
        assert_eq!(json_of(&held), r#"{"outer":"Holds","t":"Struct","c":{"y":2,"ratio":0.5}}"#);
    }
}
