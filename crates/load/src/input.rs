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
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

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

/// What a stream is read from.
pub(crate) type Bytes = Box<dyn Read + Send>;

/// The form of an input, which decides how it is read.
pub(crate) enum Form {
    /// JSON lines in a plain file, read in ranges by several threads.
    Plain(Arc<File>, Mutex<LineCounts>),
    /// A regular file that is packed, or no JSON lines: read by one thread from front to back.
    File(Arc<File>),
    /// A stream, read by one thread from front to back, once. Nothing is read ahead of its turn:
    /// the first byte may take long to arrive.
    Stream(Mutex<Option<Bytes>>),
    /// The documents of this range, generated instead of read.
    Made(MakeLines, Range<u64>),
}

/// A stream, decompressed.
pub(crate) struct Stream {
    pub(crate) text: Bytes,
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

/// How many bytes of an input are examined to find its form; more while they are all white space.
const HEAD_BYTES: usize = 4096;
/// The most bytes that are examined. 16 MiB, as much as one document may have.
const HEAD_BYTES_MAX: usize = 16 << 20;
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
        let refused_text = |why: String| LoadError::Usage(format!("{name}:{why}"));
        if is_stdin {
            return Ok(Self::from_reader(&name, format, io::stdin()));
        }
        let file = File::open(path).map_err(refused)?;
        let about = file.metadata().map_err(refused)?;
        if about.is_dir() {
            return Err(refused(io::ErrorKind::IsADirectory.into()));
        }
        if !about.is_file() {
            return Ok(Self::from_reader(&name, format, file));
        }
        let mut start = At { file: &file, offset: 0 };
        let mut head = Vec::new();
        read_head(&mut start, &mut head).map_err(refused)?;
        let mut is_lines = false;
        if Packing::of(&head).is_none() {
            packed::check_text(&head).map_err(refused_text)?;
            // Files of the kernel have the length 0 and are not empty.
            let is_as_told = (head.len() as u64) <= about.len();
            if is_as_told && format == Format::Json {
                let shape = read_shape(&mut start, &mut head).map_err(|error| match error {
                    StreamError::Input(error) => refused(error),
                    StreamError::NoText(why) => refused_text(why),
                })?;
                is_lines = shape == Shape::Lines;
            }
        }
        let file = Arc::new(file);
        let form = if is_lines { Form::Plain(file, Mutex::default()) } else { Form::File(file) };
        Ok(Self { name, bytes: Some(about.len()), form, format, window_log: WINDOW_LOG })
    }

    /// Returns an input that is read from `text` once, plain or compressed; `name` is for messages.
    /// An error of `text` ends the load; what was read before it is loaded.
    pub fn from_reader(name: &str, format: Format, text: impl Read + Send + 'static) -> Self {
        let form = Form::Stream(Mutex::new(Some(Box::new(text))));
        Self { name: name.into(), bytes: None, form, format, window_log: WINDOW_LOG }
    }

    /// Returns the text of a regular file from its start, packed or not; `None` for what can be
    /// read only once.
    pub(crate) fn again(&self) -> Option<Bytes> {
        let (Form::Plain(file, _) | Form::File(file)) = &self.form else { return None };
        Some(Box::new(At { file: Arc::clone(file), offset: 0 }))
    }

    /// Returns the text from its start, packed or not; `None` if it can be read only once, and was.
    pub(crate) fn open_text(&self) -> Option<Bytes> {
        match &self.form {
            Form::Stream(text) => text.lock().unwrap_or_else(PoisonError::into_inner).take(),
            _ => self.again(),
        }
    }

    /// Returns whether the input is a regular file, whose text can be read again.
    pub(crate) const fn is_repeatable(&self) -> bool {
        matches!(self.form, Form::Plain(..) | Form::File(..))
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
    pub(crate) fn stream(&self, file: Bytes) -> Result<Stream, StreamError> {
        Stream::new(file, self.window_log, self.format == Format::Json)
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
    /// Opens `file`. Its first bytes determine its form; only JSON has a shape.
    fn new(file: Bytes, window_log: u32, is_json: bool) -> Result<Self, StreamError> {
        let consumed = Consumed::default();
        let mut file = Counted::new(file, consumed.clone());
        let mut head = Vec::new();
        read_head(&mut file, &mut head)?;
        let packing = Packing::of(&head);
        let whole = Cursor::new(head).chain(file);
        let mut text: Bytes = match packing {
            Some(packing) => packed::unpack(packing, whole, window_log, consumed.clone())?,
            None => Box::new(whole),
        };
        let mut head = Vec::new();
        read_head(&mut text, &mut head)?;
        let checked = match packing {
            Some(_) => packed::check_unpacked(&head),
            None => packed::check_text(&head),
        };
        checked.map_err(StreamError::NoText)?;
        let shape = if is_json { read_shape(&mut text, &mut head)? } else { Shape::Lines };
        Ok(Self { text: Box::new(Cursor::new(head).chain(text)), shape, consumed })
    }
}

/// Appends the first bytes of `input` to `head`, or as many more as `head` has. Returns false at
/// the end.
fn read_head(input: &mut impl Read, head: &mut Vec<u8>) -> io::Result<bool> {
    let wanted = head.len().max(HEAD_BYTES);
    Ok(input.take(wanted as u64).read_to_end(head)? == wanted)
}

/// Returns the shape of the text that begins with `head` and goes on with `input`, of which as much
/// is appended to `head` as it takes.
fn read_shape(input: &mut impl Read, head: &mut Vec<u8>) -> Result<Shape, StreamError> {
    loop {
        if let Some(shape) = shape_of(head) {
            return Ok(shape);
        }
        if head.len() >= HEAD_BYTES_MAX {
            let text = "1:1: expected a document in the first 16 MiB, found white space";
            return Err(StreamError::NoText(text.to_owned()));
        }
        if !read_head(input, head)? {
            return Ok(shape_of(head).unwrap_or(Shape::Lines));
        }
    }
}

/// Returns the shape of the text that begins so; `None` if that depends on what follows. A first
/// line that is an opening brace alone is the beginning of a document on several lines: it is no
/// line of JSON.
fn shape_of(head: &[u8]) -> Option<Shape> {
    let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
    let line_end = memchr::memchr(b'\n', text);
    let first = &text[..line_end.unwrap_or(text.len())];
    let is_brace = first.trim_ascii_end() == b"{";
    match text.first()? {
        b'[' => Some(Shape::Array),
        _ if is_brace => line_end.map(|_| Shape::Documents),
        _ => Some(Shape::Lines),
    }
}

/// A reader of a file from an offset on, which does not move the file's own position.
pub(crate) struct At<F> {
    pub(crate) file: F,
    pub(crate) offset: u64,
}

impl<F: Deref<Target = File>> Read for At<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = read_at(&self.file, buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
