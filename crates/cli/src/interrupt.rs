//! Ctrl-C, and the signals to terminate and to hang up: the first asks for a clean stop, the second
//! stops at once. A command that only reads a database stops at the first. Both ways nothing stays
//! of what it has half written.

use crate::failure::Failure;
use crate::output;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

static IS_ASKED: AtomicBool = AtomicBool::new(false);
static LISTENS: AtomicBool = AtomicBool::new(false);
/// The directory of temporary files of a command that only reads.
static SCRATCH: Mutex<Option<PathBuf>> = Mutex::new(None);

/// What a signal does while a user is waited for: it undoes what a question has changed at the
/// terminal, or closes the database of a shell.
static QUESTION: Mutex<Option<Undo>> = Mutex::new(None);
type Undo = Box<dyn FnOnce() + Send>;

/// What removes the files that are not complete, when the process ends by a signal.
static PARTS: Mutex<Vec<Arc<Removal>>> = Mutex::new(Vec::new());
type Removal = dyn Fn() + Send + Sync;

/// Calls `remove` if the process ends by a signal before the return value is dropped.
pub(crate) fn remove_at_end(remove: impl Fn() + Send + Sync + 'static) -> Result<Part, Failure> {
    let part = Part(Arc::new(remove));
    PARTS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&part.0));
    listen()?;
    Ok(part)
}

/// A file that is not complete.
pub(crate) struct Part(Arc<Removal>);

impl Drop for Part {
    fn drop(&mut self) {
        let mut parts = PARTS.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|part| !Arc::ptr_eq(part, &self.0));
    }
}

/// Asks a question, then calls `undo`; a signal calls it, too, and ends the process.
#[cfg(all(feature = "server", unix))]
pub(crate) fn while_asking<T>(
    undo: impl FnOnce() + Send + 'static,
    ask: impl FnOnce() -> T,
) -> Result<T, Failure> {
    *QUESTION.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(undo));
    listen()?;
    let answer = ask();
    answered()();
    Ok(answer)
}

/// Runs `wait`, which waits for the next command. A signal meanwhile calls `close`, and ends the
/// process; so does an earlier one, unless it was to stop a command.
pub(crate) fn while_idle<T>(
    close: impl FnOnce() + Send + 'static,
    wait: impl FnOnce() -> T,
) -> Result<T, Failure> {
    *QUESTION.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(close));
    listen()?;
    if is_asked() {
        answered()();
        end();
    }
    let waited = wait();
    drop(answered());
    Ok(waited)
}

/// Takes back what a signal would have done. If one has taken it, that ends the process, and
/// nothing else is to happen.
fn answered() -> Undo {
    loop {
        if let Some(undo) = QUESTION.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return undo;
        }
        std::thread::park();
    }
}

/// Ends the process after `undo`.
fn end_after(undo: &Mutex<Option<Undo>>) {
    let undo = undo.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(undo) = undo {
        undo();
    }
    end();
}

/// Ends the process by a signal.
fn end() -> ! {
    for remove in PARTS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        remove();
    }
    std::process::exit(130)
}

/// Makes Ctrl-C end a command that only reads: at once, after its directory of temporary files is
/// removed. `None`: there is nothing to remove any more.
pub(crate) fn end_with(scratch: Option<&Path>) -> Result<(), Failure> {
    *SCRATCH.lock().unwrap_or_else(PoisonError::into_inner) = scratch.map(Path::to_owned);
    if scratch.is_some() { listen() } else { Ok(()) }
}

/// Makes the first Ctrl-C a request to stop.
pub(crate) fn listen() -> Result<(), Failure> {
    if LISTENS.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let handler = || {
        let undo = QUESTION.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(undo) = undo {
            IS_ASKED.store(true, Ordering::Release);
            // A database may take its time to close: a second signal is heard meanwhile.
            let undo = Arc::new(Mutex::new(Some(undo)));
            let of_thread = Arc::clone(&undo);
            if std::thread::Builder::new().spawn(move || end_after(&of_thread)).is_err() {
                end_after(&undo);
            }
            return;
        }
        if let Some(scratch) = SCRATCH.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // The command may be creating a file there.
            let remove = move || {
                (0..3).any(|_| std::fs::remove_dir_all(&scratch).is_ok() || !scratch.exists());
                end()
            };
            // In a thread of its own, so that a second signal is heard.
            IS_ASKED.store(true, Ordering::Release);
            if std::thread::Builder::new().spawn(remove).is_ok() {
                return;
            }
            end();
        }
        if IS_ASKED.swap(true, Ordering::AcqRel) {
            end();
        }
        output::note("stopping; press Ctrl-C again to stop without closing");
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::Io(format!("cannot listen for Ctrl-C: {error}")))
}

/// Forgets a request that was to stop a command of a shell.
pub(crate) fn reset() {
    IS_ASKED.store(false, Ordering::Release);
}

/// Returns an error if a stop was requested: for loops that only read.
pub(crate) fn check() -> Result<(), Failure> {
    if is_asked() || output::is_silent() { Err(stopped()) } else { Ok(()) }
}

fn stopped() -> Failure {
    Failure::Interrupted("stopped before the end".to_owned())
}

/// Runs a command that only reads, in a thread of its own. Returns when it ends or a stop is
/// requested: a long sort, say, does not hear of it, and runs on without a reader.
pub(crate) fn run_to_read(
    work: impl FnOnce() -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let (sender, outcome) = mpsc::channel();
    let abandoned = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&abandoned);
    let run = move || {
        output::silence_with(flag);
        let _nobody_waits = sender.send(work());
    };
    std::thread::Builder::new()
        .spawn(run)
        .map_err(|error| Failure::Io(format!("cannot start a thread: {error}")))?;
    loop {
        match outcome.recv_timeout(PATIENCE) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) if !is_asked() => {}
            Err(RecvTimeoutError::Timeout) => {
                abandoned.store(true, Ordering::Release);
                return Err(stopped());
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::Io("the command ended by a panic".to_owned()));
            }
        }
    }
}

/// How often a command that runs is asked to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Returns whether a stop was requested.
pub(crate) fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_hear_of_a_stop_is_left_alone_and_prints_nothing() {
        assert!(run_to_read(|| Ok(())).is_ok());
        assert!(matches!(run_to_read(|| Err(Failure::Check("x".into()))), Err(Failure::Check(_))));
        let (ended, outcome) = mpsc::channel();
        let (leave, left) = mpsc::channel();
        IS_ASKED.store(true, Ordering::Release);
        let stopped = run_to_read(move || {
            // A sort: it ends long after the stop.
            let _left = left.recv();
            let printed = output::write_all(b"WRONG: this must not be printed\n");
            let _gone = ended.send((printed, check()));
            Ok(())
        });
        assert!(matches!(stopped, Err(Failure::Interrupted(_))), "{stopped:?}");
        // The next command runs, and the one before still stays silent.
        reset();
        leave.send(()).unwrap();
        let (printed, checked) = outcome.recv().unwrap();
        assert!(matches!(printed, Err(Failure::Interrupted(_))), "{printed:?}");
        assert!(matches!(checked, Err(Failure::Interrupted(_))), "{checked:?}");
        assert!(check().is_ok());
    }
}
