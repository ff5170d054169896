//! Draws the steps of a history from a seed.

use super::disk::FailureRates;
use super::document::{Edit, LIST_COUNT, Missing, PAD};
use super::model::{DOCUMENTS, KEYS, KINDS, Key, Kind, LARGE_FROM, SLOTS};
use super::place::Crash;
use super::plan_documents::{Documents, strange};
use super::setting::{Ills, Profile, SimSetting, durability};
use super::step::{Condition, Ending, How, Lasts, Moved, Planned, SimStep, SlotChange, ValueOf};
use super::times::Times;
use crate::rng::Rng;
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone_base::flip::EntryPart;
use flagstone_base::hash::remix;

/// Returns the steps of the history with this seed.
pub fn plan(seed: u64) -> Vec<Planned> {
    let profile = SimSetting::draw(seed).profile;
    let (rng, flips) = (Rng::new(remix(seed ^ 2)), Rng::new(remix(seed ^ 3)));
    let (larges, times) = (Rng::new(remix(seed ^ 5)), Times::new(seed, profile.expiring));
    let (names, may_be_large, ingests) = (1, false, Rng::new(remix(seed ^ 9)));
    let (patches, steps) = (Rng::new(remix(seed ^ 11)), vec![]);
    let (moves, stranges) = (Rng::new(remix(seed ^ 0x40)), Rng::new(remix(seed ^ 20)));
    let (splits, renamings) = (Rng::new(remix(seed ^ 14)), Rng::new(remix(seed ^ 16)));
    let documents = Documents::new(seed, profile.expiring[DOCUMENTS]);
    let mut planner = Planner {
        rng,
        documents,
        flips,
        larges,
        times,
        ingests,
        splits,
        moves,
        renamings,
        patches,
        stranges,
        profile,
        names,
        may_be_large,
        steps,
    };
    for _ in 0..planner.rng.between(2, 6) {
        planner.life();
    }
    planner.steps
}

struct Planner {
    rng: Rng,
    /// A generator for flips alone, so that flips do not change the other steps of a history.
    flips: Rng,
    /// A generator for large values alone, for the same reason.
    larges: Rng,
    /// Expiries and the clock, for the same reason.
    times: Times,
    /// A generator for ingests alone, for the same reason.
    ingests: Rng,
    /// A generator for splits by load alone, for the same reason.
    splits: Rng,
    /// A generator for moved directories alone, for the same reason.
    moves: Rng,
    /// A generator for renamings alone, for the same reason.
    renamings: Rng,
    /// A generator for array changes and conditions of patches alone, for the same reason.
    patches: Rng,
    /// A generator for values that plain JSON lacks alone, for the same reason.
    stranges: Rng,
    /// Indexes and queries, for the same reason.
    documents: Documents,
    profile: Profile,
    /// The number of field names used so far.
    names: u16,
    /// Whether the batch has room for a large value.
    may_be_large: bool,
    steps: Vec<Planned>,
}

impl Planner {
    fn push(&mut self, step: SimStep) {
        let seed = self.rng.number();
        self.steps.push(Planned { step, seed });
    }

    fn life(&mut self) {
        if self.rng.percent(50) {
            let limit = *self.rng.pick(&[30, 100, 400]);
            let nth = self.rng.between(1, limit);
            self.push(SimStep::PowerAt(nth));
        }
        self.ills();
        for _ in 0..self.rng.between(4, 50) {
            if self.rng.percent(50) {
                let steps = self.rng.between(1, 6) as u16;
                self.push(SimStep::Work(steps));
            }
            if let Some(step) = self.times.clock_step() {
                self.steps.push(Planned { step, seed: self.times.number() });
            }
            self.ingest();
            self.contend();
            self.rename();
            if let Some(step) = self.documents.step() {
                self.steps.push(Planned { step, seed: self.documents.number() });
            }
            let step = self.step();
            self.push(step);
            self.move_directory(1);
        }
        self.move_directory(80);
        if self.rng.percent(30) {
            self.push(SimStep::ReadAll);
        }
        let ending = self.ending();
        self.push(SimStep::Crash(ending));
    }

