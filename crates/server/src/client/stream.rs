//! The stream to a server: TCP, a Unix socket, or TLS.

use super::error::ClientError;
use super::url::{Endpoint, ServerUrl};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A stream to a server.
pub(super) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    #[cfg(all(feature = "tls", unix))]
    Tls(Box<super::tls::TlsStream>),
}

impl Stream {
    /// Connects to a server.
    pub(super) fn open(url: &ServerUrl) -> Result<Self, ClientError> {
        let unreachable =
            |error: &dyn std::fmt::Display| ClientError::Unreachable(format!("{url}: {error}"));
        let (host, port) = match &url.place {
            Endpoint::Tcp(host, port) => (host, *port),
            #[cfg(unix)]
            Endpoint::Unix(path) => {
                return match (UnixStream::connect(path), &url.tls) {
                    (_, Some(_)) => Err(unreachable(&"a Unix socket is not encrypted")),
                    (Err(error), None) => Err(unreachable(&error)),
                    (Ok(stream), None) => Ok(Self::Unix(stream)),
                };
            }
            #[cfg(not(unix))]
            Endpoint::Unix(_) => return Err(unreachable(&"this system has no Unix sockets")),
        };
        let addresses = (host.as_str(), port).to_socket_addrs();
        let addresses = addresses.map_err(|error| unreachable(&error))?;
        let mut failure = io::Error::other("the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, url.connect) {
                Ok(stream) => {
                    let prepared = prepare(&stream);
                    prepared.map_err(|error| unreachable(&error))?;
                    return Self::over(stream, url, host);
                }
                Err(error) => failure = error,
            }
        }
        Err(unreachable(&failure))
    }

    fn over(stream: TcpStream, url: &ServerUrl, host: &str) -> Result<Self, ClientError> {
        let Some(options) = &url.tls else { return Ok(Self::Tcp(stream)) };
        #[cfg(all(feature = "tls", unix))]
        return super::tls::TlsStream::open(stream, url.connect, host, options)
            .map(|stream| Self::Tls(Box::new(stream)))
            .map_err(|error| ClientError::Unreachable(format!("{url}: {error}")));
        #[cfg(not(all(feature = "tls", unix)))]
        {
            let _unused = (stream, host, options);
            let text = format!("{url}: this build has no TLS (feature tls)");
            Err(ClientError::Unreachable(text))
        }
    }

    /// Sets how long the server may be silent.
    pub(super) fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        // The longest time is as good as none, and no system takes it.
        let time = time.filter(|time| *time < Duration::MAX);
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(time),
            #[cfg(unix)]
            Self::Unix(stream) => stream.set_read_timeout(time),
            #[cfg(all(feature = "tls", unix))]
            Self::Tls(stream) => stream.socket().set_read_timeout(time),
        }
    }
}

/// A server whose machine is gone is noticed after some minutes.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(unix)]
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    rustix::net::sockopt::set_tcp_keepidle(stream, Duration::from_secs(120))?;
    Ok(())
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            #[cfg(unix)]
            Self::Unix(stream) => stream.read(buffer),
            #[cfg(all(feature = "tls", unix))]
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            #[cfg(unix)]
            Self::Unix(stream) => stream.write(bytes),
            #[cfg(all(feature = "tls", unix))]
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            #[cfg(unix)]
            Self::Unix(stream) => stream.flush(),
            #[cfg(all(feature = "tls", unix))]
            Self::Tls(stream) => stream.flush(),
        }
    }
}
