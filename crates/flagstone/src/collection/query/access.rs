//! The ways to find the documents of a query.

use super::source::Source;
use super::spec::Spec;
use crate::collection::Stored;
use crate::collection::index::{IndexRange, Reader, UsableIndex, usable};
use crate::index::{Computed, Definition};
use flagstone_doc::{Arrays, Bounds, Direction, Filter, Interval, SortSpec, sort_key};
use std::fmt::Write;

/// The most ranges of one index that a plan reads. A filter with more is checked on the documents.
const RANGES_MAX: usize = 256;

/// One way to find documents by an index: ranges of its entries.
#[derive(Clone)]
pub(super) struct IndexAccess {
    pub(super) index: UsableIndex,
    pub(super) name: String,
    /// In the order of the entries.
    pub(super) ranges: Vec<IndexRange>,
    /// How many fields of the index the ranges bound, and whether each range is one value of each.
    pub(super) fields: usize,
    pub(super) are_points: bool,
    /// A document may have several entries in the ranges.
    pub(super) may_repeat: bool,
    /// Entries are in the order of the primary keys: all components are the same.
    pub(super) is_key_ordered: bool,
    /// The entries have the order of the sort: forward, or in reverse.
    pub(super) order: Option<Order>,
    /// Documents with an entry in the ranges are those that match the filter.
    pub(super) is_exact: bool,
}

/// The name of an index that cannot serve a query, and the reason.
pub(super) type Refused = (String, &'static str);

/// In which direction entries are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Forward,
    Reverse,
}

/// Ranges that grow field by field.
struct Prefixes {
    /// The components of the fields so far, one value each.
    prefixes: Vec<Vec<u8>>,
    /// The ranges, if the last field is not bounded to single values.
    ranges: Option<Vec<IndexRange>>,
    fields: usize,
}

/// What is known of an index at the time of the query.
struct Known<'a> {
    index: &'a UsableIndex,
    definition: &'a Definition,
    /// Own writes of a transaction may have arrays and long values that the index has not noted.
    is_certain: bool,
}

impl Known<'_> {
    fn arrays(&self, field: usize) -> Arrays {
        if self.is_certain { self.index.arrays(field) } else { Arrays::ANY }
    }

    fn has_cut(&self) -> bool {
        !self.is_certain || self.index.has_cut()
    }
}

/// Returns what each complete index can do for the query, and the names of those that cannot serve
/// it, with the reason. `None` if no document can match.
pub(super) fn index_accesses(
    stored: &Stored,
    source: &Source<'_>,
    spec: &Spec,
) -> Option<(Vec<IndexAccess>, Vec<Refused>)> {
    let (mut accesses, mut refused) = (Vec::new(), Vec::new());
    for index in usable(stored) {
        let Some(definition) = index.definition() else { continue };
        let name = definition.name.clone();
        if let Err(reason) = check_serves(&index, definition, source, &spec.filter) {
            refused.push((name, reason));
            continue;
        }
        let is_certain = source.has_no_own_writes();
        let known = Known { index: &index, definition, is_certain };
        accesses.push(access(&known, name, spec)?);
    }
    Some((accesses, refused))
}

/// Refuses an index that does not have all documents that may match.
fn check_serves(
    index: &UsableIndex,
    definition: &Definition,
    source: &Source<'_>,
    filter: &Filter,
) -> Result<(), &'static str> {
    if source.seqno() < index.usable_from() {
        return Err("it is newer than the snapshot");
    }
    if definition.only.as_ref().is_some_and(|only| !filter.implies(&only.filter)) {
        return Err("it is partial, and the filter does not imply its condition");
    }
    let implies_value =
        |path: &flagstone_doc::FieldPath| filter.implies(&Filter::field(path.clone()).exists());
    if definition.is_sparse && !definition.fields.iter().any(|field| implies_value(&field.path)) {
        return Err("it is sparse, and the filter does not imply that one of its fields exists");
    }
    Ok(())
}

