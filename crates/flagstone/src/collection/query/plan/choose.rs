//! Which plan costs least.
//!
//! The first entries of each index are read, so rare values are counted exactly: that is more
//! certain than statistics, and what was read is used if the index is chosen. Beyond that the
//! number of entries is estimated.

use super::candidate::Candidate;
use super::planner::{Choice, Chosen, FETCH, Plan, Planner};
use super::several::{intersection, union};
use crate::collection::Stored;
use crate::collection::index::usable;
use crate::collection::query::access::{IndexAccess, IndexPremise, RefusedIndex, index_accesses};
use crate::collection::query::ask::{Ask, Need};
use crate::collection::query::explain::PlanInfo;
use crate::collection::query::index_order::TieOrder;
use crate::collection::query::key_access::KeyAccess;
use crate::collection::query::source::{Ordering, QuerySource};
use crate::collection::query::spec::{Hint, Spec, key_direction};
use crate::remote::Sample;
use flagstone_base::key::KeyRange;
use flagstone_base::sorted::sort_by;
use flagstone_base::{Error, Result};
use flagstone_doc::Direction;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Of the keys, a range is estimated to have one part in this many, unless few are found in it.
const RANGE_PARTS: u64 = 3;
/// The most documents that are read to estimate the cost of a range of keys.
const PROBED_MAX: u64 = 16;
/// Ranges of keys may be empty, so documents are counted only in so few.
const PROBED_RANGES_MAX: usize = 64;
/// The memory of a range that is read at once with others: its blocks.
const MERGED_BYTES: usize = 16 << 10;
/// A range of an index, in which entries may be read, is as much work as this many conditions.
const RANGE_WORK: u64 = 8;

/// Chooses a plan for a query.
pub(in crate::collection::query) struct Chooser<'a, 't>(pub(super) Planner<'a, 't>);

impl<'a, 't> Chooser<'a, 't> {
    pub(in crate::collection::query) fn new(
        stored: &'a Stored,
        source: &'a QuerySource<'t>,
        spec: &'a Spec,
        ask: &'a Ask,
    ) -> Self {
        let documents = stored.approximate_count();
        let (is_part, explains, work) = (false, false, 0);
        Self(Planner { stored, source, spec, ask, documents, is_part, explains, work })
    }

    /// Makes texts for users, too.
    pub(in crate::collection::query) const fn explaining(mut self) -> Self {
        self.0.explains = true;
        self
    }

    /// Chooses a plan. `source` is one to probe: what the plan premises on is noted when it is run.
    ///
    /// # Errors
    /// InvalidInput for a hint that names no index, or one that lacks documents which may match;
    /// errors of reading.
    pub(in crate::collection::query) fn choose(&self) -> Result<Choice> {
        let Planner { stored, source, spec, ask, documents, .. } = self.0;
        // A user who asks sees also what cannot pay.
        let all = self.0.explains || spec.hint.is_some();
        let found = if spec.filter.is_nothing() {
            Err(None)
        } else {
            index_accesses(stored, source, spec, ask, all).map_err(Some)
        };
        let (mut accesses, refused, keys) = match (found, KeyAccess::of(&spec.filter)) {
            (Ok((accesses, refused)), Some(keys)) => (accesses, refused, keys),
            (found, keys) => {
                self.check_name()?;
                let premise = keys.and_then(|_| found.err().flatten());
                return Ok(nothing(self.weight(0), premise));
            }
        };
        self.check_hint(&accesses, &refused)?;
        let ties = self.settle_ties(&mut accesses);
        self.keep_merges(&mut accesses);
        let ranges: usize = accesses.iter().map(|access| access.ranges.len()).sum();
        let indexes = accesses.len() + refused.len();
        let work = self.weight(indexes) + ranges as u64 * RANGE_WORK;
        let mut bounded: Vec<u32> = accesses.iter().filter(|it| it.fields > 0).map(id).collect();
        bounded.dedup();
        let is_only = bounded.len() == 1;
        let is_chosen = is_only || spec.hint.is_some() && !self.0.explains;
        let samples = if is_chosen { Vec::new() } else { self.samples(&accesses) };
        let mut samples = samples.into_iter();
        let mut candidates: Vec<Candidate> = Vec::with_capacity(accesses.len());
        for access in accesses {
            let (last, sample) = (candidates.last(), samples.next().flatten());
            candidates.push(Candidate::new(&self.0, access, last, is_only, sample)?);
        }
        let has_order_of_token = self.keep_order(&mut candidates)?;
        let rows = candidates.iter().map(|one| one.rows()).min().unwrap_or(documents);
        let scan = self.by_keys(keys, rows)?;
        let planner = Planner { work, ..self.0 };
        let several = Self(planner).several(&candidates)?;
        let mut plans: Vec<Plan> = candidates.into_iter().map(Candidate::into_plan).collect();
        plans.push(scan);
        plans.extend(several);
        let order = |plan: &Plan| (!self.is_hinted(plan, has_order_of_token), plan.info.cost);
        sort_by(&mut plans, |a, b| order(a).cmp(&order(b)));
        let is_hinted = plans.first().is_some_and(|plan| self.is_hinted(plan, has_order_of_token));
        if !is_hinted {
            return Err(Error::invalid(
                "the hint asks for several indexes, but the filter has no conditions on two, or \
                 has so many that their plans would take too long",
            ));
        }
        let infos = self.infos(&plans, refused);
        let chosen = plans.into_iter().next().map_or(Chosen::Nothing(None), |plan| plan.chosen);
        Ok(Choice { chosen, ties, plans: infos, work })
    }

