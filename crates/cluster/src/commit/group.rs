//! How the writes of a group become batches.

use super::call::{Call, Decider, Done, Item, Op};
use super::claims::{Claimed, Claims, Held, Wanted, no_document, unique};
use super::queue::{GROUP_MAX, Lead};
use super::send::{Mark, new_token};
use crate::backoff::Backoff;
use crate::catalog::Buckets;
use crate::form::{is_nothing, packed, unpacked};
use crate::ground::{Ground, View, no_answer, place, settle};
use crate::store::{
    Batch, Change, Condition, Freshness, Kind, Outcome, RowKey, RowsRequest, STATEMENTS_FULL,
    StoredRow, Token,
};
use flagstone::remote::{Changes, EntryChange, Row, Write, shown_key};
use flagstone_base::{Error, ErrorKind, Result, Slice};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A batch with this many bytes takes no more documents.
const BATCH_BYTES: usize = 1 << 20;
/// The bytes of the documents that a round reads, about.
const READ_BYTES: usize = 8 << 20;
/// How often the documents of a batch are read and decided.
const TRIES: u32 = 100;

/// Writes the group of a leader, whose own call is at `mine`, and ends all its calls. `bucket` is
/// the number of the bucket among `buckets`. If a rebalance makes others, the callers repeat the
/// writes that are left.
pub(super) fn run(
    ground: &Ground,
    bucket: u32,
    buckets: &Buckets,
    mark: &mut Mark,
    lead: &mut Lead<'_>,
    mine: usize,
    decider: &mut Decider<'_>,
) {
    let calls: Vec<Arc<Call>> = (0..lead.len()).map(|at| Arc::clone(lead.call(at))).collect();
    let mut results = Results::new(&calls);
    let mut todo: Vec<(usize, &Item)> = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        todo.extend(call.items.iter().map(|item| (at, item)));
        // One without items is done.
        results.end_done(lead, at);
    }
    let mut group = Group { ground, bucket, buckets, mark, is_refused: false };
    let mut backoff = Backoff::of(TRIES);
    let mut left = &todo[..];
    while !left.is_empty() {
        let mut ask = |at: usize, row: Option<Row>| {
            if at == mine { decider.decide(row.as_ref()) } else { calls[at].ask(row) }
        };
        match group.round(left, &mut ask) {
            Ok(Round::Done(done)) => {
                for ((at, item), result) in left.iter().zip(&done) {
                    results.add(*at, item, result);
                    results.end_done(lead, *at);
                }
                left = &left[done.len()..];
                backoff = Backoff::of(TRIES);
            }
            Ok(Round::Failed(done, error)) => {
                let rest = left.len() - done.len();
                let rest = std::iter::repeat_n(Err(not_tried(&error)), rest);
                for ((at, item), result) in left.iter().zip(done.into_iter().chain(rest)) {
                    results.add(*at, item, &result);
                    results.end_done(lead, *at);
                }
                return;
            }
            Ok(Round::Left) => return results.leave(lead),
            Ok(Round::Again) if backoff.again() => {}
            Ok(Round::Again) => {
                let error = conflict(ground, bucket);
                left = results.fail(lead, left, &error);
            }
            Err(error) => left = results.fail(lead, left, &nothing_written(error)),
        }
    }
}

/// The results of the calls of a group: whether something was written, or the first error.
struct Results(Vec<(usize, Result<bool>)>);

impl Results {
    fn new(calls: &[Arc<Call>]) -> Self {
        Self(calls.iter().map(|call| (call.items.len(), Ok(false))).collect())
    }

    fn add(&mut self, at: usize, item: &Item, result: &Result<bool>) {
        if let Op::Insert(_, told) = &item.op {
            // Each has one result.
            let _only = told.set(result.clone());
        }
        let (left, sum) = &mut self.0[at];
        *left -= 1;
        match (&mut *sum, result) {
            (Ok(sum), Ok(is_written)) => *sum |= is_written,
            (Ok(_), Err(error)) => *sum = Err(error.clone()),
            (Err(_), _) => {}
        }
    }

