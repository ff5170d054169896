//! The commands, as what answers messages and requests.

use super::handler::{Handler, Login, Peer};
use crate::command::{Client, Service};
use crate::http::{self, Head, Request, Response, Takes};
use crate::wire::WireError;

impl Handler for Service {
    /// The state of a client, and the changes of users up to which it is true.
    type Client = (Client, u64);

    fn admits_remote(&self) -> bool {
        self.users().exist()
    }

    fn connect(&self, peer: &Peer) -> Self::Client {
        let Peer { address, local, .. } = peer;
        let client = self.client(address.to_string(), local.to_string(), address.is_local());
        (client, self.users().changes())
    }

    fn login(&self, (client, _): &Self::Client) -> Login {
        if client.user.is_some() || client.is_local && !self.users().exist() {
            Login::Done
        } else if client.conversation.is_some() {
            Login::Begun
        } else {
            Login::Needed
        }
    }

    fn answer(
        &self,
        (client, seen): &mut Self::Client,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let changes = self.users().changes();
        if changes != *seen {
            // A user who was removed, or has other roles, must not go on with the old ones.
            client.user = client.user.take().and_then(|user| self.users().get(&user.name));
            *seen = changes;
        }
        Self::answer(self, client, message, out)
    }

    fn count(&self, received: u64, sent: u64) {
        Self::count(self, received, sent);
    }

    fn rest(&self, (client, _): &mut Self::Client) {
        // With the names of fields that it remembers.
        drop(std::mem::take(&mut client.incoming));
    }

    fn admit(
        &self,
        (client, _): &mut Self::Client,
        head: &Head,
    ) -> Result<Takes, Response<'static>> {
        http::admit(self, client, head)
    }

    fn respond<'a>(
        &'a self,
        (client, _): &'a mut Self::Client,
        request: &Request<'_>,
    ) -> Response<'a> {
        http::respond(self, client, request)
    }
}
