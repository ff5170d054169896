//! A reader: takes one task after another and turns it into chunks.

use crate::control::Control;
use crate::error::LoadError;
use crate::gate::{Gate, Permit};
use crate::input::{At, Bytes, Form, Format, Input, Shape, Stream, StreamError};
use crate::job::Text;
use crate::key::Key;
use crate::marks::{Mark, Position, START_OVER};
use crate::records::{Records, RecordsError};
use crate::sum::Sum;
use crate::table::{Table, TableFormat};
use crate::totals::{Count, Totals};
use crossbeam_channel::Sender;
use flagstone::load::{CHUNK_BYTES, Chunk, Elements, ElementsError, Lines, Place};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A part of an input, read by one reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// The number of the task: 0, 1 and so on in the order of the input.
    number: u64,
    input: usize,
    /// The range of bytes of a plain file, or of numbers of generated documents; empty for a
    /// stream.
    range: Range<u64>,
    /// Whether it is the last of its input.
    is_last: bool,
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
    pub(crate) text: Text,
    /// The bytes of the input, before decompression, that the chunk was read from.
    pub(crate) input_bytes: u64,
    pub(crate) permit: Permit,
}

/// A chunk that was read, and the bytes of the input that it was read from.
struct ReadChunk {
    text: Text,
    input_bytes: u64,
}

/// What a load with marks knows of the text so far, in the order of the input. If it continues
/// another one, it reads what that has read, and compares checksums, before anything is loaded.
pub(crate) struct Progress {
    /// The checksum of all text before the next chunk.
    sum: Sum,
    /// Everything before it was loaded earlier.
    start: Position,
    /// The place up to which the other load has come, as long as it is not reached.
    expected: Option<Mark>,
    /// The chunks between the two places: some of their documents are not loaded.
    held: Vec<ReadChunk>,
    /// The bytes of the inputs of which nothing is loaded, since the last time they were counted.
    dropped: u64,
    /// The end of the last chunk, and the checksum of all text before it.
    end: (Position, Sum),
}

impl Progress {
    /// Returns that of a load of which everything before `start`, and parts of what follows up to
    /// `end`, was loaded earlier.
    pub(crate) fn new(start: Position, end: Mark) -> Self {
        let expected = (end.place > Position::default()).then_some(end);
        let (sum, end) = (Sum::default(), (Position::default(), Sum::default()));
        Self { sum, start, expected, held: Vec::new(), dropped: 0, end }
    }

    /// Adds a chunk with the checksum `own`. Returns the chunks that are to be loaded now.
    ///
    /// # Errors
    /// If the text is not that of the load that is continued.
    fn add(&mut self, mut piece: ReadChunk, own: &Sum) -> Result<Vec<ReadChunk>, Changed> {
        let before = self.sum;
        self.sum = self.sum.join(own);
        let text = &mut piece.text;
        text.before = Some(before);
        let chunk_end = Position { input: text.input, offset: text.chunk.end };
        self.end = (chunk_end, self.sum);
        let Some(Mark { place, sum }) = self.expected else { return Ok(vec![piece]) };
        if text.input > place.input {
            return Err(Changed);
        }
        let is_reached = chunk_end >= place;
        if is_reached {
            let chunk = &text.chunk;
            let len = place.offset.saturating_sub(chunk.offset).min(chunk.bytes.len() as u64);
            if before.then(&chunk.bytes[..len as usize]).value() != sum {
                return Err(Changed);
            }
            self.expected = None;
        }
        if chunk_end > self.start {
            self.held.push(piece);
        } else {
            self.dropped += piece.input_bytes;
        }
        Ok(if is_reached { std::mem::take(&mut self.held) } else { Vec::new() })
    }

    /// Returns the end of what was read so far.
    pub(crate) fn end(&self) -> Mark {
        let (place, sum) = self.end;
        Mark { place, sum: sum.value() }
    }

    /// Returns whether the place up to which the other load has come is not reached.
    pub(crate) const fn is_expecting(&self) -> bool {
        self.expected.is_some()
    }

    /// Returns whether input number `input`, which has ended, was longer.
    fn is_short(&self, input: usize) -> bool {
        self.expected.is_some_and(|mark| mark.place.input == input)
    }
}