    /// Ends a call all of whose writes have results.
    fn end_done(&mut self, lead: &mut Lead<'_>, at: usize) {
        let (left, sum) = &mut self.0[at];
        if *left == 0 {
            lead.end(at, std::mem::replace(sum, Ok(false)));
        }
    }

    /// Ends all calls that have writes that are left.
    fn leave(self, lead: &mut Lead<'_>) {
        for (at, (left, result)) in
            self.0.into_iter().enumerate().filter(|(_, (left, _))| *left > 0)
        {
            lead.end(at, Done { result, left });
        }
    }

    /// Ends all writes that are left, and returns those that are left then: none.
    fn fail<'t, 'i>(
        &mut self,
        lead: &mut Lead<'_>,
        left: &'t [(usize, &'i Item)],
        error: &Error,
    ) -> &'t [(usize, &'i Item)] {
        for (at, item) in left {
            self.add(*at, item, &Err(error.clone()));
            self.end_done(lead, *at);
        }
        &left[left.len()..]
    }
}

/// What became of the first writes of those that are left.
enum Round {
    /// They have these results.
    Done(Vec<Result<bool>>),
    /// They have these results. The batch failed with this error, and the next would, too.
    Failed(Vec<Result<bool>>, Error),
    /// Nothing was written: read and decide again.
    Again,
    /// Nothing was written: the collection has other buckets now.
    Left,
}

struct Group<'g> {
    ground: &'g Ground,
    bucket: u32,
    buckets: &'g Buckets,
    mark: &'g mut Mark,
    /// Whether the last batch was refused: then the epoch is looked at, too.
    is_refused: bool,
}

/// A document of a round.
#[derive(Default)]
struct Document {
    /// What is stored, and the token of the row. `None` if it was not read.
    stored: Option<(Option<Row>, Option<Token>)>,
    /// What the writes so far make of it.
    now: Option<Row>,
    is_written: bool,
    changes: Changes,
    /// Why what is stored cannot be read.
    broken: Option<Error>,
}

type Ask<'a> = &'a mut dyn FnMut(usize, Option<Row>) -> Result<Write>;

