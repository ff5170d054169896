//! `scan`: the documents of a range of keys.

use super::open;
use crate::args::ScanArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use flagstone::{Prefix, Space, Value};
use std::ops::Bound;

pub(super) fn run(args: &ScanArgs) -> Result<(), Failure> {
    if args.json_key && args.from.is_none() && args.to.is_none() {
        return Err(Failure::Usage("--json-key is for the keys of --from and --to".to_owned()));
    }
    let bound = |key: &Option<String>| -> Result<Option<Value>, Failure> {
        key.as_ref().map(|key| open::key(key, args.json_key, args.json_mode)).transpose()
    };
    let from = bound(&args.from)?.map_or(Bound::Unbounded, Bound::Included);
    let to = bound(&args.to)?.map_or(Bound::Unbounded, Bound::Excluded);
    let database = open::to_read(&args.collection.database, args.memory)?;
    let collection = open::collection(&database, &args.collection)?;
    let scan = match &args.prefix {
        Some(prefix) => collection.scan(Prefix(prefix)),
        None => collection.scan((from, to)),
    };
    let scan = if args.reverse { scan.rev() } else { scan };
    let mut output = Output::in_mode(args.json_mode.mode());
    for entry in scan.take(args.limit.unwrap_or(usize::MAX)) {
        let (key, document) = entry?;
        interrupt::check()?;
        let printed = if args.keys {
            output.entry(&key, &document.root())
        } else {
            output.view(&document.root())
        };
        printed.map_err(|failure| failure.of_document(&key))?;
    }
    output.flush()
}
