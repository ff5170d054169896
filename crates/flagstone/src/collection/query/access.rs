//! The ways to find the documents of a query.

use super::ask::{Ask, Need};
use super::cover::{Cover, Given, cover};
use super::index_order::IndexOrder;
use super::key_access;
use super::known::Known;
use super::merge::{RangeMerge, Stream};
use super::source::QuerySource;
use super::spec::Spec;
use crate::collection::Stored;
use crate::collection::index::{IndexRange, Order, Reader, UsableIndex, usable};
use crate::index::{Computed, Definition};
use flagstone_doc::{Bounds, Direction, FieldPath, Filter, Interval, SortSpec, sort_key};
use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Bound;

/// The most ranges of one index that a plan reads. A filter with more is checked on the documents.
const RANGES_MAX: usize = 256;

/// The most ranges that are read at once, to merge their entries: each holds blocks in memory.
const MERGED_MAX: usize = 64;

/// A value whose sort key is longer may be cut in an index, so it is no prefix of its entries.
const POINT_MAX: usize = 1000;

/// What an answer premises on besides what was read: an index that is there, and what its documents
/// are like.
#[derive(Clone)]
pub(super) struct IndexPremise {
    pub(super) index: UsableIndex,
    /// Its number before the documents were looked at.
    number: u64,
}

/// One way to find documents by an index: ranges of its entries.
#[derive(Clone)]
pub(super) struct IndexAccess {
    pub(super) index: UsableIndex,
    /// The number of its premise before it was looked at.
    pub(super) premise: u64,
    /// In the order of the entries.
    pub(super) ranges: Vec<IndexRange>,
    /// How many fields of the index the ranges bound, and whether each range is one value of each.
    pub(super) fields: usize,
    pub(super) are_points: bool,
    /// A document may have several entries in the ranges.
    pub(super) may_repeat: bool,
    /// Entries are in the order of the primary keys: all components are the same, or it is they
    /// that are merged.
    pub(super) is_key_ordered: bool,
    /// The entries have the order of the sort.
    pub(super) order: Option<IndexOrder>,
    /// They have the order that is needed only if those of several ranges are merged.
    pub(super) merge: Option<RangeMerge>,
    /// Documents with an entry in the ranges are those that match the filter.
    pub(super) is_exact: bool,
    /// The ranges bound the primary key, too, and whether they express all conditions on what they
    /// bound.
    pub(super) bounds_keys: bool,
    pub(super) are_bounds_exact: bool,
    /// The entries have all that the query takes.
    pub(super) cover: Option<Cover>,
}

/// The name of an index that cannot serve a query, and the reason.
pub(super) type RefusedIndex = (String, &'static str);

/// Ranges that grow field by field.
struct Prefixes {
    /// The components of the fields so far, one value each.
    prefixes: Vec<Vec<u8>>,
    /// The ranges, if the last field is not bounded to single values.
    ranges: Option<Vec<IndexRange>>,
    /// How many values, or ranges of values, each field has. There is a prefix, or a range, for
    /// each combination.
    counts: Vec<usize>,
}

/// Returns what each complete index can do for the query, and the names of those that cannot serve
/// it, with the reason. If no document can match, an error says by which index that is known. Those
/// that are never better than a scan are left out unless `all` is set.
pub(super) fn index_accesses(
    stored: &Stored,
    source: &QuerySource<'_>,
    spec: &Spec,
    ask: &Ask,
    all: bool,
) -> Result<(Vec<IndexAccess>, Vec<RefusedIndex>), IndexPremise> {
    let (mut accesses, mut refused) = (Vec::new(), Vec::new());
    for index in usable(stored) {
        let Some(definition) = index.definition() else { continue };
        if let Err(reason) = check_serves(&index, definition, source, &spec.filter) {
            refused.push((definition.name.clone(), reason));
            continue;
        }
        let (premise, is_certain) = (index.premise_now(), source.has_no_own_writes());
        let known = Known { index: &index, definition, premise, is_certain };
        let Some((access, merged)) = access(&known, spec, ask) else {
            return Err(IndexPremise { index, number: premise });
        };
        // One that is merged is looked at first: what it counts serves the other one, too.
        accesses.extend(merged);
        if all || access.may_pay(definition, ask) {
            accesses.push(access);
        }
    }
    Ok((accesses, refused))
}

/// Returns the complete indexes that have an entry for every document. Whoever uses one says so by
/// [`IndexPremise::note`].
pub(super) fn with_all_documents(
    stored: &Stored,
    source: &QuerySource<'_>,
) -> impl Iterator<Item = IndexPremise> {
    let everything = Filter::everything();
    let serving = usable(stored).into_iter().filter(move |index| {
        let definition = index.definition();
        definition.is_some_and(|it| check_serves(index, it, source, &everything).is_ok())
    });
    serving.map(|index| IndexPremise { number: index.premise_now(), index })
}

/// Refuses an index that does not have all documents that may match.
fn check_serves(
    index: &UsableIndex,
    definition: &Definition,
    source: &QuerySource<'_>,
    filter: &Filter,
) -> Result<(), &'static str> {
    if source.seqno() < index.usable_from() {
        return Err("it is newer than the snapshot");
    }
    if definition.only.as_ref().is_some_and(|only| !filter.implies(&only.filter)) {
        return Err("it is partial, and the filter does not imply its condition");
    }
    let implies_value = |path: &FieldPath| filter.implies(&Filter::field(path.clone()).exists());
    // Not every value has a length.
    let mut fields = definition.fields.iter().filter(|field| field.computed != Computed::Length);
    if definition.is_sparse && !fields.any(|field| implies_value(&field.path)) {
        return Err("it is sparse, and the filter does not imply that one of its fields exists");
    }
    Ok(())
}

