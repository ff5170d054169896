//! Builds an index over the documents that are there, in steps. Each step commits the entries of
//! some documents as they are then. Writers maintain the index meanwhile: what they change before
//! or after a step is right, too.

use super::entry_change::EntryWrite;
use super::show::shown_key;
use super::unique;
use crate::collection::stored::Stored;
use crate::index::{Entries, IndexState, Refusal, Seen, value_of};
use flagstone_base::{Moment, Result};
use flagstone_doc::View;
use flagstone_engine::{Batch, Effect, HeldBatch, Keyspace, KeyspaceCore, Snapshot};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A step has at most this many documents ..
const STEP_DOCUMENTS: usize = 256;
/// .. and about this many bytes of them, or a part of what a batch may have.
const STEP_BYTES: u64 = 1 << 20;
const BATCH_PARTS: u64 = 8;

/// How far the build of an index is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildProgress {
    /// The number of documents whose entries are in the index.
    pub documents: u64,
    /// About how many documents there are.
    pub documents_total: u64,
    /// The number of entries of these documents.
    pub entries: u64,
}

impl fmt::Display for BuildProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { documents, documents_total, entries } = self;
        write!(f, "{documents} of about {documents_total} documents, {entries} entries")
    }
}

/// Is told of the progress, and may cancel the build.
pub(super) type Watch<'w> = &'w mut dyn FnMut(BuildProgress) -> ControlFlow<()>;

/// Builds the index in `owned`, which `stored` has. Returns false if `watch` has cancelled it.
///
/// # Errors
/// InvalidInput for a document that the index cannot hold, Duplicate for a value that two documents
/// have: the text names index and keys. OutOfSpace, Io, Corruption, Poisoned, Closed.
pub(super) fn build(
    stored: &Stored,
    (owned, index): (&Keyspace, &IndexState),
    watch: Watch<'_>,
) -> Result<bool> {
    let engine = stored.engine();
    let mut build = Build { stored, owned, index, progress: BuildProgress::default() };
    build.progress.documents_total = stored.bytes().approximate_count();
    // Everything that was written before the index was there is in the snapshot.
    let snapshot = stored.bytes().snapshot();
    if build.run(&snapshot, watch)?.is_break() {
        return Ok(false);
    }
    // An entry may have been logged whose document was not: the index is used once all are durable.
    engine.flush()?;
    let usable_from = stored.bytes().snapshot().seqno();
    let store = |note: &[u8]| engine.set_note(owned, note);
    index.change(|status| status.usable_from = Some(usable_from), store)?;
    Ok(true)
}

struct Build<'a> {
    stored: &'a Stored,
    owned: &'a Keyspace,
    index: &'a IndexState,
    progress: BuildProgress,
}

impl Build<'_> {
    fn run(&mut self, snapshot: &Snapshot, watch: Watch<'_>) -> Result<ControlFlow<()>> {
        let core = self.stored.bytes();
        let bytes_max = (core.batch_bytes_max() / BATCH_PARTS).min(STEP_BYTES) as usize;
        let mut scan = snapshot.scan(core, flagstone_base::KeyRange::ALL)?;
        loop {
            let (mut keys, mut bytes, mut has_more) = (Vec::new(), 0, true);
            while keys.len() < STEP_DOCUMENTS && bytes < bytes_max {
                has_more = scan.advance()?;
                if !has_more {
                    break;
                }
                bytes += scan.key().len() + scan.value_bytes().len();
                keys.push(scan.key().to_vec());
            }
            scan.park();
            if !keys.is_empty() {
                self.step(&keys)?;
            }
            if watch(self.progress).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if !has_more {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    /// Adds the entries of the documents `keys` as they are now.
    fn step(&mut self, keys: &[Vec<u8>]) -> Result<()> {
        let core: &Arc<KeyspaceCore> = self.stored.bytes();
        let mut hold = self.stored.engine().hold(Batch::default());
        for key in keys {
            hold = hold.key(core, key);
        }
        let (ticket, entries) = hold.commit(|held| self.add(held, keys))?;
        ticket.map_or(Ok(()), |ticket| ticket.wait())?;
        self.progress.documents += keys.len() as u64;
        self.progress.entries += entries;
        Ok(())
    }

    fn add(&self, held: &mut HeldBatch<'_>, keys: &[Vec<u8>]) -> Result<u64> {
        let (mut list, mut seen) = (Vec::new(), self.index.seen());
        for key in keys {
            let found = held.get(self.stored.bytes(), key)?;
            let Some(document) = found.value else { continue };
            let entries = self.entries_of(key, &document)?;
            seen = seen.with(entries.seen);
            self.list(&mut list, key, (&entries, found.expiry));
        }
        unique::check(held, &mut list)?;
        self.note(held, seen)?;
        for EntryWrite { core, key, put, .. } in &list {
            if let Some((value, expiry)) = put {
                held.push(core, Effect::put(*expiry), key, value)?;
            }
        }
        Ok(list.len() as u64)
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

    fn list(
        &self,
        list: &mut Vec<EntryWrite>,
        primary_key: &[u8],
        (entries, expiry): (&Entries, Option<Moment>),
    ) {
        let is_unique = self.index.definition.is_unique;
        for (key, flags) in entries.iter() {
            let mut value = Vec::new();
            value_of(&self.index.definition, flags, primary_key, &mut value);
            list.push(EntryWrite {
                core: Arc::clone(self.owned),
                key: key.to_vec(),
                put: Some((value, expiry)),
                primary_key: if is_unique { primary_key.to_vec() } else { Vec::new() },
            });
        }
    }

    /// Makes what was seen known to the catalog.
    fn note(&self, held: &HeldBatch<'_>, seen: Seen) -> Result<()> {
        let store = |note: &[u8]| held.set_note(self.owned, note);
        self.index.change(|status| status.seen = status.seen.with(seen), store)
    }
}
