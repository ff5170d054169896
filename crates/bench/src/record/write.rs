//! Writes a result file: under a temporary name until it is whole, so that a trial cut short is not
//! taken for one that was done.

use super::line::Line;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A result file being written.
#[derive(Debug)]
pub struct RecordWriter {
    to: BufWriter<File>,
    partial: PathBuf,
    path: PathBuf,
}

impl RecordWriter {
    /// Begins the file `path`, as `path` + `.partial` until it is finished.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let to = BufWriter::new(File::create(&partial)?);
        Ok(Self { to, partial, path: path.to_owned() })
    }

    /// Adds a line, and hands it to the operating system, so that a running trial can be watched.
    ///
    /// # Errors
    /// What the file system says.
    pub fn line(&mut self, line: &Line) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.to, line)?;
        self.to.write_all(b"\n")?;
        self.to.flush()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// What the file system says.
    pub fn finish(mut self) -> std::io::Result<()> {
        self.to.flush()?;
        std::fs::rename(&self.partial, &self.path)
    }
}
