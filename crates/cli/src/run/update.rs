//! `update`: changes a document by a patch.

use super::open;
use crate::args::UpdateArgs;
use crate::failure::Failure;
use flagstone::{Patch, Value};

pub(super) fn run(args: &UpdateArgs) -> Result<(), Failure> {
    let key = open::key_of(&args.key)?;
    let patch = patch(args)?;
    let database = open::to_write(&args.key.collection.database, None)?;
    let collection = open::collection(&database, &args.key.collection)?;
    let found = if args.blind {
        collection.patch(key, &patch)?;
        true
    } else {
        collection.apply_patch(key, &patch)?
    };
    open::close(database)?;
    if found { Ok(()) } else { Err(open::no_document(&args.key)) }
}

fn patch(args: &UpdateArgs) -> Result<Patch, Failure> {
    let mut patch = if args.upsert { Patch::new().upsert() } else { Patch::new() };
    for text in &args.changes {
        let (path, value) = change(text)?;
        patch = patch.set(path, value);
    }
    for path in &args.unset {
        patch = patch.unset(path);
    }
    type With = fn(Patch, &str, Value) -> Patch;
    let with_values: [(&[String], With); 5] = [
        (&args.inc, |patch, path, by| patch.inc(path, by)),
        (&args.mul, |patch, path, by| patch.mul(path, by)),
        (&args.push, |patch, path, value| patch.push(path, value)),
        (&args.min, |patch, path, value| patch.min(path, value)),
        (&args.max, |patch, path, value| patch.max(path, value)),
    ];
    let (numbers, others) = with_values.split_at(2);
    for (texts, with) in numbers {
        patch = with_all(patch, texts, *with)?;
    }
    for text in &args.rename {
        let (path, name) = parted(text, "PATH=NAME, as in old=new")?;
        patch = patch.rename(path, name);
    }
    for (texts, with) in others {
        patch = with_all(patch, texts, *with)?;
    }
    Ok(patch)
}

fn with_all(
    patch: Patch,
    texts: &[String],
    with: fn(Patch, &str, Value) -> Patch,
) -> Result<Patch, Failure> {
    texts.iter().try_fold(patch, |patch, text| {
        let (path, value) = change(text)?;
        Ok(with(patch, path, value))
    })
}

/// `a.b=JSON` as a path and a value.
fn change(text: &str) -> Result<(&str, Value), Failure> {
    let (path, json) = parted(text, "PATH=JSON, as in score=7")?;
    let value = flagstone::json::parse(json).map_err(|error| {
        let hint = "text needs its quotes, as in name='\"x\"'";
        Failure::Usage(format!("{text:?}: the value: {error}; {hint}"))
    })?;
    Ok((path, value))
}

fn parted<'a>(text: &'a str, expected: &str) -> Result<(&'a str, &'a str), Failure> {
    let parts = text.split_once('=').filter(|(path, _)| !path.is_empty());
    parts.ok_or_else(|| Failure::Usage(format!("{text:?}: expected {expected}")))
}
