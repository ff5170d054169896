//! `aggregate`: the rows of a pipeline.

use super::query::{Asked, RowPrinter};
use crate::args::{AggregateArgs, FormArg};
use crate::failure::Failure;
use crate::interrupt;
use std::io::Read;

pub(super) fn run(args: &AggregateArgs) -> Result<(), Failure> {
    if args.json_mode.extended_json && matches!(args.format, Some(FormArg::Csv | FormArg::Table)) {
        return Err(Failure::Usage("--extended-json is for --format json".to_owned()));
    }
    let text = pipeline(&args.pipeline)?;
    let asked = Asked::open(&args.collection, None, args.memory)?;
    let mut rows = RowPrinter::new(args.format, vec!["_id".to_owned()], args.json_mode.mode());
    let (keys, project) = (false, None);
    rows.begin(keys, project, |visit| {
        for row in asked.documents.aggregate(&text)? {
            interrupt::check()?;
            visit(&row?.root())?;
        }
        Ok(())
    })?;
    for row in asked.documents.aggregate(&text)? {
        interrupt::check()?;
        rows.document(None, &row?.root())?;
    }
    rows.end()
}

/// Returns the text of the pipeline: that of the argument, or what is on stdin.
fn pipeline(text: &str) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    let done = std::io::stdin().lock().read_to_string(&mut read);
    done.map_err(|error| Failure::Io(format!("cannot read the pipeline from stdin: {error}")))?;
    Ok(read)
}
