//! The commands, as what answers messages and requests.

use super::handler::{Handler, Login, Peer};
use crate::command::{Client, Service};
use crate::http::{self, Head, Request, Response, Takes};
use crate::session::operations::MESSAGE;
use crate::watch::{Cause, End};
use crate::wire::WireError;

impl Handler for Service {
    type Client = Client;

    fn admits_remote(&self) -> bool {
        self.users().exist()
    }

    fn connect(&self, peer: &Peer) -> Self::Client {
        let Peer { address, local, .. } = peer;
        self.client(address.to_string(), local.to_string(), address.is_local())
    }

    fn login(&self, client: &Client) -> Login {
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
        client: &mut Client,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        Self::answer(self, client, message, out)
    }

    fn count(&self, received: u64, sent: u64) {
        Self::count(self, received, sent);
    }

    fn sent(&self, client: &mut Client) {
        client.sending = None;
    }

    fn stop(&self) {
        self.operations.end_waits();
    }

    fn stop_at_once(&self) {
        self.operations.end_waits();
        self.operations.kill(Cause::Stopped, |_command| true);
    }

    fn rest(&self, client: &mut Client) {
        // With the names of fields that it remembers.
        drop(std::mem::take(&mut client.incoming));
    }

    fn wait(&self, client: &Client, wait: &mut dyn FnMut(&dyn Fn() -> bool)) -> bool {
        self.waiting(client, MESSAGE, "", None, |goes_on| {
            wait(goes_on);
            self.end_of_wait() == Some(End::Told(Cause::Killed))
        })
    }

    fn failed_login(&self, client: &mut Client) -> Option<String> {
        client.take_failed_login()
    }

    fn admit(&self, client: &mut Client, head: &Head) -> Result<Takes, Response<'static>> {
        http::admit(self, client, head)
    }

    fn respond<'a>(&'a self, client: &'a mut Client, request: &Request<'_>) -> Response<'a> {
        http::respond(self, client, request)
    }
}
