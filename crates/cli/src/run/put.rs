//! `put`: sets the document of a key.

use super::open;
use crate::args::PutArgs;
use crate::failure::Failure;
use crate::units::{Expiry, show_moment};
use flagstone::env::{Clock, SystemClock};
use flagstone::{Database, Document, Durability, EntryOptions, Moment};
use std::io::Read;

pub(super) fn run(args: &PutArgs) -> Result<(), Failure> {
    let key = open::key_of(&args.key)?;
    let json = match &args.json {
        Some(json) => json.clone().into_bytes(),
        None => stdin()?,
    };
    // Parsed before anything is created, so that bad JSON leaves no empty database.
    let document = Document::from_json(&json)
        .map_err(|error| Failure::Usage(format!("the document: {error}")))?;
    if let Some(Expiry::At(moment)) = args.expires
        && moment <= Moment::since_1970(SystemClock::default().wall())
    {
        let moment = show_moment(moment);
        return Err(Failure::Usage(format!("--expires {moment}: this moment has passed")));
    }
    let database = open::or_make(&args.key.collection.database, None, Durability::default())?;
    let collection = database.collection(&args.key.collection.name)?;
    collection.put_with(key, &document, options(&database, args.expires))?;
    Ok(database.close()?)
}

fn options(database: &Database, expires: Option<Expiry>) -> EntryOptions {
    match expires {
        None => EntryOptions::new(),
        Some(Expiry::After(duration)) => {
            EntryOptions::new().expires(database.now().after(duration))
        }
        Some(Expiry::At(moment)) => EntryOptions::new().expires(moment),
    }
}

fn stdin() -> Result<Vec<u8>, Failure> {
    let mut json = Vec::new();
    // One byte more than a document may have, so that the parser refuses longer ones.
    let limit = flagstone::JsonOptions::default().bytes_max as u64 + 1;
    std::io::stdin()
        .take(limit)
        .read_to_end(&mut json)
        .map_err(|error| Failure::Io(format!("cannot read stdin: {error}")))?;
    Ok(json)
}
