//! Record batches that several threads fill, each from parts of one query.
//!
//! ```text
//! parts --one after another--> threads --batches, a few at most--> the consumer
//! ```
//! The threads end when the parts do, at the first error, and soon after the consumer is gone.

use crate::batch::{Batcher, Filled};
use arrow_array::RecordBatch;
use flagstone::internal::ValuePart;
use flagstone::internal::interruptible;
use flagstone::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The consumer asks this often whether it is to be interrupted, while it waits.
const ASK_EVERY: Duration = Duration::from_millis(20);

thread_local! {
    /// Set when the work of this thread is to end.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Threads that fill batches.
pub(crate) struct Threads {
    /// `None` once the threads are to end.
    batches: Option<Receiver<Result<RecordBatch>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads share.
struct Shared {
    parts: Mutex<std::vec::IntoIter<ValuePart<'static>>>,
    stop: Arc<AtomicBool>,
}

impl Threads {
    /// Starts `count` threads that fill batches from `parts`.
    ///
    /// # Errors
    /// Io if the system has no thread left.
    pub(crate) fn start(
        parts: Vec<ValuePart<'static>>,
        count: usize,
        batcher: impl Fn() -> Batcher,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let parts = Mutex::new(parts.into_iter());
        let shared = Arc::new(Shared { parts, stop: Arc::clone(&stop) });
        // One batch waits for each thread that fills the next.
        let (sender, batches) = sync_channel(count);
        let mut threads = Self { batches: Some(batches), stop, threads: Vec::new() };
        for _ in 0..count {
            let (shared, sender, batcher) = (Arc::clone(&shared), sender.clone(), batcher());
            let thread = Builder::new().name("flagstone-arrow".into());
            let started = thread.spawn(move || run(&shared, batcher, &sender));
            match started {
                Ok(thread) => threads.threads.push(thread),
                // Fewer threads do as well.
                Err(_none_left) if !threads.threads.is_empty() => break,
                Err(error) => {
                    let text = format!("a thread that fills record batches: {error}");
                    return Err(Error::new(ErrorKind::Io, text));
                }
            }
        }
        Ok(threads)
    }

    /// Returns the next batch; `None` at the end. After an error there is nothing more.
    pub(crate) fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            // Also where no batch has to be waited for.
            if let Err(error) = flagstone::internal::interrupt_check() {
                self.end();
                return Some(Err(error));
            }
            match self.batches.as_ref()?.recv_timeout(ASK_EVERY) {
                Ok(Ok(batch)) => return Some(Ok(batch)),
                Ok(Err(error)) => {
                    self.end();
                    return Some(Err(error));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    // A thread that has panicked sends nothing.
                    if let Some(panic) = self.end() {
                        resume_unwind(panic);
                    }
                    return None;
                }
            }
        }
    }

    /// Ends the threads. Returns the panic of one.
    fn end(&mut self) -> Option<Box<dyn std::any::Any + Send>> {
        self.stop.store(true, Ordering::Release);
        // Whoever waits to send a batch goes on, and ends.
        self.batches = None;
        let mut panic = None;
        for thread in self.threads.drain(..) {
            // All are waited for, also after a panic of one.
            if let Err(found) = thread.join() {
                panic = Some(found);
            }
        }
        panic
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _panic = self.end();
    }
}

fn run(shared: &Shared, batcher: Batcher, sender: &SyncSender<Result<RecordBatch>>) {
    STOP.set(Some(Arc::clone(&shared.stop)));
    if let Err(error) = interruptible(is_stopped, || fill(shared, batcher, sender)) {
        // Without a consumer nobody is told.
        let _is_gone = sender.send(Err(error));
    }
}

fn is_stopped() -> bool {
    STOP.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Ordering::Acquire)))
}

fn fill(
    shared: &Shared,
    mut batcher: Batcher,
    sender: &SyncSender<Result<RecordBatch>>,
) -> Result<()> {
    loop {
        let part = shared.parts.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(part) = part else { break };
        let mut values = part.run()?;
        while batcher.fill(&mut values)? == Filled::Batch {
            let Some(batch) = batcher.finish()? else { continue };
            if shared.stop.load(Ordering::Acquire) || sender.send(Ok(batch)).is_err() {
                return Ok(());
            }
        }
    }
    if let Some(batch) = batcher.finish()? {
        let _is_gone = sender.send(Ok(batch));
    }
    Ok(())
}
