//! Logins over a connection, to the commands themselves.

use super::{LONG, Lines, limits};
use crate::access::prove;
use flagstone::{Database, Document, Value, doc};
use flagstone_server::access::{Role, RoleKind, Users};
use flagstone_server::bson::{BsonReader, BsonWriter};
use flagstone_server::command::{Service, ServiceOptions};
use flagstone_server::net::{Address, Listen, Listener, Log, LogForm, ServeOptions, Server};
use flagstone_server::wire::{MessageReader, Request, put_message};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

struct Serving {
    server: Server<Service>,
    service: Arc<Service>,
    lines: Lines,
    _dir: tempfile::TempDir,
}

impl Serving {
    fn new(options: ServeOptions) -> Self {
        Self::at(tempfile::tempdir().unwrap(), options)
    }

    /// Serves the database of a directory, which keeps changes.
    fn at(dir: tempfile::TempDir, options: ServeOptions) -> Self {
        let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
        let keeping = flagstone::Options::new().change_retention(keep);
        let db = Database::builder(dir.path().join("data")).options(keeping).open().unwrap();
        let service = Service::new(db, ServiceOptions::default()).unwrap();
        let listeners = Listener::bind(&"127.0.0.1:0".parse::<Listen>().unwrap()).unwrap();
        let lines = Lines::default();
        let log = Arc::new(Log::new(LogForm::Text, lines.clone()));
        let server = Server::start(listeners, options, log).unwrap();
        server.ready(Arc::clone(&service));
        Self { server, service, lines, _dir: dir }
    }

    fn with_ada(options: ServeOptions) -> Self {
        let serving = Self::new(options);
        let roles = vec![Role { kind: RoleKind::Read, database: None }];
        serving.service.users().create("ada", "lovelace", roles).unwrap();
        serving
    }

    fn connect(&self) -> Connection {
        let [Address::Tcp(address)] = self.server.addresses() else { panic!("one address") };
        Connection::new(*address)
    }
}

struct Connection {
    stream: TcpStream,
    reader: MessageReader,
}

impl Connection {
    fn new(address: SocketAddr) -> Self {
        let stream = super::patient(TcpStream::connect(address).unwrap());
        Self { stream, reader: MessageReader::new() }
    }

    /// Sends a command; `None` if the connection has ended.
    fn send(&mut self, command: &Value) -> Option<()> {
        let document = Document::from_value(command).unwrap();
        let mut message = Vec::new();
        put_message(&mut message, (7, 0), false, false, |out| {
            BsonWriter::new(out).document(&document.root())
        })
        .unwrap();
        self.stream.write_all(&message).ok()
    }

    /// Runs a command; `None` if the connection ends.
    fn ask(&mut self, command: Value) -> Option<Document> {
        self.send(&command)?;
        let message = self.reader.read(&mut self.stream).ok()??;
        let (_, Request::Message(message)) = Request::parse(message).unwrap() else { panic!() };
        let mut stored = Vec::new();
        BsonReader::new().read(message.command, None, &mut stored).unwrap();
        Some(Document::from_bytes(stored, None).unwrap())
    }

    fn code(&mut self, command: Value) -> Option<i64> {
        self.ask(command).unwrap().int("code")
    }

    fn begin(&mut self, name: &str) -> String {
        let payload = Value::Bytes(format!("n,,n={name},r=abc").into_bytes());
        let reply = self
            .ask(doc!({ "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload,
                "options": { "skipEmptyExchange": true }, "$db": "admin" }))
            .unwrap();
        payload_of(&reply)
    }

    fn go_on(&mut self, payload: &str) -> Document {
        let payload = Value::Bytes(payload.as_bytes().to_vec());
        self.ask(doc!({ "saslContinue": 1, "conversationId": 1, "payload": payload,
            "$db": "admin" }))
            .unwrap()
    }
}

fn payload_of(reply: &Document) -> String {
    let Some(Value::Bytes(payload)) = reply.get("payload").map(|view| view.to_value().unwrap())
    else {
        panic!("{}", reply.to_json().unwrap())
    };
    String::from_utf8(payload).unwrap()
}

fn find() -> Value {
    doc!({ "find": "orders", "$db": "shop" })
}

fn insert() -> Value {
    doc!({ "insert": "orders", "documents": [{ "_id": 1 }], "$db": "shop" })
}

