//! Record batches of a query, one after another.

use crate::batch::{BatchLimits, Batcher, Filled};
use crate::column::Columns;
use crate::fill::OnMismatch;
use crate::parallel::Threads;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use flagstone::internal::{explain_values, value_parts};
use flagstone::query::{Explain, Values};
use flagstone::{Find, Result};

/// A batch ends with the document that exceeds this many bytes, far below the 2 GiB that the
/// offsets of text reach.
const BATCH_BYTES: usize = 64 << 20;
/// The parts for each thread: those that are done first take more.
const PARTS_PER_THREAD: usize = 8;
/// The most threads, if nobody says how many.
const THREADS_MAX: usize = 8;

/// How a stream is filled.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// What becomes of a value that does not fit the type of its column.
    pub on_mismatch: OnMismatch,
    /// The rows of a batch, at most.
    pub rows: usize,
    /// The threads that fill batches, at most. With one of them the reader fills each batch itself.
    pub threads: usize,
}

impl Default for StreamOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { on_mismatch: OnMismatch::Error, rows: 16_384, threads: cores.min(THREADS_MAX) }
    }
}

/// An iterator over record batches. It ends after an error. Memory is bounded by a few batches for
/// each thread.
///
/// The rows have the order of the query if it has a sort, otherwise no particular one. All of them
/// are as of one moment.
pub struct Stream {
    schema: SchemaRef,
    source: Source,
}

enum Source {
    One(Box<Values<'static>>, Box<Batcher>),
    Many(Threads),
    Ended,
}

impl Stream {
    /// Runs the query.
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn new(columns: &Columns, find: &Find<'static>, options: StreamOptions) -> Result<Self> {
        let schema = columns.schema();
        let StreamOptions { on_mismatch, rows, threads } = options;
        let most = threads.saturating_mul(PARTS_PER_THREAD);
        let mut parts = value_parts(find, &columns.paths(), if threads > 1 { most } else { 1 })?;
        let threads = threads.min(parts.len());
        let limits = BatchLimits { rows, bytes: BATCH_BYTES / threads.max(1) };
        let batcher = || Batcher::new(columns, on_mismatch, limits);
        let source = match (parts.pop(), threads) {
            (None, _) => Source::Ended,
            (Some(only), 0 | 1) => Source::One(Box::new(only.run()?), Box::new(batcher())),
            (Some(last), _) => {
                parts.push(last);
                Source::Many(Threads::start(parts, threads, batcher)?)
            }
        };
        Ok(Self { schema, source })
    }

    /// Says how the query of a stream is run, and why.
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn explain(columns: &Columns, find: &Find<'static>) -> Result<Explain> {
        explain_values(find, &columns.paths())
    }

    /// Returns the schema of all batches.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &mut self.source {
            Source::One(values, batcher) => next_of(values, batcher).transpose(),
            Source::Many(threads) => threads.next(),
            Source::Ended => None,
        };
        if !matches!(next, Some(Ok(_))) {
            self.source = Source::Ended;
        }
        next
    }
}

fn next_of(values: &mut Values<'_>, batcher: &mut Batcher) -> Result<Option<RecordBatch>> {
    // Documents that have just expired give no row, so a batch may end without one.
    loop {
        let filled = batcher.fill(values)?;
        let batch = batcher.finish()?;
        if batch.is_some() || filled == Filled::All {
            return Ok(batch);
        }
    }
}

impl std::iter::FusedIterator for Stream {}
