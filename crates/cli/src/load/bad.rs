//! Documents that cannot be loaded: the load stops at the first, or they are copied to a file.

use super::input::Input;
use crate::failure::Failure;
use flagstone::Refused;
use flagstone::bulk::Chunk;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What happens to bad documents.
pub(crate) enum BadDocuments {
    /// The load stops.
    Stop,
    /// They are copied to a file, each behind a line with its place and the reason.
    Copy(PathBuf, Mutex<BufWriter<File>>),
}

impl BadDocuments {
    /// Copies them to `path`, which is emptied; it may be none of `inputs`.
    pub(crate) fn copy_to(path: &Path, inputs: &[PathBuf]) -> Result<Self, Failure> {
        let same = |input: &&PathBuf| match (input.canonicalize(), path.canonicalize()) {
            (Ok(input), Ok(path)) => input == path,
            _ => false,
        };
        if let Some(input) = inputs.iter().find(same) {
            let text = format!("{} is to be loaded: bad lines would overwrite it", input.display());
            return Err(Failure::Usage(text));
        }
        let file = File::create(path).map_err(|error| Failure::io("create", path, &error))?;
        Ok(Self::Copy(path.to_owned(), Mutex::new(BufWriter::new(file))))
    }

    /// Deals with the document that stands at `at` of `chunk`; an error ends the load.
    pub(super) fn take(
        &self,
        input: &Input,
        chunk: &Chunk,
        (at, text): (usize, &[u8]),
        refused: &Refused,
    ) -> Result<(), Failure> {
        let (inside, reason) = reason_of(refused);
        let place = input.place_of(chunk, at + inside);
        let place = place.map_or_else(|| format!("byte {}", chunk.offset), |p| p.to_string());
        let reason = format!("{}:{place}: {reason}", input.name);
        let Self::Copy(path, file) = self else { return Err(Failure::Usage(reason)) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let is_cut = chunk.is_cut && at + text.len() == chunk.bytes.len();
        let cut = if is_cut { " (only its beginning follows)" } else { "" };
        let written = writeln!(file, "# {reason}{cut}")
            .and_then(|()| file.write_all(text))
            .and_then(|()| file.write_all(b"\n"));
        written.map_err(|error| Failure::io("write", path, &error))
    }

    /// Writes out what is buffered.
    pub(super) fn flush(&self) -> Result<(), Failure> {
        let Self::Copy(path, file) = self else { return Ok(()) };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush().map_err(|error| Failure::io("write", path, &error))
    }
}

/// At which byte of a document something is wrong, and what.
fn reason_of(refused: &Refused) -> (usize, String) {
    let Refused::Json(error) = refused else { return (0, refused.to_string()) };
    let found = error.found.map_or(String::new(), |found| format!(", found {found:?}"));
    (error.offset, format!("expected {}{found}", error.expected))
}
