//! `collections` lists the collections of a database, `alter` changes how the tables of one are
//! written, `drop` removes one.

use super::open;
use crate::args::{AlterArgs, CollectionsArgs, DropArgs};
use crate::failure::Failure;
use crate::output::Output;
use flagstone::KeyspaceOptions;

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
    let database = open::to_write(&args.collection.database, None)?;
    // Only a collection is altered, no keyspace of a program.
    let known = open::collection(&database, &args.collection).map(drop);
    let altered = known.and_then(|()| Ok(database.alter_keyspace(&args.collection.name, options)?));
    open::close(database)?;
    altered
}

pub(super) fn drop_one(args: &DropArgs) -> Result<(), Failure> {
    let database = open::to_write(&args.collection.database, None)?;
    // Only a collection is dropped, no keyspace of a program.
    let known = open::collection(&database, &args.collection).map(drop);
    let dropped =
        known.and_then(|()| Ok(database.drop_keyspace(&args.collection.name).map(drop)?));
    open::close(database)?;
    dropped
}
