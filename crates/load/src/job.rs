//! What the parsers and writers of a load share.

use crate::bad_documents::{BadCopy, BadDocuments};
use crate::control::Control;
use crate::gate::Permit;
use crate::input::Input;
use crate::key::Key;
use crate::lane::{Lane, LaneItem, Slot};
use crate::marks::{LoadId, Mark, Marks, Position};
use crate::sum::Sum;
use crate::table::{RecordParser, Table};
use crate::totals::{Count, OnCommit, Totals};
use flagstone::doc::JsonOptions;
use flagstone::internal::{Shard, remote_of};
use flagstone::load::Chunk;
use flagstone::load::{DocumentParser, ParsedDocument, Refused};
use flagstone::{Batch, Collection, Database, Durability, Error, ErrorKind, Moment};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a load does with a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The document replaces the one of its key. Of several in the input the last one stays.
    #[default]
    Upsert,
    /// The document is put if there is none of its key. Of several in the input the first one
    /// stays; the others are counted.
    Insert,
    /// The document is a merge patch (RFC 7396) of the one of its key: its fields replace those of
    /// the stored document, maps are merged, and null removes a field. Without a document of the
    /// key it is put. Each document is read and committed by itself, with the durability of the
    /// database, and keeps its expiry.
    Merge,
}

impl Mode {
    /// Returns whether writers need the text of documents.
    pub(crate) const fn needs_text(self) -> bool {
        matches!(self, Self::Insert | Self::Merge)
    }

    /// Returns whether `error` says that a document exists that was to be inserted.
    pub(crate) fn is_conflict(self, error: &Error) -> bool {
        self == Self::Insert && error.kind() == ErrorKind::Conflict
    }
}

/// What the parsers and writers of a load share.
pub(crate) struct Job {
    pub(crate) database: Database,
    pub(crate) collection: Collection,
    pub(crate) key: Key,
    pub(crate) load: LoadId,
    pub(crate) mode: Mode,
    /// Only documents of this shard are loaded.
    pub(crate) shard: Option<Shard>,
    /// Whether writers get the text of documents: the mode needs it, or an index may refuse some.
    pub(crate) keeps_text: bool,
    pub(crate) expires: Option<Moment>,
    pub(crate) durability: Durability,
    /// Whether a key that exists ends the load, if documents are inserted.
    pub(crate) stops_on_error: bool,
    pub(crate) batch_bytes: usize,
    pub(crate) inputs: Arc<Vec<Input>>,
    pub(crate) bad: BadDocuments,
    pub(crate) json: JsonOptions,
    pub(crate) on_commit: Option<OnCommit>,
    pub(crate) marks: Option<Marks>,
    pub(crate) control: Arc<Control>,
    pub(crate) totals: Arc<Totals>,
    /// One for each writer.
    pub(crate) lanes: Vec<Lane<Work>>,
    pub(crate) parsers: AtomicUsize,
}

/// How much of a document was loaded earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loaded {
    Nothing,
    /// The text ended in the document, and has grown by the rest: the document is loaded again.
    Part,
    All,
}

/// A batch for a writer, with the counts to add once it is acknowledged.
pub(crate) struct Work {
    pub(crate) batch: Batch,
    pub(crate) count: Count,
    /// The input and offset of the chunk, for messages.
    pub(crate) rank: crate::control::Rank,
    /// Everything of the lane before it is in this batch or an earlier one.
    pub(crate) mark: Mark,
    /// Whether it is the last of its chunk in its lane.
    pub(crate) is_last: bool,
    /// Whether nothing after it is loaded.
    pub(crate) is_end: bool,
    /// Copies of the bad documents before the mark that are in no earlier batch.
    pub(crate) bad: Vec<BadCopy>,
    /// Where the documents come from, if the job keeps the text.
    pub(crate) source: Option<Source>,
    pub(crate) number: u64,
    pub(crate) _permit: Arc<Permit>,
}

/// Documents of a chunk.
pub(crate) struct Source {
    pub(crate) text: Arc<Text>,
    /// Their numbers among those of the chunk, ascending.
    pub(crate) documents: Vec<u32>,
}

/// A chunk and its format.
pub(crate) struct Text {
    pub(crate) input: usize,
    pub(crate) chunk: Chunk,
    pub(crate) table: Option<Arc<Table>>,
    /// The checksum of all text before the chunk, if the load has marks.
    pub(crate) before: Option<Sum>,
}

/// What turns the documents of a text into JSON.
#[derive(Default)]
pub(crate) struct ToJson {
    records: Option<RecordParser>,
    json: Vec<u8>,
}

