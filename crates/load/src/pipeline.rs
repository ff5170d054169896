//! Starts the threads of a load, waits for them, and returns the outcome.

use crate::bad_documents::BadDocuments;
use crate::control::Control;
use crate::error::LoadError;
use crate::gate::Gate;
use crate::input::Input;
use crate::parse::Parser;
use crate::read::{Reader, tasks};
use crate::totals::{Count, OnCommit, Totals};
use crate::write::Writer;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use flagstone::{Collection, Database, Durability, Options};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The plan of a load: inputs, collection, numbers of threads. [`Plan::run`] carries it out.
pub struct Plan {
    /// The database of the collection.
    pub database: Database,
    /// The collection that gets the documents.
    pub collection: Collection,
    /// The inputs, in the order in which they are read.
    pub inputs: Vec<Input>,
    /// The dotted path of the primary key in each document.
    pub key_path: String,
    /// The number of threads that read; a plain file is split between them.
    pub readers: u16,
    /// The number of threads that parse.
    pub parsers: u16,
    /// The number of threads that commit.
    pub writers: u16,
    /// The durability of an acknowledged document.
    pub durability: Durability,
    /// The database's memory budget, in bytes: batches stay small compared with it.
    pub memory_budget: u64,
    /// How documents that cannot be loaded are treated.
    pub bad: BadDocuments,
    /// A function that receives the duration of each commit.
    pub on_commit: Option<OnCommit>,
}

impl Plan {
    /// Returns a plan to load `inputs` with keys at `id`, by one reader, one parser per core and
    /// two writers, with durability `Buffered`. The first bad document stops it.
    pub fn new(database: &Database, collection: &Collection, inputs: Vec<Input>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            database: database.clone(),
            collection: collection.clone(),
            inputs,
            key_path: "id".into(),
            readers: 1,
            parsers: cores.min(64) as u16,
            writers: 2,
            durability: Durability::Buffered,
            memory_budget: Options::default().memory_budget,
            bad: BadDocuments::stop(),
            on_commit: None,
        }
    }

    /// Runs the load and reports to `watcher`. A failure of the load itself is in the outcome.
    ///
    /// # Errors
    /// When a thread cannot be started or panicked, or bad documents cannot be written to their
    /// file.
    pub fn run(self, watcher: &mut dyn Watcher) -> Result<Outcome, LoadError> {
        let started = Instant::now();
        let inputs_bytes: Option<u64> = self.inputs.iter().map(|input| input.bytes).sum();
        let control = Arc::new(Control::default());
        let totals = Arc::new(Totals::default());
        let bad = Arc::new(self.bad);
        bad.begin()?;
        let (parcel_sender, parcels) = bounded(usize::from(self.parsers) * 2);
        let (work_sender, works) = bounded(usize::from(self.writers) * 2);
        let inputs = Arc::new(self.inputs);
        let tasks = Arc::new(Mutex::new(tasks(&inputs, self.readers).into_iter()));
        let gate = Gate::new(UNDER_WAY_BYTES);

        for _ in 0..self.readers {
            let reader = Reader {
                inputs: Arc::clone(&inputs),
                tasks: Arc::clone(&tasks),
                control: Arc::clone(&control),
                gate: Arc::clone(&gate),
                parcels: parcel_sender.clone(),
            };
            // Never joined: it may wait for stdin forever.
            let _reader = spawn("load-read", move || reader.run())?;
        }
        drop(parcel_sender);

        let mut threads = Vec::new();
        for _ in 0..self.parsers {
            let parser = Parser {
                database: self.database.clone(),
                collection: self.collection.clone(),
                key_path: self.key_path.clone(),
                batch_bytes: BATCH_BYTES.min(self.memory_budget / 16) as usize,
                inputs: Arc::clone(&inputs),
                bad: Arc::clone(&bad),
                control: Arc::clone(&control),
                parcels: parcels.clone(),
                works: work_sender.clone(),
            };
            threads.push(spawn("load-parse", move || parser.run())?);
        }
        drop((work_sender, parcels));

        // The channel is closed when the last writer ends.
        let (end_sender, end) = bounded::<()>(0);
        for _ in 0..self.writers {
            let writer = Writer {
                database: self.database.clone(),
                durability: self.durability,
                on_commit: self.on_commit.clone(),
                control: Arc::clone(&control),
                totals: Arc::clone(&totals),
                works: works.clone(),
            };
            let end_sender = end_sender.clone();
            threads.push(spawn("load-write", move || {
                writer.run();
                drop(end_sender);
            })?);
        }
        drop((end_sender, works));

        watcher.start(inputs_bytes);
        let is_interrupted = wait(&end, &control, watcher, || (started.elapsed(), totals.now()));
        join(threads)?;
        let (took, count) = (started.elapsed(), totals.now());
        watcher.end(took, count);
        bad.flush()?;
        Ok(Outcome { count, took, is_interrupted, failure: control.take_failure() })
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Plan({:?} into {} by {} readers, {} parsers, {} writers)",
            self.inputs,
            self.collection.name(),
            self.readers,
            self.parsers,
            self.writers
        )
    }
}

