//! `changes`: what was committed, as server-sent events.
//!
//! Each event has the token after it as its id, which browsers send when they connect again. So
//! has each heartbeat, without an event: a client that saw none knows where to go on, too.

use super::asked::RoutedRequest;
use super::refusal;
use super::response::{Content, Part, Response};
use super::route::{Form, Parameter};
use crate::access::Need;
use crate::command::name::{Namespace, check_database};
use crate::command::stream::{ChangeStream, Image, Scope, Wanted};
use crate::command::{Client, Service};
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::JsonMode;
use flagstone::{Document, Value};
use std::time::{Duration, Instant};

/// The type of events.
pub(super) const EVENTS: &str = "text/event-stream";
/// How long a stream may be silent.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often a stream that waits looks whether it is to end.
const TICK: Duration = Duration::from_millis(500);

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::new("db", Form::Text, "The database; all without it."),
    Parameter::new("collection", Form::Text, "A collection of the database; all without it."),
    Parameter::new("after", Form::Text, "A token to begin after, if there is no Last-Event-ID."),
    Parameter::new(
        "fullDocument",
        Form::OneOf(&["off", "whenAvailable"]),
        "Whether updates have the document after them.",
    ),
    Parameter::new(
        "fullDocumentBeforeChange",
        Form::OneOf(&["off", "whenAvailable", "required"]),
        "Whether events have the document before them.",
    ),
];

pub(super) fn respond<'a>(
    service: &'a Service,
    client: &'a mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    let (scope, need, database) = match (asked.parameter("db"), asked.parameter("collection")) {
        (Some(db), Some(name)) => {
            (Scope::Collection(Namespace::new(db, name)?), Need::Read, db.to_owned())
        }
        (Some(db), None) => {
            check_database(db)?;
            (Scope::Database(db.to_owned()), Need::Read, db.to_owned())
        }
        (None, None) => (Scope::All, Need::ReadAll, "admin".to_owned()),
        (None, Some(_)) => {
            let text = "collection: expected the parameter db with it";
            return Err(Failure::new(Code::BadValue, text));
        }
    };
    service.check_access(client, need, &database, "changes")?;
    let image = |name| Image::parse(name, asked.parameter(name));
    let (full, before) = (image("fullDocument")?, image("fullDocumentBeforeChange")?);
    let wanted = Wanted { scope, full, before, has_expanded: false, since: None };
    let last = asked.request.head.all("last-event-id").next().filter(|last| !last.is_empty());
    let after = last.or(asked.parameter("after"));
    let stream = ChangeStream::begin(service, client, wanted, after, None)?;
    let mut events = Events { service, client, need, database, stream, spoke: None };
    Ok(Response {
        status: 200,
        fields: vec![("Content-Type", EVENTS.to_owned())],
        content: Content::Parts(Box::new(move |out: &mut Vec<u8>| events.next(out))),
        about: None,
    })
}

/// The events of a stream.
struct Events<'a> {
    service: &'a Service,
    client: &'a mut Client,
    need: Need,
    database: String,
    stream: ChangeStream,
    /// When something was sent last.
    spoke: Option<Instant>,
}

impl Events<'_> {
    fn next(&mut self, out: &mut Vec<u8>) -> Part {
        match self.put(out) {
            Ok(part) => part,
            Err(failure) => {
                out.clear();
                out.extend_from_slice(b"event: error\ndata: {\"$error\":");
                let (_, document) = refusal::of_failure(&failure);
                out.extend_from_slice(document.trim_ascii_end());
                out.extend_from_slice(b"}\n\n");
                Part::Broken
            }
        }
    }

    fn put(&mut self, out: &mut Vec<u8>) -> Outcome<Part> {
        self.check_access()?;
        if self.spoke.is_none() {
            // At once, so that the client knows that it is heard.
            out.extend_from_slice(b"retry: 2000\n");
            self.beat(out);
            return Ok(Part::More);
        }
        let is_new = self.stream.next(Instant::now() + TICK)?;
        if let Some(event) = self.stream.event().filter(|_| is_new) {
            // The user may have lost the right while it was waited for.
            self.service.refresh(self.client);
            self.service.check_access(self.client, self.need, &self.database, "changes")?;
            let text = Document::from_value(event)?.to_json_as(JsonMode::Extended)?;
            let kind = event.get("operationType").and_then(Value::as_str);
            let kind = kind.unwrap_or("change").to_owned();
            out.extend_from_slice(format!("event: {kind}\nid: ").as_bytes());
            out.extend_from_slice(self.stream.token().as_bytes());
            out.extend_from_slice(b"\ndata: ");
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"\n\n");
            self.spoke = Some(Instant::now());
            return Ok(Part::More);
        }
        if self.stream.has_ended() {
            return Ok(Part::Last);
        }
        if self.spoke.is_some_and(|spoke| spoke.elapsed() >= HEARTBEAT) {
            self.beat(out);
        }
        Ok(Part::Idle)
    }

    /// Says where the stream is.
    fn beat(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("id: {}\n\n", self.stream.token()).as_bytes());
        self.spoke = Some(Instant::now());
    }

    /// Ends the stream of a user who may not read any more.
    fn check_access(&mut self) -> Outcome {
        self.service.check_open()?;
        self.service.refresh(self.client);
        self.service.check_access(self.client, self.need, &self.database, "changes")
    }
}
