//! A parser: turns chunks into batches, one or more for each writer.

use crate::bad_documents::{BadCopy, DocumentText, Places, reason_of};
use crate::control::Rank;
use crate::error::LoadError;
use crate::gate::Permit;
use crate::input::{Format, Input};
use crate::job::{Job, Loaded, Mode, Parsing, Source, Text, ToJson, Work};
use crate::key::Key;
use crate::marks::{LoadId, Mark, Position};
use crate::read::Parcel;
use crate::sum::Sum;
use crate::table::Table;
use crate::totals::Count;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use flagstone::doc::JsonOptions;
use flagstone::load::{Chunk, DocumentParser, ParsedDocument, Refused};
use flagstone::{Batch, Collection, ErrorKind};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How long the parsers of a load that stops wait for a reader that waits for its input.
const PATIENCE: Duration = Duration::from_millis(100);

/// Runs a parser until there are no more chunks.
pub(crate) fn run(job: &Arc<Job>, parcels: &Receiver<Parcel>) {
    let _parsing = Parsing(Arc::clone(job));
    let mut parser = DocumentParser::new(&job.collection, job.json);
    let mut to_json = ToJson::default();
    loop {
        match parcels.recv_timeout(PATIENCE) {
            Ok(parcel) if job.control.is_beyond(parcel.permit.number) => {}
            Ok(parcel) => Parse::new(job, parcel).run(&mut parser, &mut to_json),
            Err(RecvTimeoutError::Timeout) if !job.control.is_stopping() => {}
            Err(_) => return,
        }
    }
}

/// The parsing of one chunk.
struct Parse<'a> {
    job: &'a Job,
    text: Arc<Text>,
    permit: Arc<Permit>,
    input_bytes: u64,
    /// The batch that is filled, for each lane.
    open: Vec<Open>,
    /// The number of bytes of the chunk up to which its documents are in batches or refused.
    done: usize,
    /// The checksum of all text up to `summed` bytes of the chunk, if the load has marks.
    sum: Option<Sum>,
    summed: usize,
    /// Copies of the bad documents that were in no batch yet.
    copies: Vec<BadCopy>,
}

/// A batch that is filled.
#[derive(Default)]
struct Open {
    batch: Batch,
    count: Count,
    /// How many batches of the chunk this lane has got.
    part: u32,
    /// If the text is kept, the numbers of the documents in the chunk.
    documents: Vec<u32>,
    /// If documents are inserted, the hashes of their keys.
    keys: HashSet<u64>,
}

/// Why a document was not put.
enum PutFailure {
    /// The byte at which it is wrong, and the reason.
    Document(usize, String),
    /// No document can be put.
    Load(LoadError),
}

impl<'a> Parse<'a> {
    fn new(job: &'a Job, parcel: Parcel) -> Self {
        let Parcel { text, input_bytes, permit } = parcel;
        let open = job.lanes.iter().map(|_| Open::default()).collect();
        let (permit, sum, copies) = (Arc::new(permit), text.before, Vec::new());
        let text = Arc::new(text);
        Self { job, text, permit, input_bytes, open, done: 0, sum, summed: 0, copies }
    }

