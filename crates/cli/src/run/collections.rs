//! `collections` lists the collections of a database, `alter` changes how the tables of one are
//! written, `drop` removes one.

use super::open;
use crate::args::{AlterArgs, CollectionArgs, CollectionsArgs, DropArgs};
use crate::failure::Failure;
use crate::output::Output;
use flagstone::{Database, KeyspaceOptions};

pub(super) fn list(args: &CollectionsArgs) -> Result<(), Failure> {
    let database = open::to_read(&args.database)?;
    let mut output = Output::new();
    for name in open::collections(&database) {
        output.line(&name)?;
    }
    output.flush()
}

pub(super) fn alter(args: &AlterArgs) -> Result<(), Failure> {
    let mut options = KeyspaceOptions::new();
    options.compression = args.compression;
    options.bottom_compression = args.bottom_compression;
    options.bottom_dictionary = args.bottom_dictionary;
    options.block_bytes = args.block_bytes.map(|bytes| bytes.try_into().unwrap_or(usize::MAX));
    options.filter_bits = args.filter_bits;
    change(&args.collection, |database, name| database.alter_keyspace(name, options))
}

pub(super) fn drop_one(args: &DropArgs) -> Result<(), Failure> {
    change(&args.collection, |database, name| database.drop_keyspace(name).map(drop))
}

/// Changes a collection, but no keyspace of a program.
fn change(
    args: &CollectionArgs,
    change: impl FnOnce(&Database, &str) -> flagstone::Result<()>,
) -> Result<(), Failure> {
    let database = open::to_write(&args.database, None)?;
    let known = open::collection(&database, args).map(drop);
    let changed = known.and_then(|()| Ok(change(&database, &args.name)?));
    open::close(database)?;
    changed
}
