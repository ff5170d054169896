//! What a server does, beyond its addresses.

use super::limits::Limits;
#[cfg(feature = "tls")]
use super::tls::TlsFiles;
use std::time::Duration;

/// What a server does, beyond its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServeOptions {
    /// What clients may take.
    pub limits: Limits,
    /// Clients of TCP must speak TLS.
    #[cfg(feature = "tls")]
    pub tls: Option<TlsFiles>,
    /// Commands that take this long are logged, by their name and collection.
    pub slow: Option<Duration>,
    /// The names by which pages and programs may call the server over HTTP while there are no
    /// users, besides `localhost` and addresses.
    pub http_hosts: Vec<String>,
}
