//! `delete`: removes the document of a key, or all that match a filter.

use super::source::{self, Action, Documents, How, Written};
use super::{confirm, lookup, many, open};
use crate::args::DeleteArgs;
use crate::failure::Failure;

pub(super) fn run(args: &DeleteArgs) -> Result<(), Failure> {
    let target = &args.target;
    let key = open::target_key(target)?;
    target.filter.as_deref().map(open::filter).transpose()?;
    let source = source::open(&target.collection.database, How::Write, target.memory)?;
    let documents = lookup::collection(&*source, &target.collection)?;
    let done = match (&target.filter, key) {
        (Some(filter), _) => delete_many(&*documents, filter, target.yes),
        (None, Some(key)) if !documents.remove(&key)? => {
            Err(lookup::no_target(target, &*documents))
        }
        (None, _) => Ok(()),
    };
    source.close()?;
    done
}

fn delete_many(documents: &dyn Documents, text: &str, yes: bool) -> Result<(), Failure> {
    let filter = open::filter(text)?;
    confirm::all(yes, documents, text, "remove them")?;
    let written = Written { text, filter, action: Action::Remove, keeps_going: false };
    many::run(documents, &written, "removed")
}
