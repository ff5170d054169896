//! A load into a database that another process has open: documents are read and parsed here, and
//! sent by one thread, in the order of the input.

use crate::bad_documents::{BadCopy, BadDocuments, DocumentText, Places, reason_of};
use crate::error::LoadError;
use crate::input::Input;
use crate::job::{Loaded, Mode, Text, ToJson};
use crate::key::Key;
use crate::marks::{Continued, LoadId, Mark, Position};
use crate::pipeline::{Outcome, TICK, Watcher, check_lengths, settings};
use crate::read::{Parcel, first_chunk};
use crate::reading::{Compared, Reading};
use crate::totals::Count;
use crate::write::EXISTS;
use crossbeam_channel::RecvTimeoutError;
use flagstone::doc::JsonOptions;
use flagstone::doc::json::JsonParser;
use flagstone::load::Refused;
use flagstone::{Document, Error, ErrorKind, Value};
use std::sync::Arc;
use std::time::Instant;

/// Where documents are sent to.
pub trait Destination {
    /// Loads documents, in their order. What the database refuses is returned with its number among
    /// the documents. If there is a failure, nothing after it is loaded.
    ///
    /// # Errors
    /// If nothing is known of the documents: the other process is gone.
    fn load(&mut self, documents: &[Sent]) -> Result<Vec<(usize, Problem)>, LoadError>;

    /// Opens, begins, ends or removes the marks of the load. Returns what they say.
    ///
    /// # Errors
    /// As [`Marks::open`](crate::Marks::open).
    fn marks(&mut self, asked: MarksAsked<'_>) -> Result<Continued, LoadError>;
}

/// A document that is sent.
#[derive(Debug)]
pub struct Sent {
    /// Its key.
    pub key: Value,
    /// The document.
    pub document: Document,
    /// Of a load with marks, the place after it, and the checksum of all text before that.
    pub end: Option<(Position, u64)>,
}

/// What is asked of the marks of a load. Settings are as those of
/// [`Marks::open`](crate::Marks::open).
#[derive(Clone, Copy, Debug)]
pub enum MarksAsked<'a> {
    /// That there are none.
    Remove,
    /// Those of the load with these settings that was stopped, or new ones.
    Open(&'a [(&'static str, String)]),
    /// New ones.
    Begin(&'a [(&'static str, String)]),
    /// That the load is complete up to this place, with its checksum, and whether its text can be
    /// read again.
    End(&'a [(&'static str, String)], (Position, u64), bool),
}

/// Why a document was not loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// A document of its key exists.
    Exists,
    /// The database does not take this one.
    Refused(Error),
    /// The database takes none.
    Failed(Error),
}

/// A load that is sent: as a [`Plan`](crate::Plan).
pub struct Sending<'a> {
    /// Where the documents are sent to.
    pub to: &'a mut dyn Destination,
    /// The inputs, in the order in which they are loaded.
    pub inputs: Vec<Input>,
    /// Where the primary key of each document comes from.
    pub key: Key,
    /// How documents that cannot be loaded are treated.
    pub bad: BadDocuments,
    /// Whether a key that exists ends the load.
    pub stops_on_error: bool,
    /// What is done with each document, and whether documents expire.
    pub mode: (Mode, bool),
    /// As [`Plan::resumes`](crate::Plan::resumes); for loads that copy no bad documents.
    pub resumes: bool,
    /// How JSON is read.
    pub json: JsonOptions,
}

/// The bytes of documents after which they are sent.
const BATCH_BYTES: usize = 256 << 10;
/// How many parcels are read ahead.
const AHEAD: usize = 4;

