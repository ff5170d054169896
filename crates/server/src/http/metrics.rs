//! Counters, as Prometheus reads them.

use super::asked::{Counted, RoutedRequest};
use super::response::Response;
use crate::command::{Client, OperationKind, Service};
use crate::failure::{Limit, Outcome};
use flagstone::report::Stats;
use std::fmt::{self, Write};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A value that goes up and down, one that only grows, or counts by size.
#[derive(Clone, Copy)]
enum MetricType {
    Gauge,
    Counter,
    Histogram,
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

/// The text.
struct Metrics(String);

pub(super) fn respond<'a>(
    service: &'a Service,
    _: &'a mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    let mut metrics = Metrics(String::new());
    // Writing to a string does not fail.
    let _always = metrics.put_all(service, &(asked.request.counted)());
    Ok(Response::of(200, KIND, metrics.0))
}

impl Metrics {
    fn put_all(&mut self, service: &Service, counted: &Counted) -> fmt::Result {
        let counters = &service.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let operations = [
            ("insert", &counters.inserts),
            ("query", &counters.queries),
            ("update", &counters.updates),
            ("delete", &counters.deletes),
            ("getmore", &counters.get_mores),
            ("command", &counters.commands),
        ];
        let operations = operations.map(|(name, counter)| (name, read(counter)));
        let name = "operations_total";
        self.labelled(name, MetricType::Counter, "Operations by kind.", "operation", &operations)?;
        let name = "failed_commands_total";
        self.one(name, MetricType::Counter, "Commands that failed.", read(&counters.failures))?;
        self.put_latencies(service)?;
        let limits = Limit::ALL.map(|(limit, by)| (by, read(&counters.limits[limit as usize])));
        let name = "limit_errors_total";
        let help = "Errors that come from a limit, by the option that sets it.";
        self.labelled(name, MetricType::Counter, help, "limit", &limits)?;
        let (sessions, transactions) = service.sessions.counts();
        let (parsed, kept) = service.parsed.held();
        for (name, help, value) in [
            ("sessions", "Sessions of clients.", sessions),
            ("open_transactions", "Transactions that clients have open.", transactions),
            ("transaction_bytes", "Bytes that those have written.", service.sessions.bytes()),
            ("command_bytes", "Bytes of commands that are parsed, beyond short ones.", parsed),
            ("cursor_command_bytes", "Bytes of those that open cursors keep.", kept),
        ] {
            self.one(name, MetricType::Gauge, help, value)?;
        }
        let name = "message_bytes";
        let help = "Bytes of messages that arrive or are not answered yet, beyond short ones.";
        self.one(name, MetricType::Gauge, help, counted.message_bytes)?;
        let open = service.cursors.len() as u64;
        self.one("open_cursors", MetricType::Gauge, "Cursors that clients have open.", open)?;
        let loads = service.loads.lock().unwrap_or_else(PoisonError::into_inner);
        let loads: usize = loads.values().map(|of| of.running).sum();
        self.one("running_loads", MetricType::Gauge, "Loads over HTTP that run.", loads)?;
        for (name, help, counter) in [
            ("requests_total", "Messages and requests that were answered.", &counters.requests),
            ("received_bytes_total", "Bytes of messages and requests.", &counters.bytes_in),
            ("sent_bytes_total", "Bytes of replies.", &counters.bytes_out),
        ] {
            self.one(name, MetricType::Counter, help, read(counter))?;
        }
        let name = "refused_password_checks_total";
        let help = "Checks of passwords that were refused, because too many ran.";
        self.one(name, MetricType::Counter, help, service.users.refused_checks())?;
        self.one(
            "open_connections",
            MetricType::Gauge,
            "Connections that are open.",
            counted.open,
        )?;
        let name = "connection_events_total";
        let help = "What has happened to connections.";
        self.labelled(name, MetricType::Counter, help, "event", &counted.events)?;
        let uptime = service.started.elapsed().as_secs_f64();
        self.one("uptime_seconds", MetricType::Gauge, "Seconds since the start.", uptime)?;
        self.put_engine(&service.db.stats())
    }

    /// Puts how long operations take, in buckets that end at powers of four.
    fn put_latencies(&mut self, service: &Service) -> fmt::Result {
        let name = "operation_seconds";
        self.begin(name, MetricType::Histogram, "How long operations take.")?;
        for (kind, label) in OperationKind::ALL {
            let histogram = service.latencies.of(kind);
            let counts: Vec<_> = histogram.counts().collect();
            let below = |micros: u64| -> u64 {
                counts.iter().filter(|(least, _)| *least < micros).map(|(_, count)| count).sum()
            };
            let label = format!("operation=\"{label}\"");
            for shift in (4..=26).step_by(2) {
                let (micros, text) = (1_u64 << shift, seconds(1 << shift));
                let count = below(micros);
                writeln!(self.0, "flagstone_{name}_bucket{{{label},le=\"{text}\"}} {count}")?;
            }
            let all = below(u64::MAX);
            writeln!(self.0, "flagstone_{name}_bucket{{{label},le=\"+Inf\"}} {all}")?;
            let sum = seconds(histogram.micros());
            writeln!(self.0, "flagstone_{name}_sum{{{label}}} {sum}")?;
            writeln!(self.0, "flagstone_{name}_count{{{label}}} {all}")?;
        }
        Ok(())
    }

