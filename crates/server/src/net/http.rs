//! HTTP on the port of the messages: requests one after the other, with the same limits.

use super::address::Address;
use super::ended::{Ended, Late, Silence};
use super::handler::Handler;
use super::limits::Limits;
use super::line::Line;
use super::refusal::Refusal;
use super::shared::Shared;
use super::socket::TICK;
use crate::http::{
    Arrived, BadRequest, BodyReader, Content, Counted, Exchange, Exchanger, Head, NDJSON, Part,
    Request, Response, Takes, after_blank_lines, check_hosts,
};
use crate::room::Held;
use crate::watch;
use crate::wire::MessageReader;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How much of a body is waited for at a time.
const STEP_BYTES: u64 = 64 << 10;
/// How much of a body that is taken while it comes is read at a time.
const PIECE_BYTES: usize = 128 << 10;

/// Returns whether a stream that begins so has HTTP: a method in capitals, and a space, perhaps
/// after empty lines. As the length of a message this is far beyond the longest.
pub(super) fn is_http(first: &[u8]) -> bool {
    let first = after_blank_lines(first);
    let method = first.split(|byte| *byte == b' ').next().unwrap_or_default();
    (3..=7).contains(&method.len())
        && method.len() < first.len()
        && method.iter().all(u8::is_ascii_uppercase)
}

/// Reads the head of a request of a client that is refused, and answers it.
pub(super) fn refuse(
    line: &mut Line,
    reader: &mut MessageReader,
    limits: &Limits,
    refusal: &Refusal,
) -> io::Result<()> {
    let mut len = 0;
    let head = loop {
        let bytes = reader.peek(line, len + 1)?;
        let head = after_blank_lines(bytes);
        let is_end = |end: &[u8]| end == b"\r\n\r\n" || end.ends_with(b"\n\n");
        if head.windows(4).any(is_end) || bytes.len() <= len || len >= HEAD_BYTES_MAX {
            break head;
        }
        len = bytes.len();
    };
    let mut words = head.split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_alive = path == b"/healthz" && *refusal == Refusal::not_ready();
    let response = if is_alive {
        Response::of(200, "text/plain; charset=utf-8", "ok\n")
    } else {
        Response::refused(refusal.status, &refusal.text)
    };
    let (mut out, is_chunked) = (Vec::new(), false);
    response.put_head(Some(CLOSE), is_chunked, &mut out);
    if let (Content::Whole(bytes), false) = (&response.content, method == b"HEAD") {
        out.extend_from_slice(bytes);
    }
    line.send(&out, limits.reply)
}

/// What a client is told before a connection ends.
const CLOSE: &str = "close";

/// Returns what a client is told of the connection.
fn told(head: &Head, closes: bool) -> Option<&'static str> {
    match (closes, head.is_told_to_stay()) {
        (true, _) => Some(CLOSE),
        (false, true) => Some("keep-alive"),
        (false, false) => None,
    }
}

/// The requests of a connection.
pub(super) struct Requests<'a, H: Handler> {
    pub(super) shared: &'a Shared<H>,
    pub(super) connection: u64,
    pub(super) peer: &'a Address,
    pub(super) handler: &'a H,
    pub(super) line: &'a mut Line,
    pub(super) reader: &'a mut MessageReader,
    /// The bytes of the current request, and of its answer.
    pub(super) bytes: (u64, u64),
}

impl<'a, H: Handler> Requests<'a, H> {
    /// Answers requests until the client is silent. `first`: when the head of the first must be
    /// whole, if none has come. `since`: the silence before.
    pub(super) fn run(
        mut self,
        client: &mut H::Client,
        first: &mut Option<Instant>,
        mut since: Option<Silence>,
    ) -> Result<Silence, Ended> {
        loop {
            if first.is_none()
                && let Some(silence) = self.wait(since.take())?
            {
                self.handler.rest(client);
                return Ok(silence);
            }
            let whole = Instant::now() + self.shared.limits.message;
            let head = self.head(whole, first.take())?;
            if self.shared.is_stopping() {
                let stopping = Refusal::stopping();
                self.end(&Response::refused(stopping.status, &stopping.text));
                return Err(Ended::Stopped);
            }
            let closes = self.exchange(client, &head, whole)?;
            self.handler.sent(client);
            self.shared.counters.http_requests.add();
            let (received, sent) = std::mem::take(&mut self.bytes);
            self.handler.count(received, sent);
            if closes {
                self.line.finish();
                return Err(Ended::Http);
            }
        }
    }

