//! Why a request is answered with an error: statuses, and the document that says so.

use crate::failure::{Code, Failure};
use flagstone::doc::JsonMode;
use flagstone::{Document, Value, doc};

/// A request that is malformed or too large. The connection ends after the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRequest {
    /// The status of the answer.
    pub status: u16,
    /// What was expected.
    pub text: String,
}

impl BadRequest {
    pub(super) fn new(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub(super) fn malformed(text: impl Into<String>) -> Self {
        Self::new(400, text)
    }
}

/// Returns the reason that goes with a status.
pub(super) const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        426 => "Upgrade Required",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "Internal Server Error",
    }
}

/// Returns the status that goes with the code of a command that failed.
pub(super) const fn status_of(code: i64) -> u16 {
    match code {
        1 => 500,
        // Unauthorized: who the client is was settled before.
        13 => 403,
        18 => 401,
        // UserNotFound, NamespaceNotFound, IndexNotFound, CursorNotFound, CommandNotFound,
        // NoSuchTransaction.
        11 | 26 | 27 | 43 | 59 | 251 => 404,
        // NamespaceExists, IndexOptionsConflict, IndexKeySpecsConflict, WriteConflict,
        // UserAlreadyExists, DuplicateKey.
        48 | 85 | 86 | 112 | 51003 | 11000 => 409,
        // MaxTimeMSExpired, WriteConcernFailed: it may have been done.
        50 | 64 => 504,
        // HostUnreachable, ShutdownInProgress, InterruptedAtShutdown, TooManyLogicalSessions.
        6 | 91 | 11600 | 261 => 503,
        // SnapshotTooOld, ChangeStreamHistoryLost.
        239 | 286 => 410,
        // BSONObjectTooLarge.
        10334 => 413,
        14031 => 507,
        _ => 400,
    }
}

/// Returns the status of a reply: that of its error, or of the first statement that failed.
pub(super) fn status_of_reply(reply: &Document) -> u16 {
    let is_ok = reply.float("ok").is_some_and(|ok| ok == 1.0);
    match reply.int(if is_ok { "writeErrors.0.code" } else { "code" }) {
        Some(code) => status_of(code),
        None if is_ok => 200,
        None => 500,
    }
}

/// Returns the document of an error that has no code.
pub(super) fn document(text: &str) -> Vec<u8> {
    json(&doc!({ "ok": 0.0, "errmsg": text }))
}

/// Returns the status and the document of a failure.
pub(super) fn of_failure(failure: &Failure) -> (u16, Vec<u8>) {
    let (status, value) = value_of(failure);
    (status, json(&value))
}

/// Returns the status of a failure, and what it says.
pub(super) fn value_of(failure: &Failure) -> (u16, Value) {
    let (number, name) = failure.number();
    let value = doc!({ "ok": 0.0, "errmsg": (failure.message.as_str()), "code": number,
        "codeName": name });
    (status_of(number.into()), value)
}

/// A condition of a request that does not hold.
pub(super) fn changed(text: &str) -> (u16, Vec<u8>) {
    (412, of_failure(&Failure::new(Code::WriteConflict, text)).1)
}

fn json(value: &Value) -> Vec<u8> {
    let text = Document::from_value(value).and_then(|error| error.to_json_as(JsonMode::Extended));
    let mut text = text.unwrap_or_else(|_never| r#"{"ok":0.0}"#.to_owned());
    text.push('\n');
    text.into_bytes()
}
