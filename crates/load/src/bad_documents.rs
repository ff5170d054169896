//! Bad documents, which cannot be loaded: they stop the load, or are copied to a file.

use crate::error::LoadError;
use crate::files::{check_outside, descriptor_of, sync_folder_of};
use crate::input::Input;
use crate::marks::{CopiesEnd, Marks, START_OVER};
use flagstone::load::Refused;
use flagstone::load::{Chunk, Place};
use flagstone::{Batch, ErrorKind};
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The text of a document, and the byte of its chunk at which it begins.
#[derive(Clone, Copy)]
pub(crate) struct DocumentText<'t> {
    pub(crate) at: usize,
    pub(crate) text: &'t [u8],
}

/// Finds the lines of documents of a chunk, in ascending order, so that no byte is counted twice.
pub(crate) struct Places<'a> {
    pub(crate) chunk: &'a Chunk,
    known: Option<(usize, Place)>,
}

impl<'a> Places<'a> {
    pub(crate) const fn new(chunk: &'a Chunk) -> Self {
        Self { chunk, known: None }
    }

    /// Returns `name:line:column: reason` for a document that is wrong at its byte `inside`. It
    /// must not be before that of the last call.
    pub(crate) fn describe(
        &mut self,
        input: &Input,
        DocumentText { at, text }: DocumentText<'_>,
        inside: usize,
        reason: &str,
    ) -> String {
        let place = self.of(input, at).map(|place| place.after(&text[..inside.min(text.len())]));
        let byte = || format!("byte {}", self.chunk.offset + at as u64);
        let place = place.map_or_else(byte, |place| place.to_string());
        format!("{}:{place}: {reason}", input.name)
    }

    /// Returns a copy of a document, after a line with its description.
    pub(crate) fn copy(&self, document: DocumentText<'_>, description: &str) -> BadCopy {
        let DocumentText { at, text } = document;
        let is_cut = self.chunk.is_cut && at + text.len() == self.chunk.bytes.len();
        let cut = if is_cut { " (only its beginning follows)" } else { "" };
        let mut copy = format!("# {description}{cut}\n").into_bytes();
        let described = copy.len();
        copy.extend_from_slice(text.strip_suffix(b"\n").unwrap_or(text));
        copy.push(b'\n');
        BadCopy { at, copy, described }
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

/// A copy of a bad document, with its reason.
pub(crate) struct BadCopy {
    /// The byte of the chunk at which the document begins.
    pub(crate) at: usize,
    copy: Vec<u8>,
    /// The bytes of the line with the reason.
    described: usize,
}

#[cfg(test)]
thread_local! {
    /// The bytes of all texts that this thread has put together.
    pub(crate) static COPIED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl BadCopy {
    /// Returns the text of several copies.
    pub(crate) fn text_of(copies: &[Self]) -> Vec<u8> {
        let text = copies.iter().map(|copy| &*copy.copy).collect::<Vec<_>>().concat();
        #[cfg(test)]
        COPIED.set(COPIED.get() + text.len());
        text
    }
}

/// How a load treats documents that cannot be loaded.
#[derive(Debug)]
pub struct BadDocuments(To);

/// Where bad documents go.
enum To {
    /// Nowhere: the load stops.
    Nobody,
    File(PathBuf, Box<Mutex<Copies>>),
    Hearer(Box<Hear>),
}

/// A function that gets the description of a bad document, and its text.
type Hear = dyn Fn(&str, &[u8]) + Send + Sync;

impl fmt::Debug for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("Nobody"),
            Self::File(path, _) => write!(f, "File({})", path.display()),
            Self::Hearer(_) => f.write_str("Hearer"),
        }
    }
}

/// The file of bad documents.
#[derive(Debug)]
struct Copies {
    file: BufWriter<File>,
    /// Whether it is a regular file of its own. A pipe or stderr is neither emptied nor synced.
    is_file: bool,
    /// What the file holds by now, the buffer included.
    end: CopiesEnd,
    /// How much of that is synced.
    synced: CopiesEnd,
}

impl BadDocuments {
    /// Stops the load at the first bad document; documents acknowledged before stay.
    pub const fn stop() -> Self {
        Self(To::Nobody)
    }

