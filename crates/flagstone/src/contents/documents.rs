//! The contents of collections, of their indexes, and of typed keyspaces.

use super::{Contents, DOCUMENTS, TYPED, plain, unknown};
use crate::collection::Documents;
use crate::index::{self, IndexState};
use crate::patch_folds::{PATCH_FOLD, patch_version};
use crate::sort_keys::ABOVE_KEYS;
use flagstone_base::Result;
use flagstone_engine::WantedContent;
use flagstone_engine::content::{Described, OpenContent, escaped};
use std::fmt;
use std::sync::Arc;

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

/// Opens a content that is not one of bytes.
pub(super) fn open(contents: &Contents, keyspace: Described<'_>) -> Result<OpenContent> {
    match keyspace.content.as_str() {
        DOCUMENTS => match keyspace.fold.and_then(patch_version) {
            Some(version) => Ok(Documents::patched(version)),
            None => contents.fold(keyspace).map(Documents::folded),
        },
        index::CONTENT if keyspace.owned.is_some() => index_content(keyspace),
        _ => Err(unknown(keyspace)),
    }
}

/// Returns the content of the keyspace of an index.
fn index_content(keyspace: Described<'_>) -> Result<OpenContent> {
    let (note, is_doubtful) = keyspace.owned.map_or((&b""[..], true), |o| (o.note, o.is_doubtful));
    let open = if is_doubtful { IndexState::open_doubtful } else { IndexState::open };
    let state = open(keyspace.name, note)?;
    Ok(OpenContent {
        fold: None,
        definitions: Vec::new(),
        attachment: Arc::new(state),
        above_keys: Some(ABOVE_KEYS),
        key_text: escaped,
    })
}

#[cfg(test)]
mod tests {
    use super::super::bytes;
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
