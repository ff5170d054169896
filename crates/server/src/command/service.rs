//! What all connections share, what each has of its own, and how a message is answered.

use super::args::Args;
use super::builds::Builds;
use super::id::Incoming;
use super::latency::Latencies;
use super::name::Namespace;
use super::notes::{self, catalog_event};
use super::run::{Command, PLANS_MAX, Run};
use super::table::{self, Entry, Trait};
use crate::access::{Conversation, Need, User, Users};
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Limit, Outcome};
use crate::home::Home;
use crate::room::{Held, Room};
use crate::session::clock::{Clock, Time};
use crate::session::cursors::Cursors;
use crate::session::operations::{Operations, Registration, UseKind};
use crate::session::sessions::{RETRYABLE, SessionKey, Sessions, TRANSIENT};
use crate::watch::{self, Cause, End};
use crate::wire::{MESSAGE_BYTES_MAX, Request, WireError, put_message, put_reply};
use flagstone::internal::RemoteDatabase;
use flagstone::remote::unsupported;
use flagstone::{Collection, Database, Document, View};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant, SystemTime};

/// How a [`Service`] answers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServiceOptions {
    /// The most open cursors.
    pub cursors_max: usize,
    /// The most sessions.
    pub sessions_max: usize,
    /// The most loads over HTTP at a time. 4: each has threads of its own, and up to some 100 MiB
    /// of documents on their way.
    pub loads_max: usize,
    /// The most connections, for those who ask.
    pub connections_max: usize,
    /// The longest message, for drivers: what their connections take.
    pub message_bytes: usize,
    /// The name of the replica set that the server says to be, instead of a router of a sharded
    /// cluster.
    pub replica_set: Option<String>,
    /// The bytes that commands of all clients take when they are parsed, as estimated; the first 64
    /// KiB of each do not count. One more waits for up to 30 s, or its maxTimeMS. What open cursors
    /// keep of their commands may take as much again. 256 MiB.
    pub parsed_bytes: usize,
    /// The directory to which clients may add generations of backups. None: nobody may.
    pub backups: Option<PathBuf>,
    /// The longest time for a command that reads or writes documents, and for each batch of a
    /// cursor. None: as long as it takes.
    pub command_time: Option<Duration>,
    /// How long a cursor or a transaction may read one state of the database, however much it is
    /// used: what is overwritten meanwhile stays on disk. 6 hours, so that a dump of some hundred
    /// GiB ends.
    pub snapshot_age: Duration,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            cursors_max: 10_000,
            sessions_max: 100_000,
            loads_max: 4,
            connections_max: 10_000,
            message_bytes: MESSAGE_BYTES_MAX,
            replica_set: None,
            parsed_bytes: 256 << 20,
            backups: None,
            command_time: None,
            snapshot_age: Duration::from_secs(6 * 60 * 60),
        }
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
/// let is_local = true;
/// let mut client = service.client("here".to_owned(), "here".to_owned(), is_local);
/// let insert = Document::from_json(r#"{"insert":"users","documents":[{"_id":"ada","n":1}]}"#)?;
/// assert_eq!(service.run(&mut client, "app", &insert)?.to_json()?, r#"{"n":1,"ok":1.0}"#);
/// let find = Document::from_json(r#"{"find":"users","filter":{"n":1}}"#)?;
/// let found = service.run(&mut client, "app", &find)?;
/// assert_eq!(found.str("cursor.firstBatch.0._id"), Some("ada"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Service {
    /// What is private to this process; without a cluster also all collections.
    pub(crate) db: Database,
    /// Where the collections are.
    pub(crate) home: Arc<Home>,
    pub(crate) users: Arc<Users>,
    pub(crate) cursors: Cursors,
    pub(crate) sessions: Sessions,
    pub(crate) clock: Clock,
    /// Whether the log is kept for readers of changes.
    pub(crate) keeps_changes: bool,
    pub(crate) operations: Arc<Operations>,
    pub(crate) options: ServiceOptions,
    pub(crate) started: Instant,
    pub(crate) counters: ServiceCounters,
    pub(crate) latencies: Latencies,
    pub(crate) builds: Builds,
    pub(crate) loads: Loads,
    /// The room of what commands are parsed into.
    pub(crate) parsed: Arc<Room>,
    /// The room of long replies until they are sent, and of documents that cursors have read ahead.
    pub(crate) replies: Arc<Room>,
    /// Held while one collection takes the place of another, and shared by what creates, renames
    /// or drops some, and by who finds none of a name.
    pub(crate) replacing: RwLock<()>,
    request: AtomicI32,
    clients: AtomicU64,
    is_closing: AtomicBool,
}

