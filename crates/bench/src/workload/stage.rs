//! Where a workload runs: the engine, its directory, the result file.

use super::Options;
use crate::engine::{Engine, OpenEngine, Outcome};
use crate::options::StoreOptions;
use crate::record::{Described, Header, Summary};
use crate::run::{Probe, Recorder, Watch};
use flagstone::internal::env::names::LOCK;
use flagstone::internal::env::{Disk, LockMode, OsDisk};
use std::fs;
use std::path::{Path, PathBuf};

/// Where a workload runs.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// `flagstone`, `rocksdb`, ...
    pub engine: &'a str,
    /// Opens the engine.
    pub open: OpenEngine<'a>,
    /// The directory of the store: it must not exist, be empty, or come from an earlier benchmark,
    /// which is removed. It is removed at the end, too.
    pub dir: &'a Path,
    /// The result file; `None` writes none.
    pub out: Option<&'a Path>,
    /// Receives each row when it is complete.
    pub watch: Watch<'a>,
    /// Leaves the store in its directory at the end.
    pub keep: bool,
    /// The rate of the trial that this one is compared with, if there is one.
    pub first_ops_per_s: Option<f64>,
}

/// A workload with its options on a stage: one trial.
pub struct Case<'a> {
    /// The name of the workload in its result file.
    pub workload: &'a str,
    pub options: &'a Options,
    /// The options by their long names, as headers show them.
    pub told: Described,
    pub stage: Stage<'a>,
}

impl<'a> Case<'a> {
    /// Begins the record of a trial over an open store.
    pub fn record(&self, opened: &Opened, starting_state: &str) -> Outcome<Recorder<'a>> {
        let mut options = self.told.clone();
        options.insert("tuning".into(), opened.engine.tuning().into());
        let (version, dir) = (opened.engine.version(), opened.place.data());
        self.record_of(self.stage.engine, &version, options, starting_state, &dir)
    }

    /// Begins the record of a trial in `dir` of an engine and its version.
    pub(super) fn record_of(
        &self,
        engine: &str,
        engine_version: &str,
        options: Described,
        starting_state: &str,
        dir: &Path,
    ) -> Outcome<Recorder<'a>> {
        let header = Header {
            workload: self.workload.into(),
            engine: engine.into(),
            engine_version: engine_version.into(),
            options,
            starting_state: starting_state.into(),
            ..Header::default()
        };
        Recorder::begin(header, dir, self.stage.out, self.stage.watch)
    }
}

/// Trials that follow one another on the same store. Their options differ in threads, and in how
/// documents are read or updated.
pub trait Trials {
    /// Runs one of them.
    fn run(&mut self, case: &Case<'_>) -> Outcome<Summary>;

    /// Closes the store, and removes it unless it is to be kept.
    fn end(self: Box<Self>, keep: bool) -> Outcome<()>;
}

/// An open store of a stage, and its directory.
pub struct Opened {
    pub engine: Box<dyn Engine>,
    pub place: StoreDir,
}

impl Stage<'_> {
    /// Opens an empty store. Fails if the directory holds anything that no benchmark created.
    pub fn open_fresh(&self, options: &StoreOptions) -> Outcome<Opened> {
        let place = StoreDir::fresh(self.dir)?;
        let engine = (self.open)(&StoreOptions { dir: place.data(), ..options.clone() })?;
        Ok(Opened { engine, place })
    }

    /// Closes the store and records that, removes the store unless it is to be kept, and ends the
    /// record.
    pub fn finish(&self, opened: Opened, mut recorder: Recorder<'_>) -> Outcome<Summary> {
        let Opened { engine, place } = opened;
        recorder.aside("close", &Probe::NONE, |_| engine.close())?;
        if !self.keep {
            place.remove()?;
        }
        recorder.finish()
    }
}

/// The file that marks a directory as created by a benchmark: a later one may remove it.
const MARK: &str = "FLAGSTONE-BENCH-STORE";
const MARK_TEXT: &str = "Made by flagstone-bench, which removes this directory when it needs it.\n";

/// A directory with the mark and, below it, the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreDir {
    dir: PathBuf,
}

impl StoreDir {
    /// Creates an empty store in `dir`, and removes what an earlier benchmark left there.
    pub fn fresh(dir: &Path) -> Outcome<Self> {
        Self::check(dir)?;
        if dir.exists() {
            // The store of a running benchmark is not removed.
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

    /// Refuses a directory that holds anything that no benchmark created. The error is a text for
    /// users.
    pub fn check(dir: &Path) -> Result<(), String> {
        let is_empty = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
        if !dir.exists() || is_empty || dir.join(MARK).is_file() {
            return Ok(());
        }
        let dir = dir.display();
        Err(format!("{dir} is there and was not made by a benchmark: name another directory"))
    }

    /// The store that a benchmark has left in `dir`.
    pub(super) fn left_in(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The directory of the engine's files. It exists.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Removes the directory.
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
