//! The bytes from and to a client, encrypted or not, with deadlines.

use super::socket::Socket;
use crate::wire::MESSAGE_BYTES_MAX;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many bytes are read and thrown away of a client that is told an error, so that the error
/// arrives. A socket that is closed with bytes unread may take back what was sent, and many clients
/// send the whole of a message before they read.
const DRAIN_BYTES_MAX: u64 = 2 * MESSAGE_BYTES_MAX as u64;
/// How long that may take: a slow client that sends a large message gets nothing.
const DRAIN: Duration = Duration::from_secs(5);
/// How long such a client may send nothing.
const DRAIN_PAUSE: Duration = Duration::from_secs(1);

/// A connection as a stream. Reading fails with `TimedOut` when its deadline has come, however
/// slowly bytes do.
pub(super) struct Line {
    socket: Arc<Socket>,
    #[cfg(feature = "tls")]
    tls: Option<Box<rustls::ServerConnection>>,
    deadline: Instant,
}

impl Line {
    /// Returns what says whether the client has closed the connection.
    pub(super) fn gone(&self) -> impl Fn() -> bool + 'static {
        let socket = Arc::clone(&self.socket);
        move || socket.is_closed()
    }

    pub(super) fn new(socket: Arc<Socket>, deadline: Instant) -> Self {
        Self {
            socket,
            #[cfg(feature = "tls")]
            tls: None,
            deadline,
        }
    }

    /// Encrypts from here on.
    #[cfg(feature = "tls")]
    pub(super) fn encrypt(&mut self, tls: rustls::ServerConnection) {
        self.tls = Some(Box::new(tls));
    }

    /// Sets when reading must have ended.
    pub(super) const fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Returns whether some bytes can be sent at once.
    pub(super) fn is_writable(&self) -> bool {
        self.socket.is_writable()
    }

    /// Waits for bytes of the client; false if `deadline` comes first.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> io::Result<bool> {
        self.socket.wait(deadline)
    }

    /// Sends all bytes.
    pub(super) fn send(&mut self, bytes: &[u8], within: Duration) -> io::Result<()> {
        let deadline = Instant::now() + within;
        let mut rest = bytes;
        while !rest.is_empty() {
            let sent = retried(deadline, || self.write_once(rest, deadline))?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[sent..];
        }
        retried(deadline, || self.flush_once(deadline))
    }

    /// Ends the connection so that the client gets what was sent last.
    ///
    /// Not inlined: the stack of every idle connection would have room for its bytes.
    #[inline(never)]
    pub(super) fn finish(&mut self) {
        let deadline = Instant::now() + DRAIN;
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ended = self.flush_once(deadline);
        }
        self.socket.shutdown(Shutdown::Write);
        let mut room = [0; 16 << 10];
        let mut drained = 0;
        // The bytes themselves do not matter, so they are not decrypted.
        loop {
            let pause = deadline.min(Instant::now() + DRAIN_PAUSE);
            if drained >= DRAIN_BYTES_MAX || !self.socket.wait(Some(pause)).unwrap_or(false) {
                break;
            }
            match (&*self.socket).read(&mut room) {
                Ok(0) | Err(_) => break,
                Ok(count) => drained += count as u64,
            }
        }
    }

    fn read_once(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut socket = Timed { socket: &self.socket, deadline: self.deadline };
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return match rustls::Stream::new(&mut **tls, &mut socket).read(buffer) {
                // Messages have lengths, so an end without TLS's own loses nothing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            };
        }
        socket.read(buffer)
    }

    fn write_once(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<usize> {
        let mut socket = Timed { socket: &self.socket, deadline };
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return rustls::Stream::new(&mut **tls, &mut socket).write(bytes);
        }
        socket.write(bytes)
    }

    fn flush_once(&mut self, deadline: Instant) -> io::Result<()> {
        let mut socket = Timed { socket: &self.socket, deadline };
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            return rustls::Stream::new(&mut **tls, &mut socket).flush();
        }
        socket.flush()
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        retried(self.deadline, || self.read_once(buffer))
    }
}

/// A socket with a deadline for each call: TLS makes many of them before it has a byte.
struct Timed<'a> {
    socket: &'a Socket,
    deadline: Instant,
}

impl Timed<'_> {
    fn check(&self) -> io::Result<()> {
        if Instant::now() >= self.deadline { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        self.socket.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Repeats `once` while it takes a tick, up to `deadline`.
fn retried<T>(deadline: Instant, mut once: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match once() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A tick, or the deadline.
            Err(error) if is_tick(&error) && Instant::now() >= deadline => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) if is_tick(&error) => {}
            done => return done,
        }
    }
}

fn is_tick(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
