//! The names of files: those that a reader sees, those that survive a power cut, and the changes in
//! between.

use super::crash::CrashDecisions;
use super::file::Inode;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) type SharedInode = Arc<Mutex<Inode>>;

#[derive(Clone)]
enum Change {
    Make { path: PathBuf, file: SharedInode },
    Move { from: PathBuf, to: PathBuf, file: SharedInode },
    Remove { path: PathBuf, file: SharedInode },
}

fn dir_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

impl Change {
    fn dirs(&self) -> [&Path; 2] {
        match self {
            Self::Make { path, .. } | Self::Remove { path, .. } => [dir_of(path); 2],
            Self::Move { from, to, .. } => [dir_of(from), dir_of(to)],
        }
    }

    /// Performs the change on `names`, if possible: an existing name is not created again, and a
    /// name is moved or removed only if it still has the same file.
    fn apply(self, names: &mut BTreeMap<PathBuf, SharedInode>) {
        let remove =
            |names: &mut BTreeMap<PathBuf, SharedInode>, path: &Path, file: &SharedInode| {
                if names.get(path).is_some_and(|found| Arc::ptr_eq(found, file)) {
                    names.remove(path);
                }
            };
        match self {
            Self::Make { path, file } => {
                names.entry(path).or_insert(file);
            }
            Self::Move { from, to, file } => {
                remove(names, &from, &file);
                names.insert(to, file);
            }
            Self::Remove { path, file } => remove(names, &path, &file),
        }
    }
}

/// The identity of a directory, whatever its path. No other directory gets it.
pub(super) type DirId = u64;

/// All names of a disk. Directories are durable as soon as they are created.
pub(super) struct Names {
    now: BTreeMap<PathBuf, SharedInode>,
    durable: BTreeMap<PathBuf, SharedInode>,
    pending: Vec<Change>,
    dirs: BTreeMap<PathBuf, DirId>,
    dirs_made: DirId,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self {
            now: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
            dirs: BTreeMap::new(),
            dirs_made: 0,
        };
        ["", "/", "."].into_iter().for_each(|dir| names.make_dir(Path::new(dir)));
        names
    }
}

/// Where `path` is after the directory `from` was renamed to `to`.
fn renamed(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
        Ok(rest) => to.join(rest),
        Err(_) => path.to_owned(),
    }
}

impl Names {
    pub(super) fn get(&self, path: &Path) -> Option<&SharedInode> {
        self.now.get(path)
    }

    pub(super) fn is_dir(&self, path: &Path) -> bool {
        self.dirs.contains_key(path)
    }

    /// The directory that is at `path` now.
    pub(super) fn dir_at(&self, path: &Path) -> Option<DirId> {
        self.dirs.get(path).copied()
    }

    /// Where the directory is now; `None` if it was removed.
    pub(super) fn path_of(&self, dir: DirId) -> Option<&Path> {
        let found = self.dirs.iter().find(|(_, id)| **id == dir);
        found.map(|(path, _)| path.as_path())
    }

    /// Moves a directory with all that is in it, durably.
    pub(super) fn rename_dir(&mut self, from: &Path, to: &Path) {
        let moved = |path: PathBuf| renamed(&path, from, to);
        let all = |names: &mut BTreeMap<PathBuf, SharedInode>| {
            *names = std::mem::take(names).into_iter().map(|(p, file)| (moved(p), file)).collect();
        };
        all(&mut self.now);
        all(&mut self.durable);
        let dirs = std::mem::take(&mut self.dirs).into_iter();
        self.dirs = dirs.map(|(path, id)| (moved(path), id)).collect();
        for change in &mut self.pending {
            match change {
                Change::Make { path, .. } | Change::Remove { path, .. } => {
                    *path = renamed(path, from, to);
                }
                Change::Move { from: old, to: new, .. } => {
                    (*old, *new) = (renamed(old, from, to), renamed(new, from, to));
                }
            }
        }
    }

    /// Removes a directory with all that is in it, durably.
    pub(super) fn remove_dir(&mut self, dir: &Path) {
        self.now.retain(|path, _| !path.starts_with(dir));
        self.durable.retain(|path, _| !path.starts_with(dir));
        self.pending.retain(|change| !change.dirs().iter().any(|at| at.starts_with(dir)));
        self.dirs.retain(|path, _| !path.starts_with(dir));
    }

