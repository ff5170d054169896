//! A reader: takes one task after another and turns it into chunks.

use crate::control::Control;
use crate::error::LoadError;
use crate::gate::{Gate, Permit};
use crate::input::{At, Form, Format, Input, Shape, Stream};
use crate::marks::Position;
use crate::records::{Records, RecordsError};
use crate::table::{Table, TableFormat};
use crossbeam_channel::Sender;
use flagstone::bulk::{CHUNK_BYTES, Chunk, Elements, ElementsError, Lines, Place};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A part of an input, read by one reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// The number of the task: 0, 1 and so on in the order of the input.
    number: u64,
    input: usize,
    /// The range of bytes of a plain file, or of numbers of generated documents; empty for a
    /// stream.
    range: Range<u64>,
}

/// The tasks of a load, in order.
pub(crate) struct Tasks {
    inputs: Arc<Vec<Input>>,
    /// The most bytes of a range of a plain file.
    step: u64,
    number: u64,
    next: Position,
}

/// A chunk for a parser.
pub(crate) struct Parcel {
    pub(crate) input: usize,
    pub(crate) chunk: Chunk,
    /// The table that the chunk is a part of; `None` for JSON.
    pub(crate) table: Option<Arc<Table>>,
    /// The bytes of the input, before decompression, that the chunk was read from.
    pub(crate) input_bytes: u64,
    pub(crate) permit: Permit,
}

/// A reader and what it needs. It has no handle of the database, so a reader that waits for stdin
/// does not keep the database open.
pub(crate) struct Reader {
    pub(crate) inputs: Arc<Vec<Input>>,
    pub(crate) tasks: Arc<Mutex<Tasks>>,
    /// Everything before it was loaded earlier.
    pub(crate) start: Position,
    pub(crate) control: Arc<Control>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) parcels: Sender<Parcel>,
}

/// The bytes of one range if several threads read a file: less than a chunk, so that one read finds
/// the end of its last line as well, and the chunks of all readers come in turn.
const RANGE_BYTES: u64 = CHUNK_BYTES as u64 - (64 << 10);
/// The longest line. 16 MiB, the parser's limit: it refuses a line that is cut there.
const LINE_BYTES_MAX: usize = 16 << 20;
/// The number of generated documents in a task: of about 1 KiB each, they fill a chunk.
const MADE: u64 = 800;

impl Tasks {
    /// Returns the tasks for this many readers, from `start` on.
    pub(crate) fn new(inputs: Arc<Vec<Input>>, readers: u16, start: Position) -> Self {
        let step = if readers == 1 { u64::MAX } else { RANGE_BYTES };
        Self { inputs, step, number: 0, next: start }
    }
}

impl Iterator for Tasks {
    type Item = Task;

    fn next(&mut self) -> Option<Task> {
        loop {
            let Position { input, offset } = self.next;
            let about = self.inputs.get(input)?;
            let (len, step) = match &about.form {
                Form::Plain(..) => (about.bytes.unwrap_or_default(), self.step),
                Form::Stream(_) => (0, 0),
                Form::Made(_, all) => (all.end - all.start, MADE),
            };
            let end = offset.saturating_add(step).min(len);
            let is_stream = matches!(about.form, Form::Stream(_));
            self.next = match end < len {
                true => Position { input, offset: end },
                false => Position { input: input + 1, offset: 0 },
            };
            if offset < end || is_stream {
                let range = if is_stream { 0..0 } else { offset..end };
                let number = self.number;
                self.number += 1;
                return Some(Task { number, input, range });
            }
        }
    }
}

/// The load stops: reading is pointless.
struct Stopped;

/// Why an input has no more chunks.
enum ReadError {
    Input(io::Error),
    /// The text is not of its format; the error begins with its place.
    Text(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Input(error)
    }
}

impl From<ElementsError> for ReadError {
    fn from(error: ElementsError) -> Self {
        match error {
            ElementsError::Input(error) => Self::Input(error),
            error @ ElementsError::NoArray { .. } => Self::Text(error.to_string()),
        }
    }
}

impl From<RecordsError> for ReadError {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::Input(error) => Self::Input(error),
            error @ RecordsError::TooLong { .. } => Self::Text(error.to_string()),
        }
    }
}

impl Reader {
    pub(crate) fn run(&self) {
        while !self.control.is_stopping() {
            let task = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(task) = task else { return };
            match self.run_task(&task) {
                Ok(()) => self.gate.finish(task.number),
                // Nothing that follows may be loaded.
                Err(Stopped) => return self.gate.close(),
            }
        }
        self.gate.close();
    }

    fn run_task(&self, task: &Task) -> Result<(), Stopped> {
        let input = &self.inputs[task.input];
        match &input.form {
            Form::Plain(file, _) => {
                let offset = Lines::<At<'_>>::first_byte(&task.range);
                let at = At { file, offset };
                let mut lines = Lines::of_range(at, task.range.clone(), LINE_BYTES_MAX);
                self.send_all(task, None, || Ok(lines.next_chunk()?.map(with_its_bytes)))
            }
            Form::Stream(stream) => {
                let file = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(file) = file else { return Ok(()) };
                match (Stream::new(file), &input.format) {
                    (Ok(stream), Format::Json) => self.read_stream(task, stream),
                    (Ok(stream), Format::Table(format)) => self.read_table(task, stream, format),
                    (Err(error), _) => Err(self.fail(task, 0, error.into())),
                }
            }
            Form::Made(make, all) => {
                let mut chunk = Chunk::default();
                let (start, end) = (all.start + task.range.start, all.start + task.range.end);
                make(start..end, &mut chunk.bytes);
                chunk.place = Some(Place::line(task.range.start + 1));
                chunk.end = chunk.bytes.len() as u64;
                self.send(task, None, with_its_bytes(chunk))
            }
        }
    }

