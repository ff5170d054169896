//! What an ingest of the simulator writes.

use super::model::{KEYS, Key, key_bytes, value_bytes};
use super::step::{Change, Lasts, ValueOf};
use crate::rng::Rng;
use flagstone::{EntryOptions, Ingest, Keyspace, Result};

/// Returns the puts of an ingest, in the order of their keys.
pub(super) fn ingested(slot: usize, seed: u32, lasts: Lasts) -> Vec<Change> {
    let mut rng = Rng::new(u64::from(seed));
    let (percent, len) = (*rng.pick(&[4, 40, 100]), rng.below(500) as u32);
    let keys = (0..KEYS as Key).filter(|_| rng.percent(percent));
    let put = |key: Key| {
        let seed = seed.wrapping_mul(31).wrapping_add(u32::from(key));
        Change::Put(slot, key, ValueOf { len, seed }, lasts)
    };
    keys.map(put).collect()
}

/// Ingests these puts.
pub(super) fn ingest(keyspace: &Keyspace, changes: &[Change]) -> Result<()> {
    let mut ingest = Ingest::new(keyspace)?;
    for change in changes {
        let Change::Put(slot, key, value, _) = *change else { continue };
        let (key, value) = (key_bytes(key), value_bytes(slot, value));
        match change.expiry() {
            Some(moment) => ingest.put_with(key, value, EntryOptions::new().expires(moment))?,
            None => ingest.put(key, value)?,
        }
    }
    ingest.finish().map(|_report| ())
}
