//! How far a load came: a mark of each writer, in a keyspace of the database. A mark is committed
//! together with the documents before it, so a load that continues puts each document once.
//!
//! ```text
//! id                  history, number, time of the load, its writers, where it was complete, and
//!                     its settings: what the rest belongs to
//! id writer           number of the load, input, offset, checksum of all text before it
//! id                  or: "shards", history, of how many shards the marks are, their round
//! id FF FE shard ..   the same of a load of a shard, instead of the id alone
//! id FF FF "copies"   number of the load, bytes and checksum of the file of bad documents
//! id FF FF "copied"   number of the copy, the sort key of the last document that was copied
//! ```
//! `id` is that of the collection. The first key ends with the documents: when the collection is
//! dropped or cleared, or documents are removed by range or filter, flagstone removes it.
//!
//! A whole load and shards of different numbers replace each other's documents, so the first key
//! says whose marks count. Those of a shard name the round: they mean nothing in another one.
//!
//! A load that is complete keeps the first key, with the end and the checksum of all text, and the
//! last one; the marks of the writers are removed, those of a copy in a cluster when another
//! begins. If the same command is run again, it loads what follows that end, and its writers set
//! marks beyond it. A writer without a mark begins at that end. Documents that expire do not end
//! the marks, so where they may, a complete load keeps none.

use crate::error::LoadError;
use crate::ids;
use crate::sum::Sum;
use flagstone::internal::{Shard, put_remote_mark, remote_of};
use flagstone::remote::{Remote, Write};
use flagstone::{
    Batch, Collection, Database, Durability, ErrorKind, Expect, Keyspace, KeyspaceOptions, Routing,
    Slice, Space,
};
use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::str::{FromStr, SplitAsciiWhitespace};
use std::sync::Arc;

/// A place in the inputs: the number of the input, and an offset in its text; of tables with typed
/// columns, a number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the input, from 0.
    pub input: usize,
    /// What is before the place in this input.
    pub offset: u64,
}

/// A place up to which a writer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) place: Position,
    /// The checksum of all text of the inputs before the place.
    pub(crate) sum: u64,
}

/// The end of the file of bad documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopiesEnd {
    pub(crate) bytes: u64,
    /// The checksum of all its bytes.
    pub(crate) sum: Sum,
}

/// When a load began, and a random number: no other load has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadId {
    /// The time of the load, as in its keys.
    pub(crate) began: u64,
    pub(crate) number: u64,
}

/// What a sender knows of the load that it continues, or begins: one writer has its documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Continued {
    /// When the load began, as in its keys, and a random number.
    pub load: (u64, u64),
    /// The place up to which it has come.
    pub place: Position,
    /// The checksum of all text of the inputs before the place.
    pub sum: u64,
    /// Whether the load was complete.
    pub is_complete: bool,
    /// Whether it was stopped before.
    pub is_continued: bool,
}

/// The marks of one load.
#[derive(Debug)]
pub struct Marks {
    place: MarkPlace,
    /// Of which a load is.
    shard: Option<Shard>,
    /// What the first key said of a complete load, in whose place these are, and the one of its
    /// copies.
    replaced: Option<(String, Option<Vec<u8>>)>,
    /// The keys of the marks begin with it: the id of the collection, and the shard.
    prefix: Vec<u8>,
    load: LoadId,
    /// For each writer, the documents before this place were loaded earlier.
    loaded: Vec<Mark>,
    /// The bytes of the file of bad documents that belong to the marks, and their checksum.
    copies: Option<(u64, u64)>,
    continues: bool,
    /// What must be the same, a line each.
    settings: String,
    /// Of a shard: what says that the marks of this collection are still those of its shards.
    round: Option<u64>,
    /// Whether the load was complete, and no other one has come behind its end.
    is_complete: bool,
}

/// Where the marks are.
enum MarkPlace {
    Keyspace(Keyspace),
    /// With the documents, in a cluster. A batch sets them after its documents, so the documents
    /// behind the last mark may be there, and are put once more by a load that continues.
    Remote(Arc<dyn Remote>),
}

impl MarkPlace {
    fn get(&self, key: &[u8]) -> flagstone::Result<Option<Slice>> {
        match self {
            Self::Keyspace(keyspace) => keyspace.get(key),
            Self::Remote(remote) => remote.mark(key),
        }
    }

