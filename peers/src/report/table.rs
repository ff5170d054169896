//! The tables: a summary with one line per cell, then one table per cell.

use super::medians::{Measured, Space, by_cell, cell_of};
use crate::cells::{Work, all};
use crate::engines::KINDS;
use flagstone_bench::engine::Outcome;
use flagstone_bench::record::{OpKind, Trial, read_dir};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// The line between the summary and the tables: `cargo xtask peers` cuts there.
const REST: &str = "<!-- the rest -->";

/// Prints the tables for the result files in `dir`.
///
/// # Errors
/// Errors of the file system; a result file that is not as expected.
pub(crate) fn print(dir: &Path) -> Outcome<()> {
    println!("{}", render(&read_dir(dir)?)?);
    Ok(())
}

fn render(trials: &[Trial]) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    if trials.is_empty() {
        text.push_str("No result files.\n");
        return Ok(text);
    }
    let cells = by_cell(trials);
    let known = all();
    let place = |name: &str| known.iter().position(|cell| cell.name == name);
    let mut order: Vec<(&String, &Vec<Measured>)> = cells.iter().collect();
    order.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    machine(&mut text, &trials[0])?;
    let is_headline = |name: &str| place(name).is_some_and(|at| known[at].is_headline());
    let (headline, others): (Vec<_>, Vec<_>) =
        order.iter().partition(|(name, _)| is_headline(name));
    if !headline.is_empty() {
        let shown = trials.iter().filter(|trial| is_headline(&cell_of(trial)));
        rounds(&mut text, &shown.collect::<Vec<_>>())?;
        summary(&mut text, &headline)?;
    }
    writeln!(text, "\n{REST}\n")?;
    if !others.is_empty() {
        summary(&mut text, &others)?;
        writeln!(text)?;
    }
    for (name, measured) in &order {
        let is_scan = place(name).is_some_and(|at| known[at].work == Work::FullScan);
        writeln!(text, "### {name}\n")?;
        let of_cell = trials.iter().filter(|trial| cell_of(trial) == **name);
        rounds(&mut text, &of_cell.collect::<Vec<_>>())?;
        cell(&mut text, measured, if is_scan { "k entries/s" } else { "kops/s" })?;
    }
    versions(&mut text, trials)?;
    Ok(text)
}

/// Returns a line about the machine, from the header of a result file.
fn machine(text: &mut String, trial: &Trial) -> std::fmt::Result {
    let machine = &trial.header.machine;
    let gib = machine.memory_bytes as f64 / (1_u64 << 30) as f64;
    writeln!(
        text,
        "{} cores ({}), {gib:.0} GiB, {} on {}.",
        machine.cores, machine.cpu, machine.file_system, machine.system
    )
}

/// Returns a line with rounds, seconds, days and commits of the trials, from their headers.
fn rounds(text: &mut String, trials: &[&Trial]) -> std::fmt::Result {
    let join = |told: BTreeSet<&str>| told.into_iter().collect::<Vec<_>>().join(", ");
    let days = join(trials.iter().filter_map(|t| t.header.started.split('T').next()).collect());
    let commits = join(trials.iter().map(|trial| trial.header.commit.as_str()).collect());
    let seconds = trials.iter().filter_map(|trial| trial.header.options.get("seconds")?.as_f64());
    let mut seconds: Vec<f64> = seconds.collect();
    seconds.sort_by(f64::total_cmp);
    seconds.dedup();
    let seconds: Vec<String> = seconds.iter().map(f64::to_string).collect();
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for trial in trials {
        *counts.entry((cell_of(trial), &trial.header.engine)).or_default() += 1;
    }
    let (least, most) = (counts.values().min().unwrap_or(&0), counts.values().max().unwrap_or(&0));
    let range = if least == most { String::new() } else { format!("{least} to ") };
    let of = match &seconds[..] {
        [] => String::new(),
        seconds => format!(" of {} s", seconds.join(" and ")),
    };
    let plural = if *most == 1 { "" } else { "s" };
    writeln!(text, "Medians of {range}{most} round{plural}{of}; {days}; commit {commits}.\n")
}

