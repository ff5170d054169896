//! `get`: the document of a key.

use super::open;
use crate::args::GetArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn run(args: &GetArgs) -> Result<(), Failure> {
    let key = open::key_of(&args.key)?;
    let database = open::to_read(&args.key.collection.database)?;
    let collection = open::collection(&database, &args.key.collection)?;
    let document = collection.get(key)?.ok_or_else(|| open::no_document(&args.key))?;
    let mut output = Output::new();
    output.document(&document)?;
    output.flush()
}
