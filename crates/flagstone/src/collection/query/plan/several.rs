//! Plans that take keys from several indexes: the union of alternatives, and the intersection of
//! two conditions.

use super::candidate::{Candidate, ENTRIES_PER_DOCUMENT};
use super::planner::{Choice, Chosen, FETCH, GatheredPlan, Plan, Planner, Several};
use crate::collection::query::ask::{Ask, Need, Wanted};
use crate::collection::query::explain::PlanInfo;
use crate::collection::query::key_access::KeyAccess;
use crate::collection::query::spec::{Hint, Spec};
use flagstone_base::Result;
use flagstone_base::sorted::sort_by;
use flagstone_doc::Filter;
use std::sync::Arc;

/// The most indexes of which pairs are considered: those that have the fewest entries.
const INTERSECTED_MAX: usize = 16;
/// The most alternatives of one `$or` that are planned by themselves.
const ALTERNATIVES_MAX: usize = 64;
/// The most work that the alternatives of one query take, in the units of [`Choice::work`]: about a
/// tenth of a second. A filter of 10,000 conditions that are all an `$or` would else be planned
/// 10,000 times.
const WORK_MAX: u64 = 1 << 18;

/// Returns the cheapest plan that unites the documents of alternatives, each by its own index. The
/// `$or`s are looked at in their order, as far as the work allows.
pub(super) fn union(
    planner: &Planner<'_, '_>,
    choose: impl Fn(Planner<'_, '_>) -> Result<Choice>,
) -> Result<Option<Plan>> {
    let mut best: Option<Plan> = None;
    let mut left = WORK_MAX;
    for alternatives in planner.spec.filter.alternatives(ALTERNATIVES_MAX) {
        let planned = |part: Planner<'_, '_>| {
            // What the whole filter took, the part does, too, about.
            let choice = if left < planner.work { None } else { Some(choose(part)?) };
            left = left.saturating_sub(choice.as_ref().map_or(left, |choice| choice.work));
            Ok(choice)
        };
        if let Some(plan) = united(planner, alternatives, planned)?
            && best.as_ref().is_none_or(|best| plan.info.cost < best.info.cost)
        {
            best = Some(plan);
        }
        if left == 0 {
            break;
        }
    }
    Ok(best)
}

/// Unites the documents of `alternatives`. `None` if one of them needs a scan, or more work than is
/// left.
fn united(
    planner: &Planner<'_, '_>,
    alternatives: impl Iterator<Item = Filter>,
    mut choose: impl FnMut(Planner<'_, '_>) -> Result<Option<Choice>>,
) -> Result<Option<Plan>> {
    let (mut parts, mut notes, mut is_exact) = (Vec::new(), Vec::new(), true);
    let (mut entries, mut rows, mut premises) = (0, 0_u64, Vec::new());
    for filter in alternatives {
        let spec = Spec::new(filter);
        let ask = Ask::new(Need::Any, Wanted::Key);
        let part = Planner { spec: &spec, ask: &ask, is_part: true, ..*planner };
        // The hint is for the whole query: a part of it may take any index.
        let Some(choice) = choose(part)? else { return Ok(None) };
        let Some(info) = choice.plans.first() else { continue };
        notes.push(planner.text(|| format!("{} (rows ~{})", info.access, info.rows)));
        rows += info.rows;
        match choice.chosen {
            Chosen::Nothing(premise) => premises.extend(premise),
            Chosen::Keys(KeyAccess::Points(points)) => {
                is_exact = false;
                parts.push(GatheredPlan::Points(points));
            }
            Chosen::Index { access, known, .. } if access.fields > 0 => {
                is_exact &= access.is_exact;
                entries += info.rows;
                parts.push(GatheredPlan::Index { access, known });
            }
            // A scan for one alternative serves the others, too.
            _ => return Ok(None),
        }
    }
    let rows = rows.min(planner.documents);
    let several = Several { is_union: true, parts, is_exact, premises };
    Ok(Some(plan(planner, several, notes, entries, rows)))
}

/// Returns the plan that fetches what two indexes find, if both are worth it.
pub(super) fn intersection(planner: &Planner<'_, '_>, candidates: &[Candidate]) -> Option<Plan> {
    let is_hinted = planner.spec.hint == Some(Hint::Intersection);
    // Few documents are fetched sooner than another index is read.
    let is_useful = |one: &&Candidate| one.access.fields > 0 && (is_hinted || one.known.is_none());
    let mut useful: Vec<&Candidate> = candidates.iter().filter(is_useful).collect();
    sort_by(&mut useful, |a, b| a.entries.cmp(&b.entries));
    useful.truncate(INTERSECTED_MAX);
    let paths = planner.spec.filter.paths();
    let adds = |first: &Candidate, second: &Candidate| {
        let mut added = paths.iter().filter(|path| !first.access.bounds(path));
        added.any(|path| second.access.bounds(path))
    };
    let found = |first: &Candidate, second: &Candidate| {
        let rows = u128::from(first.entries) * u128::from(second.entries);
        (rows / u128::from(planner.documents.max(1))) as u64 + 1
    };
    // The first may have a field of the second, and the second all of the first.
    let pairs = useful.iter().enumerate().flat_map(|(at, first)| {
        useful[at + 1..].iter().filter(|second| adds(first, second)).map(move |one| (*first, *one))
    });
    let cost = |(first, second): &(&Candidate, &Candidate)| {
        let fetched = found(first, second).min(first.entries) * FETCH;
        2 * (first.entries + second.entries) / ENTRIES_PER_DOCUMENT + fetched
    };
    let (first, second) = pairs.min_by_key(cost)?;
    let rows = found(first, second);
    let is_exact = [first, second].iter().all(|one| one.access.are_bounds_exact)
        && paths.iter().all(|path| first.access.bounds(path) || second.access.bounds(path));
    let notes = [first, second].map(|one| {
        planner.text(|| format!("index {:?}, about {} entries", one.access.name(), one.entries))
    });
    let part = |one: &Candidate| GatheredPlan::Index {
        access: Arc::clone(&one.access),
        known: one.known.clone(),
    };
    let parts = vec![part(first), part(second)];
    let several = Several { is_union: false, parts, is_exact, premises: Vec::new() };
    let entries = first.entries + second.entries;
    Some(plan(planner, several, notes.into(), entries, rows.min(first.entries)))
}

fn plan(
    planner: &Planner<'_, '_>,
    several: Several,
    mut notes: Vec<String>,
    entries: u64,
    rows: u64,
) -> Plan {
    let is_read = planner.ask.wanted.reads_documents() || !several.is_exact;
    // Keys are read, and sorted.
    let gathered = 2 * entries / ENTRIES_PER_DOCUMENT;
    let cost = gathered + if is_read { rows * FETCH } else { 0 } + 1;
    if !is_read {
        notes.push("exact, so no document is read".to_owned());
    }
    let access = planner.text(|| {
        if several.is_union {
            format!("union of {} plans", several.parts.len())
        } else {
            format!("intersection of {} indexes", several.parts.len())
        }
    });
    let info = PlanInfo { access, notes, rows, cost };
    Plan { chosen: Chosen::Several(several), info }
}