/// An observer of a load, called several times a second by the thread that runs it.
pub trait Watcher {
    /// Called when the load begins, with the size of its input files, if all are known.
    fn start(&mut self, _input_bytes: Option<u64>) {}

    /// Called during the load: `count` is done after `took`.
    fn tick(&mut self, _took: Duration, _count: Count) {}

    /// Called when the load has ended.
    fn end(&mut self, _took: Duration, _count: Count) {}

    /// Returns whether the load shall stop. What was read by then is still loaded.
    fn stops(&self) -> bool {
        false
    }
}

/// A watcher that does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watcher for Unwatched {}

/// The outcome of a load.
#[derive(Debug)]
#[must_use]
pub struct Outcome {
    /// What the load did.
    pub count: Count,
    /// The time from the start to the last acknowledgement.
    pub took: Duration,
    /// Whether the watcher stopped the load before the end.
    pub is_interrupted: bool,
    /// Why the load ended early, if it failed.
    pub failure: Option<LoadError>,
}

impl Outcome {
    /// Returns what the load did, if it ran to the end.
    ///
    /// # Errors
    /// The failure that ended the load early, or Io if the watcher stopped it.
    pub fn whole(self) -> Result<Count, LoadError> {
        match self {
            Self { failure: Some(failure), .. } => Err(failure),
            Self { is_interrupted: true, .. } => Err(LoadError::Io("the load was stopped".into())),
            Self { count, .. } => Ok(count),
        }
    }
}

/// The most bytes of JSON between readers and writers, unless one document is longer.
const UNDER_WAY_BYTES: u64 = 32 << 20;
/// The size at which a batch is committed. 256 KiB: about 500 comments share the cost of a commit,
/// and a group of batches is small compared with any memory budget.
const BATCH_BYTES: u64 = 256 << 10;
/// How often the watcher is called.
const TICK: Duration = Duration::from_millis(50);

/// Waits for the last writer. Returns whether the watcher asked to stop meanwhile.
fn wait(
    end: &Receiver<()>,
    control: &Control,
    watcher: &mut dyn Watcher,
    now: impl Fn() -> (Duration, Count),
) -> bool {
    let mut is_interrupted = false;
    while end.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if watcher.stops() {
            is_interrupted = true;
            control.stop();
        }
        let (took, count) = now();
        watcher.tick(took, count);
    }
    is_interrupted
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, LoadError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(run);
    thread.map_err(|error| LoadError::Io(format!("cannot start a thread: {error}")))
}

fn join(threads: Vec<JoinHandle<()>>) -> Result<(), LoadError> {
    for thread in threads {
        if thread.join().is_err() {
            return Err(LoadError::Io("a thread of the load ended by a panic".into()));
        }
    }
    Ok(())
}
