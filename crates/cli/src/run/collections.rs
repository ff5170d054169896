//! `collections` lists the collections of a database, `alter` changes how the tables of one are
//! written, `rename` gives one another name, `drop` removes one.

use super::source::{self, Documents, Here, How, Source};
use super::{confirm, lookup, open};
use crate::args::{AlterArgs, CollectionArgs, CollectionsArgs, DropArgs, MemoryArgs, RenameArgs};
use crate::failure::Failure;
use crate::grid;
use crate::output::Output;
use crate::units::{grouped, show_bytes};
use flagstone::{KeyspaceOptions, Value};
use serde_json::Value as Json;

pub(super) fn list(args: &CollectionsArgs) -> Result<(), Failure> {
    let source = source::open(&args.database, How::Read, args.memory)?;
    let mut output = Output::new();
    if args.names {
        source.names()?.iter().try_for_each(|name| output.line(name))?;
        return output.flush();
    }
    let found = source.collections()?;
    if args.json {
        found.iter().try_for_each(|one| output.line(&to_json(one)?.to_string()))?
    } else {
        draw(&found).iter().try_for_each(|line| output.line(line))?
    }
    output.flush()
}

/// Returns a value that has only what JSON has as JSON.
pub(super) fn to_json(value: &Value) -> Result<Json, Failure> {
    let strange = |error| Failure::Io(format!("a value that is no JSON: {error}"));
    serde_json::from_str(&value.to_string()).map_err(strange)
}

fn draw(found: &[Value]) -> Vec<String> {
    let head = ["collection", "documents", "bytes", "indexes", "bytes of indexes"];
    let rows = found.iter().map(|one| {
        let get = |name| match one {
            Value::Map(map) => map.get(name),
            _ => None,
        };
        let number = |name| get(name).and_then(Value::as_i64).map_or(0, i64::cast_unsigned);
        let is_exact = get("documents_exact").and_then(Value::as_bool) == Some(true);
        let about = if is_exact { "" } else { "~" };
        let indexes = number("indexes");
        [
            get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            format!("{about}{}", grouped(number("documents"))),
            show_bytes(number("bytes")),
            grouped(indexes),
            if indexes == 0 { String::new() } else { show_bytes(number("index_bytes")) },
        ]
    });
    let rows: Vec<_> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    grid::aligned(&rows, &[1, 2, 3, 4])
}

pub(super) fn alter(args: &AlterArgs) -> Result<(), Failure> {
    let mut options = KeyspaceOptions::new();
    options.compression = args.compression;
    options.bottom_compression = args.bottom_compression;
    options.bottom_dictionary = args.bottom_dictionary;
    options.block_bytes = args.block_bytes.map(|bytes| bytes.try_into().unwrap_or(usize::MAX));
    options.filter_bits = args.filter_bits;
    let CollectionArgs { database, .. } = &args.collection;
    let instead = "stop the server first, or create the collection with these options";
    source::refuse_url("alter", database, instead)?;
    let database = open::to_write(database, args.memory.memory)?;
    let name = &args.collection.name;
    let known = lookup::collection(&Here(database.clone()), &args.collection);
    let changed = known.and_then(|_| Ok(database.alter_keyspace(name, options)?));
    open::close(database)?;
    changed
}

pub(super) fn rename(args: &RenameArgs) -> Result<(), Failure> {
    change(&args.collection, args.memory, |source, documents| {
        source.rename(&documents.name(), &args.new)
    })
}

pub(super) fn drop_one(args: &DropArgs) -> Result<(), Failure> {
    source::refuse_drop(&args.collection.database, &args.collection.name)?;
    change(&args.collection, args.memory, |source, documents| {
        confirm::drop_one(args.yes, documents)?;
        source.drop_collection(&documents.name())
    })
}

/// Changes a collection, but no keyspace of a program.
fn change(
    args: &CollectionArgs,
    memory: MemoryArgs,
    change: impl FnOnce(&dyn Source, &dyn Documents) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let source = source::open(&args.database, How::Write, memory)?;
    let known = lookup::collection(&*source, args);
    let changed = known.and_then(|documents| change(&*source, &*documents));
    source.close()?;
    changed
}
