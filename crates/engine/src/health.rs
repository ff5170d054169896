//! The state of a database, and the listeners that are told of events.
//!
//! ```text
//! Recovering --open--> Open --poison--> Poisoned (reads continue, writes are refused)
//!                        \---set_closed---+--set_closed--> Closed
//! ```
//! This module calls nothing above it: waiters are notified, and what is due goes to the function
//! that was registered for it.

use crate::due::Due;
use crate::event::{Event, Listener};
use crate::notifier::Notifier;
use crate::setup::Setup;
use crate::user_code::{self, UserCode, UserCodeGuard};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use flagstone_wal::DroppedChanges;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

/// What is fixed when a database is opened, its state, its listeners, and the notifiers of waiting
/// threads.
pub(crate) struct Health {
    pub(crate) setup: Setup,
    listeners: Vec<Arc<dyn Listener>>,
    state: AtomicU8,
    poison: OnceLock<Error>,
    /// Wakes writers that are held back.
    pub(crate) writers: Notifier,
    /// Wakes threads that wait for background work.
    pub(crate) waiters: Notifier,
    /// Wakes readers of changes that wait for the next one.
    pub(crate) readers: Notifier,
    /// The number of readers of changes that wait.
    readers_waiting: AtomicUsize,
    act: OnceLock<Box<dyn Fn(Due) + Send + Sync>>,
}

const OPEN: u8 = 0;
const POISONED: u8 = 1;
const READ_ONLY: u8 = 2;
const CLOSED: u8 = 3;

impl Health {
    pub(crate) fn new(setup: Setup, listeners: Vec<Arc<dyn Listener>>, is_read_only: bool) -> Self {
        Self {
            setup,
            listeners,
            state: AtomicU8::new(if is_read_only { READ_ONLY } else { OPEN }),
            poison: OnceLock::new(),
            writers: Notifier::default(),
            waiters: Notifier::default(),
            readers: Notifier::default(),
            readers_waiting: AtomicUsize::new(0),
            act: OnceLock::new(),
        }
    }

    /// Registers the function that acts on what is due.
    pub(crate) fn on_due(&self, act: impl Fn(Due) + Send + Sync + 'static) {
        let _first = self.act.set(Box::new(act));
    }

    /// Calls the function that acts on what is due. For parts below it, outside of hot paths.
    #[cold]
    pub(crate) fn act(&self, due: Due) {
        if let Some(act) = self.act.get() {
            act(due);
        }
    }

    /// Calls all listeners. One that panics poisons the database, as every panic in background work
    /// does. The panic unwinds no further, since the work being reported must be completed.
    pub(crate) fn tell(&self, event: &Event) {
        if self.listeners.is_empty() {
            return;
        }
        let _user_code = self.enter_user_code(UserCode::Listener);
        for listener in &self.listeners {
            let result = std::panic::catch_unwind(AssertUnwindSafe(|| listener.event(event)));
            if result.is_err() {
                self.poison(&Error::new(ErrorKind::Poisoned, "a listener of events panicked"));
            }
        }
    }

