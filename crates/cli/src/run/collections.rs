//! `collections` lists the collections of a database, `drop` removes one.

use super::open;
use crate::args::{CollectionsArgs, DropArgs};
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn list(args: &CollectionsArgs) -> Result<(), Failure> {
    let database = open::to_read(&args.database)?;
    let mut output = Output::new();
    for name in open::collections(&database) {
        output.line(&name)?;
    }
    output.flush()
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
