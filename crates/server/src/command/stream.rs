//! Change streams: the feed of changes as events of drivers.
//!
//! A commit has several changes, and each is an event with a token of its own:
//! `{"_data": "TOKEN/n"}`, n changes after the position TOKEN of the feed.

use super::args::Args;
use super::id::{self, ID};
use super::name::Namespace;
use super::run::Run;
use super::service::Service;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::session::cursors::{Live, Rows};
use flagstone::changes::{
    Change, ChangeKind, ChangeToken, Changes, ChangesFrom, Delivery, Happened,
};
use flagstone::doc::{DateTime, Map};
use flagstone::{Document, Value};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Which collections a stream is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scope {
    Collection(Namespace),
    Database(String),
    All,
}

impl Scope {
    fn has(&self, namespace: &Namespace) -> bool {
        match self {
            Self::Collection(collection) => collection == namespace,
            Self::Database(database) => *database == namespace.database,
            Self::All => true,
        }
    }
}

/// Which form of a document an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    Off,
    WhenAvailable,
    Required,
}

impl Image {
    /// Parses the argument `name`.
    pub(crate) fn parse(name: &str, text: Option<&str>) -> Outcome<Self> {
        match text {
            None | Some("default" | "off") => Ok(Self::Off),
            Some("updateLookup" | "whenAvailable") => Ok(Self::WhenAvailable),
            Some("required") => Ok(Self::Required),
            Some(other) => {
                let text = format!("{name}: unknown value {other:?}");
                Err(Failure::new(Code::BadValue, text))
            }
        }
    }
}

/// An event that was not sent yet, and the token after it.
struct Event {
    value: Value,
    token: String,
    /// The stream ends after it.
    is_last: bool,
}

/// A delivery of which not all events are known yet.
struct Rest {
    delivery: Delivery,
    /// The position before it.
    before: ChangeToken,
    /// How many of its changes were looked at.
    at: usize,
    /// How many events they were.
    events: usize,
}

/// The most changes of a commit that are looked at ahead, and the most bytes of their values.
const CHANGES_AHEAD: usize = 1000;
const BYTES_AHEAD: usize = 1 << 20;

/// The events of a stream.
pub(crate) struct Stream {
    changes: Changes,
    scope: Scope,
    full: Image,
    before: Image,
    rest: Option<Rest>,
    /// Events that were not sent yet.
    ahead: VecDeque<Event>,
    current: Option<Value>,
    /// The token after everything that was looked at.
    token: String,
    /// How many events of the next delivery were sent before the stream was resumed.
    skip: usize,
    has_ended: bool,
    /// Until when a call waits for events.
    deadline: Instant,
}

/// Begins the stream that the first stage of a pipeline asks for.
pub(super) fn open(run: &Run<'_, '_>, stage: &Args<'_>, scope: Scope) -> Outcome<Stream> {
    stage.check(&[
        "fullDocument",
        "fullDocumentBeforeChange",
        "resumeAfter",
        "startAfter",
        "startAtOperationTime",
        "allChangesForCluster",
        "showExpandedEvents",
    ])?;
    stage.refuse_if("startAtOperationTime", |_| true)?;
    let from = match (stage.map("resumeAfter")?, stage.map("startAfter")?) {
        (Some(_), Some(_)) => {
            let text = "$changeStream: expected resumeAfter or startAfter, found both";
            return Err(Failure::new(Code::BadValue, text));
        }
        (Some(token), None) | (None, Some(token)) => {
            Some(Args::new(token, "resumeAfter").required_text("_data")?.to_owned())
        }
        (None, None) => None,
    };
    let image = |name: &str| Image::parse(&format!("$changeStream.{name}"), stage.text(name)?);
    let images = (image("fullDocument")?, image("fullDocumentBeforeChange")?);
    Stream::begin(run.service, scope, images, from.as_deref())
}

/// What an error of the feed means to a stream.
fn lost(error: flagstone::Error) -> Failure {
    match error.kind() {
        flagstone::ErrorKind::TooOld => {
            Failure::new(Code::ChangeStreamHistoryLost, error.to_string())
        }
        _ => error.into(),
    }
}

impl Stream {
    /// Begins a stream after a token, or now. `images`: the documents after and before changes.
    pub(crate) fn begin(
        service: &Service,
        scope: Scope,
        (full, before): (Image, Image),
        after: Option<&str>,
    ) -> Outcome<Self> {
        let db = &service.db;
        if db.stats().changes.is_none() {
            let text =
                "change streams need a server that keeps changes: flagstone serve --keep 1GiB";
            return Err(Failure::new(Code::IllegalOperation, text));
        }
        if let Scope::Collection(namespace) = &scope
            && let Some(collection) = service.existing(namespace)?
            && !collection.keeps_old_documents()
        {
            let text = format!(
                "a change stream of {namespace} needs its documents before changes: \
                 collMod with changeStreamPreAndPostImages: {{enabled: true}}"
            );
            return Err(Failure::new(Code::IllegalOperation, text));
        }
        let (from, skip) = match after {
            None => (ChangesFrom::Now, 0),
            Some(text) => {
                let refuse = || Failure::new(Code::BadValue, format!("no resume token: {text:?}"));
                let (token, skip) = text.split_once('/').ok_or_else(refuse)?;
                let token: ChangeToken = token.parse().map_err(|_malformed| refuse())?;
                (ChangesFrom::After(token), skip.parse().map_err(|_malformed| refuse())?)
            }
        };
        let changes = db.changes(from).map_err(lost)?;
        let token = after.map_or_else(|| format!("{}/0", changes.token()), str::to_owned);
        Ok(Self {
            changes,
            scope,
            full,
            before,
            rest: None,
            ahead: VecDeque::new(),
            current: None,
            token,
            skip,
            has_ended: false,
            deadline: Instant::now(),
        })
    }

