//! Every workload for a moment, so that none of them is broken unseen.

use super::run as run_bench;
use crate::args::{Args, Bench, Command, SmokeArgs};
use crate::failure::Failure;
use crate::output::note;
use clap::Parser;
use flagstone_bench::record::{Trial, read_dir};
use flagstone_bench::report::Report;
use std::path::Path;

/// What the workloads have in common: small, so that it is quick, and with memtables so small that
/// flushes and compactions happen.
const SMALL: &str = "--memory 16MiB --memtable-bytes 1MiB --interval 0.1";
/// A command a line; `{s}` is the seconds of a trial.
const COMMANDS: [&str; 13] = [
    "put-heavy --threads 4 --closing-sync --seconds {s}",
    "get-heavy --threads 2 --telling-deletes --seconds {s}",
    "delete-heavy --threads 16 --partitions 16 --values half --seconds {s}",
    "balanced --operations 20000 --value-size 100 --key-size 24",
    "ycsb-a --records 5000 --seconds {s}",
    "ycsb-b --records 5000 --seconds {s}",
    "ycsb-c --records 5000 --seconds {s}",
    "ycsb-d --records 5000 --seconds {s}",
    "ycsb-e --records 5000 --seconds {s}",
    "ycsb-f --records 5000 --seconds {s}",
    "durability --partitions 1,4 --seconds {s}",
    "durable-writers --threads 1,8 --seconds {s}",
    "matrix --workload mixes --partitions 1,2 --threads 1,2 --seconds {s} --resume",
];
/// Trials that these commands make.
const TRIALS: usize = 10 + 7 * 2 + 2 + 4 * 2 * 2;

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
    let seconds = args.seconds.as_secs_f64();
    for command in COMMANDS {
        // Workloads of many trials share the time.
        let many = ["durability", "durable-writers", "matrix"];
        let is_one = !many.iter().any(|name| command.starts_with(name));
        let seconds = if is_one { seconds } else { seconds / 5.0 };
        let line = format!("{command} {SMALL}").replace("{s}", &seconds.to_string());
        note(&format!("bench {line}"));
        run_bench(&parsed(&line, out)?)?;
    }
    check(out)
}

fn parsed(line: &str, out: &Path) -> Result<crate::args::BenchArgs, Failure> {
    let words = ["flagstone", "bench"].into_iter().chain(line.split(' ')).map(Into::into);
    let words = words.chain(["--out".into(), out.as_os_str().to_owned()]);
    let parsed = Args::try_parse_from(words).map_err(|e| Failure::Usage(e.to_string()))?;
    match parsed.command {
        Command::Bench(args) if !matches!(args.workload, Bench::Smoke(_)) => Ok(args),
        _ => Err(Failure::Usage(format!("{line}: expected a workload"))),
    }
}

/// Every result is there, can be read, and tells of operations.
fn check(out: &Path) -> Result<(), Failure> {
    let trials = read_dir(out).map_err(|error| Failure::io("read", out, &error))?;
    let wrong = |trial: &Trial| {
        let is_empty = trial.summary.ops == 0 || trial.rows.is_empty();
        let ops: u64 = trial.rows.iter().map(|row| row.ops).sum();
        is_empty || ops != trial.summary.ops || trial.summary.latency.is_empty()
    };
    if let Some(trial) = trials.iter().find(|trial| wrong(trial)) {
        return Err(Failure::Check(format!("{}: an empty result", trial.path.display())));
    }
    if trials.len() < TRIALS {
        return Err(Failure::Check(format!("{} results: expected {TRIALS}", trials.len())));
    }
    note(&format!("{} results, all well", trials.len()));
    report(out, &trials)
}

/// They can be drawn.
fn report(out: &Path, trials: &[Trial]) -> Result<(), Failure> {
    let html = Report::new(trials, None).html();
    let path = out.join("report.html");
    std::fs::write(&path, &html).map_err(|error| Failure::io("write", &path, &error))?;
    let figures = html.matches("<svg").count();
    if figures == 0 {
        return Err(Failure::Check(format!("{}: a report without figures", path.display())));
    }
    note(&format!("a report of {figures} figures"));
    Ok(())
}