impl Sending<'_> {
    /// As [`Plan::check`](crate::Plan::check).
    ///
    /// # Errors
    /// As those of [`Sending::run`], and of its outcome.
    pub fn check(&self) -> Result<(), LoadError> {
        let merges = false;
        self.key.check(self.inputs.len(), merges).map_err(LoadError::Usage)?;
        self.inputs.iter().try_for_each(|input| {
            let Some((chunk, table)) = first_chunk(input, &self.key)? else { return Ok(()) };
            if self.bad.are_copied() {
                return Ok(());
            }
            let text = Text::of(0, chunk);
            let text = Text { table: table.map(Arc::new), ..text };
            let Some((at, document)) = text.chunk.documents().next() else { return Ok(()) };
            let document = DocumentText { at, text: document };
            let mut parser = Parser::new(self.json, &self.key);
            match parser.parse(&text, document, LoadId::now()) {
                Ok(_loaded) => Ok(()),
                Err(bad) => {
                    let mut places = Places::new(&text.chunk);
                    Err(LoadError::Usage(bad.describe(&mut places, input, document)))
                }
            }
        })
    }

    /// Runs the load, and reports to `watcher`. A failure of the load itself is in the outcome.
    ///
    /// # Errors
    /// When a thread cannot be started, or bad documents cannot be written to their file.
    pub fn run(self, watcher: &mut dyn Watcher) -> Result<Outcome, LoadError> {
        let started = Instant::now();
        self.key.check(self.inputs.len(), self.mode.0 == Mode::Merge).map_err(LoadError::Usage)?;
        let Self { to, inputs, key, bad, stops_on_error, json, mode: (mode, expires), resumes } =
            self;
        let settings = settings(&key, json, mode, expires, &inputs);
        let inputs_bytes: Option<u64> = inputs.iter().map(Input::bytes).sum();
        let inputs = Arc::new(inputs);
        bad.begin(None)?;
        let mut known = if resumes {
            Some(to.marks(MarksAsked::Open(&settings))?)
        } else {
            to.marks(MarksAsked::Remove)?;
            None
        };
        let read = |known: Option<Continued>| {
            let mark = |known: Continued| Mark { place: known.place, sum: known.sum };
            let marks = known.map(|known| (known.place, mark(known)));
            Reading::start(&inputs, &key, marks, 1, AHEAD)
        };
        let is_repeatable = inputs.iter().all(Input::is_repeatable);
        let mut longer = None;
        if known.is_some_and(|known| known.is_complete) {
            let compared = if is_repeatable {
                read(known)?.compare(|| watcher.stops(), TICK)?
            } else {
                Compared::Other
            };
            let took = started.elapsed();
            match compared {
                Compared::Longer(reading) => longer = Some(reading),
                Compared::Other => known = Some(to.marks(MarksAsked::Begin(&settings))?),
                Compared::Same => {
                    return Ok(Outcome { took, was_complete: true, ..Outcome::default() });
                }
                Compared::Stopped => {
                    return Ok(Outcome { took, is_interrupted: true, ..Outcome::default() });
                }
            }
        }
        check_lengths(&inputs, known.map_or(Position::default(), |known| known.place))?;
        let reading = match longer {
            Some(longer) => longer,
            None => read(known)?,
        };
        let load = known.map_or_else(LoadId::now, |Continued { load: (began, number), .. }| {
            LoadId { began, number }
        });
        let parser = Parser::new(json, &key);
        let mut send = Send {
            to,
            inputs: &inputs,
            bad: &bad,
            stops_on_error,
            parser,
            load,
            mark: known.map(|known| known.place),
            count: Count::default(),
        };
        watcher.start(inputs_bytes);
        let mut failure = None;
        let mut is_interrupted = false;
        let mut told = started;
        while failure.is_none() && !is_interrupted {
            match reading.parcels.recv_timeout(TICK) {
                Ok(parcel) if reading.control.is_beyond(parcel.permit.number) => {}
                Ok(parcel) => failure = send.parcel(&parcel).err(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            is_interrupted = watcher.stops();
            if told.elapsed() >= TICK {
                told = Instant::now();
                watcher.tick(started.elapsed(), send.count);
            }
        }
        let (took, count) = (started.elapsed(), send.count);
        watcher.end(took, count);
        bad.flush()?;
        let failure = failure.or_else(|| reading.control.take_failure());
        let is_interrupted = is_interrupted && failure.is_none();
        let is_whole = failure.is_none() && !is_interrupted;
        if let (true, true, Some(Mark { place, sum })) = (is_whole, resumes, reading.end()) {
            to.marks(MarksAsked::End(&settings, (place, sum), is_repeatable))?;
        }
        let continued = known.filter(|known| known.is_complete || known.is_continued);
        let resumed_at = continued.and_then(|Continued { place, .. }| {
            Some((inputs.get(place.input)?.name.clone(), place.offset))
        });
        Ok(Outcome { count, took, is_interrupted, failure, resumed_at, was_complete: false })
    }
}

/// Parses documents and finds their keys.
struct Parser<'k> {
    json: JsonParser,
    to_json: ToJson,
    key: &'k Key,
}

/// What is wrong with a document: the byte, and the reason.
struct Bad {
    at: usize,
    reason: String,
}

impl Bad {
    fn describe(
        &self,
        places: &mut Places<'_>,
        input: &Input,
        document: DocumentText<'_>,
    ) -> String {
        places.describe(input, document, self.at, &self.reason)
    }
}

impl<'k> Parser<'k> {
    fn new(json: JsonOptions, key: &'k Key) -> Self {
        Self { json: JsonParser::new(json), to_json: ToJson::default(), key }
    }

