//! What keyspaces hold: bytes, typed keys and values, or documents. For the engine this is a text
//! of the catalog.

#[cfg(not(feature = "documents"))]
mod absent;
#[cfg(feature = "documents")]
mod documents;

use crate::keyspace::BYTES;
use crate::patch_folds::{PATCH_FOLD, patch_version};
#[cfg(not(feature = "documents"))]
use absent as documents;
#[cfg(feature = "documents")]
pub(crate) use documents::{documents, typed};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_engine::WantedContent;
use flagstone_engine::content::{
    ContentFactory, DefinitionKind, Described, KeyspaceContent, OLD_VALUES, OpenContent, escaped,
};
use flagstone_engine::fold::Fold;
use std::sync::Arc;

const DOCUMENTS: &str = "documents";
const TYPED: &str = "keys of codec ";

/// Returns the content of this text, without a fold or dictionaries.
fn plain(content: &str) -> WantedContent<'static> {
    let content = KeyspaceContent::of(content);
    WantedContent { content, fold_if_new: None, dictionary_if_new: false }
}

/// Returns the content of a keyspace of bytes.
pub(crate) fn bytes() -> WantedContent<'static> {
    plain(BYTES)
}

fn is_documents(content: &KeyspaceContent) -> bool {
    content.as_str() == DOCUMENTS
}

/// Opens the contents of keyspaces, with the folds that are registered.
#[derive(Default)]
pub(crate) struct Contents {
    folds: Vec<Arc<dyn Fold>>,
}

impl Contents {
    pub(crate) fn new(folds: Vec<Arc<dyn Fold>>) -> Self {
        Self { folds }
    }

    fn fold(&self, keyspace: Described<'_>) -> Result<Option<Arc<dyn Fold>>> {
        let Some(wanted) = keyspace.fold else { return Ok(None) };
        // The last one registered under a name wins.
        if let Some(fold) = self.folds.iter().rev().find(|fold| fold.name() == wanted) {
            return Ok(Some(Arc::clone(fold)));
        }
        Err(Error::invalid(if patch_version(wanted).is_some() {
            format!("the fold {wanted:?} is one of collections")
        } else {
            let name = keyspace.name;
            format!("keyspace {name:?} needs the fold {wanted:?}: register it with Builder::fold")
        }))
    }
}

impl ContentFactory for Contents {
    fn open(&self, keyspace: Described<'_>) -> Result<OpenContent> {
        match keyspace.content.as_str() {
            BYTES => {}
            typed if typed.starts_with(TYPED) => {}
            OLD_VALUES if keyspace.owned.is_some() => {}
            _ => return documents::open(self, keyspace),
        }
        Ok(OpenContent {
            fold: self.fold(keyspace)?,
            definitions: Vec::new(),
            attachment: Arc::new(()),
            above_keys: None,
            key_text: escaped,
        })
    }

    fn defines(&self, content: &KeyspaceContent, kind: DefinitionKind) -> bool {
        is_documents(content) && kind == DefinitionKind::NAMES
    }

    fn guess(
        &self,
        has_definitions: bool,
        fold: Option<&str>,
    ) -> (KeyspaceContent, Option<&'static str>) {
        if has_definitions || fold.and_then(patch_version).is_some() {
            (KeyspaceContent::of(DOCUMENTS), Some(PATCH_FOLD))
        } else {
            (KeyspaceContent::of(BYTES), None)
        }
    }
}

/// Returns the error for a content that is not known.
#[cold]
fn unknown(keyspace: Described<'_>) -> Error {
    let (name, content) = (keyspace.name, keyspace.content.as_str());
    let text =
        format!("keyspace {name:?} holds {content}, which this version of flagstone does not know");
    Error::new(ErrorKind::Unsupported, text)
}
