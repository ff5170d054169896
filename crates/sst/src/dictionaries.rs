//! Dictionaries that open tables share. A compaction hands its dictionary on, so most tables of a
//! tree have the same one.
//!
//! One prepared form takes some 57 KiB, and its contexts more.

use flagstone_base::dictionary::Unpacker;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A dictionary of one or more open tables, and what counts its memory.
#[derive(Debug)]
pub(crate) struct SharedDictionary<P> {
    pub(crate) unpacker: Unpacker,
    pub(crate) pin: P,
}

/// The dictionaries of the open tables.
pub(crate) struct Dictionaries<P>(Mutex<Vec<Weak<SharedDictionary<P>>>>);

impl<P> Dictionaries<P> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the dictionary `bytes` as other open tables have it. Otherwise prepares it; `pin` is
    /// called with the memory that it takes. Returns `None` if `bytes` are not a dictionary.
    pub(crate) fn share(
        &self,
        bytes: &[u8],
        pin: impl FnOnce(usize) -> P,
    ) -> Option<Arc<SharedDictionary<P>>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|shared| shared.strong_count() > 0);
        let same = |shared: &Arc<SharedDictionary<P>>| shared.unpacker.bytes() == bytes;
        if let Some(shared) = all.iter().filter_map(Weak::upgrade).find(same) {
            return Some(shared);
        }
        let unpacker = Unpacker::new(bytes)?;
        let pin = pin(unpacker.memory());
        let shared = Arc::new(SharedDictionary { unpacker, pin });
        all.push(Arc::downgrade(&shared));
        Some(shared)
    }
}
