//! The threads that read the inputs of a load, and what they share with the others.

use crate::control::Control;
use crate::error::LoadError;
use crate::gate::Gate;
use crate::input::Input;
use crate::key::Key;
use crate::marks::{Mark, Position};
use crate::read::{Parcel, Progress, Reader, Tasks};
use crate::totals::Totals;
use crossbeam_channel::{Receiver, Select, bounded};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The threads that read. They stop when it is dropped.
pub(crate) struct Reading {
    pub(crate) parcels: Receiver<Parcel>,
    pub(crate) control: Arc<Control>,
    pub(crate) totals: Arc<Totals>,
    /// `None` if the load has no marks.
    progress: Option<Arc<Mutex<Progress>>>,
    gate: Arc<Gate>,
}

/// What the inputs hold, compared with what a load has read that was complete.
pub(crate) enum Compared {
    /// The same text, and nothing behind it.
    Same,
    /// The same text, and more behind it, which is read.
    Longer(Reading),
    Other,
    /// The comparison was stopped.
    Stopped,
}

/// The most bytes of text between readers and writers, unless one document is longer.
const UNDER_WAY_BYTES: u64 = 32 << 20;

impl Reading {
    /// Starts `readers` threads that read `inputs` for documents with keys at `key`, and hand out
    /// `ahead` parcels before somebody takes them. `marks`: the first and the last one of the load.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn start(
        inputs: &Arc<Vec<Input>>,
        key: &Key,
        marks: Option<(Position, Mark)>,
        readers: u16,
        ahead: usize,
    ) -> Result<Self, LoadError> {
        let (parcel_sender, parcels) = bounded(ahead);
        let progress = |(start, end)| Progress::new(start, end);
        let reading = Self {
            parcels,
            control: Arc::default(),
            totals: Arc::default(),
            progress: marks.map(|marks| Arc::new(Mutex::new(progress(marks)))),
            gate: Gate::new(UNDER_WAY_BYTES),
        };
        let tasks = Arc::new(Mutex::new(Tasks::new(Arc::clone(inputs), readers)));
        for _ in 0..readers {
            let reader = Reader {
                inputs: Arc::clone(inputs),
                tasks: Arc::clone(&tasks),
                progress: reading.progress.clone(),
                totals: Arc::clone(&reading.totals),
                control: Arc::clone(&reading.control),
                gate: Arc::clone(&reading.gate),
                parcels: parcel_sender.clone(),
                key: key.clone(),
            };
            // Never joined: it may wait for stdin forever.
            let _reader = spawn("load-read", move || reader.run())?;
        }
        Ok(reading)
    }

    /// Reads to the place where a load was complete, and compares the text with what that has read.
    /// Nothing is taken from `parcels`. `stops` is asked every `tick`.
    ///
    /// # Errors
    /// When an input cannot be read.
    pub(crate) fn compare(
        self,
        stops: impl Fn() -> bool,
        tick: Duration,
    ) -> Result<Compared, LoadError> {
        let mut select = Select::new();
        select.recv(&self.parcels);
        while select.ready_timeout(tick).is_err() {
            if stops() {
                return Ok(Compared::Stopped);
            }
        }
        // A parcel is text behind the place; without one all readers have ended.
        if !self.parcels.is_empty() {
            return Ok(Compared::Longer(self));
        }
        match self.control.take_failure() {
            // The last input has no text at all.
            None if self.is_short() => Ok(Compared::Other),
            None => Ok(Compared::Same),
            Some(error @ LoadError::Io(_)) => Err(error),
            Some(_) => Ok(Compared::Other),
        }
    }

    /// Returns whether the place where the other load was complete was not reached.
    fn is_short(&self) -> bool {
        self.progress.as_ref().is_some_and(|progress| {
            progress.lock().unwrap_or_else(PoisonError::into_inner).is_expecting()
        })
    }

    /// Returns the end of what was read so far, if the load has marks.
    pub(crate) fn end(&self) -> Option<Mark> {
        let progress = self.progress.as_ref()?;
        Some(progress.lock().unwrap_or_else(PoisonError::into_inner).end())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.control.stop();
        self.gate.close();
    }
}

/// Starts a thread.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, LoadError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(run);
    thread.map_err(|error| LoadError::Io(format!("cannot start a thread: {error}")))
}
