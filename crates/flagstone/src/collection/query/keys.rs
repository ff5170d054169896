//! The primary keys that the entries of an index give.

use super::access::IndexAccess;
use super::index_order::Order;
use super::key_list::KeyList;
use super::source::QuerySource;
use crate::collection::index::IndexScan;
use crate::index::Parts;
use crate::spill::Sorted;
use flagstone_base::Result;
use flagstone_base::bytes::assign;
use flagstone_doc::{Direction, sort_key};
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// The entries of the ranges of an index, in their order or in reverse.
pub(super) struct RangeEntries<'t> {
    access: Arc<IndexAccess>,
    source: QuerySource<'t>,
    is_reverse: bool,
    /// The ranges that are still to be read.
    left: Range<usize>,
    scan: Option<Box<IndexScan<'t>>>,
    /// A transaction has noted what it rests on.
    is_noted: bool,
    read: u64,
}

impl<'t> RangeEntries<'t> {
    pub(super) fn new(access: &Arc<IndexAccess>, source: &QuerySource<'t>, order: Order) -> Self {
        let is_reverse = order == Order::Reverse;
        let left = 0..access.ranges.len();
        let (access, source) = (Arc::clone(access), source.clone());
        Self { access, source, is_reverse, left, scan: None, is_noted: false, read: 0 }
    }

    /// Moves to the next entry. Returns false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some(scan) = &mut self.scan {
                let has_next = scan.advance()?;
                if !self.is_noted {
                    self.note_use();
                }
                if has_next {
                    self.read += 1;
                    return Ok(true);
                }
            }
            let next = if self.is_reverse { self.left.next_back() } else { self.left.next() };
            let Some(next) = next else {
                self.scan = None;
                self.note_use();
                return Ok(false);
            };
            let reader = IndexAccess::reader(&self.source);
            let range = &self.access.ranges[next];
            let scan = self.access.index.scan(reader, range, self.is_reverse)?;
            self.scan = Some(Box::new(scan));
        }
    }

    /// Notes what was used, once something was: if the index is gone before that, another plan is
    /// made.
    #[cold]
    fn note_use(&mut self) {
        if !std::mem::replace(&mut self.is_noted, true) {
            self.access.note_use(&self.source);
        }
    }

    /// Moves to entries that follow and are quick to reach, as
    /// [`Scan::visit_near`](flagstone_engine::Scan::visit_near).
    #[inline]
    pub(super) fn visit_near(
        &mut self,
        most: usize,
        visit: impl FnMut(&Parts<'_>) -> bool,
    ) -> usize {
        let visited = self.scan.as_mut().map_or(0, |scan| scan.visit_near(most, visit));
        self.read += visited as u64;
        visited
    }

    /// The stored key of the document.
    pub(super) fn key(&self) -> &[u8] {
        self.scan.as_ref().map_or(&[], |scan| scan.primary_key())
    }

    /// The current entry.
    #[inline]
    pub(super) fn entry(&self) -> Option<&IndexScan<'t>> {
        self.scan.as_deref()
    }

    pub(super) const fn read(&self) -> u64 {
        self.read
    }
}

/// Stored keys of documents, from the entries of an index.
pub(super) enum Keys<'t> {
    /// As the entries come.
    Entries(Box<RangeEntries<'t>>),
    /// Those of all entries, which were read to estimate the cost, and how many entries there were.
    Known(KeyList, u64),
    /// In the order of the keys, each once, and how many entries there were. The sorted keys are in
    /// the form of a direction.
    Sorted((Box<Sorted>, Direction), u64),
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
