//! `load`: documents from the body into a collection, while it comes.
//!
//! ```text
//! socket --> this thread --> Feed (some pieces) --> the load's own threads
//!              ^   |
//!              +---+ a line a second, if the client takes one; the last line in any case
//! ```
//! The pieces are bounded, so a body that comes faster than it is loaded waits in the socket.

use super::asked::{RoutedRequest, json_options, wrong};
use super::feed::{Feed, Packing, Piece};
use super::refusal;
use super::response::{Arrived, Content, Exchange, NDJSON, Response};
use super::route::{Form, Parameter};
use crate::access::Need;
use crate::command::{Client, Loads, LoadsOf, Service, ServiceCounters, for_drivers};
use crate::failure::{Code, Failure, Limit, Outcome};
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};
use flagstone::doc::{JsonMode, Map};
use flagstone::internal::{drop_unwritten, durability};
use flagstone::{Collection, Database, Document, Value};
use flagstone_load::{
    BadDocuments, Count, FieldType, Format, Input, Key, LoadError, Mode, Plan, TableFormat, Watcher,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How messages name the body.
const NAME: &str = "the body";
/// How many pieces of the body are between the socket and the load.
const PIECES_AHEAD: usize = 4;
/// How often a client gets a line.
const SECOND: Duration = Duration::from_secs(1);
/// The most bytes of bad documents that wait to be sent. The others are counted.
const BAD_BYTES_MAX: usize = 1 << 20;
/// The most bytes of bad documents in what is sent while the body comes.
const TICK_BYTES: usize = 16 << 10;
/// The most bytes of one bad document that are returned.
const BAD_TEXT_MAX: usize = 64 << 10;
/// The window of zstd that every receiver of HTTP has, as a power of two (RFC 9659), and the
/// largest that a request may ask for.
const WINDOW_LOG: u32 = 23;
const WINDOW_LOG_MAX: u32 = 27;

pub(super) const CSV: &str = "text/csv";
pub(super) const TSV: &str = "text/tab-separated-values";

/// The path of loads.
pub(super) const PATH: &str = "/v1/{db}/{collection}/load";

/// The types of bodies. Others are read as JSON.
pub(super) const BODIES: &[&str] = &[NDJSON, "application/json", CSV, TSV];

const FLAG: Form = Form::Flag;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "key",
        Form::Text,
        "The path of the primary key in each document, several with commas between them, or auto \
         for a new key; id without it.",
    ),
    Parameter::new(
        "mode",
        Form::OneOf(&["upsert", "insert", "merge"]),
        "What to do with a document whose key may exist.",
    ),
    Parameter::new(
        "type",
        Form::OneOf(&["json", "csv", "tsv"]),
        "The format; without it, that of Content-Type.",
    ),
    Parameter::new("extended-json", FLAG, "Read the forms of Extended JSON as values."),
    Parameter::new(
        "bad-lines",
        Form::OneOf(&["skip", "return"]),
        "Leave out documents that cannot be loaded, or return them, and continue.",
    ),
    Parameter::new("stop-on-error", FLAG, "With mode insert, stop at a key that exists."),
    Parameter::new(
        "resume",
        FLAG,
        "Continue a load of the same body that was cut and had this, too.",
    ),
    Parameter::new(
        "progress",
        Form::OneOf(&["json", "none"]),
        "A line a second, or the last line alone.",
    ),
    Parameter::new(
        "fields",
        Form::Text,
        "The names of a table's fields: its first record is data then.",
    ),
    Parameter::new("delimiter", Form::Text, "The character between the fields of a table, or tab."),
    Parameter::new("types", Form::Text, "Types of columns, as in zip=text,n=int."),
    Parameter::new("all-text", FLAG, "Every field of a table stays text."),
    Parameter::new("ignore-blanks", FLAG, "Leave out empty fields of a table."),
    Parameter::new(
        "long",
        Form::Number(10, 27),
        "Allow windows of zstd of 2^LOG bytes, 10 to 27; 23 without it.",
    ),
];

