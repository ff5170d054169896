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

use super::show::shown_key;
use super::unique::{holder, violation};
use crate::collection::stored::Stored;
use crate::index::{Built, Entries, IndexState, Refusal, Seen, Status, value_of};
use crate::spill::{SortOptions, Sorted, Sorter};
use flagstone_base::bytes::assign;
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, ErrorKind, Moment, Result};
use flagstone_doc::View;
use flagstone_engine::{Fill, Keyspace, KeyspaceCore, Scan, Snapshot};
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// The memory of the sorter: a part of the memory budget, within bounds.
const SORT_PARTS: u64 = 16;
const SORT_BYTES: std::ops::RangeInclusive<u64> = (256 << 10)..=(64 << 20);
/// A part has about this many times the memory of the sorter.
const PART_SORTS: u64 = 16;
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

/// Builds the index in `owned`, which `stored` has, or what an earlier build has left. A part has
/// about `part_bytes`. Returns false if `watch` has cancelled it.
///
/// # Errors
/// InvalidInput for a document that the index cannot hold, Duplicate for a value that two documents
/// have: the text names index and keys. OutOfSpace, Io,
/// Corruption, Poisoned, Closed.
pub(super) fn build(
    stored: &Stored,
    (owned, index): (&Keyspace, &IndexState),
    part_bytes: Option<u64>,
    watch: Watch<'_>,
) -> Result<bool> {
    let engine = stored.engine();
    let fill = engine.begin_fill(owned)?;
    // A document of the snapshot may not be logged, or not be synced. Later ones are logged
    // together with their entries.
    engine.flush()?;
    let snapshot = fill.snapshot();
    let mut build = Build::new(stored, (owned, index), part_bytes, watch);
    let below = index.built().unwrap_or_default().below;
    let rest = KeyRange { start: Bound::Included(below), end: Bound::Unbounded };
    let mut scan = snapshot.scan(stored.bytes(), rest)?;
    let mut has_next = scan.advance()?;
    loop {
        let Some(sorted) = build.sorted(snapshot, &mut scan, &mut has_next)? else {
            return Ok(false);
        };
        if build.ingest(&fill, sorted)?.is_break() {
            return Ok(false);
        }
        if !has_next {
            break;
        }
        build.note_done(scan.key())?;
    }
    if index.definition.is_unique {
        build.check_unique(snapshot)?;
    }
    let complete = |status: &mut Status| {
        (status.usable_from, status.built) = (Some(fill.seqno()), None);
    };
    index.change(complete, |note| engine.set_note(owned, note))?;
    Ok(true)
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
}

impl<'a, 'w> Build<'a, 'w> {
    fn new(
        stored: &'a Stored,
        (owned, index): (&'a Keyspace, &'a IndexState),
        part_bytes: Option<u64>,
        watch: Watch<'w>,
    ) -> Self {
        let memory = owned.options().memory_budget / SORT_PARTS;
        let memory = memory.clamp(*SORT_BYTES.start(), *SORT_BYTES.end());
        let part_bytes = match index.definition.is_unique {
            true => u64::MAX,
            false => part_bytes.unwrap_or(memory * PART_SORTS),
        };
        let Built { documents, entries, .. } = index.built().unwrap_or_default();
        let documents_total = stored.bytes().approximate_count();
        let progress =
            BuildProgress { documents, documents_total, entries, entries_written: entries };
        Self { stored, owned, index, watch, progress, memory, part_bytes }
    }

