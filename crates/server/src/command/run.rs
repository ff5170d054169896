//! One run of a command: what it was given, and where its reply goes.

use super::args::Args;
use super::id::Incoming;
use super::name::Namespace;
use super::service::{Client, Service};
use super::table;
use super::work::{OneDocument, Work};
use crate::access::Need;
use crate::bson::{BsonWriter, Element, elements, kind, values};
use crate::failure::{Code, Failure, Limit, Outcome};
use crate::room::Parsed;
use crate::session::operations::MESSAGE;
use crate::session::sessions::{RETRYABLE, WriteId};
use crate::watch::{Cause, End};
use crate::wire::{Request, Sequence};
use flagstone::internal::{durability as durability_of, interrupt_check};
use flagstone::remote::{Remote, Write};
use flagstone::{
    Collection, Document, Durability, ErrorKind, Slice, Transaction, TransactionOptions, View,
};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The lists of statements, whose documents are read one by one.
const LISTS: &[&str] = &["documents", "updates", "deletes"];
/// Those of the command [`BULK_WRITE`].
const BULK_LISTS: &[&str] = &["ops", "nsInfo"];
const BULK_WRITE: &str = "bulkWrite";
/// The command of the tool.
const TOOL: &str = "flagstone";

/// The most statements of one command.
pub(crate) const STATEMENTS_MAX: usize = 100_000;

/// A command as it came: its fields, and its statements as BSON.
pub(crate) struct Command<'a> {
    pub(crate) name: &'a str,
    pub(crate) database: String,
    /// All fields but the lists.
    pub(crate) body: Document,
    lists: Vec<(&'a str, Vec<&'a [u8]>)>,
    /// When it came.
    pub(crate) began: Instant,
    /// The room of what it is parsed into. A cursor that holds some of that takes it.
    pub(crate) parsed: Cell<Option<Parsed>>,
}

impl<'a> Command<'a> {
    /// Parses a command, once there is room for it. `database` is that of an old message; others
    /// have a field `$db`.
    pub(crate) fn parse(
        bson: &'a [u8],
        sequences: Vec<Sequence<'a>>,
        database: Option<&str>,
        service: &Service,
        client: &Client,
        incoming: &mut Incoming,
    ) -> Outcome<Self> {
        let (mut name, mut without, mut lists) = (None, Vec::new(), Vec::new());
        let (began, mut time, mut size) = (Instant::now(), ROOM_WAIT, Size::default());
        for element in elements(bson)? {
            let element = element?;
            if element.name == "maxTimeMS" {
                time = time.min(time_of(&element));
            }
            let command = *name.get_or_insert(element.name);
            let lists_of = if command == BULK_WRITE { BULK_LISTS } else { LISTS };
            if element.kind == kind::ARRAY && lists_of.contains(&element.name) {
                let mut documents = Vec::new();
                for item in elements(element.value)? {
                    let item = item?;
                    check_count(element.name, documents.len() + 1)?;
                    if item.kind != kind::DOCUMENT {
                        let text = format!("{}.{}: expected a document", element.name, item.name);
                        return Err(Failure::new(Code::TypeMismatch, text));
                    }
                    documents.push(item.value);
                }
                if lists.iter().any(|(name, _)| *name == element.name) {
                    let text = format!("{} comes twice in the command", element.name);
                    return Err(Failure::new(Code::FailedToParse, text));
                }
                lists.push((element.name, documents));
                without.push(element.range);
            } else if lists_of.contains(&element.name) {
                let text = format!("{}: expected an array of documents", element.name);
                let is_null = element.kind == kind::NULL;
                let code = if is_null { Code::IDLFailedToParse } else { Code::TypeMismatch };
                return Err(Failure::new(code, text));
            } else if bson.len() > SHORT_BYTES {
                size.add(&element, command);
            }
        }
        let Some(name) = name else {
            return Err(Failure::new(Code::FailedToParse, "a command has no field"));
        };
        for sequence in sequences {
            if lists.iter().any(|(name, _)| *name == sequence.name) {
                let text = format!("{} comes in the command and beside it", sequence.name);
                return Err(Failure::new(Code::FailedToParse, text));
            }
            check_count(sequence.name, sequence.documents.len())?;
            lists.push((sequence.name, sequence.documents.collect()));
        }
        for (_, statements) in lists.iter().filter(|(name, _)| *name != "documents") {
            size.add_largest(statements);
        }
        let waiting = Waiting { bson, database, began, time };
        let parsed = Cell::new(Some(take_room(service, client, size.memory(), &waiting)?));
        let body = incoming.any_without(bson, &without)?;
        let of_field = body.root().get("$db")?.and_then(|name| name.as_str().map(str::to_owned));
        let Some(database) = of_field.or_else(|| database.map(str::to_owned)) else {
            return Err(Failure::new(Code::IDLFailedToParse, "a command without the field $db"));
        };
        super::name::check_database(&database)?;
        Ok(Self { name, database, body, lists, began, parsed })
    }
}

