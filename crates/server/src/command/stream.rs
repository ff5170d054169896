//! Change streams: the feed of changes as events of drivers.
//!
//! A commit has several changes, and each is an event with a token of its own:
//! `{"_data": "TOKEN/n"}`, n changes after the position TOKEN of the feed. Events are made one by
//! one: a commit may have as many as memory holds as bytes.

use super::args::Args;
use super::id::{self, ID};
use super::name::Namespace;
use super::run::Run;
use super::service::{Client, Service};
use crate::access::Need;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::session::cursors::{Live, Rows};
use flagstone::changes::{
    Change, ChangeKind, ChangeToken, Changes, ChangesFrom, Delivery, Happened,
};
use flagstone::doc::{DateTime, Map};
use flagstone::internal::{change_at, interrupt_check};
use flagstone::{Document, ErrorKind, Value};
use flagstone_pipeline::{RowStages, is_same};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long the commit of a resume token is waited for.
const SKIP_WAIT: Duration = Duration::from_secs(1);
/// How long a wait goes on before it is asked whether it is to end.
const WAIT_STEP: Duration = Duration::from_millis(100);

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

/// An event without its token.
struct Event {
    value: Map,
    /// The stream ends after it.
    is_last: bool,
}

/// A delivery of the feed that was not dealt with.
struct Ahead {
    /// The position before it.
    before: ChangeToken,
    delivery: Delivery,
    /// How many of its changes were looked at.
    done: usize,
}

impl Ahead {
    /// Returns how many changes it has. What is no commit has its events instead.
    fn len(&self, stream: &Stream) -> usize {
        match &self.delivery.happened {
            Happened::Commit(batch) => batch.changes().len(),
            other => stream.events(other).len(),
        }
    }
}

/// The events of a stream.
pub(crate) struct Stream {
    changes: Changes,
    scope: Scope,
    /// Tells whether the client may read a database.
    may_read: Box<dyn Fn(&str) -> bool + Send>,
    full: Image,
    before: Image,
    /// The stages behind `$changeStream`.
    stages: Option<RowStages>,
    ahead: Option<Ahead>,
    current: Option<Value>,
    /// The token after everything that was looked at.
    token: String,
    has_ended: bool,
    /// Until when a call waits for events.
    deadline: Instant,
}

/// How many changes are looked at that give no event, after the time of a call.
const LOOKED_MAX: usize = 10_000;

/// Begins the stream that the first stage of a pipeline asks for.
pub(super) fn open(
    run: &Run<'_, '_>,
    stage: &Args<'_>,
    scope: Scope,
    stages: Option<RowStages>,
) -> Outcome<Stream> {
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
    Stream::begin((run.service, &*run.client), scope, images, from.as_deref(), stages)
}

