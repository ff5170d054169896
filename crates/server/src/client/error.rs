//! What can go wrong with a server.

use crate::bson::BsonError;
use std::fmt;

/// Why a server did not do what it was asked. Every text but that of a refusal names the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no connection: nobody listens, or nobody answers in time.
    Unreachable(String),
    /// The connection ended, or the server was silent for too long. Whether the command was done is
    /// not known.
    Lost(String),
    /// The server does not let the client in.
    Login(String),
    /// The server is not flagstone, or is of another version.
    NotFlagstone(String),
    /// The server refused the command.
    Refused {
        /// The number of the error.
        code: i32,
        /// The kind of the error, if it is one of the database.
        kind: Option<String>,
        /// What the server says.
        message: String,
    },
    /// The command cannot be sent.
    Unsendable(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(text)
            | Self::Lost(text)
            | Self::Login(text)
            | Self::NotFlagstone(text)
            | Self::Unsendable(text)
            | Self::Refused { message: text, .. } => f.write_str(text),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<BsonError> for ClientError {
    fn from(error: BsonError) -> Self {
        Self::Unsendable(error.to_string())
    }
}