    /// Looks at the entries of several indexes of a cluster at once. The parts of a query are not
    /// worth a read of their own.
    fn samples(&self, accesses: &[IndexAccess]) -> Vec<Option<Sample>> {
        let Planner { source, is_part, .. } = self.0;
        let Some(remote) = source.remote().filter(|_| !is_part) else { return Vec::new() };
        let mut asked: Vec<(u32, Vec<KeyRange>)> = Vec::new();
        for access in accesses {
            let is_new = asked.last().is_none_or(|(last, _)| *last != id(access));
            let is_asked = access.fields > 0 && is_new && !self.0.ends_early(access);
            let ranges = access.ranges.iter().filter(|_| is_asked);
            asked.push((id(access), ranges.map(|range| range.keys().clone()).collect()));
        }
        if asked.iter().filter(|(_, ranges)| !ranges.is_empty()).count() < 2 {
            return Vec::new();
        }
        remote.sample(&asked)
    }

    /// What it takes to look at the filter for the keys and for each of so many indexes.
    fn weight(&self, indexes: usize) -> u64 {
        self.0.spec.filter.weight() as u64 * (1 + indexes as u64)
    }

    /// What users see of the plans: the chosen one first.
    fn infos(&self, plans: &[Plan], refused: Vec<RefusedIndex>) -> Vec<PlanInfo> {
        let Planner { spec, explains, .. } = self.0;
        let shown = if explains { plans.len() } else { 1 };
        let mut infos: Vec<PlanInfo> =
            plans.iter().take(shown).map(|plan| plan.info.clone()).collect();
        if !explains {
            return infos;
        }
        if let (Some(_), Some(first)) = (&spec.hint, infos.first_mut()) {
            first.notes.push("the hint names it".to_owned());
        }
        infos.extend(refused.into_iter().map(|(name, reason)| PlanInfo {
            access: format!("index {name:?}"),
            notes: vec![format!("cannot serve the query: {reason}")],
            rows: 0,
            cost: 0,
        }));
        infos
    }

