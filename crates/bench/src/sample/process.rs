//! Counters of this process and of the disk below a directory, as of now; and the files of a store.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Counters of this process since it started, and gauges as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessSample {
    /// Bytes that a device read for it, without those from the page cache.
    pub read_bytes: u64,
    /// Bytes that were written to a device or will be: pages made dirty in the page cache or
    /// written past it, those of mapped files included, without those that were removed before they
    /// were written. Removing a file makes the number smaller.
    pub write_bytes: u64,
    /// CPU seconds, user and system, in steps of 10 ms.
    pub cpu_s: f64,
    /// Resident bytes.
    pub rss_bytes: u64,
    /// Threads that are running or ready to run.
    pub runnable: u32,
}

/// USER_HZ of Linux, the same on every platform.
const TICKS_PER_S: f64 = 100.0;

impl ProcessSample {
    /// Takes a sample. All zeros where `/proc` is missing.
    pub fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let io = read("/proc/self/io");
        Self {
            read_bytes: field(&io, "read_bytes:"),
            write_bytes: written(&io),
            cpu_s: cpu_seconds(&read("/proc/self/stat")),
            rss_bytes: field(&read("/proc/self/status"), "VmRSS:") * 1024,
            runnable: runnable(),
        }
    }
}

fn written(io: &str) -> u64 {
    field(io, "write_bytes:").saturating_sub(field(io, "cancelled_write_bytes:"))
}

/// The number after `name` at the beginning of a line.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// User and system time in the form of `/proc/PID/stat`.
fn cpu_seconds(stat: &str) -> f64 {
    // The name, in parentheses, may hold anything.
    let Some((_, fields)) = stat.rsplit_once(')') else { return 0.0 };
    let ticks = |at: usize| fields.split_whitespace().nth(at).and_then(|t| t.parse::<u64>().ok());
    (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)) as f64 / TICKS_PER_S
}

fn runnable() -> u32 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return 0 };
    let runs = |stat: &String| stat.rsplit_once(')').is_some_and(|(_, f)| f.starts_with(" R"));
    let stats = tasks.flatten().map(|task| fs::read_to_string(task.path().join("stat")));
    stats.flatten().filter(runs).count() as u32
}

/// The peak of the resident memory since a moment.
#[derive(Clone, Copy, Debug)]
pub struct PeakMemory {
    /// The peak of the process at that moment.
    before: u64,
}

impl PeakMemory {
    /// From now on.
    pub fn start() -> Self {
        // Resets the peak to the memory that is resident now. Where that is not allowed, an older
        // peak stays and hides lower ones.
        let _older_stays = fs::write("/proc/self/clear_refs", "5");
        Self { before: peak_bytes() }
    }

    /// The peak since then; `None` where it is not known.
    pub fn bytes(&self) -> Option<u64> {
        Some(peak_bytes()).filter(|peak| *peak > self.before)
    }
}

fn peak_bytes() -> u64 {
    field(&fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmHWM:") * 1024
}

/// The busy time of the disk below a directory.
#[derive(Clone, Debug)]
pub struct DiskClock {
    /// Major and minor number, as `/proc/diskstats` begins its lines.
    device: Option<(u64, u64)>,
}

impl DiskClock {
    /// The clock of the disk that holds `dir`.
    pub fn of(dir: &Path) -> Self {
        Self { device: device_of(dir) }
    }

    /// Milliseconds in which the disk was busy, since the machine started; `None` when the
    /// directory is on no disk.
    pub fn busy_ms(&self) -> Option<u64> {
        let (major, minor) = self.device?;
        busy_ms(&fs::read_to_string("/proc/diskstats").ok()?, major, minor)
    }

    /// Waits until the disk has been nearly idle for a second, at most for `limit`. The discards of
    /// a removed store keep a disk busy for longer than a `sync` takes. Returns at once when the
    /// directory is on no known disk.
    pub fn wait_until_idle(&self, limit: Duration) {
        let (begun, mut quiet) = (Instant::now(), 0);
        let Some(mut before) = self.busy_ms() else { return };
        while quiet < IDLE_LOOKS && begun.elapsed() < limit {
            std::thread::sleep(IDLE_LOOK);
            let Some(now) = self.busy_ms() else { return };
            quiet = if now.saturating_sub(before) <= IDLE_BUSY_MS { quiet + 1 } else { 0 };
            before = now;
        }
    }
}

/// A disk is idle when it was busy for at most `IDLE_BUSY_MS` in each of `IDLE_LOOKS` samples in a
/// row.
const IDLE_LOOK: Duration = Duration::from_millis(250);
const IDLE_LOOKS: u32 = 4;
const IDLE_BUSY_MS: u64 = 12;

fn busy_ms(diskstats: &str, major: u64, minor: u64) -> Option<u64> {
    diskstats.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let is_it = fields.next()?.parse() == Ok(major) && fields.next()?.parse() == Ok(minor);
        // After the name: 4 fields of reads, 4 of writes, requests in flight, then the time.
        if is_it { fields.nth(10)?.parse().ok() } else { None }
    })
}