    /// Returns an error unless the database is open for writing.
    #[inline]
    pub(crate) fn check_open_for_writing(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            OPEN if !self.setup.guard.is_forked() => Ok(()),
            state => Err(self.refusal(state)),
        }
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            CLOSED => Err(self.refusal(CLOSED)),
            _ => Ok(()),
        }
    }

    /// Returns an error once the database is poisoned, even if it is closed by now.
    pub(crate) fn check_poison(&self) -> Result<()> {
        self.poison.get().map_or(Ok(()), |_| Err(self.refusal(POISONED)))
    }

    #[cold]
    fn refusal(&self, state: u8) -> Error {
        let dir = self.setup.dir.display();
        match state {
            POISONED => {
                let cause = self.poison.get().map_or(String::new(), ToString::to_string);
                Error::new(
                    ErrorKind::Poisoned,
                    format!("{dir} accepts no writes until it is opened again: {cause}"),
                )
            }
            READ_ONLY => Error::invalid(format!("{dir} is open for reading only")),
            // The state that a forked process has inherited.
            OPEN => self.setup.guard.check_process().err().unwrap_or_else(|| self.setup.closed()),
            _ => self.setup.closed(),
        }
    }

    /// Poisons the database: nothing more is written, since the content of the disk is not known.
    pub(crate) fn poison(&self, error: &Error) {
        if self.poison.set(error.clone()).is_ok() {
            let _was_open =
                self.state.compare_exchange(OPEN, POISONED, Ordering::AcqRel, Ordering::Acquire);
            self.tell(&Event::Poisoned { error: error.clone() });
            self.writers.notify_all();
            self.waiters.notify_all();
            self.readers.notify_all();
        }
    }

    /// Wakes readers of changes that wait, after a commit. Mostly there are none.
    #[inline]
    pub(crate) fn tell_readers(&self) {
        if self.readers_waiting.load(Ordering::Relaxed) > 0 {
            self.readers.notify_all();
        }
    }

    /// Has commits notify a reader of changes while it runs `wait`. A commit may miss the reader
    /// that just begins to wait, so it waits only for a moment.
    pub(crate) fn while_reader_waits(&self, wait: impl FnOnce(&Notifier)) {
        self.readers_waiting.fetch_add(1, Ordering::AcqRel);
        wait(&self.readers);
        self.readers_waiting.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn poisoned(&self) -> Option<&Error> {
        self.poison.get()
    }

    /// Closes the database. Returns true to the one caller that completes the close. Must be called
    /// under the numbering lock, so that nothing gets a SeqNo after it.
    pub(crate) fn set_closed(&self) -> bool {
        self.state.swap(CLOSED, Ordering::AcqRel) != CLOSED
    }

    /// Runs a step of a job. A panic in it, in a fold or a listener for example, poisons the
    /// database: the thread must survive, and those who wait for the job must learn that it will
    /// never end.
    pub(crate) fn run_step<T>(&self, what: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        let _user_code = self.enter_user_code(UserCode::Background);
        std::panic::catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_payload| {
            Err(Error::new(ErrorKind::Poisoned, format!("{what} panicked")))
        })
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Notes that this thread runs user code until the result is dropped.
    pub(crate) fn enter_user_code(&self, code: UserCode) -> UserCodeGuard {
        user_code::enter(self.address(), code)
    }

    /// Returns which of the kinds `refused` of user code this thread runs, if any.
    pub(crate) fn running_user_code(&self, refused: &[UserCode]) -> Option<UserCode> {
        user_code::find(self.address(), refused)
    }

    /// Returns an error if the caller is user code that may not write.
    #[inline]
    pub(crate) fn check_may_write(&self) -> Result<()> {
        if user_code::runs_user_code() {
            self.check_user_code(
                &[
                    UserCode::Update,
                    UserCode::Transaction,
                    UserCode::Listener,
                    UserCode::Background,
                ],
                "a write",
            )
        } else {
            Ok(())
        }
    }

    /// Returns an error if the caller is a listener or a fold. `call` waits for background work or
    /// locks.
    pub(crate) fn check_may_wait(&self, call: &str) -> Result<()> {
        self.check_user_code(&[UserCode::Listener, UserCode::Background], call)
    }

    /// Like [`Health::check_may_wait`], and returns an error inside the closure of a transaction:
    /// the change would not be part of it, and would be made again with each try.
    pub(crate) fn check_may_change(&self, call: &str) -> Result<()> {
        self.check_user_code(
            &[UserCode::Transaction, UserCode::Listener, UserCode::Background],
            call,
        )
    }

    fn check_user_code(&self, refused: &[UserCode], call: &str) -> Result<()> {
        let place = match self.running_user_code(refused) {
            None => return Ok(()),
            Some(UserCode::Update) => "the closure of an update",
            Some(UserCode::Transaction) => {
                return Err(Error::invalid(format!(
                    "{call} of {} inside the closure of a transaction of the same database would \
                     not be part of the transaction: call the transaction itself",
                    self.setup.dir.display()
                )));
            }
            Some(UserCode::Listener) => "a listener of events",
            Some(UserCode::Background) => "background work",
        };
        Err(Error::invalid(format!(
            "{call} of {} inside {place} of the same database would wait for itself",
            self.setup.dir.display()
        )))
    }
}

/// Why kept changes were removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhyDropped {
    /// More are not kept.
    Bound,
    DiskFull,
    /// The segment after them is lost or damaged.
    Damage,
}

/// Tells that kept changes were removed, if any were. Returns whether they were.
pub(crate) fn tell_of_dropped(health: &Health, dropped: DroppedChanges, why: WhyDropped) -> bool {
    let DroppedChanges { segments, bytes, through } = dropped;
    if segments > 0 {
        let through = through.get();
        let (is_disk_full, is_damaged) = (why == WhyDropped::DiskFull, why == WhyDropped::Damage);
        health.tell(&Event::ChangesDropped { segments, bytes, through, is_disk_full, is_damaged });
    }
    segments > 0
}
