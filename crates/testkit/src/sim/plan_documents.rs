//! Draws the steps on the collection: its indexes, queries and transactions.

use super::ask::{FilterSpec, draw_order};
use super::document::{DATE, DATE_IN, Edit, LIST_COUNT, Missing, STRANGE, STRANGES};
use super::indexes::{BY_DATE, BY_FIRST_FIELD, INDEXES};
use super::model::{DOCUMENTS, KEYS, KINDS, Key, Kind, SLOTS};
use super::step::{
    Build, Condition, Contest, DocumentStep, Lasts, Passes, SimStep, SlotChange, ValueOf,
};
use super::summary::Summary;
use crate::rng::Rng;
use flagstone_base::hash::remix;

/// The generator of everything about indexes and queries. It is one of its own, so that it does not
/// change the other steps of a history.
pub(super) struct Documents {
    rng: Rng,
    /// A generator for values that plain JSON lacks alone.
    strange: Rng,
    /// A generator for what transactions expect, and the ranges that they delete, alone.
    expected: Rng,
    /// The percentage of the other steps that are followed by one of these.
    percent: u64,
    /// The percentage of the documents that expire.
    expiring: u64,
}

impl Documents {
    pub(super) fn new(seed: u64, expiring: u64) -> Self {
        let mut rng = Rng::new(remix(seed ^ 12));
        let percent = *rng.pick(&[0, 10, 40, 80]);
        let (expected, strange) = (Rng::new(remix(seed ^ 18)), Rng::new(remix(seed ^ 19)));
        Self { rng, strange, expected, percent, expiring }
    }

    /// Draws whether the database keeps changes for readers.
    pub(super) fn draw_keeps_changes(seed: u64) -> bool {
        Rng::new(remix(seed ^ 13)).percent(40)
    }

    pub(super) const fn number(&mut self) -> u64 {
        self.rng.number()
    }

    /// Draws a step, sometimes.
    pub(super) fn step(&mut self) -> Option<SimStep> {
        if !self.rng.percent(self.percent) {
            return None;
        }
        let rng = &mut self.rng;
        // Documents that expire by a date need a history in which documents may expire.
        let indexes = if self.expiring > 0 { INDEXES } else { BY_DATE };
        let (which, at) = (rng.index(100), rng.index(indexes));
        Some(SimStep::Documents(match rng.below(28) {
            0..=3 => DocumentStep::CreateIndex(at, self.build()),
            4 => DocumentStep::DropIndex(at),
            5..=7 => {
                let order = rng.percent(60).then(|| draw_order(rng));
                let (ask, limit) = (FilterSpec::draw(rng), rng.below(30));
                DocumentStep::Find(ask, order, limit, rng.percent(30).then_some(which))
            }
            8 => {
                let (ask, order) = (FilterSpec::draw(rng), draw_order(rng));
                DocumentStep::Page(ask, order, rng.between(1, 6))
            }
            9 => DocumentStep::NextPage(which, rng.between(1, 12)),
            10 => {
                let edits = rng.percent(80).then(|| edits(rng));
                DocumentStep::WriteMany(FilterSpec::draw(rng), edits, rng.between(1, 12))
            }
            11 | 12 => {
                let mut changes = (0..rng.below(6)).map(|_| self.change()).collect();
                let commits = self.rng.percent(85);
                self.delete_ranges(&mut changes);
                DocumentStep::Transact(changes, commits)
            }
            13 => DocumentStep::Follow(rng.percent(50)),
            20..=22 => {
                let (ask, summary) = (FilterSpec::draw(rng), Summary::draw(rng, &[0, 1, 2, DATE]));
                DocumentStep::Summarize(ask, summary, rng.percent(30).then_some(which))
            }
            23..=26 => {
                let mut contest = self.contest();
                self.delete_ranges(&mut contest.ours);
                self.expect(&mut contest);
                DocumentStep::Contest(contest)
            }
            27 => DocumentStep::KeepOld(rng.percent(70)),
            _ => {
                let changes = (0..rng.between(1, 4)).map(|_| self.change()).collect();
                return Some(SimStep::Commit(changes, super::step::How::Plain, None));
            }
        }))
    }

