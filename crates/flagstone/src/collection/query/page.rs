//! One page of a query.

use super::cursor::Cursor;
use super::source::QuerySource;
use super::spec::Spec;
use super::token::PageToken;
use crate::collection::Stored;
use flagstone_base::Result;
use flagstone_doc::{Document, Value};

/// One page of a query, as of one moment: [`Find::page`](super::Find::page) returns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page {
    /// The primary keys and documents.
    pub documents: Vec<(Value, Document)>,
    /// The position after them; `None` if there were no more when the page was read.
    pub next: Option<PageToken>,
}

/// Takes `count` documents from `cursor`, and looks whether there are more.
pub(super) fn take(
    mut cursor: Cursor<'_>,
    count: u64,
    stored: &Stored,
    spec: &Spec,
    source: &QuerySource<'_>,
) -> Result<Page> {
    let mut documents = Vec::new();
    let mut position = None;
    while (documents.len() as u64) < count && cursor.advance()? {
        documents.push((cursor.key()?, cursor.document()?));
        if documents.len() as u64 == count {
            position = Some(cursor.position());
        }
    }
    let next = match position {
        Some(((ties, sort_key), key)) if cursor.advance()? => Some(PageToken {
            query: spec.hash(stored),
            history: source.history(stored)?,
            ties,
            sort_key,
            key,
        }),
        _ => None,
    };
    Ok(Page { documents, next })
}
