//! Runs a plan.

use super::choose::Chooser;
use super::gather::Gather;
use super::planner::{Choice, Chosen};
use crate::collection::Stored;
use crate::collection::query::access::IndexAccess;
use crate::collection::query::ask::{Ask, Need};
use crate::collection::query::covered::Covered;
use crate::collection::query::entries::AccessEntries;
use crate::collection::query::index_order::{IndexOrder, TieOrder};
use crate::collection::query::key_access::KeyAccess;
use crate::collection::query::key_list::KeyList;
use crate::collection::query::keys::Keys;
use crate::collection::query::projector::Projector;
use crate::collection::query::rows::{Fetch, Rows};
use crate::collection::query::source::{Ordering, QuerySource};
use crate::collection::query::spec::Spec;
use flagstone_base::{Error, Result};
use flagstone_doc::{Direction, Filter};
use std::borrow::Cow;
use std::sync::Arc;

/// The documents that match, and whether they have the order of the sort.
pub(in crate::collection::query) struct Found<'t> {
    pub(in crate::collection::query) rows: Rows<'t>,
    pub(in crate::collection::query) is_sorted: bool,
    /// How an index gives that order.
    pub(in crate::collection::query) order: Option<IndexOrder>,
    /// The order of documents with one sort key.
    pub(in crate::collection::query) ties: TieOrder,
}

/// Returns the documents that match, or what an index says of them if no more is asked for.
pub(in crate::collection::query) fn rows<'t>(
    stored: &Stored,
    source: &QuerySource<'t>,
    spec: &Spec,
    ask: Ask,
) -> Result<Found<'t>> {
    if let Some(token) = &spec.after {
        token.check(spec.hash(stored), source.history(stored)?)?;
    }
    let choice = Chooser::new(stored, &source.probing(), spec, &ask).choose()?;
    choice.chosen.note_uses();
    found(stored, source, spec, &ask, choice.chosen, choice.ties)
}

/// A part of a plan, which a thread of its own may run.
pub(in crate::collection::query) struct Part(Chosen);

/// Returns the parts of the plan of a query without order, skip and limit: at most `most` of them.
/// Each document that matches is in one of them.
pub(in crate::collection::query) fn parts(
    stored: &Stored,
    source: &QuerySource<'_>,
    spec: &Spec,
    ask: &Ask,
    most: usize,
) -> Result<Vec<Part>> {
    let Choice { chosen, .. } = Chooser::new(stored, &source.probing(), spec, ask).choose()?;
    chosen.note_uses();
    Ok(chosen.into_parts(stored, most).into_iter().map(Part).collect())
}

impl Part {
    /// Returns the documents of the part that match.
    pub(in crate::collection::query) fn run<'t>(
        self,
        stored: &Stored,
        source: &QuerySource<'t>,
        spec: &Spec,
        ask: &Ask,
    ) -> Result<Rows<'t>> {
        Ok(found(stored, source, spec, ask, self.0, TieOrder::default())?.rows)
    }
}

fn found<'t>(
    stored: &Stored,
    source: &QuerySource<'t>,
    spec: &Spec,
    ask: &Ask,
    chosen: Chosen,
    ties: TieOrder,
) -> Result<Found<'t>> {
    let found = of_all_shards(stored, source, spec, ask, chosen, ties)?;
    Ok(Found { rows: found.rows.of_shard(spec.shard), ..found })
}

