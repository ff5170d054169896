//! What an error of the driver means: above all whether a write may have happened.

use flagstone_base::{Error, ErrorKind};
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError,
    MetadataError, NewSessionError, PrepareError, RequestAttemptError,
};
use scylla::frame::types::Consistency;

/// What to do when nodes do not answer.
const LOOK: &str = ". Check with nodetool status that enough nodes are up, then try again";

/// What to do when a read meets too many tombstones.
const TOMBSTONES: &str = ". Removed documents leave tombstones until gc_grace_seconds are over: \
                          wait for it and compact the table, or copy the collection by flagstone \
                          rebalance";

/// What Cassandra must allow.
const CONDITIONAL: &str = ". flagstone writes rows only by lightweight transactions: the cluster \
                           must allow them";

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestFate {
    /// It was not sent, or not begun, for lack of nodes.
    NotBegun,
    /// It cannot be done, now and later.
    Refused(ErrorKind),
    /// It may have been done, may be done later, or not.
    Unanswered,
}

/// The request that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Read,
    Write,
}

/// Returns the error of a read.
#[cold]
pub(super) fn of_read(what: &str, error: &ExecutionError) -> Error {
    let kind = match fate(error, Sent::Read) {
        RequestFate::Refused(kind) => kind,
        RequestFate::NotBegun | RequestFate::Unanswered => ErrorKind::Unavailable,
    };
    let text = text(error);
    let look = match kind {
        ErrorKind::Unavailable if text.contains("TOMBSTONES") => TOMBSTONES,
        ErrorKind::Unavailable => LOOK,
        _ => "",
    };
    Error::new(kind, format!("{what}: {text}{look}"))
}

/// Returns the error of a write.
#[cold]
pub(super) fn of_write(what: &str, error: &ExecutionError) -> Error {
    let kind = match fate(error, Sent::Write) {
        RequestFate::NotBegun => ErrorKind::Unavailable,
        RequestFate::Refused(kind) => kind,
        RequestFate::Unanswered => ErrorKind::Unknown,
    };
    let text = text(error);
    let about_conditions = ["LWT", "lightweight", "onditional"].iter().any(|it| text.contains(it));
    let look = match kind {
        ErrorKind::Unavailable => LOOK,
        ErrorKind::Unsupported if about_conditions => CONDITIONAL,
        _ => "",
    };
    Error::new(kind, format!("{what}: {text}{look}"))
}

/// Returns the error of a statement that could not be prepared, with what a node answered.
#[cold]
pub(super) fn of_preparing(error: PrepareError) -> ExecutionError {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => first_attempt.into(),
        error => error.into(),
    }
}

/// Returns whether a node answered that it knows no such table or keyspace. While a node adds a new
/// table, it may also answer with an internal error that names the table's unknown number.
#[cold]
pub(super) fn is_not_known(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(answer, words)) => {
            let has = |text| words.contains(text);
            match answer {
                DbError::Invalid | DbError::ConfigError => {
                    has("does not exist") || has("doesn't exist")
                }
                DbError::ServerError => has("Unknown CF"),
                _ => false,
            }
        }
        _ => false,
    }
}

/// Returns the error of a connection that could not be made. `hosts` are those that were tried.
#[cold]
pub(super) fn of_connecting(hosts: &str, error: &NewSessionError) -> Error {
    if let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(
        ConnectionPoolError::Broken {
            last_connection_error: ConnectionError::ConnectionSetupRequestError(setup),
        },
    )) = error
    {
        match setup.get_error() {
            ConnectionSetupRequestErrorKind::MissingAuthentication
            | ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, _) => {
                return Error::invalid(format!(
                    "{hosts} wants a user and a password, as in cql://USER:PASSWORD@HOST/KEYSPACE: \
                     {setup}"
                ));
            }
            _ => {}
        }
    }
    let text = format!(
        "no node of the cluster can be reached at {hosts}: {error}. Is Cassandra running there, \
         and is the port that of native_transport_port in its cassandra.yaml?"
    );
    Error::new(ErrorKind::Unavailable, text)
}

fn fate(error: &ExecutionError, sent: Sent) -> RequestFate {
    match error {
        ExecutionError::BadQuery(_) => RequestFate::Refused(ErrorKind::InvalidInput),
        ExecutionError::EmptyPlan
        | ExecutionError::ConnectionPoolError(_)
        | ExecutionError::PrepareError(_) => RequestFate::NotBegun,
        ExecutionError::LastAttemptError(attempt) => match attempt {
            RequestAttemptError::SerializationError(_)
            | RequestAttemptError::CqlRequestSerialization(_) => {
                RequestFate::Refused(ErrorKind::InvalidInput)
            }
            RequestAttemptError::UnableToAllocStreamId => RequestFate::NotBegun,
            RequestAttemptError::DbError(answer, _) => answered(answer, sent),
            _ => RequestFate::Unanswered,
        },
        _ => RequestFate::Unanswered,
    }
}

