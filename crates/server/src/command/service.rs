//! What all connections share, what each has of its own, and how a message is answered.

use super::id::Incoming;
use super::run::{Command, Run};
use super::table;
use crate::access::{Conversation, Need, User, Users};
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::session::cursors::Cursors;
use crate::wire::{Request, WireError, put_message, put_reply};
use flagstone::internal::interruptible;
use flagstone::{Database, Document, View};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How a [`Service`] answers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServiceOptions {
    /// The most open cursors.
    pub cursors_max: usize,
    /// The name of the replica set that the server says to be, instead of a router of a sharded
    /// cluster.
    pub replica_set: Option<String>,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self { cursors_max: 10_000, replica_set: None }
    }
}

/// Runs commands on a database: for all connections, and without one.
///
/// ```
/// use flagstone::Document;
/// use flagstone_server::command::{Service, ServiceOptions};
/// # let dir = tempfile::tempdir().unwrap();
/// let db = flagstone::Database::open(dir.path())?;
/// let service = Service::new(db, ServiceOptions::default())?;
/// let mut client = service.client("here".to_owned(), "here".to_owned(), true);
/// let insert = Document::from_json(r#"{"insert":"users","documents":[{"_id":"ada","n":1}]}"#)?;
/// assert_eq!(service.run(&mut client, "app", &insert)?.to_json()?, r#"{"n":1,"ok":1.0}"#);
/// let find = Document::from_json(r#"{"find":"users","filter":{"n":1}}"#)?;
/// let found = service.run(&mut client, "app", &find)?;
/// assert_eq!(found.str("cursor.firstBatch.0._id"), Some("ada"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Service {
    pub(crate) db: Database,
    pub(crate) users: Users,
    pub(crate) cursors: Cursors,
    pub(crate) options: ServiceOptions,
    pub(crate) started: Instant,
    pub(crate) counters: Counters,
    request: AtomicI32,
    clients: AtomicU64,
    is_closing: AtomicBool,
}

/// What was done since the start.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) inserts: AtomicU64,
    pub(crate) queries: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) get_mores: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) failures: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

/// The state of one connection.
pub struct Client {
    /// Where it comes from.
    pub(crate) peer: String,
    /// Where it has connected to, as a host and a port.
    pub(crate) local: String,
    /// Whether it comes from this machine, or there is no connection.
    pub(crate) is_local: bool,
    pub(crate) id: u64,
    pub(crate) user: Option<User>,
    /// A conversation that tells who the client is, and whether its last message is left out.
    pub(crate) conversation: Option<(Conversation, bool)>,
    pub(crate) incoming: Incoming,
}

impl Client {
    /// Returns the address that a member of a replica set has.
    pub(crate) fn local_address(&self) -> String {
        self.local.clone()
    }

