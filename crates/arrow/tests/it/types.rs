//! The types that a sample gives hold the sample, and no value is lost on the way to its column.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef};
use flagstone::admin::Environment;
use flagstone::doc::{DateTime, Map, ObjectId};
use flagstone::internal::env::MemDisk;
use flagstone::query::Hint;
use flagstone::{Collection, Database, Index, Json, Space, Value, doc};
use flagstone_arrow::{Column, Columns, KeyColumn, Kind, OnMismatch, Stream, StreamOptions};
use std::sync::Arc;

fn collection() -> (Database, Collection) {
    let environment = Environment { disk: Arc::new(MemDisk::default()), ..Environment::default() };
    let database = Database::builder("db").environment(environment).open().unwrap();
    let collection = database.collection("c").unwrap();
    (database, collection)
}

/// The column of one field, with the type that is given or inferred from `sample` documents.
fn column(c: &Collection, kind: Option<&str>, sample: usize) -> Columns {
    let column = Column::field("m");
    let column = match kind {
        Some(kind) => column.of(Kind::parse(kind).unwrap()),
        None => column,
    };
    Columns::new([column]).unwrap().inferred(&c.find("{}"), sample).unwrap()
}

/// The values of a column of one batch, or the error.
fn read(c: &Collection, columns: &Columns, on_mismatch: OnMismatch) -> Result<ArrayRef, String> {
    let options = StreamOptions { on_mismatch, threads: 1, ..StreamOptions::default() };
    let mut stream = Stream::new(columns, &c.find("{}"), options).unwrap();
    let batch = stream.next().unwrap().map_err(|error| error.to_string())?;
    Ok(Arc::clone(batch.column(0)))
}

