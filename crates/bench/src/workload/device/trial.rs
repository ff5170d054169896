//! The trial of a device: its phases and its figures.

use super::file::DeviceFile;
use crate::engine::Outcome;
use crate::options::{Length, Pace, as_seconds, defaults, describe, seconds, size, threads};
use crate::record::{Latency, Summary};
use crate::run::{Crew, Plan, Probe, Recorder, Watch, Worker, work};
use crate::sample::machine;
use clap::Args;
use flagstone::parse_bytes;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the device can do: random reads past the page cache, sequential writes, syncs
///
/// Creates its files in --dir and removes them. Needs a file system that takes O_DIRECT.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DeviceOptions {
    /// A directory on the device [default: that of the result]
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    pub dir: Option<PathBuf>,
    /// Bytes of the file that is written and read
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = parse_bytes)]
    pub file_bytes: u64,
    /// Bytes of a read, rounded up to pages of 4 KiB, separated by commas
    #[arg(long, default_value = "4KiB,16KiB", value_delimiter = ',', value_parser = size)]
    pub block_bytes: Vec<usize>,
    /// Threads that read, separated by commas
    #[arg(long, default_value = "1,32", value_delimiter = ',', value_parser = threads())]
    pub threads: Vec<usize>,
    /// Seconds of a phase
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    #[serde(serialize_with = "as_seconds")]
    pub seconds: Duration,
    /// Seconds of a row
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    #[serde(serialize_with = "as_seconds")]
    pub interval: Duration,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        defaults()
    }
}

impl DeviceOptions {
    /// Measures the device below `dir`, workload `device`; the files it creates are removed.
    /// Figures: `write_mb_per_s` (the closing fdatasync counts); for each size of blocks B and
    /// number of threads T `read_bB_tT_per_s`, `_mb_per_s`, `_p50_us`, `_p99_us`; for `append_sync`
    /// (a file that grows) and `rewrite_sync` (bytes written before) `_per_s`, `_p50_us`,
    /// `_p99_us`.
    pub fn run(&self, dir: &Path, out: Option<&Path>, watch: Watch<'_>) -> Outcome<Summary> {
        let mut file = DeviceFile::make(dir, "read")?;
        let plan = Plan {
            workload: "device",
            engine: "device",
            engine_version: &machine(dir).file_system,
            options: describe(self),
            starting_state: "no file",
            dir,
            out,
        };
        let mut recorder = Recorder::begin(plan, watch)?;
        fill(&mut recorder, self, &mut file)?;
        for &block_bytes in &self.block_bytes {
            for &threads in &self.threads {
                let workers = readers(&file, block_bytes, threads)?;
                let worked = recorder.run_probed(&Probe::NONE, &self.pace(threads), workers)?;
                let (rate, name) = (worked.ops_per_s(), format!("read_b{block_bytes}_t{threads}"));
                recorder.figure(&format!("{name}_mb_per_s"), rate * block_bytes as f64 / 1e6);
                tell(&mut recorder, &name, rate);
            }
        }
        let appended = DeviceFile::make(dir, "append")?;
        for (name, file, end) in
            [("append_sync", &appended, u64::MAX), ("rewrite_sync", &file, self.file_bytes)]
        {
            let syncs = Box::new(file.syncer(end));
            let worked = recorder.run_probed(&Probe::NONE, &self.pace(1), vec![syncs])?;
            tell(&mut recorder, name, worked.ops_per_s());
        }
        recorder.finish()
    }

    const fn pace(&self, threads: usize) -> Pace {
        let length = Length::Time(self.seconds);
        Pace { threads, length, interval: self.interval, closing_sync: false }
    }

    /// A line a phase.
    pub fn table(&self, summary: &Summary) -> String {
        let write = summary.figure("write_mb_per_s");
        let mut text = format!("sequential write, synced: {write:.0} MB/s\n");
        let heads = ["1/s", "MB/s", "p50 us", "p99 us"].map(|head| format!("{head:>12}"));
        text += &format!("{:<36}{}\n", "", heads.concat());
        let mut line = |title: &str, name: &str, mb_per_s: f64| {
            let of = |what: &str| summary.figure(&format!("{name}_{what}"));
            let (rate, p50, p99) = (of("per_s"), of("p50_us"), of("p99_us"));
            text += &format!("{title:<36}{rate:>12.0}{mb_per_s:>12.1}{p50:>12.1}{p99:>12.1}\n");
        };
        for block in &self.block_bytes {
            for threads in &self.threads {
                let name = format!("read_b{block}_t{threads}");
                let s = if *threads == 1 { "" } else { "s" };
                let title = format!("random reads of {block}, {threads} thread{s}");
                line(&title, &name, summary.figure(&format!("{name}_mb_per_s")));
            }
        }
        for (name, title) in [
            ("append_sync", "4 KiB appended, fdatasync"),
            ("rewrite_sync", "4 KiB over old bytes, fdatasync"),
        ] {
            line(title, name, summary.figure(&format!("{name}_per_s")) * 4096.0 / 1e6);
        }
        text
    }
}

fn fill(
    recorder: &mut Recorder<'_>,
    options: &DeviceOptions,
    file: &mut DeviceFile,
) -> Outcome<()> {
    let pace = Pace { length: Length::UntilDone, ..options.pace(1) };
    let filler = Box::new(file.filler(options.file_bytes));
    let worked = recorder.run_probed(&Probe::NONE, &pace, vec![filler])?;
    let synced = recorder.aside("write_sync", &Probe::NONE, |_| file.sync())?;
    let bytes = recorder.phase().user_bytes;
    recorder.figure("write_mb_per_s", bytes as f64 / 1e6 / (worked.seconds + synced));
    file.is_filled_to(bytes);
    Ok(())
}

/// Sets the figures of the phase before.
fn tell(recorder: &mut Recorder<'_>, name: &str, rate: f64) {
    let latency: Option<Latency> = recorder.phase().latencies().next().map(|(_, found)| found);
    let latency = latency.unwrap_or_default();
    recorder.figure(&format!("{name}_per_s"), rate);
    recorder.figure(&format!("{name}_p50_us"), latency.p50);
    recorder.figure(&format!("{name}_p99_us"), latency.p99);
}

/// Workers that read blocks at random places, one a thread.
fn readers<'a>(file: &'a DeviceFile, block_bytes: usize, threads: usize) -> Outcome<Crew<'a>> {
    let reader = |thread| -> Outcome<Box<dyn Worker + 'a>> {
        Ok(Box::new(file.reader(block_bytes, thread)?))
    };
    (0..threads as u64).map(reader).collect()
}

/// Reads blocks of `block_bytes` (whole pages of 4 KiB at least) at random places for `time`, with
/// this many threads, past the page cache. Returns the blocks a second.
pub fn measure_reads(
    file: &DeviceFile,
    block_bytes: usize,
    threads: usize,
    time: Duration,
) -> Outcome<f64> {
    let pace = Pace { threads, length: Length::Time(time), interval: time, closing_sync: false };
    let worked = work(&pace, readers(file, block_bytes, threads)?, &mut |_, _| Ok(()))?;
    Ok(worked.ops_per_s())
}
