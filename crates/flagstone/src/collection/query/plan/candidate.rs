//! One index as a plan, with its cost.

use super::planner::{Chosen, FETCH, PROBED_MAX, Plan, Planner, SEEK};
use crate::collection::query::access::IndexAccess;
use crate::collection::query::ask::Need;
use crate::collection::query::entries::AccessEntries;
use crate::collection::query::explain::PlanInfo;
use crate::collection::query::key_list::KeyList;
use crate::collection::query::source::QuerySource;
use crate::remote::Sample;
use flagstone_base::Result;
use std::sync::Arc;

/// If a sample says that there are more entries than these, a probe would not find the end.
const MANY: u64 = 16 * PROBED_MAX as u64;
/// Without statistics a range is estimated to have one part in this many of an index, one value of
/// each field ..
const RANGE_PARTS: u64 = 3;
/// .. one part in this many.
const VALUE_PARTS: u64 = 10;
/// As much as a scan reads of a document is read of this many entries.
pub(super) const ENTRIES_PER_DOCUMENT: u64 = 4;

pub(super) struct Candidate {
    pub(super) access: Arc<IndexAccess>,
    /// The keys of all entries that it would read, if they were counted.
    pub(super) known: Option<KeyList>,
    pub(super) has_order: bool,
    /// How many entries it reads, about.
    pub(super) entries: u64,
    how: How,
    info: PlanInfo,
}

impl Candidate {
    /// `is_only` says that there is no other index, and `last` is the candidate before this one. If
    /// that is of the same index, it has read the same entries. `sample` is what is known of those
    /// of a cluster.
    pub(super) fn new(
        planner: &Planner<'_, '_>,
        access: IndexAccess,
        last: Option<&Self>,
        is_only: bool,
        sample: Option<Sample>,
    ) -> Result<Self> {
        let access = Arc::new(access);
        let Planner { ask, documents, .. } = *planner;
        let has_order = ask.need == Need::Sort && access.order.is_some();
        let total = access.index.approximate_count();
        let is_same = |last: &&Self| {
            planner.spec.after.is_none() && last.access.index.id() == access.index.id()
        };
        let (known, entries, how) = match last.filter(is_same) {
            Some(last) => (last.known.clone(), last.entries, last.how),
            None => match sample {
                Some(sample) => {
                    let (entries, how) = sampled(&access, total, sample);
                    (None, entries, how)
                }
                None => Self::count(planner, &access, has_order, is_only, total)?,
            },
        };
        let mut found = entries.min(documents);
        if let Some(last) = planner.last()
            && (ask.need != Need::Sort || has_order)
        {
            // A merge is dearer than a scan if few of its entries match.
            let passed = if access.merge.is_some() { VALUE_PARTS } else { RANGE_PARTS };
            let matching = if access.is_exact { last } else { last.saturating_mul(passed) };
            found = found.min(matching);
        }
        let counts = !ask.wanted.reads_documents();
        let reads_none = access.cover.is_some() || (access.is_exact && counts);
        // Entries that need no sort are read as the query goes on.
        let is_streamed = access.cover.is_some() && ask.need == Need::Any;
        let is_streamed = has_order || access.is_key_ordered || is_streamed;
        let read = if is_streamed { found } else { entries };
        let fetched = if reads_none { 0 } else { found };
        let found_first = access.merged() as u64 * SEEK;
        let cost = read / ENTRIES_PER_DOCUMENT + fetched * FETCH + found_first + 1;
        let notes = planner.notes(|| {
            let number = match how {
                How::Counted => format!("{entries} entries, counted"),
                How::All => format!("about {entries} of {total} entries, all"),
                How::Sampled(sampled) => {
                    format!("about {entries} of {total} entries, by {sampled} sampled ones")
                }
                How::Guessed => {
                    format!("about {entries} of {total} entries, by a rule of thumb")
                }
            };
            let order = match ask.need {
                Need::Sort if has_order => Some("has the order of the sort"),
                Need::Keys(_) if access.is_key_ordered => Some("has the order of the primary key"),
                Need::Keys(_) => Some("its keys are sorted"),
                _ => None,
            };
            let order = order.map(str::to_owned);
            [access.shown(counts), number].into_iter().chain(order).collect()
        });
        let text = planner.text(|| match access.merged() {
            0 => format!("index {:?}", access.name()),
            count => format!("sorted merge of {count} ranges of index {:?}", access.name()),
        });
        let info = PlanInfo { access: text, notes, rows: entries.min(documents), cost };
        Ok(Self { access, known, has_order, entries, how, info })
    }

