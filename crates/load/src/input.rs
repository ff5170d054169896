//! The inputs of a load: files, streams, or generated documents. The first bytes of a file
//! determine its form.

use crate::error::LoadError;
use crate::lines::{LineCounts, read_at};
use crate::packed::{self, Consumed, Counted, Packing};
use crate::table::TableFormat;
use flagstone::load::{Chunk, Place};
use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What the text of an input is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// JSON lines, one JSON array, or documents on several lines each: the beginning tells which.
    #[default]
    Json,
    /// A table of records.
    Table(TableFormat),
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json => f.write_str("JSON"),
            Self::Table(table) => table.fmt(f),
        }
    }
}

/// One input of a load.
pub struct Input {
    /// The name for messages: the path, or `stdin`.
    pub(crate) name: String,
    /// The length of the file, compressed or not, if known.
    pub(crate) bytes: Option<u64>,
    pub(crate) form: Form,
    pub(crate) format: Format,
    window_log: u32,
}

/// A function that appends the documents of a range to a buffer, one JSON document a line, each
/// line ended by a newline. Several readers may call it at once.
pub type MakeLines = Box<dyn Fn(Range<u64>, &mut Vec<u8>) + Send + Sync>;

/// The form of an input, which decides how it is read.
pub(crate) enum Form {
    /// JSON lines in a plain file, read in ranges by several threads.
    Plain(File, Mutex<LineCounts>),
    /// A stream, read by one thread from front to back. Nothing is read ahead of its turn: the
    /// first byte may take long to arrive.
    Stream(Mutex<Option<Box<dyn Read + Send>>>),
    /// The documents of this range, generated instead of read.
    Made(MakeLines, Range<u64>),
}

/// A stream, decompressed.
pub(crate) struct Stream {
    pub(crate) text: Box<dyn Read + Send>,
    pub(crate) shape: Shape,
    pub(crate) consumed: Consumed,
}

/// How JSON documents follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A document a line.
    Lines,
    /// The elements of one array.
    Array,
    /// One after another, on as many lines as each has.
    Documents,
}

/// How many bytes of an input are examined to find its form.
const HEAD_BYTES: usize = 4096;
/// The largest window of zstd that is allowed, as a power of two, unless a load says otherwise:
/// 128 MiB of memory, as much as `zstd -d` allows.
const WINDOW_LOG: u32 = 27;

