//! A matrix: many trials, one result file each; those that are there already can be passed over.
//!
//! A cell is a name, the options that its header will show, and what runs it; so any workload fits
//! in. A cell that fails is told at the end, and the others still run.

use super::{MixOptions, Workload};
use crate::engine::{EngineError, Outcome};
use crate::record::{Described, Summary, read_file};
use std::path::{Path, PathBuf};

/// One trial of a matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell<T> {
    /// The workload of its header.
    pub workload: String,
    /// The name of its result file, without `.jsonl`.
    pub name: String,
    /// The options of its header; those that it has beyond do not matter when cells are compared.
    pub options: Described,
    /// What runs it.
    pub run: T,
}

/// Cells, and where their results go.
#[derive(Clone, Copy, Debug)]
pub struct MatrixPlan<'a, T> {
    /// The cells, in order.
    pub cells: &'a [Cell<T>],
    /// The engine of their headers.
    pub engine: &'a str,
    /// The directory of the result files.
    pub out: &'a Path,
    /// Passes over cells whose result is there, by this program and with the same options.
    pub resume: bool,
    /// The program, as headers tell it.
    pub program: &'a str,
}

/// How a cell went.
#[derive(Debug)]
pub enum CellState {
    /// It was measured before.
    Skipped,
    /// It was measured now.
    Done(Box<Summary>),
    /// It could not be measured.
    Failed(EngineError),
}

/// How all cells went, in their order: names and states.
#[derive(Debug, Default)]
pub struct MatrixReport {
    pub cells: Vec<(String, CellState)>,
}

impl MatrixReport {
    /// Names and errors of the cells that failed.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &EngineError)> {
        self.cells.iter().filter_map(|(name, state)| match state {
            CellState::Failed(error) => Some((name.as_str(), error)),
            _ => None,
        })
    }

    /// A line a cell.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for (name, state) in &self.cells {
            text += &match state {
                CellState::Skipped => format!("{name:<40} measured before\n"),
                CellState::Done(summary) => format!(
                    "{name:<40}{:>12.0} ops/s, worst row {:.0}\n",
                    summary.ops_per_s, summary.row_worst
                ),
                CellState::Failed(error) => format!("{name:<40} FAILED: {error}\n"),
            };
        }
        text
    }
}

/// Runs the cells, each by `run` with its result file; `told` hears of each cell before it runs, with
/// its position, and of whether it is passed over.
pub fn run_matrix<T>(
    plan: &MatrixPlan<'_, T>,
    run: &mut dyn FnMut(&Cell<T>, &Path) -> Outcome<Summary>,
    told: &mut dyn FnMut(usize, &Cell<T>, bool),
) -> MatrixReport {
    let mut report = MatrixReport::default();
    for (at, cell) in plan.cells.iter().enumerate() {
        let path = plan.path(cell);
        let skipped = plan.resume && plan.is_measured(cell, &path);
        told(at, cell, skipped);
        let state = if skipped {
            CellState::Skipped
        } else {
            match run(cell, &path) {
                Ok(summary) => CellState::Done(Box::new(summary)),
                Err(error) => CellState::Failed(error),
            }
        };
        report.cells.push((cell.name.clone(), state));
    }
    report
}

impl<T> MatrixPlan<'_, T> {
    fn path(&self, cell: &Cell<T>) -> PathBuf {
        self.out.join(format!("{}.jsonl", cell.name))
    }

    fn is_measured(&self, cell: &Cell<T>, path: &Path) -> bool {
        read_file(path).is_ok_and(|trial| {
            trial.is_of(self.program, self.engine, &cell.workload, &cell.options)
        })
    }
}

