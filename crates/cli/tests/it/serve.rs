//! `serve` and `user`: a process that serves, its signals, its users.

use crate::run::Place;
use flagstone::Document;
use flagstone_server::bson::{BsonReader, BsonWriter};
use flagstone_server::wire::{MessageReader, Request, put_message};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

/// A server, which is killed in the end.
pub(crate) struct Served {
    child: Child,
    log: BufReader<ChildStderr>,
    pub(crate) address: SocketAddr,
    /// The log so far.
    seen: String,
}

impl Served {
    pub(crate) fn new(place: &Place, args: &str) -> Self {
        Self::of(place.command(&format!("serve db --listen 127.0.0.1:0 {args}")))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut served = Self { child, log, address, seen: String::new() };
        let line = served.wait_for("listening");
        if let Some((_, rest)) = line.split_once("127.0.0.1:") {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            served.address.set_port(digits.parse().unwrap());
        }
        served.wait_for("ready");
        served
    }

    /// Reads the log up to a line that has `text`.
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "{text} in {}", self.seen);
            self.seen.push_str(&line);
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end; returns the exit code and the log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        self.log.read_to_string(&mut self.seen).unwrap();
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.seen))
    }

    fn connect(&self) -> Connection {
        Connection::new(self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

struct Connection {
    stream: TcpStream,
    reader: MessageReader,
}

impl Connection {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self { stream, reader: MessageReader::new() }
    }

    fn send(&mut self, json: &str) -> std::io::Result<()> {
        let mut message = Vec::new();
        let document = Document::from_json(json).unwrap();
        put_message(&mut message, (7, 0), false, false, |out| {
            BsonWriter::new(out).document(&document.root())
        })
        .unwrap();
        self.stream.write_all(&message)
    }

    /// Runs a command; `None` if the connection ends.
    fn ask(&mut self, json: &str) -> Option<Document> {
        self.send(json).ok()?;
        let message = self.reader.read(&mut self.stream).ok()??;
        let (_, Request::Message(message)) = Request::parse(message).unwrap() else { panic!() };
        let mut stored = Vec::new();
        BsonReader::new().read(message.command, None, &mut stored).unwrap();
        Some(Document::from_bytes(stored, None).unwrap())
    }

    fn ok(&mut self, json: &str) -> Document {
        let reply = self.ask(json).unwrap();
        assert_eq!(reply.float("ok"), Some(1.0), "{json}: {}", reply.to_json().unwrap());
        reply
    }
}

const PING: &str = r#"{"ping":1,"$db":"admin"}"#;

fn insert(id: usize) -> String {
    format!(r#"{{"insert":"orders","documents":[{{"_id":{id}}}],"$db":"shop"}}"#)
}

#[test]
fn what_was_acknowledged_is_there_after_a_signal() {
    let place = Place::new();
    let served = Served::new(&place, "--log text");
    let mut connection = served.connect();
    let mut count = 0;
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut acknowledged = 0;
            while let Some(reply) = connection.ask(&insert(acknowledged)) {
                if reply.float("ok") != Some(1.0) {
                    break;
                }
                acknowledged += 1;
            }
            acknowledged
        });
        std::thread::sleep(Duration::from_millis(300));
        served.signal("TERM");
        count = writer.join().unwrap();
    });
    let (code, log) = served.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains(" stopping ") && log.trim_end().ends_with(" info stopped"), "{log}");
    assert!(count > 0);
    let kept: usize = place.ok("count db shop.orders").trim().parse().unwrap();
    assert!(kept == count || kept == count + 1, "{kept} of {count}");
}

