//! What the tools and tests of this repository need. It is no part of the interface: anything here
//! may change or go at any time.

use crate::collection::{BuildProgress, Collection, index};
use crate::index::Index;
use crate::keyspace::Keyspace;
use crate::space::{Key, Space};
use flagstone_base::Result;
pub use flagstone_base::interrupt::{check as interrupt_check, interrupted, interruptible};
use flagstone_doc::Value;
pub use flagstone_doc::split_paths;
pub use flagstone_engine::inspect;
pub use flagstone_env as env;
use std::ops::ControlFlow;

/// The binary form of documents, for conversions from and to other formats.
pub mod document {
    pub use flagstone_doc::{
        DEPTH_MAX, DocumentWriter, Encoder, Names, Patcher, StoredNumber, base64, put_base64,
        sort_key, validate,
    };
}

/// Counts a writer of `key` as one that had to wait for others. For tests of splits by load.
///
/// # Errors
/// InvalidInput for what cannot be a key.
pub fn note_wait<S: Space>(space: &S, key: impl Key<S>) -> Result<()> {
    space.bytes().note_wait(key.key_bytes()?.as_ref());
    Ok(())
}

/// Returns a handle of the stored bytes of `space`: of a collection sort keys and binary documents.
/// Bytes that are written through it reach no index.
pub fn stored<S: Space>(space: &S) -> Keyspace {
    Keyspace(space.bytes().clone())
}

/// As [`Collection::create_index_with`], in parts of about this many bytes. For tests of builds
/// that are interrupted between two parts.
///
/// # Errors
/// As [`Collection::create_index`].
pub fn create_index_in_parts(
    collection: &Collection,
    name: &str,
    index: Index,
    part_bytes: u64,
    mut watch: impl FnMut(BuildProgress) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    index::create(&collection.0, name, &index, Some(part_bytes), &mut watch)
}

/// Returns all entries of the complete index `name` in their order: the values, of which `None` is
/// missing, and the key of the document. A value that was cut is bytes.
///
/// # Errors
/// InvalidInput if there is no such index, or it is still to be built; Io, Corruption, Closed.
pub fn index_entries(
    collection: &Collection,
    name: &str,
) -> Result<Vec<(Vec<Option<Value>>, Value)>> {
    index::entries(&collection.0, name)
}
