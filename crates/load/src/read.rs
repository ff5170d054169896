//! A reader: takes one task after another and turns it into chunks.

use crate::control::Control;
use crate::error::LoadError;
use crate::gate::{Gate, Permit};
use crate::input::{At, Form, Input, Stream};
use crossbeam_channel::Sender;
use flagstone::bulk::{Chunk, Elements, ElementsError, Lines, Place, ranges};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A part of an input, read by one reader.
pub(crate) struct Task {
    input: usize,
    /// The range of bytes of a plain file, or of numbers of generated documents; empty for a
    /// stream.
    range: Range<u64>,
}

/// A chunk for a parser.
pub(crate) struct Parcel {
    pub(crate) input: usize,
    pub(crate) chunk: Chunk,
    /// The bytes of the input, before decompression, that the chunk was read from.
    pub(crate) input_bytes: u64,
    pub(crate) permit: Permit,
}

/// A reader and what it needs. It has no handle of the database, so a reader that waits for stdin
/// does not keep the database open.
pub(crate) struct Reader {
    pub(crate) inputs: Arc<Vec<Input>>,
    pub(crate) tasks: Arc<Mutex<std::vec::IntoIter<Task>>>,
    pub(crate) control: Arc<Control>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) parcels: Sender<Parcel>,
}

/// The most bytes of one range. 16 MiB: a reader that comes last to the end of a file has little
/// left.
const RANGE_BYTES_MAX: u64 = 16 << 20;
/// The longest line. 16 MiB, the parser's limit: it refuses a line that is cut there.
const LINE_BYTES_MAX: usize = 16 << 20;
/// The number of generated documents in a task: of about 1 KiB each, they fill a chunk.
const MADE: u64 = 800;

/// Splits the inputs into tasks, in order.
pub(crate) fn tasks(inputs: &[Input], readers: u16) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (input, about) in inputs.iter().enumerate() {
        let mut push = |range| tasks.push(Task { input, range });
        match &about.form {
            Form::Plain(..) => {
                let len = about.bytes.unwrap_or_default();
                let share = len / (u64::from(readers) * 4);
                ranges(len, share.clamp(1 << 20, RANGE_BYTES_MAX)).for_each(push);
            }
            Form::Stream(_) => push(0..0),
            Form::Made(_, all) => ranges(all.end - all.start, MADE)
                .for_each(|range| push(all.start + range.start..all.start + range.end)),
        }
    }
    tasks
}

/// The load stops: reading is pointless.
struct Stopped;

impl Reader {
    pub(crate) fn run(&self) {
        while !self.control.is_stopping() {
            let task = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(task) = task else { return };
            if let Err(Stopped) = self.run_task(&task) {
                return;
            }
        }
    }

    fn run_task(&self, task: &Task) -> Result<(), Stopped> {
        match &self.inputs[task.input].form {
            Form::Plain(file, _) => {
                let offset = Lines::<At<'_>>::first_byte(&task.range);
                let input = At { file, offset };
                let mut lines = Lines::of_range(input, task.range.clone(), LINE_BYTES_MAX);
                self.send_all(task, || Ok(lines.next_chunk()?.map(with_its_bytes)))
            }
            Form::Stream(stream) => {
                let file = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(file) = file else { return Ok(()) };
                match Stream::new(file) {
                    Ok(stream) => self.read_stream(task, stream),
                    Err(error) => Err(self.fail(task, 0, ElementsError::Input(error))),
                }
            }
            Form::Made(make, all) => {
                let mut chunk = Chunk::default();
                make(task.range.clone(), &mut chunk.bytes);
                chunk.place = Some(Place::line(task.range.start - all.start + 1));
                chunk.end = chunk.bytes.len() as u64;
                self.send(task.input, with_its_bytes(chunk))
            }
        }
    }

    fn read_stream(&self, task: &Task, stream: Stream) -> Result<(), Stopped> {
        let Stream { text, is_array, consumed } = stream;
        let with_consumed = |chunk: Chunk| (chunk, consumed.take());
        if is_array {
            let mut elements = Elements::of_stream(text, LINE_BYTES_MAX);
            self.send_all(task, || Ok(elements.next_chunk()?.map(with_consumed)))
        } else {
            let mut lines = Lines::of_stream(text, LINE_BYTES_MAX);
            self.send_all(task, || Ok(lines.next_chunk()?.map(with_consumed)))
        }
    }

    fn send_all(
        &self,
        task: &Task,
        mut next: impl FnMut() -> Result<Option<(Chunk, u64)>, ElementsError>,
    ) -> Result<(), Stopped> {
        let mut at = task.range.start;
        while !self.control.is_stopping() {
            match next() {
                Ok(Some((chunk, input_bytes))) => {
                    at = chunk.end;
                    self.send(task.input, (chunk, input_bytes))?;
                }
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.fail(task, at, error)),
            }
        }
        Err(Stopped)
    }

    #[cold]
    fn fail(&self, task: &Task, at: u64, error: ElementsError) -> Stopped {
        let name = &self.inputs[task.input].name;
        let failure = match error {
            ElementsError::Input(error) => LoadError::io("read", Path::new(name), &error),
            error @ ElementsError::NoArray { .. } => LoadError::Usage(format!("{name}:{error}")),
        };
        self.control.fail((task.input, at), failure);
        Stopped
    }

    fn send(&self, input: usize, (chunk, input_bytes): (Chunk, u64)) -> Result<(), Stopped> {
        let permit = self.gate.enter(chunk.bytes.len() as u64);
        let parcel = Parcel { input, chunk, input_bytes, permit };
        self.parcels.send(parcel).map_err(|_nobody_parses| Stopped)
    }
}

/// Returns a chunk with the number of bytes of the file that it covers.
fn with_its_bytes(chunk: Chunk) -> (Chunk, u64) {
    let bytes = chunk.end - chunk.offset;
    (chunk, bytes)
}