    fn put(&self, batch: &mut Batch, key: Vec<u8>, value: String) -> flagstone::Result<()> {
        match self {
            Self::Keyspace(keyspace) => batch.put(keyspace, key, value),
            Self::Remote(remote) => put_remote_mark(batch, remote, key, Some(value.into_bytes())),
        }
    }
}

impl fmt::Debug for MarkPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keyspace(_) => "a keyspace",
            Self::Remote(_) => "a cluster",
        })
    }
}

/// The keyspace of the marks. Its name cannot be that of a collection in use: those hold documents.
const KEYSPACE: &str = "flagstone.loads";

impl CopiesEnd {
    /// Returns the end after `text` was appended.
    pub(crate) fn then(self, text: &[u8]) -> Self {
        Self { bytes: self.bytes + text.len() as u64, sum: self.sum.then(text) }
    }
}

impl LoadId {
    /// Returns the id of a load that begins now.
    pub(crate) fn now() -> Self {
        let began = ids::time();
        Self { began, number: ids::random(began) }
    }
}

impl Marks {
    /// Opens the marks of the load into `collection` that was stopped, if there is one, or begins
    /// new ones. `settings` are what must be the same, such as the names of the inputs. A shard has
    /// marks of its own.
    ///
    /// # Errors
    /// Usage when the load that was stopped had other inputs or settings. Those of the database.
    pub fn open(
        database: &Database,
        collection: &Collection,
        shard: Option<Shard>,
        settings: &[(&str, String)],
        writers: u16,
    ) -> Result<Self, LoadError> {
        let mut marks = Self::new(database, collection, shard, settings)?;
        if let Some(shard) = shard {
            // One that was stopped has other settings: it is refused, as by a whole load.
            let mut whole = Self::new(database, collection, None, settings)?;
            if let Some(head) = whole.place.get(&whole.prefix)? {
                let history = whole.history_of(database);
                whole.take_up(&String::from_utf8_lossy(&head), &history, collection)?;
            }
            marks.round = Some(whole.enter_shards(database, shard)?);
        }
        if let Some(head) = marks.place.get(&marks.prefix)?
            && marks.take_up(
                &String::from_utf8_lossy(&head),
                &marks.history_of(database),
                collection,
            )?
            // An index may have removed documents since.
            && !(marks.is_complete && may_expire(database, collection))
        {
            return Ok(marks);
        }
        marks.begin(database, writers)?;
        Ok(marks)
    }

    /// Opens the marks of a copy into `collection` that was stopped or complete, if its settings
    /// were these. Into an empty collection it begins a new one.
    ///
    /// # Errors
    /// Usage for a collection with documents that are not of this copy. Those of the database.
    pub(crate) fn of_copy(
        database: &Database,
        collection: &Collection,
        settings: &[(&str, String)],
    ) -> Result<Self, LoadError> {
        let mut marks = Self::new(database, collection, None, settings)?;
        if collection.scan(..).keys().next().transpose()?.is_none() {
            // A copy that was stopped has come to no document, or they are gone.
            marks.begin(database, 1)?;
            return Ok(marks);
        }
        let why = match marks.place.get(&marks.prefix)? {
            None => "it is not empty".to_owned(),
            Some(head) => {
                let head = String::from_utf8_lossy(&head);
                let known = head.split_once('\n').map_or("", |(_, known)| known);
                match marks.take_up(&head, &marks.history_of(database), collection) {
                    Ok(true) => return Ok(marks),
                    Ok(false) => "it is not empty".to_owned(),
                    Err(LoadError::Usage(_other_settings)) => format!(
                        "it has a part of another load or copy, which was stopped: {}",
                        difference(known, &marks.settings)
                    ),
                    Err(error) => return Err(error),
                }
            }
        };
        Err(LoadError::Usage(format!(
            "cannot copy into collection {:?}: {why}; drop it first",
            collection.name()
        )))
    }

