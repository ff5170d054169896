//! Each workload that fills a store first, on a small one: it ends well, and its figures are those
//! of what was done.

use flagstone::{Database, Space};
use flagstone_bench::engine::{Outcome, open_flagstone};
use flagstone_bench::options::{Isolation, Routed};
use flagstone_bench::record::{OpKind, Summary, read_file};
use flagstone_bench::workload::{
    DeviceOptions, Distribution, Options, Pattern, SEQUENTIAL_PHASES, Series, Stage, Take,
    UpdateHow, ValueKind, Workload,
};
use std::path::Path;
use std::time::Duration;

fn stage<'a>(dir: &'a Path, out: Option<&'a Path>) -> Stage<'a> {
    let (engine, open, watch) = ("flagstone", &open_flagstone, &|_: &_| {});
    Stage { engine, open, dir, out, watch, keep: false, first_ops_per_s: None }
}

/// A small store, values of 100 bytes, this many operations of these threads.
fn options(threads: usize, operations: u64) -> Options {
    let mut options = Options::default();
    (options.store.routing, options.store.partitions) = (Routed::Hash, 2);
    options.store.memory_bytes = 8 << 20;
    options.data.value_bytes = 100;
    (options.pace.threads, options.pace.operations) = (threads, Some(operations));
    options.pace.interval = Duration::from_millis(50);
    options
}

fn try_run(name: &str, options: &Options, stage: Stage<'_>) -> Outcome<Summary> {
    Workload::by_name(name).unwrap().run(options, stage)
}

fn run(name: &str, options: &Options, stage: Stage<'_>) -> Summary {
    try_run(name, options, stage).unwrap()
}

#[test]
fn gets_find_what_was_put_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("result.jsonl");
    for (name, found) in [("cached-get", 5000.0), ("absent-get", 0.0)] {
        let options = Options { records: 20_000, ..options(2, 5000) };
        let place = dir.path().join("store");
        let summary = run(name, &options, stage(&place, Some(&out)));
        assert_eq!((summary.ops, summary.figures["gets_found"]), (5000, found));
        assert!(!place.exists());
        let trial = read_file(&out).unwrap();
        assert_eq!(trial.header.workload, name);
        assert!(trial.header.starting_state.contains("20000 records, compacted"));
    }
}

#[test]
fn transactions_are_counted_once_however_often_they_are_tried() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        // So few records that threads meet.
        let contended = Options { records: 6, isolation, ..options(8, 4000) };
        let alone = Options { records: 6, isolation, ..options(1, 1000) };
        let summary = run("transactions", &contended, stage(&place, None));
        assert_eq!((summary.ops, summary.latency[&OpKind::Transaction].count), (4000, 4000));
        let summary = run("transactions", &alone, stage(&place, None));
        assert_eq!(summary.figures["retries_per_transaction"], 0.0, "{isolation:?}");
    }
    let few = Options { records: 3, ..options(1, 10) };
    let refused = try_run("transactions", &few, stage(&place, None)).unwrap_err();
    assert!(refused.to_string().contains("expected at least 4"), "{refused}");
}

#[test]
fn ingests_beside_writes_end_when_all_is_ingested() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let mut options = Options { records: 5000, ingest_records: 4000, ..options(2, 1) };
    (options.pace.operations, options.pace.seconds) = (None, Duration::from_millis(50));
    let stage = Stage { keep: true, ..stage(&place, None) };
    let summary = run("ingest-beside-writes", &options, stage);
    for name in ["put_p99_alone_us", "put_p99_beside_us", "put_max_beside_us", "ingested_per_s"] {
        assert!(summary.figures[name] > 0.0, "{name}");
    }
    let store = Database::open(place.join("data")).unwrap();
    let kept = store.keyspace("bench").unwrap();
    assert_eq!(kept.count().unwrap(), 5000 + 3 * 4000);
}

