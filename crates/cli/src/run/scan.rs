//! `scan`: the documents of a range of keys.

use super::source::{self, How, Range};
use super::{lookup, open};
use crate::args::ScanArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use flagstone::Value;
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
    let range = Range {
        from,
        to,
        prefix: args.prefix.as_deref(),
        reverse: args.reverse,
        limit: args.limit,
    };
    let source = source::open(&args.collection.database, How::Read, args.memory)?;
    let documents = lookup::collection(&*source, &args.collection)?;
    let mut output = Output::in_mode(args.json_mode.mode());
    for entry in documents.scan(&range)? {
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
