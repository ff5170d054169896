//! What a store in memory holds.

use crate::store::{
    Batch, Change, Condition, Freshness, Kind, Outcome, Page, PageRequest, Partition, Record, Rows,
    RowsRequest, StoredRow,
};
use flagstone_base::{Result, Slice};
use std::collections::BTreeMap;

/// A call that changes something.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Batch(Batch),
    Epoch { partition: Partition, expected: Option<i32>, new: i32 },
    RemoveRows(Partition),
    RemoveKind(Partition, Kind),
    Note { name: String, expected: Option<i64>, new: Record },
}

/// What has one order of serial calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Partition(Partition),
    Note(String),
}

#[derive(Default)]
struct BucketState {
    epoch: Option<i32>,
    rows: BTreeMap<(Kind, Slice), StoredRow>,
}

#[derive(Default)]
pub(super) struct MemState {
    buckets: BTreeMap<Partition, BucketState>,
    notes: BTreeMap<String, Record>,
    /// What was begun, and the next serial call completes.
    begun: BTreeMap<Place, Action>,
    late: Vec<Action>,
}

impl Action {
    /// Returns whether it has a condition.
    pub(super) const fn is_conditional(&self) -> bool {
        !matches!(self, Self::RemoveRows(_) | Self::RemoveKind(..))
    }

    fn place(&self) -> Place {
        match self {
            Self::Batch(batch) => Place::Partition(batch.partition),
            Self::Epoch { partition, .. }
            | Self::RemoveRows(partition)
            | Self::RemoveKind(partition, _) => Place::Partition(*partition),
            Self::Note { name, .. } => Place::Note(name.clone()),
        }
    }
}

impl MemState {
    /// Does what was asked, after what was begun.
    pub(super) fn act(&mut self, action: &Action) -> Result<Outcome> {
        if action.is_conditional() {
            self.complete(&action.place());
        }
        let is_applied = match action {
            Action::Batch(batch) => self.bucket(batch.partition).apply(batch),
            Action::Epoch { partition, expected, new } => {
                let bucket = self.bucket(*partition);
                let is_expected = bucket.epoch == *expected;
                if is_expected {
                    bucket.epoch = Some(*new);
                }
                is_expected
            }
            Action::RemoveRows(partition) => {
                self.bucket(*partition).rows.clear();
                true
            }
            Action::RemoveKind(partition, kind) => {
                self.bucket(*partition).rows.retain(|(of, _), _| of != kind);
                true
            }
            Action::Note { name, expected, new } => {
                let is_expected = self.notes.get(name).map(|note| note.version) == *expected;
                if is_expected {
                    self.notes.insert(name.clone(), new.clone());
                }
                is_expected
            }
        };
        Ok(if is_applied { Outcome::Applied } else { Outcome::Refused })
    }

    /// Begins a change that the next serial call completes.
    pub(super) fn begin(&mut self, action: Action) {
        let place = action.place();
        self.complete(&place);
        self.begun.insert(place, action);
    }

    pub(super) fn send_late(&mut self, action: Action) {
        self.late.push(action);
    }

    /// Tries the late changes that `comes` chooses.
    pub(super) fn deliver(&mut self, mut comes: impl FnMut(&Action) -> bool) {
        for action in std::mem::take(&mut self.late) {
            if comes(&action) {
                let _judged_now = self.act(&action);
            } else {
                self.late.push(action);
            }
        }
    }

    fn complete(&mut self, place: &Place) {
        if let Some(begun) = self.begun.remove(place) {
            let _judged_now = self.act(&begun);
        }
    }

    fn bucket(&mut self, partition: Partition) -> &mut BucketState {
        self.buckets.entry(partition).or_default()
    }

    pub(super) fn rows(&mut self, request: &RowsRequest) -> Rows {
        if request.freshness == Freshness::Serial {
            self.complete(&Place::Partition(request.partition));
        }
        let bucket = self.bucket(request.partition);
        let row = |at: &crate::store::RowKey| bucket.rows.get(&(at.kind, at.key.clone())).cloned();
        Rows { epoch: bucket.epoch, rows: request.keys.iter().map(row).collect() }
    }

    pub(super) fn page(&mut self, request: &PageRequest) -> Page {
        let bucket = self.bucket(request.partition);
        let of = bucket.rows.range((request.kind, Slice::EMPTY)..);
        let of = of.take_while(|((kind, _), _)| *kind == request.kind);
        let found: Vec<&StoredRow> =
            of.map(|(_, row)| row).filter(|row| request.range.contains(&row.key)).collect();
        let is_last = found.len() <= request.limit;
        let row = |row: &StoredRow| {
            let mut row = row.clone();
            if request.keys_only {
                (row.value, row.token) = (Slice::EMPTY, None);
            }
            row
        };
        let rows: Vec<StoredRow> = if request.is_reversed {
            found.into_iter().rev().take(request.limit).map(row).collect()
        } else {
            found.into_iter().take(request.limit).map(row).collect()
        };
        let epoch = bucket.epoch.filter(|_| !rows.is_empty());
        Page { epoch, rows, is_last }
    }

    pub(super) fn note(&mut self, name: &str, freshness: Freshness) -> Option<Record> {
        if freshness == Freshness::Serial {
            self.complete(&Place::Note(name.to_owned()));
        }
        self.notes.get(name).cloned()
    }

    pub(super) fn notes(&self) -> Vec<(String, Record)> {
        self.notes.iter().map(|(name, note)| (name.clone(), note.clone())).collect()
    }

    pub(super) fn all_rows(&mut self, partition: Partition) -> Vec<(Kind, StoredRow)> {
        self.complete(&Place::Partition(partition));
        let rows = self.bucket(partition).rows.iter();
        rows.map(|((kind, _), row)| (*kind, row.clone())).collect()
    }

    pub(super) fn partitions(&self) -> Vec<Partition> {
        let full = self.buckets.iter().filter(|(_, bucket)| !bucket.rows.is_empty());
        full.map(|(partition, _)| *partition).collect()
    }
}

impl BucketState {
    /// Makes the changes of a batch if its conditions hold, and returns whether they do.
    fn apply(&mut self, batch: &Batch) -> bool {
        let holds = |condition: &Condition| {
            let row = self.rows.get(&(condition.row.kind, condition.row.key.clone()));
            row.and_then(|row| row.token) == condition.token
        };
        if self.epoch != Some(batch.epoch) || !batch.conditions.iter().all(holds) {
            return false;
        }
        for change in &batch.changes {
            match change {
                Change::Set { kind, row } => {
                    self.rows.insert((*kind, row.key.clone()), row.clone());
                }
                Change::Delete(row) => {
                    self.rows.remove(&(row.kind, row.key.clone()));
                }
            }
        }
        true
    }
}
