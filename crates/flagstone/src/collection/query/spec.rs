//! What is asked: the parts of a query that were set.

use super::token::{KeyPosition, PageToken};
use crate::collection::Stored;
use crate::shard::Shard;
use flagstone_base::hash::key_hash;
use flagstone_doc::{Direction, Filter, Projection, SortSpec};
use std::fmt::Write;

/// The memory of a query has one part in this many of the memory budget ..
const MEMORY_PARTS: u64 = 16;
/// .. within these bounds. It is for sorts and groups, and is not taken before they need it.
const MEMORY_MIN: u64 = 1 << 20;
const MEMORY_MAX: u64 = 64 << 20;

/// Which plan a query is to use, whatever the planner would choose.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// Read all documents.
    Scan,
    /// Read the index with this name.
    Index(String),
    /// Read indexes for the alternatives of an `$or`, and unite what they find.
    Union,
    /// Read two indexes, and fetch what both find.
    Intersection,
}

impl Hint {
    /// Reads the index with this name.
    pub fn index(name: impl Into<String>) -> Self {
        Self::Index(name.into())
    }
}

/// Returns the bytes of memory of a query that sets none, by the memory budget.
pub(crate) fn usual_memory(budget: u64) -> usize {
    (budget / MEMORY_PARTS).clamp(MEMORY_MIN, MEMORY_MAX) as usize
}

/// A query.
#[derive(Clone)]
pub(super) struct Spec {
    pub(super) filter: Filter,
    pub(super) projection: Option<Projection>,
    pub(super) sort: Option<SortSpec>,
    pub(super) skip: u64,
    pub(super) limit: Option<u64>,
    pub(super) memory: Option<usize>,
    pub(super) hint: Option<Hint>,
    pub(super) after: Option<PageToken>,
    /// Only documents of this shard are found.
    pub(super) shard: Option<Shard>,
}

impl Spec {
    pub(super) const fn new(filter: Filter) -> Self {
        Self {
            filter,
            projection: None,
            sort: None,
            skip: 0,
            limit: None,
            memory: None,
            hint: None,
            after: None,
            shard: None,
        }
    }

    /// The bytes of memory that sorts and groups may take.
    pub(super) fn memory(&self, stored: &Stored) -> usize {
        self.memory.unwrap_or_else(|| usual_memory(stored.memory_budget()))
    }

    /// The number of results after which the query may stop, those that it skips included.
    pub(super) fn last(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_add(self.skip))
    }

    /// The sort, unless it is by the primary key alone.
    pub(super) fn by_fields(&self) -> Option<&SortSpec> {
        let is_of_field =
            |sort: &&SortSpec| !matches!(sort.parts(), [(path, _)] if path.is_primary_key());
        self.sort.as_ref().filter(is_of_field)
    }

    /// The direction of a sort by the primary key alone.
    pub(super) fn by_key(&self) -> Option<Direction> {
        match self.by_fields() {
            None => self.sort.as_ref().and_then(key_direction),
            Some(_) => None,
        }
    }

    /// The position after which the query begins, if it is one in the order of the stored keys:
    /// that of pages without a sort, and of a sort by the primary key.
    pub(super) fn key_position(&self) -> Option<KeyPosition> {
        let token = self.after.as_ref().filter(|_| self.by_fields().is_none())?;
        let direction = self.by_key().unwrap_or(Direction::Ascending);
        Some(KeyPosition { key: token.key.clone(), direction })
    }

    /// Returns whether the filter, or the position after which the query begins, bounds the stored
    /// keys.
    pub(super) fn bounds_keys(&self) -> bool {
        self.key_position().is_some() || !self.filter.key_bounds().is_everything()
    }

    /// A hash of what decides which documents are found in which order. A page token carries it.
    pub(super) fn hash(&self, stored: &Stored) -> u64 {
        let mut text = format!("{:?} {}", stored.id(), self.filter);
        if let Some(shard) = self.shard {
            let _infallible = write!(text, " {shard}");
        }
        if let Some(sort) = &self.sort {
            // Writing to a string does not fail.
            let _infallible = write!(text, " {sort}");
        }
        key_hash(text.as_bytes(), 0)
    }
}

/// The direction of the primary key, if `sort` names it: the order of documents that are equal
/// otherwise.
pub(super) fn key_direction(sort: &SortSpec) -> Option<Direction> {
    let last = sort.parts().last().filter(|(path, _)| path.is_primary_key());
    last.map(|(_, direction)| *direction)
}
