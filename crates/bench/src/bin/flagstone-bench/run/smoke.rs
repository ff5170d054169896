//! Every workload for a moment, so that none of them is broken unseen.

use super::run as run_command;
use crate::args::{Args, Command, SmokeArgs};
use crate::failure::Failure;
use crate::output::note;
use clap::Parser;
use flagstone_bench::record::{Trial, read_dir};
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

/// What the workloads have in common: small, so that it is quick, and with memtables so small that
/// flushes and compactions happen.
const SMALL: &str = "--memory 16MiB --memtable-bytes 1MiB --interval 0.1";
/// The same for documents.
const SMALL_DOCUMENTS: &str = "--memory 16MiB --interval 0.02";
/// A command a line, and how many trials it makes; `{s}` is the seconds of a trial.
const COMMANDS: [(&str, usize); 27] = [
    ("put-heavy --threads 4 --closing-sync --seconds {s}", 1),
    ("get-heavy --threads 2 --telling-deletes --seconds {s}", 1),
    ("delete-heavy --threads 16 --partitions 16 --values half --seconds {s}", 1),
    ("balanced --operations 20000 --value-size 100 --key-size 24", 1),
    ("ycsb-a --records 5000 --seconds {s}", 1),
    ("ycsb-b --records 5000 --seconds {s}", 1),
    ("ycsb-c --records 5000 --seconds {s}", 1),
    ("ycsb-d --records 5000 --seconds {s}", 1),
    ("ycsb-e --records 5000 --seconds {s}", 1),
    ("ycsb-f --records 5000 --seconds {s}", 1),
    ("durability --partitions 1,4 --seconds {s}", 7 * 2),
    ("durable-writers --threads 1,8 --seconds {s}", 2),
    ("matrix --workload mixes --partitions 1,2 --threads 1,2 --seconds {s} --resume", 4 * 2 * 2),
    ("cached-get --records 5000 --seconds {s}", 1),
    ("absent-get --records 5000 --as-written --seconds {s}", 1),
    ("full-scan --records 50000 --rounds 2", 1),
    ("short-scan --records 5000 --as-written --seconds {s}", 1),
    ("overwrite --records 5000 --seconds {s}", 1),
    ("overwrite --records 5000 --pattern queue --seconds {s}", 1),
    ("sizes --sizes 2MB,4MB --seconds {s}", 2),
    ("sequential --puts 20000 --gets 5000", 2),
    ("load --comments 3000", 1),
    ("get --comments 3000 --sample 500 --path author --threads 1,2 --seconds {s}", 2),
    (
        "update --comments 3000 --sample 500 --how get-put,update,apply-patch,merge,put --seconds {s}",
        5,
    ),
    (
        "document-matrix --workload load --comments 3000 --partitions 1,2 --readers 1 --parsers 1,2",
        4,
    ),
    (
        "document-matrix --workload get --comments 3000 --partitions 1,2 --threads 1,2 --seconds {s}",
        4,
    ),
    (
        "document-matrix --workload update --comments 3000 --partitions 2 --threads 1,2 --seconds {s}",
        2,
    ),
];
/// Of a device, which may refuse them: file systems in memory do.
const OF_DEVICES: [(&str, usize); 2] = [
    ("device --file-bytes 16MiB --threads 1,4 --seconds {s}", 1),
    (
        "larger --memory 16MiB --times 2 --blocks 4KiB,16KiB --threads 1,4 --device-seconds {s} \
         --seconds {s} --interval 0.1",
        4,
    ),
];
/// What a report of all these results shows: a figure whose name begins so. Those over time of short trials
/// need more rows than a busy machine may find time for.
const FIGURES: [&str; 10] = [
    "best",
    "by-threads",
    "by-partitions",
    "size-rate",
    "latency",
    "load",
    "documents",
    "durability",
    "ycsb",
    "run-put-heavy-flagstone",
];

pub(super) fn run(args: &SmokeArgs) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        return smoke(out, args);
    }
    let out = std::env::temp_dir().join(format!("flagstone-smoke-{}", std::process::id()));
    let smoked = smoke(&out, args);
    let removed = std::fs::remove_dir_all(&out);
    smoked?;
    removed.map_err(|error| Failure::io("remove", &out, &error))
}