/// The cells of a mix: every number of partitions with every number of threads.
pub fn mix_cells(
    base: &MixOptions,
    engine: &str,
    partitions: &[u16],
    threads: &[usize],
) -> Vec<Cell<MixOptions>> {
    let pairs = partitions.iter().flat_map(|p| threads.iter().map(move |t| (*p, *t)));
    let cell = |(partitions, threads)| {
        let mut run = base.clone();
        (run.setup.store.partitions, run.setup.pace.threads) = (partitions, threads);
        Cell {
            workload: run.mix.name.to_owned(),
            name: format!("{}-{engine}-p{partitions}-t{threads}", run.mix.name),
            options: run.describe(),
            run,
        }
    };
    pairs.map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FORMAT, Header, Line, RecordWriter};
    use crate::workload::Mix;

    fn cells() -> Vec<Cell<MixOptions>> {
        mix_cells(&MixOptions::new(Mix::BALANCED), "noop", &[1, 4], &[2, 8])
    }

    fn write(cell: &Cell<MixOptions>, path: &Path, program: &str) -> Outcome<Summary> {
        let mut writer = RecordWriter::create(path)?;
        let header = Header {
            format: FORMAT,
            workload: cell.workload.clone(),
            engine: "noop".into(),
            program: program.into(),
            options: cell.options.clone(),
            ..Header::default()
        };
        writer.line(&Line::Header(header))?;
        writer.line(&Line::Summary(Summary::default()))?;
        writer.finish()?;
        Ok(Summary::default())
    }

    fn ran(out: &Path, program: &str, resume: bool, cells: &[Cell<MixOptions>]) -> Vec<String> {
        let plan = MatrixPlan { cells, engine: "noop", out, resume, program };
        let mut ran = Vec::new();
        let mut run = |cell: &Cell<MixOptions>, path: &Path| {
            ran.push(cell.name.clone());
            write(cell, path, program)
        };
        run_matrix(&plan, &mut run, &mut |_, _, _| {});
        ran
    }

    #[test]
    fn a_matrix_holds_every_pair_once() {
        let names: Vec<_> = cells().into_iter().map(|cell| cell.name).collect();
        let expected = ["p1-t2", "p1-t8", "p4-t2", "p4-t8"].map(|at| format!("balanced-noop-{at}"));
        assert_eq!(names, expected);
    }

    #[test]
    fn cells_measured_by_this_program_with_these_options_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut cells = cells();
        assert_eq!(ran(dir.path(), "a", true, &cells).len(), 4);
        assert_eq!(ran(dir.path(), "a", true, &cells).len(), 0);
        std::fs::remove_file(dir.path().join("balanced-noop-p4-t2.jsonl")).unwrap();
        std::fs::write(dir.path().join("balanced-noop-p1-t8.jsonl"), "half a li").unwrap();
        assert_eq!(
            ran(dir.path(), "a", true, &cells),
            ["balanced-noop-p1-t8", "balanced-noop-p4-t2"]
        );
        assert_eq!(ran(dir.path(), "a", false, &cells).len(), 4);
        assert_eq!(ran(dir.path(), "b", true, &cells).len(), 4);
        cells[0].options.insert("seed".into(), 2.into());
        assert_eq!(ran(dir.path(), "b", true, &cells), ["balanced-noop-p1-t2"]);
    }

    #[test]
    fn a_cell_that_fails_does_not_keep_others_from_running() {
        let dir = tempfile::tempdir().unwrap();
        let cells = cells();
        let (engine, program) = ("noop", "a");
        let plan = MatrixPlan { cells: &cells, engine, out: dir.path(), resume: true, program };
        let mut run = |cell: &Cell<MixOptions>, path: &Path| {
            if cell.name.ends_with("p1-t8") {
                return Err("no space".into());
            }
            write(cell, path, program)
        };
        let report = run_matrix(&plan, &mut run, &mut |_, _, _| {});
        let failed: Vec<_> = report.failures().map(|(name, e)| format!("{name}: {e}")).collect();
        assert_eq!(failed, ["balanced-noop-p1-t8: no space"]);
        let done = report.cells.iter().filter(|(_, state)| matches!(state, CellState::Done(_)));
        assert_eq!(done.count(), 3);
    }
}
