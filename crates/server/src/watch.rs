//! When the command of this thread is to end before it is done.

use flagstone::internal::{interrupt_check, interruptible};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Why a command is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has taken its time.
    Late,
    /// Its client has closed the connection: nobody waits for it.
    Gone,
    /// It has taken the time that the server lets commands take.
    Slow,
    /// What it reads has become too old.
    Old,
    /// Another thread has ended it.
    Told(Cause),
}

/// Why another thread ends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Another client has asked for it.
    Killed,
    /// The server stops.
    Stopped,
}

/// Ends the command of a connection from another thread.
#[derive(Debug, Default)]
pub(crate) struct KillSwitch {
    cause: Mutex<Option<Cause>>,
    /// Whether there is a cause: commands look here, often, and take no lock.
    is_set: AtomicBool,
    /// Set when the server stops: commands no longer wait for events.
    waits_end: Arc<AtomicBool>,
}

impl KillSwitch {
    pub(crate) fn new(waits_end: &Arc<AtomicBool>) -> Self {
        Self { waits_end: Arc::clone(waits_end), ..Self::default() }
    }

    /// Ends the command.
    pub(crate) fn set(&self, cause: Cause) {
        self.put(Some(cause));
    }

    /// Lets the next command run.
    pub(crate) fn reset(&self) {
        self.put(None);
    }

    fn put(&self, cause: Option<Cause>) {
        let mut held = self.cause.lock().unwrap_or_else(PoisonError::into_inner);
        *held = cause;
        self.is_set.store(cause.is_some(), Ordering::Release);
    }

    fn cause(&self) -> Option<Cause> {
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        *self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What ends a command.
#[derive(Clone, Default)]
struct Watch {
    /// When it ends, and why.
    deadline: Option<(Instant, End)>,
    kill_switch: Option<Arc<KillSwitch>>,
    /// It ends with its connection.
    needs_client: bool,
}

impl Watch {
    fn waits_end(&self) -> bool {
        self.kill_switch.as_ref().is_some_and(|switch| switch.waits_end.load(Ordering::Acquire))
    }
}

/// The connection of the thread's client.
struct Connected {
    is_gone: Box<dyn Fn() -> bool>,
    /// When it is asked again.
    next: Instant,
    was_gone: bool,
}

/// How often a command looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(100);

thread_local! {
    static WATCH: RefCell<Watch> = RefCell::new(Watch::default());
    static CONNECTED: RefCell<Option<Connected>> = const { RefCell::new(None) };
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Does `work` for a client. Commands in it that change nothing end when `is_gone` says that the
/// client has closed its connection.
#[cfg(unix)]
pub(crate) fn connected<T>(is_gone: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    struct ConnectedBefore(Option<Connected>);
    impl Drop for ConnectedBefore {
        fn drop(&mut self) {
            CONNECTED.set(self.0.take());
        }
    }
    let (is_gone, next) = (Box::new(is_gone), Instant::now() + LOOK);
    let _before =
        ConnectedBefore(CONNECTED.replace(Some(Connected { is_gone, next, was_gone: false })));
    work()
}

/// Returns whether the client of this thread has closed its connection.
pub(crate) fn client_is_gone() -> bool {
    CONNECTED.with_borrow_mut(|connected| {
        let Some(connected) = connected else { return false };
        let now = Instant::now();
        if now >= connected.next {
            connected.next = now + LOOK;
            connected.was_gone |= (connected.is_gone)();
        }
        connected.was_gone
    })
}

/// Returns why the command of this thread is to end, if it is.
pub(crate) fn end() -> Option<End> {
    WATCH.with_borrow(|watch| {
        let cause = watch.kill_switch.as_ref().and_then(|switch| switch.cause());
        let told = cause.map(End::Told);
        let late = || watch.deadline.filter(|(at, _)| Instant::now() >= *at).map(|(_, end)| end);
        // A server that stops no longer reads from connections: all clients look gone.
        let is_gone = || watch.needs_client && !watch.waits_end() && client_is_gone();
        told.or_else(late).or_else(|| is_gone().then_some(End::Gone))
    })
}

/// Returns whether the command of this thread may no longer wait for events.
pub(crate) fn waits_end() -> bool {
    WATCH.with_borrow(Watch::waits_end)
}

fn is_over() -> bool {
    end().is_some()
}

/// Runs a command that ends when `deadline` comes or `kill_switch` is set: calls of the library
/// return an error of kind Interrupted then. `needs_client`: also when its client is gone.
pub(crate) fn watched<T>(
    deadline: Option<Instant>,
    kill_switch: &Arc<KillSwitch>,
    needs_client: bool,
    work: impl FnOnce() -> T,
) -> T {
    let deadline = deadline.map(|at| (at, End::Late));
    let watch = Watch { deadline, kill_switch: Some(Arc::clone(kill_switch)), needs_client };
    let _before = WatchBefore(WATCH.replace(watch));
    interruptible(is_over, work)
}

/// Does a part of a command that ends at the first of these deadlines as well.
pub(crate) fn until<T>(deadlines: &[(Option<Instant>, End)], work: impl FnOnce() -> T) -> T {
    let mut watch = WATCH.with_borrow(Watch::clone);
    let added = deadlines.iter().filter_map(|(at, end)| Some((at.as_ref().copied()?, *end)));
    watch.deadline = watch.deadline.into_iter().chain(added).min_by_key(|(at, _)| *at);
    let _before = WatchBefore(WATCH.replace(watch));
    work()
}

/// Also after a panic the thread is watched as it was before.
struct WatchBefore(Watch);

impl Drop for WatchBefore {
    fn drop(&mut self) {
        WATCH.set(std::mem::take(&mut self.0));
    }
}

/// Notes how long the command of this thread has waited for events.
pub(crate) fn note_waited(time: Duration) {
    WAITED.set(WAITED.get() + time);
}

/// Returns how long the commands of this thread have waited for events since [`take_waited`].
pub(crate) fn waited() -> Duration {
    WAITED.get()
}

/// Returns how long the commands of this thread have waited for events since the last call: that
/// time says nothing about the server.
pub(crate) fn take_waited() -> Duration {
    WAITED.take()
}

/// The longest pause between two looks at what is waited for.
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Waits until `look` returns something, for what others hold for the time of a command.
///
/// # Errors
/// Interrupted.
pub(crate) fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> flagstone::Result<T> {
    let mut pause = Duration::from_micros(50);
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        interrupt_check()?;
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_each_cause_and_the_next_one_none() {
        let kill_switch = Arc::new(KillSwitch::default());
        for cause in [Cause::Killed, Cause::Stopped] {
            kill_switch.set(cause);
            assert_eq!(watched(None, &kill_switch, false, end), Some(End::Told(cause)));
            kill_switch.reset();
            assert_eq!(watched(None, &kill_switch, false, end), None);
        }
    }

    /// A server that stopped closed the reading half of each connection, took the clients for gone,
    /// and ended their commands with Interrupted, which no driver tries again.
    #[test]
    fn no_client_is_gone_because_the_server_stops() {
        let stops = Arc::new(AtomicBool::new(true));
        let kill_switch = Arc::new(KillSwitch::new(&stops));
        let ends = || {
            std::thread::sleep(LOOK);
            assert_eq!(end(), None);
            stops.store(false, Ordering::Release);
            assert_eq!(end(), Some(End::Gone));
        };
        connected(|| true, || watched(None, &kill_switch, true, ends));
    }
}
