//! What the process of a server has used.

use rustix::param::clock_ticks_per_second;
use std::fs;

/// Returns the seconds of CPU that a process has used, with those of threads that have ended.
pub(crate) fn cpu_seconds(pid: Option<u32>) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid?)).ok()?;
    // The name of the program may have blanks and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |at: usize| fields.split_whitespace().nth(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / clock_ticks_per_second() as f64)
}

/// Returns the resident bytes of a process.
pub(crate) fn resident_bytes(pid: Option<u32>) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid?)).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
