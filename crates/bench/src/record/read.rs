//! Reads result files back.

use super::line::{EventLine, FORMAT, Header, Line, RowLine, Summary};
use std::path::{Path, PathBuf};

/// A whole result file.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Where it came from.
    pub path: PathBuf,
    /// What was measured.
    pub header: Header,
    /// By time.
    pub rows: Vec<RowLine>,
    /// In the order they ended.
    pub events: Vec<EventLine>,
    /// The whole.
    pub summary: Summary,
}

/// The trials of all `.jsonl` files in `dir` and the folders below it, by path.
///
/// # Errors
/// What the file system says, or the file and line that is not as expected.
pub fn read_dir(dir: &Path) -> std::io::Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
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
///
/// # Errors
/// What the file system says, or the line that is not as expected.
pub fn read_file(path: &Path) -> std::io::Result<Trial> {
    let wrong = |line: usize, what: &str| {
        std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            format!("{}:{line}: {what}", path.display()),
        )
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
