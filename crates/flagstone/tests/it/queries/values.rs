//! Values at paths, for readers of columns: from documents and from entries of indexes, in one part
//! or in several.

use super::model;
use crate::support::{hashed, small};
use flagstone::doc::FieldPath;
use flagstone::internal::{explain_values, value_parts};
use flagstone::query::{ValueRow, Values};
use flagstone::{Collection, Find, Index, Json, Space, Value, doc};
use flagstone_testkit::{Rng, World};

/// The values of one document: `None` where something is missing, or null.
type Row = (Value, Vec<Option<Value>>);

fn paths(texts: &[&str]) -> Vec<FieldPath> {
    texts.iter().map(|text| FieldPath::parse(text).unwrap()).collect()
}

/// Reads all rows, some of them by visits, and counts those that were entries. With `reads_all`
/// reads all documents, one by one.
fn read(values: Values<'_>, texts: &[&str], reads_all: bool) -> (Vec<Row>, usize) {
    let (mut rows, entries) = read_in_order(values, texts, reads_all);
    rows.sort();
    (rows, entries)
}

/// As [`read`], in the order of the query.
fn read_in_order(mut values: Values<'_>, texts: &[&str], reads_all: bool) -> (Vec<Row>, usize) {
    let (mut rows, mut entries) = (Vec::new(), 0);
    while values.advance().unwrap() {
        let key = values.key().unwrap();
        if reads_all {
            assert!(values.read_document().unwrap());
            assert!(matches!(values.row().unwrap(), ValueRow::Document(..)));
        }
        let row = values.row().unwrap();
        entries += usize::from(matches!(row, ValueRow::Entry(_)));
        rows.push(taken(&row, texts));
        assert_eq!(rows.last().unwrap().0, key);
        if reads_all {
            continue;
        }
        // Now and then a few rows, or one that is left as the next.
        let (before, most) = (rows.len(), [usize::MAX, 3, 0, 50][rows.len() % 4]);
        let visited = values.visit_near(most, |row| {
            if rows.len() % 11 == 7 && rows.len() > before {
                return false;
            }
            entries += usize::from(matches!(row, ValueRow::Entry(_)));
            rows.push(taken(&row, texts));
            true
        });
        assert_eq!(visited, rows.len() - before);
        assert!(values.row().is_err(), "a visit leaves no current row");
    }
    (rows, entries)
}

fn taken(row: &ValueRow<'_>, texts: &[&str]) -> Row {
    let shown = |value: Value| Some(value).filter(|value| !value.is_null());
    match row {
        ValueRow::Document(view, key) => {
            let found = texts.iter().map(|text| view.path(text).unwrap());
            let found = found.map(|found| shown(found?.to_value().unwrap()));
            (key.to_value().unwrap(), found.collect())
        }
        ValueRow::Entry(entry) => {
            assert!(entry.get(texts.len()).is_null());
            let value = |at| {
                let value = shown(entry.get(at).to_value().unwrap());
                assert_eq!(entry.get(at).is_null(), value.is_none());
                value
            };
            (entry.key().to_value().unwrap(), (0..texts.len()).map(value).collect())
        }
    }
}

/// Compares the values of a random set of paths with those of a model.
pub(super) fn compare_values<'t>(
    rng: &mut Rng,
    expected: &[(Value, Value)],
    find: &impl Fn() -> Find<'t>,
    context: &str,
) {
    let texts: Vec<&str> = (0..1 + rng.below(3)).map(|_| *rng.pick(&model::PATHS)).collect();
    let context = format!("{context}, values of {texts:?}");
    let value = |document: &Value, text: &str| {
        let mut value = Some(document);
        for name in text.split('.') {
            value = value.and_then(|value| value.as_map()?.get(name));
        }
        value.filter(|value| !value.is_null()).cloned()
    };
    let rows: Vec<Row> = expected
        .iter()
        .map(|(key, document)| {
            (key.clone(), texts.iter().map(|text| value(document, text)).collect())
        })
        .collect();
    let paths = paths(&texts);
    let (found, _) = read(find().values(&paths).unwrap(), &texts, rng.percent(20));
    assert_eq!(found, rows, "{context}");
    let mut found = Vec::new();
    for part in value_parts(&find(), &paths, 1 + rng.below(4) as usize).unwrap() {
        found.extend(read(part.run().unwrap(), &texts, false).0);
    }
    found.sort();
    assert_eq!(found, rows, "{context} in parts");
    for sort in ["$key", "-$key"] {
        let values = find().sort(sort).values(&paths).unwrap();
        let (mut found, _) = read_in_order(values, &texts, rng.percent(20));
        if sort == "-$key" {
            found.reverse();
        }
        assert_eq!(found, rows, "{context} sorted by {sort}");
    }
}

fn fill(collection: &Collection, count: i64) {
    for n in 0..count {
        let document = doc!({"kind": format!("kind {}", n % 7), "n": n, "pad": "x".repeat(20)});
        collection.put(n, &document).unwrap();
    }
}

const TEXTS: [&str; 2] = ["kind", "n"];