#[test]
fn a_client_has_the_rights_of_the_user_that_it_proves_to_be() {
    let serving = Serving::with_ada(ServeOptions::default());
    let mut client = serving.connect();
    assert_eq!(client.code(doc!({ "ping": 1, "$db": "admin" })), None);
    assert_eq!(client.code(find()), Some(13));
    let first = client.begin("ada");
    let proof = prove("n=ada,r=abc", &first, "lovelace");
    let reply = client.go_on(&proof.message);
    assert_eq!((reply.bool("done"), payload_of(&reply)), (Some(true), proof.verifier));
    assert_eq!((client.code(find()), client.code(insert())), (None, Some(13)));

    // Neither a wrong password nor what was recorded opens another connection.
    let mut other = serving.connect();
    let wrong = prove("n=ada,r=abc", &other.begin("ada"), "byron");
    assert_eq!(other.go_on(&wrong.message).int("code"), Some(18));
    assert_eq!(other.code(find()), Some(13));
    other.begin("ada");
    assert_eq!(other.go_on(&proof.message).int("code"), Some(17));
    assert_eq!(other.code(find()), Some(13));
    let unknown = prove("n=eve,r=abc", &other.begin("eve"), "lovelace");
    assert_eq!(other.go_on(&unknown.message).int("code"), Some(18));
    let counters = serving.server.counters().list();
    assert!(counters.contains(&("failed_logins", 3)), "{counters:?}");
    let (log, peer) = (serving.lines.text(), other.stream.local_addr().unwrap());
    for user in ["ada", "eve"] {
        assert!(log.contains(&format!(" peer={peer} user={user}\n")), "{log}");
    }
    assert_eq!(log.matches(" warning login failed connection=").count(), 3, "{log}");
    assert!(!log.contains("byron") && !log.contains("lovelace"), "{log}");
}

/// Users that another handle has changed are those of connections that are open, once they are
/// read again.
#[test]
fn users_that_are_read_again_have_their_new_rights_at_once() {
    let serving = Serving::with_ada(ServeOptions::default());
    let mut client = serving.connect();
    let proof = prove("n=ada,r=abc", &client.begin("ada"), "lovelace");
    assert_eq!(client.go_on(&proof.message).bool("done"), Some(true));
    let elsewhere = Users::open(serving.service.database()).unwrap();
    let roles = vec![Role { kind: RoleKind::ReadWrite, database: Some("shop".to_owned()) }];
    elsewhere.update("ada", None, Some(roles)).unwrap();
    elsewhere.create("bob", "battery", Vec::new()).unwrap();
    assert_eq!((client.code(find()), client.code(insert())), (None, Some(13)));
    serving.service.users().reload().unwrap();
    assert_eq!((client.code(find()), client.code(insert())), (None, None));
    elsewhere.remove("ada").unwrap();
    serving.service.users().reload().unwrap();
    assert_eq!((client.code(find()), client.code(insert())), (Some(13), Some(13)));
    let mut other = serving.connect();
    let proof = prove("n=bob,r=abc", &other.begin("bob"), "battery");
    assert_eq!(other.go_on(&proof.message).bool("done"), Some(true));
}

/// Returns the lines of slow commands, without time and connection.
fn slow_lines(serving: &Serving) -> Vec<String> {
    let log = serving.lines.text();
    let lines = log.lines().filter_map(|line| line.split_once(" slow command connection="));
    let after = |(_, rest): (&str, &str)| rest.split_once(" command=").unwrap().1.to_owned();
    lines.map(after).collect()
}

/// The first text of a command was taken for its collection: the name of a user, and what the tool
/// asked for. Requests of HTTP had no names at all.
#[test]
fn slow_commands_are_logged_by_what_they_are_about() {
    let serving =
        Serving::new(ServeOptions { slow: Some(Duration::ZERO), ..ServeOptions::default() });
    let mut client = serving.connect();
    let cases = [
        (insert(), "insert database=shop collection=orders"),
        (
            doc!({ "flagstone": "count", "collection": "orders", "$db": "shop" }),
            "flagstone.count database=shop collection=orders",
        ),
        (
            doc!({ "flagstone": "secret", "collection": "orders", "$db": "shop" }),
            "flagstone database=shop collection=orders",
        ),
        (
            doc!({ "getMore": 7_i64, "collection": "orders", "$db": "shop" }),
            "getMore database=shop collection=orders",
        ),
        (
            doc!({ "bulkWrite": 1, "ops": [{ "insert": 0, "document": {} }],
                "nsInfo": [{ "ns": "shop.orders" }], "$db": "admin" }),
            "bulkWrite database=admin",
        ),
        (doc!({ "nothing": "secret", "$db": "shop" }), "message database=shop"),
        (
            doc!({ "createUser": "secret", "pwd": "secret", "roles": [], "$db": "admin" }),
            "createUser database=admin",
        ),
    ];
    for (at, (command, expected)) in cases.into_iter().enumerate() {
        client.ask(command).unwrap();
        assert_eq!(slow_lines(&serving)[at], expected);
    }
    assert!(!serving.lines.text().contains("secret"));
}

