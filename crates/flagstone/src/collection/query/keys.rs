//! The primary keys that the entries of an index give.

use super::entries::AccessEntries;
use super::key_list::KeyList;
use crate::collection::index::IndexScan;
use crate::spill::SortedEntries;
use flagstone_base::Result;
use flagstone_base::bytes::assign;
use flagstone_doc::{Direction, sort_key};
use std::cmp::Ordering;

/// Stored keys of documents, from the entries of an index.
pub(super) enum Keys<'t> {
    /// As the entries come.
    Entries(Box<AccessEntries<'t>>),
    /// Those of all entries, which were read to estimate the cost, and how many entries there were.
    Known(KeyList, u64),
    /// In the order of the keys, each once, and how many entries there were. The sorted keys are in
    /// the form of a direction.
    Sorted((Box<SortedEntries>, Direction), u64),
    /// Those that both have, each of which are in this direction; and the last key of the second.
    Both(Box<(Self, Self)>, Direction, Vec<u8>),
}

impl<'t> Keys<'t> {
    /// Sets `key` to the next key. Returns false at the end.
    pub(super) fn next(&mut self, key: &mut Vec<u8>) -> Result<bool> {
        match self {
            Self::Entries(entries) => {
                let has_next = entries.advance()?;
                key.clear();
                key.extend_from_slice(entries.key());
                Ok(has_next)
            }
            Self::Known(keys, _) => {
                let Some(next) = keys.next() else { return Ok(false) };
                key.clear();
                key.extend_from_slice(next);
                Ok(true)
            }
            Self::Sorted(sorted, _) => {
                let (sorted, direction) = sorted;
                let has_next = sorted.advance()?;
                match direction {
                    Direction::Ascending => assign(key, sorted.key()),
                    Direction::Descending => {
                        let _turned = sort_key::turned(sorted.key(), *direction, key);
                    }
                }
                Ok(has_next)
            }
            Self::Both(both, direction, other) => {
                let (first, second) = &mut **both;
                if !first.next(key)? || !second.next(other)? {
                    return Ok(false);
                }
                loop {
                    let order = match direction {
                        Direction::Ascending => key.as_slice().cmp(other),
                        Direction::Descending => other.as_slice().cmp(key),
                    };
                    let has_next = match order {
                        Ordering::Equal => return Ok(true),
                        Ordering::Less => first.next(key)?,
                        Ordering::Greater => second.next(other)?,
                    };
                    if !has_next {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Releases memory while nobody reads.
    pub(super) fn park(&mut self) {
        match self {
            Self::Entries(entries) => entries.park(),
            Self::Known(..) | Self::Sorted(..) => {}
            Self::Both(both, ..) => {
                both.0.park();
                both.1.park();
            }
        }
    }

    /// The entry of the key that was returned last, if keys come straight from entries.
    pub(super) fn entry(&self) -> Option<&IndexScan<'t>> {
        match self {
            Self::Entries(entries) => entries.entry(),
            Self::Known(..) | Self::Sorted(..) | Self::Both(..) => None,
        }
    }

    /// The number of entries read so far.
    pub(super) fn read(&self) -> u64 {
        match self {
            Self::Entries(entries) => entries.read(),
            Self::Known(_, read) | Self::Sorted(_, read) => *read,
            Self::Both(both, ..) => both.0.read() + both.1.read(),
        }
    }
}
