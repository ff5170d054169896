//! Draws the steps on the collection: its indexes, queries and transactions.

use super::ask::Ask;
use super::document::{Edit, LIST_COUNT, Missing};
use super::indexes::INDEXES;
use super::model::{DOCUMENTS, KEYS, Key};
use super::step::{Build, Change, DocumentStep, Lasts, Step};
use crate::rng::Rng;
use flagstone_base::hash::remix;

/// The generator of everything about indexes and queries. It is one of its own, so that it does not
/// change the other steps of a history.
pub(super) struct Documents {
    rng: Rng,
    /// The percentage of the other steps that are followed by one of these.
    percent: u64,
    /// The percentage of the documents that expire.
    expiring: u64,
}

impl Documents {
    pub(super) fn new(seed: u64, expiring: u64) -> Self {
        let mut rng = Rng::new(remix(seed ^ 12));
        let percent = *rng.pick(&[0, 10, 40, 80]);
        Self { rng, percent, expiring }
    }

    /// Draws whether the database keeps changes for readers.
    pub(super) fn draw_keeps_changes(seed: u64) -> bool {
        Rng::new(remix(seed ^ 13)).percent(40)
    }

    pub(super) const fn number(&mut self) -> u64 {
        self.rng.number()
    }

    /// Draws a step, sometimes.
    pub(super) fn step(&mut self) -> Option<Step> {
        if !self.rng.percent(self.percent) {
            return None;
        }
        let rng = &mut self.rng;
        let (which, at) = (rng.index(100), rng.index(INDEXES));
        Some(Step::Documents(match rng.below(20) {
            0..=3 => DocumentStep::CreateIndex(at, self.build()),
            4 => DocumentStep::DropIndex(at),
            5..=7 => {
                let order = rng.percent(60).then(|| (rng.below(3) as u16, rng.percent(50)));
                let (ask, limit) = (Ask::draw(rng), rng.below(30));
                DocumentStep::Find(ask, order, limit, rng.percent(30).then_some(which))
            }
            8 => {
                let (ask, order) = (Ask::draw(rng), (rng.below(3) as u16, rng.percent(50)));
                DocumentStep::Page(ask, order, rng.between(1, 6))
            }
            9 => DocumentStep::NextPage(which, rng.between(1, 12)),
            10 => {
                let edits = rng.percent(80).then(|| edits(rng));
                DocumentStep::WriteMany(Ask::draw(rng), edits, rng.between(1, 12))
            }
            11 | 12 => {
                let changes = (0..rng.below(6)).map(|_| self.change()).collect();
                DocumentStep::Transact(changes, self.rng.percent(85))
            }
            13 => DocumentStep::Follow(rng.percent(50)),
            _ => {
                let changes = (0..rng.between(1, 4)).map(|_| self.change()).collect();
                return Some(Step::Commit(changes, super::step::How::Plain, None));
            }
        }))
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

    /// Draws a write of one document, with values that often meet.
    fn change(&mut self) -> Change {
        let lasts = match self.rng.percent(self.expiring) {
            true => Lasts::For(self.rng.between(1, 60_000) as i64),
            false => Lasts::Forever,
        };
        let rng = &mut self.rng;
        let key = rng.below(KEYS as u64) as Key;
        match rng.below(10) {
            0 => Change::Delete(DOCUMENTS, key),
            1..=5 => {
                let most = [9, 60, 5];
                let fields = (0..3_u16).filter(|_| rng.percent(70)).collect::<Vec<_>>();
                let field = |name: u16| (name, rng.below(most[usize::from(name)]) as i16 - 1);
                Change::Document(DOCUMENTS, key, fields.into_iter().map(field).collect(), lasts)
            }
            _ => {
                let missing = if rng.percent(70) { Missing::Nothing } else { Missing::Empty };
                Change::Patch(DOCUMENTS, key, missing, edits(rng))
            }
        }
    }
}

fn edits(rng: &mut Rng) -> Vec<Edit> {
    let (field, list) = (rng.below(3) as u16, rng.below(u64::from(LIST_COUNT)) as u16);
    let item = rng.below(6) as u8;
    let edit = match rng.below(8) {
        0..=2 => Edit::Set(field, rng.below(40) as i16),
        3 => Edit::Add(field, rng.below(5) as i16),
        4..=6 => Edit::Collect(list, item),
        _ => Edit::Pull(list, item),
    };
    vec![edit]
}