/// The text is not the one that was read by the load that is continued.
struct Changed;

/// A reader and what it needs. It has no handle of the database, so a reader that waits for stdin
/// does not keep the database open.
pub(crate) struct Reader {
    pub(crate) inputs: Arc<Vec<Input>>,
    pub(crate) tasks: Arc<Mutex<Tasks>>,
    /// `None` if the load has no marks.
    pub(crate) progress: Option<Arc<Mutex<Progress>>>,
    pub(crate) totals: Arc<Totals>,
    pub(crate) control: Arc<Control>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) parcels: Sender<Parcel>,
    pub(crate) key: Key,
}

/// A reader that panics ends the load: what it has not read would be missing.
impl Drop for Reader {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let failure = LoadError::Io("a thread of the load ended by a panic".into());
            self.control.fail((0, 0), u64::MAX, failure);
            self.gate.close();
        }
    }
}

/// The bytes of one range if several threads read a file: less than a chunk, so that one read finds
/// the end of its last line as well, and the chunks of all readers come in turn.
const RANGE_BYTES: u64 = CHUNK_BYTES as u64 - (64 << 10);
/// The longest line. 16 MiB, the parser's limit: it refuses a line that is cut there.
const LINE_BYTES_MAX: usize = 16 << 20;
/// The number of generated documents in a task: of about 1 KiB each, they fill a chunk.
const MADE: u64 = 800;

impl Tasks {
    /// Returns the tasks for this many readers.
    pub(crate) fn new(inputs: Arc<Vec<Input>>, readers: u16) -> Self {
        let step = if readers == 1 { u64::MAX } else { RANGE_BYTES };
        Self { inputs, step, number: 0, next: Position::default() }
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
                Form::File(..) | Form::Stream(..) => (0, 0),
                Form::Made(_, all) => (all.end - all.start, MADE),
            };
            let end = offset.saturating_add(step).min(len);
            let is_stream = matches!(about.form, Form::File(..) | Form::Stream(..));
            let is_last = end >= len;
            self.next = if is_last {
                Position { input: input + 1, offset: 0 }
            } else {
                Position { input, offset: end }
            };
            if offset < end || is_stream {
                let range = if is_stream { 0..0 } else { offset..end };
                let number = self.number;
                self.number += 1;
                return Some(Task { number, input, range, is_last });
            }
        }
    }
}

/// The load stops: reading is pointless.
struct LoadStopped;

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

/// The load stops, so nothing more of a stream is read. One may have no end, and no end of a line
/// either.
#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the load stops")
    }
}

impl std::error::Error for Stopped {}

/// A stream that is read until the load stops.
struct Stoppable {
    text: Bytes,
    control: Arc<Control>,
}

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.control.is_stopping() {
            return Err(io::Error::other(Stopped));
        }
        self.text.read(buffer)
    }
}

impl ReadError {
    /// Returns whether the load stops for another reason.
    fn is_stop(&self) -> bool {
        let Self::Input(error) = self else { return false };
        error.get_ref().is_some_and(|error| error.is::<Stopped>())
    }