pub(super) fn respond<'a>(
    service: &'a Service,
    client: &'a mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    let namespace = asked.namespace()?;
    let Some(packing) = Packing::of(asked) else {
        let text = "expected the Content-Encoding gzip or zstd, or none";
        return Ok(Response::refused(415, text).with("Accept-Encoding", "gzip, zstd"));
    };
    let window_log = window_log(asked)?;
    let (format, is_extended) = (format(asked)?, asked.is("extended-json")?);
    let json = json_options(if is_extended { JsonMode::Extended } else { JsonMode::default() });
    let is = |name| asked.is(name);
    let (mode, stops_on_error) = (mode(asked)?, is("stop-on-error")?);
    if mode == Mode::Insert {
        service.refuse_there("a load with mode insert", "mode upsert or merge")?;
    }
    if stops_on_error && mode != Mode::Insert {
        return Err(Failure::new(Code::InvalidOptions, "stop-on-error is for mode insert"));
    }
    let (bad, returned) = bad_documents(asked)?;
    let has_progress = match asked.parameter("progress") {
        None | Some("json") => true,
        Some("none") => false,
        Some(other) => return Err(wrong("progress", "json or none", other)),
    };
    let resumes = is("resume")?;
    let key = Key::parse(asked.parameter("key").unwrap_or("id"));
    key.check(1, mode == Mode::Merge).map_err(|text| Failure::new(Code::FailedToParse, text))?;
    let permit = match Permit::new(service, &namespace.keyspace(), resumes) {
        Ok(permit) => permit,
        Err(text) => return Ok(Response::refused(503, &text).with("Retry-After", "5")),
    };
    let (pieces, received) = bounded(PIECES_AHEAD);
    let feed = Feed::new(received, packing);
    let input = Input::from_reader(NAME, format, feed).window_log(window_log);
    // A load that has begun does not begin again.
    service.home.look_again(&namespace.keyspace());
    let existing = service.existing(&namespace)?;
    let plan = move |collection: &Collection| Plan {
        key,
        mode,
        stops_on_error,
        resumes,
        durability: durability(&service.db),
        memory_budget: service.db.stats().memory_budget,
        bad,
        json,
        ..Plan::new(&service.db, &for_drivers(collection), vec![input])
    };
    let input_bytes = asked.request.head.length();
    let run = move |exchange: &mut dyn Exchange| {
        let next = Instant::now() + SECOND;
        let inserted = 0;
        let collection = match existing {
            Some(collection) => Ok((collection, false)),
            None => service.created_in(&namespace, None),
        };
        let (collection, refused) = match collection {
            Ok((collection, is_new)) => {
                permit.of(|of| of.is_new |= is_new);
                (Some(collection), None)
            }
            Err(failure) => (None, Some(failure)),
        };
        let mut told = Told {
            service,
            client,
            database: namespace.database,
            refused,
            returned,
            has_progress,
            input_bytes,
            next,
            inserted,
        };
        let stops = false;
        let Some(collection) = collection else {
            let error = Err(LoadError::Usage(String::new()));
            return told.last(&error, Duration::ZERO, Count::default(), stops);
        };
        let last = match RunningLoad::start(plan(&collection), pieces) {
            Ok(running) => running.run(exchange, told),
            Err(error) => told.last(&Err(error), Duration::ZERO, Count::default(), stops),
        };
        permit.end(&service.db, &collection, last.0 != 200);
        last
    };
    Ok(Response {
        status: 200,
        fields: vec![("Content-Type", NDJSON.to_owned())],
        content: Content::Exchange(Box::new(run)),
        about: None,
    })
}

fn mode(asked: &RoutedRequest<'_>) -> Outcome<Mode> {
    Ok(match asked.parameter("mode") {
        None | Some("upsert") => Mode::Upsert,
        Some("insert") => Mode::Insert,
        Some("merge") => Mode::Merge,
        Some(other) => return Err(wrong("mode", "upsert, insert or merge", other)),
    })
}

fn window_log(asked: &RoutedRequest<'_>) -> Outcome<u32> {
    let Some(text) = asked.parameter("long") else { return Ok(WINDOW_LOG) };
    let log = text.parse().ok().filter(|log| (10..=WINDOW_LOG_MAX).contains(log));
    log.ok_or_else(|| wrong("long", "a number from 10 to 27", text))
}

/// Returns the format of the body: that of `type`, or of its Content-Type.
fn format(asked: &RoutedRequest<'_>) -> Outcome<Format> {
    let kind = asked.request.head.content_type();
    let mut table = match (asked.parameter("type"), kind.as_str()) {
        (Some("csv"), _) | (None, CSV) => Some(TableFormat::csv()),
        (Some("tsv"), _) | (None, TSV) => Some(TableFormat::tsv()),
        (Some("json") | None, _) => None,
        (Some(other), _) => return Err(wrong("type", "json, csv or tsv", other)),
    };
    for name in ["fields", "delimiter", "types", "all-text", "ignore-blanks"] {
        let (Some(text), Some(table)) = (asked.parameter(name), &mut table) else {
            if asked.parameter(name).is_none() {
                continue;
            }
            let text = format!("{name} is for tables: expected the type csv or tsv");
            return Err(Failure::new(Code::InvalidOptions, text));
        };
        let list = || text.split(',').map(str::to_owned).collect();
        match name {
            "fields" => table.fields = Some(list()),
            "delimiter" => table.delimiter = delimiter(text)?,
            "types" => table.types = text.split(',').map(column).collect::<Outcome<_>>()?,
            "all-text" => table.is_text = asked.is(name)?,
            _ => table.ignores_blanks = asked.is(name)?,
        }
    }
    Ok(table.map_or(Format::Json, Format::Table))
}

