//! Gets over a store that is larger than the memory it is given, beside what the device can do.
//!
//! The page cache is kept out: every file is synced and dropped from it before a trial, and dropped
//! again every 50 ms while it runs. Part of the gets is served by the cache of the engine, which is
//! part of its memory; so what is set beside the device are the blocks that were not in it. Whether
//! those came from the device is told by the bytes that the kernel had it read for this process.

use super::device::{DeviceFile, measure_reads};
use super::fill::{Asked, FilledStore};
use super::options::{Setup, check_filled, check_reads, describe_filled};
use super::page_cache::kept_out;
use super::stage::{NameFile, Stage};
use crate::engine::{Engine, Outcome};
use crate::options::{Pace, defaults, refuse, seconds, size, threads};
use crate::record::{Described, Latency, OpKind, Summary};
use crate::run::work;
use crate::sample::ProcessSample;
use clap::Args;
use serde::Serialize;
use std::time::Duration;

/// What trials of gets over a store larger than its memory are.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LargerOptions {
    /// Threads of each trial, separated by commas
    #[arg(long, default_value = "1,32", value_delimiter = ',', value_parser = threads())]
    #[serde(skip)]
    pub threads: Vec<usize>,
    /// Bytes of a block, one store each, separated by commas; 0 leaves it to the engine
    #[arg(long, default_value = "4KiB,16KiB", value_delimiter = ',', value_parser = size)]
    #[serde(skip)]
    pub blocks: Vec<usize>,
    /// Bytes of keys and values as a multiple of the memory
    #[arg(long, value_name = "X", default_value_t = 4.0)]
    pub times: f64,
    /// Seconds for which the device itself is measured before each trial
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    #[serde(skip)]
    pub device_seconds: Duration,
    #[command(flatten)]
    #[serde(flatten)]
    pub setup: Setup,
}

impl Default for LargerOptions {
    fn default() -> Self {
        defaults()
    }
}

impl LargerOptions {
    /// Refuses options that cannot be, or that would do nothing. The error is for people.
    pub fn check(&self) -> Result<(), String> {
        let others = "other workloads: larger takes sizes of blocks by --blocks";
        refuse(self.setup.store.block_bytes.is_some(), "--block-bytes", others)?;
        check_reads(&self.setup.pace)?;
        check_filled(&self.setup.data, self.records())
    }

    /// Records of the store.
    fn records(&self) -> u64 {
        let entry = self.setup.data.entry_bytes();
        (self.setup.store.memory_bytes as f64 * self.times / entry as f64) as u64
    }

    /// The setup of one trial. Blocks of 0 bytes are left to the engine.
    fn at(&self, block_bytes: usize, threads: usize) -> Setup {
        let mut setup = self.setup.clone();
        setup.store.block_bytes = Some(block_bytes).filter(|bytes| *bytes > 0);
        setup.pace.threads = threads;
        setup
    }

    /// All options of one trial by their long names.
    pub fn describe(&self, block_bytes: usize, threads: usize) -> Described {
        let mut options =
            describe_filled(&Self { setup: self.at(block_bytes, threads), ..self.clone() });
        options.insert("records".into(), self.records().into());
        options.insert(
            "page-cache".into(),
            "dropped before and every 50 ms; gets for as long before the clock starts".into(),
        );
        options
    }