    /// Adds ranges that a transaction deletes, sometimes.
    fn delete_ranges(&mut self, changes: &mut Vec<SlotChange>) {
        let rng = &mut self.expected;
        let ranges = if rng.percent(25) { rng.between(1, 2) } else { 0 };
        for _ in 0..ranges {
            let slot = if rng.percent(50) { DOCUMENTS } else { rng.index(SLOTS) };
            let (from, most) = (rng.below(KEYS as u64) as Key, *rng.pick(&[3, 12, KEYS as u64]));
            let to = (u64::from(from) + rng.between(1, most)).min(KEYS as u64 - 1) as Key;
            if from < to {
                let at = rng.index(changes.len() + 1);
                changes.insert(at, SlotChange::DeleteRange(slot, from, to));
            }
        }
    }

    /// Adds what a transaction expects of keys, which it or the other commit often writes.
    fn expect(&mut self, contest: &mut Contest) {
        let rng = &mut self.expected;
        let expects = if rng.percent(50) { rng.between(1, 3) } else { 0 };
        let written = contest.theirs.iter().chain(&contest.theirs).chain(&contest.ours);
        let written: Vec<(usize, Key)> =
            written.map(|change| (change.slot(), change.keys().start)).collect();
        for _ in 0..expects {
            let (slot, key) = if rng.percent(60) && !written.is_empty() {
                *rng.pick(&written)
            } else {
                (rng.index(SLOTS), rng.below(KEYS as u64) as Key)
            };
            let which = rng.index(100);
            contest.expects.push(match rng.below(10) {
                0..=2 => Condition::Absent(slot, key),
                3..=5 => Condition::Version(slot, key),
                6 => Condition::Token(which),
                _ => Condition::Unchanged(which, slot, key),
            });
        }
    }

    fn build(&mut self) -> Build {
        let rng = &mut self.rng;
        let part_bytes = *rng.pick(&[1, 64, 300, 1 << 20]);
        let power_at = rng.percent(15).then(|| rng.between(1, 60));
        let cancels_at = rng.percent(10).then(|| rng.below(8) as u8);
        let batches = if rng.percent(50) { rng.below(6) } else { 0 };
        let beside = (0..batches)
            .map(|_| (0..self.rng.between(1, 3)).map(|_| self.change()).collect())
            .collect();
        Build { part_bytes, beside, cancels_at, power_at }
    }

    /// Draws a transaction and a commit beside it, which often write the same keys.
    fn contest(&mut self) -> Contest {
        let hot: Vec<(usize, Key)> = (0..self.rng.between(1, 4))
            .map(|_| {
                let slot = if self.rng.percent(60) { DOCUMENTS } else { self.rng.index(SLOTS) };
                (slot, self.rng.below(KEYS as u64) as Key)
            })
            .collect();
        let change = |documents: &mut Self| {
            if documents.rng.percent(70) {
                let (slot, key) = *documents.rng.pick(&hot);
                documents.change_of(slot, key)
            } else {
                documents.change()
            }
        };
        // A transaction that reads by queries alone, and writes elsewhere: what it must notice is
        // what appears where it has not looked.
        let is_query = self.rng.percent(40);
        let ours = if is_query {
            vec![self.change_of(0, 0)]
        } else {
            (0..self.rng.below(4)).map(|_| change(self)).collect()
        };
        let theirs = (0..self.rng.between(1, 3)).map(|_| change(self)).collect();
        let reads = if is_query { 0 } else { self.rng.below(3) };
        let reads = (0..reads).map(|_| *self.rng.pick(&hot)).collect();
        let scans = (!is_query && self.rng.percent(20)).then(|| *self.rng.pick(&[0, 1, 2, 4]));
        let rng = &mut self.rng;
        let asks = if is_query || rng.percent(30) { rng.between(1, 3) } else { 0 };
        let asks = (0..asks).map(|_| FilterSpec::draw(rng)).collect();
        let indexes =
            if rng.percent(if is_query { 70 } else { 25 }) { rng.between(1, 3) } else { 0 };
        let indexes = (0..indexes).map(|_| (rng.index(BY_DATE), rng.percent(70))).collect();
        let passes = match rng.below(10) {
            0 | 1 if self.expiring > 0 => Passes::Time(rng.between(1, 60_000)),
            2 if self.expiring > 0 => Passes::Jump(rng.between(2, 48) * 3_600_000),
            _ => Passes::Nothing,
        };
        let is_serializable = is_query || rng.percent(40);
        let expects = Vec::new();
        if is_query && rng.percent(50) {
            // The index that answers it is dropped before theirs.
            let (asks, indexes) =
                (vec![FilterSpec::draw_of_first_field(rng)], vec![(BY_FIRST_FIELD, true)]);
            return Contest {
                ours,
                theirs,
                reads,
                expects,
                scans,
                asks,
                indexes,
                passes,
                is_serializable,
            };
        }
        if self.expiring > 0 && rng.percent(15) {
            // Theirs takes the unique value of ours, and has expired when ours is committed.
            let (value, key) = (rng.below(60) as i64 - 1, rng.below(KEYS as u64 - 1) as Key);
            let document =
                |key, lasts| vec![SlotChange::Document(DOCUMENTS, key, vec![(1, value)], lasts)];
            let theirs = document(key, Lasts::For(rng.between(1, 60_000) as i64));
            let ours = document(key + 1, Lasts::Forever);
            let (passes, asks, indexes) = (Passes::Jump(2 * 3_600_000), Vec::new(), Vec::new());
            return Contest {
                ours,
                theirs,
                reads,
                expects,
                scans,
                asks,
                indexes,
                passes,
                is_serializable,
            };
        }
        Contest { ours, theirs, reads, expects, scans, asks, indexes, passes, is_serializable }
    }

