//! Changes of documents that are read first, and patches, which are written without a read where
//! the collection folds them.

use super::core::PatchFold;
use super::stored::Stored;
use super::write::{self, Rewrite};
use super::{decode, encode};
use crate::patch_folds::PATCH_FOLD;
use crate::write::{Destination, KeyChange};
use flagstone_base::{Error, ErrorKind, Result, Slice};
use flagstone_doc::{DocumentMut, NotApplied, Patch, Patcher};
use flagstone_engine::Batch;
use flagstone_engine::fold::Fold;
use std::sync::Arc;

/// Changes the document of the encoded `key` by `change`. Returns false if there is none.
pub(crate) fn update(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    mut change: impl FnMut(&mut DocumentMut) -> Result<()>,
) -> Result<bool> {
    let mut found = false;
    write::rewrite(stored, to, key, |old| {
        found = old.is_some();
        let Some(old) = old else { return Ok(Rewrite::Nothing) };
        changed(stored, old, &mut change)
    })?;
    Ok(found)
}

/// Returns what becomes of the document `old` by `change`.
pub(super) fn changed(
    stored: &Stored,
    old: &[u8],
    change: impl FnOnce(&mut DocumentMut) -> Result<()>,
) -> Result<Rewrite> {
    let mut edited = decode::document(stored, Slice::copy_of(old))?.edit();
    change(&mut edited)?;
    if !edited.is_changed() {
        return Ok(Rewrite::Nothing);
    }
    Ok(Rewrite::Put(encode::value(stored, edited.value())?))
}

/// Removes the document of the encoded `key`. Returns false if there is none.
pub(crate) fn remove(stored: &Stored, key: &[u8]) -> Result<bool> {
    write::rewrite(stored, Destination::Database, key, |old| {
        Ok(if old.is_some() { Rewrite::Delete } else { Rewrite::Nothing })
    })
}

/// Writes `patch` as a merge operand of the encoded `key`. A collection with another fold, or none,
/// reads and writes the document instead.
pub(crate) fn patch(stored: &Stored, to: Destination<'_>, key: &[u8], patch: &Patch) -> Result<()> {
    check_version(stored, patch)?;
    let operand = encode::patch(stored, patch)?;
    if stored.documents().patches.is_some() {
        let change = KeyChange::Merge(&operand);
        return match to {
            Destination::Database => write::one(stored, key, change),
            Destination::Transaction(transaction) => {
                write::in_transaction(stored, transaction, key, change)
            }
        };
    }
    let fold = patch_fold(stored);
    write::rewrite(stored, to, key, |old| {
        let mut document = old.map(<[u8]>::to_vec);
        let is_changed = fold.apply(&operand, &mut document) && document.as_deref() != old;
        match document.filter(|_| is_changed) {
            Some(new) => Ok(Rewrite::Put(stored.check_document(new)?)),
            None => Ok(Rewrite::Nothing),
        }
    })?;
    Ok(())
}

/// Puts `patch` into `batch` as a merge operand.
///
/// # Errors
/// InvalidInput for a collection that does not fold patches.
pub(crate) fn patch_in_batch(
    stored: &Stored,
    batch: &mut Batch,
    key: &[u8],
    patch: &Patch,
) -> Result<()> {
    if stored.documents().patches.is_none() {
        return Err(Error::invalid(format!(
            "collection {:?} does not fold patches, so a batch cannot hold one for it",
            stored.name()
        )));
    }
    check_version(stored, patch)?;
    write::in_batch(stored, batch, key, KeyChange::Merge(&encode::patch(stored, patch)?))
}

/// Returns what becomes of the document `old` by a patch, which is given with its stored form.
pub(super) fn patched(
    stored: &Stored,
    fold: &PatchFold,
    patch: &Patch,
    operand: &[u8],
    old: Option<&[u8]>,
) -> Result<Rewrite> {
    let mut document = old.map(<[u8]>::to_vec);
    if !fold.apply(operand, &mut document) {
        return Err(refusal(stored, patch, operand, old));
    }
    match document.filter(|new| Some(new.as_slice()) != old) {
        Some(new) => Ok(Rewrite::Put(stored.check_document(new)?)),
        None => Ok(Rewrite::Nothing),
    }
}

