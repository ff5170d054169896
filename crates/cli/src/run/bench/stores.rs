//! Workloads that fill a store first.

use super::place::{Place, data_options, failure, pace, report, store_options};
use crate::args::{
    FullScanArgs, GetsArgs, LargerArgs, SequentialArgs, SequentialBytes, ShortScanArgs, SizesArgs,
};
use crate::failure::Failure;
use crate::output::{note, write_all};
use flagstone::Durability;
use flagstone_bench::record::{OpKind, Summary};
use flagstone_bench::workload::{
    Asked, Bytes, FullScanOptions, GetsOptions, LargerCell, LargerOptions, SEQUENTIAL_PHASES,
    SequentialOptions, ShortScanOptions, SizesOptions, run_full_scan, run_gets, run_larger,
    run_sequential, run_short_scan, run_sizes,
};
use std::fmt::Write;

pub(super) fn gets(asked: Asked, args: &GetsArgs) -> Result<(), Failure> {
    let options = GetsOptions {
        asked,
        store: store_options(&args.store, args.partitions, Durability::Buffered)?,
        data: data_options(&args.data, 1024)?,
        pace: pace(&args.pace, args.threads),
        records: args.records,
    };
    let place = Place::new(&args.place)?;
    let (engine, partitions, threads) = (place.engine_name(), args.partitions, args.threads);
    let out = place.out_file(&format!("{}-{engine}-p{partitions}-t{threads}", options.name()));
    let summary = run_gets(&place.stage(Some(&out)), &options).map_err(failure)?;
    report(&summary, &out)
}

pub(super) fn full_scan(args: &FullScanArgs) -> Result<(), Failure> {
    let options = FullScanOptions {
        store: store_options(&args.store, args.partitions, Durability::Buffered)?,
        data: data_options(&args.data, 16)?,
        pace: pace(&args.pace, args.threads),
        records: args.records,
        rounds: args.rounds,
    };
    let place = Place::new(&args.place)?;
    let (engine, partitions, threads) = (place.engine_name(), args.partitions, args.threads);
    let out = place.out_file(&format!("full-scan-{engine}-p{partitions}-t{threads}"));
    let summary = run_full_scan(&place.stage(Some(&out)), &options).map_err(failure)?;
    report(&summary, &out)
}

pub(super) fn short_scan(args: &ShortScanArgs) -> Result<(), Failure> {
    let options = ShortScanOptions {
        store: store_options(&args.store, args.partitions, Durability::Buffered)?,
        data: data_options(&args.data, 1024)?,
        pace: pace(&args.pace, args.threads),
        records: args.records,
        limit: args.limit as usize,
    };
    let place = Place::new(&args.place)?;
    let (engine, partitions, threads) = (place.engine_name(), args.partitions, args.threads);
    let out = place.out_file(&format!("short-scan-{engine}-p{partitions}-t{threads}"));
    let summary = run_short_scan(&place.stage(Some(&out)), &options).map_err(failure)?;
    report(&summary, &out)
}

pub(super) fn larger(args: &LargerArgs) -> Result<(), Failure> {
    let what = LargerOptions {
        store: store_options(&args.store, args.partitions, Durability::Buffered)?,
        data: data_options(&args.data, 1024)?,
        pace: pace(&args.pace, 1),
        times: args.times,
        blocks: args.blocks.iter().map(|bytes| *bytes as usize).collect(),
        threads: args.threads.iter().map(|threads| usize::from(*threads)).collect(),
        device_time: args.device_seconds,
    };
    let place = Place::new(&args.place)?;
    place.out_dir()?;
    let out = |name: &str| {
        note(name);
        Some(place.out_file(name))
    };
    let cells = run_larger(&place.stage(None), &what, &out).map_err(failure)?;
    write_all(larger_table(&cells).as_bytes())
}

fn larger_table(cells: &[LargerCell]) -> String {
    let mut text = format!(
        "{:>8}{:>8}{:>12}{:>10}{:>10}{:>14}{:>10}{:>16}\n",
        "block", "threads", "gets/s", "p50 us", "p99 us", "device/s", "ratio", "read B/get"
    );
    for LargerCell { block_bytes, threads, summary } in cells {
        let latency = summary.latency.get(&OpKind::Get).copied().unwrap_or_default();
        let _infallible = writeln!(
            text,
            "{block_bytes:>8}{threads:>8}{:>12.0}{:>10.0}{:>10.0}{:>14.0}{:>10.2}{:>16.0}",
            summary.ops_per_s,
            latency.p50,
            latency.p99,
            figure(summary, "device_reads_per_s"),
            figure(summary, "of_device"),
            figure(summary, "device_read_bytes_per_get"),
        );
    }
    text
}

fn figure(summary: &Summary, name: &str) -> f64 {
    summary.figures.get(name).copied().unwrap_or(f64::NAN)
}

pub(super) fn sizes(args: &SizesArgs) -> Result<(), Failure> {
    let what = SizesOptions {
        store: store_options(&args.store, args.partitions, Durability::Buffered)?,
        data: data_options(&args.data, 1024)?,
        pace: pace(&args.pace, args.threads),
        sizes: args.sizes.clone(),
    };
    let place = Place::new(&args.place)?;
    place.out_dir()?;
    let out = |name: &str| {
        note(name);
        Some(place.out_file(name))
    };
    let done = run_sizes(&place.stage(None), &what, &out).map_err(failure)?;
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
    write_all(text.as_bytes())
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
    write_all(sequential_table(&done).as_bytes())
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