    fn parse(
        &mut self,
        text: &Text,
        DocumentText { at, text: document }: DocumentText<'_>,
        load: LoadId,
    ) -> Result<(Value, Document), Bad> {
        let json = self.to_json.json(text.table.as_deref(), document);
        let json = json.map_err(|(at, reason)| Bad { at, reason })?;
        let mut bytes = Vec::new();
        let refuse = |refused: &Refused| {
            let (inside, mut reason) = reason_of(refused);
            let is_end = inside > 0 && inside >= document.trim_ascii_end().len();
            if is_end && text.table.is_none() && !reason.contains(", found ") {
                reason.push_str(", found the end of the line: a document is on one line");
            }
            // Of a record of a table that is a byte of the JSON made from it.
            Bad { at: if text.table.is_none() { inside } else { 0 }, reason }
        };
        self.json.parse(json, None, &mut bytes).map_err(|error| refuse(&Refused::Json(error)))?;
        let parsed = Document::from_bytes(bytes, None);
        let parsed = parsed.map_err(|error| Bad { at: 0, reason: error.to_string() })?;
        let key = self.key.of(&parsed, text.place(at), load).map_err(|error| refuse(&error))?;
        Ok((key, parsed))
    }
}

/// The sending of documents.
struct Send<'a> {
    to: &'a mut dyn Destination,
    inputs: &'a [Input],
    bad: &'a BadDocuments,
    stops_on_error: bool,
    parser: Parser<'a>,
    load: LoadId,
    /// Of a load with marks, the place before which all documents were loaded earlier.
    mark: Option<Position>,
    count: Count,
}

/// Documents that are not sent yet.
#[derive(Default)]
struct Pending {
    documents: Vec<Sent>,
    /// The offsets of their texts in the chunk.
    places: Vec<std::ops::Range<usize>>,
    bytes: usize,
}

