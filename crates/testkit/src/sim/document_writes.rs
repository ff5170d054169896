//! The steps that write documents by a filter, or in a transaction.

use super::ask::FilterSpec;
use super::changes::{SlotHandles, patch_of};
use super::conditions::Verdict;
use super::document::{Edit, Missing, document_bytes, fields_of, patched};
use super::indexes::WriteFate;
use super::life::{self, Check, Handle};
use super::model::{DOCUMENTS, Key, key_bytes, operand_bytes, value_bytes};
use super::run::Run;
use super::step::{DocumentStep, SlotChange};
use flagstone::internal::keys_written;
use flagstone::query::Returning;
use flagstone::{Collection, Document, Durability, ErrorKind, Expires, Result, Space, Transaction};

impl Run {
    /// Runs a step on the collection.
    pub(super) fn document_step(&mut self, step: &DocumentStep) -> Check {
        match step {
            DocumentStep::CreateIndex(at, build) => self.create_index(*at, build),
            DocumentStep::DropIndex(at) => self.drop_index(*at),
            DocumentStep::Find(ask, order, limit, snapshot) => {
                self.find(ask, *order, *limit, *snapshot)
            }
            DocumentStep::Page(ask, order, length) => self.page(ask, *order, *length),
            DocumentStep::NextPage(which, length) => self.next_page(*which, *length),
            DocumentStep::WriteMany(ask, edits, limit) => {
                self.write_many(ask, edits.as_deref(), *limit)
            }
            DocumentStep::Transact(changes, commits) => self.transact(changes, *commits),
            DocumentStep::Contest(contest) => self.contest(contest),
            DocumentStep::Summarize(ask, summary, snapshot) => {
                self.summarize(ask, summary, *snapshot)
            }
            DocumentStep::KeepOld(on) => self.keep_old(*on),
            DocumentStep::Follow(syncs) => self.follow(*syncs),
        }
    }

    /// Patches or removes documents that match, each by itself.
    fn write_many(&mut self, ask: &FilterSpec, edits: Option<&[Edit]>, limit: u64) -> Check {
        if self.oracle.has_doubt() || !self.settle_indexes()? {
            return Ok(());
        }
        let now = self.oracle.moment;
        let (ask, edits) = (&ask.dated(now), edits.map(|of| of.iter().map(|it| it.dated(now))));
        let edits = edits.map(Iterator::collect::<Vec<Edit>>);
        let edits = edits.as_deref();
        let Some(collection) = self.collection()? else { return Ok(()) };
        let entries = self.oracle.entries(DOCUMENTS).into_iter();
        let matching: Vec<(Key, Vec<u8>)> =
            entries.filter(|(_, bytes)| ask.holds(&fields_of(bytes))).collect();
        let has_more = matching.len() as u64 > limit;
        let many = match edits {
            Some(edits) => collection.update_many(ask.filter(), &patch_of(Missing::Nothing, edits)),
            None => collection.delete_many(ask.filter()),
        };
        let done = many.limit(limit).keep_going().returning(Returning::Old).run();
        let (changed, error) = match done {
            Ok(changed) => (changed, None),
            Err(interrupted) => (*interrupted.done, Some(interrupted.error)),
        };
        let (mut matched, mut modified, mut refused) = (0, 0, 0);
        let mut old = Vec::new();
        for (key, bytes) in matching.into_iter().take(limit as usize) {
            // The documents before it are counted, whether they were written or refused.
            let ended = error.as_ref().filter(|_| matched == changed.matched);
            matched += 1;
            let Some(change) = self.change_of(key, &bytes, edits) else {
                if let Some(error) = ended {
                    return self.excuse(error);
                }
                refused += 1;
                continue;
            };
            let is_same =
                matches!(&change, SlotChange::Made(_, _, made, _) if made.as_ref() == Some(&bytes));
            let fate = self.oracle.fate(std::slice::from_ref(&change));
            if let Some(error) = ended {
                // If the index is in doubt, the error may be that of a write all the same.
                let may_be_written = !is_same && fate != WriteFate::Refused;
                return if may_be_written {
                    self.refused(&[change], None, error)
                } else {
                    self.excuse(error)
                };
            }
            if is_same {
                old.push((i64::from(key), bytes));
                continue;
            }
            let is_refused = match fate {
                WriteFate::Accepted => false,
                WriteFate::Refused => true,
                WriteFate::Either => !self.is_written(&collection, key, &bytes)?,
            };
            if is_refused {
                refused += 1;
                continue;
            }
            modified += 1;
            old.push((i64::from(key), bytes));
            let durability = self.setting.options.durability;
            self.written(&[change], durability, None, Ok(()))?;
        }
        if let Some(error) = error {
            return self.excuse(&error);
        }
        let returned = changed.documents.iter().map(|(key, document)| {
            let fields = life::fields_of(&document.to_value());
            (key.as_i64().unwrap_or(-1), document_bytes(&fields))
        });
        if !returned.eq(old.iter().cloned()) {
            return Err(format!(
                "a write of {} by filter returned other documents than the old {old:?}: {:?}",
                ask.filter(),
                changed.documents
            ));
        }
        let found = (changed.matched, changed.modified, changed.refused, changed.next.is_some());
        if found == (matched, modified, refused, has_more) {
            Ok(())
        } else {
            Err(format!(
                "a write of {} by filter (matched, modified, refused, more): {found:?}, expected \
                 {:?}",
                ask.filter(),
                (matched, modified, refused, has_more)
            ))
        }
    }

