//! Random Rust values and document values read back unchanged.

use super::comes_back;
use crate::random::{check, value};
use flagstone_doc::{DateTime, Document, Encoder, Names, Number, Value};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Record {
    id: u64,
    wide: i128,
    ratio: f32,
    name: String,
    time: DateTime,
    price: Number,
    any: Value,
    kind: Kind,
    by_number: BTreeMap<i64, Option<bool>>,
    by_name: BTreeMap<String, Vec<Kind>>,
    inner: Option<Box<Record>>,
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
enum Kind {
    Plain,
    Text(String),
    Pair(i8, char),
    Named { x: Option<u16>, bytes: Vec<u8> },
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Plain),
        ".{0,5}".prop_map(Kind::Text),
        any::<(i8, char)>().prop_map(|(a, b)| Kind::Pair(a, b)),
        (option::of(any::<u16>()), vec(any::<u8>(), 0..5))
            .prop_map(|(x, bytes)| Kind::Named { x, bytes }),
    ]
}

fn flat() -> impl Strategy<Value = Record> {
    let scalars = (any::<u64>(), any::<i128>(), any::<f32>(), ".{0,9}", any::<i64>());
    let exact = "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?(e[0-9]{1,3})?";
    let maps = (
        btree_map(any::<i64>(), option::of(any::<bool>()), 0..5),
        btree_map(".{0,4}", vec(kind(), 0..3), 0..5),
    );
    (scalars, exact, value(), kind(), maps).prop_map(|(scalars, exact, any, kind, maps)| {
        let (id, wide, ratio, name, micros) = scalars;
        let price = Number::parse(&exact).unwrap();
        let (by_number, by_name) = maps;
        let time = DateTime::from_micros(micros);
        Record { id, wide, ratio, name, time, price, any, kind, by_number, by_name, inner: None }
    })
}

#[test]
fn structs_come_back_from_documents() {
    let records = vec(flat(), 1..4).prop_map(|records| {
        let around = |inner, record| Some(Box::new(Record { inner, ..record }));
        *records.into_iter().fold(None, around).unwrap()
    });
    check("structs_come_back_from_documents", &records, 400, |record| {
        let document = comes_back(&record);
        let back: Record = document.to().unwrap();
        assert_eq!(back.price.as_str(), record.price.as_str());
    });
}

#[test]
fn document_values_have_the_same_bytes_by_serde() {
    check("document_values_have_the_same_bytes_by_serde", &value(), 1500, |value| {
        let (names, mut encoder) = (Names::new(), Encoder::new());
        let (mut direct, mut by_serde) = (Vec::new(), Vec::new());
        encoder.encode(&value, Some(&names), &mut direct).unwrap();
        encoder.encode_serialize(&value, Some(&names), &mut by_serde).unwrap();
        assert_eq!(direct, by_serde);
        let document = Document::from_value(&value).unwrap();
        let back: Value = document.to().unwrap();
        assert_eq!(back, value);
        assert_eq!(Document::from_value(&back).unwrap().as_bytes(), document.as_bytes());
    });
}
