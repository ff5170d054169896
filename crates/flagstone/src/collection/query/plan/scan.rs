//! The plan that always works: a scan of the collection, from the position of a token on.

use crate::collection::Stored;
use crate::collection::query::explain::PlanInfo;
use crate::collection::query::rows::Rows;
use crate::collection::query::source::Source;
use crate::collection::query::spec::{Hint, Spec};
use flagstone_base::key::KeyRange;
use flagstone_base::{Error, Result};
use std::ops::Bound;

/// What a query needs of its plan.
#[derive(Clone, Copy, Debug)]
pub(in crate::collection::query) struct Need {
    /// The documents in the order of their stored keys.
    pub(in crate::collection::query) ordered: bool,
}

/// Returns the documents that match.
pub(in crate::collection::query) fn rows<'t>(
    stored: &Stored,
    source: &Source<'t>,
    spec: &Spec,
    need: Need,
) -> Result<Rows<'t>> {
    check_hint(stored, spec)?;
    let matcher = match spec.filter.is_everything() {
        true => None,
        false => Some(spec.filter.compile()?),
    };
    let mut range = KeyRange::ALL;
    if let Some(token) = &spec.after {
        token.check(spec.hash(stored), source.history(stored))?;
        if spec.sort.is_none() {
            range.start = Bound::Excluded(token.key.clone());
        }
    }
    Rows::scan(stored, source, range, need.ordered, matcher)
}

/// Returns the plans of a query, the chosen one first.
pub(in crate::collection::query) fn explained(
    stored: &Stored,
    spec: &Spec,
) -> Result<Vec<PlanInfo>> {
    check_hint(stored, spec)?;
    let documents = stored.bytes().approximate_count();
    let notes = match spec.hint {
        Some(Hint::Scan) => "the hint names it",
        _ => "no index serves the filter or the sort",
    };
    Ok(vec![PlanInfo {
        access: "scan of all documents".to_owned(),
        notes: vec![notes.to_owned()],
        rows: documents,
        cost: documents,
    }])
}

fn check_hint(stored: &Stored, spec: &Spec) -> Result<()> {
    match &spec.hint {
        Some(Hint::Index(name)) => Err(Error::invalid(format!(
            "the hint names index {name:?}: collection {:?} has no complete index of that name",
            stored.bytes().name()
        ))),
        _ => Ok(()),
    }
}
