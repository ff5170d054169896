//! Listeners and connections: a thread each, with limits for all that a client may do to a server.
//!
//! ```text
//! listeners -- accept thread -- admitted? -- thread of the connection
//!                                            first bytes: MongoDB's messages, HTTP, or TLS
//!                                            loop: wait, receive, answer, send
//!                                            silent for a second: no thread, until it speaks again
//! ```
//!
//! Nothing here knows commands: a [`Handler`] answers messages and requests of HTTP. The server
//! listens before there is one, while the database is recovered, and asks clients to come again.
//!
//! What a client can hold is bounded by [`Limits`]: an idle connection has neither buffers nor a
//! thread (on Linux; elsewhere it keeps the thread). Every wait for a client ends at a deadline,
//! but that for the next message of one that has logged in. An error ends one connection, is
//! counted by its cause in [`Counters`], and is one line of the [`Log`], which never has values or
//! secrets.

mod counters;
mod limits;
mod log;

mod address;
mod socket;

#[cfg(target_os = "linux")]
mod parking;

#[cfg(feature = "tls")]
mod tls;

mod options;

mod line;

mod handler;
mod refusal;
mod service;

mod shared;

mod ended;

mod http;

mod connection;

mod listener;

mod server;

mod notify;

pub use address::{Address, Listen};
pub use counters::Counters;
pub use handler::{Handler, Login, Peer};
pub use limits::Limits;
pub use listener::Listener;
pub use log::{Log, LogForm};
pub use notify::notify;
pub use options::ServeOptions;
pub use server::Server;
#[cfg(feature = "tls")]
pub use tls::TlsFiles;
