//! The answer to a request.

use super::refusal::{self, BadRequest, reason};
use crate::failure::Failure;
use std::fmt;

/// The type of documents.
pub(super) const JSON: &str = "application/json";

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
}

/// What comes after the head of an answer.
pub enum Content<'a> {
    /// Bytes that are there.
    Whole(Vec<u8>),
    /// Appends the next part to the buffer, each time it is called.
    Parts(Box<Producer<'a>>),
}

/// Appends the next part of an answer.
pub(super) type Producer<'a> = dyn FnMut(&mut Vec<u8>) -> Part + 'a;

/// What a part of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// More follow.
    More,
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
        }
    }
}

impl Response<'static> {
    /// Creates an answer without content.
    pub fn new(status: u16) -> Self {
        Self { status, fields: Vec::new(), content: Content::Whole(Vec::new()) }
    }

    /// Creates an answer with content of a type.
    pub fn of(status: u16, kind: &str, content: impl Into<Vec<u8>>) -> Self {
        let content = Content::Whole(content.into());
        Self { status, fields: vec![("Content-Type", kind.to_owned())], content }
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
    /// Appends the head. `closes`: the connection ends after the answer. `is_chunked`: parts are
    /// sent as chunks.
    pub fn put_head(&self, closes: bool, is_chunked: bool, out: &mut Vec<u8>) {
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
            Content::Parts(_) if is_chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
            Content::Parts(_) => {}
        }
        // Neither a cache nor another page may keep or guess what a database has.
        if self.fields.iter().all(|(name, _)| *name != CACHE_CONTROL) {
            head.push_str("Cache-Control: no-store\r\n");
        }
        head.push_str("X-Content-Type-Options: nosniff\r\n");
        if closes {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        out.extend_from_slice(head.as_bytes());
    }
}