    /// Waits a while for the next request. A client that keeps silent has no buffers then.
    fn wait(&mut self, since: Option<Silence>) -> Result<Option<Silence>, Ended> {
        if self.reader.has_more() {
            return Ok(None);
        }
        let limits = &self.shared.limits;
        // Bytes that come may be a part of what TLS needs: the silence goes on.
        let silence = since.unwrap_or_else(|| {
            let idle = limits.idle.unwrap_or(limits.login_idle);
            Silence { deadline: Some(Instant::now() + idle), late: Late::Idle }
        });
        self.line.set_deadline(Instant::now() + TICK);
        match self.reader.read_some(self.line) {
            Ok(0) if self.shared.is_stopping() => return Err(Ended::Stopped),
            Ok(0) => return Err(Ended::Http),
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            Err(error) => return Err(error.into()),
        }
        if silence.is_over() {
            return Err(Ended::Late(silence.late));
        }
        self.reader.release();
        Ok(Some(silence))
    }

    /// Reads a head.
    fn head(&mut self, whole: Instant, first: Option<Instant>) -> Result<Head, Ended> {
        let deadline = first.map_or(whole, |first| first.min(whole));
        self.line.set_deadline(deadline);
        let mut len = 0;
        loop {
            let (have, is_blank, parsed) = match self.reader.peek(self.line, len + 1) {
                Ok(bytes) => (bytes.len(), after_blank_lines(bytes).is_empty(), Head::parse(bytes)),
                Err(error) if deadline < whole => {
                    let limit = self.shared.limits.login;
                    return Err(self.cut(error, Late::Login, limit, "--login-timeout"));
                }
                Err(error) => return Err(self.late(error)),
            };
            match parsed {
                Ok(Some((head, used))) => {
                    self.reader.take(used);
                    self.bytes.0 += used as u64;
                    return Ok(head);
                }
                Ok(None) if have > len => len = have,
                Ok(None) if is_blank => return Err(Ended::Http),
                Ok(None) if self.shared.is_stopping() => return Err(Ended::Stopped),
                Ok(None) => return Err(self.malformed(&unfinished())),
                Err(bad) => return Err(self.malformed(&bad)),
            }
        }
    }

    /// Reads a body, which counts as long as it is held.
    fn body(
        &mut self,
        mut reader: BodyReader,
        is_chunked: bool,
        whole: Instant,
        client: &H::Client,
    ) -> Result<(Vec<u8>, Held), Ended> {
        self.line.set_deadline(whole);
        let mut body = Vec::new();
        // What comes in chunks takes room as it comes.
        let len = if is_chunked { 0 } else { reader.missing() };
        let (shared, of) = (self.shared, Some((self.handler, client)));
        let mut held = shared.messages.begin();
        if let Err(refusal) = shared.make_room(&mut held, len as usize, whole, of) {
            return Err(self.refused(refusal));
        }
        while reader.missing() > 0 {
            let step = reader.missing().min(STEP_BYTES) as usize;
            let taken = match self.reader.peek(self.line, step) {
                Ok([]) if shared.is_stopping() => return Err(Ended::Stopped),
                Ok([]) => Err(unfinished()),
                Ok(bytes) => {
                    let len = body.len() + bytes.len();
                    match shared.make_room(&mut held, len, whole, of) {
                        Ok(()) => reader.take(bytes, &mut body),
                        Err(refusal) => return Err(self.refused(refusal)),
                    }
                }
                Err(error) => return Err(self.late(error)),
            };
            match taken {
                Ok(used) => {
                    self.reader.take(used);
                    self.bytes.0 += used as u64;
                }
                Err(bad) => return Err(self.malformed(&bad)),
            }
        }
        Ok((body, held))
    }

