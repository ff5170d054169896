//! The index keys that documents have if they match a filter.

use super::build::Filter;
use super::intervals::{Interval, KeySet};
use super::model::{FilterNode, Test};
use super::sets::Sets;
use super::test_keys;
use crate::field_path::{Arrays, FieldPath, Step};
use flagstone_base::sorted::sort_by;

/// The index keys of one path that a filter allows: see [`Filter::bounds`].
#[derive(Clone, Debug)]
pub struct Bounds {
    keys: KeySet,
    exact: bool,
    whole: bool,
}

impl Bounds {
    /// Returns whether all keys are allowed, so that an index of the path is of no use.
    pub fn is_everything(&self) -> bool {
        self.keys.is_everything()
    }

    /// Returns whether no key is allowed, so that no document matches.
    pub const fn is_nothing(&self) -> bool {
        self.keys.intervals.is_empty()
    }

    /// Returns whether each interval is one value.
    pub fn are_points(&self) -> bool {
        self.keys.are_points()
    }

    /// Returns the intervals of ascending sort keys, in ascending order and disjoint.
    pub fn intervals(&self) -> &[Interval] {
        &self.keys.intervals
    }

    /// Returns whether the conditions of the filter that read this path hold exactly for documents
    /// with a key in the intervals. Such a document needs no check of these conditions.
    pub const fn is_exact(&self) -> bool {
        self.exact
    }

    /// Returns whether documents with a key in the intervals are exactly those that match the
    /// filter, which reads no other path.
    pub const fn is_whole(&self) -> bool {
        self.whole
    }
}

/// The keys of one path, and what is known about the arrays on it.
struct PathKeys<'p> {
    path: &'p [Step],
    arrays: Arrays,
    /// Whether everything that is tested has at least one key. A document has, and an element of
    /// an array has if there are no arrays in it.
    is_complete: bool,
}

impl PathKeys<'_> {
    fn of(&self, node: &FilterNode) -> Sets {
        match node {
            FilterNode::All(parts) => self.all(parts),
            FilterNode::Any(parts) => Sets::any(parts.iter().map(|part| self.of(part))),
            FilterNode::Not(part) => self.negated(self.of(part)),
            FilterNode::Field(..) if node.is_constant() => Sets::exactly(KeySet::nothing()),
            // A primary key is one value, also if it is an array.
            FilterNode::Field(path, test) if path.steps() == self.path && path.is_primary_key() => {
                test_keys::of_single(test)
            }
            FilterNode::Field(path, test) if path.steps() == self.path => {
                test_keys::of(test, self.arrays)
            }
            FilterNode::Field(path, Test::Element(node)) => self.within(path, node),
            FilterNode::Field(..) => Sets::unknown(),
        }
    }

    /// Conditions that must all hold. Different keys of one document may meet them, so only sets
    /// of documents with one key may be intersected.
    fn all<'n>(&self, parts: impl IntoIterator<Item = &'n FilterNode>) -> Sets {
        let each: Vec<Sets> = parts.into_iter().map(|part| self.of(part)).collect();
        if self.arrays.is_none() {
            return Sets::all(&each);
        }
        let mut over = KeySet::everything();
        // Kept, since it looks at all intervals, and there may be as many conditions.
        let mut narrowest = over.breadth();
        let mut unders = Vec::new();
        for part in each {
            let breadth = part.over.breadth();
            if breadth < narrowest {
                (over, narrowest) = (part.over, breadth);
            }
            unders.push(part.under);
        }
        unders.retain(|under| !under.is_everything());
        let under = match unders.pop() {
            None => KeySet::everything(),
            Some(only) if unders.is_empty() => only,
            Some(_) => KeySet::nothing(),
        };
        Sets { over, under }
    }

    fn negated(&self, part: Sets) -> Sets {
        if self.arrays.is_none() {
            return Sets { over: part.under.complement(), under: part.over.complement() };
        }
        let never_held = part.over.intervals.is_empty();
        let under = if never_held { KeySet::everything() } else { KeySet::nothing() };
        // All keys of a document that matches are outside of `part.under`, and it has one.
        let over = if self.is_complete { part.under.complement() } else { KeySet::everything() };
        Sets { over, under }
    }

    /// A condition on the elements of the array at `path`. Keys of paths in the elements are keys
    /// of longer paths in the document.
    fn within(&self, path: &FieldPath, node: &FilterNode) -> Sets {
        let rest = self.path.strip_prefix(path.steps());
        let Some(rest @ [Step::Name(_), ..]) = rest else { return Sets::unknown() };
        let arrays = self.arrays.inside(path.len());
        let inner = PathKeys { path: rest, arrays, is_complete: arrays.is_none() };
        Sets::at_most(inner.of(node).over)
    }
}