#[test]
fn reads_of_a_store_as_it_was_written_find_what_was_put() {
    let dir = tempfile::tempdir().unwrap();
    let (place, out) = (dir.path().join("store"), dir.path().join("result.jsonl"));
    let stage = stage(&place, Some(&out));
    let mut options = Options { records: 5000, as_written: true, ..options(2, 2000) };
    let summary = run("short-scan", &options, stage);
    let scans = summary.latency[&OpKind::Scan].count;
    assert!(summary.figures["scanned"] > 45.0 * scans as f64);
    assert!(read_file(&out).unwrap().header.starting_state.contains("as they were written"));
    // Memtables hold all of it.
    options.store.memory_bytes = 256 << 20;
    let summary = run("cached-get", &options, stage);
    assert_eq!(summary.figures["gets_found"], 2000.0);
    let state = read_file(&out).unwrap().header.starting_state;
    assert!(state.starts_with("5000 records, as they were written"), "{state}");
    assert!(state.ends_with("bytes by level: not told"), "no tables: {state}");
}

#[test]
fn scans_see_every_entry() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let mut full = Options { records: 70_000, rounds: 2, ..options(2, 1) };
    full.data.value_bytes = 1024;
    let summary = run("full-scan", &full, stage(&place, None));
    assert_eq!(summary.ops, 2 * 2 * 70_000);
    assert_eq!(summary.figures["scanned"], 280_000.0);

    for distribution in [Distribution::Uniform, Distribution::Zipfian] {
        let options = Options { records: 5000, distribution, ..options(2, 2000) };
        let summary = run("short-scan", &options, stage(&place, None));
        let count = |kind| summary.latency[&kind].count;
        assert_eq!(count(OpKind::Scan) + count(OpKind::Put), 2000);
        assert!(summary.figures["scanned"] <= 50.0 * count(OpKind::Scan) as f64);
        assert!(summary.figures["scanned"] > 45.0 * count(OpKind::Scan) as f64);
    }
}

#[test]
fn each_entry_of_a_queue_is_taken_once() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let options = Options { records: 5000, ..options(4, 100_000) };
    let summary = run("dequeue", &options, stage(&place, None));
    assert_eq!((summary.ops, summary.figures["left"]), (5000, 0.0));
    assert_eq!(summary.latency[&OpKind::Delete].count, 5000);
    let some = Options { records: 5000, ..self::options(1, 2000) };
    let summary = run("dequeue", &some, stage(&place, None));
    assert_eq!((summary.ops, summary.figures["left"]), (2000, 3000.0));
    for take in [Take::First, Take::Last, Take::Index] {
        let held = Options { records: 3000, take, snapshot: true, ..self::options(2, 2500) };
        let summary = run("dequeue", &held, stage(&place, None));
        assert_eq!((summary.ops, summary.figures["left"]), (2500, 500.0), "{take:?}");
    }
}

#[test]
fn overwrites_tell_the_room_that_is_taken_for_what_is_alive() {
    let dir = tempfile::tempdir().unwrap();
    for pattern in [Pattern::Random, Pattern::Queue] {
        let options = Options { records: 5000, pattern, ..options(2, 20_000) };
        let summary = run("overwrite", &options, stage(&dir.path().join("store"), None));
        let figure = |name: &str| summary.figures[name];
        assert_eq!(summary.ops, 20_000);
        assert!(figure("live_bytes") > 5000.0 * 100.0);
        assert!(figure("space_max") >= figure("space_mean") && figure("space_mean") >= 0.5);
        assert!(figure("space_rested") > 0.0 && figure("rest_s") >= 0.0);
    }
}

#[test]
fn the_origins_sequence_checks_every_value_in_every_phase() {
    let dir = tempfile::tempdir().unwrap();
    for values in [ValueKind::Zeros, ValueKind::Random] {
        let mut options = Options { puts: 20_000, gets: 1000, ..options(1, 1) };
        (options.data.values, options.store.memtable_bytes) = (values, Some(1 << 20));
        let summary = run("sequential", &options, stage(&dir.path().join("store"), None));
        assert_eq!(summary.ops, 22_000);
        assert_eq!(summary.figures["gets_found"], 2000.0);
        for phase in SEQUENTIAL_PHASES {
            assert!(summary.figures[&format!("{phase}_s")] > 0.0, "{phase}");
        }
    }
}

