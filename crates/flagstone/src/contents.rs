//! What keyspaces hold: bytes, typed keys and values, or documents. For the engine this is a text
//! of the catalog.

use crate::collection::{Documents, PATCH_FOLD, patch_version};
use crate::index::{self, IndexState};
use crate::keyspace::BYTES;
use crate::sort_keys::ABOVE_KEYS;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_engine::WantedContent;
use flagstone_engine::content::{
    ContentFactory, DefinitionKind, Described, KeyspaceContent, OLD_VALUES, OpenContent, escaped,
};
use flagstone_engine::fold::Fold;
use std::fmt;
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

/// Returns the content of a collection. A new one folds patches unless its options name another
/// fold, and its tables have dictionaries unless its options say otherwise.
pub(crate) fn documents() -> WantedContent<'static> {
    WantedContent { fold_if_new: Some(PATCH_FOLD), dictionary_if_new: true, ..plain(DOCUMENTS) }
}

/// Returns the content of a typed keyspace with codecs of these names.
pub(crate) fn typed(key_codec: &str, value_codec: &str) -> WantedContent<'static> {
    let (key_codec, value_codec) = (Quoted(key_codec), Quoted(value_codec));
    let content = format!("{TYPED}{key_codec} and values of codec {value_codec}");
    plain(&content)
}

/// The name of a codec in quotes. The escapes must never change: a backslash precedes quotes and
/// backslashes, and control characters become hexadecimal numbers.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\{{{:x}}}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
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
        Err(Error::invalid(match wanted {
            wanted if patch_version(wanted).is_some() => {
                format!("the fold {wanted:?} is one of collections")
            }
            _ => format!(
                "keyspace {:?} needs the fold {wanted:?}: register it with Builder::fold",
                keyspace.name
            ),
        }))
    }
}

/// Returns the content of the keyspace of an index.
fn index_content(keyspace: Described<'_>) -> Result<OpenContent> {
    let (note, is_doubtful) = keyspace.owned.map_or((&b""[..], true), |o| (o.note, o.is_doubtful));
    let state = IndexState::open(keyspace.name, note, is_doubtful)?;
    Ok(OpenContent {
        fold: None,
        definitions: Vec::new(),
        attachment: Arc::new(state),
        above_keys: Some(ABOVE_KEYS),
        key_text: escaped,
    })
}

impl ContentFactory for Contents {
    fn open(&self, keyspace: Described<'_>) -> Result<OpenContent> {
        match keyspace.content.as_str() {
            BYTES => {}
            DOCUMENTS => {
                return match keyspace.fold.and_then(patch_version) {
                    Some(version) => Ok(Documents::patched(version)),
                    None => self.fold(keyspace).map(Documents::folded),
                };
            }
            typed if typed.starts_with(TYPED) => {}
            index::CONTENT if keyspace.owned.is_some() => return index_content(keyspace),
            OLD_VALUES if keyspace.owned.is_some() => {}
            unknown => {
                let text = format!(
                    "keyspace {:?} holds {unknown}, which this version of flagstone does not know",
                    keyspace.name
                );
                return Err(Error::new(ErrorKind::Unsupported, text));
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_have_their_golden_texts() {
        assert_eq!(bytes().content.as_str(), "bytes");
        assert_eq!(documents().content.as_str(), "documents");
        assert_eq!(
            typed("a\"\\\u{7}", "é\u{2_FFFF}").content.as_str(),
            "keys of codec \"a\\\"\\\\\\{7}\" and values of codec \"é\u{2_FFFF}\""
        );
    }
}