/// Fields that the type lacks were left out without a word.
#[test]
fn a_field_that_a_struct_lacks_does_not_fit() {
    let (_database, c) = collection();
    for n in 0..15 {
        c.put(n, Json(r#"{"m":{"x":1}}"#)).unwrap();
    }
    c.put(15, Json(r#"{"m":{"x":1,"y":[2]}}"#)).unwrap();
    let columns = column(&c, None, 10);
    assert_eq!(columns.kinds().next().unwrap().1.to_string(), "struct(x: int64)");
    let error = read(&c, &columns, OnMismatch::Error).unwrap_err();
    let text = "document 15, column m: expected a struct without the field y, found [2]; a larger";
    assert!(error.contains(text), "{error}");
    let found = read(&c, &columns, OnMismatch::Null).unwrap();
    assert_eq!((found.len(), found.null_count()), (16, 1));
    let x = found.as_struct().column(0);
    assert!(found.is_null(15) && x.is_null(15) && x.null_count() == 1);
    // What the whole sample has is held.
    assert!(read(&c, &column(&c, None, 16), OnMismatch::Error).is_ok());
}

#[test]
fn a_struct_in_a_list_or_a_struct_refuses_other_fields_too() {
    let (_database, c) = collection();
    c.put(1, Json(r#"{"m":[{"x":{"a":1}},{"x":{"a":1,"b":2}}]}"#)).unwrap();
    let columns = column(&c, Some("list(struct(x: struct(a: int64)))"), 0);
    let error = read(&c, &columns, OnMismatch::Error).unwrap_err();
    assert!(error.contains("expected [1]: x: a struct without the field b, found 2"), "{error}");
    let found = read(&c, &columns, OnMismatch::Null).unwrap();
    let items = found.as_list::<i32>().value(0);
    let x = items.as_struct().column(0);
    assert_eq!((found.null_count(), items.null_count()), (0, 0));
    assert_eq!((x.is_null(0), x.is_null(1)), (false, true));
}

#[test]
fn a_key_that_is_no_name_does_not_fit_a_struct_and_a_null_loses_nothing() {
    let (_database, c) = collection();
    c.put(1, Json(r#"{"m":{"x":1,"y":null}}"#)).unwrap();
    let columns = column(&c, Some("struct(x: int64)"), 0);
    assert!(read(&c, &columns, OnMismatch::Error).is_ok());
    let inner: Map = [(Value::from("x"), Value::from(1)), (Value::from(7), Value::from(2))]
        .into_iter()
        .collect();
    let mut map = Map::new();
    map.insert("m", Value::Map(inner));
    c.put(2, Value::Map(map)).unwrap();
    let error = read(&c, &columns, OnMismatch::Error).unwrap_err();
    assert!(error.ends_with("expected a struct without the key 7, found 2"), "{error}");
    assert_eq!(read(&c, &columns, OnMismatch::Null).unwrap().null_count(), 1);
}

/// Times of JSON are text, which a column of timestamps refused.
#[test]
fn a_column_of_timestamps_takes_text_of_times() {
    let (_database, c) = collection();
    let times = [
        ("2001-01-01T00:00:00Z", 978_307_200_000_000),
        ("2001-01-01t02:00:00.123456789+02:00", 978_307_200_123_456),
        ("2016-12-31 23:59:60z", 1_483_228_800_000_000),
        ("1969-12-31T23:59:59.9999999-00:00", -1),
    ];
    for (n, (text, _)) in times.iter().enumerate() {
        c.put(n as i64, doc!({ "m": (*text) })).unwrap();
    }
    c.put(4, doc!({ "m": (DateTime::from_micros(5)) })).unwrap();
    let columns = column(&c, Some("timestamp"), 0);
    let micros = |found: &ArrayRef| {
        let values = found.as_primitive::<TimestampMicrosecondType>().iter().flatten();
        values.collect::<std::collections::BTreeSet<_>>()
    };
    let expected = times.iter().map(|(_, micros)| *micros).chain([5]).collect();
    assert_eq!(micros(&read(&c, &columns, OnMismatch::Error).unwrap()), expected);
    // The same from the entries of an index.
    c.create_index("m", Index::on("$.m")).unwrap();
    let find = c.find(r#"{"m":{"$ne":null}}"#).hint(Hint::index("m")).project("m");
    let options = StreamOptions { threads: 1, ..StreamOptions::default() };
    let batches = Stream::new(&columns, &find, options).unwrap();
    let found = batches.flat_map(|batch| micros(batch.unwrap().column(0)));
    assert_eq!(found.collect::<std::collections::BTreeSet<_>>(), expected);
    // Other text does not fit.
    c.put(5, doc!({ "m": "2001-02-30T00:00:00Z" })).unwrap();
    let error = read(&c, &columns, OnMismatch::Error).unwrap_err();
    assert!(error.contains("column m: expected timestamp, found \"2001-02-30"), "{error}");
    assert_eq!(read(&c, &columns, OnMismatch::Null).unwrap().null_count(), 1);
}

#[test]
fn what_json_lacks_has_a_form_in_a_column_of_json() {
    let (_database, c) = collection();
    let odd: Map = [(Value::from(7), Value::Float(f64::NEG_INFINITY))].into_iter().collect();
    let values = [
        (Value::Float(f64::NAN), r#"{"$numberDouble":"NaN"}"#),
        (Value::Map(odd), r#"{"$pairs":[[7,{"$numberDouble":"-Infinity"}]]}"#),
        (DateTime::from_micros(i64::MAX).into(), r#"{"$date":{"$micros":9223372036854775807}}"#),
        (DateTime::from_micros(0).into(), r#""1970-01-01T00:00:00Z""#),
        (Value::Array(vec![Value::Float(0.5)]), "[0.5]"),
    ];
    for (n, (value, _)) in values.iter().enumerate() {
        let mut map = Map::new();
        map.insert("m", value.clone());
        c.put(n as i64, Value::Map(map)).unwrap();
    }
    let columns = column(&c, None, 10);
    assert_eq!(columns.kinds().next().unwrap().1, Kind::Json);
    let found = read(&c, &columns, OnMismatch::Error).unwrap();
    let texts: Vec<_> = found.as_string::<i32>().iter().flatten().collect();
    assert_eq!(texts, values.map(|(_, text)| text));
}

/// A value of any type, with parts of any type.
fn value(draw: &mut impl FnMut(usize) -> usize, depth: usize) -> Value {
    const NUMBERS: [&str; 9] =
        ["1.10", "1e400", "-0.0", "3e0", "9007199254740993", "1e-40", "1e37", "0.1", "1e60"];
    const FLOATS: [f64; 5] = [f64::NAN, f64::INFINITY, -0.0, 0.5, 1e300];
    match draw(if depth == 0 { 10 } else { 12 }) {
        0 => Value::Null,
        1 => Value::Bool(draw(2) == 0),
        2 => Value::Int([0, -1, i64::MAX, i64::MIN][draw(4)]),
        3 => Value::number(NUMBERS[draw(9)]).unwrap(),
        4 => Value::Float(FLOATS[draw(5)]),
        5 => Value::from(["", "a", "\u{0}é"][draw(3)]),
        6 => Value::Bytes(vec![255; draw(3)]),
        7 => DateTime::from_micros([0, i64::MIN, i64::MAX][draw(3)]).into(),
        8 => Value::Uuid([7; 16]),
        9 => ObjectId::from_bytes([7; 12]).into(),
        10 => Value::Array((0..draw(4)).map(|_| value(draw, depth - 1)).collect()),
        _ => {
            let mut map = Map::new();
            for _ in 0..draw(4) {
                match draw(8) {
                    0 => map.insert(value(draw, 0), value(draw, depth - 1)),
                    name => map.insert(["x", "y", "z"][name % 3], value(draw, depth - 1)),
                };
            }
            Value::Map(map)
        }
    }
}

/// The default must not fail on documents that the engine stores.
#[test]
fn the_types_of_a_sample_hold_the_sample() {
    let mut state = 19_u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let (_database, c) = collection();
    for round in 0..1_500 {
        c.delete_many("{}").run().unwrap();
        for _ in 0..1 + draw(4) {
            let mut document = Map::new();
            for name in ["m", "n"] {
                // Values of one type are more often in a column of that type.
                document.insert(name, value(&mut draw, round % 4));
            }
            let key = match draw(3) {
                0 => Value::Float(f64::NAN),
                1 => "k".into(),
                _ => Value::Int(draw(9) as i64),
            };
            c.put(key, Value::Map(document)).unwrap();
        }
        let columns = Columns::of_fields(&c.find("{}"), 10, KeyColumn::Named("key")).unwrap();
        let types: Vec<_> = columns.kinds().map(|(_, kind)| kind.to_string()).collect();
        let options = StreamOptions { threads: 1, ..StreamOptions::default() };
        for batch in Stream::new(&columns, &c.find("{}"), options).unwrap() {
            assert!(batch.is_ok(), "round {round}: {types:?}: {batch:?}");
        }
    }
}

fn of_fields(c: &Collection, sample: usize) -> Columns {
    Columns::of_fields(&c.find("{}"), sample, KeyColumn::Free("key")).unwrap()
}

fn read_all(c: &Collection, columns: &Columns) -> Result<usize, String> {
    let options = StreamOptions { threads: 1, ..StreamOptions::default() };
    let stream = Stream::new(columns, &c.find("{}"), options).unwrap();
    let rows = stream.map(|batch| Ok(batch.map_err(|error| error.to_string())?.num_rows()));
    rows.sum()
}

/// A field that the sample had not shown was left out without a word.
#[test]
fn a_document_with_a_field_that_no_column_has_does_not_fit() {
    let (_database, c) = collection();
    for n in 0..15 {
        c.put(n, Json(r#"{"a":1,"b":null}"#)).unwrap();
    }
    // A null is as one that is missing, and so are fields that others have.
    for (n, json) in [(15, r#"{"a":2,"c":null}"#), (16, "{}"), (17, r#"{"b":[1]}"#)] {
        c.put(n, Json(json)).unwrap();
    }
    assert_eq!(read_all(&c, &of_fields(&c, 10)), Ok(18));
    for (json, text) in [
        (r#"{"a":3,"c":4}"#, "expected a document without the field c, found 4; a larger sample"),
        (r#"{"c":{"x":1},"b":1,"a":5}"#, "without the field c, found {\"x\":1}; a larger sample"),
        ("5", "expected a map, found 5"),
        ("[1,2,3]", "expected a map, found [1,2,3]"),
        ("[]", "expected a map, found []"),
    ] {
        c.put(18, Json(json)).unwrap();
        let sampled = of_fields(&c, 10);
        let error = read_all(&c, &sampled).unwrap_err();
        assert!(error.starts_with("document 18: ") && error.contains(text), "{json}: {error}");
        assert_eq!(read_all(&c, &of_fields(&c, usize::MAX)), Ok(19), "{json}");
        // Who chooses columns has chosen.
        assert_eq!(read_all(&c, &sampled.select(&["a", "key"]).unwrap()), Ok(19));
        let reordered = sampled.select(&["b", "a", "key"]).unwrap();
        assert!(read_all(&c, &reordered).is_err());
    }
    // An index of all fields does not say which others there are.
    c.put(18, Json(r#"{"a":3,"b":1,"c":4}"#)).unwrap();
    c.create_index("i", Index::on("a").then("b")).unwrap();
    assert!(read_all(&c, &of_fields(&c, 10)).is_err());
}

#[test]
fn names_that_arrow_cannot_carry_are_refused_or_inside_of_json() {
    let (_database, c) = collection();
    c.put(1, Json(r#"{"m":{"x\u0000":[1]},"l":[{"a":1}]}"#)).unwrap();
    let kinds: Vec<_> = of_fields(&c, 10).kinds().map(|(_, kind)| kind.to_string()).collect();
    assert_eq!(kinds, ["int64", "json", "list(struct(a: int64))"]);
    c.put(2, Json(r#"{"a\u0000b":1}"#)).unwrap();
    let refused = Columns::of_fields(&c.find("{}"), 10, KeyColumn::None).err().unwrap();
    assert!(refused.to_string().contains(r#"the name "a\0b" has the character U+0000"#));
    let kind = Kind::parse(r#"list(struct(x: struct("\u0000": int64)))"#).unwrap();
    let column = Column::field("m").of(kind);
    assert!(Columns::new([column]).err().unwrap().to_string().contains("U+0000"));
}

#[test]
fn lists_beyond_a_depth_that_all_packages_read_are_json() {
    let (_database, c) = collection();
    for (depth, is_json) in [(31, false), (32, false), (33, true), (120, true)] {
        let json = format!(r#"{{"m":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
        c.put(1, Json(&json)).unwrap();
        let columns = column(&c, None, 10);
        let kind = columns.kinds().next().unwrap().1;
        assert_eq!(kind.to_string().contains("json"), is_json, "{depth}: {kind}");
        assert_eq!(read_all(&c, &columns), Ok(1));
    }
}
