//! Transactions of the client.

use super::run::Run;
use crate::failure::{Code, Failure, Outcome};
use crate::session::sessions::{Session, TRANSIENT};
use flagstone::{ErrorKind, Transaction};

/// The label of an error after which a driver commits again.
const UNKNOWN: &str = "UnknownTransactionCommitResult";

/// Begins a transaction. It sees what was committed before.
pub(super) fn begin(run: &Run<'_, '_>) -> Outcome<Transaction> {
    Ok(run.service.db.begin()?)
}

const COMMIT: &str = "commitTransaction";

/// Returns whether a command ends a transaction.
pub(super) fn is_end(name: &str) -> bool {
    matches!(name, COMMIT | "abortTransaction")
}

/// Commits or aborts the transaction of a session.
pub(super) fn end(run: &mut Run<'_, '_>, session: &mut Session, number: i64) -> Outcome {
    if run.command.name != COMMIT {
        return session.take(number).map(drop);
    }
    let (db, id) = (&run.service.db, session.commit_id(number));
    let mut transaction = match session.take(number) {
        Ok(transaction) => transaction,
        // The reply of the first try may not have arrived.
        Err(_) if session.has_committed(number) || id.is_committed(db)? => {
            return run.sync_if_asked();
        }
        Err(failure) => return Err(failure),
    };
    if !transaction.is_empty() {
        id.note_commit(db, &mut transaction)?;
    }
    let committed = transaction.commit().map_err(|error| {
        let failure = Failure::from(error.clone());
        match error.kind() {
            ErrorKind::Conflict | ErrorKind::Busy => failure.with_label(TRANSIENT),
            // Nothing was written.
            ErrorKind::InvalidInput | ErrorKind::Duplicate | ErrorKind::OutOfSpace => failure,
            _ => failure.with_label(UNKNOWN),
        }
    });
    committed?;
    session.note_committed(number);
    // Drivers send the write concern with the commit alone.
    run.sync_if_asked().map_err(|failure| failure.with_label(UNKNOWN))
}

/// Ends a transaction outside of one.
pub(super) fn end_none(run: &mut Run<'_, '_>) -> Outcome {
    let text = format!("{} outside of a transaction", run.command.name);
    Err(Failure::new(Code::NoSuchTransaction, text))
}