    /// The marks of a load or a copy of which nothing is known yet.
    fn new(
        database: &Database,
        collection: &Collection,
        shard: Option<Shard>,
        settings: &[(&str, String)],
    ) -> Result<Self, LoadError> {
        let place = match remote_of(collection) {
            Some(remote) => MarkPlace::Remote(Arc::clone(remote)),
            None => MarkPlace::Keyspace(keyspace_of(database)?),
        };
        let lines = settings.iter().map(|(name, value)| format!("{name}\t{}\n", line(value)));
        Ok(Self {
            place,
            shard,
            replaced: None,
            prefix: prefix_of(collection, shard),
            load: LoadId::now(),
            loaded: Vec::new(),
            copies: None,
            continues: false,
            settings: lines.collect(),
            round: None,
            is_complete: false,
        })
    }

    /// The history of the database as text; of a cluster, the number of the collection, which no
    /// other has. Of a shard with the round.
    fn history_of(&self, database: &Database) -> String {
        let history = match &self.place {
            MarkPlace::Keyspace(_) => database.snapshot().version().history(),
            MarkPlace::Remote(remote) => u64::from(remote.id()),
        };
        match self.round {
            None => format!("{history:016x}"),
            Some(round) => format!("{history:016x}-{round:016x}"),
        }
    }

    /// Makes the first key say that the marks are those of shards, of as many as there are of
    /// `shard`, and returns their round. `self` are the marks of a whole load.
    fn enter_shards(&self, database: &Database, shard: Shard) -> Result<u64, LoadError> {
        let [a, b, ..] = shard.to_bytes();
        let of = u16::from_be_bytes([a, b]);
        let line = format!("{SHARDS} {} {of} ", self.history_of(database));
        let head = self.place.get(&self.prefix)?;
        let known = head.as_deref().and_then(|head| {
            let round = std::str::from_utf8(head).ok()?.strip_prefix(&line)?;
            u64::from_str_radix(round, 16).ok()
        });
        if let Some(round) = known {
            return Ok(round);
        }
        let round = match (&head, &self.place) {
            // Shards that begin at once, in several processes, find the same and agree.
            (Some(head), _) => Sum::of(head).value(),
            // In a cluster all marks end together.
            (None, MarkPlace::Remote(_)) => 0,
            // A transaction may have removed the first key alone.
            (None, MarkPlace::Keyspace(_)) => ids::random(ids::time()),
        };
        let mut batch = database.batch();
        self.place.put(&mut batch, self.prefix.clone(), format!("{line}{round:016x}"))?;
        database.commit(batch)?;
        Ok(round)
    }

    /// Begins a new load. What an earlier one has left does not belong to it.
    ///
    /// # Errors
    /// Those of the database.
    pub fn begin(&mut self, database: &Database, writers: u16) -> Result<(), LoadError> {
        self.load = LoadId::now();
        self.loaded = vec![Mark::default(); usize::from(writers)];
        (self.copies, self.continues, self.is_complete) = (None, false, false);
        let mut batch = database.batch();
        self.put_head(&mut batch, database, None)?;
        Ok(database.commit(batch)?)
    }

    /// Ends a load that has come to no document: a complete one that it has replaced counts again,
    /// unless the marks are of another one meanwhile. If that fails, the marks stay those of this
    /// load, and another one is refused until it is run without them.
    pub fn end_without_any(&self, database: &Database) {
        let Some((head, copies)) = &self.replaced else { return };
        let put = || -> Result<(), LoadError> {
            if !self.are_current()? {
                return Ok(());
            }
            let mut batch = database.batch();
            self.place.put(&mut batch, self.prefix.clone(), head.clone())?;
            if let Some(copies) = copies {
                let copies = String::from_utf8_lossy(copies).into_owned();
                self.place.put(&mut batch, self.copies_key(), copies)?;
            }
            Ok(database.commit(batch)?)
        };
        let _stays_replaced = put();
    }

    /// Returns whether these marks are still there: they end with documents that others remove, and
    /// when another load begins.
    fn are_current(&self) -> flagstone::Result<bool> {
        Ok(self.place.get(&self.prefix)?.is_some_and(|head| self.is_own(&head)))
    }

    /// Returns whether this is the first key's value of this load.
    fn is_own(&self, head: &[u8]) -> bool {
        let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        String::from_utf8_lossy(first).contains(&format!(" {:016x} ", self.load.number))
    }

