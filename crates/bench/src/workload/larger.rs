//! Gets over a store that is larger than the memory it is given, beside what the device can do.
//!
//! The page cache is kept out: every file is synced and dropped from it before a trial, and dropped
//! again every 100 ms while it runs. Whether reads really reach the device is told by the figure
//! `device_read_bytes_per_get`, from the counters of the process.

use super::device::{DeviceFile, measure_reads};
use super::fill::{Fill, state};
use super::page_cache::kept_out;
use super::reads::{Asked, Gets};
use super::{DataOptions, Stage, StoreOptions};
use crate::engine::Outcome;
use crate::record::Summary;
use crate::run::Pace;
use crate::sample::ProcessSample;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct LargerOptions {
    /// How the store is opened; its blocks do not matter.
    pub store: StoreOptions,
    /// Which keys and values; the key space does not matter here.
    pub data: DataOptions,
    /// How long each trial runs; its threads do not matter.
    pub pace: Pace,
    /// Bytes of keys and values as a multiple of the memory.
    pub times: f64,
    /// Bytes of a block, one store each.
    pub blocks: Vec<usize>,
    /// Threads, one trial each.
    pub threads: Vec<usize>,
    /// How long the device itself is measured before each trial.
    pub device_time: Duration,
}

impl Default for LargerOptions {
    /// 4 times 512 MiB, blocks of 4 and 16 KiB, 1 and 32 threads, 20 seconds; the device for 5.
    fn default() -> Self {
        Self {
            store: StoreOptions::default(),
            data: DataOptions::default(),
            pace: Pace::default(),
            times: 4.0,
            blocks: vec![4 << 10, 16 << 10],
            threads: vec![1, 32],
            device_time: Duration::from_secs(5),
        }
    }
}

impl LargerOptions {
    /// Records of the store.
    pub fn records(&self) -> u64 {
        let entry = self.data.key_bytes + self.data.value_bytes;
        (self.store.memory_bytes as f64 * self.times / entry as f64) as u64
    }

    /// All options of one trial by their long names.
    pub fn describe(&self, block_bytes: usize, pace: &Pace) -> BTreeMap<String, Value> {
        let mut options = BTreeMap::new();
        let store = StoreOptions { block_bytes: Some(block_bytes), ..self.store.clone() };
        store.describe(&mut options);
        self.data.describe(&mut options);
        pace.describe(&mut options);
        options.remove("key-space");
        options.insert("times".into(), self.times.into());
        options.insert("records".into(), self.records().into());
        options.insert("page-cache".into(), "dropped before and every 100 ms".into());
        options
    }
}

/// One finished trial.
#[derive(Clone, Debug, PartialEq)]
pub struct LargerCell {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Threads.
    pub threads: usize,
    /// How it went.
    pub summary: Summary,
}

/// Threads that fill a store.
const FILLERS: usize = 4;
/// The file that the device is measured by is as large as the store, within these.
const DEVICE_FILE_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=2 << 30;

/// Fills a store for each size of blocks, compacts it, and measures random gets with each number of
/// threads, workload `larger`, one result file each as `out` names it. Figures:
/// `device_reads_per_s`, `of_device` (gets a second by that), `device_read_bytes_per_get`. The device
/// is read in blocks of `--block-bytes`, which is what a stored block has when values do not compress.
///
/// # Errors
/// What the engine says; a wrong value; or where the page cache cannot be kept out.
pub fn run_larger(
    stage: &Stage<'_>,
    what: &LargerOptions,
    out: &dyn Fn(&str) -> Option<PathBuf>,
) -> Outcome<Vec<LargerCell>> {
    what.data.check()?;
    if what.records() == 0 {
        return Err("a store of 0 records: expected at least 1".into());
    }
    let mut cells = Vec::new();
    for &block_bytes in &what.blocks {
        let store = StoreOptions { block_bytes: Some(block_bytes), ..what.store.clone() };
        let opened = stage.open_fresh(&store)?;
        let values = what.data.make_values();
        let engine = &*opened.engine;
        let (data, records) = (&what.data, what.records());
        Fill { engine, data, values: &values, records, threads: FILLERS }.run()?;
        engine.flush()?;
        engine.compact()?;
        let state = state(records, "compacted, page cache empty", &engine.gauges());
        let (least, most) = DEVICE_FILE_BYTES.into_inner();
        let bytes = records * (data.key_bytes + data.value_bytes) as u64;
        let file = DeviceFile::filled(stage.dir, bytes.clamp(least, most))?;
        for &threads in &what.threads {
            let device = measure_reads(&file, block_bytes, threads, what.device_time)?;
            let pace = Pace { threads, closing_sync: false, ..what.pace };
            let path = out(&format!("larger-{}-b{block_bytes}-t{threads}", stage.engine));
            let stage = Stage { out: path.as_deref(), ..*stage };
            let options = what.describe(block_bytes, &pace);
            let mut recorder = stage.record("larger", &opened, &options, &state)?;
            let gets = Gets { engine, data, values: &values, records };
            let workers = gets.random(Asked::Present, threads);
            let (worked, read) = kept_out(&opened.place.data(), || {
                let before = ProcessSample::now().read_bytes;
                let worked = recorder.run(engine, &pace, workers)?;
                Ok((worked, ProcessSample::now().read_bytes.saturating_sub(before)))
            })?;
            recorder.figure("device_reads_per_s", device.per_s);
            recorder.figure("of_device", worked.ops_per_s() / device.per_s.max(1e-9));
            recorder.figure("device_read_bytes_per_get", read as f64 / worked.ops.max(1) as f64);
            cells.push(LargerCell { block_bytes, threads, summary: recorder.finish()? });
        }
        drop(file);
        opened.engine.close()?;
        if !stage.keep {
            opened.place.remove()?;
        }
    }
    Ok(cells)
}
