//! A connection that has logged in.

use super::error::ClientError;
use super::reply::Reply;
use super::scram::ScramLogin;
use super::stream::Stream;
use super::url::ServerUrl;
use crate::bson::{BsonError, BsonWriter, document_len};
use crate::wire::{
    DOCUMENT_BYTES_MAX, ENVELOPE_BYTES, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, MessageReader,
    ReadError, put_message,
};
use std::io::{self, Write};

/// The code of a message, and the bytes of its flags and of the kind of its first section.
const OP_MSG: i32 = 2013;
const FLAGS_BYTES: usize = 4;
const KIND_BYTES: usize = 1;
/// The codes that say why a client is not let in.
const UNAUTHORIZED: i32 = 13;
const AUTHENTICATION_FAILED: i32 = 18;

/// A connection to a server of flagstone, which does one command after the other.
///
/// ```no_run
/// use flagstone_server::client::{Connection, ServerUrl};
/// let url: ServerUrl = "mongodb://ada:secret@127.0.0.1/shop".parse()?;
/// let mut connection = Connection::open(&url)?;
/// let reply = connection.run("shop", |command| {
///     command.text("count", "orders")
/// })?;
/// println!("{:?} orders", reply.int("n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Connection {
    stream: Stream,
    reader: MessageReader,
    out: Vec<u8>,
    last_id: i32,
    /// The text of the URL.
    server: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({})", self.server)
    }
}

impl Connection {
    /// Connects, finds out whether the server is one of flagstone, and logs in if the URL has a
    /// user.
    ///
    /// # Errors
    /// `Unreachable`, `NotFlagstone`, `Login`; `Lost` if the server is silent.
    pub fn open(url: &ServerUrl) -> Result<Self, ClientError> {
        let server = url.to_string();
        let lost = |error: io::Error| ClientError::Unreachable(format!("{server}: {error}"));
        let stream = Stream::open(url)?;
        stream.wait_at_most(Some(url.connect)).map_err(lost)?;
        let (reader, out) = (MessageReader::new(), Vec::new());
        let mut connection = Self { stream, reader, out, last_id: 0, server };
        connection.check_server()?;
        if let Some((user, password)) = url.credentials() {
            connection.log_in(user, password)?;
        }
        let waits = connection.stream.wait_at_most(url.silence);
        waits.map_err(|error| connection.lost(&error))?;
        Ok(connection)
    }

