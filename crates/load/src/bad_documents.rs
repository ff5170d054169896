//! Bad documents, which cannot be loaded: they stop the load, or are copied to a file.

use crate::error::LoadError;
use crate::input::Input;
use flagstone::Refused;
use flagstone::bulk::{Chunk, Place};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Finds the lines of documents of a chunk. Asked for in ascending order, so no byte is counted
/// twice.
pub(crate) struct Places<'a> {
    pub(crate) chunk: &'a Chunk,
    known: Option<(usize, Place)>,
}

impl<'a> Places<'a> {
    pub(crate) const fn new(chunk: &'a Chunk) -> Self {
        Self { chunk, known: None }
    }

    /// Returns the place of the byte `at`, which must not be before the last one asked for.
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

    /// Empties the file at the start of a load.
    pub(crate) fn begin(&self) -> Result<(), LoadError> {
        let Some((path, file)) = &self.copies else { return Ok(()) };
        let file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let is_file = file.get_ref().metadata().is_ok_and(|about| about.is_file());
        let emptied = if is_file { file.get_ref().set_len(0) } else { Ok(()) };
        emptied.map_err(|error| LoadError::io("empty", path, &error))
    }

    /// Handles the bad document at byte `at` of the chunk of `places`. An error ends the load.
    pub(crate) fn take(
        &self,
        input: &Input,
        places: &mut Places<'_>,
        (at, text): (usize, &[u8]),
        refused: &Refused,
    ) -> Result<(), LoadError> {
        let (inside, reason) = reason_of(refused);
        let chunk = places.chunk;
        let place = places.of(input, at).map(|place| place.after(&text[..inside.min(text.len())]));
        let place =
            place.map_or_else(|| format!("byte {}", chunk.offset + at as u64), |p| p.to_string());
        let reason = format!("{}:{place}: {reason}", input.name);
        let Some((path, file)) = &self.copies else { return Err(LoadError::Usage(reason)) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let is_cut = chunk.is_cut && at + text.len() == chunk.bytes.len();
        let cut = if is_cut { " (only its beginning follows)" } else { "" };
        let written = writeln!(file, "# {reason}{cut}")
            .and_then(|()| file.write_all(text))
            .and_then(|()| file.write_all(b"\n"));
        written.map_err(|error| LoadError::io("write", path, &error))
    }

    /// Writes buffered bytes to the file.
    pub(crate) fn flush(&self) -> Result<(), LoadError> {
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
fn reason_of(refused: &Refused) -> (usize, String) {
    let Refused::Json(error) = refused else { return (0, refused.to_string()) };
    let found = error.found.map_or(String::new(), |found| format!(", found {found:?}"));
    (error.offset, format!("expected {}{found}", error.expected))
}