/// The loads over HTTP that run, by keyspace.
pub(crate) type Loads = Arc<Mutex<HashMap<String, LoadsOf>>>;

/// The loads into one keyspace.
#[derive(Default)]
pub(crate) struct LoadsOf {
    pub(crate) running: usize,
    /// Whether one of them runs alone.
    pub(crate) is_alone: bool,
    /// Whether one of them has created the keyspace, and none has ended well.
    pub(crate) is_new: bool,
}

/// What was done since the start.
#[derive(Default)]
pub(crate) struct ServiceCounters {
    pub(crate) inserts: AtomicU64,
    pub(crate) queries: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) get_mores: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// How often each limit has refused or ended something.
    pub(crate) limits: [AtomicU64; Limit::ALL.len()],
    /// Messages and requests, and their bytes and those of the replies.
    pub(crate) requests: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

impl ServiceCounters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn count_limit(&self, limit: Limit) {
        Self::add(&self.limits[limit as usize], 1);
    }
}

/// The state of one connection.
pub struct Client {
    pub(crate) registration: Registration,
    /// Where it has connected to, as a host and a port.
    pub(crate) local: String,
    /// Whether it comes from this machine, or there is no connection.
    pub(crate) is_local: bool,
    /// Whether it may do everything.
    is_root: bool,
    pub(crate) user: Option<User>,
    /// The changes of users up to which that is true.
    seen: u64,
    /// A conversation that tells who the client is, and whether its last message is left out.
    pub(crate) conversation: Option<(Conversation, bool)>,
    pub(crate) incoming: Incoming,
    /// The room of the last reply, until it is sent.
    pub(crate) sending: Option<Held>,
    /// The user as whom it has failed to log in, until that is logged.
    failed_login: Option<String>,
}

/// The longest name of a user in the log, in bytes: clients send any.
const LOGGED_NAME_BYTES_MAX: usize = 256;

impl Client {
    /// Lets the client do everything: it has the files of the database anyway.
    pub const fn become_root(&mut self) {
        self.is_root = true;
    }

    /// Notes that the client has failed to log in as this user.
    pub(crate) fn fail_login(&mut self, name: &str) {
        let end = name.floor_char_boundary(LOGGED_NAME_BYTES_MAX);
        self.failed_login = Some(name[..end].to_owned());
    }

    /// Returns the user as whom the client has failed to log in since the last call.
    pub(crate) fn take_failed_login(&mut self) -> Option<String> {
        self.failed_login.take()
    }

    /// Makes the client this user, who has proved to be it.
    pub fn log_in(&mut self, user: User) {
        self.user = Some(user);
    }

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
        f.debug_struct("Client")
            .field("peer", &self.registration.peer())
            .field("id", &self.registration.number())
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The least room of replies: for some of the longest documents.
const REPLIES_MIN: usize = 64 << 20;

/// The least that open transactions may have written together.
const TRANSACTION_BYTES_MIN: usize = 16 << 20;

impl Service {
    /// Creates a service.
    ///
    /// # Errors
    /// If the users cannot be read.
    pub fn new(db: Database, options: ServiceOptions) -> flagstone::Result<Arc<Self>> {
        let users = Arc::new(Users::open(&db)?);
        super::output::clean(&db)?;
        let home = Arc::new(Home::Here(db.clone()));
        Self::of(db, home, users, options)
    }

    /// Creates a service over the collections of a cluster. Any number of them may serve one, of
    /// several processes, too. They share its users, of whose changes each learns by
    /// [`Service::tick`], and by logins.
    ///
    /// # Errors
    /// If the users cannot be read.
    pub fn over(
        cluster: Arc<dyn RemoteDatabase>,
        options: ServiceOptions,
    ) -> flagstone::Result<Arc<Self>> {
        let scratch = cluster.scratch()?;
        let home = Arc::new(Home::there(cluster));
        let users = Arc::new(Users::of(&home)?);
        Self::of(scratch, home, users, options)
    }

