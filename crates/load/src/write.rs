//! A writer: commits the batches of its lane and counts what is acknowledged.

use crate::bad_documents::{BadCopy, DocumentText, Places};
use crate::error::LoadError;
use crate::job::{Job, Mode, Source, ToJson, Work};
use crate::marks::Mark;
use crate::totals::Count;
use flagstone::doc::json::JsonParser;
use flagstone::internal::write_remote;
use flagstone::load::{DocumentParser, ParsedDocument};
use flagstone::{Batch, Error, ErrorKind, MergePatch};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

/// A writer and what it needs.
pub(crate) struct Writer {
    pub(crate) job: Arc<Job>,
    pub(crate) lane: usize,
    /// The number of the chunk of the last mark.
    pub(crate) marked: Cell<u64>,
}

/// After how many chunks without a document for a writer it commits a mark by itself. A load that
/// continues holds the chunks between the first mark and the last in memory.
const CHUNKS_UNMARKED: u64 = 16;

/// The lane is abandoned when its writer ends: no parser waits for it.
impl Drop for Writer {
    fn drop(&mut self) {
        self.job.lanes[self.lane].abandon();
    }
}

impl Writer {
    pub(crate) fn run(self) {
        while let Some(work) = self.job.lanes[self.lane].pop() {
            let (rank, number, is_end) = (work.rank, work.number, work.is_end);
            if let Err(failure) = self.write(work) {
                let is_document = matches!(failure, LoadError::Exists(_) | LoadError::Usage(_));
                // Those of the database come first.
                let (rank, last) = if is_document { (rank, number) } else { ((0, 0), 0) };
                self.job.control.fail(rank, last, failure);
                return;
            }
            if is_end {
                return;
            }
        }
    }

    fn write(&self, mut work: Work) -> Result<(), LoadError> {
        let job = &*self.job;
        let mut count = work.count;
        let source = work.source.take();
        let written = match &source {
            Some(source) if job.mode == Mode::Merge && !source.documents.is_empty() => {
                self.each_alone(&mut work, source, &mut count, Try::First)
            }
            Some(source)
                if job.mode == Mode::Insert && job.is_remote() && !work.batch.is_empty() =>
            {
                self.insert_remote(&mut work, source, &mut count)
            }
            _ if work.batch.is_empty() && work.bad.is_empty() && !self.is_mark_due(&work) => Ok(()),
            _ => {
                self.marked.set(work.number);
                let batch = std::mem::take(&mut work.batch);
                match (self.commit_marked(batch, work.mark, &work.bad)?, &source) {
                    (Err(error), Some(source)) if job.mode.is_conflict(&error) => {
                        self.insert_new(&mut work, source, &mut count)
                    }
                    (Err(error), Some(source)) if is_refusal(&error) => {
                        self.each_alone(&mut work, source, &mut count, Try::First)
                    }
                    (Ok(()), _) => Ok(()),
                    (Err(error), _) => {
                        count.documents = 0;
                        Err(error.into())
                    }
                }
            }
        };
        job.totals.add(count);
        written
    }

    /// Returns whether a mark is to be committed although nothing else is.
    fn is_mark_due(&self, work: &Work) -> bool {
        let is_old = work.number >= self.marked.get() + CHUNKS_UNMARKED;
        self.job.marks.is_some() && work.is_last && is_old
    }

    /// Commits `batch` with the mark of this writer. Copies of documents before the mark come with
    /// it or not at all. Without marks they are written after it.
    fn commit_marked(
        &self,
        mut batch: Batch,
        mark: Mark,
        copies: &[BadCopy],
    ) -> Result<flagstone::Result<()>, LoadError> {
        let job = &*self.job;
        let Some(marks) = &job.marks else {
            let committed = if batch.is_empty() { Ok(()) } else { self.commit(batch) };
            if committed.is_ok() && !copies.is_empty() {
                job.bad.add(copies)?;
            }
            return Ok(committed);
        };
        // A batch of one long document may have no room for the mark, which follows then. What is
        // inserted has its mark with it: a load that continues would take it for another's.
        if job.mode != Mode::Insert && batch.bytes() >= 2 * job.batch_bytes {
            if let Err(error) = self.commit(batch) {
                return Ok(Err(error));
            }
            batch = job.database.batch();
        }
        if let Err(error) = marks.put_mark(&mut batch, self.lane, mark) {
            return Ok(Err(error));
        }
        if copies.is_empty() {
            return Ok(self.commit(batch));
        }
        job.bad.write_with(&BadCopy::text_of(copies), |end| {
            marks.put_copies(&mut batch, end)?;
            self.commit(batch)
        })
    }

    fn commit(&self, batch: Batch) -> flagstone::Result<()> {
        let started = Instant::now();
        let committed = self.job.database.commit(batch.durability(self.job.durability));
        if let Some(hear) = &self.job.on_commit {
            hear(started.elapsed());
        }
        committed
    }

