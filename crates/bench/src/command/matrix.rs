//! A matrix: many trials, one result file each; those that were measured already can be skipped.
//!
//! A cell is a name, the options of its header, and what runs it, so it can be of any workload.
//! A cell that fails is reported at the end, and the others still run.

use super::failure::{at, note, print, usage};
use super::place::Place;
use crate::engine::Outcome;
use crate::options::{name_of, partitions, threads};
use crate::record::{Described, Summary, read_file};
use crate::sample::program;
use crate::workload::{Mix, MixOptions, Workload};
use clap::{Args, ValueEnum};
use std::path::Path;

/// One workload over many numbers of partitions and threads, unattended, a result file each
///
/// A cell that fails is reported at the end and the others still run. Give --out a directory.
#[derive(Args, Clone, Debug)]
pub(super) struct MatrixCommand {
    /// Which workload
    #[arg(long, value_name = "NAME", value_enum)]
    workload: MatrixWorkload,
    /// Skip cells measured by this program, so at its commit, with the same options
    #[arg(long)]
    resume: bool,
    /// Hash partitions, separated by commas
    #[arg(long, default_value = "1,4,8,16", value_delimiter = ',', value_parser = partitions())]
    partitions: Vec<u16>,
    /// Threads, separated by commas
    #[arg(long, default_value = "1,4,8,16,32", value_delimiter = ',', value_parser = threads())]
    threads: Vec<usize>,
    #[command(flatten)]
    base: MixOptions,
    #[command(flatten)]
    place: Place,
}

/// Workloads that a matrix can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MatrixWorkload {
    PutHeavy,
    GetHeavy,
    DeleteHeavy,
    Balanced,
    /// The four mixes, one after another
    Mixes,
}

impl MatrixCommand {
    pub(super) fn run(&self) -> Outcome<()> {
        usage(self.base.check())?;
        self.place.check()?;
        let wanted = name_of(&self.workload);
        let is_wanted = |mix: &Mix| self.workload == MatrixWorkload::Mixes || mix.name == wanted;
        let mixes = Mix::ALL.into_iter().filter(is_wanted);
        let cells: Vec<_> = mixes.flat_map(|mix| self.cells(mix)).collect();
        run_cells(&self.place, self.resume, &cells, &mut |cell, out| {
            self.place.with_stage(Some(out), |stage| cell.run.run(stage))
        })
    }

    /// Every number of partitions with every number of threads.
    fn cells(&self, mix: Mix) -> Vec<Cell<MixOptions>> {
        let pairs = self.partitions.iter().flat_map(|p| self.threads.iter().map(move |t| (*p, *t)));
        let cell = |(partitions, threads)| {
            let mut run = MixOptions { mix, ..self.base.clone() };
            (run.setup.store.partitions, run.setup.pace.threads) = (partitions, threads);
            let (workload, engine) = (mix.name.to_owned(), self.place.engine_name());
            let name = format!("{workload}-{engine}-p{partitions}-t{threads}");
            Cell { workload, name, options: run.describe(), run }
        };
        pairs.map(cell).collect()
    }
}

/// One trial of a matrix.
#[derive(Clone, Debug)]
pub(super) struct Cell<T> {
    /// The workload in its header.
    pub(super) workload: String,
    /// The name of its result file, without `.jsonl`.
    pub(super) name: String,
    /// The options in its header; others do not matter when cells are compared.
    pub(super) options: Described,
    /// What runs it.
    pub(super) run: T,
}

/// Runs cells, each with its result file in the directory of the results, and prints a line a cell.
/// Fails when any cell failed. With `resume` those are skipped that this program has measured.
pub(super) fn run_cells<T>(
    place: &Place,
    resume: bool,
    cells: &[Cell<T>],
    run: &mut dyn FnMut(&Cell<T>, &Path) -> Outcome<Summary>,
) -> Outcome<()> {
    let (out, engine, program) = (place.out_dir()?, &place.engine_name(), &program());
    std::fs::create_dir_all(out).map_err(|error| at("create", out, &error))?;
    let (mut text, mut failed) = (String::new(), Vec::new());
    for (at, cell) in cells.iter().enumerate() {
        let (name, path) = (&cell.name, out.join(format!("{}.jsonl", cell.name)));
        let is_skipped = resume && is_measured(cell, &path, program, engine);
        let what = if is_skipped { ": measured already" } else { "" };
        note(&format!("{}/{} {name}{what}", at + 1, cells.len()));
        text += &match (!is_skipped).then(|| run(cell, &path)) {
            None => format!("{name:<40} measured before\n"),
            Some(Ok(Summary { ops_per_s, row_worst, .. })) => {
                format!("{name:<40}{ops_per_s:>12.0} ops/s, worst row {row_worst:.0}\n")
            }
            Some(Err(error)) => {
                failed.push(name.as_str());
                format!("{name:<40} FAILED: {error}\n")
            }
        };
    }
    print(&text)?;
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("{} of {} cells failed: {}", failed.len(), cells.len(), failed.join(", ")).into())
}

