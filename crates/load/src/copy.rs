//! Copies the documents of a collection into another one, wherever the two are.
//!
//! ```text
//! Carrier, in the order of keys --> a thread that fills batches --> commits, each with its mark
//! ```
//! **A copy goes on** behind its last mark, if the source says that it is the same. A copy that is
//! finished is not done again. It begins only in an empty collection, so that there is nothing
//! beside the documents of the source. In a cluster a mark comes after its documents, and those
//! behind the last one are put once more.
//!
//! Memory holds four batches, whatever the size of the collection.

use crate::error::LoadError;
use crate::marks::{Mark, Marks};
use crate::pipeline::{TICK, Watcher};
use crate::reading::spawn;
use crate::totals::{Count, Totals};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use flagstone::internal::Carrier;
use flagstone::remote::shown_key;
use flagstone::{Batch, Collection, Database, Snapshot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A batch that has so many bytes or documents is committed. A cluster writes the documents of a
/// batch by buckets, side by side, so it has many.
const BATCH_BYTES: usize = 2 << 20;
const BATCH_DOCUMENTS: usize = 3_000;

/// What the marks call the source.
const SOURCE: &str = "the source of a copy";

/// A copy of one collection.
pub struct Copy<'c> {
    /// The collection that is read.
    pub from: &'c Collection,
    /// The moment as of which it is read, if it is in a directory.
    pub at: Option<&'c Snapshot>,
    /// What says that the collection is the same, and in a directory unchanged.
    pub source: String,
    /// The collection that gets the documents.
    pub to: &'c Collection,
    /// The database whose commits write to `to`.
    pub database: &'c Database,
    /// About how many bytes there are to read, for the watcher.
    pub bytes: Option<u64>,
}

/// What a copy did.
#[derive(Debug, Default)]
#[must_use]
pub struct Copied {
    /// The documents that were put.
    pub documents: u64,
    /// The bytes of their keys and of their self-contained forms.
    pub bytes: u64,
    /// The time that it took.
    pub took: Duration,
    /// The key behind which it went on with a copy that was stopped, if it did.
    pub resumed_behind: Option<String>,
    /// Whether nothing was done because an earlier copy was finished.
    pub was_complete: bool,
    /// Whether the watcher has stopped it.
    pub is_interrupted: bool,
}

/// Documents for one commit.
struct Part {
    batch: Batch,
    count: Count,
    /// The sort key of the last one.
    last: Vec<u8>,
}