/// What a value takes in the memory of what a command is parsed into, besides its own bytes: about
/// as much as was measured of filters and pipelines.
const VALUE_BYTES: usize = 128;
/// A command that is shorter needs no room of its own, whatever is in it.
const SHORT_BYTES: usize = 1 << 10;
/// The longest time that a command waits for room.
const ROOM_WAIT: Duration = Duration::from_secs(30);

/// Returns the time that the argument `maxTimeMS` gives a command.
fn time_of(element: &Element<'_>) -> Duration {
    let millis = match (element.kind, element.value.first_chunk(), element.value.first_chunk()) {
        (kind::INT32, Some(bytes), _) => i64::from(i32::from_le_bytes(*bytes)),
        (kind::INT64, _, Some(bytes)) => i64::from_le_bytes(*bytes),
        (kind::DOUBLE, _, Some(bytes)) => f64::from_le_bytes(*bytes) as i64,
        _ => 0,
    };
    // None is no limit.
    let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0);
    millis.map_or(Duration::MAX, Duration::from_millis)
}

fn check_count(name: &str, count: usize) -> Outcome {
    if count <= STATEMENTS_MAX {
        return Ok(());
    }
    let text = format!("{name}: expected at most {STATEMENTS_MAX} documents, found {count}");
    Err(Failure::new(Code::InvalidLength, text))
}

/// An estimate of the memory of what a command is parsed into.
#[derive(Default)]
struct Size {
    values: usize,
    bytes: usize,
}

impl Size {
    /// Adds an argument of a command.
    fn add(&mut self, element: &Element<'_>, command: &str) {
        self.bytes += element.range.len();
        self.values += 1 + match element.kind {
            kind::DOCUMENT | kind::ARRAY => values(element.value),
            // The tool sends filters and pipelines as texts.
            kind::STRING if command == TOOL => {
                element.value.iter().filter(|byte| b",[{".contains(byte)).count()
            }
            _ => 0,
        };
    }

    /// Adds the largest of statements: they are parsed one by one. Documents that are inserted are
    /// not.
    fn add_largest(&mut self, statements: &[&[u8]]) {
        let is_parsed = |statement: &&&[u8]| {
            let first = elements(statement).ok().and_then(|mut all| all.next()?.ok());
            statement.len() > SHORT_BYTES && first.is_some_and(|first| first.name != "insert")
        };
        let sizes = statements.iter().filter(is_parsed).map(|one| (values(one), one.len()));
        let memory = |&(values, bytes): &(usize, usize)| values * VALUE_BYTES + 2 * bytes;
        let (values, bytes) = sizes.max_by_key(memory).unwrap_or_default();
        self.values += values;
        self.bytes += bytes;
    }

    /// Returns the bytes: those of the values, of the stored form, and of what is made of texts.
    const fn memory(&self) -> usize {
        if self.bytes <= SHORT_BYTES { 0 } else { self.values * VALUE_BYTES + 2 * self.bytes }
    }
}

/// What waits for room.
struct Waiting<'a> {
    /// A command, as far as it is known.
    bson: &'a [u8],
    database: Option<&'a str>,
    began: Instant,
    /// How long it waits, at most.
    time: Duration,
}

/// What a message or a request was about, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) command: String,
    pub(crate) database: String,
    pub(crate) collection: Option<String>,
}

impl About {
    /// Returns what a message is about.
    pub(crate) fn of_message(message: &[u8]) -> Option<Self> {
        match Request::parse(message).ok()?.1 {
            Request::Message(message) => Some(Self::of_command(message.command, None)),
            Request::Query { database, command } => Some(Self::of_command(command, Some(database))),
        }
    }

    /// Returns what a command is about that is a part of a document.
    pub(crate) fn of_view(command: &View<'_>, database: String) -> Option<Self> {
        let mut bson = Vec::new();
        BsonWriter::new(&mut bson).document(command).ok()?;
        Some(Self::of_command(&bson, Some(&database)))
    }

