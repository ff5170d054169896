//! A writer: commits the batches of its lane and counts what is acknowledged.

use crate::bad_documents::Places;
use crate::error::LoadError;
use crate::job::{Job, Mode, Source, ToJson, Work};
use crate::totals::Count;
use flagstone::{Batch, DocumentParser, ErrorKind, JsonOptions, MergePatch, ParsedDocument};
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
            let (rank, is_end) = (work.rank, work.is_end);
            if let Err(failure) = self.write(work) {
                // Those of the database come first.
                let is_exists = matches!(failure, LoadError::Exists(_));
                let rank = if is_exists { rank } else { (0, 0) };
                self.job.control.fail(rank, 0, failure);
                return;
            }
            if is_end {
                return;
            }
        }
    }

    fn write(&self, mut work: Work) -> Result<(), LoadError> {
        self.job.bad.write(&work.bad)?;
        let mut count = work.count;
        if self.job.mode == Mode::Merge {
            return self.merge(&work, count);
        }
        if !work.batch.is_empty() {
            let batch = std::mem::take(&mut work.batch);
            match (self.commit_marked(batch, &work), work.source.take()) {
                (Err(error), Some(source)) if error.kind() == ErrorKind::Conflict => {
                    self.insert_new(&work, &source, &mut count)?;
                }
                (committed, _) => committed?,
            }
        }
        self.job.totals.add(count);
        Ok(())
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
        loop {
            let New { batch, existing, copies, inserted } = self.new_of(source)?;
            count.existing = existing;
            count.documents = inserted;
            match self.commit_marked(batch, work) {
                Ok(()) => return self.job.bad.write(&copies),
                // Another writer of this collection was faster.
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Merges the documents of `work`, one after another.
    fn merge(&self, work: &Work, mut count: Count) -> Result<(), LoadError> {
        let job = &*self.job;
        let Some(source) = work.source.as_ref().filter(|source| !source.documents.is_empty())
        else {
            job.totals.add(count);
            return Ok(());
        };
        let text = &*source.text;
        let mut places = Places::new(&text.chunk);
        let mut copies = Vec::new();
        self.each(source, |at, document, json, parsed| {
            let started = Instant::now();
            let patch = MergePatch::parse(json)?.upsert();
            let merged = parsed.merge(&patch);
            if let Some(hear) = &job.on_commit {
                hear(started.elapsed());
            }
            // The result may be too long.
            let error = match merged {
                Err(error) if error.kind() == ErrorKind::InvalidInput => error,
                other => return other.map(drop).map_err(LoadError::from),
            };
            let reason = error.to_string();
            let described = places.describe(&job.inputs[text.input], (at, document), (0, &reason));
            if !job.bad.are_copied() {
                return Err(LoadError::Usage(described));
            }
            places.append_copy((at, document), &described, &mut copies);
            (count.documents, count.bad) = (count.documents - 1, count.bad + 1);
            Ok(())
        })?;
        job.bad.write(&copies)?;
        if let Some(marks) = &job.marks {
            let mut mark = job.database.batch();
            marks.put(&mut mark, self.lane, work.end)?;
            self.commit(mark)?;
        }
        job.totals.add(count);
        Ok(())
    }

    /// Calls `found` with the offset, the text, the JSON and the result of parsing of each document
    /// of `source`.
    fn each(
        &self,
        source: &Source,
        mut found: impl FnMut(usize, &[u8], &[u8], &ParsedDocument<'_>) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let text = &*source.text;
        let mut parser = DocumentParser::new(&self.job.collection, JsonOptions::default());
        let mut to_json = ToJson::default();
        let mut wanted = source.documents.iter().peekable();
        for (number, (at, document)) in text.chunk.documents().enumerate() {
            if wanted.next_if_eq(&&(number as u32)).is_none() {
                continue;
            }
            // It was parsed before, so it is well-formed.
            let Ok(json) = to_json.json(text.table.as_deref(), document) else { continue };
            let parsed = parser.parse(json, &self.job.key_path).map_err(flagstone::Error::from)?;
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
                inserted.map_err(flagstone::Error::from)?;
                new.inserted += 1;
                return Ok(());
            }
            new.existing += 1;
            if !job.stops_on_error && !job.bad.are_copied() {
                return Ok(());
            }
            let reason = (0, "a document with this key exists");
            let described = places.describe(&job.inputs[text.input], (at, document), reason);
            if job.stops_on_error {
                return Err(LoadError::Exists(described));
            }
            places.append_copy((at, document), &described, &mut new.copies);
            Ok(())
        })?;
        Ok(new)
    }
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
