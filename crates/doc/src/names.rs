//! The table of field names of one collection: name <-> id, append-only, read without locks.
//!
//! Names stand in levels of 64, 128, 256.. names; level k holds the names of its ids and a hash table
//! of twice as many slots, never moved once made. A lookup by id is two array accesses; one by name
//! probes the levels in turn, and nearly always ends in the first.

use flagstone_base::{Error, ErrorKind, Result, hash::key_hash};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most names a table holds; a document's other names stand in the document itself.
pub const NAMES_MAX: u32 = 65_536;
/// The longest name a table takes, in bytes; longer ones stand in the document itself.
pub const NAME_BYTES_MAX: usize = 512;

const FIRST_LEVEL: u32 = 64;
const LEVELS: usize = 11;

struct Level {
    names: Box<[OnceLock<Box<str>>]>,
    /// Ids plus one; zero is a free slot.
    slots: Box<[AtomicU32]>,
}

/// Field names and their ids, 0, 1, 2.. in the order they were defined; ids are never reused.
///
/// Shared by all threads: looking up takes no lock, defining takes one. An id is part of the bytes
/// of documents, so its definition must be logged before them: log [`Names::since`] what was logged
/// last, then the documents.
pub struct Names {
    identity: u64,
    seed: u64,
    levels: [OnceLock<Level>; LEVELS],
    len: Arc<AtomicU32>,
    writer: Mutex<()>,
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

/// The level of an id, and its place there.
const fn place(id: u32) -> (usize, usize) {
    let shifted = id + FIRST_LEVEL;
    let level = shifted.ilog2() - FIRST_LEVEL.ilog2();
    (level as usize, (shifted - (FIRST_LEVEL << level)) as usize)
}

impl Names {
    /// A table without names.
    pub fn new() -> Self {
        static IDENTITIES: AtomicU64 = AtomicU64::new(1);
        Self {
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            seed: RandomState::new().hash_one(0),
            levels: [const { OnceLock::new() }; LEVELS],
            len: Arc::default(),
            writer: Mutex::new(()),
        }
    }

    /// How many names are defined; the next one gets this id.
    pub fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    /// Where the number of names is kept: for whoever logs them and must see in one load whether some are new.
    pub fn shared_len(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.len)
    }

    /// Whether no name is defined.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number no other table of this process has: caches of ids compare it.
    pub(crate) const fn identity(&self) -> u64 {
        self.identity
    }

    /// The name that `id` stands for.
    #[inline]
    pub fn lookup(&self, id: u32) -> Option<&str> {
        if id >= NAMES_MAX {
            return None;
        }
        let (level, place) = place(id);
        Some(self.levels[level].get()?.names[place].get()?)
    }

    /// The id of `name`, if it is defined.
    #[inline]
    pub fn id(&self, name: &str) -> Option<u32> {
        self.find(name, key_hash(name.as_bytes(), self.seed))
    }

    fn find(&self, name: &str, hash: u64) -> Option<u32> {
        for level in &self.levels {
            let slots = &level.get()?.slots;
            let mut at = hash as usize & (slots.len() - 1);
            loop {
                let id = slots[at].load(Ordering::Acquire).checked_sub(1);
                let Some(id) = id else { break };
                if self.lookup(id) == Some(name) {
                    return Some(id);
                }
                at = (at + 1) & (slots.len() - 1);
            }
        }
        None
    }

    /// The id of `name`, defined now if it was not; `None` when the table is full or the name is
    /// longer than [`NAME_BYTES_MAX`].
    pub fn intern(&self, name: &str) -> Option<u32> {
        let hash = key_hash(name.as_bytes(), self.seed);
        if let Some(id) = self.find(name, hash) {
            return Some(id);
        }
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        let _lock = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = self.find(name, hash) {
            return Some(id);
        }
        let id = self.len.load(Ordering::Relaxed);
        if id >= NAMES_MAX {
            return None;
        }
        self.append(id, name, hash);
        Some(id)
    }