impl Filter {
    /// Returns the index keys of `path` that matching documents have: each has at least one key in
    /// the bounds. `arrays` is what is known about arrays on the path in all documents, as
    /// [`IndexKeys::arrays`](crate::IndexKeys::arrays) tells; if nothing is known,
    /// [`Arrays::ANY`].
    ///
    /// `{"a":{"$gte":1,"$lte":5}}` matches `{"a":[0,9]}`, so bounds of several conditions are
    /// intersected only where there are no arrays, or inside of an `$elemMatch`. Elsewhere the
    /// bounds are those of the most selective condition.
    ///
    /// ```
    /// use flagstone_doc::{Arrays, Direction, Filter, FieldPath, sort_key};
    /// let filter = Filter::parse(r#"{"score":{"$gte":1,"$lte":5},"author":"ada"}"#)?;
    /// let bounds = filter.bounds(&FieldPath::parse("score")?, Arrays::NONE);
    /// assert!(bounds.is_exact() && !bounds.is_whole());
    /// let (from, to) = bounds.intervals()[0].bytes(Direction::Ascending);
    /// let mut three = Vec::new();
    /// sort_key::encode(&3.into(), Direction::Ascending, &mut three);
    /// assert!(from < three && to.is_some_and(|to| three < to));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    pub fn bounds(&self, path: &FieldPath, arrays: Arrays) -> Bounds {
        self.bounds_of(path.steps(), arrays)
    }

    fn bounds_of(&self, path: &[Step], arrays: Arrays) -> Bounds {
        let parts = self.node.conjuncts();
        // A constant condition concerns every path: if it never holds, no key is allowed.
        let concerns = |part: &&FilterNode| part.reads(path) || part.is_constant();
        let mut mine = parts.iter().filter(concerns);
        // Most filters have one condition on a path, and most of these are of one value.
        match (mine.next(), mine.next()) {
            (None, _) => {
                let keys = KeySet::everything();
                return Bounds { keys, exact: true, whole: parts.is_empty() };
            }
            (Some(FilterNode::Field(at, test)), None) if at.steps() == path => {
                if let Some(point) = test_keys::point(test) {
                    let keys = KeySet { intervals: vec![point] };
                    return Bounds { keys, exact: true, whole: parts.len() == 1 };
                }
            }
            _ => {}
        }
        let keys = PathKeys { path, arrays, is_complete: true };
        let sets = keys.all(parts.iter().filter(concerns));
        let exact = sets.over == sets.under;
        Bounds { keys: sets.over, exact, whole: exact && parts.iter().all(|part| concerns(&part)) }
    }

    /// Returns the primary keys of documents that may match.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let bounds = Filter::key().one_of([3, 7]).and(Filter::field("a").eq(1)).key_bounds();
    /// assert_eq!(bounds.intervals().len(), 2);                    // two keys, at most
    /// assert!(bounds.is_exact() && !bounds.is_whole());           // `a` is to be checked
    /// ```
    pub fn key_bounds(&self) -> Bounds {
        self.bounds_of(&[Step::Key], Arrays::NONE)
    }

    /// Returns whether `holds` is true for all paths of [`Filter::paths`].
    ///
    /// ```
    /// use flagstone_doc::{FieldPath, Filter};
    /// let (a, filter) = (FieldPath::parse("a").unwrap(), Filter::field("a").gt(1));
    /// assert!(filter.all_paths(|path| *path == a));
    /// assert!(!filter.and(Filter::field("b").exists()).all_paths(|path| *path == a));
    /// ```
    pub fn all_paths(&self, mut holds: impl FnMut(&FieldPath) -> bool) -> bool {
        self.node.all_paths(&mut holds)
    }

    /// Returns all paths that the filter reads, in order and distinct. Of an `$elemMatch` it is the
    /// path of the array, inside of which all others are. A condition on the primary key has a
    /// [path](FieldPath::primary_key), too.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let filter = Filter::parse(r#"{"b.c":1,"$or":[{"a":1},{"b.c":2}]}"#)?;
    /// let paths: Vec<String> = filter.paths().iter().map(|path| path.to_string()).collect();
    /// assert_eq!(paths, ["a", "b.c"]);
    /// # Ok::<(), flagstone_doc::FilterError>(())
    /// ```
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut paths = Vec::new();
        self.node.collect_paths(&mut paths);
        sort_by(&mut paths, Ord::cmp);
        paths.dedup();
        paths
    }
}
