//! Workloads that fill a store first.

use super::place::{Place, failure, filled_options, pace, refuse, store_options};
use crate::args::{
    FullScanArgs, GetsArgs, LargerArgs, OverwriteArgs, OverwritePattern, SequentialArgs,
    SequentialBytes, ShortScanArgs, SizesArgs,
};
use crate::failure::Failure;
use crate::output::print;
use flagstone::Durability;
use flagstone_bench::record::{Latency, OpKind, Summary};
use flagstone_bench::workload::{
    Asked, Bytes, FullScanOptions, GetsOptions, LargerCell, LargerOptions, OverwriteOptions,
    Pattern, SEQUENTIAL_PHASES, SequentialOptions, ShortScanOptions, SizesOptions, run_full_scan,
    run_gets, run_larger, run_overwrite, run_sequential, run_short_scan, run_sizes,
};
use std::fmt::Write;

pub(super) fn gets(asked: Asked, args: &GetsArgs) -> Result<(), Failure> {
    let (setup, partitions) = (&args.trial.setup, args.trial.partitions);
    refuse(setup.pace.closing_sync, "--closing-sync", "workloads that write")?;
    let options = GetsOptions {
        asked,
        store: store_options(&setup.store, partitions, Durability::Buffered)?,
        data: filled_options(&setup.data, 1024)?,
        pace: pace(&setup.pace, args.threads),
        records: args.records,
        as_written: args.as_written,
    };
    let place = Place::new(&setup.place)?;
    place.one(options.name(), (partitions, args.threads), &|stage| run_gets(stage, &options))
}

pub(super) fn full_scan(args: &FullScanArgs) -> Result<(), Failure> {
    let (setup, partitions) = (&args.trial.setup, args.trial.partitions);
    let others = "other workloads: full-scan ends with its rounds";
    refuse(setup.pace.seconds.is_some(), "--seconds", others)?;
    refuse(setup.pace.operations.is_some(), "--operations", others)?;
    refuse(setup.pace.closing_sync, "--closing-sync", "workloads that write")?;
    let options = FullScanOptions {
        store: store_options(&setup.store, partitions, Durability::Buffered)?,
        data: filled_options(&setup.data, 16)?,
        pace: pace(&setup.pace, args.threads),
        records: args.records,
        rounds: args.rounds,
    };
    let place = Place::new(&setup.place)?;
    place.one("full-scan", (partitions, args.threads), &|stage| run_full_scan(stage, &options))
}

pub(super) fn short_scan(args: &ShortScanArgs) -> Result<(), Failure> {
    let (setup, partitions) = (&args.trial.setup, args.trial.partitions);
    let options = ShortScanOptions {
        store: store_options(&setup.store, partitions, Durability::Buffered)?,
        data: filled_options(&setup.data, 1024)?,
        pace: pace(&setup.pace, args.threads),
        records: args.records,
        limit: args.limit as usize,
        as_written: args.as_written,
    };
    let place = Place::new(&setup.place)?;
    place.one("short-scan", (partitions, args.threads), &|stage| run_short_scan(stage, &options))
}

pub(super) fn overwrite(args: &OverwriteArgs) -> Result<(), Failure> {
    let (setup, partitions) = (&args.trial.setup, args.trial.partitions);
    let options = OverwriteOptions {
        store: store_options(&setup.store, partitions, Durability::Buffered)?,
        data: filled_options(&setup.data, 1024)?,
        pace: pace(&setup.pace, args.threads),
        records: args.records,
        pattern: match args.pattern {
            OverwritePattern::Random => Pattern::Random,
            OverwritePattern::Queue => Pattern::Queue,
        },
    };
    let place = Place::new(&setup.place)?;
    place.one("overwrite", (partitions, args.threads), &|stage| run_overwrite(stage, &options))
}

pub(super) fn larger(args: &LargerArgs) -> Result<(), Failure> {
    let setup = &args.trial.setup;
    let others = "other workloads: larger takes sizes of blocks by --blocks";
    refuse(setup.store.block_bytes.is_some(), "--block-bytes", others)?;
    refuse(setup.pace.closing_sync, "--closing-sync", "workloads that write")?;
    let what = LargerOptions {
        store: store_options(&setup.store, args.trial.partitions, Durability::Buffered)?,
        data: filled_options(&setup.data, 1024)?,
        pace: pace(&setup.pace, 1),
        times: args.times,
        blocks: args.blocks.iter().map(|bytes| Some(*bytes as usize)).collect(),
        threads: args.threads.iter().map(|threads| usize::from(*threads)).collect(),
        device_time: args.device_seconds,
    };
    let place = Place::of_many(&setup.place)?;
    let cells = run_larger(&place.stage(None), &what, &|name| place.noted_file(name));
    print(&larger_table(&cells.map_err(failure)?))
}

