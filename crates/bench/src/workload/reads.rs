//! Gets of records that are all there, or of keys that are not, over a filled store: compacted and
//! warm, or as it was written.

use super::Stage;
use super::fill::{Asked, FilledStore};
use super::options::{Setup, Workload, check_filled, check_reads};
use crate::engine::Outcome;
use crate::options::records;
use crate::record::Summary;
use clap::Args;
use serde::Serialize;

/// What a trial of gets is.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GetsOptions {
    #[arg(skip = Asked::Present)]
    #[serde(skip)]
    pub asked: Asked,
    /// Records put, compacted and read once before the clock starts; a million of 1 KiB are twice
    /// as much as the default memory, of which 350,000 fit the cache
    #[arg(long, value_name = "N", default_value_t = 350_000, value_parser = records())]
    pub records: u64,
    /// Starts the clock after the last put: nothing is flushed, compacted or read before
    #[arg(long)]
    pub as_written: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
}

impl Workload for GetsOptions {
    fn name(&self) -> &'static str {
        match self.asked {
            Asked::Present => "cached-get",
            Asked::Absent => "absent-get",
        }
    }

    fn setup(&mut self) -> &mut Setup {
        &mut self.setup
    }

    fn check(&self) -> Result<(), String> {
        check_reads(&self.setup.pace)?;
        check_filled(&self.setup.data, self.records)
    }

    /// Fills a store, compacts it and reads every record once unless it is to stay as written, and
    /// then measures random gets.
    fn run(&self, stage: &Stage<'_>) -> Outcome<Summary> {
        self.check()?;
        let Setup { data, pace, .. } = &self.setup;
        let (filled, state) =
            FilledStore::ready(stage, &self.setup, self.records, self.as_written)?;
        let mut recorder = stage.record(self.name(), &filled.opened, self.describe(), &state)?;
        let workers = filled.gets(data).random(self.asked, pace.threads);
        recorder.run(&*filled.opened.engine, pace, workers)?;
        recorder.figure("fill_ops_per_s", filled.worked.ops_per_s());
        stage.finish(filled.opened, recorder)
    }
}