    /// Chooses the order of documents with one sort key, by what pages of one query share: neither
    /// skip nor limit counts, nor what is estimated. An index with another order of them serves as
    /// one without the order of the sort.
    fn settle_ties(&self, accesses: &mut [IndexAccess]) -> TieOrder {
        let Planner { spec, ask, .. } = self.0;
        if let Some(token) = &spec.after {
            return TieOrder::Keys(token.ties.direction());
        }
        if let Some(direction) = spec.sort.as_ref().and_then(key_direction) {
            return TieOrder::Keys(direction);
        }
        if ask.need != Need::Sort {
            return TieOrder::default();
        }
        let hinted = match &spec.hint {
            Some(Hint::Index(name)) => Some(name.as_str()),
            _ => None,
        };
        let rank = |access: &&IndexAccess| {
            let is_hinted = hinted == Some(access.name());
            (is_hinted, access.cover.is_some(), access.fields, Reverse(id(access)))
        };
        let best = accesses.iter().filter(|access| access.order.is_some()).max_by_key(rank);
        let Some((access, order)) = best.and_then(|best| Some((best, best.order.as_ref()?))) else {
            return TieOrder::default();
        };
        let (ties, tie_order) = (order.ties(), order.tie_order(&access.index));
        for access in accesses {
            if access.order.as_ref().is_some_and(|order| order.ties() == ties) {
                continue;
            }
            // Entries that cover the query may lack what orders the documents, unless it is they.
            let is_other = match &tie_order {
                TieOrder::Keys(_) => false,
                TieOrder::Entries(index, ..) => index.id() != id(access),
            };
            if access.order.take().is_some() || is_other {
                access.cover = None;
            }
        }
        tie_order
    }

    /// Keeps the merges of ranges that may read less than what sorts: if the query ends, they read
    /// a part of the same entries. If it ends soon, it is not worth a look at how many there are.
    fn keep_merges(&self, accesses: &mut Vec<IndexAccess>) {
        if self.0.ask.need != Need::Sort || accesses.iter().all(|access| access.merge.is_none()) {
            return;
        }
        let needs = self.0.spec.after.as_ref().map_or(0, |token| token.ties.index);
        let most = self.0.spec.memory(self.0.stored) / MERGED_BYTES;
        let is_kept = |access: &IndexAccess| {
            let may_end = self.0.last().is_some() && access.merged() <= most;
            access.merge.is_none() || access.order.is_some() && (may_end || id(access) == needs)
        };
        accesses.retain(is_kept);
        let merged = accesses.iter().filter(|access| access.merge.is_some());
        let merged: Vec<u32> = merged.filter(|it| self.0.ends_early(it)).map(id).collect();
        accesses.retain(|access| access.merge.is_some() || !merged.contains(&id(access)));
    }

    /// Unions and intersections of indexes.
    fn several(&self, candidates: &[Candidate]) -> Result<Vec<Plan>> {
        let is_single = matches!(self.0.spec.hint, Some(Hint::Scan | Hint::Index(_)));
        if self.0.is_part || is_single {
            return Ok(Vec::new());
        }
        let choose = |part: Planner<'_, '_>| Chooser(part).choose();
        let mut plans: Vec<Plan> = union(&self.0, choose)?.into_iter().collect();
        plans.extend(intersection(&self.0, candidates));
        Ok(plans)
    }

    /// Returns whether the hint and the token, if there are any, take the plan.
    fn is_hinted(&self, plan: &Plan, has_order_of_token: bool) -> bool {
        if has_order_of_token {
            return matches!(plan.chosen, Chosen::Index { .. });
        }
        match (&self.0.spec.hint, &plan.chosen) {
            (None, _) | (Some(Hint::Scan), Chosen::Keys(_)) => true,
            (Some(Hint::Index(name)), Chosen::Index { access, .. }) => access.name() == *name,
            (Some(Hint::Union), Chosen::Several(several)) => several.is_union,
            (Some(Hint::Intersection), Chosen::Several(several)) => !several.is_union,
            _ => false,
        }
    }

    /// Keeps only the index whose order a token has, if it has the order of one. Returns whether it
    /// has.
    fn keep_order(&self, candidates: &mut Vec<Candidate>) -> Result<bool> {
        let token = self.0.spec.after.as_ref().filter(|_| self.0.ask.need == Need::Sort);
        let Some(index) = token.map(|token| token.ties.index).filter(|index| *index != 0) else {
            return Ok(false);
        };
        candidates.retain(|one| one.has_order && id(&one.access) == index);
        let is_hinted = match (&self.0.spec.hint, candidates.first()) {
            (None, Some(_)) => true,
            (Some(Hint::Index(name)), Some(one)) => one.access.name() == *name,
            _ => false,
        };
        if is_hinted {
            Ok(true)
        } else {
            Err(Error::invalid(
                "the token is a position in the order of an index that is gone, or has this order \
                 no more, or is not the one of the hint: expected a query from the first page on",
            ))
        }
    }

