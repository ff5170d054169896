//! The directory of the demo's database, and its removal.

use super::steps::{COLLECTION, PASSING};
use crate::failure::Failure;
use crate::output::note;
use flagstone::internal::env::names::{CURRENT, LOCK, Name, parse};
use flagstone::internal::env::{Disk, LockMode, OsDisk};
use flagstone::report::KeyspaceInfo;
use flagstone::{Database, ErrorKind};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A directory that the demo may fill.
pub(super) struct Directory {
    path: PathBuf,
    keeps: bool,
}

const DEFAULT: &str = "flagstone-demo";

impl Directory {
    /// Chooses the wanted directory, or `./flagstone-demo`. A directory that holds anything else
    /// than what a killed demo has left is refused.
    pub(super) fn choose(wanted: Option<&Path>, keeps: bool) -> Result<Self, Failure> {
        let path = wanted.map_or_else(|| Path::new(".").join(DEFAULT), Path::to_owned);
        let refused = |doing, error: io::Error| Failure::io(doing, &path, &error);
        match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused("read", error)),
            Ok(entries) => {
                let entries = entries.collect::<io::Result<Vec<_>>>();
                let entries = entries.map_err(|error| refused("read", error))?;
                let is_ours = |entry: &fs::DirEntry| {
                    !matches!(parse(&entry.file_name().to_string_lossy()), Name::Foreign)
                };
                let may_go = wanted.is_none() && entries.iter().all(is_ours);
                if !entries.is_empty() && !may_go {
                    let path = path.display();
                    let text = format!("{path} is not empty: name another directory by --dir");
                    return Err(Failure::Usage(text));
                }
                // Without this file nothing was ever in it.
                if path.join(CURRENT).exists() {
                    check_of_demo(&path)?;
                }
                // A demo that runs keeps its database.
                let lock = path.join(LOCK);
                let locked = lock.exists().then(|| OsDisk.lock(&lock, LockMode::Exclusive));
                let _locked = locked.transpose()?;
                fs::remove_dir_all(&path).map_err(|error| refused("remove", error))?;
            }
        }
        Ok(Self { path, keeps })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the database stays.
    pub(super) const fn keeps(&self) -> bool {
        self.keeps
    }

    /// Removes the directory, unless it is to be kept.
    pub(super) fn leave(self) -> Result<(), Failure> {
        let path = self.path.display();
        if self.keeps {
            note(&format!("the database is left in {path}: try `flagstone serve {path}`"));
            return Ok(());
        }
        note(&format!("{path} is removed again; --keep leaves it"));
        fs::remove_dir_all(&self.path).map_err(|error| Failure::io("remove", &self.path, &error))
    }
}

/// Refuses a database with more than what a demo has put there.
fn check_of_demo(path: &Path) -> Result<(), Failure> {
    let instead = "name another directory by --dir, or remove this one yourself";
    let database = Database::builder(path).open_read_only().map_err(|error| {
        let text = format!("a database that may not be an earlier demo's: {instead}");
        if error.kind() == ErrorKind::Busy { error } else { error.context(text) }
    })?;
    let is_of_demo = |info: &KeyspaceInfo| {
        [COLLECTION, PASSING, "flagstone.loads"].contains(&info.name.as_str())
            || info.owner.as_deref() == Some(COLLECTION)
    };
    let known = database.keyspaces();
    database.close()?;
    let path = path.display();
    // Nothing is kept that is empty.
    if !known.is_empty() && !known.iter().any(|info| info.name == PASSING) {
        return Err(Failure::Usage(format!("the database in {path} was kept: {instead}")));
    }
    match known.into_iter().find(|info| !is_of_demo(info)) {
        None => Ok(()),
        Some(other) => {
            let more = format!("has more than an earlier demo's documents ({:?})", other.name);
            Err(Failure::Usage(format!("{path} {more}: {instead}")))
        }
    }
}

/// The bytes of all files in `path`.
pub(super) fn bytes_in(path: &Path) -> io::Result<u64> {
    fs::read_dir(path)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
