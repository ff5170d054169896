//! A connected socket, of TCP or of the file system.

use super::address::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a read or a write waits before it looks at its deadline.
pub(super) const TICK: Duration = Duration::from_secs(1);
/// How long a client of TCP may be silent before it is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(120);

/// A connected socket. Any thread may shut it down, which ends what others wait for.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Sets what all connections have.
    pub(super) fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(TICK))?;
                stream.set_write_timeout(Some(TICK))?;
                rustix::net::sockopt::set_socket_keepalive(stream, true)?;
                #[cfg(target_os = "linux")]
                rustix::net::sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
                Ok(())
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(TICK))?;
                stream.set_write_timeout(Some(TICK))
            }
        }
    }

    /// Returns the address of the other end.
    pub(super) fn peer(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map(Address::Tcp),
            Self::Unix(_) => Ok(Address::Unix(None)),
        }
    }

    /// Returns the address of this end.
    pub(super) fn local(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(stream) => stream.local_addr().map(Address::Tcp),
            Self::Unix(stream) => {
                let path = stream.local_addr()?.as_pathname().map(Path::to_owned);
                Ok(Address::Unix(path))
            }
        }
    }

    /// Ends reading, writing or both.
    pub(super) fn shutdown(&self, how: Shutdown) {
        // A connection that has ended already is what was wanted.
        let _ended = match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        };
    }

    /// Returns the first byte that is there, and leaves it; `None` at the end of the stream.
    #[cfg(feature = "tls")]
    pub(super) fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        let (count, _) = rustix::net::recv(self, &mut first[..], rustix::net::RecvFlags::PEEK)?;
        Ok((count > 0).then_some(first[0]))
    }

    /// Returns whether some bytes can be sent at once.
    pub(super) fn is_writable(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Returns whether the other end has closed the connection.
    pub(super) fn is_closed(&self) -> bool {
        #[cfg(target_os = "linux")]
        const CLOSED: PollFlags = PollFlags::RDHUP;
        #[cfg(not(target_os = "linux"))]
        const CLOSED: PollFlags = PollFlags::empty();
        let mut fds = [PollFd::new(self, CLOSED)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Waits until there is something to read, or the stream ends. Returns false if `deadline`
    /// comes first.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> io::Result<bool> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [PollFd::new(self, PollFlags::IN)];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(0) if left.is_some_and(|left| left.is_zero()) => return Ok(false),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&mut &*stream).read(buffer),
            Socket::Unix(stream) => (&mut &*stream).read(buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&mut &*stream).write(bytes),
            Socket::Unix(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
