//! Builds an index: the entries of all documents of a snapshot, sorted in bounded memory, become
//! tables. Writers add the entries of newer documents meanwhile.
//!
//! ```text
//! snapshot: documents --> entries --> sorter, which spills --> ingested below newer entries
//!           part by part, in the order of their keys           the note: all below a key are done
//! writers meanwhile -----------------------------------------> entries, which win
//! ```
//! After a crash the next build takes a new snapshot, and begins at the key of the note: writers
//! have kept the entries of the documents below it. So an entry may be ingested only if no crash
//! loses its document: what the snapshot sees is durable first.
//!
//! A unique index has one part. Between two builds a writer may give the value of a document that
//! is not done to one that is done: the rest of the build would not notice.
//!
//! A writer may give a value to a second document and take it back before the entry of the first
//! one is ingested. The removal is newer, and hides that entry: so it is put again, by a commit of
//! its own. From the ingest on writers see who has the value, so this ends, whatever they do.
//!
//! What has expired is indexed, too, because it comes back if the clock was wrong. Where such a
//! document cannot be in the index, with the value of another one for example, it is removed, and
//! the build takes a new snapshot.

use super::commit::{OwnedIndex, remove_expired, restore_entry};
use super::show::shown_key;
use super::unique::{holder, violation};
use crate::collection::stored::Stored;
use crate::index::{
    Built, Definition, DocumentEntries, IndexState, Refusal, Seen, Status, index_of, value_of,
};
use crate::spill::{ExternalSorter, SortOptions, SortedEntries};
use flagstone_base::bytes::assign;
use flagstone_base::key::KeyRange;
use flagstone_base::sorted::sort_by;
use flagstone_base::{Error, ErrorKind, Moment, Result, SeqNo};
use flagstone_doc::View;
use flagstone_engine::{Fill, Keyspace, KeyspaceCore, Scan, Snapshot, StoredPut};
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// The memory of the sorter: a part of the memory budget, within bounds.
const SORT_PARTS: u64 = 16;
const SORT_BYTES: std::ops::RangeInclusive<u64> = (256 << 10)..=(64 << 20);
/// A part has about this many times the memory of the sorter.
const PART_SORTS: u64 = 16;
/// The entries of a document that are larger than this part of what a commit may take are looked at
/// together with those of the other indexes.
const LARGE_PARTS: u64 = 64;
/// What a commit takes at most to remove an entry, besides its key.
const REMOVAL_BYTES: usize = 8;
/// The key at which a part ends has at most this many bytes.
const BOUND_BYTES_MAX: usize = 1 << 10;
/// Progress is reported once for this many documents or entries, and for some of the first.
const REPORT_EVERY: u64 = 256;
const REPORT_FIRST: u64 = 32;

/// Returns the bytes of a key that a note keeps.
fn front(key: &[u8]) -> &[u8] {
    &key[..key.len().min(BOUND_BYTES_MAX)]
}

/// Returns whether what a note keeps of `next` is above `last`, the key before it.
fn divides(last: &[u8], next: &[u8]) -> bool {
    last < front(next)
}

/// How far the build of an index is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildProgress {
    /// The number of documents that were read.
    pub documents: u64,
    /// About how many documents there are.
    pub documents_total: u64,
    /// The number of entries of these documents.
    pub entries: u64,
    /// The number of entries that were written to tables, once all documents are read.
    pub entries_written: u64,
}

impl fmt::Display for BuildProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { documents, documents_total, entries, entries_written } = self;
        write!(
            f,
            "{documents} of about {documents_total} documents read, {entries_written} of {entries} \
             entries written"
        )
    }
}

/// Is told of the progress, and may cancel the build.
pub(super) type Watch<'w> = &'w mut dyn FnMut(BuildProgress) -> ControlFlow<()>;