    /// Returns the entries of the next part in their order; `None` if the build was cancelled.
    /// `scan` is at the first document of the part, and then at the first one after it, if there
    /// `has_next`.
    fn sorted(
        &mut self,
        snapshot: &Snapshot,
        scan: &mut Scan,
        has_next: &mut bool,
    ) -> Result<Option<Sorted>> {
        let memory = self.memory as usize;
        let options = SortOptions { memory, limit: None, distinct: false, share: 1 };
        let core = self.stored.bytes();
        let mut sorter = Sorter::new(core.scratch(), options);
        let mut seen = self.index.seen();
        let (mut bytes, mut last) = (0, Vec::new());
        while *has_next && (bytes < self.part_bytes || !divides(&last, scan.key())) {
            let entries = self.entries_of(scan.key(), scan.value_bytes())?;
            seen = seen.with(entries.seen);
            // Looked up only where entries expire at all.
            let expiry = snapshot.expiry(core, scan.key())?;
            bytes += self.push(&mut sorter, scan.key(), (&entries, expiry))?;
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

    fn entries_of(&self, key: &[u8], document: &[u8]) -> Result<Entries> {
        let damaged = |malformed| self.stored.corrupt("a stored document", malformed);
        let root = View::of(document, Some(self.stored.names())).map_err(damaged)?;
        Entries::of(&self.index.definition, &root, key).map_err(|refusal| match refusal {
            Refusal::Malformed(malformed) => damaged(malformed),
            Refusal::Unfit(error) => {
                error.context(format_args!("the document of key {}", shown_key(key)))
            }
        })
    }

    fn push(
        &mut self,
        sorter: &mut Sorter,
        primary_key: &[u8],
        (entries, expiry): (&Entries, Option<Moment>),
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
        self.index.change(|status| status.seen = status.seen.with(seen), store)
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
        match is_first || count.is_multiple_of(REPORT_EVERY) {
            true => (self.watch)(self.progress),
            false => ControlFlow::Continue(()),
        }
    }

    fn ingest(&mut self, fill: &Fill, mut sorted: Sorted) -> Result<ControlFlow<()>> {
        let mut ingest = fill.ingest()?;
        let mut last: Option<(Vec<u8>, Vec<u8>)> = None;
        while sorted.advance()? {
            let Some((expiry, value)) = sorted.value().split_first_chunk::<8>() else {
                return Err(Error::new(ErrorKind::Corruption, "a spilled entry without expiry"));
            };
            let expiry = u64::from_be_bytes(*expiry);
            let expiry = (expiry > 0).then(|| Moment::from_millis(expiry));
            if self.index.definition.is_unique {
                self.check_distinct(last.as_ref(), sorted.key(), value)?;
                last = Some((sorted.key().to_vec(), value.to_vec()));
            }
            ingest.put(sorted.key(), value, expiry)?;
            self.progress.entries_written += 1;
            if self.report(self.progress.entries_written).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        ingest.finish()?;
        Ok((self.watch)(self.progress))
    }

    fn check_distinct(
        &self,
        last: Option<&(Vec<u8>, Vec<u8>)>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let Some((_, before)) = last.filter(|(last, _)| last == key) else { return Ok(()) };
        let primary_key = |value: &[u8]| holder(value).unwrap_or_default().to_vec();
        Err(violation(self.owned, key, &primary_key(value), &primary_key(before)))
    }

    /// Finds a value that a writer has given to a second document before the entry of the first one
    /// was ingested. From now on writers see that entry.
    fn check_unique(&self, then: &Snapshot) -> Result<()> {
        let now = self.owned.snapshot();
        let core: &Arc<KeyspaceCore> = self.owned;
        let mut old = then.scan(core, KeyRange::ALL)?;
        let mut new = now.scan(core, KeyRange::ALL)?;
        let mut has_new = new.advance()?;
        while old.advance()? {
            while has_new && new.key() < old.key() {
                has_new = new.advance()?;
            }
            if !has_new {
                return Ok(());
            }
            if new.key() != old.key() {
                continue;
            }
            let (Some(before), Some(after)) =
                (holder(old.value_bytes()), holder(new.value_bytes()))
            else {
                continue;
            };
            if before == after {
                continue;
            }
            let Some(document) = now.get(self.stored.bytes(), before)? else { continue };
            let entries = self.entries_of(before, &document)?;
            if entries.iter().any(|(key, _)| key == old.key()) {
                return Err(violation(self.owned, old.key(), after, before));
            }
        }
        Ok(())
    }
}
