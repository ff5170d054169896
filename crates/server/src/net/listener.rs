//! Sockets that clients connect to: bound here, or taken over from systemd.

use super::address::{Address, Listen};
use super::socket::Socket;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use std::fs::{self, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// How many clients may wait to be accepted. The system has a limit of its own.
const BACKLOG: i32 = 4096;

/// A socket that clients connect to.
#[derive(Debug)]
pub struct Listener {
    socket: ListenerSocket,
    address: Address,
    /// The file of a socket that was bound here, with its number.
    file: Option<(PathBuf, u64)>,
    /// Another process has opened it.
    is_inherited: bool,
}

#[derive(Debug)]
enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Binds all addresses of `listen`.
    ///
    /// A socket in the file system can be used by its owner alone. One that is there is replaced,
    /// if nobody answers.
    ///
    /// ```
    /// use flagstone_server::net::{Listen, Listener};
    /// let listen: Listen = "127.0.0.1:0".parse().unwrap();
    /// let bound = Listener::bind(&listen)?;
    /// assert!(bound[0].address().is_local());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If an address is in use, or the system refuses.
    pub fn bind(listen: &Listen) -> io::Result<Vec<Self>> {
        match listen {
            Listen::Tcp(addresses) => {
                let bind = |address| Self::tcp(TcpListener::bind(address)?);
                let mut bound = Vec::new();
                for address in addresses {
                    match bind(address) {
                        Ok(listener) => bound.push(listener),
                        // A name that has an address of IPv6, on a machine that has not.
                        Err(error)
                            if error.kind() == io::ErrorKind::AddrNotAvailable
                                && addresses.len() > 1 => {}
                        Err(error) => return Err(error),
                    }
                }
                if bound.is_empty() {
                    return Err(io::ErrorKind::AddrNotAvailable.into());
                }
                Ok(bound)
            }
            Listen::Unix(path) => Self::unix(path).map(|listener| vec![listener]),
        }
    }

    /// Returns the sockets that systemd, or a program like it, has opened for this process.
    ///
    /// # Errors
    /// If one is not of TCP or the file system.
    pub fn inherited() -> io::Result<Vec<Self>> {
        let mut passed = listenfd::ListenFd::from_env();
        let mut listeners = Vec::new();
        for at in 0..passed.len() {
            let mut listener = match passed.take_tcp_listener(at) {
                Ok(Some(socket)) => Self::tcp(socket)?,
                Ok(None) => continue,
                Err(_not_tcp) => match passed.take_unix_listener(at)? {
                    Some(socket) => {
                        let path = socket.local_addr()?.as_pathname().map(Path::to_owned);
                        let address = Address::Unix(path);
                        let (socket, is_inherited) = (ListenerSocket::Unix(socket), true);
                        Self { socket, address, file: None, is_inherited }
                    }
                    None => continue,
                },
            };
            listener.set_nonblocking()?;
            listener.is_inherited = true;
            listeners.push(listener);
        }
        Ok(listeners)
    }

    fn tcp(socket: TcpListener) -> io::Result<Self> {
        // Again, because the standard library takes 128.
        rustix::net::listen(&socket, BACKLOG)?;
        let address = Address::Tcp(socket.local_addr()?);
        let (socket, is_inherited) = (ListenerSocket::Tcp(socket), false);
        let listener = Self { socket, address, file: None, is_inherited };
        listener.set_nonblocking()?;
        Ok(listener)
    }

    fn unix(path: &Path) -> io::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {
                if UnixStream::connect(path).is_ok() {
                    let text = format!("a server answers at {}", path.display());
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
                }
            }
            Ok(_) => {
                let text = format!("expected a socket or no file, found {}", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
            Err(_missing) => {}
        }
        // Nobody can connect before the permissions are set: it is bound under another name, and
        // listens after that. The rename replaces what another server has left.
        let mut other = path.as_os_str().to_owned();
        other.push(".new");
        let other = PathBuf::from(other);
        let _gone = fs::remove_file(&other);
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&other)?)?;
        let ready = || -> io::Result<u64> {
            fs::set_permissions(&other, Permissions::from_mode(0o600))?;
            rustix::net::listen(&socket, BACKLOG)?;
            let number = fs::symlink_metadata(&other)?.ino();
            fs::rename(&other, path)?;
            Ok(number)
        };
        let number = ready().inspect_err(|_error| drop(fs::remove_file(&other)))?;
        let listener = Self {
            socket: ListenerSocket::Unix(UnixListener::from(socket)),
            address: Address::Unix(Some(path.to_owned())),
            file: Some((path.to_owned(), number)),
            is_inherited: false,
        };
        listener.set_nonblocking()?;
        Ok(listener)
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match &self.socket {
            ListenerSocket::Tcp(socket) => socket.set_nonblocking(true),
            ListenerSocket::Unix(socket) => socket.set_nonblocking(true),
        }
    }

    /// Returns whether another process has opened the socket, and will give it to others.
    pub(super) const fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Returns the address, with the port that the system chose.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts a client; `WouldBlock` if none waits.
    pub(super) fn accept(&self) -> io::Result<(Socket, Address)> {
        let socket = match &self.socket {
            ListenerSocket::Tcp(socket) => Socket::Tcp(socket.accept()?.0),
            ListenerSocket::Unix(socket) => Socket::Unix(socket.accept()?.0),
        };
        socket.prepare()?;
        let peer = socket.peer()?;
        Ok((socket, peer))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            ListenerSocket::Tcp(socket) => socket.as_fd(),
            ListenerSocket::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((path, number)) = &self.file {
            // Not that of a server that has replaced it.
            if fs::symlink_metadata(path).is_ok_and(|found| found.ino() == *number) {
                let _gone = fs::remove_file(path);
            }
        }
    }
}
