//! A compiled query: segments, selectors and filters.

use super::regexp::{Extent, Regexp};

/// The segments of a query.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) segments: Box<[Segment]>,
}

impl Query {
    /// Returns whether the query selects one value at most, by names and indexes alone.
    pub(super) fn is_single(&self) -> bool {
        let is_single = |segment: &Segment| {
            let one = matches!(&*segment.selectors, [Selector::Name(_) | Selector::Index(_)]);
            one && !segment.descends
        };
        self.segments.iter().all(is_single)
    }

    /// Returns the number of segments that may lead from several nodes to one, or from one node to
    /// another several times, because they descend or have several selectors.
    pub(super) fn branchings(&self) -> usize {
        let branches = |segment: &&Segment| segment.descends || segment.selectors.len() > 1;
        self.segments.iter().filter(branches).count()
    }
}

/// One step of a query: from each node to those of its children that the selectors choose.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Whether the selectors also apply to all that is nested in the node.
    pub(super) descends: bool,
    pub(super) selectors: Box<[Selector]>,
}

/// What chooses among the children of an array or map.
#[derive(Clone, Debug)]
pub(super) enum Selector {
    Name(Box<str>),
    /// An index; a negative one counts from the end.
    Index(i64),
    All,
    Slice(Slice),
    Filter(FilterSelector),
}

/// Every `step`-th element from `start` up to, but without, `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) step: i64,
}

/// A number under which an evaluation remembers a result; each is used by one part of a query.
pub(super) type CacheSlot = usize;

/// A test of each child.
#[derive(Clone, Debug)]
pub(super) struct FilterSelector {
    pub(super) test: FilterExpression,
    pub(super) slot: CacheSlot,
}

#[derive(Clone, Debug)]
pub(super) enum FilterExpression {
    All(Vec<FilterExpression>),
    Any(Vec<FilterExpression>),
    Not(Box<FilterExpression>),
    /// Whether the query selects anything.
    Exists(FilterQuery),
    Compare(Comparable, ComparisonOperator, Comparable),
    /// Whether a text matches a pattern.
    Matches(Comparable, PatternArgument),
}

/// A query inside a filter.
#[derive(Clone, Debug)]
pub(super) struct FilterQuery {
    pub(super) origin: Origin,
    pub(super) query: Query,
    /// Whether the query selects one value at most, by names and indexes alone.
    pub(super) is_single: bool,
}

/// Where a query inside a filter starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// At the value that the filter tests: `@`.
    Candidate,
    /// At the root of the document: `$`. The result is the same for all candidates.
    Root(CacheSlot),
}

/// One side of a comparison, or an argument of a function.
#[derive(Clone, Debug)]
pub(super) enum Comparable {
    /// The binary form of a scalar.
    Literal(Box<[u8]>),
    /// The value that a query of names and indexes selects.
    Single(FilterQuery),
    Length(Box<Comparable>),
    Count(FilterQuery),
    /// The value that a query selects, if it is exactly one.
    Value(FilterQuery),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparisonOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The pattern of a call of `match` or `search`.
#[derive(Clone, Debug)]
pub(super) enum PatternArgument {
    /// A pattern of the query; `None` for text that is no I-Regexp and matches nothing.
    Literal(Option<Regexp>),
    /// A pattern from the document.
    Given { pattern: Comparable, extent: Extent, slot: CacheSlot },
}
