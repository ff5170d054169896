//! The name of a field that a compiled path looks up in many documents.

use crate::names::Names;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{self, AtomicU64};

/// The bits of an id in the word that remembers it.
const ID_BITS: u32 = 16;

/// A name, and the id that it had in the names table of the last lookup. So most lookups cost one
/// load instead of a hash of the name. Threads share it without locks.
pub(crate) struct FieldName {
    text: Box<str>,
    /// The identity of a names table, then the id of the name in it; 0 if none is known.
    known: AtomicU64,
}

impl FieldName {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.into(), known: AtomicU64::new(0) }
    }

    pub(crate) const fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the id of the name in `names`, if it is defined there.
    #[inline]
    pub(crate) fn id(&self, names: &Names) -> Option<u32> {
        let known = self.known.load(atomic::Ordering::Relaxed);
        // Identities begin with 1 and grow by 1 for each table, so they fit the bits left.
        if known >> ID_BITS == names.identity() {
            return Some(known as u32 & ((1 << ID_BITS) - 1));
        }
        let id = names.id(&self.text)?;
        let known = names.identity() << ID_BITS | u64::from(id);
        self.known.store(known, atomic::Ordering::Relaxed);
        Some(id)
    }
}

impl Clone for FieldName {
    fn clone(&self) -> Self {
        let known = self.known.load(atomic::Ordering::Relaxed);
        Self { text: self.text.clone(), known: AtomicU64::new(known) }
    }
}

impl PartialEq for FieldName {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for FieldName {}

impl PartialOrd for FieldName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FieldName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for FieldName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// Returns the dotted path without the `$.` with which it may begin.
#[inline]
pub(crate) fn without_root(path: &str) -> &str {
    path.strip_prefix("$.").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_remembered_for_the_table_it_is_from() {
        let (one, other) = (Names::new(), Names::new());
        let name = FieldName::new("b");
        assert_eq!(name.id(&one), None);
        one.intern("a");
        one.intern("b");
        other.intern("b");
        for _ in 0..2 {
            assert_eq!(name.id(&one), Some(1));
            assert_eq!(name.clone().id(&one), Some(1));
            assert_eq!(name.id(&other), Some(0));
        }
        assert_eq!(name.id(&Names::new()), None);
    }
}
