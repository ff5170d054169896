//! `report`: result files as a page, as pictures and as CSV.

use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::output::note;
use flagstone_bench::record::{Trial, events_as_csv, read_dir, rows_as_csv};
use flagstone_bench::report::{DocumentSizes, Report};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Read at once from a file of documents.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let dir = &args.dir;
    let all = read_dir(dir).map_err(|error| Failure::io("read", dir, &error))?;
    let sizes = args.documents.as_deref().map(sizes).transpose()?;
    if all.is_empty() && sizes.is_none() {
        let text = format!(
            "{}: no result files (.jsonl) there: see flagstone-bench --help",
            dir.display()
        );
        return Err(Failure::Usage(text));
    }
    let report = Report::new(&all, sizes.as_ref());
    let out = args.out.clone().unwrap_or_else(|| dir.join("report.html"));
    let html = report.html();
    std::fs::write(&out, &html).map_err(|error| Failure::io("write", &out, &error))?;
    let (trials, figures) = (all.len(), report.figures().len());
    let kilobytes = html.len() / 1000;
    note(&format!("{trials} trials, {figures} figures: {} ({kilobytes} KB)", out.display()));
    if let Some(csv) = &args.csv {
        tables(dir, &all, csv)?;
    }
    args.png.as_deref().map_or(Ok(()), |png| pictures(&report, png, args.png_width))
}

/// The rows and the events of each trial, in folders as the result files are.
fn tables(from: &Path, trials: &[Trial], to: &Path) -> Result<(), Failure> {
    for trial in trials {
        let place = trial.path.strip_prefix(from).unwrap_or(&trial.path);
        let path = to.join(place).with_extension("csv");
        let folder = path.parent().unwrap_or(to);
        std::fs::create_dir_all(folder).map_err(|error| Failure::io("make", folder, &error))?;
        let events = path.with_extension("events.csv");
        for (path, table) in [(path, rows_as_csv(trial)), (events, events_as_csv(trial))] {
            std::fs::write(&path, table).map_err(|error| Failure::io("write", &path, &error))?;
        }
    }
    note(&format!("{} tables: {}", 2 * trials.len(), to.display()));
    Ok(())
}

fn sizes(path: &Path) -> Result<DocumentSizes, Failure> {
    let wrong = |error| Failure::io("read", path, &error);
    let file = File::open(path).map_err(wrong)?;
    DocumentSizes::of_lines(BufReader::with_capacity(BUFFER_BYTES, file)).map_err(wrong)
}

#[cfg(feature = "png")]
fn pictures(report: &Report, dir: &Path, width: u32) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|error| Failure::io("make", dir, &error))?;
    let painter = flagstone_bench::report::Painter::new();
    let figures = report.figures();
    for figure in &figures {
        let path = dir.join(format!("{}.png", figure.id));
        let written = painter.png(figure, width).and_then(|png| std::fs::write(&path, png));
        written.map_err(|error| Failure::io("write", &path, &error))?;
    }
    note(&format!("{} pictures: {}", figures.len(), dir.display()));
    Ok(())
}

#[cfg(not(feature = "png"))]
fn pictures(_report: &Report, _dir: &Path, _width: u32) -> Result<(), Failure> {
    Err(Failure::Usage("--png: this binary was built without the feature png".to_owned()))
}
