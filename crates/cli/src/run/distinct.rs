//! `distinct`: the distinct values at a path.

use super::query::Asked;
use crate::args::DistinctArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;

pub(super) fn run(args: &DistinctArgs) -> Result<(), Failure> {
    let asked = Asked::open(&args.collection, args.filter.as_deref(), args.memory)?;
    let find = asked.find_with(None, args.limit, None);
    let mut output = Output::in_mode(args.json_mode.mode());
    for value in find.distinct(&args.path)? {
        interrupt::check()?;
        output.key(&value?, true)?;
    }
    output.flush()
}
