//! Errors name the path; endless nesting and hostile bytes give an error.

use super::{comes_back, from_json, refusal};
use crate::hostile::{Random, samples};
use flagstone_base::ErrorKind;
use flagstone_doc::{DEPTH_MAX, Document, Encoder, Names, Value, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Post {
    title: String,
    stats: Stats,
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Stats {
    votes: Vec<u8>,
    by_day: BTreeMap<u32, i8>,
}

#[test]
fn an_error_names_the_path() {
    let of = |stats: &str| refusal::<Post>(&format!(r#"{{"title":"x","stats":{stats}}}"#));
    assert_eq!(
        of(r#"{"votes":[1,2,300],"by_day":{}}"#),
        "stats.votes.2: invalid value: integer `300`, expected u8"
    );
    assert_eq!(
        of(r#"{"votes":[],"by_day":{"7":1,"8":null}}"#),
        "stats.by_day.8: invalid type: unit value, expected i8"
    );
    assert!(of(r#"{"votes":[],"by_day":{"monday":1}}"#).starts_with("stats.by_day.monday: "));
    assert_eq!(of(r#"{"votes":[]}"#), "stats: missing field `by_day`");
    assert!(of("[1]").starts_with("stats.0: invalid type: integer"));
    assert!(refusal::<(u8, u8)>("[1,2,3]").contains("invalid length 3"));
    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        #[expect(dead_code, reason = "read alone")]
        a: Option<u8>,
    }
    assert!(refusal::<Strict>(r#"{"a":1,"b":2}"#).contains("unknown field `b`"));
}

#[test]
fn an_error_of_writing_names_the_path_too() {
    struct Refusing;
    impl Serialize for Refusing {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("not today"))
        }
    }
    #[derive(Serialize)]
    struct Outer {
        list: Vec<HashMap<&'static str, Option<Refusing>>>,
    }
    let outer = Outer { list: vec![HashMap::new(), HashMap::from([("key", Some(Refusing))])] };
    let error = Document::from_serialize(&outer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(error.to_string(), "list.1.key: not today");
    // An error leaves the encoder usable.
    let mut encoder = Encoder::new();
    let mut out = vec![7];
    encoder.encode_serialize(&outer, None, &mut out).unwrap_err();
    assert_eq!(out, [7]);
    encoder.encode_serialize(&[1, 2], None, &mut out).unwrap();
    assert_eq!(out[1..], *Document::from_serialize(&[1, 2]).unwrap().as_bytes());
}

#[test]
fn a_long_text_does_not_make_a_long_error() {
    let json = format!(r#"{{"{}":"{}"}}"#, "é".repeat(10_000), "ö".repeat(100_000));
    let error = refusal::<BTreeMap<String, u8>>(&json);
    assert!(error.len() < 500 && error.ends_with(".."), "{error}");
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Nested {
    inner: Option<Box<Nested>>,
}

fn nested(depth: usize) -> Nested {
    let mut value = Nested { inner: None };
    for _ in 1..depth {
        value = Nested { inner: Some(Box::new(value)) };
    }
    value
}

#[test]
fn nesting_beyond_the_limit_is_an_error() {
    comes_back(&nested(DEPTH_MAX));
    let error = Document::from_serialize(&nested(DEPTH_MAX + 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("nested deeper than 512"), "{error}");
    let error = Document::from_serialize(&nested(5 * DEPTH_MAX)).unwrap_err();
    assert!(error.to_string().contains("nested deeper than 512"), "{error}");
    // 600 nested arrays of one element, in bytes that were not validated.
    let mut bytes = vec![0x17, 0x03];
    for depth in 0..600 {
        let body = if depth == 0 { vec![] } else { bytes[1..].to_vec() };
        let mut next = vec![0x10, 1];
        if depth == 0 {
            next.push(0x03);
        } else {
            next.push(0x18);
            next.extend_from_slice(&(body.len() as u32 + 1).to_le_bytes());
            next.push(0);
            next.extend_from_slice(&body);
        }
        bytes = next;
    }
    #[derive(Deserialize, Debug)]
    struct Deep(#[expect(dead_code, reason = "read alone")] Vec<Deep>);
    let error = View::of(&bytes, None).unwrap().to::<Deep>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("at most 512 levels"), "{error}");
    View::of(&bytes, None).unwrap().to::<Value>().unwrap_err();
}

#[test]
fn a_type_that_wraps_itself_without_end_is_an_error() {
    #[derive(Serialize, Deserialize, Debug)]
    struct Endless(Option<Box<Endless>>);
    assert!(refusal::<Endless>("1").contains("without end"));
    assert!(from_json::<Endless>("null").0.is_none());
    let mut value = Endless(None);
    for _ in 0..1000 {
        value = Endless(Some(Box::new(value)));
    }
    assert!(Document::from_serialize(&value).unwrap_err().to_string().contains("without end"));
}

#[test]
fn untagged_enums_may_nest_deep() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    #[serde(untagged)]
    enum Tree {
        Leaf(u8),
        Branch(Vec<Tree>),
    }
    let mut tree = Tree::Leaf(1);
    for _ in 0..100 {
        tree = Tree::Branch(vec![tree]);
    }
    comes_back(&tree);
}

#[derive(Deserialize, Debug)]
#[expect(dead_code, reason = "read alone")]
struct Sample<'a> {
    id: Option<&'a str>,
    score: Option<u8>,
    price: Option<f32>,
    #[serde(borrow)]
    tags: Option<Vec<Tag<'a>>>,
    bytes: Option<&'a [u8]>,
    pairs: Option<HashMap<Value, Value>>,
    ints: Option<(u16, u32, i128)>,
    time: Option<flagstone_doc::DateTime>,
    odd: Option<flagstone_doc::Number>,
}

#[derive(Deserialize, Debug)]
#[expect(dead_code, reason = "read alone")]
#[serde(untagged)]
enum Tag<'a> {
    Text(&'a str),
    Map(BTreeMap<String, f64>),
}

#[derive(Deserialize, Debug)]
#[expect(dead_code, reason = "read alone")]
struct Rest {
    id: String,
    #[serde(flatten)]
    rest: HashMap<String, Value>,
}

#[test]
fn mutated_documents_do_no_harm_to_readers_of_structs() {
    let mut random = Random::new("mutated_documents_do_no_harm_to_readers_of_structs");
    let names = Names::new();
    let samples = samples(&names);
    for sample in &samples {
        let view = View::of(sample, Some(&names)).unwrap();
        let whole = view.to::<Sample<'_>>().unwrap();
        assert_eq!((whole.id, whole.score), (Some("evn2i5p"), Some(7)));
        view.to::<Rest>().unwrap();
    }
    let mut read = 0;
    for round in 0..20_000 {
        let mut bytes = samples[round % 2].clone();
        random.mutate(&mut bytes);
        let Ok(view) = View::of(&bytes, Some(&names)) else { continue };
        read += usize::from(view.to::<Sample<'_>>().is_ok());
        read += usize::from(view.to::<Rest>().is_ok());
        read += usize::from(view.to::<Value>().is_ok());
        let _is_one = view.to::<Option<Nested>>();
    }
    assert!(read > 1000, "some are still documents");
}
