//! Change streams: the feed of changes as events of drivers.
//!
//! A commit has several changes, and each is an event with a token of its own:
//! `{"_data": "TOKEN/n"}`, n changes after the position TOKEN of the feed. Events are made one by
//! one: a commit may have as many as memory holds as bytes.

use super::args::Args;
use super::concern;
use super::id::{self, ID};
use super::name::Namespace;
use super::notes::{self, INVALIDATE, KIND, NAMESPACE};
use super::run::Run;
use super::service::{Client, Service};
use crate::access::{ADMIN, Need};
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::home::INSTEAD_OF_CHANGES;
use crate::session::clock::{self, CHANGES, Mark, Time};
use crate::session::cursors::{Live, Rows};
use crate::session::sessions::{RETRIES, SessionKey, committed};
use crate::watch;
use flagstone::changes::{
    Change, ChangeKind, ChangeToken, Changes, ChangesFrom, Delivery, Happened,
};
use flagstone::doc::{DateTime, Map};
use flagstone::internal::{change_at, interrupt_check};
use flagstone::{Collection, Database, Document, ErrorKind, Value};
use flagstone_pipeline::{RowStages, is_same};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
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
    /// Parses the argument `name`: `fullDocument` or `fullDocumentBeforeChange`.
    pub(crate) fn parse(name: &str, text: Option<&str>) -> Outcome<Self> {
        match text {
            None => Ok(Self::Off),
            Some("default") if name == FULL => Ok(Self::Off),
            Some("off") => Ok(Self::Off),
            Some("updateLookup") if name == FULL => Ok(Self::WhenAvailable),
            Some("whenAvailable") => Ok(Self::WhenAvailable),
            Some("required") => Ok(Self::Required),
            Some(other) => {
                let text = format!("$changeStream.{name}: unknown value {other:?}");
                Err(Failure::new(Code::BadValue, text))
            }
        }
    }
}

/// What a client asks for.
pub(crate) struct Wanted {
    pub(crate) scope: Scope,
    /// The documents after changes.
    pub(crate) full: Image,
    /// The documents before changes.
    pub(crate) before: Image,
    /// Whether events tell of new collections and of indexes.
    pub(crate) has_expanded: bool,
    /// The time of the first events, if no token says where to begin.
    pub(crate) since: Option<Time>,
}

/// The arguments for the documents after updates, and for events of the catalog.
const FULL: &str = "fullDocument";
const EXPANDED: &str = "showExpandedEvents";

/// What the token of an event ends with after which a stream ends.
const ENDED: &str = "/invalidate";

/// An event without its token.
struct Event {
    value: Map,
    /// The stream ends after it.
    is_last: bool,
}

/// What all events of a delivery have.
#[derive(Default)]
struct Stamp {
    time: Time,
    millis: Option<i64>,
    /// The transaction of a client.
    transaction: Option<(SessionKey, i64)>,
    /// The documents that were replaced, as `notes::replaced_key` has them.
    replaced: HashSet<Vec<u8>>,
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
    fn len(&self, stream: &ChangeStream) -> usize {
        match &self.delivery.happened {
            Happened::Commit(batch) => batch.changes().len(),
            other => stream.events(other).len(),
        }
    }
}