    /// Waits for the next event until `deadline`; `None` if there was none.
    pub(crate) fn next(&mut self, deadline: Instant) -> Outcome<Option<&Value>> {
        self.deadline = deadline;
        self.advance()?;
        Ok(self.current.as_ref())
    }

    /// Returns the token after everything that was looked at.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns whether nothing more will come.
    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Looks at what comes next. Returns false if there was nothing in time.
    fn read(&mut self, wait: Duration) -> Outcome<bool> {
        let mut rest = match self.rest.take() {
            Some(rest) => rest,
            None => {
                let before = self.changes.token();
                let Some(delivery) = self.changes.wait(wait).map_err(lost)? else {
                    return Ok(false);
                };
                Rest { delivery, before, at: 0, events: 0 }
            }
        };
        let (mut events, is_whole) = self.events(&mut rest)?;
        let last = events.len();
        for (n, event) in events.iter_mut().enumerate() {
            rest.events += 1;
            event.token = if is_whole && n + 1 == last {
                format!("{}/0", rest.delivery.token)
            } else {
                format!("{}/{}", rest.before, rest.events)
            };
            let token = Value::Map([("_data", event.token.as_str())].into_iter().collect());
            if let Value::Map(map) = &mut event.value {
                map.insert(ID, token);
            }
        }
        let sent = self.skip.min(events.len());
        self.skip -= sent;
        self.ahead.extend(events.into_iter().skip(sent));
        if is_whole {
            self.skip = 0;
            if self.ahead.is_empty() {
                self.token = format!("{}/0", rest.delivery.token);
            }
        } else {
            self.rest = Some(rest);
        }
        Ok(true)
    }

    /// Returns the next events of a delivery, and whether they are its last.
    fn events(&self, rest: &mut Rest) -> Outcome<(Vec<Event>, bool)> {
        let mut events = Vec::new();
        match &rest.delivery.happened {
            Happened::Commit(batch) => {
                let mut bytes = 0;
                for change in batch.changes().skip(rest.at).take(CHANGES_AHEAD) {
                    if bytes >= BYTES_AHEAD {
                        break;
                    }
                    bytes += change.value_bytes().len();
                    rest.at += 1;
                    events.extend(self.change(&change)?);
                }
                return Ok((events, rest.at >= batch.changes().len()));
            }
            Happened::Dropped { keyspace } => {
                if let Some(namespace) = self.seen(keyspace) {
                    let is_whole = matches!(self.scope, Scope::Collection(_));
                    events.push(event("drop", Some(&namespace), Map::new()));
                    if is_whole {
                        events.push(invalidate());
                    }
                }
            }
            Happened::Renamed { from, to } => {
                if let Some(namespace) = self.seen(from) {
                    let is_whole = matches!(self.scope, Scope::Collection(_));
                    let mut more = Map::new();
                    if let Some(to) = Namespace::of_keyspace(to) {
                        more.insert("to", named(&to));
                    }
                    events.push(event("rename", Some(&namespace), more));
                    if is_whole {
                        events.push(invalidate());
                    }
                }
            }
            // Something was written of which nothing is known: the client reads everything again.
            Happened::Gap => events.push(invalidate()),
            Happened::Ingested { keyspace, .. } if self.seen(keyspace).is_some() => {
                events.push(invalidate());
            }
            _ => {}
        }
        Ok((events, true))
    }

    fn seen(&self, keyspace: &str) -> Option<Namespace> {
        Namespace::of_keyspace(keyspace).filter(|namespace| self.scope.has(namespace))
    }