fn no_token(text: &str) -> Failure {
    let shown: String = text.chars().take(100).collect();
    Failure::new(Code::InvalidResumeToken, format!("no resume token: {shown:?}"))
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
        (service, client): (&Service, &Client),
        scope: Scope,
        (full, before): (Image, Image),
        after: Option<&str>,
        stages: Option<RowStages>,
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
                let (token, skip) = text.split_once('/').ok_or_else(|| no_token(text))?;
                let token: ChangeToken = token.parse().map_err(|_malformed| no_token(text))?;
                let skip = skip.parse::<usize>().map_err(|_malformed| no_token(text))?;
                (ChangesFrom::After(token), skip)
            }
        };
        let changes = db.changes(from).map_err(|error| match error.kind() {
            // Of another database, or of a time that has not come.
            ErrorKind::InvalidInput => Failure::new(Code::InvalidResumeToken, error.to_string()),
            _ => lost(error),
        })?;
        let token = format!("{}/0", changes.token());
        let (ahead, current, has_ended, deadline) = (None, None, false, Instant::now());
        let mut stream = Self {
            changes,
            scope,
            may_read: Box::new(service.reader(client)),
            full,
            before,
            stages,
            ahead,
            current,
            token,
            has_ended,
            deadline,
        };
        if skip > 0 {
            stream.skip(skip)?;
        }
        Ok(stream)
    }

    /// Waits for the next event until `deadline`. Returns false if there was none.
    pub(crate) fn next(&mut self, deadline: Instant) -> Outcome<bool> {
        self.deadline = deadline;
        self.advance()?;
        Ok(self.current.is_some())
    }

    /// Returns the event that was waited for.
    pub(crate) fn event(&self) -> Option<&Value> {
        self.current.as_ref()
    }

    /// Returns the token after everything that was looked at.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns whether nothing more will come.
    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Leaves the first changes of the next commit out, which were sent.
    fn skip(&mut self, skip: usize) -> Outcome {
        let text = format!("{}/{skip}", self.changes.token());
        if !self.read(SKIP_WAIT)? {
            return Err(no_token(&text));
        }
        let len = self.ahead.as_ref().map_or(0, |ahead| ahead.len(self));
        match &mut self.ahead {
            // After all of them it would have been the token of the next commit.
            Some(ahead) if skip < len => ahead.done = skip,
            _ => return Err(no_token(&text)),
        }
        self.token = text;
        Ok(())
    }

    /// Reads the next delivery. Returns false if there was none in time.
    fn read(&mut self, wait: Duration) -> Outcome<bool> {
        let before = self.changes.token();
        let Some(delivery) = self.wait(wait)? else { return Ok(false) };
        self.ahead = Some(Ahead { before, delivery, done: 0 });
        Ok(true)
    }

    /// Looks at the next change of the delivery that is ahead, and makes an event of it. `None` if
    /// it gives none.
    fn step(&mut self) -> Outcome<Option<Event>> {
        let Some(mut ahead) = self.ahead.take() else { return Ok(None) };
        let (at, len) = (ahead.done, ahead.len(self));
        let event = match &ahead.delivery.happened {
            Happened::Commit(batch) => match change_at(batch, at) {
                Some(change) => self.change(&change)?,
                None => None,
            },
            other => self.events(other).into_iter().nth(at),
        };
        ahead.done += 1;
        self.token = if ahead.done < len {
            format!("{}/{}", ahead.before, ahead.done)
        } else {
            format!("{}/0", ahead.delivery.token)
        };
        if ahead.done < len {
            self.ahead = Some(ahead);
        }
        Ok(event)
    }

    /// Returns what the stages make of an event; `None` if it does not pass.
    fn shown(&self, event: Event) -> Outcome<Option<Value>> {
        let mut map = event.value;
        let token = Value::Map([("_data", self.token.as_str())].into_iter().collect());
        map.insert(ID, token.clone());
        let Some(stages) = &self.stages else { return Ok(Some(Value::Map(map))) };
        let now = DateTime::from_micros(super::service::now_millis().saturating_mul(1000));
        let Some(shown) = stages.apply(&Value::Map(map), now)? else { return Ok(None) };
        if shown.get(ID) != Some(&token) {
            let text = "a stage behind $changeStream has changed or removed the resume token, _id";
            return Err(Failure::new(Code::ChangeStreamFatalError, text));
        }
        Ok(Some(shown))
    }

    /// Waits for the next delivery, unless the command is ended.
    fn wait(&mut self, wait: Duration) -> Outcome<Option<Delivery>> {
        let deadline = Instant::now() + wait;
        loop {
            interrupt_check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            let found = self.changes.wait(left.min(WAIT_STEP)).map_err(lost)?;
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
        }
    }

    /// Returns the events of what is no commit.
    fn events(&self, happened: &Happened) -> Vec<Event> {
        let is_whole = matches!(self.scope, Scope::Collection(_));
        let with_end =
            |first: Event| if is_whole { vec![first, invalidate()] } else { vec![first] };
        match happened {
            Happened::Dropped { keyspace } => match self.seen(keyspace) {
                Some(namespace) => with_end(event("drop", Some(&namespace), Map::new())),
                None => Vec::new(),
            },
            Happened::Renamed { from, to } => match (self.seen(from), self.seen(to)) {
                (Some(namespace), _) => {
                    let mut more = Map::new();
                    let to = Namespace::of_keyspace(to);
                    if let Some(to) = to.filter(|to| (self.may_read)(&to.database)) {
                        more.insert("to", named(&to));
                    }
                    with_end(event("rename", Some(&namespace), more))
                }
                // What `$out` has filled, or a collection that the stream does not watch: the
                // client has seen none of its documents.
                (None, Some(_)) => vec![invalidate()],
                (None, None) => Vec::new(),
            },
            // Something was written of which nothing is known: the client reads everything again.
            Happened::Gap => vec![invalidate()],
            Happened::Ingested { keyspace, .. } if self.seen(keyspace).is_some() => {
                vec![invalidate()]
            }
            _ => Vec::new(),
        }
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
    Event { value: map, is_last: kind == "invalidate" }
}

fn invalidate() -> Event {
    event("invalidate", None, Map::new())
}

/// Returns what an update has changed: the new values by their paths, and the fields that are gone.
fn difference(old: &Value, new: &Value) -> Value {
    let (mut updated, mut removed) = (Vec::new(), Vec::new());
    differ("", old, new, &mut updated, &mut removed);
    let mut map = Map::new();
    map.insert("updatedFields", Value::Map(updated.into_iter().collect()));
    map.insert("removedFields", Value::Array(removed));
    map.insert("truncatedArrays", Value::Array(Vec::new()));
    Value::Map(map)
}

fn differ(
    prefix: &str,
    old: &Value,
    new: &Value,
    updated: &mut Vec<(String, Value)>,
    removed: &mut Vec<Value>,
) {
    let (Value::Map(old), Value::Map(new)) = (old, new) else { return };
    let path = |name: &Value| match name.as_str() {
        Some(name) => format!("{prefix}{name}"),
        None => format!("{prefix}{name}"),
    };
    // A lookup in a map walks its pairs.
    let mut before: HashMap<&Value, &Value> =
        old.iter().map(|(name, value)| (name, value)).collect();
    for (name, value) in new {
        match before.remove(name) {
            Some(before) if is_same(before, value) => {}
            Some(before @ Value::Map(_)) if matches!(value, Value::Map(_)) => {
                differ(&format!("{}.", path(name)), before, value, updated, removed);
            }
            _ => updated.push((path(name), value.clone())),
        }
    }
    for (name, _) in old {
        if before.contains_key(name) {
            removed.push(Value::from(path(name)));
        }
    }
}

impl Rows for Stream {
    fn advance(&mut self) -> Outcome<bool> {
        self.current = None;
        let mut looked = 0;
        loop {
            if self.ahead.is_some() {
                interrupt_check()?;
                if let Some(event) = self.step()? {
                    self.has_ended |= event.is_last;
                    let is_last = event.is_last;
                    self.current = self.shown(event)?;
                    if is_last {
                        self.ahead = None;
                    }
                }
                if self.current.is_some() {
                    return Ok(true);
                }
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            looked += 1;
            if self.has_ended || left.is_zero() && looked > LOOKED_MAX {
                return Ok(false);
            }
            // What is there is looked at; then nothing is waited for.
            if self.ahead.is_none() && !self.read(left)? && left.is_zero() {
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

    fn need(&self) -> Need {
        if self.scope == Scope::All { Need::ReadAll } else { Need::Login }
    }

    fn live(&mut self) -> Option<Live<'_>> {
        let Self { token, has_ended, deadline, .. } = self;
        Some(Live { token, has_ended: *has_ended, deadline })
    }
}
