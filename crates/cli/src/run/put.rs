//! `put`: sets the document of a key.

use super::source::{self, How};
use super::{expiry, open};
use crate::args::{CollectionArgs, PutArgs};
use crate::failure::Failure;
use flagstone::Document;
use flagstone::doc::JsonOptions;
use std::io::Read;

pub(super) fn run(args: &PutArgs) -> Result<(), Failure> {
    let key = open::key_of(&args.key)?;
    let json = match &args.json {
        Some(json) => json.clone().into_bytes(),
        None => stdin()?,
    };
    // Parsed before anything is created, so that bad JSON leaves no empty database.
    let options = JsonOptions::new().mode(args.key.json_mode.mode());
    let document = Document::from_json_with(&json, options)
        .map_err(|error| Failure::Usage(format!("the document: {error}")))?;
    expiry::check(args.expires)?;
    let CollectionArgs { database, name } = &args.key.collection;
    let source = source::open(database, How::Make, args.memory)?;
    let (documents, is_new) = source.created(name)?;
    let done = documents.put(&key, &document, args.expires);
    if done.is_err() && is_new {
        // What was created for the document goes with it.
        let _dropped = source.drop_collection(name);
    }
    source.close()?;
    done
}

/// Reads JSON from stdin, up to the limit of a document.
pub(super) fn stdin() -> Result<Vec<u8>, Failure> {
    open::check_stdin("the JSON")?;
    let mut json = Vec::new();
    // One byte more than a document may have, so that the parser refuses longer ones.
    let limit = JsonOptions::default().bytes_max as u64 + 1;
    std::io::stdin()
        .take(limit)
        .read_to_end(&mut json)
        .map_err(|error| Failure::Io(format!("cannot read stdin: {error}")))?;
    // Some editors begin a file with it.
    if json.starts_with(BYTE_ORDER_MARK) {
        json.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(json)
}

/// The byte order mark in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
