//! The names of the folds of patches. A build without `documents` needs them, too, to recognise
//! collections.

/// The names of the folds of patches, by version from 1. Each applies the patches of those before
/// it.
pub(crate) const PATCH_FOLDS: [&str; 2] = ["patch/1", "patch/2"];

/// The newest fold of patches. A new collection has it unless its options name another.
pub(crate) const PATCH_FOLD: &str = PATCH_FOLDS[PATCH_FOLDS.len() - 1];

/// Returns the version of the fold of patches that has this name.
pub(crate) fn patch_version(fold: &str) -> Option<u8> {
    (1..).zip(PATCH_FOLDS).find(|(_, name)| *name == fold).map(|(version, _)| version)
}
