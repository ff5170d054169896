//! Starts the threads of a load, waits for them, and returns the outcome.

use crate::bad_documents::BadDocuments;
use crate::control::Control;
use crate::error::LoadError;
use crate::input::{Form, Input};
use crate::job::{Job, Mode};
use crate::key::Key;
use crate::lane::Lane;
use crate::marks::{self, LoadId, Marks, Position, START_OVER};
use crate::parse;
use crate::read::first_chunk;
use crate::reading::{Compared, Reading, spawn};
use crate::totals::{Count, OnCommit};
use crate::write::Writer;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use flagstone::doc::{JsonMode, JsonOptions};
use flagstone::internal::Shard;
use flagstone::{Collection, Database, Durability, Moment, Options, Space};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The plan of a load: inputs, collection, numbers of threads. [`Plan::run`] carries it out.
pub struct Plan {
    /// The database of the collection.
    pub database: Database,
    /// The collection that gets the documents.
    pub collection: Collection,
    /// The inputs, in the order in which they are loaded.
    pub inputs: Vec<Input>,
    /// Where the primary key of each document comes from.
    pub key: Key,
    /// What is done with each document.
    pub mode: Mode,
    /// Only documents of this shard are loaded, if it is set: several loads of the same inputs, one
    /// for each shard, load all of them. Each has marks of its own.
    pub shard: Option<Shard>,
    /// The options of each put.
    pub expires: Option<Moment>,
    /// The number of threads that read; a plain file is split between them.
    pub readers: u16,
    /// The number of threads that parse.
    pub parsers: u16,
    /// The number of threads that commit. Each key belongs to one of them.
    pub writers: u16,
    /// The durability of an acknowledged document.
    pub durability: Durability,
    /// The database's memory budget, in bytes: batches stay small compared with it.
    pub memory_budget: u64,
    /// How documents that cannot be loaded are treated.
    pub bad: BadDocuments,
    /// Whether a key that exists ends the load, if documents are inserted.
    pub stops_on_error: bool,
    /// Whether the load continues one that was stopped and had this set, too: each document is put
    /// once. How far it came is in a keyspace of the database until its documents are gone: when
    /// the collection was dropped, or emptied, or documents were removed by range or filter, the
    /// load begins at the start. What the other load has read is read again first, and must be the
    /// same. If that was complete, and all inputs are regular files, what has come behind its end
    /// is loaded, which may be nothing; other text is loaded from the start.
    pub resumes: bool,
    /// How JSON is read: forms of Extended JSON as values, if its mode says so.
    pub json: JsonOptions,
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
            key: Key::Path("id".into()),
            mode: Mode::default(),
            shard: None,
            expires: None,
            readers: 1,
            parsers: cores.min(64) as u16,
            writers: 2,
            durability: Durability::Buffered,
            memory_budget: Options::default().memory_budget,
            bad: BadDocuments::stop(),
            stops_on_error: false,
            resumes: false,
            json: JsonOptions::new(),
            on_commit: None,
        }
    }

    /// Refuses what [`Plan::run`] would refuse before it puts a document, as far as that can be
    /// known: settings that do not go together, and regular files with another header than
    /// expected, or a first document that would end the load. Nothing is written.
    ///
    /// # Errors
    /// As those of [`Plan::run`], and of its outcome.
    pub fn check(&self) -> Result<(), LoadError> {
        self.check_settings()?;
        self.inputs.iter().try_for_each(|input| {
            let Some((chunk, table)) = first_chunk(input, &self.key)? else { return Ok(()) };
            if self.bad.are_copied() {
                return Ok(());
            }
            parse::check_first(&self.collection, self.json, &self.key, input, &chunk, table)
        })
    }

    /// Runs the load and reports to `watcher`. A failure of the load itself is in the outcome.
    ///
    /// # Errors
    /// When a thread cannot be started or panicked, bad documents cannot be written to their file,
    /// options do not go together, or a load that was stopped had other inputs or settings than
    /// this one, which continues it.
    pub fn run(mut self, watcher: &mut dyn Watcher) -> Result<Outcome, LoadError> {
        let started = Instant::now();
        self.check_settings()?;
        let inputs = Arc::new(std::mem::take(&mut self.inputs));
        let inputs_bytes: Option<u64> = inputs.iter().map(|input| input.bytes).sum();
        let mut marks = self.marks(&inputs)?;
        let mut reading = None;
        if let Some(marks) = marks.as_mut().filter(|marks| marks.are_complete()) {
            let took = || started.elapsed();
            match self.compare(&inputs, marks, &*watcher)? {
                Compared::Longer(longer) => reading = Some(longer),
                Compared::Other => marks.begin(&self.database, self.writers)?,
                Compared::Same => {
                    return Ok(Outcome { took: took(), was_complete: true, ..Outcome::default() });
                }
                Compared::Stopped => {
                    return Ok(Outcome {
                        took: took(),
                        is_interrupted: true,
                        ..Outcome::default()
                    });
                }
            }
        }
        let start = marks.as_ref().map_or(Position::default(), Marks::start);
        let is_continued = |marks: &Marks| marks.continue_one() || marks.are_complete();
        let continues = marks.as_ref().is_some_and(is_continued);
        let ready = check_lengths(&inputs, marks.as_ref().map_or(start, |marks| marks.end().place))
            .and_then(|()| self.begin_copies(marks.as_ref()));
        if let (Err(_), Some(marks)) = (&ready, &marks) {
            marks.end_without_any(&self.database);
        }
        ready?;
        let reading = match reading {
            Some(reading) => reading,
            None => self.read(&inputs, marks.as_ref())?,
        };
        let job = Arc::new(self.into_job(inputs, marks, &reading));
        // Without threads that work on it, a load ends.
        let started_all = Starting(&job);
        let mut threads = Vec::new();
        for _ in 0..job.parsers.load(Ordering::Relaxed) {
            let (job, parcels) = (Arc::clone(&job), reading.parcels.clone());
            threads.push(spawn("load-parse", move || parse::run(&job, &parcels))?);
        }
        // The channel is closed when the last writer ends.
        let (end_sender, end) = bounded::<()>(0);
        for lane in 0..job.lanes.len() {
            let writer = Writer { job: Arc::clone(&job), lane, marked: Cell::new(0) };
            let end_sender = end_sender.clone();
            threads.push(spawn("load-write", move || {
                writer.run();
                drop(end_sender);
            })?);
        }
        drop(end_sender);
        std::mem::forget(started_all);

        watcher.start(inputs_bytes);
        let now = || (started.elapsed(), job.totals.now());
        let is_interrupted = wait(&end, &job.control, watcher, now);
        join(threads)?;
        let (took, count) = now();
        watcher.end(took, count);
        job.bad.flush()?;
        let failure = job.control.take_failure();
        let input = job.inputs.get(start.input).filter(|_| continues);
        let resumed_at = input.map(|input| (input.name.clone(), start.offset));
        if failure.is_none() && !is_interrupted {
            complete(&job, &reading)?;
        } else if let Some(marks) =
            job.marks.as_ref().filter(|_| count.has_nothing() && !job.bad.are_copied())
        {
            marks.end_without_any(&job.database);
        }
        Ok(Outcome { count, took, is_interrupted, failure, resumed_at, was_complete: false })
    }

    /// Starts the threads that read.
    fn read(&self, inputs: &Arc<Vec<Input>>, marks: Option<&Marks>) -> Result<Reading, LoadError> {
        let ahead = usize::from(self.parsers) * 2;
        let marks = marks.map(|marks| (marks.start(), marks.end()));
        Reading::start(inputs, &self.key, marks, self.readers, ahead)
    }

    /// Compares the inputs with the text that a complete load with these marks has read.
    fn compare(
        &self,
        inputs: &Arc<Vec<Input>>,
        marks: &Marks,
        watcher: &dyn Watcher,
    ) -> Result<Compared, LoadError> {
        if !inputs.iter().all(Input::is_repeatable) {
            return Ok(Compared::Other);
        }
        self.read(inputs, Some(marks))?.compare(|| watcher.stops(), TICK)
    }

    /// Begins the file of bad documents.
    fn begin_copies(&self, marks: Option<&Marks>) -> Result<(), LoadError> {
        self.bad.begin(marks)?;
        match marks {
            // The copies of the complete load may be gone: they are not expected any more.
            Some(marks) if marks.are_complete() && self.bad.are_copied() => {
                let mut batch = self.database.batch();
                self.bad.mark(&mut batch, marks)?;
                Ok(self.database.commit(batch.durability(self.durability))?)
            }
            _ => Ok(()),
        }
    }

    /// Refuses what does not go together.
    fn check_settings(&self) -> Result<(), LoadError> {
        self.key.check(self.inputs.len(), self.mode == Mode::Merge).map_err(LoadError::Usage)?;
        let is_auto = self.key == Key::Auto;
        let is_made = |input: &Input| matches!(input.form, Form::Made(..));
        if (is_auto || self.resumes) && self.inputs.iter().any(is_made) {
            let text = "generated documents have no place in an input: expected a path as the key, \
                        and no load that can be continued";
            return Err(LoadError::Usage(text.to_owned()));
        }
        Ok(())
    }

    /// Opens the marks of the load that is continued, or removes those of an earlier one.
    fn marks(&self, inputs: &[Input]) -> Result<Option<Marks>, LoadError> {
        if !self.resumes {
            marks::remove(&self.database, &self.collection, self.shard)?;
            return Ok(None);
        }
        let expires = self.expires.is_some();
        let mut settings = settings(&self.key, self.json, self.mode, expires, inputs);
        settings.extend(self.shard.map(|shard| ("--shard", shard.to_string())));
        let (database, collection) = (&self.database, &self.collection);
        Marks::open(database, collection, self.shard, &settings, self.writers).map(Some)
    }

    fn into_job(self, inputs: Arc<Vec<Input>>, marks: Option<Marks>, reading: &Reading) -> Job {
        let parsers = usize::from(self.parsers);
        let writers = marks.as_ref().map_or(usize::from(self.writers), Marks::writers);
        let chunks_max = 2 * parsers as u64 + CHUNKS_AHEAD;
        let keeps_text = self.mode.needs_text() || !self.collection.indexes().is_empty();
        Job {
            database: self.database,
            collection: self.collection,
            key: self.key,
            load: marks.as_ref().map_or_else(LoadId::now, Marks::load),
            mode: self.mode,
            shard: self.shard,
            keeps_text,
            expires: self.expires,
            durability: self.durability,
            stops_on_error: self.stops_on_error,
            batch_bytes: BATCH_BYTES.min(self.memory_budget / 16) as usize,
            inputs,
            bad: self.bad,
            json: self.json,
            on_commit: self.on_commit,
            marks,
            control: Arc::clone(&reading.control),
            totals: Arc::clone(&reading.totals),
            lanes: (0..writers).map(|_| Lane::new(chunks_max)).collect(),
            parsers: AtomicUsize::new(parsers),
        }
    }
}

