//! The steps that write.

use super::changes::{SlotHandles, fill, patch_of, write_one};
use super::conditions::{Judge, Verdict};
use super::document::{Edit, Missing, fields_of, patched};
use super::indexes::{INDEXES, WriteFate};
use super::life::{Check, Handle, expiring_slots, name_of, other_name_of, present_name};
use super::model::{DOCUMENTS, KEYS, KINDS, Key, Kind, SLOTS, key_bytes};
use super::oracle::Existence;
use super::run::{CheckpointCopy, Run};
use super::step::{Condition, How, Lasts, SimStep, SlotChange, ValueOf, Which, place_of};
use crate::rng::Rng;
use flagstone::admin::TryCommit;
use flagstone::{Batch, Collection, Durability, Error, ErrorKind, Patched, Result, Space};
use std::path::PathBuf;

/// The largest number at a time.
const TICKETS_MAX: usize = 4;
const COPIES_MAX: usize = 2;

impl Run {
    /// Runs a step if it writes. Returns whether it did.
    pub(super) fn write_step(&mut self, step: &SimStep) -> Check<bool> {
        let Some(life) = &self.life else { return Ok(false) };
        self.oracle.note_expires(expiring_slots(&life.db))?;
        if !self.settle_indexes()? {
            return Ok(true);
        }
        match step {
            SimStep::Commit(changes, how, expect) => self.commit(changes, *how, *expect)?,
            SimStep::Single(change) => self.single(change)?,
            SimStep::Remove(slot, key) => self.remove(*slot, *key)?,
            SimStep::Load(slot, seed, durability, lasts) => {
                self.load(*slot, *seed, *durability, *lasts)?;
            }
            SimStep::Ingest(slot, seed, lasts, beside) => {
                self.ingest(*slot, *seed, *lasts, beside)?;
            }
            SimStep::Wait(which) => self.wait(*which)?,
            SimStep::Drop(slot) => self.drop_slot(*slot)?,
            SimStep::Clear(slot) => self.clear(*slot)?,
            SimStep::Rename(slot) => self.rename(*slot)?,
            SimStep::Sync => self.upkeep(
                |run| {
                    run.oracle.keep_logged();
                },
                |db| db.sync(),
            )?,
            SimStep::Flush => self.upkeep(|run| run.oracle.keep_all(), |db| db.flush())?,
            SimStep::Compact => self.upkeep(|run| run.oracle.keep_all(), |db| db.compact())?,
            SimStep::Checkpoint => self.checkpoint()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn upkeep(
        &mut self,
        kept: impl Fn(&mut Self),
        call: impl Fn(&flagstone::Database) -> Result<()>,
    ) -> Check {
        let Some(life) = &self.life else { return Ok(()) };
        let done = call(&life.db);
        if done.is_ok() && life.is_poisoned {
            return Err("a poisoned database says that everything is kept".into());
        }
        if self.excused(done)?.is_some() {
            kept(self);
        }
        Ok(())
    }

    /// Returns the handles of `slots`, or `None` if one cannot be created.
    pub(super) fn handles(
        &mut self,
        slots: impl Iterator<Item = usize>,
    ) -> Check<Option<SlotHandles>> {
        let mut handles: SlotHandles = [const { None }; SLOTS];
        for slot in slots {
            let Some(life) = &mut self.life else { return Ok(None) };
            let made = life.handle(slot, &self.keyspaces);
            match made {
                Ok(handle) => {
                    if matches!(self.oracle.existence[slot], Existence::No | Existence::MaybeMade) {
                        self.oracle.existence[slot] = Existence::Yes;
                    }
                    handles[slot] = Some(handle);
                }
                Err(error) => {
                    if self.oracle.existence[slot] == Existence::No {
                        self.oracle.existence[slot] = Existence::MaybeMade;
                    }
                    self.excuse(&error)?;
                    return Ok(None);
                }
            }
        }
        Ok(Some(handles))
    }

    /// Returns the handle of a slot.
    pub(super) fn handle(&mut self, slot: usize) -> Check<Option<Handle>> {
        Ok(self.handles([slot].into_iter())?.and_then(|mut handles| handles[slot].take()))
    }

    pub(super) fn commit(
        &mut self,
        changes: &[SlotChange],
        how: How,
        expect: Option<Condition>,
    ) -> Check {
        if self.is_cut_in_doubt() {
            return Ok(());
        }
        let changes = &self.dated(changes);
        let expected_slot = match expect {
            Some(Condition::Token(which)) => match place_of(self.tokens.len(), which) {
                Some(at) => Some(self.tokens[at].slot),
                None => return Ok(()),
            },
            Some(condition) => condition.slot(),
            None => None,
        };
        let slots = changes.iter().map(SlotChange::slot).chain(expected_slot);
        let Some(handles) = self.handles(slots)? else { return Ok(()) };
        let mut batch = Batch::default();
        fill(&mut batch, &handles, changes).map_err(|error| format!("a batch: {error:?}"))?;
        let Some(life) = &self.life else { return Ok(()) };
        let (oracle, lives, tokens) = (&self.oracle, self.lives, &self.tokens[..]);
        let judge = Judge { oracle, life, lives, tokens };
        let verdict = expect.map(|expect| judge.expect(&mut batch, &handles, expect));
        let usual = self.setting.options.durability;
        match how {
            How::With(durability) => {
                let done = life.db.commit(batch.durability(durability));
                self.written(changes, durability, verdict, done)
            }
            How::Plain => {
                let done = life.db.commit(batch);
                self.written(changes, usual, verdict, done)
            }
            How::Try => {
                let done = match life.db.try_commit(&batch) {
                    Ok(TryCommit::Started { ticket, .. }) => ticket.wait(),
                    Ok(TryCommit::RetryAfter(_)) => return Ok(()),
                    Err(error) => Err(error),
                };
                self.written(changes, usual, verdict, done)
            }
            How::Start => match life.db.commit_start(batch) {
                Ok(ticket) => {
                    // The commit is visible, and nothing is promised before a wait.
                    let id = self.wrote(changes, usual, verdict)?;
                    let Some(life) = &mut self.life else { return Ok(()) };
                    life.tickets.push((ticket, id));
                    let extra = life.tickets.len().saturating_sub(TICKETS_MAX);
                    life.tickets.drain(..extra);
                    Ok(())
                }
                Err(error) => self.written(changes, usual, verdict, Err(error)),
            },
        }
    }

    /// Returns whether the power is cut, and a write in doubt. A write that is not logged may
    /// succeed all the same, and its order and that of the one in doubt are not known.
    fn is_cut_in_doubt(&self) -> bool {
        let is_poisoned = self.life.as_ref().is_some_and(|life| life.is_poisoned);
        self.oracle.has_doubt() && !is_poisoned
    }

    /// Handles a write that returned.
    pub(super) fn written(
        &mut self,
        changes: &[SlotChange],
        durability: Durability,
        verdict: Option<Verdict>,
        done: Result<()>,
    ) -> Check {
        match done {
            Ok(()) => {
                let durability = match durability {
                    Durability::None if self.oracle.is_indexed(changes) => Durability::Buffered,
                    durability => durability,
                };
                let id = self.wrote(changes, durability, verdict)?;
                self.oracle.promise(durability, id);
                Ok(())
            }
            Err(error) => self.refused(changes, verdict, &error),
        }
    }

    /// Notes a write that succeeded and is visible.
    fn wrote(
        &mut self,
        changes: &[SlotChange],
        durability: Durability,
        verdict: Option<Verdict>,
    ) -> Check<u64> {
        if self.life.as_ref().is_some_and(|life| life.is_poisoned) {
            return Err("a write after Poisoned was acknowledged".into());
        }
        if self.oracle.fate(changes) == WriteFate::Refused {
            return Err("a write that an index refuses was acknowledged".into());
        }
        if verdict == Some(Verdict::Conflict) {
            return Err("a condition that does not hold was taken for one that does".into());
        }
        for change in changes {
            let existence = &mut self.oracle.existence[change.slot()];
            if *existence == Existence::MaybeDropped {
                // The engine accepts a write only after the removal can no longer happen.
                *existence = Existence::Yes;
            }
        }
        self.totals.commits += 1;
        self.totals.large += changes.iter().filter(|change| change.is_large()).count() as u64;
        let expiring = changes.iter().filter(|change| change.expiry().is_some());
        self.totals.expiring += expiring.count() as u64;
        let is_logged = durability != Durability::None || self.oracle.is_indexed(changes);
        let idle = self.patched_in_vain(changes);
        let id = self.oracle.happened(changes.to_vec(), is_logged);
        if let Some(life) = &mut self.life {
            life.note_written(changes, id);
            life.unchanged.extend(idle.into_iter().map(|at| (at, id)));
        }
        Ok(id)
    }

    /// Returns changes that are written now, with the moments at which their entries expire. Among
    /// several, documents that have expired already are left out where an index would have to know
    /// in which order they are written: which of two with one unique value gives way, and what a
    /// patch finds after a write of a date that is over.
    pub(super) fn dated(&self, changes: &[SlotChange]) -> Vec<SlotChange> {
        let dated = changes.iter().map(|change| change.clone().dated(self.oracle.moment));
        let is_left_out =
            changes.len() > 1 && (self.oracle.has_unique() || self.oracle.dates_decide());
        dated.filter(|change| !is_left_out || !self.oracle.has_expired(change)).collect()
    }

    pub(super) fn refused(
        &mut self,
        changes: &[SlotChange],
        verdict: Option<Verdict>,
        error: &Error,
    ) -> Check {
        if error.kind() == ErrorKind::Conflict {
            return match verdict {
                Some(Verdict::Holds) => Err(format!("a condition that holds: {error}")),
                Some(_) => Ok(()),
                None => Err(format!("a conflict without a condition: {error}")),
            };
        }
        if matches!(error.kind(), ErrorKind::Duplicate | ErrorKind::InvalidInput)
            && self.is_refused_by_index(changes, error)
        {
            return Ok(());
        }
        let was_poisoned = self.life.as_ref().is_none_or(|life| life.is_poisoned);
        let is_unknown = error.kind() == ErrorKind::Poisoned || self.place.faults.is_off();
        if is_unknown && !was_poisoned && !self.oracle.has_doubt() {
            self.oracle.doubt(changes.to_vec());
        }
        self.excuse(error)
    }

    /// Returns whether the reason of an error is an index, or the bytes that indexes add to a
    /// batch.
    fn is_refused_by_index(&self, changes: &[SlotChange], error: &Error) -> bool {
        let is_too_large = error.to_string().contains("a quarter of the memory budget");
        self.oracle.fate(changes) != WriteFate::Accepted
            || (is_too_large && self.oracle.is_indexed(changes))
    }

    fn wait(&mut self, which: Which) -> Check {
        let Some(life) = &mut self.life else { return Ok(()) };
        let len = life.tickets.len();
        if len == 0 {
            return Ok(());
        }
        let (ticket, id) = life.tickets.remove(which % len);
        let done = ticket.wait();
        if self.excused(done)?.is_some() {
            self.oracle.promise(self.setting.options.durability, id);
        }
        Ok(())
    }

    /// Makes a change by the method of its keyspace.
    fn single(&mut self, change: &SlotChange) -> Check {
        if self.is_cut_in_doubt() {
            return Ok(());
        }
        let change = &change.clone().dated(self.oracle.moment);
        let slot = change.slot();
        let Some(handle) = self.handle(slot)? else { return Ok(()) };
        let durability = self.setting.options.durability;
        if let (SlotChange::Patch(_, key, missing, edits), Some(collection)) =
            (change, handle.collection())
        {
            return self.patch_at_once(change, *key, *missing, edits, collection);
        }
        let done = write_one(&handle, change);
        self.written(std::slice::from_ref(change), durability, None, done)
    }

    /// Reads a document, patches it and writes it, by the method of a collection.
    fn patch_at_once(
        &mut self,
        change: &SlotChange,
        key: Key,
        missing: Missing,
        edits: &[Edit],
        collection: &Collection,
    ) -> Check {
        let slot = change.slot();
        let done = collection
            .patch_if(i64::from(key), &patch_of(missing, edits))
            .and_then(Patched::applied);
        let old = self.oracle.get(slot, key).map(|entry| entry.bytes.to_vec());
        let is_there = missing != Missing::Nothing || old.is_some();
        let applies = patched(old.as_deref().map(fields_of), missing, edits).is_some();
        let refused = |done: &Result<bool>| {
            done.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConditionFailed)
        };
        if !self.oracle.has_doubt() {
            match &done {
                Ok(found) if *found != is_there => {
                    return Err(format!("patch_if found {found}, expected {is_there}"));
                }
                Ok(true) if !applies => {
                    return Err("patch_if ignored a condition".to_owned());
                }
                done if refused(done) && (applies || !is_there) => {
                    return Err("patch_if refused a patch whose conditions hold".to_owned());
                }
                _ => {}
            }
        }
        let made = self.oracle.now.resolved(change, self.oracle.moment);
        let changes_nothing = matches!(&made, SlotChange::Made(_, _, new, _) if *new == old);
        match done {
            // A change of nothing writes nothing.
            Ok(found) if !found || changes_nothing => {}
            done if refused(&done) => {}
            // The whole document was written, with the expiry that it had.
            done => {
                let durability = self.setting.options.durability;
                self.written(&[made], durability, None, done.map(|_| ()))?;
            }
        }
        self.get(slot, key)
    }

    fn remove(&mut self, slot: usize, key: Key) -> Check {
        let Some(handle) = self.handle(slot)? else { return Ok(()) };
        let removed = match &handle {
            Handle::Bytes(keyspace) => keyspace.remove(key_bytes(key)),
            Handle::Documents(collection) => collection.remove(i64::from(key)),
        };
        let is_there = self.oracle.get(slot, key).is_some();
        match removed {
            Ok(found) if found != is_there && !self.oracle.has_doubt() => {
                Err(format!("remove of slot {slot}, key {key} found {found}, expected {is_there}"))
            }
            Ok(false) => Ok(()),
            removed => {
                let durability = self.setting.options.durability;
                self.written(
                    &[SlotChange::Delete(slot, key)],
                    durability,
                    None,
                    removed.map(|_| ()),
                )
            }
        }
    }

    /// Writes every key of a slot in order, in a few batches, and flushes.
    fn load(&mut self, slot: usize, seed: u32, durability: Durability, lasts: Lasts) -> Check {
        let mut rng = Rng::new(u64::from(seed));
        let mut from = 0;
        while from < KEYS as Key {
            let to = (from + rng.between(4, 20) as Key).min(KEYS as Key);
            let put = |key| {
                let lasts = match lasts {
                    Lasts::For(millis) if seed % 2 == 1 => {
                        Lasts::For(millis / KEYS as i64 * i64::from(key))
                    }
                    lasts => lasts,
                };
                let seed = seed.wrapping_mul(31).wrapping_add(u32::from(key));
                match KINDS[slot] {
                    Kind::Documents => {
                        SlotChange::Document(slot, key, vec![(u16::from(key), 7)], lasts)
                    }
                    _ => SlotChange::Put(slot, key, ValueOf { len: 400, seed }, lasts),
                }
            };
            let changes: Vec<_> = (from..to).map(put).collect();
            self.commit(&changes, How::With(durability), None)?;
            from = to;
        }
        self.upkeep(|run| run.oracle.keep_all(), |db| db.flush())
    }

    fn drop_slot(&mut self, slot: usize) -> Check {
        let Some(life) = &mut self.life else { return Ok(()) };
        let was_there = match self.oracle.existence[slot] {
            Existence::No => Some(false),
            Existence::Yes | Existence::MaybeDropped => Some(true),
            Existence::MaybeMade => None,
        };
        match life.db.drop_keyspace(&present_name(&life.db, slot)) {
            Ok(was) if was_there.is_some_and(|there| there != was) => {
                Err(format!("drop of slot {slot} says {was}, expected {was_there:?}"))
            }
            Ok(_) => {
                life.handles[slot] = None;
                life.generations[slot] += 1;
                self.dropped_indexes += 1;
                // Everything earlier is durable first, unless the disk was full.
                if was_there != Some(false) && !self.place.has_failed() {
                    self.oracle.keep_all();
                }
                self.oracle.forget(slot);
                Ok(())
            }
            Err(error) => {
                if slot == DOCUMENTS {
                    self.oracle.doubtful_indexes = [true; INDEXES];
                    self.oracle.is_old_doubtful = true;
                }
                if was_there == Some(true) {
                    self.oracle.existence[slot] = Existence::MaybeDropped;
                }
                self.excuse(&error)
            }
        }
    }

    /// Gives a slot its other name. Handles stay what they are.
    fn rename(&mut self, slot: usize) -> Check {
        let Some(life) = &self.life else { return Ok(()) };
        if self.oracle.existence[slot] != Existence::Yes {
            return Ok(());
        }
        let from = present_name(&life.db, slot);
        let names = [name_of(slot), other_name_of(slot)];
        let Some(to) = names.iter().find(|name| **name != from) else { return Ok(()) };
        let renamed = life.db.rename_keyspace(&from, to);
        self.totals.renamings += u64::from(renamed.is_ok());
        self.excused(renamed).map(|_| ())
    }

    fn clear(&mut self, slot: usize) -> Check {
        let Some(handle) = self.handle(slot)? else { return Ok(()) };
        let cleared = match &handle {
            Handle::Bytes(keyspace) => keyspace.clear(),
            Handle::Documents(collection) => collection.clear(),
        };
        // Synced, whatever the database's durability.
        let all = SlotChange::DeleteRange(slot, 0, KEYS as Key);
        self.written(&[all], Durability::Each, None, cleared)
    }

    fn checkpoint(&mut self) -> Check {
        let Some(life) = &self.life else { return Ok(()) };
        if self.copies.len() == COPIES_MAX || self.oracle.has_doubt() {
            return Ok(());
        }
        self.copies_made += 1;
        let dir = PathBuf::from(format!("/copy{}", self.copies_made));
        let made = life.db.checkpoint(&dir);
        if self.excused(made)?.is_some() {
            self.oracle.keep_all();
            self.copies.push(CheckpointCopy { dir, state: self.oracle.now.clone() });
        }
        Ok(())
    }
}