impl LaneItem for Work {
    fn is_last(&self) -> bool {
        self.is_last
    }
}

impl Text {
    /// Returns a chunk of JSON.
    pub(crate) const fn of(input: usize, chunk: Chunk) -> Self {
        Self { input, chunk, table: None, before: None }
    }

    /// Returns the place of the byte `at` of the chunk.
    pub(crate) const fn place(&self, at: usize) -> Position {
        Position { input: self.input, offset: self.chunk.offset + at as u64 }
    }

    /// Returns how much of the document at byte `at` is before `mark`.
    pub(crate) fn loaded_before(&self, mark: Position, at: usize, document: &[u8]) -> Loaded {
        if self.place(at) >= mark {
            return Loaded::Nothing;
        }
        // What ends a line may follow later: it makes no other document.
        let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let len = document.iter().rposition(|byte| !is_line_end(byte)).map_or(0, |last| last + 1);
        if self.place(at + len) <= mark { Loaded::All } else { Loaded::Part }
    }
}

impl ToJson {
    /// Returns the JSON of the document `text`.
    ///
    /// # Errors
    /// The byte at which the document is wrong, and the reason.
    pub(crate) fn json<'a>(
        &'a mut self,
        table: Option<&Table>,
        text: &'a [u8],
    ) -> Result<&'a [u8], (usize, String)> {
        let Some(table) = table else { return Ok(text) };
        let records = self.records.get_or_insert_with(|| table.record_parser());
        self.json.clear();
        table.append_json(records, text, &mut self.json).map_err(|bad| (bad.at, bad.reason))?;
        Ok(&self.json)
    }
}

impl Job {
    /// Adds a batch to the lane of a writer.
    pub(crate) fn push(&self, lane: usize, part: u32, work: Work) {
        self.lanes[lane].push(Slot { chunk: work.number, part }, work);
    }

    /// Parses the document at `place`, and finds its key.
    pub(crate) fn parse<'p>(
        &self,
        parser: &'p mut DocumentParser,
        json: &[u8],
        place: Position,
    ) -> Result<ParsedDocument<'p>, Refused> {
        self.key.parse_document(parser, json, place, self.load)
    }

    /// Returns whether another shard has a document. New keys are those of one process, so there
    /// the place decides.
    pub(crate) fn is_anothers(&self, document: &ParsedDocument<'_>, place: Position) -> bool {
        self.shard.is_some_and(|shard| match self.key {
            Key::Auto => {
                let Position { input, offset } = place;
                !shard.has(&[(input as u64).to_be_bytes(), offset.to_be_bytes()].concat())
            }
            _ => !shard.has_hash(document.key_hash()),
        })
    }

    /// Returns whether another shard copies a text that is no document, whose key is not known.
    pub(crate) fn is_anothers_text(&self, text: &[u8]) -> bool {
        self.bad.are_copied() && self.shard.is_some_and(|shard| !shard.has(text))
    }

    /// Returns whether the collection is in a cluster.
    pub(crate) fn is_remote(&self) -> bool {
        remote_of(&self.collection).is_some()
    }

    /// Returns whether documents behind the mark may be there: in a cluster it comes after them.
    pub(crate) fn may_be_ahead(&self) -> bool {
        self.is_remote() && self.marks.as_ref().is_some_and(Marks::continue_one)
    }

    /// Returns how much of the document at byte `at` of `text` writer `lane` has loaded earlier.
    pub(crate) fn loaded(&self, lane: usize, text: &Text, at: usize, document: &[u8]) -> Loaded {
        let Some(marks) = &self.marks else { return Loaded::Nothing };
        text.loaded_before(marks.loaded_by(lane), at, document)
    }

    /// Returns what is done with a document of which this much was `loaded` earlier. A key that the
    /// load has made is that of the part, which the document replaces.
    pub(crate) fn mode_after(&self, loaded: Loaded) -> Mode {
        let replaces_part = loaded == Loaded::Part && self.key == Key::Auto;
        if replaces_part { Mode::Upsert } else { self.mode }
    }

    /// Closes all lanes: their writers end when they have committed what is there.
    pub(crate) fn close_lanes(&self) {
        self.lanes.iter().for_each(Lane::close);
    }
}

/// Tells the writers when the last parser has ended, or one has panicked.
pub(crate) struct Parsing(pub(crate) Arc<Job>);

impl Drop for Parsing {
    fn drop(&mut self) {
        let is_last = self.0.parsers.fetch_sub(1, Ordering::AcqRel) == 1;
        if std::thread::panicking() {
            self.0.control.stop();
        }
        if is_last || std::thread::panicking() {
            self.0.close_lanes();
        }
    }
}
