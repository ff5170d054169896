//! Benchmarks run, write what they measured, and refuse what they must not touch.

use crate::run::Place;
use flagstone::Space;
use serde_json::Value;

const SMALL: &str = "--memory 16MiB --interval 0.05 --value-size 100";

/// The lines of a result file.
fn lines(place: &Place, name: &str) -> Vec<Value> {
    place.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_mix_writes_a_header_rows_and_a_summary() {
    let place = Place::new();
    let stdout = place.ok(&format!("put-heavy --operations 5000 --threads 2 {SMALL}"));
    assert!(stdout.contains("5000 ops in"), "{stdout}");
    let lines = lines(&place, "bench-results/put-heavy-flagstone-p1-t2.jsonl");
    let (header, summary) = (&lines[0], &lines[lines.len() - 1]);
    assert_eq!(header["type"], "header");
    assert_eq!(header["workload"], "put-heavy");
    assert_eq!(header["options"]["threads"], 2);
    assert_eq!(header["options"]["memory"], 16 << 20);
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["ops"], 5000);
    let rows: u64 =
        lines.iter().filter(|line| line["type"] == "row").map(|r| r["ops"].as_u64().unwrap()).sum();
    assert_eq!(rows, 5000);
    assert!(!place.path("bench-results/store").exists());
}

#[test]
fn the_no_op_store_burns_as_much_as_a_trial_before() {
    let place = Place::new();
    place.ok(&format!("balanced --seconds 0.5 --out a.jsonl {SMALL}"));
    let like = format!("balanced --operations 1000 --engine noop --burn-like a.jsonl {SMALL}");
    place.ok(&format!("{like} --out b.jsonl"));
    let tuning = lines(&place, "b.jsonl")[0]["options"]["tuning"].clone();
    assert!(tuning.as_str().unwrap().contains("burns"), "{tuning}");
}

