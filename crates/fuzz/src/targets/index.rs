//! Definitions of indexes: one that is accepted gives a document the same entries whether the
//! document was there before the index or comes after it.

use super::document::names;
use super::filter::documents;
use super::{join, note, split};
use flagstone::{Collection, Error, ErrorKind, Filter, Index, Options, Space, Value, internal};
use flagstone_doc::{View, validate};
use flagstone_testkit::world::{Session, World};
use std::sync::Mutex;
use std::time::Duration;

/// A new database follows after this many definitions: its manifest has them all.
const RUNS: u32 = 1000;

const UNIQUE: u8 = 1;
const SPARSE: u8 = 2;
/// The last line is the filter of a partial index.
const PARTIAL: u8 = 4;
const EXPIRES: u8 = 8;

/// The database, and how many definitions it has had.
static PLACE: Mutex<Option<(World, Session, u32)>> = Mutex::new(None);

/// Reads a document, a byte of flags and the fields of an index, a line each.
pub(super) fn body(bytes: &[u8]) {
    let Some((document, definition)) = split(bytes) else { return };
    let Some((flags, text)) = definition.split_first() else { return };
    let names = names();
    let value = match validate(document, Some(&names)).and_then(|view: View<'_>| view.to_value()) {
        Ok(value) => value,
        Err(malformed) => return note(malformed.expected),
    };
    let Some(index) = index(*flags, &String::from_utf8_lossy(text)) else { return };
    // A panic leaves no place, so that the next run starts anew.
    let taken = PLACE.lock().unwrap().take();
    let place = taken.filter(|(_, _, runs)| *runs < RUNS);
    let (world, session, runs) = place.unwrap_or_else(|| {
        let world = World::new(7);
        let options = Options::new().memory_budget(1 << 20).compaction_workers(1);
        let session = world.open(&options).unwrap();
        (world, session, 0)
    });
    let collection = session.db.collection("documents").unwrap();
    check(&collection, &index, &value, *flags);
    *PLACE.lock().unwrap() = Some((world, session, runs + 1));
}

/// Returns the index that the text asks for, if its filter is one.
fn index(flags: u8, text: &str) -> Option<Index> {
    let mut lines: Vec<&str> = text.lines().collect();
    let only = if flags & PARTIAL != 0 { lines.pop() } else { None };
    let (first, rest) = lines.split_first()?;
    let mut index = rest.iter().fold(Index::on(*first), |index, field| index.then(*field));
    if flags & UNIQUE != 0 {
        index = index.unique();
    }
    if flags & SPARSE != 0 {
        index = index.sparse();
    }
    if flags & EXPIRES != 0 {
        index = index.expire_after(Duration::from_secs(60));
    }
    match only {
        Some(only) => Filter::parse(only).ok().map(|only| index.only(only)),
        None => Some(index),
    }
}

fn check(collection: &Collection, index: &Index, value: &Value, flags: u8) {
    let refused = |error: &Error| {
        let is_expected = matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Duplicate);
        assert!(is_expected, "{error}");
        // What follows a quotation mark is of the input.
        note(error.to_string().split('"').next().unwrap_or_default());
    };
    collection.clear().unwrap();
    if let Err(error) = collection.put(1, value) {
        return refused(&error);
    }
    if let Err(error) = collection.create_index("i", index.clone()) {
        refused(&error);
        assert!(collection.indexes().iter().all(|one| one.is_ready), "a refused index is left");
        return drop_index(collection);
    }
    collection.create_index("i", index.clone()).expect("the same definition is no other one");
    let entries = || internal::index_entries(collection, "i").unwrap();
    let built: Vec<Vec<Option<Value>>> = entries().into_iter().map(|(values, _)| values).collect();
    note(format_args!("{} fields, {} entries", built.first().map_or(0, Vec::len), built.len()));
    collection.verify_indexes().unwrap();
    match collection.put(2, value) {
        Ok(()) => {
            let written = entries().into_iter().filter(|(_, key)| *key == Value::from(2));
            let written: Vec<Vec<Option<Value>>> = written.map(|(values, _)| values).collect();
            assert_eq!(written, built, "entries of a build and of a put");
            assert!(
                flags & UNIQUE == 0 || built.is_empty(),
                "a unique index has two equal entries"
            );
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Duplicate, "{error}");
            assert!(flags & UNIQUE != 0 && !built.is_empty(), "{error}");
        }
    }
    collection.verify_indexes().unwrap();
    collection.delete(1).unwrap();
    collection.delete(2).unwrap();
    collection.verify_indexes().unwrap();
    assert!(entries().is_empty(), "entries without documents");
    drop_index(collection);
}

fn drop_index(collection: &Collection) {
    collection.drop_index("i").unwrap();
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let definitions: [(u8, &str); 9] = [
        (0, "$.id"),
        (0, "a.b\n-score"),
        (UNIQUE, "tags"),
        (UNIQUE | SPARSE, "lower($.id)\n-length($['field with a long name'])"),
        (PARTIAL, "-$.score\n{\"id\":{\"$gt\":0},\"tags\":{\"$exists\":true}}"),
        (EXPIRES, "time"),
        (EXPIRES | SPARSE, "score"),
        (UNIQUE | PARTIAL, "a.0\nb\nlong\n{\"$or\":[{\"a.b\":1},{\"score\":{\"$lt\":0}}]}"),
        (SPARSE, "-a\nlength(a)\nlower(a)\na.b.c"),
    ];
    let documents = documents(&names());
    let pairs = definitions.iter().flat_map(|(flags, text)| {
        let definition = [&[*flags], text.as_bytes()].concat();
        documents.iter().map(move |document| join(document, &definition)).collect::<Vec<_>>()
    });
    pairs.collect()
}
