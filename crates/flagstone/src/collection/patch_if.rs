//! Patches of all kinds that read the document first, and tell what they met.

use super::core::with_defining_patcher;
use super::encode;
use super::stored::Stored;
use super::update::{patch_fold, patched};
use super::write::{self, Rewrite};
use crate::write::Destination;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_doc::{JsonPatch, MergePatch, Patch, Patcher};
use std::fmt;

/// A patch of any kind: `&Patch`, `&JsonPatch` or `&MergePatch`. Programs use this trait and do not
/// implement it.
pub trait AnyPatch {
    /// Reads the document of the encoded `key`, changes it and writes it.
    #[doc(hidden)]
    fn write(self, stored: &Stored, to: Destination<'_>, key: &[u8]) -> Result<Patched>;
}

/// What a patch did to a document: [`Collection::patch_if`](crate::Collection::patch_if) tells it.
#[must_use = "a patch that does not apply changes nothing; `applied` makes an error of it"]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Patched {
    /// The document was changed, or an upsert made it.
    Changed,
    /// The patch applies, and the document is already as it makes it.
    Unchanged,
    /// There is no such document, and the patch is no upsert.
    NoDocument,
    /// A condition of the patch, or a `test` of a JSON Patch, does not hold. The text names it.
    ConditionFailed(String),
    /// A part of the patch does not apply, such as `inc` of text, or the document would be too
    /// large. The text says which.
    NotApplied(String),
}

impl Patched {
    /// Returns whether the document is as the patch makes it.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Patch, Patched, Space, doc};
    /// let pages = db.collection("pages")?;
    /// pages.put("a", doc!({ "title": "A" }))?;
    /// let rename = Patch::new().set("title", "B");
    /// assert_eq!(pages.patch_if("a", &rename)?, Patched::Changed);
    /// let again = pages.patch_if("a", &rename)?;
    /// assert!(again == Patched::Unchanged && again.is_applied());
    /// assert!(!pages.patch_if("none", &rename)?.is_applied());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub const fn is_applied(&self) -> bool {
        matches!(self, Self::Changed | Self::Unchanged)
    }

    /// Returns true if the document is as the patch makes it, and false if there is none.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{ErrorKind, Patch, Space, doc};
    /// let pages = db.collection("pages")?;
    /// pages.put("a", doc!({ "title": "A" }))?;
    /// let visit = Patch::new().inc("visits", 1);
    /// assert!(pages.patch_if("a", &visit)?.applied()?);
    /// assert!(!pages.patch_if("b", &visit)?.applied()?);
    /// let wrong = pages.patch_if("a", &Patch::new().inc("title", 1))?;
    /// assert_eq!(wrong.applied().unwrap_err().kind(), ErrorKind::InvalidInput);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// ConditionFailed if a condition of the patch does not hold, InvalidInput if another part of
    /// it does not apply; the text names the part.
    pub fn applied(self) -> Result<bool> {
        match self {
            Self::Changed | Self::Unchanged => Ok(true),
            Self::NoDocument => Ok(false),
            Self::ConditionFailed(why) => Err(Error::new(ErrorKind::ConditionFailed, why)),
            Self::NotApplied(why) => Err(Error::invalid(why)),
        }
    }
}

impl fmt::Display for Patched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "the document was changed",
            Self::Unchanged => "the document is already as the patch makes it",
            Self::NoDocument => "there is no document",
            Self::ConditionFailed(why) | Self::NotApplied(why) => why,
        })
    }
}

impl AnyPatch for &Patch {
    fn write(self, stored: &Stored, to: Destination<'_>, key: &[u8]) -> Result<Patched> {
        let operand = encode::patch(stored, self)?;
        let fold = patch_fold(stored);
        decided(stored, to, key, |old| {
            if old.is_none() && !self.is_upsert() {
                return Ok(None);
            }
            patched(stored, &fold, self, &operand, old).map(Some)
        })
    }
}

impl AnyPatch for &JsonPatch {
    fn write(self, stored: &Stored, to: Destination<'_>, key: &[u8]) -> Result<Patched> {
        patched_whole(stored, to, key, |patcher, old| {
            let Some(old) = old else { return Ok(None) };
            let bytes_max = stored.document_bytes_max();
            patcher.apply_json_patch(self, old, stored.names(), bytes_max).map(Some)
        })
    }
}

impl AnyPatch for &MergePatch {
    fn write(self, stored: &Stored, to: Destination<'_>, key: &[u8]) -> Result<Patched> {
        patched_whole(stored, to, key, |patcher, old| {
            if old.is_none() && !self.is_upsert() {
                return Ok(None);
            }
            patcher.apply_merge_patch(self, old, stored.names()).map(Some)
        })
    }
}

/// Sets the document of the encoded `key` to what `change` returns for it.
fn patched_whole(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    mut change: impl FnMut(&mut Patcher, Option<&[u8]>) -> Result<Option<Vec<u8>>>,
) -> Result<Patched> {
    decided(stored, to, key, |old| {
        let changed = with_defining_patcher(|patcher| change(patcher, old));
        let Some(new) = changed.map_err(|error| named(stored, error))? else { return Ok(None) };
        if Some(new.as_slice()) == old {
            return Ok(Some(Rewrite::Nothing));
        }
        Ok(Some(Rewrite::Put(stored.check_document(new)?)))
    })
}

/// Reads the document of the encoded `key` and does what `decide` returns: `None` if there is no
/// document, an error of kind ConditionFailed or InvalidInput if the patch does not apply.
fn decided(
    stored: &Stored,
    to: Destination<'_>,
    key: &[u8],
    mut decide: impl FnMut(Option<&[u8]>) -> Result<Option<Rewrite>>,
) -> Result<Patched> {
    let mut outcome = Patched::Unchanged;
    let is_changed = write::rewrite(stored, to, key, |old| {
        let error = match decide(old) {
            Ok(Some(rewrite)) => {
                outcome = Patched::Unchanged;
                return Ok(rewrite);
            }
            Ok(None) => {
                outcome = Patched::NoDocument;
                return Ok(Rewrite::Nothing);
            }
            Err(error) => error,
        };
        let why = error.to_string();
        outcome = match error.kind() {
            ErrorKind::ConditionFailed => Patched::ConditionFailed(why),
            ErrorKind::InvalidInput => Patched::NotApplied(why),
            _ => return Err(error),
        };
        Ok(Rewrite::Nothing)
    })?;
    Ok(if is_changed { Patched::Changed } else { outcome })
}

/// Adds the name of the collection to an error about its stored bytes.
fn named(stored: &Stored, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corruption => error.context(format_args!("collection {:?}", stored.name())),
        _ => error,
    }
}
