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
    /// Returns whether the database shows this state. [`Existence`] judges entries that are missing
    /// with their keyspace. An entry that has expired is not seen; but if the keyspace does not
    /// know of expiries, no write of such an entry has survived.
    fn is_shown(&self, state: &State) -> bool {
        (0..SLOTS).all(|slot| self.fits(slot, state) || self.come_back(slot, state).is_some())
    }

    fn fits(&self, slot: usize, state: &State) -> bool {
        let is_same = state.digest(slot, self.shown.moment) == self.shown.digests[slot];
        let may_expire = self.shown.expires[slot] || !state.has_expiries(slot);
        !self.shown.is_there[slot] || (is_same && may_expire)
    }

    /// Returns the refused ingest that the database shows in a slot, on top of this state.
    fn come_back(&self, slot: usize, state: &State) -> Option<&Refused> {
        self.refused.iter().filter(|refused| refused.slot == slot).find(|refused| {
            let mut state = state.clone();
            apply_all(&mut state, &refused.changes, refused.id);
            self.fits(slot, &state)
        })
    }

    /// Returns the events that survived, with the refused ingests that came back.
    pub(super) fn with_refused(&self, mut survivors: Vec<Event>) -> Vec<Event> {
        let mut state = self.base.clone();
        survivors.iter().for_each(|event| apply_all(&mut state, &event.changes, event.id));
        for slot in (0..SLOTS).filter(|slot| !self.fits(*slot, &state)) {
            let Some(Refused { changes, id, .. }) = self.come_back(slot, &state) else { continue };
            let at = survivors.partition_point(|event| event.id < *id);
            let (changes, after) = (changes.clone(), state.clone());
            survivors.insert(at, Event { changes, id: *id, is_logged: true, after });
        }
        survivors
    }

    /// Returns the events that survived.
    pub(super) fn run(&self) -> Result<Vec<Event>, String> {
        let mut less = None;
        for len in (0..=self.all.len()).rev() {
            let state = len.checked_sub(1).map_or(self.base, |last| &self.all[last].after);
            if !self.is_shown(state) {
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
                    if at >= self.promised && self.is_shown(&state) {
                        return Some(survivors);
                    }
                    if event.is_logged {
                        apply_all(&mut state, &event.changes, event.id);
                        survivors.push(event.clone());
                    }
                }
                if self.is_shown(&state) {
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
