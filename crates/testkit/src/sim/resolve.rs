//! What the database makes of changes when it writes them: merges and patches are resolved where
//! entries may expire, dates in documents decide when these expire, and documents that have expired
//! give way to others with their unique values.

use super::document::{DATE, Edit, fields_of};
use super::events::apply_all;
use super::indexes::{self, BY_DATE, Built, SPECS, WriteFate, expiry_by_date};
use super::model::{DOCUMENTS, Key, SLOTS, State};
use super::oracle::Oracle;
use super::step::SlotChange;
use std::collections::BTreeSet;

/// Returns the keys of the documents that are written.
fn documents_of(changes: &[SlotChange]) -> BTreeSet<Key> {
    let documents = changes.iter().filter(|change| change.slot() == DOCUMENTS);
    documents.flat_map(SlotChange::keys).collect()
}

/// Returns the slots into which `changes` put entries with an expiry.
fn expiring(changes: &[SlotChange]) -> [bool; SLOTS] {
    let mut expires = [false; SLOTS];
    for change in changes.iter().filter(|change| change.expiry().is_some()) {
        expires[change.slot()] = true;
    }
    expires
}

/// Returns a put of a document that expires by its date.
fn by_date(change: SlotChange, state: &State) -> SlotChange {
    let (slot, key, bytes) = match change {
        SlotChange::Document(slot, key, ..) => {
            let mut after = state.clone();
            after.apply(&change, 0);
            (slot, key, after.stored_bytes(slot, key))
        }
        SlotChange::Made(slot, key, bytes, _) => (slot, key, bytes),
        other => return other,
    };
    let expiry = bytes.as_deref().and_then(|bytes| expiry_by_date(&fields_of(bytes)));
    SlotChange::Made(slot, key, bytes, expiry)
}

impl Oracle {
    /// Returns the slots of which the database must know that entries expire once it has written
    /// `changes`. By date, the last write of a document in a batch counts.
    pub(super) fn expires_after(&self, changes: &[SlotChange]) -> [bool; SLOTS] {
        let mut expires = expiring(changes);
        if self.dates_decide() {
            let documents = documents_of(changes).into_iter();
            let last = |key| {
                let of = |change: &&SlotChange| {
                    change.slot() == DOCUMENTS && change.keys().contains(&key)
                };
                changes.iter().rev().find(of)
            };
            expires[DOCUMENTS] = documents.filter_map(last).any(|change| change.expiry().is_some());
        }
        expires
    }

    /// Returns whether dates decide when documents expire.
    pub(super) fn dates_decide(&self) -> bool {
        self.indexes[BY_DATE] != Built::No
    }

    /// Returns whether there is a unique index, whose values may be those of other documents.
    pub(super) fn has_unique(&self) -> bool {
        let mut indexes = self.indexes.iter().zip(&SPECS);
        indexes.any(|(built, spec)| spec.is_unique && *built != Built::No)
    }

    /// Returns whether a write of a document now gives it a moment that is over.
    pub(super) fn has_expired(&self, change: &SlotChange) -> bool {
        let date = |date: Option<i64>| match date {
            Some(_) if !self.dates_decide() => None,
            date => expiry_by_date(&date.into_iter().map(|date| (DATE, date)).collect()),
        };
        let expiry = match change {
            SlotChange::Document(_, _, fields, lasts) => {
                let of = fields.iter().find(|(name, _)| *name == DATE).map(|(_, value)| *value);
                if self.dates_decide() { date(of) } else { lasts.expiry() }
            }
            SlotChange::Patch(.., edits) => date(edits.iter().rev().find_map(|edit| match edit {
                Edit::Set(DATE, value) => Some(*value),
                _ => None,
            })),
            _ => None,
        };
        expiry.is_some_and(|expiry| expiry <= self.moment)
    }

    /// Returns what the indexes make of a write.
    pub(super) fn fate(&self, changes: &[SlotChange]) -> WriteFate {
        if !self.is_indexed(changes) {
            return WriteFate::Accepted;
        }
        if self.has_doubt() {
            return WriteFate::Either;
        }
        let after = self.after(changes);
        indexes::fate(&self.indexes, &after, &documents_of(changes), self.moment)
    }

    /// Returns the state after a write of `changes`.
    pub(super) fn after(&self, changes: &[SlotChange]) -> State {
        let mut after = self.now.clone();
        apply_all(&mut after, &self.resolved(changes.to_vec()), 0);
        after
    }

    /// Returns the changes of a transaction that writes `keys` keys, without the patches that
    /// change nothing, if none of these is written. Where old documents are kept, the transaction
    /// reads all that it patches, and writes no such patch. Elsewhere that depends on the indexes;
    /// but if `keys` are those of other slots, it writes no document, and so need not be logged.
    pub(super) fn without_idle(&self, changes: &[SlotChange], keys: usize) -> Vec<SlotChange> {
        let others = changes.iter().filter(|change| change.slot() != DOCUMENTS);
        let others = others.flat_map(|change| change.keys().map(move |key| (change.slot(), key)));
        if !self.keeps_old && keys > others.collect::<BTreeSet<_>>().len() {
            return changes.to_vec();
        }
        let mut kept: Vec<SlotChange> = Vec::new();
        for change in changes {
            let bytes = |made: &[SlotChange]| match *change {
                SlotChange::Patch(slot, key, ..) => self.after(made).bytes(slot, key, self.moment),
                _ => None,
            };
            let before = bytes(&kept);
            kept.push(change.clone());
            if matches!(change, SlotChange::Patch(..)) && bytes(&kept) == before {
                kept.pop();
            }
        }
        kept
    }

