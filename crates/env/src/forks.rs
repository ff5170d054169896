//! What a child of a fork must not do with what it inherits.
//!
//! It must not keep locks: the lock of a file belongs to all copies of its descriptor, so a child
//! would hold the locks of its parent after the parent's death. And without the lock it must not
//! write: each child counts itself, and whoever was made before compares the count.
//!
//! A child closes these descriptors as its first act, in a handler that the C library calls. Other
//! threads of the parent may have held any lock at the fork, so the handler takes none: the list
//! consists of links that are set once and never freed. A child that replaces its program needs no
//! handler, since that closes every descriptor.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// The descriptor of a link that is free.
const FREE: RawFd = -1;

/// A descriptor that a child of a fork closes, until this is dropped.
pub(crate) struct ClosedInChild {
    link: &'static Link,
}

struct Link {
    descriptor: AtomicI32,
    next: Next,
}

type Next = OnceLock<&'static Link>;

static FIRST: Next = Next::new();

/// The number of forks between the first process of this program and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which something was made. The number of a process would not do: it is given
/// again, and a child that is the first of its namespace has the same as any other such one.
#[derive(Clone, Copy)]
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
    /// Has the children of forks close `descriptor` from now on.
    pub(crate) fn new(descriptor: BorrowedFd<'_>) -> Self {
        handler::register();
        let descriptor = descriptor.as_raw_fd();
        let mut place = &FIRST;
        loop {
            let link = *place.get_or_init(|| {
                let next = Next::new();
                Box::leak(Box::new(Link { descriptor: AtomicI32::new(FREE), next }))
            });
            let taken = link.descriptor.compare_exchange(
                FREE,
                descriptor,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if taken.is_ok() {
                return Self { link };
            }
            place = &link.next;
        }
    }
}

impl Drop for ClosedInChild {
    fn drop(&mut self) {
        self.link.descriptor.store(FREE, Ordering::Release);
    }
}

#[cfg(miri)]
mod handler {
    //! Miri knows no forks.

    pub(super) fn register() {}
}

#[cfg(not(miri))]
mod handler {
    //! `pthread_atfork`, which neither `std` nor `rustix` offers.
    #![expect(unsafe_code, reason = "calls without a safe wrapper")]

    use super::{FIRST, FORKS, FREE};
    use std::sync::Once;
    use std::sync::atomic::Ordering;

    pub(super) fn register() {
        static REGISTERED: Once = Once::new();
        // SAFETY: the handler takes no lock, allocates nothing, and lives as long as the program.
        // If it is refused, a child keeps the locks until it ends, and takes itself for its parent.
        REGISTERED.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(begin_in_child));
        });
    }

    extern "C" fn begin_in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        let mut next = FIRST.get();
        while let Some(link) = next {
            let descriptor = link.descriptor.swap(FREE, Ordering::AcqRel);
            if descriptor != FREE {
                // SAFETY: whoever registered the descriptor closes it only in the parent.
                unsafe { libc::close(descriptor) };
            }
            next = link.next.get();
        }
    }
}
