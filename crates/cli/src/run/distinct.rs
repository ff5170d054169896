//! `distinct`: the distinct values at a path.

use super::query::Asked;
use super::source::Query;
use crate::args::DistinctArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;

pub(super) fn run(args: &DistinctArgs) -> Result<(), Failure> {
    let asked = Asked::open(&args.collection, args.filter.as_deref(), args.memory)?;
    let query = Query { limit: args.limit, ..asked.query() };
    let mut output = Output::in_mode(args.json_mode.mode());
    for value in asked.documents.distinct(&query, &args.path)? {
        interrupt::check()?;
        output.value(&value?)?;
    }
    output.flush()
}
