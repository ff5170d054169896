//! Transactions that are committed after another commit has come between.
//!
//! ```text
//! begin -- ours: writes -- reads -- theirs: a commit -- the same reads -- commit of ours
//!                                 indexes come and go, the clock moves
//! ```
//! The first committer wins: if theirs has written a key of ours, or one that a serializable
//! transaction has read, ours must get Conflict, so that no update is lost. If not, it must not.
//! What ours expects of a key must be so, and is guarded like a write from then on. So
//! it must if a query of a serializable one would find something else now, however it was planned;
//! if the collection that it has written has other indexes; and if a unique value that it gives has
//! another document, alive or not.

use super::ask::FilterSpec;
use super::conditions::{Judge, Judged, Verdict};
use super::find::{compare, matching};
use super::indexes::{Built, SPECS, has_taken};
use super::life::{Check, Handle};
use super::model::{DOCUMENTS, KEYS, Key, SLOTS, State, key_bytes};
use super::run::Run;
use super::step::{Build, Condition, Contest, How, Passes, SimStep, SlotChange};
use crate::driver::owned;
use flagstone::internal::keys_written;
use flagstone::{ErrorKind, Expect, Isolation, Moment, Transaction, TransactionOptions};
use std::collections::BTreeSet;

/// What a transaction has done before others come between.
struct Ours<'a> {
    contest: &'a Contest,
    made: Vec<SlotChange>,
    /// The state that it sees.
    seen: State,
    /// The moment of its snapshot.
    moment: Moment,
    asks: Vec<FilterSpec>,
    /// The last event before it.
    since: u64,
    /// The keys that it has read and that are guarded: those that are as it expects, and those of
    /// ranges that it deletes.
    guarded: BTreeSet<(usize, Key)>,
    /// The keys of ranges that it deletes.
    deleted: BTreeSet<(usize, Key)>,
    /// Whether all that it reads was answered at least once. The disk may have refused it.
    is_read: bool,
}

impl Ours<'_> {
    /// The keys that it has written.
    fn written(&self) -> impl Iterator<Item = (usize, Key)> {
        self.made.iter().flat_map(|change| change.keys().map(|key| (change.slot(), key)))
    }

    /// The documents that it has written.
    fn documents(&self) -> BTreeSet<Key> {
        self.written().filter(|(slot, _)| *slot == DOCUMENTS).map(|(_, key)| key).collect()
    }
}

