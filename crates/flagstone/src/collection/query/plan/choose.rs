//! Which plan costs least.
//!
//! The first entries of each index are read, so rare values are counted exactly: that is more
//! certain than statistics, and what was read is used if the index is chosen. Beyond that the
//! number of entries is estimated.

use crate::collection::Stored;
use crate::collection::query::access::{IndexAccess, Order, index_accesses};
use crate::collection::query::explain::PlanInfo;
use crate::collection::query::keys::Entries;
use crate::collection::query::source::Source;
use crate::collection::query::spec::{Hint, Spec};
use flagstone_base::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most entries of an index that are read to estimate its cost.
const PROBED_MAX: usize = 128;
/// Of an index, a range is estimated to have one part in this many, one value of each field ..
const RANGE_PARTS: u64 = 3;
/// .. one part in this many.
const VALUE_PARTS: u64 = 10;
/// A document that is read by its key costs as much as this many in a scan ..
const FETCH: u64 = 3;
/// .. and as much as a scan reads is cheaper for entries, this many.
const ENTRIES_PER_DOCUMENT: u64 = 4;

/// The chosen plan, and all plans, the chosen one first.
pub(in crate::collection::query) struct Choice {
    pub(super) chosen: Chosen,
    pub(in crate::collection::query) plans: Vec<PlanInfo>,
}

pub(super) enum Chosen {
    /// No document can match.
    Nothing,
    Scan,
    Index {
        access: IndexAccess,
        /// The keys of all entries, in the order of the access, if there are few.
        known: Option<VecDeque<Vec<u8>>>,
        /// The entries are read in the order of the sort.
        has_order: bool,
    },
}

impl Choice {
    /// Returns whether the plan has the order of the sort.
    pub(in crate::collection::query) const fn has_order(&self) -> bool {
        matches!(self.chosen, Chosen::Nothing | Chosen::Index { has_order: true, .. })
    }
}

/// What a query needs of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::collection::query) enum Need {
    /// The documents in any order.
    Any,
    /// In the order of their stored keys.
    Keys,
    /// In the order of the sort if an index has it; the caller sorts if not.
    Sort,
}

struct Candidate {
    access: IndexAccess,
    known: Option<VecDeque<Vec<u8>>>,
    has_order: bool,
    info: PlanInfo,
}

/// Chooses a plan.
///
/// # Errors
/// InvalidInput for a hint that names no index, or one that lacks documents which may match; errors
/// of reading.
pub(in crate::collection::query) fn choose(
    stored: &Stored,
    source: &Source<'_>,
    spec: &Spec,
    need: Need,
) -> Result<Choice> {
    let documents = stored.bytes().approximate_count();
    let Some((accesses, refused)) = index_accesses(stored, source, spec) else {
        let notes = vec!["no document can match the filter".to_owned()];
        let info = PlanInfo { access: "nothing".to_owned(), notes, rows: 0, cost: 0 };
        check_hint(stored, spec, &[], &[])?;
        return Ok(Choice { chosen: Chosen::Nothing, plans: vec![info] });
    };
    check_hint(stored, spec, &accesses, &refused)?;
    let mut candidates = Vec::new();
    for access in accesses {
        candidates.push(Candidate::new(stored, source, spec, need, access, documents)?);
    }
    let rows = candidates.iter().map(|one| one.info.rows).min().unwrap_or(documents);
    let scan = scan_info(spec, need, documents, rows.min(documents));
    let scan_cost = match spec.hint {
        Some(Hint::Scan) => 0,
        Some(Hint::Index(_)) => u64::MAX,
        None => scan.cost,
    };
    candidates.sort_by_key(|one| one.info.cost);
    if let Some(Hint::Index(name)) = &spec.hint {
        candidates.sort_by_key(|one| one.access.name != *name);
    }
    let is_index = candidates.first().is_some_and(|first| {
        first.info.cost < scan_cost || matches!(spec.hint, Some(Hint::Index(_)))
    });
    let mut plans: Vec<PlanInfo> = candidates.iter().map(|one| one.info.clone()).collect();
    plans.insert(usize::from(is_index), scan);
    if spec.hint.is_some() {
        plans[0].notes.push("the hint names it".to_owned());
    }
    plans.extend(refused.into_iter().map(|(name, reason)| PlanInfo {
        access: format!("index {name:?}"),
        notes: vec![format!("cannot serve the query: {reason}")],
        rows: 0,
        cost: 0,
    }));
    let chosen = match candidates.into_iter().next() {
        Some(Candidate { access, known, has_order, .. }) if is_index => {
            Chosen::Index { access, known, has_order }
        }
        _ => Chosen::Scan,
    };
    Ok(Choice { chosen, plans })
}

