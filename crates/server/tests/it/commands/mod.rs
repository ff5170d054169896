//! Commands and their replies, from texts:
//!
//! ```text
//! # a comment
//! use shop                       the database from here on
//! {"ping":1}                     a command, in Extended JSON
//! = {"ok":1}                     the reply has these fields and maybe others, at any depth
//! ~ {"ok":0}                     as that, of a server of a cluster, where it is another one
//! only in a directory            a server of a cluster passes what follows,
//! everywhere                     up to here
//! ```

pub(crate) mod cluster;
mod cluster_store;
mod concerns;
mod failures;
mod limits;
mod operations;
mod outputs;
mod room;
mod sessions;
mod status;
mod streams;
mod tool;
mod users;

use flagstone::doc::{JsonMode, JsonOptions, Map};
use flagstone::{Database, Document, Options, Value};
use flagstone_server::command::{Client, Service, ServiceOptions};
use std::sync::Arc;

/// A service over a database of its own, and a client.
struct Fixture {
    _dir: Option<tempfile::TempDir>,
    service: Arc<Service>,
    client: Client,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Options::new())
    }

    fn with(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::builder(dir.path().join("data")).options(options).open().unwrap();
        let service = Service::new(db, ServiceOptions::default()).unwrap();
        Self { _dir: Some(dir), ..Self::of(service) }
    }

    fn of(service: Arc<Service>) -> Self {
        let client = service.client("here".to_owned(), "here".to_owned(), true);
        Self { _dir: None, service, client }
    }

    fn run(&mut self, database: &str, command: &str) -> Document {
        let command = parse(command);
        self.service.run(&mut self.client, database, &command).unwrap()
    }
}

/// Returns the command by which the tool asks for an operation.
fn operation(name: &str, collection: &str, arguments: Vec<(&str, Value)>) -> Document {
    let first = [("flagstone", name.into()), ("collection", collection.into())];
    let fields: Map = first.into_iter().chain(arguments).collect();
    Document::from_value(&Value::Map(fields)).unwrap()
}

/// Returns a value as the tool sends it.
fn stored(value: Value) -> Value {
    Value::Bytes(Document::from_value(&value).unwrap().as_bytes().to_vec())
}

fn parse(json: &str) -> Document {
    let mut options = JsonOptions::new();
    options.mode = JsonMode::Extended;
    Document::from_json_with(json, options).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// Runs all commands of a text, and compares the replies.
fn check(text: &str) {
    check_with(&mut Fixture::new(), text, false);
}

fn check_with(fixture: &mut Fixture, text: &str, is_cluster: bool) {
    let mut database = "test".to_owned();
    let mut reply: Option<(usize, String, Document)> = None;
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut passes = false;
    for (number, line) in lines.iter().copied().enumerate() {
        let is_other = |line: &&&str| line.starts_with("~ ");
        let other = lines.get(number + 1).filter(|_| is_cluster).filter(is_other);
        if line == "only in a directory" {
            passes = is_cluster;
        } else if line == "everywhere" {
            passes = false;
        } else if passes || line.starts_with("~ ") {
            // Of the other kind, or looked at with the line before it.
        } else if let Some(name) = line.strip_prefix("use ") {
            name.clone_into(&mut database);
        } else if let Some(expected) = line.strip_prefix("= ") {
            let expected = other.map_or(expected, |other| &other[2..]);
            let (at, command, reply) = reply.take().unwrap();
            let (expected, found) = (parse(expected).to_value(), reply.to_value());
            assert!(
                holds(&expected, &found),
                "line {}: {command}\nexpected {}\nfound    {}",
                at + 1,
                other.unwrap_or(&line),
                reply.to_json_as(JsonMode::Extended).unwrap(),
            );
        } else if line.starts_with('{') {
            assert!(reply.is_none(), "line {number}: the command before it has no reply");
            reply = Some((number, line.to_owned(), fixture.run(&database, line)));
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "line {}: {line}", number + 1);
        }
    }
    assert!(reply.is_none(), "the last command has no reply");
}

