//! What a plan is chosen for, and what plans are.

use crate::collection::Stored;
use crate::collection::query::access::{IndexAccess, IndexPremise};
use crate::collection::query::ask::{Ask, Wanted};
use crate::collection::query::explain::PlanInfo;
use crate::collection::query::index_order::TieOrder;
use crate::collection::query::key_access::KeyAccess;
use crate::collection::query::key_list::KeyList;
use crate::collection::query::source::QuerySource;
use crate::collection::query::spec::Spec;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most entries of an index that are read to estimate its cost.
pub(super) const PROBED_MAX: usize = 128;

/// A document that is read by its key costs as much as this many in a scan ..
pub(super) const FETCH: u64 = 3;
/// .. and the first entry of a range that is merged, as much as this many.
pub(super) const SEEK: u64 = 16;

/// What a plan is chosen for.
#[derive(Clone, Copy)]
pub(super) struct Planner<'a, 't> {
    pub(super) stored: &'a Stored,
    pub(super) source: &'a QuerySource<'t>,
    pub(super) spec: &'a Spec,
    pub(super) ask: &'a Ask,
    /// About how many documents there are.
    pub(super) documents: u64,
    /// The query is a part of another one, so only one index or a scan may serve it.
    pub(super) is_part: bool,
    /// Texts for users are wanted: they take longer than the plan of a small query.
    pub(super) explains: bool,
    /// What the plan has taken so far: see [`Choice::work`].
    pub(super) work: u64,
}

/// Keys that are gathered from several plans.
pub(super) struct Several {
    /// Documents of any part, not only of all parts.
    pub(super) is_union: bool,
    pub(super) parts: Vec<GatheredPlan>,
    /// The documents of the keys are just those that match.
    pub(super) is_exact: bool,
    /// What says that alternatives find nothing.
    pub(super) premises: Vec<IndexPremise>,
}

/// A plan whose keys are gathered.
pub(super) enum GatheredPlan {
    /// The documents of single keys, which may be missing.
    Points(VecDeque<Vec<u8>>),
    Index {
        access: Arc<IndexAccess>,
        known: Option<KeyList>,
    },
}

/// The chosen plan, and all plans, the chosen one first.
pub(in crate::collection::query) struct Choice {
    pub(super) chosen: Chosen,
    /// The order of documents with one sort key.
    pub(super) ties: TieOrder,
    pub(in crate::collection::query) plans: Vec<PlanInfo>,
    /// What the choice took: the conditions and values of the filter that were looked at, once for
    /// each index, and the ranges of indexes in which entries may have been read, which are dearer.
    pub(super) work: u64,
}

pub(super) enum Chosen {
    /// No document can match: by the filter alone, or by what is known of an index.
    Nothing(Option<IndexPremise>),
    /// Documents by their keys, or all.
    Keys(KeyAccess),
    Index {
        access: Arc<IndexAccess>,
        /// The keys of all entries, in the order of the access, if there are few.
        known: Option<KeyList>,
        /// The entries are read in the order of the sort.
        has_order: bool,
    },
    /// Keys from several plans.
    Several(Several),
}

impl Chosen {
    /// Counts the query for the indexes that it reads.
    pub(super) fn note_uses(&self) {
        match self {
            Self::Index { access, .. } => access.index.note_use(),
            Self::Several(several) => {
                for part in &several.parts {
                    if let GatheredPlan::Index { access, .. } = part {
                        access.index.note_use();
                    }
                }
            }
            Self::Nothing(_) | Self::Keys(_) => {}
        }
    }
}

/// A plan with its cost.
pub(super) struct Plan {
    pub(super) chosen: Chosen,
    pub(super) info: PlanInfo,
}

impl Choice {
    /// Returns whether the plan has the order of the sort.
    pub(in crate::collection::query) const fn has_order(&self) -> bool {
        matches!(self.chosen, Chosen::Nothing(_) | Chosen::Index { has_order: true, .. })
    }
}

impl Planner<'_, '_> {
    /// Returns a text for users, if texts are wanted.
    pub(super) fn text(&self, make: impl FnOnce() -> String) -> String {
        if self.explains { make() } else { String::new() }
    }

    /// Returns notes for users, if texts are wanted.
    pub(super) fn notes(&self, make: impl FnOnce() -> Vec<String>) -> Vec<String> {
        if self.explains { make() } else { Vec::new() }
    }

    /// Returns whether the query ends after few entries, however many there are, if they come in an
    /// order that suffices.
    pub(super) fn ends_soon(&self) -> bool {
        self.last().is_some_and(|last| last <= PROBED_MAX as u64)
    }

    /// Returns whether a query that reads `access` in the order of the sort ends after few entries,
    /// and before a scan would: then it is not worth a look at how many there are. Conditions that
    /// entries do not prove may take it further.
    pub(super) fn ends_early(&self, access: &IndexAccess) -> bool {
        let cost = |last: u64| FETCH * last + SEEK * access.merged() as u64;
        let is_certain =
            |last: u64| access.merge.is_none() || access.is_exact && cost(last) < self.documents;
        self.ends_soon() && self.last().is_some_and(is_certain)
    }

    /// The documents after which the query ends, if they come in an order that suffices.
    pub(super) fn last(&self) -> Option<u64> {
        match self.ask.wanted {
            // The limit is that of values or groups.
            Wanted::Distinct { .. } | Wanted::Values { .. } => None,
            _ => self.spec.last(),
        }
    }
}
