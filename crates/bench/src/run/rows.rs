//! A row: the difference of two samples of everything, and the work of the threads between them.

use super::crew::{Interval, Probe};
use super::meter::Ledger;
use crate::engine::Gauges;
use crate::record::RowLine;
use crate::sample::{DirectoryBytes, DiskClock, ProcessSample};
use std::path::Path;
use std::time::Instant;

/// A sample of everything that grows or changes, as of one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    process: ProcessSample,
    gauges: Gauges,
    /// Bytes that the process has written. Never fewer than at the sample before: when files are
    /// removed before they were written, the count does not change until as much was written again.
    pub(super) written: u64,
    busy_ms: Option<u64>,
    disk: DirectoryBytes,
}

impl Sample {
    /// Takes a sample; `written` is the count of bytes of the sample before.
    pub(super) fn take(dir: &Path, disk: &DiskClock, probe: &Probe<'_>, written: u64) -> Self {
        let process = ProcessSample::now();
        Self {
            written: process.write_bytes.max(written),
            process,
            gauges: (probe.gauges)(),
            busy_ms: disk.busy_ms(),
            disk: DirectoryBytes::of(dir),
        }
    }

    /// The row of the interval between the samples `before` and this, in a trial that began at
    /// `started`.
    pub(super) fn row_since(
        &self,
        before: &Self,
        interval: Interval,
        started: Instant,
        threads: usize,
        ledger: &Ledger,
    ) -> RowLine {
        let dt = (interval.to - interval.from).as_secs_f64().max(1e-9);
        let (gauges, old) = (&self.gauges, &before.gauges);
        let busy = grown(self.busy_ms, before.busy_ms);
        RowLine {
            t: interval.to.saturating_duration_since(started).as_secs_f64(),
            dt,
            ops: ledger.ops,
            latency: ledger.latencies().collect(),
            gets_found: ledger.gets_found,
            deletes_found: ledger.deletes_found,
            scanned: ledger.scanned,
            user_bytes: ledger.user_bytes,
            make_share: (ledger.make_ns as f64 * 1e-9 / (dt * threads.max(1) as f64)).min(1.0),
            disk_bytes: self.disk.all,
            log_bytes: self.disk.log,
            memtable_bytes: gauges.memtable_bytes,
            level_bytes: gauges.level_bytes.clone(),
            cache_hits: grown(gauges.cache_hits, old.cache_hits),
            cache_misses: grown(gauges.cache_misses, old.cache_misses),
            disk_read_bytes: self.process.read_bytes.saturating_sub(before.process.read_bytes),
            disk_write_bytes: self.written.saturating_sub(before.written),
            wal_write_bytes: grown(gauges.wal_write_bytes, old.wal_write_bytes),
            wal_syncs: grown(gauges.wal_syncs, old.wal_syncs),
            stalled_s: gauges.stalled_s.map(|now| (now - old.stalled_s.unwrap_or(0.0)).max(0.0)),
            cpu_s: (self.process.cpu_s - before.process.cpu_s).max(0.0),
            disk_busy: busy.map(|ms| (ms as f64 / 1000.0 / dt).min(1.0)),
            runnable: self.process.runnable,
            rss_bytes: self.process.rss_bytes,
        }
    }
}

fn grown(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now.map(|now| now.saturating_sub(before.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sample(written: u64, hits: u64) -> Sample {
        Sample {
            process: ProcessSample::default(),
            written,
            gauges: Gauges { cache_hits: Some(hits), ..Gauges::default() },
            busy_ms: Some(written),
            disk: DirectoryBytes { all: 5, log: 2 },
        }
    }

    #[test]
    fn what_is_written_never_falls() {
        let dir = tempfile::tempdir().unwrap();
        let disk = DiskClock::of(dir.path());
        let written = |before| Sample::take(dir.path(), &disk, &Probe::NONE, before).written;
        // As if files had been removed that were counted, and never written.
        let before = written(0) + (1 << 40);
        assert_eq!(written(before), before);
    }

    #[test]
    fn a_late_sample_makes_a_longer_interval_with_its_true_length() {
        let started = Instant::now();
        let (first, second) =
            (started + Duration::from_secs(1), started + Duration::from_millis(4500));
        let mut ledger = Ledger::default();
        (ledger.ops, ledger.make_ns) = (70, 3_500_000_000);
        let row = sample(900, 30).row_since(
            &sample(200, 10),
            Interval { from: first, to: second, is_last: false },
            started,
            2,
            &ledger,
        );
        assert_eq!((row.t, row.dt), (4.5, 3.5));
        assert_eq!((row.ops, row.disk_write_bytes, row.cache_hits), (70, 700, Some(20)));
        assert_eq!((row.make_share, row.disk_bytes, row.log_bytes), (0.5, 5, 2));
        assert!((row.disk_busy.unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(row.cache_misses, None);
    }
}
