//! Starts the threads of a load, waits for them, and says what came of it.

use super::bad::BadDocuments;
use super::control::Control;
use super::gate::Gate;
use super::input::Input;
use super::parse::Parser;
use super::progress::Progress;
use super::read::{Reader, tasks};
use super::totals::{Count, Totals};
use super::write::Writer;
use crate::failure::Failure;
use crate::interrupt;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use flagstone::{Collection, Database, Durability};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A load: what goes where, and by how many threads.
pub(crate) struct Plan {
    pub(crate) database: Database,
    pub(crate) collection: Collection,
    pub(crate) inputs: Vec<Input>,
    pub(crate) key_path: String,
    pub(crate) readers: u16,
    pub(crate) parsers: u16,
    pub(crate) writers: u16,
    pub(crate) durability: Durability,
    pub(crate) memory_budget: u64,
    pub(crate) bad: BadDocuments,
}

/// What came of a load.
pub(crate) struct Outcome {
    pub(crate) count: Count,
    pub(crate) took: Duration,
    /// Somebody asked to stop before the end.
    pub(crate) is_interrupted: bool,
    /// Why it ended before the end.
    pub(crate) failure: Option<Failure>,
}

/// The most bytes of JSON between readers and writers, unless one document is longer.
const UNDER_WAY_BYTES: u64 = 32 << 20;
/// A batch is committed when it has so many bytes. 256 KiB: about 500 comments share the cost of a
/// commit, and a group of them stays small beside any memory budget.
const BATCH_BYTES: u64 = 256 << 10;
/// How often somebody who asks to stop is heard.
const TICK: Duration = Duration::from_millis(50);

/// Carries out `plan`, showing `progress`.
pub(crate) fn carry_out(plan: Plan, mut progress: Progress) -> Result<Outcome, Failure> {
    let started = Instant::now();
    let inputs_bytes: Option<u64> = plan.inputs.iter().map(|input| input.bytes).sum();
    let control = Arc::new(Control::default());
    let totals = Arc::new(Totals::default());
    let bad = Arc::new(plan.bad);
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

    progress.start(inputs_bytes);
    let is_interrupted = wait(&end, &control, || progress.tick(started.elapsed(), totals.now()));
    join(threads)?;
    let (took, count) = (started.elapsed(), totals.now());
    progress.end(took, count);
    bad.flush()?;
    Ok(Outcome { count, took, is_interrupted, failure: control.take_failure() })
}

/// Waits for the last writer; whether somebody asked to stop meanwhile.
fn wait(end: &Receiver<()>, control: &Control, mut tick: impl FnMut()) -> bool {
    let mut is_interrupted = false;
    while end.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if interrupt::is_asked() {
            is_interrupted = true;
            control.stop();
        }
        tick();
    }
    is_interrupted
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Failure> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(run);
    thread.map_err(|error| Failure::Io(format!("cannot start a thread: {error}")))
}

fn join(threads: Vec<JoinHandle<()>>) -> Result<(), Failure> {
    for thread in threads {
        if thread.join().is_err() {
            return Err(Failure::Io("a thread of the load ended by a panic".into()));
        }
    }
    Ok(())
}
