//! Each workload that fills a store first, on a small one: it ends well, and its figures are those
//! of what was done.

use flagstone_bench::engine::open_flagstone;
use flagstone_bench::options::{Length, Pace, StoreOptions, defaults};
use flagstone_bench::record::{OpKind, read_file};
use flagstone_bench::workload::{
    Asked, Bytes, DataOptions, DeviceOptions, DocumentStore, DocumentTrial, FullScanOptions,
    GetHow, GetsOptions, LargerCell, LargerOptions, LoadOptions, OverwriteOptions, Pattern,
    SEQUENTIAL_PHASES, SequentialOptions, Setup, ShortScanOptions, SizesOptions, Source, Stage,
    TrialOptions, UpdateHow, Workload, run_document_get, run_document_update, run_load,
};
use std::path::Path;
use std::time::Duration;

fn stage<'a>(dir: &'a Path, out: Option<&'a Path>) -> Stage<'a> {
    Stage { engine: "flagstone", open: &open_flagstone, dir, out, watch: &|_| {}, keep: false }
}

fn store() -> StoreOptions {
    StoreOptions { partitions: 2, memory_bytes: 8 << 20, ..StoreOptions::default() }
}

fn pace(threads: usize, operations: u64) -> Pace {
    let interval = Duration::from_millis(50);
    Pace { threads, length: Length::Operations(operations), interval, ..Pace::default() }
}

/// A small store, values of 100 bytes, this many operations of these threads.
fn setup(threads: usize, operations: u64) -> Setup {
    let data = DataOptions { value_bytes: 100, ..DataOptions::default() };
    Setup { store: store(), data, pace: pace(threads, operations) }
}

#[test]
fn gets_find_what_was_put_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("result.jsonl");
    for (asked, found) in [(Asked::Present, 5000.0), (Asked::Absent, 0.0)] {
        let setup = setup(2, 5000);
        let options = GetsOptions { asked, setup, records: 20_000, as_written: false };
        let place = dir.path().join("store");
        let summary = options.run(&stage(&place, Some(&out))).unwrap();
        assert_eq!((summary.ops, summary.figures["gets_found"]), (5000, found));
        assert!(!place.exists());
        let trial = read_file(&out).unwrap();
        assert_eq!(trial.header.workload, options.name());
        assert!(trial.header.starting_state.contains("20000 records, compacted"));
    }
}

#[test]
fn reads_of_a_store_as_it_was_written_find_what_was_put() {
    let dir = tempfile::tempdir().unwrap();
    let (place, out) = (dir.path().join("store"), dir.path().join("result.jsonl"));
    let stage = stage(&place, Some(&out));
    let mut setup = setup(2, 2000);
    // Memtables hold all of it.
    setup.store.memory_bytes = 256 << 20;
    let options = GetsOptions { asked: Asked::Present, setup, records: 5000, as_written: true };
    let summary = options.run(&stage).unwrap();
    assert_eq!(summary.figures["gets_found"], 2000.0);
    let state = read_file(&out).unwrap().header.starting_state;
    assert!(state.starts_with("5000 records, as they were written"), "{state}");
    assert!(state.ends_with("bytes by level: not told"), "no tables: {state}");
    let setup = self::setup(2, 2000);
    let options = ShortScanOptions { setup, records: 5000, limit: 50, as_written: true };
    let summary = options.run(&stage).unwrap();
    let scans = summary.latency[&OpKind::Scan].count;
    assert!(summary.figures["scanned"] > 45.0 * scans as f64);
    assert!(read_file(&out).unwrap().header.starting_state.contains("as they were written"));
}

#[test]
fn scans_see_every_entry() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let setup = Setup { store: store(), pace: pace(2, 1), ..Setup::default() };
    let options = FullScanOptions { setup, records: 70_000, rounds: 2 };
    let summary = options.run(&stage(&place, None)).unwrap();
    assert_eq!(summary.ops, 2 * 2 * 70_000);
    assert_eq!(summary.figures["scanned"], 280_000.0);

    let setup = self::setup(2, 2000);
    let options = ShortScanOptions { setup, records: 5000, limit: 50, as_written: false };
    let summary = options.run(&stage(&place, None)).unwrap();
    let count = |kind| summary.latency[&kind].count;
    assert_eq!(count(OpKind::Scan) + count(OpKind::Put), 2000);
    assert!(summary.figures["scanned"] <= 50.0 * count(OpKind::Scan) as f64);
    assert!(summary.figures["scanned"] > 45.0 * count(OpKind::Scan) as f64);
}