/// Refuses to write a patch as a merge operand that the collection's fold in the catalog does not
/// know: an older flagstone would open the collection and lose the patch.
fn check_version(stored: &Stored, patch: &Patch) -> Result<()> {
    let Some(fold) = &stored.documents().patches else { return Ok(()) };
    if patch.version() <= fold.version() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "collection {:?} folds patches by {:?}, which does not know all of: {patch}; \
         Collection::upgrade makes {PATCH_FOLD:?} its fold, and Collection::patch_if needs none",
        stored.name(),
        fold.name()
    )))
}

/// Makes the newest fold of patches that of the collection. Returns false if it is already.
pub(super) fn upgrade(stored: &Stored) -> Result<bool> {
    let Some(fold) = &stored.documents().patches else {
        return Err(Error::invalid(format!(
            "collection {:?} has another fold, or none, so it cannot get {PATCH_FOLD:?}",
            stored.name()
        )));
    };
    let from = fold.name();
    if from == PATCH_FOLD {
        return Ok(false);
    }
    stored.keyspace()?.upgrade_fold(from, PATCH_FOLD)?;
    fold.set_newest();
    Ok(true)
}

/// Returns the error of a patch that does not apply to the document `old`.
#[cold]
fn refusal(stored: &Stored, patch: &Patch, operand: &[u8], old: Option<&[u8]>) -> Error {
    let NotApplied { part, is_condition, found } = Patcher::explain(operand, old, stored.names());
    match part.and_then(|part| patch.part(part)) {
        Some(part) if is_condition => {
            let text = format!("the document does not meet the condition {part} of: {patch}");
            Error::new(ErrorKind::ConditionFailed, text)
        }
        Some(part) => Error::invalid(format!(
            "the document cannot be changed by: {patch}; {part} does not apply to {found}"
        )),
        None => Error::invalid(format!(
            "the document cannot be changed by: {patch}; it would be too large"
        )),
    }
}

pub(super) fn patch_fold(stored: &Stored) -> Arc<PatchFold> {
    if let Some(fold) = &stored.documents().patches {
        return Arc::clone(fold);
    }
    Arc::new(PatchFold::new(stored.shared_names()))
}

#[cfg(test)]
mod tests {
    use crate::{Database, Options, Patched, Space};
    use flagstone_base::ErrorKind;
    use flagstone_doc::Patch;

    #[test]
    fn a_document_that_patches_make_larger_than_the_limit_is_whole_and_stays_so() {
        let dir = tempfile::tempdir().unwrap();
        let limit = |document_bytes_max| {
            let mut options = Options::new().document_bytes_max(document_bytes_max);
            options.memory_budget = 64 << 20;
            Database::builder(dir.path()).options(options).open().unwrap()
        };
        let patch = Patch::new().upsert().push("tags", "x".repeat(100)).inc("n", 1);
        let db = limit(2000);
        let documents = db.collection("documents").unwrap();
        for _ in 0..50 {
            documents.patch("a", &patch).unwrap();
        }
        let whole = documents.get("a").unwrap().unwrap();
        assert_eq!((whole.int("n").unwrap(), whole.str("tags.49").unwrap().len()), (50, 100));
        assert_eq!(
            documents.patch_if("a", &patch).unwrap().applied().unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        db.close().unwrap();
        let db = limit(500);
        db.compact().unwrap();
        let documents = db.collection("documents").unwrap();
        assert_eq!(documents.get("a").unwrap().unwrap(), whole);
        let stats = db.stats();
        let refused: u64 = stats.keyspaces.iter().map(|keyspace| keyspace.operands_refused).sum();
        assert_eq!(refused, 0);
        let patched = documents.patch_if("a", &Patch::new().set("tags", 1)).unwrap();
        assert_eq!(patched, Patched::Changed);
    }
}