    pub(super) fn has_room_for(&self, path: &Path) -> bool {
        self.is_dir(dir_of(path))
    }

    fn change(&mut self, change: Change) {
        change.clone().apply(&mut self.now);
        self.pending.push(change);
    }

    pub(super) fn make(&mut self, path: &Path, file: SharedInode) {
        self.change(Change::Make { path: path.to_owned(), file });
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path, file: SharedInode) {
        self.change(Change::Move { from: from.to_owned(), to: to.to_owned(), file });
    }

    pub(super) fn remove(&mut self, path: &Path, file: SharedInode) {
        self.change(Change::Remove { path: path.to_owned(), file });
    }

    pub(super) fn make_dir(&mut self, path: &Path) {
        for dir in path.ancestors() {
            if !self.dirs.contains_key(dir) {
                self.dirs_made += 1;
                self.dirs.insert(dir.to_owned(), self.dirs_made);
            }
        }
    }

    pub(super) fn list(&self, dir: &Path) -> Vec<String> {
        let inside = |path: &&PathBuf| dir_of(path) == dir && path.file_name().is_some();
        let files = self.now.keys().filter(inside);
        let mut names: Vec<String> = files
            .chain(self.dirs.keys().filter(inside))
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect();
        names.sort_unstable();
        names
    }

    /// Makes the changes in `dir` durable, and those in other directories that a move to or from
    /// `dir` depends on.
    pub(super) fn sync_dir(&mut self, dir: &Path) {
        let mut dirs = BTreeSet::from([dir.to_owned()]);
        let mut durable = vec![false; self.pending.len()];
        for (change, durable) in self.pending.iter().zip(&mut durable).rev() {
            if change.dirs().iter().any(|d| dirs.contains(*d)) {
                *durable = true;
                dirs.extend(change.dirs().map(Path::to_owned));
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for (change, durable) in pending.into_iter().zip(durable) {
            if durable {
                change.apply(&mut self.durable);
            } else {
                self.pending.push(change);
            }
        }
    }

    /// Returns the names and files as a power cut would leave them.
    pub(super) fn crash(&self, decisions: &CrashDecisions) -> Self {
        let mut left = self.durable.clone();
        for change in &self.pending {
            if decisions.name_survives() {
                change.clone().apply(&mut left);
            }
        }
        let mut copies = Copies::new(|file| file.crash(decisions));
        let durable: BTreeMap<PathBuf, SharedInode> =
            left.into_iter().map(|(path, file)| (path, copies.of(&file))).collect();
        let (dirs, dirs_made) = (self.dirs.clone(), self.dirs_made);
        Self { now: durable.clone(), durable, pending: Vec::new(), dirs, dirs_made }
    }

    /// Returns an independent copy; unsynced changes stay unsynced.
    pub(super) fn copy(&self) -> Self {
        let mut copies = Copies::new(Inode::clone);
        let mut map = |names: &BTreeMap<PathBuf, SharedInode>| -> BTreeMap<PathBuf, SharedInode> {
            names.iter().map(|(path, file)| (path.clone(), copies.of(file))).collect()
        };
        let (now, durable) = (map(&self.now), map(&self.durable));
        let pending = self.pending.iter().cloned().map(|change| match change {
            Change::Make { path, file } => Change::Make { path, file: copies.of(&file) },
            Change::Remove { path, file } => Change::Remove { path, file: copies.of(&file) },
            Change::Move { from, to, file } => Change::Move { from, to, file: copies.of(&file) },
        });
        let pending = pending.collect();
        Self { now, durable, pending, dirs: self.dirs.clone(), dirs_made: self.dirs_made }
    }
}

/// Copies each file once, however many names it has.
struct Copies<F> {
    copy: F,
    made: HashMap<usize, SharedInode>,
}

impl<F: Fn(&Inode) -> Inode> Copies<F> {
    fn new(copy: F) -> Self {
        Self { copy, made: HashMap::new() }
    }

    fn of(&mut self, file: &SharedInode) -> SharedInode {
        let identity = Arc::as_ptr(file) as usize;
        let made = self.made.entry(identity);
        Arc::clone(made.or_insert_with(|| Arc::new(Mutex::new((self.copy)(&file.lock())))))
    }
}