impl Group<'_> {
    fn round(&mut self, left: &[(usize, &Item)], ask: Ask<'_>) -> Result<Round> {
        let view = self.ground.look()?;
        if view.note.rows.buckets != *self.buckets {
            return Ok(Round::Left);
        }
        let left = &left[..left.len().min(GROUP_MAX)];
        let Some(mut documents) = self.read(&view, left)? else { return Ok(Round::Again) };
        let (mut results, mut bytes, mut statements) = (Vec::new(), 0, 0);
        let mut values = has_unique(&view).then(|| Values::new(&view));
        for (at, item) in left {
            let Some(document) = documents.get_mut(&item.row) else { break };
            let was_written = document.is_written;
            if was_written && values.is_some() {
                break;
            }
            let result = self.decide(&view, document, item, &mut |row| ask(*at, row));
            if matches!(result, Ok(true)) {
                bytes += size(document);
                statements += document.changes.entries.len();
                if let Some(values) = &mut values
                    && !values.add(results.len(), &item.row, document)
                {
                    document.is_written = false;
                    break;
                }
            }
            // A result that rests on an earlier write of the round is one only with its batch.
            results.push((result, was_written));
            if bytes >= BATCH_BYTES || statements >= STATEMENTS_FULL {
                break;
            }
        }
        // Where all documents are new, nothing that is read tells how long they are.
        let written = documents.values().filter(|document| document.is_written);
        let lengths = written.filter_map(|document| Some(document.now.as_ref()?.document.len()));
        self.ground.sizes.note_lengths(lengths);
        let notes: Vec<_> =
            documents.values().flat_map(|document| document.changes.notes.clone()).collect();
        if !notes.is_empty() {
            drop(self.ground.unite(&notes)?);
            return Ok(Round::Again);
        }
        let mut given_up = None;
        if let Some(values) = values {
            let claims = Claims::of(self.ground, &view)?;
            let mut refused = None;
            match claims.claim(&values.wanted)? {
                Claimed::All => {}
                Claimed::Stale => return Ok(Round::Again),
                Claimed::Refused(at, error) => refused = Some((values.places[at], Some(error))),
                Claimed::Changed(at) => refused = Some((values.places[at], None)),
            }
            if let Some((first, error)) = refused {
                // Those before it are written, those behind it come with the next round.
                let decided = results.len();
                results.truncate(first);
                results.extend(error.map(|error| (Err(error), false)));
                if results.is_empty() {
                    return Ok(Round::Again);
                }
                for (_, item) in &left[first..decided] {
                    documents.entry(item.row.clone()).or_default().is_written = false;
                }
            }
            let Some(held) = given_up_by(&claims, &view, &mut documents)? else {
                return Ok(Round::Again);
            };
            given_up = Some((claims, held));
        }
        match self.commit(&view, documents) {
            Ok(Outcome::Applied) => {
                self.is_refused = false;
                if let Some((claims, held)) = given_up {
                    claims.let_go(&held);
                }
                Ok(Round::Done(results.into_iter().map(|(result, _)| result).collect()))
            }
            Ok(Outcome::Refused) => {
                self.is_refused = true;
                Ok(Round::Again)
            }
            Err(error) => {
                let rests = |(result, was_written)| match result {
                    Ok(true) => Err(error.clone()),
                    _ if was_written => Err(error.clone()),
                    result => result,
                };
                Ok(Round::Failed(results.into_iter().map(rests).collect(), error))
            }
        }
    }

    /// Reads the documents whose state matters. Returns `None` if the catalog has changed.
    fn read(
        &self,
        view: &Arc<View>,
        left: &[(usize, &Item)],
    ) -> Result<Option<HashMap<RowKey, Document>>> {
        let partition = view.partition(self.bucket);
        let is_indexed = !view.catalog.indexes().is_empty();
        let mut documents: HashMap<RowKey, Document> = HashMap::with_capacity(left.len());
        let mut keys = Vec::new();
        let fitting = self.ground.sizes.fitting(READ_BYTES);
        for (_, item) in left {
            if documents.contains_key(&item.row) {
                continue;
            }
            let has_entries = is_indexed && item.row.kind == Kind::DOCUMENTS;
            if has_entries || matches!(item.op, Op::Decide | Op::Insert(..)) {
                // The rest is for the next round.
                if keys.len() >= fitting {
                    break;
                }
                keys.push(item.row.clone());
            }
            documents.insert(item.row.clone(), Document::default());
        }
        if keys.is_empty() && !self.is_refused {
            return Ok(Some(documents));
        }
        let freshness = Freshness::Serial;
        let request = RowsRequest { partition, keys: keys.clone(), freshness };
        let read = self.ground.store.rows(&[request]).pop().ok_or_else(no_answer)??;
        if read.epoch != Some(view.note.epoch) {
            let newest = settle(self.ground, self.bucket, self.buckets)?;
            if !Arc::ptr_eq(&newest, view) {
                return Ok(None);
            }
        }
        self.ground.sizes.note(read.rows.iter().flatten());
        for (key, row) in keys.into_iter().zip(read.rows) {
            let Some(document) = documents.get_mut(&key) else { continue };
            match row.map(|row| self.row(view, row)).transpose() {
                Ok(stored) => {
                    let (row, token) = stored.unwrap_or_default();
                    document.now = row.clone();
                    document.stored = Some((row, token));
                }
                Err(error) => document.broken = Some(error),
            }
        }
        Ok(Some(documents))
    }

    fn row(&self, view: &View, row: StoredRow) -> Result<(Option<Row>, Option<Token>)> {
        if is_nothing(&row.value) {
            return Ok((None, row.token));
        }
        let document = unpacked(&row.value).map_err(|error| {
            let place = place(&self.ground.name, view.partition(self.bucket));
            error.context(format!("{place}, document of key {}", shown_key(&row.key)))
        })?;
        Ok((Some(Row { document, expiry: row.expiry }), row.token))
    }

    /// Does one write of a document in memory. Returns whether it writes something.
    fn decide(
        &self,
        view: &View,
        document: &mut Document,
        item: &Item,
        ask: &mut dyn FnMut(Option<Row>) -> Result<Write>,
    ) -> Result<bool> {
        if let Some(error) = &document.broken {
            return Err(error.clone());
        }
        let is_unread = document.stored.is_none() && !document.is_written;
        let now = self.ground.now();
        let visible = document.now.clone().filter(|row| row.expiry.is_none_or(|at| at > now));
        let is_there = visible.is_some();
        let new = match &item.op {
            Op::Insert(..) if is_there => return Ok(false),
            Op::Put(row) | Op::Insert(row, _) => Some(row.clone()),
            Op::Delete => None,
            Op::Decide => match ask(visible)? {
                Write::Nothing => return Ok(false),
                Write::Delete => None,
                Write::Put(document, expiry) => Some(Row { document: document.into(), expiry }),
            },
        };
        if new.is_none() && !is_there && !is_unread {
            return Ok(false);
        }
        let stored = document.stored.as_ref().and_then(|(row, _)| row.as_ref());
        if item.row.kind == Kind::DOCUMENTS {
            document.changes = view.catalog.changes(&item.row.key, stored, new.as_ref())?;
        }
        document.now = new;
        document.is_written = true;
        Ok(true)
    }

    /// Writes what has changed, by one batch.
    fn commit(&mut self, view: &View, documents: HashMap<RowKey, Document>) -> Result<Outcome> {
        let token = new_token();
        let (mut conditions, mut changes) = (Vec::new(), Vec::new());
        let has_unique = has_unique(view);
        for (row, document) in documents {
            if !document.is_written {
                continue;
            }
            if let Some((_, token)) = document.stored {
                conditions.push(Condition { row: row.clone(), token });
            }
            changes.extend(view.noted(&row, token));
            let expiry = document.now.as_ref().and_then(|row| row.expiry);
            changes.push(match &document.now {
                // A writer that still wants to set it, and its unique values, must find a token.
                None if has_unique && row.kind == Kind::DOCUMENTS => {
                    let row = no_document(self.ground, row.key, token);
                    Change::Set { kind: Kind::DOCUMENTS, row }
                }
                None => Change::Delete(row),
                Some(Row { document, expiry }) => {
                    let (kind, key, value) = (row.kind, row.key, packed(document));
                    let row = StoredRow { key, value, token: Some(token), expiry: *expiry };
                    Change::Set { kind, row }
                }
            });
            for entry in document.changes.entries {
                let (kind, key) = (Kind(entry.index as i32), Slice::from(entry.key));
                changes.push(match entry.value {
                    None => Change::Delete(RowKey { kind, key }),
                    Some(value) => {
                        let value = Slice::from(value);
                        Change::Set { kind, row: StoredRow { key, value, token: None, expiry } }
                    }
                });
            }
        }
        if changes.is_empty() {
            return Ok(Outcome::Applied);
        }
        let (partition, epoch) = (view.partition(self.bucket), view.note.epoch);
        let batch = Batch { partition, epoch, conditions, changes };
        self.mark.send(self.ground, batch, token)
    }
}