impl Input {
    /// Opens the file at `path`: JSON lines or a JSON array, plain or compressed by zstd or gzip.
    /// `-` is stdin, of which nothing is read before its turn.
    ///
    /// # Errors
    /// When the file cannot be opened or read, or is a directory; Usage when it begins as something
    /// else does, such as UTF-16 or bzip2.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        Self::open_as(path, Format::Json)
    }

    /// As [`Input::open`], for text of any format.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub fn open_as(path: &Path, format: Format) -> Result<Self, LoadError> {
        let is_stdin = path == Path::new("-");
        let name = if is_stdin { "stdin".into() } else { path.display().to_string() };
        let refused = |error: io::Error| LoadError::io("read", Path::new(&name), &error);
        let (file, bytes): (Box<dyn Read + Send>, _) = if is_stdin {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(path).map_err(refused)?;
            let about = file.metadata().map_err(refused)?;
            if about.is_dir() {
                return Err(refused(io::ErrorKind::IsADirectory.into()));
            }
            if about.is_file() {
                let mut head = [0; HEAD_BYTES];
                let len =
                    read_head(&mut At { file: &file, offset: 0 }, &mut head).map_err(refused)?;
                if Packing::of(&head[..len]).is_none() {
                    let checked = packed::check_text(&head[..len]);
                    checked.map_err(|why| LoadError::Usage(format!("{name}:{why}")))?;
                }
                // Files of the kernel have the length 0 and are not empty.
                let is_as_told = (len as u64) <= about.len();
                let is_lines = format == Format::Json && shape_of(&head[..len]) == Shape::Lines;
                if is_as_told && is_lines && Packing::of(&head[..len]).is_none() {
                    let form = Form::Plain(file, Mutex::default());
                    let bytes = Some(about.len());
                    return Ok(Self { name, bytes, form, format, window_log: WINDOW_LOG });
                }
            }
            (Box::new(file), about.is_file().then_some(about.len()))
        };
        let form = Form::Stream(Mutex::new(Some(file)));
        Ok(Self { name, bytes, form, format, window_log: WINDOW_LOG })
    }

    /// Allows zstd to use windows of `2^log` bytes, up to 31: as much memory. `zstd --long=31`
    /// makes files that need it. Otherwise it is 27.
    #[must_use]
    pub fn window_log(mut self, log: u32) -> Self {
        self.window_log = log.clamp(10, 31);
        self
    }

    /// Returns an input whose documents `make` generates for the numbers in `range`; `name` is for
    /// messages.
    pub fn made(name: &str, range: Range<u64>, make: MakeLines) -> Self {
        let form = Form::Made(make, range);
        let (name, format) = (name.into(), Format::Json);
        Self { name, bytes: None, form, format, window_log: WINDOW_LOG }
    }

    /// Returns the length of the file, compressed or not, if known.
    pub const fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Opens `file`, the stream of this input.
    pub(crate) fn stream(&self, file: Box<dyn Read + Send>) -> Result<Stream, StreamError> {
        Stream::new(file, self.window_log)
    }

    /// Returns the place at which `chunk` begins in this input.
    pub(crate) fn beginning_of(&self, chunk: &Chunk) -> Option<Place> {
        match (&self.form, chunk.place) {
            (_, Some(place)) => Some(place),
            (Form::Plain(file, counts), None) => {
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                counts.line_of(file, chunk.offset).ok().map(Place::line)
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Input({}, {:?} bytes)", self.name, self.bytes)
    }
}

/// Why a stream cannot be read.
pub(crate) enum StreamError {
    Input(io::Error),
    /// It holds something else; the text begins with the place.
    NoText(String),
}

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> Self {
        Self::Input(error)
    }
}

impl Stream {
    /// Opens `file`. Its first bytes determine its form.
    fn new(file: Box<dyn Read + Send>, window_log: u32) -> Result<Self, StreamError> {
        let consumed = Consumed::default();
        let mut file = Counted::new(file, consumed.clone());
        let (head, len) = head_of(&mut file)?;
        let packing = Packing::of(&head[..len]);
        let whole = Cursor::new(head).take(len as u64).chain(file);
        let mut text: Box<dyn Read + Send> = match packing {
            Some(packing) => packed::unpack(packing, whole, window_log, consumed.clone())?,
            None => Box::new(whole),
        };
        let (head, len) = head_of(&mut text)?;
        let checked = match packing {
            Some(_) => packed::check_unpacked(&head[..len]),
            None => packed::check_text(&head[..len]),
        };
        checked.map_err(StreamError::NoText)?;
        let shape = shape_of(&head[..len]);
        Ok(Self { text: Box::new(Cursor::new(head).take(len as u64).chain(text)), shape, consumed })
    }
}

fn head_of(input: &mut impl Read) -> io::Result<(Vec<u8>, usize)> {
    let mut head = vec![0; HEAD_BYTES];
    let len = read_head(input, &mut head)?;
    Ok((head, len))
}

fn read_head(input: &mut impl Read, head: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < head.len() {
        match input.read(&mut head[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Returns the shape of the text that begins so. A first line that is an opening brace alone is the
/// beginning of a document on several lines: it is no line of JSON.
fn shape_of(head: &[u8]) -> Shape {
    let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match text.first() {
        Some(b'[') => Shape::Array,
        _ if first.len() < text.len() && first.trim_ascii_end() == b"{" => Shape::Documents,
        _ => Shape::Lines,
    }
}

/// A reader of a file from an offset on, which does not move the file's own position.
pub(crate) struct At<'a> {
    pub(crate) file: &'a File,
    pub(crate) offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = read_at(self.file, buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
