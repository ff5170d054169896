//! The speed of the device: the yardstick for everything that reads or syncs.
//!
//! A file is filled front to back, then read in blocks at random places by one thread and by many,
//! all past the page cache; another is appended to by 4 KiB, each followed by an fdatasync, once as
//! it grows and once over bytes that were written before, as a recycled log is.

use super::{mix64, random};
use crate::engine::Outcome;
use crate::options::{Pace, as_seconds, defaults, describe, seconds, size, within};
use crate::record::{Header, OpKind, Summary};
use crate::run::{Crew, Meter, Probe, Recorder, Tally, Watch, Worker, crew, work};
use crate::sample::machine;
use clap::Args;
use flagstone::admin::parse_bytes;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The speed of the device: random reads past the page cache, sequential writes, syncs
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
    #[arg(
        long,
        default_value = "1,32",
        value_delimiter = ',',
        value_parser = within::<usize>(1, 1024)
    )]
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
        let header = Header {
            workload: "device".into(),
            engine: "device".into(),
            engine_version: machine(dir).file_system,
            options: describe(self),
            starting_state: "no file".into(),
            ..Header::default()
        };
        let mut recorder = Recorder::begin(header, dir, out, watch)?;
        fill(&mut recorder, self, &mut file)?;
        for &block_bytes in &self.block_bytes {
            for &threads in &self.threads {
                let workers = file.readers(block_bytes, threads)?;
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
            let syncs = vec![file.syncing(end)];
            let worked = recorder.run_probed(&Probe::NONE, &self.pace(1), syncs)?;
            tell(&mut recorder, name, worked.ops_per_s());
        }
        recorder.finish()
    }

    fn pace(&self, threads: usize) -> Pace {
        let (seconds, interval) = (self.seconds, self.interval);
        Pace { threads, seconds, interval, closing_sync: false, ..Pace::default() }
    }
}

fn fill(
    recorder: &mut Recorder<'_>,
    options: &DeviceOptions,
    file: &mut DeviceFile,
) -> Outcome<()> {
    let pace = Pace { until_done: true, ..options.pace(1) };
    let filling = vec![file.filling(options.file_bytes)];
    let worked = recorder.run_probed(&Probe::NONE, &pace, filling)?;
    let synced = recorder.aside("write_sync", &Probe::NONE, |_| file.sync())?;
    let bytes = recorder.phase().user_bytes;
    recorder.figure("write_mb_per_s", bytes as f64 / 1e6 / (worked.seconds + synced));
    Ok(())
}

/// Sets the figures of the phase before.
fn tell(recorder: &mut Recorder<'_>, name: &str, rate: f64) {
    let latency = recorder.phase().latencies().next().map_or_else(Default::default, |(_, of)| of);
    recorder.figure(&format!("{name}_per_s"), rate);
    recorder.figure(&format!("{name}_p50_us"), latency.p50);
    recorder.figure(&format!("{name}_p99_us"), latency.p99);
}

/// Reads blocks of `block_bytes` (whole pages of 4 KiB at least) at random places for `time`, with
/// this many threads, past the page cache. Returns the blocks a second.
pub fn measure_reads(
    file: &DeviceFile,
    block_bytes: usize,
    threads: usize,
    time: Duration,
) -> Outcome<f64> {
    let pace = Pace { threads, seconds: time, interval: time, ..Pace::default() };
    let worked = work(&pace, file.readers(block_bytes, threads)?, &mut |_, _| Ok(()))?;
    Ok(worked.ops_per_s())
}

/// The alignment of offsets, lengths and addresses of reads and writes past the page cache.
const ALIGNMENT: usize = 4096;

/// Opens the file `path`, created if there is none, for reads and writes past the page cache.
#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Outcome<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(OFlags::DIRECT.bits() as i32);
    options.open(path).map_err(|error| {
        let path = path.display();
        let text = match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::INVAL.raw_os_error() => format!(
                "the file system of {path} refuses reads and writes past its page cache \
                 (O_DIRECT), as those in memory do: choose a directory on a disk"
            ),
            _ => format!("cannot open {path}: {error}"),
        };
        text.into()
    })
}

/// Other systems offer no O_DIRECT.
#[cfg(not(target_os = "linux"))]
fn open_direct(_path: &Path) -> Outcome<File> {
    Err("this system offers no reads and writes past the page cache (O_DIRECT)".into())
}

/// Bytes at an aligned address.
#[derive(Debug)]
struct Aligned {
    bytes: Vec<u8>,
    at: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGNMENT];
        let at = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { bytes, at, len }
    }

    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.at..self.at + self.len]
    }

    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.at..self.at + self.len]
    }
}

/// Bytes of a write while the file is filled.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes of an append.
const APPEND_BYTES: usize = 4096;

