//! Result files: one trial each, as lines of JSON: a header, a row per interval, events, a summary.
//!
//! A line is a [`Line`]; the first is its header, the last its summary. What was not measured is
//! absent, never zero. Reports read only these files, so any engine that writes them can be
//! drawn.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The version of the format that this code writes.
pub const FORMAT: u32 = 1;

/// An upper bound for the length of the first line of a result file.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// Options by their long names: numbers as numbers.
pub type Described = BTreeMap<String, Value>;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// What is measured, where, from what state.
    Header(Header),
    /// One interval.
    Row(RowLine),
    /// Something the engine did.
    Event(EventLine),
    /// The whole trial.
    Summary(Summary),
}

/// What is measured, where, from what state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// `put-heavy`, `load`, `get`, `ycsb-a`, ...
    pub workload: String,
    /// `flagstone`, `rocksdb`, ...
    pub engine: String,
    pub engine_version: String,
    /// The commit of this repository, `unknown` outside one, with `+` when files differ from it.
    pub commit: String,
    /// The size of the program that measures, and when it was written; empty in earlier files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program: String,
    /// The start of the trial, UTC, as in `2026-01-31T12:00:00Z`.
    pub started: String,
    /// The machine of the trial.
    pub machine: Machine,
    /// Every option of the trial by its long name, defaults included: numbers as numbers.
    pub options: Described,
    /// The content of the store when the clock started, as a text for readers.
    pub starting_state: String,
}

/// The machine on which a trial ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The name of the processor.
    pub cpu: String,
    /// Logical processors.
    pub cores: u32,
    pub memory_bytes: u64,
    /// Operating system and kernel version.
    pub system: String,
    /// The file system of the store's directory.
    pub file_system: String,
}

/// The kinds of operations that have a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// One key written.
    Put,
    /// One key removed.
    Delete,
    /// One key read.
    Get,
    /// A few entries read in order.
    Scan,
    /// One key or document read and written.
    Update,
    /// One operand merged without reading.
    Merge,
    /// One batch of documents committed.
    Batch,
    /// One transaction committed, with all its tries.
    Transaction,
}

impl OpKind {
    /// All kinds, in the order of a report.
    pub const ALL: [Self; 8] = [
        Self::Put,
        Self::Delete,
        Self::Get,
        Self::Scan,
        Self::Update,
        Self::Merge,
        Self::Batch,
        Self::Transaction,
    ];

    /// The name, as result files have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Get => "get",
            Self::Scan => "scan",
            Self::Update => "update",
            Self::Merge => "merge",
            Self::Batch => "batch",
            Self::Transaction => "transaction",
        }
    }
}

/// The latencies of operations of one kind in microseconds, from an HDR histogram of three digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub mean: f64,
    pub p50: f64,
    /// 99 in 100 operations were at most this slow.
    pub p99: f64,
    /// 999 in 1,000 operations were at most this slow.
    pub p999: f64,
    pub max: f64,
}

/// One interval. Counts and bytes are those of the interval alone, unless they say "now".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RowLine {
    /// Seconds from the start of the trial to the end of the interval.
    pub t: f64,
    /// Seconds of the interval.
    pub dt: f64,
    /// Operations of all kinds; for a load, documents.
    pub ops: u64,
    /// Latencies by kind, of kinds that happened; each holds its count.
    pub latency: BTreeMap<OpKind, Latency>,
    /// Gets that found their key.
    pub gets_found: u64,
    /// Deletes that found their key, if deletes report that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletes_found: Option<u64>,
    /// Entries that scans returned.
    pub scanned: u64,
    /// Bytes of keys and values put, or of JSON loaded.
    pub user_bytes: u64,
    /// Share of the worker threads' time that was spent on creating keys and values, outside the
    /// timed calls, 0 to 1.
    pub make_share: f64,
    /// Bytes of all files of the store, now.
    pub disk_bytes: u64,
    /// Bytes of the log's files among them, now.
    #[serde(default)]
    pub log_bytes: u64,
    /// Bytes of memtables, now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memtable_bytes: Option<u64>,
    /// Bytes by level from L0 down, now, over all partitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub level_bytes: Vec<u64>,
    /// Blocks found in the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_hits: Option<u64>,
    /// Blocks read from files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_misses: Option<u64>,
    /// Bytes that the device read for this process.
    pub disk_read_bytes: u64,
    /// Bytes that this process wrote to the file system, the log included.
    pub disk_write_bytes: u64,
    /// Bytes written to the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_write_bytes: Option<u64>,
    /// Syncs of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_syncs: Option<u64>,
    /// Seconds for which writers were stopped, as the engine counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_s: Option<f64>,
    /// CPU seconds of this process, user and system.
    pub cpu_s: f64,
    /// Share of the interval that the device was busy, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_busy: Option<f64>,
    /// Runnable threads of this process, now.
    pub runnable: u32,
    /// Resident bytes of this process, now.
    pub rss_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A memtable was written to tables.
    Flush,
    /// Tables were merged.
    Compaction,
    /// Writers were stopped.
    Stall,
    /// The trial itself did something: a phase began.
    Phase,
}

