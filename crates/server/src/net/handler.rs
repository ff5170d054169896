//! What answers messages and requests.

use super::address::Address;
use crate::http::{Head, Request, Response, Takes};
use crate::wire::WireError;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// From where it comes.
    pub address: Address,
    /// Where it has connected to.
    pub local: Address,
    /// The number of the connection, as in the log.
    pub connection: u64,
    /// It is encrypted.
    pub is_encrypted: bool,
}

/// How far a client is with its login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    /// It has to log in, and has not begun.
    Needed,
    /// It has begun.
    Begun,
    /// It has, or need not.
    Done,
}

/// Answers the messages of connections, of many at the same time.
pub trait Handler: Send + Sync + 'static {
    /// What is known of one connection.
    type Client: Send;

    /// Returns whether clients from other machines may come: only while there are users.
    fn admits_remote(&self) -> bool;

    /// Begins a connection.
    fn connect(&self, peer: &Peer) -> Self::Client;

    /// Returns how far a client is with its login.
    fn login(&self, client: &Self::Client) -> Login;

    /// Answers a message: appends the reply to `out`, nothing if none is wanted.
    ///
    /// # Errors
    /// If the message is damaged. The client is told, and the connection ends.
    fn answer(
        &self,
        client: &mut Self::Client,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError>;

    /// Counts a message or a request that was answered, and the bytes of both.
    fn count(&self, received: u64, sent: u64);

    /// Is called when the answer of a message or request was sent.
    fn sent(&self, _client: &mut Self::Client) {}

    /// Is called when the server stops: commands that wait for events end.
    fn stop(&self);

    /// Is called when it stops at once: all commands end, and tell their clients why.
    fn stop_at_once(&self);

    /// Gives back what `client` holds only to be faster: it has been silent for a while.
    fn rest(&self, client: &mut Self::Client);

    /// Calls `wait` with what says whether to wait on: a message or a request of `client` waits for
    /// room. Returns whether somebody has ended that, as a command that runs is ended.
    fn wait(&self, _client: &Self::Client, wait: &mut dyn FnMut(&dyn Fn() -> bool)) -> bool {
        wait(&|| true);
        false
    }

    /// Returns the user as whom `client` has failed to log in since the last call.
    fn failed_login(&self, _client: &mut Self::Client) -> Option<String> {
        None
    }

    /// Decides on a request of HTTP by its head, before its body is read. Each says who sends it.
    /// Returns how the body is to be taken.
    ///
    /// # Errors
    /// The answer, if the request is refused.
    fn admit(&self, client: &mut Self::Client, head: &Head) -> Result<Takes, Response<'static>>;

    /// Answers a request that was admitted.
    fn respond<'a>(&'a self, client: &'a mut Self::Client, request: &Request<'_>) -> Response<'a>;
}
