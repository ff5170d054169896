//! Starts the threads of a load, waits for them, and says what came of it.

use crate::bad::BadDocuments;
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

/// A load: what goes where, and by how many threads.
pub struct Plan {
    /// Where the collection is.
    pub database: Database,
    /// What gets the documents.
    pub collection: Collection,
    /// What is loaded.
    pub inputs: Vec<Input>,
    /// The dotted path of the primary key in each document.
    pub key_path: String,
    /// Threads that read; a plain file is split between them.
    pub readers: u16,
    /// Threads that parse.
    pub parsers: u16,
    /// Threads that commit.
    pub writers: u16,
    /// What an acknowledged document survives.
    pub durability: Durability,
    /// The database's memory budget, in bytes: batches and chunks under way stay small beside it.
    pub memory_budget: u64,
    /// What happens to documents that cannot be loaded.
    pub bad: BadDocuments,
    /// Hears how long each commit took.
    pub on_commit: Option<OnCommit>,
}

impl Plan {
    /// Loads `inputs` with keys at `id`, one reader, a parser a core, two writers, acknowledged as
    /// `Buffered`; the first bad document ends it.
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

/// Looks on while a load runs, called some times a second by the thread that carries it out.
pub trait Watcher {
    /// The load begins; how many bytes its inputs are as they lie, if all tell.
    fn start(&mut self, _input_bytes: Option<u64>) {}

    /// So much is done after `took`.
    fn tick(&mut self, _took: Duration, _count: Count) {}

    /// The load is over.
    fn end(&mut self, _took: Duration, _count: Count) {}

    /// Whether it is to stop: what was read by then is still loaded.
    fn stops(&self) -> bool {
        false
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watcher for Unwatched {}

/// What came of a load.
#[derive(Debug)]
#[must_use]
pub struct Outcome {
    /// What it did.
    pub count: Count,
    /// How long it took, to the last acknowledgement.
    pub took: Duration,
    /// The watcher stopped it before the end.
    pub is_interrupted: bool,
    /// Why it ended before the end.
    pub failure: Option<LoadError>,
}

impl Outcome {
    /// What it did, if nothing ended it before the end.
    ///
    /// # Errors
    /// What did, if anything.
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
/// A batch is committed when it has so many bytes. 256 KiB: about 500 comments share the cost of a
/// commit, and a group of them stays small beside any memory budget.
const BATCH_BYTES: u64 = 256 << 10;
/// How often somebody who asks to stop is heard.
const TICK: Duration = Duration::from_millis(50);

/// Carries out `plan` under the eyes of `watcher`; a failure of the load itself stands in the outcome.
///
/// # Errors
/// When a thread cannot be started or panicked, or the bad documents cannot be written out.
pub fn carry_out(plan: Plan, watcher: &mut dyn Watcher) -> Result<Outcome, LoadError> {
    let started = Instant::now();
    let inputs_bytes: Option<u64> = plan.inputs.iter().map(|input| input.bytes).sum();
    let control = Arc::new(Control::default());
    let totals = Arc::new(Totals::default());
    let bad = Arc::new(plan.bad);
    bad.begin()?;
    let (parcel_sender, parcels) = bounded(usize::from(plan.parsers) * 2);
    let (work_sender, works) = bounded(usize::from(plan.writers) * 2);
    let inputs = Arc::new(plan.inputs);
    let tasks = Arc::new(Mutex::new(tasks(&inputs, plan.readers).into_iter()));
    let gate = Gate::new(UNDER_WAY_BYTES);

    for _ in 0..plan.readers {
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
    for _ in 0..plan.parsers {
        let parser = Parser {
            database: plan.database.clone(),
            collection: plan.collection.clone(),
            key_path: plan.key_path.clone(),
            batch_bytes: BATCH_BYTES.min(plan.memory_budget / 16) as usize,
            inputs: Arc::clone(&inputs),
            bad: Arc::clone(&bad),
            control: Arc::clone(&control),
            parcels: parcels.clone(),
            works: work_sender.clone(),
        };
        threads.push(spawn("load-parse", move || parser.run())?);
    }
    drop((work_sender, parcels));

    // The last writer to end closes this channel.
    let (end_sender, end) = bounded::<()>(0);
    for _ in 0..plan.writers {
        let writer = Writer {
            database: plan.database.clone(),
            durability: plan.durability,
            on_commit: plan.on_commit.clone(),
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

/// Waits for the last writer; whether the watcher asked to stop meanwhile.
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
