//! An open database of the simulator, with its snapshots, scans and tickets.

use super::document::{
    DATE, Fields, LIST_MAX, LISTS, PAD, document_bytes, packed, pad, strange_field,
};
use super::executor::Shuffled;
use super::indexes::{Built, INDEXES, SPECS};
use super::model::{Digests, Entries, KEYS, KINDS, Key, Kind, SLOTS, State, digest_of};
use super::model::{key_bytes, key_of};
use super::search::Shown;
use super::step::SlotChange;
use flagstone::admin::Ticket;
use flagstone::internal::note_wait;
use flagstone::{
    Collection, Database, Keyspace, KeyspaceOptions, Moment, Result, Scan, Snapshot, Space, Value,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The result of a check. The error says what is wrong.
pub(super) type Check<T = ()> = std::result::Result<T, String>;

/// The handle of a slot.
#[derive(Clone)]
pub(super) enum Handle {
    Bytes(Keyspace),
    Documents(Collection),
}

impl Handle {
    /// Returns the keyspace, if the slot has bytes.
    pub(super) const fn keyspace(&self) -> Option<&Keyspace> {
        match self {
            Self::Bytes(keyspace) => Some(keyspace),
            Self::Documents(_) => None,
        }
    }

    pub(super) fn count(&self) -> Result<u64> {
        match self {
            Self::Bytes(keyspace) => keyspace.count(),
            Self::Documents(collection) => collection.count(),
        }
    }

    pub(super) const fn collection(&self) -> Option<&Collection> {
        match self {
            Self::Bytes(_) => None,
            Self::Documents(collection) => Some(collection),
        }
    }

    /// Counts a writer of a key as one that had to wait for others.
    pub(super) fn note_wait(&self, key: Key) -> Result<()> {
        match self {
            Self::Bytes(keyspace) => note_wait(keyspace, key_bytes(key)),
            Self::Documents(collection) => note_wait(collection, i64::from(key)),
        }
    }

    /// Returns the expiry of a key.
    pub(super) fn expiry(&self, key: Key) -> Result<Option<Moment>> {
        match self {
            Self::Bytes(keyspace) => keyspace.expiry(key_bytes(key)),
            Self::Documents(collection) => collection.expiry(i64::from(key)),
        }
    }

    /// Returns a scan of the whole slot, of now or of a snapshot.
    pub(super) fn scan(&self, snapshot: Option<&Snapshot>, reverse: bool) -> Result<AnyScan> {
        Ok(match self {
            Self::Bytes(keyspace) => {
                let scan = match snapshot {
                    Some(snapshot) => snapshot.scan(keyspace, ..),
                    None => keyspace.scan(..),
                };
                AnyScan::Bytes(if reverse { scan.rev() } else { scan })
            }
            Self::Documents(collection) => {
                let scan = match snapshot {
                    Some(snapshot) => snapshot.scan(collection, ..),
                    None => collection.scan(..),
                };
                AnyScan::Documents(if reverse { scan.rev() } else { scan })
            }
        })
    }
}

/// A scan of either kind.
pub(super) enum AnyScan {
    Bytes(Scan<'static, Keyspace>),
    Documents(Scan<'static, Collection>),
}

impl AnyScan {
    /// Returns the next entry.
    pub(super) fn next(&mut self) -> Option<Result<(Key, Vec<u8>)>> {
        match self {
            Self::Bytes(scan) => scan.next().map(|entry| {
                entry.map(|(key, value)| (key_of(&key).unwrap_or(Key::MAX), value.to_vec()))
            }),
            Self::Documents(scan) => scan.next().map(|entry| {
                let (key, document) = entry?;
                let key = match key {
                    Value::Int(key) => Key::try_from(key).unwrap_or(Key::MAX),
                    _ => Key::MAX,
                };
                Ok((key, document_bytes(&fields_of(&document.to_value()))))
            }),
        }
    }

    /// Returns all remaining entries.
    pub(super) fn rest(mut self) -> Result<Entries> {
        std::iter::from_fn(|| self.next()).collect()
    }

    pub(super) fn park(&mut self) {
        match self {
            Self::Bytes(scan) => scan.park(),
            Self::Documents(scan) => scan.park(),
        }
    }
}

/// Returns the fields of a document. A field that no step writes gives an odd field.
pub(super) fn fields_of(value: &Value) -> Fields {
    let pairs = value.as_map().into_iter().flat_map(|map| map.iter());
    let field = |(name, value): &(Value, Value)| {
        let number = name.as_str().and_then(|name| name.strip_prefix('f')?.parse().ok());
        match value {
            strange if name.as_str() == Some("strange") => strange_field(strange),
            Value::Int(value) => (number.unwrap_or(u16::MAX), *value),
            Value::DateTime(time) if name.as_str() == Some("at") => {
                (DATE, time.as_micros().div_euclid(1000))
            }
            text if name.as_str() == Some("pad") => {
                text.as_str().and_then(pad_of).unwrap_or((u16::MAX, 0))
            }
            Value::Array(items) => list_of(name, items).unwrap_or((u16::MAX, 0)),
            _ => (u16::MAX, 0),
        }
    };
    pairs.map(field).collect()
}

fn list_of(name: &Value, items: &[Value]) -> Option<(u16, i64)> {
    let number = name.as_str()?.strip_prefix('l')?.parse::<u16>().ok()?;
    let digit = |item: &Value| item.as_i64().filter(|digit| (0..16).contains(digit));
    let digits: Vec<u8> =
        items.iter().map(|item| digit(item).map(|digit| digit as u8)).collect::<Option<_>>()?;
    (digits.len() <= LIST_MAX).then(|| (LISTS + number, packed(&digits)))
}

fn pad_of(text: &str) -> Option<(u16, i64)> {
    let number = i16::try_from(text.len() / 4).ok()?;
    (text == pad(number)).then_some((PAD, number.into()))
}

/// A snapshot and its expected content.
pub(super) struct Taken {
    pub(super) snapshot: Snapshot,
    pub(super) state: State,
    /// The moment by which it judges.
    pub(super) moment: Moment,
    /// The last event in it.
    pub(super) last_id: u64,
    pub(super) generations: [u32; SLOTS],
}

/// An open scan and its expected remaining entries, the last one first.
pub(super) struct Underway {
    pub(super) scan: AnyScan,
    pub(super) rest: Entries,
    pub(super) slot: usize,
    pub(super) generation: u32,
}

/// An open database and what its callers hold.
pub(super) struct Life {
    pub(super) db: Database,
    pub(super) executor: Arc<Shuffled>,
    pub(super) handles: [Option<Handle>; SLOTS],
    /// The number of times that each slot was dropped.
    pub(super) generations: [u32; SLOTS],
    /// The events that have changed nothing of a document that they patch, or that has expired, and
    /// may have written it.
    pub(super) unchanged: BTreeMap<(usize, Key), u64>,
    /// The last event of this life that wrote each key.
    pub(super) written: [[u64; KEYS]; SLOTS],
    pub(super) snapshots: Vec<Taken>,
    pub(super) scans: Vec<Underway>,
    /// Open tickets, each with the number of its event.
    pub(super) tickets: Vec<(Ticket, u64)>,
    pub(super) is_poisoned: bool,
}

impl Life {
    pub(super) const fn new(db: Database, executor: Arc<Shuffled>) -> Self {
        Self {
            db,
            executor,
            handles: [const { None }; SLOTS],
            generations: [0; SLOTS],
            unchanged: BTreeMap::new(),
            written: [[0; KEYS]; SLOTS],
            snapshots: Vec::new(),
            scans: Vec::new(),
            tickets: Vec::new(),
            is_poisoned: false,
        }
    }

    /// Notes the keys that the event `id` has written.
    pub(super) fn note_written(&mut self, changes: &[SlotChange], id: u64) {
        for change in changes {
            for key in change.keys() {
                self.written[change.slot()][usize::from(key)] = id;
            }
        }
    }

    /// Returns the handle of a slot. Creates the slot if it is missing.
    pub(super) fn handle(&mut self, slot: usize, options: &[KeyspaceOptions]) -> Result<Handle> {
        if let Some(handle) = &self.handles[slot] {
            return Ok(handle.clone());
        }
        let handle = open_slot(&self.db, slot, options)?;
        self.handles[slot] = Some(handle.clone());
        Ok(handle)
    }
}

/// Returns the name of a slot.
pub(super) fn name_of(slot: usize) -> String {
    format!("slot{slot}")
}

/// Returns the name that a slot has while it is renamed.
pub(super) fn other_name_of(slot: usize) -> String {
    format!("moved{slot}")
}

/// Returns the slot that has a name.
pub(super) fn slot_named(name: &str) -> Option<usize> {
    (0..SLOTS).find(|slot| name_of(*slot) == name || other_name_of(*slot) == name)
}

/// Returns the name that a slot has now, or that it gets when it is created.
pub(super) fn present_name(db: &Database, slot: usize) -> String {
    let other = other_name_of(slot);
    let is_moved = db.keyspaces().iter().any(|info| info.owner.is_none() && info.name == other);
    if is_moved { other } else { name_of(slot) }
}

/// Opens or creates a slot.
pub(super) fn open_slot(db: &Database, slot: usize, options: &[KeyspaceOptions]) -> Result<Handle> {
    let (name, options) = (present_name(db, slot), options[slot].clone());
    Ok(match KINDS[slot] {
        Kind::Documents => Handle::Documents(db.space(&name).options(options).collection()?),
        _ => Handle::Bytes(db.space(&name).options(options).keyspace()?),
    })
}

/// Returns the slots whose entries may expire.
pub(super) fn expiring_slots(db: &Database) -> [bool; SLOTS] {
    let infos = db.keyspaces();
    let is_it = |slot, name: &str| slot_named(name) == Some(slot);
    let expires = |slot| infos.iter().any(|info| info.expires && is_it(slot, &info.name));
    std::array::from_fn(expires)
}

/// Returns the digests of the content of a database, and how it judges expiries. Indexes must agree
/// with their documents.
pub(super) fn show(db: &Database, options: &[KeyspaceOptions]) -> Result<Shown> {
    let known: Vec<String> = db.keyspaces().into_iter().map(|info| info.name).collect();
    let (mut digests, mut is_there): (Digests, _) = ([0; SLOTS], [false; SLOTS]);
    let (expires, moment, mut indexes) = (expiring_slots(db), db.now(), Default::default());
    let mut keeps_old = false;
    for slot in 0..SLOTS {
        is_there[slot] = known.iter().any(|name| slot_named(name) == Some(slot));
        if is_there[slot] {
            let handle = open_slot(db, slot, options)?;
            let mut entries = Vec::new();
            for (key, value) in handle.scan(None, false)?.rest()? {
                let asks = expires[slot] && usize::from(key) < KEYS;
                entries.push((key, value, if asks { handle.expiry(key)? } else { None }));
            }
            digests[slot] = digest_of(slot, &entries);
            if let Some(collection) = handle.collection() {
                indexes = built(collection);
                keeps_old = collection.keeps_old_documents();
                collection.verify_indexes()?;
            }
        }
    }
    Ok(Shown { digests, is_there, expires, moment, indexes, keeps_old })
}

/// Returns how far each index is.
pub(super) fn built(collection: &Collection) -> [Built; INDEXES] {
    let infos = collection.indexes();
    SPECS.each_ref().map(|spec| match infos.iter().find(|info| info.name == spec.name) {
        None => Built::No,
        Some(info) if info.is_ready => Built::Ready,
        Some(_) => Built::Partly,
    })
}
