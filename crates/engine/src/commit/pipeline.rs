//! From a batch to visible, logged entries.
//!
//! ```text
//! admission              may wait; nothing is held yet
//! stripes                of all keys, ascending. While they are held, conditions are checked, and
//!                        merges into keyspaces with expiries are resolved. If their values do not
//!                        fit, the stripes are released, and it waits and starts here again
//! numbering lock         SeqNos, the place in the log, one reference on every memtable touched
//! log: write_through     one append for all batches that wait  (only the stripes of the keys
//! memtables: insert      partitions in parallel                 are held during these two)
//! publish                in the order of the numbers; then the stripes are released
//! log: sync_through      as the Durability asks
//! ```
//! A failed write leaves a hole: its numbers are published as empty, and the log voids them.

use super::admission::{Admission, ValueAdmission, WriteAdmission};
use super::after::due_after;
use super::batch::Write;
use super::condition::check_conditions;
use super::definitions::{NewDefinitions, definitions_of, enqueue, seqnos_wanted};
use super::in_flight::InFlight;
use super::noted::note_gap;
use super::recent::{CommitWatch, RecentWrites};
use super::record;
use super::resolve::{self, Resolved};
use super::stripes::{HeldStripes, Stripes};
use super::targets::Targets;
use super::watched::{check_reads, note_writes};
use crate::core::Core;
use crate::due::Due;
use crate::history::Numbering;
use crate::options::Durability;
use crate::reads::Reads;
use crate::stall::Wait;
use crate::supply::supply;
use flagstone_base::{EntryRef, Error, ErrorKind, Kind, Result, SeqNo};
use flagstone_tree::MemtableRef;
use flagstone_wal::{Log, Lsn};
use smallvec::SmallVec;
use std::sync::Arc;

/// A commit that has its SeqNos.
struct Numbered<'a> {
    first: SeqNo,
    last: SeqNo,
    /// Before `refs`: after a panic the database is poisoned first, and then the memtables that
    /// have a part of the batch count as complete.
    place: InFlight<'a>,
    refs: SmallVec<[MemtableRef; 1]>,
    lsn: Option<Lsn>,
    /// The definitions that precede the batch in the log.
    definitions: Vec<NewDefinitions>,
}

/// The result of a finished commit.
pub(crate) struct Committed {
    pub(crate) last: SeqNo,
    pub(crate) lsn: Option<Lsn>,
}

/// Commits writes. What is due after a commit is returned to the caller.
#[derive(Clone)]
pub(crate) struct Commits {
    pub(crate) core: Arc<Core>,
    pub(crate) stripes: Arc<Stripes>,
    pub(crate) recent: Arc<RecentWrites>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) reads: Reads,
}

