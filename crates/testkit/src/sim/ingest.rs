//! Ingests: what they write, and what is committed while they are filled.

use super::life::{Check, present_name};
use super::model::{DOCUMENTS, KEYS, Key, key_bytes, value_bytes};
use super::run::Run;
use super::step::{How, Lasts, SlotChange, ValueOf};
use crate::rng::Rng;
use flagstone::{Durability, ErrorKind, Expires, Ingest, Result};

/// Returns the puts of an ingest, in the order of their keys.
fn ingested(slot: usize, seed: u32, lasts: Lasts) -> Vec<SlotChange> {
    let mut rng = Rng::new(u64::from(seed));
    let (percent, len) = (*rng.pick(&[4, 40, 100]), rng.below(500) as u32);
    let keys = (0..KEYS as Key).filter(|_| rng.percent(percent));
    let put = |key: Key| {
        let seed = seed.wrapping_mul(31).wrapping_add(u32::from(key));
        SlotChange::Put(slot, key, ValueOf { len, seed }, lasts)
    };
    keys.map(put).collect()
}

/// Adds these puts to an ingest.
fn fill(ingest: &mut Ingest, changes: &[SlotChange]) -> Result<()> {
    for change in changes {
        let SlotChange::Put(slot, key, value, _) = *change else { continue };
        let (key, value) = (key_bytes(key), value_bytes(slot, value));
        match change.expiry() {
            Some(moment) => ingest.put(key, value.expires(moment))?,
            None => ingest.put(key, value)?,
        }
    }
    Ok(())
}

impl Run {
    /// Ingests some keys of a slot, all of them or none. The batches are committed while the ingest
    /// is half full.
    pub(super) fn ingest(
        &mut self,
        slot: usize,
        seed: u32,
        lasts: Lasts,
        beside: &[Vec<SlotChange>],
    ) -> Check {
        self.refuses_documents()?;
        let Some(handle) = self.handle(slot)? else { return Ok(()) };
        let Some(keyspace) = handle.keyspace() else { return Ok(()) };
        let changes = self.dated(&ingested(slot, seed, lasts));
        let (first, second) = changes.split_at(changes.len() / 2);
        let begun = Ingest::new(keyspace).and_then(|mut ingest| {
            fill(&mut ingest, first)?;
            Ok(ingest)
        });
        for batch in beside.iter().filter(|_| begun.is_ok()) {
            self.commit(batch, How::Plain, None)?;
        }
        if self.oracle.has_doubt() {
            return Ok(());
        }
        let earlier = self.oracle.last_id();
        let done = begun.and_then(|mut ingest| {
            fill(&mut ingest, second)?;
            ingest.finish().map(|_report| ())
        });
        self.totals.ingests += u64::from(done.is_ok());
        if changes.is_empty() {
            return self.excused(done).map(|_| ());
        }
        if let Err(error) = &done
            && error.kind() != ErrorKind::Poisoned
            && !self.place.faults.is_off()
        {
            // If the manifest did not take the edit, a crash may show that it has.
            self.oracle.refuse(slot, changes.clone());
        }
        let is_done = done.is_ok();
        // Synced, whatever the database's durability.
        self.written(&changes, Durability::Each, None, done)?;
        // A doubtful one gets the next number if it is found after a crash.
        let last = self.oracle.last_id() + u64::from(!is_done);
        self.ingested.extend(earlier + 1..=last);
        // Everything earlier is durable first, unless the disk was full.
        if is_done && !self.place.has_failed() {
            self.oracle.keep_all();
        }
        Ok(())
    }

    /// Checks that no ingest can be begun into the collection, which may have indexes.
    fn refuses_documents(&mut self) -> Check {
        let Some(life) = &self.life else { return Ok(()) };
        if self.oracle.existence[DOCUMENTS] != super::oracle::Existence::Yes {
            return Ok(());
        }
        let name = present_name(&life.db, DOCUMENTS);
        let opened = life.db.space(&name).options(self.keyspaces[DOCUMENTS].clone()).keyspace();
        match opened.and_then(|keyspace| Ingest::new(&keyspace)) {
            Ok(_) => Err("an ingest into a collection was begun".into()),
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
            Err(error) => self.excuse(&error),
        }
    }

    /// Notes enough waits of writers of random keys of a slot for the next flush to find its
    /// partitions contended.
    pub(super) fn contend(&mut self, slot: usize, seed: u64) -> Check {
        let Some(handle) = self.handle(slot)? else { return Ok(()) };
        let mut rng = Rng::new(seed);
        for _ in 0..WAITS {
            handle.note_wait(rng.below(KEYS as u64) as Key).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// More waits than a partition needs to be split, if there are few partitions.
const WAITS: u64 = 3000;
