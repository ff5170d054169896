//! Opening for the commands: reading changes no file, and only writing creates what is missing.

use crate::args::{CollectionArgs, JsonArgs, KeyArgs, MemoryArgs, TargetArgs, WatchArgs};
use crate::failure::Failure;
use flagstone::doc::json::JsonParser;
use flagstone::doc::{JsonError, JsonOptions};
use flagstone::{Collection, Database, Durability, Options, Space, Value};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The database that a shell keeps open, with its path.
static HELD: OnceLock<(PathBuf, Database)> = OnceLock::new();

/// Lets the commands of a shell use `database` instead of opening `path`.
pub(super) fn hold(path: &Path, database: &Database) {
    HELD.get_or_init(|| (path.to_owned(), database.clone()));
}

fn held(path: &Path, memory: Option<u64>) -> Result<Option<Database>, Failure> {
    match HELD.get().filter(|(known, _)| known == path) {
        Some(_) if memory.is_some() => {
            let text = "the shell has the database open: give --memory to flagstone shell";
            Err(Failure::Usage(text.to_owned()))
        }
        held => Ok(held.map(|(_, database)| database.clone())),
    }
}

/// Refuses to read `what` from stdin in a shell: what follows there are commands.
pub(super) fn check_stdin(what: &str) -> Result<(), Failure> {
    if is_shell() {
        Err(Failure::Usage(format!("expected {what}: a shell reads commands from stdin")))
    } else {
        Ok(())
    }
}

/// Refuses files that are the stdin of a shell, by any of its names.
pub(super) fn check_files(files: &[PathBuf]) -> Result<(), Failure> {
    #[cfg(unix)]
    let place = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).map(|about| (about.dev(), about.ino())).ok()
    };
    // Elsewhere stdin has no name beside `-`.
    #[cfg(not(unix))]
    let place = |_: &Path| None::<u64>;
    let stdin = place(Path::new("/dev/stdin"));
    let is_stdin = |path: &PathBuf| {
        path.as_os_str() == "-" || stdin.is_some() && place(path.as_path()) == stdin
    };
    if files.iter().any(is_stdin) { check_stdin("a file") } else { Ok(()) }
}

/// Returns whether a shell keeps the database open between commands.
pub(super) fn is_shell() -> bool {
    HELD.get().is_some()
}

/// Closes what a command has opened, unless a shell keeps it open.
pub(super) fn close(database: Database) -> Result<(), Failure> {
    if is_shell() { Ok(()) } else { Ok(database.close()?) }
}

/// Opens the database in `path` for reading.
pub(super) fn to_read(path: &Path, memory: MemoryArgs) -> Result<Database, Failure> {
    match held(path, memory.memory)? {
        Some(database) => Ok(database),
        None => Ok(Database::builder(path).options(options(memory.memory)).open_read_only()?),
    }
}

/// Opens the database in `path` for reading, with a directory for queries that do not fit into
/// memory. It is created when it is needed.
pub(super) fn to_read_with_scratch(
    path: &Path,
    scratch: &Path,
    memory: MemoryArgs,
) -> Result<Database, Failure> {
    if let Some(database) = held(path, memory.memory)? {
        return Ok(database);
    }
    let builder = Database::builder(path).options(options(memory.memory));
    Ok(builder.scratch_dir(scratch).open_read_only()?)
}

/// Opens the database in `path`, which must exist, for writing.
pub(super) fn to_write(path: &Path, memory: Option<u64>) -> Result<Database, Failure> {
    if let Some(database) = held(path, memory)? {
        return Ok(database);
    }
    let options = options(memory).create_if_missing(false);
    Ok(Database::builder(path).options(options).open()?)
}

/// Opens the database in `path`, created if there is none.
pub(super) fn or_make(
    path: &Path,
    memory: Option<u64>,
    durability: Durability,
) -> Result<Database, Failure> {
    if let Some(database) = held(path, memory)? {
        return Ok(database);
    }
    let options = options(memory).durability(durability);
    Ok(Database::builder(path).options(options).open()?)
}

/// Returns options with this memory budget.
pub(super) fn options(memory: Option<u64>) -> Options {
    match memory {
        Some(bytes) => Options::new().memory_budget(bytes),
        None => Options::new(),
    }
}

/// Returns a collection, which must exist.
pub(super) fn collection(
    database: &Database,
    args: &CollectionArgs,
) -> Result<Collection, Failure> {
    if let Some(collection) = database.space(&args.name).existing().collection()? {
        return Ok(collection);
    }
    let there = listed(&collections(database), &args.name);
    let (name, database) = (&args.name, args.database.display());
    Err(Failure::NotFound(format!(
        "there is no collection {name:?} in {database}, which has {there}"
    )))
}

/// Refuses a keyspace of `watch` that does not exist.
pub(super) fn check_keyspace(database: &Database, args: &WatchArgs) -> Result<(), Failure> {
    let Some(name) = &args.name else { return Ok(()) };
    let names: Vec<String> = database.keyspaces().into_iter().map(|info| info.name).collect();
    if names.contains(name) {
        return Ok(());
    }
    let (database, there) = (args.database.display(), listed(&names, name));
    Err(Failure::NotFound(format!(
        "there is no keyspace {name:?} in {database}, which has {there}"
    )))
}

