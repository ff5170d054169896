//! Where a server listens, and from where a client comes.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// The port that MongoDB drivers try first.
const PORT: u16 = 27017;

/// Where a server should listen.
///
/// ```
/// use flagstone_server::net::Listen;
/// assert_eq!("127.0.0.1".parse::<Listen>()?.to_string(), "127.0.0.1:27017");
/// assert_eq!("[::1]:9000".parse::<Listen>()?.to_string(), "[::1]:9000");
/// assert_eq!("unix:/run/x.sock".parse::<Listen>()?, Listen::Unix("/run/x.sock".into()));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A port of TCP; 0 is any free one.
    Tcp(Vec<SocketAddr>),
    /// A socket in the file system, for this machine alone.
    Unix(PathBuf),
}

impl Default for Listen {
    /// The port of MongoDB drivers, for this machine alone.
    fn default() -> Self {
        Self::Tcp(vec![SocketAddr::from(([127, 0, 0, 1], PORT))])
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected HOST, HOST:PORT or unix:PATH";
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => return Ok(Self::Unix(path.into())),
            None if !text.is_empty() => {}
            _ => return Err(EXPECTED.to_owned()),
        }
        // An address without a port has colons, too, if it is of IPv6.
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        let found: io::Result<Vec<SocketAddr>> = if let Ok(address) = text.parse() {
            Ok(vec![address])
        } else if let Ok(ip) = bare.parse() {
            Ok(vec![SocketAddr::new(ip, PORT)])
        } else if text.contains(':') {
            text.to_socket_addrs().map(Iterator::collect)
        } else {
            (text, PORT).to_socket_addrs().map(Iterator::collect)
        };
        match found {
            Ok(addresses) if !addresses.is_empty() => Ok(Self::Tcp(addresses)),
            Ok(_) => Err(format!("{EXPECTED}: {text} has no address")),
            Err(error) => Err(format!("{EXPECTED}: {error}")),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addresses) => {
                let texts: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
                f.write_str(&texts.join(","))
            }
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The address of a listener or of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Of TCP.
    Tcp(SocketAddr),
    /// Of a socket in the file system; clients have no name there.
    Unix(Option<PathBuf>),
}

impl Address {
    /// Returns whether only this machine reaches it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// Returns where a browser of this machine finds the page.
    pub(super) fn page(&self, scheme: &str) -> Option<String> {
        let Self::Tcp(address) = self else { return None };
        Some(if address.ip().is_unspecified() {
            format!("{scheme}://localhost:{}/", address.port())
        } else {
            format!("{scheme}://{address}/")
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("unix"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_a_port() {
        for (text, expected) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("0.0.0.0", "0.0.0.0:27017"),
            ("::1", "[::1]:27017"),
            ("[::1]", "[::1]:27017"),
            ("[::]:80", "[::]:80"),
            ("unix:a b", "unix:a b"),
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), expected);
        }
        assert!("localhost:1".parse::<Listen>().unwrap().to_string().contains(":1"));
        for bad in ["", "unix:", "127.0.0.1:", "127.0.0.1:99999", "::1:x"] {
            assert!(bad.parse::<Listen>().unwrap_err().starts_with("expected HOST"), "{bad}");
        }
    }

    #[test]
    fn loopback_is_local_by_each_of_its_addresses() {
        let is_local = |text: &str| Address::Tcp(text.parse().unwrap()).is_local();
        assert!(is_local("127.0.0.1:1") && is_local("127.9.9.9:1") && is_local("[::1]:1"));
        assert!(is_local("[::ffff:127.0.0.1]:1"));
        assert!(!is_local("10.0.0.1:1") && !is_local("0.0.0.0:1") && !is_local("[::]:1"));
        assert!(Address::Unix(None).is_local());
    }
}
