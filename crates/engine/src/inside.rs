//! User code that runs inside a call of the database, and the calls that it may not make.
//!
//! The closure of an update runs while its key is locked, a listener while any lock may be held, a fold
//! in background work that writers may wait for. From there a call that waits would wait for its own
//! thread. Each thread notes what it is inside of; such a call returns InvalidInput instead.

use crate::shared::Shared;
use flagstone_base::{Error, Result};
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

impl Shared {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// User code runs in this thread from here on.
    pub(crate) fn run_inside(&self, inside: Inside) -> Running {
        RUNNING.with(|running| running.borrow_mut().push((self.address(), inside)));
        Running(())
    }

    /// Whether this thread is inside user code from which nothing may wait.
    pub(crate) fn is_inside(&self, refused: &[Inside]) -> Option<Inside> {
        RUNNING.with(|running| {
            let running = running.borrow();
            let mine = running.iter().filter(|(database, _)| *database == self.address());
            mine.map(|(_, inside)| *inside).find(|inside| refused.contains(inside))
        })
    }

    /// Refuses a write from inside user code.
    #[inline]
    pub(crate) fn check_may_write(&self) -> Result<()> {
        match is_inside_any() {
            false => Ok(()),
            true => self
                .check_inside(&[Inside::Update, Inside::Listener, Inside::Background], "a write"),
        }
    }

    /// Refuses `call`, which waits for background work or locks, from inside a listener or a fold.
    pub(crate) fn check_may_wait(&self, call: &str) -> Result<()> {
        self.check_inside(&[Inside::Listener, Inside::Background], call)
    }

    fn check_inside(&self, refused: &[Inside], call: &str) -> Result<()> {
        let place = match self.is_inside(refused) {
            None => return Ok(()),
            Some(Inside::Update) => "the closure of an update",
            Some(Inside::Listener) => "a listener of events",
            Some(Inside::Background) => "background work",
        };
        Err(Error::invalid(format!(
            "{call} of {} inside {place} of the same database would wait for itself",
            self.dir.display()
        )))
    }
}