#[test]
fn sizes_have_rates_of_puts_and_gets() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    for size in [100_000, 400_000] {
        let summary = run("sizes", &Options { size, ..options(2, 1000) }, stage(&place, None));
        assert_eq!(summary.ops, size / 116 + 1000);
        assert!(summary.figures["put_per_s"] > 0.0 && summary.figures["get_per_s"] > 0.0);
    }
    let options = Options { size: 1 << 60, ..options(2, 1000) };
    let refused = try_run("sizes", &options, stage(&place, None)).unwrap_err().to_string();
    assert!(refused.contains("bytes are free"), "{refused}");
}

#[test]
fn the_device_is_measured_and_nothing_of_it_stays() {
    let dir = tempfile::tempdir().unwrap();
    let options = DeviceOptions {
        file_bytes: 4 << 20,
        threads: vec![1, 4],
        seconds: Duration::from_millis(50),
        ..DeviceOptions::default()
    };
    match options.run(dir.path(), None, &|_| {}) {
        // File systems in memory refuse it.
        Err(error) => assert!(error.to_string().contains("O_DIRECT"), "{error}"),
        Ok(summary) => {
            for name in ["write_mb", "read_b4096_t1", "read_b16384_t4", "append_sync"] {
                assert!(summary.figures[&format!("{name}_per_s")] > 0.0, "{name}");
            }
            assert!(summary.figures["read_b4096_t1_p99_us"] > 0.0);
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn gets_beyond_memory_stand_beside_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let (place, larger) = (dir.path().join("store"), Workload::by_name("larger").unwrap());
    let device_seconds = Duration::from_millis(50);
    let mut options = Options { times: 2.0, device_seconds, ..options(1, 300) };
    (options.data.value_bytes, options.store.memory_bytes) = (1024, 2 << 20);
    let (mut trials, mut made) = (Series::of(larger), Vec::new());
    for (block_bytes, threads) in [(Some(4096), 1), (Some(4096), 2), (None, 1), (None, 2)] {
        (options.store.block_bytes, options.pace.threads) = (block_bytes, threads);
        let summary = match trials.run(&larger.case(&options, stage(&place, None)).unwrap()) {
            Err(error) => return assert!(error.to_string().contains("O_DIRECT"), "{error}"),
            Ok(summary) => summary,
        };
        assert_eq!(summary.ops, 300);
        let figure = |name: &str| summary.figures[name];
        // A get reads a block at the most, and those in the cache are not compared.
        assert!(figure("misses_per_s") <= summary.ops_per_s * 1.01);
        let ratio = figure("misses_per_s") / figure("device_reads_per_s");
        assert!((figure("of_device") - ratio).abs() < 1e-9);
        assert!(figure("gets_of_device") >= ratio * 0.99);
        // Three entries of 1,040 bytes and some more, or as many as the engine thinks good.
        let stored = figure("stored_block_bytes");
        let expected = if block_bytes.is_some() { 3120.0..3400.0 } else { 3400.0..40e3 };
        assert!(expected.contains(&stored), "{block_bytes:?}: {stored}");
        made.push(std::fs::metadata(place.join("data")).unwrap().created().unwrap());
    }
    assert!(made[0] == made[1] && made[1] != made[2] && made[2] == made[3], "a store a block size");
    trials.end(false).unwrap();
    assert!(!place.exists());
}

/// Documents of generated comments.
fn documents(comments: u64, memory_bytes: u64, threads: usize, operations: u64) -> Options {
    let mut options = options(threads, operations);
    (options.documents.comments, options.documents.sample) = (comments, 300);
    (options.documents.parsers, options.store.memory_bytes) = (2, memory_bytes);
    options
}

#[test]
fn documents_are_loaded_to_the_end_and_counted_with_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (place, out) = (dir.path().join("store"), dir.path().join("load.jsonl"));
    let mut options = documents(3000, 8 << 20, 1, 1);
    let summary = run("load", &options, stage(&place, Some(&out)));
    assert_eq!(summary.ops, 3000);
    assert_eq!(summary.user_bytes as f64, summary.figures["json_bytes"]);
    assert!(summary.seconds >= summary.figures["load_s"] + summary.figures["flush_s"]);
    let stored = summary.figures["tables_per_json"];
    assert!((0.05..0.5).contains(&stored), "{stored}");
    let trial = read_file(&out).unwrap();
    assert_eq!(trial.rows.iter().map(|row| row.ops).sum::<u64>(), 3000);
    assert!(!place.exists());

    let file = dir.path().join("bad.json");
    std::fs::write(&file, "{\"id\":1}\n{\"id\":\n").unwrap();
    options.documents.files = vec![file];
    let refused = try_run("load", &options, stage(&place, None)).unwrap_err().to_string();
    assert!(refused.contains("bad.json:2:"), "{refused}");
}

#[test]
fn documents_are_read_and_changed_on_checkpoints_and_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let mut options = documents(2000, 8 << 20, 3, 900);
    for (path, decode) in [(None, false), (Some("score".to_owned()), false), (None, true)] {
        (options.documents.path, options.documents.decode) = (path, decode);
        let summary = run("get", &options, stage(&place, None));
        assert_eq!((summary.ops, summary.figures["gets_found"]), (900, 900.0));
    }
    let update = Workload::by_name("update").unwrap();
    let mut trials = Series::of(update);
    for how in [
        UpdateHow::Update,
        UpdateHow::ApplyPatch,
        UpdateHow::Merge,
        UpdateHow::GetPut,
        UpdateHow::Put,
    ] {
        options.documents.how = how;
        let summary = trials.run(&update.case(&options, stage(&place, None)).unwrap()).unwrap();
        assert_eq!(summary.ops, 900);
        if !matches!(how, UpdateHow::GetPut | UpdateHow::Put) {
            assert_eq!(summary.figures["lost_updates"], 0.0);
        }
    }
    trials.end(false).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn cold_documents_are_read_from_files_again_and_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (place, out) = (dir.path().join("store"), dir.path().join("get.jsonl"));
    let mut options = documents(2000, 64 << 20, 2, 600);
    options.documents.decode = true;
    let mut misses = Vec::new();
    for (cold, state) in [(false, "each key read once before"), (true, "page cache cold")] {
        options.documents.cold = cold;
        let summary = run("get", &options, stage(&place, Some(&out)));
        assert_eq!((summary.ops, summary.figures["gets_found"]), (600, 600.0));
        let trial = read_file(&out).unwrap();
        assert!(trial.header.starting_state.ends_with(state), "{}", trial.header.starting_state);
        assert_eq!(trial.header.options["cold"], cold);
        assert_eq!((trial.number("keys"), trial.number("partitions")), (Some(300), Some(2)));
        misses.push(trial.rows.iter().filter_map(|row| row.cache_misses).sum::<u64>());
    }
    // Warm, all blocks are in the cache; cold, those asked for are read once more.
    assert!(misses[0] == 0 && misses[1] > 0, "{misses:?}");
    // Scores are summed before the checkpoint is opened again, and hold after it.
    for how in [UpdateHow::Update, UpdateHow::Merge] {
        options.documents.how = how;
        let summary = run("update", &options, stage(&place, None));
        assert_eq!((summary.ops, summary.figures["lost_updates"]), (600, 0.0));
    }
}

#[test]
fn a_key_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("loaded");
    let mut options = documents(100, 8 << 20, 1, 10);
    run("load", &options, Stage { keep: true, ..stage(&place, None) });
    let keys = dir.path().join("keys");
    std::fs::write(&keys, "nobody\n").unwrap();
    (options.documents.db, options.documents.keys) = (Some(place.join("data")), Some(keys));
    let work = dir.path().join("store");
    let refused = try_run("get", &options, stage(&work, None)).unwrap_err().to_string();
    assert!(refused.contains("there is no document"), "{refused}");
}
