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
/// The same for documents.
const SMALL_DOCUMENTS: &str = "--memory 16MiB --interval 0.1";
/// A command a line; `{s}` is the seconds of a trial.
const COMMANDS: [&str; 23] = [
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
    "cached-get --records 5000 --seconds {s}",
    "absent-get --records 5000 --seconds {s}",
    "full-scan --records 50000 --rounds 2",
    "short-scan --records 5000 --seconds {s}",
    "sizes --sizes 2MB,4MB --seconds {s}",
    "sequential --puts 20000 --gets 5000",
    "load --comments 3000",
    "get --comments 3000 --sample 500 --threads 1,2 --seconds {s}",
    "update --comments 3000 --sample 500 --how get-put,update,apply-patch,merge,put --seconds {s}",
    "document-matrix --workload load --comments 3000 --partitions 1,2 --readers 1 --parsers 1,2",
];
/// Of a device, which may refuse them: file systems in memory do.
const OF_DEVICES: [&str; 2] = [
    "device --file-bytes 16MiB --threads 1,4 --seconds {s}",
    "larger --memory 16MiB --times 2 --blocks 4KiB --device-seconds {s} --seconds {s} --interval 0.1",
];
/// Trials that these commands make.
const TRIALS: usize = 10 + 7 * 2 + 2 + 4 * 2 * 2 + 4 + 2 + 2 + 1 + 2 + 5 + 4;

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
        let name = command.split(' ').next().unwrap_or_default();
        let many = ["durability", "durable-writers", "matrix", "sizes", "get", "update"];
        let seconds = if many.contains(&name) { seconds / 5.0 } else { seconds };
        let of_documents = ["load", "get", "update", "document-matrix"];
        let small = if of_documents.contains(&name) { SMALL_DOCUMENTS } else { SMALL };
        let line = format!("{command} {small}").replace("{s}", &seconds.to_string());
        note(&format!("bench {line}"));
        run_bench(&parsed(&line, out)?)?;
    }
    for command in OF_DEVICES {
        let line = command.replace("{s}", &(seconds / 5.0).to_string());
        note(&format!("bench {line}"));
        match run_bench(&parsed(&line, out)?) {
            Err(Failure::Check(refused)) if refused.contains("O_DIRECT") => note(&refused),
            done => done?,
        }
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