fn of_all_shards<'t>(
    stored: &Stored,
    source: &QuerySource<'t>,
    spec: &Spec,
    ask: &Ask,
    chosen: Chosen,
    ties: TieOrder,
) -> Result<Found<'t>> {
    let matcher = |filter: &Filter| {
        if filter.is_everything() { Ok(None) } else { filter.compile_with_key().map(Some) }
    };
    let has_order =
        ask.need != Need::Sort || matches!(chosen, Chosen::Index { has_order: true, .. });
    let source = &source.taking(spec.last().filter(|_| has_order));
    let everything = Filter::everything();
    let position = spec.key_position();
    let by_key = ask.need.by_key();
    let gather = Gather { stored, source, memory: spec.memory(stored) };
    match chosen {
        Chosen::Nothing(premise) => {
            premise.iter().for_each(|premise| premise.note(source));
            Ok(Found { rows: Rows::nothing(stored), is_sorted: true, order: None, ties })
        }
        Chosen::Keys(KeyAccess::Points(points)) => {
            let points: KeyList = points.iter().map(Vec::as_slice).collect();
            let points = points.sorted(by_key.unwrap_or(Direction::Ascending));
            let fetch = Fetch::new(source, Keys::Known(points, 0));
            let rows = Rows::fetch(stored, fetch, matcher(&spec.filter)?);
            Ok(Found { rows, is_sorted: false, order: None, ties })
        }
        Chosen::Keys(keys) => {
            let ordered = match by_key {
                Some(direction) => Ordering::ByKey(direction),
                _ if ask.is_bulk => Ordering::AnyInBulk,
                _ => Ordering::Any,
            };
            let scan = source.scan(stored, keys.into_ranges(), ordered)?;
            let rows = Rows::scan(stored, scan, matcher(&spec.filter)?);
            Ok(Found { rows, is_sorted: false, order: None, ties })
        }
        Chosen::Several(several) => {
            // What is read of several indexes of a cluster is not of one moment.
            let is_exact =
                several.is_exact && !ask.wanted.reads_documents() && source.is_of_one_moment();
            let keys = gather.several(several, by_key.unwrap_or(Direction::Ascending))?;
            let fetch = Fetch::new(source, keys).reads_documents(!is_exact).after(position);
            let left = if is_exact { &everything } else { &spec.filter };
            let rows = Rows::fetch(stored, fetch, matcher(left)?);
            Ok(Found { rows, is_sorted: false, order: None, ties })
        }
        Chosen::Index { access, has_order, .. } if access.cover.is_some() => {
            let entries = AccessEntries::in_order(&access, source, ask.need);
            let projector = spec.projection.as_ref().map(Projector::new);
            let cover = access.cover.clone();
            let covered =
                cover.and_then(|cover| Covered::new(source, entries, cover, projector, position));
            let covered = covered.ok_or_else(|| Error::invalid("an index that covers a query"))?;
            let left = access.unproven(&spec.filter);
            let rows = Rows::covered(stored, covered, matcher(&left)?);
            let order = access.order.clone().filter(|_| has_order);
            Ok(Found { rows, is_sorted: has_order, order, ties })
        }
        Chosen::Index { access, known, has_order } => {
            let keys = if has_order {
                in_order(&access, source, known.filter(|_| !ask.is_paged))
            } else {
                gather.by_key(&access, known, by_key, 1)?
            };
            // Entries that are read where keys must ascend are in the order of the keys.
            let keeps_order = has_order || by_key.is_some() || !matches!(keys, Keys::Entries(..));
            let reads = ask.wanted.reads_documents() || !access.is_exact;
            let fetch = Fetch::new(source, keys).keeps_order(keeps_order).reads_documents(reads);
            let all_match = spec.shard.is_none() && access.unproven(&spec.filter).is_everything();
            let fetch = fetch.taking(source.most().filter(|_| all_match)).after(position);
            let is_read_later = reads && !source.is_of_one_moment();
            let left = if is_read_later {
                Cow::Borrowed(&spec.filter)
            } else {
                access.unproven(&spec.filter)
            };
            let rows = Rows::fetch(stored, fetch, matcher(&left)?);
            let order = access.order.clone().filter(|_| has_order);
            Ok(Found { rows, is_sorted: has_order, order, ties })
        }
    }
}

/// The keys in the order of the sort.
fn in_order<'t>(
    access: &Arc<IndexAccess>,
    source: &QuerySource<'t>,
    known: Option<KeyList>,
) -> Keys<'t> {
    match known {
        Some(keys) => {
            access.note_read(source);
            let read = keys.len() as u64;
            Keys::Known(keys, read)
        }
        None => Keys::Entries(Box::new(AccessEntries::in_order(access, source, Need::Sort))),
    }
}
