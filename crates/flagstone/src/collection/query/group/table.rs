//! The groups that are being accumulated in memory.

use super::spec::{Accumulator, Group, Kind};
use super::state::{Buffers, State};
use crate::spill::Sorter;
use flagstone_base::hash::key_hash;
use flagstone_base::{Malformed, Result};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{FieldPath, Reached, Value, View};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;

/// What an entry of the table takes besides its key and its states, about.
const ENTRY_OVERHEAD: usize = 64;

/// A table of groups by their keys: the sort keys of the values that they are formed by.
pub(super) struct Table<'g> {
    group: &'g Group,
    groups: HashMap<Box<[u8]>, Box<[State]>, Seeded>,
    bytes: usize,
    memory: usize,
    key: Vec<u8>,
    encoded: Vec<u8>,
    buffers: Buffers,
}

impl<'g> Table<'g> {
    pub(super) fn new(group: &'g Group, memory: usize) -> Self {
        Self {
            group,
            groups: HashMap::with_hasher(Seeded(RandomState::new().build_hasher().finish())),
            bytes: 0,
            memory,
            key: Vec::new(),
            encoded: Vec::new(),
            buffers: Buffers::new(),
        }
    }

    /// Adds a document.
    pub(super) fn add(&mut self, document: &View<'_>) -> Result<(), Malformed> {
        self.key.clear();
        for path in &self.group.by {
            put_value(path, document, &mut self.key)?;
        }
        let states = match self.groups.get_mut(self.key.as_slice()) {
            Some(states) => states,
            None => {
                let accumulators = self.group.accumulators.iter();
                let states = accumulators.map(|accumulator| State::new(accumulator.kind)).collect();
                let of_states = self.group.accumulators.len() * size_of::<State>();
                self.bytes += self.key.len() + of_states + ENTRY_OVERHEAD;
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

    pub(super) const fn is_full(&self) -> bool {
        self.bytes >= self.memory
    }

    /// Moves all groups to the sorter.
    pub(super) fn empty_into(&mut self, sorter: &mut Sorter) -> Result<()> {
        for (key, states) in self.groups.drain() {
            self.encoded.clear();
            states.iter().for_each(|state| state.encode(&mut self.encoded));
            sorter.push(&key, &self.encoded)?;
        }
        self.bytes = 0;
        Ok(())
    }
}

fn accumulate(
    state: &mut State,
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
