//! What a collection has besides its entries: the names of fields, and the fold of patches.

use crate::patch_folds::{PATCH_FOLD, PATCH_FOLDS};
use crate::sort_keys::{self, ABOVE_KEYS};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_doc::{Names, Patcher};
use flagstone_engine::content::{DefinitionKind, DefinitionStore, DefinitionTable, OpenContent};
use flagstone_engine::fold::Fold;
use flagstone_env::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::cell::RefCell;
use std::sync::Arc;

/// The part of a collection that all its handles share.
pub(crate) struct Documents {
    pub(crate) names: Arc<Names>,
    /// The fold of the collection, if it is the fold of patches.
    pub(super) patches: Option<Arc<PatchFold>>,
}

impl Documents {
    /// Returns the content of a collection that folds patches up to this version.
    pub(crate) fn patched(version: u8) -> OpenContent {
        let names = Arc::new(Names::new());
        let patches = Arc::new(PatchFold {
            version: AtomicU8::new(version),
            ..PatchFold::new(Some(Arc::clone(&names)))
        });
        let fold = Arc::<PatchFold>::clone(&patches) as Arc<dyn Fold>;
        Self { names, patches: Some(patches) }.into_content(Some(fold))
    }

    /// Returns the content of a collection with another fold, or none.
    pub(crate) fn folded(fold: Option<Arc<dyn Fold>>) -> OpenContent {
        Self { names: Arc::new(Names::new()), patches: None }.into_content(fold)
    }

    /// Returns what a remote collection has: its documents have their own names.
    pub(super) fn of_remote() -> Self {
        Self { names: Arc::new(Names::new()), patches: None }
    }

    /// Returns the names of fields.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Returns whether patches are merge operands, which the collection folds.
    pub(crate) const fn folds_patches(&self) -> bool {
        self.patches.is_some()
    }

    fn into_content(self, fold: Option<Arc<dyn Fold>>) -> OpenContent {
        let table = Arc::new(NameTable(Arc::clone(&self.names)));
        let names = DefinitionTable::new(DefinitionKind::NAMES, table, self.names.shared_len());
        let (definitions, attachment) = (vec![names], Arc::new(self));
        let key_text = sort_keys::text_of;
        OpenContent { fold, definitions, attachment, above_keys: Some(ABOVE_KEYS), key_text }
    }
}

/// The names of fields as a table of definitions, which the engine logs and stores.
struct NameTable(Arc<Names>);

impl DefinitionStore for NameTable {
    fn since(&self, first: u32, visit: &mut dyn FnMut(&[u8])) {
        self.0.since(first).for_each(|(_, name)| visit(name.as_bytes()));
    }

    fn restore(&self, id: u32, bytes: &[u8]) -> Result<()> {
        let name = std::str::from_utf8(bytes).map_err(|_not_utf8| {
            let text = format!("name {id} of a field is not UTF-8: {}", bytes.escape_ascii());
            Error::new(ErrorKind::Corruption, text)
        })?;
        self.0.define(id, name)
    }
}

/// Applies patches to the documents of one collection. Counts the patches that do not apply: they
/// change nothing.
///
/// The fold applies patches of all versions. Its own version says which ones may be written: a
/// flagstone that knows the fold by the name in the catalog must be able to apply them.
pub(crate) struct PatchFold {
    /// `None` where each document has its own names.
    names: Option<Arc<Names>>,
    version: AtomicU8,
    refused: AtomicU64,
}

impl PatchFold {
    /// Creates the newest fold for documents with these names.
    pub(crate) const fn new(names: Option<Arc<Names>>) -> Self {
        let version = AtomicU8::new(PATCH_FOLDS.len() as u8);
        Self { names, version, refused: AtomicU64::new(0) }
    }

    /// Returns the newest version of patches that may be written.
    pub(crate) fn version(&self) -> u8 {
        self.version.load(Ordering::Acquire)
    }

    /// Notes that the catalog names the newest fold.
    pub(crate) fn set_newest(&self) {
        self.version.store(PATCH_FOLDS.len() as u8, Ordering::Release);
    }

    /// Applies one patch. Returns false if it does not apply.
    pub(crate) fn apply(&self, patch: &[u8], document: &mut Option<Vec<u8>>) -> bool {
        with_patcher(|patcher| patcher.apply(patch, document, self.names.as_deref()))
    }
}

/// Calls `apply` with the patcher of this thread.
fn with_patcher<R>(apply: impl FnOnce(&mut Patcher) -> R) -> R {
    thread_local! {
        static PATCHER: RefCell<Patcher> = RefCell::new(Patcher::new());
    }
    PATCHER.with_borrow_mut(apply)
}

/// Calls `apply` with the patcher of this thread that defines the names of new fields.
pub(super) fn with_defining_patcher<R>(apply: impl FnOnce(&mut Patcher) -> R) -> R {
    thread_local! {
        static DEFINING: RefCell<Patcher> = RefCell::new(Patcher::defining());
    }
    DEFINING.with_borrow_mut(apply)
}

impl Fold for PatchFold {
    fn name(&self) -> &'static str {
        PATCH_FOLDS.get(usize::from(self.version()).wrapping_sub(1)).copied().unwrap_or(PATCH_FOLD)
    }

    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let names = self.names.as_deref();
        let (document, refused) = with_patcher(|patcher| patcher.fold(base, operands, names));
        if refused > 0 {
            self.refused.fetch_add(refused, Ordering::Relaxed);
        }
        document
    }

    fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_that_do_not_apply_are_counted() {
        let names = Arc::new(Names::new());
        let encoded = |patch: flagstone_doc::Patch| {
            let mut bytes = Vec::new();
            let mut encoder = flagstone_doc::Encoder::new();
            patch.encode(&mut encoder, Some(&names), &mut bytes).unwrap();
            bytes
        };
        let one = encoded(flagstone_doc::Patch::new().upsert().inc("n", 1));
        let wrong = encoded(flagstone_doc::Patch::new().push("n", 1));
        let fold = PatchFold::new(Some(Arc::clone(&names)));
        assert_eq!(fold.fold(b"k", None, &[&wrong, b"junk"]), None);
        assert_eq!(fold.refused(), 2);
        let folded = fold.fold(b"k", None, &[&one, &wrong, &one]).unwrap();
        let document = flagstone_doc::Document::from_bytes(folded, Some(names.clone())).unwrap();
        assert_eq!((document.int("n").unwrap(), fold.refused()), (2, 3));
    }
}