    /// Answers one request. Returns whether the connection ends then.
    fn exchange(
        &mut self,
        client: &mut H::Client,
        head: &Head,
        whole: Instant,
    ) -> Result<bool, Ended> {
        let (handler, shared) = (self.handler, self.shared);
        let waits = match head.waits() {
            Ok(waits) => waits,
            Err(bad) => return Err(self.malformed(&bad)),
        };
        let takes = match self.admitted(client, head) {
            Ok(takes) => takes,
            Err(response) => {
                // The body is not read.
                let closes = head.closes() || head.has_body();
                self.send(head, response, closes)?;
                return Ok(closes);
            }
        };
        let reader = match BodyReader::new(head, takes) {
            Ok(reader) => reader,
            Err(bad) => return Err(self.malformed(&bad)),
        };
        let (body, _held, streamed) = match takes {
            Takes::Nothing => (Vec::new(), None, None),
            Takes::Stream => (Vec::new(), None, Some(reader)),
            Takes::Whole => {
                if waits {
                    self.put(CONTINUE)?;
                }
                let (body, held) = self.body(reader, head.length().is_none(), whole, client)?;
                (body, Some(held), None)
            }
        };
        let counted = || Counted {
            open: shared.len() as u64,
            message_bytes: shared.messages.held().0 as u64,
            events: shared.counters.list(),
        };
        let request = Request { head, body: &body, counted: &counted };
        let began = Instant::now();
        let is_gone = self.line.gone();
        let respond = || {
            // Moved, so that the answer may keep it.
            let client = client;
            if takes == Takes::Stream {
                // What comes may have ended, and more is to be done with it.
                return handler.respond(client, &request);
            }
            watch::connected(is_gone, || handler.respond(client, &request))
        };
        let Ok(mut response) = catch_unwind(AssertUnwindSafe(respond)) else {
            self.end(&panicked());
            return Err(Ended::Panicked);
        };
        self.count_refusal(response.status);
        let about = response.about.take();
        let is_endless = !matches!(response.content, Content::Whole(_)) && !head.takes_chunks();
        let is_unread = takes != Takes::Whole && head.has_body();
        let closes = head.closes() || is_endless || shared.is_stopping();
        let mut begin = Vec::new();
        if let Content::Exchange(_) = &response.content {
            response.put_head(told(head, closes), head.takes_chunks(), &mut begin);
        }
        let done = match (response, streamed) {
            (Response { content: Content::Exchange(run), .. }, Some(body)) => {
                let mut exchanged = self.exchanged(head, body, waits);
                exchanged.begin = Some(begin);
                exchanged.run(run, closes)
            }
            (response, streamed) => {
                let closes = closes || is_unread;
                let sent = self.send(head, response, closes).map(|()| closes);
                if let (Ok(_), Some(body)) = (&sent, streamed) {
                    self.exchanged(head, body, waits).discard();
                }
                sent
            }
        };
        // With its body, and without the time in which there were no events.
        let took = began.elapsed().saturating_sub(watch::take_waited());
        if shared.slow.is_some_and(|slow| took >= slow) {
            shared.note_slow(self.connection, took, about.map(|about| *about));
        }
        done
    }