/// Builds an index of `stored`, or what an earlier build has left of it. A part has about
/// `part_bytes`. Returns false if `watch` has cancelled it.
///
/// # Errors
/// InvalidInput for a document that the index cannot hold, Duplicate for a value that two documents
/// have: the text names index and keys. OutOfSpace, Io, Corruption, Poisoned, Closed.
pub(super) fn build(
    stored: &Stored,
    index: OwnedIndex<'_>,
    part_bytes: Option<u64>,
    watch: Watch<'_>,
) -> Result<bool> {
    let (engine, owned) = (stored.engine(), index.owned);
    loop {
        let fill = engine.begin_fill(owned)?;
        // A document of the snapshot may not be logged, or not be synced. Later ones are logged
        // together with their entries.
        engine.flush()?;
        let mut build = Build::new(stored, index, part_bytes, &fill, &mut *watch);
        if build.run()?.is_break() {
            return Ok(false);
        }
        let (mut misfits, hidden, mut usable_from) =
            (build.misfits, build.hidden, build.usable_from);
        if misfits.is_empty() && !hidden.is_empty() {
            for Hidden { entry, holder } in hidden {
                if !restore_entry(stored, index, &holder, &entry)? {
                    misfits.push(holder);
                }
            }
            // The note says that the index is complete, also after a crash: so they are durable.
            engine.flush()?;
            usable_from = owned.snapshot().seqno();
        }
        if misfits.is_empty() {
            let complete = |status: &mut Status| {
                (status.usable_from, status.built) = (Some(usable_from), None);
            };
            index.state.change(complete, |note| engine.set_note(owned, note))?;
            return Ok(true);
        }
        drop(fill);
        sort_by(&mut misfits, Ord::cmp);
        misfits.iter().try_for_each(|key| remove_expired(stored, key))?;
    }
}

struct Build<'a, 'w> {
    stored: &'a Stored,
    owned: &'a Keyspace,
    index: &'a IndexState,
    watch: Watch<'w>,
    progress: BuildProgress,
    /// The memory of the sorter.
    memory: u64,
    /// A part has at least this many bytes of entries, if it is not the last.
    part_bytes: u64,
    fill: &'a Fill,
    /// The keys of documents that have expired and cannot be in the index.
    misfits: Vec<Vec<u8>>,
    /// Entries of the snapshot that are hidden by what a writer did before they were ingested.
    hidden: Vec<Hidden>,
    /// From this SeqNo on the index agrees with its documents, if nothing is hidden.
    usable_from: SeqNo,
}

impl<'a, 'w> Build<'a, 'w> {
    fn new(
        stored: &'a Stored,
        index: OwnedIndex<'a>,
        part_bytes: Option<u64>,
        fill: &'a Fill,
        watch: Watch<'w>,
    ) -> Self {
        let OwnedIndex { owned, state: index } = index;
        let memory = owned.options().memory_budget / SORT_PARTS;
        let memory = memory.clamp(*SORT_BYTES.start(), *SORT_BYTES.end());
        let part_bytes = if index.definition.is_unique {
            u64::MAX
        } else {
            part_bytes.unwrap_or(memory * PART_SORTS)
        };
        let Built { documents, entries, .. } = index.built().unwrap_or_default();
        let documents_total = stored.approximate_count();
        let progress =
            BuildProgress { documents, documents_total, entries, entries_written: entries };
        Self {
            stored,
            owned,
            index,
            watch,
            progress,
            memory,
            part_bytes,
            fill,
            misfits: Vec::new(),
            hidden: Vec::new(),
            usable_from: fill.seqno(),
        }
    }

