//! Benchmarks run, write what they measured, and refuse what they must not touch.

use crate::run::Place;
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
    let lines = lines(&place, "bench-results/put-heavy-flagstone-p4-t2.jsonl");
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
fn results_of_earlier_trials_stay() {
    let place = Place::new();
    for _ in 0..2 {
        place.ok(&format!("balanced --operations 100 --out r --engine noop {SMALL}"));
    }
    assert_eq!(lines(&place, "r/balanced-noop-p4-t4.jsonl")[0]["type"], "header");
    assert_eq!(lines(&place, "r/balanced-noop-p4-t4-2.jsonl")[0]["type"], "header");
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
        ("larger --block-bytes 4KiB", "--blocks"),
        ("larger --closing-sync", "--closing-sync is for workloads that write"),
        ("get --keep", "--keep is for workloads that keep their store"),
        ("document-matrix --workload load --operations 5", "--workload get and update"),
        ("document-matrix --workload get --file x.jsonl", "--workload load"),
        ("document-matrix --workload load --seconds 5", "--workload get and update"),
        ("document-matrix --workload load --sample 5", "--workload get and update"),
        ("document-matrix --workload update --readers 2", "--workload load"),
        ("document-matrix --workload get --how put", "--how is for --workload update"),
        ("document-matrix --workload load --file x --comments 5", "cannot be used with"),
        ("cached-get --closing-sync", "--closing-sync is for workloads that write"),
        ("ycsb-c --closing-sync", "--closing-sync is for workloads that write"),
        ("full-scan --seconds 5", "--seconds is for other workloads"),
        ("cached-get --key-space 5", "--key-space is for workloads from an empty store"),
        ("ycsb-a --key-space 5", "--key-space is for workloads from an empty store"),
        ("matrix --workload mixes --out x.jsonl", "--out must be a directory"),
        ("no-such-workload", "unrecognized subcommand"),
    ] {
        place.fails(args, 2, text);
    }
    place.fails("balanced --filter-bits 99 --dir s", 2, "filter_bits is 99");
    assert!(!place.path("bench-results").exists());
}

#[test]
fn a_matrix_is_resumed_where_it_ended() {
    let documents = "document-matrix --memory 16MiB --comments 300 --interval 0.05";
    let trial = "--threads 1 --operations 50 --sample 50";
    for matrix in [
        format!("matrix --workload balanced --threads 1 --operations 200 --engine noop {SMALL}"),
        format!("{documents} --workload load --readers 1 --parsers 1"),
        format!("{documents} --workload get {trial}"),
        format!("{documents} --workload update {trial}"),
    ] {
        let place = Place::new();
        let run = |measured_before: usize| {
            let stdout = place.ok(&format!("{matrix} --partitions 1,2 --out m --resume"));
            let told = stdout.matches("measured before").count();
            assert_eq!(told, measured_before, "{matrix}: {stdout}");
        };
        run(0);
        run(2);
        let results =
            std::fs::read_dir(place.path("m")).unwrap().map(|entry| entry.unwrap().path());
        let second: Vec<_> =
            results.filter(|path| path.to_string_lossy().contains("-p2-")).collect();
        assert_eq!(second.len(), 1, "{matrix}: {second:?}");
        std::fs::remove_file(&second[0]).unwrap();
        run(1);
        assert!(second[0].exists(), "{matrix}");
    }
}