    /// Returns what is to be read of the body; the answer, if the request is refused by its head.
    fn admitted(&self, client: &mut H::Client, head: &Head) -> Result<Takes, Response<'static>> {
        let (handler, shared) = (self.handler, self.shared);
        let path = head.target.split('?').next().unwrap_or_default();
        // Who asks whether the server lives gives it any name.
        if !matches!(path, "/healthz" | "/readyz") {
            check_hosts(head, &shared.http_hosts, handler.admits_remote())
                .inspect_err(|_| shared.counters.http_foreign.add())?;
        }
        let decide = || handler.admit(client, head);
        // What the client is was not settled.
        let decided = catch_unwind(AssertUnwindSafe(decide));
        let decided = decided.unwrap_or_else(|_panic| Err(panicked()));
        match (handler.failed_login(client), decided.as_ref().map_err(|no| no.status)) {
            (Some(user), _) => shared.note_failed_login(self.connection, self.peer, user),
            (None, Err(status)) => self.count_refusal(status),
            (None, Ok(_)) => {}
        }
        decided
    }

    /// Counts a request that was refused for who sends it.
    fn count_refusal(&self, status: u16) {
        match status {
            401 => self.shared.counters.http_without_login.add(),
            403 => self.shared.counters.http_forbidden.add(),
            _ => {}
        }
    }

    /// Begins to take a body while it comes.
    fn exchanged<'r>(
        &'r mut self,
        head: &'r Head,
        body: BodyReader,
        waits: bool,
    ) -> Exchanged<'r, 'a, H> {
        let (heard, has_given) = (Instant::now(), false);
        Exchanged { requests: self, head, body, begin: None, waits, heard, has_given, failed: None }
    }

    fn send(&mut self, head: &Head, response: Response<'_>, closes: bool) -> Result<(), Ended> {
        let is_chunked = head.takes_chunks();
        let mut out = Vec::new();
        response.put_head(told(head, closes), is_chunked, &mut out);
        let has_content = head.method != "HEAD";
        let mut parts = match response.content {
            Content::Whole(bytes) => {
                if has_content {
                    out.extend_from_slice(&bytes);
                }
                return self.put(&out);
            }
            Content::Parts(parts) if has_content => parts,
            Content::Parts(_) | Content::Exchange(_) => return self.put(&out),
        };
        self.put(&out)?;
        let mut part = Vec::new();
        loop {
            part.clear();
            let is_gone = self.line.gone();
            let next = || watch::connected(is_gone, || parts(&mut part));
            let Ok(is) = catch_unwind(AssertUnwindSafe(next)) else {
                return Err(Ended::Panicked);
            };
            let stops = is == Part::Idle && self.shared.is_stopping();
            out.clear();
            put_chunk(is_chunked, &mut part, &mut out);
            if is_chunked && (is == Part::Last || stops) {
                out.extend_from_slice(LAST_CHUNK);
            }
            self.put(&out)?;
            match is {
                Part::Idle if stops => return Err(Ended::Stopped),
                Part::Idle => self.check_there()?,
                Part::More => {}
                Part::Last => return Ok(()),
                Part::Broken => {
                    self.line.finish();
                    return Err(Ended::Http);
                }
            }
        }
    }

    /// Ends the answer if nobody is there any more to take it.
    fn check_there(&mut self) -> Result<(), Ended> {
        if self.reader.has_more() || !self.line.wait(Some(Instant::now()))? {
            return Ok(());
        }
        self.line.set_deadline(Instant::now() + TICK);
        match self.reader.read_some(self.line) {
            Ok(0) => Err(Ended::ByClient),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        self.bytes.1 += bytes.len() as u64;
        match self.line.send(bytes, self.shared.limits.reply) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Ended::Late(Late::Reply)),
            sent => Ok(sent?),
        }
    }

    /// Tells the client what is wrong; the connection ends.
    fn end(&mut self, response: &Response<'_>) {
        let (mut out, is_chunked) = (Vec::new(), false);
        response.put_head(Some(CLOSE), is_chunked, &mut out);
        if let Content::Whole(bytes) = &response.content {
            out.extend_from_slice(bytes);
        }
        // The connection ends either way.
        let _told = self.line.send(&out, self.shared.limits.reply);
        self.line.finish();
    }

    fn malformed(&mut self, bad: &BadRequest) -> Ended {
        self.end(&Response::from(bad));
        Ended::Malformed(bad.text.clone())
    }

    /// The end because there is no room for the body.
    fn refused(&mut self, refusal: Refusal) -> Ended {
        self.end(&Response::refused(refusal.status, &refusal.text));
        Ended::Refused(refusal.text)
    }

    /// The end by an error of reading.
    fn late(&mut self, error: io::Error) -> Ended {
        let limit = self.shared.limits.message;
        self.cut(error, Late::Message, limit, "--message-timeout")
    }

    fn cut(&mut self, error: io::Error, late: Late, within: Duration, flag: &str) -> Ended {
        if error.kind() != io::ErrorKind::TimedOut {
            return error.into();
        }
        let refusal = Refusal::late("a whole request", within, flag);
        self.end(&Response::refused(refusal.status, &refusal.text));
        Ended::Late(late)
    }
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Moves a part of an answer behind what is to be sent.
fn put_chunk(is_chunked: bool, part: &mut Vec<u8>, out: &mut Vec<u8>) {
    if part.is_empty() {
        return;
    }
    if is_chunked {
        out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
    }
    out.append(part);
    if is_chunked {
        out.extend_from_slice(b"\r\n");
    }
}

/// A request whose body is taken while it is answered.
struct Exchanged<'r, 'a, H: Handler> {
    requests: &'r mut Requests<'a, H>,
    head: &'r Head,
    body: BodyReader,
    /// The head of the answer, until it is sent.
    begin: Option<Vec<u8>>,
    /// The client waits until it is told to send the body.
    waits: bool,
    /// When the client has sent something last, or what it had sent was dealt with.
    heard: Instant,
    /// Bytes were returned, with which the load may have been busy for long.
    has_given: bool,
    /// Why the client gets nothing more, or the body has no end.
    failed: Option<Ended>,
}