    /// Returns what a command is about. No value in it is shown but the name of its collection.
    pub(crate) fn of_command(bson: &[u8], database: Option<&str>) -> Self {
        let (command, (database, collection)) = names_in(bson, database);
        let operation = text_in(bson, TOOL).and_then(super::tool::operation);
        let command = match (command, operation) {
            (TOOL, Some(operation)) => format!("{TOOL}.{operation}"),
            (command, _) => command.to_owned(),
        };
        Self { command, database: database.to_owned(), collection: collection.map(str::to_owned) }
    }
}

/// Returns a field that is text.
fn text_in<'a>(bson: &'a [u8], name: &str) -> Option<&'a str> {
    let mut all = elements(bson).ok()?.filter_map(Result::ok);
    let found = all.find(|element| element.name == name)?;
    let text = found.value.get(4..).filter(|_| found.kind == kind::STRING)?;
    std::str::from_utf8(text.strip_suffix(b"\0")?).ok()
}

/// Returns as what a command is listed.
fn names_in<'a>(
    bson: &'a [u8],
    database: Option<&'a str>,
) -> (&'static str, (&'a str, Option<&'a str>)) {
    let mut all = elements(bson).ok().into_iter().flatten().filter_map(Result::ok);
    let name = all.next().map_or("", |first| first.name);
    let database = text_in(bson, "$db").or(database).unwrap_or_default();
    let collection = table::collection_field(name).and_then(|field| text_in(bson, field));
    (table::find(name).map_or(MESSAGE, |entry| entry.name), (database, collection))
}

impl<'a> Waiting<'a> {
    /// Returns as what it is listed.
    fn listed(&self) -> (&'static str, (&'a str, Option<&'a str>)) {
        names_in(self.bson, self.database)
    }

    fn is_retried(&self) -> bool {
        let mut all = elements(self.bson).ok().into_iter().flatten().filter_map(Result::ok);
        all.any(|element| element.name == "txnNumber")
    }
}

/// Takes room for what a command is parsed into, and waits for it.
fn take_room(
    service: &Service,
    client: &Client,
    bytes: usize,
    waiting: &Waiting<'_>,
) -> Outcome<Parsed> {
    let room = &service.parsed;
    if let Some(held) = room.take(bytes, Instant::now(), || true) {
        return Ok(Parsed(held));
    }
    let Waiting { began, time, .. } = *waiting;
    let (name, (database, collection)) = waiting.listed();
    service.waiting(client, name, database, collection, |goes_on| {
        if let Some(held) = room.take(bytes, began + time, goes_on) {
            return Ok(Parsed(held));
        }
        let text = format!(
            "expected room for the command, some {bytes} bytes when it is parsed, among at most {} \
             bytes of commands of all clients",
            room.most()
        );
        let limited = |code| Failure::limited(code, Limit::Messages, &text);
        let is_late = time < ROOM_WAIT && began.elapsed() >= time;
        Err(match service.end_of_wait() {
            Some(End::Told(Cause::Stopped)) => {
                let failure =
                    Failure::new(Code::ShutdownInProgress, "the server is being shut down");
                if waiting.is_retried() { failure.with_label(RETRYABLE) } else { failure }
            }
            Some(End::Told(Cause::Killed) | End::Gone) => {
                let flag = Limit::Messages.option();
                Failure::new(Code::Interrupted, format!("{text} ({flag})"))
            }
            _ if is_late => limited(Code::MaxTimeMSExpired),
            _ => limited(Code::ExceededMemoryLimit),
        })
    })
}

/// Takes room for what the values of a document of BSON are parsed into, which is sent to change
/// another one.
pub(crate) fn room_for(service: &Service, client: &Client, bson: &[u8]) -> Outcome<Parsed> {
    let size = Size { values: values(bson), bytes: bson.len() };
    let (bson, database, began) = (&[][..], None, Instant::now());
    take_room(service, client, size.memory(), &Waiting { bson, database, began, time: ROOM_WAIT })
}

impl Command<'_> {
    /// Returns the collection that the command is about, if a field names one.
    pub(crate) fn collection(&self) -> Option<&str> {
        let field = table::collection_field(self.name)?;
        self.body.root().get(field).ok()?.and_then(|name| name.as_str())
    }
}

/// What runs: the command, the client that sent it, and the reply.
pub(crate) struct Run<'r, 'o> {
    pub(crate) service: &'r Service,
    pub(crate) client: &'r mut Client,
    pub(crate) command: &'r Command<'r>,
    pub(crate) incoming: &'r mut Incoming,
    pub(crate) reply: BsonWriter<'o>,
    /// The transaction that the client has open.
    pub(crate) transaction: Option<Transaction>,
    /// By what the write is known if it is retried.
    pub(crate) write: Option<WriteId>,
    /// Whether the command makes no more than one commit.
    pub(crate) has_one_commit: bool,
    /// The cursor that it has left open in the transaction.
    pub(crate) left: Option<i64>,
    /// The collections of a cluster whose loads that were stopped the command has ended.
    pub(crate) ended_loads: RefCell<Vec<u32>>,
}

