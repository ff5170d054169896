//! HTTP: what answers requests, and what is refused.

mod changes;
mod cluster;
mod commands;
mod documents;
mod hostile;
mod load;
mod openapi;
mod page;

use flagstone::{Database, Document, Options};
use flagstone_server::access::{Role, RoleKind};
use flagstone_server::command::{Service, ServiceOptions};
use flagstone_server::net::{Address, Listen, Listener, Log, LogForm, ServeOptions, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// A server over a database of its own.
struct Serving {
    server: Server<Service>,
    service: Arc<Service>,
    lines: crate::net::Lines,
    dir: tempfile::TempDir,
}

impl Serving {
    fn new(options: ServeOptions) -> Self {
        let serving = Self::recovering(options);
        serving.server.ready(Arc::clone(&serving.service));
        serving
    }

    /// Over a database with these options.
    fn of(options: Options, serve: ServeOptions) -> Self {
        let serving = Self::over(tempfile::tempdir().unwrap(), options, serve);
        serving.server.ready(Arc::clone(&serving.service));
        serving
    }

    fn recovering(serve: ServeOptions) -> Self {
        Self::over(tempfile::tempdir().unwrap(), Options::new(), serve)
    }

    fn over(dir: tempfile::TempDir, options: Options, serve: ServeOptions) -> Self {
        let database = Database::builder(dir.path()).options(options).open().unwrap();
        Self::serve(dir, Service::new(database, ServiceOptions::default()).unwrap(), serve)
    }

    fn serve(dir: tempfile::TempDir, service: Arc<Service>, serve: ServeOptions) -> Self {
        let listeners = Listener::bind(&"127.0.0.1:0".parse::<Listen>().unwrap()).unwrap();
        let lines = crate::net::Lines::default();
        let log = Arc::new(Log::new(LogForm::Text, lines.clone()));
        let server = Server::start(listeners, serve, log).unwrap();
        Self { server, service, lines, dir }
    }

    /// Ends the server and closes the database, and opens it again.
    fn restarted(self, options: Options, serve: ServeOptions) -> Self {
        self.server.stop(std::time::Duration::from_secs(10));
        self.service.close();
        self.service.database().clone().close().unwrap();
        let Self { server, service, dir, .. } = self;
        drop((server, service));
        let serving = Self::over(dir, options, serve);
        serving.server.ready(Arc::clone(&serving.service));
        serving
    }

    fn with_users() -> Self {
        Self::new(ServeOptions::default()).peopled()
    }

    /// With `ada`, who may read all, and `bob`, who may write in `shop`.
    fn peopled(self) -> Self {
        let role = |kind, database: Option<&str>| {
            vec![Role { kind, database: database.map(str::to_owned) }]
        };
        let users = self.service.users();
        users.create("ada", "lovelace", role(RoleKind::Read, None)).unwrap();
        users.create("bob", "p:q", role(RoleKind::ReadWrite, Some("shop"))).unwrap();
        self
    }

    fn connect(&self) -> Connection {
        let [Address::Tcp(address)] = self.server.addresses() else { panic!("one address") };
        let stream = crate::net::patient(TcpStream::connect(address).unwrap());
        Connection { reader: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    /// Sends one request over a connection of its own.
    fn ask(&self, start: &str, fields: &str, body: &str) -> Reply {
        self.connect().ask(start, fields, body)
    }

    /// Sends bytes, and returns the status that comes.
    fn status_of(&self, bytes: &[u8]) -> u16 {
        let mut connection = self.connect();
        // The server may end the connection before all is sent.
        let _ended = connection.stream.write_all(bytes);
        connection.reply(false).unwrap().status
    }

    fn count(&self, name: &str) -> u64 {
        let counters = self.server.counters().list();
        counters.into_iter().find(|(known, _)| *known == name).unwrap().1
    }
}

struct Connection {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

#[derive(Debug)]
struct Reply {
    status: u16,
    fields: Vec<(String, String)>,
    body: String,
}

impl Reply {
    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn document(&self) -> Document {
        Document::from_json(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn etag(&self) -> &str {
        self.field("etag").unwrap_or_else(|| panic!("an ETag: {self:?}"))
    }
}

impl Connection {
    fn ask(&mut self, start: &str, fields: &str, body: &str) -> Reply {
        self.send(start, fields, body);
        self.reply(start.starts_with("HEAD ")).unwrap()
    }

    /// Sends a request with a length if it has a body.
    fn send(&mut self, start: &str, fields: &str, body: &str) {
        let length = match body.len() {
            0 => String::new(),
            len => format!("Content-Length: {len}\r\n"),
        };
        let text = format!("{start} HTTP/1.1\r\nHost: localhost\r\n{length}{fields}\r\n{body}");
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    /// Reads a reply; `None` at the end of the stream.
    fn reply(&mut self, is_head: bool) -> Option<Reply> {
        let start = self.line()?;
        let status = start.strip_prefix("HTTP/1.1 ").unwrap().split(' ').next().unwrap();
        let mut reply =
            Reply { status: status.parse().unwrap(), fields: Vec::new(), body: String::new() };
        loop {
            let line = self.line().unwrap();
            let Some((name, value)) = line.split_once(": ") else { break };
            reply.fields.push((name.to_owned(), value.to_owned()));
        }
        if is_head {
            return Some(reply);
        }
        let mut body = Vec::new();
        if reply.field("transfer-encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(&self.line().unwrap(), 16).unwrap();
                let start = body.len();
                body.resize(start + size, 0);
                self.reader.read_exact(&mut body[start..]).unwrap();
                assert_eq!(self.line().as_deref(), Some(""));
                if size == 0 {
                    break;
                }
            }
        } else if let Some(len) = reply.field("content-length") {
            body.resize(len.parse().unwrap(), 0);
            self.reader.read_exact(&mut body).unwrap();
        }
        reply.body = String::from_utf8(body).unwrap();
        Some(reply)
    }

    /// Asserts that the connection has ended.
    fn ended(&mut self) {
        let mut rest = Vec::new();
        let _reset = self.reader.read_to_end(&mut rest);
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }
}

/// `Authorization: Basic ..` of ada and bob.
const ADA: &str = "Authorization: Basic YWRhOmxvdmVsYWNl\r\n";
const BOB: &str = "Authorization: Basic Ym9iOnA6cQ==\r\n";