/// Notes that a load with marks is complete. Text that can be read only once cannot be compared
/// with that of a later load, which begins at the start. So does a load of documents that may have
/// expired by then.
fn complete(job: &Job, reading: &Reading) -> Result<(), LoadError> {
    let (Some(marks), Some(end)) = (&job.marks, reading.end()) else { return Ok(()) };
    let is_repeatable = job.inputs.iter().all(Input::is_repeatable);
    if !is_repeatable || marks::may_expire(&job.database, &job.collection) {
        return marks::remove_at_end(&job.database, &job.collection, job.shard);
    }
    // As durable as the documents.
    Ok(marks.end_at(&job.database, end, Some(job.durability))?)
}

/// Returns what must be the same for a load to be continued.
pub(crate) fn settings(
    key: &Key,
    json: JsonOptions,
    mode: Mode,
    expires: bool,
    inputs: &[Input],
) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("--key", key.text()),
        ("--mode", format!("{mode:?}").to_lowercase()),
        ("--extended-json", (json.mode == JsonMode::Extended).to_string()),
        ("--expires", if expires { "set" } else { "not set" }.to_owned()),
    ];
    for input in inputs {
        settings.push(("the file", format!("{:?} as {}", input.name, input.format)));
    }
    settings
}

/// Ends a load of which not all threads could be started.
struct Starting<'a>(&'a Job);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.control.stop();
        self.0.lanes.iter().for_each(Lane::abandon);
    }
}