    /// Returns the name of the user that has logged in.
    pub fn user(&self) -> Option<&str> {
        self.user.as_ref().map(|user| user.name.as_str())
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("db", &self.db).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { peer, id, user, .. } = self;
        f.debug_struct("Client")
            .field("peer", peer)
            .field("id", id)
            .field("user", user)
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// When the command of this thread is to end.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

fn is_over() -> bool {
    DEADLINE.get().is_some_and(|deadline| Instant::now() >= deadline)
}

impl Service {
    /// Creates a service.
    ///
    /// # Errors
    /// If the users cannot be read.
    pub fn new(db: Database, options: ServiceOptions) -> flagstone::Result<Arc<Self>> {
        let users = Users::open(&db)?;
        Ok(Arc::new(Self {
            db,
            users,
            cursors: Cursors::new(options.cursors_max),
            options,
            started: Instant::now(),
            counters: Counters::default(),
            request: AtomicI32::new(1),
            clients: AtomicU64::new(1),
            is_closing: AtomicBool::new(false),
        }))
    }

    /// Returns the users.
    pub const fn users(&self) -> &Users {
        &self.users
    }

    /// Returns the database.
    pub const fn database(&self) -> &Database {
        &self.db
    }

    /// Begins a connection from `peer` to `local`, which are addresses. `is_local`: it comes from
    /// this machine.
    pub fn client(&self, peer: String, local: String, is_local: bool) -> Client {
        let id = self.clients.fetch_add(1, Ordering::Relaxed);
        let incoming = Incoming::default();
        Client { peer, local, is_local, id, user: None, conversation: None, incoming }
    }

    /// Answers a message: appends the reply to `out`, or nothing if the client wants none.
    ///
    /// # Errors
    /// If the bytes are no message. The connection cannot go on then. A command that fails is no
    /// error: the reply says so.
    pub fn answer(
        &self,
        client: &mut Client,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let (header, request) = Request::parse(message)?;
        let ids = (self.request.fetch_add(1, Ordering::Relaxed), header.request_id);
        let written: Result<(), std::convert::Infallible> = match request {
            Request::Message(message) => {
                let start = out.len();
                let (wants_none, has_checksum) = (message.more_to_come, message.has_checksum);
                let put = put_message(out, ids, false, has_checksum, |out| {
                    self.execute(client, message.command, message.sequences, None, out);
                    Ok(())
                });
                if wants_none {
                    out.truncate(start);
                }
                put
            }
            Request::Query { database, command } => put_reply(out, ids, |out| {
                self.execute(client, command, Vec::new(), Some(database), out);
                Ok(())
            }),
        };
        let Ok(()) = written;
        Ok(())
    }

    /// Runs one command, which is given as a document, on a database. The reply says whether it
    /// failed.
    ///
    /// # Errors
    /// InvalidInput if the reply has what a document cannot hold.
    pub fn run(
        &self,
        client: &mut Client,
        database: &str,
        command: &Document,
    ) -> flagstone::Result<Document> {
        self.run_view(client, database, &command.root())
    }

    /// As [`Service::run`], for a command that is a part of a document.
    pub(crate) fn run_view(
        &self,
        client: &mut Client,
        database: &str,
        command: &View<'_>,
    ) -> flagstone::Result<Document> {
        let mut bson = Vec::new();
        let mut out = Vec::new();
        match BsonWriter::new(&mut bson).document(command) {
            Ok(()) => self.execute(client, &bson, Vec::new(), Some(database), &mut out),
            Err(error) => put_failure(&error.into(), &mut out),
        }
        // What the server writes, it can read.
        client.incoming.any(&out).map_err(|failure| flagstone::Error::invalid(failure.message))
    }

    /// Runs a command, and appends the document that answers it.
    fn execute<'a>(
        &self,
        client: &mut Client,
        command: &'a [u8],
        sequences: Vec<crate::wire::Sequence<'a>>,
        database: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        Counters::add(&self.counters.commands, 1);
        let mut incoming = std::mem::take(&mut client.incoming);
        let done = Command::parse(command, sequences, database, &mut incoming)
            .and_then(|command| self.execute_parsed(client, &command, &mut incoming, out));
        client.incoming = incoming;
        if let Err(failure) = done {
            out.truncate(start);
            Counters::add(&self.counters.failures, 1);
            put_failure(&failure, out);
        }
    }

    fn execute_parsed(
        &self,
        client: &mut Client,
        command: &Command<'_>,
        incoming: &mut Incoming,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Some(entry) = table::find(command.name) else {
            let text = format!("no such command: '{}'", command.name);
            return Err(Failure::new(Code::CommandNotFound, text));
        };
        self.check_open()?;
        self.check_access(client, entry.need, &command.database, entry.name)?;
        let mut run = Run { service: self, client, command, incoming, reply: BsonWriter::new(out) };
        let args = run.args();
        let mut known = vec![entry.name];
        known.extend_from_slice(entry.fields);
        args.check(&known)?;
        args.refuse_collation()?;
        refuse_transaction(&args)?;
        let deadline = match args.count("maxTimeMS")? {
            None | Some(0) => None,
            Some(millis) => Instant::now().checked_add(Duration::from_millis(millis)),
        };
        run.reply.begin();
        let before = DEADLINE.replace(deadline);
        let done = interruptible(is_over, || (entry.run)(&mut run));
        DEADLINE.set(before);
        done?;
        run.reply.double("ok", 1.0)?;
        Ok(run.reply.end()?)
    }

    /// Refuses everything once the server stops.
    pub(crate) fn check_open(&self) -> Outcome {
        if self.is_closing.load(Ordering::Acquire) {
            return Err(Failure::new(Code::ShutdownInProgress, "the server is being shut down"));
        }
        Ok(())
    }

    /// Refuses what the client may not do. Where no users are, everything is allowed to those who
    /// come from this machine.
    pub(crate) fn check_access(
        &self,
        client: &Client,
        need: Need,
        database: &str,
        name: &str,
    ) -> Outcome {
        if need == Need::Nothing || !self.users.exist() && client.is_local {
            return Ok(());
        }
        let text = match &client.user {
            None => format!("command {name} requires authentication"),
            Some(user) if user.may(need, database) => return Ok(()),
            Some(user) => {
                format!("not authorized on {database} to execute command {name} as {}", user.name)
            }
        };
        Err(Failure::new(Code::Unauthorized, text))
    }

    /// Refuses all further commands and ends the cursors.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.cursors.clear();
    }
}

/// Transactions need sessions, which the server does not announce yet.
fn refuse_transaction(args: &super::args::Args<'_>) -> Outcome {
    if args.bool("autocommit")? == Some(false) || args.is("startTransaction")? {
        let text = "transactions over the wire are not supported yet";
        return Err(Failure::new(Code::IllegalOperation, text));
    }
    if args.get("txnNumber")?.is_some() {
        let text = "retried writes are not supported yet: connect with retryWrites=false";
        return Err(Failure::new(Code::IllegalOperation, text));
    }
    Ok(())
}

/// Appends the document that says why a command failed.
fn put_failure(failure: &Failure, out: &mut Vec<u8>) {
    let start = out.len();
    let mut reply = BsonWriter::new(out);
    reply.begin();
    let put =
        reply.double("ok", 0.0).and_then(|()| failure.write(&mut reply)).and_then(|()| reply.end());
    if put.is_err() {
        // Only details can be too large for a document.
        out.truncate(start);
        let mut reply = BsonWriter::new(out);
        reply.begin();
        let _never = reply
            .double("ok", 0.0)
            .and_then(|()| reply.text("errmsg", "the error is too large for a reply"))
            .and_then(|()| reply.int("code", 1))
            .and_then(|()| reply.end());
    }
}

/// Returns the milliseconds since 1970.
pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