fn delimiter(text: &str) -> Outcome<u8> {
    match text.as_bytes() {
        b"tab" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(*byte),
        _ => Err(wrong("delimiter", "one ASCII character, no quote or line end, or tab", text)),
    }
}

fn column(text: &str) -> Outcome<(String, FieldType)> {
    let parsed = text
        .rsplit_once('=')
        .and_then(|(name, kind)| FieldType::parse(kind).map(|kind| (name.to_owned(), kind)));
    let expected = "NAME=TYPE with the type text, int, number, bool or json";
    parsed.ok_or_else(|| wrong("types", expected, text))
}

/// Returns what becomes of documents that cannot be loaded, and those that are to be returned.
fn bad_documents(asked: &RoutedRequest<'_>) -> Outcome<(BadDocuments, Option<Arc<Returned>>)> {
    match asked.parameter("bad-lines") {
        None => Ok((BadDocuments::stop(), None)),
        _ if asked.is("resume")? => {
            let text = "bad-lines: expected a load without resume, which would not know which \
                        documents were left out before";
            Err(Failure::new(Code::InvalidOptions, text))
        }
        Some("skip") => Ok((BadDocuments::pass_to(|_, _| {}), None)),
        Some("return") => {
            let returned = Arc::new(Returned::default());
            let to = Arc::clone(&returned);
            Ok((BadDocuments::pass_to(move |why, text| to.add(why, text)), Some(returned)))
        }
        Some(other) => Err(wrong("bad-lines", "skip or return", other)),
    }
}

/// A load that runs.
struct Permit {
    loads: Loads,
    keyspace: String,
}

impl Permit {
    /// Adds a load to those that run. One that can be continued runs alone on its collection: how
    /// far it has come is stored for the collection.
    fn new(service: &Service, keyspace: &str, resumes: bool) -> Result<Self, String> {
        let most = service.options.loads_max;
        let mut loads = service.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let running: usize = loads.values().map(|of| of.running).sum();
        if running >= most {
            service.counters.count_limit(Limit::Loads);
            let flag = Limit::Loads.option();
            return Err(format!("expected at most {most} loads at a time ({flag}): try again"));
        }
        if loads.get(keyspace).is_some_and(|of| resumes || of.is_alone) {
            let text = "another load of the collection runs, and one with resume runs alone: try \
                        again";
            return Err(text.to_owned());
        }
        let of = loads.entry(keyspace.to_owned()).or_default();
        of.running += 1;
        of.is_alone = resumes;
        Ok(Self { loads: Arc::clone(&service.loads), keyspace: keyspace.to_owned() })
    }

    /// Calls `change` with the loads into the collection.
    fn of(&self, change: impl FnOnce(&mut LoadsOf)) {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        loads.get_mut(&self.keyspace).map(change);
    }

    /// Ends the load: the last one of those that have created the collection drops it, if all have
    /// failed and nothing was written. Others wait for that before they begin.
    fn end(self, database: &Database, collection: &Collection, has_failed: bool) {
        self.of(|of| {
            of.is_new &= has_failed;
            if of.is_new && of.running == 1 {
                // The client is told why the load has failed, and not that this fails, too.
                let _stays = drop_unwritten(database, collection);
            }
        });
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of) = loads.get_mut(&self.keyspace) {
            of.running -= 1;
            if of.running == 0 {
                loads.remove(&self.keyspace);
            }
        }
    }
}

/// Bad documents that are to be returned.
#[derive(Default)]
struct Returned(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    left_out: u64,
}