    /// Inserts the documents of `source` whose keys do not exist, and counts the others.
    #[cold]
    fn insert_new(
        &self,
        work: &mut Work,
        source: &Source,
        count: &mut Count,
    ) -> Result<(), LoadError> {
        if self.job.stops_on_error {
            return self.each_alone(work, source, count, Try::First);
        }
        loop {
            count.documents = 0;
            let New { batch, existing, copies, inserted } = self.new_of(source)?;
            let before = work.bad.len();
            work.bad.extend(copies);
            let committed = self.commit_marked(batch, work.mark, &work.bad)?;
            work.bad.truncate(before);
            match committed {
                Ok(()) => {
                    (count.documents, count.existing) = (inserted, existing);
                    return Ok(());
                }
                // Another writer of this collection was faster.
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) if is_refusal(&error) => {
                    return self.each_alone(work, source, count, Try::First);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Inserts the documents of `source` in a cluster, which tells of each whether it did, and
    /// counts the others. The mark comes after them.
    fn insert_remote(
        &self,
        work: &mut Work,
        source: &Source,
        count: &mut Count,
    ) -> Result<(), LoadError> {
        let job = &*self.job;
        self.marked.set(work.number);
        count.documents = 0;
        let batch = std::mem::take(&mut work.batch);
        if job.stops_on_error {
            return self.each_alone(work, source, count, Try::First);
        }
        let started = Instant::now();
        let inserted = write_remote(batch);
        if let Some(hear) = &job.on_commit {
            hear(started.elapsed());
        }
        let inserted = match inserted {
            Ok(inserted) => inserted,
            Err(error) if is_refusal(&error) => {
                return self.each_alone(work, source, count, Try::Again);
            }
            Err(error) => return Err(error.into()),
        };
        if inserted.iter().all(|is_inserted| *is_inserted) {
            count.documents = source.documents.len() as u64;
        } else {
            let mut inserted = inserted.into_iter();
            let mut places = Places::new(&source.text.chunk);
            self.each(source, |at, document, _json, parsed| {
                let mode = job.mode_after(job.loaded(self.lane, &source.text, at, document));
                // It replaces a part of itself.
                let is_put = mode != Mode::Insert || inserted.next() == Some(true);
                if is_put || (job.may_be_ahead() && parsed.is_stored()?) {
                    count.documents += 1;
                    return Ok(());
                }
                count.existing += 1;
                if job.bad.are_copied() {
                    let document = DocumentText { at, text: document };
                    let input = &job.inputs[source.text.input];
                    let described = places.describe(input, document, 0, EXISTS);
                    work.bad.push(places.copy(document, &described));
                }
                Ok(())
            })?;
        }
        let marked = self.commit_marked(job.database.batch(), work.mark, &work.bad)?;
        Ok(marked?)
    }

    /// Writes the documents of `source` one after another: they are merged, or the database has
    /// refused one of them. Each that is inserted has a mark of its own, with the copies of bad
    /// documents before it, and so has each that is refused: its copy is not written again with the
    /// next. What may be done again has one mark after all of them.
    #[cold]
    fn each_alone(
        &self,
        work: &mut Work,
        source: &Source,
        count: &mut Count,
        which: Try,
    ) -> Result<(), LoadError> {
        let job = &*self.job;
        let may_be_ours = which == Try::Again || job.may_be_ahead();
        let text = &*source.text;
        let mut places = Places::new(&text.chunk);
        let mut bad = std::mem::take(&mut work.bad).into_iter().peekable();
        let mut copies = Vec::new();
        let (mut sum, mut summed) = (text.before, 0);
        count.documents = 0;
        let written = self.each(source, |at, document, json, parsed| {
            let end = at + document.len();
            sum = sum.map(|sum| sum.then(&text.chunk.bytes[summed..end]));
            summed = end;
            let mark = Mark { place: text.place(end), sum: sum.map_or(0, |sum| sum.value()) };
            while let Some(before) = bad.next_if(|bad| bad.at < at) {
                copies.push(before);
            }
            let mode = job.mode_after(job.loaded(self.lane, text, at, document));
            let one = if mode == Mode::Insert && may_be_ours && parsed.is_stored()? {
                One::Written
            } else {
                self.write_one(mode, json, parsed, mark, &mut copies)?
            };
            let is_refused = matches!(one, One::Refused(_));
            let (reason, stops, failure): (_, _, fn(String) -> LoadError) = match one {
                One::Written => {
                    count.documents += 1;
                    return Ok(());
                }
                One::Exists => {
                    count.existing += 1;
                    (EXISTS.to_owned(), job.stops_on_error, LoadError::Exists)
                }
                One::Refused(error) => {
                    count.bad += 1;
                    let is_there = error.kind() == ErrorKind::Duplicate;
                    let failure = if is_there { LoadError::Exists } else { LoadError::Usage };
                    (error.to_string(), !job.bad.are_copied(), failure)
                }
            };
            if !stops && !job.bad.are_copied() {
                return Ok(());
            }
            let document = DocumentText { at, text: document };
            let described = places.describe(&job.inputs[text.input], document, 0, &reason);
            if stops {
                return Err(failure(described));
            }
            copies.push(places.copy(document, &described));
            if is_refused && job.mode == Mode::Insert {
                self.commit_marked(job.database.batch(), mark, &copies)??;
                copies.clear();
            }
            Ok(())
        });
        if written.is_err() && job.marks.is_some() {
            // What has no mark yet is done again by a load that continues.
            return written;
        }
        copies.extend(bad);
        let marked = self.commit_marked(job.database.batch(), work.mark, &copies)?;
        written.and(marked.map_err(LoadError::from))
    }

    /// Writes a document by itself; if it is inserted, with the mark after it and the copies before
    /// that, which are removed from `copies` then.
    fn write_one(
        &self,
        mode: Mode,
        json: &[u8],
        parsed: &ParsedDocument<'_>,
        mark: Mark,
        copies: &mut Vec<BadCopy>,
    ) -> Result<One, LoadError> {
        let job = &*self.job;
        let mut commit = |batch: Batch| {
            let committed = self.commit_marked(batch, mark, copies)?;
            if committed.is_ok() {
                copies.clear();
            }
            Ok::<_, LoadError>(committed)
        };
        let mut batch = job.database.batch();
        let written = match mode {
            Mode::Merge => {
                let started = Instant::now();
                let value = JsonParser::new(job.json).parse_value(json).map_err(Error::from);
                let patch = value.and_then(MergePatch::from_value);
                let merged = patch.and_then(|patch| parsed.merge(&patch.upsert()).map(drop));
                if let Some(hear) = &job.on_commit {
                    hear(started.elapsed());
                }
                merged
            }
            Mode::Insert if parsed.exists()? => return Ok(One::Exists),
            Mode::Insert => match parsed.insert(&mut batch, job.expires) {
                Ok(()) => commit(batch)?,
                Err(refused) => Err(refused.into()),
            },
            Mode::Upsert => match parsed.put(&mut batch, job.expires) {
                Ok(()) => self.commit(batch),
                Err(refused) => Err(refused.into()),
            },
        };
        match written {
            Ok(()) => Ok(One::Written),
            Err(error) if job.mode.is_conflict(&error) => Ok(One::Exists),
            Err(error) if is_refusal(&error) => Ok(One::Refused(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls `found` with the offset, the text, the JSON and the result of parsing of each document
    /// of `source`.
    fn each(
        &self,
        source: &Source,
        mut found: impl FnMut(usize, &[u8], &[u8], &ParsedDocument<'_>) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let text = &*source.text;
        let mut parser = DocumentParser::new(&self.job.collection, self.job.json);
        let mut to_json = ToJson::default();
        let mut wanted = source.documents.iter().peekable();
        for (number, (at, document)) in text.chunk.documents().enumerate() {
            if wanted.next_if_eq(&&(number as u32)).is_none() {
                continue;
            }
            // It was parsed before, so it is well-formed.
            let Ok(json) = to_json.json(text.table.as_deref(), document) else { continue };
            let parsed = self.job.parse(&mut parser, json, text.place(at)).map_err(Error::from)?;
            found(at, document, json, &parsed)?;
        }
        Ok(())
    }

    /// Finds the documents of `source` whose keys do not exist.
    fn new_of(&self, source: &Source) -> Result<New, LoadError> {
        let job = &*self.job;
        let text = &*source.text;
        let mut places = Places::new(&text.chunk);
        let mut new = New { batch: job.database.batch(), ..New::default() };
        self.each(source, |at, document, _json, parsed| {
            let mode = job.mode_after(job.loaded(self.lane, text, at, document));
            if mode != Mode::Insert || !parsed.exists()? {
                let inserted = match mode {
                    Mode::Insert => parsed.insert(&mut new.batch, job.expires),
                    _ => parsed.put(&mut new.batch, job.expires),
                };
                inserted.map_err(Error::from)?;
                new.inserted += 1;
                return Ok(());
            }
            new.existing += 1;
            if job.bad.are_copied() {
                let input = &job.inputs[text.input];
                let document = DocumentText { at, text: document };
                let described = places.describe(input, document, 0, EXISTS);
                new.copies.push(places.copy(document, &described));
            }
            Ok(())
        })?;
        Ok(new)
    }
}

/// Why a document is not inserted.
pub(crate) const EXISTS: &str = "a document with this key exists";

/// Whether some of the documents may have been inserted just before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Try {
    First,
    Again,
}

/// What became of a document that was written by itself.
enum One {
    Written,
    /// A document of its key exists.
    Exists,
    /// The database does not take it: an index has its value already or cannot hold it, or it is
    /// too long.
    Refused(Error),
}

/// Returns whether the database refused documents, and would take others.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Duplicate | ErrorKind::InvalidInput)
}

/// Documents whose keys do not exist, and what is known of the others.
#[derive(Default)]
struct New {
    batch: Batch,
    inserted: u64,
    existing: u64,
    /// Copies of the others, if they are wanted.
    copies: Vec<BadCopy>,
}