    /// Returns `changes` as the database writes them now: merges and patches are resolved where
    /// entries may expire, also if this batch brings the first one that does. A document that has
    /// expired is removed if its unique value is given to another one.
    pub(super) fn resolved(&self, changes: Vec<SlotChange>) -> Vec<SlotChange> {
        let gone = self.giving_way(&changes);
        let mut changes = self.with_merges_resolved(changes);
        changes.extend(gone);
        changes
    }

    /// Returns the removals of documents that have expired and whose unique values these changes
    /// give to others.
    pub(super) fn giving_way(&self, changes: &[SlotChange]) -> Vec<SlotChange> {
        if !self.is_indexed(changes) || !self.now.has_expiries(DOCUMENTS) {
            return Vec::new();
        }
        let mut after = self.now.clone();
        apply_all(&mut after, &self.with_merges_resolved(changes.to_vec()), 0);
        let (before, changed) = (&self.now, documents_of(changes));
        let gone = indexes::giving_way(&self.indexes, before, &after, &changed, self.moment);
        gone.into_iter().map(|key| SlotChange::Delete(DOCUMENTS, key)).collect()
    }

    fn with_merges_resolved(&self, changes: Vec<SlotChange>) -> Vec<SlotChange> {
        let mut resolves = expiring(&changes);
        (0..SLOTS).for_each(|slot| resolves[slot] |= self.resolves[slot]);
        let dates_decide = self.dates_decide();
        let is_dated = |change: &SlotChange| dates_decide && change.slot() == DOCUMENTS;
        // Where old documents are kept, a patch becomes the document that it makes.
        let is_read = |change: &SlotChange| self.keeps_old && change.slot() == DOCUMENTS;
        let is_resolved = |change: &SlotChange| {
            change.is_folded() && (resolves[change.slot()] || is_dated(change) || is_read(change))
        };
        if !changes.iter().any(|change| is_resolved(change) || is_dated(change)) {
            return changes;
        }
        let mut state = self.now.clone();
        let resolve = |change: SlotChange| {
            let dated = is_dated(&change);
            let change =
                if is_resolved(&change) { state.resolved(&change, self.moment) } else { change };
            let change = if dated { by_date(change, &state) } else { change };
            state.apply(&change, 0);
            change
        };
        changes.into_iter().map(resolve).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::document::Missing;
    use crate::sim::indexes::BY_FIRST_FIELD;
    use crate::sim::step::Lasts;
    use flagstone::Moment;

    /// A transaction without durability deletes a key elsewhere, and patches a document that is not
    /// there. It writes no document, so it is not logged, and a crash may lose it (seed 2003884).
    #[test]
    fn a_transaction_without_documents_is_not_logged_for_them() {
        let mut oracle = Oracle::default();
        oracle.indexes[BY_FIRST_FIELD] = Built::Ready;
        let delete = SlotChange::Delete(2, 43);
        let patch =
            |key| SlotChange::Patch(DOCUMENTS, key, Missing::Nothing, vec![Edit::Set(0, 1)]);
        let changes = [delete.clone(), patch(46)];
        assert!(oracle.is_indexed(&changes));
        let written = oracle.without_idle(&changes, 1);
        assert_eq!(written, std::slice::from_ref(&delete));
        assert!(!oracle.is_indexed(&written));
        // The patch stays an operand, without a look at the document.
        assert_eq!(oracle.without_idle(&changes, 2), changes);
        // A patch that changes a document is never left out: the database may not lose it.
        oracle.happened(
            vec![SlotChange::Document(DOCUMENTS, 46, vec![(0, 2)], Lasts::Forever)],
            true,
        );
        assert_eq!(oracle.without_idle(&changes, 1), changes);
        assert_eq!(oracle.without_idle(&[delete.clone(), patch(45)], 1), [delete]);
    }
    /// A patch makes an empty document where an empty one has expired (seed 31007690).
    #[test]
    fn a_patch_that_makes_what_has_expired_is_not_idle() {
        let mut oracle = Oracle::default();
        oracle.keeps_old = true;
        let until = Lasts::Until(Moment::from_millis(10));
        oracle.happened(vec![SlotChange::Document(DOCUMENTS, 45, vec![], until)], true);
        let patch = [SlotChange::Patch(DOCUMENTS, 45, Missing::Empty, vec![Edit::Pull(0, 4)])];
        assert!(oracle.without_idle(&patch, 1).is_empty());
        oracle.moment = Moment::from_millis(10);
        assert_eq!(oracle.without_idle(&patch, 1), patch);
    }
}
