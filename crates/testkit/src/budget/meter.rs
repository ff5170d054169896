//! The resident set of this process, phase by phase.

use std::fs;
use std::time::Instant;

/// Returns a field of the process's status, in bytes.
pub(super) fn field(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Measures and prints the peak of each phase.
pub(super) struct Meter {
    /// The bytes that the case itself holds now.
    held: u64,
    peak: u64,
}

impl Meter {
    pub(super) const fn new() -> Self {
        Self { held: 0, peak: 0 }
    }

    /// Notes that the case itself holds `bytes` from now on.
    pub(super) const fn hold(&mut self, bytes: u64) {
        self.held = bytes;
    }

    /// Runs a phase and prints its peak.
    pub(super) fn phase<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> T {
        // Resets the peak to what is resident now.
        let _as_before = fs::write("/proc/self/clear_refs", "5");
        let started = Instant::now();
        let done = work();
        let peak = field("VmHWM").saturating_sub(self.held);
        self.peak = self.peak.max(peak);
        println!(
            "phase {peak} {} {} {:.1} {name}",
            self.held,
            field("VmRSS"),
            started.elapsed().as_secs_f64()
        );
        done
    }
}