    /// Plans an ingest, sometimes.
    fn ingest(&mut self) {
        if !self.ingests.percent(4) {
            return;
        }
        let slot = *self.ingests.pick(&[0, 1, 2, 4]);
        let lasts = if self.ingests.percent(self.profile.expiring[slot]) {
            Lasts::For(self.ingests.between(1, 60_000) as i64)
        } else {
            Lasts::Forever
        };
        let seed = self.ingests.number() as u32;
        let step = SimStep::Ingest(slot, seed, lasts, self.documents.batches());
        self.steps.push(Planned { step, seed: self.ingests.number() });
    }

    /// Plans that writers of a slot have waited for one another, sometimes.
    fn contend(&mut self) {
        if self.splits.percent(4) {
            let step = SimStep::Contend(self.splits.index(SLOTS));
            self.steps.push(Planned { step, seed: self.splits.number() });
        }
    }

    /// Plans that something happens to the directory, in so many of a thousand cases.
    fn move_directory(&mut self, per_mille: u64) {
        if self.moves.below(1000) < per_mille {
            let moved = *self.moves.pick(&[Moved::Away, Moved::Replaced, Moved::Unlocked]);
            let step = SimStep::MoveDirectory(moved);
            self.steps.push(Planned { step, seed: self.moves.number() });
        }
    }

    /// Plans the renaming of a slot, sometimes.
    fn rename(&mut self) {
        if self.renamings.percent(3) {
            let step = SimStep::Rename(self.renamings.index(SLOTS));
            self.steps.push(Planned { step, seed: self.renamings.number() });
        }
    }

    fn ills(&mut self) {
        match self.profile.ills {
            Ills::None => {}
            Ills::Faults => {
                for _ in 0..self.rng.below(4) {
                    let fault = self.fault();
                    self.push(SimStep::Fault(fault));
                }
                if self.flips.percent(30) {
                    let part = *self.flips.pick(&[EntryPart::Key, EntryPart::Value]);
                    let step = SimStep::Flip(part, self.flips.below(200));
                    self.steps.push(Planned { step, seed: self.flips.number() });
                }
            }
            Ills::Failures => {
                let rates = self.rates();
                self.push(SimStep::FailureRates(rates));
            }
            Ills::Full => {
                let room = self.rng.below(60_000);
                self.push(SimStep::Room(room));
            }
        }
    }

    fn failure(&mut self) -> Failure {
        *self.rng.pick(&[Failure::Io, Failure::NoSpace, Failure::NoSpace])
    }

    fn fault(&mut self) -> Fault {
        let (failure, nth) = (self.failure(), self.rng.between(1, 300));
        // A longer piece of the log could have a whole record, which must not come back.
        let mut piece = self.rng.below(300) as usize;
        if self.profile.large_percent > 0 && self.larges.percent(50) {
            piece = self.larges.index(LARGE_FROM as usize);
        }
        match self.rng.below(10) {
            0..=3 => Fault::new(Effect::Fail(failure)).on(&Op::CHANGES).nth(nth),
            4 => Fault::new(Effect::Fail(failure)).nth(nth),
            5..=6 => Fault::new(Effect::Short(piece, failure)).on(&[Op::Append]).nth(nth),
            7 => {
                let bit = self.rng.index(100_000);
                Fault::new(Effect::FlipBit(bit)).on(&[Op::Read]).of(FileKind::Table).nth(nth)
            }
            8 => {
                let kind = *self.rng.pick(&[FileKind::Manifest, FileKind::Table]);
                Fault::new(Effect::FailAfter(failure)).of(kind).nth(nth / 8 + 1)
            }
            _ => {
                // Writing the void of a refused record may fail as well.
                let log = Fault::new(Effect::FailAfter(failure)).on(&[Op::Append]);
                let log = log.of(FileKind::Wal).nth(nth % 20 + 1);
                if self.rng.percent(50) { log.forever() } else { log }
            }
        }
    }

    fn rates(&mut self) -> FailureRates {
        FailureRates {
            changes_per_mille: *self.rng.pick(&[2, 10, 50, 200]),
            reads_per_mille: *self.rng.pick(&[0, 0, 10, 50]),
            is_full: self.rng.percent(40),
            loses_dirty: self.rng.percent(50),
        }
    }