/// The columns of [`larger_table`] that are figures: the head, the figure, its decimals.
const LARGER_FIGURES: [(&str, &str, usize); 7] = [
    ("misses/s", "misses_per_s", 0),
    ("device/s", "device_reads_per_s", 0),
    ("gets/dev", "gets_of_device", 2),
    ("miss/dev", "of_device", 2),
    ("block B", "stored_block_bytes", 0),
    ("B/miss", "device_read_bytes_per_miss", 0),
    ("B/get", "device_read_bytes_per_get", 0),
];

/// A line a trial. `miss/dev` is misses by reads of the device: what the cache served is not in it.
fn larger_table(cells: &[LargerCell]) -> String {
    let heads = LARGER_FIGURES.iter().map(|(head, ..)| format!("{head:>10}"));
    let heads: String = heads.collect();
    let (block, threads, gets) = ("block", "threads", "gets/s");
    let (p50, p99) = ("p50 us", "p99 us");
    let mut text = format!("{block:>8}{threads:>8}{gets:>10}{p50:>10}{p99:>10}{heads}\n");
    for LargerCell { block_bytes, threads, summary } in cells {
        let latency = summary.latency.get(&OpKind::Get).copied().unwrap_or_default();
        let block = block_bytes.map_or("own".to_owned(), |bytes| bytes.to_string());
        let Latency { p50, p99, .. } = latency;
        let gets = summary.ops_per_s;
        let _infallible = write!(text, "{block:>8}{threads:>8}{gets:>10.0}{p50:>10.0}{p99:>10.0}");
        for (_, name, decimals) in LARGER_FIGURES {
            let _infallible = match summary.figures.get(name) {
                Some(value) => write!(text, "{value:>10.decimals$}"),
                None => write!(text, "{:>10}", "-"),
            };
        }
        text.push('\n');
    }
    text
}

fn figure(summary: &Summary, name: &str) -> f64 {
    summary.figures.get(name).copied().unwrap_or(f64::NAN)
}

pub(super) fn sizes(args: &SizesArgs) -> Result<(), Failure> {
    let setup = &args.trial.setup;
    let what = SizesOptions {
        store: store_options(&setup.store, args.trial.partitions, Durability::Buffered)?,
        data: filled_options(&setup.data, 1024)?,
        pace: pace(&setup.pace, args.threads),
        sizes: args.sizes.clone(),
    };
    let place = Place::of_many(&setup.place)?;
    let done = run_sizes(&place.stage(None), &what, &|name| place.noted_file(name));
    let done = done.map_err(failure)?;
    let mut text = format!("{:>10}{:>12}{:>12}{:>12}\n", "GB", "puts/s", "gets/s", "compact s");
    for (bytes, summary) in &done {
        let _infallible = writeln!(
            text,
            "{:>10.2}{:>12.0}{:>12.0}{:>12.1}",
            *bytes as f64 / 1e9,
            figure(summary, "put_per_s"),
            figure(summary, "get_per_s"),
            figure(summary, "compact_s"),
        );
    }
    print(&text)
}

pub(super) fn sequential(args: &SequentialArgs) -> Result<(), Failure> {
    let place = Place::new(&args.place)?;
    let mut done = Vec::new();
    for values in &args.values {
        let bytes = match values {
            SequentialBytes::Zero => Bytes::Zero,
            SequentialBytes::Random => Bytes::Random,
        };
        let defaults = SequentialOptions::new(bytes);
        let mut store = store_options(&args.store, args.partitions, Durability::Buffered)?;
        store.memtable_bytes = store.memtable_bytes.or(defaults.store.memtable_bytes);
        let options = SequentialOptions {
            store,
            puts: args.puts,
            gets: args.gets,
            value_bytes: args.value_size as usize,
            seed: args.seed,
            interval: args.interval,
            ..defaults
        };
        let name = format!("sequential-{}-{}", place.engine_name(), bytes.name());
        let out = place.out_file(&name);
        let summary = run_sequential(&place.stage(Some(&out)), &options).map_err(failure)?;
        done.push((bytes, options, summary));
    }
    print(&sequential_table(&done))
}

/// A line a phase.
fn sequential_table(done: &[(Bytes, SequentialOptions, Summary)]) -> String {
    let mut text =
        format!("{:<8}{:<20}{:>12}{:>10}{:>14}\n", "values", "phase", "ops", "s", "ops/s");
    for (bytes, options, summary) in done {
        for phase in SEQUENTIAL_PHASES {
            let seconds = figure(summary, &format!("{phase}_s"));
            let ops = match phase {
                "put" => options.puts,
                "get" | "get_compacted" => options.gets,
                _ => 0,
            };
            let _infallible = write!(text, "{:<8}{phase:<20}", bytes.name());
            let _infallible = match ops {
                0 => writeln!(text, "{:>12}{seconds:>10.3}", ""),
                ops => writeln!(text, "{ops:>12}{seconds:>10.3}{:>14.0}", ops as f64 / seconds),
            };
        }
    }
    text
}
