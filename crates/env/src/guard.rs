//! The guard of a held directory: it tells when the path no longer leads there.
//!
//! A path is only a name. While a database is open somebody may move its directory, remove it, or
//! put another one in its place, and may remove the lock file, which lets another process in. A
//! held directory is reached by itself and not by its path (see
//! [`Disk::hold`](crate::Disk::hold)), so nothing is written elsewhere; the guard makes its holder
//! say so.

use crate::forks::Origin;
use flagstone_base::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of appends per check. A check costs two system calls, an append to the log only one.
const APPENDS_BETWEEN_LOOKS: u32 = 256;

type Look = Box<dyn Fn() -> Option<String> + Send + Sync>;
type Tell = Box<dyn Fn(&Error) + Send + Sync>;

/// The guard of a held directory.
pub struct DirGuard {
    path: PathBuf,
    origin: Origin,
    look: Look,
    appends: AtomicU32,
    lost: OnceLock<Error>,
    tell: OnceLock<Tell>,
}

impl DirGuard {
    /// A guard of the directory that was at `path`. `look` says what has become of it, if it or its
    /// lock is not there any more.
    pub(crate) fn new(
        path: PathBuf,
        look: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let (lost, tell) = (OnceLock::new(), OnceLock::new());
        let origin = Origin::here();
        Self { path, origin, look: Box::new(look), appends: AtomicU32::new(0), lost, tell }
    }

    /// Returns whether this process was forked after the directory was opened. It has no lock then:
    /// only its parent may write.
    #[inline]
    pub fn is_forked(&self) -> bool {
        !self.origin.is_here()
    }

    /// Refuses a process that was forked after the directory was opened.
    ///
    /// # Errors
    /// Forked.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        if self.is_forked() { Err(self.forked()) } else { Ok(()) }
    }

    #[cold]
    fn forked(&self) -> Error {
        let path = self.path.display();
        let text = format!(
            "{path}: this process was forked after the directory was opened: only its parent can \
             use it"
        );
        Error::new(ErrorKind::Forked, text)
    }

    /// Looks whether the path still leads to the directory, and its lock file is still the one that
    /// was locked. Once it does not, it never does again.
    ///
    /// # Errors
    /// Io when the directory or its lock file was moved, removed or replaced; Forked in a
    /// process that was forked since.
    pub fn check(&self) -> Result<()> {
        self.check_process()?;
        if let Some(lost) = self.lost.get() {
            return Err(lost.clone());
        }
        let Some(found) = (self.look)() else { return Ok(()) };
        let text = format!(
            "{} is not the directory that was opened any more: {found}",
            self.path.display()
        );
        let lost = Error::new(ErrorKind::Io, text);
        if self.lost.set(lost.clone()).is_ok()
            && let Some(tell) = self.tell.get()
        {
            tell(&lost);
        }
        Err(self.lost.get().cloned().unwrap_or(lost))
    }

    /// As [`DirGuard::check`], but looks only once in 256 appends. A forked process is refused at
    /// each.
    #[inline]
    pub(crate) fn check_at_append(&self) -> Result<()> {
        match self.appends.fetch_add(1, Ordering::Relaxed) % APPENDS_BETWEEN_LOOKS {
            0 => self.check(),
            _ => self.check_process(),
        }
    }

    /// Registers the one function that is called when the directory is lost, in the thread that
    /// finds out.
    pub fn on_lost(&self, tell: impl Fn(&Error) + Send + Sync + 'static) {
        let _first = self.tell.set(Box::new(tell));
        if let (Some(lost), Some(tell)) = (self.lost.get(), self.tell.get()) {
            tell(lost);
        }
    }
}