    /// Passes bad documents to `hear`, each as `name:line:column: reason` and its text, and
    /// continues the load. Several threads may call it at once. A load that can be continued
    /// refuses it: nobody would know which documents were passed before.
    pub fn pass_to(hear: impl Fn(&str, &[u8]) + Send + Sync + 'static) -> Self {
        Self(To::Hearer(Box::new(hear)))
    }

    /// Copies bad documents to the file `path`, each after a line with its place and the reason,
    /// and continues the load. The file is emptied when the load begins; it must not be one of
    /// `inputs`, or in the directory of a database or of backups. It holds documents, so only its
    /// owner can read a new one. A descriptor such as `/dev/stderr` is written at its position.
    ///
    /// # Errors
    /// When the file is one of `inputs`, is there, or cannot be created.
    pub fn copy_to(path: &Path, inputs: &[PathBuf]) -> Result<Self, LoadError> {
        if path == Path::new("-") {
            let text = "bad lines go to a file: expected its name, or /dev/stdout, found -";
            return Err(LoadError::Usage(text.to_owned()));
        }
        let same = |input: &&PathBuf| is_same_file(input, path);
        if let Some(input) = inputs.iter().find(same) {
            let text = format!("{} is to be loaded: bad lines would overwrite it", input.display());
            return Err(LoadError::Usage(text));
        }
        check_outside(path).map_err(LoadError::Usage)?;
        let opened = descriptor_of(path).and_then(|descriptor| match descriptor {
            Some(file) => Ok((file, false)),
            None => {
                let file = open(path)?;
                let is_file = file.metadata()?.is_file();
                Ok((file, is_file))
            }
        });
        let (file, is_file) = opened.map_err(|error| LoadError::io("create", path, &error))?;
        let (end, synced) = (CopiesEnd::default(), CopiesEnd::default());
        let copies = Copies { file: BufWriter::new(file), is_file, end, synced };
        Ok(Self(To::File(path.to_owned(), Box::new(Mutex::new(copies)))))
    }

