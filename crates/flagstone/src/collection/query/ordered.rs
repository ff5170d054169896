//! The documents that match, in the order of a sort.
//!
//! ```text
//! key in the sorter     sort key | components of an entry, if these order documents with one sort
//!                       key | stored key of the document | its length u32, big-endian
//! value                 the document, or its projection
//! ```
//! The stored key decides between documents with one sort key, ascending or descending. It ends the
//! key, so its length decides nothing.

use super::ask::Ask;
use super::cover::CoveredField;
use super::index_order::{IndexOrder, TieOrder};
use super::plan;
use super::projector::Projector;
use super::rows::{Rows, Work};
use super::source::QuerySource;
use super::spec::Spec;
use super::token::{PageToken, Ties};
use super::values::ValueRow;
use crate::collection::index::IndexScan;
use crate::collection::{Stored, decode};
use crate::spill::{ExternalSorter, SortOptions, SortedEntries, Spilled};
use flagstone_base::{Result, Slice};
use flagstone_doc::{Direction, IndexKeys, SortSpec, View, sort_key};

/// The documents that match, in the order that was asked for.
pub(super) enum Ordered<'t> {
    /// As the plan finds them, and how an index has the order of the sort, if it has.
    Streamed(Box<Rows<'t>>, Option<IndexOrder>),
    Sorted(SortedRows),
}

/// Documents that were sorted.
pub(super) struct SortedRows {
    stored: Stored,
    sorted: SortedEntries,
    work: Work,
    /// The values are projections.
    is_projected: bool,
    /// The direction of the stored keys of documents with one sort key, and the stored key of the
    /// current document if it is descending.
    ties: Direction,
    key: Vec<u8>,
}

/// How documents are sorted.
pub(super) struct SortJob<'a> {
    pub(super) stored: &'a Stored,
    pub(super) sort: &'a SortSpec,
    /// Only documents after the position of this token count.
    pub(super) after: Option<&'a PageToken>,
    /// The order of documents with one sort key.
    pub(super) ties: TieOrder,
    pub(super) options: SortOptions,
    /// Projects each document before it is sorted.
    pub(super) projector: Option<&'a mut Projector>,
}

impl SortJob<'_> {
    /// Reads all of `rows` and sorts them.
    pub(super) fn run(mut self, mut rows: Rows<'_>) -> Result<SortedRows> {
        let mut sorter = ExternalSorter::new(self.stored.scratch(), self.options);
        let (mut key, mut keys) = (Vec::new(), IndexKeys::new());
        let is_projected = rows.is_projected();
        let ties = self.ties.direction();
        let after = self.after.map(PageToken::position);
        while rows.advance()? {
            key.clear();
            decode::look(self.stored, rows.bytes(), |root| {
                self.sort.key(root, &mut keys, &mut key)?;
                self.ties.put(root, rows.entry(), &mut key)
            })?;
            let start = key.len();
            sort_key::directed(rows.key(), ties, &mut key);
            if after.as_ref().is_some_and(|after| key <= *after) {
                continue;
            }
            // A key of 65,535 bytes has one more if it is descending.
            key.extend_from_slice(&((key.len() - start) as u32).to_be_bytes());
            match &mut self.projector {
                Some(projector) if !is_projected => {
                    sorter.push(&key, projector.apply(&rows.view()?, self.stored.names())?)?
                }
                _ => sorter.push(&key, rows.bytes())?,
            }
        }
        let is_projected = self.projector.is_some() || is_projected;
        let work = rows.work();
        // What the scan holds is free before the merge begins.
        drop(rows);
        let (stored, sorted) = (self.stored.clone(), sorter.finish()?);
        Ok(SortedRows { stored, sorted, work, is_projected, ties, key: Vec::new() })
    }
}

/// Divides the key of an entry into the sort key and the stored key of the document.
fn split(key: &[u8]) -> (&[u8], &[u8]) {
    let Some((both, len)) = key.split_last_chunk::<4>() else { return (&[], &[]) };
    both.split_at(both.len().saturating_sub(u32::from_be_bytes(*len) as usize))
}

impl SortedRows {
    fn advance(&mut self) -> Result<bool> {
        let has_next = self.sorted.advance()?;
        if has_next && self.ties == Direction::Descending {
            let (_, key) = split(self.sorted.key());
            let _turned = sort_key::turned(key, self.ties, &mut self.key);
        }
        Ok(has_next)
    }
}