/// Returns what an index can do, and what it can do besides if ranges are merged. `None` if no
/// document can match.
fn access(known: &Known<'_>, spec: &Spec, ask: &Ask) -> Option<(IndexAccess, Option<IndexAccess>)> {
    let Known { index, definition, .. } = known;
    let mut bounded = Prefixes { prefixes: vec![Vec::new()], ranges: None, counts: Vec::new() };
    let (mut are_exact, mut crossing) = (true, Vec::new());
    for (at, field) in definition.fields.iter().enumerate() {
        if field.computed != Computed::Value || bounded.ranges.is_some() {
            break;
        }
        if !known.arrays(at).is_none() {
            // Paths with one beginning may pass through one array. An entry is of one element, and
            // several elements together may meet the conditions on both paths.
            let begin = field.path.names().into_iter().next();
            if crossing.contains(&begin) {
                break;
            }
            crossing.push(begin);
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
    let order = match spec.by_fields() {
        Some(sort) if ask.need == Need::Sort && !known.has_cut() => bounded.order(known, sort),
        _ => None,
    };
    let Prefixes { prefixes, ranges, counts } = bounded;
    let (fields, are_points) = (counts.len(), ranges.is_none());
    let is_multi = (0..definition.fields.len()).any(|at| !known.arrays(at).is_none());
    let is_whole = are_points && fields == definition.fields.len();
    let is_one = prefixes.len() == 1;
    let is_mergeable = is_whole && prefixes.len() <= MERGED_MAX;
    // A query that reads all, as a write does, holds no more than one range open.
    let is_part = spec.limit.is_some() || spec.after.is_some() || ask.is_paged;
    let merges_keys = is_mergeable && !is_one && is_part && ask.need.by_key().is_some();
    let is_key_ordered = is_whole && (is_one || merges_keys);
    let of_prefix = |prefix: &Vec<u8>| IndexRange::of_prefix(prefix);
    let mut ranges = ranges.unwrap_or_else(|| prefixes.iter().map(of_prefix).collect());
    let (mut bounds_keys, mut merge) = (false, None);
    if merges_keys || is_mergeable && !definition.is_unique && spec.bounds_keys() {
        let mut streams = streams(&prefixes, &ranges, prefixes.len());
        if !definition.is_unique
            && let Some(is_exact) = bound_keys(&mut streams, spec)
        {
            (are_exact, bounds_keys) = (are_exact && is_exact, true);
        }
        let ties = ask.need.by_key().unwrap_or(Direction::Ascending);
        let (all, of_keys) = RangeMerge::of(streams, ties);
        (ranges, merge) = (all, merges_keys.then_some(of_keys));
    }
    let are_bounds_exact = are_exact && !known.has_cut();
    let is_read = |path: &FieldPath| is_bounded(definition, fields, bounds_keys, path);
    let is_exact = are_bounds_exact && spec.filter.all_paths(is_read);
    let mut plain = IndexAccess {
        index: (*index).clone(),
        premise: known.premise,
        may_repeat: is_multi && !(is_whole && is_one),
        is_key_ordered,
        ranges,
        fields,
        are_points,
        order: None,
        merge,
        is_exact,
        bounds_keys,
        are_bounds_exact,
        cover: None,
    };
    let covered = |mut access: IndexAccess| {
        let given = Given { is_exact, is_key_ordered, has_order: access.order.is_some() };
        access.cover = cover(known, spec, ask, given);
        access
    };
    let mut merged = None;
    match order {
        Some((order, 1)) if spec.after.is_none() => plain.order = Some(order),
        Some((order, count)) => match plain.ordered(order, &prefixes, count, spec) {
            Some(ordered) if count == 1 => plain = ordered,
            ordered => merged = ordered.map(covered),
        },
        None => {}
    }
    Some((covered(plain), merged))
}

/// Divides ranges into `count` streams of as many each. `prefixes` are those of the ranges.
fn streams(prefixes: &[Vec<u8>], ranges: &[IndexRange], count: usize) -> Vec<Stream> {
    let step = |of: usize| (of / count.max(1)).max(1);
    let chunks = ranges.chunks(step(ranges.len()));
    let firsts = prefixes.iter().step_by(step(prefixes.len()));
    let stream = |(prefix, ranges): (&Vec<u8>, &[IndexRange])| Stream {
        prefix: prefix.clone(),
        ranges: ranges.to_vec(),
    };
    firsts.zip(chunks).map(stream).collect()
}

/// Returns whether ranges that bound this many fields of an index, and the primary key if that is
/// set, bound `path`.
fn is_bounded(definition: &Definition, fields: usize, bounds_keys: bool, path: &FieldPath) -> bool {
    definition.fields.iter().take(fields).any(|field| field.path == *path)
        || bounds_keys && path.is_primary_key()
}

/// Bounds the entries of each stream, which have one value of each field, by their last part, the
/// key of the document. Returns whether that expresses all conditions on the key, or `None` if
/// there are none.
fn bound_keys(streams: &mut [Stream], spec: &Spec) -> Option<bool> {
    let keys = spec.filter.key_bounds();
    let count = keys.intervals().len() * streams.len();
    let is_bounded = !keys.is_everything() && count <= RANGES_MAX;
    let position = spec.key_position();
    for Stream { prefix, ranges } in streams {
        if is_bounded {
            let range = |keys: &Interval| IndexRange::of_keys(prefix, &key_access::range(keys));
            *ranges = keys.intervals().iter().map(range).collect();
        }
        if let Some(position) = &position {
            begin_after(ranges, &[prefix, &*position.key].concat(), position.direction);
        }
    }
    is_bounded.then(|| keys.is_exact())
}

/// Leaves of ranges what is read from the entry with this key on in a direction.
fn begin_at(ranges: &mut Vec<IndexRange>, key: &[u8], direction: Direction) {
    let from = |range: &IndexRange| {
        let mut keys = range.keys().clone();
        match direction {
            Direction::Ascending if keys.starts_before(key) => {
                keys.start = Bound::Included(key.to_vec());
            }
            Direction::Descending if keys.ends_behind(key) => {
                keys.end = Bound::Included(key.to_vec());
            }
            _ => {}
        }
        (!keys.is_empty()).then(|| IndexRange::from(keys))
    };
    *ranges = ranges.iter().filter_map(from).collect();
}

/// Leaves of ranges what is read after the entry with this key in a direction.
fn begin_after(ranges: &mut Vec<IndexRange>, key: &[u8], direction: Direction) {
    let after = |it: &IndexRange| key_access::rest(it.keys().clone(), key, direction);
    *ranges = ranges.iter().filter_map(after).map(IndexRange::from).collect();
}

impl Prefixes {
    /// Returns how the entries give the order of `sort`, and of how many values of the first fields
    /// they are merged. As many fields as can be are among these.
    fn order(&self, known: &Known<'_>, sort: &SortSpec) -> Option<(IndexOrder, usize)> {
        let points = self.counts.len() - usize::from(self.ranges.is_some());
        (0..=points).rev().find_map(|fixed| {
            let counts = &self.counts[..fixed];
            let count = counts.iter().product();
            let order = || IndexOrder::of(known, sort, counts).map(|order| (order, count));
            if count <= MERGED_MAX { order() } else { None }
        })
    }

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
        self.counts.push(intervals.len());
        if let ([prefix], [only]) = (&mut *self.prefixes, &*intervals)
            && let Some(point) = only.as_point().filter(|point| point.len() < POINT_MAX)
        {
            sort_key::directed(point, direction, prefix);
            return true;
        }
        let points: Option<Vec<&[u8]>> = intervals.iter().map(|one| one.as_point()).collect();
        let points = points.filter(|points| points.iter().all(|point| point.len() < POINT_MAX));
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

impl IndexPremise {
    /// Notes that what was read of `source` premises on it.
    pub(super) fn note(&self, source: &QuerySource<'_>) {
        source.rest_on(&self.index, self.number);
    }
}

impl IndexAccess {
    /// Returns the same with the entries in `order`, those of `count` values of the first fields
    /// merged. `None` if the token of the query has no position in this order.
    fn ordered(
        &self,
        order: IndexOrder,
        prefixes: &[Vec<u8>],
        count: usize,
        spec: &Spec,
    ) -> Option<Self> {
        let mut streams = streams(prefixes, &self.ranges, count);
        for stream in &mut streams {
            let len = order.fixed_len(&stream.prefix).ok()?;
            stream.prefix.truncate(len);
        }
        // What is before the position of a token is not read.
        let mut after = None;
        if let Some(token) = &spec.after {
            if order.ties() != token.ties {
                return None;
            }
            for Stream { prefix, ranges } in &mut streams {
                let key = order.entry_key(prefix, token).ok()?;
                if count > 1 && order.is_unique() {
                    begin_at(ranges, &key, order.direction.into());
                } else {
                    begin_after(ranges, &key, order.direction.into());
                }
            }
            let prefix = streams.first().map_or(&[][..], |stream| &stream.prefix);
            let rest = order.entry_key(prefix, token).ok()?.split_off(prefix.len());
            after = order.is_unique().then(|| (rest, token.key.clone()));
        }
        let (ranges, merge) = RangeMerge::of(streams, order.ties().direction());
        let merge = (count > 1).then_some(RangeMerge { after, ..merge });
        Some(Self { ranges, merge, order: Some(order), ..self.clone() })
    }

    /// Notes that what was read of `source` premises on the index.
    pub(super) fn note_use(&self, source: &QuerySource<'_>) {
        source.rest_on(&self.index, self.premise);
    }

    /// Notes that all of its entries were read, by a probe, and are used.
    pub(super) fn note_read(&self, source: &QuerySource<'_>) {
        self.note_use(source);
        self.ranges.iter().for_each(|range| source.note_range(&self.index, range));
    }

    /// The name of the index.
    pub(super) fn name(&self) -> &str {
        self.index.definition().map_or("", |definition| &definition.name)
    }

    /// Returns whether the ranges bound `path`.
    pub(super) fn bounds(&self, path: &FieldPath) -> bool {
        let definition = self.index.definition();
        definition
            .is_some_and(|definition| is_bounded(definition, self.fields, self.bounds_keys, path))
    }

    /// Returns the conditions that entries in the ranges do not prove. An entry and its document
    /// are of one commit, so a document has no need to be checked for what its entry says, unless
    /// it is read at a later moment.
    pub(super) fn unproven<'f>(&self, filter: &'f Filter) -> Cow<'f, Filter> {
        match (self.is_exact, self.are_bounds_exact && self.fields > 0) {
            (true, _) => Cow::Owned(Filter::everything()),
            (false, true) => Cow::Owned(filter.without(|path| self.bounds(path))),
            (false, false) => Cow::Borrowed(filter),
        }
    }

    /// Returns whether the access may cost less than a scan. If not, it reads an entry of each
    /// document for nothing.
    fn may_pay(&self, definition: &Definition, ask: &Ask) -> bool {
        let has_order = ask.need == Need::Sort && self.order.is_some();
        let reads_none = self.cover.is_some() || self.is_exact && !ask.wanted.reads_documents();
        let has_all = definition.only.is_none() && !definition.is_sparse;
        self.fields > 0 || !has_all || has_order || reads_none
    }

    /// Returns how many entries are looked at at once, to merge them.
    pub(super) fn merged(&self) -> usize {
        self.merge.as_ref().map_or(0, |merge| merge.streams.len())
    }

    /// Says what is read, for users. `counts` is set if the query takes no more than a count does.
    pub(super) fn shown(&self, counts: bool) -> String {
        let mut text = match (self.fields, self.ranges.len()) {
            (0, _) => "all of its entries".to_owned(),
            (fields, 1) => format!("one range, bounded in {fields} of its fields"),
            (fields, ranges) => format!("{ranges} ranges, bounded in {fields} of its fields"),
        };
        // Writing to a string does not fail.
        let _infallible = match &self.cover {
            _ if self.is_exact && counts => write!(text, "; exact, so no document is read"),
            Some(_) => write!(text, "; covers the query, so no document is read"),
            None if self.is_exact => write!(text, "; exact, so a count reads no document"),
            None => Ok(()),
        };
        text
    }

    /// Returns the direction in which entries are read.
    pub(super) fn direction(&self, need: Need) -> Order {
        match (need, &self.order) {
            (Need::Keys(direction), _) => direction.into(),
            (Need::Sort, Some(order)) => order.direction,
            _ => Order::Forward,
        }
    }

    /// Returns where entries are read.
    pub(super) fn reader<'s, 't>(source: &'s QuerySource<'t>) -> Reader<'s, 't> {
        match source {
            QuerySource::Snapshot(snapshot) => Reader::Snapshot(snapshot),
            QuerySource::Transaction(transaction) => Reader::Transaction(transaction),
            QuerySource::Probe(transaction) => Reader::Probe(transaction),
            QuerySource::Remote(remote, most) => Reader::Remote(Some(remote), *most),
        }
    }
}
