//! Logins over a connection, to the commands themselves.

use super::{LONG, limits};
use crate::access::prove;
use flagstone::{Database, Document, Value, doc};
use flagstone_server::access::{Role, RoleKind};
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
    _dir: tempfile::TempDir,
}

impl Serving {
    fn new(options: ServeOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let service =
            Service::new(Database::open(dir.path()).unwrap(), ServiceOptions::default()).unwrap();
        let listeners = Listener::bind(&"127.0.0.1:0".parse::<Listen>().unwrap()).unwrap();
        let log = Arc::new(Log::new(LogForm::Text, std::io::sink()));
        let server = Server::start(listeners, options, log).unwrap();
        server.ready(Arc::clone(&service));
        Self { server, service, _dir: dir }
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
