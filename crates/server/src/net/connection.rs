//! One connection, from its first bytes to its end.

use super::address::Address;
use super::ended::{Ended, Late, Silence};
use super::handler::{Handler, Login, Peer};
use super::http::{self, Requests};
use super::limits::Limits;
use super::line::Line;
use super::log::Level;
#[cfg(target_os = "linux")]
use super::parking::Woken;
use super::refusal::Refusal;
use super::shared::Shared;
use super::socket::{Socket, TICK};
use crate::command::About;
use crate::room::Held;
use crate::watch;
use crate::wire::{HEADER_BYTES, MessageReader, ReadError};
use flagstone::Value;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// The room for replies that is kept between two messages.
const OUT_BYTES_KEPT: usize = 1 << 20;

/// A connection that was accepted, and the verdict on it.
pub(super) struct AcceptedConnection<H: Handler> {
    pub(super) shared: Arc<Shared<H>>,
    pub(super) id: u64,
    pub(super) socket: Arc<Socket>,
    pub(super) address: Address,
    pub(super) verdict: Result<Arc<H>, Refusal>,
    pub(super) opened: Instant,
}

impl<H: Handler> Drop for AcceptedConnection<H> {
    fn drop(&mut self) {
        self.shared.leave(self.id);
    }
}

impl<H: Handler> AcceptedConnection<H> {
    /// Serves the client to its end, or until it is silent.
    pub(super) fn run(self) {
        self.shared.log.info("connection opened", &self.about());
        // The state of a client that panics goes with it; what clients share has locks, which
        // outlast a panic.
        let begun = catch_unwind(AssertUnwindSafe(|| self.begin()));
        let Begun { handler, client, line, reader, is_http, first } = match begun {
            Ok(Ok(begun)) => begun,
            Ok(Err(ended)) => return self.finish(&ended),
            Err(_panic) => return self.finish(&Ended::Panicked),
        };
        let (connection, login, silence) = (self, Some(first), None);
        let talk = Talk { connection, handler, client, line, reader, is_http, login, silence };
        Box::new(talk).go_on();
    }