    /// Loads a definition at recovery. Ids come in their order; one that is already there must have
    /// the same name.
    ///
    /// # Errors
    /// Corruption when the id was skipped to, or either stands for something else already.
    pub fn define(&self, id: u32, name: &str) -> Result<()> {
        let hash = key_hash(name.as_bytes(), self.seed);
        let _lock = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lookup(id) == Some(name) {
            return Ok(());
        }
        let known = self.find(name, hash);
        if id != self.len() || id >= NAMES_MAX || name.len() > NAME_BYTES_MAX || known.is_some() {
            return Err(Error::new(
                ErrorKind::Corruption,
                format!("name {id} is defined as {name:?} behind {} names", self.len()),
            ));
        }
        self.append(id, name, hash);
        Ok(())
    }

    /// Under the lock.
    fn append(&self, id: u32, name: &str, hash: u64) {
        let (level, place) = place(id);
        let level = self.levels[level].get_or_init(|| {
            let size = (FIRST_LEVEL as usize) << level;
            Level {
                names: std::iter::repeat_with(OnceLock::new).take(size).collect(),
                slots: std::iter::repeat_with(|| AtomicU32::new(0)).take(2 * size).collect(),
            }
        });
        level.names[place].get_or_init(|| name.into());
        let mut at = hash as usize & (level.slots.len() - 1);
        while level.slots[at].load(Ordering::Relaxed) != 0 {
            at = (at + 1) & (level.slots.len() - 1);
        }
        // The length first: whoever finds an id by name may count on `len` to be above it.
        self.len.store(id + 1, Ordering::Release);
        level.slots[at].store(id + 1, Ordering::Release);
    }

    /// The definitions from id `first` on, in their order: what is not logged yet, when all below
    /// `first` is.
    pub fn since(&self, first: u32) -> impl Iterator<Item = (u32, &str)> {
        (first..self.len()).filter_map(|id| Some((id, self.lookup(id)?)))
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} names", self.len())
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.since(0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_refuses_and_keeps_what_it_has() {
        let names = Names::new();
        for id in 0..NAMES_MAX {
            assert_eq!(names.intern(&format!("name {id}")), Some(id));
        }
        assert_eq!(names.intern("one more"), None);
        assert_eq!(names.len(), NAMES_MAX);
        for id in [0, 63, 64, 191, 192, 65_535] {
            assert_eq!(names.id(&format!("name {id}")), Some(id));
            assert_eq!(names.lookup(id).unwrap(), format!("name {id}"));
        }
        assert_eq!(names.lookup(NAMES_MAX), None);
        assert_eq!(Names::new().intern(&"x".repeat(NAME_BYTES_MAX + 1)), None);
    }

    #[test]
    fn definitions_come_back_in_their_order_and_no_other() {
        let names = Names::new();
        assert_eq!(
            (names.intern("a"), names.intern("b"), names.intern("a")),
            (Some(0), Some(1), Some(0))
        );
        let logged: Vec<_> = names.since(1).collect();
        assert_eq!(logged, [(1, "b")]);
        let recovered = Names::new();
        for (id, name) in names.since(0) {
            recovered.define(id, name).unwrap();
        }
        recovered.define(0, "a").unwrap();
        assert!(recovered.define(0, "b").is_err());
        assert!(recovered.define(2, "b").is_err());
        assert!(recovered.define(3, "c").is_err());
        assert_eq!(recovered.id("b"), Some(1));
    }

    #[test]
    fn threads_agree_on_every_id() {
        let names = Names::new();
        let read = |_| (0..500).map(|i| names.intern(&format!("n{i}"))).collect::<Vec<_>>();
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| read(0));
            let b = scope.spawn(|| read(1));
            (a.join().unwrap(), b.join().unwrap())
        });
        assert_eq!(a, b);
        assert_eq!(names.len(), 500);
    }
}
