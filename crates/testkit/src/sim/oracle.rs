//! The history of a database, and the guarantees about it.
//!
//! ```text
//! base | event event event event event event ...          events: commits, removals of keyspaces
//!          kept_all ^            ^ logged by kill / by power cut
//! ```
//! After a crash there is a whole cut of history, at or beyond `kept_all`, and the first few of the
//! logged events after it, at least those that were promised. So batches are whole, nothing
//! promised is lost, nothing refused comes back, and there is no hole except for unlogged events.

use super::model::{Digests, SLOTS, State};
use super::place::Crash;
use super::step::Change;
use flagstone::Durability;

#[derive(Clone)]
struct Event {
    changes: Vec<Change>,
    id: u64,
    is_logged: bool,
    /// The digests of the state after the event.
    after: Digests,
}

/// The content of a recovered database.
pub(super) struct Shown {
    /// The digest of each slot.
    pub(super) digests: Digests,
    /// Whether each slot exists.
    pub(super) is_there: [bool; SLOTS],
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
    /// The visible state.
    pub(super) now: State,
    kept_all: usize,
    logged_kill: usize,
    logged_power_cut: usize,
    /// The commit that returned Poisoned, or did not return, and the state after it.
    doubtful: Option<(Vec<Change>, State)>,
    pub(super) existence: [Existence; SLOTS],
    last_id: u64,
}

fn apply_all(state: &mut State, changes: &[Change], id: u64) {
    changes.iter().for_each(|change| state.apply(change, id));
}

impl Oracle {
    /// Notes a visible commit, without any promise yet. Returns its number.
    pub(super) fn happened(&mut self, changes: Vec<Change>, is_logged: bool) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        apply_all(&mut self.now, &changes, id);
        let after = self.now.digests();
        self.events.push(Event { changes, id, is_logged, after });
        id
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
        self.now.clear(slot);
        let mut is_there = [true; SLOTS];
        is_there[slot] = false;
        (self.base, self.events) = without(self.base.clone(), &self.events, is_there);
    }

    /// Notes a commit that may have happened or not.
    pub(super) fn doubt(&mut self, changes: Vec<Change>) {
        let mut state = self.now.clone();
        apply_all(&mut state, &changes, self.last_id + 1);
        self.doubtful = Some((changes, state));
    }

    pub(super) const fn has_doubt(&self) -> bool {
        self.doubtful.is_some()
    }

    /// Returns whether an open database may have this content.
    pub(super) fn may_show(&self, digests: Digests) -> bool {
        let doubtful = self.doubtful.as_ref().map(|(_, state)| state.digests());
        digests == self.now.digests() || Some(digests) == doubtful
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
        self.doubtful = None;
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
            all.push(Event { changes, id, is_logged: true, after: state.digests() });
        }
        let promised = match crash {
            Crash::Kill => self.logged_kill,
            Crash::PowerCut => self.logged_power_cut,
        };
        let found = Search { base: &self.base, all: &all, shown, kept: self.kept_all, promised };
        Ok((found.run()?, existence))
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
        event.after = state.digests();
        event
    };
    let events = events.iter().map(strip).collect();
    (base, events)
}

/// The search for the cut of history that a database shows.
struct Search<'a> {
    base: &'a State,
    all: &'a [Event],
    shown: &'a Shown,
    kept: usize,
    promised: usize,
}

impl Search<'_> {
    /// Returns whether the database shows this state. [`Existence`] judges entries that are missing
    /// with their keyspace.
    fn is_shown(&self, digests: Digests) -> bool {
        let fits = |slot: usize| digests[slot] == self.shown.digests[slot];
        (0..SLOTS).all(|slot| !self.shown.is_there[slot] || fits(slot))
    }

    /// Returns the events that survived.
    fn run(&self) -> Result<Vec<Event>, String> {
        let mut less = None;
        for len in (0..=self.all.len()).rev() {
            let digests = match len.checked_sub(1) {
                Some(last) => self.all[last].after,
                None => self.base.digests(),
            };
            if !self.is_shown(digests) {
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
                "{len} of {count} events are there; {kept} were promised, logged ones up to {promised}"
            ),
            None => format!(
                "no cut of history: {count} events, {kept} promised, logged ones up to {promised}; {}",
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
                    if at >= self.promised && self.is_shown(state.digests()) {
                        return Some(survivors);
                    }
                    if event.is_logged {
                        apply_all(&mut state, &event.changes, event.id);
                        survivors.push(event.clone());
                    }
                }
                if self.is_shown(state.digests()) {
                    return Some(survivors);
                }
            }
            apply_all(&mut at_cut, &self.all[cut].changes, self.all[cut].id);
        }
        None
    }

    /// Describes the slots that differ, for the lengths at which the fewest do.
    fn nearest(&self) -> String {
        let base = (0, self.base.digests());
        let lengths = self.all.iter().enumerate().map(|(at, event)| (at + 1, event.after));
        let differing = |digests: Digests| -> Vec<usize> {
            (0..SLOTS).filter(|slot| digests[*slot] != self.shown.digests[*slot]).collect()
        };
        let all: Vec<_> =
            [base].into_iter().chain(lengths).map(|(len, d)| (len, differing(d))).collect();
        let fewest = all.iter().map(|(_, slots)| slots.len()).min().unwrap_or(0);
        let nearest: Vec<_> = all.iter().filter(|(_, slots)| slots.len() == fewest).collect();
        format!(
            "nearest (events, slots that differ): {nearest:?}, there: {:?}",
            self.shown.is_there
        )
    }
}
