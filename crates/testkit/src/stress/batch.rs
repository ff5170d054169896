//! The batches of a thread and their results.

use crate::rng::Rng;
use flagstone::{Batch, Collection, Keyspace, Patch, Result};
use flagstone_base::hash::remix;
use std::collections::BTreeMap;

/// The number of keys of a thread in each keyspace.
pub(super) const SLOTS: u64 = 60;

/// The handles of all keyspaces and collections.
pub(super) struct Handles {
    pub(super) hashed: Keyspace,
    pub(super) ranged: Keyspace,
    pub(super) sums: Keyspace,
    pub(super) documents: Collection,
    pub(super) bank: Keyspace,
}

/// An operation on a slot of the thread.
#[derive(Clone, Copy, Debug)]
enum Op {
    Put { ranged: bool, slot: u64, len: usize, seed: u64 },
    Delete { ranged: bool, slot: u64 },
    DeleteRange { from: u64, to: u64 },
    Add { slot: u64, by: i64 },
    Patch { slot: u64, by: i64 },
    DeleteDocument { slot: u64 },
}

/// The result of the first batches of a thread.
#[derive(Clone, Default)]
pub(super) struct Left {
    /// The number of batches.
    pub(super) batches: u64,
    pub(super) hashed: BTreeMap<u64, (usize, u64)>,
    pub(super) ranged: BTreeMap<u64, (usize, u64)>,
    pub(super) sums: BTreeMap<u64, i64>,
    pub(super) documents: BTreeMap<u64, i64>,
}

/// Returns the key of a slot.
pub(super) fn key(thread: usize, slot: u64) -> String {
    format!("t{thread:02}/{slot:04}")
}

/// Returns the key under which a thread counts its batches.
pub(super) fn count_key(thread: usize) -> String {
    format!("t{thread:02}/count")
}

/// Returns the value of a put.
pub(super) fn value(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    if seed.is_multiple_of(2) {
        return rng.bytes(len);
    }
    format!("value {seed} ").into_bytes().into_iter().cycle().take(len).collect()
}

/// Returns the operations of batch `n`, counted from 1.
fn ops(seed: u64, thread: usize, n: u64) -> Vec<Op> {
    let mut rng = Rng::new(remix(seed ^ remix(thread as u64 + 1) ^ n));
    let op = |rng: &mut Rng| {
        let (slot, ranged) = (rng.below(SLOTS), rng.percent(50));
        match rng.below(100) {
            0..=59 => {
                let len = if rng.percent(4) { rng.below(12_000) } else { rng.below(300) };
                Op::Put { ranged, slot, len: len as usize, seed: rng.number() }
            }
            60..=74 => Op::Delete { ranged, slot },
            75..=77 => Op::DeleteRange { from: slot, to: slot + 1 + rng.below(10) },
            78..=87 => Op::Add { slot, by: rng.below(1000) as i64 - 500 },
            88..=97 => Op::Patch { slot, by: rng.below(1000) as i64 - 500 },
            _ => Op::DeleteDocument { slot },
        }
    };
    (0..rng.between(1, 7)).map(|_| op(&mut rng)).collect()
}

/// Fills `batch` with batch `n` of the thread.
pub(super) fn fill(
    batch: &mut Batch,
    handles: &Handles,
    (seed, thread, n): (u64, usize, u64),
) -> Result<()> {
    batch.merge(&handles.sums, count_key(thread), 1_i64.to_le_bytes())?;
    for op in ops(seed, thread, n) {
        let of = |ranged| if ranged { &handles.ranged } else { &handles.hashed };
        match op {
            Op::Put { ranged, slot, len, seed } => {
                batch.put(of(ranged), key(thread, slot), value(len, seed))?;
            }
            Op::Delete { ranged, slot } => batch.delete(of(ranged), key(thread, slot))?,
            Op::DeleteRange { from, to } => {
                batch.delete_range(&handles.ranged, key(thread, from), key(thread, to))?;
            }
            Op::Add { slot, by } => {
                batch.merge(&handles.sums, key(thread, slot), by.to_le_bytes())?;
            }
            Op::Patch { slot, by } => {
                let patch = Patch::new().upsert().inc("n", by).set("of", thread as i64);
                batch.patch(&handles.documents, key(thread, slot), &patch)?;
            }
            Op::DeleteDocument { slot } => {
                batch.delete_document(&handles.documents, key(thread, slot))?;
            }
        }
    }
    Ok(())
}

impl Left {
    /// Applies the next batch.
    pub(super) fn apply(&mut self, seed: u64, thread: usize) {
        self.batches += 1;
        for op in ops(seed, thread, self.batches) {
            match op {
                Op::Put { ranged, slot, len, seed } => {
                    self.of(ranged).insert(slot, (len, seed));
                }
                Op::Delete { ranged, slot } => {
                    self.of(ranged).remove(&slot);
                }
                Op::DeleteRange { from, to } => {
                    self.ranged.retain(|slot, _| !(from..to).contains(slot));
                }
                Op::Add { slot, by } => *self.sums.entry(slot).or_default() += by,
                Op::Patch { slot, by } => *self.documents.entry(slot).or_default() += by,
                Op::DeleteDocument { slot } => {
                    self.documents.remove(&slot);
                }
            }
        }
    }

    fn of(&mut self, ranged: bool) -> &mut BTreeMap<u64, (usize, u64)> {
        if ranged { &mut self.ranged } else { &mut self.hashed }
    }
}
