//! Gets over a store that is larger than its memory, compared with the reads of the device alone.
//!
//! The page cache is kept empty: every file is synced and dropped from it before a trial, and
//! dropped again every 50 ms during the trial. The cache of the engine, which is part of its
//! memory, serves some of the gets. So the rate of the device is compared with the rate of blocks
//! that were not in that cache. The bytes that the kernel had the device read for this process show
//! whether those blocks came from the device.

use super::device::{DeviceFile, measure_reads};
use super::fill::{Asked, FilledStore};
use super::page_cache::kept_out;
use super::{Case, Options, Trials};
use crate::engine::{Engine, Outcome};
use crate::options::Pace;
use crate::record::{Described, Summary};
use crate::run::work;
use crate::sample::ProcessSample;

/// Records of the store.
fn records(options: &Options) -> u64 {
    let bytes = options.store.memory_bytes as f64 * options.times;
    (bytes / options.data.entry_bytes() as f64) as u64
}

/// Adds facts to the header of a trial that are not options.
pub(super) fn describe(options: &Options, told: &mut Described) {
    let page_cache = "dropped before and every 50 ms; gets for as long before the clock starts";
    told.insert("records".into(), records(options).into());
    told.insert("page-cache".into(), page_cache.into());
}

/// The size of the file on which the device is measured: that of the store, within these limits.
const DEVICE_FILE_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=2 << 30;
/// The size of a read of the device when the engine reports nothing about its blocks.
const USUAL_BLOCK: usize = 4 << 10;

/// A store that is filled and compacted, for trials on several numbers of threads.
pub(super) struct Larger {
    filled: FilledStore,
    file: DeviceFile,
    stored_block: Option<f64>,
}

impl Larger {
    /// Fills a store for one size of blocks.
    pub(super) fn begin(case: &Case<'_>) -> Outcome<Box<dyn Trials>> {
        let records = records(case.options);
        let filled = FilledStore::compacted(case, records)?;
        let stored_block = stored_block_bytes(&*filled.opened.engine)?;
        let (least, most) = DEVICE_FILE_BYTES.into_inner();
        let bytes = records * case.options.data.entry_bytes();
        let file = DeviceFile::filled(case.stage.dir, bytes.clamp(least, most))?;
        Ok(Box::new(Self { filled, file, stored_block }))
    }
}

impl Trials for Larger {
    /// Measures random gets. Just before, as many threads read the device in blocks of
    /// `stored_block_bytes`, rounded up to pages of 4 KiB.
    ///
    /// Figures: `device_reads_per_s`, `gets_of_device` (gets divided by the device's reads),
    /// `device_read_bytes_per_get`, and if the engine reports on its cache, `stored_block_bytes`
    /// (the mean, as stored), `misses_per_s` (blocks that were not in the cache), `of_device`
    /// (these divided by the device's reads), `device_read_bytes_per_miss` (a block and the pages
    /// that it cuts, unless the page cache had some).
    fn run(&mut self, case: &Case<'_>) -> Outcome<Summary> {
        let Self { filled, file, stored_block } = self;
        let (options, pace) = (case.options, case.options.pace);
        let given = options.store.block_bytes.unwrap_or(USUAL_BLOCK);
        let device_block = stored_block.map_or(given, |bytes| bytes.ceil() as usize);
        let device_per_s = measure_reads(file, device_block, pace.threads, options.device_seconds)?;
        let engine = &*filled.opened.engine;
        let state = filled.state("compacted, page cache empty");
        let mut recorder = case.record(&filled.opened, &state)?;
        let workers = || filled.records(&options.data).random_gets(Asked::Present, pace.threads);
        let seen = || (ProcessSample::now().read_bytes, engine.gauges().cache_misses);
        let (worked, before, after) = kept_out(&filled.opened.place.data(), || {
            // As long as the trial: when the clock starts, the cache of every engine is full of
            // blocks of the records asked for.
            let warming =
                Pace { interval: Pace::unwatched(1).interval, closing_sync: false, ..pace };
            work(&warming, workers(), &mut |_, _| Ok(()))?;
            let before = seen();
            Ok((recorder.run(engine, &pace, workers())?, before, seen()))
        })?;
        let read = after.0.saturating_sub(before.0) as f64;
        let of_device = |per_s: f64| per_s / device_per_s.max(1e-9);
        recorder.figure("device_reads_per_s", device_per_s);
        recorder.figure("gets_of_device", of_device(worked.ops_per_s()));
        recorder.figure("device_read_bytes_per_get", read / worked.ops.max(1) as f64);
        if let (Some(before), Some(after)) = (before.1, after.1) {
            let misses = after.saturating_sub(before) as f64;
            let per_s = misses / worked.seconds.max(1e-9);
            recorder.figure("misses_per_s", per_s);
            recorder.figure("of_device", of_device(per_s));
            recorder.figure("device_read_bytes_per_miss", read / misses.max(1.0));
        }
        if let Some(bytes) = *stored_block {
            recorder.figure("stored_block_bytes", bytes);
        }
        recorder.finish()
    }

    fn end(self: Box<Self>, keep: bool) -> Outcome<()> {
        let Self { filled, file, .. } = *self;
        drop(file);
        filled.opened.engine.close()?;
        if keep { Ok(()) } else { filled.opened.place.remove() }
    }
}

/// Returns the mean size of a stored block over all tables, the indexes' share included, if the
/// engine reports on its cache: a scan of everything looks for every block in the cache once.
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