impl Send<'_> {
    /// Loads the documents of a parcel.
    fn parcel(&mut self, parcel: &Parcel) -> Result<(), LoadError> {
        let text = &parcel.text;
        // What is told of a rate counts chunks as a whole.
        self.count.json_bytes += text.chunk.bytes.len() as u64;
        self.count.input_bytes += parcel.input_bytes;
        let mut places = Places::new(&text.chunk);
        let mut pending = Pending::default();
        let (mut sum, mut summed) = (text.before, 0);
        for (at, document) in text.chunk.documents() {
            let end = at + document.len();
            let whole = DocumentText { at, text: document };
            sum = sum.map(|sum| sum.then(&text.chunk.bytes[summed..end]));
            summed = end;
            if self.mark.is_some_and(|mark| text.loaded_before(mark, at, document) == Loaded::All) {
                continue;
            }
            match self.parser.parse(text, whole, self.load) {
                Ok((key, document)) => {
                    pending.bytes += document.as_bytes().len();
                    let mark = sum.map(|sum| (text.place(end), sum.value()));
                    pending.documents.push(Sent { key, document, end: mark });
                    pending.places.push(at..end);
                }
                Err(bad) => {
                    // Those before it come first, also in what is told of bad ones.
                    self.send(text, &mut places, &mut pending)?;
                    self.count.bad += 1;
                    let input = &self.inputs[text.input];
                    let described = bad.describe(&mut places, input, whole);
                    if !self.bad.are_copied() {
                        return Err(LoadError::Usage(described));
                    }
                    self.copy(&places, whole, &described)?;
                }
            }
            if pending.bytes >= BATCH_BYTES {
                self.send(text, &mut places, &mut pending)?;
            }
        }
        self.send(text, &mut places, &mut pending)?;
        Ok(())
    }

    fn copy(
        &self,
        places: &Places<'_>,
        document: DocumentText<'_>,
        described: &str,
    ) -> Result<(), LoadError> {
        self.bad.write(&BadCopy::text_of(&[places.copy(document, described)]))
    }

    fn send(
        &mut self,
        text: &Text,
        places: &mut Places<'_>,
        pending: &mut Pending,
    ) -> Result<(), LoadError> {
        if pending.documents.is_empty() {
            return Ok(());
        }
        let Pending { documents, places: texts, .. } = std::mem::take(pending);
        let problems = self.to.load(&documents)?;
        let last = problems.last().map(|(at, problem)| (*at, self.ends(problem)));
        let sent = match last {
            // Those after it were not looked at.
            Some((at, true)) => at + 1,
            _ => documents.len(),
        };
        self.count.documents += (sent - problems.len()) as u64;
        for (number, problem) in problems {
            let Some(range) = texts.get(number) else { continue };
            let document = &text.chunk.bytes[range.clone()];
            let document = DocumentText { at: range.start, text: document };
            let ends = self.ends(&problem);
            let (reason, failure): (_, fn(String) -> LoadError) = match problem {
                Problem::Failed(error) => return Err(error.into()),
                Problem::Exists => {
                    self.count.existing += 1;
                    (EXISTS.to_owned(), LoadError::Exists)
                }
                Problem::Refused(error) => {
                    self.count.bad += 1;
                    let is_there = error.kind() == ErrorKind::Duplicate;
                    let failure = if is_there { LoadError::Exists } else { LoadError::Usage };
                    (error.to_string(), failure)
                }
            };
            if !ends && !self.bad.are_copied() {
                continue;
            }
            let described = places.describe(&self.inputs[text.input], document, 0, &reason);
            if ends {
                return Err(failure(described));
            }
            self.copy(places, document, &described)?;
        }
        Ok(())
    }

    /// Returns whether the load ends with a problem.
    fn ends(&self, problem: &Problem) -> bool {
        match problem {
            Problem::Exists => self.stops_on_error,
            Problem::Refused(_) => !self.bad.are_copied(),
            Problem::Failed(_) => true,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;
    use crate::Unwatched;

    /// Takes every document but those whose keys it knows, and one that it refuses.
    #[derive(Default)]
    struct Memory {
        keys: Vec<Value>,
        refuses: Option<Value>,
        stops_at_refused: bool,
    }

    impl Destination for Memory {
        fn marks(&mut self, asked: MarksAsked<'_>) -> Result<Continued, LoadError> {
            let MarksAsked::Remove = asked else { panic!("{asked:?}") };
            Ok(Continued::default())
        }

        fn load(&mut self, documents: &[Sent]) -> Result<Vec<(usize, Problem)>, LoadError> {
            let mut problems = Vec::new();
            for (at, Sent { key, end, .. }) in documents.iter().enumerate() {
                assert_eq!(*end, None);
                if self.refuses.as_ref() == Some(key) {
                    problems.push((at, Problem::Refused(Error::invalid("not this one"))));
                    if self.stops_at_refused {
                        break;
                    }
                } else if self.keys.contains(key) {
                    problems.push((at, Problem::Exists));
                } else {
                    self.keys.push(key.clone());
                }
            }
            Ok(problems)
        }
    }

    fn send(to: &mut Memory, text: &str, bad: BadDocuments) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.jsonl");
        std::fs::write(&path, text).unwrap();
        let sending = Sending {
            to,
            inputs: vec![Input::open(&path).unwrap()],
            key: Key::Path("id".to_owned()),
            bad,
            stops_on_error: false,
            mode: (Mode::Insert, false),
            resumes: false,
            json: JsonOptions::new(),
        };
        sending.check().unwrap();
        sending.run(&mut Unwatched).unwrap()
    }

    const TEXT: &str = "{\"id\":1}\n{\"id\":2}\n{\"id\":1}\n{\"id\":3\n{\"id\":4}\n";

    #[test]
    fn documents_are_sent_in_their_order_up_to_a_bad_one() {
        let mut to = Memory::default();
        let outcome = send(&mut to, TEXT, BadDocuments::stop());
        assert_eq!(to.keys, [1, 2].map(Value::from));
        assert_eq!((outcome.count.documents, outcome.count.existing), (2, 1));
        let failure = outcome.failure.unwrap().to_string();
        assert!(failure.contains("in.jsonl:4:"), "{failure}");
    }

    #[test]
    fn bad_and_refused_documents_are_copied_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.txt");
        let mut to = Memory { refuses: Some(Value::from(2)), ..Memory::default() };
        let outcome = send(&mut to, TEXT, BadDocuments::copy_to(&path, &[]).unwrap());
        assert!(outcome.failure.is_none());
        assert_eq!(to.keys, [1, 4].map(Value::from));
        let count = outcome.count;
        assert_eq!((count.documents, count.existing, count.bad), (2, 1, 2));
        let copied = std::fs::read_to_string(&path).unwrap();
        let places: Vec<_> = copied
            .lines()
            .filter_map(|line| line.split_once("in.jsonl:"))
            .map(|(_, rest)| rest.split(':').next().unwrap())
            .collect();
        assert_eq!(places, ["2", "3", "4"], "{copied}");
    }

    #[test]
    fn nothing_after_a_refused_document_counts() {
        let refuses = Some(Value::from(2));
        let mut to = Memory { refuses, stops_at_refused: true, ..Memory::default() };
        let outcome = send(&mut to, TEXT, BadDocuments::stop());
        assert_eq!(to.keys, [Value::from(1)]);
        assert_eq!(outcome.count.documents, 1);
        let failure = outcome.failure.unwrap();
        assert!(matches!(&failure, LoadError::Usage(text) if text.contains("in.jsonl:2:1: not")));
    }
}