    /// Returns what is written to a document; `None` if the edits do not apply.
    fn change_of(&self, key: Key, bytes: &[u8], edits: Option<&[Edit]>) -> Option<SlotChange> {
        let Some(edits) = edits else { return Some(SlotChange::Delete(DOCUMENTS, key)) };
        patched(Some(fields_of(bytes)), Missing::Nothing, edits)?;
        let patch = SlotChange::Patch(DOCUMENTS, key, Missing::Nothing, edits.to_vec());
        Some(self.oracle.now.resolved(&patch, self.oracle.moment))
    }

    /// Returns whether a document is another than `before`.
    fn is_written(&mut self, collection: &Collection, key: Key, before: &[u8]) -> Check<bool> {
        let found = collection.get(i64::from(key));
        let Some(found) = self.excused(found)? else { return Ok(false) };
        let now = found.map(|found| document_bytes(&life::fields_of(&found.to_value())));
        Ok(now.as_deref() != Some(before))
    }

    /// Makes changes in a transaction. Each is judged by itself.
    fn transact(&mut self, changes: &[SlotChange], commits: bool) -> Check {
        if self.oracle.has_doubt() || !self.settle_indexes()? {
            return Ok(());
        }
        let changes = self.dated(changes);
        let Some(handles) = self.handles(changes.iter().map(SlotChange::slot))? else {
            return Ok(());
        };
        let Some(life) = &self.life else { return Ok(()) };
        let begun = life.db.begin();
        let Some(mut transaction) = self.excused(begun)? else { return Ok(()) };
        let Some(made) = self.make_in(&mut transaction, &handles, changes)? else { return Ok(()) };
        if !commits || made.is_empty() {
            return Ok(());
        }
        if keys_written(&transaction) == 0 {
            return self.end_empty(transaction);
        }
        let (durability, keys) = (self.setting.options.durability, keys_written(&transaction));
        let done = transaction.commit();
        self.written_by_transaction(&made, keys, durability, None, done)
    }

    /// Makes changes in a transaction, and returns those that were not refused. A deleted range is
    /// the deletes of the keys that the transaction sees in it. Returns `None` if the transaction
    /// must be given up.
    pub(super) fn make_in(
        &mut self,
        transaction: &mut Transaction,
        handles: &SlotHandles,
        changes: Vec<SlotChange>,
    ) -> Check<Option<Vec<SlotChange>>> {
        let mut made: Vec<SlotChange> = Vec::new();
        for change in changes {
            if self.may_be_nothing(&change) {
                continue;
            }
            let before = made.clone();
            for one in self.one_by_one(&change, &made) {
                // The last put or delete of a key counts.
                if !one.is_folded() {
                    made.retain(|earlier| {
                        earlier.slot() != one.slot() || earlier.keys() != one.keys()
                    });
                }
                made.push(one);
            }
            let fate = self.oracle.fate(&made);
            let done = write_in(transaction, handles, &change);
            if let (Err(error), SlotChange::DeleteRange(..)) = (&done, &change) {
                // Some of the documents may be removed, and some of the keys be read.
                self.excuse(error)?;
                return Ok(None);
            }
            match (done, fate) {
                (Ok(()), WriteFate::Refused) => {
                    return Err("a transaction wrote what an index refuses".into());
                }
                // It is removed at once, and stays so if the transaction deletes the other again.
                (Ok(()), _) => made.extend(self.oracle.giving_way(&made)),
                (Err(error), WriteFate::Refused | WriteFate::Either)
                    if matches!(error.kind(), ErrorKind::Duplicate | ErrorKind::InvalidInput) =>
                {
                    made = before;
                }
                (Err(error), _) => {
                    self.excuse(&error)?;
                    made = before;
                }
            }
        }
        Ok(Some(made))
    }

    /// Returns what a transaction that has made `made` writes for a change.
    fn one_by_one(&self, change: &SlotChange, made: &[SlotChange]) -> Vec<SlotChange> {
        let SlotChange::DeleteRange(slot, from, to) = *change else { return vec![change.clone()] };
        let entries = self.oracle.after(made).range(slot, (from, to), self.oracle.moment);
        entries.into_iter().map(|(key, _)| SlotChange::Delete(slot, key)).collect()
    }

    /// Commits a transaction in which no patch has changed anything. A poisoned database can still
    /// be read.
    pub(super) fn end_empty(&mut self, transaction: Transaction) -> Check {
        let done = transaction.commit();
        if self.excused(done)?.is_some() {
            self.oracle.promise(self.setting.options.durability, self.oracle.last_id());
        }
        Ok(())
    }

