//! `count`: the number of documents.

use super::open;
use crate::args::CountArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn run(args: &CountArgs) -> Result<(), Failure> {
    let database = open::to_read(&args.collection.database)?;
    let count = open::collection(&database, &args.collection)?.count()?;
    let mut output = Output::new();
    output.line(&count.to_string())?;
    output.flush()
}
