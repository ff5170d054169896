//! Patches that change no index: they stay merge operands, and the document is not read.

use crate::collection::core::Documents;
use crate::index::index_of;
use flagstone_doc::EncodedPatch;
use flagstone_engine::KeyspaceCore;

/// Returns whether no index of `owner`, and no reader of old documents, has to see what `operand`
/// makes of a document: it creates none, and touches no path that an index reads.
pub(super) fn is_blind(owner: &KeyspaceCore, operand: &[u8]) -> bool {
    let Some(documents) = owner.attachment().downcast_ref::<Documents>() else { return false };
    if !documents.folds_patches() || owner.keeps_old() {
        return false;
    }
    let Ok(patch) = EncodedPatch::of(operand, Some(documents.names())) else { return false };
    let set = owner.owned_set();
    let mut paths = set.keyspaces.iter().filter_map(|core| index_of(core)).flat_map(|i| &i.paths);
    !patch.is_upsert() && !paths.any(|path| patch.touches(path))
}
