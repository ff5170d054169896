//! The history of a database, and the guarantees about it.
//!
//! ```text
//! base | event event event event event event ...          events: commits, removals of keyspaces
//!          kept_all ^            ^ logged by kill / by power cut
//! ```
//! After a crash there is a whole cut of history, at or beyond `kept_all`, and the first few of the
//! logged events after it, at least those that were promised. So batches are whole, nothing
//! promised is lost, nothing refused comes back, and there is no hole except for unlogged events.
//!
//! States keep entries that have expired. What a database shows is compared with the entries that
//! are alive at the moment of its clock. Where entries may expire, merges and patches are resolved
//! when they are written, so an event has their results: a crash may lose what they were made of.

use super::model::{Digests, Entries, Entry, KEYS, Key, SLOTS, State};
use super::place::Crash;
use super::step::Change;
use flagstone::{Durability, Moment};

#[derive(Clone)]
struct Event {
    changes: Vec<Change>,
    id: u64,
    is_logged: bool,
    /// The state after the event.
    after: State,
}

/// An ingest that the disk has refused.
struct Refused {
    slot: usize,
    changes: Vec<Change>,
    id: u64,
}

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
}

/// Whether a slot exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Existence {
    #[default]
    No,
    Yes,
    /// Creating it returned an error.
    MaybeMade,
    /// Removing it returned an error, and a crash could still remove it.
    MaybeDropped,
}

/// The history of a database and its guarantees, see above.
#[derive(Default)]
pub(super) struct Oracle {
    base: State,
    events: Vec<Event>,
    /// The visible state, and what has expired in it.
    pub(super) now: State,
    /// The moment by which the database judges.
    pub(super) moment: Moment,
    /// Whether an entry with an expiry was acknowledged in each slot.
    expires: [bool; SLOTS],
    /// The slots in which the database resolves merges and patches when they are written.
    pub(super) resolves: [bool; SLOTS],
    kept_all: usize,
    logged_kill: usize,
    logged_power_cut: usize,
    /// The commit that returned Poisoned, or did not return, and the state after it.
    doubtful: Option<(Vec<Change>, State)>,
    /// Ingests that a crash may bring back. No write to their slots was accepted after them.
    refused: Vec<Refused>,
    pub(super) existence: [Existence; SLOTS],
    last_id: u64,
}

fn apply_all(state: &mut State, changes: &[Change], id: u64) {
    changes.iter().for_each(|change| state.apply(change, id));
}

/// Returns the slots into which `changes` put entries with an expiry.
fn expiring(changes: &[Change]) -> [bool; SLOTS] {
    let mut expires = [false; SLOTS];
    for change in changes.iter().filter(|change| change.expiry().is_some()) {
        expires[change.slot()] = true;
    }
    expires
}

impl Oracle {
    /// The visible entry of a key.
    pub(super) fn get(&self, slot: usize, key: Key) -> Option<&Entry> {
        self.now.get(slot, key, self.moment)
    }

    /// The visible entries of a slot.
    pub(super) fn entries(&self, slot: usize) -> Entries {
        self.range(slot, 0, KEYS as Key)
    }

    /// The visible entries of a slot from one key up to another, which is excluded.
    pub(super) fn range(&self, slot: usize, from: Key, to: Key) -> Entries {
        self.now.range(slot, (from, to), self.moment)
    }

    /// The digests of what is visible.
    pub(super) fn digests(&self) -> Digests {
        self.now.digests(self.moment)
    }