/// Returns what an error that Cassandra answered means.
fn answered(answer: &DbError, sent: Sent) -> RequestFate {
    match answer {
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::ConfigError
        | DbError::AlreadyExists { .. } => RequestFate::Refused(ErrorKind::Unsupported),
        DbError::AuthenticationError | DbError::Unauthorized => {
            RequestFate::Refused(ErrorKind::InvalidInput)
        }
        // Before the conditions are read, nodes are counted with a serial consistency. With another
        // one they are counted again when the change was decided, and is about to be written.
        DbError::Unavailable { consistency, .. } => match consistency {
            Consistency::Serial | Consistency::LocalSerial => RequestFate::NotBegun,
            _ if sent == Sent::Write => RequestFate::Unanswered,
            _ => RequestFate::NotBegun,
        },
        DbError::IsBootstrapping | DbError::Unprepared { .. } => RequestFate::NotBegun,
        _ => RequestFate::Unanswered,
    }
}

/// Returns the text of an error: Cassandra's own words, where it answered.
fn text(error: &ExecutionError) -> String {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(answer, words)) => {
            format!("Cassandra answered: {answer}: {words}")
        }
        ExecutionError::RequestTimeout(time) => format!("no answer within {time:?}"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::errors::WriteType;
    use std::time::Duration;

    fn answer(answer: DbError) -> ExecutionError {
        RequestAttemptError::DbError(answer, "words".into()).into()
    }

    fn unavailable(consistency: Consistency) -> ExecutionError {
        answer(DbError::Unavailable { consistency, required: 2, alive: 1 })
    }

    #[test]
    fn a_write_is_unknown_unless_it_is_certain_that_it_did_not_happen() {
        let (consistency, received, required) = (Consistency::Serial, 1, 2);
        let write_type = WriteType::Cas;
        let timeout = DbError::WriteTimeout { consistency, received, required, write_type };
        let unknown = (ErrorKind::Unknown, ErrorKind::Unavailable);
        let none = (ErrorKind::Unavailable, ErrorKind::Unavailable);
        let never = (ErrorKind::Unsupported, ErrorKind::Unsupported);
        for (error, (write, read)) in [
            (answer(timeout), unknown),
            (answer(DbError::Other(0x1700)), unknown),
            (answer(DbError::Overloaded), unknown),
            (answer(DbError::ServerError), unknown),
            (ExecutionError::RequestTimeout(Duration::from_secs(1)), unknown),
            (RequestAttemptError::NonfinishedPagingState.into(), unknown),
            (unavailable(Consistency::Quorum), unknown),
            (unavailable(Consistency::Serial), none),
            (answer(DbError::IsBootstrapping), none),
            (ExecutionError::EmptyPlan, none),
            (answer(DbError::Invalid), never),
        ] {
            assert_eq!(of_write("x", &error).kind(), write, "{error}");
            assert_eq!(of_read("x", &error).kind(), read, "{error}");
        }
        // What to do.
        let failure = DbError::ReadFailure {
            consistency,
            received: 0,
            required: 1,
            numfailures: 1,
            data_present: false,
        };
        let words = "1 failures: READ_TOO_MANY_TOMBSTONES from /10.0.0.1:7000".to_owned();
        let error = of_read("x", &RequestAttemptError::DbError(failure, words).into()).to_string();
        assert!(error.contains("gc_grace_seconds") && !error.contains("nodetool"), "{error}");
        let off = RequestAttemptError::DbError(DbError::Invalid, "LWT is not allowed".into());
        let error = of_write("x", &off.into()).to_string();
        assert!(error.contains("(lightweight transactions)"), "{error}");
        let not_known = |answer, words: &str| {
            is_not_known(&RequestAttemptError::DbError(answer, words.into()).into())
        };
        assert!(not_known(DbError::Invalid, "table rows does not exist"));
        assert!(not_known(DbError::ConfigError, "Keyspace 'a' doesn't exist"));
        assert!(not_known(DbError::ServerError, "IllegalArgumentException: Unknown CF 1"));
        assert!(!not_known(DbError::ServerError, "table rows does not exist"));
        assert!(!not_known(DbError::Invalid, "words"));
        let error = of_read("x", &answer(DbError::Overloaded)).to_string();
        assert!(error.ends_with("nodetool status shows them: try again then"), "{error}");
        let error = of_read("table a.rows", &answer(DbError::Invalid)).to_string();
        assert!(error.starts_with("table a.rows: Cassandra answered: "), "{error}");
        assert!(error.ends_with(": words"), "{error}");
    }
}
