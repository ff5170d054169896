//! The directory of a store that a benchmark makes, and the mark that lets a later one remove it.

use crate::engine::Outcome;
use flagstone::env::names::LOCK;
use flagstone::env::{Disk, LockMode, OsDisk};
use std::fs;
use std::path::{Path, PathBuf};

/// A file that says: what is here was made by a benchmark, and may be removed by one.
const MARK: &str = "FLAGSTONE-BENCH-STORE";
const MARK_TEXT: &str = "Made by flagstone-bench, which removes this directory when it needs it.\n";

/// A directory with our mark and, below it, the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreDir {
    dir: PathBuf,
}

impl StoreDir {
    /// An empty store in `dir`: what an earlier benchmark left there is removed.
    ///
    /// # Errors
    /// When `dir` holds anything else; or what the file system says.
    pub fn fresh(dir: &Path) -> Outcome<Self> {
        Self::check(dir)?;
        if dir.exists() {
            // Not from under a benchmark that runs.
            let lock = dir.join("data").join(LOCK);
            let locked = lock.exists().then(|| OsDisk.lock(&lock, LockMode::Exclusive));
            let _locked = locked.transpose()?;
            fs::remove_dir_all(dir)?;
        }
        fs::create_dir_all(dir)?;
        fs::write(dir.join(MARK), MARK_TEXT)?;
        let made = Self { dir: dir.to_owned() };
        fs::create_dir(made.data())?;
        Ok(made)
    }

    /// Refuses a directory that holds what no benchmark made.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn check(dir: &Path) -> Result<(), String> {
        let is_empty = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
        if !dir.exists() || is_empty || dir.join(MARK).is_file() {
            return Ok(());
        }
        let dir = dir.display();
        Err(format!("{dir} is there and was not made by a benchmark: name another directory"))
    }

    /// The one that a benchmark has left in `dir`.
    ///
    /// # Errors
    /// When there is none.
    pub fn existing(dir: &Path) -> Outcome<Self> {
        if dir.join(MARK).is_file() {
            return Ok(Self { dir: dir.to_owned() });
        }
        Err(format!("{}: expected the directory of a benchmark's store", dir.display()).into())
    }

    /// Where the engine's files go; it exists.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Removes it and all that is below.
    ///
    /// # Errors
    /// What the file system says.
    pub fn remove(self) -> Outcome<()> {
        Ok(fs::remove_dir_all(self.dir)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_benchmark_made_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("a/store");
        let store = StoreDir::fresh(&dir).unwrap();
        fs::write(store.data().join("x"), "x").unwrap();
        let again = StoreDir::fresh(&dir).unwrap();
        assert_eq!(fs::read_dir(again.data()).unwrap().count(), 0);
        again.remove().unwrap();
        assert!(!dir.exists());

        let foreign = place.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        StoreDir::fresh(&foreign).unwrap().remove().unwrap();
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("dear.txt"), "x").unwrap();
        let refused = StoreDir::fresh(&foreign).unwrap_err().to_string();
        assert!(refused.contains("name another directory"), "{refused}");
        assert!(foreign.join("dear.txt").exists());
    }
}