    /// Notes that the load is complete: all text of the inputs before `end` is loaded. Marks that
    /// ended meanwhile, with documents of the load, stay away.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) fn end_at(
        &self,
        database: &Database,
        end: Mark,
        durability: Option<Durability>,
    ) -> flagstone::Result<()> {
        let keyspace = match &self.place {
            MarkPlace::Keyspace(keyspace) => keyspace,
            MarkPlace::Remote(remote) => return self.end_remote_at(database, remote, end),
        };
        loop {
            let read = database.snapshot().version();
            if !self.are_current()? {
                return Ok(());
            }
            let mut batch = database.batch();
            batch.expect(keyspace, &self.prefix, Expect::UnchangedSince(read))?;
            self.put_head(&mut batch, database, Some(end))?;
            let batch = match durability {
                Some(durability) => batch.durability(durability),
                None => batch,
            };
            match database.commit(batch) {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                ended => return ended,
            }
        }
    }

    /// As [`Marks::end_at`]. The other keys stay until the next load begins: they may be those of
    /// another one by now, and the first says that the load is complete.
    fn end_remote_at(
        &self,
        database: &Database,
        remote: &Arc<dyn Remote>,
        end: Mark,
    ) -> flagstone::Result<()> {
        let head = self.head(database, Some(end)).into_bytes();
        let _is_put = remote.rewrite_mark(&self.prefix, &mut |found| {
            let is_own = found.is_some_and(|row| self.is_own(&row.document));
            Ok(if is_own { Write::Put(head.clone(), None) } else { Write::Nothing })
        })?;
        Ok(())
    }

    /// Notes that the load into `collection` is complete, whose inputs are known by their identity
    /// among the settings. Keeps no marks if documents may expire.
    ///
    /// # Errors
    /// Those of the database.
    pub fn complete(&self, database: &Database, collection: &Collection) -> Result<(), LoadError> {
        if may_expire(database, collection) {
            return remove_at_end(database, collection, self.shard);
        }
        Ok(self.end_at(database, Mark::default(), None)?)
    }

    /// Puts the first key, and removes the others.
    fn put_head(
        &self,
        batch: &mut Batch,
        database: &Database,
        complete: Option<Mark>,
    ) -> flagstone::Result<()> {
        let (start, end) = range_of(&self.prefix);
        // What a complete load has copied stays known.
        let end = if complete.is_none() { end } else { self.copies_key() };
        match &self.place {
            MarkPlace::Keyspace(keyspace) => batch.delete_range(keyspace, start..end)?,
            MarkPlace::Remote(remote) => {
                let writers = (0..self.loaded.len() as u16).map(|writer| self.key(writer));
                for key in writers.chain([self.copies_key(), self.copied_key()]) {
                    put_remote_mark(batch, remote, key, None)?;
                }
            }
        }
        self.place.put(batch, self.prefix.clone(), self.head(database, complete))
    }

    /// Returns the value of the first key.
    fn head(&self, database: &Database, complete: Option<Mark>) -> String {
        let LoadId { began, number } = self.load;
        let (history, writers) = (self.history_of(database), self.loaded.len());
        let complete = complete.map_or(String::new(), |Mark { place, sum }| {
            format!(" {COMPLETE} {} {} {sum}", place.input, place.offset)
        });
        format!("{history} {number:016x} {began} {writers}{complete}\n{}", self.settings)
    }

    /// Reads the marks whose first value is `head`. Returns false if they do not count any more:
    /// their documents are gone, or a complete load was another one.
    fn take_up(
        &mut self,
        head: &str,
        history: &str,
        collection: &Collection,
    ) -> Result<bool, LoadError> {
        let (first, known) = head.split_once('\n').unwrap_or((head, ""));
        let mut words = first.split_ascii_whitespace();
        // A backup or a repair need not have what the marks count.
        if words.next() != Some(history) {
            return Ok(false);
        }
        let number = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        let (Some(number), Some(began), Some(writers)) =
            (number, next::<u64>(&mut words), next::<u16>(&mut words))
        else {
            return Err(bad(head));
        };
        let complete = match words.next() {
            None => None,
            Some(COMPLETE) => Some(read_mark(&mut words).ok_or_else(|| bad(head))?),
            Some(_) => return Err(bad(head)),
        };
        self.load = LoadId { began, number };
        self.loaded = (0..writers).map(|writer| self.mark_of(writer)).collect::<Result<_, _>>()?;
        if let Some(end) = complete {
            let behind = self.loaded.iter_mut().filter(|mark| mark.place < end.place);
            behind.for_each(|mark| *mark = end);
        }
        let end = self.end();
        let is_complete = complete == Some(end);
        if known != self.settings {
            if is_complete {
                let copies = self.place.get(&self.copies_key())?.map(|copies| copies.to_vec());
                self.replaced = Some((head.to_owned(), copies));
                return Ok(false);
            }
            return Err(LoadError::Usage(format!(
                "a load into {} was stopped that had {}; {START_OVER}",
                collection.name(),
                difference(known, &self.settings)
            )));
        }
        let is_empty = || collection.scan(..).keys().next().transpose().map(|key| key.is_none());
        if (is_complete || end.place > Position::default()) && is_empty()? {
            return Ok(false);
        }
        self.copies = self.read_copies()?;
        (self.is_complete, self.continues) = (is_complete, !is_complete);
        Ok(true)
    }

    fn key(&self, writer: u16) -> Vec<u8> {
        [&self.prefix[..], &writer.to_be_bytes()].concat()
    }

    fn copies_key(&self) -> Vec<u8> {
        [&self.prefix[..], b"\xFF\xFFcopies"].concat()
    }

    fn copied_key(&self) -> Vec<u8> {
        [&self.prefix[..], b"\xFF\xFFcopied"].concat()
    }

    /// Returns the sort key of the last document that was copied.
    ///
    /// # Errors
    /// Those of the database; Io for a mark that cannot be read.
    pub(crate) fn copied(&self) -> Result<Option<Vec<u8>>, LoadError> {
        self.read(&self.copied_key(), |words| from_hex(words.next()?))
    }

    /// Puts into `batch` that the documents up to this sort key are copied with it.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub(crate) fn put_copied(&self, batch: &mut Batch, key: &[u8]) -> flagstone::Result<()> {
        let text = format!("{:016x} {}", self.load.number, to_hex(key));
        self.place.put(batch, self.copied_key(), text)
    }

    /// Reads what this load has put under `key` and parses it by `parse`, without the number of the
    /// load.
    fn read<T>(
        &self,
        key: &[u8],
        parse: impl FnOnce(&mut SplitAsciiWhitespace<'_>) -> Option<T>,
    ) -> Result<Option<T>, LoadError> {
        let Some(bytes) = self.place.get(key)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let mut words = text.split_ascii_whitespace();
        let number = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        match number {
            None => Err(bad(&text)),
            Some(number) if number != self.load.number => Ok(None),
            Some(_) => parse(&mut words).map(Some).ok_or_else(|| bad(&text)),
        }
    }

    fn mark_of(&self, writer: u16) -> Result<Mark, LoadError> {
        self.read(&self.key(writer), read_mark).map(Option::unwrap_or_default)
    }

    fn read_copies(&self) -> Result<Option<(u64, u64)>, LoadError> {
        self.read(&self.copies_key(), |words| Some((next(words)?, next(words)?)))
    }

    /// Returns the number of writers of the load, which decides the writer of each key.
    pub(crate) const fn writers(&self) -> usize {
        self.loaded.len()
    }

    /// Returns the id of the load, that of the one that is continued.
    pub(crate) const fn load(&self) -> LoadId {
        self.load
    }

    /// Returns whether a load with these settings was complete.
    pub const fn are_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns whether there was a load that was stopped.
    pub const fn continue_one(&self) -> bool {
        self.continues
    }

    /// Returns the place up to which the load that was stopped or complete has come.
    pub(crate) fn end(&self) -> Mark {
        self.loaded.iter().max_by_key(|mark| mark.place).copied().unwrap_or_default()
    }

    /// Returns the first place whose document may not be loaded yet.
    pub fn start(&self) -> Position {
        self.loaded.iter().map(|mark| mark.place).min().unwrap_or_default()
    }

    /// Returns how many bytes of the file of bad documents belong to the marks, and their checksum.
    pub(crate) const fn copies(&self) -> Option<(u64, u64)> {
        self.copies
    }

    /// Returns the place up to which `writer` has loaded all documents earlier. It is in the middle
    /// of a document if the text ended there, and has grown since.
    pub(crate) fn loaded_by(&self, writer: usize) -> Position {
        self.loaded.get(writer).map(|mark| mark.place).unwrap_or_default()
    }

    /// Puts into `batch` that the rows of one writer before `place` are loaded with it, of inputs
    /// whose identity is among the settings.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put(&self, batch: &mut Batch, place: Position) -> flagstone::Result<()> {
        self.put_mark(batch, 0, Mark { place, sum: 0 })
    }

    /// Returns what a sender needs to know.
    pub fn continued(&self) -> Continued {
        let (LoadId { began, number }, Mark { place, sum }) = (self.load, self.end());
        let (is_complete, is_continued) = (self.is_complete, self.continues);
        Continued { load: (began, number), place, sum, is_complete, is_continued }
    }

    /// Puts into `batch` that the documents before `place` are loaded with it. `sum`: the checksum
    /// of all text before it.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_sent(&self, batch: &mut Batch, place: Position, sum: u64) -> flagstone::Result<()> {
        self.put_mark(batch, 0, Mark { place, sum })
    }

    /// Notes that the load is complete up to `place`, as [`Marks::put_sent`]. Keeps no marks if the
    /// text cannot be read again, or documents may expire.
    ///
    /// # Errors
    /// Those of the database.
    pub fn complete_sent(
        &self,
        database: &Database,
        collection: &Collection,
        place: Position,
        sum: u64,
        is_repeatable: bool,
    ) -> Result<(), LoadError> {
        if !is_repeatable || may_expire(database, collection) {
            return remove_at_end(database, collection, self.shard);
        }
        Ok(self.end_at(database, Mark { place, sum }, None)?)
    }

    /// Puts into `batch` that the documents of `writer` before `mark` are loaded with it.
    pub(crate) fn put_mark(
        &self,
        batch: &mut Batch,
        writer: usize,
        mark: Mark,
    ) -> flagstone::Result<()> {
        let Mark { place, sum } = mark;
        // A writer may be ahead of the place at which the load continues.
        if place < self.loaded_by(writer) {
            return Ok(());
        }
        let text = format!("{:016x} {} {} {sum}", self.load.number, place.input, place.offset);
        self.place.put(batch, self.key(writer as u16), text)
    }

    /// Puts into `batch` that the file of bad documents ends at `end` with it.
    pub(crate) fn put_copies(&self, batch: &mut Batch, end: CopiesEnd) -> flagstone::Result<()> {
        let text = format!("{:016x} {} {}", self.load.number, end.bytes, end.sum.value());
        self.place.put(batch, self.copies_key(), text)
    }
}

