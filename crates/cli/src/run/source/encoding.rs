//! Values of documents in messages to a server and in its replies.

use crate::failure::Failure;
use crate::units::Expiry;
use flagstone::internal::document::{Encoder, sort_key};
use flagstone::{Document, Error, Patch, Value};
use flagstone_server::bson::{BsonError, BsonWriter};
use flagstone_server::client::Reply;

/// What was written to a command.
pub(super) type Put = Result<(), BsonError>;

/// The failure of a reply that lacks what this version expects.
pub(super) fn strange(what: &str) -> Failure {
    Failure::Io(format!(
        "the reply of the server lacks {what}: expected the same version of flagstone"
    ))
}

/// Appends a value in the binary form of a document.
pub(super) fn put_value(out: &mut BsonWriter<'_>, name: &str, value: &Value) -> Put {
    match Document::from_value(value) {
        Ok(document) => put_document(out, name, &document),
        Err(error) => Err(unsendable(name, &error)),
    }
}

/// Appends a document in its self-contained binary form.
pub(in crate::run) fn put_document(
    out: &mut BsonWriter<'_>,
    name: &str,
    document: &Document,
) -> Put {
    match document.self_contained() {
        Ok(document) => out.bytes(name, document.as_bytes()),
        Err(error) => Err(unsendable(name, &error)),
    }
}

pub(in crate::run) fn unsendable(name: &str, error: &Error) -> BsonError {
    BsonError { offset: 0, path: name.to_owned(), expected: error.to_string().into() }
}

pub(super) fn put_count(out: &mut BsonWriter<'_>, name: &str, count: u64) -> Put {
    out.long(name, i64::try_from(count).unwrap_or(i64::MAX))
}

/// Appends when documents expire.
pub(in crate::run) fn put_expiry(out: &mut BsonWriter<'_>, expires: Option<Expiry>) -> Put {
    match expires {
        None => Ok(()),
        Some(Expiry::After(time)) => {
            put_count(out, "expiresAfter", u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        }
        Some(Expiry::At(moment)) => put_count(out, "expiresAt", moment.millis()),
    }
}

/// Reads a document in its binary form.
pub(in crate::run) fn document(bytes: &[u8]) -> Result<Document, Failure> {
    Document::from_bytes(bytes.to_vec(), None).map_err(Failure::from)
}

/// Reads a value in the binary form of a document.
pub(super) fn value(bytes: &[u8]) -> Result<Value, Failure> {
    Ok(document(bytes)?.root().to_value()?)
}

/// Reads a sort key.
pub(in crate::run) fn key(bytes: &[u8]) -> Result<Value, Failure> {
    Ok(sort_key::decode(bytes, sort_key::Direction::Ascending)?)
}

pub(super) fn count_of(reply: Reply<'_>, name: &str) -> Result<u64, Failure> {
    reply.int(name).and_then(|n| u64::try_from(n).ok()).ok_or_else(|| strange(name))
}

/// Returns a patch in its binary form. What is wrong with it is said as for a directory.
pub(super) fn encoded(patch: &Patch) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    patch.encode(&mut Encoder::new(), None, &mut bytes)?;
    Ok(bytes)
}