    /// Draws a write of a key.
    fn change_of(&mut self, slot: usize, key: Key) -> SlotChange {
        if slot == DOCUMENTS {
            return self.change_at(key);
        }
        let (seed, lasts) = (self.rng.number() as u32, Lasts::Forever);
        match self.rng.below(10) {
            0 | 1 => SlotChange::Delete(slot, key),
            2..=5 if KINDS[slot] != Kind::Plain => SlotChange::Merge(slot, key, seed),
            _ => {
                SlotChange::Put(slot, key, ValueOf { len: self.rng.below(60) as u32, seed }, lasts)
            }
        }
    }

    /// Draws batches of documents that are written beside an ingest.
    pub(super) fn batches(&mut self) -> Vec<Vec<SlotChange>> {
        let batches = if self.rng.percent(50) { self.rng.below(3) } else { 0 };
        let batch = |_| (0..self.rng.between(1, 3)).map(|_| self.change()).collect();
        (0..batches).map(batch).collect()
    }

    /// Draws a write of one document, with values that often meet.
    fn change(&mut self) -> SlotChange {
        let key = self.rng.below(KEYS as u64) as Key;
        self.change_at(key)
    }

    fn change_at(&mut self, key: Key) -> SlotChange {
        let lasts = if self.rng.percent(self.expiring) {
            Lasts::For(self.rng.between(1, 60_000) as i64)
        } else {
            Lasts::Forever
        };
        let rng = &mut self.rng;
        match rng.below(10) {
            0 => SlotChange::Delete(DOCUMENTS, key),
            1..=5 => {
                let most = [9, 60, 5];
                let fields = (0..3_u16).filter(|_| rng.percent(70)).collect::<Vec<_>>();
                let field = |name: u16| (name, rng.below(most[usize::from(name)]) as i64 - 1);
                let mut fields: Vec<(u16, i64)> = fields.into_iter().map(field).collect();
                if rng.percent(40) {
                    fields.push((DATE_IN, date(rng)));
                }
                fields.extend(strange(&mut self.strange));
                SlotChange::Document(DOCUMENTS, key, fields, lasts)
            }
            _ => {
                let missing = if rng.percent(70) { Missing::Nothing } else { Missing::Empty };
                let mut edits = edits(rng);
                edits.extend(strange(&mut self.strange).map(|(name, of)| Edit::Set(name, of)));
                SlotChange::Patch(DOCUMENTS, key, missing, edits)
            }
        }
    }
}

/// Draws a field with a value that plain JSON lacks, sometimes.
pub(super) fn strange(rng: &mut Rng) -> Option<(u16, i64)> {
    rng.percent(12).then(|| (STRANGE, rng.index(STRANGES) as i64))
}

/// Draws a date, in milliseconds from the step on.
fn date(rng: &mut Rng) -> i64 {
    match rng.below(20) {
        0 => i64::from(i32::MIN) * 1000,
        1 => rng.below(4 * 3_600_000) as i64,
        _ => rng.below(120_000) as i64 - 60_000,
    }
}

fn edits(rng: &mut Rng) -> Vec<Edit> {
    if rng.percent(15) {
        return vec![Edit::Set(DATE_IN, date(rng))];
    }
    let (field, list) = (rng.below(3) as u16, rng.below(u64::from(LIST_COUNT)) as u16);
    let item = rng.below(6) as u8;
    let edit = match rng.below(8) {
        0..=2 => Edit::Set(field, rng.below(40) as i64),
        3 => Edit::Add(field, rng.below(5) as i16),
        4..=6 => Edit::Collect(list, item),
        _ => Edit::Pull(list, item),
    };
    vec![edit]
}
