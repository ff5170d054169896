//! Gathers the keys that plans find.

use super::planner::{GatheredPlan, Several};
use crate::collection::Stored;
use crate::collection::index::Order;
use crate::collection::query::access::IndexAccess;
use crate::collection::query::ask::Need;
use crate::collection::query::entries::AccessEntries;
use crate::collection::query::key_list::KeyList;
use crate::collection::query::keys::Keys;
use crate::collection::query::source::QuerySource;
use crate::spill::{ExternalSorter, SortOptions, SortedEntries};
use flagstone_base::Result;
use flagstone_doc::{Direction, sort_key};
use std::sync::Arc;

/// Where keys are gathered, and in how much memory.
#[derive(Clone, Copy)]
pub(super) struct Gather<'a, 't> {
    pub(super) stored: &'a Stored,
    pub(super) source: &'a QuerySource<'t>,
    pub(super) memory: usize,
}

/// Sorts stored keys in a direction, each once.
struct KeySorter {
    sorter: ExternalSorter,
    direction: Direction,
    directed: Vec<u8>,
}

impl KeySorter {
    fn push(&mut self, key: &[u8]) -> Result<()> {
        if self.direction == Direction::Ascending {
            return self.sorter.push(key, b"");
        }
        self.directed.clear();
        sort_key::directed(key, self.direction, &mut self.directed);
        self.sorter.push(&self.directed, b"")
    }

    fn finish(self) -> Result<(Box<SortedEntries>, Direction)> {
        Ok((Box::new(self.sorter.finish()?), self.direction))
    }
}

impl<'t> Gather<'_, 't> {
    fn sorter(&self, direction: Direction, share: usize) -> KeySorter {
        let memory = self.memory / share;
        let options = SortOptions { memory, limit: None, distinct: true, share };
        let sorter = ExternalSorter::new(self.stored.scratch(), options);
        KeySorter { sorter, direction, directed: Vec::new() }
    }

    /// The keys of an index, each once; in `order` if that is given.
    pub(super) fn by_key(
        &self,
        access: &Arc<IndexAccess>,
        known: Option<KeyList>,
        order: Option<Direction>,
        share: usize,
    ) -> Result<Keys<'t>> {
        let direction = order.unwrap_or(Direction::Ascending);
        if let Some(keys) = known {
            access.note_read(self.source);
            let read = keys.len() as u64;
            return Ok(Keys::Known(keys.sorted(direction), read));
        }
        if let (true, Some(direction)) = (access.is_key_ordered, order) {
            let entries = AccessEntries::in_order(access, self.source, Need::Keys(direction));
            return Ok(Keys::Entries(Box::new(entries)));
        }
        let mut entries = AccessEntries::in_ranges(access, self.source, direction.into());
        if order.is_none() && !access.may_repeat {
            return Ok(Keys::Entries(Box::new(entries)));
        }
        let mut sorter = self.sorter(direction, share);
        while entries.advance()? {
            sorter.push(entries.key())?;
        }
        Ok(Keys::Sorted(sorter.finish()?, entries.read()))
    }

    /// The keys of several plans in a direction, each once.
    pub(super) fn several(&self, several: Several, direction: Direction) -> Result<Keys<'t>> {
        several.premises.iter().for_each(|premise| premise.note(self.source));
        let mut parts = several.parts;
        for part in &parts {
            if let (true, GatheredPlan::Index { access, known: Some(_) }) = (several.is_union, part)
            {
                access.note_read(self.source);
            }
        }
        if several.is_union {
            return self.union(parts, direction);
        }
        let share = parts.len();
        let (
            Some(GatheredPlan::Index { access: b, known: known_b }),
            Some(GatheredPlan::Index { access, known }),
        ) = (parts.pop(), parts.pop())
        else {
            return Ok(Keys::Known(KeyList::default(), 0));
        };
        let first = self.by_key(&access, known, Some(direction), share)?;
        let second = self.by_key(&b, known_b, Some(direction), share)?;
        Ok(Keys::Both(Box::new((first, second)), direction, Vec::new()))
    }

    fn union(&self, parts: Vec<GatheredPlan>, direction: Direction) -> Result<Keys<'t>> {
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
            return Ok(Keys::Known(all.sorted(direction), read));
        }
        let (mut sorter, mut read) = (self.sorter(direction, 1), 0);
        for part in parts {
            match part {
                GatheredPlan::Points(keys) => keys.iter().try_for_each(|key| sorter.push(key))?,
                GatheredPlan::Index { known: Some(keys), .. } => {
                    read += keys.len() as u64;
                    keys.iter().try_for_each(|key| sorter.push(key))?;
                }
                GatheredPlan::Index { access, known: None } => {
                    let mut entries =
                        AccessEntries::in_ranges(&access, self.source, Order::Forward);
                    while entries.advance()? {
                        sorter.push(entries.key())?;
                    }
                    read += entries.read();
                }
            }
        }
        Ok(Keys::Sorted(sorter.finish()?, read))
    }
}
