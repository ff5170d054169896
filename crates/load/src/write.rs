//! A writer: commits the batches of its lane and counts what is acknowledged.

use crate::bad_documents::Places;
use crate::error::LoadError;
use crate::job::{Job, Mode, Source, ToJson, Work};
use crate::marks::Position;
use crate::totals::Count;
use flagstone::json::JsonParser;
use flagstone::{Batch, DocumentParser, Error, ErrorKind, MergePatch, ParsedDocument};
use std::sync::Arc;
use std::time::Instant;

/// A writer and what it needs.
pub(crate) struct Writer {
    pub(crate) job: Arc<Job>,
    pub(crate) lane: usize,
}

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
        job.bad.write(&work.bad)?;
        let mut count = work.count;
        let source = work.source.take();
        let written = match &source {
            Some(source) if job.mode == Mode::Merge && !source.documents.is_empty() => {
                self.each_alone(&work, source, &mut count)
            }
            _ if work.batch.is_empty() => Ok(()),
            _ => {
                let batch = std::mem::take(&mut work.batch);
                match (self.commit_marked(batch, &work), &source) {
                    (Err(error), Some(source)) if job.mode.is_conflict(&error) => {
                        self.insert_new(&work, source, &mut count)
                    }
                    (Err(error), Some(source)) if is_refusal(&error) => {
                        self.each_alone(&work, source, &mut count)
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

    /// Commits `batch` with the mark of this writer.
    fn commit_marked(&self, mut batch: Batch, work: &Work) -> flagstone::Result<()> {
        let Some(marks) = &self.job.marks else { return self.commit(batch) };
        // A batch of one long document may have no room for the mark, which follows then.
        if batch.bytes() < 2 * self.job.batch_bytes {
            marks.put(&mut batch, self.lane, work.end)?;
            return self.commit(batch);
        }
        self.commit(batch)?;
        let mut mark = self.job.database.batch();
        marks.put(&mut mark, self.lane, work.end)?;
        self.commit(mark)
    }

    fn commit(&self, batch: Batch) -> flagstone::Result<()> {
        let started = Instant::now();
        let committed = self.job.database.commit_with(batch, self.job.durability);
        if let Some(hear) = &self.job.on_commit {
            hear(started.elapsed());
        }
        committed
    }

    /// Inserts the documents of `source` whose keys do not exist, and counts the others.
    #[cold]
    fn insert_new(&self, work: &Work, source: &Source, count: &mut Count) -> Result<(), LoadError> {
        if self.job.stops_on_error {
            return self.each_alone(work, source, count);
        }
        loop {
            count.documents = 0;
            let New { batch, existing, copies, inserted } = self.new_of(source)?;
            match self.commit_marked(batch, work) {
                Ok(()) => {
                    (count.documents, count.existing) = (inserted, existing);
                    return self.job.bad.write(&copies);
                }
                // Another writer of this collection was faster.
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) if is_refusal(&error) => return self.each_alone(work, source, count),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes the documents of `source` one after another: they are merged, or the database has
    /// refused one of them.
    #[cold]
    fn each_alone(&self, work: &Work, source: &Source, count: &mut Count) -> Result<(), LoadError> {
        let job = &*self.job;
        let text = &*source.text;
        let mut places = Places::new(&text.chunk);
        let mut copies = Vec::new();
        count.documents = 0;
        let written = self.each(source, |at, document, json, parsed| {
            let mark = text.place(at + 1);
            let (reason, stops, failure): (_, _, fn(String) -> LoadError) =
                match self.write_one(json, parsed, mark)? {
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
            let described = places.describe(&job.inputs[text.input], (at, document), (0, &reason));
            if stops {
                return Err(failure(described));
            }
            places.append_copy((at, document), &described, &mut copies);
            Ok(())
        });
        job.bad.write(&copies)?;
        written?;
        let Some(marks) = &job.marks else { return Ok(()) };
        let mut mark = job.database.batch();
        marks.put(&mut mark, self.lane, work.end)?;
        Ok(self.commit(mark)?)
    }

    /// Writes a document by itself; `mark` is the place after it.
    fn write_one(
        &self,
        json: &[u8],
        parsed: &ParsedDocument<'_>,
        mark: Position,
    ) -> Result<One, LoadError> {
        let job = &*self.job;
        let mut batch = job.database.batch();
        let written = match job.mode {
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
            Mode::Insert => {
                let put = parsed.insert(&mut batch, job.entry);
                put.map_err(Error::from).and_then(|()| self.commit_one(batch, mark))
            }
            Mode::Upsert => {
                let put = parsed.put(&mut batch, job.entry);
                put.map_err(Error::from).and_then(|()| self.commit_one(batch, mark))
            }
        };
        match written {
            Ok(()) => Ok(One::Written),
            Err(error) if job.mode.is_conflict(&error) => Ok(One::Exists),
            Err(error) if is_refusal(&error) => Ok(One::Refused(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Commits the batch of one document with the mark of this writer.
    fn commit_one(&self, mut batch: Batch, mark: Position) -> flagstone::Result<()> {
        if let Some(marks) = &self.job.marks {
            marks.put(&mut batch, self.lane, mark)?;
        }
        self.commit(batch)
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
            let parsed = parser.parse(json, &self.job.key_path).map_err(Error::from)?;
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
            if !parsed.exists()? {
                let inserted = parsed.insert(&mut new.batch, job.entry);
                inserted.map_err(Error::from)?;
                new.inserted += 1;
                return Ok(());
            }
            new.existing += 1;
            if job.bad.are_copied() {
                let input = &job.inputs[text.input];
                let described = places.describe(input, (at, document), (0, EXISTS));
                places.append_copy((at, document), &described, &mut new.copies);
            }
            Ok(())
        })?;
        Ok(new)
    }
}

/// Why a document is not inserted.
const EXISTS: &str = "a document with this key exists";

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
    copies: Vec<u8>,
}