    fn of(
        db: Database,
        home: Arc<Home>,
        users: Arc<Users>,
        options: ServiceOptions,
    ) -> flagstone::Result<Arc<Self>> {
        // What open transactions have written counts in no other budget.
        let budget = usize::try_from(db.stats().memory_budget).unwrap_or(usize::MAX);
        let keeps_changes = db.stats().changes.is_some();
        let transaction_bytes = (budget / 4).max(TRANSACTION_BYTES_MIN);
        Ok(Arc::new(Self {
            users,
            clock: Clock::open(&db)?,
            keeps_changes,
            cursors: Cursors::new(options.cursors_max),
            sessions: Sessions::new(options.sessions_max, transaction_bytes, options.snapshot_age),
            db,
            home,
            operations: Arc::default(),
            parsed: Room::new(options.parsed_bytes),
            replies: Room::new(options.parsed_bytes.max(REPLIES_MIN)),
            options,
            started: Instant::now(),
            counters: ServiceCounters::default(),
            latencies: Latencies::default(),
            builds: Builds::default(),
            loads: Arc::default(),
            replacing: RwLock::default(),
            request: AtomicI32::new(1),
            clients: AtomicU64::new(1),
            is_closing: AtomicBool::new(false),
        }))
    }

    /// Returns the users.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Returns the database.
    pub const fn database(&self) -> &Database {
        &self.db
    }

    /// Returns how many connections there were.
    pub(crate) fn clients(&self) -> u64 {
        self.clients.load(Ordering::Relaxed) - 1
    }

    /// Counts a message or request, and the bytes of it and of its reply.
    #[cfg(unix)]
    pub(crate) fn count(&self, received: u64, sent: u64) {
        let ServiceCounters { requests, bytes_in, bytes_out, .. } = &self.counters;
        for (counter, n) in [(requests, 1), (bytes_in, received), (bytes_out, sent)] {
            ServiceCounters::add(counter, n);
        }
    }

    /// Begins a connection from `peer` to `local`, which are addresses. `is_local`: it comes from
    /// this machine.
    pub fn client(&self, peer: String, local: String, is_local: bool) -> Client {
        let id = self.clients.fetch_add(1, Ordering::Relaxed);
        let incoming = Incoming::default();
        let registration = self.operations.register(id, peer);
        let (is_root, user, conversation, seen) = (false, None, None, self.users.changes());
        let failed_login = None;
        Client {
            registration,
            local,
            is_local,
            is_root,
            user,
            seen,
            conversation,
            incoming,
            sending: None,
            failed_login,
        }
    }

