//! What durability costs.

use super::place::{Place, data_options, failure, pace, plural, store_options};
use crate::args::{DurabilityArgs, DurableWritersArgs};
use crate::failure::Failure;
use crate::output::print;
use flagstone::Durability;
use flagstone_bench::engine::durability_name;
use flagstone_bench::record::{OpKind, Summary};
use flagstone_bench::workload::{
    Durabilities, DurabilityCell, DurableWriters, Mix, MixOptions, run_durabilities,
    run_durable_writers,
};
use std::fmt::Write;

pub(super) fn run(args: &DurabilityArgs) -> Result<(), Failure> {
    let setup = &args.setup;
    let what = Durabilities {
        base: MixOptions {
            mix: Mix::PUT_HEAVY,
            store: store_options(&setup.store, 1, Durability::Buffered)?,
            data: data_options(&setup.data, 1024)?,
            pace: pace(&setup.pace, args.threads),
            known_keys: args.shares.known_keys,
            telling_deletes: args.shares.telling_deletes,
        },
        partitions: args.partitions.clone(),
        durabilities: args.durabilities.clone(),
    };
    let place = Place::of_many(&setup.place)?;
    let out = |name: &str| place.noted_file(name);
    let cells = run_durabilities(&place.stage(None), &what, &out).map_err(failure)?;
    print(&table(&what, &cells))
}

/// A line a durability, a column a number of partitions: operations a second and the change.
fn table(what: &Durabilities, cells: &[DurabilityCell]) -> String {
    let heads = what.partitions.iter().map(|count| plural(*count, "partition"));
    let heads: String = heads.map(|head| format!("{head:>24}")).collect();
    let mut text = format!("{:<18}{heads}\n", "ops/s");
    for &durability in &what.durabilities {
        let _infallible = write!(text, "{:<18}", durability_name(durability));
        for cell in cells.iter().filter(|cell| cell.durability == durability) {
            let change = cell.summary.figures.get("against_first");
            let change = change.map_or(String::new(), |by| format!("{:+.0}%", by * 100.0));
            let _infallible = write!(text, "{:>16.0}{change:>8}", cell.summary.ops_per_s);
        }
        text.push('\n');
    }
    text
}

pub(super) fn run_writers(args: &DurableWritersArgs) -> Result<(), Failure> {
    let (setup, defaults) = (&args.trial.setup, DurableWriters::default());
    let what = DurableWriters {
        base: MixOptions {
            store: store_options(&setup.store, args.trial.partitions, args.durability)?,
            data: data_options(&setup.data, 128)?,
            pace: pace(&setup.pace, 1),
            ..defaults.base
        },
        writers: args.threads.iter().map(|threads| usize::from(*threads)).collect(),
    };
    let place = Place::of_many(&setup.place)?;
    let out = |name: &str| place.noted_file(name);
    let done = run_durable_writers(&place.stage(None), &what, &out).map_err(failure)?;
    print(&writers_table(&done))
}

fn writers_table(done: &[(usize, Summary)]) -> String {
    let mut text = format!(
        "{:>8}{:>12}{:>12}{:>16}{:>12}{:>12}\n",
        "writers", "puts/s", "syncs/s", "commits/sync", "p50 us", "p99.9 us"
    );
    for (writers, summary) in done {
        let figure = |name: &str| summary.figures.get(name).copied().unwrap_or(f64::NAN);
        let latency = summary.latency.get(&OpKind::Put).copied().unwrap_or_default();
        let _infallible = writeln!(
            text,
            "{writers:>8}{:>12.0}{:>12.0}{:>16.2}{:>12.0}{:>12.0}",
            summary.ops_per_s,
            figure("syncs_per_s"),
            figure("commits_per_sync"),
            latency.p50,
            latency.p999,
        );
    }
    text
}
