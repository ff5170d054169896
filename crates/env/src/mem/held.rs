//! A held directory of the disk in memory.

use super::names::{DirId, Names, SharedInode};
use super::state::DiskState;
use crate::guard::DirGuard;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name and the identity of a locked file.
type Locked = Arc<Mutex<Option<(PathBuf, SharedInode)>>>;

/// A held directory.
#[derive(Clone)]
pub(super) struct MemHeld {
    /// The path that led to it.
    pub(super) path: PathBuf,
    id: DirId,
    pub(super) guard: Arc<DirGuard>,
    locked: Locked,
}

impl MemHeld {
    /// Holds the directory `id`, which is at `path`.
    pub(super) fn new(path: &Path, id: DirId, state: &Arc<Mutex<DiskState>>) -> Self {
        let (locked, looked_at) = (Locked::default(), Arc::downgrade(state));
        let (dir, lock) = (path.to_owned(), Arc::clone(&locked));
        let look = move || {
            let state = looked_at.upgrade()?;
            let names = &state.lock().names;
            match names.dir_at(&dir) {
                Some(found) if found == id => {}
                Some(_) => return Some("another one is at its path".to_owned()),
                None => return Some("it was moved or removed".to_owned()),
            }
            let locked = lock.lock();
            let (path, file) = locked.as_ref()?;
            let is_same = names.get(path).is_some_and(|found| Arc::ptr_eq(found, file));
            (!is_same).then(|| "its lock file was removed or replaced".to_owned())
        };
        let guard = Arc::new(DirGuard::new(path.to_owned(), look));
        Self { path: path.to_owned(), id, guard, locked }
    }

    /// The path, now, of what was `path` when the directory was opened; `None` if it is removed.
    pub(super) fn find(&self, names: &Names, path: &Path) -> Option<PathBuf> {
        let now = names.path_of(self.id)?;
        match path.strip_prefix(&self.path) {
            Ok(rest) if !rest.as_os_str().is_empty() => Some(now.join(rest)),
            _ => Some(now.to_owned()),
        }
    }

    /// Notes the file that is locked now, or that none is any more.
    pub(super) fn set_locked(&self, locked: Option<(&Path, &SharedInode)>) {
        *self.locked.lock() = locked.map(|(path, file)| (path.to_owned(), Arc::clone(file)));
    }
}
