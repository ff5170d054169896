//! What a client is told whose message no command answers.

use super::limits::Limits;
use crate::bson::{BsonError, BsonWriter};
use crate::wire::{HEADER_BYTES, OP_QUERY, put_message, put_reply};
use std::time::Duration;

/// An error with its number in MongoDB's protocol and in HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    code: (i32, &'static str),
    pub(super) status: u16,
    pub(super) text: String,
}

impl Refusal {
    fn new(code: (i32, &'static str), status: u16, text: impl Into<String>) -> Self {
        Self { code, status, text: text.into() }
    }

    /// Drivers take this code for a node that will be there soon, and try again.
    pub(super) fn not_ready() -> Self {
        let text = "the database is being recovered: try again";
        Self::new((13436, "NotPrimaryOrSecondary"), 503, text)
    }

    pub(super) fn stopping() -> Self {
        let text = "the server is shutting down";
        Self::new((91, "ShutdownInProgress"), 503, text)
    }

    pub(super) fn too_many(limits: &Limits) -> Self {
        let most = limits.connections;
        let text = format!("expected at most {most} connections at a time (--max-connections)");
        Self::new((462, "IngressRequestRateLimitExceeded"), 503, text)
    }

    pub(super) fn full(limits: &Limits) -> Self {
        let most = limits.messages;
        let text = format!(
            "expected room for the message among at most {most} bytes of messages of all clients \
             (--message-memory)"
        );
        Self::new((146, "ExceededMemoryLimit"), 503, text)
    }

    pub(super) fn killed() -> Self {
        let text = "the message was ended by another client while it waited for room \
                    (--message-memory)";
        Self::new((11601, "Interrupted"), 503, text)
    }

    pub(super) fn remote() -> Self {
        let text = "without users the server answers clients of its own machine only: expected a \
                    user (flagstone user add)";
        Self::new((13, "Unauthorized"), 403, text)
    }

    #[cfg(feature = "tls")]
    pub(super) fn plain() -> Self {
        let text = "expected TLS: the server has a certificate (--tls-cert)";
        Self::new((141, "SSLHandshakeFailed"), 426, text)
    }

    pub(super) fn late(what: &str, within: Duration, flag: &str) -> Self {
        let text = format!("expected {what} within {} s ({flag})", within.as_secs_f64());
        Self::new((89, "NetworkTimeout"), 408, text)
    }

    pub(super) fn malformed(text: impl Into<String>) -> Self {
        Self::new((17, "ProtocolError"), 400, text)
    }

    pub(super) fn panicked() -> Self {
        let text = "the command failed by an error of the server, which ends the connection";
        Self::new((1, "InternalError"), 500, text)
    }

    /// Appends the reply to `request`, whose header is there at least; else nothing.
    pub(super) fn put(&self, request: &[u8], out: &mut Vec<u8>) {
        let Some(header) = request.first_chunk::<HEADER_BYTES>() else { return };
        let (words, _) = header.as_chunks::<4>();
        let word = |at: usize| words.get(at).map_or(0, |word| i32::from_le_bytes(*word));
        let numbers = (0, word(1));
        let document = |out: &mut Vec<u8>| {
            let mut document = BsonWriter::new(out);
            document.begin();
            document.double("ok", 0.0)?;
            document.text("errmsg", &self.text)?;
            document.int("code", self.code.0)?;
            document.text("codeName", self.code.1)?;
            document.end()
        };
        // A document of this size can always be written.
        let _always: Result<(), BsonError> = match word(3) {
            OP_QUERY => put_reply(out, numbers, document),
            _ => {
                let (more_to_come, has_checksum) = (false, false);
                put_message(out, numbers, more_to_come, has_checksum, document)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Request;

    #[test]
    fn a_refusal_answers_the_request_in_its_form() {
        let mut out = Vec::new();
        Refusal::not_ready().put(&[0; 15], &mut out);
        assert!(out.is_empty());
        let mut request = [0; 16];
        request[4] = 7;
        Refusal::not_ready().put(&request, &mut out);
        let (header, message) = Request::parse(&out).unwrap();
        assert_eq!((header.response_to, header.code), (7, 2013));
        assert!(matches!(message, Request::Message(_)));
        request[12..].copy_from_slice(&OP_QUERY.to_le_bytes());
        out.clear();
        Refusal::stopping().put(&request, &mut out);
        assert_eq!(out[12..16], 1_i32.to_le_bytes());
    }
}
