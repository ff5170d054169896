//! A row as one line, a summary as a table: for people at a terminal.

use crate::record::{Latency, OpKind, RowLine, Summary};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A row as one line, without its end.
pub fn show_row(row: &RowLine) -> String {
    let mut line = format!("{:7.1} s {:>9} ops/s", row.t, rate(row.ops as f64 / row.dt));
    let kinds = [
        (&[OpKind::Get, OpKind::Scan][..], "read"),
        (&[OpKind::Put, OpKind::Delete, OpKind::Update, OpKind::Merge, OpKind::Batch][..], "write"),
    ];
    for (kinds, name) in kinds {
        let worst = kinds.iter().filter_map(|kind| row.latency.get(kind));
        if let Some(worst) = worst.max_by(|a, b| a.p999.total_cmp(&b.p999)) {
            let (p999, max) = (time(worst.p999), time(worst.max));
            let _infallible = write!(line, "  {name} p99.9 {p999:>7} max {max:>7}");
        }
    }
    let _infallible = write!(
        line,
        "  disk {:>7}  +{:>7}/s  rss {:>7}  cpu {:.2}",
        bytes(row.disk_bytes as f64),
        bytes(row.disk_write_bytes as f64 / row.dt),
        bytes(row.rss_bytes as f64),
        row.cpu_s / row.dt,
    );
    if let Some(stalled) = row.stalled_s.filter(|stalled| *stalled >= 0.001) {
        let _infallible = write!(line, "  stalled {stalled:.2} s");
    }
    line
}

/// What a trial's tails are beside those of the no-op store that burns as much CPU, as a table: the
/// figures of [`run_yardstick`](crate::workload::run_yardstick).
pub fn show_tails(trial: &Summary, noop: &Summary) -> String {
    let mut text =
        format!("{:<8}{:>14}{:>14}{:>10}\n", "p99.9", "the trial", "no-op store", "ratio");
    for (kind, here) in &noop.latency {
        if let Some(there) = trial.latency.get(kind) {
            let (there, here) = (there.p999, here.p999);
            let (name, ratio) = (kind.name(), there / here.max(1e-3));
            let (there, here) = (time(there), time(here));
            let _infallible = writeln!(text, "{name:<8}{there:>14}{here:>14}{ratio:>10.2}");
        }
    }
    let cpu = |summary: &Summary| time(summary.cpu_s * 1e6 / summary.ops.max(1) as f64);
    let (there, here) = (cpu(trial), cpu(noop));
    let _infallible = writeln!(text, "{:<8}{there:>14}{here:>14}", "CPU/op");
    text
}

/// A summary as a table of several lines.
pub fn show_summary(summary: &Summary) -> String {
    let mut text = format!(
        "{} ops in {:.1} s: {} ops/s\n",
        rate(summary.ops as f64),
        summary.seconds,
        rate(summary.ops_per_s),
    );
    text += &show_steadiness(summary);
    text += &show_latencies(&summary.latency);
    let _infallible = writeln!(
        text,
        "make {:.1}%   cpu {:.1} s   rss {}   disk {}   put {}   written {}{}",
        summary.make_share * 100.0,
        summary.cpu_s,
        bytes(summary.rss_max_bytes as f64),
        bytes(summary.disk_bytes as f64),
        bytes(summary.user_bytes as f64),
        bytes(summary.disk_write_bytes as f64),
        summary.write_amplification.map_or(String::new(), |w| format!(" ({w:.2} a byte put)")),
    );
    for (name, value) in &summary.figures {
        let shown = if name.ends_with("bytes") { bytes(*value) } else { number(*value) };
        let _infallible = writeln!(text, "{name:<28} {shown}");
    }
    text
}

/// `598 whole rows: median 200k ops/s; worst hundredth (mean of 6) 160k, 0.80 of it; worst ...`.
fn show_steadiness(summary: &Summary) -> String {
    let Summary { rows, row_median, row_worst, row_worst_hundredth, .. } = *summary;
    if rows == 0 {
        return String::new();
    }
    let of_median =
        |value: f64| format!("{}, {:.2} of it", rate(value), value / row_median.max(1e-9));
    format!(
        "{rows} whole rows: median {} ops/s; worst hundredth (mean of {}) {}; worst {}\n",
        rate(row_median),
        rows.div_ceil(100),
        of_median(row_worst_hundredth),
        of_median(row_worst),
    )
}

fn show_latencies(latency: &BTreeMap<OpKind, Latency>) -> String {
    let mut text = String::new();
    if !latency.is_empty() {
        let heads = ["mean", "p50", "p99", "p99.9", "max"];
        let heads: String = heads.iter().map(|head| format!("{head:>10}")).collect();
        let _infallible = writeln!(text, "{:<8}{:>12}{heads}", "", "count");
    }
    for (kind, found) in latency {
        let times = [found.mean, found.p50, found.p99, found.p999, found.max];
        let times: String = times.iter().map(|us| format!("{:>10}", time(*us))).collect();
        let _infallible = writeln!(text, "{:<8}{:>12}{times}", kind.name(), found.count);
    }
    text
}

fn rate(value: f64) -> String {
    match value {
        v if v >= 9_995_000.0 => format!("{:.1}M", v / 1e6),
        v if v >= 999_500.0 => format!("{:.2}M", v / 1e6),
        v if v >= 99_950.0 => format!("{:.0}k", v / 1e3),
        v if v >= 9_995.0 => format!("{:.1}k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

fn time(microseconds: f64) -> String {
    match microseconds {
        us if us >= 999_500.0 => format!("{:.2} s", us / 1e6),
        us if us >= 99_950.0 => format!("{:.0} ms", us / 1e3),
        us if us >= 999.5 => format!("{:.1} ms", us / 1e3),
        us if us >= 99.95 => format!("{us:.0} us"),
        us => format!("{us:.1} us"),
    }
}

fn bytes(value: f64) -> String {
    match value {
        v if v >= 999.5e6 => format!("{:.2} GB", v / 1e9),
        v if v >= 999.5e3 => format!("{:.0} MB", v / 1e6),
        v if v >= 999.5 => format!("{:.0} KB", v / 1e3),
        v => format!("{v:.0} B"),
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_summaries_are_shown_with_units() {
        let latency = Latency { count: 5, p999: 1500.0, max: 2_000_000.0, ..Latency::default() };
        let row = RowLine {
            t: 1.0,
            dt: 1.0,
            ops: 123_456,
            latency: [(OpKind::Put, latency)].into(),
            rss_bytes: 5_000_000,
            ..RowLine::default()
        };
        let line = show_row(&row);
        assert!(line.contains("123k ops/s  write p99.9  1.5 ms max  2.00 s"), "{line}");
        let summary = Summary {
            rows: 599,
            row_median: 200_000.0,
            row_worst_hundredth: 150_000.0,
            row_worst: 0.0,
            latency: row.latency,
            ..Summary::default()
        };
        let text = show_summary(&summary);
        let steadiness = "599 whole rows: median 200k ops/s; worst hundredth (mean of 6) 150k, 0.75 \
                          of it; worst 0, 0.00 of it";
        assert!(text.contains(steadiness), "{text}");
        assert!(text.contains("put                5"), "{text}");
    }
}
