//! Opening for the commands: reading changes no file, and only writing creates what is missing.

use crate::args::{CollectionArgs, KeyArgs, TargetArgs};
use crate::failure::Failure;
use flagstone::{Builder, Collection, Database, Durability, Value};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The database that a shell keeps open, with its path.
static HELD: OnceLock<(PathBuf, Database)> = OnceLock::new();

/// Lets the commands of a shell use `database` instead of opening `path`.
pub(super) fn hold(path: &Path, database: &Database) {
    HELD.get_or_init(|| (path.to_owned(), database.clone()));
}

fn held(path: &Path) -> Option<Database> {
    HELD.get().filter(|(known, _)| known == path).map(|(_, database)| database.clone())
}

/// Closes what a command has opened, unless a shell keeps it open.
pub(super) fn close(database: Database) -> Result<(), Failure> {
    if HELD.get().is_some() { Ok(()) } else { Ok(database.close()?) }
}

/// Opens the database in `path` for reading.
pub(super) fn to_read(path: &Path) -> Result<Database, Failure> {
    held(path).map_or_else(|| Ok(Database::open_read_only(path)?), Ok)
}

/// Opens the database in `path` for reading, with a directory for queries that do not fit into
/// memory. It is created when it is needed.
pub(super) fn to_read_with_scratch(path: &Path, scratch: &Path) -> Result<Database, Failure> {
    let open = || Ok(Database::builder(path).scratch_dir(scratch).open_read_only()?);
    held(path).map_or_else(open, Ok)
}

/// Opens the database in `path`, which must exist, for writing.
pub(super) fn to_write(path: &Path, memory: Option<u64>) -> Result<Database, Failure> {
    if let Some(database) = held(path) {
        return Ok(database);
    }
    Ok(with_memory(Database::builder(path), memory).create_if_missing(false).open()?)
}

/// Opens the database in `path`, created if there is none.
pub(super) fn or_make(
    path: &Path,
    memory: Option<u64>,
    durability: Durability,
) -> Result<Database, Failure> {
    if let Some(database) = held(path) {
        return Ok(database);
    }
    Ok(with_memory(Database::builder(path), memory).durability(durability).open()?)
}

fn with_memory(builder: Builder, memory: Option<u64>) -> Builder {
    match memory {
        Some(bytes) => builder.memory_budget(bytes),
        None => builder,
    }
}

/// Returns a collection, which must exist.
pub(super) fn collection(
    database: &Database,
    args: &CollectionArgs,
) -> Result<Collection, Failure> {
    database.existing_collection(&args.name)?.ok_or_else(|| {
        let database = args.database.display();
        Failure::NotFound(format!("there is no collection {:?} in {database}", args.name))
    })
}

/// Reads a key: plain text, or with `json` any JSON.
pub(super) fn key(text: &str, json: bool) -> Result<Value, Failure> {
    if !json {
        return Ok(Value::from(text));
    }
    flagstone::json::parse(text).map_err(|error| Failure::Usage(format!("the key: {error}")))
}

/// Returns the key of the document, if there is one.
pub(super) fn target_key(args: &TargetArgs) -> Result<Option<Value>, Failure> {
    args.key.as_ref().map(|text| key(text, args.json_key)).transpose()
}

/// The failure when the key has no document.
pub(super) fn no_target(args: &TargetArgs) -> Failure {
    let key = args.key.as_deref().unwrap_or_default();
    Failure::NotFound(format!("there is no document {key} in {}", args.collection.name))
}

/// The key of a document.
pub(super) fn key_of(args: &KeyArgs) -> Result<Value, Failure> {
    key(&args.key, args.json_key)
}

/// The failure when a key has no document.
pub(super) fn no_document(args: &KeyArgs) -> Failure {
    Failure::NotFound(format!("there is no document {} in {}", args.key, args.collection.name))
}
