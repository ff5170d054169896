//! The documents that match, in the order of a sort.
//!
//! ```text
//! key in the sorter     sort key | stored key of the document | its length u16, big-endian
//! value                 the document, or its projection
//! ```
//! The stored key decides between documents with one sort key. It ends the key, so its length
//! decides nothing.

use super::projector::Projector;
use super::rows::{Rows, Work};
use crate::collection::{Stored, decode};
use crate::spill::{SortOptions, Sorted, Sorter, Spilled};
use flagstone_base::{Result, Slice};
use flagstone_doc::{IndexKeys, SortSpec, View};

/// The documents that match, in the order that was asked for.
pub(super) enum Ordered<'t> {
    /// As the plan finds them.
    Streamed(Box<Rows<'t>>),
    Sorted(SortedRows),
}

/// Documents that were sorted.
pub(super) struct SortedRows {
    stored: Stored,
    sorted: Sorted,
    work: Work,
    /// The values are projections.
    is_projected: bool,
}

/// How documents are sorted.
pub(super) struct SortJob<'a> {
    pub(super) stored: &'a Stored,
    /// `None` sorts by the stored keys.
    pub(super) sort: Option<&'a SortSpec>,
    /// Only documents after this position count: a sort key and a stored key.
    pub(super) after: Option<&'a [u8]>,
    pub(super) options: SortOptions,
    /// Projects each document before it is sorted.
    pub(super) projector: Option<&'a mut Projector>,
}

impl SortJob<'_> {
    /// Reads all of `rows` and sorts them.
    pub(super) fn run(mut self, mut rows: Rows<'_>) -> Result<SortedRows> {
        let mut sorter = Sorter::new(self.stored.bytes().scratch(), self.options);
        let (mut key, mut keys) = (Vec::new(), IndexKeys::new());
        while rows.advance()? {
            key.clear();
            if let Some(sort) = self.sort {
                decode::look(self.stored, rows.bytes(), |root| {
                    sort.key(root, &mut keys, &mut key)
                })?;
            }
            key.extend_from_slice(rows.key());
            if self.after.is_some_and(|after| key.as_slice() <= after) {
                continue;
            }
            // A key has at most 65,535 bytes.
            key.extend_from_slice(&(rows.key().len() as u16).to_be_bytes());
            match &mut self.projector {
                Some(projector) => {
                    sorter.push(&key, projector.apply(&rows.view()?, self.stored.names())?)?
                }
                None => sorter.push(&key, rows.bytes())?,
            }
        }
        let (work, is_projected) = (rows.work(), self.projector.is_some());
        // What the scan holds is free before the merge begins.
        drop(rows);
        Ok(SortedRows { stored: self.stored.clone(), sorted: sorter.finish()?, work, is_projected })
    }
}

/// Divides the key of an entry into the sort key and the stored key of the document.
fn split(key: &[u8]) -> (&[u8], &[u8]) {
    let Some((both, len)) = key.split_last_chunk::<2>() else { return (&[], &[]) };
    both.split_at(both.len().saturating_sub(usize::from(u16::from_be_bytes(*len))))
}

impl Ordered<'_> {
    pub(super) fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Streamed(rows) => rows.advance(),
            Self::Sorted(rows) => rows.sorted.advance(),
        }
    }

    /// The stored key of the document.
    pub(super) fn key(&self) -> &[u8] {
        match self {
            Self::Streamed(rows) => rows.key(),
            Self::Sorted(rows) => split(rows.sorted.key()).1,
        }
    }

    /// The document's sort key, if it was sorted.
    pub(super) fn sort_key(&self) -> &[u8] {
        match self {
            Self::Streamed(_) => &[],
            Self::Sorted(rows) => split(rows.sorted.key()).0,
        }
    }

    pub(super) fn view(&self) -> Result<View<'_>> {
        match self {
            Self::Streamed(rows) => rows.view(),
            Self::Sorted(rows) => decode::view(&rows.stored, rows.sorted.value()),
        }
    }

    /// Returns the stored document.
    pub(super) fn slice(&self) -> Slice {
        match self {
            Self::Streamed(rows) => rows.slice(),
            Self::Sorted(rows) => Slice::copy_of(rows.sorted.value()),
        }
    }

    pub(super) const fn is_projected(&self) -> bool {
        matches!(self, Self::Sorted(SortedRows { is_projected: true, .. }))
    }

    pub(super) fn work(&self) -> Work {
        match self {
            Self::Streamed(rows) => rows.work(),
            Self::Sorted(rows) => rows.work,
        }
    }

    pub(super) fn spilled(&self) -> Spilled {
        match self {
            Self::Streamed(_) => Spilled::default(),
            Self::Sorted(rows) => rows.sorted.spilled(),
        }
    }

    pub(super) fn park(&mut self) {
        if let Self::Streamed(rows) = self {
            rows.park();
        }
    }
}
