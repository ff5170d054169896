//! What a collection has besides its entries: the names of fields, and the fold of patches.

use flagstone_base::{Error, ErrorKind, Result};
use flagstone_doc::{Names, Patcher};
use flagstone_engine::content::{Content, DefinitionKind, DefinitionTable, Definitions};
use flagstone_engine::fold::Fold;
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use std::cell::RefCell;
use std::sync::Arc;

/// The name of the fold of patches. A new collection has it unless its options name another.
pub(crate) const PATCH_FOLD: &str = "patch/1";

/// The part of a collection that all its handles share.
pub(crate) struct Documents {
    pub(super) names: Arc<Names>,
    /// The fold of the collection, if it is the fold of patches.
    pub(super) patches: Option<Arc<PatchFold>>,
}

impl Documents {
    /// Returns the content of a collection that folds patches.
    pub(crate) fn patched() -> Content {
        let names = Arc::new(Names::new());
        let patches = Arc::new(PatchFold::new(Arc::clone(&names)));
        let fold = Arc::<PatchFold>::clone(&patches) as Arc<dyn Fold>;
        Self { names, patches: Some(patches) }.into_content(Some(fold))
    }

    /// Returns the content of a collection with another fold, or none.
    pub(crate) fn folded(fold: Option<Arc<dyn Fold>>) -> Content {
        Self { names: Arc::new(Names::new()), patches: None }.into_content(fold)
    }

    fn into_content(self, fold: Option<Arc<dyn Fold>>) -> Content {
        let table = Arc::new(NameTable(Arc::clone(&self.names)));
        let names = DefinitionTable::new(DefinitionKind::NAMES, table, self.names.shared_len());
        Content { fold, definitions: vec![names], attachment: Arc::new(self) }
    }
}

/// The names of fields as a table of definitions, which the engine logs and stores.
struct NameTable(Arc<Names>);

impl Definitions for NameTable {
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
pub(crate) struct PatchFold {
    names: Arc<Names>,
    refused: AtomicU64,
}

impl PatchFold {
    pub(crate) const fn new(names: Arc<Names>) -> Self {
        Self { names, refused: AtomicU64::new(0) }
    }

    /// Applies one patch. Returns false if it does not apply.
    pub(crate) fn apply(&self, patch: &[u8], document: &mut Option<Vec<u8>>) -> bool {
        with_patcher(|patcher| patcher.apply(patch, document, Some(&self.names)))
    }
}

/// Calls `apply` with the patcher of this thread.
fn with_patcher<R>(apply: impl FnOnce(&mut Patcher) -> R) -> R {
    thread_local! {
        static PATCHER: RefCell<Patcher> = RefCell::new(Patcher::new());
    }
    PATCHER.with_borrow_mut(apply)
}

impl Fold for PatchFold {
    fn name(&self) -> &'static str {
        PATCH_FOLD
    }

    fn fold(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let names = Some(&*self.names);
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
        let fold = PatchFold::new(Arc::clone(&names));
        assert_eq!(fold.fold(b"k", None, &[&wrong, b"junk"]), None);
        assert_eq!(fold.refused(), 2);
        let folded = fold.fold(b"k", None, &[&one, &wrong, &one]).unwrap();
        let document = flagstone_doc::Document::from_bytes(folded, Some(names.clone())).unwrap();
        assert_eq!((document.int("n"), fold.refused()), (2, 3));
    }
}