impl<'t> Ordered<'t> {
    /// Finds the documents of a query and sorts them, unless the plan has the order. `projector`
    /// projects each document before it is sorted.
    pub(super) fn find(
        stored: &Stored,
        source: &QuerySource<'t>,
        spec: &Spec,
        ask: Ask,
        projector: Option<&mut Projector>,
    ) -> Result<Self> {
        let is_paged = ask.is_paged;
        let plan::Found { rows, order, is_sorted, ties } = plan::rows(stored, source, spec, ask)?;
        let sort = match spec.by_fields() {
            _ if is_sorted => return Ok(Self::Streamed(Box::new(rows), order)),
            None => return Ok(Self::Streamed(Box::new(rows), None)),
            Some(sort) => sort,
        };
        let options = SortOptions {
            memory: spec.memory(stored),
            limit: spec.last().map(|last| last.try_into().unwrap_or(usize::MAX)),
            distinct: false,
            share: 1,
        };
        let after = spec.after.as_ref();
        // A token of a sort in memory has a sort key and a stored key, with which any plan goes on.
        let ties = if is_paged { TieOrder::Keys(ties.direction()) } else { ties };
        let job = SortJob { stored, sort, after, ties, options, projector };
        job.run(rows).map(Self::Sorted)
    }

    pub(super) fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Streamed(rows, _) => rows.advance(),
            Self::Sorted(rows) => rows.advance(),
        }
    }

    /// As [`Rows::visit_near`].
    #[inline]
    pub(super) fn visit_near(
        &mut self,
        most: usize,
        visit: impl FnMut(ValueRow<'_>) -> bool,
    ) -> usize {
        match self {
            Self::Streamed(rows, _) => rows.visit_near(most, visit),
            Self::Sorted(_) => 0,
        }
    }

    /// The stored key of the document.
    pub(super) fn key(&self) -> &[u8] {
        match self {
            Self::Streamed(rows, _) => rows.key(),
            Self::Sorted(rows) if rows.ties == Direction::Descending => &rows.key,
            Self::Sorted(rows) => split(rows.sorted.key()).1,
        }
    }

    /// What a token says of the current document's position besides its stored key.
    pub(super) fn position(&self) -> (Ties, Vec<u8>) {
        match self {
            Self::Streamed(rows, Some(order)) => {
                let position = rows.entry().map(|entry| order.position(entry));
                (order.ties(), position.unwrap_or_default())
            }
            Self::Streamed(_, None) => (Ties::default(), Vec::new()),
            Self::Sorted(rows) => {
                let is_reverse = rows.ties == Direction::Descending;
                (Ties { index: 0, is_reverse }, split(rows.sorted.key()).0.to_vec())
            }
        }
    }

    /// The entry that has all that the query takes, and where the values are, in its order; `None`
    /// if there is a document.
    #[inline]
    pub(super) fn values(&self) -> Option<(&IndexScan<'t>, &[CoveredField])> {
        match self {
            Self::Streamed(rows, _) => rows.values(),
            Self::Sorted(_) => None,
        }
    }

    pub(super) fn view(&self) -> Result<View<'_>> {
        match self {
            Self::Streamed(rows, _) => rows.view(),
            Self::Sorted(rows) => decode::view(&rows.stored, rows.sorted.value()),
        }
    }

    /// Returns how many bytes the stored document has.
    pub(super) fn stored_len(&self) -> usize {
        match self {
            Self::Streamed(rows, _) => rows.bytes().len(),
            Self::Sorted(rows) => rows.sorted.value().len(),
        }
    }

    /// Returns the stored document.
    pub(super) fn slice(&self) -> Slice {
        match self {
            Self::Streamed(rows, _) => rows.slice(),
            Self::Sorted(rows) => Slice::copy_of(rows.sorted.value()),
        }
    }

    pub(super) fn is_projected(&self) -> bool {
        match self {
            Self::Streamed(rows, _) => rows.is_projected(),
            Self::Sorted(rows) => rows.is_projected,
        }
    }

    pub(super) fn work(&self) -> Work {
        match self {
            Self::Streamed(rows, _) => rows.work(),
            Self::Sorted(rows) => rows.work,
        }
    }

    pub(super) fn spilled(&self) -> Spilled {
        match self {
            Self::Streamed(..) => Spilled::default(),
            Self::Sorted(rows) => rows.sorted.spilled(),
        }
    }

    pub(super) fn park(&mut self) {
        match self {
            Self::Streamed(rows, _) => rows.park(),
            Self::Sorted(rows) => rows.sorted.park(),
        }
    }
}
