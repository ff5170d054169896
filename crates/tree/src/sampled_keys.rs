//! Keys of a tree that are chosen by their hash: a sample of what is in its tables.

use crate::tree::Tree;
use crate::version::{TableHandle, Version};
use flagstone_base::{Kind, SeqNo};
use flagstone_sst::Sample;
use std::collections::HashMap;
use std::sync::Arc;

/// Sampled keys of trees.
#[derive(Clone, Debug, Default)]
pub struct SampledKeys {
    /// One key in two to this power is sampled.
    pub shift: u8,
    /// The keys, or their first 64 bytes, ascending.
    pub keys: Vec<Vec<u8>>,
}

/// Returns a sample of about `most` keys that are in the tables of `trees`, by the samples of the
/// tables: of a key in several tables the newest entry counts. Memtables and deleted ranges do not
/// count.
pub fn sampled_keys(trees: &[Arc<Tree>], most: u64) -> SampledKeys {
    let versions: Vec<Arc<Version>> =
        trees.iter().map(|tree| Arc::clone(tree.view().version())).collect();
    let tables = || versions.iter().flat_map(|version| version.tables().map(|(_, table)| table));
    let entries: u64 = tables().map(|table| table.meta().entries).sum();
    let wanted = (entries / most.max(1)).checked_ilog2().unwrap_or(0) as u8;
    let samples: Vec<Arc<Sample>> =
        tables().filter_map(|table: &Arc<TableHandle>| table.sample(wanted)).collect();
    let shift = samples.iter().map(|sample| sample.shift()).max().unwrap_or(0).max(wanted);
    // The newest entry of each key, by its hash.
    let mut newest: HashMap<u64, (SeqNo, Kind, &[u8])> = HashMap::new();
    for sample in &samples {
        for entry in sample.entries() {
            if entry.hash.leading_zeros() < u32::from(shift) {
                continue;
            }
            let found = (entry.seqno, entry.kind, &entry.key[..]);
            let known = newest.entry(entry.hash).or_insert(found);
            if known.0 < entry.seqno {
                *known = found;
            }
        }
    }
    let alive = newest.into_values().filter(|(_, kind, _)| *kind != Kind::Delete);
    let mut keys: Vec<Vec<u8>> = alive.map(|(_, _, key)| key.to_vec()).collect();
    keys.sort_unstable();
    SampledKeys { shift, keys }
}

/// Returns a number that differs when the tables of `trees` have changed.
pub fn tables_stamp(trees: &[Arc<Tree>]) -> u64 {
    let mut stamp = 0_u64;
    for tree in trees {
        for (level, table) in tree.view().version().tables() {
            let table = table.meta().number.0 << 8 | u64::from(level);
            let mixed = table.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            stamp = stamp.wrapping_add(mixed ^ mixed >> 29);
        }
    }
    stamp
}