/// Returns what an index can do. `None` if no document can match.
fn access(known: &Known<'_>, name: String, spec: &Spec) -> Option<IndexAccess> {
    let Known { index, definition, .. } = known;
    let mut bounded = Prefixes { prefixes: vec![Vec::new()], ranges: None, fields: 0 };
    let mut are_exact = true;
    for (at, field) in definition.fields.iter().enumerate() {
        if field.computed != Computed::Value || bounded.ranges.is_some() {
            break;
        }
        let bounds = spec.filter.bounds(&field.path, known.arrays(at));
        if bounds.is_nothing() {
            return None;
        }
        if bounds.is_everything() || !bounded.add(&bounds, field.direction) {
            break;
        }
        are_exact &= bounds.is_exact();
    }
    let Prefixes { prefixes, ranges, fields } = bounded;
    let read = &definition.fields[..fields];
    let is_covered = |path: &flagstone_doc::FieldPath| read.iter().any(|field| field.path == *path);
    let is_exact = are_exact && !known.has_cut() && spec.filter.paths().iter().all(is_covered);
    let are_points = ranges.is_none();
    let is_one = prefixes.len() == 1;
    let is_multi = (0..definition.fields.len()).any(|at| !known.arrays(at).is_none());
    let order = match &spec.sort {
        Some(sort) if is_one && !known.has_cut() => order(known, sort, (fields, are_points)),
        _ => None,
    };
    let is_whole = are_points && fields == definition.fields.len();
    let ranges = ranges
        .unwrap_or_else(|| prefixes.iter().map(|prefix| IndexRange::of_prefix(prefix)).collect());
    Some(IndexAccess {
        index: (*index).clone(),
        name,
        may_repeat: is_multi && !(is_whole && is_one),
        is_key_ordered: is_whole && is_one,
        ranges,
        fields,
        are_points,
        order,
        is_exact,
    })
}

impl Prefixes {
    /// Bounds the next field. Returns false, and changes nothing, if that gives too many ranges.
    fn add(&mut self, bounds: &Bounds, direction: Direction) -> bool {
        let intervals = bounds.intervals();
        if self.prefixes.len() * intervals.len() > RANGES_MAX {
            return false;
        }
        let mut intervals: Vec<&Interval> = intervals.iter().collect();
        if direction == Direction::Descending {
            intervals.reverse();
        }
        self.fields += 1;
        let points: Option<Vec<&[u8]>> = intervals.iter().map(|one| one.as_point()).collect();
        // A long value is cut in the index, so it is no prefix.
        let points = points.filter(|points| points.iter().all(|point| point.len() < 1000));
        let pairs = |prefix: &Vec<u8>| {
            let prefix = prefix.clone();
            intervals.iter().map(move |interval| {
                let (start, end) = interval.bytes(direction);
                IndexRange::new(&prefix, &start, end.as_deref())
            })
        };
        match points {
            Some(points) => {
                let longer = |prefix: &Vec<u8>| {
                    let prefix = prefix.clone();
                    points.iter().map(move |point| {
                        let mut longer = prefix.clone();
                        sort_key::directed(point, direction, &mut longer);
                        longer
                    })
                };
                self.prefixes = self.prefixes.iter().flat_map(longer).collect();
            }
            None => self.ranges = Some(self.prefixes.iter().flat_map(pairs).collect()),
        }
        true
    }
}

/// Returns how the entries give the order of `sort`, if they do: after fields with one value, the
/// fields must be those of the sort, all in its directions or all in the other ones, and no
/// document may have several keys there.
fn order(known: &Known<'_>, sort: &SortSpec, (fields, are_points): (usize, bool)) -> Option<Order> {
    let definition = known.definition;
    let fixed = if are_points { fields } else { fields.saturating_sub(1) };
    let has_one_key = |at: usize| known.arrays(at).is_none();
    let is_fixed = |path: &flagstone_doc::FieldPath| {
        (0..fixed).any(|at| definition.fields[at].path == *path && has_one_key(at))
    };
    if (0..definition.fields.len()).any(|at| !has_one_key(at)) {
        return None;
    }
    let mut rest = (fixed..definition.fields.len()).map(|at| &definition.fields[at]);
    let mut order = None;
    for (path, direction) in sort.parts() {
        if is_fixed(path) {
            continue;
        }
        let field = rest.next()?;
        if field.path != *path || field.computed != Computed::Value {
            return None;
        }
        let wanted = if field.direction == *direction { Order::Forward } else { Order::Reverse };
        if order.get_or_insert(wanted) != &wanted {
            return None;
        }
    }
    Some(order.unwrap_or(Order::Forward))
}

impl IndexAccess {
    /// Says what is read, for users.
    pub(super) fn shown(&self) -> String {
        let mut text = match (self.fields, self.ranges.len()) {
            (0, _) => "all of its entries".to_owned(),
            (fields, 1) => format!("one range, bounded in {fields} of its fields"),
            (fields, ranges) => format!("{ranges} ranges, bounded in {fields} of its fields"),
        };
        if self.is_exact {
            // Writing to a string does not fail.
            let _infallible = write!(text, "; exact, so a count reads no document");
        }
        text
    }

    /// Returns where entries are read.
    pub(super) fn reader<'s, 't>(source: &'s Source<'t>) -> Reader<'s, 't> {
        match source {
            Source::Snapshot(snapshot) => Reader::Snapshot(snapshot),
            Source::Transaction(transaction) => Reader::Transaction(transaction),
        }
    }
}
