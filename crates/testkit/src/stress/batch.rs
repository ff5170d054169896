//! The batches of a thread and their results.
//!
//! A batch names the moments at which its entries expire, so its result does not depend on the time
//! of its commit. Values of bytes expire while the children work. What merges and patches change
//! expires in the year 2100, or has expired since 1970: a write that reads it finds the same at any
//! time.

use crate::rng::Rng;
use flagstone::{Batch, Collection, Database, Document, Expires, Keyspace, Moment, Patch, Result};
use flagstone_base::hash::remix;
use std::collections::BTreeMap;

/// The number of keys of a thread in each keyspace.
pub(super) const SLOTS: u64 = 60;
/// Values expire within this many milliseconds after the database was created.
const SOON: u64 = 30_000;
/// A moment that no test reaches.
pub(super) const LATE: Moment = Moment::from_millis(4_102_444_800_000);
/// A moment that has passed.
const PAST: Moment = Moment::from_millis(1);

/// The seed and the creation time, which determine all batches of a database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) seed: u64,
    /// The moment at which the database was created. `None`: nothing expires.
    pub(super) created: Option<Moment>,
}

/// The handles of all keyspaces and collections.
pub(super) struct StressHandles {
    pub(super) hashed: Keyspace,
    pub(super) ranged: Keyspace,
    pub(super) sums: Keyspace,
    pub(super) documents: Collection,
    pub(super) bank: Keyspace,
}

/// An operation on a slot of the thread.
#[derive(Clone, Copy, Debug)]
enum SlotOp {
    Put {
        ranged: bool,
        slot: u64,
        value: Value,
    },
    Delete {
        ranged: bool,
        slot: u64,
    },
    DeleteRange {
        from: u64,
        to: u64,
    },
    Add {
        slot: u64,
        by: i64,
    },
    Patch {
        slot: u64,
        by: i64,
    },
    DeleteDocument {
        slot: u64,
    },
    /// Puts a sum that expires late, or has expired.
    SetSum {
        slot: u64,
        to: i64,
        is_late: bool,
    },
    /// Puts a document that expires late, or has expired.
    SetDocument {
        slot: u64,
        to: i64,
        is_late: bool,
    },
}

/// A value of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    len: usize,
    seed: u64,
    expiry: Option<Moment>,
}

impl Value {
    fn bytes(self) -> Vec<u8> {
        let mut rng = Rng::new(self.seed);
        if self.seed.is_multiple_of(2) {
            return rng.bytes(self.len);
        }
        let text = format!("value {} ", self.seed).into_bytes();
        text.into_iter().cycle().take(self.len).collect()
    }
}

/// A number, and whether it expires in the year 2100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) n: i64,
    pub(super) is_late: bool,
}

/// The result of the first batches of a thread.
#[derive(Clone, Default)]
pub(super) struct Left {
    /// The number of batches.
    pub(super) batches: u64,
    pub(super) hashed: BTreeMap<u64, Value>,
    pub(super) ranged: BTreeMap<u64, Value>,
    pub(super) sums: BTreeMap<u64, Number>,
    pub(super) documents: BTreeMap<u64, Number>,
}

/// Returns the key of a slot.
pub(super) fn key(thread: usize, slot: u64) -> String {
    format!("t{thread:02}/{slot:04}")
}

/// Returns the key under which a thread counts its batches.
pub(super) fn count_key(thread: usize) -> String {
    format!("t{thread:02}/count")
}

/// Returns the operations of batch `n`, counted from 1.
fn ops(source: Source, thread: usize, n: u64) -> Vec<SlotOp> {
    let seed = source.seed ^ remix(thread as u64 + 1) ^ n;
    let (mut rng, mut times) = (Rng::new(remix(seed)), Rng::new(remix(seed ^ 1)));
    let op = |rng: &mut Rng| {
        let (slot, ranged) = (rng.below(SLOTS), rng.percent(50));
        match rng.below(100) {
            0..=59 => {
                let len = if rng.percent(4) { rng.below(12_000) } else { rng.below(300) };
                let value = Value { len: len as usize, seed: rng.number(), expiry: None };
                SlotOp::Put { ranged, slot, value }
            }
            60..=74 => SlotOp::Delete { ranged, slot },
            75..=77 => SlotOp::DeleteRange { from: slot, to: slot + 1 + rng.below(10) },
            78..=87 => SlotOp::Add { slot, by: rng.below(1000) as i64 - 500 },
            88..=97 => SlotOp::Patch { slot, by: rng.below(1000) as i64 - 500 },
            _ => SlotOp::DeleteDocument { slot },
        }
    };
    let ops = (0..rng.between(1, 7)).map(|_| op(&mut rng));
    match source.created {
        None => ops.collect(),
        Some(created) => ops.map(|op| expiring(op, created, &mut times)).collect(),
    }
}

/// Gives some operations an expiry.
fn expiring(op: SlotOp, created: Moment, rng: &mut Rng) -> SlotOp {
    let (is_chosen, is_late) = (rng.percent(25), rng.percent(70));
    match op {
        SlotOp::Put { ranged, slot, value } if is_chosen => {
            let expiry = Moment::from_millis(created.millis() + rng.below(SOON));
            SlotOp::Put { ranged, slot, value: Value { expiry: Some(expiry), ..value } }
        }
        SlotOp::Add { slot, by: to } if is_chosen => SlotOp::SetSum { slot, to, is_late },
        SlotOp::Patch { slot, by: to } if is_chosen => SlotOp::SetDocument { slot, to, is_late },
        op => op,
    }
}

