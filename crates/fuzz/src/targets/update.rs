//! Updates of drivers: one that is refused changes nothing, one that is applied makes a document,
//! and one whose operators set what they say changes nothing the second time.

use super::document::names;
use super::filter::documents;
use super::{bounded, join, note, split};
use flagstone::{Document, Filter};
use flagstone_doc::{DateTime, Value, json, validate};
use flagstone_pipeline::update::{Context, Update};

/// What an update may take: an array may get a million and a half of elements.
const MEMORY: usize = 400 << 20;

/// Operators that have nothing left to do when they were applied.
const ONCE: [&str; 8] =
    ["$set", "$unset", "$min", "$max", "$addToSet", "$pull", "$pullAll", "$setOnInsert"];

/// Reads a document, and JSON of an update: `{"u": .., "filters": [..], "q": {..}}`.
pub(super) fn body(bytes: &[u8]) {
    let Some((document, text)) = split(bytes) else { return };
    let names = names();
    let value = match validate(document, Some(&names)).and_then(|view| view.to_value()) {
        Ok(value @ Value::Map(_)) => value,
        Ok(_) => return note("no map"),
        Err(malformed) => return note(malformed.expected),
    };
    let Ok(asked) = json::parse(text) else { return note("no JSON") };
    let Some(update) = asked.get("u") else { return note("no update") };
    let filters = asked.get("filters").and_then(|filters| filters.as_array()).unwrap_or_default();
    let parsed = match Update::parse(update, filters) {
        Ok(parsed) => parsed,
        Err(error) => return note(text_of(&error.to_string())),
    };
    let context =
        Context { position: Some(1), is_insert: false, now: DateTime::from_micros(1_234_567) };
    let mut new = value.clone();
    let applied = bounded(MEMORY, 1, "an update", || parsed.apply(&mut new, &context));
    match applied {
        Err(error) => {
            assert_eq!(new.to_string(), value.to_string(), "a refused update changes nothing");
            note(text_of(&error.to_string()));
        }
        Ok(is_changed) => {
            assert!(is_changed || new.to_string() == value.to_string(), "{new} was {value}");
            assert!(new.as_map().is_some(), "a document stays a map");
            assert_eq!(new.get("_id").is_some(), value.get("_id").is_some());
            note(is_changed);
            check_stored(&new);
            if filters.is_empty() && is_once(update) {
                let before = new.clone();
                let again = parsed.apply(&mut new, &context);
                assert!(matches!(again, Ok(false)), "{update} again: {again:?}\n{before}\n{new}");
            }
        }
    }
    let filter = asked.get("q").and_then(|q| Filter::from_value(q).ok());
    if let Some(filter) = filter {
        match parsed.upserted(&filter, &Context { position: None, is_insert: true, ..context }) {
            Ok(document) => check_stored(&document),
            Err(error) => note(text_of(&error.to_string())),
        }
    }
}

/// Returns the beginning of a message, which does not quote the input.
fn text_of(text: &str) -> &str {
    text.split([',', '"']).next().unwrap_or_default()
}

/// Asserts that a document is stored and read as the same, unless it is too large or too deep.
fn check_stored(value: &Value) {
    match Document::from_value(value) {
        Ok(document) => assert_eq!(document.to_value(), *value, "it comes back"),
        Err(error) => note(text_of(&error.to_string())),
    }
}

fn is_once(update: &Value) -> bool {
    let Some(map) = update.as_map() else { return false };
    map.iter().all(|(name, _)| name.as_str().is_some_and(|name| ONCE.contains(&name)))
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let documents = documents(&names());
    let updates = [
        r#"{"u":{"$set":{"a.b":1,"x.y.0":[]},"$unset":{"id":1},"$inc":{"score":2}}}"#,
        r#"{"u":{"$push":{"tags":{"$each":["b","a"],"$sort":-1,"$slice":-2,"$position":1}}}}"#,
        r#"{"u":{"$push":{"a":{"$each":[{"b":9}],"$sort":{"b":1,"c.d":-1}}},
            "$mul":{"score":1.5}}}"#,
        r#"{"u":{"$set":{"a.$[k].b":7,"tags.$[]":0}},"filters":[{"k.b":{"$gt":2}}]}"#,
        r#"{"u":{"$set":{"a.$.b":1},"$min":{"score":-9},"$max":{"id":"z"}},"q":{"a.b":3}}"#,
        r#"{"u":{"$pull":{"a":{"b":{"$in":[3,[1,2]]}},"tags":"a"},"$pop":{"x":-1}}}"#,
        r#"{"u":{"$addToSet":{"tags":{"$each":[1,1.0,"a"]}},"$pullAll":{"a":[7,{}]}}}"#,
        r#"{"u":{"$rename":{"id":"new.name","score":"s"},
            "$currentDate":{"t":{"$type":"timestamp"}}}}"#,
        r#"{"u":{"$bit":{"n":{"or":5,"xor":1}},"$setOnInsert":{"first":true}},"q":{"n":4,
            "_id":1}}"#,
        r#"{"u":[{"$set":{"s":{"$concat":["$id","x"]}}},{"$unset":["a","b.c"]},
            {"$replaceWith":"$$ROOT"}]}"#,
        r#"{"u":{"a":1,"b":{"c":[{"d":null}]}},"q":{"_id":5,"$and":[{"k":1}]}}"#,
        r#"{"u":{"$unset":{"a.0":1,"a.1.b":1},"$set":{"a.3":{"$numberDecimal":"1.5"}}}}"#,
    ];
    let pairs = updates
        .iter()
        .flat_map(|update| documents.iter().map(|document| join(document, update.as_bytes())));
    pairs.collect()
}