#[test]
fn overwrites_tell_the_room_that_is_taken_for_what_is_alive() {
    let dir = tempfile::tempdir().unwrap();
    for pattern in [Pattern::Random, Pattern::Queue] {
        let options = OverwriteOptions { setup: setup(2, 20_000), records: 5000, pattern };
        let summary = options.run(&stage(&dir.path().join("store"), None)).unwrap();
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
    for bytes in [Bytes::Zero, Bytes::Random] {
        let options = SequentialOptions {
            store: StoreOptions { partitions: 1, memtable_bytes: Some(1 << 20), ..store() },
            puts: 20_000,
            gets: 1000,
            ..SequentialOptions::new(bytes)
        };
        let summary = options.run(&stage(&dir.path().join("store"), None)).unwrap();
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
    let options = SizesOptions { threads: 2, sizes: vec![100_000, 400_000], setup: setup(1, 1000) };
    let place = dir.path().join("store");
    let done = options.run(&stage(&place, None), &|_| None).unwrap();
    assert_eq!(done.len(), 2);
    for (bytes, summary) in &done {
        assert_eq!(summary.ops, bytes / 116 + 1000);
        assert!(summary.figures["put_per_s"] > 0.0 && summary.figures["get_per_s"] > 0.0);
    }
    let options = SizesOptions { sizes: vec![1 << 60], ..options };
    let refused = options.run(&stage(&place, None), &|_| None).unwrap_err().to_string();
    assert!(refused.contains("bytes are free"), "{refused}");
}

/// Whether the temporary directory is on a file system that takes O_DIRECT.
fn is_direct(error: &str) -> bool {
    let refused = error.contains("O_DIRECT");
    assert!(refused, "{error}");
    false
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
        Err(error) => assert!(!is_direct(&error.to_string())),
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
    let store = StoreOptions { memory_bytes: 2 << 20, ..store() };
    let options = LargerOptions {
        setup: Setup { store, pace: pace(1, 300), ..Setup::default() },
        times: 2.0,
        blocks: vec![4096, 0],
        threads: vec![1, 2],
        device_seconds: Duration::from_millis(50),
    };
    let place = dir.path().join("store");
    match options.run(&stage(&place, None), &|_| None) {
        Err(error) => assert!(!is_direct(&error.to_string())),
        Ok(cells) => {
            assert_eq!(cells.iter().map(|cell| cell.threads).collect::<Vec<_>>(), [1, 2, 1, 2]);
            for LargerCell { block_bytes, summary, .. } in cells {
                assert_eq!(summary.ops, 300);
                let figure = |name: &str| summary.figures[name];
                // A get reads a block at the most, and those in the cache are not compared.
                assert!(figure("misses_per_s") <= summary.ops_per_s * 1.01);
                let ratio = figure("misses_per_s") / figure("device_reads_per_s");
                assert!((figure("of_device") - ratio).abs() < 1e-9);
                assert!(figure("gets_of_device") >= ratio * 0.99);
                // Three entries of 1,040 bytes and some more, or as many as the engine thinks good.
                let stored = figure("stored_block_bytes");
                let expected = if block_bytes > 0 { 3120.0..3400.0 } else { 3400.0..40e3 };
                assert!(expected.contains(&stored), "{block_bytes:?}: {stored}");
            }
        }
    }
}

fn load_options(count: u64) -> LoadOptions {
    let mut options = LoadOptions::of_comments(count);
    (options.threads.memory_bytes, options.threads.partitions) = (8 << 20, 2);
    LoadOptions { interval: Duration::from_millis(50), ..options }
}

/// A sample of generated comments.
fn source(memory_bytes: u64) -> Source {
    Source { comments: 2000, sample: 300, partitions: 2, memory_bytes, ..defaults() }
}

#[test]
fn documents_are_loaded_to_the_end_and_counted_with_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("load.jsonl");
    let place = dir.path().join("store");
    let summary = run_load(&place, false, &load_options(3000), Some(&out), &|_| {}).unwrap();
    assert_eq!(summary.ops, 3000);
    assert_eq!(summary.user_bytes as f64, summary.figures["json_bytes"]);
    assert!(summary.seconds >= summary.figures["load_s"] + summary.figures["flush_s"]);
    let stored = summary.figures["tables_per_json"];
    assert!((0.05..0.5).contains(&stored), "{stored}");
    let trial = read_file(&out).unwrap();
    assert_eq!(trial.rows.iter().map(|row| row.ops).sum::<u64>(), 3000);

    let file = dir.path().join("bad.json");
    std::fs::write(&file, "{\"id\":1}\n{\"id\":\n").unwrap();
    let options = LoadOptions { files: vec![file], ..load_options(0) };
    let refused = run_load(&place, false, &options, None, &|_| {}).unwrap_err().to_string();
    assert!(refused.contains("bad.json:2:"), "{refused}");
}

#[test]
fn documents_are_read_and_changed_on_checkpoints_and_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let store = DocumentStore::prepare(&source(8 << 20), &place).unwrap();
    let trial = DocumentTrial { store: &store, dir: &place, out: None, watch: &|_| {} };
    let options = TrialOptions { pace: pace(3, 900), cold: false };
    for how in [GetHow::Whole, GetHow::Path("score".into()), GetHow::Decode] {
        let summary = run_document_get(&trial, &options, &how).unwrap();
        assert_eq!((summary.ops, summary.figures["gets_found"]), (900, 900.0));
    }
    for how in [
        UpdateHow::Update,
        UpdateHow::ApplyPatch,
        UpdateHow::Merge,
        UpdateHow::GetPut,
        UpdateHow::Put,
    ] {
        let summary = run_document_update(&trial, &options, how).unwrap();
        assert_eq!(summary.ops, 900);
        if !matches!(how, UpdateHow::GetPut | UpdateHow::Put) {
            assert_eq!(summary.figures["lost_updates"], 0.0);
        }
    }
    store.remove().unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn cold_documents_are_read_from_files_again_and_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (place, out) = (dir.path().join("store"), dir.path().join("get.jsonl"));
    let store = DocumentStore::prepare(&source(64 << 20), &place).unwrap();
    let trial = DocumentTrial { store: &store, dir: &place, out: Some(&out), watch: &|_| {} };
    let mut misses = Vec::new();
    for (cold, state) in [(false, "each key read once before"), (true, "page cache cold")] {
        let options = TrialOptions { pace: pace(2, 600), cold };
        let summary = run_document_get(&trial, &options, &GetHow::Decode).unwrap();
        assert_eq!((summary.ops, summary.figures["gets_found"]), (600, 600.0));
        let trial = read_file(&out).unwrap();
        assert!(trial.header.starting_state.ends_with(state), "{}", trial.header.starting_state);
        assert_eq!(trial.header.options["cold"], cold);
        misses.push(trial.rows.iter().filter_map(|row| row.cache_misses).sum::<u64>());
    }
    // Warm, all blocks are in the cache; cold, those asked for are read once more.
    assert!(misses[0] == 0 && misses[1] > 0, "{misses:?}");
    // Scores are summed before the checkpoint is opened again, and hold after it.
    let options = TrialOptions { pace: pace(2, 300), cold: true };
    for how in [UpdateHow::Update, UpdateHow::Merge] {
        let summary = run_document_update(&trial, &options, how).unwrap();
        assert_eq!((summary.ops, summary.figures["lost_updates"]), (300, 0.0));
    }
    store.remove().unwrap();
}

#[test]
fn a_key_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("loaded");
    run_load(&place, true, &load_options(100), None, &|_| {}).unwrap();
    let keys = dir.path().join("keys");
    std::fs::write(&keys, "nobody\n").unwrap();
    let source = Source { db: Some(place.join("data")), keys: Some(keys), ..source(8 << 20) };
    let store = DocumentStore::prepare(&source, &place).unwrap();
    let work = dir.path().join("store");
    let trial = DocumentTrial { store: &store, dir: &work, out: None, watch: &|_| {} };
    let options = TrialOptions { pace: pace(1, 10), cold: false };
    let refused = run_document_get(&trial, &options, &GetHow::Whole).unwrap_err().to_string();
    assert!(refused.contains("there is no document"), "{refused}");
}