#[test]
fn parts_have_all_documents_of_one_moment_once() {
    for (partitions, has_index) in [(1, false), (1, true), (3, false), (3, true)] {
        let world = World::new(1);
        let session = world.open(&small()).unwrap();
        let collection =
            session.db.space("comments").options(hashed(partitions)).collection().unwrap();
        fill(&collection, 70_000);
        if has_index {
            let index = Index::on("kind").then("-n");
            collection.create_index("by_kind", index).unwrap();
        }
        session.db.flush().unwrap();
        session.db.compact().unwrap();
        let paths = paths(&TEXTS);
        let explained = explain_values(&collection.find("{}"), &paths).unwrap().to_string();
        assert_eq!(explained.contains("covers the query"), has_index, "{explained}");
        let whole = read(collection.find("{}").values(&paths).unwrap(), &TEXTS, false);
        assert_eq!((whole.0.len(), whole.1), (70_000, if has_index { 70_000 } else { 0 }));
        for filter in ["{}", r#"{"kind":{"$gte":"kind 3"}}"#, r#"{"$key":{"$lt":60000}}"#] {
            let find = collection.find(filter);
            let expected = read(find.values(&paths).unwrap(), &TEXTS, false);
            let parts = value_parts(&find, &paths, 4).unwrap();
            assert!((2..=4).contains(&parts.len()), "{} parts for {filter}", parts.len());
            // What is written now is not seen, whenever a part begins.
            collection.put(-1, doc!({"kind": "kind 9", "n": 1})).unwrap();
            collection.put(5, doc!({"kind": "kind 9", "n": 1})).unwrap();
            collection.delete(6).unwrap();
            session.db.flush().unwrap();
            let mut found = (Vec::new(), 0);
            for part in parts {
                let (rows, entries) = read(part.run().unwrap(), &TEXTS, false);
                assert!(rows.len() < expected.0.len() * 2 / 3, "{} rows", rows.len());
                found.0.extend(rows);
                found.1 += entries;
            }
            found.0.sort();
            assert!(found == expected, "{filter}");
            collection.put(5, doc!({"kind": "kind 5", "n": 5})).unwrap();
            collection.put(6, doc!({"kind": "kind 6", "n": 6})).unwrap();
            collection.delete(-1).unwrap();
        }
        // Where the order counts, there is one part.
        for find in [collection.find("{}").sort("n"), collection.find("{}").limit(50_000)] {
            assert_eq!(value_parts(&find, &paths, 4).unwrap().len(), 1);
        }
        session.db.close().unwrap();
    }
}

#[test]
fn an_entry_gives_just_the_values_that_it_knows() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("c").options(hashed(1)).collection().unwrap();
    let long = "y".repeat(3000);
    let documents = [
        doc!({"kind": "a", "n": 1}),
        doc!({"n": 1}),
        doc!({"kind": null}),
        doc!({"kind": {"x": 1}, "n": 2.5}),
        doc!({"kind": (long), "n": 7}),
        doc!(7),
        doc!({"kind": true, "n": "text"}),
    ];
    for (key, document) in documents.iter().enumerate() {
        collection.put(key as i64, document).unwrap();
    }
    collection.put(100, Json(r#"{"kind":"b","n":1.10}"#)).unwrap();
    collection.put(101, Json(r#"{"kind":"b","n":-0.0}"#)).unwrap();
    let paths = paths(&TEXTS);
    let scanned = read(collection.find("{}").values(&paths).unwrap(), &TEXTS, false);
    collection.create_index("i", Index::on("-kind").then("n")).unwrap();
    let mut values = collection.find("{}").values(&paths).unwrap();
    let (mut unfaithful, mut documents) = (Vec::new(), Vec::new());
    while values.advance().unwrap() {
        let key = values.key().unwrap();
        match values.row().unwrap() {
            ValueRow::Entry(entry) if !entry.is_faithful() => unfaithful.push(key),
            ValueRow::Entry(_) => {}
            ValueRow::Document(..) => documents.push(key),
        }
    }
    unfaithful.sort();
    assert_eq!(unfaithful, [3.into(), 100.into(), 101.into()], "a map, 1.10 and -0.0");
    assert_eq!(documents, [Value::from(4)], "the long text");
    let covered = read(collection.find("{}").values(&paths).unwrap(), &TEXTS, false);
    assert_eq!((&covered.0, covered.1), (&scanned.0, 8));
    // With an array an entry is no more the only one of its document.
    collection.put(200, doc!({"kind": [1, 2], "n": 1})).unwrap();
    let (rows, entries) = read(collection.find("{}").values(&paths).unwrap(), &TEXTS, false);
    assert_eq!((rows.len(), entries), (10, 0));
}

#[test]
fn a_dropped_index_ends_the_parts_that_have_not_begun() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("c").options(hashed(1)).collection().unwrap();
    fill(&collection, 70_000);
    collection.create_index("i", Index::on("kind").then("n")).unwrap();
    session.db.compact().unwrap();
    let mut parts = value_parts(&collection.find("{}"), &paths(&TEXTS), 3).unwrap();
    assert_eq!(parts.len(), 3);
    collection.drop_index("i").unwrap();
    let failed = parts.remove(0).run().and_then(|mut values| values.advance()).unwrap_err();
    assert_eq!(failed.kind(), flagstone::ErrorKind::InvalidInput, "{failed}");
}
