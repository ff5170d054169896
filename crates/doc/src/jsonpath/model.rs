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
    Filter(Filter),
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
pub(super) struct Filter {
    pub(super) test: Test,
    pub(super) slot: CacheSlot,
}

#[derive(Clone, Debug)]
pub(super) enum Test {
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
    /// Whether the query selects anything.
    Exists(Inner),
    Compare(Operand, Operator, Operand),
    /// Whether a text matches a pattern.
    Matches(Operand, Pattern),
}

/// A query inside a filter.
#[derive(Clone, Debug)]
pub(super) struct Inner {
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
pub(super) enum Operand {
    /// The binary form of a scalar.
    Literal(Box<[u8]>),
    /// The value that a query of names and indexes selects.
    Single(Inner),
    Length(Box<Operand>),
    Count(Inner),
    /// The value that a query selects, if it is exactly one.
    Value(Inner),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The pattern of a call of `match` or `search`.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// A pattern of the query; `None` for text that is no I-Regexp and matches nothing.
    Literal(Option<Regexp>),
    /// A pattern from the document.
    Given { pattern: Operand, extent: Extent, slot: CacheSlot },
}
