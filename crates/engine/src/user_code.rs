//! User code that runs inside a call of the database, and the calls that it may not make.
//!
//! The closure of an update runs while its key is locked, a listener while any lock may be held,
//! and a fold in background work that writers may wait for. A call from there that waits could wait
//! for its own thread. The closure of a transaction holds no lock, but a write past the transaction
//! is hardly meant: it would happen at once, and once more with each retry. Each thread notes which
//! user code it runs, and such a call returns InvalidInput instead.

use flagstone_env::sync::thread_local;
use std::cell::RefCell;

/// The kinds of user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserCode {
    /// The closure of an update. It may not write.
    Update,
    /// The closure of a transaction. It may write only through the transaction.
    Transaction,
    /// A listener. It may only read.
    Listener,
    /// Background work, which runs folds. It may only read.
    Background,
}

thread_local! {
    /// The databases, by address, and the kinds of user code that run, innermost last. An update of
    /// one database may write to another.
    static RUNNING: RefCell<Vec<(usize, UserCode)>> = const { RefCell::new(Vec::new()) };
}

/// User code is running until this is dropped.
pub(crate) struct UserCodeGuard(());

impl Drop for UserCodeGuard {
    fn drop(&mut self) {
        let _ended = RUNNING.with(|running| running.borrow_mut().pop());
    }
}

/// Returns whether this thread runs user code inside a call of any database.
pub(crate) fn runs_user_code() -> bool {
    RUNNING.with(|running| !running.borrow().is_empty())
}

/// Notes that this thread runs user code of the database at the address `database`, until the
/// result is dropped.
pub(crate) fn enter(database: usize, code: UserCode) -> UserCodeGuard {
    RUNNING.with(|running| running.borrow_mut().push((database, code)));
    UserCodeGuard(())
}

/// Returns which of the kinds `sought` of user code this thread runs for the database at the
/// address `database`.
pub(crate) fn find(database: usize, sought: &[UserCode]) -> Option<UserCode> {
    RUNNING.with(|running| {
        let running = running.borrow();
        let mine = running.iter().filter(|(of, _)| *of == database);
        mine.map(|(_, code)| *code).find(|code| sought.contains(code))
    })
}
