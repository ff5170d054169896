//! `delete`: removes the document of a key, or all that match a filter.

use super::{many, open, query};
use crate::args::DeleteArgs;
use crate::failure::Failure;

pub(super) fn run(args: &DeleteArgs) -> Result<(), Failure> {
    let target = &args.target;
    let key = open::target_key(target)?;
    let filter = target.filter.as_deref().map(query::filter).transpose()?;
    let database = open::to_write(&target.collection.database, None)?;
    let collection = open::collection(&database, &target.collection)?;
    let done = match (&filter, &key) {
        (Some(filter), _) => many::run(&collection.delete_many(filter), "removed"),
        (None, Some(key)) if !collection.remove(key.clone())? => {
            Err(open::no_target(target, &collection))
        }
        (None, _) => Ok(()),
    };
    open::close(database)?;
    done
}
