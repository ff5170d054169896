//! Runs the closure of a transaction, and again after each conflict, up to a limit.

use super::handle::Transaction;
use super::options::TransactionOptions;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_engine::Engine;

/// Runs `body` in a transaction and commits it.
pub(crate) fn run<T, E: From<Error>>(
    engine: &Engine,
    options: TransactionOptions,
    mut body: impl FnMut(&mut Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let mut tries = 0;
    loop {
        tries += 1;
        let inside = engine.enter_transaction()?;
        let mut transaction = Transaction::begin(engine, options)?;
        let value = body(&mut transaction)?;
        drop(inside);
        match transaction.commit() {
            Ok(()) => return Ok(value),
            Err(error) if error.kind() != ErrorKind::Conflict => return Err(error.into()),
            Err(error) if tries > options.retries => {
                return Err(error.context(format_args!("a transaction, try {tries}")).into());
            }
            Err(_conflict) => engine.pause_before_retry(tries)?,
        }
    }
}