fn base(engine: &str) -> &str {
    engine.split_once(':').map_or(engine, |(name, _)| name)
}

/// Returns the best rate of the engines that `peer` accepts.
fn best(measured: &[Measured], peer: impl Fn(&str) -> bool) -> Option<f64> {
    let peers = measured.iter().filter(|measured| peer(base(&measured.engine)));
    peers.map(|measured| measured.ops_per_s).max_by(f64::total_cmp)
}

fn is_peer(engine: &str) -> bool {
    engine != "flagstone"
}

/// Writes one line per cell with the rates of the engines, without variants.
fn summary(text: &mut String, order: &[&(&String, &Vec<Measured>)]) -> std::fmt::Result {
    let is_measured =
        |name: &&str| order.iter().any(|(_, measured)| measured.iter().any(|m| m.engine == *name));
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).filter(is_measured).collect();
    let columns = names.join(" | ");
    writeln!(
        text,
        "| kops/s | {columns} | flagstone / the better of RocksDB, fjall | / the best |"
    )?;
    writeln!(text, "|---|{}---|---|", "---|".repeat(names.len()))?;
    for (name, measured) in order {
        let rate = |engine: &str| {
            let found = measured.iter().find(|measured| measured.engine == engine);
            found.map(|measured| measured.ops_per_s)
        };
        let rates: Vec<String> =
            names.iter().map(|engine| rate(engine).map_or_else(String::new, kilo)).collect();
        let ratio = |best: Option<f64>| {
            let ratio = rate("flagstone").zip(best).map(|(own, best)| own / best);
            ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
        };
        writeln!(
            text,
            "| {name} | {} | **{}** | {} |",
            rates.join(" | "),
            ratio(best(measured, |engine| engine == "rocksdb" || engine == "fjall")),
            ratio(best(measured, is_peer)),
        )?;
    }
    Ok(())
}

fn cell(text: &mut String, measured: &[Measured], unit: &str) -> std::fmt::Result {
    let best = best(measured, is_peer);
    let kind = match measured.first().and_then(|measured| measured.kind) {
        Some(OpKind::Put) => "write",
        Some(OpKind::Scan) => "scan",
        _ => "get",
    };
    let has_gets = measured.iter().any(|measured| measured.get_p999_ms.is_some());
    let is_settled = measured.iter().any(|measured| measured.settled.is_some());
    let is_space = measured.iter().any(|measured| measured.space.is_some());
    writeln!(
        text,
        "| engine | {unit} (least to most) | worst second | {kind} p99.9, ms |{} RSS, MiB \
         | on disk, MiB | / put | written / put |{}{} / best peer |",
        if has_gets { " get p99.9, ms |" } else { "" },
        if is_settled { " settled after, s | with that time | with its bytes |" } else { "" },
        if is_space { " space / live | at most | at rest | after, s |" } else { "" },
    )?;
    let columns =
        9 + usize::from(has_gets) + 3 * usize::from(is_settled) + 4 * usize::from(is_space);
    writeln!(text, "|{}", "---|".repeat(columns))?;
    let mut sorted: Vec<&Measured> = measured.iter().collect();
    sorted.sort_by(|a, b| b.ops_per_s.total_cmp(&a.ops_per_s));
    for measured in sorted {
        writeln!(
            text,
            "| {} | {} ({} to {}) | {} | {} |{} {:.0} | {:.0} | {} | {} |{}{} {} |",
            measured.engine,
            kilo(measured.ops_per_s),
            kilo(measured.range.0),
            kilo(measured.range.1),
            kilo(measured.worst),
            plain(measured.p999_ms),
            match (has_gets, measured.get_p999_ms) {
                (false, _) => String::new(),
                (true, gets) => format!(" {} |", gets.map_or_else(String::new, plain)),
            },
            measured.rss_bytes / 1048576.0,
            measured.disk_bytes / 1048576.0,
            measured.disk_per_put.map_or_else(String::new, |times| format!("{times:.2}")),
            measured.write_amplification.map_or_else(String::new, |times| format!("{times:.1}")),
            match (is_settled, measured.settled) {
                (false, _) => String::new(),
                (true, None) => " | | |".to_owned(),
                (true, Some(settled)) => format!(
                    " {:.0} | {} | {:.1} |",
                    settled.seconds,
                    kilo(settled.ops_per_s),
                    settled.write_amplification
                ),
            },
            match (is_space, measured.space) {
                (false, _) => String::new(),
                (true, None) => " | | | |".to_owned(),
                (true, Some(Space { mean, max, rest_s, rested })) => {
                    format!(" {mean:.2} | {max:.2} | {rested:.2} | {rest_s:.0} |")
                }
            },
            best.map_or_else(String::new, |best| format!("{:.2}", measured.ops_per_s / best)),
        )?;
    }
    writeln!(text)
}

