//! What the tools and tests of this repository need. It is no part of the interface: anything here
//! may change or go at any time.

use crate::keyspace::Keyspace;
use crate::space::{Key, Space};
use flagstone_base::Result;
pub use flagstone_base::interrupt::{check as interrupt_check, interrupted, interruptible};
pub use flagstone_engine::inspect;
pub use flagstone_env as env;

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
