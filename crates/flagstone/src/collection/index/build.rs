//! Builds an index: the entries of all documents of a snapshot, sorted in bounded memory, become
//! tables. Writers add the entries of newer documents meanwhile.
//!
//! ```text
//! snapshot: documents --> entries --> sorter, which spills --> ingested below newer entries
//! writers meanwhile -----------------------------------------> entries, which win
//! ```

use super::show::shown_key;
use super::unique::{holder, violation};
use crate::collection::stored::Stored;
use crate::index::{Entries, IndexState, Refusal, Seen, value_of};
use crate::spill::{SortOptions, Sorted, Sorter};
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, ErrorKind, Moment, Result};
use flagstone_doc::View;
use flagstone_engine::{Fill, Keyspace, KeyspaceCore, Snapshot};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The memory of the sorter: a part of the memory budget, within bounds.
const SORT_PARTS: u64 = 16;
const SORT_BYTES: std::ops::RangeInclusive<u64> = (256 << 10)..=(64 << 20);
/// Progress is reported once for this many documents or entries.
const REPORT_EVERY: u64 = 256;

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

/// Builds the index in `owned`, which `stored` has. Returns false if `watch` has cancelled it.
///
/// # Errors
/// InvalidInput for a document that the index cannot hold, Duplicate for a value that two documents
/// have: the text names index and keys. OutOfSpace, Io,
/// Corruption, Poisoned, Closed.
pub(super) fn build(
    stored: &Stored,
    (owned, index): (&Keyspace, &IndexState),
    watch: Watch<'_>,
) -> Result<bool> {
    let engine = stored.engine();
    let fill = engine.begin_fill(owned)?;
    let snapshot = fill.snapshot();
    let mut build = Build { stored, owned, index, watch, progress: BuildProgress::default() };
    build.progress.documents_total = stored.bytes().approximate_count();
    let Some(sorted) = build.sorted(snapshot)? else { return Ok(false) };
    if build.ingest(&fill, sorted)?.is_break() {
        return Ok(false);
    }
    if index.definition.is_unique {
        build.check_unique(snapshot)?;
    }
    // A document of the snapshot may not be logged: the index is used once all of them are durable.
    engine.flush()?;
    let store = |note: &[u8]| engine.set_note(owned, note);
    index.change(|status| status.usable_from = Some(fill.seqno()), store)?;
    Ok(true)
}

struct Build<'a, 'w> {
    stored: &'a Stored,
    owned: &'a Keyspace,
    index: &'a IndexState,
    watch: Watch<'w>,
    progress: BuildProgress,
}

impl Build<'_, '_> {
    /// Returns the entries of all documents of `snapshot` in their order; `None` if the build was
    /// cancelled.
    fn sorted(&mut self, snapshot: &Snapshot) -> Result<Option<Sorted>> {
        let budget = self.owned.options().memory_budget / SORT_PARTS;
        let memory = budget.clamp(*SORT_BYTES.start(), *SORT_BYTES.end()) as usize;
        let options = SortOptions { memory, limit: None, distinct: false, share: 1 };
        let mut sorter = Sorter::new(self.stored.bytes().scratch(), options);
        let core = self.stored.bytes();
        let mut scan = snapshot.scan(core, KeyRange::ALL)?;
        let mut seen = self.index.seen();
        while scan.advance()? {
            let entries = self.entries_of(scan.key(), scan.value_bytes())?;
            seen = seen.with(entries.seen);
            // Looked up only where entries expire at all.
            let expiry = snapshot.expiry(core, scan.key())?;
            self.push(&mut sorter, scan.key(), (&entries, expiry))?;
            self.progress.documents += 1;
            if self.report(self.progress.documents).is_break() {
                return Ok(None);
            }
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
    ) -> Result<()> {
        let mut value = Vec::new();
        for (key, flags) in entries.iter() {
            value.clear();
            value.extend_from_slice(&expiry.map_or(0, Moment::millis).to_be_bytes());
            value_of(&self.index.definition, flags, primary_key, &mut value);
            sorter.push(key, &value)?;
            self.progress.entries += 1;
        }
        Ok(())
    }

    /// Makes what was seen known to the catalog.
    fn note(&self, seen: Seen) -> Result<()> {
        let store = |note: &[u8]| self.stored.engine().set_note(self.owned, note);
        self.index.change(|status| status.seen = status.seen.with(seen), store)
    }

    fn report(&mut self, count: u64) -> ControlFlow<()> {
        match count % REPORT_EVERY {
            0 => (self.watch)(self.progress),
            _ => ControlFlow::Continue(()),
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