    /// Builds part by part, until one has misfits.
    fn run(&mut self) -> Result<ControlFlow<()>> {
        let snapshot = self.fill.snapshot();
        let below = self.index.built().unwrap_or_default().below;
        let rest = KeyRange { start: Bound::Included(below), end: Bound::Unbounded };
        let mut scan = snapshot.scan(self.stored.keyspace()?, rest)?.with_expired();
        let mut has_next = scan.advance()?;
        loop {
            let Some(sorted) = self.sorted(&mut scan, &mut has_next)? else {
                return Ok(ControlFlow::Break(()));
            };
            if self.ingest(sorted)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if !has_next || !self.misfits.is_empty() {
                break;
            }
            self.note_done(scan.key())?;
        }
        if self.index.definition.is_unique && self.misfits.is_empty() {
            self.check_unique()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the entries of the next part in their order; `None` if the build was cancelled.
    /// `scan` is at the first document of the part, and then at the first one after it, if there
    /// `has_next`.
    fn sorted(&mut self, scan: &mut Scan, has_next: &mut bool) -> Result<Option<SortedEntries>> {
        let memory = self.memory as usize;
        let options = SortOptions { memory, limit: None, distinct: false, share: 1 };
        let mut sorter = ExternalSorter::new(self.stored.scratch(), options);
        let mut seen = self.index.seen();
        let (mut bytes, mut last) = (0, Vec::new());
        while *has_next && (bytes < self.part_bytes || !divides(&last, scan.key())) {
            if let Some((entries, expiry)) = self.read(scan.key(), scan.value_bytes())? {
                seen = seen.with(entries.seen);
                bytes += self.push(&mut sorter, scan.key(), &entries, expiry)?;
            }
            assign(&mut last, scan.key());
            self.progress.documents += 1;
            if self.report(self.progress.documents).is_break() {
                return Ok(None);
            }
            *has_next = scan.advance()?;
        }
        self.note(seen)?;
        sorter.finish().map(Some)
    }

    /// Returns the entries of a document, and when they expire; `None` if it is a misfit, or gone.
    fn read(
        &mut self,
        key: &[u8],
        document: &[u8],
    ) -> Result<Option<(DocumentEntries, Option<Moment>)>> {
        let (core, snapshot) = (self.stored.keyspace()?, self.fill.snapshot());
        let mut expiry = None;
        // Looked up only where entries expire at all.
        if core.expires() {
            let stored = snapshot.get_stored(core, key)?;
            if stored.value.is_none() {
                // It had expired, and has been removed since the scan has read it.
                return Ok(None);
            }
            expiry = stored.expiry;
        }
        match self.fitting_entries_of(key, document) {
            Err(error)
                if error.kind() == ErrorKind::InvalidInput
                    && expiry.is_some_and(|expiry| snapshot.has_expired(expiry)) =>
            {
                self.misfits.push(key.to_vec());
                Ok(None)
            }
            entries => Ok(Some((entries?, expiry))),
        }
    }

    /// Returns the entries of a document, if one commit can remove them together with those of all
    /// other indexes: else nothing could remove the document.
    fn fitting_entries_of(&self, key: &[u8], document: &[u8]) -> Result<DocumentEntries> {
        let most = self.stored.batch_bytes_max();
        let entries = self.entries_of(&self.index.definition, key, document, Some(most))?;
        let bytes = |entries: &DocumentEntries| {
            entries.bytes() + (entries.iter().len() * REMOVAL_BYTES) as u64
        };
        let mut all = bytes(&entries);
        // Few are so large that those of the others are worth a look.
        if all > most / LARGE_PARTS {
            for other in &self.stored.keyspace()?.owned_set().keyspaces {
                if other.id() != self.owned.id()
                    && let Some(index) = index_of(other)
                {
                    // It may be in the middle of a build that will refuse the document.
                    let of = self.entries_of(&index.definition, key, document, None);
                    all += of.as_ref().map_or(0, bytes);
                }
            }
        }
        if all + (key.len() + REMOVAL_BYTES) as u64 <= most {
            return Ok(entries);
        }
        Err(Error::invalid(format!(
            "the document of key {} has entries of {all} bytes in all indexes: expected at most \
             {most} (a quarter of the memory budget), so that a commit can remove them",
            shown_key(key)
        )))
    }

    fn entries_of(
        &self,
        definition: &Definition,
        key: &[u8],
        document: &[u8],
        bytes_max: Option<u64>,
    ) -> Result<DocumentEntries> {
        let damaged = |malformed| self.stored.corrupt("a stored document", malformed);
        let root = View::of(document, self.stored.names()).map_err(damaged)?;
        DocumentEntries::of(definition, &root, key, bytes_max).map_err(|refusal| match refusal {
            Refusal::Malformed(malformed) => damaged(malformed),
            Refusal::Unfit(error) => {
                error.context(format_args!("the document of key {}", shown_key(key)))
            }
        })
    }

    fn push(
        &mut self,
        sorter: &mut ExternalSorter,
        primary_key: &[u8],
        entries: &DocumentEntries,
        expiry: Option<Moment>,
    ) -> Result<u64> {
        let (mut value, mut bytes) = (Vec::new(), 0);
        for (key, flags) in entries.iter() {
            value.clear();
            value.extend_from_slice(&expiry.map_or(0, Moment::millis).to_be_bytes());
            value_of(&self.index.definition, flags, primary_key, &mut value);
            sorter.push(key, &value)?;
            bytes += (key.len() + value.len()) as u64;
            self.progress.entries += 1;
        }
        Ok(bytes)
    }

    /// Makes what was seen known to the catalog.
    fn note(&self, seen: Seen) -> Result<()> {
        let store = |note: &[u8]| self.stored.engine().set_note(self.owned, note);
        self.index.note_seen(seen, store).map(|_premise| ())
    }

    /// Notes that the entries of all documents before the key `next` are in tables.
    fn note_done(&self, next: &[u8]) -> Result<()> {
        let BuildProgress { documents, entries, .. } = self.progress;
        let built = Built { below: front(next).to_vec(), documents, entries };
        let store = |note: &[u8]| self.stored.engine().set_note(self.owned, note);
        self.index.change(|status| status.built = Some(built), store)
    }

    fn report(&mut self, count: u64) -> ControlFlow<()> {
        let is_first = count < REPORT_FIRST && count.is_power_of_two();
        if is_first || count.is_multiple_of(REPORT_EVERY) {
            (self.watch)(self.progress)
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Ingests the entries of a part, unless there are misfits.
    fn ingest(&mut self, mut sorted: SortedEntries) -> Result<ControlFlow<()>> {
        let mut ingest = self.fill.ingest()?;
        let mut last: Option<Unique> = None;
        while sorted.advance()? {
            let Some((expiry, value)) = sorted.value().split_first_chunk::<8>() else {
                return Err(Error::new(ErrorKind::Corruption, "a spilled entry without expiry"));
            };
            let expiry = u64::from_be_bytes(*expiry);
            let expiry = (expiry > 0).then(|| Moment::from_millis(expiry));
            if self.index.definition.is_unique {
                let holder = holder(value).unwrap_or_default().to_vec();
                let next = Unique { entry: sorted.key().to_vec(), holder, expiry };
                last = Some(self.distinct(last, next)?);
            }
            if self.misfits.is_empty() {
                ingest.put(sorted.key(), value, expiry)?;
            }
            self.progress.entries_written += 1;
            if self.report(self.progress.entries_written).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if self.misfits.is_empty() {
            ingest.finish()?;
        }
        Ok((self.watch)(self.progress))
    }

    /// Returns the one of two entries in a row that stays. If they have one value, the document of
    /// the other one is a misfit, which has expired, and before the one that stays.
    fn distinct(&mut self, last: Option<Unique>, next: Unique) -> Result<Unique> {
        let Some(last) = last.filter(|last| last.entry == next.entry) else { return Ok(next) };
        let ends = |unique: &Unique| unique.expiry.unwrap_or(Moment::MAX);
        let (goes, stays) = if ends(&last) <= ends(&next) { (last, next) } else { (next, last) };
        if !goes.expiry.is_some_and(|expiry| self.fill.snapshot().has_expired(expiry)) {
            return Err(violation(self.owned, &stays.entry, &stays.holder, &goes.holder));
        }
        self.misfits.push(goes.holder);
        Ok(stays)
    }

    /// Finds what went wrong with a value that a writer has given to a second document before the
    /// entry of the first one was ingested. From now on writers see that entry. A reader that is
    /// older than this may see two documents with a value of which the index has one.
    fn check_unique(&mut self) -> Result<()> {
        let (then, now) = (self.fill.snapshot(), self.owned.snapshot());
        self.usable_from = now.seqno();
        let core: &Arc<KeyspaceCore> = self.owned;
        let mut old = then.scan(core, KeyRange::ALL)?.with_expired();
        let mut new = now.scan(core, KeyRange::ALL)?.with_expired();
        let mut has_new = new.advance()?;
        while old.advance()? {
            while has_new && new.key() < old.key() {
                has_new = new.advance()?;
            }
            let Some(before) = holder(old.value_bytes()) else { continue };
            let after =
                if has_new && new.key() == old.key() { holder(new.value_bytes()) } else { None };
            if after == Some(before) {
                continue;
            }
            let Some(expiry) = self.expiry_in(&now, before, old.key())? else { continue };
            let hidden = || Hidden { entry: old.key().to_vec(), holder: before.to_vec() };
            let Some(after) = after else {
                // The second document gave it up again, and its removal hides the entry.
                self.hidden.push(hidden());
                continue;
            };
            let has_expired = |expiry: Option<Moment>| expiry.is_some_and(|at| now.has_expired(at));
            match self.expiry_in(&now, after, old.key())? {
                None => self.hidden.push(hidden()),
                Some(_) if has_expired(expiry) => self.misfits.push(before.to_vec()),
                Some(other) if has_expired(other) => self.misfits.push(after.to_vec()),
                Some(_) => return Err(violation(self.owned, old.key(), after, before)),
            }
        }
        Ok(())
    }

    /// Returns when the document of `key` expires, if `now` has it and it has this entry.
    fn expiry_in(
        &self,
        now: &Snapshot,
        key: &[u8],
        entry: &[u8],
    ) -> Result<Option<Option<Moment>>> {
        let found = now.get_stored(self.stored.keyspace()?, key)?;
        let StoredPut { value: Some(document), expiry, .. } = found else { return Ok(None) };
        let entries = self.entries_of(&self.index.definition, key, &document, None)?;
        Ok(entries.iter().any(|(found, _)| found == entry).then_some(expiry))
    }
}

/// A unique entry that is missing, and the document that has it.
struct Hidden {
    entry: Vec<u8>,
    holder: Vec<u8>,
}

/// An entry of a unique index.
struct Unique {
    entry: Vec<u8>,
    holder: Vec<u8>,
    expiry: Option<Moment>,
}
