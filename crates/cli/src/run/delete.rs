//! `delete`: removes the document of a key.

use super::open;
use crate::args::DeleteArgs;
use crate::failure::Failure;

pub(super) fn run(args: &DeleteArgs) -> Result<(), Failure> {
    let key = open::key_of(&args.key)?;
    let database = open::to_write(&args.key.collection.database, None)?;
    let collection = open::collection(&database, &args.key.collection)?;
    let was_there = collection.remove(key)?;
    open::close(database)?;
    if was_there { Ok(()) } else { Err(open::no_document(&args.key)) }
}
