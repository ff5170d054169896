//! Bad documents, which cannot be loaded: they stop the load, or are copied to a file.

use crate::error::LoadError;
use crate::input::Input;
use flagstone::Refused;
use flagstone::bulk::{Chunk, Place};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Finds the lines of documents of a chunk, in ascending order, so that no byte is counted twice.
pub(crate) struct Places<'a> {
    pub(crate) chunk: &'a Chunk,
    known: Option<(usize, Place)>,
}

impl<'a> Places<'a> {
    pub(crate) const fn new(chunk: &'a Chunk) -> Self {
        Self { chunk, known: None }
    }

    /// Returns `name:line:column: reason` for the document `text` at byte `at` of the chunk, which
    /// is wrong at its byte `inside`. `at` must not be before that of the last call.
    pub(crate) fn describe(
        &mut self,
        input: &Input,
        (at, text): (usize, &[u8]),
        (inside, reason): (usize, &str),
    ) -> String {
        let place = self.of(input, at).map(|place| place.after(&text[..inside.min(text.len())]));
        let byte = || format!("byte {}", self.chunk.offset + at as u64);
        let place = place.map_or_else(byte, |place| place.to_string());
        format!("{}:{place}: {reason}", input.name)
    }

    /// Appends a copy of the document `text` at byte `at` of the chunk to `copies`, after a line
    /// with its description.
    pub(crate) fn append_copy(
        &self,
        (at, text): (usize, &[u8]),
        description: &str,
        copies: &mut Vec<u8>,
    ) {
        let is_cut = self.chunk.is_cut && at + text.len() == self.chunk.bytes.len();
        let cut = if is_cut { " (only its beginning follows)" } else { "" };
        copies.extend_from_slice(format!("# {description}{cut}\n").as_bytes());
        copies.extend_from_slice(text.strip_suffix(b"\n").unwrap_or(text));
        copies.push(b'\n');
    }

    /// Returns the place of the byte `at`, which must not be before that of the last call.
    fn of(&mut self, input: &Input, at: usize) -> Option<Place> {
        let (from, place) = match self.known {
            Some(known) => known,
            None => (0, input.beginning_of(self.chunk)?),
        };
        let place = place.after(self.chunk.bytes.get(from..at).unwrap_or_default());
        self.known = Some((at, place));
        Some(place)
    }
}

/// How a load treats documents that cannot be loaded.
#[derive(Debug)]
pub struct BadDocuments {
    /// The file that bad documents are copied to; without it the load stops.
    copies: Option<(PathBuf, Mutex<BufWriter<File>>)>,
}

impl BadDocuments {
    /// Stops the load at the first bad document; documents acknowledged before stay.
    pub const fn stop() -> Self {
        Self { copies: None }
    }

    /// Copies bad documents to the file `path`, each after a line with its place and the reason,
    /// and continues the load. The file is emptied when the load begins; it must not be one of
    /// `inputs`.
    ///
    /// # Errors
    /// When the file is one of `inputs`, or cannot be created.
    pub fn copy_to(path: &Path, inputs: &[PathBuf]) -> Result<Self, LoadError> {
        let same = |input: &&PathBuf| is_same_file(input, path);
        if let Some(input) = inputs.iter().find(same) {
            let text = format!("{} is to be loaded: bad lines would overwrite it", input.display());
            return Err(LoadError::Usage(text));
        }
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| LoadError::io("create", path, &error))?;
        Ok(Self { copies: Some((path.to_owned(), Mutex::new(BufWriter::new(file)))) })
    }

    /// Empties the file at the start of a load, unless the load continues another one.
    ///
    /// # Errors
    /// When the file cannot be emptied.
    pub fn begin(&self, continues: bool) -> Result<(), LoadError> {
        let Some((path, file)) = &self.copies else { return Ok(()) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let is_file = file.get_ref().metadata().is_ok_and(|about| about.is_file());
        let begun = match (is_file, continues) {
            (false, _) => Ok(()),
            (true, false) => file.get_ref().set_len(0),
            (true, true) => file.seek(SeekFrom::End(0)).map(|_end| ()),
        };
        begun.map_err(|error| LoadError::io("empty", path, &error))
    }

    /// Returns whether bad documents are copied to a file.
    pub const fn are_copied(&self) -> bool {
        self.copies.is_some()
    }

    /// Writes copies of bad documents to the file, if there is one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, copies: &[u8]) -> Result<(), LoadError> {
        let Some((path, file)) = &self.copies else { return Ok(()) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(copies).map_err(|error| LoadError::io("write", path, &error))
    }

    /// Writes buffered bytes to the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&self) -> Result<(), LoadError> {
        let Some((path, file)) = &self.copies else { return Ok(()) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush().map_err(|error| LoadError::io("write", path, &error))
    }
}

/// Returns whether `input`, or stdin for `-`, is the same file as `path`.
#[cfg(unix)]
fn is_same_file(input: &Path, path: &Path) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let input = if input == Path::new("-") {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        stdin.and_then(|stdin| File::from(stdin).metadata())
    } else {
        input.metadata()
    };
    let number = |about: std::fs::Metadata| about.is_file().then(|| (about.dev(), about.ino()));
    let (input, path) = (input.ok().and_then(number), path.metadata().ok().and_then(number));
    input.is_some() && input == path
}

#[cfg(not(unix))]
fn is_same_file(input: &Path, path: &Path) -> bool {
    matches!((input.canonicalize(), path.canonicalize()), (Ok(input), Ok(path)) if input == path)
}

/// Returns the byte of a document at which it is wrong, and the reason.
pub(crate) fn reason_of(refused: &Refused) -> (usize, String) {
    let Refused::Json(error) = refused else { return (0, refused.to_string()) };
    let found = error.found.map_or(String::new(), |found| format!(", found {found:?}"));
    (error.offset, format!("expected {}{found}", error.expected))
}
