//! Filters: what is parsed prints and parses again, and a match has a key in the bounds.

use super::document::{names, value};
use super::{bounded, join, note, split};
use flagstone_doc::{
    Arrays, Direction, Encoder, Filter, IndexKeys, Names, Value, View, doc, sort_key, validate,
};

/// Reads a document and the text of a filter.
pub(super) fn body(bytes: &[u8]) {
    let Some((document, text)) = split(bytes) else { return };
    let text = String::from_utf8_lossy(text);
    let filter = match Filter::parse(&text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(error.offset.is_some_and(|offset| offset <= text.len()), "{error}");
            // What follows a parenthesis quotes the text.
            return note(error.expected.split('(').next().unwrap_or_default());
        }
    };
    let printed = filter.to_string();
    let again = Filter::parse(&printed).expect("a printed filter is one");
    assert_eq!(again.to_string(), printed, "the text is stable");
    assert!(filter.implies(&again), "a filter implies itself");
    let names = names();
    let Ok(view) = View::of(document, Some(&names)) else { return note("no document") };
    let matcher = filter.compile_with_key().expect("a parsed filter has no error");
    let key = [sort_key::NULL];
    let matches = bounded(document.len(), 600, "a match", || matcher.matches_with_key(&view, &key));
    let again = again.compile_with_key().expect("nor a printed one");
    let others = again.matches_with_key(&view, &key);
    assert_eq!(matches.is_ok(), others.is_ok(), "{printed}");
    note(format_args!("{matches:?} {}", filter.paths().len()));
    if validate(document, Some(&names)).is_ok() {
        let matches = matches.expect("a valid document is read");
        assert_eq!(Ok(matches), others, "{printed}");
        check_bounds(&filter, &view, matches);
    }
}

/// Asserts that a document that matches has a key in the bounds of every path.
fn check_bounds(filter: &Filter, view: &View<'_>, matches: bool) {
    let mut keys = IndexKeys::new();
    let paths = filter.paths();
    // The document has no key of its own.
    for path in paths.iter().filter(|path| !path.is_primary_key()).take(4) {
        keys.collect(path, view).expect("a valid document is read");
        for arrays in [keys.arrays(), Arrays::ANY] {
            let bounds = filter.bounds(path, arrays);
            let is_inside = keys.iter().any(|key| {
                bounds.intervals().iter().any(|interval| {
                    let (from, to) = interval.bytes(Direction::Ascending);
                    *from <= *key && to.is_none_or(|to| *key < *to)
                })
            });
            assert!(is_inside || !matches, "{filter} has no key of {path} in {bounds:?}");
            assert!(!bounds.is_whole() || is_inside == matches, "{filter} by {path}: {bounds:?}");
        }
    }
}

/// Returns documents to ask, in the binary form.
pub(super) fn documents(names: &Names) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new();
    let nested = doc!({"id": 1, "a": [{"b": [1, 2]}, {"b": 3}, {}, 7], "score": (-7), "tags": []});
    let encoded = |value: &Value| {
        let mut bytes = Vec::new();
        encoder.encode(value, Some(names), &mut bytes).unwrap();
        bytes
    };
    [value(), nested].iter().map(encoded).collect()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let documents = documents(&names());
    let filters = [
        r#"{"id":"evn2i5p","score":{"$gte":1,"$lt":10.5}}"#,
        r#"{"$or":[{"tags":{"$all":["a","b"]}},{"a.b":{"$in":[1,"x",null,[2]]}}],"n":null}"#,
        r#"{"a":{"$elemMatch":{"b":{"$gt":1},"$nor":[{"c":{"$exists":true}}]}}}"#,
        r#"{"$key":{"$gte":1,"$size":2},"$or":[{"id":1},{"$key":{"$ne":null}}]}"#,
        r#"{"a.b":{"$not":{"$size":2,"$elemMatch":{"$gt":1,"$ne":5}}},"$.a[0]":{"$type":"map"}}"#,
        r#"{"long":{"$prefix":"xx","$contains":"x","$regex":"^x+$","$options":"i"}}"#,
        r#"{"odd":{"$gt":1e399},"big":{"$mod":[7,3]},"time":{"$date":{"$micros":5}}}"#,
        r#"{"oid":{"$oid":"090909090909090909090909"},"a":{"$type":"objectId"}}"#,
        r#"{"bytes":{"$binary":"AQI="},"uuid":{"$uuid":"09090909-0909-0909-0909-090909090909"}}"#,
        r#"{"$comment":1,"id":{"$in":[{"$regularExpression":{"pattern":"e","options":"u"}},1]}}"#,
        r#"{"score":{"$bitsAllSet":[0,3],"$type":["int",18]},"bytes":{"$bitsAnyClear":6}}"#,
        r#"{"a":{"$all":[{"$elemMatch":{"b":1}},{"x":1}]},"n":{"$lt":{"$maxKey":1}}}"#,
        r#"{"a":{"$lt":[{"b":[1,3]}]},"pairs":{"$eq":{"$pairs":[[1,"one"]]}},"$nor":[{}]}"#,
    ];
    let pairs = filters
        .iter()
        .flat_map(|filter| documents.iter().map(|document| join(document, filter.as_bytes())));
    pairs.collect()
}