/// How to go on where a load cannot be continued.
pub(crate) const START_OVER: &str = "without --resume the load begins at the start";

/// The word in the first key of a load that is complete.
const COMPLETE: &str = "complete";

/// The word with which the first key begins while the marks are those of shards. It is in the place
/// of a history: for a whole load there are no marks.
const SHARDS: &str = "shards";

/// Opens the keyspace of the marks, or creates it.
fn keyspace_of(database: &Database) -> Result<Keyspace, LoadError> {
    let options = KeyspaceOptions::new().routing(Routing::Hash(1));
    match database.space(KEYSPACE).existing().keyspace() {
        Ok(Some(keyspace)) => Ok(keyspace),
        Ok(None) => Ok(database.space(KEYSPACE).options(options).keyspace()?),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Err(LoadError::Usage(format!(
            "a collection is named {KEYSPACE}, where --resume keeps how far loads came: expected \
             another name of it"
        ))),
        Err(error) => Err(error.into()),
    }
}

/// Returns the first setting that differs: what it was, and what it is.
fn difference(known: &str, now: &str) -> String {
    let (known, now): (Vec<&str>, Vec<&str>) = (known.lines().collect(), now.lines().collect());
    let most = known.len().max(now.len());
    let at = (0..most).find(|at| known.get(*at) != now.get(*at)).unwrap_or(most);
    let show =
        |side: &[&str]| side.get(at).map_or("nothing".to_owned(), |line| line.replace('\t', " "));
    format!("{}: found {}", show(&known), show(&now))
}

