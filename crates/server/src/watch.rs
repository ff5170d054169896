//! When the command of this thread is to end before it is done.

use flagstone::internal::{interrupt_check, interruptible};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Why a command is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum End {
    /// It has taken its time.
    Late = 1,
    /// Another client has asked for it.
    Killed = 2,
    /// The server stops.
    Stopped = 3,
}

/// Tells a command from another thread that it is to end.
#[derive(Debug, Default)]
pub(crate) struct Bell(AtomicU8);

impl Bell {
    /// Tells it.
    pub(crate) fn ring(&self, end: End) {
        self.0.store(end as u8, Ordering::Release);
    }

    /// Is still, for the next command.
    pub(crate) fn still(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn heard(&self) -> Option<End> {
        match self.0.load(Ordering::Acquire) {
            2 => Some(End::Killed),
            3 => Some(End::Stopped),
            _ => None,
        }
    }
}

/// What ends a command.
#[derive(Clone, Default)]
struct Watch {
    deadline: Option<Instant>,
    bell: Option<Arc<Bell>>,
}

thread_local! {
    static WATCH: RefCell<Watch> = RefCell::new(Watch::default());
}

/// Returns why the command of this thread is to end, if it is.
pub(crate) fn end() -> Option<End> {
    WATCH.with_borrow(|watch| {
        let heard = watch.bell.as_ref().and_then(|bell| bell.heard());
        let is_late = || watch.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        heard.or_else(|| is_late().then_some(End::Late))
    })
}

fn is_over() -> bool {
    end().is_some()
}

/// Runs a command that ends when `deadline` comes or the bell rings: calls of the library return
/// an error of kind Interrupted then.
pub(crate) fn watched<T>(
    deadline: Option<Instant>,
    bell: &Arc<Bell>,
    work: impl FnOnce() -> T,
) -> T {
    /// Also after a panic the thread is watched as it was before.
    struct Before(Watch);
    impl Drop for Before {
        fn drop(&mut self) {
            WATCH.set(std::mem::take(&mut self.0));
        }
    }
    let watch = Watch { deadline, bell: Some(Arc::clone(bell)) };
    let _before = Before(WATCH.replace(watch));
    interruptible(is_over, work)
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