    /// Fills a store for each size of blocks, compacts it, and measures random gets with each
    /// number of threads, workload `larger`, one result file each.
    ///
    /// Just before each trial the device is read by as many threads in blocks of
    /// `stored_block_bytes`, rounded up to pages of 4 KiB. Figures: `device_reads_per_s`,
    /// `gets_of_device` (gets divided by the device's reads), `device_read_bytes_per_get`, and
    /// where the engine tells of its cache, `stored_block_bytes` (the mean, as stored),
    /// `misses_per_s` (blocks that were not in the cache), `of_device` (these divided by the
    /// device's reads), `device_read_bytes_per_miss` (a block and the pages that it cuts, unless
    /// the page cache had some).
    pub fn run(&self, stage: &Stage<'_>, out: NameFile<'_>) -> Outcome<Vec<LargerCell>> {
        self.check()?;
        let mut cells = Vec::new();
        for &block_bytes in &self.blocks {
            let setup = self.at(block_bytes, 1);
            let filled = FilledStore::compacted(stage, &setup, self.records())?;
            let stored_block = stored_block_bytes(&*filled.opened.engine)?;
            let (least, most) = DEVICE_FILE_BYTES.into_inner();
            let bytes = self.records() * setup.data.entry_bytes();
            let file = DeviceFile::filled(stage.dir, bytes.clamp(least, most))?;
            let block = block_name(block_bytes);
            for &threads in &self.threads {
                let path = out(&format!("larger-{}-b{block}-t{threads}", stage.engine));
                let stage = Stage { out: path.as_deref(), ..*stage };
                let trial =
                    Trial { what: self, block_bytes, stored_block, threads, filled: &filled };
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
}

/// One finished trial.
#[derive(Clone, Debug, PartialEq)]
pub struct LargerCell {
    /// Bytes of a block before compression, 0 where they were left to the engine.
    pub block_bytes: usize,
    pub threads: usize,
    pub summary: Summary,
}

/// The columns of [`larger_table`] that are figures: the head, the figure, its decimals.
const FIGURES: [(&str, &str, usize); 7] = [
    ("misses/s", "misses_per_s", 0),
    ("device/s", "device_reads_per_s", 0),
    ("gets/dev", "gets_of_device", 2),
    ("miss/dev", "of_device", 2),
    ("block B", "stored_block_bytes", 0),
    ("B/miss", "device_read_bytes_per_miss", 0),
    ("B/get", "device_read_bytes_per_get", 0),
];

/// A line a trial. `miss/dev` is misses divided by reads of the device: what the cache served is
/// not in it.
pub fn larger_table(cells: &[LargerCell]) -> String {
    let heads: String = FIGURES.iter().map(|(head, ..)| format!("{head:>10}")).collect();
    let (block, threads, gets) = ("block", "threads", "gets/s");
    let (p50, p99) = ("p50 us", "p99 us");
    let mut text = format!("{block:>8}{threads:>8}{gets:>10}{p50:>10}{p99:>10}{heads}\n");
    for LargerCell { block_bytes, threads, summary } in cells {
        let latency = summary.latency.get(&OpKind::Get).copied().unwrap_or_default();
        let (block, gets) = (block_name(*block_bytes), summary.ops_per_s);
        let Latency { p50, p99, .. } = latency;
        text += &format!("{block:>8}{threads:>8}{gets:>10.0}{p50:>10.0}{p99:>10.0}");
        for (_, name, decimals) in FIGURES {
            text += &match summary.figures.get(name) {
                Some(value) => format!("{value:>10.decimals$}"),
                None => format!("{:>10}", "-"),
            };
        }
        text.push('\n');
    }
    text
}

fn block_name(bytes: usize) -> String {
    if bytes == 0 { "own".to_owned() } else { bytes.to_string() }
}

/// The file that the device is measured by is as large as the store, within these.
const DEVICE_FILE_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=2 << 30;
/// A read of the device beside an engine that tells nothing of its blocks.
const USUAL_BLOCK: usize = 4 << 10;

/// One size of blocks, one number of threads.
#[derive(Clone, Copy)]
struct Trial<'a> {
    what: &'a LargerOptions,
    block_bytes: usize,
    stored_block: Option<f64>,
    threads: usize,
    filled: &'a FilledStore,
}

impl Trial<'_> {
    fn run(&self, stage: &Stage<'_>, file: &DeviceFile) -> Outcome<Summary> {
        let Self { what, block_bytes, stored_block, threads, filled } = *self;
        let given = if block_bytes == 0 { USUAL_BLOCK } else { block_bytes };
        let device_block = stored_block.map_or(given, |bytes| bytes.ceil() as usize);
        let device_per_s = measure_reads(file, device_block, threads, what.device_seconds)?;
        let pace = Pace { threads, ..what.setup.pace };
        let (opened, engine) = (&filled.opened, &*filled.opened.engine);
        let options = what.describe(block_bytes, threads);
        let state = filled.state("compacted, page cache empty");
        let mut recorder = stage.record("larger", opened, options, &state)?;
        let workers = || filled.gets(&what.setup.data).random(Asked::Present, threads);
        let seen = || (ProcessSample::now().read_bytes, engine.gauges().cache_misses);
        let (worked, before, after) = kept_out(&opened.place.data(), || {
            // As long as the trial: the clock starts with every engine's cache full of what is
            // asked for.
            let warming = Pace { length: pace.length, ..Pace::unwatched(threads) };
            work(&warming, workers(), &mut |_, _| Ok(()))?;
            let before = seen();
            Ok((recorder.run(engine, &pace, workers())?, before, seen()))
        })?;
        let read = after.0.saturating_sub(before.0) as f64;
        let of_device = |per_s: f64| per_s / device_per_s.max(1e-9);
        recorder.figure("device_reads_per_s", device_per_s);
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

/// The mean block of all tables as stored, the indexes' share included, where the engine tells of
/// its cache: a scan of everything looks for every block in it once.
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
