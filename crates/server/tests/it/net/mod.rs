//! Connections: what clients are told, what hostile ones can do, how a server stops.

mod clients;
mod hostile;
mod life;
mod service;
#[cfg(feature = "tls")]
mod tls;

use flagstone_server::bson::BsonWriter;
use flagstone_server::http::{Head, Request as HttpRequest, Response, Takes};
use flagstone_server::net::{
    Address, Counters, Handler, Limits, Listen, Listener, Log, LogForm, Login, Peer, ServeOptions,
    Server,
};
use flagstone_server::wire::{Request, WireError, put_message};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How long a test waits for what must come.
const LONG: Duration = Duration::from_secs(60);

/// Answers commands by their names.
#[derive(Default)]
pub(crate) struct Toy {
    /// Clients have to log in.
    pub(crate) has_users: bool,
    /// `wait` waits until this is true.
    pub(crate) gate: Gate,
    /// `wait` ends when the server tells it so.
    pub(crate) ends: AtomicBool,
    /// How often a client was silent.
    pub(crate) rests: AtomicUsize,
    /// The bytes of messages, requests and answers.
    pub(crate) bytes: AtomicU64,
}

/// A door, and how many wait at it.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        while !state.0 {
            state = self.changed.wait(state).unwrap();
        }
    }

    pub(crate) fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    pub(crate) fn wait_for_one(&self) {
        let mut state = self.state.lock().unwrap();
        while state.1 == 0 {
            state = self.changed.wait(state).unwrap();
        }
    }
}

impl Handler for Toy {
    type Client = Login;

    fn admits_remote(&self) -> bool {
        self.has_users
    }

    fn connect(&self, _peer: &Peer) -> Login {
        if self.has_users { Login::Needed } else { Login::Done }
    }

    fn login(&self, client: &Login) -> Login {
        *client
    }

    fn answer(
        &self,
        client: &mut Login,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let (header, request) = Request::parse(message)?;
        let Request::Message(message) = request else { panic!("tests send OP_MSG") };
        let name = message.command[5..].split(|byte| *byte == 0).next().unwrap();
        let mut text = String::new();
        match name {
            b"panic" => panic!("a command that panics"),
            b"wait" => self.gate.pass(),
            b"large" => text = "x".repeat(8 << 20),
            b"begin" => *client = Login::Begun,
            b"login" => *client = Login::Done,
            b"quiet" => return Ok(()),
            _ => {}
        }
        put_message(out, (0, header.request_id), false, false, |out| {
            let mut reply = BsonWriter::new(out);
            reply.begin();
            reply.double("ok", 1.0)?;
            reply.text("text", &text)?;
            reply.end()
        })
        .map_err(|error| WireError { offset: 0, expected: error.to_string().into() })
    }

    fn count(&self, received: u64, sent: u64) {
        self.bytes.fetch_add(received + sent, Ordering::Relaxed);
    }

    fn stop(&self) {}

    fn stop_at_once(&self) {
        if self.ends.load(Ordering::Relaxed) {
            self.gate.open();
        }
    }

    fn rest(&self, _client: &mut Login) {
        self.rests.fetch_add(1, Ordering::Relaxed);
    }

    fn admit(&self, _client: &mut Login, _head: &Head) -> Result<Takes, Response<'static>> {
        Ok(Takes::Whole)
    }

    fn respond<'a>(&'a self, _client: &'a mut Login, request: &HttpRequest<'_>) -> Response<'a> {
        assert_ne!(request.head.target, "/panic", "a request that panics");
        let text = match request.head.target.as_str() {
            "/thread" => format!("{:?}", std::thread::current().id()),
            target => target.to_owned(),
        };
        Response::of(200, "text/plain", text)
    }
}

/// A log in memory.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A server in this process.
pub(crate) struct Running {
    pub(crate) server: Server<Toy>,
    pub(crate) toy: Arc<Toy>,
    pub(crate) lines: Lines,
}

