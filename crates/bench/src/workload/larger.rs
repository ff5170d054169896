//! Gets over a store that is larger than the memory it is given, beside what the device can do.
//!
//! The page cache is kept out: every file is synced and dropped from it before a trial, and dropped
//! again every 50 ms while it runs. Part of the gets is served by the cache of the engine, which is
//! part of its memory; so what is set beside the device are the blocks that were not in it. Whether
//! those came from the device is told by the bytes that the kernel had it read for this process.

use super::device::{DeviceFile, measure_reads};
use super::fill::{FilledStore, unwatched};
use super::options::{check_filled, describe_filled};
use super::page_cache::kept_out;
use super::reads::Asked;
use super::{DataOptions, Stage, StoreOptions};
use crate::engine::{Engine, Outcome};
use crate::record::{Described, Summary};
use crate::run::{Pace, work};
use crate::sample::ProcessSample;
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
    /// Bytes of a block before compression, one store each; `None` leaves them to the engine.
    pub blocks: Vec<Option<usize>>,
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
            blocks: vec![Some(4 << 10), Some(16 << 10)],
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
    pub fn describe(&self, block_bytes: Option<usize>, pace: &Pace) -> Described {
        let store = StoreOptions { block_bytes, ..self.store.clone() };
        let mut options = describe_filled(&store, &self.data, pace, self.records());
        options.insert("times".into(), self.times.into());
        options.insert(
            "page-cache".into(),
            "dropped before and every 50 ms; gets for as long before the clock starts".into(),
        );
        options
    }
}

/// One finished trial.
#[derive(Clone, Debug, PartialEq)]
pub struct LargerCell {
    /// Bytes of a block before compression, where they were not left to the engine.
    pub block_bytes: Option<usize>,
    /// Threads.
    pub threads: usize,
    /// How it went.
    pub summary: Summary,
}

/// The file that the device is measured by is as large as the store, within these.
const DEVICE_FILE_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=2 << 30;
/// A read of the device beside an engine that tells nothing of its blocks.
const USUAL_BLOCK: usize = 4 << 10;

/// Fills a store for each size of blocks, compacts it, and measures random gets with each number of
/// threads, workload `larger`, one result file each as `out` names it.
///
/// Just before each trial the device is read by as many threads in blocks of `stored_block_bytes`,
/// rounded up to pages of 4 KiB. Figures: `device_reads_per_s`, `gets_of_device` (gets by the device's
/// reads), `device_read_bytes_per_get`, and where the engine tells of its cache,
/// `stored_block_bytes` (the mean, as stored), `misses_per_s` (blocks that were not in the cache),
/// `of_device` (these by the device's reads), `device_read_bytes_per_miss` (a block and the pages that it
/// cuts, unless the page cache had some).
///
/// # Errors
/// What the engine says; a wrong value; or where the page cache cannot be kept out.
pub fn run_larger(
    stage: &Stage<'_>,
    what: &LargerOptions,
    out: &dyn Fn(&str) -> Option<PathBuf>,
) -> Outcome<Vec<LargerCell>> {
    let (data, records) = (&what.data, what.records());
    check_filled(data, records)?;
    let mut cells = Vec::new();
    for &block_bytes in &what.blocks {
        let store = StoreOptions { block_bytes, ..what.store.clone() };
        let filled = FilledStore::compacted(stage, &store, data, records)?;
        let stored_block = stored_block_bytes(&*filled.opened.engine)?;
        let (least, most) = DEVICE_FILE_BYTES.into_inner();
        let bytes = records * (data.key_bytes + data.value_bytes) as u64;
        let file = DeviceFile::filled(stage.dir, bytes.clamp(least, most))?;
        let name = block_bytes.map_or("own".into(), |bytes| bytes.to_string());
        for &threads in &what.threads {
            let path = out(&format!("larger-{}-b{name}-t{threads}", stage.engine));
            let stage = Stage { out: path.as_deref(), ..*stage };
            let trial = Trial { what, block_bytes, stored_block, threads, filled: &filled };
            cells.push(LargerCell { block_bytes, threads, summary: trial.run(&stage, &file)? });
        }
        drop(file);
        filled.opened.engine.close()?;
        if !stage.keep {
            filled.opened.place.remove()?;
        }
    }
    Ok(cells)
}

/// One size of blocks, one number of threads.
#[derive(Clone, Copy)]
struct Trial<'a> {
    what: &'a LargerOptions,
    block_bytes: Option<usize>,
    stored_block: Option<f64>,
    threads: usize,
    filled: &'a FilledStore,
}

impl Trial<'_> {
    fn run(&self, stage: &Stage<'_>, file: &DeviceFile) -> Outcome<Summary> {
        let Self { what, block_bytes, stored_block, threads, filled } = *self;
        let given = block_bytes.unwrap_or(USUAL_BLOCK);
        let device_block = stored_block.map_or(given, |bytes| bytes.ceil() as usize);
        let device = measure_reads(file, device_block, threads, what.device_time)?;
        let pace = Pace { threads, closing_sync: false, ..what.pace };
        let (opened, engine) = (&filled.opened, &*filled.opened.engine);
        let options = what.describe(block_bytes, &pace);
        let state = filled.state("compacted, page cache empty");
        let mut recorder = stage.record("larger", opened, &options, &state)?;
        let workers = || filled.gets(&what.data).random(Asked::Present, threads);
        let seen = || (ProcessSample::now().read_bytes, engine.gauges().cache_misses);
        let (worked, before, after) = kept_out(&opened.place.data(), || {
            // As long as the trial: the clock starts with every engine's cache full of what is asked for.
            let warming = Pace { length: pace.length, ..unwatched(threads) };
            work(&warming, workers(), &mut |_, _| Ok(()))?;
            let before = seen();
            Ok((recorder.run(engine, &pace, workers())?, before, seen()))
        })?;
        let read = after.0.saturating_sub(before.0) as f64;
        let of_device = |per_s: f64| per_s / device.per_s.max(1e-9);
        recorder.figure("device_reads_per_s", device.per_s);
        recorder.figure("gets_of_device", of_device(worked.ops as f64 / worked.seconds.max(1e-9)));
        recorder.figure("device_read_bytes_per_get", read / worked.ops.max(1) as f64);
        if let (Some(before), Some(after)) = (before.1, after.1) {
            let misses = after.saturating_sub(before) as f64;
            let per_s = misses / worked.seconds.max(1e-9);
            recorder.figure("misses_per_s", per_s);
            recorder.figure("of_device", of_device(per_s));
            recorder.figure("device_read_bytes_per_miss", read / misses.max(1.0));
        }
        if let Some(bytes) = stored_block {
            recorder.figure("stored_block_bytes", bytes);
        }
        recorder.finish()
    }
}

/// The mean block of all tables as stored, the indexes' share included, where the engine tells of its
/// cache: a scan of everything looks for every block in it once.
fn stored_block_bytes(engine: &dyn Engine) -> Outcome<Option<f64>> {
    let lookups = || {
        let gauges = engine.gauges();
        Some(gauges.cache_hits? + gauges.cache_misses?)
    };
    let Some(before) = lookups() else { return Ok(None) };
    engine.scan(&[], usize::MAX, &mut |_, _| {})?;
    let blocks = lookups().map_or(0, |after| after.saturating_sub(before));
    let bytes: u64 = engine.gauges().level_bytes.iter().sum();
    Ok((blocks > 0 && bytes > 0).then(|| bytes as f64 / blocks as f64))
}