    fn read_stream(&self, task: &Task, stream: Stream) -> Result<(), Stopped> {
        let Stream { text, shape, consumed } = stream;
        let with_consumed = |chunk: Chunk| (chunk, consumed.take());
        let mut elements = match shape {
            Shape::Array => Elements::of_stream(text, LINE_BYTES_MAX),
            Shape::Documents => Elements::of_documents(text, LINE_BYTES_MAX),
            Shape::Lines => {
                let mut lines = Lines::of_stream(text, LINE_BYTES_MAX);
                return self.send_all(task, None, || Ok(lines.next_chunk()?.map(with_consumed)));
            }
        };
        self.send_all(task, None, || Ok(elements.next_chunk()?.map(with_consumed)))
    }

    fn read_table(&self, task: &Task, stream: Stream, format: &TableFormat) -> Result<(), Stopped> {
        let Stream { text, consumed, .. } = stream;
        let mut records = Records::new(text, format, LINE_BYTES_MAX);
        let table = match table_of(&mut records, format) {
            Ok(Some(table)) => Arc::new(table),
            Ok(None) => return Ok(()),
            Err(error) => return Err(self.fail(task, 0, error)),
        };
        self.send_all(task, Some(&table), || {
            Ok(records.next_chunk()?.map(|chunk| (chunk, consumed.take())))
        })
    }

    fn send_all(
        &self,
        task: &Task,
        table: Option<&Arc<Table>>,
        mut next: impl FnMut() -> Result<Option<(Chunk, u64)>, ReadError>,
    ) -> Result<(), Stopped> {
        let mut at = task.range.start;
        while !self.control.is_stopping() {
            match next() {
                Ok(Some((chunk, input_bytes))) => {
                    at = chunk.end;
                    self.send(task, table, (chunk, input_bytes))?;
                }
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.fail(task, at, error)),
            }
        }
        Err(Stopped)
    }

    #[cold]
    fn fail(&self, task: &Task, at: u64, error: ReadError) -> Stopped {
        let name = &self.inputs[task.input].name;
        let failure = match error {
            ReadError::Input(error) => LoadError::io("read", Path::new(name), &error),
            ReadError::Text(text) => LoadError::Usage(format!("{name}:{text}")),
        };
        // What was read before is loaded; nothing after it was admitted.
        self.control.fail((task.input, at), u64::MAX, failure);
        Stopped
    }

    fn send(
        &self,
        task: &Task,
        table: Option<&Arc<Table>>,
        (chunk, input_bytes): (Chunk, u64),
    ) -> Result<(), Stopped> {
        if (Position { input: task.input, offset: chunk.end }) <= self.start {
            return Ok(());
        }
        let bytes = chunk.bytes.len() as u64;
        let permit = self.gate.enter(task.number, bytes).ok_or(Stopped)?;
        let table = table.cloned();
        let parcel = Parcel { input: task.input, chunk, table, input_bytes, permit };
        self.parcels.send(parcel).map_err(|_nobody_parses| Stopped)
    }
}

/// Returns the table of `records`, whose first record names its columns unless the format does;
/// `None` if there are no records.
fn table_of<R: Read>(
    records: &mut Records<R>,
    format: &TableFormat,
) -> Result<Option<Table>, ReadError> {
    let table = match &format.fields {
        Some(names) => Table::new(format, names),
        None => match records.header()? {
            Some(header) => Table::with_header(format, &header),
            None => return Ok(None),
        },
    };
    table.map(Some).map_err(|why| ReadError::Text(format!("1:1: the header: {why}")))
}

/// Returns a chunk with the number of bytes of the file that it covers.
fn with_its_bytes(chunk: Chunk) -> (Chunk, u64) {
    let bytes = chunk.end - chunk.offset;
    (chunk, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// The tasks over a plain file of `len` bytes, a stream, and 1,000 generated documents.
    fn tasks(len: usize, readers: u16, start: Position) -> Vec<(usize, Range<u64>)> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; len]).unwrap();
        let mut array = tempfile::NamedTempFile::new().unwrap();
        array.write_all(b"[1]").unwrap();
        let inputs = vec![
            Input::open(file.path()).unwrap(),
            Input::open(array.path()).unwrap(),
            Input::made("made", 10..1010, Box::new(|_, _| {})),
        ];
        let tasks: Vec<Task> = Tasks::new(Arc::new(inputs), readers, start).collect();
        assert!(tasks.iter().enumerate().all(|(n, task)| task.number == n as u64));
        tasks.into_iter().map(|task| (task.input, task.range)).collect()
    }

    #[test]
    fn tasks_cover_every_input_once_and_in_order() {
        let start = Position::default();
        assert_eq!(tasks(0, 1, start), [(1, 0..0), (2, 0..800), (2, 800..1000)]);
        let len = 2 * RANGE_BYTES as usize + 5;
        assert_eq!(tasks(len, 1, start)[..2], [(0, 0..len as u64), (1, 0..0)]);
        let (one, two) = (RANGE_BYTES, 2 * RANGE_BYTES);
        assert_eq!(
            tasks(len, 3, start)[..4],
            [(0, 0..one), (0, one..two), (0, two..two + 5), (1, 0..0)]
        );
    }

    #[test]
    fn tasks_begin_where_an_earlier_load_ended() {
        let at = |input, offset| Position { input, offset };
        assert_eq!(tasks(100, 2, at(0, 60))[..2], [(0, 60..100), (1, 0..0)]);
        assert_eq!(tasks(100, 1, at(1, 60))[0], (1, 0..0), "a stream is read from its start");
        assert_eq!(tasks(100, 1, at(2, 0)), [(2, 0..800), (2, 800..1000)]);
    }
}