impl Returned {
    fn lines(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, why: &str, text: &[u8]) {
        let shown = String::from_utf8_lossy(text.get(..BAD_TEXT_MAX).unwrap_or(text));
        let mut map = Map::new();
        map.insert("$bad", why);
        map.insert("text", &*shown);
        if text.len() > BAD_TEXT_MAX {
            map.insert("bytes", text.len() as u64);
        }
        let line = line(map);
        let mut lines = self.lines();
        if lines.text.len() + line.len() > BAD_BYTES_MAX {
            lines.left_out += 1;
        } else {
            lines.text.extend_from_slice(&line);
        }
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.lines().text)
    }

    /// Takes lines from the front, as many as fit [`TICK_BYTES`].
    fn some(&self) -> Vec<u8> {
        let mut lines = self.lines();
        let front = &lines.text[..lines.text.len().min(TICK_BYTES)];
        let end = front.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = lines.text.split_off(end);
        std::mem::replace(&mut lines.text, rest)
    }
}

/// Returns a map as a line of JSON.
fn line(map: Map) -> Vec<u8> {
    let text = Document::from_value(&Value::Map(map)).and_then(|map| map.to_json());
    let mut line = text.unwrap_or_default().into_bytes();
    line.push(b'\n');
    line
}

/// What a load has done by now, and whether it is to stop.
#[derive(Default)]
struct LoadProgress {
    done: Mutex<(Duration, Count)>,
    stops: AtomicBool,
}

struct Watched(Arc<LoadProgress>);

impl Watcher for Watched {
    fn tick(&mut self, took: Duration, count: Count) {
        *self.0.done.lock().unwrap_or_else(PoisonError::into_inner) = (took, count);
    }

    fn end(&mut self, took: Duration, count: Count) {
        self.tick(took, count);
    }

    fn stops(&self) -> bool {
        self.0.stops.load(Ordering::Acquire)
    }
}

/// A load that runs on a thread of its own.
struct RunningLoad {
    state: Arc<LoadProgress>,
    /// `None` when the load has all of the body.
    pieces: Option<Sender<Piece>>,
    ended: Receiver<Result<flagstone_load::Outcome, LoadError>>,
    thread: Option<JoinHandle<()>>,
}

/// Nothing of a load goes on when its connection has ended.
impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.state.stops.store(true, Ordering::Release);
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            // Its panic was printed.
            let _ended = thread.join();
        }
    }
}

impl RunningLoad {
    fn start(plan: Plan, pieces: Sender<Piece>) -> Result<Self, LoadError> {
        let state = Arc::<LoadProgress>::default();
        let (sender, ended) = bounded(1);
        let mut watched = Watched(Arc::clone(&state));
        let run = move || {
            // Who waited for it may be gone.
            let _told = sender.send(plan.run(&mut watched));
        };
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn(run);
        let thread =
            thread.map_err(|error| LoadError::Io(format!("cannot start a thread: {error}")))?;
        Ok(Self { state, pieces: Some(pieces), ended, thread: Some(thread) })
    }

    /// Gives the load the pieces that come.
    fn run(mut self, exchange: &mut dyn Exchange, mut told: Told<'_>) -> (u16, Vec<u8>) {
        let (mut stops, mut ahead) = (false, None);
        while let Some(pieces) = &self.pieces {
            let piece = match ahead.take() {
                _ if told.refused.is_some() => {
                    Some(Piece::Cut("its user may not write any more".to_owned()))
                }
                Some(piece) => Some(piece),
                None => {
                    let arrived = exchange.read(told.next);
                    stops |= matches!(arrived, Arrived::Stopping);
                    Piece::of(arrived)
                }
            };
            let is_last = matches!(piece, Some(Piece::End | Piece::Cut(_)));
            // Its documents are of this second, or of a later one.
            told.service.mark_time();
            match piece.map(|piece| pieces.send_deadline(piece, told.next)) {
                None => {}
                Some(Err(SendTimeoutError::Timeout(piece))) => ahead = Some(piece),
                // The load has ended before.
                Some(Err(SendTimeoutError::Disconnected(_))) => self.pieces = None,
                Some(Ok(())) if is_last => self.pieces = None,
                Some(Ok(())) => {}
            }
            told.tell(exchange, &self.state);
            if !self.ended.is_empty() {
                break;
            }
        }
        let ended = loop {
            match self.ended.recv_deadline(told.next) {
                Ok(ended) => break ended,
                Err(RecvTimeoutError::Timeout) => told.tell(exchange, &self.state),
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(LoadError::Io("a thread of the load ended by a panic".into()));
                }
            }
        };
        let (took, count) = *self.state.done.lock().unwrap_or_else(PoisonError::into_inner);
        told.last(&ended, took, count, stops)
    }
}