/// The events of a stream.
pub(crate) struct ChangeStream {
    db: Database,
    changes: Changes,
    wanted: Wanted,
    /// Tells whether the client may read a database.
    may_read: Box<dyn Fn(&str) -> bool + Send>,
    /// The last mark of the clock that was read.
    mark: Mark,
    stamp: Stamp,
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

/// Returns whether there is such a collection, and it keeps no documents before changes.
fn keeps_none(db: &Database, namespace: &Namespace) -> bool {
    let look = || db.space(&namespace.keyspace()).existing().collection().ok().flatten();
    let keeps_none = |collection: Collection| !collection.keeps_old_documents();
    // One that was dropped meanwhile says so, too.
    look().is_some_and(keeps_none) && look().is_some_and(keeps_none)
}

/// The failure of a stream of a collection whose changes do not tell what was there before.
#[cold]
fn keeps_no_old(namespace: &Namespace) -> Failure {
    let text = format!(
        "a change stream of {namespace} needs its documents before changes: collMod with \
         changeStreamPreAndPostImages: {{enabled: true}}, and begin after that"
    );
    Failure::new(Code::IllegalOperation, text)
}

/// Begins the stream that the first stage of a pipeline asks for.
pub(super) fn open(
    run: &Run<'_, '_>,
    stage: &Args<'_>,
    scope: Scope,
    stages: Option<RowStages>,
) -> Outcome<ChangeStream> {
    stage.check(&[
        FULL,
        "fullDocumentBeforeChange",
        "resumeAfter",
        "startAfter",
        "startAtOperationTime",
        "allChangesForCluster",
        EXPANDED,
    ])?;
    for name in ["allChangesForCluster", EXPANDED] {
        stage.refuse_null(name, Code::TypeMismatch)?;
    }
    let since = match stage.get("startAtOperationTime")? {
        Some(value) => Some(concern::any_time("$changeStream.startAtOperationTime", &value)?),
        None => None,
    };
    let (resume, start) = (stage.map("resumeAfter")?, stage.map("startAfter")?);
    let code = match (resume.is_some(), start.is_some(), since.is_some()) {
        (true, true, _) => Some(50_865),
        (true, _, true) | (_, true, true) => Some(40_674),
        _ => None,
    };
    if let Some(code) = code {
        let text = "$changeStream: expected one of resumeAfter, startAfter and \
                    startAtOperationTime, found more";
        return Err(Failure::numbered(code, text));
    }
    let from = match resume.or(start) {
        Some(token) => {
            match token.get("_data")?.and_then(|data| data.as_str().map(str::to_owned)) {
                Some(data) => Some(data),
                None => {
                    let text =
                        format!("no resume token: expected text as its _data, found {token}");
                    return Err(Failure::numbered(40_647, text));
                }
            }
        }
        None => None,
    };
    if resume.is_some() && from.as_ref().is_some_and(|from| from.ends_with(ENDED)) {
        let text = "$changeStream.resumeAfter: the token is of an invalidate event: expected \
                    startAfter";
        return Err(Failure::new(Code::InvalidResumeToken, text));
    }
    let image = |name: &str| Image::parse(name, stage.text(name)?);
    let (full, before) = (image(FULL)?, image("fullDocumentBeforeChange")?);
    let expanded = stage.flag(EXPANDED)?;
    if expanded.is_some() && run.args().is("apiStrict")? {
        let text = format!("$changeStream.{EXPANDED} is not in version 1 of the API (apiStrict)");
        return Err(Failure::new(Code::APIStrictError, text));
    }
    let has_expanded = expanded.unwrap_or(false);
    let wanted = Wanted { scope, full, before, has_expanded, since };
    ChangeStream::begin(run.service, run.client, wanted, from.as_deref(), stages)
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

impl ChangeStream {
    /// Begins a stream after a token, or now.
    pub(crate) fn begin(
        service: &Service,
        client: &Client,
        wanted: Wanted,
        after: Option<&str>,
        stages: Option<RowStages>,
    ) -> Outcome<Self> {
        service.refuse_there("the feed of changes", INSTEAD_OF_CHANGES)?;
        let db = &service.db;
        if !service.keeps_changes {
            let text =
                "change streams need a server that keeps changes: flagstone serve --keep 1GiB";
            return Err(Failure::new(Code::IllegalOperation, text));
        }
        let watched = match &wanted.scope {
            Scope::Collection(namespace) => vec![namespace.clone()],
            scope => {
                let names = service.home.names()?;
                let all = names.iter().filter_map(|name| Namespace::of_keyspace(name));
                all.filter(|namespace| scope.has(namespace)).collect()
            }
        };
        for namespace in &watched {
            if keeps_none(db, namespace) {
                return Err(keeps_no_old(namespace));
            }
        }
        let (from, skip) = match after {
            None => (since(db, wanted.since)?, 0),
            Some(text) => {
                let place = text.strip_suffix(ENDED).unwrap_or(text);
                let (token, skip) = place.split_once('/').ok_or_else(|| no_token(text))?;
                let token: ChangeToken = token.parse().map_err(|_malformed| no_token(text))?;
                let skip = skip.parse::<usize>().map_err(|_malformed| no_token(text))?;
                (ChangesFrom::After(token), skip)
            }
        };
        // What is there is told at once.
        if !matches!(from, ChangesFrom::Now) {
            db.sync()?;
        }
        let changes = db.changes(from).map_err(|error| match error.kind() {
            // Of another database, or of a time that has not come.
            ErrorKind::InvalidInput => Failure::new(Code::InvalidResumeToken, error.to_string()),
            _ => lost(error),
        })?;
        let token = format!("{}/0", changes.token());
        let mark = clock::mark_at(db, changes.token().seqno().get())?;
        let (ahead, current, has_ended, deadline) = (None, None, false, Instant::now());
        let mut stream = Self {
            db: db.clone(),
            changes,
            wanted,
            may_read: Box::new(service.reader(client)),
            mark,
            stamp: Stamp::default(),
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
        self.stamp = self.stamp_of(&delivery);
        self.ahead = Some(Ahead { before, delivery, done: 0 });
        Ok(true)
    }

    /// Reads what the server has added to a commit, and returns what its events have.
    fn stamp_of(&mut self, delivery: &Delivery) -> Stamp {
        let mut stamp = Stamp::default();
        let changes = match &delivery.happened {
            Happened::Commit(batch) => Some(batch.changes()),
            _ => None,
        };
        for change in changes.into_iter().flatten().filter(|change| !change.is_of_documents()) {
            let (name, key) = (change.keyspace(), change.key_bytes());
            if name == RETRIES {
                stamp.transaction = stamp.transaction.or_else(|| committed(key));
            } else if name == CHANGES && change.kind() == ChangeKind::Put {
                let mark = Mark::of_entry(key, change.value_bytes(), change.seqno().get());
                self.mark = mark.unwrap_or(self.mark);
                if notes::is_replaced(key) {
                    stamp.replaced.insert(key.to_vec());
                }
            }
        }
        let (time, millis) = (self.mark.time(delivery.token.seqno().get()), self.mark.millis);
        Stamp { time, millis, ..stamp }
    }

    /// Looks at the next change of the delivery that is ahead, and makes an event of it. `None` if
    /// it gives none.
    fn step(&mut self) -> Outcome<Option<Event>> {
        let Some(mut ahead) = self.ahead.take() else { return Ok(None) };
        let (at, len) = (ahead.done, ahead.len(self));
        let event = match &ahead.delivery.happened {
            _ if self.wanted.since.is_some_and(|since| self.stamp.time < since) => None,
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
        if event.as_ref().is_some_and(|event| event.is_last) {
            self.token.push_str(ENDED);
        }
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
            let began = Instant::now();
            let left = deadline.saturating_duration_since(began);
            let found = self.changes.wait(left.min(WAIT_STEP)).map_err(lost)?;
            watch::note_waited(began.elapsed());
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
            if watch::waits_end() {
                let text = "the server is being shut down";
                return Err(Failure::new(Code::InterruptedAtShutdown, text));
            }
        }
    }

    /// Returns the events of what is no commit.
    fn events(&self, happened: &Happened) -> Vec<Event> {
        let is_whole = matches!(self.wanted.scope, Scope::Collection(_));
        let with_end =
            |first: Event| if is_whole { vec![first, self.invalidate()] } else { vec![first] };
        match happened {
            Happened::Dropped { keyspace } => match self.seen(keyspace) {
                Some(namespace) => with_end(self.made("drop", Some(&namespace), Map::new())),
                None => Vec::new(),
            },
            Happened::Renamed { from, to } => match (self.seen(from), self.seen(to)) {
                (Some(namespace), _) => {
                    let mut more = Map::new();
                    let to = Namespace::of_keyspace(to);
                    // A hidden name is that of a dropped collection.
                    let kind = if to.is_some() { "rename" } else { "drop" };
                    if let Some(to) = to.filter(|to| (self.may_read)(&to.database)) {
                        more.insert("to", named(&to));
                    }
                    with_end(self.made(kind, Some(&namespace), more))
                }
                // What `$out` has filled, or a collection that the stream does not watch: the
                // client has seen none of its documents.
                (None, Some(_)) => vec![self.invalidate()],
                (None, None) => Vec::new(),
            },
            // Something was written of which nothing is known: the client reads everything again.
            Happened::Gap => vec![self.invalidate()],
            Happened::Ingested { keyspace, .. } if self.seen(keyspace).is_some() => {
                vec![self.invalidate()]
            }
            _ => Vec::new(),
        }
    }

    fn seen(&self, keyspace: &str) -> Option<Namespace> {
        Namespace::of_keyspace(keyspace).filter(|namespace| self.wanted.scope.has(namespace))
    }

    /// Returns the event of the catalog that an entry of [`CHANGES`] is, if it is one for this
    /// stream.
    fn noted(&self, change: &Change<'_>) -> Option<Event> {
        let mut more = notes::event_of(change.key_bytes(), change.value_bytes())?;
        let kind = more.remove(KIND)?.as_str()?.to_owned();
        let namespace = more.remove(NAMESPACE)?;
        let part = |name| namespace.get(name).and_then(Value::as_str);
        let (database, collection) = (part("db")?, part("coll"));
        let is_wanted = match (&self.wanted.scope, collection) {
            (Scope::All, None) => kind != INVALIDATE,
            (Scope::Database(wanted), None) => wanted == database,
            (Scope::Collection(_), None) => false,
            (scope, Some(_)) => {
                let namespace = Namespace::new(database, collection?).ok()?;
                self.wanted.has_expanded && scope.has(&namespace)
            }
        };
        if !is_wanted {
            return None;
        }
        if kind == INVALIDATE {
            return Some(self.invalidate());
        }
        let mut event = self.made(&kind, None, more);
        event.value.insert(NAMESPACE, namespace);
        Some(event)
    }

    /// Returns the event of a change of a document.
    fn change(&self, change: &Change<'_>) -> Outcome<Option<Event>> {
        let keyspace = change.keyspace();
        if !change.is_of_documents() {
            return Ok(if keyspace == CHANGES { self.noted(change) } else { None });
        }
        let Some(namespace) = self.seen(&keyspace) else { return Ok(None) };
        if change.kind() == ChangeKind::DeleteRange {
            // All documents of a range, or of the collection, of which none is named.
            return Ok(Some(self.invalidate()));
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
            (None, _) => return Ok(Some(self.invalidate())),
            // Whether it is new is not known.
            (Some(_), None) if !change.has_old() && keeps_none(&self.db, &namespace) => {
                return Err(keeps_no_old(&namespace));
            }
            (Some(new), None) => {
                more.insert("fullDocument", new.clone());
                // Without the old one it was written before the collection began to keep them.
                if change.has_old() { "insert" } else { "replace" }
            }
            // Only its expiry has changed, or nothing.
            (Some(new), Some(old)) if is_same(old, new) => return Ok(None),
            (Some(new), Some(_)) if self.is_replaced(&keyspace, change) => {
                more.insert("fullDocument", new.clone());
                "replace"
            }
            (Some(new), Some(old)) => {
                if self.wanted.full != Image::Off {
                    more.insert("fullDocument", new.clone());
                }
                more.insert("updateDescription", difference(old, new, self.wanted.has_expanded));
                "update"
            }
        };
        match (self.wanted.before, old) {
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
        Ok(Some(self.made(kind, Some(&namespace), more)))
    }

    fn is_replaced(&self, keyspace: &str, change: &Change<'_>) -> bool {
        let replaced = &self.stamp.replaced;
        !replaced.is_empty()
            && replaced.contains(&notes::replaced_key(keyspace, change.key_bytes()))
    }

    /// Returns an event without its token.
    fn made(&self, kind: &str, namespace: Option<&Namespace>, more: Map) -> Event {
        let Stamp { time, millis, transaction, .. } = &self.stamp;
        let mut map = Map::new();
        map.insert(ID, Value::Null);
        map.insert(KIND, kind);
        let mut parts = Map::new();
        parts.insert("t", i64::from(time.seconds));
        parts.insert("i", i64::from(time.increment));
        let mut timestamp = Map::new();
        timestamp.insert("$timestamp", Value::Map(parts));
        map.insert("clusterTime", Value::Map(timestamp));
        if let Some(millis) = millis {
            map.insert("wallTime", DateTime::from_micros(millis.saturating_mul(1000)));
        }
        if let Some((session, number)) = transaction {
            map.insert("txnNumber", *number);
            map.insert("lsid", lsid(session));
        }
        if let Some(namespace) = namespace {
            map.insert(NAMESPACE, named(namespace));
        }
        for (name, value) in more {
            map.insert(name, value);
        }
        Event { value: map, is_last: kind == INVALIDATE }
    }

    fn invalidate(&self) -> Event {
        self.made(INVALIDATE, None, Map::new())
    }
}

/// Returns where the events of a time begin.
fn since(db: &Database, time: Option<Time>) -> Outcome<ChangesFrom> {
    let Some(time) = time else { return Ok(ChangesFrom::Now) };
    let oldest = db.changes(ChangesFrom::Start).map_err(lost)?.token();
    let Some(mark) = clock::mark_of(db, time)? else { return Ok(ChangesFrom::Now) };
    let removed = oldest.seqno().get();
    if removed > 0 && mark.seqno_of(time) <= removed {
        let text = format!("the changes of {time} are not kept any more");
        return Err(Failure::new(Code::ChangeStreamHistoryLost, text));
    }
    let seqno = mark.seqno.saturating_sub(1).max(removed);
    // The history stays, and the SeqNo is the rest of a token.
    let mut bytes = oldest.to_bytes();
    if let Some(rest) = bytes.last_chunk_mut() {
        *rest = seqno.to_be_bytes();
    }
    Ok(ChangeToken::from_bytes(bytes).map_or(ChangesFrom::Now, ChangesFrom::After))
}

/// Returns a session as events name it: with a hash of its user.
fn lsid(session: &SessionKey) -> Value {
    let user = match session.user.as_str() {
        "" => String::new(),
        user => format!("{user}@{ADMIN}"),
    };
    let mut map = Map::new();
    map.insert("id", Value::Uuid(session.id));
    map.insert("uid", Value::Bytes(Sha256::digest(user).to_vec()));
    Value::Map(map)
}

/// Returns a namespace as events name it.
fn named(namespace: &Namespace) -> Value {
    let parts = [("db", namespace.database.as_str()), ("coll", namespace.collection.as_str())];
    Value::Map(parts.into_iter().collect())
}

/// Returns what an update has changed: the new values by their paths, and the fields that are gone.
fn difference(old: &Value, new: &Value, has_expanded: bool) -> Value {
    let mut found = Difference::default();
    found.look(&mut Vec::new(), old, new);
    let mut map = Map::new();
    map.insert("updatedFields", Value::Map(found.updated.into_iter().collect()));
    map.insert("removedFields", Value::Array(found.removed));
    map.insert("truncatedArrays", Value::Array(Vec::new()));
    if has_expanded {
        map.insert("disambiguatedPaths", Value::Map(found.ambiguous.into_iter().collect()));
    }
    Value::Map(map)
}

/// What an update has changed. Arrays are told as a whole.
#[derive(Default)]
struct Difference {
    updated: Vec<(String, Value)>,
    removed: Vec<Value>,
    /// The names of paths that their text does not tell: one has a dot, or could be an index.
    ambiguous: Vec<(String, Value)>,
}

impl Difference {
    /// Notes how the maps at `place` differ.
    fn look<'v>(&mut self, place: &mut Vec<&'v Value>, old: &'v Value, new: &'v Value) {
        let (Value::Map(old), Value::Map(new)) = (old, new) else { return };
        // A lookup in a map walks its pairs.
        let mut before: HashMap<&Value, &Value> =
            old.iter().map(|(name, value)| (name, value)).collect();
        for (name, value) in new {
            place.push(name);
            match before.remove(name) {
                Some(before) if is_same(before, value) => {}
                Some(before @ Value::Map(_)) if matches!(value, Value::Map(_)) => {
                    self.look(place, before, value);
                }
                _ => {
                    let path = self.path(place);
                    self.updated.push((path, value.clone()));
                }
            }
            place.pop();
        }
        for (name, _) in old.iter().filter(|(name, _)| before.contains_key(name)) {
            place.push(name);
            let path = self.path(place);
            self.removed.push(Value::from(path));
            place.pop();
        }
    }

    /// Returns the text of a path, and notes its names if the text does not tell them.
    fn path(&mut self, place: &[&Value]) -> String {
        let shown = |name: &&Value| name.as_str().map_or_else(|| name.to_string(), str::to_owned);
        let names: Vec<String> = place.iter().map(shown).collect();
        let text = names.join(".");
        let is_index = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
        if names.iter().any(|name| name.contains('.') || is_index(name)) {
            let names = names.into_iter().map(Value::from).collect();
            self.ambiguous.push((text.clone(), Value::Array(names)));
        }
        text
    }
}

impl ChangeStream {
    /// Makes the next event current, if what is ahead has one for the client.
    fn next_event(&mut self) -> Outcome {
        if let Some(event) = self.step()? {
            let is_last = event.is_last;
            self.has_ended |= is_last;
            self.current = self.shown(event)?;
            if is_last {
                self.ahead = None;
            }
        }
        Ok(())
    }
}

impl Rows for ChangeStream {
    fn advance(&mut self) -> Outcome<bool> {
        self.current = None;
        let mut looked = 0;
        loop {
            if self.ahead.is_some() {
                interrupt_check()?;
                // A failure is behind the events before it: who begins again meets it again.
                let (token, has_ended) = (self.token.clone(), self.has_ended);
                if let Err(failed) = self.next_event() {
                    (self.token, self.has_ended) = (token, has_ended);
                    return Err(failed);
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
        if self.wanted.scope == Scope::All { Need::ReadAll } else { Need::Login }
    }

    fn is_of_moment(&self) -> bool {
        false
    }

    fn live(&mut self) -> Option<Live<'_>> {
        let Self { token, has_ended, deadline, .. } = self;
        Some(Live { token, has_ended: *has_ended, deadline })
    }
}
