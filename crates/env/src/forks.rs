//! What a child of a fork must not do with what it inherits.
//!
//! It must not keep locks: the lock of a file belongs to all copies of its descriptor, so a child
//! would hold the locks of its parent after the parent's death. And without the lock it must not
//! write: each child counts itself, and whoever was made before compares the count.
//!
//! A child closes these descriptors as its first act, in a handler that the C library calls. Other
//! threads of the parent may have held any lock at the fork, so the handler takes none, and nothing
//! here waits for another thread: the list consists of links that are set once and never freed. A
//! child that replaces its program needs no handler, since that closes every descriptor.
//!
//! A descriptor is registered only after it was opened. A fork between the two would give the child
//! a copy that it does not know of. So forks are counted when they begin and when they have ended,
//! and what was opened beside one is closed and opened again, before it is locked.
//!
//! A child that was forked while its parent had a database open can open none itself: the list of
//! waiting threads, which all locks share, has threads that the child lacks, at addresses that are
//! used again. So it is refused. Beside no database there are only threads that wait for none of
//! these locks, and each process has its own copy of what they share ([`OfProcess`]).

use flagstone_base::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// The descriptor of a link that is free.
const FREE: RawFd = -1;
/// So often a file is opened again because the process was forked meanwhile, and so long after each
/// time. Whoever forks all the time after that gets children that know nothing of the descriptor.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);

/// A descriptor that a child of a fork closes, until this is dropped.
pub(crate) struct ClosedInChild {
    link: &'static Link,
}

struct Link {
    descriptor: AtomicI32,
    next: Next,
}

/// Where the next link is set, once. Not a `OnceLock`: in the child of a fork that came while
/// another thread was setting it, the next one to use it would wait for ever.
struct Next(AtomicPtr<Link>);

static FIRST: Next = Next::new();

/// The number of forks between the first process of this program and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The forks of this process that have begun, and those that have ended.
static BEGUN: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicU32 = AtomicU32::new(0);

/// How many databases have threads now.
static WITH_THREADS: AtomicUsize = AtomicUsize::new(0);

/// This process, or one between the first and this one, was forked beside an open database.
static IS_CUT_OFF: AtomicBool = AtomicBool::new(false);

/// Refuses a process that was forked while a database was open.
///
/// # Errors
/// Forked.
pub(crate) fn check_may_open() -> Result<()> {
    if !IS_CUT_OFF.load(Ordering::Relaxed) {
        return Ok(());
    }
    let text = "this process was forked while its parent had a database open, so it can open \
                none: fork before the first open or after the last close, or start a new program \
                (in Python: the spawn method of multiprocessing)";
    Err(Error::new(ErrorKind::Forked, text))
}

/// Until this is dropped, children of forks lack threads that they would wait for.
pub(crate) struct HasThreads(());

impl HasThreads {
    pub(crate) fn new() -> Self {
        handler::register();
        WITH_THREADS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for HasThreads {
    fn drop(&mut self) {
        WITH_THREADS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A static value of which each process has its own. A child does not touch the value of its
/// parent, which a thread may have locked.
pub(crate) struct OfProcess<T: 'static>(AtomicPtr<(Origin, T)>);

impl<T: Default + Send + Sync> OfProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    #[expect(unsafe_code, reason = "a reference that may be set while others read it")]
    pub(crate) fn get(&self) -> &'static T {
        let here = Origin::here();
        let mut old = self.0.load(Ordering::Acquire);
        loop {
            // SAFETY: only this function sets it, to values that are never freed.
            if let Some((_, value)) = unsafe { old.as_ref() }.filter(|(made, _)| *made == here) {
                return value;
            }
            // Whoever is second leaves a value that is never used.
            let new = Box::leak(Box::new((here, T::default())));
            match self.0.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_old) => return &new.1,
                Err(first) => old = first,
            }
        }
    }
}

/// The process in which something was made. The number of a process would not do: it is given
/// again, and a child that is the first of its namespace has the same as any other such one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin(u32);

