//! Streams of an index and of several threads equal those that one thread fills from documents.

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use flagstone::admin::Environment;
use flagstone::internal::env::{Clock, ManualClock, MemDisk, SystemClock};
use flagstone::{
    Collection, Database, ErrorKind, Expires, Find, Index, Json, Moment, Space, Value, doc,
};
use flagstone_arrow::{Column, Columns, KeyColumn, Kind, OnMismatch, Stream, StreamOptions};
use std::sync::Arc;
use std::time::Duration;

fn opened(clock: Arc<dyn Clock>) -> Database {
    let disk = Arc::new(MemDisk::default());
    let environment = Environment { disk, clock, ..Environment::default() };
    Database::builder("db").environment(environment).open().unwrap()
}

fn database() -> Database {
    opened(Arc::new(SystemClock::default()))
}

fn options(threads: usize) -> StreamOptions {
    StreamOptions { threads, rows: 1000, on_mismatch: OnMismatch::Null }
}

/// The rows of batches as text, sorted.
fn rows(stream: Stream) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in stream {
        let batch: RecordBatch = batch.unwrap();
        assert!((1..=1000).contains(&batch.num_rows()));
        for row in 0..batch.num_rows() {
            let columns = batch.columns().iter();
            let cells: Vec<_> = columns.map(|cell| format!("{:?}", cell.slice(row, 1))).collect();
            rows.push(cells.join(" "));
        }
    }
    rows.sort();
    rows
}

fn columns(columns: &[(&str, &str, &str)]) -> Columns {
    let column = |(name, path, kind): &(&str, &str, &str)| {
        let column = match *path {
            "$key" => Column::key(*name),
            path => Column::path(*name, path).unwrap(),
        };
        column.of(Kind::parse(kind).unwrap())
    };
    Columns::new(columns.iter().map(column)).unwrap()
}

const NUMBERS: [&str; 20] = [
    "0",
    "-0.0",
    "-0",
    "1",
    "-1",
    "1.0",
    "1.10",
    "0.1",
    "0.30000000000000004",
    "1e3",
    "1e400",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "123456789012345678901234567890.12345",
    "-1e-30",
    "2.5e-320",
    "1.7976931348623157e308",
    "1e22",
];

