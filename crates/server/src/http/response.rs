//! The answer to a request.

use super::refusal::{self, BadRequest, reason};
use crate::command::About;
use crate::failure::Failure;
use std::fmt;
use std::time::Instant;

/// The type of documents.
pub(super) const JSON: &str = "application/json";
/// The type of documents, one on each line.
pub const NDJSON: &str = "application/x-ndjson";
/// The type of text.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

/// What caches may keep: nothing, if an answer has no such field.
pub(super) const CACHE_CONTROL: &str = "Cache-Control";

/// The answer to a request.
#[derive(Debug)]
pub struct Response<'a> {
    /// The status.
    pub status: u16,
    /// The fields of its head, other than those that say how long it is.
    pub fields: Vec<(&'static str, String)>,
    /// What comes after the head.
    pub content: Content<'a>,
    /// What it is about, for the log.
    pub(crate) about: Option<Box<About>>,
}

/// What comes after the head of an answer.
pub enum Content<'a> {
    /// Bytes that are there.
    Whole(Vec<u8>),
    /// Appends the next part to the buffer, each time it is called.
    Parts(Box<Producer<'a>>),
    /// Takes the body while it comes, and answers meanwhile. Returns the status, if the head was
    /// not sent yet, and the last line.
    Exchange(Box<Exchanger<'a>>),
}

/// Takes a body, and answers it.
pub type Exchanger<'a> = dyn FnOnce(&mut dyn Exchange) -> (u16, Vec<u8>) + 'a;

/// A body that comes, and the answer to it.
pub trait Exchange {
    /// Waits for bytes of the body, at most until a moment.
    fn read(&mut self, until: Instant) -> Arrived;

    /// Returns whether the client takes lines now: many send all of the body before they read.
    fn is_taking(&self) -> bool;

    /// Sends lines, before the first the head of the answer.
    fn send(&mut self, lines: &[u8]);
}

/// What has come of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Some bytes of it.
    Bytes(Vec<u8>),
    /// Nothing in the time.
    Nothing,
    /// Its end.
    End,
    /// Nothing more will come, and why.
    Cut(String),
    /// The server stops.
    Stopping,
}

/// Appends the next part of an answer.
pub(super) type Producer<'a> = dyn FnMut(&mut Vec<u8>) -> Part + 'a;

/// What a part of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// More follow.
    More,
    /// More may follow, and nothing is there now: where the server may end the answer.
    Idle,
    /// It is the last one.
    Last,
    /// An error, which ends the connection: a client must not take what it has for all.
    Broken,
}

impl fmt::Debug for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.len()),
            Self::Parts(_) => f.write_str("Parts"),
            Self::Exchange(_) => f.write_str("Exchange"),
        }
    }
}

impl Response<'static> {
    /// Creates an answer without content.
    pub fn new(status: u16) -> Self {
        Self { status, fields: Vec::new(), content: Content::Whole(Vec::new()), about: None }
    }

    /// Creates an answer with content of a type.
    pub fn of(status: u16, kind: &str, content: impl Into<Vec<u8>>) -> Self {
        let content = Content::Whole(content.into());
        Self { status, fields: vec![("Content-Type", kind.to_owned())], content, about: None }
    }

    /// Creates an answer that says what is wrong.
    pub fn refused(status: u16, text: &str) -> Self {
        Self::of(status, JSON, refusal::document(text))
    }

    /// Adds a field to the head.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }
}

impl From<&BadRequest> for Response<'_> {
    fn from(bad: &BadRequest) -> Self {
        Response::refused(bad.status, &bad.text)
    }
}

impl From<(u16, Vec<u8>)> for Response<'_> {
    fn from((status, document): (u16, Vec<u8>)) -> Self {
        Response::of(status, JSON, document)
    }
}

impl From<Failure> for Response<'_> {
    #[cold]
    fn from(failure: Failure) -> Self {
        refusal::of_failure(&failure).into()
    }
}

impl Response<'_> {
    /// Appends the head. `connection`: what the client is told of the connection. `is_chunked`:
    /// parts are sent as chunks.
    pub fn put_head(&self, connection: Option<&str>, is_chunked: bool, out: &mut Vec<u8>) {
        let status = self.status;
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        for (name, value) in &self.fields {
            head.push_str(name);
            head.push_str(": ");
            // A value never ends its line.
            head.extend(value.chars().filter(|char| !char.is_control()));
            head.push_str("\r\n");
        }
        match &self.content {
            Content::Whole(_) if matches!(status, 204 | 304) => {}
            Content::Whole(bytes) => {
                head.push_str(&format!("Content-Length: {}\r\n", bytes.len()));
            }
            _ if is_chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
            _ => {}
        }
        // Neither a cache nor another page may keep or guess what a database has.
        if self.fields.iter().all(|(name, _)| *name != CACHE_CONTROL) {
            head.push_str("Cache-Control: no-store\r\n");
        }
        head.push_str("X-Content-Type-Options: nosniff\r\n");
        if let Some(connection) = connection {
            head.push_str(&format!("Connection: {connection}\r\n"));
        }
        head.push_str("\r\n");
        out.extend_from_slice(head.as_bytes());
    }
}
