//! A server that is killed again and again while clients write, and what it has promised them:
//!
//! - a write that was acknowledged is there, as its write concern and `--durability` say;
//! - a transaction is there whole or not at all, and a commit that is sent again tells which;
//! - a write that is sent again happened once;
//! - a change stream goes on where it was, without a gap and without an event that comes twice.
//!
//! ```text
//! start --> clients write --> SIGKILL, at a random moment --> start, compare --> clients write ..
//!                             or SIGTERM, or two, or SIGKILL during recovery
//! ```

use crate::run::Place;
use flagstone::{Document, Value, doc};
use flagstone_server::bson::{BsonReader, BsonWriter};
use flagstone_server::wire::{MessageReader, Request, put_message};
use flagstone_testkit::{Rng, is_long, seed};
use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// A server whose log is a file.
pub(crate) struct Server {
    pub(crate) child: Child,
    port: u16,
}

/// How a server ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Killed,
    /// By SIGTERM: everything that was acknowledged is flushed.
    Stopped,
    /// By two SIGTERMs, the second of which may come too late.
    StoppedAtOnce,
}

impl Server {
    fn spawn(place: &Place, args: &str) -> Child {
        let mut command = place.command(&format!("serve db --listen 127.0.0.1:0 {args}"));
        command.stderr(File::create(place.path("log")).unwrap()).stdout(Stdio::null());
        command.spawn().unwrap()
    }