/// The values of unique indexes that the documents of a round get and give up.
struct Values<'v> {
    view: &'v View,
    wanted: Vec<Wanted>,
    /// The place in the round of each write that wants one.
    places: Vec<usize>,
    known: HashSet<(u32, Slice)>,
}

impl<'v> Values<'v> {
    fn new(view: &'v View) -> Self {
        Self { view, wanted: Vec::new(), places: Vec::new(), known: HashSet::new() }
    }

    /// Adds those of a document. Returns false if another one of the round has one of them: then
    /// this one is for the next round.
    fn add(&mut self, place: usize, row: &RowKey, document: &Document) -> bool {
        let Document { stored, changes, .. } = document;
        let token = stored.as_ref().and_then(|(_, token)| *token);
        let is_unique = |entry: &&EntryChange| unique(self.view, entry.index).is_some();
        let of = |entry: &EntryChange| (entry.index, Slice::copy_of(&entry.key));
        if changes.entries.iter().filter(is_unique).any(|entry| self.known.contains(&of(entry))) {
            return false;
        }
        for entry in &changes.entries {
            let Some(index) = unique(self.view, entry.index) else { continue };
            self.known.insert(of(entry));
            if entry.value.is_some() {
                let (index, value) = (Arc::clone(index), Slice::copy_of(&entry.key));
                self.wanted.push(Wanted { index, value, key: row.key.clone(), token });
                self.places.push(place);
            }
        }
        true
    }
}

