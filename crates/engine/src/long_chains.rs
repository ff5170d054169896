//! Keys for which many separate merge operands were met: the next merge of such a key stores its
//! folded value.

use flagstone_base::KeyspaceId;
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::HashSet;

/// The number of keys that are remembered. Others are found by their next get.
const KEYS_MAX: usize = 1024;
/// The number of slots for marks of these keys.
const MARKS: usize = 256;

/// The keys. No other lock is taken under theirs.
pub(crate) struct LongChains {
    keys: Mutex<HashSet<(KeyspaceId, Vec<u8>)>>,
    is_any: AtomicBool,
    /// Hashes of remembered keys, changed under the lock. A get that finds the mark of its key has
    /// nothing to add, so gets of a hot key take no lock and write nothing.
    marks: Box<[AtomicU64]>,
}

impl Default for LongChains {
    fn default() -> Self {
        let marks = (0..MARKS).map(|_| AtomicU64::new(0)).collect();
        Self { keys: Mutex::default(), is_any: AtomicBool::new(false), marks }
    }
}

/// A hash of the key in its keyspace; never 0.
const fn mark_of(keyspace: KeyspaceId, hash: u64) -> u64 {
    (hash ^ (keyspace.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1
}

impl LongChains {
    /// Returns whether a key is remembered.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    fn place(&self, mark: u64) -> &AtomicU64 {
        &self.marks[(mark >> 1) as usize % MARKS]
    }

    /// Remembers `key`, whose hash is `hash`.
    #[cold]
    pub(crate) fn note(&self, keyspace: KeyspaceId, key: &[u8], hash: u64) {
        let mark = mark_of(keyspace, hash);
        let place = self.place(mark);
        if place.load(Ordering::Relaxed) == mark {
            return;
        }
        let mut keys = self.keys.lock();
        if keys.len() >= KEYS_MAX {
            // Most may be keys that are no longer merged. Those that are read again are added
            // again.
            keys.clear();
            self.unmark_all();
        }
        keys.insert((keyspace, key.to_vec()));
        place.store(mark, Ordering::Relaxed);
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// Forgets `key`. Returns whether it was remembered.
    pub(crate) fn take(&self, keyspace: KeyspaceId, key: &[u8], hash: u64) -> bool {
        let mut keys = self.keys.lock();
        let found = keys.remove(&(keyspace, key.to_vec()));
        self.is_any.store(!keys.is_empty(), Ordering::Relaxed);
        let mark = mark_of(keyspace, hash);
        let place = self.place(mark);
        if place.load(Ordering::Relaxed) == mark {
            place.store(0, Ordering::Relaxed);
        }
        found
    }

    /// Forgets the keys of a keyspace that was dropped.
    pub(crate) fn forget(&self, keyspace: KeyspaceId) {
        let mut keys = self.keys.lock();
        keys.retain(|(of, _)| *of != keyspace);
        self.unmark_all();
        self.is_any.store(!keys.is_empty(), Ordering::Relaxed);
    }

    fn unmark_all(&self) {
        self.marks.iter().for_each(|mark| mark.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: KeyspaceId = KeyspaceId(1);
    const OTHER: KeyspaceId = KeyspaceId(2);

    #[test]
    fn keys_that_nobody_merges_make_room_for_others() {
        let chains = LongChains::default();
        for n in 0..=KEYS_MAX as u64 {
            chains.note(ONE, &n.to_be_bytes(), n * 2);
        }
        assert!(chains.keys.lock().len() <= KEYS_MAX);
        let last = KEYS_MAX as u64;
        assert!(chains.take(ONE, &last.to_be_bytes(), last * 2));
        // A key that had to go is remembered when it is met again.
        chains.note(ONE, &0_u64.to_be_bytes(), 0);
        assert!(chains.take(ONE, &0_u64.to_be_bytes(), 0));
    }

    #[test]
    fn keys_of_a_dropped_keyspace_are_forgotten() {
        let chains = LongChains::default();
        chains.note(ONE, b"a", 5);
        chains.note(OTHER, b"a", 5);
        chains.forget(ONE);
        assert_eq!(chains.keys.lock().len(), 1);
        assert!(chains.take(OTHER, b"a", 5) && !chains.take(OTHER, b"a", 5));
        assert!(!chains.is_any());
    }

    /// Every get of such a key locked the set and copied the key.
    #[test]
    fn a_key_that_is_met_often_is_noted_once() {
        let chains = LongChains::default();
        let remembered = || chains.keys.lock().len();
        chains.note(ONE, b"hot", 7);
        // Nothing else forgets a key like that: it shows whether the lock is taken again.
        chains.keys.lock().clear();
        chains.note(ONE, b"hot", 7);
        assert_eq!(remembered(), 0);
        // In another keyspace it is another key.
        chains.note(OTHER, b"hot", 7);
        assert_eq!(remembered(), 1);
        // After it was taken the key may be noted again.
        chains.take(ONE, b"hot", 7);
        chains.note(ONE, b"hot", 7);
        assert_eq!(remembered(), 2);
    }
}