/// Returns whether all fields of `expected` are in `found`, in this order. Text matches text that
/// contains it after a `~`.
fn holds(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Map(expected), Value::Map(found)) => {
            let order = |map: &Map, name: &Value| map.iter().position(|(other, _)| other == name);
            let places: Vec<_> = expected.iter().map(|(name, _)| order(found, name)).collect();
            places.is_sorted()
                && expected.iter().all(|(name, value)| {
                    found.get_value(name).is_some_and(|found| holds(value, found))
                })
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len()
                && expected.iter().zip(found).all(|(expected, found)| holds(expected, found))
        }
        (Value::Text(expected), Value::Text(found)) => match expected.strip_prefix('~') {
            Some(part) => found.contains(part),
            None => expected == found,
        },
        _ => expected == found,
    }
}

/// Each field was searched among all others that a document had: 32 seconds for 100,000 fields.
#[test]
fn documents_of_many_fields_are_changed_in_the_time_of_one_pass() {
    const COUNT: usize = 50_000;
    let mut fixture = Fixture::new();
    let fields = |name: &str, value: usize| -> String {
        let fields = (0..COUNT).map(|n| format!(r#""{name}{n}":{}"#, n + value));
        fields.collect::<Vec<_>>().join(",")
    };
    let renames = (0..COUNT).map(|n| format!(r#""f{n}":"g{n}""#)).collect::<Vec<_>>().join(",");
    let update = |u: &str| format!(r#"{{"update":"w","updates":[{{"q":{{"_id":1}},"u":{u}}}]}}"#);
    let commands = [
        format!(r#"{{"insert":"w","documents":[{{"_id":1,{}}}]}}"#, fields("f", 0)),
        update(r#"{"$inc":{"f7":1}}"#),
        update(&format!(r#"{{"$set":{{{}}}}}"#, fields("f", 1))),
        update(&format!(r#"{{"_id":1,{}}}"#, fields("f", 2))),
        update(&format!(r#"{{"$rename":{{{renames}}}}}"#)),
        update(&format!(r#"[{{"$set":{{{}}}}}]"#, fields("g", 3))),
        r#"{"aggregate":"w","pipeline":[{"$merge":"w"}],"cursor":{}}"#.to_owned(),
    ];
    for command in &commands {
        let reply = fixture.run("test", command);
        let shown: String = command.chars().take(60).collect();
        assert_eq!(reply.float("ok"), Some(1.0), "{shown}: {reply}");
        assert!(reply.get("writeErrors").is_none(), "{shown}: {reply}");
    }
    let reply = fixture.run("test", r#"{"find":"w","projection":{"g49999":1,"f1":1}}"#);
    assert_eq!(reply.int("cursor.firstBatch.0.g49999"), Some(50_002), "{reply}");
    assert!(reply.get("cursor.firstBatch.0.f1").is_none());
}

macro_rules! texts {
    ($($name:ident $file:literal)*) => {
        $(#[test] fn $name() {
            check(include_str!($file));
        })*
    };
}

texts! {
    documents_are_inserted_found_and_removed "documents.txt"
    keys_come_back_as_they_were_sent "keys.txt"
    collections_and_indexes_are_created_listed_and_dropped "catalog.txt"
    indexes_of_the_key_and_of_arrays_are_taken_as_given "indexes.txt"
    pipelines_and_expressions_are_run "pipelines.txt"
    documents_are_changed_and_upserted "updates.txt"
    transactions_are_isolated_and_retried_writes_happen_once "sessions.txt"
    arguments_of_drivers_are_ignored_or_refused_by_name "fields.txt"
    several_collections_are_written_by_one_command "bulk.txt"
    what_is_malformed_is_refused_by_name "refused.txt"
}
