//! The commands, as what answers messages.

use super::handler::{Handler, Login, Peer};
use crate::command::{Client, Service};
use crate::wire::WireError;

impl Handler for Service {
    /// The state of a client, and the changes of users up to which it is true.
    type Client = (Client, u64);

    fn admits_remote(&self) -> bool {
        self.users().exist()
    }

    fn connect(&self, peer: &Peer) -> (Client, u64) {
        let Peer { address, local, .. } = peer;
        let client = self.client(address.to_string(), local.to_string(), address.is_local());
        (client, self.users().changes())
    }

    fn login(&self, (client, _): &(Client, u64)) -> Login {
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
        (client, seen): &mut (Client, u64),
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

    fn rest(&self, (client, _): &mut (Client, u64)) {
        // With the names of fields that it remembers.
        drop(std::mem::take(&mut client.incoming));
    }
}