    /// Handles the commit of a transaction that has made `changes`, in which it writes `keys` keys.
    pub(super) fn written_by_transaction(
        &mut self,
        changes: &[SlotChange],
        keys: usize,
        durability: Durability,
        verdict: Option<Verdict>,
        done: Result<()>,
    ) -> Check {
        let changes = &self.oracle.without_idle(changes, keys);
        let (last_id, before) = (self.oracle.last_id(), self.only_patched(changes));
        self.written(changes, durability, verdict, done)?;
        if self.oracle.last_id() > last_id {
            self.note_unchanged(before);
        }
        Ok(())
    }

    /// Returns the documents of an indexed collection that `changes` patch and do not write
    /// otherwise, with their bytes.
    fn only_patched(&self, changes: &[SlotChange]) -> Vec<(Key, Option<Vec<u8>>)> {
        if !self.oracle.is_indexed(changes) {
            return Vec::new();
        }
        let of_documents = changes.iter().filter(|change| change.slot() == DOCUMENTS);
        let (patches, others): (Vec<&SlotChange>, Vec<&SlotChange>) =
            of_documents.partition(|change| matches!(change, SlotChange::Patch(..)));
        let keys = patches.iter().flat_map(|change| change.keys());
        keys.filter(|key| others.iter().all(|change| !change.keys().contains(key)))
            .map(|key| (key, self.bytes_of(key)))
            .collect()
    }

    /// Notes the documents that the last event patched without a change. Such a patch is a write
    /// only if it stays an operand, which depends on the paths of the indexes.
    fn note_unchanged(&mut self, before: Vec<(Key, Option<Vec<u8>>)>) {
        let id = self.oracle.last_id();
        let is_same = |(key, bytes): &(Key, Option<Vec<u8>>)| self.bytes_of(*key) == *bytes;
        let same: Vec<_> = before.into_iter().filter(is_same).collect();
        if let Some(life) = &mut self.life {
            life.unchanged.extend(same.into_iter().map(|(key, _)| ((DOCUMENTS, key), id)));
        }
    }

    fn bytes_of(&self, key: Key) -> Option<Vec<u8>> {
        self.oracle.get(DOCUMENTS, key).map(|entry| entry.bytes.to_vec())
    }

    /// Returns the keys that these changes only patch, and that hold an expired document.
    pub(super) fn patched_in_vain(&self, changes: &[SlotChange]) -> Vec<(usize, Key)> {
        let is_only_in_vain = |(slot, key): (usize, Key)| {
            let mut of = changes.iter().filter(|it| it.slot() == slot && it.keys().contains(&key));
            of.all(|change| self.may_be_nothing(change))
        };
        let in_vain = changes.iter().filter(|change| self.may_be_nothing(change));
        let keys = in_vain.flat_map(|change| change.keys().map(|key| (change.slot(), key)));
        keys.filter(|at| is_only_in_vain(*at)).collect()
    }

    /// Returns whether a patch finds no document, and may or may not remove one that has expired.
    fn may_be_nothing(&self, change: &SlotChange) -> bool {
        let SlotChange::Patch(slot, key, Missing::Nothing, _) = *change else { return false };
        let is_stored = self.oracle.now.stored(slot).any(|(known, _)| known == key);
        is_stored && self.oracle.get(slot, key).is_none()
    }
}

fn write_in(
    transaction: &mut Transaction,
    handles: &SlotHandles,
    change: &SlotChange,
) -> Result<()> {
    match (&handles[change.slot()], change) {
        (Some(Handle::Documents(collection)), SlotChange::Document(_, key, fields, lasts)) => {
            let document: Document = super::changes::document_of(fields)?;
            let document = (&document).expires(lasts.expiry());
            transaction.put(collection, i64::from(*key), document)
        }
        (Some(Handle::Documents(collection)), SlotChange::Delete(_, key)) => {
            transaction.delete(collection, i64::from(*key))
        }
        (Some(Handle::Documents(collection)), SlotChange::Patch(_, key, missing, edits)) => {
            transaction.patch(collection, i64::from(*key), &patch_of(*missing, edits))
        }
        (Some(Handle::Bytes(keyspace)), SlotChange::Put(slot, key, value, lasts)) => {
            let value = value_bytes(*slot, *value).expires(lasts.expiry());
            transaction.put(keyspace, key_bytes(*key), value)
        }
        (Some(Handle::Bytes(keyspace)), SlotChange::Merge(slot, key, seed)) => {
            transaction.merge(keyspace, key_bytes(*key), operand_bytes(*slot, *seed))
        }
        (Some(Handle::Bytes(keyspace)), SlotChange::Delete(_, key)) => {
            transaction.delete(keyspace, key_bytes(*key))
        }
        (Some(Handle::Bytes(keyspace)), SlotChange::DeleteRange(_, from, to)) => {
            transaction.delete_range(keyspace, key_bytes(*from)..key_bytes(*to))
        }
        (Some(Handle::Documents(collection)), SlotChange::DeleteRange(_, from, to)) => {
            transaction.delete_range(collection, i64::from(*from)..i64::from(*to))
        }
        _ => Ok(()),
    }
}
