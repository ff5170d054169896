//! `delete`: removes the document of a key, or all that match a filter.

use super::{confirm, many, open, query};
use crate::args::DeleteArgs;
use crate::failure::Failure;
use flagstone::{Collection, Space};

pub(super) fn run(args: &DeleteArgs) -> Result<(), Failure> {
    let target = &args.target;
    let key = open::target_key(target)?;
    target.filter.as_deref().map(query::filter).transpose()?;
    let database = open::to_write(&target.collection.database, target.memory.memory)?;
    let collection = open::collection(&database, &target.collection)?;
    let done = match (&target.filter, key) {
        (Some(filter), _) => delete_many(&collection, filter, target.yes),
        (None, Some(key)) if !collection.remove(key.clone())? => {
            Err(open::no_target(target, &collection))
        }
        (None, _) => Ok(()),
    };
    open::close(database)?;
    done
}

fn delete_many(collection: &Collection, text: &str, yes: bool) -> Result<(), Failure> {
    let filter = query::filter(text)?;
    confirm::all(yes, collection, text, "remove them")?;
    many::run(&collection.delete_many(filter), "removed")
}