/// Commands that run are finished first, which a client that does not read keeps from happening.
#[test]
fn a_second_signal_ends_at_once() {
    let place = Place::new();
    let mut served = Served::new(&place, "--grace 1h --reply-timeout 1h");
    let mut connection = served.connect();
    let text = "x".repeat(1 << 20);
    for id in 0..15 {
        connection.ok(&format!(
            r#"{{"insert":"large","documents":[{{"_id":{id},"text":"{text}"}}],"$db":"shop"}}"#
        ));
    }
    connection.send(r#"{"find":"large","$db":"shop"}"#).unwrap();
    // The reply has begun to arrive.
    connection.stream.peek(&mut [0]).unwrap();
    served.signal("TERM");
    served.wait_for(" stopping ");
    served.signal("INT");
    let (code, log) = served.end();
    assert_eq!(code, Some(130), "{log}");
    assert!(log.contains("ended by a signal"), "{log}");
    assert_eq!(place.ok("count db shop.large").trim(), "15");
}

#[test]
fn a_server_on_an_open_port_needs_users() {
    let place = Place::new();
    let ran = place.run("serve db --listen 0.0.0.0:0");
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("flagstone user add"), "{ran:?}");
    let ran = place.run_with("user add db ada --role root", b"lovelace\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    let served = Served::of(place.command("serve db --listen 0.0.0.0:0"));
    let port = served.seen.split("address=0.0.0.0:").nth(1).unwrap().split_whitespace().next();
    let address = format!("127.0.0.1:{}", port.unwrap()).parse().unwrap();
    let mut connection = Connection::new(address);
    let refused = connection.ask(&insert(1)).unwrap();
    assert_eq!(refused.int("code"), Some(13), "{}", refused.to_json().unwrap());
    served.signal("TERM");
    assert_eq!(served.end().0, Some(0));
}

#[test]
fn users_are_added_listed_changed_and_removed() {
    let place = Place::new();
    let add = |args: &str, password: &str| {
        place.run_with(&format!("user add db {args}"), password.as_bytes())
    };
    assert_eq!(add("ada --role root", "lovelace\r\n").code, 0);
    assert_eq!(add("bob --role readWrite --on shop", "p").code, 0);
    assert_eq!(place.ok("user list db"), "ada\troot\nbob\treadWrite on shop\n");
    let twice = add("ada --role read", "p\n");
    assert!(twice.code == 1 && twice.stderr.contains("a user \"ada\" already"), "{twice:?}");
    let empty = add("eve --role read", "\n");
    assert!(empty.code == 2 && empty.stderr.contains("expected a password of 1 to"), "{empty:?}");
    let other = add("eve --role owner", "p\n");
    assert!(other.code == 2 && other.stderr.contains("read, readWrite or root"), "{other:?}");
    assert_eq!(place.run_with("user password db bob", b"q\n").code, 0);
    assert_eq!(place.run_with("user password db eve", b"q\n").code, 1);
    place.ok("user remove db bob");
    place.fails("user remove db bob", 1, "there is no user \"bob\"");
    assert_eq!(place.ok("user list db"), "ada\troot\n");
    // A password is not an argument.
    place.fails("user add db eve lovelace --role read", 2, "unexpected argument");
}

#[test]
fn the_files_of_tls_are_read_again_at_a_hangup() {
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/tests/it/net/certificates/");
    let place = Place::new();
    for (from, to) in [("server.pem", "cert.pem"), ("server.key", "key.pem")] {
        std::fs::copy(format!("{files}{from}"), place.path(to)).unwrap();
    }
    let mut served = Served::new(&place, "--tls-cert cert.pem --tls-key key.pem --log json");
    served.signal("HUP");
    served.wait_for(r#""event":"reloaded""#);
    place.file("cert.pem", "");
    served.signal("HUP");
    let line = served.wait_for(r#""event":"cannot reload""#);
    assert!(line.contains("cert.pem: expected certificates"), "{line}");
    // The old one stays, and what does not speak TLS is told so.
    let told = served.connect().ask(PING).unwrap();
    assert!(told.str("errmsg").unwrap().contains("expected TLS"));
    served.signal("TERM");
    assert_eq!(served.end().0, Some(0));
    place.fails(
        "serve db --tls-cert cert.pem --tls-key key.pem --listen 127.0.0.1:0",
        3,
        "cert.pem",
    );
    place.fails("serve db --tls-cert cert.pem", 2, "--tls-key");
}

/// Users are read again from the database, and remain who they were; who they are not is told.
#[test]
fn users_are_read_again_at_a_hangup() {
    let place = Place::new();
    assert_eq!(place.run_with("user add db ada --role root", b"lovelace\n").code, 0);
    place.ok("put db shop.c 1 {}");
    let mut served = Served::new(&place, "");
    let at = served.address;
    let (ada, bob) =
        (format!("mongodb://ada:lovelace@{at}"), format!("mongodb://bob:battery@{at}"));
    let roles = r#"[{"role":"read","db":"shop"}]"#;
    let create = format!(r#"{{"createUser":"bob","pwd":"battery","roles":{roles}}}"#);
    place.ok(&format!("command {ada} {create}"));
    served.signal("HUP");
    served.wait_for(" reloaded");
    for user in [&ada, &bob] {
        assert_eq!(place.ok(&format!("count {user} shop.c")), "1\n");
    }
    place.fails(&format!("count {} shop.c", bob.replace("battery", "byron")), 3, "password");
    let line = served.wait_for(" login failed ");
    assert!(line.contains(" warning ") && line.ends_with(" user=bob\n"), "{line}");
    assert!(!served.seen.contains("byron"));
    served.signal("TERM");
    assert_eq!(served.end().0, Some(0));
}

/// As systemd does: a socket that listens already, and a socket to tell when the server is ready.
#[test]
fn a_socket_is_taken_over_and_readiness_is_told() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let told = UnixDatagram::bind(place.path("notify")).unwrap();
    told.set_read_timeout(Some(LONG)).unwrap();
    let state = || {
        let mut bytes = [0; 1000];
        let count = told.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let script = r#"export LISTEN_PID=$$ LISTEN_FDS=1; exec "$0" serve db 3<&0 0</dev/null"#;
    let tool = place.command("");
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(tool.get_program()).current_dir(place.path("."));
    command.env("NOTIFY_SOCKET", place.path("notify"));
    command.stdin(Stdio::from(OwnedFd::from(listener))).stderr(Stdio::piped());
    let served = Served::of(command);
    assert!(state().contains("recovering"));
    assert!(state().starts_with("READY=1\n"));
    assert_eq!(served.address, address);
    served.connect().ok(PING);
    served.signal("TERM");
    assert_eq!(state(), "STOPPING=1");
    assert_eq!(served.end().0, Some(0));
}

/// A port and a database that another server has, and places where none can listen.
#[test]
fn what_cannot_be_served_is_named() {
    let place = Place::new();
    let mut served = Served::new(&place, "");
    let address = served.address.to_string();
    place.fails(&format!("serve other --listen {address}"), 3, &format!("listen at {address}"));
    place.fails("serve db --listen 127.0.0.1:0", 3, "busy");
    place.fails("serve db --listen unix:no/such/place", 3, "listen at unix:no/such/place");
    place.fails("serve db --listen nowhere:x", 2, "expected HOST, HOST:PORT or unix:PATH");
    assert!(!place.path("other").exists());
    served.connect().ok(PING);
    served.wait_for(" connection closed ");
}

/// More clients than the process may have files.
#[test]
fn a_server_outlives_the_want_of_descriptors() {
    let place = Place::new();
    place.ok("put db shop.orders 1 {}");
    let tool = place.command("");
    let mut command = Command::new("sh");
    let script = r#"ulimit -n 100; exec "$0" serve db --listen 127.0.0.1:0"#;
    command.args(["-c", script]).arg(tool.get_program()).current_dir(place.path("."));
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut served = Served::of(command);
    let many: Vec<_> = (0..150).map(|_| served.connect()).collect();
    served.wait_for(" cannot accept ");
    drop(many);
    // Until the server has seen the ends of these, one more is told that it is too many.
    let is_well = |reply: Option<Document>| reply.is_some_and(|it| it.float("ok") == Some(1.0));
    let started = Instant::now();
    let mut connection = served.connect();
    while !is_well(connection.ask(PING)) {
        assert!(started.elapsed() < LONG, "all others are gone");
        std::thread::sleep(Duration::from_millis(10));
        connection = served.connect();
    }
    connection.ok(&insert(7));
    served.signal("TERM");
    assert_eq!(served.end().0, Some(0));
}

/// A client too many for the descriptors of the process was not told so: it waited for ever.
#[test]
fn connections_fit_the_descriptors_of_the_process() {
    let place = Place::new();
    let plain = place.command("serve db --listen 127.0.0.1:0");
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -n 360; exec "$0" "$@""#]).arg(plain.get_program());
    command.args(plain.get_args()).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some(folder) = plain.get_current_dir() {
        command.current_dir(folder);
    }
    let served = Served::of(command);
    assert!(served.seen.contains("connections=180"), "{}", served.seen);
    let mut open: Vec<_> = (0..180).map(|_| served.connect()).collect();
    for connection in &mut open {
        connection.ok(PING);
    }
    let told = served.connect().ask(PING).unwrap();
    assert!(told.str("errmsg").unwrap().contains("at most 180 connections"), "{told}");
    open[179].ok(&insert(1));
}

/// A cluster in the place of a directory: without one to connect to.
#[test]
fn what_a_cluster_does_not_have_is_refused_before_it_is_connected_to() {
    let place = Place::new();
    if !cfg!(feature = "cluster") {
        for command in ["serve {}", "command {} {\"ping\":1}", "user list {}"] {
            let command = command.replacen("{}", "cql://127.0.0.1:1/ks", 1);
            place.fails(&command, 2, "built without clusters");
            // Nobody is told that there is a server.
            assert_eq!(place.run(&command).stderr.lines().count(), 1);
        }
        return;
    }
    for option in ["--keep 1GiB", "--durability group", "--backups b", "--replica-set rs"] {
        let name = option.split(' ').next().unwrap();
        let refused = format!("{name} is for a directory: a cluster has");
        place.fails(&format!("serve cql://127.0.0.1:1/ks {option}"), 2, &refused);
    }
    place.fails("serve cql://127.0.0.1:1/ks --memory 1GiB", 2, "--memory is for a directory");
    place.fails("user list cql://127.0.0.1:1/ks", 3, "127.0.0.1:1");
    for command in ["drop cql://127.0.0.1:1/ks {} --yes", "load cql://127.0.0.1:1/ks {} - --drop"] {
        let users = command.replace("{}", "admin.system.users");
        place.fails(&users, 2, "has the users of the cluster, and is not dropped");
        place.fails(&command.replace("{}", "shop.users"), 3, "127.0.0.1:1");
    }
}

#[test]
fn the_longest_message_is_told_to_drivers() {
    let place = Place::new();
    let expected = "expected 16793600 to 48000000 bytes";
    place.fails("serve db --message-bytes 1MiB", 2, expected);
    place.fails("serve db --message-bytes 50MB", 2, expected);
    let served = Served::new(&place, "--message-bytes 20MB");
    let hello = place.ok(&format!("command mongodb://{}/ {{\"hello\":1}}", served.address));
    assert!(hello.contains("\"maxMessageSizeBytes\":20000000"), "{hello}");
}
