//! `smoke`: every workload for a moment, so that none of them breaks unnoticed.

use super::failure::{at, note};
use crate::engine::{EngineError, Outcome};
use crate::options::seconds;
use crate::record::{Trial, read_dir};
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every workload for a moment on a small store, and a check of what it wrote
#[derive(Args, Clone, Debug)]
pub(super) struct SmokeCommand {
    /// Keep the results in this directory; otherwise they go to a temporary one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seconds of a workload of one trial; trials of one command take a fifth of it each
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    seconds: Duration,
}

/// The options of all workloads: small, so that they are quick, and memtables so small that
/// flushes and compactions happen.
const SMALL: &str = "--memory 16MiB --memtable-bytes 1MiB --interval 0.1";
/// The same for documents.
const SMALL_DOCUMENTS: &str = "--memory 16MiB --interval 0.02";
/// The commands and the numbers of their trials; `{s}` is the seconds of a trial.
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
/// Commands that need a device: file systems in memory refuse them.
const OF_DEVICES: [(&str, usize); 2] = [
    ("device --file-bytes 16MiB --threads 1,4 --seconds {s}", 1),
    (
        "larger --memory 16MiB --times 2 --blocks 4KiB,16KiB --threads 1,4 --device-seconds {s} \
         --seconds {s} --interval 0.1",
        4,
    ),
];
/// The beginnings of the names of figures that a report of all these results must show. Figures
/// over time of short trials need more rows than a busy machine may find time for.
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

/// Runs a command line.
type Run<'a> = &'a dyn Fn(Vec<OsString>) -> Outcome<()>;

impl SmokeCommand {
    pub(super) fn run(&self, run: Run<'_>) -> Outcome<()> {
        if let Some(out) = &self.out {
            return self.smoke(out, run);
        }
        let out = std::env::temp_dir().join(format!("flagstone-smoke-{}", std::process::id()));
        let smoked = self.smoke(&out, run);
        let removed = std::fs::remove_dir_all(&out);
        smoked?;
        removed.map_err(|error| at("remove", &out, &error))
    }

    fn smoke(&self, out: &Path, run: Run<'_>) -> Outcome<()> {
        let mut expected = 0;
        for (command, trials) in COMMANDS {
            let of_documents =
                ["load", "get", "update", "document-matrix"].contains(&workload_of(command));
            let small = if of_documents { SMALL_DOCUMENTS } else { SMALL };
            self.run_one(&format!("{command} {small}"), trials, out, run)?;
            expected += trials;
        }
        for (command, trials) in OF_DEVICES {
            match self.run_one(command, trials, out, run) {
                Err(refused) if refused.to_string().contains("O_DIRECT") => {
                    note(&refused.to_string());
                }
                done => {
                    done?;
                    expected += trials;
                }
            }
        }
        check(out, expected, run)
    }

    /// Trials of one command share the time.
    fn run_one(&self, command: &str, trials: usize, out: &Path, run: Run<'_>) -> Outcome<()> {
        let seconds = self.seconds.as_secs_f64() / if trials > 1 { 5.0 } else { 1.0 };
        let line = command.replace("{s}", &seconds.to_string());
        note(&line);
        run(words(&format!("{line} --out"), out))
    }
}

fn workload_of(command: &str) -> &str {
    command.split(' ').next().unwrap_or_default()
}

/// The words of a command line that ends with a path.
fn words(line: &str, path: &Path) -> Vec<OsString> {
    let words = ["flagstone-bench"].into_iter().chain(line.split_whitespace());
    words.map(OsString::from).chain([path.into()]).collect()
}

/// Checks that every result is there, can be read, and tells of operations.
fn check(out: &Path, expected: usize, run: Run<'_>) -> Outcome<()> {
    let trials = read_dir(out).map_err(|error| at("read", out, &error))?;
    let wrong = |trial: &Trial| {
        let is_empty = trial.summary.ops == 0 || trial.rows.is_empty();
        let ops: u64 = trial.rows.iter().map(|row| row.ops).sum();
        is_empty || ops != trial.summary.ops || trial.summary.latency.is_empty()
    };
    if let Some(trial) = trials.iter().find(|trial| wrong(trial)) {
        return Err(format!("{}: an empty result", trial.path.display()).into());
    }
    if trials.len() < expected {
        return Err(format!("{} results: expected {expected}", trials.len()).into());
    }
    note(&format!("{} results, all well", trials.len()));
    report(out, trials.len(), run)
}

/// Checks that the results can be drawn and tabled, and that every kind of figure is drawn.
fn report(out: &Path, trials: usize, run: Run<'_>) -> Outcome<()> {
    let (drawn, tables) = (out.join("pictures"), out.join("tables"));
    let mut words = words("report", out);
    words.extend(["--csv".into(), tables.clone().into()]);
    if cfg!(feature = "png") {
        words.extend(["--png".into(), drawn.clone().into()]);
    }
    run(words)?;
    let path = out.join("report.html");
    let html = std::fs::read_to_string(&path).map_err(|error| at("read", &path, &error))?;
    let is_drawn = |name: &str| html.contains(&format!("<figure id=\"figure-{name}"));
    if let Some(name) = FIGURES.into_iter().find(|name| !is_drawn(name)) {
        return Err(format!("{}: no figure {name}", path.display()).into());
    }
    let at_least = |dir: &Path, expected: usize, what: &str| -> Outcome<()> {
        let found = std::fs::read_dir(dir).map_err(|error| at("read", dir, &error))?.count();
        let text = || format!("{}: {found} {what}, expected {expected}", dir.display());
        if found < expected { Err(EngineError::from(text())) } else { Ok(()) }
    };
    if cfg!(feature = "png") {
        at_least(&drawn, html.matches("<figure").count(), "pictures")?;
    }
    at_least(&tables, 2 * trials, "tables")
}

#[cfg(test)]
mod tests {
    use super::super::args::Arguments;
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    #[test]
    fn every_workload_is_tried() {
        let args = Arguments::command();
        let known: BTreeSet<&str> =
            args.get_subcommands().map(|command| command.get_name()).collect();
        let commands = COMMANDS.iter().chain(&OF_DEVICES).map(|(command, _)| workload_of(command));
        let tried: BTreeSet<&str> = commands.chain(["report", "smoke"]).collect();
        assert_eq!(known, tried);
    }
}
