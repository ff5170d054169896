//! A request, with what is common to all that answer one.

use super::head::{BODY_BYTES_MAX, Head};
use super::target::Target;
use crate::access::Need;
use crate::command::name::Namespace;
use crate::command::{Client, Service};
use crate::failure::{Code, Failure, Outcome};
use flagstone::Document;
use flagstone::doc::{JsonMode, JsonOptions};
use std::fmt;

/// A request with its body.
pub struct Request<'a> {
    /// The head.
    pub head: &'a Head,
    /// The body.
    pub body: &'a [u8],
    /// Returns what is known of connections.
    pub counted: &'a dyn Fn() -> Counted,
}

/// What is known of connections, for metrics.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// How many are open.
    pub open: u64,
    /// What has happened to them since the start, by name.
    pub events: Vec<(&'static str, u64)>,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} {}, {} bytes)", self.head.method, self.head.target, self.body.len())
    }
}

/// A request, taken apart.
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a Target,
    pub(super) request: &'a Request<'a>,
}

impl Asked<'_> {
    /// Returns the collection that the path names.
    pub(super) fn namespace(&self) -> Outcome<Namespace> {
        Namespace::new(&self.target.segments[1], &self.target.segments[2])
    }
}

/// Refuses what the client may not do with a database.
pub(super) fn check_access(
    service: &Service,
    client: &Client,
    need: Need,
    database: &str,
    what: &str,
) -> Outcome {
    service.check_open()?;
    service.check_access(client, need, database, what)
}

/// Parses Extended JSON.
pub(super) fn parse(text: &[u8], what: &str) -> Outcome<Document> {
    let mut options = JsonOptions::new();
    options.mode = JsonMode::Extended;
    options.bytes_max = BODY_BYTES_MAX as usize;
    Document::from_json_with(text, options)
        .map_err(|error| Failure::new(Code::FailedToParse, format!("{what}: {error}")))
}
