//! `Collection.load`: documents from files, with progress and Ctrl-C.

use crate::arg::{self, Argument};
use crate::error::{invalid, named, raised};
use crate::opened::Opened;
use crate::signals::Interrupt;
use flagstone::Collection;
use flagstone::doc::JsonMode;
use flagstone_load::{
    BadDocuments, Count, FieldType, Format, Input, Key, LoadError, Mode, Outcome, Plan,
    TableFormat, Watcher,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
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
    /// The character between the fields of a table.
    pub(crate) delimiter: Option<&'a str>,
    /// The types of columns of a table, by their names.
    pub(crate) types: Option<HashMap<String, String>>,
    /// The largest window of zstd, as a power of two.
    pub(crate) window_log: Option<u32>,
}

/// Runs `load` with the function that it calls with its progress: `progress`, or a bar for `True`.
pub(crate) fn with_progress<'py, T>(
    py: Python<'py>,
    progress: Option<&Bound<'py, PyAny>>,
    load: impl FnOnce(Option<&Bound<'py, PyAny>>) -> PyResult<T>,
) -> PyResult<T> {
    let Some(progress) = progress else { return load(None) };
    let call = PyModule::import(py, "flagstone.progress")?.call_method1("of", (progress,))?;
    let done = load((!call.is_none()).then_some(&call));
    if !call.is(progress) && !call.is_none() {
        call.call_method0("close")?;
    }
    done
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
    if let Some(log) = wanted.window_log.filter(|log| !(10..=31).contains(log)) {
        return Err(invalid(py, format!("window_log: expected 10 to 31, found {log}")));
    }
    // The lines of an open file are no paths.
    let given = if files.hasattr("read")? { None } else { arg::items(files) };
    let paths: Vec<PathBuf> = match given {
        Some(files) => {
            files.iter().map(|file| PathBuf::of("files", file)).collect::<PyResult<_>>()?
        }
        None => vec![PathBuf::of("files", files)?],
    };
    let inputs = paths.iter().map(|path| {
        let format = format_of(py, path, wanted)?;
        let input =
            Input::open_as(path, format).map_err(|error| match (&error, path.try_exists()) {
                (LoadError::Io(text), Ok(false)) => named(py, "NotFound", text.clone()),
                _ => failed(py, &error),
            })?;
        Ok::<_, PyErr>(match wanted.window_log {
            Some(log) => input.window_log(log),
            None => input,
        })
    });
    let inputs = inputs.collect::<PyResult<Vec<_>>>()?;
    opened.check(py)?;
    let mut plan = Plan::new(&opened.database, collection, inputs);
    plan.key = Key::parse(wanted.key);
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
    let (took, was_complete) = (outcome.took, outcome.was_complete);
    let count = outcome.whole().map_err(|error| failed(py, &error))?;
    let report = PyDict::new(py);
    report.set_item("documents", count.documents)?;
    report.set_item("existing", count.existing)?;
    report.set_item("bad", count.bad)?;
    report.set_item("bytes", count.json_bytes)?;
    report.set_item("seconds", took.as_secs_f64())?;
    report.set_item("was_complete", was_complete)?;
    Ok(report)
}

/// Returns the format that was asked for, or the one that the name of the file says.
fn format_of(py: Python<'_>, path: &Path, wanted: &Wanted<'_>) -> PyResult<Format> {
    let name = path.to_string_lossy().to_lowercase();
    let plain =
        [".zst", ".gz"].iter().fold(&*name, |name, end| name.strip_suffix(end).unwrap_or(name));
    let guessed = match plain {
        name if name.ends_with(".csv") => "csv",
        name if name.ends_with(".tsv") => "tsv",
        _ => "json",
    };
    let mut table = match wanted.format.unwrap_or(guessed) {
        "json" | "jsonl" => {
            let name = if wanted.delimiter.is_some() { "delimiter" } else { "types" };
            let is_for_tables = wanted.delimiter.is_some() || wanted.types.is_some();
            let text = format!("{name} is for tables: format \"csv\" or \"tsv\"");
            return if is_for_tables { Err(invalid(py, text)) } else { Ok(Format::Json) };
        }
        "csv" => TableFormat::csv(),
        "tsv" => TableFormat::tsv(),
        other => {
            let text = format!("format {other:?}: expected \"json\", \"csv\" or \"tsv\"");
            return Err(invalid(py, text));
        }
    };
    match wanted.delimiter.map(str::as_bytes) {
        None => {}
        Some([byte]) if byte.is_ascii() && !b"\"\r\n".contains(byte) => table.delimiter = *byte,
        Some(_) => {
            let text = "delimiter: expected one ASCII character that is no quote or line end";
            return Err(invalid(py, text.to_owned()));
        }
    }
    for (column, kind) in wanted.types.iter().flatten() {
        let kind = FieldType::parse(kind).ok_or_else(|| {
            let text = format!(
                "types of column {column:?}: expected \"text\", \"int\", \"number\", \"bool\" or \
                 \"json\", found {kind:?}"
            );
            invalid(py, text)
        })?;
        table.types.push((column.clone(), kind));
    }
    table.types.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Format::Table(table))
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
