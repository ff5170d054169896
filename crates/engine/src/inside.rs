//! User code that runs inside a call of the database, and the calls that it may not make.
//!
//! The closure of an update runs while its key is locked, a listener while any lock may be held, a fold
//! in background work that writers may wait for. From there a call that waits would wait for its own
//! thread. Each thread notes what it is inside of; such a call returns InvalidInput instead.

use flagstone_env::sync::thread_local;
use std::cell::RefCell;

/// What user code is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// The closure of an update: writes are refused.
    Update,
    /// A listener: everything but reads is refused.
    Listener,
    /// Background work, which runs folds: everything but reads is refused.
    Background,
}

thread_local! {
    /// The database by its address, innermost last. An update of one database may write to another.
    static RUNNING: RefCell<Vec<(usize, Inside)>> = const { RefCell::new(Vec::new()) };
}

/// User code runs; dropping this ends it.
pub(crate) struct Running(());

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = RUNNING.with(|running| running.borrow_mut().pop());
    }
}

/// Whether this thread runs user code inside a call of any database.
pub(crate) fn is_inside_any() -> bool {
    RUNNING.with(|running| !running.borrow().is_empty())
}

/// User code of the database with this address runs in this thread from here on.
pub(crate) fn enter(database: usize, inside: Inside) -> Running {
    RUNNING.with(|running| running.borrow_mut().push((database, inside)));
    Running(())
}

/// What this thread is inside of, of `sought`, in the database with this address.
pub(crate) fn find(database: usize, sought: &[Inside]) -> Option<Inside> {
    RUNNING.with(|running| {
        let running = running.borrow();
        let mine = running.iter().filter(|(of, _)| *of == database);
        mine.map(|(_, inside)| *inside).find(|inside| sought.contains(inside))
    })
}