/// Something the engine did, from `t` to `until`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// Seconds from the start of the trial to the beginning of the event.
    pub t: f64,
    /// Seconds from the start of the trial to the end of the event.
    pub until: f64,
    pub kind: EventKind,
    #[serde(default)]
    pub bytes: u64,
    /// More, for people: which partition, which job, which phase.
    #[serde(default)]
    pub what: String,
}

/// The whole trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub seconds: f64,
    /// Operations of all kinds; for a load, documents.
    pub ops: u64,
    pub ops_per_s: f64,
    /// Rows that are whole intervals: the last row of each phase, in which threads end, does not
    /// count. The figures of rows below are of these rows; without any they are the rate of the
    /// whole trial.
    #[serde(default)]
    pub rows: u64,
    /// The median row's operations a second.
    pub row_median: f64,
    /// The worst row's operations a second.
    pub row_worst: f64,
    /// The worst hundredth of the rows: the mean of the `ceil(rows / 100)` worst.
    pub row_worst_hundredth: f64,
    pub latency: BTreeMap<OpKind, Latency>,
    /// Share of the worker threads' time that was spent on creating keys and values.
    pub make_share: f64,
    /// The largest `rss_bytes` seen, or the peak between two rows if the system reports it.
    pub rss_max_bytes: u64,
    /// The largest `disk_bytes` of the last sixth of the trial.
    pub disk_bytes: u64,
    /// Bytes of keys and values put, or of JSON loaded.
    pub user_bytes: u64,
    /// Bytes written to the file system, the log included.
    pub disk_write_bytes: u64,
    /// Bytes written until the clock stopped / bytes put. The bytes of `settle` and `close` do not
    /// count. Absent when nothing was put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    pub cpu_s: f64,
    /// Figures of this workload alone, by name with the unit last: `close_s`, `compact_s`,
    /// `stored_per_json`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

impl Summary {
    /// A figure of the workload's own, NaN where it is absent.
    pub fn figure(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(f64::NAN)
    }
}

/// An option for people: text without quotes.
pub fn shown(option: &Value) -> String {
    option.as_str().map_or_else(|| option.to_string(), str::to_owned)
}

/// A result file being written.
#[derive(Debug)]
pub struct RecordWriter {
    to: BufWriter<File>,
    partial: PathBuf,
    path: PathBuf,
}

impl RecordWriter {
    /// Begins the file `path`, as `path` + `.partial` until it is finished. Then it replaces an
    /// older result; another file is refused.
    pub fn create(path: &Path) -> io::Result<Self> {
        check_replaced(path)?;
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let to = BufWriter::new(File::create(&partial)?);
        Ok(Self { to, partial, path: path.to_owned() })
    }

    /// Adds a line and flushes it to the operating system, so that a running trial can be watched.
    pub fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.to, line)?;
        self.to.write_all(b"\n")?;
        self.to.flush()
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> io::Result<()> {
        self.to.flush()?;
        std::fs::rename(&self.partial, &self.path)
    }
}

/// Refuses to replace a file that is neither empty nor a result.
pub fn check_replaced(path: &Path) -> io::Result<()> {
    let Ok(file) = File::open(path) else { return Ok(()) };
    let mut first = Vec::new();
    BufReader::new(file.take(HEADER_BYTES_MAX)).read_until(b'\n', &mut first)?;
    match serde_json::from_slice(&first) {
        Ok(Line::Header(_)) => Ok(()),
        _ if first.is_empty() => Ok(()),
        _ => {
            let text = format!("{}: it is there and is no result file", path.display());
            Err(io::Error::new(io::ErrorKind::AlreadyExists, text))
        }
    }
}

/// A whole result file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    pub path: PathBuf,
    pub header: Header,
    pub rows: Vec<RowLine>,
    /// In the order in which the events ended.
    pub events: Vec<EventLine>,
    pub summary: Summary,
}

