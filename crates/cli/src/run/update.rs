//! `update`: sets fields of a document, all in one change.

use super::open;
use crate::args::UpdateArgs;
use crate::failure::Failure;
use flagstone::Value;

pub(super) fn run(args: &UpdateArgs) -> Result<(), Failure> {
    let key = open::key_of(&args.key)?;
    let changes: Vec<_> = args.changes.iter().map(|text| change(text)).collect::<Result<_, _>>()?;
    let database = open::to_write(&args.key.collection.database, None)?;
    let collection = open::collection(&database, &args.key.collection)?;
    let found = collection.update(key, |document| {
        changes.iter().try_for_each(|(path, value)| document.set(path, value.clone()))
    })?;
    database.close()?;
    if found { Ok(()) } else { Err(open::no_document(&args.key)) }
}

/// `a.b=JSON` as a path and a value.
fn change(text: &str) -> Result<(String, Value), Failure> {
    let Some((path, json)) = text.split_once('=').filter(|(path, _)| !path.is_empty()) else {
        return Err(Failure::Usage(format!("{text:?}: expected PATH=JSON, as in score=7")));
    };
    let value = flagstone::json::parse(json).map_err(|error| {
        let hint = "text needs its quotes, as in name='\"x\"'";
        Failure::Usage(format!("{text:?}: the value: {error}; {hint}"))
    })?;
    Ok((path.to_owned(), value))
}
