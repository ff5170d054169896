//! One workload over many numbers of partitions and threads.

use super::place::{Place, data_options, pace, store_options};
use crate::args::{MatrixArgs, MatrixWorkload};
use crate::failure::Failure;
use crate::output::{note, print};
use flagstone_bench::engine::Outcome;
use flagstone_bench::record::Summary;
use flagstone_bench::sample::program;
use flagstone_bench::workload::{
    Cell, CellState, MatrixPlan, MatrixReport, Mix, MixOptions, mix_cells, run_matrix, run_mix,
};
use std::fmt::Write;
use std::path::Path;

pub(super) fn run(args: &MatrixArgs) -> Result<(), Failure> {
    let place = Place::of_many(&args.setup.place)?;
    let cells = cells(args, place.engine_name())?;
    let mut run = |cell: &Cell<MixOptions>, out: &Path| run_mix(&place.stage(Some(out)), &cell.run);
    tell(&run_cells(&place, args.resume, &cells, &mut run)?)
}

/// Runs cells, each with its result file in the directory of the results.
pub(super) fn run_cells<T>(
    place: &Place,
    resume: bool,
    cells: &[Cell<T>],
    run: &mut dyn FnMut(&Cell<T>, &Path) -> Outcome<Summary>,
) -> Result<MatrixReport, Failure> {
    let out = place.out_dir()?;
    std::fs::create_dir_all(out).map_err(|error| Failure::io("create", out, &error))?;
    let plan = MatrixPlan { cells, engine: place.engine_name(), out, resume, program: &program() };
    let mut told = |at: usize, cell: &Cell<T>, skipped: bool| {
        let what = if skipped { ": measured already" } else { "" };
        note(&format!("{}/{} {}{what}", at + 1, cells.len(), cell.name));
    };
    Ok(run_matrix(&plan, run, &mut told))
}

/// Prints a line a cell; fails when any did.
pub(super) fn tell(report: &MatrixReport) -> Result<(), Failure> {
    print(&table(report))?;
    let failed: Vec<&str> = report.failures().map(|(name, _)| name).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let of = report.cells.len();
    Err(Failure::Check(format!("{} of {of} cells failed: {}", failed.len(), failed.join(", "))))
}

fn cells(args: &MatrixArgs, engine: &str) -> Result<Vec<Cell<MixOptions>>, Failure> {
    let mixes = match args.workload {
        MatrixWorkload::PutHeavy => &[Mix::PUT_HEAVY][..],
        MatrixWorkload::GetHeavy => &[Mix::GET_HEAVY],
        MatrixWorkload::DeleteHeavy => &[Mix::DELETE_HEAVY],
        MatrixWorkload::Balanced => &[Mix::BALANCED],
        MatrixWorkload::Mixes => &Mix::ALL,
    };
    let base = MixOptions {
        mix: Mix::BALANCED,
        store: store_options(&args.setup.store, 1, args.durable.durability)?,
        data: data_options(&args.setup.data, 1024)?,
        pace: pace(&args.setup.pace, 1),
        known_keys: args.shares.known_keys,
        telling_deletes: args.shares.telling_deletes,
    };
    let threads: Vec<usize> = args.threads.iter().map(|threads| usize::from(*threads)).collect();
    let of_mix = |mix: &Mix| {
        let base = MixOptions { mix: *mix, ..base.clone() };
        mix_cells(&base, engine, &args.partitions, &threads)
    };
    Ok(mixes.iter().flat_map(of_mix).collect())
}

fn table(report: &MatrixReport) -> String {
    let mut text = String::new();
    for (name, state) in &report.cells {
        let _infallible = match state {
            CellState::Skipped => writeln!(text, "{name:<40} measured before"),
            CellState::Done(summary) => writeln!(
                text,
                "{name:<40}{:>12.0} ops/s, worst row {:.0}",
                summary.ops_per_s, summary.row_worst
            ),
            CellState::Failed(error) => writeln!(text, "{name:<40} FAILED: {error}"),
        };
    }
    text
}
