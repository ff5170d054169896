//! A row as one line, a summary as a table, for a terminal.

use crate::record::{Latency, OpKind, RowLine, Summary};
use crate::report::Unit;
use std::collections::BTreeMap;

const WRITES: [OpKind; 6] = [
    OpKind::Put,
    OpKind::Delete,
    OpKind::Update,
    OpKind::Merge,
    OpKind::Batch,
    OpKind::Transaction,
];

/// A row as one line, without its end.
pub fn show_row(row: &RowLine) -> String {
    let mut line =
        format!("{:7.1} s {:>9} ops/s", row.t, Unit::Count.show(row.ops as f64 / row.dt));
    let kinds = [(&[OpKind::Get, OpKind::Scan][..], "read"), (&WRITES[..], "write")];
    for (kinds, name) in kinds {
        let worst = kinds.iter().filter_map(|kind| row.latency.get(kind));
        if let Some(worst) = worst.max_by(|a, b| a.p999.total_cmp(&b.p999)) {
            let (p999, max) = (Unit::Micros.show(worst.p999), Unit::Micros.show(worst.max));
            line += &format!("  {name} p99.9 {p999:>7} max {max:>7}");
        }
    }
    line += &format!(
        "  disk {:>7}  +{:>7}/s  rss {:>7}  cpu {:.2}",
        Unit::Bytes.show(row.disk_bytes as f64),
        Unit::Bytes.show(row.disk_write_bytes as f64 / row.dt),
        Unit::Bytes.show(row.rss_bytes as f64),
        row.cpu_s / row.dt,
    );
    if let Some(stalled) = row.stalled_s.filter(|stalled| *stalled >= 0.001) {
        line += &format!("  stalled {stalled:.2} s");
    }
    line
}

/// A summary as a table of several lines.
pub fn show_summary(summary: &Summary) -> String {
    let mut text = format!(
        "{} ops in {:.1} s: {} ops/s\n",
        summary.ops,
        summary.seconds,
        Unit::Count.show(summary.ops_per_s),
    );
    text += &show_steadiness(summary);
    text += &show_latencies(&summary.latency);
    text += &format!(
        "make {:.1}%   cpu {:.1} s   rss {}   disk {}   put {}   written {}{}\n",
        summary.make_share * 100.0,
        summary.cpu_s,
        Unit::Bytes.show(summary.rss_max_bytes as f64),
        Unit::Bytes.show(summary.disk_bytes as f64),
        Unit::Bytes.show(summary.user_bytes as f64),
        Unit::Bytes.show(summary.disk_write_bytes as f64),
        summary.write_amplification.map_or(String::new(), |w| format!(" ({w:.2} a byte put)")),
    );
    for (name, value) in &summary.figures {
        let shown = if name.ends_with("bytes") { Unit::Bytes.show(*value) } else { number(*value) };
        text += &format!("{name:<28} {shown}\n");
    }
    text
}

/// `598 whole rows: median 200k ops/s; worst hundredth (mean of 6) 160k, 0.80 of it; worst ...`.
fn show_steadiness(summary: &Summary) -> String {
    let Summary { rows, row_median, row_worst, row_worst_hundredth, .. } = *summary;
    if rows == 0 {
        return String::new();
    }
    let of_median = |value: f64| {
        format!("{}, {:.2} of it", Unit::Count.show(value), value / row_median.max(1e-9))
    };
    format!(
        "{rows} whole rows: median {} ops/s; worst hundredth (mean of {}) {}; worst {}\n",
        Unit::Count.show(row_median),
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
        text += &format!("{:<8}{:>12}{heads}\n", "", "count");
    }
    for (kind, found) in latency {
        let times = [found.mean, found.p50, found.p99, found.p999, found.max];
        let times: String =
            times.iter().map(|us| format!("{:>10}", Unit::Micros.show(*us))).collect();
        text += &format!("{:<8}{:>12}{times}\n", kind.name(), found.count);
    }
    text
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
        assert!(line.contains("123k ops/s  write p99.9  1.5 ms max     2 s"), "{line}");
        let summary = Summary {
            rows: 599,
            row_median: 200_000.0,
            row_worst_hundredth: 150_000.0,
            row_worst: 0.0,
            latency: row.latency,
            ..Summary::default()
        };
        let text = show_summary(&summary);
        let steadiness = "599 whole rows: median 200k ops/s; worst hundredth (mean of 6) 150k, \
                          0.75 of it; worst 0, 0.00 of it";
        assert!(text.contains(steadiness), "{text}");
        assert!(text.contains("put                5"), "{text}");
    }
}