    /// Starts a server and waits until it is ready.
    pub(crate) fn start(place: &Place, args: &str) -> Self {
        let mut child = Self::spawn(place, args);
        for _ in 0..12_000 {
            let log = place.read("log");
            if log.contains(" ready") {
                let port = log.split("127.0.0.1:").nth(1).unwrap();
                let digits: String = port.chars().take_while(char::is_ascii_digit).collect();
                return Self { child, port: digits.parse().unwrap() };
            }
            assert!(child.try_wait().unwrap().is_none(), "{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the server is not ready: {}", place.read("log"));
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let _ended =
            Command::new("kill").args([&format!("-{name}"), &pid]).stderr(Stdio::null()).status();
    }

    /// Ends the server. Returns whether it has flushed everything.
    fn end(mut self, place: &Place, end: End) -> bool {
        match end {
            End::Killed => self.child.kill().unwrap(),
            End::Stopped => self.signal("TERM"),
            End::StoppedAtOnce => {
                self.signal("TERM");
                self.signal("TERM");
            }
        }
        let code = self.child.wait().unwrap().code();
        let log = place.read("log");
        assert!(!log.contains("panicked"), "{log}");
        match end {
            End::Killed => assert_eq!(code, None),
            End::Stopped => assert_eq!(code, Some(0), "{log}"),
            End::StoppedAtOnce => assert!(matches!(code, Some(0 | 130)), "{code:?} {log}"),
        }
        code == Some(0)
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Connection { stream, reader: MessageReader::new() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    reader: MessageReader,
}

impl Connection {
    /// Sends a command; `wants_none`: there is no reply to it.
    pub(crate) fn send(&mut self, command: &Value, wants_none: bool) -> Option<()> {
        self.stream.write_all(&message(command, wants_none)).ok()
    }

    /// Runs a command; `None` if the connection ends.
    pub(crate) fn ask(&mut self, command: &Value) -> Option<Document> {
        self.send(command, false)?;
        self.reply()
    }

    /// Reads a reply; `None` if the connection ends.
    pub(crate) fn reply(&mut self) -> Option<Document> {
        let message = self.reader.read(&mut self.stream).ok()??;
        let (_, Request::Message(message)) = Request::parse(message).unwrap() else { panic!() };
        let mut stored = Vec::new();
        BsonReader::new().read(message.command, None, &mut stored).unwrap();
        Some(Document::from_bytes(stored, None).unwrap())
    }

    /// Runs a command of a server that may end meanwhile: `None` if it is not known whether it
    /// has taken place.
    fn acknowledged(&mut self, command: &Value) -> Option<Document> {
        let reply = self.ask(command)?;
        if reply.float("ok") == Some(1.0) {
            assert!(
                reply.get("writeErrors").is_none(),
                "{}\n{}",
                command,
                reply.to_json().unwrap()
            );
            return Some(reply);
        }
        // The server stops.
        let code = reply.int("code");
        assert!(
            matches!(code, Some(91 | 11600 | 13436)),
            "{command}\n{}",
            reply.to_json().unwrap()
        );
        None
    }

    pub(crate) fn ok(&mut self, command: &Value) -> Document {
        self.acknowledged(command).unwrap_or_else(|| panic!("the server has ended: {command}"))
    }

    fn numbers(&mut self, collection: &str) -> Vec<u32> {
        let sort = doc!({ "_id": 1 });
        let find = doc!({ "find": collection, "sort": sort, "batchSize": 10_000_000 });
        ids(&self.ok(&find), "cursor.firstBatch")
    }
}

/// Returns the message of a command; `wants_none`: there is no reply to it.
pub(crate) fn message(command: &Value, wants_none: bool) -> Vec<u8> {
    let mut command = command.clone();
    if let Value::Map(map) = &mut command {
        map.insert("$db", "shop");
    }
    let document = Document::from_value(&command).unwrap();
    let mut message = Vec::new();
    put_message(&mut message, (1, 0), wants_none, false, |out| {
        BsonWriter::new(out).document(&document.root())
    })
    .unwrap();
    message
}

fn rows(reply: &Document, path: &str) -> Vec<Value> {
    let rows = reply.get(path).unwrap().to_value().unwrap();
    rows.as_array().unwrap().to_vec()
}

fn ids(reply: &Document, path: &str) -> Vec<u32> {
    rows(reply, path).iter().map(|row| row.get("_id").unwrap().as_u64().unwrap() as u32).collect()
}

/// Makes a command part of a session.
fn numbered(command: &Value, session: u8, number: u32) -> Value {
    let mut command = command.clone();
    if let Value::Map(map) = &mut command {
        map.insert("lsid", doc!({ "id": (Value::Uuid([session; 16])) }));
        map.insert("txnNumber", number);
    }
    command
}

fn with(command: &Value, name: &str, value: Value) -> Value {
    let mut command = command.clone();
    if let Value::Map(map) = &mut command {
        map.insert(name, value);
    }
    command
}

/// A client's write concern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Concern {
    One,
    Majority,
    Journal,
    /// Without a reply.
    Zero,
}

impl Concern {
    fn value(self) -> Value {
        match self {
            Self::One => doc!({ "w": 1 }),
            Self::Majority => doc!({ "w": "majority" }),
            Self::Journal => doc!({ "w": 1, "j": true }),
            Self::Zero => doc!({ "w": 0 }),
        }
    }
}

/// A client that inserts 0, 1, 2 .. into a collection of its own.
struct Inserts {
    collection: &'static str,
    concern: Concern,
    sent: u32,
    acknowledged: u32,
}

impl Inserts {
    const fn new(collection: &'static str, concern: Concern) -> Self {
        Self { collection, concern, sent: 0, acknowledged: 0 }
    }

    fn work(&mut self, mut connection: Connection) {
        loop {
            let documents = doc!([{ "_id": (self.sent), "text": "some text of a document" }]);
            let command = doc!({ "insert": (self.collection), "documents": documents,
                "writeConcern": (self.concern.value()) });
            self.sent += 1;
            if self.concern != Concern::Zero {
                if connection.acknowledged(&command).is_none() {
                    return;
                }
                self.acknowledged = self.sent;
                continue;
            }
            if connection.send(&command, true).is_none() {
                return;
            }
            // The answer to what comes after it says that it has taken place.
            if self.sent.is_multiple_of(7) {
                if connection.acknowledged(&doc!({ "ping": 1 })).is_none() {
                    return;
                }
                self.acknowledged = self.sent;
            }
        }
    }

    /// `loses`: what was acknowledged with w: 1 or less may be lost.
    fn check(&mut self, connection: &mut Connection, loses: bool) {
        let found = connection.numbers(self.collection);
        let count = found.len() as u32;
        let Self { collection, concern, sent, acknowledged } = *self;
        assert_eq!(found, (0..count).collect::<Vec<_>>(), "{collection} has no holes");
        let may_lose = loses && matches!(concern, Concern::One | Concern::Zero);
        assert!(may_lose || count >= acknowledged, "{collection}: {count} of {acknowledged}");
        assert!(count <= sent, "{collection}: {count} of {sent}");
        (self.sent, self.acknowledged) = (count, count);
    }
}

/// A client that moves amounts between accounts, each time in a transaction that notes it.
struct Bank {
    session: u8,
    number: u32,
    /// The transfers that must be there, and those of which it is not known.
    acknowledged: Vec<u32>,
    unknown: Option<u32>,
    random: Rng,
}

const ACCOUNTS: usize = 6;
const EACH: i64 = 1000;

impl Bank {
    fn id(&self) -> u32 {
        u32::from(self.session) * 1_000_000 + self.number
    }

    fn commit(&self, concern: Concern) -> Value {
        let commit = doc!({ "commitTransaction": 1, "autocommit": false,
            "writeConcern": (concern.value()) });
        numbered(&commit, self.session, self.number)
    }

    fn work(&mut self, mut connection: Connection, loses: bool) {
        loop {
            self.number += 1;
            let [from, to] = [(); 2].map(|()| self.random.index(ACCOUNTS) as u32);
            let amount = self.random.below(9) as i64;
            let change = |id: u32, by: i64| {
                doc!({ "update": "accounts",
                    "updates": [{ "q": { "_id": id }, "u": { "$inc": { "v": by } } }] })
            };
            let note = doc!([{ "_id": (self.id()), "from": from, "to": to, "amount": amount }]);
            let note = doc!({ "insert": "transfers", "documents": note });
            let mut is_first = true;
            for statement in [change(from, -amount), change(to, amount), note] {
                let mut part = numbered(&statement, self.session, self.number);
                part = with(&part, "autocommit", false.into());
                if is_first {
                    part = with(&part, "startTransaction", true.into());
                }
                is_first = false;
                if connection.acknowledged(&part).is_none() {
                    return;
                }
            }
            let concern = if self.random.percent(50) { Concern::Majority } else { Concern::One };
            self.unknown = Some(self.id());
            let Some(reply) = connection.ask(&self.commit(concern)) else { return };
            match (reply.float("ok"), reply.int("code")) {
                (Some(1.0), _) => {
                    if !loses || concern == Concern::Majority {
                        self.acknowledged.push(self.id());
                    }
                }
                // Another transfer came between.
                (_, Some(112)) => {}
                _ => return,
            }
            self.unknown = None;
        }
    }

    fn check(&mut self, connection: &mut Connection) {
        let there = connection.numbers("transfers");
        for id in self.acknowledged.drain(..) {
            assert!(there.binary_search(&id).is_ok(), "the transfer {id} is lost");
        }
        let Some(id) = self.unknown.take() else { return };
        // The commit is sent again.
        let reply = connection.ask(&self.commit(Concern::Majority)).unwrap();
        let is_there = there.binary_search(&id).is_ok();
        match (reply.float("ok"), reply.int("code")) {
            (Some(1.0), _) => assert!(is_there, "{id} was not committed"),
            (_, Some(251)) => assert!(!is_there, "{id} was committed"),
            _ => panic!("{}", reply.to_json().unwrap()),
        }
    }
}

/// Compares the accounts with the transfers that there are.
fn check_accounts(connection: &mut Connection) {
    let all = |connection: &mut Connection, name: &str| {
        let found = connection.ok(&doc!({ "find": name, "batchSize": 10_000_000 }));
        rows(&found, "cursor.firstBatch")
    };
    let field = |row: &Value, name: &str| row.get(name).unwrap().as_i64().unwrap();
    let mut expected = [EACH; ACCOUNTS];
    for transfer in all(connection, "transfers") {
        expected[field(&transfer, "from") as usize] -= field(&transfer, "amount");
        expected[field(&transfer, "to") as usize] += field(&transfer, "amount");
    }
    for account in all(connection, "accounts") {
        let id = field(&account, "_id") as usize;
        assert_eq!(field(&account, "v"), expected[id], "account {id} is as its transfers say");
    }
}

/// A client whose writes are sent again.
struct Counter {
    session: u8,
    number: u32,
    /// The write that is sent again.
    last: Option<Value>,
    random: Rng,
}

impl Counter {
    fn write(&mut self, loses: bool) -> Value {
        let (session, number) = (u32::from(self.session), self.number);
        let concern =
            if loses || self.random.percent(30) { Concern::Majority } else { Concern::One };
        let inc = doc!({ "$inc": { "n": 1 } });
        let write = match number % 3 {
            0 => doc!({ "findAndModify": "counters", "query": { "_id": session },
                "update": inc, "new": true, "upsert": true }),
            1 => doc!({ "update": "counters",
                "updates": [{ "q": { "_id": session }, "u": inc, "upsert": true }] }),
            _ => {
                let id = session * 1_000_000 + number;
                doc!({ "insert": "tickets", "documents": [{ "_id": id }] })
            }
        };
        with(&numbered(&write, self.session, number), "writeConcern", concern.value())
    }

    fn work(&mut self, mut connection: Connection, loses: bool) {
        loop {
            self.number += 1;
            let write = self.write(loses);
            self.last = Some(write.clone());
            if connection.acknowledged(&write).is_none() {
                return;
            }
            if self.random.percent(20) && connection.acknowledged(&write).is_none() {
                return;
            }
        }
    }

    fn check(&mut self, connection: &mut Connection) {
        let Some(last) = self.last.clone() else { return };
        for _again in 0..2 {
            let reply = connection.ok(&last);
            let n = reply.int("n").or_else(|| reply.int("lastErrorObject.n"));
            assert_eq!(n, Some(1), "{last}\n{}", reply.to_json().unwrap());
        }
        let id = u32::from(self.session);
        let find = doc!({ "find": "counters", "filter": { "_id": id } });
        let counted = connection.ok(&find).int("cursor.firstBatch.0.n").unwrap_or(0);
        let tickets = (1..=self.number).filter(|number| number % 3 == 2).count() as i64;
        assert_eq!(counted, i64::from(self.number) - tickets, "each increment happened once");
        let range = doc!({ "$gt": (id * 1_000_000), "$lt": (id * 1_000_000 + 1_000_000) });
        let count = doc!({ "count": "tickets", "query": { "_id": range } });
        assert_eq!(connection.ok(&count).int("n"), Some(tickets), "each ticket is there");
    }
}

/// A client that follows the changes of a collection into which [`Inserts`] inserts.
struct Watch {
    collection: &'static str,
    token: Option<Value>,
    /// The number that comes next.
    next: u32,
}

impl Watch {
    fn open(&self, connection: &mut Connection) -> Option<i64> {
        let mut options = doc!({});
        if let (Value::Map(map), Some(token)) = (&mut options, &self.token) {
            map.insert("resumeAfter", token.clone());
        }
        let pipeline = doc!([{ "$changeStream": options }]);
        let cursor = doc!({ "batchSize": 0 });
        let command =
            doc!({ "aggregate": (self.collection), "pipeline": pipeline, "cursor": cursor });
        let reply = connection.acknowledged(&command)?;
        reply.int("cursor.id")
    }

    /// Reads the next events. Returns how many there were.
    fn read(&mut self, connection: &mut Connection, id: i64) -> Option<usize> {
        let more = doc!({ "getMore": id, "collection": (self.collection), "maxTimeMS": 100 });
        let reply = connection.acknowledged(&more)?;
        let events = rows(&reply, "cursor.nextBatch");
        for event in &events {
            let kind = event.get("operationType").unwrap().as_str();
            assert_eq!(kind, Some("insert"), "{event}");
            let number = event.get("documentKey").unwrap().get("_id").unwrap().as_u64();
            assert_eq!(number, Some(self.next.into()), "no gap, and no event twice");
            self.next += 1;
        }
        self.token = Some(reply.get("cursor.postBatchResumeToken").unwrap().to_value().unwrap());
        Some(events.len())
    }

    fn work(&mut self, mut connection: Connection) {
        let Some(id) = self.open(&mut connection) else { return };
        while self.read(&mut connection, id).is_some() {}
    }

    fn check(&mut self, connection: &mut Connection, there: u32) {
        assert!(self.next <= there, "event {} of a write that is lost: {there}", self.next);
        let id = self.open(connection).unwrap();
        while self.next < there {
            assert!(self.read(connection, id).unwrap() > 0, "{} of {there}", self.next);
        }
        let _killed = connection.ok(&doc!({ "killCursors": (self.collection), "cursors": [id] }));
    }
}

/// All clients of a server.
struct Clients {
    /// What is not logged may be lost, unless its write concern asks for more.
    is_unlogged: bool,
    inserts: [Inserts; 4],
    banks: [Bank; 2],
    counters: [Counter; 2],
    watch: Watch,
}

impl Clients {
    fn new(is_unlogged: bool, seed: u64) -> Self {
        let random = |session: u8| Rng::new(seed + u64::from(session));
        Self {
            is_unlogged,
            inserts: [
                Inserts::new("one", Concern::One),
                Inserts::new("majority", Concern::Majority),
                Inserts::new("journal", Concern::Journal),
                Inserts::new("zero", Concern::Zero),
            ],
            banks: [11, 12].map(|session| Bank {
                session,
                number: 0,
                acknowledged: Vec::new(),
                unknown: None,
                random: random(session),
            }),
            counters: [21, 22].map(|session| Counter {
                session,
                number: 0,
                last: None,
                random: random(session),
            }),
            watch: Watch { collection: "one", token: None, next: 0 },
        }
    }

    /// Makes what the clients work on.
    fn begin(&mut self, connection: &mut Connection) {
        let accounts: Vec<Value> =
            (0..ACCOUNTS).map(|id| doc!({ "_id": (id as u32), "v": EACH })).collect();
        let accounts = Value::Array(accounts);
        let majority = Concern::Majority.value();
        connection.ok(&doc!({ "insert": "accounts", "documents": accounts,
            "writeConcern": majority }));
        connection.ok(&doc!({ "create": "one" }));
        if !self.is_unlogged {
            let id = self.watch.open(connection).unwrap();
            let _none = self.watch.read(connection, id);
        }
    }

    /// Compares what there is with what the clients were told.
    fn check(&mut self, connection: &mut Connection, has_flushed: bool) {
        for client in &mut self.inserts {
            client.check(connection, self.is_unlogged && !has_flushed);
        }
        for bank in &mut self.banks {
            bank.check(connection);
        }
        check_accounts(connection);
        for counter in &mut self.counters {
            counter.check(connection);
        }
        if !self.is_unlogged {
            self.watch.check(connection, self.inserts[0].acknowledged);
        }
    }

    /// Works until the server ends, which happens after `wait`. Returns whether it has flushed.
    fn work(&mut self, server: Server, place: &Place, (wait, end): (Duration, End)) -> bool {
        let is_unlogged = self.is_unlogged;
        std::thread::scope(|threads| {
            for client in &mut self.inserts {
                let connection = server.connect();
                threads.spawn(|| client.work(connection));
            }
            for bank in &mut self.banks {
                let connection = server.connect();
                threads.spawn(move || bank.work(connection, is_unlogged));
            }
            for counter in &mut self.counters {
                let connection = server.connect();
                threads.spawn(move || counter.work(connection, is_unlogged));
            }
            if !is_unlogged {
                let connection = server.connect();
                let watch = &mut self.watch;
                threads.spawn(|| watch.work(connection));
            }
            std::thread::sleep(wait);
            server.end(place, end)
        })
    }
}

/// Lets clients write to a server with this durability, which ends `ends` times.
fn crash(durability: &str, ends: u32, seed: u64) {
    let (mut random, place) = (Rng::new(seed), Place::new());
    let is_unlogged = durability == "none";
    // What is not logged is not kept for change streams.
    let keep = if is_unlogged { "" } else { "--keep 64MiB" };
    let args = format!("--durability {durability} {keep}");
    let (mut clients, mut has_flushed) = (Clients::new(is_unlogged, seed), false);
    for n in 0..=ends {
        if random.percent(25) {
            // Killed while it recovers, or before.
            let mut child = Server::spawn(&place, &args);
            std::thread::sleep(Duration::from_millis(random.below(40)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let server = Server::start(&place, &args);
        let mut connection = server.connect();
        if n == 0 {
            clients.begin(&mut connection);
        } else {
            clients.check(&mut connection, has_flushed);
        }
        if n == ends {
            server.end(&place, End::Stopped);
            break;
        }
        let end = match random.below(8) {
            0 | 1 => End::Stopped,
            2 => End::StoppedAtOnce,
            _ => End::Killed,
        };
        let wait = Duration::from_millis(20 + random.below(250));
        has_flushed = clients.work(server, &place, (wait, end));
    }
    let verified = place.ok("verify db");
    assert!(verified.contains("hold"), "{verified}");
    println!(
        "{durability}: {ends} ends, {} inserts, {} transactions, {} retried writes, {} events",
        clients.inserts.iter().map(|client| client.sent).sum::<u32>(),
        clients.banks.iter().map(|bank| bank.number).sum::<u32>(),
        clients.counters.iter().map(|counter| counter.number).sum::<u32>(),
        clients.watch.next,
    );
}

#[test]
fn what_was_promised_is_there_after_a_kill() {
    let seed = seed("what_was_promised_is_there_after_a_kill", 7);
    let ends = if is_long() { 150 } else { 4 };
    std::thread::scope(|threads| {
        for (n, durability) in (0..).zip(["none", "buffered", "interval:50ms", "group", "each"]) {
            threads.spawn(move || crash(durability, ends, seed + 1000 * n));
        }
    });
}
