//! The targets, and the loop over each.

mod bson;
mod bulk;
mod command;
mod coverage;
mod database;
mod document;
mod edit;
mod filter;
mod http;
mod index;
mod json;
mod json_patch;
mod jsonpath;
mod load;
mod mutate;
mod patch;
mod pipeline;
mod query;
mod run;
mod scram;
mod served;
mod sort_key;
mod table;
mod token;
mod tools;
mod update;

pub use mutate::Mutator;
pub use run::{Failure, Limits, Report, corpus, fuzz, run_once};
use tools::{bounded, join, note, split, take_outcome};

/// A format and its fuzzing.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name on the command line and of the folder in the corpus.
    pub name: &'static str,
    /// A description of its bytes.
    pub about: &'static str,
    /// Reads any bytes. Panics if something does not hold.
    pub body: fn(&[u8]),
    /// Returns real bytes to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Whether the body also runs with every checksum accepted.
    pub has_checksums: bool,
}

const fn plain(
    name: &'static str,
    about: &'static str,
    body: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    Target { name, about, body, seeds, has_checksums: false }
}

const fn checked(
    name: &'static str,
    about: &'static str,
    body: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    Target { name, about, body, seeds, has_checksums: true }
}

/// All targets.
pub const TARGETS: [Target; 24] = [
    checked("table", "a table: frame, index, filter, blocks", table::body, table::seeds),
    checked("log", "segments and the operations in them", database::log, database::log_seeds),
    checked("manifest", "a manifest", database::manifest, database::manifest_seeds),
    plain("current", "the file CURRENT", database::current, database::current_seeds),
    plain("edit", "a tree edit with its tables", edit::body, edit::seeds),
    plain("document", "a document", document::body, document::seeds),
    plain("patch", "a document and patches of it", patch::body, patch::seeds),
    plain("json_patch", "a document and a JSON patch", json_patch::body, json_patch::seeds),
    plain("json", "JSON", json::body, json::seeds),
    plain("jsonpath", "a document and a JSONPath", jsonpath::body, jsonpath::seeds),
    plain("filter", "a document and a filter", filter::body, filter::seeds),
    plain("query", "a document and a projection, sort or group", query::body, query::seeds),
    plain("index", "a document and the definition of an index", index::body, index::seeds),
    checked("token", "a page token or a change token", token::body, token::seeds),
    plain("sort_key", "two sort keys", sort_key::body, sort_key::seeds),
    plain("bulk", "text of many documents", bulk::body, bulk::seeds),
    plain("load", "a file of JSON or a table, plain or compressed", load::body, load::seeds),
    plain("bson", "a document of BSON", bson::body, bson::seeds),
    plain("wire", "messages of a MongoDB driver", bson::wire, bson::wire_seeds),
    plain("command", "commands of a MongoDB driver", command::body, command::seeds),
    plain("http", "a request of HTTP", http::body, http::seeds),
    plain("update", "a document and an update of a driver", update::body, update::seeds),
    plain("pipeline", "a pipeline", pipeline::body, pipeline::seeds),
    plain("scram", "messages of a login", scram::body, scram::seeds),
];

/// Returns the target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
