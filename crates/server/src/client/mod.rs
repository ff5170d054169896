//! A client of a server: a connection, a login, commands and their replies.
//!
//! It is for flagstone's own tools, and knows no cursors, pools or sessions: one connection does
//! one command after the other. Names and options of URLs are those of MongoDB's drivers.

mod error;
mod url;

mod scram;

#[cfg(all(feature = "tls", unix))]
mod tls;

mod stream;

mod reply;

mod connection;

pub use connection::Connection;
pub use error::ClientError;
pub use reply::Reply;
pub use url::ServerUrl;