/// What the client is told.
struct Told<'a> {
    service: &'a Service,
    client: &'a mut Client,
    database: String,
    /// Why the client may not write any more.
    refused: Option<Failure>,
    returned: Option<Arc<Returned>>,
    has_progress: bool,
    /// The length of the body, if it was announced.
    input_bytes: Option<u64>,
    /// When the next line is due.
    next: Instant,
    /// The documents that the server's counters know of.
    inserted: u64,
}

impl Told<'_> {
    /// Sends what is due, if the client takes it.
    fn tell(&mut self, exchange: &mut dyn Exchange, state: &LoadProgress) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + SECOND;
        self.service.refresh(self.client);
        let may_write = self.service.check_access(self.client, Need::Write, &self.database, "load");
        if let Err(failure) = may_write {
            state.stops.store(true, Ordering::Release);
            self.refused = Some(failure);
        }
        let (took, count) = *state.done.lock().unwrap_or_else(PoisonError::into_inner);
        self.count(count);
        if !self.has_progress || !exchange.is_taking() {
            return;
        }
        // A client that sends all of the body before it reads takes little.
        let mut lines = self.returned.as_ref().map_or_else(Vec::new, |returned| returned.some());
        let mut map = counted("documents", took, count);
        if let Some(bytes) = self.input_bytes {
            map.insert("input_bytes_total", bytes);
        }
        lines.extend_from_slice(&line(map));
        exchange.send(&lines);
    }

    /// Adds what was loaded since the last time to the server's counters.
    fn count(&mut self, count: Count) {
        let new = count.documents.saturating_sub(self.inserted);
        ServiceCounters::add(&self.service.counters.inserts, new);
        self.inserted += new;
    }

    /// Returns the status and the last lines.
    fn last(
        &mut self,
        ended: &Result<flagstone_load::Outcome, LoadError>,
        took: Duration,
        count: Count,
        stops: bool,
    ) -> (u16, Vec<u8>) {
        let mut lines = self.returned.as_ref().map_or_else(Vec::new, |returned| returned.take());
        let failure = match ended {
            Ok(outcome) => outcome.failure.as_ref(),
            Err(error) => Some(error),
        };
        let (count, took) = match ended {
            Ok(outcome) => (outcome.count, outcome.took),
            Err(_) => (count, took),
        };
        self.count(count);
        let mut map = Map::new();
        let mut status = 200;
        let is_interrupted = ended.as_ref().is_ok_and(|outcome| outcome.is_interrupted);
        let failure = match failure {
            _ if self.refused.is_some() => self.refused.take(),
            _ if stops || is_interrupted => Some(interrupted()),
            None => None,
            Some(LoadError::Usage(text)) => Some(Failure::new(Code::FailedToParse, text.as_str())),
            Some(LoadError::Exists(text)) => Some(Failure::new(Code::DuplicateKey, text.as_str())),
            Some(LoadError::Engine(error)) => Some(error.clone().into()),
            Some(error) => Some(Failure::new(Code::OperationFailed, error.to_string())),
        };
        if let Some(failure) = failure {
            let (of_failure, error) = refusal::value_of(&failure);
            status = of_failure;
            map.insert("$error", error);
        }
        for (name, value) in counted("loaded", took, count) {
            map.insert(name, value);
        }
        if let Ok(outcome) = ended {
            if let Some((_, offset)) = &outcome.resumed_at {
                map.insert("resumed_at", *offset);
            }
            if outcome.was_complete {
                map.insert("was_complete", true);
            }
        }
        let left_out = self.returned.as_ref().map_or(0, |returned| returned.lines().left_out);
        if left_out > 0 {
            map.insert("bad_documents_not_returned", left_out);
        }
        lines.extend_from_slice(&line(map));
        (status, lines)
    }
}

/// The failure of a load that the end of the server has stopped.
fn interrupted() -> Failure {
    let text = "the load was stopped: the server is shutting down";
    Failure::new(Code::InterruptedAtShutdown, text)
}

/// Returns what a load has done, by the names that the tool gives it.
fn counted(name: &str, took: Duration, count: Count) -> Map {
    let seconds = took.as_secs_f64();
    let rate = |n: u64| if seconds > 0.0 { (n as f64 / seconds) as u64 } else { 0 };
    let mut map = Map::new();
    map.insert(name, count.documents);
    map.insert("bad_documents", count.bad);
    map.insert("existing_documents", count.existing);
    map.insert("json_bytes", count.json_bytes);
    map.insert("input_bytes", count.input_bytes);
    map.insert("seconds", (seconds * 1000.0).round() / 1000.0);
    map.insert("documents_per_second", rate(count.documents));
    map
}
