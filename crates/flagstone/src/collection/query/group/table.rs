//! The groups that are being accumulated in memory.

use super::spec::{Accumulator, Group, Kind};
use super::state::{AccumulatorState, Buffers};
use crate::spill::ExternalSorter;
use flagstone_base::bytes::assign;
use flagstone_base::hash::key_hash;
use flagstone_base::{Malformed, Result};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{FieldPath, Reached, Value, View};
use flagstone_engine::QueryMemory;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;

/// A table holds this much whatever other queries hold.
const CROWDED_BYTES: usize = 64 << 10;
/// What an entry of the table takes besides its key and its states, about.
const ENTRY_OVERHEAD: usize = 64;

/// A table of groups by their keys: the sort keys of the values that they are formed by.
pub(super) struct Table<'g> {
    group: &'g Group,
    groups: HashMap<Box<[u8]>, Box<[AccumulatorState]>, Seeded>,
    bytes: usize,
    memory: usize,
    held: QueryMemory,
    key: Vec<u8>,
    /// The group that entries of an index were added to last: its key, and its states, which are
    /// not in `groups` meanwhile.
    current: Vec<u8>,
    states: Option<Box<[AccumulatorState]>>,
    turned: Vec<u8>,
    encoded: Vec<u8>,
    buffers: Buffers,
}

impl<'g> Table<'g> {
    pub(super) fn new(group: &'g Group, memory: usize, held: QueryMemory) -> Self {
        Self {
            group,
            groups: HashMap::with_hasher(Seeded(RandomState::new().build_hasher().finish())),
            bytes: 0,
            memory,
            held,
            key: Vec::new(),
            current: Vec::new(),
            states: None,
            turned: Vec::new(),
            encoded: Vec::new(),
            buffers: Buffers::new(),
        }
    }

    /// Adds a document.
    pub(super) fn add(&mut self, document: &View<'_>) -> Result<(), Malformed> {
        self.settle();
        self.key.clear();
        for path in &self.group.by {
            put_value(path, document, &mut self.key)?;
        }
        let states = match self.groups.get_mut(self.key.as_slice()) {
            Some(states) => states,
            None => {
                let (states, bytes) = new_states(self.group, &self.key);
                self.bytes += bytes;
                self.groups.entry(self.key.as_slice().into()).or_insert(states)
            }
        };
        for (state, accumulator) in states.iter_mut().zip(&self.group.accumulators) {
            let before = state.heap_bytes();
            accumulate(state, accumulator, document, &mut self.buffers)?;
            self.bytes = self.bytes + state.heap_bytes() - before;
        }
        Ok(())
    }

    /// Adds a document by the sort keys of its values, which `key_of` gives by their places: first
    /// those that groups are formed by, then those of the accumulators that take values. Entries of
    /// one group are often neighbours, and cost no lookup then.
    pub(super) fn add_keys<'k>(
        &mut self,
        key_of: impl Fn(usize) -> Option<(&'k [u8], Direction)>,
    ) -> Result<(), Malformed> {
        const WHAT: Malformed = Malformed { at: 0, expected: "a component for each value" };
        self.key.clear();
        let by = self.group.by.len();
        for at in 0..by {
            let (key, direction) = key_of(at).ok_or(WHAT)?;
            match sort_key::turned(key, direction, &mut self.turned) {
                // A missing value counts as null.
                [sort_key::MISSING] => self.key.push(sort_key::NULL),
                key => self.key.extend_from_slice(key),
            }
        }
        if self.states.is_none() || self.key != self.current {
            self.enter();
        }
        let (mut at, states) = (by, self.states.iter_mut().flatten());
        for (state, accumulator) in states.zip(&self.group.accumulators) {
            if accumulator.kind == Kind::Count {
                state.add_one();
                continue;
            }
            let (key, direction) = key_of(at).ok_or(WHAT)?;
            at += 1;
            let before = state.heap_bytes();
            state.add_key(key, direction, &mut self.buffers)?;
            self.bytes = self.bytes + state.heap_bytes() - before;
        }
        Ok(())
    }

    /// Takes the states of the group of `key` out of the table.
    fn enter(&mut self) {
        self.settle();
        assign(&mut self.current, &self.key);
        let states = self.groups.get_mut(self.key.as_slice()).map(std::mem::take);
        self.states = Some(states.unwrap_or_else(|| {
            let (states, bytes) = new_states(self.group, &self.key);
            self.bytes += bytes;
            self.groups.insert(self.key.as_slice().into(), Box::default());
            states
        }));
    }

    /// Puts the states that were taken out back.
    fn settle(&mut self) {
        if let Some(states) = self.states.take()
            && let Some(place) = self.groups.get_mut(self.current.as_slice())
        {
            *place = states;
        }
    }

    /// Returns whether it may hold no more. Where all queries together hold what they may, that is
    /// little.
    pub(super) fn is_full(&mut self) -> bool {
        self.bytes >= self.memory || self.bytes > CROWDED_BYTES && !self.held.grow(self.bytes)
    }

    /// Moves all groups to the sorter.
    pub(super) fn empty_into(&mut self, sorter: &mut ExternalSorter) -> Result<()> {
        self.settle();
        for (key, states) in self.groups.drain() {
            self.encoded.clear();
            states.iter().for_each(|state| state.encode(&mut self.encoded));
            sorter.push(&key, &self.encoded)?;
        }
        self.bytes = 0;
        self.held.set(0);
        Ok(())
    }
}

/// The states of a new group, and the bytes that it takes.
fn new_states(group: &Group, key: &[u8]) -> (Box<[AccumulatorState]>, usize) {
    let states =
        group.accumulators.iter().map(|accumulator| AccumulatorState::new(accumulator.kind));
    let of_states = group.accumulators.len() * size_of::<AccumulatorState>();
    (states.collect(), key.len() + of_states + ENTRY_OVERHEAD)
}

fn accumulate(
    state: &mut AccumulatorState,
    accumulator: &Accumulator,
    document: &View<'_>,
    buffers: &mut Buffers,
) -> Result<(), Malformed> {
    if accumulator.kind == Kind::Count {
        return state.add(document, buffers);
    }
    accumulator.path.reach(document, |reached| {
        match reached {
            Reached::Value(value) if value.is_array() => {
                for item in value.items()? {
                    state.add(&item?, buffers)?;
                }
            }
            Reached::Value(value) => state.add(&value, buffers)?,
            Reached::Missing => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(())
}

/// Appends the sort key of the value at `path`: null if it is missing, an array of the values that
/// a path through an array reaches.
fn put_value(path: &FieldPath, document: &View<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let (start, mut first) = (out.len(), None);
    let trace = path.reach(document, |reached| {
        if let Reached::Value(value) = reached {
            first = first.or(Some(value));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if !trace.arrays.is_none() {
        let mut values = Vec::new();
        path.reach(document, |reached| {
            if let Reached::Value(value) = reached {
                values.push(value.to_value()?);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        sort_key::encode(&Value::Array(values), Direction::Ascending, out);
        return Ok(());
    }
    match first {
        Some(value) => sort_key::encode_view(&value, Direction::Ascending, out)
            .inspect_err(|_malformed| out.truncate(start)),
        None => {
            sort_key::encode(&Value::Null, Direction::Ascending, out);
            Ok(())
        }
    }
}

/// Hashes keys from a random seed, so that documents cannot be made to collide.
struct Seeded(u64);

struct KeyHasher(u64);

impl BuildHasher for Seeded {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0)
    }
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = key_hash(bytes, self.0);
    }

    fn write_usize(&mut self, len: usize) {
        self.0 ^= len as u64;
    }
}
