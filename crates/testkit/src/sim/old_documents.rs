//! Documents before changes: the step that keeps them, and what a reader of changes is told.

use super::document::document_bytes;
use super::life::{Check, fields_of};
use super::model::{DOCUMENTS, State};
use super::replica::key_in;
use super::run::Run;
use flagstone::changes::{ChangeBatch, ChangeKind};

impl Run {
    /// Begins or ends to keep the documents before changes.
    pub(super) fn keep_old(&mut self, on: bool) -> Check {
        if self.oracle.has_doubt() || !self.settle_indexes()? {
            return Ok(());
        }
        let Some(collection) = self.collection()? else { return Ok(()) };
        let done = collection.keep_old_documents(on);
        let keeps = collection.keeps_old_documents();
        self.oracle.keeps_old = keeps;
        match done {
            Ok(()) if keeps != on => Err(format!("old documents are kept: {keeps}, asked: {on}")),
            Ok(()) => Ok(()),
            Err(error) => {
                self.oracle.is_old_doubtful = true;
                self.excuse(&error)
            }
        }
    }
}

/// Compares the old documents of a delivered commit with the state `before` it. All changes of
/// documents have them, or none.
pub(super) fn judge(before: &State, batch: &ChangeBatch, has_old: Option<bool>) -> Check {
    let is_of_document = |change: &flagstone::changes::Change<'_>| {
        change.is_of_documents() && change.kind() != ChangeKind::DeleteRange
    };
    for change in batch.changes().filter(is_of_document) {
        if has_old.is_some_and(|has_old| has_old != change.has_old()) {
            return Err(format!("{change:?} has an old document: {}", change.has_old()));
        }
        let Some(key) = key_in(DOCUMENTS, change.key_bytes()) else { continue };
        let old = change.old_document().map_err(|error| format!("an old document: {error}"))?;
        let old = old.map(|old| document_bytes(&fields_of(&old.to_value())));
        let stored = before.entry(DOCUMENTS, key);
        let is_same = match (&old, stored) {
            (Some(old), Some(entry)) => old[..] == *entry.bytes,
            // Whether it had expired depends on the moment of the commit.
            (None, Some(entry)) => entry.expiry.is_some(),
            (None, None) => true,
            (Some(_), None) => false,
        };
        if change.has_old() && !is_same {
            let fields = |bytes: &[u8]| super::document::fields_of(bytes);
            let (old, stored) =
                (old.as_deref().map(fields), stored.map(|entry| fields(&entry.bytes)));
            return Err(format!("{change:?} has the old document {old:?}, expected {stored:?}"));
        }
    }
    Ok(())
}
