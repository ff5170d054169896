//! The table of field names of one collection: name <-> id, append-only, read without locks.
//!
//! Names are stored in levels of 64, 128, 256 .. names. Level k holds the names of its range of
//! ids and a hash table with twice as many slots. A level never moves in memory. A lookup by id
//! costs two array accesses. A lookup by name probes the levels in turn; it nearly always ends in
//! the first one.

use crate::print::JsonKey;
use flagstone_base::{Error, ErrorKind, Result, hash::key_hash};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most names in a table; a document stores further names in its own bytes.
pub const NAMES_MAX: u32 = 65_536;
/// The longest name in a table, in bytes; a document stores longer names in its own bytes.
pub const NAME_BYTES_MAX: usize = 512;

const FIRST_LEVEL: u32 = 64;
const LEVELS: usize = 11;

struct StoredName {
    text: Box<str>,
    json: JsonKey,
}

struct NameLevel {
    names: Box<[OnceLock<StoredName>]>,
    /// Hash table of id plus one; zero is a free slot.
    slots: Box<[AtomicU32]>,
}

/// The field names of a collection and their ids: 0, 1, 2 .. in the order of definition. Ids are
/// never reused.
///
/// All threads share a table: a lookup takes no lock, a definition takes one. The bytes of
/// documents contain ids, so a definition must be logged before the documents that use it: first
/// log [`Names::since`] the last logged id, then the documents.
pub struct Names {
    identity: u64,
    seed: u64,
    levels: [OnceLock<NameLevel>; LEVELS],
    len: Arc<AtomicU32>,
    writer: Mutex<()>,
}

impl Default for Names {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the level of an id and the id's index in that level.
const fn place(id: u32) -> (usize, usize) {
    let shifted = id + FIRST_LEVEL;
    let level = shifted.ilog2() - FIRST_LEVEL.ilog2();
    (level as usize, (shifted - (FIRST_LEVEL << level)) as usize)
}

impl Names {
    /// Creates an empty table.
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

    /// Returns the number of names, which is also the id that the next name will get.
    pub fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the counter of [`Names::len`]. A writer of the log keeps it and sees by one load
    /// whether there are new names.
    pub fn shared_len(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.len)
    }

    /// Returns whether the table has no names.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a number that is unique to this table in this process; caches of ids compare it.
    pub(crate) const fn identity(&self) -> u64 {
        self.identity
    }

    /// Returns the name with this id.
    #[inline]
    pub fn lookup(&self, id: u32) -> Option<&str> {
        self.name(id).map(|name| &*name.text)
    }

    #[inline]
    fn name(&self, id: u32) -> Option<&StoredName> {
        if id >= NAMES_MAX {
            return None;
        }
        let (level, place) = place(id);
        self.levels[level].get()?.names[place].get()
    }

    /// Returns a reader of many names in JSON.
    #[inline]
    pub(crate) fn json_keys(&self) -> JsonKeys<'_> {
        let first = self.levels[0].get().map_or(&[][..], |level| &level.names);
        JsonKeys { first, names: self }
    }

    /// Returns the id of `name` if it is defined.
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

    /// Returns the id of `name`, and defines the name if it is new. Returns `None` if the table is
    /// full or the name is longer than [`NAME_BYTES_MAX`].
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

    /// Defines a name with a given id; recovery calls this for each logged definition, in the order
    /// of ids. A repeated definition is accepted if it is equal to the first.
    ///
    /// # Errors
    /// Corruption if an id was skipped, or if the id or the name is already defined otherwise.
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
                format!("name {id} is defined as {name:?} after {} names", self.len()),
            ));
        }
        self.append(id, name, hash);
        Ok(())
    }

    /// Adds a definition; the caller holds the lock.
    fn append(&self, id: u32, name: &str, hash: u64) {
        let (level, place) = place(id);
        let level = self.levels[level].get_or_init(|| {
            let size = (FIRST_LEVEL as usize) << level;
            NameLevel {
                names: std::iter::repeat_with(OnceLock::new).take(size).collect(),
                slots: std::iter::repeat_with(|| AtomicU32::new(0)).take(2 * size).collect(),
            }
        });
        level.names[place]
            .get_or_init(|| StoredName { text: name.into(), json: JsonKey::new(name) });
        let mut at = hash as usize & (level.slots.len() - 1);
        while level.slots[at].load(Ordering::Relaxed) != 0 {
            at = (at + 1) & (level.slots.len() - 1);
        }
        // The length is raised first: a reader that finds an id by name relies on `len` above it.
        self.len.store(id + 1, Ordering::Release);
        level.slots[at].store(id + 1, Ordering::Release);
    }

    /// Returns the definitions from id `first` on, in order of id. If all ids below `first` are
    /// logged, these are the ones that are not.
    pub fn since(&self, first: u32) -> impl Iterator<Item = (u32, &str)> {
        (first..self.len()).filter_map(|id| Some((id, self.lookup(id)?)))
    }
}

/// The names of a table in JSON.
pub(crate) struct JsonKeys<'a> {
    /// The first level: most tables have no more names.
    first: &'a [OnceLock<StoredName>],
    names: &'a Names,
}

impl<'a> JsonKeys<'a> {
    /// Returns the name with this id.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&'a JsonKey> {
        let name = match self.first.get(id as usize) {
            Some(name) => name.get(),
            None => self.names.name(id),
        };
        name.map(|name| &name.json)
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
