//! `report`: result files as a page, as pictures and as CSV.

use super::failure::{at, note, usage};
use crate::engine::Outcome;
use crate::record::{Trial, events_as_csv, read_dir, rows_as_csv};
use crate::report::{DocumentSizes, Report};
use clap::Args;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Draw the data of result files: one self-contained HTML page, pictures, CSV
///
/// Trials that repeat each other become their median, and their spread is shown. In place of a
/// figure without data, a line names the command that measures it.
#[derive(Args, Clone, Debug)]
pub(super) struct ReportCommand {
    /// The folder of the result files; folders below it count
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The page [default: report.html in DIR]
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Write each figure as a PNG file into this folder, too; it is created if there is none
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
    /// Pixels of a picture's width
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1400,
        requires = "png",
        value_parser = clap::value_parser!(u32).range(100..=8000)
    )]
    png_width: u32,
    /// Write the rows of each trial as a CSV file into this folder, too, under the name of its
    /// result file
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// A file of uncompressed JSON lines: the report also shows the sizes of these documents
    #[arg(long, value_name = "FILE.jsonl")]
    documents: Option<PathBuf>,
}

impl ReportCommand {
    pub(super) fn run(&self) -> Outcome<()> {
        let dir = &self.dir;
        let all = read_dir(dir).map_err(|error| at("read", dir, &error))?;
        let sizes = self.documents.as_deref().map(sizes).transpose()?;
        if all.is_empty() && sizes.is_none() {
            let text = "no result files (.jsonl) there: see flagstone-bench --help";
            return usage(Err(format!("{}: {text}", dir.display())));
        }
        let report = Report::new(&all, sizes.as_ref());
        let out = self.out.clone().unwrap_or_else(|| dir.join("report.html"));
        let html = report.html();
        write(&out, html.as_bytes())?;
        let (trials, figures) = (all.len(), report.figures().len());
        let kilobytes = html.len() / 1000;
        note(&format!("{trials} trials, {figures} figures: {} ({kilobytes} KB)", out.display()));
        if let Some(csv) = &self.csv {
            tables(dir, &all, csv)?;
        }
        self.png.as_deref().map_or(Ok(()), |png| pictures(&report, png, self.png_width))
    }
}

fn write(path: &Path, bytes: &[u8]) -> Outcome<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| at("create", folder, &error))?;
    }
    fs::write(path, bytes).map_err(|error| at("write", path, &error))
}

/// Writes the rows and the events of each trial, in folders as the result files are.
fn tables(from: &Path, trials: &[Trial], to: &Path) -> Outcome<()> {
    for trial in trials {
        let place = trial.path.strip_prefix(from).unwrap_or(&trial.path);
        let path = to.join(place).with_extension("csv");
        write(&path, rows_as_csv(trial).as_bytes())?;
        write(&path.with_extension("events.csv"), events_as_csv(trial).as_bytes())?;
    }
    note(&format!("{} tables: {}", 2 * trials.len(), to.display()));
    Ok(())
}

fn sizes(path: &Path) -> Outcome<DocumentSizes> {
    let file = File::open(path).map_err(|error| at("read", path, &error))?;
    DocumentSizes::of_lines(BufReader::new(file)).map_err(|error| at("read", path, &error))
}

#[cfg(feature = "png")]
fn pictures(report: &Report, dir: &Path, width: u32) -> Outcome<()> {
    let painter = crate::report::Painter::default();
    let figures = report.figures();
    for figure in figures {
        let path = dir.join(format!("{}.png", figure.id));
        let png = painter.png(figure, width).map_err(|error| at("write", &path, &error))?;
        write(&path, &png)?;
    }
    note(&format!("{} pictures: {}", figures.len(), dir.display()));
    Ok(())
}

#[cfg(not(feature = "png"))]
fn pictures(_report: &Report, _dir: &Path, _width: u32) -> Outcome<()> {
    usage(Err("--png: this program was built without the feature png".to_owned()))
}
