//! The trial: its phases and figures.

use super::file::DeviceFile;
use super::workers::{Fills, Syncs, readers};
use crate::engine::Outcome;
use crate::record::{Latency, Summary};
use crate::run::{Length, Pace, Plan, Probe, Recorder, Watch};
use crate::sample::machine;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceOptions {
    /// A directory on the device.
    pub dir: PathBuf,
    /// Bytes of the file that is read.
    pub file_bytes: u64,
    /// Bytes of a read, one phase each; rounded up to whole pages of 4 KiB.
    pub blocks: Vec<usize>,
    /// Threads that read, one phase each.
    pub threads: Vec<usize>,
    /// The time of a phase.
    pub time: Duration,
    /// The time of a row.
    pub interval: Duration,
}

impl DeviceOptions {
    /// A file of 1 GiB, blocks of 4 and 16 KiB, 1 and 32 threads, 5 seconds a phase.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            file_bytes: 1 << 30,
            blocks: vec![4 << 10, 16 << 10],
            threads: vec![1, 32],
            time: Duration::from_secs(5),
            interval: Duration::from_secs(1),
        }
    }

    /// All options by their long names.
    pub fn describe(&self) -> BTreeMap<String, Value> {
        let pairs: [(&str, Value); 5] = [
            ("file-bytes", self.file_bytes.into()),
            ("block-bytes", self.blocks.clone().into()),
            ("threads", self.threads.clone().into()),
            ("seconds", self.time.as_secs_f64().into()),
            ("interval", self.interval.as_secs_f64().into()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// Measures the device below `options.dir`, workload `device`; the files it makes are removed. Figures:
/// `write_mb_per_s` (the closing fdatasync counts); for each size of blocks B and number of threads T
/// `read_bB_tT_per_s`, `_mb_per_s`, `_p50_us`, `_p99_us`; for `append_sync` (a file that grows) and
/// `rewrite_sync` (bytes written before) `_per_s`, `_p50_us`, `_p99_us`.
///
/// # Errors
/// When the file system refuses O_DIRECT, or anything else.
pub fn run_device(
    options: &DeviceOptions,
    out: Option<&Path>,
    watch: Watch<'_>,
) -> Outcome<Summary> {
    let mut file = DeviceFile::make(&options.dir, "read")?;
    let (machine, described) = (machine(&options.dir), options.describe());
    let mut recorder = Recorder::begin(
        &Plan {
            workload: "device",
            engine: "device",
            engine_version: &machine.file_system,
            options: &described,
            starting_state: "no file",
            dir: &options.dir,
            out,
        },
        watch,
    )?;
    fill(&mut recorder, options, &mut file)?;
    for &block_bytes in &options.blocks {
        for &threads in &options.threads {
            let workers = readers(&file, block_bytes, threads)?;
            let pace = options.pace(threads);
            let worked = recorder.run_probed(&Probe::NONE, &pace, workers)?;
            let (rate, name) = (worked.ops_per_s(), format!("read_b{block_bytes}_t{threads}"));
            recorder.figure(&format!("{name}_mb_per_s"), rate * block_bytes as f64 / 1e6);
            tell(&mut recorder, &name, rate);
        }
    }
    let appended = DeviceFile::make(&options.dir, "append")?;
    for (name, file, end) in
        [("append_sync", &appended, u64::MAX), ("rewrite_sync", &file, options.file_bytes)]
    {
        let syncs = Box::new(Syncs(file.syncer(0, end)));
        let worked = recorder.run_probed(&Probe::NONE, &options.pace(1), vec![syncs])?;
        tell(&mut recorder, name, worked.ops_per_s());
    }
    recorder.finish()
}

impl DeviceOptions {
    const fn pace(&self, threads: usize) -> Pace {
        let length = Length::Time(self.time);
        Pace { threads, length, interval: self.interval, closing_sync: false }
    }
}

fn fill(
    recorder: &mut Recorder<'_>,
    options: &DeviceOptions,
    file: &mut DeviceFile,
) -> Outcome<()> {
    let pace = Pace { length: Length::UntilDone, ..options.pace(1) };
    let filler = Box::new(Fills(file.filler(options.file_bytes)));
    let worked = recorder.run_probed(&Probe::NONE, &pace, vec![filler])?;
    let synced = recorder.aside("write_sync", &Probe::NONE, |_| file.sync())?;
    let bytes = recorder.phase().user_bytes;
    recorder.figure("write_mb_per_s", bytes as f64 / 1e6 / (worked.seconds + synced));
    file.is_filled_to(bytes);
    Ok(())
}

/// The rate and the latencies of the phase before.
fn tell(recorder: &mut Recorder<'_>, name: &str, rate: f64) {
    let latency: Option<Latency> = recorder.phase().latencies().next().map(|(_, found)| found);
    let latency = latency.unwrap_or_default();
    recorder.figure(&format!("{name}_per_s"), rate);
    recorder.figure(&format!("{name}_p50_us"), latency.p50);
    recorder.figure(&format!("{name}_p99_us"), latency.p99);
}
