//! `get`: the document of a key, a part of it, or its expiry.

use super::open;
use crate::args::GetArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::units::show_moment;

pub(super) fn run(args: &GetArgs) -> Result<(), Failure> {
    let key = open::key_of(&args.key)?;
    let database = open::to_read(&args.key.collection.database)?;
    let collection = open::collection(&database, &args.key.collection)?;
    if let Some(path) = &args.path {
        let Some(found) = collection
            .look(key, |root| root.path(path)?.map(|view| view.to_value()).transpose())?
        else {
            return Err(open::no_document(&args.key));
        };
        let value = found.ok_or_else(|| {
            Failure::NotFound(format!("there is nothing at {path} in document {}", args.key.key))
        })?;
        let mut output = Output::new();
        output.key(&value, true)?;
        return output.flush();
    }
    let document = collection.get(key.clone())?.ok_or_else(|| open::no_document(&args.key))?;
    let mut output = Output::new();
    match args.expires {
        true => output.line(&collection.expiry(key)?.map_or("never".into(), show_moment))?,
        false => output.document(&document)?,
    }
    output.flush()
}