/// Returns whether the file holds a whole trial of this cell. A file that cannot be read holds none.
fn is_measured<T>(cell: &Cell<T>, path: &Path, program: &str, engine: &str) -> bool {
    read_file(path).is_ok_and(|trial| trial.is_of(program, engine, &cell.workload, &cell.options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::defaults;
    use crate::record::{FORMAT, Header, Line, RecordWriter};

    fn write(cell: &Cell<MixOptions>, path: &Path) -> Outcome<Summary> {
        let mut writer = RecordWriter::create(path)?;
        let header = Header {
            format: FORMAT,
            workload: cell.workload.clone(),
            engine: "flagstone".into(),
            program: program(),
            options: cell.options.clone(),
            ..Header::default()
        };
        writer.line(&Line::Header(header))?;
        writer.line(&Line::Summary(Summary::default()))?;
        writer.finish()?;
        Ok(Summary::default())
    }

    fn matrix(out: &Path) -> MatrixCommand {
        MatrixCommand {
            workload: MatrixWorkload::Balanced,
            resume: true,
            partitions: vec![1, 4],
            threads: vec![2, 8],
            base: defaults(),
            place: Place { out: out.to_owned(), ..defaults() },
        }
    }

    /// Runs cells that `write` measures; returns their places.
    fn ran(out: &Path, resume: bool, cells: &[Cell<MixOptions>]) -> Vec<String> {
        let mut ran = Vec::new();
        let mut run = |cell: &Cell<MixOptions>, path: &Path| {
            ran.push(cell.name.replace("balanced-flagstone-", ""));
            write(cell, path)
        };
        run_cells(&matrix(out).place, resume, cells, &mut run).unwrap();
        ran
    }

    #[test]
    fn cells_measured_by_this_program_with_these_options_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let mut cells = matrix(dir.path()).cells(Mix::BALANCED);
        assert_eq!(ran(dir.path(), true, &cells), ["p1-t2", "p1-t8", "p4-t2", "p4-t8"]);
        assert!(ran(dir.path(), true, &cells).is_empty());
        let path = |at: &str| dir.path().join(format!("balanced-flagstone-{at}.jsonl"));
        std::fs::remove_file(path("p4-t2")).unwrap();
        std::fs::write(path("p1-t8"), "half a li").unwrap();
        let other = std::fs::read_to_string(path("p4-t8")).unwrap().replace(&program(), "another");
        std::fs::write(path("p4-t8"), other).unwrap();
        assert_eq!(ran(dir.path(), true, &cells), ["p1-t8", "p4-t2", "p4-t8"]);
        assert_eq!(ran(dir.path(), false, &cells).len(), 4);
        cells[0].options.insert("seed".into(), 2.into());
        assert_eq!(ran(dir.path(), true, &cells), ["p1-t2"]);
    }

    #[test]
    fn a_cell_that_fails_does_not_keep_others_from_running() {
        let dir = tempfile::tempdir().unwrap();
        let matrix = matrix(dir.path());
        let cells = matrix.cells(Mix::BALANCED);
        let mut done = 0;
        let failed = run_cells(&matrix.place, true, &cells, &mut |cell, path| {
            if cell.name.ends_with("p1-t8") {
                return Err("no space".into());
            }
            done += 1;
            write(cell, path)
        });
        let expected = "1 of 4 cells failed: balanced-flagstone-p1-t8";
        assert_eq!((failed.unwrap_err().to_string().as_str(), done), (expected, 3));
    }
}
