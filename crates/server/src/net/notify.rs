//! Tells systemd, or a program like it, how the server is.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `state`, such as `READY=1`, to the socket that the environment variable `NOTIFY_SOCKET`
/// names. Returns false if there is none.
///
/// # Errors
/// If nobody listens there.
pub fn notify(state: &str) -> io::Result<bool> {
    match env::var_os("NOTIFY_SOCKET") {
        Some(name) => send(&name, state).map(|()| true),
        None => Ok(false),
    }
}

fn send(name: &OsStr, state: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(state.as_bytes(), &address(name)?)?;
    Ok(())
}

/// Returns the address of a name, which begins with `@` if it is in no file system.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(name)
        }
        _ => SocketAddr::from_pathname(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_arrives_as_one_datagram() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1\n").unwrap();
        let mut bytes = [0; 100];
        let count = socket.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"READY=1\n");
        drop(socket);
        assert!(send(path.as_os_str(), "READY=1\n").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_of_linux_is_in_no_file_system() {
        let name = format!("@flagstone-test-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&address(OsStr::new(&name)).unwrap()).unwrap();
        send(OsStr::new(&name), "STOPPING=1").unwrap();
        let mut bytes = [0; 100];
        assert_eq!(socket.recv(&mut bytes).unwrap(), 10);
    }
}