fn smoke(out: &Path, args: &SmokeArgs) -> Result<(), Failure> {
    let mut expected = 0;
    for (command, trials) in COMMANDS {
        let of_documents =
            ["load", "get", "update", "document-matrix"].contains(&workload_of(command));
        let small = if of_documents { SMALL_DOCUMENTS } else { SMALL };
        run_one(&format!("{command} {small}"), trials, args.seconds, out)?;
        expected += trials;
    }
    for (command, trials) in OF_DEVICES {
        match run_one(command, trials, args.seconds, out) {
            Err(Failure::Check(refused)) if refused.contains("O_DIRECT") => note(&refused),
            done => {
                done?;
                expected += trials;
            }
        }
    }
    check(out, expected)
}

fn workload_of(command: &str) -> &str {
    command.split(' ').next().unwrap_or_default()
}

/// Trials of one command share the time.
fn run_one(command: &str, trials: usize, seconds: Duration, out: &Path) -> Result<(), Failure> {
    let seconds = seconds.as_secs_f64() / if trials > 1 { 5.0 } else { 1.0 };
    let line = command.replace("{s}", &seconds.to_string());
    note(&line);
    run_command(&parsed(&line, &["--out".as_ref(), out.as_os_str()])?)
}

fn parsed(line: &str, more: &[&OsStr]) -> Result<Command, Failure> {
    let words = ["flagstone-bench"].into_iter().chain(line.split_whitespace()).map(OsStr::new);
    let parsed = Args::try_parse_from(words.chain(more.iter().copied()));
    match parsed.map_err(|e| Failure::Usage(e.to_string()))?.command {
        Command::Smoke(_) => Err(Failure::Usage(format!("{line}: expected a workload"))),
        command => Ok(command),
    }
}

/// Every result is there, can be read, and tells of operations.
fn check(out: &Path, expected: usize) -> Result<(), Failure> {
    let trials = read_dir(out).map_err(|error| Failure::io("read", out, &error))?;
    let wrong = |trial: &Trial| {
        let is_empty = trial.summary.ops == 0 || trial.rows.is_empty();
        let ops: u64 = trial.rows.iter().map(|row| row.ops).sum();
        is_empty || ops != trial.summary.ops || trial.summary.latency.is_empty()
    };
    if let Some(trial) = trials.iter().find(|trial| wrong(trial)) {
        return Err(Failure::Check(format!("{}: an empty result", trial.path.display())));
    }
    if trials.len() < expected {
        return Err(Failure::Check(format!("{} results: expected {expected}", trials.len())));
    }
    note(&format!("{} results, all well", trials.len()));
    report(out, trials.len())
}

/// They can be drawn and tabled, and every kind of figure is drawn.
fn report(out: &Path, trials: usize) -> Result<(), Failure> {
    let (drawn, tables) = (out.join("pictures"), out.join("tables"));
    let mut words = vec!["report".as_ref(), out.as_os_str(), "--csv".as_ref(), tables.as_os_str()];
    if cfg!(feature = "png") {
        words.extend(["--png".as_ref(), drawn.as_os_str()]);
    }
    run_command(&parsed("", &words)?)?;
    let path = out.join("report.html");
    let html = std::fs::read_to_string(&path).map_err(|e| Failure::io("read", &path, &e))?;
    let is_drawn = |name: &str| html.contains(&format!("<figure id=\"figure-{name}"));
    if let Some(name) = FIGURES.into_iter().find(|name| !is_drawn(name)) {
        return Err(Failure::Check(format!("{}: no figure {name}", path.display())));
    }
    let count = |dir: &Path| {
        let entries = std::fs::read_dir(dir).map_err(|error| Failure::io("read", dir, &error))?;
        Ok::<_, Failure>(entries.count())
    };
    let (pictures, figures) = (count(&drawn), html.matches("<figure").count());
    if cfg!(feature = "png") && pictures? < figures {
        let text = format!("{}: expected {figures} pictures", drawn.display());
        return Err(Failure::Check(text));
    }
    let expected = 2 * trials;
    if count(&tables)? < expected {
        return Err(Failure::Check(format!("{}: expected {expected} tables", tables.display())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    #[test]
    fn every_workload_is_tried() {
        let args = Args::command();
        let known: BTreeSet<&str> =
            args.get_subcommands().map(|command| command.get_name()).collect();
        let commands = COMMANDS.iter().chain(&OF_DEVICES).map(|(command, _)| workload_of(command));
        let tried: BTreeSet<&str> = commands.chain(["report", "smoke"]).collect();
        assert_eq!(known, tried);
    }
}
