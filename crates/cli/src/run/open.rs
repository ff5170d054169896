//! Opening directories for the commands: reading changes no file, and only writing creates what is
//! missing. Reading what the arguments have.

use crate::args::{JsonArgs, KeyArgs, MemoryArgs, TargetArgs};
use crate::failure::Failure;
use flagstone::doc::json::JsonParser;
use flagstone::doc::{JsonError, JsonOptions};
use flagstone::internal::env::names::{LOCK, Name, parse};
use flagstone::internal::env::{Disk, LockMode, OsDisk};
use flagstone::{Database, Durability, Error, ErrorKind, Filter, Options, Value};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// The database that a shell keeps open, with its path.
static HELD: OnceLock<(PathBuf, Database)> = OnceLock::new();

/// Lets the commands of a shell use `database` instead of opening `path`.
pub(super) fn hold(path: &Path, database: &Database) {
    HELD.get_or_init(|| (path.to_owned(), database.clone()));
}

/// The directory that this command has created.
static MADE: Mutex<Option<PathBuf>> = Mutex::new(None);

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

/// Names the URL to use if a server has the directory open: the error names the server.
fn opened<T>(opened: flagstone::Result<T>) -> Result<T, Failure> {
    opened.map_err(|error| {
        let text = error.to_string();
        if error.kind() == ErrorKind::Busy && text.contains("mongodb://") {
            let text = format!("{text}: use this URL instead of the directory");
            return Error::new(ErrorKind::Busy, text).into();
        }
        error.into()
    })
}

/// Opens the database in `path` for reading.
pub(super) fn to_read(path: &Path, memory: MemoryArgs) -> Result<Database, Failure> {
    match held(path, memory.memory)? {
        Some(database) => Ok(database),
        None => opened(Database::builder(path).options(options(memory.memory)).open_read_only()),
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
    opened(builder.scratch_dir(scratch).open_read_only())
}

/// Opens the database in `path`, which must exist, for writing.
pub(super) fn to_write(path: &Path, memory: Option<u64>) -> Result<Database, Failure> {
    if let Some(database) = held(path, memory)? {
        return Ok(database);
    }
    let options = options(memory).create_if_missing(false);
    opened(Database::builder(path).options(options).open())
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
    check_no_scheme(path)?;
    if path.try_exists().is_ok_and(|exists| !exists) {
        *MADE.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_owned());
    }
    let options = options(memory).durability(durability);
    opened(Database::builder(path).options(options).open())
}

/// Removes the directory that the command has created, if nothing was put there.
pub(super) fn remove_unused() {
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(path) = made {
        let _in_use = remove_empty(&path);
    }
}

fn remove_empty(path: &Path) -> flagstone::Result<()> {
    let before = files(path)?;
    let database = Database::builder(path).open_read_only()?;
    let is_empty = database.keyspaces().iter().all(|info| info.name == "flagstone.loads");
    database.close()?;
    let held = OsDisk.hold(path)?;
    let lock = held.path.join(LOCK);
    let _locked = held.disk.lock(&lock, LockMode::Exclusive)?;
    // Another process may have had it open meanwhile.
    let is_ours = |(name, ..): &(String, _, _)| !matches!(parse(name), Name::Foreign);
    if !is_empty || files(path)? != before || !before.iter().all(is_ours) {
        return Ok(());
    }
    // The lock last: it keeps others out.
    for (name, ..) in &before {
        held.disk.remove(&held.path.join(name))?;
    }
    held.disk.remove(&lock)?;
    std::fs::remove_dir(path).map_err(|error| Error::io("remove", path, error))
}

/// The names, lengths and times of the files in a directory, without the lock.
fn files(dir: &Path) -> flagstone::Result<Vec<(String, u64, Option<SystemTime>)>> {
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry?;
        let about = entry.metadata()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        Ok((name, about.len(), about.modified().ok()))
    };
    let files = std::fs::read_dir(dir).and_then(|entries| entries.map(file).collect());
    let mut files: Vec<_> = files.map_err(|error| Error::io("list", dir, error))?;
    files.retain(|(name, ..)| name != LOCK);
    files.sort_unstable();
    Ok(files)
}

/// Refuses to make a directory whose name begins as a URL does, with less slashes or another
/// scheme.
fn check_no_scheme(path: &Path) -> Result<(), Failure> {
    const KNOWN: [&str; 5] = ["mongodb", "mongodb+srv", "http", "https", "file"];
    let parts = path.to_str().and_then(|text| text.split_once(':'));
    let is_scheme = |scheme: &str, rest: &str| {
        let is_one = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
        let is_known = KNOWN.iter().any(|known| scheme.eq_ignore_ascii_case(known));
        is_known || rest.starts_with('/') && scheme.len() > 1 && scheme.bytes().all(is_one)
    };
    let has_directory = || path.components().next().is_some_and(|first| Path::new(&first).exists());
    if !parts.is_some_and(|(scheme, rest)| is_scheme(scheme, rest)) || has_directory() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{}: expected a directory, or a URL that begins with mongodb://, http:// or https://",
        path.display()
    )))
}

/// Refuses the name of a new collection that is empty, or one of those that loads take.
pub(super) fn check_new(name: &str) -> Result<(), Failure> {
    let why = match name {
        "" => "it is empty",
        name if name.starts_with("flagstone.") => "names that begin with flagstone. are the tool's",
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!("invalid collection name {name:?}: {why}")))
}

/// Returns options with this memory budget.
pub(super) fn options(memory: Option<u64>) -> Options {
    match memory {
        Some(bytes) => Options::new().memory_budget(bytes),
        None => Options::new(),
    }
}

/// Returns the names of all collections.
pub(super) fn collections(database: &Database) -> Vec<String> {
    let known = database.keyspaces().into_iter();
    let documents = known.filter(|info| info.content.starts_with("documents"));
    documents.map(|info| info.name).collect()
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
            let text = if text.is_empty() { "\"\"" } else { text.as_str() };
            Err(Failure::Usage(format!(
                "the key {text} and --where are given: drop the key for all documents that match, \
                 or --where for the document of the key"
            )))
        }
        (text, _) => text.as_ref().map(|text| key(text, args.json_key, args.json_mode)).transpose(),
    }
}

/// The key of a document.
pub(super) fn key_of(args: &KeyArgs) -> Result<Value, Failure> {
    key(&args.key, args.json_key, args.json_mode)
}

/// Reads a filter.
pub(super) fn filter(text: &str) -> Result<Filter, Failure> {
    Filter::parse(text).map_err(|error| {
        let text = error.to_string();
        Failure::Usage(format!("the filter{}", text.strip_prefix("filter").unwrap_or(&text)))
    })
}