impl Commits {
    /// Commits `write` up to publication. `held` are the stripes if the caller holds them already:
    /// then `write` has no merges to resolve. Merges may become large values, which are
    /// admitted by `admission`. What is due is returned even with an error.
    pub(crate) fn write<'a>(
        &'a self,
        write: &Write<'_>,
        durability: Durability,
        held: Option<HeldStripes<'_>>,
        admission: WriteAdmission<'_, 'a>,
    ) -> (Result<Committed>, Due) {
        let mut targets = Targets::of(write);
        let (is_held, wait) = (held.is_some(), admission.wait);
        let numbered = self.hold_and_number(write, &mut targets, durability, is_held, wait);
        let (numbered, own) = match numbered {
            Ok((Some(numbered), own)) => (numbered, own),
            Ok((None, own)) => return self.write_resolved(write, durability, own, admission),
            Err(error) => return (Err(error), Due::default()),
        };
        let Numbered { first, last, lsn, .. } = numbered;
        let written = if numbered.refs.is_empty() {
            Ok(())
        } else {
            self.log_and_insert(write, &targets, &numbered)
        };
        numbered.place.publish();
        self.core.health.tell_readers();
        drop((held, own));
        let mut is_complete = false;
        for memtable in numbered.refs {
            is_complete |= memtable.release();
        }
        let due = Due::FLUSHES.when(is_complete);
        if let Err(error) = written {
            return (Err(error), due);
        }
        let due = due | due_after(&self.reads, write, &targets, first..=last);
        // Gives back the memory of the payload's copy in the log.
        flagstone_env::os::freed(write.payload.len());
        (Ok(Committed { last, lsn }), due)
    }

    /// Like [`Commits::write`], but for a write that merges into a keyspace in which entries may
    /// expire. Its keys are locked.
    #[cold]
    fn write_resolved<'a: 'w, 'w>(
        &'a self,
        write: &Write<'w>,
        durability: Durability,
        held: Option<HeldStripes<'w>>,
        admission: WriteAdmission<'_, 'a>,
    ) -> (Result<Committed>, Due) {
        let WriteAdmission { admitted, wait } = admission;
        let operands = if admitted.is_some() { write.len() } else { 0 };
        let mut own = self.admission.nothing();
        let admitted = admitted.unwrap_or(&mut own);
        let mut values = ValueAdmission::new(&self.admission, operands, admitted, wait);
        let (mut resolved, held) = match self.resolve(write, held, &mut values) {
            Ok(resolved) => resolved,
            Err(error) => return (Err(error), Due::default()),
        };
        // Dropped before the admission.
        let large = resolved.take_large();
        let write = resolved.as_write(write);
        let write = large.as_ref().map_or(write, |large| large.as_write(write));
        self.write(&write, durability, held, WriteAdmission { admitted: None, wait })
    }

    /// Resolves `write`, whose locks are `held`. Takes them again when its values have
    /// waited.
    fn resolve<'a>(
        &'a self,
        write: &Write<'a>,
        mut held: Option<HeldStripes<'a>>,
        values: &mut ValueAdmission<'_, '_>,
    ) -> Result<(Resolved, Option<HeldStripes<'a>>)> {
        loop {
            // Checks the conditions, too.
            if let Some(resolved) = Resolved::of(&self.reads, write, values)? {
                values.shrink_to(resolved.len());
                return Ok((resolved, held));
            }
            drop(held);
            values.wait()?;
            (held, _) = self.hold(write, Wait::Yes)?;
        }
    }

    /// Locks the keys of `write` unless `is_held`, checks what it depends on, and gives it its
    /// numbers. Returns no numbers if its merges must be resolved first. Returns Busy if it may not
    /// `wait`, and would wait for an ingest.
    #[inline]
    fn hold_and_number<'a>(
        &'a self,
        write: &Write<'a>,
        targets: &mut Targets<'a>,
        durability: Durability,
        is_held: bool,
        wait: Wait,
    ) -> Result<(Option<Numbered<'a>>, Option<HeldStripes<'a>>)> {
        self.check_writable(write)?;
        let is_logged = self.core.history.log.is_some() && durability.is_logged();
        let checksum = if is_logged { write.checksum() } else { 0 };
        write.check_ops()?;
        self.note_expiries(write)?;
        loop {
            let (own, has_reads) = if is_held { (None, false) } else { self.hold(write, wait)? };
            if has_reads {
                return Ok((None, own));
            }
            check_conditions(&self.reads, write)?;
            // The keys may have been waited for while much was committed.
            check_reads(write)?;
            let numbered = self.number(write, targets, checksum, durability);
            // The log may refuse a write for reasons that the database does not know.
            if let Some(numbered) =
                numbered.inspect_err(|error| self.core.ballast.note_failure(error))?
            {
                return Ok((Some(numbered), own));
            }
            // Keyspaces share the locks, so writers of others would wait as well.
            drop(own);
            self.wait_to_number(write, targets, wait)?;
            *targets = Targets::of(write);
        }
    }

    /// Locks what `write` writes and depends on. Returns whether its merges must be resolved; then
    /// what they read is locked, too. If not, no entry of their keys gets an expiry before the
    /// locks are released. Returns Busy if it may not `wait`, and would wait for an ingest.
    #[inline]
    fn hold<'a>(
        &'a self,
        write: &Write<'a>,
        wait: Wait,
    ) -> Result<(Option<HeldStripes<'a>>, bool)> {
        loop {
            let has_reads = resolve::is_needed(write);
            let held = self.stripes.hold(write, has_reads, wait).ok_or_else(busy_with_ingest)?;
            // The keyspace may have got its first expiry meanwhile.
            if has_reads == resolve::is_needed(write) {
                return Ok((Some(held), has_reads));
            }
        }
    }

    /// Notes in the manifest that entries of a keyspace expire. The keys are not locked yet, and it
    /// is not decided whether the merges of `write` must be resolved: one of them may change what
    /// `write` itself puts. If `write` is refused later, the note does no harm.
    #[inline]
    pub(super) fn note_expiries(&self, write: &Write<'_>) -> Result<()> {
        if write.has_expiry { self.note_some_expiries(write) } else { Ok(()) }
    }

    fn note_some_expiries(&self, write: &Write<'_>) -> Result<()> {
        for op in write.ops.iter().filter(|op| op.expiry.is_some()) {
            let keyspace = &write.keyspaces[usize::from(op.keyspace)];
            if !keyspace.expires() {
                self.core.edits.set_expires(keyspace)?;
            }
        }
        Ok(())
    }

    /// Refuses a write of more bytes than a batch may have.
    pub(crate) fn check_batch_bytes(&self, bytes: usize) -> Result<()> {
        let most = self.core.setup().batch_bytes_max();
        if bytes as u64 <= most {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a batch of {bytes} bytes: expected at most {most} (a quarter of the memory budget)"
        )))
    }

    fn check_writable(&self, write: &Write<'_>) -> Result<()> {
        self.core.health.check_open_for_writing()?;
        self.check_batch_bytes(write.len() + write.condition_bytes)?;
        if self.core.ballast.is_given_up() && !has_only_deletes(write) {
            return Err(self.core.ballast.refusal());
        }
        write.keyspaces.iter().try_for_each(|keyspace| keyspace.check_accepts(write.prepared))
    }

    /// Waits until no ingest holds a tree of `write`, and lets the manifest grant SeqNos and files
    /// if they run short.
    #[cold]
    fn wait_to_number(&self, write: &Write<'_>, targets: &Targets<'_>, wait: Wait) -> Result<()> {
        let mut numbering = self.core.history.numbering.lock();
        while is_tree_held(&numbering, targets) {
            if wait == Wait::No {
                return Err(busy_with_ingest());
            }
            self.core.history.released.wait(&mut numbering);
        }
        drop(numbering);
        supply(&self.core.edits, seqnos_wanted(write))
    }

    /// Numbers the write under the numbering lock, where everything happens that needs the one
    /// order of history. Returns `None` if the manifest must grant more SeqNos or files first, or
    /// if an ingest holds one of the trees, or if a split has replaced one.
    fn number(
        &self,
        write: &Write<'_>,
        targets: &Targets<'_>,
        checksum: u32,
        durability: Durability,
    ) -> Result<Option<Numbered<'_>>> {
        let count = write.ops.len() as u64;
        // Declared first, so dropped after the lock is released.
        let _removed;
        let mut numbering = self.core.history.numbering.lock();
        if numbering.next.get().saturating_add(seqnos_wanted(write)) > numbering.ceiling.get() {
            return Ok(None);
        }
        if !numbering.holds_nothing() && is_tree_held(&numbering, targets) {
            return Ok(None);
        }
        if !targets.are_current(write.keyspaces) {
            return Ok(None);
        }
        // Checked again under the lock that closing and dropping take, so nothing gets a number
        // after them.
        self.core.health.check_open_for_writing()?;
        write.keyspaces.iter().try_for_each(|keyspace| keyspace.check_accepts(write.prepared))?;
        // Also if nobody watches any more: this transaction may be the one that was forgotten.
        check_reads(write)?;
        let is_watched = self.recent.is_watched();
        let mut definitions = Vec::new();
        let mut first = numbering.next;
        let mut lsn = None;
        let log = self.core.history.log.as_ref().filter(|_| durability.is_logged() && count > 0);
        if let Some(log) = log {
            definitions = definitions_of(write);
            for definition in &definitions {
                self.core.edits.note_definitions_due(write.keyspaces[definition.table.0].id);
            }
            first = first.plus(definitions.len() as u64);
            lsn = match enqueue(log, numbering.next, &definitions, write, checksum) {
                Err(error) if error.kind() == ErrorKind::Busy => return Ok(None),
                enqueued => Some(enqueued?),
            };
            numbering.is_gap_noted = false;
        } else if count > 0 {
            // Written before the first of these is visible: a kill that loses it leaves the note.
            let noted = note_gap(&self.core.history, &mut numbering, count)?;
            if !noted.is_made {
                return Ok(None);
            }
            lsn = noted.lsn;
            numbering.unlogged = true;
        } else if durability.is_logged() {
            // It promises no less than a commit with operations: everything before it in the log is
            // as durable.
            lsn = self.core.history.log.as_ref().map(Log::enqueued);
        }
        numbering.next = first.plus(count);
        let last = SeqNo::new(numbering.next.get() - 1);
        if is_watched {
            _removed = note_writes(&self.recent, write, last);
        }
        let refs = targets.trees().map(|tree| numbering.reserve(tree, first)).collect();
        let place = self.core.history.publisher.join(last);
        let place = InFlight::new(&self.core.health, &self.core.history, place);
        Ok(Some(Numbered { first, last, refs, place, lsn, definitions }))
    }

    /// Keeps what is committed from now on, for a serializable transaction. Returns when everything
    /// that was committed before is visible: it is not noted, so the snapshot must see it. If
    /// another such transaction is open it is noted, and the call does not wait.
    pub(crate) fn watch(&self) -> CommitWatch {
        if let Some(watch) = self.recent.join(self.core.history.visible()) {
            return watch;
        }
        let numbering = self.core.history.numbering.lock();
        let watch = self.recent.watch(SeqNo::new(numbering.next.get() - 1));
        let end = self.core.history.publisher.line_end();
        drop(numbering);
        self.core.history.publisher.wait_through(end);
        watch
    }

    fn log_and_insert(
        &self,
        write: &Write<'_>,
        targets: &Targets<'_>,
        numbered: &Numbered<'_>,
    ) -> Result<()> {
        if let (Some(log), Some(lsn)) = (&self.core.history.log, numbered.lsn) {
            log.write_through(lsn).inspect_err(|error| self.core.ballast.note_failure(error))?;
            for definition in &numbered.definitions {
                // They are logged with the batch, so no later batch must log them.
                let (keyspace, table) = definition.table;
                write.keyspaces[keyspace].definitions[table].note_logged(definition.len);
            }
        }
        // What was logged cannot be taken back, and half of it may be visible.
        self.insert(write, targets, numbered).inspect_err(|error| self.core.health.poison(error))
    }

    fn insert(
        &self,
        write: &Write<'_>,
        targets: &Targets<'_>,
        numbered: &Numbered<'_>,
    ) -> Result<()> {
        for (i, op) in write.ops.iter().enumerate() {
            let seqno = numbered.first.plus(i as u64);
            let (key, value) = (write.bytes(&op.key), write.bytes(&op.value));
            let trailer = record::trailer(seqno, op.kind, op.expiry);
            let (entry, check) = (EntryRef { key, trailer, value }, op.check.at(seqno));
            if op.kind == Kind::RangeDelete {
                for at in targets.places_of_range(write, op) {
                    numbered.refs[at].insert_checked(entry, op.hash, check)?;
                }
                continue;
            }
            if let Some(at) = targets.place_of(i, op)
                && numbered.refs[at].insert_checked(entry, op.hash, check)?
            {
                let keyspace = write.keyspaces[usize::from(op.keyspace)].id;
                self.core.long_chains.note(keyspace, entry.key, op.hash);
            }
        }
        Ok(())
    }
}