    /// Looks up again who the client is, if users have changed: one who was removed, or has other
    /// roles, must not go on with the old ones.
    pub(crate) fn refresh(&self, client: &mut Client) {
        let changes = self.users.changes();
        if changes != client.seen {
            client.user = client.user.take().and_then(|user| self.users.get(&user.name));
            client.seen = changes;
        }
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
                let more_to_come = false;
                let put = put_message(out, ids, more_to_come, has_checksum, |out| {
                    let at = out.len();
                    self.execute(client, message.command, message.sequences, None, out);
                    self.put_time(at, out);
                    Ok(())
                });
                if wants_none {
                    out.truncate(start);
                }
                put
            }
            Request::Query { database, command } => put_reply(out, ids, |out| {
                let at = out.len();
                self.execute(client, command, Vec::new(), Some(database), out);
                self.put_time(at, out);
                Ok(())
            }),
        };
        let Ok(()) = written;
        Ok(())
    }

    /// Appends the time to the reply that begins at `at`. In a cluster there is none that all
    /// servers share: whatever was acknowledged before is seen.
    fn put_time(&self, at: usize, out: &mut Vec<u8>) {
        if self.home.cluster().is_none() {
            put_time(self.clock.time(&self.db), at, out);
        }
    }

    /// Lets what is written from here on have the present second.
    pub(crate) fn mark_time(&self) {
        if self.home.cluster().is_none() {
            self.clock.mark(&self.db);
        }
    }

    /// Refuses what a cluster does not do. `instead` says what to use.
    pub(crate) fn refuse_there(&self, what: &str, instead: &str) -> Outcome {
        match self.home.cluster() {
            Some(_) => Err(unsupported(what, instead).into()),
            None => Ok(()),
        }
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
        ServiceCounters::add(&self.counters.commands, 1);
        client.sending = None;
        self.refresh(client);
        let mut incoming = std::mem::take(&mut client.incoming);
        let done = Command::parse(command, sequences, database, self, client, &mut incoming)
            .and_then(|command| self.execute_planned(client, &command, &mut incoming, out));
        client.incoming = incoming;
        if let Err(failure) = done {
            out.truncate(start);
            client.sending = None;
            ServiceCounters::add(&self.counters.failures, 1);
            failure.limit.iter().for_each(|limit| self.counters.count_limit(*limit));
            put_failure(&failure, out);
        }
    }

    /// As [`Service::execute_parsed`]. A query whose index is dropped before its first documents
    /// are there is planned again.
    fn execute_planned(
        &self,
        client: &mut Client,
        command: &Command<'_>,
        incoming: &mut Incoming,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let start = out.len();
        let is_query = UseKind::of(command.name) == UseKind::Query;
        for attempt in 1..PLANS_MAX {
            let done = self.execute_parsed(client, command, incoming, out);
            // Another process has dropped a collection whose handle was known: there may be a new
            // one of its name. A cursor is of the old one.
            let is_dropped = matches!(&done, Err(one) if one.is_of_dropped);
            if attempt == 1 && is_dropped && command.name != "getMore" && self.home.forget() {
                out.truncate(start);
                continue;
            }
            let is_killed = matches!(&done, Err(one) if one.code == Code::QueryPlanKilled);
            // A transaction has ended with the error.
            if !is_killed || !is_query || command.body.root().get("autocommit")?.is_some() {
                return done;
            }
            out.truncate(start);
        }
        self.execute_parsed(client, command, incoming, out)
    }

    fn execute_parsed(
        &self,
        client: &mut Client,
        command: &Command<'_>,
        incoming: &mut Incoming,
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Some(entry) = table::find(command.name) else {
            return Err(table::refusal(command.name));
        };
        let session = match command.body.root().get("lsid")? {
            Some(lsid) if entry.need != Need::Nothing => session_key(&lsid, client).ok(),
            _ => None,
        };
        let user = client.user().map(str::to_owned);
        let (registration, name) = (&client.registration, entry.name);
        let (database, collection) = (command.database.as_str(), command.collection());
        let mut began =
            self.operations.begin(registration, name, database, collection, user, session);
        // After that: what begins later is not told that the server stops.
        self.check_open().map_err(|failure| match command.body.root().get("txnNumber") {
            Ok(Some(_)) => failure.with_label(RETRYABLE),
            _ => failure,
        })?;
        let need = super::aggregate::need(command, entry.need)?;
        self.check_access(client, need, &command.database, entry.name)?;
        // What anybody may send is no name of a collection.
        began.is_counted = entry.need != Need::Nothing
            && collection.is_some_and(|collection| Namespace::new(database, collection).is_ok());
        let reply = BsonWriter::new(out);
        let (transaction, write, has_one_commit) = (None, None, false);
        let mut run = Run {
            service: self,
            client,
            command,
            incoming,
            reply,
            transaction,
            write,
            has_one_commit,
            left: None,
            ended_loads: RefCell::default(),
        };
        let args = run.args();
        let looked = args.look(entry.fields, entry.ignored, entry.refused)?;
        args.refuse_collation()?;
        self.check_there(entry, &args)?;
        if let Some(time) = super::concern::check(&args, entry.is(Trait::ReadConcern))?
            && entry.need != Need::Nothing
        {
            match self.home.cluster() {
                // Of another server: what was acknowledged before is seen.
                Some(_) => {}
                None => self.clock.reach(&self.db, time)?,
            }
        }
        if looked.is_strict && !entry.is_in_api() {
            let text = format!("{} is not in version 1 of the API (apiStrict)", entry.name);
            return Err(Failure::new(Code::APIStrictError, text));
        }
        if entry.refuses_write_concern() && args.get("writeConcern")?.is_some() {
            let text = format!("{}: expected no writeConcern", entry.name);
            return Err(Failure::new(Code::InvalidOptions, text));
        }
        let deadline = match args.max_time()? {
            // Of the next batch of a change stream it is the time to wait.
            _ if entry.name == "getMore" => None,
            None => None,
            Some(millis) => command.began.checked_add(Duration::from_millis(millis)),
        };
        if entry.name == "commitTransaction" {
            self.mark_time();
        }
        run.reply.begin();
        if looked.asks_help {
            run.reply.text("help", entry.help)?;
            run.reply.double("ok", 1.0)?;
            return Ok(run.reply.end()?);
        }
        let (kill_switch, since) = (Arc::clone(&began.entry.kill_switch), Instant::now());
        let ends_with_client = entry.ends_with_client();
        let deadlines = self.deadlines(entry, &run);
        let done = watch::watched(deadline, &kill_switch, ends_with_client, || {
            watch::until(&deadlines, || self.run_in_session(entry, &mut run))
        });
        // A getMore with a time of its own waits for events: that says nothing about the server.
        if entry.name != "getMore" || args.get("maxTimeMS")?.is_none() {
            self.latencies.add(entry.kind(), since.elapsed());
        }
        done?;
        run.reply.double("ok", 1.0)?;
        Ok(run.reply.end()?)
    }

    /// Returns when the server ends a command. Each batch of a cursor has its own time.
    fn deadlines(&self, entry: &Entry, run: &Run<'_, '_>) -> [(Option<Instant>, End); 2] {
        let operation = || run.args().text("flagstone").ok().flatten().unwrap_or_default();
        let is_of_documents = match entry.name {
            "getMore" => false,
            "explain" => true,
            "flagstone" => super::tool::is_of_documents(operation()),
            _ => entry.is(Trait::InTransaction),
        };
        let after = |time: Duration| run.command.began.checked_add(time);
        let time = self.options.command_time.filter(|_| is_of_documents).and_then(after);
        let reads = is_of_documents && entry.need == Need::Read;
        let age = Some(self.options.snapshot_age).filter(|_| reads).and_then(after);
        [(time, End::Slow), (age, End::Old)]
    }

    /// Runs a command with what its session has: a transaction, or writes that may be repeated.
    fn run_in_session(&self, entry: &Entry, run: &mut Run<'_, '_>) -> Outcome {
        // Who has not logged in fills no table.
        if entry.need == Need::Nothing {
            return (entry.run)(run);
        }
        let args = run.args();
        let key = self.session_key(run)?;
        let number = super::transaction::check(&args, entry)?;
        let (Some(key), Some(number)) = (key, number) else {
            if number.is_some() || args.bool("autocommit")?.is_some() {
                let text = "txnNumber and autocommit: expected them with lsid";
                return Err(Failure::new(Code::InvalidOptions, text));
            }
            return (entry.run)(run).and_then(|()| run.sync_if_asked());
        };
        let session = self.sessions.get(&key)?;
        // Another command of the session may run.
        let mut session = watch::wait_for(|| match session.try_lock() {
            Ok(session) => Some(session),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })?;
        session.recall(&self.db)?;
        if args.bool("autocommit")? != Some(false) {
            let write = session.begin_write(number);
            self.cursors.end_these(&session.cursors_left());
            run.write = Some(write?);
            let done = (entry.run)(run).and_then(|()| run.sync_if_asked());
            // Drivers send a write again only if they are told so.
            return done.map_err(|failure| match failure.code {
                Code::InterruptedAtShutdown => failure.with_label(RETRYABLE),
                _ => failure,
            });
        }
        let begins = args.is("startTransaction")?;
        if begins {
            session.begin(number)?;
            self.cursors.end_these(&session.cursors_left());
        } else if super::transaction::is_end(entry.name) {
            let ended = super::transaction::end(run, &mut session, number);
            self.cursors.end_these(&session.cursors_left());
            return ended;
        }
        if !entry.is(Trait::InTransaction) {
            let text = format!("cannot run {} in a multi-document transaction", entry.name);
            return Err(Failure::new(Code::OperationNotSupportedInTransaction, text));
        }
        run.transaction =
            Some(if begins { super::transaction::begin(run)? } else { session.take(number)? });
        let done = watch::until(&[(session.ages_at(), End::Old)], || (entry.run)(run));
        session.add_cursor(run.left);
        // After an error the transaction has ended, as with other servers.
        let done = match (done, run.transaction.take()) {
            (Ok(()), Some(transaction)) => {
                let held = self.sessions.hold(&transaction);
                held.map(|held| session.give_back(transaction, held))
            }
            (done, _) => done,
        };
        self.cursors.end_these(&session.cursors_left());
        done.map_err(|failure| match failure.code {
            Code::WriteConflict | Code::QueryPlanKilled => failure.with_label(TRANSIENT),
            _ => failure,
        })
    }

    /// Lets something that a client sends wait for room: calls `wait` with a function that says
    /// whether to go on waiting. The wait is listed among the commands that run, and ends by
    /// [`Service::end_of_wait`].
    pub(crate) fn waiting<T>(
        &self,
        client: &Client,
        name: &'static str,
        database: &str,
        collection: Option<&str>,
        wait: impl FnOnce(&dyn Fn() -> bool) -> T,
    ) -> T {
        let user = client.user().map(str::to_owned);
        let registration = &client.registration;
        let began = self.operations.begin(registration, name, database, collection, user, None);
        began.wait();
        let kill_switch = Arc::clone(&began.entry.kill_switch);
        let needs_client = true;
        watch::watched(None, &kill_switch, needs_client, || wait(&|| self.end_of_wait().is_none()))
    }

    /// Returns why this thread is to stop waiting for room, if it is. A command that waits has not
    /// begun, so it ends as soon as the server begins to stop.
    pub(crate) fn end_of_wait(&self) -> Option<End> {
        let stops = || watch::waits_end() || self.is_closing.load(Ordering::Acquire);
        watch::end().or_else(|| stops().then_some(End::Told(Cause::Stopped)))
    }

    /// Returns a collection if there is one.
    pub(crate) fn existing(&self, namespace: &Namespace) -> Outcome<Option<Collection>> {
        let look = || self.home.existing(&namespace.keyspace());
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if self.home.cluster().is_some() {
            return Ok(None);
        }
        // Before another one takes its place there is none for a moment.
        let _meanwhile = self.replacing.read().unwrap_or_else(PoisonError::into_inner);
        Ok(look()?)
    }

    /// Returns a collection, and creates it if there is none: with what change streams need, if
    /// the database keeps changes.
    pub(crate) fn created(&self, namespace: &Namespace) -> Outcome<Collection> {
        Ok(self.created_in(namespace, None)?.0)
    }

    /// As [`Service::created`]; `partitions`: those of a new collection. Returns also whether it is
    /// new.
    pub(crate) fn created_in(
        &self,
        namespace: &Namespace,
        partitions: Option<u16>,
    ) -> Outcome<(Collection, bool)> {
        if let Some(collection) = self.existing(namespace)? {
            return Ok((collection, false));
        }
        let _meanwhile = self.replacing.read().unwrap_or_else(PoisonError::into_inner);
        // Before its documents. Two clients that create it at the same time are both told of.
        let Namespace { database, collection } = namespace;
        notes::note(self, [catalog_event("create", database, Some(collection), None)])?;
        let name = namespace.keyspace();
        let collection = self.home.created(&name, partitions)?;
        if self.keeps_changes {
            collection.keep_old_documents(true)?;
        }
        Ok((collection, true))
    }

    /// Runs `run`, and once more if it had the handle of a collection of a cluster that another
    /// process has dropped: there may be a new one of its name.
    pub(crate) fn again_if_dropped<T>(&self, mut run: impl FnMut() -> Outcome<T>) -> Outcome<T> {
        match run() {
            Err(failure) if failure.is_of_dropped && self.home.forget() => run(),
            done => done,
        }
    }

    /// Returns the session that a command belongs to.
    pub(crate) fn session_key(&self, run: &Run<'_, '_>) -> Outcome<Option<SessionKey>> {
        match run.args().map("lsid")? {
            Some(lsid) => session_key(&lsid, run.client).map(Some),
            None => Ok(None),
        }
    }

    /// Refuses what a cluster does not do.
    fn check_there(&self, entry: &Entry, args: &Args<'_>) -> Outcome {
        let Some(cluster) = self.home.cluster() else { return Ok(()) };
        if let Some(instead) = entry.not_in_cluster {
            return Err(unsupported(&format!("the command {}", entry.name), instead).into());
        }
        super::concern::check_there(args, cluster)
    }

    /// Refuses everything once the server stops.
    pub(crate) fn check_open(&self) -> Outcome {
        if self.is_closing.load(Ordering::Acquire) {
            return Err(Failure::new(Code::ShutdownInProgress, "the server is being shut down"));
        }
        Ok(())
    }

    /// Refuses what the client may not do. Where no users are, everything is allowed to those who
    /// come from this machine. Who is allowed to write will, so that this marks the clock.
    pub(crate) fn check_access(
        &self,
        client: &Client,
        need: Need,
        database: &str,
        name: &str,
    ) -> Outcome {
        let is_free = client.is_root || !self.users.exist() && client.is_local;
        let text = match &client.user {
            _ if need == Need::Nothing => return Ok(()),
            user if is_free || user.as_ref().is_some_and(|user| user.may(need, database)) => {
                if need == Need::Write {
                    self.mark_time();
                }
                return Ok(());
            }
            None => format!("command {name} requires authentication"),
            Some(user) => {
                format!("not authorized on {database} to execute command {name} as {}", user.name)
            }
        };
        Err(Failure::new(Code::Unauthorized, text))
    }

    /// Returns what tells whether the client may read a database now, whenever it is asked.
    pub(crate) fn reader(&self, client: &Client) -> impl Fn(&str) -> bool + Send + Sync + use<> {
        let (users, user) = (Arc::clone(&self.users), client.user().map(str::to_owned));
        let (is_root, is_local) = (client.is_root, client.is_local);
        move |database| {
            let may = |user: &String| users.may(user, Need::Read, database);
            is_root || !users.exist() && is_local || user.as_ref().is_some_and(may)
        }
    }

    /// Ends what nobody has used for long, or is too old: cursors, transactions, sessions. Drops
    /// collections whose changes have left the log. Of a cluster, reads the users again. To be
    /// called now and then.
    ///
    /// # Errors
    /// If a collection could not be dropped, or the users not read: the next call tries again.
    pub fn tick(&self) -> flagstone::Result<()> {
        self.cursors.end_idle();
        self.cursors.end_aged();
        self.cursors.end_these(&self.sessions.end_idle());
        match self.home.cluster() {
            Some(_) => self.users.reload_unless_busy(),
            None => super::dropped::purge(self),
        }
    }

    /// Refuses all further commands, and ends cursors and sessions.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.operations.kill(Cause::Stopped, |_command| true);
        self.cursors.clear();
        self.sessions.clear();
    }
}