    /// Returns the event of a change of a document.
    fn change(&self, change: &Change<'_>) -> Outcome<Option<Event>> {
        if !change.is_of_documents() {
            return Ok(None);
        }
        let Some(namespace) = self.seen(&change.keyspace()) else { return Ok(None) };
        if change.kind() == ChangeKind::DeleteRange {
            // All documents of a range, or of the collection, of which none is named.
            return Ok(Some(invalidate()));
        }
        let Some(key) = change.key()? else { return Ok(None) };
        let shown = |document: Option<Document>| -> Outcome<Option<Value>> {
            document.map(|document| id::shown(&key, &document)).transpose()
        };
        let (new, old) = (shown(change.document()?)?, shown(change.old_document()?)?);
        let mut more = Map::new();
        let seen_key = new.as_ref().or(old.as_ref()).and_then(|document| document.get(ID));
        let key_map = [(ID, seen_key.unwrap_or(&key).clone())].into_iter().collect();
        more.insert("documentKey", Value::Map(key_map));
        let kind = match (&new, &old) {
            (None, None) if change.kind() == ChangeKind::Delete && change.has_old() => {
                // What was not there was removed.
                return Ok(None);
            }
            (None, _) if change.kind() == ChangeKind::Delete => "delete",
            // A patch, of which the new document is not kept.
            (None, _) => return Ok(Some(invalidate())),
            (Some(new), None) => {
                more.insert("fullDocument", new.clone());
                if change.has_old() { "insert" } else { "replace" }
            }
            (Some(new), Some(old)) => {
                if self.full != Image::Off {
                    more.insert("fullDocument", new.clone());
                }
                more.insert("updateDescription", difference(old, new));
                "update"
            }
        };
        match (self.before, old) {
            (Image::Off, _) => {}
            (_, Some(old)) => {
                more.insert("fullDocumentBeforeChange", old);
            }
            (Image::Required, None) if kind != "insert" => {
                let text = format!("{namespace} has not kept the document before a change");
                return Err(Failure::new(Code::NoMatchingDocument, text));
            }
            (_, None) => {
                more.insert("fullDocumentBeforeChange", Value::Null);
            }
        }
        Ok(Some(event(kind, Some(&namespace), more)))
    }
}

/// Returns a namespace as events name it.
fn named(namespace: &Namespace) -> Value {
    let parts = [("db", namespace.database.as_str()), ("coll", namespace.collection.as_str())];
    Value::Map(parts.into_iter().collect())
}

/// Returns an event without its token.
fn event(kind: &str, namespace: Option<&Namespace>, more: Map) -> Event {
    let now = super::service::now_millis();
    let mut map = Map::new();
    map.insert(ID, Value::Null);
    map.insert("operationType", kind);
    let mut time = Map::new();
    time.insert("t", now.div_euclid(1000));
    time.insert("i", 1);
    let mut timestamp = Map::new();
    timestamp.insert("$timestamp", Value::Map(time));
    map.insert("clusterTime", Value::Map(timestamp));
    map.insert("wallTime", DateTime::from_micros(now.saturating_mul(1000)));
    if let Some(namespace) = namespace {
        map.insert("ns", named(namespace));
    }
    for (name, value) in more {
        map.insert(name, value);
    }
    Event { value: Value::Map(map), token: String::new(), is_last: kind == "invalidate" }
}

fn invalidate() -> Event {
    event("invalidate", None, Map::new())
}

/// Returns what an update has changed: the new values by their paths, and the fields that are gone.
fn difference(old: &Value, new: &Value) -> Value {
    let (mut updated, mut removed) = (Map::new(), Vec::new());
    differ("", old, new, &mut updated, &mut removed);
    let mut map = Map::new();
    map.insert("updatedFields", Value::Map(updated));
    map.insert("removedFields", Value::Array(removed));
    map.insert("truncatedArrays", Value::Array(Vec::new()));
    Value::Map(map)
}

fn differ(prefix: &str, old: &Value, new: &Value, updated: &mut Map, removed: &mut Vec<Value>) {
    let (Value::Map(old), Value::Map(new)) = (old, new) else { return };
    let path = |name: &Value| match name.as_str() {
        Some(name) => format!("{prefix}{name}"),
        None => format!("{prefix}{name}"),
    };
    for (name, value) in new {
        match old.get_value(name) {
            Some(before) if before == value => {}
            Some(before @ Value::Map(_)) if matches!(value, Value::Map(_)) => {
                differ(&format!("{}.", path(name)), before, value, updated, removed);
            }
            _ => {
                updated.insert(path(name), value.clone());
            }
        }
    }
    for (name, _) in old {
        if new.get_value(name).is_none() {
            removed.push(Value::from(path(name)));
        }
    }
}

impl Rows for Stream {
    fn advance(&mut self) -> Outcome<bool> {
        loop {
            if let Some(event) = self.ahead.pop_front() {
                self.token = event.token;
                self.has_ended |= event.is_last;
                self.current = Some(event.value);
                if event.is_last {
                    self.ahead.clear();
                    self.rest = None;
                }
                return Ok(true);
            }
            self.current = None;
            let left = self.deadline.saturating_duration_since(Instant::now());
            // What is there is looked at, however long it takes.
            if self.has_ended || !self.read(left)? && left.is_zero() {
                return Ok(false);
            }
        }
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        if let Some(value) = &self.current {
            let document = Document::from_value(value)?;
            out.fields(&document.root(), |_| false)?;
        }
        Ok(())
    }

    fn live(&mut self) -> Option<Live<'_>> {
        let Self { token, has_ended, deadline, .. } = self;
        Some(Live { token, has_ended: *has_ended, deadline })
    }
}
