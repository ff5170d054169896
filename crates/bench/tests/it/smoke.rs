//! Every command for a moment on a small store, so that none of them breaks unnoticed: what it
//! wrote, and what a report makes of it.

use crate::run::Place;
use flagstone_bench::record::read_dir;
use flagstone_bench::workload::WORKLOADS;

/// The commands and the numbers of their trials; `{s}` is the seconds of a trial.
const COMMANDS: [(&str, usize); 33] = [
    ("put-heavy --partitions 1,2 --threads 1,2 --closing-sync --seconds {s} --resume", 2 * 2),
    ("get-heavy --threads 2 --telling-deletes --seconds {s}", 1),
    ("get-heavy --partitions 1,2 --threads 1 --seconds {s}", 2),
    ("delete-heavy --partitions 1,16 --threads 16 --values half --seconds {s}", 2),
    ("balanced --operations 20000 --value-size 100 --key-size 24", 1),
    ("balanced --partitions 1,2 --threads 1,2 --seconds {s} --resume", 2 * 2),
    ("ycsb-a --records 5000 --seconds {s}", 1),
    ("ycsb-b --records 5000 --seconds {s}", 1),
    ("ycsb-c --records 5000 --seconds {s}", 1),
    ("ycsb-d --records 5000 --seconds {s}", 1),
    ("ycsb-e --records 5000 --seconds {s}", 1),
    ("ycsb-f --records 5000 --seconds {s}", 1),
    ("durability --partitions 1,4 --seconds {s}", 7 * 2),
    ("durable-writers --threads 1,8 --seconds {s}", 2),
    ("cached-get --records 5000 --seconds {s}", 1),
    ("absent-get --records 5000 --as-written --seconds {s}", 1),
    ("full-scan --records 50000 --rounds 2", 1),
    ("short-scan --records 5000 --as-written --seconds {s}", 1),
    ("overwrite --records 5000 --pattern random,queue --seconds {s}", 2),
    ("dequeue --records 1000,5000 --seconds {s}", 2 * 2),
    ("dequeue --records 3000 --take first,last,index --snapshot --seconds {s}", 3 * 2),
    ("transactions --records 5000 --seconds {s}", 2 * 2 * 2),
    ("ingest-beside-writes --records 5000 --ingest-records 20000 --seconds {s}", 1),
    ("sizes --size 2MB,4MB --seconds {s}", 2),
    ("sequential --puts 20000 --gets 5000", 2),
    ("load --comments 3000 --partitions 1,2 --parsers 1,2", 2 * 2),
    ("get --comments 3000 --sample 500 --path author --seconds {s}", 1),
    ("get --comments 3000 --partitions 1,2 --threads 1,2 --seconds {s}", 2 * 2),
    (
        "update --comments 3000 --sample 500 --how get-put,update,apply-patch,merge,put \
         --partitions 1,2 --threads 1,2 --seconds {s}",
        5 * 2 * 2,
    ),
    ("ask --comments 3000 --seconds {s}", 6),
    ("index-write --comments 2000 --replace --seconds {s}", 3),
    ("index-build --comments 3000 --seconds {s}", 1),
    ("postings --comments 3000 --by author,subreddit --seconds {s}", 2),
];
/// Commands that need a device: file systems in memory refuse them.
const OF_DEVICES: [(&str, usize); 2] = [
    ("device --file-bytes 16MiB --threads 1,4 --seconds {s}", 1),
    (
        "larger --times 2 --block-bytes 4KiB,0 --threads 1,4 --device-seconds {s} --seconds {s}",
        2 * 2,
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
    "run-get-heavy-flagstone",
];

fn workload_of(command: &str) -> &str {
    command.split(' ').next().unwrap()
}

/// A command line for a small store, with memtables so small that flushes and compactions happen.
/// Trials of one command share the time.
fn line(command: &str, trials: usize) -> String {
    let small = match workload_of(command) {
        "load" | "get" | "update" => "--memory 16MiB --interval 0.02",
        "device" => "",
        _ => "--memory 16MiB --memtable-bytes 1MiB --interval 0.1",
    };
    let seconds = if trials > 1 { "0.2" } else { "1" };
    format!("{command} {small} --out r").replace("{s}", seconds)
}

#[test]
fn every_workload_is_tried() {
    let commands = || COMMANDS.iter().chain(&OF_DEVICES);
    for name in WORKLOADS.iter().map(|workload| workload.name).chain(["device"]) {
        assert!(commands().any(|(command, _)| workload_of(command) == name), "{name}");
    }
}

#[test]
#[ignore = "a minute; `cargo xtask nightly` runs it"]
fn every_command_runs_for_a_moment_and_its_results_are_drawn() {
    let place = Place::new();
    let mut expected = 0;
    for (command, trials) in COMMANDS {
        place.ok(&line(command, trials));
        expected += trials;
    }
    for (command, trials) in OF_DEVICES {
        let ran = place.run(&line(command, trials));
        assert!(ran.code == 0 || ran.stderr.contains("O_DIRECT"), "{ran:?}");
        expected += if ran.code == 0 { trials } else { 0 };
    }
    let trials = read_dir(&place.path("r")).unwrap();
    assert_eq!(trials.len(), expected);
    for trial in &trials {
        let ops: u64 = trial.rows.iter().map(|row| row.ops).sum();
        assert!(ops > 0 && !trial.summary.latency.is_empty(), "{}", trial.path.display());
        assert_eq!(ops, trial.summary.ops, "{}", trial.path.display());
    }
    let pictures = if cfg!(feature = "png") { "--png pictures" } else { "" };
    place.ok(&format!("report r {pictures} --csv tables"));
    let html = place.read("r/report.html");
    for name in FIGURES {
        assert!(html.contains(&format!("<figure id=\"figure-{name}")), "{name}");
    }
    let files = |dir: &str| std::fs::read_dir(place.path(dir)).unwrap().count();
    if cfg!(feature = "png") {
        assert_eq!(files("pictures"), html.matches("<figure").count());
    }
    assert_eq!(files("tables"), 2 * trials.len());
}