fn read_mark(words: &mut SplitAsciiWhitespace<'_>) -> Option<Mark> {
    let place = Position { input: next(words)?, offset: next(words)? };
    Some(Mark { place, sum: next(words)? })
}

/// Returns a setting as one line.
fn line(value: &str) -> String {
    value.replace('\n', "\\n")
}

fn next<T: FromStr>(words: &mut SplitAsciiWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(|pair| byte(pair).filter(|_| pair.len() == 2)).collect()
}

fn bad(found: impl Display) -> LoadError {
    LoadError::Io(format!("keyspace {KEYSPACE:?}: expected a mark of a load, found {found}"))
}

/// Returns the first key of the marks of a collection, and the one after the last.
fn range_of(prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (prefix.to_vec(), [prefix, &[0xFF; 8]].concat())
}

/// Returns with what the keys of the marks of a load begin.
fn prefix_of(collection: &Collection, shard: Option<Shard>) -> Vec<u8> {
    let id = collection.id().to_be_bytes();
    match shard {
        None => id.to_vec(),
        Some(shard) => [&id[..], b"\xFF\xFE", &shard.to_bytes()].concat(),
    }
}

/// Returns the length of a file and the checksum of all its bytes as text: the identity of an input
/// of which a load that continues cannot read the first part alone. `path` is for errors. The file
/// is read from where it is, which is its begin, and is at its begin afterwards.
///
/// # Errors
/// When the file cannot be read.
pub fn identity_of(path: &Path, file: &mut File) -> Result<String, LoadError> {
    let refused = |error: &io::Error| LoadError::io("read", path, error);
    let (mut part, mut sum, mut bytes) = (vec![0; 1 << 20], Sum::default(), 0);
    loop {
        match file.read(&mut part) {
            Ok(0) => {
                file.rewind().map_err(|error| refused(&error))?;
                return Ok(format!("{bytes} bytes of checksum {:016x}", sum.value()));
            }
            Ok(len) => (sum, bytes) = (sum.then(&part[..len]), bytes + len as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(refused(&error)),
        }
    }
}

/// Returns whether documents of the collection may expire: by an expiry of their own, or by an
/// index. Then they can be gone without an end of the marks.
pub(crate) fn may_expire(database: &Database, collection: &Collection) -> bool {
    if remote_of(collection).is_some() {
        return true;
    }
    let name = collection.name();
    database.keyspaces().iter().any(|info| info.name == name && info.expires)
}

/// Removes the marks of a load that is complete. If the nodes of a cluster do not answer, some
/// stay: the same load goes on there, finds its documents, and is complete.
pub(crate) fn remove_at_end(
    database: &Database,
    collection: &Collection,
    shard: Option<Shard>,
) -> Result<(), LoadError> {
    let is_away = |error: &flagstone::Error| {
        matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown)
    };
    match remove(database, collection, shard) {
        Err(LoadError::Engine(error)) if remote_of(collection).is_some() && is_away(&error) => {
            Ok(())
        }
        removed => removed,
    }
}