    /// Returns the error of a load of the input `name`.
    #[cold]
    fn of(self, name: &str) -> LoadError {
        match self {
            Self::Input(error) => LoadError::io("read", Path::new(name), &error),
            Self::Text(text) => LoadError::Usage(format!("{name}:{text}")),
        }
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

impl From<StreamError> for ReadError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Input(error) => Self::Input(error),
            StreamError::NoText(text) => Self::Text(text),
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
            match self.run_task(&task).and_then(|()| self.check_end(&task)) {
                Ok(()) => self.gate.finish(task.number),
                // Nothing that follows may be loaded.
                Err(LoadStopped) => return self.gate.close(),
            }
        }
        self.gate.close();
    }

    fn run_task(&self, task: &Task) -> Result<(), LoadStopped> {
        let input = &self.inputs[task.input];
        match &input.form {
            Form::Plain(file, _) => {
                let offset = Lines::<At<&File>>::first_byte(&task.range);
                let at = At { file: &**file, offset };
                let mut lines = Lines::of_range(at, task.range.clone(), LINE_BYTES_MAX);
                self.send_all(task, None, || Ok(lines.next_chunk()?.map(with_its_bytes)))?;
                let len = file.metadata().map_or(0, |about| about.len());
                self.check_len(task, len)
            }
            Form::File(..) | Form::Stream(..) => {
                let Some(file) = input.open_text() else { return Ok(()) };
                let stream = input.stream(file);
                let mut stream = stream.map_err(|error| self.fail(task, 0, error.into()))?;
                let control = Arc::clone(&self.control);
                stream.text = Box::new(Stoppable { text: stream.text, control });
                let consumed = stream.consumed.clone();
                match &input.format {
                    Format::Json => self.read_stream(task, stream)?,
                    Format::Table(format) => self.read_table(task, stream, format)?,
                }
                self.check_len(task, consumed.all())
            }
            Form::Made(make, all) => {
                let mut chunk = Chunk::default();
                let (start, end) = (all.start + task.range.start, all.start + task.range.end);
                make(start..end, &mut chunk.bytes);
                chunk.place = Some(Place::line(task.range.start + 1));
                chunk.end = chunk.bytes.len() as u64;
                let input_bytes = chunk.end - chunk.offset;
                self.send(task, None, chunk, input_bytes)
            }
        }
    }

    /// Refuses a file that had ended after `len` bytes, before its length: another program has cut
    /// it meanwhile.
    fn check_len(&self, task: &Task, len: u64) -> Result<(), LoadStopped> {
        match self.inputs[task.input].bytes {
            Some(bytes) if len < bytes => {
                let text = format!(
                    "the file ended after {len} bytes: expected {bytes}, as it had when the load \
                     began"
                );
                Err(self.fail(task, len, io::Error::other(text).into()))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an input that has ended before the place to which an earlier load came.
    fn check_end(&self, task: &Task) -> Result<(), LoadStopped> {
        let Some(progress) = self.progress.as_ref().filter(|_| task.is_last) else { return Ok(()) };
        if !self.gate.wait_for(task.number) {
            return Err(LoadStopped);
        }
        let is_short = lock(progress).is_short(task.input);
        if is_short { Err(self.changed(task)) } else { Ok(()) }
    }

    fn read_stream(&self, task: &Task, stream: Stream) -> Result<(), LoadStopped> {
        let consumed = stream.consumed.clone();
        let mut chunks = JsonChunks::new(stream);
        self.send_all(task, None, || Ok(chunks.next_chunk()?.map(|chunk| (chunk, consumed.take()))))
    }

    fn read_table(
        &self,
        task: &Task,
        stream: Stream,
        format: &TableFormat,
    ) -> Result<(), LoadStopped> {
        let Stream { text, consumed, .. } = stream;
        let mut records = Records::new(text, format, LINE_BYTES_MAX);
        let table = match table_of(&mut records, format, &self.key) {
            Ok(Some(table)) => Arc::new(table),
            Ok(None) => return Ok(()),
            Err(error) => return Err(self.fail(task, 0, error)),
        };
        self.note(task, table.names())?;
        self.send_all(task, Some(&table), || {
            Ok(records.next_chunk()?.map(|chunk| (chunk, consumed.take())))
        })
    }

    fn send_all(
        &self,
        task: &Task,
        table: Option<&Arc<Table>>,
        mut next: impl FnMut() -> Result<Option<(Chunk, u64)>, ReadError>,
    ) -> Result<(), LoadStopped> {
        let mut at = task.range.start;
        while !self.control.is_stopping() {
            match next() {
                Ok(Some((chunk, input_bytes))) => {
                    at = chunk.end;
                    self.send(task, table, chunk, input_bytes)?;
                }
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.fail(task, at, error)),
            }
        }
        Err(LoadStopped)
    }

    #[cold]
    fn fail(&self, task: &Task, at: u64, error: ReadError) -> LoadStopped {
        if error.is_stop() {
            return LoadStopped;
        }
        let failure = error.of(&self.inputs[task.input].name);
        // What was read before is loaded; nothing after it was admitted.
        self.control.fail((task.input, at), u64::MAX, failure);
        LoadStopped
    }

    fn send(
        &self,
        task: &Task,
        table: Option<&Arc<Table>>,
        chunk: Chunk,
        input_bytes: u64,
    ) -> Result<(), LoadStopped> {
        let text = Text { table: table.cloned(), ..Text::of(task.input, chunk) };
        let piece = ReadChunk { text, input_bytes };
        let Some(progress) = &self.progress else { return self.admit(task, piece) };
        let own = Sum::of(&piece.text.chunk.bytes);
        if !self.gate.wait_for(task.number) {
            return Err(LoadStopped);
        }
        let (pieces, input_bytes) = {
            let mut progress = lock(progress);
            (progress.add(piece, &own), std::mem::take(&mut progress.dropped))
        };
        self.totals.add(Count { input_bytes, ..Count::default() });
        let pieces = pieces.map_err(|Changed| self.changed(task))?;
        pieces.into_iter().try_for_each(|piece| self.admit(task, piece))
    }

    /// Adds text that is in no chunk, but decides what the chunks mean.
    fn note(&self, task: &Task, text: &[u8]) -> Result<(), LoadStopped> {
        let Some(progress) = &self.progress else { return Ok(()) };
        if !self.gate.wait_for(task.number) {
            return Err(LoadStopped);
        }
        let mut progress = lock(progress);
        progress.sum = progress.sum.then(text);
        Ok(())
    }

    fn admit(&self, task: &Task, piece: ReadChunk) -> Result<(), LoadStopped> {
        let ReadChunk { text, input_bytes } = piece;
        let bytes = text.chunk.bytes.len() as u64;
        let permit = self.gate.enter(task.number, bytes).ok_or(LoadStopped)?;
        let parcel = Parcel { text, input_bytes, permit };
        self.parcels.send(parcel).map_err(|_nobody_parses| LoadStopped)
    }

    /// Ends a load whose input is not that of the load that it continues. Nothing was loaded.
    #[cold]
    fn changed(&self, task: &Task) -> LoadStopped {
        let Some(progress) = &self.progress else { return LoadStopped };
        let place = lock(progress).expected.map(|mark| mark.place).unwrap_or_default();
        let name = self.inputs.get(place.input).map_or("", |input| &input.name);
        let before = if place.input > 0 { ", or an input before it," } else { "" };
        let failure = LoadError::Usage(format!(
            "{name}{before} has changed before byte {}, up to which the load that was stopped has \
             come: expected the same text there; {START_OVER}",
            place.offset
        ));
        self.control.fail((task.input, 0), u64::MAX, failure);
        LoadStopped
    }
}

/// The chunks of a stream of JSON.
enum JsonChunks {
    Lines(Lines<Bytes>),
    Elements(Elements<Bytes>),
}

impl JsonChunks {
    fn new(stream: Stream) -> Self {
        let Stream { text, shape, .. } = stream;
        match shape {
            Shape::Array => Self::Elements(Elements::of_stream(text, LINE_BYTES_MAX)),
            Shape::Documents => Self::Elements(Elements::of_documents(text, LINE_BYTES_MAX)),
            Shape::Lines => Self::Lines(Lines::of_stream(text, LINE_BYTES_MAX)),
        }
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>, ReadError> {
        Ok(match self {
            Self::Lines(lines) => lines.next_chunk()?,
            Self::Elements(elements) => elements.next_chunk()?,
        })
    }
}

/// Returns the first chunk of a regular file, and the table that it is a part of; `None` if there
/// is none, or if the input can be read only once. The input is left as it is.
pub(crate) fn first_chunk(
    input: &Input,
    key: &Key,
) -> Result<Option<(Chunk, Option<Table>)>, LoadError> {
    match input.again() {
        Some(file) => first_of(file, input, key).map_err(|error| error.of(&input.name)),
        None => Ok(None),
    }
}

fn first_of(
    file: Bytes,
    input: &Input,
    key: &Key,
) -> Result<Option<(Chunk, Option<Table>)>, ReadError> {
    let stream = input.stream(file)?;
    let Format::Table(format) = &input.format else {
        return Ok(JsonChunks::new(stream).next_chunk()?.map(|chunk| (chunk, None)));
    };
    let mut records = Records::new(stream.text, format, LINE_BYTES_MAX);
    let Some(table) = table_of(&mut records, format, key)? else { return Ok(None) };
    Ok(records.next_chunk()?.map(|chunk| (chunk, Some(table))))
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the table of `records`, whose first record names its columns unless the format does;
/// `None` if there are no records. Its documents must have a key.
fn table_of<R: Read>(
    records: &mut Records<R>,
    format: &TableFormat,
    key: &Key,
) -> Result<Option<Table>, ReadError> {
    let table = match &format.fields {
        Some(names) => Table::new(format, names),
        None => match records.header()? {
            Some(header) => Table::with_header(format, &header),
            None => return Ok(None),
        },
    };
    let checked = table.and_then(|table| {
        key.paths().iter().try_for_each(|path| table.check_key(path))?;
        Ok(table)
    });
    checked.map(Some).map_err(|why| ReadError::Text(format!("1:1: the header: {why}")))
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
    fn tasks(len: usize, readers: u16) -> Vec<(usize, Range<u64>)> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; len]).unwrap();
        let mut array = tempfile::NamedTempFile::new().unwrap();
        array.write_all(b"[1]").unwrap();
        let inputs = vec![
            Input::open(file.path()).unwrap(),
            Input::open(array.path()).unwrap(),
            Input::made("made", 10..1010, Box::new(|_, _| {})),
        ];
        let tasks: Vec<Task> = Tasks::new(Arc::new(inputs), readers).collect();
        assert!(tasks.iter().enumerate().all(|(n, task)| task.number == n as u64));
        assert!(tasks.windows(2).all(|two| two[0].is_last == (two[0].input < two[1].input)));
        tasks.into_iter().map(|task| (task.input, task.range)).collect()
    }

    #[test]
    fn tasks_cover_every_input_once_and_in_order() {
        assert_eq!(tasks(0, 1), [(1, 0..0), (2, 0..800), (2, 800..1000)]);
        let len = 2 * RANGE_BYTES as usize + 5;
        assert_eq!(tasks(len, 1)[..2], [(0, 0..len as u64), (1, 0..0)]);
        let (one, two) = (RANGE_BYTES, 2 * RANGE_BYTES);
        assert_eq!(tasks(len, 3)[..4], [(0, 0..one), (0, one..two), (0, two..two + 5), (1, 0..0)]);
    }

    /// The offsets of the chunks that are to be loaded, after each of three chunks of 10 bytes.
    fn loaded(start: u64, end: u64, sum: u64) -> Vec<Result<Vec<u64>, ()>> {
        let at = |offset| Position { input: 0, offset };
        let mut progress = Progress::new(at(start), Mark { place: at(end), sum });
        let chunks = (0..3).map(|n| {
            let bytes = vec![n as u8; 10];
            let chunk = Chunk::of_ranges(bytes, Vec::new(), n * 10, Place::START);
            let own = Sum::of(&chunk.bytes);
            let piece = ReadChunk { text: Text::of(0, chunk), input_bytes: 10 };
            let ready = progress.add(piece, &own).map_err(|Changed| ())?;
            Ok(ready.iter().map(|piece| piece.text.chunk.offset).collect())
        });
        chunks.collect()
    }

    #[test]
    fn nothing_is_loaded_before_all_text_is_known_to_be_that_of_the_earlier_load() {
        let text: Vec<u8> = (0..30).map(|n| n / 10).collect();
        let sum = |len: usize| Sum::of(&text[..len]).value();
        assert_eq!(loaded(0, 0, 0), [Ok(vec![0]), Ok(vec![10]), Ok(vec![20])]);
        assert_eq!(loaded(10, 15, sum(15)), [Ok(vec![]), Ok(vec![10]), Ok(vec![20])]);
        assert_eq!(loaded(9, 20, sum(20)), [Ok(vec![]), Ok(vec![0, 10]), Ok(vec![20])]);
        assert_eq!(loaded(3, 21, sum(21)), [Ok(vec![]), Ok(vec![]), Ok(vec![0, 10, 20])]);
        assert_eq!(loaded(3, 15, sum(14))[1], Err(()));
    }
}