impl<H: Handler> Exchange for Exchanged<'_, '_, H> {
    fn read(&mut self, until: Instant) -> Arrived {
        let cut = |why: &str| Arrived::Cut(why.to_owned());
        if std::mem::take(&mut self.waits)
            && let Err(ended) = self.requests.put(CONTINUE)
        {
            self.failed = Some(ended);
        }
        if let Some(failed) = &self.failed {
            return Arrived::Cut(failed.to_string());
        }
        if std::mem::take(&mut self.has_given) {
            self.heard = Instant::now();
        }
        let Requests { shared, line, reader, bytes: (received, _), .. } = &mut *self.requests;
        let mut piece = Vec::new();
        reader.reserve(PIECE_BYTES);
        line.set_deadline(until);
        while self.body.missing() > 0 && piece.is_empty() {
            let taken = match reader.peek(line, 1) {
                _ if shared.is_stopping() => return Arrived::Stopping,
                Ok([]) => {
                    self.failed = Some(Ended::ByClient);
                    return cut("the connection has ended in it");
                }
                Ok(bytes) => self.body.take(bytes, &mut piece),
                Err(error) if error.kind() != io::ErrorKind::TimedOut => {
                    let text = error.to_string();
                    self.failed = Some(error.into());
                    return Arrived::Cut(text);
                }
                Err(_late) if self.heard.elapsed() < shared.limits.message => {
                    return Arrived::Nothing;
                }
                Err(_late) => {
                    let limit = shared.limits.message.as_secs_f64();
                    self.failed = Some(Ended::Late(Late::Message));
                    let text = format!("no more of it came for {limit} s (--message-timeout)");
                    return Arrived::Cut(text);
                }
            };
            match taken {
                Ok(used) => {
                    reader.take(used);
                    *received += used as u64;
                }
                Err(bad) => {
                    self.failed = Some(Ended::Malformed(bad.text.clone()));
                    return Arrived::Cut(bad.text);
                }
            }
            self.heard = Instant::now();
        }
        self.has_given = !piece.is_empty();
        if piece.is_empty() { Arrived::End } else { Arrived::Bytes(piece) }
    }

    fn is_taking(&self) -> bool {
        self.failed.is_none() && self.requests.line.is_writable()
    }

    fn send(&mut self, lines: &[u8]) {
        if self.failed.is_none() {
            let is_last = false;
            self.failed = self.put(lines, is_last).err();
        }
    }
}

impl<H: Handler> Exchanged<'_, '_, H> {
    /// Takes the body and answers it. Returns whether the connection ends.
    fn run(mut self, run: Box<Exchanger<'_>>, closes: bool) -> Result<bool, Ended> {
        let ran = catch_unwind(AssertUnwindSafe(|| run(&mut self)));
        let Ok((status, last)) = ran else {
            if self.begin.is_some() {
                self.requests.end(&panicked());
            }
            return Err(Ended::Panicked);
        };
        let is_unread = self.body.missing() > 0;
        match self.begin.take() {
            None => {
                let is_last = true;
                self.put(&last, is_last)?;
            }
            Some(_) => {
                let closes = told(self.head, closes || is_unread);
                let response = Response::of(status, NDJSON, last);
                let (mut out, is_chunked) = (Vec::new(), false);
                response.put_head(closes, is_chunked, &mut out);
                if let Content::Whole(bytes) = &response.content {
                    out.extend_from_slice(bytes);
                }
                self.requests.put(&out)?;
            }
        }
        if let Some(failed) = self.failed {
            self.requests.line.finish();
            return Err(failed);
        }
        if is_unread {
            self.discard();
            return Ok(true);
        }
        Ok(closes)
    }

    /// Sends lines, before the first the head.
    fn put(&mut self, lines: &[u8], is_last: bool) -> Result<(), Ended> {
        let mut out = self.begin.take().unwrap_or_default();
        let is_chunked = self.head.takes_chunks();
        put_chunk(is_chunked, &mut lines.to_vec(), &mut out);
        if is_last && is_chunked {
            out.extend_from_slice(LAST_CHUNK);
        }
        self.requests.put(&out)
    }

    /// Reads what is left of the body, for some time: many clients send all of it before they read
    /// the answer, and would not get it from a connection that is closed meanwhile.
    fn discard(&mut self) {
        if self.waits {
            // The client was not told to send it.
            return;
        }
        let until = Instant::now() + self.requests.shared.limits.message;
        // It may have no end.
        while Instant::now() < until && matches!(self.read(until), Arrived::Bytes(_)) {}
    }
}

fn panicked() -> Response<'static> {
    let refusal = Refusal::panicked();
    Response::refused(refusal.status, &refusal.text)
}

fn unfinished() -> BadRequest {
    BadRequest {
        status: 400,
        text: "expected a whole request before the connection ends".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_http;

    #[test]
    fn a_request_is_told_by_its_method() {
        for yes in
            ["GET / HTTP/1.1\r\n\r", "OPTIONS * HTTP/1.", "PATCH /v1/a/b/c ", "\r\n\r\nDELETE / HT"]
        {
            assert!(is_http(yes.as_bytes()), "{yes}");
        }
        for no in
            [&b"\x1E\0\0\0\x01\0\0\0\0\0\0\0\xDD\x07\0\0"[..], b"GET", b"get / HTTP", b"", b" "]
        {
            assert!(!is_http(no), "{no:?}");
        }
    }
}
