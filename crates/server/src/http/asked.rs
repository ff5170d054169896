//! A request, with what is common to all that answer one.

use super::body::BODY_BYTES_MAX;
use super::head::Head;
use super::route::Route;
use super::target::RequestTarget;
use crate::command::name::Namespace;
use crate::failure::{Code, Failure, Outcome};
use flagstone::Document;
use flagstone::doc::{Duplicates, JsonMode, JsonOptions};
use std::fmt;

/// A request with its body.
pub struct Request<'a> {
    /// The head.
    pub head: &'a Head,
    /// The body, if it is taken whole.
    pub body: &'a [u8],
    /// Returns what is known of connections.
    pub counted: &'a dyn Fn() -> Counted,
}

/// What is known of connections, for metrics.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// How many are open.
    pub open: u64,
    /// The bytes of messages that arrive or are not answered yet.
    pub message_bytes: u64,
    /// What has happened to them since the start, by name.
    pub events: Vec<(&'static str, u64)>,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} {}, {} bytes)", self.head.method, self.head.target, self.body.len())
    }
}

/// A request, taken apart.
pub(super) struct RoutedRequest<'a> {
    pub(super) route: &'static Route,
    pub(super) target: &'a RequestTarget,
    pub(super) request: &'a Request<'a>,
}

impl<'a> RoutedRequest<'a> {
    /// Returns the collection that the path names.
    pub(super) fn namespace(&self) -> Outcome<Namespace> {
        Namespace::new(self.segment("{db}"), self.segment("{collection}"))
    }

    /// Returns the segment of the path at `part`, such as `{key}`.
    pub(super) fn segment(&self, part: &str) -> &'a str {
        self.route.segment(part, self.target).unwrap_or_default()
    }

    /// Returns a parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.target.parameter(name)
    }

    /// Returns whether a parameter is there, and not `false`.
    pub(super) fn is(&self, name: &str) -> Outcome<bool> {
        match self.parameter(name) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(other) => Err(wrong(name, "true or false", other)),
        }
    }
}

/// A parameter that is not as expected.
#[cold]
pub(super) fn wrong(name: &str, expected: &str, found: &str) -> Failure {
    Failure::new(Code::BadValue, format!("{name}: expected {expected}, found {found:?}"))
}

/// Returns how all bodies are read: names with a zero are refused, which no driver could write.
/// What the tool sends is refused no more than what it puts into a directory.
pub(super) fn json_options(mode: JsonMode) -> JsonOptions {
    JsonOptions::new().mode(mode).refuses_zeros(true)
}

/// Parses Extended JSON. A name that comes twice is an error, as in BSON: one value would be lost.
pub(super) fn parse(text: &[u8], what: &str) -> Outcome<Document> {
    let mut options = json_options(JsonMode::Extended).duplicates(Duplicates::Error);
    options.bytes_max = BODY_BYTES_MAX as usize;
    Document::from_json_with(text, options)
        .map_err(|error| Failure::new(Code::FailedToParse, format!("{what}: {error}")))
}