impl Running {
    pub(crate) fn new(options: ServeOptions) -> Self {
        let running = Self::recovering(options, Toy::default());
        running.server.ready(Arc::clone(&running.toy));
        running
    }

    pub(crate) fn with_users(options: ServeOptions) -> Self {
        let running = Self::recovering(options, Toy { has_users: true, ..Toy::default() });
        running.server.ready(Arc::clone(&running.toy));
        running
    }

    pub(crate) fn recovering(options: ServeOptions, toy: Toy) -> Self {
        Self::at(&["127.0.0.1:0"], options, toy)
    }

    pub(crate) fn at(listen: &[&str], options: ServeOptions, toy: Toy) -> Self {
        let bind = |text: &&str| Listener::bind(&text.parse::<Listen>().unwrap()).unwrap();
        let lines = Lines::default();
        let log = Arc::new(Log::new(LogForm::Text, lines.clone()));
        let listeners = listen.iter().flat_map(bind).collect();
        let server = Server::start(listeners, options, log).unwrap();
        Self { server, toy: Arc::new(toy), lines }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let [Address::Tcp(address)] = self.server.addresses() else { panic!("one address") };
        *address
    }

    pub(crate) fn connect(&self) -> TcpStream {
        patient(TcpStream::connect(self.address()).unwrap())
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        let counters: Arc<Counters> = self.server.counters();
        counters.list().into_iter().find(|(known, _)| *known == name).unwrap().1
    }

    /// Waits until a counter has this value.
    pub(crate) fn wait_for(&self, name: &str, count: u64) {
        eventually(name, || self.count(name) == count);
    }

    /// Waits until no connection is open, and returns the log.
    pub(crate) fn log(&self) -> String {
        eventually("no connection", || self.server.connections() == 0);
        eventually("all lines", || {
            let text = self.lines.text();
            text.matches(" connection opened ").count()
                == text.matches(" connection closed ").count()
        });
        self.lines.text()
    }
}

pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let is_seen = (0..6000).any(|_| {
        is_so() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    });
    assert!(is_seen, "a minute has passed without: {what}");
}

pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    stream
}

pub(crate) fn limits(change: impl FnOnce(&mut Limits)) -> ServeOptions {
    let mut options = ServeOptions::default();
    change(&mut options.limits);
    options
}

/// A command: `{NAME: "things", "$db": "shop", "filler": TEXT}`.
pub(crate) fn command(name: &str, filler: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_message(&mut out, (7, 0), false, false, |out| {
        let mut command = BsonWriter::new(out);
        command.begin();
        command.text(name, "things")?;
        command.text("$db", "shop")?;
        command.text("filler", filler)?;
        command.end()
    })
    .unwrap();
    out
}

/// Reads a reply, as JSON; `None` at the end of the stream.
pub(crate) fn reply(stream: &mut impl Read) -> Option<String> {
    let mut head = [0; 21];
    if stream.read_exact(&mut head).is_err() {
        return None;
    }
    let len = u32::from_le_bytes(*head.first_chunk().unwrap()) as usize;
    assert_eq!(head[8..12], 7_i32.to_le_bytes(), "it answers this message");
    let mut document = vec![0; len - 21];
    stream.read_exact(&mut document).unwrap();
    let mut stored = Vec::new();
    flagstone_server::bson::BsonReader::new().read(&document, None, &mut stored).unwrap();
    let document = flagstone::Document::from_bytes(stored, None).unwrap();
    Some(document.to_json().unwrap())
}

pub(crate) fn ask(stream: &mut (impl Read + Write), name: &str) -> Option<String> {
    stream.write_all(&command(name, "")).ok()?;
    reply(stream)
}

/// Asserts that a client is answered.
pub(crate) fn works(stream: &mut (impl Read + Write)) {
    assert_eq!(ask(stream, "ping").as_deref(), Some(r#"{"ok":1.0,"text":""}"#));
}

/// Asserts that the stream has ended.
pub(crate) fn ended(stream: &mut impl Read) {
    let mut rest = Vec::new();
    let _reset = stream.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{} bytes", rest.len());
}