    /// Checks the hint of a query that finds nothing, whatever the index: it must exist.
    fn check_name(&self) -> Result<()> {
        let Some(Hint::Index(wanted)) = &self.0.spec.hint else { return Ok(()) };
        let complete = usable(self.0.stored);
        let mut names = complete.iter().filter_map(|index| index.definition());
        if names.any(|definition| definition.name == *wanted) {
            Ok(())
        } else {
            self.check_hint(&[], &[])
        }
    }

    fn check_hint(&self, accesses: &[IndexAccess], refused: &[RefusedIndex]) -> Result<()> {
        let Some(Hint::Index(wanted)) = &self.0.spec.hint else { return Ok(()) };
        if accesses.iter().any(|access| access.name() == *wanted) {
            return Ok(());
        }
        let collection = self.0.stored.name();
        Err(Error::invalid(match refused.iter().find(|(name, _)| name == wanted) {
            Some((_, reason)) => format!("the hint names index {wanted:?}, but {reason}"),
            None => format!(
                "the hint names index {wanted:?}: collection {collection:?} has no complete index \
                 of that name"
            ),
        }))
    }

    /// The documents of some keys, or a scan of all documents, of which about `rows` match.
    fn by_keys(&self, keys: KeyAccess, rows: u64) -> Result<Plan> {
        let (mut notes, mut is_counted) = (Vec::new(), false);
        let found = match &keys {
            KeyAccess::All => self.0.documents,
            KeyAccess::Points(points) => points.len() as u64,
            KeyAccess::Ranges(ranges) => {
                let few = self.few(ranges.clone())?;
                is_counted = few.is_some();
                few.unwrap_or((self.0.documents / RANGE_PARTS).max(2 * PROBED_MAX))
            }
        };
        if is_counted {
            notes.extend(self.0.notes(|| vec![format!("{found} documents, counted")]));
        }
        let each = if matches!(keys, KeyAccess::Points(_)) { FETCH } else { 1 };
        let rows = rows.min(found);
        let cost = match self.0.last() {
            // It ends when it has found enough.
            Some(last) if self.0.ask.need != Need::Sort && rows > 0 => {
                let note = || vec![format!("ends after {last} documents that match")];
                notes.extend(self.0.notes(note));
                last.saturating_mul(found.div_ceil(rows)).min(found)
            }
            _ => found,
        };
        let access = self.0.text(|| keys.shown());
        let info = PlanInfo { access, notes, rows: found, cost: cost * each };
        let keys = match self.0.spec.key_position() {
            Some(position) => keys.after(&position),
            None => keys,
        };
        Ok(Plan { chosen: Chosen::Keys(keys), info })
    }

    /// Counts the documents of ranges of keys, if there are few.
    fn few(&self, ranges: VecDeque<KeyRange>) -> Result<Option<u64>> {
        if ranges.len() > PROBED_RANGES_MAX {
            return Ok(None);
        }
        let ordered = Ordering::ByKey(Direction::Ascending);
        let mut scan = self.0.source.scan(self.0.stored, ranges, ordered)?;
        let mut count = 0;
        while scan.advance()? {
            count += 1;
            if count > PROBED_MAX {
                return Ok(None);
            }
        }
        Ok(Some(count))
    }
}

/// The keyspace of an index.
fn id(access: &IndexAccess) -> u32 {
    access.index.id()
}

/// The plan of a filter that no document can match, as `premise` tells if the filter does not.
fn nothing(work: u64, premise: Option<IndexPremise>) -> Choice {
    let notes = vec!["no document can match the filter".to_owned()];
    let info = PlanInfo { access: "nothing".to_owned(), notes, rows: 0, cost: 0 };
    let ties = TieOrder::default();
    Choice { chosen: Chosen::Nothing(premise), ties, plans: vec![info], work }
}