/// Returns the claims of the values that documents give up, and leaves out the removals of entries
/// of others. Returns `None` if the claims are given up.
fn given_up_by(
    claims: &Claims<'_>,
    view: &View,
    documents: &mut HashMap<RowKey, Document>,
) -> Result<Option<Held>> {
    let written = documents.values().filter(|document| document.is_written);
    let lost = written.flat_map(|document| &document.changes.entries);
    let lost = lost.filter(|entry| entry.value.is_none());
    let lost = lost.filter(|entry| unique(view, entry.index).is_some());
    let lost: Vec<_> = lost.map(|it| (it.index, Slice::copy_of(&it.key))).collect();
    let Some(mut held) = claims.held(&lost)? else { return Ok(None) };
    let lost: HashSet<(u32, Slice)> = lost.into_iter().collect();
    for (row, document) in documents.iter_mut().filter(|(_, one)| one.is_written) {
        document.changes.entries.retain(|entry| {
            let of = (entry.index, Slice::copy_of(&entry.key));
            let is_lost = entry.value.is_none() && lost.contains(&of);
            // Another document may have got it, if the index is being built.
            let is_own = held.get(&of).is_some_and(|(holder, _)| *holder == row.key);
            if is_lost && !is_own {
                held.remove(&of);
            }
            !is_lost || is_own
        });
    }
    Ok(Some(held))
}

fn has_unique(view: &View) -> bool {
    view.catalog.indexes().iter().any(|index| index.is_unique())
}

/// The bytes that a document adds to a batch.
fn size(document: &Document) -> usize {
    let entries = document.changes.entries.iter();
    let entries = entries.map(|entry| entry.key.len() + entry.value.as_ref().map_or(0, Vec::len));
    entries.sum::<usize>() + document.now.as_ref().map_or(0, |row| row.document.len())
}

#[cold]
fn conflict(ground: &Ground, bucket: u32) -> Error {
    let place = place(&ground.name, ground.view().partition(bucket));
    let text = format!(
        "other writers changed the same documents of {place} {TRIES} times while this call tried \
         to: nothing was written; try again"
    );
    Error::new(ErrorKind::Conflict, text)
}

/// The error of what comes before a batch: of documents nothing is unknown then.
#[cold]
fn nothing_written(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unknown => Error::new(ErrorKind::Unavailable, error.to_string()),
        _ => error,
    }
}

/// The error of writes that were not tried after an error of those before them.
#[cold]
fn not_tried(error: &Error) -> Error {
    let text = format!("not tried, because a write of the same group failed: {error}");
    Error::new(ErrorKind::Unavailable, text)
}
