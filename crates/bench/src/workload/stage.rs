//! Where a workload runs: the engine, its directory, the result file.

use crate::engine::{Engine, OpenEngine, Outcome};
use crate::run::{Plan, Probe, Recorder, StoreDir, Watch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

use super::StoreOptions;

/// Where a workload runs.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// `flagstone`, `rocksdb`, ...
    pub engine: &'a str,
    /// Opens it.
    pub open: OpenEngine<'a>,
    /// The directory of the store: it must not exist, be empty, or come from an earlier benchmark,
    /// which is removed. It is removed at the end, too.
    pub dir: &'a Path,
    /// The result file; none is written without.
    pub out: Option<&'a Path>,
    /// Sees rows as they come.
    pub watch: Watch<'a>,
    /// Leaves the store where it is.
    pub keep: bool,
}

/// An open store of a stage, and its directory.
pub struct Opened {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Its directory.
    pub place: StoreDir,
}

impl<'a> Stage<'a> {
    /// Opens an empty store.
    ///
    /// # Errors
    /// When the directory is not ours to empty; or what the engine says.
    pub fn open_fresh(&self, options: &StoreOptions) -> Outcome<Opened> {
        let place = StoreDir::fresh(self.dir)?;
        let engine = (self.open)(&options.engine_options(place.data()))?;
        Ok(Opened { engine, place })
    }

    /// Begins the record of a trial over an open store.
    ///
    /// # Errors
    /// When the result file cannot be written.
    pub fn record(
        &self,
        workload: &str,
        opened: &Opened,
        options: &BTreeMap<String, Value>,
        starting_state: &str,
    ) -> Outcome<Recorder<'a>> {
        let mut options = options.clone();
        options.insert("tuning".into(), opened.engine.tuning().into());
        let data = opened.place.data();
        let plan = Plan {
            workload,
            engine: self.engine,
            engine_version: &opened.engine.version(),
            options: &options,
            starting_state,
            dir: &data,
            out: self.out,
        };
        Recorder::begin(&plan, self.watch)
    }

    /// Closes the store, which the record tells, and removes it unless it is to be kept.
    ///
    /// # Errors
    /// What the engine says; or the file system.
    pub fn close(&self, opened: Opened, recorder: &mut Recorder<'_>) -> Outcome<()> {
        let Opened { engine, place } = opened;
        recorder.aside("close", &Probe::NONE, |_| engine.close())?;
        if self.keep { Ok(()) } else { place.remove() }
    }
}