/// Values of all types, those of which a sort key does not tell all, and what is cut.
fn values() -> Vec<String> {
    let mut values: Vec<String> = NUMBERS.iter().map(|text| (*text).to_owned()).collect();
    values.extend(["null", "true", "false", "{}", r#"{"b":1,"a":2}"#].map(str::to_owned));
    values.extend(["", "a", "a\\u0000b", "\\u0000", "é", "\\\\"].map(|text| format!("\"{text}\"")));
    values.push(format!("\"{}\"", "long".repeat(500)));
    values.push(format!("\"{}\"", "\\u0000".repeat(600)));
    values
}

/// Every pair of values of two fields, some of them missing.
fn fill(collection: &Collection) -> u64 {
    let (values, mut key) = (values(), 0);
    for a in values.iter().map(Some).chain([None]) {
        for b in values.iter().map(Some).chain([None]) {
            let field = |name: &str, value: Option<&String>| {
                value.map(|value| format!("\"{name}\":{value}"))
            };
            let fields: Vec<_> = field("a", a).into_iter().chain(field("b", b)).collect();
            collection.put(key, Json(format!("{{{}}}", fields.join(",")))).unwrap();
            key += 1;
        }
    }
    for value in [Value::Null, 7.into(), "text".into(), Value::Uuid([7; 16])] {
        collection.put(key, &value).unwrap();
        key += 1;
    }
    let at = flagstone::doc::DateTime::from_micros(-1);
    let id = flagstone::doc::ObjectId::from_bytes([9; 12]);
    for value in [at.into(), id.into(), Value::Bytes(vec![0, 255]), Value::Uuid([9; 16])] {
        let mut map = flagstone::doc::Map::new();
        map.insert("a", value.clone());
        map.insert("b", flagstone::doc::Map::new());
        collection.put(key, Value::Map(map)).unwrap();
        // Keys of all types, too.
        collection.put(value, Json(r#"{"a":1}"#)).unwrap();
        key += 1;
    }
    for float in [0.1, -0.0, 1e22, 2.5e-320, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut map = flagstone::doc::Map::new();
        map.insert("a", float);
        collection.put(key, Value::Map(map)).unwrap();
        key += 1;
    }
    collection.count().unwrap()
}

const KINDS: [&str; 14] = [
    "int64",
    "float64",
    "text",
    "bool",
    "json",
    "number",
    "timestamp",
    "bytes",
    "uuid",
    "objectid",
    "decimal(20,2)",
    "decimal(60,5)",
    "list(int64)",
    "list(json)",
];

/// Kinds whose values sort keys do not tell.
const TEXTUAL: [&str; 4] = ["json", "number", "list(int64)", "list(json)"];

#[test]
fn an_index_fills_the_columns_as_the_documents_do() {
    let db = database();
    let documents = db.collection("c").unwrap();
    let count = fill(&documents);
    let paths =
        |a: &str, b: &str| columns(&[("key", "$key", "json"), ("a", "$.a", a), ("b", "b", b)]);
    let read = |columns: &Columns| {
        let find = documents.find("{}");
        rows(Stream::new(columns, &find, options(1)).unwrap())
    };
    let mut expected = Vec::new();
    for a in KINDS {
        for b in KINDS {
            let rows = read(&paths(a, b));
            assert_eq!(rows.len() as u64, count);
            expected.push(rows);
        }
    }
    let is_covered = |columns: &Columns| {
        let explained = Stream::explain(columns, &documents.find("{}")).unwrap().to_string();
        explained.contains("plan: index") && explained.contains("covers the query")
    };
    for index in [Index::on("$.a").then("-$.b"), Index::on("-$.b").then("$.c").then("-$.a")] {
        documents.create_index("i", index).unwrap();
        let mut all = expected.iter();
        for a in KINDS {
            for b in KINDS {
                let columns = paths(a, b);
                let has_keys = ![a, b].iter().any(|kind| TEXTUAL.contains(kind));
                assert_eq!(is_covered(&columns), has_keys, "columns of {a} and {b}");
                assert!(read(&columns) == *all.next().unwrap(), "columns of {a} and {b}");
            }
        }
        // Two columns of one path, and the key alone.
        let twice = columns(&[("x", "$.a", "bytes"), ("y", "a", "float64"), ("z", "$.a", "text")]);
        assert!(is_covered(&twice));
        let covered = read(&twice);
        let key = columns(&[("key", "$key", "json")]);
        assert!(is_covered(&key));
        let keys = read(&key);
        documents.drop_index("i").unwrap();
        assert!(!is_covered(&twice));
        assert!((covered, keys) == (read(&twice), read(&key)));
    }
    documents.create_index("i", Index::on("$.a").then("$.b")).unwrap();
    // What no index has.
    for path in ["$.c", "$.a.b", "$.a[0]", "$"] {
        assert!(!is_covered(&columns(&[("a", "$.a", "text"), ("other", path, "text")])), "{path}");
    }
    // With an array, an entry is not the only one of its document.
    documents.put("array", Json(r#"{"a":[1,2],"b":1}"#)).unwrap();
    let columns = paths("int64", "int64");
    assert!(!is_covered(&columns));
    assert_eq!(read(&columns).len() as u64, count + 1);
}

#[test]
fn an_error_names_key_and_column_and_shows_the_value_of_the_document() {
    let db = database();
    let documents = db.collection("c").unwrap();
    documents.put("first", Json(r#"{"a":1,"b":2}"#)).unwrap();
    documents.put("second", Json(r#"{"a":1,"b":1.50}"#)).unwrap();
    let columns = columns(&[("a", "$.a", "int64"), ("b", "$.b", "int64")]);
    let text = r#"document "second", column b: expected int64, found 1.50"#;
    for index in [None, Some(Index::on("$.a").then("$.b"))] {
        if let Some(index) = index {
            documents.create_index("i", index).unwrap();
        }
        let options = StreamOptions { threads: 1, ..StreamOptions::default() };
        let mut stream = Stream::new(&columns, &documents.find("{}"), options).unwrap();
        let error = stream.next().unwrap().unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert!(stream.next().is_none(), "an error is the end");
    }
}

#[test]
fn what_has_expired_has_no_row() {
    let clock = Arc::new(ManualClock::default());
    let db = opened(Arc::clone(&clock) as Arc<dyn Clock>);
    let documents = db.collection("c").unwrap();
    documents.create_index("i", Index::on("$.a")).unwrap();
    let moment = Moment::since_1970(clock.wall() + Duration::from_secs(1));
    for key in 0..100 {
        let expiry = (key % 2 == 0).then_some(moment);
        documents.put(key, Json(r#"{"a":1.10}"#).expires(expiry)).unwrap();
    }
    let before = documents.find("{}");
    for kind in ["float64", "int64", "json"] {
        let columns = columns(&[("a", "$.a", kind), ("key", "$key", "int64")]);
        assert_eq!(rows(Stream::new(&columns, &before, options(1)).unwrap()).len(), 100);
    }
    clock.advance(Duration::from_secs(2));
    for kind in ["float64", "int64", "json"] {
        let columns = columns(&[("a", "$.a", kind), ("key", "$key", "int64")]);
        assert_eq!(rows(Stream::new(&columns, &before, options(1)).unwrap()).len(), 50);
    }
}

/// Enough documents for several threads; they are in tables, which have samples of keys.
const MANY: i64 = 70_000;

fn many(with_index: bool) -> (Database, Collection) {
    let db = database();
    let documents = db.collection("c").unwrap();
    for key in 0..MANY {
        let json = format!(r#"{{"a":{},"b":"text {}","c":[{key}]}}"#, key % 1000, key % 7);
        documents.put(key, Json(json)).unwrap();
    }
    if with_index {
        documents.create_index("i", Index::on("$.b").then("$.a")).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    (db, documents)
}

fn of_many() -> Columns {
    columns(&[("key", "$key", "int64"), ("a", "$.a", "int64"), ("b", "$.b", "text")])
}

#[test]
fn views_are_the_same_texts() {
    let db = database();
    let documents = db.collection("c").unwrap();
    fill(&documents);
    for n in 0..3_000 {
        let text = "long enough for a buffer ".repeat(n % 5);
        documents.put(format!("view {n:05}"), doc!({"a": text, "b": n as i64})).unwrap();
    }
    let columns = columns(&[("a", "$.a", "text"), ("b", "$.b", "int64"), ("c", "$.c", "json")]);
    let covered = columns.select(&["a", "b"]).unwrap();
    for index in [None, Some(Index::on("$.a").then("$.b")), Some(Index::on("-$.a").then("$.b"))] {
        let has_index = index.is_some();
        if let Some(index) = index {
            documents.create_index("i", index).unwrap();
        }
        for columns in [&columns, &covered] {
            let find = documents.find("{}");
            let views = columns.clone().for_polars();
            let stream = Stream::new(&views, &find, options(1)).unwrap();
            assert_eq!(stream.schema().field(0).data_type(), &DataType::Utf8View);
            // polars has no operations on JSON that is marked.
            let schema = columns.schema();
            let views = stream.schema();
            let others = views.fields().iter().zip(schema.fields()).skip(1);
            for (view, column) in others {
                assert_eq!(view.data_type(), column.data_type());
                assert!(view.metadata().is_empty());
            }
            let views = stream.map(|batch| {
                let batch = batch.unwrap();
                let mut arrays = batch.columns().to_vec();
                let texts: StringArray = arrays[0].as_string_view().iter().collect();
                arrays[0] = Arc::new(texts);
                RecordBatch::try_new(columns.schema(), arrays).unwrap()
            });
            let texts = Stream::new(columns, &find, options(1)).unwrap().map(Result::unwrap);
            assert!(views.eq(texts), "with an index: {has_index}");
        }
        if has_index {
            documents.drop_index("i").unwrap();
        }
    }
}

#[test]
fn several_threads_give_the_rows_that_one_gives() {
    for with_index in [false, true] {
        let (_db, documents) = many(with_index);
        let (columns, json) = (of_many(), columns(&[("c", "$.c", "list(int64)")]));
        for filter in ["{}", r#"{"a":{"$lt":900}}"#, r#"{"b":{"$gte":"text 2"}}"#] {
            let find = documents.find(filter);
            for columns in [&columns, &json] {
                let read = |threads| rows(Stream::new(columns, &find, options(threads)).unwrap());
                let one = read(1);
                assert!(one.len() as i64 > MANY / 2);
                assert!(one == read(2) && one == read(5), "{filter} {with_index}");
            }
        }
        // In the order of a sort, up to a limit.
        let find = documents.find("{}").sort("-a").limit(40_000);
        let first = |threads| Stream::new(&columns, &find, options(threads)).unwrap().next();
        let (one, four) = (first(1).unwrap().unwrap(), first(4).unwrap().unwrap());
        assert_eq!(one, four);
    }
}

#[test]
fn all_threads_see_one_moment() {
    for with_index in [false, true] {
        let (db, documents) = many(with_index);
        let columns = of_many();
        let expected = rows(Stream::new(&columns, &documents.find("{}"), options(1)).unwrap());
        let stream = Stream::new(&columns, &documents.find("{}"), options(3)).unwrap();
        // No batch is taken meanwhile, so most of the documents are read after these writes.
        for key in 0..MANY {
            if key % 3 == 0 {
                documents.put(key, Json(r#"{"a":-1,"b":"text 3"}"#)).unwrap();
            } else if key % 3 == 1 {
                documents.delete(key).unwrap();
            }
        }
        db.flush().unwrap();
        assert!(rows(stream) == expected, "with an index: {with_index}");
    }
}

#[test]
fn a_stream_that_is_dropped_or_fails_ends_its_threads() {
    let (db, documents) = many(false);
    let columns = of_many();
    let find = documents.find("{}");
    drop(Stream::new(&columns, &find, options(4)).unwrap());
    let mut stream = Stream::new(&columns, &find, options(4)).unwrap();
    assert_eq!(stream.next().unwrap().unwrap().num_rows(), 1000);
    // It waits for its threads, which have no work that takes long.
    drop(stream);
    documents.put(MANY / 2, Json(r#"{"a":"no number"}"#)).unwrap();
    let options = StreamOptions { on_mismatch: OnMismatch::Error, ..options(4) };
    let mut stream = Stream::new(&columns, &find, options).unwrap();
    let error = stream.by_ref().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("document 35000, column a"), "{error}");
    assert!(stream.next().is_none(), "an error is the end");
    drop(stream);
    db.close().unwrap();
}

#[test]
fn an_interrupt_ends_a_stream() {
    let (_db, documents) = many(false);
    let (columns, find): (_, Find<'static>) = (of_many(), documents.find("{}"));
    for threads in [1, 4] {
        let mut stream = Stream::new(&columns, &find, options(threads)).unwrap();
        assert!(stream.next().unwrap().is_ok());
        let interrupted =
            flagstone::internal::interruptible(|| true, || stream.find_map(Result::err));
        assert_eq!(interrupted.unwrap().kind(), ErrorKind::Interrupted);
        assert!(stream.next().is_none());
    }
}

#[test]
fn an_index_widens_what_a_sample_has_inferred() {
    let db = database();
    let documents = db.collection("c").unwrap();
    for key in 0..50 {
        let json = format!(r#"{{"id":{key},"a":1,"b":1,"c":"text","d":1,"e":1}}"#);
        documents.put(key, Json(json)).unwrap();
    }
    for (key, json) in [
        r#"{"id":100,"a":0.5}"#,
        r#"{"id":100,"a":-0.5}"#,
        r#"{"id":100,"b":99999999999999999999}"#,
        r#"{"id":100,"c":true}"#,
        r#"{"id":100,"d":null}"#,
        r#"{"id":100,"e":[1]}"#,
    ]
    .iter()
    .enumerate()
    {
        documents.put(100 + key as i64, Json(json)).unwrap();
    }
    let long = "x".repeat(5000);
    documents.put(200, Json(format!(r#"{{"id":101,"c":"{long}"}}"#))).unwrap();
    let names = ["a", "b", "c", "d", "e"];
    let kinds = |filter: &str| {
        // The sample has the order of the query.
        let find = documents.find(filter).sort("id");
        let columns = Columns::new(names.map(|name| Column::path(name, name).unwrap())).unwrap();
        let columns = columns.inferred(&find, 50).unwrap();
        let of_fields = Columns::of_fields(&find, 50, KeyColumn::None).unwrap();
        assert!(columns.kinds().eq(of_fields.kinds().filter(|(name, _)| *name != "id")));
        columns.kinds().map(|(_, kind)| kind.to_string()).collect::<Vec<_>>()
    };
    let sampled = ["int64", "int64", "text", "int64", "int64"];
    assert_eq!(kinds("{}"), sampled);
    for (at, name) in names.iter().enumerate() {
        // Descending is no different, and further fields do not matter.
        let index = if at % 2 == 0 { Index::on(*name) } else { Index::on(format!("-{name}")) };
        documents.create_index(name, index.then("other")).unwrap();
    }
    assert_eq!(kinds("{}"), ["float64", "decimal(20,0)", "json", "int64", "int64"]);
    // Of what a filter leaves out nothing is known.
    assert_eq!(kinds(r#"{"$key":{"$lt":1000}}"#), sampled);
}