/// Removes the marks of loads into `collection`: the next load begins at the start. Of a shard,
/// only its own, and what does not go on after a load of it. Their keyspace stays: a load into
/// another collection may be about to put a mark into it.
///
/// # Errors
/// Those of the database.
pub fn remove(
    database: &Database,
    collection: &Collection,
    shard: Option<Shard>,
) -> Result<(), LoadError> {
    let prefix = prefix_of(collection, shard);
    if let Some(remote) = remote_of(collection) {
        let Some(shard) = shard else { return Ok(remote.end_loads()?) };
        enter_known(database, collection, shard)?;
        // The others mean nothing without the first.
        if remote.mark(&prefix)?.is_some() {
            remote.put_marks(vec![(prefix, None)])?;
        }
        return Ok(());
    }
    let keyspace = match database.space(KEYSPACE).existing().keyspace() {
        Ok(Some(keyspace)) => keyspace,
        Ok(None) => return Ok(()),
        // It is somebody's collection, so that there are no marks.
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if let Some(shard) = shard {
        enter_known(database, collection, shard)?;
    }
    let (start, end) = range_of(&prefix);
    if keyspace.scan(start.clone()..end.clone()).next().transpose()?.is_some() {
        keyspace.delete_range(start..end)?;
    }
    Ok(())
}

/// As [`Marks::enter_shards`], if there are marks that count.
fn enter_known(
    database: &Database,
    collection: &Collection,
    shard: Shard,
) -> Result<(), LoadError> {
    let whole = Marks::new(database, collection, None, &[])?;
    if whole.place.get(&whole.prefix)?.is_some() {
        whole.enter_shards(database, shard)?;
    }
    Ok(())
}
