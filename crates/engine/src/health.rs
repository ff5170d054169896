//! Whether a database is open, and those who are told of what happens in it.
//!
//! ```text
//! Recovering --open--> Open --poison--> Poisoned (reads go on, writes are refused)
//!                        \---set_closed---+--set_closed--> Closed
//! ```
//! It calls nobody above: who waits hears a bell, and what is due goes to the one function that was registered for it.

use crate::bell::Bell;
use crate::due::Due;
use crate::event::{Event, Listener};
use crate::inside::{self, Inside, Running};
use crate::setup::Setup;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::Progress;
use flagstone_env::sync::atomic::{AtomicU8, Ordering};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

/// The state of a database, its listeners, and the bells for those who wait.
pub(crate) struct Health {
    setup: Arc<Setup>,
    listeners: Vec<Arc<dyn Listener>>,
    state: AtomicU8,
    poison: OnceLock<Error>,
    /// For writers that are held back.
    pub(crate) writers: Bell,
    /// For those who wait for background work.
    pub(crate) waiters: Bell,
    act: OnceLock<Box<dyn Fn(Due) + Send + Sync>>,
}

const OPEN: u8 = 0;
const POISONED: u8 = 1;
const READ_ONLY: u8 = 2;
const CLOSED: u8 = 3;

impl Health {
    pub(crate) fn new(
        setup: Arc<Setup>,
        listeners: Vec<Arc<dyn Listener>>,
        is_read_only: bool,
    ) -> Self {
        Self {
            setup,
            listeners,
            state: AtomicU8::new(if is_read_only { READ_ONLY } else { OPEN }),
            poison: OnceLock::new(),
            writers: Bell::default(),
            waiters: Bell::default(),
            act: OnceLock::new(),
        }
    }

    /// Registers who acts on what is due.
    pub(crate) fn act_by(&self, act: impl Fn(Due) + Send + Sync + 'static) {
        let _first = self.act.set(Box::new(act));
    }

    /// Has the one place act on what is due: for parts below it, off the paths that are hot.
    #[cold]
    pub(crate) fn act(&self, due: Due) {
        if let Some(act) = self.act.get() {
            act(due);
        }
    }

    /// A listener that panics poisons, as every panic in background work does; it unwinds no further, since
    /// what is being told about must be brought to its end.
    pub(crate) fn tell(&self, event: &Event) {
        if self.listeners.is_empty() {
            return;
        }
        let _inside = self.run_inside(Inside::Listener);
        for listener in &self.listeners {
            let told = std::panic::catch_unwind(AssertUnwindSafe(|| listener.event(event)));
            if told.is_err() {
                self.poison(&Error::new(ErrorKind::Poisoned, "a listener of events panicked"));
            }
        }
    }

    /// Refuses writes unless the database is open for them.
    #[inline]
    pub(crate) fn check_open_for_writing(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            OPEN => Ok(()),
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

    /// Refuses once poisoned, open or closed.
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
                    format!("{dir} takes no writes until it is opened again: {cause}"),
                )
            }
            READ_ONLY => Error::invalid(format!("{dir} is open for reading only")),
            _ => self.setup.closed(),
        }
    }

    /// Nothing more is written: what is on disk is no longer known.
    pub(crate) fn poison(&self, error: &Error) {
        if self.poison.set(error.clone()).is_ok() {
            let _was_open =
                self.state.compare_exchange(OPEN, POISONED, Ordering::AcqRel, Ordering::Acquire);
            self.tell(&Event::Poisoned { error: error.clone() });
            self.writers.ring();
            self.waiters.ring();
        }
    }

    pub(crate) fn poisoned(&self) -> Option<&Error> {
        self.poison.get()
    }

    /// True for the one who closes. To be called under the numbering lock: nothing is numbered after it.
    pub(crate) fn set_closed(&self) -> bool {
        self.state.swap(CLOSED, Ordering::AcqRel) != CLOSED
    }

    /// Runs a step of a job. One that panics, in a fold or a listener say, poisons: its thread must
    /// live, and those who wait for the job must hear that it will never end.
    pub(crate) fn run_step(
        &self,
        what: &str,
        step: impl FnOnce() -> Result<Progress>,
    ) -> Result<Progress> {
        let _inside = self.run_inside(Inside::Background);
        std::panic::catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_payload| {
            Err(Error::new(ErrorKind::Poisoned, format!("{what} panicked")))
        })
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// User code runs in this thread from here on.
    pub(crate) fn run_inside(&self, inside: Inside) -> Running {
        inside::enter(self.address(), inside)
    }

    /// Whether this thread is inside user code from which nothing may wait.
    pub(crate) fn is_inside(&self, refused: &[Inside]) -> Option<Inside> {
        inside::find(self.address(), refused)
    }

    /// Refuses a write from inside user code.
    #[inline]
    pub(crate) fn check_may_write(&self) -> Result<()> {
        match inside::is_inside_any() {
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
            self.setup.dir.display()
        )))
    }
}
