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

use super::events::{Event, Refused, apply_all, without};
use super::indexes::{Built, INDEXES, SPECS};
use super::model::{DOCUMENTS, Digests, Entries, Entry, KEYS, Key, SLOTS, State};
use super::place::Crash;
use super::search::{Search, Shown};
use super::step::SlotChange;
use flagstone::{Durability, Moment};
use std::collections::BTreeSet;

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

/// A commit as the change feed should deliver it.
pub(super) struct Logged {
    pub(super) id: u64,
    pub(super) is_logged: bool,
    /// Whether it tells the documents before its changes, if that is known.
    pub(super) has_old: Option<bool>,
    /// The state after it.
    pub(super) after: State,
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
    pub(super) expires: [bool; SLOTS],
    /// The slots in which the database resolves merges and patches when they are written.
    pub(super) resolves: [bool; SLOTS],
    kept_all: usize,
    logged_kill: usize,
    logged_power_cut: usize,
    /// The commit that returned Poisoned, or did not return, and the state after it.
    doubtful: Option<(Vec<SlotChange>, State)>,
    /// Ingests that a crash may bring back. No write to their slots was accepted after them.
    refused: Vec<Refused>,
    pub(super) existence: [Existence; SLOTS],
    /// The indexes of the collection, as the open database says.
    pub(super) indexes: [Built; INDEXES],
    /// The indexes whose creation or removal returned an error: a crash may do it or undo it.
    pub(super) doubtful_indexes: [bool; INDEXES],
    /// Whether the collection keeps the documents before changes, as the open database says.
    pub(super) keeps_old: bool,
    /// Whether a crash may begin or end that.
    pub(super) is_old_doubtful: bool,
    /// The commits since the change feed was compared.
    pub(super) log: Vec<Logged>,
    /// Whether a crash has changed the history in a way that the log does not tell.
    pub(super) is_log_broken: bool,
    /// The last event that the change feed has delivered.
    pub(super) delivered: u64,
    last_id: u64,
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
    pub(super) fn happened(&mut self, changes: Vec<SlotChange>, is_logged: bool) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let changes = self.resolved(changes);
        for (slot, expires) in self.expires_after(&changes).into_iter().enumerate() {
            self.expires[slot] |= expires;
        }
        self.refused.retain(|refused| changes.iter().all(|change| change.slot() != refused.slot));
        apply_all(&mut self.now, &changes, id);
        let after = self.now.clone();
        if !changes.is_empty() {
            let has_old = Some(self.keeps_old);
            self.log.push(Logged { id, is_logged, has_old, after: after.clone() });
        }
        self.events.push(Event { changes, id, is_logged, after });
        id
    }

    pub(super) fn has_indexes(&self) -> bool {
        self.indexes != [Built::No; INDEXES]
    }

    /// Returns whether `changes` write documents that have indexes, or of which old ones are kept:
    /// such commits are always logged.
    pub(super) fn is_indexed(&self, changes: &[SlotChange]) -> bool {
        (self.has_indexes() || self.keeps_old)
            && changes.iter().any(|change| change.slot() == DOCUMENTS)
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

    /// Notes that everything logged so far survives any crash. Returns whether that is everything.
    pub(super) fn keep_logged(&mut self) -> bool {
        let is_all = self.events.iter().all(|event| event.is_logged);
        if is_all {
            self.keep_all();
        } else {
            self.promise(Durability::Each, self.last_id);
        }
        is_all
    }

    /// Notes that a slot is gone for good, whatever happens to earlier events.
    pub(super) fn forget(&mut self, slot: usize) {
        self.existence[slot] = Existence::No;
        self.expires[slot] = false;
        self.refused.retain(|refused| refused.slot != slot);
        self.is_log_broken = true;
        if slot == DOCUMENTS {
            (self.indexes, self.doubtful_indexes) = Default::default();
            (self.keeps_old, self.is_old_doubtful) = Default::default();
        }
        self.now.clear(slot);
        let mut is_there = [true; SLOTS];
        is_there[slot] = false;
        (self.base, self.events) = without(self.base.clone(), &self.events, is_there);
    }

    /// Notes an ingest that was refused. Until a write to its slot is accepted, a crash may bring
    /// it back.
    pub(super) fn refuse(&mut self, slot: usize, changes: Vec<SlotChange>) {
        self.last_id += 1;
        self.refused.push(Refused { slot, changes, id: self.last_id });
    }

    /// Notes a commit that may have happened or not.
    pub(super) fn doubt(&mut self, changes: Vec<SlotChange>) {
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
        self.cut_log(&survivors)?;
        self.is_log_broken |= self.existence != existence;
        (self.indexes, self.doubtful_indexes) = (shown.indexes, Default::default());
        (self.keeps_old, self.is_old_doubtful) = (shown.keeps_old, false);
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

    /// Leaves of the log what a crash has left.
    fn cut_log(&mut self, survivors: &[Event]) -> Result<(), String> {
        let ids: BTreeSet<u64> = survivors.iter().map(|event| event.id).collect();
        let is_lost = |id: u64| !ids.contains(&id);
        let lost: BTreeSet<u64> =
            self.events.iter().map(|event| event.id).filter(|id| is_lost(*id)).collect();
        if let Some(id) = lost.iter().find(|id| **id <= self.delivered) {
            return Err(format!("event {id} was delivered to a reader of changes, and is lost"));
        }
        // The feed may tell of lost writes that were not logged.
        self.is_log_broken |=
            self.log.iter().any(|logged| lost.contains(&logged.id) && !logged.is_logged);
        self.log.retain(|logged| !lost.contains(&logged.id));
        let is_new = |event: &&Event| event.id > self.last_id && !event.changes.is_empty();
        for event in survivors.iter().filter(is_new) {
            let after = event.after.clone();
            self.log.push(Logged { id: event.id, is_logged: true, has_old: None, after });
        }
        // A refused ingest has come back.
        let known: BTreeSet<u64> = self.events.iter().map(|event| event.id).collect();
        self.is_log_broken |= ids.iter().any(|id| *id <= self.last_id && !known.contains(id));
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
        self.judge_indexes(shown)?;
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

    fn judge_indexes(&self, shown: &Shown) -> Result<(), String> {
        let (was, is) = (self.keeps_old, shown.keeps_old);
        if shown.is_there[DOCUMENTS] && was != is && !self.is_old_doubtful {
            return Err(format!("old documents were kept before: {was}, now: {is}"));
        }
        for (at, spec) in SPECS.iter().enumerate().filter(|_| shown.is_there[DOCUMENTS]) {
            let (was, is) = (self.indexes[at], shown.indexes[at]);
            if was != is && !self.doubtful_indexes[at] {
                return Err(format!("index {:?} was {was:?} before, and is {is:?}", spec.name));
            }
        }
        Ok(())
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
