//! The calls of one thread: keys and values are created before the clock is read, and results are
//! checked after it.

use super::{DataOptions, Keys, Values};
use crate::engine::{Engine, EngineError, Outcome};
use crate::record::OpKind;
use crate::run::{Meter, Tally};

/// Calls an engine with the keys and values of numbers, each call timed by a [`Meter`].
pub(super) struct Caller<'e> {
    engine: &'e dyn Engine,
    values: &'e Values,
    pub(super) keys: Keys,
    key: Vec<u8>,
    /// The value that is put.
    value: Vec<u8>,
    /// The value that was found.
    found: Vec<u8>,
}

impl<'e> Caller<'e> {
    pub(super) const fn new(
        engine: &'e dyn Engine,
        data: &DataOptions,
        values: &'e Values,
    ) -> Self {
        let keys = data.keys();
        Self { engine, values, keys, key: Vec::new(), value: Vec::new(), found: Vec::new() }
    }

    /// Puts the value that key `number` has in `version`.
    #[inline]
    pub(super) fn put(&mut self, number: u64, version: u64, meter: &mut Meter<'_>) -> Outcome<()> {
        self.keys.write(number, &mut self.key);
        self.values.write(number, version, &mut self.value);
        meter.begin();
        let put = self.engine.put(&self.key, &self.value);
        meter.end(OpKind::Put, Tally::put(self.key.len() + self.value.len()));
        put
    }

    /// Returns whether key `number` is there. Its value must be one that was put.
    #[inline]
    pub(super) fn get(&mut self, number: u64, meter: &mut Meter<'_>) -> Outcome<bool> {
        self.keys.write(number, &mut self.key);
        meter.begin();
        let found = self.read();
        meter.end(OpKind::Get, Tally::found(matches!(found, Ok(true))));
        let found = found?;
        if found {
            self.values.check(number, &self.found)?;
        }
        Ok(found)
    }

    /// Gets key `number`, which must be there.
    #[inline]
    pub(super) fn get_present(&mut self, number: u64, meter: &mut Meter<'_>) -> Outcome<()> {
        if self.get(number, meter)? { Ok(()) } else { Err(missing(number)) }
    }

    /// Reads key `number`, which must be there, creates its value in `version` and puts it: timed
    /// as one, and not atomic.
    #[inline]
    pub(super) fn modify(
        &mut self,
        number: u64,
        version: u64,
        meter: &mut Meter<'_>,
    ) -> Outcome<()> {
        self.keys.write(number, &mut self.key);
        meter.begin();
        let found = self.read();
        // Creating the new value belongs to the operation.
        self.values.write(number, version, &mut self.value);
        let put = self.engine.put(&self.key, &self.value);
        meter.end(OpKind::Update, Tally::put(self.key.len() + self.value.len()));
        put?;
        if found? { self.values.check(number, &self.found) } else { Err(missing(number)) }
    }

    /// Removes key `number`; the engine says whether it was there.
    #[inline]
    pub(super) fn remove(&mut self, number: u64, meter: &mut Meter<'_>) -> Outcome<()> {
        self.keys.write(number, &mut self.key);
        meter.begin();
        let removed = self.engine.remove(&self.key);
        meter.end(OpKind::Delete, Tally::found(matches!(removed, Ok(true))));
        removed?;
        Ok(())
    }

    /// Removes key `number`.
    #[inline]
    pub(super) fn delete(&mut self, number: u64, meter: &mut Meter<'_>) -> Outcome<()> {
        self.keys.write(number, &mut self.key);
        meter.begin();
        let deleted = self.engine.delete(&self.key);
        meter.end(OpKind::Delete, Tally::ONE);
        deleted
    }

    /// Scans at most `limit` entries from key `number` on, which must be there. Checks the first as
    /// a whole, the order of all, and the number of their bytes.
    pub(super) fn scan(&mut self, number: u64, limit: usize, meter: &mut Meter<'_>) -> Outcome<()> {
        self.keys.write(number, &mut self.key);
        let (first, value) = (&self.key, &mut self.found);
        let (mut bytes, mut is_right, mut last) = (0, true, 0);
        meter.begin();
        let scanned = self.engine.scan(first, limit, &mut |key, found| {
            if bytes == 0 {
                is_right = key == first.as_slice();
                value.clear();
                value.extend_from_slice(found);
            }
            let head = head(key);
            is_right &= head >= last;
            last = head;
            bytes += key.len() + found.len();
        });
        meter.end(OpKind::Scan, Tally::scanned(*scanned.as_ref().unwrap_or(&0)));
        let entry = self.keys.bytes + self.values.size;
        if scanned? * entry != bytes || bytes == 0 || !is_right {
            return Err(wrong_scan(number));
        }
        self.values.check(number, &self.found)
    }

    /// Reads the key that was created last.
    #[inline]
    fn read(&mut self) -> Outcome<bool> {
        let found = &mut self.found;
        self.engine.get(&self.key, &mut |value| {
            found.clear();
            found.extend_from_slice(value);
        })
    }
}

/// The first 8 bytes of a key as a number, in the order of keys.
pub(super) fn head(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
}

#[cold]
fn missing(number: u64) -> EngineError {
    format!("wrong answer: key {number} was put and is not found").into()
}

#[cold]
fn wrong_scan(number: u64) -> EngineError {
    format!("wrong scan: from key {number}, which was put, entries that cannot be").into()
}