impl Copy<'_> {
    /// Refuses a target that [`Copy::run`] would refuse. No document is put.
    ///
    /// # Errors
    /// As [`Copy::run`].
    pub fn check(&self) -> Result<(), LoadError> {
        self.marks().map(drop)
    }

    /// Copies the documents. If the watcher stops the copy, what was read by then is still put.
    ///
    /// # Errors
    /// Usage if the target has documents that are not of this copy, or a collection has the name
    /// under which marks are kept. Of the databases, with the key of the document that is refused:
    /// what was copied stays, and the next copy goes on there.
    pub fn run(&self, watcher: &mut dyn Watcher) -> Result<Copied, LoadError> {
        let started = Instant::now();
        let marks = self.marks()?;
        if marks.are_complete() {
            let took = started.elapsed();
            return Ok(Copied { took, was_complete: true, ..Copied::default() });
        }
        let after = marks.copied()?;
        let carrier = Carrier::new(self.from, self.at, after.as_deref())?;
        let (stop, (sender, parts)) = (Arc::new(AtomicBool::new(false)), bounded(1));
        let reader = {
            let (to, stop) = (self.to.clone(), Arc::clone(&stop));
            spawn("copy-read", move || {
                // Nobody waits for what is read after a commit that has failed.
                let _gone = read(carrier, &to, &sender, &stop)
                    .or_else(|error| sender.send(Err(error)).map_err(|_gone| LoadError::gone()));
            })?
        };
        watcher.start(self.bytes);
        let totals = Totals::default();
        let written = self.write(&marks, &parts, &totals, &stop, started, watcher);
        stop.store(true, Ordering::Relaxed);
        drop(parts);
        if reader.join().is_err() {
            return Err(LoadError::Io("a thread of the copy ended by a panic".into()));
        }
        let count = totals.now();
        watcher.end(started.elapsed(), count);
        let is_interrupted = written?;
        Ok(Copied {
            documents: count.documents,
            bytes: count.input_bytes,
            took: started.elapsed(),
            resumed_behind: after.map(|key| shown_key(&key)),
            was_complete: false,
            is_interrupted,
        })
    }

    /// Notes that all is done, also what follows the copy: the same one has nothing to do then, as
    /// long as its documents are there.
    ///
    /// # Errors
    /// As [`Copy::run`].
    pub fn finish(&self) -> Result<(), LoadError> {
        Ok(self.marks()?.end_at(self.database, Mark::default(), None)?)
    }

    fn marks(&self) -> Result<Marks, LoadError> {
        Marks::of_copy(self.database, self.to, &[(SOURCE, self.source.clone())])
    }

    /// Commits what is read. Returns whether the watcher has stopped the copy.
    fn write(
        &self,
        marks: &Marks,
        parts: &Receiver<Result<Part, LoadError>>,
        totals: &Totals,
        stop: &AtomicBool,
        started: Instant,
        watcher: &mut dyn Watcher,
    ) -> Result<bool, LoadError> {
        let mut is_interrupted = false;
        loop {
            if !is_interrupted && watcher.stops() {
                is_interrupted = true;
                stop.store(true, Ordering::Relaxed);
            }
            match parts.recv_timeout(TICK) {
                Ok(part) => {
                    let Part { mut batch, count, last } = part?;
                    marks.put_copied(&mut batch, &last)?;
                    self.database.commit(batch)?;
                    totals.add(count);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(is_interrupted),
            }
            watcher.tick(started.elapsed(), totals.now());
        }
    }
}

/// Reads documents into parts, until it is to stop.
fn read(
    mut carrier: Carrier,
    to: &Collection,
    parts: &Sender<Result<Part, LoadError>>,
    stop: &AtomicBool,
) -> Result<(), LoadError> {
    let new = || Part { batch: Batch::default(), count: Count::default(), last: Vec::new() };
    let send = |part: Part| parts.send(Ok(part)).map_err(|_gone| LoadError::gone());
    let mut part = new();
    while !stop.load(Ordering::Relaxed) && carrier.advance()? {
        let carried = carrier.current();
        carried.put(&mut part.batch, to)?;
        part.count.documents += 1;
        part.count.input_bytes += carried.bytes() as u64;
        let is_full = part.batch.bytes() >= BATCH_BYTES || part.batch.len() >= BATCH_DOCUMENTS;
        if is_full {
            part.last = carried.key.to_vec();
            send(std::mem::replace(&mut part, new()))?;
        } else {
            part.last.clear();
            part.last.extend_from_slice(carried.key);
        }
    }
    if part.batch.is_empty() { Ok(()) } else { send(part) }
}

/// A sample is enough to know how long documents are.
const SAMPLE: u64 = 1_000;

/// Returns about how many bytes the documents of a collection have, by the first of them.
///
/// # Errors
/// Those of the database.
pub fn bytes_about(collection: &Collection, at: Option<&Snapshot>) -> Result<u64, LoadError> {
    use flagstone::Space;
    let mut carrier = Carrier::new(collection, at, None)?.unordered();
    let (mut documents, mut bytes) = (0, 0);
    while documents < SAMPLE && carrier.advance()? {
        documents += 1;
        bytes += carrier.current().bytes() as u64;
    }
    if documents < SAMPLE {
        return Ok(bytes);
    }
    let all = u128::from(bytes) * u128::from(collection.approximate_count());
    Ok(u64::try_from(all / u128::from(documents)).unwrap_or(u64::MAX))
}
