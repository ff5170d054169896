//! `count`: the number of documents.

use super::query::Asked;
use crate::args::CountArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn run(args: &CountArgs) -> Result<(), Failure> {
    let asked = Asked::open(&args.collection, args.filter.as_deref(), args.memory)?;
    let count = match &args.filter {
        Some(_) => asked.documents.count(Some(&asked.query()))?,
        None => asked.documents.count(None)?,
    };
    let mut output = Output::new();
    output.line(&count.to_string())?;
    output.flush()
}
