//! Ctrl-C during a call of the engine, in which Python runs no handlers of signals.

use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// A call asks Python for signals this often. Shorter ones never wait for the GIL.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// The questions up to a SIGINT, in a test; else 0.
static TEST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// When the call of this thread asks next; none before its first question.
    static NEXT: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The exception that a handler has raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs `work`, which the engine ends once a handler of signals has raised an exception.
pub(crate) fn watched<T>(work: impl FnOnce() -> T) -> T {
    NEXT.set(None);
    flagstone::internal::interruptible(is_over, work)
}

/// The thread in which Python runs handlers of signals, once a call was made there.
static MAIN: OnceLock<ThreadId> = OnceLock::new();

/// Remembers the main thread of Python, if this is it.
pub(crate) fn note_main_thread(py: Python<'_>) -> PyResult<()> {
    if MAIN.get().is_none() {
        let threading = py.import("threading")?;
        let here = threading.call_method0("current_thread")?;
        if here.is(threading.call_method0("main_thread")?) {
            let _is_set = MAIN.set(std::thread::current().id());
        }
    }
    Ok(())
}

/// As [`watched`], for one of many short calls: they ask together as often as one long call. Only
/// the main thread asks. Another one would run no handlers, and may belong to a consumer that waits
/// for it with the GIL.
pub(crate) fn watched_in_main_thread<T>(work: impl FnOnce() -> T) -> T {
    if MAIN.get() == Some(&std::thread::current().id()) {
        return flagstone::internal::interruptible(is_over, work);
    }
    work()
}

/// Returns the exception that has ended the last call of this thread.
pub(crate) fn raised() -> Option<PyErr> {
    RAISED.with(RefCell::take)
}

fn is_over() -> bool {
    if TEST.load(Ordering::Relaxed) > 0 {
        return ask();
    }
    let now = Instant::now();
    if NEXT.get().is_some_and(|next| now < next) {
        return RAISED.with_borrow(Option::is_some);
    }
    let is_first = NEXT.replace(Some(now + ASK_EVERY)).is_none();
    !is_first && ask()
}

/// Keeps what a handler raises. Returns whether one has.
fn ask() -> bool {
    if let Some(error) = asked() {
        RAISED.set(Some(error));
    }
    RAISED.with_borrow(Option::is_some)
}

/// The GIL, held for a question. A package that was called with it may have released it before it
/// asked for a batch, which PyO3 does not know: it takes a thread that it has attached for one that
/// holds the GIL.
struct Held(ffi::PyGILState_STATE, PhantomData<*const ()>);

impl Held {
    /// `None` without an interpreter.
    #[expect(
        unsafe_code,
        reason = "PyO3 does not notice that another package has released the GIL"
    )]
    fn take() -> Option<Self> {
        // SAFETY: the interpreter is there, and whoever holds the GIL may take it again. `drop`
        // releases it in the same thread, since the type is not `Send`.
        unsafe {
            (ffi::Py_IsInitialized() != 0).then(|| Self(ffi::PyGILState_Ensure(), PhantomData))
        }
    }
}

impl Drop for Held {
    #[expect(unsafe_code, reason = "as in `take`")]
    fn drop(&mut self) {
        // SAFETY: `take` has made this state, in this thread.
        unsafe { ffi::PyGILState_Release(self.0) }
    }
}

/// Runs the handlers of signals that have come, and returns what they have raised.
fn asked() -> Option<PyErr> {
    let _held = Held::take()?;
    if TEST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) == Ok(1)
    {
        return Python::try_attach(interrupted).flatten();
    }
    // Without an interpreter there is nobody to ask.
    Python::try_attach(|py| py.check_signals().err()).flatten()
}

/// Sends a SIGINT to this process, as Ctrl-C does.
fn interrupted(py: Python<'_>) -> Option<PyErr> {
    let signal = py.import("signal").and_then(|signal| {
        signal.call_method1("raise_signal", (signal.getattr("SIGINT")?,))?;
        py.check_signals()
    });
    signal.err()
}

/// Has each question of a call ask Python, and the one of this number find a SIGINT: for tests.
#[pyfunction]
pub(crate) fn _interrupt_at(question: u64) {
    TEST.store(question, Ordering::Relaxed);
}

/// Ctrl-C during a call that the engine itself interrupts where it suits the call.
#[derive(Default)]
pub(crate) struct Interrupt(Mutex<Questions>);

/// What the questions of a call have found.
#[derive(Default)]
struct Questions {
    raised: Option<PyErr>,
    /// When the call asks next; none before its first question.
    next: Option<Instant>,
}

impl Interrupt {
    /// Returns `Break` once a handler of signals has raised an exception.
    pub(crate) fn check(&self) -> ControlFlow<()> {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_due = questions.next.is_none_or(|next| now >= next);
        if questions.raised.is_none() && (is_due || TEST.load(Ordering::Relaxed) > 0) {
            questions.next = Some(now + ASK_EVERY);
            questions.raised = asked();
        }
        match questions.raised {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    /// Raises the exception, if there is one.
    pub(crate) fn raise(self) -> PyResult<()> {
        let questions = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        questions.raised.map_or(Ok(()), Err)
    }
}