    /// The fields of the log that say which connection it is.
    fn about(&self) -> [(&'static str, Value); 2] {
        let (connection, peer) = (Value::from(self.id), Value::from(self.address.to_string()));
        [("connection", connection), ("peer", peer)]
    }

    /// Counts and logs the end.
    fn finish(&self, ended: &Ended) {
        let level = self.count(ended);
        let [connection, peer] = self.about();
        let micros = ("micros", Value::from(self.opened.elapsed().as_micros() as u64));
        let reason = ("reason", Value::from(ended.to_string()));
        self.shared.log.write(level, "connection closed", &[connection, peer, micros, reason]);
    }

    fn count(&self, ended: &Ended) -> Level {
        let counters = &self.shared.counters;
        match ended {
            Ended::ByClient | Ended::Stopped | Ended::Http | Ended::Io(_) => return Level::Info,
            // Counted when the verdict was made.
            Ended::Refused(_) => {}
            Ended::Malformed(_) => counters.bad_messages.add(),
            Ended::Tls(_) => counters.failed_tls.add(),
            Ended::Panicked => counters.panics.add(),
            Ended::Late(late) => match late {
                Late::Login => counters.login_timeouts.add(),
                Late::Message => counters.message_timeouts.add(),
                Late::Reply => counters.reply_timeouts.add(),
                Late::Idle => {
                    counters.idle_timeouts.add();
                    return Level::Info;
                }
            },
        }
        Level::Warning
    }

    /// Finds out what the client speaks.
    fn begin(&self) -> Result<Begun<H>, Ended> {
        let limits = &self.shared.limits;
        let first = Instant::now() + limits.login;
        let (mut line, is_encrypted) = self.line(first)?;
        let mut reader = MessageReader::new();
        let begins = reader.peek(&mut line, HEADER_BYTES).map_err(late)?;
        if begins.is_empty() {
            return Err(Ended::ByClient);
        }
        if http::is_http(begins) {
            self.shared.counters.http.add();
            let handler = match &self.verdict {
                Ok(handler) => handler,
                Err(refusal) => {
                    http::refuse(&mut line, &mut reader, limits, refusal).map_err(late)?;
                    line.finish();
                    return Err(Ended::Refused(refusal.text.clone()));
                }
            };
            let client = handler.connect(&self.peer(is_encrypted)?);
            let (handler, is_http) = (Arc::clone(handler), true);
            return Ok(Begun { handler, client, line, reader, is_http, first });
        }
        if is_tls(begins) {
            let text = "a client speaks it, and the server has no certificate (--tls-cert)";
            return Err(Ended::Tls(text.to_owned()));
        }
        match &self.verdict {
            Ok(handler) => {
                let client = handler.connect(&self.peer(is_encrypted)?);
                let (handler, is_http) = (Arc::clone(handler), false);
                Ok(Begun { handler, client, line, reader, is_http, first })
            }
            Err(refusal) => {
                let (out, login, silence) = (Vec::new(), Some(first), None);
                let (line, reader) = (&mut line, &mut reader);
                let held = None;
                let mut client =
                    Served { connection: self, line, reader, out, held, login, silence };
                client.reader.set_len_max(limits.login_bytes);
                client.receive(Login::Needed, None)?;
                client.refuse(refusal);
                Err(Ended::Refused(refusal.text.clone()))
            }
        }
    }

    fn peer(&self, is_encrypted: bool) -> io::Result<Peer> {
        let (address, local) = (self.address.clone(), self.socket.local()?);
        Ok(Peer { address, local, connection: self.id, is_encrypted })
    }

    /// Returns the stream of the connection, and whether it is encrypted.
    #[cfg(feature = "tls")]
    fn line(&self, deadline: Instant) -> Result<(Line, bool), Ended> {
        /// The first byte of TLS.
        const HANDSHAKE: u8 = 22;
        let mut line = Line::new(Arc::clone(&self.socket), deadline);
        let Some(tls) = self.shared.tls.as_ref().filter(|_| matches!(*self.socket, Socket::Tcp(_)))
        else {
            return Ok((line, false));
        };
        if !self.socket.wait(Some(deadline))? {
            return Err(Ended::Late(Late::Login));
        }
        match self.socket.first_byte()? {
            Some(HANDSHAKE) => {
                line.encrypt(tls.connect().map_err(|error| Ended::Tls(error.to_string()))?);
                Ok((line, true))
            }
            Some(_) => {
                let refusal = Refusal::plain();
                let mut reader = MessageReader::new();
                if http::is_http(reader.peek(&mut line, HEADER_BYTES).map_err(late)?) {
                    http::refuse(&mut line, &mut reader, &self.shared.limits, &refusal)?;
                } else {
                    let mut out = Vec::new();
                    refusal.put(reader.peek(&mut line, HEADER_BYTES).map_err(late)?, &mut out);
                    line.send(&out, self.shared.limits.reply)?;
                }
                line.finish();
                Err(Ended::Tls("a client does not speak it".to_owned()))
            }
            None => Err(Ended::ByClient),
        }
    }

    #[cfg(not(feature = "tls"))]
    fn line(&self, deadline: Instant) -> Result<(Line, bool), Ended> {
        Ok((Line::new(Arc::clone(&self.socket), deadline), false))
    }
}

/// What a connection has whose client has begun to speak.
struct Begun<H: Handler> {
    handler: Arc<H>,
    client: H::Client,
    line: Line,
    reader: MessageReader,
    is_http: bool,
    /// Until when the first message or head must come.
    first: Instant,
}

/// A connection whose client speaks in messages, or HTTP.
struct Talk<H: Handler> {
    connection: AcceptedConnection<H>,
    handler: Arc<H>,
    client: H::Client,
    line: Line,
    reader: MessageReader,
    is_http: bool,
    /// When the login, or the first message or head, must be complete.
    login: Option<Instant>,
    silence: Option<Silence>,
}

impl<H: Handler> Talk<H> {
    /// Serves the client to its end, or until it is silent: then it waits without a thread.
    fn go_on(mut self: Box<Self>) {
        loop {
            let silence = match catch_unwind(AssertUnwindSafe(|| self.run())) {
                Ok(Ok(silence)) => silence,
                Ok(Err(ended)) => return self.connection.finish(&ended),
                Err(_panic) => return self.connection.finish(&Ended::Panicked),
            };
            #[cfg(target_os = "linux")]
            {
                let (shared, id) = (Arc::clone(&self.connection.shared), self.connection.id);
                let socket = Arc::clone(&self.connection.socket);
                let place = shared.parking.place(id, &socket, || shared.is_stopping());
                if let Some(place) = place {
                    return place.park(silence.deadline, Box::new(move |woken| self.wake(woken)));
                }
                if shared.is_stopping() {
                    return self.connection.finish(&Ended::Stopped);
                }
            }
            match self.line.wait(silence.deadline) {
                Ok(true) if !silence.is_over() => {}
                Ok(_) => return self.connection.finish(&Ended::Late(silence.late)),
                Err(error) => return self.connection.finish(&error.into()),
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn wake(self: Box<Self>, woken: Woken) {
        let late = self.silence.map_or(Late::Idle, |silence| silence.late);
        match woken {
            Woken::Readable => self.go_on(),
            Woken::Late => self.connection.finish(&Ended::Late(late)),
            Woken::Stopped => self.connection.finish(&Ended::Stopped),
        }
    }

    fn run(&mut self) -> Result<Silence, Ended> {
        let Self { connection, handler, client, line, reader, is_http, login, silence } = self;
        let (handler, out, held) = (&**handler, Vec::new(), None);
        if *is_http {
            let (shared, bytes) = (&*connection.shared, (0, 0));
            let (connection, peer) = (connection.id, &connection.address);
            let requests = Requests { shared, connection, peer, handler, line, reader, bytes };
            let ran = requests.run(client, login, *silence)?;
            *silence = Some(ran);
            return Ok(ran);
        }
        let (from, since) = (*login, *silence);
        let mut served =
            Served { connection, line, reader, out, held, login: from, silence: since };
        let ran = served.run(handler, client);
        (*login, *silence) = (served.login, served.silence);
        ran
    }
}

/// A client that is served.
struct Served<'a, H: Handler> {
    connection: &'a AcceptedConnection<H>,
    line: &'a mut Line,
    reader: &'a mut MessageReader,
    out: Vec<u8>,
    /// The room that a long message takes.
    held: Option<Held>,
    /// When the login, or the first message, must be complete.
    login: Option<Instant>,
    /// Since the last message.
    silence: Option<Silence>,
}

impl<H: Handler> Served<'_, H> {
    /// Answers messages until the client is silent.
    fn run(&mut self, handler: &H, client: &mut H::Client) -> Result<Silence, Ended> {
        let shared = &self.connection.shared;
        loop {
            let login = handler.login(client);
            let is_known = login == Login::Done;
            let Limits { message_bytes, login_bytes, .. } = shared.limits;
            let len_max = if is_known { message_bytes } else { login_bytes };
            self.reader.set_len_max(len_max);
            if let Some(silence) = self.wait(login, || handler.rest(client))? {
                return Ok(silence);
            }
            self.receive(login, Some((handler, &*client)))?;
            if shared.is_stopping() {
                self.refuse(&Refusal::stopping());
                return Err(Ended::Stopped);
            }
            self.answer(handler, client)?;
            self.held = None;
            self.login = match (handler.login(client), self.login.filter(|_| login == Login::Begun))
            {
                (Login::Begun, None) => Some(Instant::now() + shared.limits.login),
                (Login::Begun, begun) => begun,
                (Login::Needed | Login::Done, _) => None,
            };
        }
    }

    /// Waits a while for the first bytes of a message. A client that keeps silent has no buffers
    /// then, and `rest` is called.
    fn wait(&mut self, login: Login, mut rest: impl FnMut()) -> Result<Option<Silence>, Ended> {
        if self.reader.has_more() {
            return Ok(None);
        }
        let limits = &self.connection.shared.limits;
        // Bytes that come may be a part of what TLS needs, which must not take for ever either: the
        // silence goes on.
        let silence = self.silence.unwrap_or_else(|| {
            let idle = match login {
                Login::Done => limits.idle,
                Login::Needed | Login::Begun => Some(limits.login_idle),
            };
            match self.login {
                Some(login) => Silence { deadline: Some(login), late: Late::Login },
                None => {
                    let deadline = idle.map(|idle| Instant::now() + idle);
                    Silence { deadline, late: Late::Idle }
                }
            }
        });
        self.silence = Some(silence);
        self.line.set_deadline(Instant::now() + TICK);
        match self.reader.read_some(&mut *self.line) {
            Ok(0) if self.connection.shared.is_stopping() => return Err(Ended::Stopped),
            Ok(0) => return Err(Ended::ByClient),
            Ok(_) => {
                self.silence = None;
                return Ok(None);
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(error.into()),
        }
        if silence.is_over() {
            return Err(Ended::Late(silence.late));
        }
        self.out = Vec::new();
        self.reader.release();
        rest();
        Ok(Some(silence))
    }

    /// Receives a whole message into the reader.
    fn receive(&mut self, login: Login, of: Option<(&H, &H::Client)>) -> Result<(), Ended> {
        let limits = &self.connection.shared.limits;
        let message = Instant::now() + limits.message;
        let deadline = self.login.map_or(message, |login| login.min(message));
        self.line.set_deadline(deadline);
        let is_late = |login: &Instant| Instant::now() >= *login;
        self.take_room(deadline, of)?;
        match self.reader.read(&mut *self.line).map(|message| message.is_some()) {
            // What goes on in time, message by message, has an end as well.
            Ok(true) if self.login.as_ref().is_some_and(is_late) => {
                let within = limits.login;
                self.refuse(&Refusal::late("a whole login", within, "--login-timeout"));
                Err(Ended::Late(Late::Login))
            }
            Ok(true) => Ok(()),
            Ok(false) => Err(Ended::ByClient),
            Err(_cut) if self.connection.shared.is_stopping() => Err(Ended::Stopped),
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::TimedOut => {
                let (late, within, flag) = match self.login {
                    Some(login) if login < message => {
                        (Late::Login, limits.login, "--login-timeout")
                    }
                    _ => (Late::Message, limits.message, "--message-timeout"),
                };
                self.refuse(&Refusal::late("a whole message", within, flag));
                Err(Ended::Late(late))
            }
            Err(ReadError::Io(error)) => Err(error.into()),
            Err(ReadError::Wire(error)) => {
                let mut text = error.to_string();
                if error.offset == 0 {
                    text.push_str(match login {
                        Login::Done => " (--message-bytes)",
                        Login::Needed | Login::Begun => " before the login (--login-bytes)",
                    });
                }
                self.refuse(&Refusal::malformed(text.as_str()));
                Err(Ended::Malformed(text))
            }
        }
    }

    /// Takes room for the message whose header comes next.
    fn take_room(&mut self, deadline: Instant, of: Option<(&H, &H::Client)>) -> Result<(), Ended> {
        // What goes wrong with it is told when the message is read.
        let Ok(header) = self.reader.peek(&mut self.line, HEADER_BYTES) else { return Ok(()) };
        let len = header.first_chunk().map_or(0, |len| u32::from_le_bytes(*len) as usize);
        if len > self.reader.len_max() {
            return Ok(());
        }
        let shared = &self.connection.shared;
        let held = self.held.insert(shared.messages.begin());
        let Err(refusal) = shared.make_room(held, len, deadline, of) else { return Ok(()) };
        self.reader.take(HEADER_BYTES);
        self.refuse(&refusal);
        Err(Ended::Refused(refusal.text))
    }

    /// Answers the received message.
    fn answer(&mut self, handler: &H, client: &mut H::Client) -> Result<(), Ended> {
        let shared = &self.connection.shared;
        self.out.clear();
        let began = Instant::now();
        let (message, out) = (self.reader.last(), &mut self.out);
        let socket = Arc::clone(&self.connection.socket);
        let answered = catch_unwind(AssertUnwindSafe(|| {
            watch::connected(move || socket.is_closed(), || handler.answer(client, message, out))
        }));
        // Nothing came: that is no slow command.
        let waited = watch::take_waited();
        if let Some(slow) = shared.slow {
            let took = began.elapsed().saturating_sub(waited);
            if took >= slow {
                shared.note_slow(self.connection.id, took, About::of_message(self.reader.last()));
            }
        }
        if let Some(user) = handler.failed_login(client) {
            shared.note_failed_login(self.connection.id, &self.connection.address, user);
        }
        match answered {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let text = error.to_string();
                self.refuse(&Refusal::malformed(text.as_str()));
                return Err(Ended::Malformed(text));
            }
            Err(_panic) => {
                self.refuse(&Refusal::panicked());
                return Err(Ended::Panicked);
            }
        }
        handler.count(self.reader.last().len() as u64, self.out.len() as u64);
        match self.line.send(&self.out, shared.limits.reply) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Ended::Late(Late::Reply));
            }
            Err(error) => return Err(error.into()),
        }
        if self.out.capacity() > OUT_BYTES_KEPT {
            self.out = Vec::new();
        }
        handler.sent(client);
        Ok(())
    }

    /// Tells the client why its last message has no answer, and ends the connection.
    fn refuse(&mut self, refusal: &Refusal) {
        self.out.clear();
        refusal.put(self.reader.last(), &mut self.out);
        // The connection ends either way.
        let _told = self.line.send(&self.out, self.connection.shared.limits.reply);
        self.line.finish();
    }
}

/// The cause of an error before the first message.
fn late(error: io::Error) -> Ended {
    match error.kind() {
        io::ErrorKind::TimedOut => Ended::Late(Late::Login),
        _ => error.into(),
    }
}

/// Returns whether a stream that begins so has TLS: a handshake, and a hello in it.
fn is_tls(begins: &[u8]) -> bool {
    matches!(begins, [22, 3, 0..=4, _, _, 1, ..])
        && begins.get(12..16).is_none_or(|code| !matches!(code, [0xD4 | 0xDD, 7, 0, 0]))
}