/// Fills `batch` with batch `n` of the thread.
pub(super) fn fill(
    batch: &mut Batch,
    handles: &StressHandles,
    source: Source,
    thread: usize,
    n: u64,
) -> Result<()> {
    batch.merge(&handles.sums, count_key(thread), 1_i64.to_le_bytes())?;
    let late = |is_late: bool| if is_late { LATE } else { PAST };
    for op in ops(source, thread, n) {
        let of = |ranged| if ranged { &handles.ranged } else { &handles.hashed };
        match op {
            SlotOp::Put { ranged, slot, value } => {
                let bytes = value.bytes().expires(value.expiry);
                batch.put(of(ranged), key(thread, slot), bytes)?;
            }
            SlotOp::Delete { ranged, slot } => batch.delete(of(ranged), key(thread, slot))?,
            SlotOp::DeleteRange { from, to } => {
                batch.delete_range(&handles.ranged, key(thread, from)..key(thread, to))?;
            }
            SlotOp::Add { slot, by } => {
                batch.merge(&handles.sums, key(thread, slot), by.to_le_bytes())?;
            }
            SlotOp::Patch { slot, by } => {
                let patch = Patch::new().upsert().inc("n", by).set("of", thread as i64);
                batch.patch(&handles.documents, key(thread, slot), &patch)?;
            }
            SlotOp::DeleteDocument { slot } => {
                batch.delete(&handles.documents, key(thread, slot))?;
            }
            SlotOp::SetSum { slot, to, is_late } => {
                let (key, value) = (key(thread, slot), to.to_le_bytes());
                batch.put(&handles.sums, key, value.expires(late(is_late)))?;
            }
            SlotOp::SetDocument { slot, to, is_late } => {
                let document = Document::from_json(format!(r#"{{"n":{to}}}"#)).unwrap();
                let (key, options) = (key(thread, slot), late(is_late));
                batch.put(&handles.documents, key, (&document).expires(options))?;
            }
        }
    }
    Ok(())
}

/// The moments of the clock of a database before and after a read.
#[derive(Clone, Copy)]
pub(super) struct Window {
    before: Moment,
    after: Moment,
}

impl Window {
    /// Runs `read`. Returns its result and its window.
    pub(super) fn of<T>(db: &Database, read: impl FnOnce() -> Result<T>) -> Result<(T, Self)> {
        let before = db.now();
        let found = read()?;
        Ok((found, Self { before, after: db.now() }))
    }

    /// Returns whether a read may find this of a value that was put last. If the value expires
    /// within the window, the read may find it or not.
    fn allows(self, value: Value, found: Option<&[u8]>) -> bool {
        match found {
            Some(found) => {
                value.expiry.is_none_or(|expiry| expiry > self.before) && found == value.bytes()
            }
            None => value.expiry.is_some_and(|expiry| expiry <= self.after),
        }
    }

    /// Returns whether a read of the key of a slot may find this.
    pub(super) fn allows_one(self, value: Option<&Value>, found: Option<&[u8]>) -> bool {
        value.map_or(found.is_none(), |value| self.allows(*value, found))
    }

    /// Returns whether a scan of keys of a thread may find this, where these slots were put last.
    pub(super) fn allows_all<'a>(
        self,
        thread: usize,
        slots: impl Iterator<Item = (&'a u64, &'a Value)>,
        mut found: BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> bool {
        for (slot, value) in slots {
            let found = found.remove(key(thread, *slot).as_bytes());
            if !self.allows(*value, found.as_deref()) {
                return false;
            }
        }
        found.is_empty()
    }
}

impl Left {
    /// Applies the next batch.
    pub(super) fn apply(&mut self, source: Source, thread: usize) {
        self.batches += 1;
        for op in ops(source, thread, self.batches) {
            match op {
                SlotOp::Put { ranged, slot, value } => {
                    self.of(ranged).insert(slot, value);
                }
                SlotOp::Delete { ranged, slot } => {
                    self.of(ranged).remove(&slot);
                }
                SlotOp::DeleteRange { from, to } => {
                    self.ranged.retain(|slot, _| !(from..to).contains(slot));
                }
                SlotOp::Add { slot, by } => self.sums.entry(slot).or_default().n += by,
                SlotOp::Patch { slot, by } => self.documents.entry(slot).or_default().n += by,
                SlotOp::DeleteDocument { slot } => {
                    self.documents.remove(&slot);
                }
                SlotOp::SetSum { slot, to, is_late } => set(&mut self.sums, slot, to, is_late),
                SlotOp::SetDocument { slot, to, is_late } => {
                    set(&mut self.documents, slot, to, is_late);
                }
            }
        }
    }

    fn of(&mut self, ranged: bool) -> &mut BTreeMap<u64, Value> {
        if ranged { &mut self.ranged } else { &mut self.hashed }
    }
}

/// Notes a put of a number. One that has expired is absent.
fn set(numbers: &mut BTreeMap<u64, Number>, slot: u64, n: i64, is_late: bool) {
    if is_late {
        numbers.insert(slot, Number { n, is_late })
    } else {
        numbers.remove(&slot)
    };
}
