//! The search for the cut of history that a recovered database shows.

use super::events::{Event, Refused, apply_all};
use super::indexes::{Built, INDEXES};
use super::model::{Digests, SLOTS, State};
use flagstone::Moment;

/// The content of a recovered database.
pub(super) struct Shown {
    /// The digest of each slot.
    pub(super) digests: Digests,
    /// Whether each slot exists.
    pub(super) is_there: [bool; SLOTS],
    /// Whether its entries may expire.
    pub(super) expires: [bool; SLOTS],
    /// The moment by which the database has judged.
    pub(super) moment: Moment,
    /// The indexes of the collection.
    pub(super) indexes: [Built; INDEXES],
    /// Whether the collection keeps the documents before changes.
    pub(super) keeps_old: bool,
}

/// Returns the place of a refused ingest among the events of a history.
fn place_of(refused: &Refused, events: &[Event]) -> usize {
    events.partition_point(|event| event.id < refused.id)
}

/// The search for the cut of history that a database shows.
pub(super) struct Search<'a> {
    pub(super) base: &'a State,
    pub(super) all: &'a [Event],
    pub(super) refused: &'a [Refused],
    pub(super) shown: &'a Shown,
    pub(super) kept: usize,
    pub(super) promised: usize,
}

impl Search<'_> {
    /// Returns whether the database shows the state after these survivors. [`Existence`] judges
    /// entries that are missing with their keyspace. An entry that has expired is not seen; but if
    /// the keyspace does not know of expiries, no write of such an entry has survived.
    fn is_shown(&self, state: &State, survivors: &[Event]) -> bool {
        let has_come_back = |slot| self.come_back(slot, survivors).is_some();
        (0..SLOTS).all(|slot| self.fits(slot, state) || has_come_back(slot))
    }

    fn fits(&self, slot: usize, state: &State) -> bool {
        let is_same = state.digest(slot, self.shown.moment) == self.shown.digests[slot];
        let may_expire = self.shown.expires[slot] || !state.has_expiries(slot);
        !self.shown.is_there[slot] || (is_same && may_expire)
    }

    /// Returns the refused ingest that the database shows in a slot, with these survivors. It comes
    /// back at its place among them: a commit after it whose fate is unknown hides what it wrote.
    fn come_back(&self, slot: usize, survivors: &[Event]) -> Option<&Refused> {
        self.refused.iter().filter(|refused| refused.slot == slot).find(|refused| {
            let (before, after) = survivors.split_at(place_of(refused, survivors));
            let mut state = self.base.clone();
            let apply = |state: &mut State, event: &Event| {
                apply_all(state, &event.changes, event.id);
            };
            before.iter().for_each(|event| apply(&mut state, event));
            apply_all(&mut state, &refused.changes, refused.id);
            after.iter().for_each(|event| apply(&mut state, event));
            self.fits(slot, &state)
        })
    }

    /// Returns the events that survived, with the refused ingests that came back.
    pub(super) fn with_refused(&self, mut survivors: Vec<Event>) -> Vec<Event> {
        let mut state = self.base.clone();
        survivors.iter().for_each(|event| apply_all(&mut state, &event.changes, event.id));
        for slot in (0..SLOTS).filter(|slot| !self.fits(*slot, &state)) {
            let Some(refused) = self.come_back(slot, &survivors) else { continue };
            let (at, after) = (place_of(refused, &survivors), state.clone());
            let Refused { changes, id, .. } = refused;
            survivors
                .insert(at, Event { changes: changes.clone(), id: *id, is_logged: true, after });
        }
        survivors
    }

    /// Returns the events that survived.
    pub(super) fn run(&self) -> Result<Vec<Event>, String> {
        let mut less = None;
        for len in (0..=self.all.len()).rev() {
            let state = len.checked_sub(1).map_or(self.base, |last| &self.all[last].after);
            if !self.is_shown(state, &self.all[..len]) {
                continue;
            }
            let is_kept = len >= self.kept
                && self.all[len..self.promised.max(len)].iter().all(|event| !event.is_logged);
            if is_kept {
                return Ok(self.all[..len].to_vec());
            }
            less = less.or(Some(len));
        }
        if let Some(survivors) = self.with_holes() {
            return Ok(survivors);
        }
        let (count, Self { kept, promised, .. }) = (self.all.len(), self);
        Err(match less {
            Some(len) => format!(
                "{len} of {count} events are there; {kept} were promised, logged ones up to \
                 {promised}"
            ),
            None => format!(
                "no cut of history: {count} events, {kept} promised, logged ones up to {promised}; \
                 {}",
                self.nearest()
            ),
        })
    }

    /// Looks for a cut with logged events after it, between which unlogged ones are lost.
    fn with_holes(&self) -> Option<Vec<Event>> {
        let mut at_cut = self.base.clone();
        for cut in 0..self.all.len() {
            if cut >= self.kept && !self.all[cut].is_logged {
                let (mut state, mut survivors) = (at_cut.clone(), self.all[..cut].to_vec());
                for (at, event) in self.all.iter().enumerate().skip(cut) {
                    if at >= self.promised && self.is_shown(&state, &survivors) {
                        return Some(survivors);
                    }
                    if event.is_logged {
                        apply_all(&mut state, &event.changes, event.id);
                        survivors.push(event.clone());
                    }
                }
                if self.is_shown(&state, &survivors) {
                    return Some(survivors);
                }
            }
            apply_all(&mut at_cut, &self.all[cut].changes, self.all[cut].id);
        }
        None
    }

    /// Describes the slots that differ, for the lengths at which the fewest do.
    fn nearest(&self) -> String {
        let after = self.all.iter().map(|event| &event.after);
        let differing = |state: &State| -> Vec<usize> {
            let digests = state.digests(self.shown.moment);
            (0..SLOTS).filter(|slot| digests[*slot] != self.shown.digests[*slot]).collect()
        };
        let all: Vec<_> = [self.base].into_iter().chain(after).map(differing).enumerate().collect();
        let fewest = all.iter().map(|(_, slots)| slots.len()).min().unwrap_or(0);
        let nearest: Vec<_> = all.iter().filter(|(_, slots)| slots.len() == fewest).collect();
        format!(
            "nearest (events, slots that differ): {nearest:?}, there: {:?}",
            self.shown.is_there
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::step::{Lasts, SlotChange, ValueOf};

    #[test]
    fn a_refused_ingest_that_has_expired_does_not_hide_a_later_commit() {
        let at = Moment::from_millis;
        let put = |seed, lasts| SlotChange::Put(4, 29, ValueOf { len: 20, seed }, lasts);
        let refused = Refused { slot: 4, changes: vec![put(1, Lasts::Until(at(10)))], id: 1 };
        let mut after = State::default();
        apply_all(&mut after, &[put(2, Lasts::Forever)], 2);
        let doubtful = Event {
            changes: vec![put(2, Lasts::Forever)],
            id: 2,
            is_logged: true,
            after: after.clone(),
        };
        let survivors = |state: &State| {
            let refused = std::slice::from_ref(&refused);
            let shown = Shown {
                digests: state.digests(at(20)),
                is_there: [true; SLOTS],
                expires: [true; SLOTS],
                moment: at(20),
                indexes: Default::default(),
                keeps_old: false,
            };
            let search = Search {
                base: &State::default(),
                all: std::slice::from_ref(&doubtful),
                refused,
                shown: &shown,
                kept: 0,
                promised: 0,
            };
            let ids = |found: Vec<Event>| found.iter().map(|event| event.id).collect::<Vec<_>>();
            search.run().map(|found| ids(search.with_refused(found)))
        };
        assert_eq!(survivors(&State::default()), Ok(vec![]));
        assert_eq!(survivors(&after), Ok(vec![2]));
    }
}
