//! Writes the tables of an ingest, entry by entry.

use super::floor::Floor;
use super::install::{Written, install, install_below};
use super::number::{check_may_ingest, take_seqno};
use super::pace::IngestPace;
use crate::background::{schedule_splits, sweep};
use crate::event::Event;
use crate::handle::Handle;
use crate::keyspace_core::KeyspaceCore;
use crate::parts::Parts;
use flagstone_base::check::Short;
use flagstone_base::key::{check_key, check_value};
use flagstone_base::{Error, Moment, Result, SeqNo};
use flagstone_tree::{Ingest as TreeIngest, IngestOptions};
use std::fmt;
use std::sync::Arc;

/// The unfinished tables of an ingest take this part of the memory budget, and a fixed part each.
const MEMORY_PARTS: u64 = 16;
/// The bytes of memory that an entry of an unfinished table takes: its hash, in a vector that may
/// have grown twofold.
const ENTRY_BYTES: u64 = 16;
/// A table has at least this many entries, however small the budget is.
const ENTRIES_LEAST: u64 = 4096;

/// An ingest: entries in the order of their keys, which become tables without log and memtable.
/// [`Ingest::finish`] makes all of them visible at once. An ingest that is dropped before leaves
/// nothing.
pub struct Ingest {
    handle: Arc<Handle>,
    core: Arc<KeyspaceCore>,
    /// The SeqNo in the files. With a floor also that of the entries.
    file_seqno: SeqNo,
    /// Set if the entries come below newer ones.
    floor: Option<Arc<Floor>>,
    /// The unfinished tables of each partition.
    writers: Vec<Option<TreeIngest>>,
    /// The partition of the last key.
    at: usize,
    written: Written,
    pace: IngestPace,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    entries: u64,
    bytes: u64,
    /// The error that has ended the ingest.
    failed: Option<Error>,
}

/// The result of an ingest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestReport {
    /// The number of entries.
    pub entries: u64,
    /// The number of tables that were added.
    pub tables: usize,
    /// The bytes of these tables.
    pub bytes: u64,
    /// The place of the entries in the history of writes.
    pub seqno: SeqNo,
}

impl Ingest {
    /// Starts an ingest into the keyspace of `core`.
    pub(crate) fn start(handle: &Arc<Handle>, core: &Arc<KeyspaceCore>) -> Result<Self> {
        Self::open(handle, core, None)
    }

    /// Starts an ingest whose entries have the SeqNo of `floor`.
    pub(crate) fn below(floor: &Arc<Floor>) -> Result<Self> {
        Self::open(floor.handle(), floor.core(), Some(Arc::clone(floor)))
    }

    fn open(
        handle: &Arc<Handle>,
        core: &Arc<KeyspaceCore>,
        floor: Option<Arc<Floor>>,
    ) -> Result<Self> {
        let parts = handle.parts();
        check_may_ingest(parts)?;
        if parts.core.ballast.is_given_up() {
            return Err(parts.core.ballast.refusal());
        }
        let file_seqno = match &floor {
            Some(floor) => floor.seqno(),
            None => take_seqno(parts, core)?,
        };
        {
            // A split that has begun is done then.
            let _no_split = parts.core.edits.manifest.lock();
            core.begin_ingest();
        }
        Ok(Self {
            handle: Arc::clone(handle),
            core: Arc::clone(core),
            file_seqno,
            floor,
            writers: core.trees().iter().map(|_| None).collect(),
            at: 0,
            written: Written::default(),
            pace: IngestPace::new(parts),
            first_key: Vec::new(),
            last_key: Vec::new(),
            entries: 0,
            bytes: 0,
            failed: None,
        })
    }