fn device_of(dir: &Path) -> Option<(u64, u64)> {
    let device = fs::metadata(dir).ok()?.dev();
    let major = ((device >> 8) & 0xFFF) | ((device >> 32) & !0xFFF);
    let minor = (device & 0xFF) | ((device >> 12) & !0xFF);
    Some((major, minor & 0xFFFF_FFFF))
}

/// Bytes that the files of a store take on the device; what is not allocated in a sparse file does
/// not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryBytes {
    pub all: u64,
    /// Bytes of the write-ahead log, by the names of files: `.wal`, `.log`, `.jnl`, `-wal` or
    /// `journal`.
    pub log: u64,
}

impl DirectoryBytes {
    /// Adds up all files in `dir` and below. Files that are removed meanwhile do not count.
    pub fn of(dir: &Path) -> Self {
        let mut sum = Self::default();
        let Ok(entries) = fs::read_dir(dir) else { return sum };
        for entry in entries.flatten() {
            let Ok(found) = entry.metadata() else { continue };
            let below = if found.is_dir() {
                Self::of(&entry.path())
            } else {
                Self { all: found.blocks() * 512, log: 0 }
            };
            sum.all += below.all;
            sum.log += if is_log(&entry.path()) { below.all } else { below.log };
        }
        sum
    }

    /// Bytes without the log.
    pub const fn data(self) -> u64 {
        self.all.saturating_sub(self.log)
    }
}

fn is_log(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ["wal", "log", "jnl"].contains(&extension) || name.ends_with("-wal") || name.contains("journal")
}

/// Calls `each` with every file in `dir` and below. Files that are removed meanwhile are skipped.
pub fn each_file(dir: &Path, each: &dyn Fn(&File) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let done = if path.is_dir() {
            each_file(&path, each)
        } else if path.is_file() {
            File::open(&path).and_then(|file| each(&file))
        } else {
            Ok(())
        };
        done.or_else(
            |error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) },
        )?;
    }
    Ok(())
}

/// Syncs every file in `dir` and below.
pub fn sync_files(dir: &Path) -> io::Result<()> {
    each_file(dir, &File::sync_all)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn the_cpu_time_is_found_behind_any_name_of_a_process() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 200 0 0 0 150 50 0 0 20 0 1 0 100 0 0";
        assert_eq!(cpu_seconds(stat), 2.0);
        assert_eq!(cpu_seconds(""), 0.0);
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let io = "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n";
        assert_eq!(field(io, "write_bytes:"), 8192);
        assert_eq!(written(io), 8191);
        assert_eq!(field("Name:\tx\nVmRSS:\t    12 kB\n", "VmRSS:"), 12);
        assert_eq!(field(io, "absent:"), 0);
    }

    #[test]
    fn the_busy_time_is_that_of_the_right_disk() {
        let text = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n \
                    254       0 vda 11 12 13 14 21 22 23 24 0 402264 4885912 0\n";
        assert_eq!(busy_ms(text, 254, 0), Some(402_264));
        assert_eq!(busy_ms(text, 254, 1), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_is_given_back_before_anyone_looks_shows_in_the_peak() {
        let before = ProcessSample::now().rss_bytes;
        let peak = PeakMemory::start();
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        let most = peak.bytes().unwrap();
        assert!(most >= before.min(32 << 20) + (32 << 20), "{before} to {most}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_a_running_thread() {
        let sample = ProcessSample::now();
        assert!(sample.rss_bytes > 100_000, "{sample:?}");
        assert!(sample.runnable >= 1, "{sample:?}");
    }

    #[test]
    fn a_log_is_told_from_the_data() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("journals")).unwrap();
        for (name, bytes) in [("1.sst", 40_000), ("2.wal", 20_000), ("journals/3", 20_000)] {
            fs::write(dir.path().join(name), vec![1; bytes]).unwrap();
        }
        sync_files(dir.path()).unwrap();
        let found = DirectoryBytes::of(dir.path());
        assert!((40_000..60_000).contains(&found.data()), "{found:?}");
        assert!((40_000..60_000).contains(&found.log), "{found:?}");
    }

    #[test]
    fn files_in_folders_count_and_are_synced() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(dir.path().join("below/a"), vec![1; 100_000]).unwrap();
        fs::write(dir.path().join("b"), vec![1; 50_000]).unwrap();
        sync_files(dir.path()).unwrap();
        let bytes = DirectoryBytes::of(dir.path()).all;
        assert!((150_000..300_000).contains(&bytes), "{bytes}");
        assert_eq!(DirectoryBytes::of(&dir.path().join("absent")).all, 0);
        assert!(sync_files(&dir.path().join("absent")).is_err());
    }
}