impl Origin {
    /// This process.
    pub(crate) fn here() -> Self {
        handler::register();
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Returns false in the children of forks after that.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

impl ClosedInChild {
    /// Calls `open`, and has the children of forks close the descriptor that it returns, also of
    /// one that another thread begins meanwhile: then it is called again.
    pub(crate) fn open<T: AsFd, E>(open: impl Fn() -> Result<T, E>) -> Result<(Self, T), E> {
        handler::register();
        let mut tries = TRIES;
        loop {
            let ended = ENDED.load(Ordering::SeqCst);
            let opened = open()?;
            let closed_in_child = Self::new(opened.as_fd());
            // Equal only if no fork was under way then, and none has begun since.
            tries -= 1;
            if BEGUN.load(Ordering::SeqCst) == ended || tries == 0 {
                return Ok((closed_in_child, opened));
            }
            drop((closed_in_child, opened));
            std::thread::sleep(PAUSE);
        }
    }

    /// Has the children of forks that begin from now on close `descriptor`.
    fn new(descriptor: BorrowedFd<'_>) -> Self {
        Self { link: FIRST.claim(descriptor.as_raw_fd()) }
    }
}

impl Drop for ClosedInChild {
    fn drop(&mut self) {
        self.link.descriptor.store(FREE, Ordering::Release);
    }
}

impl Next {
    const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    #[expect(unsafe_code, reason = "a reference that may be set while others read it")]
    fn get(&self) -> Option<&'static Link> {
        // SAFETY: only `get_or_make` sets it, to a link that is never freed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Returns a link for `descriptor` alone: a free one from here on, or a new one at the end.
    fn claim(&'static self, descriptor: RawFd) -> &'static Link {
        let mut place = self;
        loop {
            let link = place.get_or_make();
            let taken = link.descriptor.compare_exchange(
                FREE,
                descriptor,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            if taken.is_ok() {
                return link;
            }
            place = &link.next;
        }
    }

    #[expect(unsafe_code, reason = "a box that may be given away")]
    fn get_or_make(&self) -> &'static Link {
        loop {
            if let Some(link) = self.get() {
                return link;
            }
            let new = Link { descriptor: AtomicI32::new(FREE), next: Self::new() };
            let (none, new) = (std::ptr::null_mut(), Box::into_raw(Box::new(new)));
            if self.0.compare_exchange(none, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: another thread was first, so nobody knows this box.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

#[cfg(miri)]
mod handler {
    //! Miri knows no forks.

    pub(super) fn register() {}
}

#[cfg(not(miri))]
mod handler {
    //! `pthread_atfork`, which neither `std` nor `rustix` offers. A child that is made without the
    //! `fork` of the C library, by `clone` or `_Fork`, runs no handler.
    #![expect(unsafe_code, reason = "calls without a safe wrapper")]

    use super::{BEGUN, ENDED, FIRST, FORKS, FREE, IS_CUT_OFF, WITH_THREADS};
    use std::sync::atomic::{AtomicBool, Ordering};

    pub(super) fn register() {
        // Not a `Once`, as `Next` is no `OnceLock`. Two threads may both register the handlers,
        // which may run twice.
        static REGISTERED: AtomicBool = AtomicBool::new(false);
        if REGISTERED.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: the handlers take no lock, allocate nothing, and live as long as the program. If
        // they are refused, a child keeps the locks until it ends, and takes itself for its parent.
        unsafe { libc::pthread_atfork(Some(begin), Some(end), Some(begin_in_child)) };
        REGISTERED.store(true, Ordering::Release);
    }

    extern "C" fn begin() {
        BEGUN.fetch_add(1, Ordering::SeqCst);
    }

    /// Called in the parent, also if the fork has failed.
    extern "C" fn end() {
        ENDED.fetch_add(1, Ordering::SeqCst);
    }

    extern "C" fn begin_in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        // The forks that other threads of the parent have begun do not end here.
        ENDED.store(BEGUN.load(Ordering::SeqCst), Ordering::SeqCst);
        let mut is_cut_off = WITH_THREADS.load(Ordering::SeqCst) > 0;
        let mut next = FIRST.get();
        while let Some(link) = next {
            let descriptor = link.descriptor.swap(FREE, Ordering::AcqRel);
            if descriptor != FREE {
                is_cut_off = true;
                // SAFETY: whoever registered the descriptor closes it only in the parent.
                unsafe { libc::close(descriptor) };
            }
            next = link.next.get();
        }
        IS_CUT_OFF.fetch_or(is_cut_off, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two threads that made a link for the same place, the second leaked its own.
    #[test]
    fn threads_that_register_at_once_have_a_link_each() {
        static LIST: Next = Next::new();
        let rounds = if cfg!(miri) { 5 } else { 500 };
        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || {
                    for first in (0..rounds).map(|round| thread * 10_000 + round * 4) {
                        let own = first..first + 4;
                        let links: Vec<&Link> = own.clone().map(|own| LIST.claim(own)).collect();
                        std::thread::yield_now();
                        for (own, link) in own.zip(links) {
                            assert_eq!(link.descriptor.swap(FREE, Ordering::AcqRel), own);
                        }
                    }
                });
            }
        });
        let mut links = std::iter::successors(LIST.get(), |link| link.next.get());
        assert!(links.all(|link| link.descriptor.load(Ordering::Relaxed) == FREE));
    }
}