impl Run {
    /// Commits a transaction after another commit that has come between.
    pub(super) fn contest(&mut self, contest: &Contest) -> Check {
        if self.oracle.has_doubt() || !self.settle_indexes()? {
            return Ok(());
        }
        let ours = self.dated(&contest.ours);
        let Some(handles) = self.handles(contest.slots())? else { return Ok(()) };
        let isolation =
            if contest.is_serializable { Isolation::Serializable } else { Isolation::Snapshot };
        for expect in &contest.expects {
            match *expect {
                Condition::Version(slot, key) => self.note_token(slot, key)?,
                Condition::Unchanged(..) if !self.has_snapshot() => self.take_snapshot(),
                _ => {}
            }
        }
        let Some(life) = &self.life else { return Ok(()) };
        let begun = TransactionOptions::new().isolation(isolation).begin(&life.db);
        let Some(mut transaction) = self.excused(begun)? else { return Ok(()) };
        let before = self.oracle.now.clone();
        let ranges = ours.iter().filter(|change| matches!(change, SlotChange::DeleteRange(..)));
        let deleted = ranges.flat_map(|range| range.keys().map(|key| (range.slot(), key)));
        let deleted: BTreeSet<(usize, Key)> = deleted.collect();
        let Some(made) = self.make_in(&mut transaction, &handles, ours)? else { return Ok(()) };
        let seen = self.oracle.after(&made);
        if made.iter().any(|change| self.may_be_left_out(change, &before, &seen)) {
            return Ok(());
        }
        let (since, moment) = (self.oracle.last_id(), self.oracle.moment);
        let asks = contest.asks.iter().map(|ask| ask.dated(moment)).collect();
        let guarded = BTreeSet::new();
        let is_read = false;
        let mut ours = Ours { contest, seen, moment, asks, since, made, guarded, deleted, is_read };
        self.expect_in(&mut transaction, &handles, &mut ours)?;
        ours.is_read = self.read_in(&transaction, &handles, &ours)?;
        let mut has_other_indexes = self.change_indexes(contest, true)?;
        self.commit(&contest.theirs, How::Plain, None)?;
        self.pass(&ours)?;
        has_other_indexes |= self.change_indexes(contest, false)?;
        if self.oracle.has_doubt() || self.life.is_none() {
            return Ok(());
        }
        ours.is_read |= self.read_in(&transaction, &handles, &ours)?;
        if keys_written(&transaction) == 0 {
            return self.end_empty(transaction);
        }
        let verdict = self.verdict(&ours, has_other_indexes);
        let keys = keys_written(&transaction);
        let done = transaction.commit();
        let is_conflict = done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict);
        self.totals.conflicts += u64::from(is_conflict);
        let durability = self.setting.options.durability;
        self.written_by_transaction(&ours.made, keys, durability, Some(verdict), done)
    }

    /// Drops indexes, or creates those that are not there. Returns whether it has.
    fn change_indexes(&mut self, contest: &Contest, is_before: bool) -> Check<bool> {
        let expires = self.setting.profile.expiring[DOCUMENTS] > 0;
        let mut has_changed = false;
        for (at, _) in contest.indexes.iter().filter(|(_, before)| *before == is_before) {
            let before = self.oracle.indexes[*at];
            if before == Built::Ready {
                self.drop_index(*at)?;
            } else if expires && SPECS[*at].may_remove() {
                // It may write documents, which the verdict does not know.
                continue;
            } else {
                let beside = Vec::new();
                let build = Build { part_bytes: 1 << 20, beside, cancels_at: None, power_at: None };
                self.create_index(*at, &build)?;
            }
            // To continue a build changes nothing, unless that fails.
            has_changed |= before != Built::Partly || self.oracle.indexes[*at] == Built::No;
        }
        Ok(has_changed)
    }

    /// Moves the clock, unless that would change what the patches of the transaction mean.
    fn pass(&mut self, ours: &Ours<'_>) -> Check {
        let step = match ours.contest.passes {
            Passes::Time(millis) => SimStep::Clock(millis),
            Passes::Jump(millis) => SimStep::ClockJump(millis),
            Passes::Nothing => return Ok(()),
        };
        if !ours.made.iter().any(SlotChange::is_folded) {
            self.clock_step(&step)?;
        }
        Ok(())
    }

    /// Returns whether a transaction may not write this change: a patch of an indexed document that
    /// changes nothing, unless it stays an operand, which would change what theirs writes.
    fn may_be_left_out(&self, change: &SlotChange, before: &State, after: &State) -> bool {
        let SlotChange::Patch(slot, key, ..) = *change else { return false };
        let bytes = |state: &State| state.bytes(slot, key, self.oracle.moment);
        let is_same = bytes(before) == bytes(after);
        is_same && self.oracle.is_indexed(std::slice::from_ref(change))
    }

    fn has_snapshot(&self) -> bool {
        self.life.as_ref().is_some_and(|life| !life.snapshots.is_empty())
    }

    /// Expects something of keys in a transaction, before others come between.
    fn expect_in(
        &mut self,
        transaction: &mut Transaction,
        handles: &super::changes::SlotHandles,
        ours: &mut Ours<'_>,
    ) -> Check {
        for expect in &ours.contest.expects {
            let Some(life) = &self.life else { return Ok(()) };
            let (oracle, lives, tokens) = (&self.oracle, self.lives, &self.tokens[..]);
            let judged = Judge { oracle, life, lives, tokens }.judge(*expect);
            let Some(Judged { slot, key, expected, verdict }) = judged else { continue };
            // What it has written itself has no version yet.
            let own = ours
                .made
                .iter()
                .rfind(|change| change.slot() == slot && change.keys().contains(&key));
            let verdict = match (own, expected) {
                (_, Expect::Absent) if ours.seen.get(slot, key, ours.moment).is_none() => {
                    Verdict::Holds
                }
                (_, Expect::Absent) => Verdict::Conflict,
                (None, _) => verdict,
                // A patch of nothing may write nothing.
                (Some(SlotChange::Patch(..)), _) => Verdict::Unknown,
                (Some(_), _) => Verdict::Conflict,
            };
            let done = match &handles[slot] {
                Some(Handle::Bytes(of)) => transaction.expect(of, key_bytes(key), expected),
                Some(Handle::Documents(of)) => transaction.expect(of, i64::from(key), expected),
                None => continue,
            };
            let is_conflict = done.as_ref().is_err_and(|e| e.kind() == ErrorKind::Conflict);
            match (done, verdict) {
                (Ok(()), Verdict::Conflict) => {
                    return Err(format!(
                        "a transaction expects {expected:?} of slot {slot}, key {key}, which is \
                         not so"
                    ));
                }
                (Ok(()), _) => drop(ours.guarded.insert((slot, key))),
                (Err(error), Verdict::Holds) if is_conflict => {
                    return Err(format!("a transaction expects what is so: {error}"));
                }
                (Err(_), _) if is_conflict => {}
                (Err(error), _) => self.excuse(&error)?,
            }
        }
        Ok(())
    }

    /// Reads in a transaction. It must see its snapshot and its own writes. Returns whether
    /// everything was answered.
    fn read_in(
        &mut self,
        transaction: &Transaction,
        handles: &super::changes::SlotHandles,
        ours: &Ours<'_>,
    ) -> Check<bool> {
        let (moment, mut is_answered) = (ours.moment, true);
        for (slot, key) in &ours.contest.reads {
            let found = match &handles[*slot] {
                Some(Handle::Bytes(keyspace)) => {
                    transaction.get(keyspace, key_bytes(*key)).map(owned)
                }
                Some(Handle::Documents(collection)) => {
                    transaction.get(collection, i64::from(*key)).map(super::read::canonical)
                }
                None => continue,
            };
            let Some(found) = self.excused(found)? else {
                is_answered = false;
                continue;
            };
            let expected = ours.seen.get(*slot, *key, moment).map(|entry| entry.bytes.to_vec());
            if found != expected {
                return Err(format!("a transaction reads another value of slot {slot}, key {key}"));
            }
        }
        is_answered &= self.ask_in(transaction, handles, ours)?;
        let Some(slot) = ours.contest.scans else { return Ok(is_answered) };
        let found = match &handles[slot] {
            Some(Handle::Bytes(keyspace)) => transaction
                .scan(keyspace, ..)
                .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
                .collect(),
            _ => return Ok(is_answered),
        };
        let Some(found): Option<Vec<_>> = self.excused(found)? else { return Ok(false) };
        let expected = ours.seen.entries(slot, moment).into_iter();
        let expected: Vec<_> =
            expected.map(|(key, value)| (key_bytes(key).to_vec(), value)).collect();
        if found == expected {
            Ok(is_answered)
        } else {
            Err(format!("a scan of slot {slot} in a transaction finds something else"))
        }
    }

    /// Runs the queries of a transaction. Returns whether all were answered.
    fn ask_in(
        &mut self,
        transaction: &Transaction,
        handles: &super::changes::SlotHandles,
        ours: &Ours<'_>,
    ) -> Check<bool> {
        let Some(Handle::Documents(collection)) = &handles[DOCUMENTS] else { return Ok(true) };
        let mut are_answered = true;
        for ask in &ours.asks {
            let expected = matching(ours.seen.entries(DOCUMENTS, ours.moment), ask);
            let find = transaction.find(collection, ask.filter());
            // A count may read nothing but a range of an index.
            let found = if ours.contest.scans.is_some() {
                compare(&find, &expected, None, 0)
            } else {
                find.count().map(|count| {
                    if count == expected.len() as u64 {
                        Ok(())
                    } else {
                        Err(format!("a count of {count}, expected {}", expected.len()))
                    }
                })
            };
            match self.excused(found)? {
                Some(Ok(())) => {}
                Some(Err(what)) => {
                    return Err(format!("{} in a transaction: {what}", ask.filter()));
                }
                None => are_answered = false,
            }
        }
        Ok(are_answered)
    }

    /// Returns whether a query of a transaction would count something else now.
    fn finds_another(&self, ours: &Ours<'_>) -> bool {
        let after = self.oracle.after(&ours.made);
        let count = |state: &State, ask| matching(state.entries(DOCUMENTS, ours.moment), ask).len();
        ours.asks.iter().any(|ask| count(&ours.seen, ask) != count(&after, ask))
    }

    /// Returns whether theirs has given a unique value of the transaction to another document.
    fn has_lost_value(&self, ours: &Ours<'_>) -> bool {
        let Some(life) = &self.life else { return false };
        let keys = ours.documents();
        let theirs = (0..KEYS as Key).filter(|key| {
            !keys.contains(key) && life.written[DOCUMENTS][usize::from(*key)] > ours.since
        });
        has_taken(&self.oracle.indexes, &ours.seen, &keys, &self.oracle.now, theirs)
    }

    /// Returns what must become of a transaction.
    fn verdict(&self, ours: &Ours<'_>, has_other_indexes: bool) -> Verdict {
        let Some(life) = &self.life else { return Verdict::Unknown };
        let written = |(slot, key): (usize, Key)| life.written[slot][usize::from(key)] > ours.since;
        let surely = |(slot, key): (usize, Key)| {
            let event = life.written[slot][usize::from(key)];
            written((slot, key)) && life.unchanged.get(&(slot, key)) != Some(&event)
        };
        let is_serializable = ours.contest.is_serializable;
        let keys = |slot: usize| (0..KEYS as Key).map(move |key| (slot, key));
        let scanned = ours.contest.scans.filter(|slot| *slot != DOCUMENTS);
        // What it reads of its own writes is no read.
        let is_own = |at: &(usize, Key)| ours.written().any(|own| own == *at);
        let read = ours.contest.reads.iter().copied().chain(scanned.into_iter().flat_map(keys));
        let read = read.chain(ours.deleted.iter().copied());
        let read: Vec<_> = read.filter(|at| !is_own(at)).collect();
        let must = if is_serializable {
            ours.is_read && read.into_iter().any(surely)
        } else {
            ours.written().any(surely)
        };
        let must = must || ours.guarded.iter().copied().any(surely);
        let has_documents = !ours.documents().is_empty();
        let must = must
            || (is_serializable && ours.is_read && self.finds_another(ours))
            || (has_documents && self.has_lost_value(ours))
            || (has_documents
                && has_other_indexes
                && self.oracle.has_indexes()
                && !self.place.has_failed());
        if must {
            return Verdict::Conflict;
        }
        if has_other_indexes {
            return Verdict::Unknown;
        }
        let slots: BTreeSet<usize> = if is_serializable {
            (0..SLOTS).filter(|slot| ours.contest.slots().any(|of| of == *slot)).collect()
        } else {
            BTreeSet::new()
        };
        let is_absent = |(slot, key): (usize, Key)| self.oracle.get(slot, key).is_none();
        // A commit that the disk has refused is one that came between, for serializable ones.
        let may = (is_serializable && self.place.has_failed())
            || slots.into_iter().flat_map(keys).any(written)
            || (!is_serializable && ours.written().any(|at| written(at) || is_absent(at)))
            || ours.guarded.iter().any(|at| written(*at) || is_absent(*at))
            || (self.oracle.has_unique() && ours.written().any(|(slot, _)| slot == DOCUMENTS));
        if may { Verdict::Unknown } else { Verdict::Holds }
    }
}
