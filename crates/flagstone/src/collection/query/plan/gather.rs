//! Gathers the keys that plans find.

use super::planner::{GatheredPlan, Several};
use crate::collection::Stored;
use crate::collection::query::access::IndexAccess;
use crate::collection::query::index_order::Order;
use crate::collection::query::key_list::KeyList;
use crate::collection::query::keys::{Keys, RangeEntries};
use crate::collection::query::source::QuerySource;
use crate::spill::{SortOptions, Sorter};
use flagstone_base::Result;
use std::sync::Arc;

/// Where keys are gathered, and in how much memory.
#[derive(Clone, Copy)]
pub(super) struct Gather<'a, 't> {
    pub(super) stored: &'a Stored,
    pub(super) source: &'a QuerySource<'t>,
    pub(super) memory: usize,
}

impl<'t> Gather<'_, 't> {
    fn sorter(&self, share: usize) -> Sorter {
        let memory = self.memory / share;
        let options = SortOptions { memory, limit: None, distinct: true, share };
        Sorter::new(self.stored.bytes().scratch(), options)
    }

    /// The keys of an index, each once; ascending if `is_ordered`, or if that costs nothing.
    pub(super) fn by_key(
        &self,
        access: &Arc<IndexAccess>,
        known: Option<KeyList>,
        is_ordered: bool,
        share: usize,
    ) -> Result<Keys<'t>> {
        if let Some(keys) = known {
            access.note_read(self.source);
            let read = keys.len() as u64;
            return Ok(Keys::Known(keys.sorted(), read));
        }
        let mut entries = RangeEntries::new(access, self.source, Order::Forward);
        if (access.is_key_ordered || !is_ordered) && !access.may_repeat {
            return Ok(Keys::Entries(Box::new(entries)));
        }
        let mut sorter = self.sorter(share);
        while entries.advance()? {
            sorter.push(entries.key(), b"")?;
        }
        Ok(Keys::Sorted(Box::new(sorter.finish()?), entries.read()))
    }

    /// The keys of several plans, ascending and each once.
    pub(super) fn several(&self, several: Several) -> Result<Keys<'t>> {
        several.premises.iter().for_each(|premise| premise.note(self.source));
        let mut parts = several.parts;
        for part in &parts {
            if let (true, GatheredPlan::Index { access, known: Some(_) }) = (several.is_union, part)
            {
                access.note_read(self.source);
            }
        }
        if several.is_union {
            return self.union(parts);
        }
        let share = parts.len();
        let (
            Some(GatheredPlan::Index { access: b, known: known_b }),
            Some(GatheredPlan::Index { access, known }),
        ) = (parts.pop(), parts.pop())
        else {
            return Ok(Keys::Known(KeyList::default(), 0));
        };
        let first = self.by_key(&access, known, true, share)?;
        let second = self.by_key(&b, known_b, true, share)?;
        Ok(Keys::Both(Box::new(first), Box::new(second), Vec::new()))
    }

    fn union(&self, parts: Vec<GatheredPlan>) -> Result<Keys<'t>> {
        let are_known =
            parts.iter().all(|part| !matches!(part, GatheredPlan::Index { known: None, .. }));
        if are_known {
            let (mut all, mut read) = (KeyList::default(), 0);
            for part in parts {
                match part {
                    GatheredPlan::Points(points) => points.iter().for_each(|key| all.push(key)),
                    GatheredPlan::Index { known, .. } => {
                        let known = known.unwrap_or_default();
                        read += known.len() as u64;
                        known.iter().for_each(|key| all.push(key));
                    }
                }
            }
            return Ok(Keys::Known(all.sorted(), read));
        }
        let (mut sorter, mut read) = (self.sorter(1), 0);
        for part in parts {
            match part {
                GatheredPlan::Points(keys) => {
                    keys.iter().try_for_each(|key| sorter.push(key, b""))?
                }
                GatheredPlan::Index { known: Some(keys), .. } => {
                    read += keys.len() as u64;
                    keys.iter().try_for_each(|key| sorter.push(key, b""))?;
                }
                GatheredPlan::Index { access, known: None } => {
                    let mut entries = RangeEntries::new(&access, self.source, Order::Forward);
                    while entries.advance()? {
                        sorter.push(entries.key(), b"")?;
                    }
                    read += entries.read();
                }
            }
        }
        Ok(Keys::Sorted(Box::new(sorter.finish()?), read))
    }
}