    fn run(mut self, parser: &mut DocumentParser, to_json: &mut ToJson) {
        let text = Arc::clone(&self.text);
        let mut places = Places::new(&text.chunk);
        let mut is_end = false;
        for (number, (at, document)) in text.chunk.documents().enumerate() {
            let is_anothers = || self.job.is_anothers_text(document);
            let put = match to_json.json(text.table.as_deref(), document) {
                Err(_) if is_anothers() => Ok(()),
                Err((inside, reason)) => Err(PutFailure::Document(inside, reason)),
                Ok(json) => match self.job.parse(parser, json, text.place(at)) {
                    Err(_) if is_anothers() => Ok(()),
                    Err(refused) => Err(PutFailure::of(refused, text.table.is_some())),
                    Ok(parsed) if self.job.is_anothers(&parsed, text.place(at)) => Ok(()),
                    Ok(parsed) => self.put(&parsed, number as u32, at..at + document.len()),
                },
            };
            let end = at + document.len();
            let is_copied = || self.job.loaded(0, &text, at, document) == Loaded::All;
            let bad = match put {
                Err(bad) if !is_copied() => bad,
                _ => {
                    self.done = end;
                    continue;
                }
            };
            self.open[0].count.bad += u64::from(matches!(bad, PutFailure::Document(..)));
            let refused = self.refuse(&mut places, DocumentText { at, text: document }, bad);
            self.done = if refused.is_ok() { end } else { self.done };
            if let Err(failure) = refused {
                let rank = (text.input, text.chunk.offset + at as u64);
                self.job.control.fail(rank, self.permit.number, failure);
                is_end = true;
                break;
            }
        }
        if !is_end {
            self.done = text.chunk.bytes.len();
        }
        drop(text);
        self.finish(is_end);
    }

    /// Puts a document into the batch of its lane.
    fn put(
        &mut self,
        parsed: &ParsedDocument<'_>,
        number: u32,
        at: Range<usize>,
    ) -> Result<(), PutFailure> {
        let job = self.job;
        let hash = parsed.key_hash();
        let lane = lane_of(hash, job.lanes.len());
        let document = &self.text.chunk.bytes[at.clone()];
        let loaded = job.loaded(lane, &self.text, at.start, document);
        if loaded == Loaded::All {
            return Ok(());
        }
        let mode = job.mode_after(loaded);
        let inserts = mode == Mode::Insert;
        // The second of two documents of one key finds the first one only in another batch.
        if inserts && self.open[lane].keys.contains(&hash) {
            self.send(lane);
        }
        let put = |batch: &mut Batch| match mode {
            Mode::Insert => parsed.insert(batch, job.expires),
            Mode::Upsert => parsed.put(batch, job.expires),
            // The writer reads and changes the stored document.
            Mode::Merge => Ok(()),
        };
        match put(&mut self.open[lane].batch) {
            Err(Refused::Full) => {
                self.send(lane);
                put(&mut self.open[lane].batch)?;
            }
            other => other?,
        }
        let open = &mut self.open[lane];
        open.count.documents += 1;
        if inserts {
            open.keys.insert(hash);
        }
        if job.keeps_text {
            open.documents.push(number);
        }
        let is_full = open.batch.bytes() >= job.batch_bytes;
        if is_full {
            self.done = at.end;
            self.send(lane);
        }
        Ok(())
    }

    /// Handles a document that was not put. An error ends the load.
    fn refuse(
        &mut self,
        places: &mut Places<'_>,
        text: DocumentText<'_>,
        bad: PutFailure,
    ) -> Result<(), LoadError> {
        let input = &self.job.inputs[self.text.input];
        let described = describe(places, input, text, bad)?;
        if !self.job.bad.are_copied() {
            return Err(LoadError::Usage(described));
        }
        self.copies.push(places.copy(text, &described));
        Ok(())
    }

    /// Sends the batch of a lane, of which more follow.
    fn send(&mut self, lane: usize) {
        let work = self.take(lane);
        let part = self.open[lane].part;
        self.open[lane].part += 1;
        self.job.push(lane, part, work);
    }

    /// Takes the batch of a lane.
    fn take(&mut self, lane: usize) -> Work {
        let mark = self.mark();
        // The mark of the first lane says that bad documents before it are copied.
        let bad = if lane == 0 { std::mem::take(&mut self.copies) } else { Vec::new() };
        let open = &mut self.open[lane];
        open.keys.clear();
        let source = self.job.keeps_text.then(|| Source {
            text: Arc::clone(&self.text),
            documents: std::mem::take(&mut open.documents),
        });
        let rank: Rank = (self.text.input, self.text.chunk.offset);
        Work {
            batch: std::mem::take(&mut open.batch),
            count: std::mem::take(&mut open.count),
            rank,
            mark,
            is_last: false,
            is_end: false,
            bad,
            source,
            number: self.permit.number,
            _permit: Arc::clone(&self.permit),
        }
    }