/// A change stream without events logged a slow command each second.
#[test]
fn a_change_stream_that_waits_is_not_slow() {
    let slow = Some(Duration::from_millis(600));
    let serving = Serving::new(ServeOptions { slow, ..ServeOptions::default() });
    let mut client = serving.connect();
    let stream = doc!({ "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {},
        "$db": "t" });
    let id = client.ask(stream).unwrap().int("cursor.id").unwrap();
    let began = std::time::Instant::now();
    let more = client.ask(doc!({ "getMore": id, "collection": "c", "$db": "t" })).unwrap();
    assert_eq!(more.float("ok"), Some(1.0), "{more}");
    assert!(began.elapsed() >= Duration::from_millis(600));
    client.ask(doc!({ "ping": 1, "$db": "t" })).unwrap();
    assert_eq!(slow_lines(&serving), Vec::<String>::new());
}

/// Conditions may be 100 deep, and the expression in them, too: the thread of a connection had no
/// stack for both in a debug build, which ended the server.
#[test]
fn the_deepest_filter_fits_the_stack() {
    let serving = Serving::new(ServeOptions::default());
    let mut client = serving.connect();
    assert_eq!(client.code(insert()), None);
    let switch = (0..49).fold(Value::from(true), |inner, _| {
        let branch = doc!({ "case": inner, "then": true });
        doc!({ "$switch": { "branches": [branch], "default": false } })
    });
    let filter = (0..100).fold(doc!({ "$expr": switch }), |inner, _| doc!({ "$or": [inner] }));
    let reply = client.ask(doc!({ "find": "orders", "filter": filter, "$db": "shop" })).unwrap();
    assert_eq!(reply.int("cursor.firstBatch.0._id"), Some(1), "{reply}");
}

/// The limits of those who are not known hold until the login, and no longer.
#[test]
fn a_login_lifts_the_limits() {
    let options = limits(|limits| {
        limits.login = Duration::from_millis(1500);
        limits.login_bytes = 1000;
    });
    let serving = Serving::with_ada(options);
    let long = || doc!({ "ping": 1, "comment": ("x".repeat(2000)), "$db": "admin" });
    let mut client = serving.connect();
    let first = client.begin("ada");
    client.go_on(&prove("n=ada,r=abc", &first, "lovelace").message);
    assert_eq!(client.code(long()), None);
    let refused = serving.connect().ask(long()).unwrap();
    assert!(refused.str("errmsg").unwrap().contains("--login-bytes"));
    let mut half = serving.connect();
    half.begin("ada");
    half.stream.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(half.stream.read(&mut [0]).unwrap_or_default(), 0, "it is ended");
    assert_eq!(client.code(long()), None);
}

/// Without users there is nothing to log in to, and every local client may do everything.
#[test]
fn the_first_user_ends_the_time_without() {
    let serving = Serving::new(ServeOptions::default());
    let mut client = serving.connect();
    assert_eq!(client.code(insert()), None);
    let created = doc!({ "createUser": "ada", "pwd": "lovelace", "roles": ["root"],
        "$db": "admin" });
    assert_eq!(client.code(created), None);
    assert_eq!(client.code(find()), Some(13));
    let first = client.begin("ada");
    client.go_on(&prove("n=ada,r=abc", &first, "lovelace").message);
    assert_eq!(client.code(find()), None);
}

/// A client that has logged in must not keep what its user has lost.
#[test]
fn a_user_that_is_removed_has_no_rights_any_more() {
    let serving = Serving::with_ada(ServeOptions::default());
    let users = serving.service.users();
    users.create("bob", "p", Vec::new()).unwrap();
    let mut client = serving.connect();
    let first = client.begin("ada");
    client.go_on(&prove("n=ada,r=abc", &first, "lovelace").message);
    assert_eq!(client.code(find()), None);
    users.update("ada", None, Some(Vec::new())).unwrap();
    assert_eq!(client.code(find()), Some(13));
    users.update("ada", None, Some(vec![Role { kind: RoleKind::Root, database: None }])).unwrap();
    assert_eq!(client.code(insert()), None);
    users.remove("ada").unwrap();
    assert_eq!(client.code(find()), Some(13));
}