/// Refuses inputs that are shorter than when a load came to `end`.
pub(crate) fn check_lengths(inputs: &[Input], end: Position) -> Result<(), LoadError> {
    match inputs.get(end.input) {
        Some(Input { name, bytes: Some(bytes), form: Form::Plain(..), .. })
            if end.offset > *bytes =>
        {
            Err(LoadError::Usage(format!(
                "{name} has {bytes} bytes: the load that was stopped came to byte {}; {START_OVER}",
                end.offset
            )))
        }
        _ => Ok(()),
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
#[derive(Debug, Default)]
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
    /// The input and the offset at which the load continued an earlier one.
    pub resumed_at: Option<(String, u64)>,
    /// Whether nothing was done because an earlier load of the same text was complete.
    pub was_complete: bool,
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

/// How many chunks the parsers may be ahead of a writer, besides two for each parser: enough that
/// the others work on while the system lets one of them wait.
const CHUNKS_AHEAD: u64 = 8;
/// The size at which a batch is committed. 256 KiB: about 500 comments share the cost of a commit,
/// and a group of batches is small compared with any memory budget.
const BATCH_BYTES: u64 = 256 << 10;
/// How often the watcher is called.
pub(crate) const TICK: Duration = Duration::from_millis(50);

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

fn join(threads: Vec<JoinHandle<()>>) -> Result<(), LoadError> {
    for thread in threads {
        if thread.join().is_err() {
            return Err(LoadError::Io("a thread of the load ended by a panic".into()));
        }
    }
    Ok(())
}
