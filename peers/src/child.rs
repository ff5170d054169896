//! Runs one trial in this process; the plan starts such a process for each trial.

use crate::args::Options;
use crate::cells::{Trial, run as run_cell};
use flagstone_bench::engine::Outcome;
use flagstone_bench::options::StoreOptions;
use flagstone_bench::run::show_summary;
use flagstone_bench::workload::Stage;

/// Runs the single cell over the single engine that the options name.
///
/// # Errors
/// Any error of the cell; options that name no cell or engine, or several.
pub(crate) fn run(options: &Options) -> Outcome<()> {
    let ([cell], [engine]) = (&options.cells[..], &options.engines[..]) else {
        return Err("a trial is of one cell over one engine".into());
    };
    let open = |given: &StoreOptions| engine.open(given, cell.work.only_reads());
    let out = options.result_file(cell, engine, options.rounds);
    let dir = options.dir.join(format!("{}-{}", cell.name, engine.to_string().replace(':', "-")));
    let name = engine.to_string();
    let stage = Stage {
        engine: &name,
        open: &open,
        dir: &dir,
        out: Some(&out),
        watch: &|_| {},
        keep: false,
        first_ops_per_s: None,
    };
    let summary = run_cell(&Trial { setup: options.setup(cell), stage })?;
    eprintln!("{}", show_summary(&summary));
    Ok(())
}