    /// Notes a visible commit, without any promise yet. Returns its number.
    pub(super) fn happened(&mut self, changes: Vec<Change>, is_logged: bool) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let changes = self.resolved(changes);
        for (slot, expires) in expiring(&changes).into_iter().enumerate() {
            self.expires[slot] |= expires;
        }
        self.refused.retain(|refused| changes.iter().all(|change| change.slot() != refused.slot));
        apply_all(&mut self.now, &changes, id);
        let after = self.now.clone();
        self.events.push(Event { changes, id, is_logged, after });
        id
    }

    /// Notes the slots whose entries may expire, as the open database says.
    ///
    /// # Errors
    /// The database does not know of an expiry that it has acknowledged.
    pub(super) fn note_expires(&mut self, expires: [bool; SLOTS]) -> Result<(), String> {
        self.resolves = expires;
        let is_there = |slot: usize| self.existence[slot] == Existence::Yes;
        let mut forgotten = (0..SLOTS).filter(|slot| self.expires[*slot] && !expires[*slot]);
        match forgotten.find(|slot| is_there(*slot)) {
            None => Ok(()),
            Some(slot) => Err(format!("slot {slot} has expiries, and the database knows of none")),
        }
    }

    /// Returns `changes` as the database writes them now: merges and patches are resolved where
    /// entries may expire, also if this batch brings the first one that does.
    fn resolved(&self, changes: Vec<Change>) -> Vec<Change> {
        let mut resolves = expiring(&changes);
        (0..SLOTS).for_each(|slot| resolves[slot] |= self.resolves[slot]);
        let is_resolved = |change: &Change| change.is_folded() && resolves[change.slot()];
        if !changes.iter().any(is_resolved) {
            return changes;
        }
        let mut state = self.now.clone();
        let resolve = |change: Change| {
            let change =
                if is_resolved(&change) { state.resolved(&change, self.moment) } else { change };
            state.apply(&change, 0);
            change
        };
        changes.into_iter().map(resolve).collect()
    }

    /// The number of the last event.
    pub(super) const fn last_id(&self) -> u64 {
        self.last_id
    }

    /// Notes that a caller was told that the events up to this one have this durability.
    pub(super) fn promise(&mut self, durability: Durability, id: u64) {
        let len = self.events.iter().filter(|event| event.id <= id).count();
        let cut = match durability {
            Durability::None => return,
            Durability::Buffered | Durability::Interval(_) => 0,
            Durability::Group | Durability::Each => len,
        };
        self.logged_kill = self.logged_kill.max(len);
        self.logged_power_cut = self.logged_power_cut.max(cut);
    }

    /// Notes that everything so far survives any crash.
    pub(super) fn keep_all(&mut self) {
        self.events.clear();
        self.base = self.now.clone();
        (self.kept_all, self.logged_kill, self.logged_power_cut) = (0, 0, 0);
    }

    /// Notes that everything logged so far survives any crash.
    pub(super) fn keep_logged(&mut self) {
        if self.events.iter().all(|event| event.is_logged) {
            self.keep_all();
        } else {
            self.promise(Durability::Each, self.last_id);
        }
    }

    /// Notes that a slot is gone for good, whatever happens to earlier events.
    pub(super) fn forget(&mut self, slot: usize) {
        self.existence[slot] = Existence::No;
        self.expires[slot] = false;
        self.refused.retain(|refused| refused.slot != slot);
        self.now.clear(slot);
        let mut is_there = [true; SLOTS];
        is_there[slot] = false;
        (self.base, self.events) = without(self.base.clone(), &self.events, is_there);
    }

    /// Notes an ingest that was refused. Until a write to its slot is accepted, a crash may bring
    /// it back.
    pub(super) fn refuse(&mut self, slot: usize, changes: Vec<Change>) {
        self.last_id += 1;
        self.refused.push(Refused { slot, changes, id: self.last_id });
    }

    /// Notes a commit that may have happened or not.
    pub(super) fn doubt(&mut self, changes: Vec<Change>) {
        let changes = self.resolved(changes);
        let mut state = self.now.clone();
        apply_all(&mut state, &changes, self.last_id + 1);
        self.doubtful = Some((changes, state));
    }

    pub(super) const fn has_doubt(&self) -> bool {
        self.doubtful.is_some()
    }

    /// Returns whether an open database may have this content.
    pub(super) fn may_show(&self, digests: Digests) -> bool {
        let doubtful = self.doubtful.as_ref().map(|(_, state)| state.digests(self.moment));
        digests == self.digests() || Some(digests) == doubtful
    }

    /// Compares the database after `crash` with the guarantees, and continues from what was found.
    /// `is_on_device` says that it is durable, whatever was promised before.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn recover(
        &mut self,
        crash: Crash,
        is_on_device: bool,
        shown: &Shown,
    ) -> Result<(), String> {
        let (survivors, existence) = self.judge(crash, shown)?;
        let safe = if is_on_device {
            survivors.len()
        } else {
            let promised = self.kept_all.max(self.logged_power_cut);
            let last = promised.checked_sub(1).map_or(0, |last| self.events[last].id);
            survivors.iter().filter(|event| event.id <= last).count()
        };
        self.existence = existence;
        (self.expires, self.resolves) = (shown.expires, shown.expires);
        self.moment = shown.moment;
        self.doubtful = None;
        self.refused.clear();
        self.last_id += 1;
        let (base, survivors) = without(self.base.clone(), &survivors, shown.is_there);
        (self.base, self.now) = (base.clone(), base);
        for (at, event) in survivors.iter().enumerate() {
            apply_all(&mut self.now, &event.changes, event.id);
            if at < safe {
                self.base = self.now.clone();
            }
        }
        self.events = survivors[safe..].to_vec();
        // Recovery makes sure that a later crash loses only the last of these, logged or not.
        self.events.iter_mut().for_each(|event| event.is_logged = true);
        (self.kept_all, self.logged_power_cut) = (0, 0);
        self.logged_kill = self.events.len();
        Ok(())
    }

    /// Compares like [`Oracle::recover`], for a crash after which the history does not continue.
    pub(super) fn check(&self, crash: Crash, shown: &Shown) -> Result<(), String> {
        self.judge(crash, shown).map(|_| ())
    }

    fn judge(
        &self,
        crash: Crash,
        shown: &Shown,
    ) -> Result<(Vec<Event>, [Existence; SLOTS]), String> {
        let existence = self.judge_existence(shown)?;
        let mut all = self.events.clone();
        if let Some((changes, state)) = &self.doubtful {
            let (changes, id) = (changes.clone(), self.last_id + 1);
            all.push(Event { changes, id, is_logged: true, after: state.clone() });
        }
        let promised = match crash {
            Crash::Kill => self.logged_kill,
            Crash::PowerCut => self.logged_power_cut,
        };
        let (base, refused) = (&self.base, &self.refused[..]);
        let found = Search { base, all: &all, refused, shown, kept: self.kept_all, promised };
        Ok((found.with_refused(found.run()?), existence))
    }

    fn judge_existence(&self, shown: &Shown) -> Result<[Existence; SLOTS], String> {
        for slot in 0..SLOTS {
            let fits = match self.existence[slot] {
                Existence::Yes => shown.is_there[slot],
                Existence::No => !shown.is_there[slot],
                Existence::MaybeMade | Existence::MaybeDropped => true,
            };
            if !fits {
                let (was, is) = (self.existence[slot], shown.is_there[slot]);
                return Err(format!("slot {slot}: existed before: {was:?}, exists now: {is}"));
            }
            if shown.is_there[slot] && self.expires[slot] && !shown.expires[slot] {
                return Err(format!("slot {slot}: it is forgotten that entries expire"));
            }
        }
        Ok(shown.is_there.map(|is| if is { Existence::Yes } else { Existence::No }))
    }
}

/// Returns a history without the missing slots.
fn without(mut base: State, events: &[Event], is_there: [bool; SLOTS]) -> (State, Vec<Event>) {
    (0..SLOTS).filter(|slot| !is_there[*slot]).for_each(|slot| base.clear(slot));
    let mut state = base.clone();
    let strip = |event: &Event| {
        let mut event = event.clone();
        event.changes.retain(|change| is_there[change.slot()]);
        apply_all(&mut state, &event.changes, event.id);
        event.after = state.clone();
        event
    };
    let events = events.iter().map(strip).collect();
    (base, events)
}

/// The search for the cut of history that a database shows.
struct Search<'a> {
    base: &'a State,
    all: &'a [Event],
    refused: &'a [Refused],
    shown: &'a Shown,
    kept: usize,
    promised: usize,
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
    fn with_refused(&self, mut survivors: Vec<Event>) -> Vec<Event> {
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
    fn run(&self) -> Result<Vec<Event>, String> {
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