    /// Runs a command on a database: `put` appends its fields, the name of the command first.
    ///
    /// # Errors
    /// `Refused`, and as [`Connection::ask`].
    pub fn run(
        &mut self,
        database: &str,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Result<(), BsonError>,
    ) -> Result<Reply<'_>, ClientError> {
        let reply = self.ask(database, put)?;
        if reply.int("ok") == Some(1) { Ok(reply) } else { Err(refusal(reply)) }
    }

    /// As [`Connection::run`], and returns the reply to a command that is refused, too.
    ///
    /// # Errors
    /// `Lost` if the connection ends; `NotFlagstone` for an answer that is none; `Unsendable` for
    /// what BSON cannot hold.
    pub fn ask(
        &mut self,
        database: &str,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Result<(), BsonError>,
    ) -> Result<Reply<'_>, ClientError> {
        self.out.clear();
        self.last_id = self.last_id.wrapping_add(1);
        let (ids, more_to_come, has_checksum) = ((self.last_id, 0), false, false);
        put_message(&mut self.out, ids, more_to_come, has_checksum, |out| {
            let mut command = BsonWriter::new(out);
            command.begin();
            put(&mut command)?;
            command.text("$db", database)?;
            command.end()
        })?;
        let (len, most) = (self.out.len(), DOCUMENT_BYTES_MAX + ENVELOPE_BYTES);
        if len > most {
            let text = format!("a command of {len} bytes: a server takes at most {most}");
            return Err(ClientError::Unsendable(text));
        }
        let sent = self.stream.write_all(&self.out).and_then(|()| self.stream.flush());
        sent.map_err(|error| self.lost(&error))?;
        let (server, id) = (&self.server, self.last_id);
        let message = match self.reader.read(&mut self.stream) {
            Ok(Some(message)) => message,
            Ok(None) => {
                let text = format!("{server}: the server has closed the connection");
                return Err(ClientError::Lost(text));
            }
            Err(ReadError::Io(error)) => return Err(lost(server, &error)),
            Err(ReadError::Wire(error)) => {
                let text = format!("{server}: this is no server of flagstone: {error}");
                return Err(ClientError::NotFlagstone(text));
            }
        };
        reply(message, id).ok_or_else(|| {
            let text = format!("{server}: this is no server of flagstone");
            ClientError::NotFlagstone(text)
        })
    }

    /// Returns the server as messages name it.
    pub fn server(&self) -> &str {
        &self.server
    }

    fn lost(&self, error: &io::Error) -> ClientError {
        lost(&self.server, error)
    }

    /// Refuses other servers.
    fn check_server(&mut self) -> Result<(), ClientError> {
        let server = self.server.clone();
        let info = self.run("admin", |command| command.int("buildInfo", 1));
        let (version, found) = match info {
            Ok(info) => (info.text("version").unwrap_or("?"), info.text("flagstoneVersion")),
            Err(ClientError::Refused { message, .. }) => {
                return Err(ClientError::NotFlagstone(format!("{server}: {message}")));
            }
            // Who does not understand the first message hangs up.
            Err(ClientError::Lost(text)) => return Err(ClientError::Unreachable(text)),
            Err(error) => return Err(error),
        };
        if found.is_some() {
            return Ok(());
        }
        Err(ClientError::NotFlagstone(format!(
            "{server} is a server of version {version}, and none of flagstone: use its own tools"
        )))
    }

    fn log_in(&mut self, user: &str, password: &str) -> Result<(), ClientError> {
        let server = self.server.clone();
        let refuse = |text: &str| ClientError::Login(format!("{server}: {text}"));
        let refused = |error| match error {
            ClientError::Refused { code: UNAUTHORIZED | AUTHENTICATION_FAILED, .. } => {
                refuse("the name of the user or the password is wrong")
            }
            ClientError::Refused { message, .. } => refuse(&message),
            other => other,
        };
        let unlike = |what: &str| refuse(&format!("SCRAM-SHA-256: expected {what}"));
        let (login, first) = ScramLogin::begin(user, password).map_err(|error| refuse(&error))?;
        let begun = self.run("admin", |command| {
            command.int("saslStart", 1)?;
            command.text("mechanism", "SCRAM-SHA-256")?;
            command.bytes("payload", first.as_bytes())?;
            command.begin_document("options")?;
            command.bool("skipEmptyExchange", true)?;
            command.end()
        });
        let begun = begun.map_err(refused)?;
        let conversation = begun.int("conversationId").and_then(|id| i32::try_from(id).ok());
        let server_first = text(begun).ok_or_else(|| unlike("a payload of text"))?;
        let (proof, expected) = login.prove(server_first).map_err(unlike)?;
        let ended = self.run("admin", |command| {
            command.int("saslContinue", 1)?;
            command.int("conversationId", conversation.unwrap_or(1))?;
            command.bytes("payload", proof.as_bytes())
        });
        let ended = ended.map_err(refused)?;
        // A server that only says so does not know the password.
        if !expected.is(text(ended).unwrap_or_default()) {
            return Err(refuse("the server cannot prove that it knows the user"));
        }
        if ended.bool("done") == Some(true) {
            return Ok(());
        }
        let last = self.run("admin", |command| {
            command.int("saslContinue", 1)?;
            command.int("conversationId", conversation.unwrap_or(1))?;
            command.bytes("payload", &[])
        });
        last.map(drop).map_err(refused)
    }
}

fn text(reply: Reply<'_>) -> Option<&str> {
    str::from_utf8(reply.bytes("payload")?).ok()
}

fn lost(server: &str, error: &io::Error) -> ClientError {
    let text = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => format!("the connection has ended: {error}"),
    };
    ClientError::Lost(format!("{server}: {text}"))
}

/// Returns the document of the reply to request `id`, which may be longer than any message of a
/// client.
fn reply(message: &[u8], id: i32) -> Option<Reply<'_>> {
    let header = Header::parse(message, MESSAGE_BYTES_MAX).ok()?;
    let body = message.get(HEADER_BYTES..)?;
    let (_flags, section) = body.split_at_checked(FLAGS_BYTES)?;
    let (kind, document) = section.split_at_checked(KIND_BYTES)?;
    let is_whole = document_len(document).ok()? == document.len();
    let is_reply = header.code == OP_MSG && header.response_to == id && kind == [0] && is_whole;
    is_reply.then_some(Reply(document))
}

fn refusal(reply: Reply<'_>) -> ClientError {
    let code = reply.int("code").and_then(|code| i32::try_from(code).ok()).unwrap_or(0);
    ClientError::Refused {
        code,
        kind: reply.text("errorKind").map(str::to_owned),
        message: reply.text("errmsg").unwrap_or("the server says no reason").to_owned(),
    }
}