/// How often a query is planned, at most, if indexes are dropped all the time.
pub(super) const PLANS_MAX: usize = 16;

/// How often a statement begins again because others change what it works on.
const TRIES_MAX: usize = 1000;

impl<'r> Run<'r, '_> {
    /// Returns the arguments.
    pub(crate) fn args(&self) -> Args<'r> {
        Args::new(self.command.body.root(), self.command.name)
    }

    /// Returns the collection that the first field names.
    pub(crate) fn namespace(&self) -> Outcome<Namespace> {
        let args = self.args();
        let name = args.get(self.command.name)?.and_then(|name| name.as_str());
        let Some(name) = name else {
            let text = format!("{}: expected the name of a collection", self.command.name);
            return Err(Failure::new(Code::InvalidNamespace, text));
        };
        Namespace::new(&self.command.database, name)
    }

    /// Returns a collection if there is one.
    pub(crate) fn existing(&self, namespace: &Namespace) -> Outcome<Option<Collection>> {
        self.service.existing(namespace)
    }

    /// Lets the next call for a collection see what other servers have done with its indexes.
    pub(crate) fn look_again(&self, namespace: &Namespace) {
        self.service.home.look_again(&namespace.keyspace());
    }

    /// Returns a collection that must be there.
    pub(crate) fn required(&self, namespace: &Namespace) -> Outcome<Collection> {
        self.existing(namespace)?.ok_or_else(|| {
            Failure::new(Code::NamespaceNotFound, format!("ns does not exist: {namespace}"))
        })
    }

    /// Returns a collection, and creates it if there is none.
    pub(crate) fn created(&self, namespace: &Namespace) -> Outcome<Collection> {
        self.service.created(namespace)
    }

    /// Returns the statements of this name.
    pub(crate) fn statements(&self, name: &str) -> Outcome<&'r [&'r [u8]]> {
        let found = self.command.lists.iter().find(|(list, _)| *list == name);
        let Some((_, statements)) = found else {
            let text = format!("BSON field '{}.{name}' is missing", self.command.name);
            return Err(Failure::new(Code::IDLFailedToParse, text));
        };
        if statements.is_empty() || statements.len() > STATEMENTS_MAX {
            let text = format!(
                "{name}: expected 1 to {STATEMENTS_MAX} documents, found {}",
                statements.len()
            );
            return Err(Failure::new(Code::InvalidLength, text));
        }
        Ok(statements)
    }

    /// Runs `work` in the transaction that the client has open, or in one of its own, as often as
    /// others change meanwhile what it works on.
    pub(crate) fn atomically<T>(
        &mut self,
        mut work: impl FnMut(&Self, &mut Work<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        if self.service.home.cluster().is_some() {
            return self.on_one_document(work);
        }
        if let Some(mut transaction) = self.transaction.take() {
            let done = work(self, &mut Work::Transaction(&mut transaction));
            self.transaction = Some(transaction);
            return done;
        }
        let options = match durability(&self.args())? {
            // One sync for all commits of a command is enough.
            Some(durability) if self.has_one_commit => {
                TransactionOptions::new().durability(durability)
            }
            _ => TransactionOptions::new(),
        };
        let mut plans = 1;
        for _try in 0..TRIES_MAX {
            let mut transaction = options.begin(&self.service.db)?;
            let done = match work(self, &mut Work::Transaction(&mut transaction)) {
                // An index was dropped: another plan finds what it looks for, unless the
                // collection was.
                Err(failure) if failure.code == Code::QueryPlanKilled && plans < PLANS_MAX => {
                    plans += 1;
                    continue;
                }
                Err(failure) if failure.code == Code::WriteConflict => continue,
                done => done?,
            };
            // A command that makes many commits may take long.
            self.service.mark_time();
            match transaction.commit() {
                Ok(()) => return Ok(done),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(too_fast())
    }

    /// Runs `work` on one document of a cluster.
    fn on_one_document<T>(
        &self,
        mut work: impl FnMut(&Self, &mut Work<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let mut plans = 1;
        for _try in 0..TRIES_MAX {
            let mut one = OneDocument::default();
            let looked = work(self, &mut Work::One(&mut one));
            let Some((remote, key)) = one.place() else {
                match looked {
                    Err(failure)
                        if failure.code == Code::QueryPlanKilled
                            && !failure.is_of_dropped
                            && plans < PLANS_MAX =>
                    {
                        plans += 1;
                        continue;
                    }
                    done => return done,
                }
            };
            let mut done = None;
            remote.rewrite(&key, &mut |row| {
                one.begin(row);
                let worked = work(self, &mut Work::One(&mut one));
                let write = if worked.is_ok() { one.end() } else { Write::Nothing };
                done = Some(worked);
                Ok(write)
            })?;
            match done {
                Some(done) if !one.is_lost() => return done,
                _ => interrupt_check()?,
            }
        }
        Err(too_fast())
    }

    /// Ends the marks of loads into a collection of a cluster, once a command: that reads all of
    /// its buckets.
    pub(super) fn end_loads(&self, remote: &Arc<dyn Remote>) -> Outcome {
        let mut ended = self.ended_loads.borrow_mut();
        if !ended.contains(&remote.id()) {
            remote.end_loads()?;
            ended.push(remote.id());
        }
        Ok(())
    }

    /// Waits until everything that the client was or will be told survives a power cut, if its
    /// write concern or read concern asks for it.
    pub(crate) fn sync_if_asked(&self) -> Outcome {
        let args = self.args();
        let is_majority = |level: &str| matches!(level, "majority" | "linearizable");
        let reads = match args.map("readConcern")? {
            Some(concern) => {
                Args::new(concern, "readConcern").text("level")?.is_some_and(is_majority)
            }
            None => false,
        };
        let writes = !self.has_one_commit && durability(&args)?.is_some();
        // In a cluster all of it is in the memory of most machines.
        let is_there = self.service.home.cluster().is_some();
        if self.transaction.is_some() || is_there || !(reads || writes) {
            return Ok(());
        }
        self.sync()
    }

    /// Waits until what was written survives what a durability promises, if that of the database
    /// promises less.
    pub(crate) fn sync_for(&self, durability: Option<Durability>) -> Outcome {
        match durability {
            Some(Durability::Group | Durability::Each) => self.sync(),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> Outcome {
        // A sync does not save what was never logged.
        if durability_of(&self.service.db) == Durability::None {
            return Ok(self.service.db.flush()?);
        }
        Ok(self.service.db.sync()?)
    }

    /// Returns what earlier tries of this write have done, in the order of the statements.
    pub(crate) fn done(&self) -> Outcome<Vec<(u32, Slice)>> {
        match &self.write {
            Some(write) => write.done(&self.service.db),
            None => Ok(Vec::new()),
        }
    }

    /// Notes what a statement does, if it can be retried.
    pub(crate) fn note(
        &self,
        work: &mut Work<'_>,
        number: u32,
        done: impl FnOnce() -> Outcome<Vec<u8>>,
    ) -> Outcome {
        match (&self.write, work.transaction()) {
            (Some(write), Some(tx)) => write.note(&self.service.db, tx, number, &done()?),
            _ => Ok(()),
        }
    }

    /// Returns the number of the transaction that the client has open.
    pub(crate) fn transaction_number(&self) -> Outcome<Option<i64>> {
        if self.transaction.is_some() { self.args().int("txnNumber") } else { Ok(None) }
    }

    /// Returns the number of a statement, by which a retry knows it.
    pub(crate) fn statement(&self, index: usize) -> u32 {
        // At most 100,000.
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// Refuses what the client may not do on a database, besides that of the command.
    pub(crate) fn require(&self, need: Need, database: &str) -> Outcome {
        self.service.check_access(self.client, need, database, self.command.name)
    }

    /// Returns the name of the user that the client is, if there are users.
    pub(crate) fn user(&self) -> Option<String> {
        self.client.user.as_ref().map(|user| user.name.clone())
    }
}

#[cold]
fn too_fast() -> Failure {
    let text = "the documents change faster than they can be written";
    Failure::new(Code::WriteConflict, text)
}

/// Returns the durability that the write concern of a command asks for; `None` for that of the
/// database.
pub(super) fn durability(args: &Args<'_>) -> Outcome<Option<Durability>> {
    let Some(concern) = args.map("writeConcern")? else { return Ok(None) };
    let concern = Args::new(concern, "writeConcern");
    let is_majority = concern.get("w")?.is_some_and(|w| w.as_str().is_some());
    let syncs = is_majority || concern.is("j")? || concern.is("fsync")?;
    Ok(syncs.then_some(Durability::Group))
}
