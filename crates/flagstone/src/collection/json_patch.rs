//! JSON Patches and JSON Merge Patches of stored documents. Both read the document first.

use super::core::with_defining_patcher;
use super::stored::Stored;
use super::write::{self, Destination, Rewrite};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_doc::{JsonPatch, MergePatch, Patcher};

/// Does the operations of `patch` on the document of the encoded `key`. Returns false if there is
/// none.
pub(crate) fn apply(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    patch: &JsonPatch,
) -> Result<bool> {
    change(stored, to, key, |patcher, old| {
        let Some(old) = old else { return Ok(None) };
        let bytes_max = stored.document_bytes_max();
        patcher.apply_json_patch(patch, old, Some(stored.names()), bytes_max).map(Some)
    })
}

/// Merges `patch` into the document of the encoded `key`. Returns false if there is none and the
/// patch is not an upsert.
pub(crate) fn merge(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    patch: &MergePatch,
) -> Result<bool> {
    change(stored, to, key, |patcher, old| {
        if old.is_none() && !patch.is_upsert() {
            return Ok(None);
        }
        patcher.apply_merge_patch(patch, old, Some(stored.names())).map(Some)
    })
}

/// Sets the document of the encoded `key` to what `change` returns for it. Returns false if that is
/// `None`.
fn change(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    change: impl FnOnce(&mut Patcher, Option<&[u8]>) -> Result<Option<Vec<u8>>>,
) -> Result<bool> {
    let mut found = false;
    write::rewrite(stored, to, key, |old| {
        let changed = with_defining_patcher(|patcher| change(patcher, old));
        let Some(new) = changed.map_err(|error| named(stored, error))? else {
            return Ok(Rewrite::Nothing);
        };
        found = true;
        if Some(new.as_slice()) == old {
            return Ok(Rewrite::Nothing);
        }
        Ok(Rewrite::Put(stored.check_size(new)?))
    })?;
    Ok(found)
}

/// Adds the name of the collection to an error about its stored bytes.
fn named(stored: &Stored, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corruption => error.context(format_args!("collection {:?}", stored.name())),
        _ => error,
    }
}