impl Trial {
    /// An option that is a whole number.
    pub fn number(&self, option: &str) -> Option<u64> {
        self.header.options.get(option)?.as_u64()
    }

    /// Returns whether `program` measured this workload of an engine with these options. Other
    /// options of the header do not matter.
    pub fn is_of(&self, program: &str, engine: &str, workload: &str, options: &Described) -> bool {
        let Header { program: by, engine: of, workload: what, options: have, .. } = &self.header;
        let is_same = |(name, value): (&String, &Value)| have.get(name) == Some(value);
        (by == program && of == engine && what == workload) && options.iter().all(is_same)
    }
}

/// The trials of all `.jsonl` files in `dir` and the folders below it, by path.
pub fn read_dir(dir: &Path) -> io::Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            trials.extend(read_dir(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            trials.push(read_file(&path)?);
        }
    }
    Ok(trials)
}

/// The trial of one file.
pub fn read_file(path: &Path) -> io::Result<Trial> {
    let wrong = |line: usize, what: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}:{line}: {what}", path.display()))
    };
    let text = std::fs::read_to_string(path)?;
    let (mut header, mut summary) = (None, None);
    let (mut rows, mut events) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate() {
        let line = serde_json::from_str(line).map_err(|e| wrong(at + 1, &e.to_string()))?;
        match line {
            Line::Header(found) if found.format != FORMAT => {
                let what = format!("format {}: expected {FORMAT}", found.format);
                return Err(wrong(at + 1, &what));
            }
            Line::Header(found) => header = Some(found),
            Line::Row(row) => rows.push(row),
            Line::Event(event) => events.push(event),
            Line::Summary(found) => summary = Some(found),
        }
    }
    let header = header.ok_or_else(|| wrong(1, "expected a header"))?;
    let summary = summary.ok_or_else(|| wrong(text.lines().count(), "expected a summary"))?;
    Ok(Trial { path: path.to_owned(), header, rows, events, summary })
}

/// The first columns; the others follow by name.
const FIRST: [&str; 3] = ["t", "dt", "ops"];

/// The rows of a trial as CSV. Two lines at the top begin with `#`: the header with machine and
/// options, and the summary, as the result file has them.
///
/// A column is a field of [`RowLine`]; a part of a field is named after a dot: `latency.put.p999`,
/// `level_bytes.0`. A cell is empty if it was not measured.
pub fn rows_as_csv(trial: &Trial) -> String {
    let rows: Vec<BTreeMap<String, String>> = trial.rows.iter().map(cells).collect();
    let names: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.keys().map(String::as_str)).collect();
    let rest = names.into_iter().filter(|name| !FIRST.contains(name));
    let columns: Vec<&str> = FIRST.into_iter().chain(rest).collect();
    let mut text = String::new();
    for line in [Line::Header(trial.header.clone()), Line::Summary(trial.summary.clone())] {
        text.push_str("# ");
        text.push_str(&serde_json::to_string(&line).unwrap_or_default());
        text.push('\n');
    }
    text.push_str(&columns.join(","));
    text.push('\n');
    for row in &rows {
        let cells = columns.iter().map(|column| row.get(*column).map_or("", String::as_str));
        text.push_str(&cells.collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

/// The events of a trial as CSV: seconds from the start of the trial, the kind of event, bytes, and
/// the engine's words.
pub fn events_as_csv(trial: &Trial) -> String {
    let mut text = String::from("t,until,kind,bytes,what\n");
    for EventLine { t, until, kind, bytes, what } in &trial.events {
        let kind = serde_json::to_string(kind).unwrap_or_default();
        let what = what.replace('"', "\"\"");
        text += &format!("{t},{until},{kind},{bytes},\"{what}\"\n");
    }
    text
}

/// The cells of a row, by column. All of them are numbers, so none needs quotes.
fn cells(row: &RowLine) -> BTreeMap<String, String> {
    let mut cells = BTreeMap::new();
    if let Ok(value) = serde_json::to_value(row) {
        flatten(String::new(), &value, &mut cells);
    }
    cells
}

fn flatten(name: String, value: &Value, into: &mut BTreeMap<String, String>) {
    let part = |part: &str| match name.as_str() {
        "" => part.to_owned(),
        name => format!("{name}.{part}"),
    };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| flatten(part(field), value, into));
        }
        Value::Array(values) => {
            let numbered = values.iter().enumerate();
            numbered.for_each(|(at, value)| flatten(part(&at.to_string()), value, into));
        }
        value => {
            into.insert(name, value.to_string());
        }
    }
}