    /// Returns the mark of what is in batches or refused.
    fn mark(&mut self) -> Mark {
        let sum = self.sum.map_or(0, |sum| {
            let part = self.text.chunk.bytes.get(self.summed..self.done).unwrap_or_default();
            let sum = sum.then(part);
            (self.sum, self.summed) = (Some(sum), self.done);
            sum.value()
        });
        Mark { place: self.text.place(self.done), sum }
    }

    /// Sends the last batch of every lane.
    fn finish(mut self, is_end: bool) {
        let first = &mut self.open[0].count;
        first.json_bytes = self.text.chunk.bytes.len() as u64;
        first.input_bytes = self.input_bytes;
        let works: Vec<Work> = (0..self.open.len()).map(|lane| self.take(lane)).collect();
        let Self { job, text, permit, open, .. } = self;
        // The text and its bytes are given back before the batches wait for their turn.
        drop((text, permit));
        for (lane, work) in works.into_iter().enumerate() {
            job.push(lane, open[lane].part, Work { is_last: true, is_end, ..work });
        }
    }
}

/// Returns what is wrong with a document, with its place.
///
/// # Errors
/// If it is not the document that is wrong.
fn describe(
    places: &mut Places<'_>,
    input: &Input,
    text: DocumentText<'_>,
    bad: PutFailure,
) -> Result<String, LoadError> {
    let (inside, mut reason) = match bad {
        PutFailure::Load(error) => return Err(error),
        PutFailure::Document(inside, reason) => (inside, reason),
    };
    let is_end = inside > 0 && inside >= text.text.trim_ascii_end().len();
    if is_end && input.format == Format::Json && !reason.contains(", found ") {
        reason.push_str(", found the end of the line: a document is on one line");
    }
    Ok(places.describe(input, text, inside, &reason))
}

/// Refuses the first document of the first chunk of an input if it would end a load.
pub(crate) fn check_first(
    collection: &Collection,
    json: JsonOptions,
    key: &Key,
    input: &Input,
    chunk: &Chunk,
    table: Option<Table>,
) -> Result<(), LoadError> {
    let Some((at, document)) = chunk.documents().next() else { return Ok(()) };
    let (mut parser, mut to_json) = (DocumentParser::new(collection, json), ToJson::default());
    let bad = match to_json.json(table.as_ref(), document) {
        Err((inside, reason)) => PutFailure::Document(inside, reason),
        Ok(json) => match key.parse_document(&mut parser, json, Position::default(), LoadId::now())
        {
            Ok(_document) => return Ok(()),
            Err(refused) => PutFailure::of(refused, table.is_some()),
        },
    };
    let mut places = Places::new(chunk);
    Err(LoadError::Usage(describe(&mut places, input, DocumentText { at, text: document }, bad)?))
}

/// The lane of a key: equal keys have the same.
fn lane_of(hash: u64, lanes: usize) -> usize {
    ((u128::from(hash) * lanes as u128) >> 64) as usize
}

impl PutFailure {
    /// Returns what is wrong with a document that was refused. Of a record of a table the bytes are
    /// those of the JSON that was made from it, which are none of the text.
    fn of(refused: Refused, is_record: bool) -> Self {
        match Self::from(refused) {
            Self::Document(_, reason) if is_record => Self::Document(0, reason),
            other => other,
        }
    }
}

impl From<Refused> for PutFailure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Batch(error) if error.kind() != ErrorKind::InvalidInput => {
                Self::Load(error.into())
            }
            refused => {
                let (inside, reason) = reason_of(&refused);
                Self::Document(inside, reason)
            }
        }
    }
}
