//! `Collection.load`: documents from files, with progress and Ctrl-C.

use crate::arg::{self, Argument};
use crate::error::{invalid, named, raised};
use crate::opened::Opened;
use crate::signals::Interrupt;
use flagstone::{Collection, JsonMode};
use flagstone_load::{
    BadDocuments, Count, Format, Input, LoadError, Mode, Outcome, Plan, TableFormat, Watcher,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// How `Collection.load` was called.
pub(crate) struct Wanted<'a> {
    pub(crate) key: &'a str,
    pub(crate) mode: &'a str,
    pub(crate) format: Option<&'a str>,
    pub(crate) resume: bool,
    /// The file that documents are copied to which cannot be loaded.
    pub(crate) bad_lines: Option<PathBuf>,
    pub(crate) json: JsonMode,
}

/// Loads files and returns what was done. `progress` is called with the documents and the bytes
/// of the input so far, and the bytes of all of it, if they are known.
pub(crate) fn run<'py>(
    opened: &Opened,
    collection: &Collection,
    files: &Bound<'py, PyAny>,
    wanted: &Wanted<'_>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = files.py();
    let mode = match wanted.mode {
        "upsert" => Mode::Upsert,
        "insert" => Mode::Insert,
        "merge" => Mode::Merge,
        other => {
            let text = format!("mode {other:?}: expected \"upsert\", \"insert\" or \"merge\"");
            return Err(invalid(py, text));
        }
    };
    let paths: Vec<PathBuf> = match arg::items(files) {
        Some(files) => {
            files.iter().map(|file| PathBuf::of("files", file)).collect::<PyResult<_>>()?
        }
        None => vec![PathBuf::of("files", files)?],
    };
    let inputs = paths.iter().map(|path| {
        let format = format_of(py, path, wanted.format)?;
        Input::open_as(path, format).map_err(|error| match (&error, path.try_exists()) {
            (LoadError::Io(text), Ok(false)) => named(py, "NotFound", text.clone()),
            _ => failed(py, &error),
        })
    });
    let inputs = inputs.collect::<PyResult<Vec<_>>>()?;
    opened.check(py)?;
    let mut plan = Plan::new(&opened.database, collection, inputs);
    plan.key_path = wanted.key.strip_prefix("$.").unwrap_or(wanted.key).to_owned();
    plan.mode = mode;
    plan.resumes = wanted.resume;
    plan.json = plan.json.mode(wanted.json);
    if let Some(path) = &wanted.bad_lines {
        plan.bad = BadDocuments::copy_to(path, &paths).map_err(|error| failed(py, &error))?;
    }
    let mut watch = Watch {
        interrupt: Interrupt::default(),
        progress: progress.map(|call| call.clone().unbind()),
        bytes: None,
        raised: Mutex::new(None),
    };
    // The outcome comes back inside of Ok: a load that failed has its own errors.
    let ended = opened.run_unwatched(py, || Ok(plan.run(&mut watch)))?;
    let Watch { interrupt, raised, .. } = watch;
    interrupt.raise()?;
    if let Some(error) = raised.into_inner().unwrap_or_default() {
        return Err(error);
    }
    let outcome = ended.map_err(|error| failed(py, &error))?;
    report(py, outcome)
}

fn report(py: Python<'_>, outcome: Outcome) -> PyResult<Bound<'_, PyDict>> {
    let took = outcome.took;
    let count = outcome.whole().map_err(|error| failed(py, &error))?;
    let report = PyDict::new(py);
    report.set_item("documents", count.documents)?;
    report.set_item("existing", count.existing)?;
    report.set_item("bad", count.bad)?;
    report.set_item("bytes", count.json_bytes)?;
    report.set_item("seconds", took.as_secs_f64())?;
    Ok(report)
}

/// Returns the format that was asked for, or the one that the name of the file says.
fn format_of(py: Python<'_>, path: &Path, asked: Option<&str>) -> PyResult<Format> {
    let name = path.to_string_lossy();
    let plain =
        [".zst", ".gz"].iter().fold(&*name, |name, end| name.strip_suffix(end).unwrap_or(name));
    let guessed = match plain {
        name if name.ends_with(".csv") => "csv",
        name if name.ends_with(".tsv") => "tsv",
        _ => "json",
    };
    match asked.unwrap_or(guessed) {
        "json" | "jsonl" => Ok(Format::Json),
        "csv" => Ok(Format::Table(TableFormat::csv())),
        "tsv" => Ok(Format::Table(TableFormat::tsv())),
        other => {
            let text = format!("format {other:?}: expected \"json\", \"csv\" or \"tsv\"");
            Err(invalid(py, text))
        }
    }
}

/// Returns the exception of a load.
fn failed(py: Python<'_>, error: &LoadError) -> PyErr {
    match error {
        LoadError::Engine(error) => raised(py, error),
        LoadError::Exists(text) => named(py, "Duplicate", text.clone()),
        LoadError::Io(text) => named(py, "Io", text.clone()),
        other => invalid(py, other.to_string()),
    }
}

/// Passes progress on, and stops the load at Ctrl-C or when the caller's function raises.
struct Watch {
    interrupt: Interrupt,
    progress: Option<Py<PyAny>>,
    bytes: Option<u64>,
    raised: Mutex<Option<PyErr>>,
}

impl Watch {
    fn tell(&self, count: Count) {
        let Some(progress) = &self.progress else { return };
        let called = Python::try_attach(|py| {
            progress.call1(py, (count.documents, count.input_bytes, self.bytes)).err()
        });
        if let Some(error) = called.flatten() {
            self.raised
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .get_or_insert(error);
        }
    }
}

impl Watcher for Watch {
    fn start(&mut self, input_bytes: Option<u64>) {
        self.bytes = input_bytes;
    }

    fn tick(&mut self, _took: Duration, count: Count) {
        self.tell(count);
    }

    fn end(&mut self, _took: Duration, count: Count) {
        self.tell(count);
    }

    fn stops(&self) -> bool {
        let raised = self.raised.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        raised.is_some() || self.interrupt.check().is_break()
    }
}
