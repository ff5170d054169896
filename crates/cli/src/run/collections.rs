//! `collections` lists the collections of a database, `alter` changes how the tables of one are
//! written, `rename` gives one another name, `drop` removes one.

use super::{confirm, open};
use crate::args::{AlterArgs, CollectionArgs, CollectionsArgs, DropArgs, MemoryArgs, RenameArgs};
use crate::failure::Failure;
use crate::grid;
use crate::output::Output;
use crate::units::{grouped, show_bytes};
use flagstone::report::{KeyspaceStats, Stats};
use flagstone::{Collection, Database, KeyspaceOptions, Space};
use serde_json::json;

pub(super) fn list(args: &CollectionsArgs) -> Result<(), Failure> {
    let database = open::to_read(&args.database, args.memory)?;
    let mut output = Output::new();
    let names = open::collections(&database);
    if args.names {
        names.iter().try_for_each(|name| output.line(name))?;
        return output.flush();
    }
    let stats = database.stats();
    let mut found = Vec::new();
    for name in names {
        // A program may have dropped it meanwhile, in a database that is open for writing.
        let Some(collection) = database.space(&name).existing().collection()? else { continue };
        found.push(Listed::of(&stats, name, &collection)?);
    }
    if args.json {
        found.iter().try_for_each(|one| output.line(&one.to_json().to_string()))?
    } else {
        draw(&found).iter().try_for_each(|line| output.line(line))?
    }
    output.flush()
}

/// A collection in the list.
struct Listed {
    name: String,
    documents: u64,
    is_exact: bool,
    bytes: u64,
    indexes: u64,
    index_bytes: u64,
}

/// Up to this many documents are counted, which takes a moment.
const COUNTED: u64 = 10_000;

impl Listed {
    fn of(stats: &Stats, name: String, collection: &Collection) -> Result<Self, Failure> {
        let bytes = |of: &dyn Fn(&KeyspaceStats) -> bool| -> u64 {
            stats.keyspaces.iter().filter(|one| of(one)).map(bytes_of).sum()
        };
        let own = stats.keyspaces.iter().find(|one| one.info.name == name);
        let about = collection.approximate_count();
        let is_counted = own.is_some_and(has_each_key_once);
        let (documents, is_exact) = if is_counted || about > COUNTED {
            (about, is_counted)
        } else {
            (collection.count()?, true)
        };
        Ok(Self {
            documents,
            is_exact,
            bytes: own.map_or(0, bytes_of),
            indexes: collection.indexes().len() as u64,
            index_bytes: bytes(&|one| one.info.owner.as_deref() == Some(&name)),
            name,
        })
    }

    fn to_json(&self) -> serde_json::Value {
        json!({
            "name": self.name,
            "documents": self.documents,
            "documents_exact": self.is_exact,
            "bytes": self.bytes,
            "indexes": self.indexes,
            "index_bytes": self.index_bytes,
        })
    }
}

fn bytes_of(keyspace: &KeyspaceStats) -> u64 {
    keyspace.memtable_bytes + keyspace.levels.iter().map(|level| level.bytes).sum::<u64>()
}

/// Returns whether counters tell the number of keys: all entries are in the deepest level, none of
/// them is a delete, and none expires.
fn has_each_key_once(keyspace: &KeyspaceStats) -> bool {
    let mut levels = keyspace.levels.iter().filter(|level| level.tables > 0);
    let is_one = match (levels.next(), levels.next()) {
        (Some(level), None) => level.level > 0 && level.deletes == 0 && level.expiring == 0,
        _ => false,
    };
    is_one && keyspace.memtable_bytes == 0
}

fn draw(found: &[Listed]) -> Vec<String> {
    let head = ["collection", "documents", "bytes", "indexes", "bytes of indexes"];
    let rows = found.iter().map(|one| {
        let about = if one.is_exact { "" } else { "~" };
        [
            one.name.clone(),
            format!("{about}{}", grouped(one.documents)),
            show_bytes(one.bytes),
            grouped(one.indexes),
            if one.indexes == 0 { String::new() } else { show_bytes(one.index_bytes) },
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
    change(&args.collection, args.memory, |database, collection| {
        Ok(database.alter_keyspace(&collection.name(), options)?)
    })
}

pub(super) fn rename(args: &RenameArgs) -> Result<(), Failure> {
    change(&args.collection, args.memory, |database, collection| {
        Ok(database.rename_keyspace(&collection.name(), &args.new)?)
    })
}

pub(super) fn drop_one(args: &DropArgs) -> Result<(), Failure> {
    change(&args.collection, args.memory, |database, collection| {
        confirm::drop_one(args.yes, collection)?;
        Ok(database.drop_keyspace(&collection.name()).map(drop)?)
    })
}

/// Changes a collection, but no keyspace of a program.
fn change(
    args: &CollectionArgs,
    memory: MemoryArgs,
    change: impl FnOnce(&Database, &Collection) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let database = open::to_write(&args.database, memory.memory)?;
    let known = open::collection(&database, args);
    let changed = known.and_then(|collection| change(&database, &collection));
    open::close(database)?;
    changed
}