    /// The number of entries so far.
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// The bytes of their keys and values.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a key, which must be above the one before, until `expiry` if that is given.
    ///
    /// # Errors
    /// InvalidInput for a key that is not above the one before, or a size out of bounds: the entry
    /// is left out, and the ingest may go on. InvalidInput if the keyspace was dropped; OutOfSpace,
    /// Io, Corruption, Poisoned, Closed: these end the ingest.
    pub fn put(&mut self, key: &[u8], value: &[u8], expiry: Option<Moment>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        check_key(key)?;
        check_value(value)?;
        self.handle.parts().commits.check_batch_bytes(key.len() + value.len())?;
        if self.entries > 0 && key <= self.last_key.as_slice() {
            return Err(out_of_order(&self.last_key, key));
        }
        let added = self.add(key, value, expiry);
        let parts = self.handle.parts();
        let paced = added.and_then(|()| self.pace.after(parts, key.len() + value.len()));
        if let Err(error) = paced {
            self.fail(&error);
            return Err(error);
        }
        if self.entries == 0 {
            self.first_key.extend_from_slice(key);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.entries += 1;
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    fn add(&mut self, key: &[u8], value: &[u8], expiry: Option<Moment>) -> Result<()> {
        self.handle.parts().core.health.check_open_for_writing()?;
        self.core.check_not_dropped()?;
        if expiry.is_some() && !self.core.expires() {
            note_expiries(self.handle.parts(), &self.core)?;
        }
        let route = &self.core.layout().route;
        let partition = route.partition(key, self.core.hash(key));
        let before = std::mem::replace(&mut self.at, partition);
        if route.is_ordered() && partition != before {
            // No key of the partition before comes any more.
            self.finish_writer(before)?;
        }
        if self.writers[partition].is_none() {
            let tree = &self.core.trees()[partition];
            self.writers[partition] = Some(TreeIngest::start(tree, key, self.options()));
        }
        let parts = self.handle.parts();
        let Some(writer) = &mut self.writers[partition] else { return Ok(()) };
        // A close waits until no file is created any more: its number could be given again.
        let step = if writer.cut_before(key)? {
            Some(parts.upkeep.core.work.begin_caller_step().ok_or_else(|| closed(parts))?)
        } else {
            None
        };
        let added = writer.put(key, value, expiry);
        drop(step);
        added
    }

    /// How each tree is written: unfinished tables of all trees share the memory.
    fn options(&self) -> IngestOptions {
        let at_once =
            if self.core.layout().route.is_ordered() { 1 } else { self.writers.len() as u64 };
        let memory = self.handle.parts().core.setup().options.memory_budget / MEMORY_PARTS;
        IngestOptions {
            file_seqno: self.file_seqno,
            attachments: self.core.attachments(),
            entries_max: (memory / at_once / ENTRY_BYTES).max(ENTRIES_LEAST),
            is_one_of_many: at_once > 1,
        }
    }

    fn finish_writer(&mut self, partition: usize) -> Result<()> {
        if let Some(writer) = self.writers[partition].take() {
            self.written.push(&self.core.trees()[partition], writer.finish()?);
        }
        Ok(())
    }

    /// Makes all entries visible at once. Then they survive a power cut, whatever the durability of
    /// the database, and so does everything acknowledged before this call, unless the disk is full.
    ///
    /// # Errors
    /// The error that has ended the ingest; InvalidInput inside a callback, or if the keyspace was
    /// dropped; OutOfSpace, Io, Corruption, Poisoned, Closed. No entry is visible then. After
    /// Poisoned, or while the keyspace refuses writes because of it, a crash may still show all.
    pub fn finish(mut self) -> Result<IngestReport> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.try_finish().inspect_err(|_failed| self.abandon())
    }

    fn try_finish(&mut self) -> Result<IngestReport> {
        let handle = Arc::clone(&self.handle);
        let parts = handle.parts();
        check_may_ingest(parts)?;
        let _step = parts.upkeep.core.work.begin_caller_step().ok_or_else(|| closed(parts))?;
        (0..self.writers.len()).try_for_each(|partition| self.finish_writer(partition))?;
        let (tables, bytes) = self.written.size();
        let mut report =
            IngestReport { entries: self.entries, tables, bytes, seqno: self.file_seqno };
        if self.written.is_empty() {
            return Ok(report);
        }
        // Once for all partitions.
        parts.reads.core.trees.sync_names()?;
        let end = [&self.last_key[..], &[0]].concat();
        let span = (self.first_key.as_slice(), end.as_slice());
        match &self.floor {
            None => report.seqno = install(parts, &self.core, &mut self.written, span)?,
            Some(floor) => {
                install_below(parts, &self.core, &mut self.written, floor.seqno())?;
            }
        }
        let IngestReport { entries, tables, bytes, .. } = report;
        let keyspace = parts.core.keyspaces.full_name(&self.core);
        parts.core.health.tell(&Event::Ingested { keyspace, entries, tables, bytes });
        Ok(report)
    }

    fn fail(&mut self, error: &Error) {
        self.failed = Some(error.clone());
        self.abandon();
    }

    /// Removes what was written.
    fn abandon(&mut self) {
        self.writers.iter_mut().for_each(|writer| *writer = None);
        self.written.abandon();
        let upkeep = &self.handle.parts().upkeep;
        // After a close the next open removes the files.
        if let Some(_step) = upkeep.core.work.begin_caller_step() {
            sweep(upkeep);
        }
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        let has_files = !self.written.is_empty() || self.writers.iter().any(Option::is_some);
        if has_files {
            self.abandon();
        }
        self.core.end_ingest();
        // A split may have waited for this.
        let upkeep = &self.handle.parts().upkeep;
        upkeep.splits.try_again();
        schedule_splits(upkeep);
    }
}

impl fmt::Debug for Ingest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ingest({:?}, {} entries)", self.core.name(), self.entries)
    }
}

impl fmt::Display for IngestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entries, tables, bytes, seqno } = self;
        write!(f, "{entries} entries in {tables} tables of {bytes} bytes at {seqno}")
    }
}

fn closed(parts: &Parts) -> Error {
    parts.core.setup().closed_meanwhile()
}

/// Notes that entries of the keyspace expire. Merges that have begun before, and do not know it,
/// have ended when this returns.
#[cold]
fn note_expiries(parts: &Parts, core: &Arc<KeyspaceCore>) -> Result<()> {
    check_may_ingest(parts)?;
    parts.core.edits.set_expires(core)?;
    parts.commits.stripes.wait_for_holders();
    Ok(())
}

#[cold]
fn out_of_order(last: &[u8], key: &[u8]) -> Error {
    Error::invalid(format!(
        "an ingest got key {} after {}: expected keys in strictly ascending order",
        Short(key),
        Short(last)
    ))
}
