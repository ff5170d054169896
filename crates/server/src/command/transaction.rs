//! Transactions of the client.

use super::args::Args;
use super::run::Run;
use super::table::Entry;
use crate::failure::{Code, Failure, Outcome};
use crate::session::sessions::{Session, TRANSIENT};
use flagstone::internal::keys_written;
use flagstone::{ErrorKind, Transaction};

/// The label of an error after which a driver commits again.
const UNKNOWN: &str = "UnknownTransactionCommitResult";

/// Begins a transaction. It sees what was committed before.
pub(super) fn begin(run: &Run<'_, '_>) -> Outcome<Transaction> {
    Ok(run.service.db.begin()?)
}

const COMMIT: &str = "commitTransaction";

/// Checks the arguments of a command that belong to transactions and to writes that may be
/// repeated. Returns the number of the transaction or write.
pub(super) fn check(args: &Args<'_>, entry: &Entry) -> Outcome<Option<i64>> {
    let refuse = |text: &str| Err(Failure::new(Code::InvalidOptions, text));
    let number = args.int("txnNumber")?;
    let (starts, autocommit) = (args.bool("startTransaction")?, args.bool("autocommit")?);
    if number.is_some_and(|number| number < 0) {
        return refuse("txnNumber: expected a number that is not negative");
    }
    if starts.is_some() && autocommit.is_none() {
        return refuse("startTransaction: expected it with autocommit");
    }
    if starts == Some(false) {
        return refuse("startTransaction: expected true, or none");
    }
    if autocommit == Some(true) {
        return refuse("autocommit: expected false, or none");
    }
    if autocommit.is_some() && args.get("writeConcern")?.is_some() && !is_end(entry.name) {
        return refuse("writeConcern: expected it in a transaction with its end alone");
    }
    let is_later = autocommit.is_some() && starts.is_none();
    if is_later && args.get("readConcern")?.is_some() {
        return refuse("readConcern: expected it in a transaction with its first command alone");
    }
    if number.is_some() && autocommit.is_none() && !is_retried(entry.name) {
        let name = entry.name;
        let text = format!("txnNumber: expected it with autocommit: {name} is not sent again");
        return Err(Failure::new(Code::NotARetryableWriteCommand, text));
    }
    if number.is_some() && autocommit.is_none() {
        check_statements(args)?;
    }
    Ok(number)
}

/// Refuses other numbers of statements than their places, by which a retry knows them.
fn check_statements(args: &Args<'_>) -> Outcome {
    let first = args.int("stmtId")?;
    let mut ids = args.list("stmtIds")?.into_iter().flatten().enumerate();
    if first.is_some_and(|first| first != 0)
        || ids.any(|(at, id)| id.as_i64() != i64::try_from(at).ok())
    {
        let text = "stmtId and stmtIds: expected none, or the places of the statements from 0 on";
        return Err(Failure::new(Code::InvalidOptions, text));
    }
    Ok(())
}

/// Returns whether drivers send a command again with its number.
fn is_retried(name: &str) -> bool {
    const WRITES: [&str; 6] =
        ["bulkWrite", "delete", "findAndModify", "findandmodify", "insert", "update"];
    WRITES.contains(&name)
}

/// Returns whether a command ends a transaction.
pub(super) fn is_end(name: &str) -> bool {
    matches!(name, COMMIT | "abortTransaction")
}

/// Commits or aborts the transaction of a session.
pub(super) fn end(run: &mut Run<'_, '_>, session: &mut Session, number: i64) -> Outcome {
    let (db, id) = (&run.service.db, session.commit_id(number));
    if run.command.name != COMMIT {
        return match session.take(number) {
            // By a server that has ended.
            Err(_) if id.is_committed(db)? => {
                session.note_committed(number);
                session.take(number).map(drop)
            }
            taken => taken.map(drop),
        };
    }
    let mut transaction = match session.take(number) {
        Ok(transaction) => transaction,
        // The reply of the first try may not have arrived.
        Err(failure) if failure.code == Code::TransactionCommitted || id.is_committed(db)? => {
            return run.sync_if_asked();
        }
        Err(failure) => return Err(failure),
    };
    if keys_written(&transaction) > 0 {
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
    let text = format!("{} must be run within a transaction", run.command.name);
    Err(Failure::new(Code::CommandFailed, text))
}