/// Writes one line per engine with its version and tuning.
fn versions(text: &mut String, trials: &[Trial]) -> std::fmt::Result {
    let mut lines: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for trial in trials {
        let header = &trial.header;
        let tuning = header.options.get("tuning").and_then(|tuning| tuning.as_str());
        let key = (header.engine.as_str(), header.engine_version.as_str());
        lines.entry(key).or_default().insert(tuning.unwrap_or(""));
    }
    writeln!(text, "### Versions\n")?;
    for ((engine, version), tunings) in lines {
        let tunings: Vec<&str> = tunings.into_iter().collect();
        writeln!(text, "- {engine}: {version}; {}", tunings.join("; or "))?;
    }
    Ok(())
}

/// Shows thousands with the digits that matter.
fn kilo(per_s: f64) -> String {
    plain(per_s / 1000.0)
}

fn plain(value: f64) -> String {
    match value {
        v if !v.is_finite() => String::new(),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 0.1 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_bench::record::{Header, Latency, Summary};

    fn trial(cell: &str, engine: &str, round: usize, rate: f64) -> Trial {
        let latency = Latency { count: 1, p999: 2500.0, ..Latency::default() };
        Trial {
            path: format!("out/{cell}/{engine}-{round}.jsonl").into(),
            header: Header {
                engine: engine.to_owned(),
                engine_version: format!("{engine} 1.0"),
                started: "2026-01-31T12:00:00Z".into(),
                commit: "0a1b".into(),
                options: [("seconds".to_owned(), 20.0.into())].into(),
                ..Header::default()
            },
            rows: Vec::new(),
            events: Vec::new(),
            summary: Summary {
                ops_per_s: rate,
                row_worst: rate / 2.0,
                latency: [(OpKind::Put, latency)].into(),
                write_amplification: Some(2.0),
                ..Summary::default()
            },
        }
    }

    #[test]
    fn a_table_shows_medians_in_the_order_of_the_cells_and_the_ratio_to_the_best_peer() {
        let trials = [
            trial("get-heavy-4", "flagstone", 0, 500_000.0),
            trial("put-heavy-4", "flagstone", 0, 300_000.0),
            trial("put-heavy-4", "flagstone", 1, 100_000.0),
            trial("put-heavy-4", "flagstone", 2, 200_000.0),
            trial("put-heavy-4", "rocksdb", 0, 80_000.0),
            trial("put-heavy-4", "fjall:blobs", 0, 100_000.0),
        ];
        let text = render(&trials).unwrap();
        let line = text.lines().find(|line| line.starts_with("| put-heavy-4 | 200 |")).unwrap();
        assert!(line.ends_with("| **2.00** | 2.00 |"), "{text}");
        assert!(text.contains("| flagstone | 200 (100 to 300) | 100 | 2.50 |"), "{text}");
        assert!(
            text.contains("Medians of 1 to 3 rounds of 20 s; 2026-01-31; commit 0a1b."),
            "{text}"
        );
        assert!(text.contains("- rocksdb: rocksdb 1.0"), "{text}");
        assert!(text.find("put-heavy-4") < text.find("get-heavy-4"), "{text}");
    }

    #[test]
    fn a_cell_of_garbage_shows_the_room_it_took() {
        let mut own = trial("overwrite-4", "flagstone", 0, 300_000.0);
        let peer = trial("overwrite-4", "rocksdb", 0, 100_000.0);
        let figures =
            [("space_mean", 1.9), ("space_max", 2.4), ("rest_s", 3.0), ("space_rested", 1.25)];
        own.summary.figures.extend(figures.map(|(name, value)| (name.to_owned(), value)));
        let text = render(&[own, peer]).unwrap();
        let table = text.split("### overwrite-4").nth(1).unwrap();
        let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
        assert!(
            lines[0].contains("| space / live | at most | at rest | after, s | / best"),
            "{text}"
        );
        assert!(lines[2].contains("| 1.90 | 2.40 | 1.25 | 3 | 3.00 |"), "{text}");
        assert!(lines.iter().all(|line| line.matches('|').count() == 14), "{text}");
    }

    #[test]
    fn a_sustained_cell_shows_its_gets_and_what_it_left_behind() {
        let mut own = trial("put-heavy-4-sustained", "flagstone", 0, 300_000.0);
        let gets = Latency { count: 1, p999: 4500.0, ..Latency::default() };
        own.summary.latency.insert(OpKind::Get, gets);
        (own.summary.ops, own.summary.seconds) = (36_000_000, 120.0);
        let figures = [("settle_s", 30.0), ("write_amplification_settled", 3.5)];
        own.summary.figures.extend(figures.map(|(name, value)| (name.to_owned(), value)));
        let mut peer = own.clone();
        peer.header.engine = "rocksdb".into();
        peer.summary.figures.clear();
        let text = render(&[own, peer]).unwrap();
        let table = text.split("### put-heavy-4-sustained").nth(1).unwrap();
        let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
        let cells = |line: &str| line.matches('|').count();
        assert!(lines.len() == 4 && lines.iter().all(|line| cells(line) == 14), "{text}");
        assert!(lines[0].contains("| get p99.9, ms |"), "{text}");
        assert!(lines[0].contains("| settled after, s | with that time | with its bytes |"));
        assert!(lines[2].contains("| 150 | 2.50 | 4.50 |"), "{text}");
        assert!(lines[2].contains("| 30 | 240 | 3.5 |"), "{text}");
        assert!(lines[3].starts_with("| rocksdb |") && lines[3].contains(" | | |"), "{text}");
    }

    #[test]
    fn deletes_are_writes() {
        let mut trial = trial("delete-heavy-4", "flagstone", 0, 300_000.0);
        let deletes = Latency { count: 1, p999: 7500.0, ..Latency::default() };
        trial.summary.latency.insert(OpKind::Delete, deletes);
        let text = render(&[trial]).unwrap();
        assert!(text.contains("| write p99.9, ms |") && text.contains("| 150 | 7.50 |"), "{text}");
    }

    #[test]
    fn what_the_readme_shows_stands_before_the_rest() {
        let trials = [
            trial("fill", "flagstone", 0, 500_000.0),
            trial("put-heavy-4", "flagstone", 0, 300_000.0),
        ];
        let text = render(&trials).unwrap();
        let (shown, rest) = text.split_once(REST).unwrap();
        assert!(shown.contains("| put-heavy-4 |") && !shown.contains("| fill |"), "{text}");
        assert!(rest.contains("| fill |") && !rest.contains("| put-heavy-4 |"), "{text}");
        assert!(rest.contains("### put-heavy-4") && rest.contains("### fill"), "{text}");
    }

    #[test]
    fn no_result_files_are_said_so() {
        assert!(render(&[]).unwrap().contains("No result files"));
    }
}