    fn put_engine(&mut self, stats: &Stats) -> fmt::Result {
        use MetricType::{Counter, Gauge};
        let cache = &stats.cache;
        for (name, kind, help, value) in [
            (
                "memory_budget_bytes",
                Gauge,
                "The memory that the database may use.",
                stats.memory_budget,
            ),
            ("memtable_bytes", Gauge, "Bytes of all memtables.", stats.memtable_bytes),
            (
                "query_bytes",
                Gauge,
                "Bytes that sorts, groups and pipelines hold.",
                stats.query_bytes,
            ),
            ("cache_bytes", Gauge, "Bytes that the block cache holds.", cache.used_bytes),
            (
                "cache_capacity_bytes",
                Gauge,
                "Bytes that the block cache may hold.",
                cache.capacity_bytes,
            ),
            ("cache_hits_total", Counter, "Blocks found in the cache.", cache.hits),
            ("cache_misses_total", Counter, "Blocks read from files.", cache.misses),
            ("log_bytes", Gauge, "Bytes of the write-ahead log.", stats.wal_bytes),
            (
                "log_written_bytes_total",
                Counter,
                "Bytes appended to the log.",
                stats.wal_bytes_written,
            ),
            ("log_syncs_total", Counter, "Syncs of the log.", stats.wal_syncs),
            ("flushes_total", Counter, "Memtables flushed.", stats.flushes),
            ("compactions_total", Counter, "Compactions done.", stats.compactions),
            ("partition_splits_total", Counter, "Partitions split in two.", stats.splits),
            ("partition_merges_total", Counter, "Neighbouring partitions merged.", stats.merges),
            ("stalls_total", Counter, "How often writers were stopped.", stats.stalls),
            ("open_files", Gauge, "Descriptors that open tables hold.", stats.files_open as u64),
        ] {
            self.one(name, kind, help, value)?;
        }
        let age = stats.oldest_snapshot_age.as_secs_f64();
        let help = "Seconds for which the oldest snapshot has kept what was overwritten since.";
        self.one("oldest_snapshot_seconds", Gauge, help, age)?;
        let stalled = stats.stalled_for.as_secs_f64();
        let help = "Seconds for which writers were stopped or slowed.";
        self.one("stalled_seconds_total", Counter, help, stalled)?;
        let keyspaces = &stats.keyspaces;
        let each = |count: fn(&flagstone::report::KeyspaceStats) -> u64| -> Vec<_> {
            let keyspaces = keyspaces.iter();
            keyspaces.map(|keyspace| (keyspace.info.name.as_str(), count(keyspace))).collect()
        };
        let bytes = each(|keyspace| keyspace.levels.iter().map(|level| level.bytes).sum());
        let help = "Bytes in tables, by keyspace.";
        self.labelled("table_bytes", Gauge, help, "keyspace", &bytes)?;
        let entries = each(|keyspace| keyspace.levels.iter().map(|level| level.entries).sum());
        let help = "Entries in tables, by keyspace.";
        self.labelled("table_entries", Gauge, help, "keyspace", &entries)?;
        let written =
            each(|keyspace| keyspace.flush_bytes_written + keyspace.compaction_bytes_written);
        let help = "Bytes written by flushes and compactions, by keyspace.";
        self.labelled("table_written_bytes_total", Counter, help, "keyspace", &written)
    }

    fn begin(&mut self, name: &str, kind: MetricType, help: &str) -> fmt::Result {
        let kind = match kind {
            MetricType::Gauge => "gauge",
            MetricType::Counter => "counter",
            MetricType::Histogram => "histogram",
        };
        writeln!(self.0, "# HELP flagstone_{name} {help}\n# TYPE flagstone_{name} {kind}")
    }

    fn one(
        &mut self,
        name: &str,
        kind: MetricType,
        help: &str,
        value: impl fmt::Display,
    ) -> fmt::Result {
        self.begin(name, kind, help)?;
        writeln!(self.0, "flagstone_{name} {value}")
    }

    fn labelled(
        &mut self,
        name: &str,
        kind: MetricType,
        help: &str,
        label: &str,
        values: &[(&str, u64)],
    ) -> fmt::Result {
        self.begin(name, kind, help)?;
        for (text, value) in values {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            writeln!(self.0, "flagstone_{name}{{{label}=\"{text}\"}} {value}")?;
        }
        Ok(())
    }
}