#[test]
fn a_directory_that_no_benchmark_made_is_not_touched() {
    let place = Place::new();
    let open = || flagstone::Database::open(place.path("db")).unwrap();
    let database = open();
    database.keyspace("k").unwrap().put("a", "1").unwrap();
    database.close().unwrap();
    place.fails("balanced --dir db", 2, "was not made by a benchmark");
    let found = open().keyspace("k").unwrap().get("a").unwrap();
    assert_eq!(found.as_deref(), Some(&b"1"[..]));
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_made() {
    let place = Place::new();
    for (args, text) in [
        ("balanced --threads 0", "0 is not in 1..=1024"),
        ("balanced --partitions 300", "300 is not in 1..=256"),
        ("balanced --known-keys 2", "expected a share from 0 to 1"),
        ("balanced --key-size 4", "4 is not in 8..=1024"),
        ("balanced --durability sometimes", "expected none, buffered"),
        ("balanced --seconds 0", "expected seconds above 0"),
        ("balanced --seconds 1 --operations 1", "cannot be used with"),
        ("balanced --burn-like x.jsonl", "--burn-like is for --engine noop"),
        ("balanced --burn-ns 5", "--burn-ns is for --engine noop"),
        ("larger --closing-sync", "--closing-sync is not for larger"),
        ("get --keep", "--keep is not for get"),
        ("get x.jsonl", "FILE is not for get"),
        ("get --readers 2", "--readers is not for get"),
        ("get --how put", "--how is not for get"),
        ("get --engine noop", "--engine is not for get"),
        ("get --comments 5 --db x --keys k", "cannot be used with"),
        ("load --operations 5", "--operations is not for load"),
        ("load --sample 5", "--sample is not for load"),
        ("load --threads 5", "--threads is not for load"),
        ("load --no-entry-checks", "--no-entry-checks is not for load"),
        ("load --no-entry-checks", "--no-entry-checks is not for load"),
        ("load x --comments 5", "cannot be used with"),
        ("load x --seed 5", "cannot be used with"),
        ("cached-get --closing-sync", "--closing-sync is not for cached-get"),
        ("ycsb-c --closing-sync", "--closing-sync is not for ycsb-c"),
        ("full-scan --seconds 5", "--seconds is not for full-scan"),
        ("cached-get --key-space 5", "--key-space is not for cached-get"),
        ("cached-get --burn-like x.jsonl --engine noop", "--burn-like is not for cached-get"),
        ("ycsb-a --key-space 5", "--key-space is not for ycsb-a"),
        ("ycsb-a --value-size 8", "no room for a version"),
        ("ycsb-a --records 0", "0 is not in 1.."),
        ("balanced --value-size 17MiB", "expected at most 16 MiB"),
        ("balanced --key-space 0", "0 is not in 1.."),
        ("short-scan --limit 0", "0 is not in 1.."),
        ("sequential --values half", "zeros and random"),
        ("sequential --out x.jsonl", "--out must be a directory"),
        ("balanced --threads 1,2 --out x.jsonl", "--out must be a directory"),
        ("no-such-workload", "unrecognized subcommand"),
    ] {
        place.fails(args, 2, text);
    }
    place.fails("balanced --filter-bits 99 --dir s", 2, "filter_bits is 99");
    assert!(!place.path("bench-results").exists());
}

#[test]
fn a_file_that_is_no_result_is_never_replaced() {
    let place = Place::new();
    place.file("in.jsonl", "{\"id\":1}\n");
    place.fails("load in.jsonl --out in.jsonl", 2, "it is there and is no result file");
    place.fails("balanced --engine noop --out in.jsonl", 2, "it is there and is no result file");
    let device = place.run("device --out in.jsonl --dir .");
    assert!(device.code == 3 && device.stderr.contains("is no result file"), "{device:?}");
    assert_eq!(place.read("in.jsonl"), "{\"id\":1}\n");
    let trial =
        format!("balanced --threads 1 --operations 200 --engine noop --out a.jsonl {SMALL}");
    place.ok(&trial);
    place.ok(&trial);
    place.fails(&format!("{trial} --burn-like a.jsonl"), 2, "--burn-like and --out are one file");
}

#[test]
fn trials_are_resumed_where_they_ended() {
    let documents = "--memory 16MiB --comments 300 --interval 0.05";
    let trial = "--threads 1 --operations 50 --sample 50";
    for command in [
        format!("balanced --threads 1 --operations 200 --engine noop {SMALL}"),
        format!("load --parsers 1 {documents}"),
        format!("get {documents} {trial}"),
        format!("update {documents} {trial}"),
    ] {
        let place = Place::new();
        let run = |measured_before: usize| {
            let stdout = place.ok(&format!("{command} --partitions 1,2 --out m --resume"));
            let told = stdout.matches("measured before").count();
            assert_eq!(told, measured_before, "{command}: {stdout}");
        };
        run(0);
        run(2);
        let results =
            std::fs::read_dir(place.path("m")).unwrap().map(|entry| entry.unwrap().path());
        let second: Vec<_> =
            results.filter(|path| path.to_string_lossy().contains("-p2-")).collect();
        assert_eq!(second.len(), 1, "{command}: {second:?}");
        std::fs::remove_file(&second[0]).unwrap();
        run(1);
        assert!(second[0].exists(), "{command}");
    }
}

#[test]
fn several_trials_are_a_table_and_compared_with_the_first_of_their_partitions() {
    let place = Place::new();
    let durabilities = "--durability none,group --partitions 1,2 --threads 2 --operations 300";
    let stdout = place.ok(&format!("durability {durabilities} --out r {SMALL}"));
    assert_eq!(stdout.matches("against_first").count(), 2, "{stdout}");
    for (name, compared) in [("none", false), ("group", true)] {
        for partitions in [1, 2] {
            let file = format!("durability-flagstone-p{partitions}-t2-{name}");
            assert!(stdout.contains(&file), "{stdout}");
            let lines = lines(&place, &format!("r/{file}.jsonl"));
            assert_eq!(lines[0]["options"]["durability"], name);
            let figure = &lines[lines.len() - 1]["figures"]["against_first"];
            assert_eq!(figure.is_f64(), compared, "{file}: {figure}");
        }
    }
}

#[test]
fn help_shows_the_options_of_a_workload_alone() {
    let place = Place::new();
    let help = place.ok("cached-get --help");
    for shown in ["--records", "[default: 350000]", "--as-written", "--memory", "--threads"] {
        assert!(help.contains(shown), "{shown}: {help}");
    }
    for hidden in ["--rounds", "--db", "[FILE]", "--closing-sync", "--known-keys", "--readers"] {
        assert!(!help.contains(hidden), "{hidden}: {help}");
    }
}