    /// Counts the entries of the ranges, or estimates how many there are. Returns also their keys,
    /// if they were counted.
    fn count(
        planner: &Planner<'_, '_>,
        access: &Arc<IndexAccess>,
        has_order: bool,
        is_only: bool,
        total: u64,
    ) -> Result<(Option<KeyList>, u64, How)> {
        // A read of a cluster costs more than a wrong guess.
        let is_probed = planner.source.is_of_one_moment()
            && access.fields > 0
            && !(has_order && planner.ends_early(access));
        let probe = || probe(planner.source, access, planner.ask.need);
        let counted = |keys: KeyList| {
            let count = keys.len() as u64;
            (Some(keys), count, How::Counted)
        };
        // Few entries are read in less time than the sample is searched for their number. Of
        // several indexes one may have too many to look at all.
        if is_probed
            && is_only
            && access.are_points
            && let Some(keys) = probe()?
        {
            return Ok(counted(keys));
        }
        let estimate = estimated(access, total);
        let is_known = match estimate {
            (_, How::All) => true,
            (entries, How::Sampled(_)) => entries > MANY,
            _ => false,
        };
        if is_probed
            && !(is_known || is_only && access.are_points)
            && let Some(keys) = probe()?
        {
            return Ok(counted(keys));
        }
        Ok((None, estimate.0, estimate.1))
    }

    /// About how many documents it finds.
    pub(super) const fn rows(&self) -> u64 {
        self.info.rows
    }

    pub(super) fn into_plan(self) -> Plan {
        let Self { access, known, has_order, info, .. } = self;
        Plan { chosen: Chosen::Index { access, known, has_order }, info }
    }
}

/// How the number of entries is known.
#[derive(Clone, Copy)]
enum How {
    Counted,
    All,
    /// By this many sampled entries.
    Sampled(u64),
    Guessed,
}

/// Reads the first entries. Returns their keys if these are all.
fn probe(
    source: &QuerySource<'_>,
    access: &Arc<IndexAccess>,
    need: Need,
) -> Result<Option<KeyList>> {
    let mut entries = AccessEntries::in_order(access, source, need);
    let mut keys = KeyList::default();
    while entries.advance()? {
        if keys.len() == PROBED_MAX {
            return Ok(None);
        }
        keys.push(entries.key());
    }
    Ok(Some(keys))
}

/// Estimates how many entries the ranges have, by a sample of a cluster.
fn sampled(access: &IndexAccess, total: u64, sample: Sample) -> (u64, How) {
    let least = if sample.is_least { estimated(access, total).0 } else { 0 };
    (sample.entries.max(least), How::Sampled(sample.sampled))
}

/// Estimates how many entries the ranges have, more than a probe would read.
fn estimated(access: &IndexAccess, total: u64) -> (u64, How) {
    let least = 2 * PROBED_MAX as u64;
    // All entries of an index are known by their number.
    if access.fields == 0 {
        return (total.max(least), How::All);
    }
    if let Some((entries, sampled)) = access.index.estimate(&access.ranges, total) {
        return (entries.max(least), How::Sampled(sampled));
    }
    let mut values =
        if access.are_points { access.fields } else { access.fields.saturating_sub(1) };
    let mut part = total;
    while values > 0 && part > 0 {
        part /= VALUE_PARTS;
        values -= 1;
    }
    if !access.are_points {
        part /= RANGE_PARTS;
    }
    let entries = part.saturating_mul(access.ranges.len().max(1) as u64).min(total);
    (entries.max(least), How::Guessed)
}