fn check_hint(
    stored: &Stored,
    spec: &Spec,
    accesses: &[IndexAccess],
    refused: &[(String, &'static str)],
) -> Result<()> {
    let Some(Hint::Index(wanted)) = &spec.hint else { return Ok(()) };
    if accesses.iter().any(|access| access.name == *wanted) {
        return Ok(());
    }
    let collection = stored.bytes().name();
    Err(Error::invalid(match refused.iter().find(|(name, _)| name == wanted) {
        Some((_, reason)) => format!("the hint names index {wanted:?}, but {reason}"),
        None => format!(
            "the hint names index {wanted:?}: collection {collection:?} has no complete index of \
             that name"
        ),
    }))
}

/// The scan of all documents, of which about `rows` match.
fn scan_info(spec: &Spec, need: Need, documents: u64, rows: u64) -> PlanInfo {
    let mut notes = Vec::new();
    let cost = match spec.last() {
        // It ends when it has found enough.
        Some(last) if need != Need::Sort && rows > 0 => {
            notes.push(format!("ends after {last} documents that match"));
            last.saturating_mul(documents.div_ceil(rows)).min(documents)
        }
        _ => documents,
    };
    PlanInfo { access: "scan of all documents".to_owned(), notes, rows: documents, cost }
}

impl Candidate {
    fn new(
        stored: &Stored,
        source: &Source<'_>,
        spec: &Spec,
        need: Need,
        access: IndexAccess,
        documents: u64,
    ) -> Result<Self> {
        let has_order = need == Need::Sort && access.order.is_some();
        let order = access.order.filter(|_| has_order).unwrap_or(Order::Forward);
        let known = probe(source, &access, order)?;
        let total = entries_of(stored, &access);
        let entries = match &known {
            Some(keys) => keys.len() as u64,
            None => estimated(&access, total).max(2 * PROBED_MAX as u64),
        };
        let mut fetched = entries.min(documents);
        if let Some(last) = spec.last()
            && (need != Need::Sort || has_order)
        {
            let matching = if access.is_exact { last } else { last.saturating_mul(RANGE_PARTS) };
            fetched = fetched.min(matching);
        }
        let read = if has_order || access.is_key_ordered { fetched } else { entries };
        let cost = read / ENTRIES_PER_DOCUMENT + fetched * FETCH + 1;
        let mut notes = vec![access.shown()];
        if known.is_some() {
            notes.push(format!("{entries} entries, counted"));
        } else {
            notes.push(format!("about {entries} of {total} entries"));
        }
        if has_order {
            notes.push("has the order of the sort".to_owned());
        }
        let info = PlanInfo {
            access: format!("index {:?}", access.name),
            notes,
            rows: entries.min(documents),
            cost,
        };
        Ok(Self { access, known, has_order, info })
    }
}

/// Reads the first entries. Returns their keys if these are all.
fn probe(
    source: &Source<'_>,
    access: &IndexAccess,
    order: Order,
) -> Result<Option<VecDeque<Vec<u8>>>> {
    // All entries of an index are known by their number.
    if access.fields == 0 {
        return Ok(None);
    }
    let mut entries = Entries::new(access, source, order);
    let mut keys = VecDeque::new();
    while entries.advance()? {
        if keys.len() == PROBED_MAX {
            return Ok(None);
        }
        keys.push_back(entries.key().to_vec());
    }
    Ok(Some(keys))
}

fn estimated(access: &IndexAccess, total: u64) -> u64 {
    let mut values =
        if access.are_points { access.fields } else { access.fields.saturating_sub(1) };
    let mut part = total;
    while values > 0 && part > 0 {
        part /= VALUE_PARTS;
        values -= 1;
    }
    if !access.are_points && access.fields > 0 {
        part /= RANGE_PARTS;
    }
    part.saturating_mul(access.ranges.len().max(1) as u64).min(total)
}

/// About how many entries an index has, from counters.
fn entries_of(stored: &Stored, access: &IndexAccess) -> u64 {
    let owned = stored.engine().owned(stored.bytes());
    let is_it = |owned: &&flagstone_engine::Keyspace| Arc::ptr_eq(owned, access.index.core());
    owned.iter().find(is_it).map_or(0, flagstone_engine::Keyspace::approximate_count)
}