#[cold]
pub(super) fn busy_with_ingest() -> Error {
    Error::new(ErrorKind::Busy, "writers wait for an ingest into the same keyspace")
}

/// Returns whether an ingest holds a tree of `write`.
#[cold]
fn is_tree_held(numbering: &Numbering, targets: &Targets<'_>) -> bool {
    targets.trees().any(|tree| numbering.holds(tree))
}

fn has_only_deletes(write: &Write<'_>) -> bool {
    write.ops.iter().all(|op| matches!(op.kind, Kind::Delete | Kind::RangeDelete))
}

#[cfg(test)]
mod tests {
    use crate::testing;
    use std::time::Duration;

    /// The memtable of such a write would belong to no keyspace: never flushed, and counted
    /// forever.
    #[test]
    fn a_write_that_waits_for_its_key_while_the_keyspace_is_dropped_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        kv.put("b", "1").unwrap();
        let held = kv.handle().parts().commits.stripes.hold_all();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| kv.put("a", "1"));
            // Long enough to reach the lock of the key. A writer that gets there later is refused,
            // too.
            std::thread::sleep(Duration::from_millis(50));
            assert!(db.drop_keyspace("kv").unwrap());
            drop(held);
            let refused = waits.join().unwrap().unwrap_err();
            assert!(refused.to_string().contains("was dropped"), "{refused}");
        });
        assert_eq!(db.stats().memtable_bytes, 0);
    }
}
