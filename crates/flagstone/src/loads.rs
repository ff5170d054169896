//! The marks of loads that were stopped: they end with the documents that they count.
//!
//! Crate `flagstone-load` keeps, in a keyspace of bytes, how far a load came. Its keys begin with
//! the id of the collection, so a rename takes the marks along and a new collection has none.
//! Removals of documents by range or by filter end the marks here, because nothing above sees them.

use crate::keyspace::BYTES;
use flagstone_base::{KeyspaceId, Result};
use flagstone_engine::content::KeyspaceContent;
use flagstone_engine::{Engine, Keyspace, WantedContent};

/// The keyspace of the marks.
pub(crate) const KEYSPACE: &str = "flagstone.loads";

/// Returns the first and the last key of the marks of loads into collection `id`.
pub(crate) fn range_of(id: KeyspaceId) -> (Vec<u8>, Vec<u8>) {
    let start = id.0.to_be_bytes();
    (start.to_vec(), [&start[..], &[0xFF; 8]].concat())
}

/// Returns the keyspace of the marks, if a load into collection `id` has some.
pub(crate) fn marks_of(engine: &Engine, id: KeyspaceId) -> Result<Option<Keyspace>> {
    let content = KeyspaceContent::of(BYTES);
    let wanted = WantedContent { content, fold_if_new: None, dictionary_if_new: false };
    // Something else of that name holds no marks.
    let Ok(Some(marks)) = engine.existing(KEYSPACE, &wanted, None) else { return Ok(None) };
    let (start, end) = range_of(id);
    let is_marked = marks.scan(start..=end).advance()?;
    Ok(is_marked.then_some(marks))
}

/// Ends the marks of loads into collection `id`: a load that continues begins at the start.
pub(crate) fn forget(engine: &Engine, id: KeyspaceId) -> Result<()> {
    match marks_of(engine, id)? {
        Some(marks) => {
            let (start, end) = range_of(id);
            marks.delete_range(start..=end)
        }
        None => Ok(()),
    }
}
