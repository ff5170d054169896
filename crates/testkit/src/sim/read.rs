//! The steps that read. Every result is compared.

use super::conditions::{Token, VALUES_DIFFER_FROM};
use super::document::{Fields, STRANGE, document_bytes, has_text, of_extended_json};
use super::life::{AnyScan, Check, Handle, Taken, Underway, fields_of, show};
use super::model::{Entries, KEYS, KINDS, Key, Kind, SLOTS, key_bytes};
use super::run::Run;
use super::step::{SimStep, Which, place_of};
use crate::driver::{owned, turned};
use flagstone::doc::JsonMode;
use flagstone::{Document, ErrorKind, Result, Space};
use std::path::Path;

/// The largest number at a time.
const SNAPSHOTS_MAX: usize = 3;
const SCANS_MAX: usize = 3;
const TOKENS_MAX: usize = 8;

impl Run {
    /// Runs a step that reads.
    pub(super) fn read_step(&mut self, step: &SimStep) -> Check {
        match step {
            SimStep::Snapshot => self.take_snapshot(),
            SimStep::ReadSnapshot(which, slot, reverse) => {
                return self.read_snapshot(*which, *slot, *reverse);
            }
            SimStep::DropSnapshot(which) => {
                let Some(life) = &mut self.life else { return Ok(()) };
                take(&mut life.snapshots, *which);
            }
            SimStep::OpenScan(slot, reverse) => return self.open_scan(*slot, *reverse),
            SimStep::Advance(which, entries) => return self.advance(*which, *entries),
            SimStep::Park(which) => {
                let Some(life) = &mut self.life else { return Ok(()) };
                if let Some(at) = place_of(life.scans.len(), *which) {
                    life.scans[at].scan.park();
                }
            }
            SimStep::DropScan(which) => {
                let Some(life) = &mut self.life else { return Ok(()) };
                take(&mut life.scans, *which);
            }
            SimStep::Get(slot, key) => return self.get(*slot, *key),
            SimStep::MultiGet(slot, keys) => return self.multi_get(*slot, keys),
            SimStep::Scan(slot, from, to, reverse) => {
                return self.scan(*slot, *from, *to, *reverse);
            }
            SimStep::Token(slot, key) => return self.take_token(*slot, *key),
            SimStep::Count(slot) => return self.count_keys(*slot),
            SimStep::ReadAll => return self.read_all(),
            SimStep::Verify => {
                let Some(life) = &self.life else { return Ok(()) };
                let verified = life.db.verify();
                self.excused(verified)?;
            }
            SimStep::OpenCopy(which, writes) => return self.open_copy(*which, *writes),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn take_snapshot(&mut self) {
        let Some(life) = &mut self.life else { return };
        if self.oracle.has_doubt() {
            return;
        }
        let (snapshot, state) = (life.db.snapshot(), self.oracle.now.clone());
        let (moment, last_id) = (self.oracle.moment, self.oracle.last_id());
        let generations = life.generations;
        life.snapshots.push(Taken { snapshot, state, moment, last_id, generations });
        let extra = life.snapshots.len().saturating_sub(SNAPSHOTS_MAX);
        life.snapshots.drain(..extra);
    }

    fn read_snapshot(&mut self, which: Which, slot: usize, reverse: bool) -> Check {
        let Some(life) = &self.life else { return Ok(()) };
        let Some(at) = place_of(life.snapshots.len(), which) else { return Ok(()) };
        let taken = &life.snapshots[at];
        if taken.generations[slot] != life.generations[slot] {
            return Ok(());
        }
        let Some(handle) = &life.handles[slot] else { return Ok(()) };
        let scan = handle.scan(Some(&taken.snapshot), reverse);
        let found = scan.and_then(AnyScan::rest);
        let expected = turned(taken.state.entries(slot, taken.moment), reverse);
        if let Some(found) = self.excused(found)? {
            same(&found, &expected, "a snapshot", slot)?;
        }
        Ok(())
    }

    fn open_scan(&mut self, slot: usize, reverse: bool) -> Check {
        if self.oracle.has_doubt() {
            return Ok(());
        }
        let Some(handle) = self.handle(slot)? else { return Ok(()) };
        let scan = handle.scan(None, reverse);
        let Some(scan) = self.excused(scan)? else { return Ok(()) };
        let rest = turned(self.oracle.entries(slot), !reverse);
        let Some(life) = &mut self.life else { return Ok(()) };
        life.scans.push(Underway { scan, rest, slot, generation: life.generations[slot] });
        let extra = life.scans.len().saturating_sub(SCANS_MAX);
        life.scans.drain(..extra);
        Ok(())
    }

    fn advance(&mut self, which: Which, entries: u8) -> Check {
        for _ in 0..entries {
            let Some(life) = &mut self.life else { return Ok(()) };
            let Some(at) = place_of(life.scans.len(), which) else { return Ok(()) };
            let scan = &mut life.scans[at];
            let is_gone = scan.generation != life.generations[scan.slot];
            let (found, expected, slot) = (scan.scan.next(), scan.rest.pop(), scan.slot);
            if found.is_none() || found.as_ref().is_some_and(Result::is_err) || is_gone {
                life.scans.remove(at);
            }
            match found {
                Some(Ok(_)) if is_gone => {
                    return Err(format!(
                        "a scan of slot {slot} continues after the slot was dropped"
                    ));
                }
                Some(Err(error)) if is_gone && error.kind() == ErrorKind::InvalidInput => {}
                None if is_gone => {}
                Some(Err(error)) => self.excuse(&error)?,
                Some(Ok(found)) if Some(&found) == expected.as_ref() => continue,
                None if expected.is_none() => {}
                found => {
                    let found = found.and_then(|found| found.ok()).map(|found| found.0);
                    let expected = expected.map(|expected| expected.0);
                    return Err(format!(
                        "an open scan of slot {slot} finds key {found:?}, expected {expected:?}"
                    ));
                }
            }
            break;
        }
        Ok(())
    }

    /// Reads and compares a key and its expiry.
    pub(super) fn get(&mut self, slot: usize, key: Key) -> Check {
        let Some(handle) = self.handle(slot)? else { return Ok(()) };
        let found = match &handle {
            Handle::Bytes(keyspace) => keyspace.get(key_bytes(key)).map(owned),
            Handle::Documents(collection) => collection.get(i64::from(key)).map(canonical),
        };
        let Some(found) = self.excused(found)? else { return Ok(()) };
        let expiry = handle.expiry(key);
        let Some(expiry) = self.excused(expiry)? else { return Ok(()) };
        if self.oracle.has_doubt() {
            return Ok(());
        }
        let expected = self.oracle.get(slot, key).map(|entry| entry.bytes.to_vec());
        if found != expected {
            let len = |value: Option<Vec<u8>>| value.map(|value| value.len());
            return Err(format!(
                "get of slot {slot}, key {key}: found {:?} bytes, expected {:?}",
                len(found),
                len(expected)
            ));
        }
        let expected = self.oracle.get(slot, key).and_then(|entry| entry.expiry);
        if expiry != expected {
            return Err(format!(
                "expiry of slot {slot}, key {key}: {expiry:?}, expected {expected:?}"
            ));
        }
        Ok(())
    }

    fn multi_get(&mut self, slot: usize, keys: &[Key]) -> Check {
        let Some(Handle::Bytes(keyspace)) = self.handle(slot)? else { return Ok(()) };
        let found = keyspace.multi_get(keys.iter().map(|key| key_bytes(*key)));
        let Some(found) = self.excused(found)? else { return Ok(()) };
        let found: Vec<_> = found.into_iter().map(owned).collect();
        let value = |key: &Key| self.oracle.get(slot, *key).map(|entry| entry.bytes.to_vec());
        let expected: Vec<_> = keys.iter().map(value).collect();
        if found != expected && !self.oracle.has_doubt() {
            return Err(format!("multi_get of slot {slot}, keys {keys:?} differs"));
        }
        Ok(())
    }

    fn scan(&mut self, slot: usize, from: Key, to: Key, reverse: bool) -> Check {
        let Some(handle) = self.handle(slot)? else { return Ok(()) };
        let scan = match &handle {
            Handle::Bytes(keyspace) => {
                let scan = keyspace.scan(key_bytes(from)..key_bytes(to));
                AnyScan::Bytes(if reverse { scan.rev() } else { scan })
            }
            Handle::Documents(collection) => {
                let scan = collection.scan(i64::from(from)..i64::from(to));
                AnyScan::Documents(if reverse { scan.rev() } else { scan })
            }
        };
        let Some(found) = self.excused(scan.rest())? else { return Ok(()) };
        let expected = turned(self.oracle.range(slot, from, to), reverse);
        if self.oracle.has_doubt() {
            return Ok(());
        }
        same(&found, &expected, "a scan", slot)
    }

    fn count_keys(&mut self, slot: usize) -> Check {
        let Some(handle) = self.handle(slot)? else { return Ok(()) };
        let Some(found) = self.excused(handle.count())? else { return Ok(()) };
        let expected = self.oracle.entries(slot).len() as u64;
        if found != expected && !self.oracle.has_doubt() {
            return Err(format!("count of slot {slot}: {found}, expected {expected}"));
        }
        Ok(())
    }

    fn read_all(&mut self) -> Check {
        let Some(life) = &self.life else { return Ok(()) };
        let shown = show(&life.db, &self.keyspaces);
        let Some(shown) = self.excused(shown)? else { return Ok(()) };
        if !self.oracle.may_show(shown.digests) {
            let expected = self.oracle.digests();
            let differ: Vec<_> =
                (0..expected.len()).filter(|at| expected[*at] != shown.digests[*at]).collect();
            return Err(format!("an open database differs in slots {differ:?}"));
        }
        self.read_versions()
    }

    /// Takes the version of a key for later conditions.
    fn take_token(&mut self, slot: usize, key: Key) -> Check {
        if KINDS[slot] != Kind::Plain || self.oracle.has_doubt() {
            return Ok(());
        }
        // Looks for a key that exists.
        let next = (key..KEYS as Key).find(|key| self.oracle.get(slot, *key).is_some());
        self.note_token(slot, next.unwrap_or(key))
    }

    /// Takes the version of this key, if it has one.
    pub(super) fn note_token(&mut self, slot: usize, key: Key) -> Check {
        let Some(token) = self.version(slot, key)? else { return Ok(()) };
        self.tokens.push(token);
        let extra = self.tokens.len().saturating_sub(TOKENS_MAX);
        self.tokens.drain(..extra);
        Ok(())
    }

    /// Reads the versions of all keys. No version may belong to two writes.
    fn read_versions(&mut self) -> Check {
        if self.oracle.has_doubt() {
            return Ok(());
        }
        for slot in (0..SLOTS).filter(|slot| KINDS[*slot] == Kind::Plain) {
            for (key, _) in self.oracle.entries(slot) {
                self.version(slot, key)?;
            }
        }
        Ok(())
    }

    /// Reads and compares the version of a key.
    fn version(&mut self, slot: usize, key: Key) -> Check<Option<Token>> {
        let Some(handle) = self.handle(slot)? else { return Ok(None) };
        let Some(keyspace) = handle.keyspace() else { return Ok(None) };
        let found = keyspace.get_versioned(key_bytes(key));
        let Some(found) = self.excused(found)? else { return Ok(None) };
        let entry = self.oracle.get(slot, key);
        let same = match (&found, entry) {
            (Some((_, value)), Some(entry)) => value[..] == *entry.bytes,
            (None, None) => true,
            _ => false,
        };
        if !same {
            let found = found.map(|(version, value)| (version, value.to_vec()));
            let expected = entry.map(|entry| (entry.event, &entry.bytes, entry.expiry));
            return Err(format!(
                "get_versioned of slot {slot}, key {key} at {}: found {found:?}, expected (event, \
                 value, expiry) {expected:?}",
                self.oracle.moment
            ));
        }
        let (Some((version, value)), Some(entry)) = (found, entry) else { return Ok(None) };
        let generation = self.life.as_ref().map_or(0, |life| life.generations[slot]);
        let (event, taken, value) = (entry.event, (self.lives, generation), value.to_vec());
        let is_one_of_many = self.ingested.contains(&event);
        let of = (event, slot, if is_one_of_many { Key::MAX } else { key });
        let first = *self.versions.entry(version).or_insert(of);
        if first != of && value.len() >= VALUES_DIFFER_FROM {
            return Err(format!(
                "{version} was given twice: (event, slot, key) {first:?}, then {of:?}"
            ));
        }
        Ok(Some(Token { slot, key, version, event, taken, value }))
    }

    /// Opens a checkpoint, which must have the content of its creation.
    fn open_copy(&mut self, which: Which, writes: bool) -> Check {
        let Some(at) = place_of(self.copies.len(), which) else { return Ok(()) };
        let copy = self.copies.swap_remove(at);
        let options = self.setting.options.clone();
        let used = self.place.open(&copy.dir, &options, which as u64).and_then(|(db, executor)| {
            executor.work(which as u16 % 8);
            let shown = show(&db, &self.keyspaces)?;
            let is_same = shown.digests == copy.state.digests(shown.moment);
            if writes && is_same {
                // Writes to the checkpoint must not affect the original database.
                scribble(&db, &executor)?;
            }
            Ok(is_same)
        });
        match used {
            Ok(true) => self.totals.copies += 1,
            Ok(false) => return Err(format!("the checkpoint {} differs", copy.dir.display())),
            Err(error) => self.excuse_of_copy(&error)?,
        }
        self.clear_away(&copy.dir);
        Ok(())
    }

    /// Removes a compared copy from the disk.
    fn clear_away(&self, dir: &Path) {
        use flagstone::internal::env::Disk;
        for name in self.place.mem.list(dir).unwrap_or_default() {
            let _gone = self.place.mem.remove(&dir.join(name));
        }
    }
}

fn scribble(db: &flagstone::Database, executor: &super::executor::Shuffled) -> Result<()> {
    let keyspace = db.keyspace("scribbles")?;
    for n in 0..20_u8 {
        keyspace.put([n], [n; 200])?;
    }
    for info in db.keyspaces() {
        if info.content != "documents" {
            let other = db.space(&info.name).options(info.options).keyspace()?;
            other.delete_range(..)?;
        }
    }
    executor.work(6);
    db.compact()
}

fn take<T>(from: &mut Vec<T>, which: Which) {
    if let Some(at) = place_of(from.len(), which) {
        from.remove(at);
    }
}

/// Returns the bytes of the model for a document. One with a strange value is first written as
/// Extended JSON and read again.
pub(super) fn canonical(found: Option<Document>) -> Option<Vec<u8>> {
    found.map(|document| {
        let mut fields = fields_of(&document.to_value());
        if let Some(strange) = fields.get(&STRANGE).copied() {
            let text = document.to_json_as(JsonMode::Extended).unwrap_or_default();
            let again = of_extended_json(&text);
            fields = again.map_or_else(|_| Fields::new(), |again| fields_of(&again.to_value()));
            if !has_text(strange) {
                fields.remove(&u16::MAX);
                fields.insert(STRANGE, strange);
            }
        }
        document_bytes(&fields)
    })
}

fn same(found: &Entries, expected: &Entries, what: &str, slot: usize) -> Check {
    if found == expected {
        return Ok(());
    }
    let keys = |entries: &Entries| entries.iter().map(|entry| entry.0).collect::<Vec<_>>();
    Err(format!(
        "{what} of slot {slot} finds keys {:?}, expected {:?}",
        keys(found),
        keys(expected)
    ))
}
