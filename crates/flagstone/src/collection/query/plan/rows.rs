//! Runs a plan.

use super::choose::{Choice, Chosen, Need, choose};
use crate::collection::Stored;
use crate::collection::query::access::{IndexAccess, Order};
use crate::collection::query::keys::{Entries, Keys};
use crate::collection::query::rows::{Fetch, Rows};
use crate::collection::query::source::Source;
use crate::collection::query::spec::Spec;
use crate::spill::{SortOptions, Sorter};
use flagstone_base::Result;
use flagstone_base::key::KeyRange;
use std::collections::VecDeque;
use std::ops::Bound;

/// The documents that match, and whether they have the order of the sort.
pub(in crate::collection::query) struct Found<'t> {
    pub(in crate::collection::query) rows: Rows<'t>,
    pub(in crate::collection::query) is_sorted: bool,
}

/// Returns the documents that match. `reads_documents` is false for a query that needs their keys
/// alone.
pub(in crate::collection::query) fn rows<'t>(
    stored: &Stored,
    source: &Source<'t>,
    spec: &Spec,
    need: Need,
    reads_documents: bool,
) -> Result<Found<'t>> {
    // The order of an index decides between equal sort keys in its own way: a position after a
    // token is one in the order of a sort in memory.
    let need = if spec.after.is_some() && need == Need::Sort { Need::Any } else { need };
    if let Some(token) = &spec.after {
        token.check(spec.hash(stored), source.history(stored))?;
    }
    let Choice { chosen, .. } = choose(stored, source, spec, need)?;
    let matcher = match spec.filter.is_everything() {
        true => None,
        false => Some(spec.filter.compile()?),
    };
    let position = match &spec.sort {
        None => spec.after.as_ref().map(|token| token.key.clone()),
        Some(_) => None,
    };
    match chosen {
        Chosen::Nothing => Ok(Found { rows: Rows::nothing(stored), is_sorted: true }),
        Chosen::Scan => {
            let start = position.map_or(Bound::Unbounded, Bound::Excluded);
            let range = KeyRange { start, end: Bound::Unbounded };
            let ordered = need == Need::Keys;
            let rows = Rows::scan(stored, source, range, ordered, matcher)?;
            Ok(Found { rows, is_sorted: false })
        }
        Chosen::Index { access, known, has_order } => {
            let keys = match has_order {
                true => in_order(&access, source, known),
                false => by_key(stored, spec, source, &access, (known, need))?,
            };
            let keeps_order = has_order || !matches!(keys, Keys::Entries(..));
            let is_exact = access.is_exact && !reads_documents;
            let matcher = matcher.filter(|_| !is_exact);
            let fetch = Fetch::new(source, keys, keeps_order, !is_exact).after(position);
            Ok(Found { rows: Rows::fetch(stored, fetch, matcher), is_sorted: has_order })
        }
    }
}

/// The keys in the order of the sort.
fn in_order<'t>(
    access: &IndexAccess,
    source: &Source<'t>,
    known: Option<VecDeque<Vec<u8>>>,
) -> Keys<'t> {
    match known {
        Some(keys) => {
            let read = keys.len() as u64;
            Keys::Known(keys, read)
        }
        None => {
            let order = access.order.unwrap_or(Order::Forward);
            Keys::Entries(Box::new(Entries::new(access, source, order)))
        }
    }
}

/// The keys, each once; in their order if that is needed, or costs nothing.
fn by_key<'t>(
    stored: &Stored,
    spec: &Spec,
    source: &Source<'t>,
    access: &IndexAccess,
    (known, need): (Option<VecDeque<Vec<u8>>>, Need),
) -> Result<Keys<'t>> {
    if let Some(keys) = known {
        let read = keys.len() as u64;
        let mut keys: Vec<Vec<u8>> = keys.into();
        keys.sort_unstable();
        keys.dedup();
        return Ok(Keys::Known(keys.into(), read));
    }
    let mut entries = Entries::new(access, source, Order::Forward);
    let is_ordered = access.is_key_ordered || need != Need::Keys;
    if is_ordered && !access.may_repeat {
        return Ok(Keys::Entries(Box::new(entries)));
    }
    let memory = spec.memory(stored);
    let options = SortOptions { memory, limit: None, distinct: true, share: 1 };
    let mut sorter = Sorter::new(stored.bytes().scratch(), options);
    while entries.advance()? {
        sorter.push(entries.key(), b"")?;
    }
    Ok(Keys::Sorted(Box::new(sorter.finish()?), entries.read()))
}