/// A query went on for nobody: clients that gave up and asked again piled them up.
#[test]
fn a_query_ends_with_its_connection() {
    let serving = Serving::new(ServeOptions::default());
    let mut other = serving.connect();
    let mut runs = || {
        let listed = other.ask(doc!({ "currentOp": 1, "$db": "admin" })).unwrap();
        listed.to_json().unwrap().contains("aggregate")
    };
    let range = r#"{"$range":[0,1000000]}"#;
    let inner =
        format!(r#"{{"$sum":{{"$map":{{"input":{range},"in":{{"$add":["$$this",1]}}}}}}}}"#);
    let pipeline = format!(
        r#"[{{"$documents":[{{}}]}},
            {{"$project":{{"n":{{"$sum":
                {{"$map":{{"input":{range},"as":"o","in":{inner}}}}}}}}}}}]"#
    );
    let pipeline = Document::from_json(&pipeline).unwrap().to_value();
    let mut client = serving.connect();
    let command = doc!({ "aggregate": 1, "pipeline": pipeline, "cursor": {}, "$db": "shop" });
    client.send(&command);
    super::eventually("the query runs", &mut runs);
    drop(client);
    super::eventually("the query ends", || !runs());
}

/// Returns the time of a reply.
fn time(reply: &Document) -> (i64, i64) {
    let part = |path: &str| {
        reply.int(&format!("{path}.$timestamp.t")).zip(reply.int(&format!("{path}.$timestamp.i")))
    };
    let time = part("operationTime").unwrap();
    assert_eq!(part("$clusterTime.clusterTime"), Some(time), "{reply}");
    assert_eq!(reply.int("$clusterTime.signature.keyId"), Some(0));
    time
}

/// Drivers had no causal consistency, and sessions no `operationTime`.
#[test]
fn replies_have_times_that_grow_with_commits_also_over_restarts() {
    let mut serving = Serving::new(ServeOptions::default());
    let mut last = (0, 0);
    for round in 0..3_i64 {
        let mut connection = serving.connect();
        let command = |name: &str, more: Value| {
            let mut map = flagstone::doc::Map::new();
            map.insert(name, "c");
            map.insert("$db", "t");
            for (name, value) in more.as_map().unwrap() {
                map.insert(name.clone(), value.clone());
            }
            Value::Map(map)
        };
        let begun = time(&connection.ask(command("count", doc!({}))).unwrap());
        assert!(begun >= last, "{begun:?} after {last:?}");
        let written = connection.ask(command("insert", doc!({ "documents": [{ "_id": round }] })));
        let written = time(&written.unwrap());
        assert!(written > begun, "{written:?} after {begun:?}");
        // What fails has one, too.
        let failed = connection.ask(command("nothing", doc!({}))).unwrap();
        assert_eq!((failed.float("ok"), time(&failed)), (Some(0.0), written));
        let after = |(t, i): (i64, i64)| {
            let time = doc!({ "$timestamp": { "t": t, "i": i } });
            doc!({ "query": { "_id": round }, "readConcern": { "afterClusterTime": time } })
        };
        let read = connection.ask(command("count", after(written))).unwrap();
        assert_eq!((read.int("n"), time(&read)), (Some(1), written));
        // A time that has come and no commit has: one that a power cut has taken back.
        let read = connection.ask(command("count", after((written.0, written.1 + 1000)))).unwrap();
        assert_eq!(read.int("n"), Some(1), "{read}");
        assert!(time(&read) > (written.0, written.1 + 1000));
        last = time(&read);
        let refused = connection.ask(command("count", after((last.0 + 1000, 1)))).unwrap();
        assert_eq!(refused.int("code"), Some(72), "{refused}");
        drop(connection);
        let Serving { server, service, _dir, .. } = serving;
        server.stop(LONG);
        service.close();
        service.database().clone().close().unwrap();
        serving = Serving::at(_dir, ServeOptions::default());
    }
}

/// A change stream that waited held the stop back for its whole grace, and its client saw the end
/// of the connection alone.
#[test]
fn streams_that_wait_end_when_the_server_stops() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let stream = doc!({ "aggregate": "c", "pipeline": [{ "$changeStream": {} }], "cursor": {},
        "$db": "t" });
    let id = connection.ask(stream).unwrap().int("cursor.id").unwrap();
    let began = std::time::Instant::now();
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| {
            connection.ask(doc!({ "getMore": id, "collection": "c", "maxTimeMS": 600_000_i64,
                "$db": "t" }))
        });
        let mut client = serving.service.client("x".to_owned(), "x".to_owned(), true);
        let current = Document::from_json(r#"{"currentOp":1,"op":"getmore"}"#).unwrap();
        loop {
            let found = serving.service.run(&mut client, "admin", &current).unwrap();
            if found.get("inprog.0").is_some() {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!(serving.server.stop(LONG), 0);
        let ended = waits.join().unwrap();
        assert_eq!(ended.unwrap().int("code"), Some(11600));
    });
    assert!(began.elapsed() < LONG);
}