/// Returns the names of all collections.
pub(super) fn collections(database: &Database) -> Vec<String> {
    let known = database.keyspaces().into_iter();
    let documents = known.filter(|info| info.content.starts_with("documents"));
    documents.map(|info| info.name).collect()
}

/// Names for a message: `none`, or the first ten, and which one may be meant by `wanted`.
fn listed(names: &[String], wanted: &str) -> String {
    const MOST: usize = 10;
    let there = match names.len() {
        0 => "none".to_owned(),
        count @ ..=MOST => names[..count].join(", "),
        count => format!("{} and {} more", names[..MOST].join(", "), count - MOST),
    };
    match nearest(names, wanted) {
        Some(meant) => format!("{there}; did you mean {meant}?"),
        None => there,
    }
}

/// Returns the name that a misspelled one is most like: a letter in three may differ.
fn nearest<'a>(names: &'a [String], wanted: &str) -> Option<&'a String> {
    let most = wanted.chars().count().div_ceil(3);
    let distance =
        |name: &String| strsim::damerau_levenshtein(&name.to_lowercase(), &wanted.to_lowercase());
    let near = names.iter().map(|name| (distance(name), name));
    // Of names that are all other letters, none is near.
    let near = near.filter(|(far, name)| *far <= most && *far < name.chars().count());
    near.min_by_key(|(far, _)| *far).map(|(_, name)| name)
}

/// Refuses an index that does not exist, with this text.
pub(super) fn check_index(collection: &Collection, index: &str) -> Result<(), String> {
    let names: Vec<String> = collection.indexes().into_iter().map(|index| index.name).collect();
    if names.iter().any(|name| name == index) {
        return Ok(());
    }
    let (collection, there) = (collection.name(), listed(&names, index));
    Err(format!("there is no index {index} of {collection}, which has {there}"))
}

/// Reads a key: plain text, or with `json` any JSON. A key may begin with a minus, but two are more
/// likely an option that does not exist.
pub(super) fn key(text: &str, json: bool, mode: JsonArgs) -> Result<Value, Failure> {
    if !json && text.starts_with("--") {
        let text = format!(
            "there is no option {text}; a key that begins with -- is given as JSON: \
             --json-key '\"{text}\"'"
        );
        return Err(Failure::Usage(text));
    }
    if !json {
        return Ok(Value::from(text));
    }
    value(text, mode).map_err(|error| Failure::Usage(format!("the key: {error}")))
}

/// Reads a value of JSON.
pub(super) fn value(text: &str, mode: JsonArgs) -> Result<Value, JsonError> {
    let options = JsonOptions::new().mode(mode.mode());
    JsonParser::new(options).parse_value(text.as_bytes())
}

/// Returns the key of the document. `None`: there is a filter instead. Both are refused, for one of
/// them would be ignored.
pub(super) fn target_key(args: &TargetArgs) -> Result<Option<Value>, Failure> {
    match (&args.key, &args.filter) {
        (Some(text), Some(_)) => {
            key(text, args.json_key, args.json_mode)?;
            Err(Failure::Usage(format!(
                "the key {text} and --where are given: drop the key for all documents that match, \
                 or --where for the document of the key"
            )))
        }
        (text, _) => text.as_ref().map(|text| key(text, args.json_key, args.json_mode)).transpose(),
    }
}

/// The failure when the key has no document.
pub(super) fn no_target(args: &TargetArgs, collection: &Collection) -> Failure {
    let key = args.key.as_deref().unwrap_or_default();
    missing(key, args.json_key, collection)
}

/// The key of a document.
pub(super) fn key_of(args: &KeyArgs) -> Result<Value, Failure> {
    key(&args.key, args.json_key, args.json_mode)
}

/// The failure when a key has no document.
pub(super) fn no_document(args: &KeyArgs, collection: &Collection) -> Failure {
    missing(&args.key, args.json_key, collection)
}

/// The failure when `key` has no document. Says if the key that it is as JSON, or as text, has one.
fn missing(key: &str, is_json: bool, collection: &Collection) -> Failure {
    let other =
        if is_json { Some(Value::from(key)) } else { flagstone::doc::json::parse(key).ok() };
    let has_one = |key: Value| collection.look(key, |_| Ok(())).is_ok_and(|found| found.is_some());
    let hint = match (other.is_some_and(has_one), is_json) {
        (false, _) => "",
        (true, false) => "; with --json-key there is one",
        (true, true) => "; without --json-key there is one",
    };
    Failure::NotFound(format!("there is no document {key} in {}{hint}", collection.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_is_near_and_another_word_is_not() {
        let names = ["comments", "users", "User_Sessions", "c", "ab"].map(str::to_owned);
        let meant = |wanted| nearest(&names, wanted).map(String::as_str);
        for (wanted, expected) in [
            ("commets", Some("comments")),
            ("ocmments", Some("comments")),
            ("Users", Some("users")),
            ("usersessions", Some("User_Sessions")),
            ("x", None),
            ("other", None),
            ("ba", Some("ab")),
            ("", None),
        ] {
            assert_eq!(meant(wanted), expected, "{wanted}");
        }
    }
}