    fn ending(&mut self) -> Ending {
        let crash = |rng: &mut Rng| if rng.percent(40) { Crash::Kill } else { Crash::PowerCut };
        Ending {
            crash: crash(&mut self.rng),
            others: *self.rng.pick(&[0, 0, 1, 1, 2, 3]),
            again: self.rng.percent(25).then(|| (self.rng.between(1, 40), crash(&mut self.rng))),
            rates: (self.profile.ills == Ills::Failures && self.rng.percent(30))
                .then(|| self.rates()),
            reads_only: self.rng.percent(10),
        }
    }

    fn slot(&mut self) -> usize {
        self.rng.index(SLOTS)
    }

    fn key(&mut self) -> Key {
        self.rng.below(KEYS as u64) as Key
    }

    fn value(&mut self) -> ValueOf {
        let most = self.profile.value_bytes_max;
        let len = match self.rng.below(20) {
            0 => 0,
            1..=12 => self.rng.below(40),
            _ => self.rng.below(most + 1),
        };
        let seed = self.rng.number() as u32;
        let len = if self.is_large() {
            LARGE_FROM + self.larges.below(40_000) as u32
        } else {
            len as u32
        };
        ValueOf { len, seed }
    }

    /// Decides whether the next value is large. A batch has at most one, since it must fit into a
    /// quarter of the memory.
    fn is_large(&mut self) -> bool {
        let is_large = self.may_be_large && self.larges.percent(self.profile.large_percent);
        self.may_be_large &= !is_large;
        is_large
    }

    /// Returns a name, sometimes a new one.
    fn name(&mut self) -> u16 {
        if self.rng.percent(20) {
            self.names += 1;
        }
        if self.rng.percent(50) { self.names } else { self.rng.below(self.names.into()) as u16 }
    }

    fn number(&mut self) -> i16 {
        self.rng.below(2000) as i16 - 1000
    }

    fn change(&mut self, slot: usize) -> SlotChange {
        let key = self.key();
        if KINDS[slot] == Kind::Documents {
            return match self.rng.below(10) {
                0..=1 => SlotChange::Delete(slot, key),
                2..=4 => {
                    let mut fields: Vec<_> = (0..self.rng.between(1, 8))
                        .map(|_| (self.name(), self.number().into()))
                        .collect();
                    fields.sort_unstable();
                    fields.dedup_by_key(|field| field.0);
                    if self.is_large() {
                        let fours = LARGE_FROM / 4 + self.larges.below(10_000) as u32;
                        fields.push((PAD, fours.into()));
                    }
                    fields.extend(strange(&mut self.stranges));
                    SlotChange::Document(slot, key, fields, self.times.lasts(slot))
                }
                _ => self.patch(slot, key),
            };
        }
        match self.rng.below(100) {
            0..=19 => SlotChange::Delete(slot, key),
            20..=25 => {
                let (a, b) = (key, self.key());
                if a == b {
                    return SlotChange::Delete(slot, key);
                }
                SlotChange::DeleteRange(slot, a.min(b), a.max(b))
            }
            26..=60 if KINDS[slot] != Kind::Plain => {
                SlotChange::Merge(slot, key, self.rng.number() as u32)
            }
            _ => SlotChange::Put(slot, key, self.value(), self.times.lasts(slot)),
        }
    }

    fn patch(&mut self, slot: usize, key: Key) -> SlotChange {
        let mut edits: Vec<_> = (0..self.rng.between(1, 4))
            .map(|_| (self.name(), self.number(), self.rng.percent(60)))
            .collect();
        edits.sort_unstable();
        edits.dedup_by_key(|edit| edit.0);
        let edit = |(name, number, adds): (u16, i16, bool)| {
            if adds { Edit::Add(name, number) } else { Edit::Set(name, number.into()) }
        };
        let mut edits: Vec<_> = edits.into_iter().map(edit).collect();
        let mut missing = if self.rng.percent(70) { Missing::Empty } else { Missing::Nothing };
        // These draw from a generator of their own, so that the other steps stay what they were.
        if self.patches.percent(60) {
            let more = self.patches.between(1, 3);
            edits.truncate(self.patches.below(3) as usize);
            for _ in 0..more {
                let at = self.patches.below(edits.len() as u64 + 1) as usize;
                edits.insert(at, self.newer_edit());
            }
            if self.patches.percent(30) {
                missing = Missing::Default(self.patches.below(100) as i16);
            }
        }
        SlotChange::Patch(slot, key, missing, edits)
    }