/// Returns the session of this identifier, which belongs to the user.
pub(crate) fn session_key(lsid: &flagstone::View<'_>, client: &Client) -> Outcome<SessionKey> {
    match lsid.get("id")?.and_then(|id| id.as_uuid()) {
        Some(id) => Ok(SessionKey { user: client.user().unwrap_or_default().to_owned(), id: *id }),
        None => {
            let text = "lsid.id: expected a UUID";
            Err(Failure::new(Code::TypeMismatch, text))
        }
    }
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

/// Appends the time to the reply that begins at `at`. Drivers send the largest time that they have
/// seen with each command, and in sessions ask to see all commits up to that of the last operation.
/// The signature is zero bytes: drivers pass it on and do not check it.
fn put_time(time: Time, at: usize, out: &mut Vec<u8>) {
    let mut reply = BsonWriter::reopen(out, at);
    let put = |reply: &mut BsonWriter<'_>| -> Outcome {
        reply.timestamp("operationTime", time.bits())?;
        reply.begin_document("$clusterTime")?;
        reply.timestamp("clusterTime", time.bits())?;
        reply.begin_document("signature")?;
        reply.bytes("hash", &[0; 20])?;
        reply.long("keyId", 0)?;
        reply.end()?;
        reply.end()?;
        Ok(reply.end()?)
    };
    // It is small, and its names have no zero.
    let _always = put(&mut reply);
}

/// Returns the milliseconds since 1970.
pub(crate) fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
