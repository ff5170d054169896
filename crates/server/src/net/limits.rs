//! What clients may take.

use crate::wire::MESSAGE_BYTES_MAX;
use std::time::Duration;

/// What clients may take. An error that comes from a limit names the tool's flag for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; one more is told so and closed. 10,000: each idle one costs some 5 KB
    /// on Linux, and a thread elsewhere.
    pub connections: usize,
    /// The longest message, in bytes: at least a document of 16 MiB with its envelope, and at most
    /// the 48,000,000 of the protocol, as by default. Drivers learn of it.
    pub message_bytes: usize,
    /// The longest message of a client that has to log in and has not, in bytes. 16 KiB: the
    /// greeting of a driver has up to a few hundred bytes.
    pub login_bytes: usize,
    /// The bytes of all messages that arrive or are not answered yet; the first 64 KiB of each do
    /// not count. One more waits, as long as it may take to arrive. 256 MiB.
    pub messages: usize,
    /// The time from the connection to the first whole message, and from the first message of a
    /// login to its last. 10 s.
    pub login: Duration,
    /// The time from the first byte of a message to the last. 30 s.
    pub message: Duration,
    /// The time for a client to take a reply. 60 s.
    pub reply: Duration,
    /// The time between two messages; `None` is no limit. A dead client is found by keepalive. None
    /// by default: drivers keep connections in pools.
    pub idle: Option<Duration>,
    /// The time between two messages of a client that has to log in and has not. 10 minutes:
    /// drivers watch a server by connections that never log in, and ask every 10 s.
    pub login_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            message_bytes: MESSAGE_BYTES_MAX,
            login_bytes: 16 << 10,
            messages: 256 << 20,
            login: Duration::from_secs(10),
            message: Duration::from_secs(30),
            reply: Duration::from_secs(60),
            idle: None,
            login_idle: Duration::from_secs(600),
        }
    }
}