/// A file on the device: created to measure it, read and written past the page cache, and removed
/// when it is dropped.
#[derive(Debug)]
pub struct DeviceFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl DeviceFile {
    /// Creates an empty file in `dir`; `name` tells it from others there.
    pub fn make(dir: &Path, name: &str) -> Outcome<Self> {
        std::fs::create_dir_all(dir)
            .map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let path = dir.join(format!("flagstone-device-{name}.bench"));
        let file = open_direct(&path)?;
        let made = Self { file, path, bytes: 0 };
        made.file.set_len(0)?;
        Ok(made)
    }

    /// Creates a file of about `bytes`, all of which are on the device.
    pub fn filled(dir: &Path, bytes: u64) -> Outcome<Self> {
        let mut made = Self::make(dir, "filled")?;
        let mut filler = made.filler(bytes);
        filler.stir();
        while filler.write()? > 0 {
            filler.stir();
        }
        made.sync()?;
        Ok(made)
    }

    /// Writes about `bytes`, front to back.
    fn filling(&mut self, bytes: u64) -> Worker<'_> {
        let mut filler = self.filler(bytes);
        Box::new(move |meter| {
            filler.stir();
            meter.begin();
            let written = filler.write()?;
            if written > 0 {
                meter.end(OpKind::Put, Tally::put(written));
            }
            Ok(written > 0)
        })
    }

    fn filler(&mut self, bytes: u64) -> Filler<'_> {
        self.bytes = bytes.next_multiple_of(WRITE_BYTES as u64);
        let mut block = Aligned::new(WRITE_BYTES);
        for (at, part) in block.as_mut().chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&mix64(0, at as u64).to_le_bytes());
        }
        Filler { file: &self.file, block, at: 0, end: self.bytes }
    }

    /// Waits until the device has the whole file.
    fn sync(&self) -> Outcome<()> {
        Ok(self.file.sync_data()?)
    }

    /// Workers that read blocks of about `block_bytes` at random places, one a thread.
    fn readers(&self, block_bytes: usize, threads: usize) -> Outcome<Crew<'_>> {
        let block_bytes = block_bytes.max(1).next_multiple_of(ALIGNMENT);
        let places = (self.bytes.saturating_sub(block_bytes as u64)) / ALIGNMENT as u64;
        if places == 0 {
            let bytes = self.bytes;
            let text =
                format!("a file of {bytes} bytes: expected more than a block of {block_bytes}");
            return Err(text.into());
        }
        Ok(crew(threads, |thread| {
            let (mut block, mut random) = (Aligned::new(block_bytes), random(thread, 0));
            move |meter: &mut Meter<'_>| {
                let place = random.below(places) * ALIGNMENT as u64;
                meter.begin();
                self.file.read_exact_at(block.as_mut(), place)?;
                meter.end(OpKind::Get, Tally::found(true));
                Ok(true)
            }
        }))
    }

    /// Appends 4 KiB and syncs, again and again, up to `end`.
    fn syncing(&self, end: u64) -> Worker<'_> {
        let (mut block, mut at) = (Aligned::new(APPEND_BYTES), 0);
        block.as_mut().fill(0xA5);
        Box::new(move |meter| {
            if at >= end {
                return Ok(false);
            }
            meter.begin();
            self.file.write_all_at(block.as_ref(), at)?;
            self.sync()?;
            meter.end(OpKind::Batch, Tally::put(APPEND_BYTES));
            at += APPEND_BYTES as u64;
            Ok(true)
        })
    }
}

impl Drop for DeviceFile {
    fn drop(&mut self) {
        // A file that cannot be removed stays: its name says what it is.
        let _left = std::fs::remove_file(&self.path);
    }
}

/// Writes bytes that neither compress nor repeat.
struct Filler<'a> {
    file: &'a File,
    block: Aligned,
    at: u64,
    end: u64,
}

impl Filler<'_> {
    /// Makes the bytes of the next write differ from all others.
    fn stir(&mut self) {
        let at = self.at;
        for (page, bytes) in self.block.as_mut().chunks_mut(ALIGNMENT).enumerate() {
            let stamp = mix64(at, page as u64).to_le_bytes();
            bytes.chunks_mut(512).for_each(|part| part[..8].copy_from_slice(&stamp));
        }
    }

    /// Writes the next bytes and returns their number, 0 at the end.
    fn write(&mut self) -> Outcome<usize> {
        if self.at >= self.end {
            return Ok(0);
        }
        self.file.write_all_at(self.block.as_ref(), self.at)?;
        self.at += WRITE_BYTES as u64;
        Ok(WRITE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_memory_is_aligned_and_has_its_length() {
        for len in [1, 4096, 16384, 1 << 20] {
            let mut memory = Aligned::new(len);
            assert_eq!(memory.as_mut().len(), len);
            assert_eq!(memory.as_ref().as_ptr().align_offset(ALIGNMENT), 0);
        }
    }
}