    /// Returns an edit of an array, or a condition.
    fn newer_edit(&mut self) -> Edit {
        let patches = &mut self.patches;
        let name = patches.below(u64::from(self.names)) as u16;
        let list = patches.below(u64::from(LIST_COUNT)) as u16;
        let number = patches.below(6) as u8;
        match patches.below(10) {
            0 => Edit::IfLess(name, patches.below(2000) as i16 - 500),
            1 => Edit::IfMissing(name),
            2..=4 => Edit::Collect(list, number),
            5 | 6 => Edit::Insert(list, patches.below(9) as i8 - 4, number),
            7 => Edit::Pull(list, number),
            first => Edit::Pop(list, first == 8),
        }
    }

    fn changes(&mut self) -> Vec<SlotChange> {
        let len = match self.rng.below(100) {
            0..=3 => self.rng.below(30),
            4..=49 => 1,
            _ => self.rng.between(1, 5),
        };
        self.may_be_large = len <= 5;
        (0..len)
            .map(|_| {
                let slot = self.slot();
                self.change(slot)
            })
            .collect()
    }

    fn commit(&mut self) -> SimStep {
        let changes = self.changes();
        let how = match self.rng.below(10) {
            0..=5 => How::With(durability(&mut self.rng, &self.profile)),
            6..=7 => How::Plain,
            8 => How::Start,
            _ => How::Try,
        };
        let expect = match self.rng.below(100) {
            0..=7 => Some(Condition::Token(self.rng.index(100))),
            8..=11 => {
                let slot = self.slot();
                Some(Condition::Absent(slot, self.key()))
            }
            _ => self.times.unchanged(),
        };
        SimStep::Commit(changes, how, expect)
    }

    fn step(&mut self) -> SimStep {
        let (slot, key, which) = (self.slot(), self.key(), self.rng.index(100));
        let reverse = self.rng.percent(50);
        self.may_be_large = true;
        match self.rng.below(1000) {
            0..=449 => self.commit(),
            450..=549 => SimStep::Single(self.change(slot)),
            550..=559 => SimStep::Remove(slot, key),
            560..=564 => {
                let durability = durability(&mut self.rng, &self.profile);
                SimStep::Load(slot, self.rng.number() as u32, durability, self.times.lasts(slot))
            }
            565..=589 => SimStep::Wait(which),
            590..=629 => SimStep::Token(*self.rng.pick(&[0, 4]), key),
            630..=644 => SimStep::Drop(slot),
            645..=654 => SimStep::Clear(slot),
            655..=674 => SimStep::Sync,
            675..=724 => SimStep::Flush,
            725..=739 => SimStep::Compact,
            740..=749 => SimStep::Checkpoint,
            750..=759 => SimStep::OpenCopy(which, reverse),
            760..=784 => SimStep::Snapshot,
            785..=809 => SimStep::ReadSnapshot(which, slot, reverse),
            810..=814 => SimStep::DropSnapshot(which),
            815..=834 => SimStep::OpenScan(slot, reverse),
            835..=869 => SimStep::Advance(which, self.rng.between(1, 12) as u8),
            870..=879 => SimStep::Park(which),
            880..=884 => SimStep::DropScan(which),
            885..=909 => SimStep::Get(slot, key),
            910..=919 => {
                let keys = (0..self.rng.below(8)).map(|_| self.key()).collect();
                SimStep::MultiGet(slot, keys)
            }
            920..=934 => {
                let other = self.key();
                SimStep::Scan(slot, key.min(other), key.max(other), reverse)
            }
            935..=939 => SimStep::Count(slot),
            940..=954 => SimStep::ReadAll,
            955..=957 => SimStep::Verify,
            958..=967 => SimStep::Clock(self.rng.between(1, 3000)),
            968..=979 => SimStep::Reopen,
            980..=989 if self.profile.ills != Ills::None => SimStep::Heal,
            990..=994 if self.profile.ills == Ills::Full => SimStep::Room(self.rng.below(20_000)),
            _ => SimStep::Work(self.rng.between(5, 60) as u16),
        }
    }
}