    fn lock(&self) -> Option<(&Path, MutexGuard<'_, Copies>)> {
        let To::File(path, copies) = &self.0 else { return None };
        Some((path, copies.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Empties the file at the start of a load. If the load has `marks` and continues another one,
    /// cuts the file to what that one had copied before its last mark: the rest is copied again. If
    /// that one was complete, its copies may have been removed since.
    ///
    /// # Errors
    /// When the file cannot be emptied; Usage when it is not the file of the load that is
    /// continued.
    pub fn begin(&self, marks: Option<&Marks>) -> Result<(), LoadError> {
        if let (To::Hearer(_), Some(_)) = (&self.0, marks) {
            let text = "a load that can be continued passes bad documents to nobody: expected a \
                        file for them, or that it stops";
            return Err(LoadError::Usage(text.to_owned()));
        }
        let Some((path, mut copies)) = self.lock() else { return Ok(()) };
        if !copies.is_file && marks.is_some() {
            let text = format!(
                "{}: expected a regular file for bad lines of a load that can be continued",
                path.display()
            );
            return Err(LoadError::Usage(text));
        }
        if !copies.is_file {
            return Ok(());
        }
        let known = marks.and_then(Marks::copies);
        copies.begin(known).map_err(|error| LoadError::io("read or empty", path, &error))?;
        let end = (copies.end.bytes, copies.end.sum.value());
        if let Some((bytes, _)) = known.filter(|known| *known != end) {
            if !marks.is_some_and(Marks::are_complete) {
                let found = if copies.end.bytes < bytes {
                    format!("found {}", copies.end.bytes)
                } else {
                    "found others".to_owned()
                };
                return Err(LoadError::Usage(format!(
                    "{}: expected the {bytes} bytes to which the load that was stopped had copied \
                     bad lines, {found}; {START_OVER}",
                    path.display()
                )));
            }
            copies.end = CopiesEnd::default();
        }
        copies.cut().map_err(|error| LoadError::io("cut", path, &error))
    }

    /// Returns whether bad documents are copied to a file, or passed to a function, and do not stop
    /// the load.
    pub const fn are_copied(&self) -> bool {
        !matches!(self.0, To::Nobody)
    }

    /// Writes or passes on copies, of a load without marks.
    pub(crate) fn add(&self, copies: &[BadCopy]) -> Result<(), LoadError> {
        let To::Hearer(hear) = &self.0 else { return self.write(&BadCopy::text_of(copies)) };
        for BadCopy { copy, described, .. } in copies {
            let (described, text) = copy.split_at(*described);
            let described = String::from_utf8_lossy(described);
            hear(described.trim_start_matches("# ").trim_end(), text.trim_ascii_end());
        }
        Ok(())
    }

    /// Writes copies of bad documents to the file, if there is one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, text: &[u8]) -> Result<(), LoadError> {
        let Some((path, mut copies)) = self.lock() else { return Ok(()) };
        copies.write(text).map_err(|error| LoadError::io("write", path, &error))
    }

    /// Writes copies, and commits them by `commit` with the end of the file: both or neither. Other
    /// writers wait meanwhile, so that the end is that of the copies which are committed. After an
    /// error that leaves open whether they are, the copies stay: a load that continues knows.
    pub(crate) fn write_with(
        &self,
        text: &[u8],
        commit: impl FnOnce(CopiesEnd) -> flagstone::Result<()>,
    ) -> Result<flagstone::Result<()>, LoadError> {
        let Some((path, mut copies)) = self.lock() else { return Ok(commit(CopiesEnd::default())) };
        // A writer that panicked here has left copies whose commit is unknown: no end behind them.
        if matches!(&self.0, To::File(_, copies) if copies.is_poisoned()) {
            return Err(LoadError::Io(format!("{}: a writer of it has ended", path.display())));
        }
        let before = copies.end;
        let written = copies.write(text).and_then(|()| copies.sync());
        let committed = match written {
            Ok(()) => Ok(commit(copies.end)),
            Err(error) => Err(LoadError::io("write", path, &error)),
        };
        let stay = match &committed {
            Ok(Ok(())) => true,
            Ok(Err(error)) => !is_refused(error),
            Err(_) => false,
        };
        if !stay {
            copies.end = before;
            let cut = copies.cut();
            if committed.is_ok() {
                cut.map_err(|error| LoadError::io("cut", path, &error))?;
            }
        }
        committed
    }

    /// Syncs the file if it has grown, and puts its end into `batch`, which a mark is in: for loads
    /// of one thread. A batch before may not have been committed, so each one has the end.
    ///
    /// # Errors
    /// When the file cannot be written; as [`Batch::put`].
    pub fn mark(&self, batch: &mut Batch, marks: &Marks) -> Result<(), LoadError> {
        let Some((path, mut copies)) = self.lock() else { return Ok(()) };
        if copies.end != copies.synced {
            copies.sync().map_err(|error| LoadError::io("write", path, &error))?;
        }
        Ok(marks.put_copies(batch, copies.end)?)
    }

    /// Writes buffered bytes to the file, and syncs it, if it is a regular one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&self) -> Result<(), LoadError> {
        let Some((path, mut copies)) = self.lock() else { return Ok(()) };
        let written = if copies.is_file { copies.sync() } else { copies.file.flush() };
        written.map_err(|error| LoadError::io("write", path, &error))
    }
}

impl Copies {
    /// Reads the first bytes of the file, as many as `known`.
    fn begin(&mut self, known: Option<(u64, u64)>) -> io::Result<()> {
        self.end = CopiesEnd::default();
        let file = self.file.get_mut();
        file.rewind()?;
        let mut rest = file.take(known.map_or(0, |(bytes, _)| bytes));
        let mut part = vec![0; 1 << 16];
        loop {
            match rest.read(&mut part) {
                Ok(0) => break,
                Ok(len) => self.end = self.end.then(&part[..len]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes what is in the file after its end, as far as it is known.
    fn cut(&mut self) -> io::Result<()> {
        // What the buffer holds is to be cut as well, so it need not be written.
        let file = self.file.get_ref().try_clone()?;
        let old = std::mem::replace(&mut self.file, BufWriter::new(file));
        let _discarded = old.into_parts();
        self.file.get_ref().set_len(self.end.bytes)?;
        self.file.get_mut().seek(SeekFrom::Start(self.end.bytes))?;
        self.synced = self.end;
        Ok(())
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        self.file.write_all(text)?;
        self.end = self.end.then(text);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_data()?;
        self.synced = self.end;
        Ok(())
    }
}

/// Returns whether a commit with this error has written nothing.
fn is_refused(error: &flagstone::Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Duplicate | ErrorKind::InvalidInput)
}

/// Opens the file, or creates it.
fn open(path: &Path) -> io::Result<File> {
    let is_new = !path.exists();
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    if is_new {
        sync_folder_of(path)?;
    }
    Ok(file)
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
