//! Options that workloads share.

use super::{Keys, ValueKind, Values};
use crate::engine::{EngineOptions, durability_name};
use crate::record::Described;
use crate::run::Pace;
use flagstone::Durability;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How a store is opened.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreOptions {
    /// Hash partitions.
    pub partitions: u16,
    /// Bytes of memtables and caches together.
    pub memory_bytes: u64,
    /// Bytes of one memtable, where it is not left to the engine.
    pub memtable_bytes: Option<u64>,
    /// Bytes of a block of a table, where it is not left to the engine.
    pub block_bytes: Option<usize>,
    /// Bits of filter a key, where it is not left to the engine.
    pub filter_bits: Option<u8>,
    /// Blocks that are not in the cache are read past the page cache of the system, where the engine can.
    pub direct_reads: bool,
    /// How many times what is alive the store may take, where it is not left to the engine and it has such an option.
    pub space_amplification_max: Option<f64>,
    /// Entries carry checks against changes in memory, where the engine can.
    pub entry_checks: bool,
    /// What a write promises.
    pub durability: Durability,
}

impl Default for StoreOptions {
    /// 4 partitions, 512 MiB, buffered, the rest as the engine has it.
    fn default() -> Self {
        Self {
            partitions: 4,
            memory_bytes: 512 << 20,
            memtable_bytes: None,
            block_bytes: None,
            filter_bits: None,
            direct_reads: false,
            space_amplification_max: None,
            entry_checks: true,
            durability: Durability::Buffered,
        }
    }
}

impl StoreOptions {
    /// What an engine in `dir` is given.
    pub fn engine_options(&self, dir: PathBuf) -> EngineOptions {
        EngineOptions {
            dir,
            memory_bytes: self.memory_bytes,
            memtable_bytes: self.memtable_bytes,
            block_bytes: self.block_bytes,
            filter_bits: self.filter_bits,
            direct_reads: self.direct_reads,
            space_amplification_max: self.space_amplification_max,
            entry_checks: self.entry_checks,
            partitions: self.partitions,
            durability: self.durability,
        }
    }

    /// Adds its options to those of a header; what is left to the engine is `null`.
    pub fn describe(&self, options: &mut BTreeMap<String, Value>) {
        let pairs: [(&str, Value); 9] = [
            ("partitions", self.partitions.into()),
            ("memory", self.memory_bytes.into()),
            ("memtable-bytes", self.memtable_bytes.into()),
            ("block-bytes", self.block_bytes.into()),
            ("filter-bits", self.filter_bits.into()),
            ("direct-reads", self.direct_reads.into()),
            ("space-amplification-max", self.space_amplification_max.into()),
            ("entry-checks", self.entry_checks.into()),
            ("durability", durability_name(self.durability).into()),
        ];
        options.extend(pairs.map(|(name, value)| (name.to_owned(), value)));
    }
}

/// Which keys and values.
#[derive(Clone, Debug, PartialEq)]
pub struct DataOptions {
    /// How many different keys there are.
    pub key_space: u64,
    /// Bytes of a key, 8 at least.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// What values are made of.
    pub values: ValueKind,
    /// The same seed and options give the same operations of each thread.
    pub seed: u64,
}

impl Default for DataOptions {
    /// 100 million keys of 16 bytes, 1,024 random bytes.
    fn default() -> Self {
        Self {
            key_space: 100_000_000,
            key_bytes: 16,
            value_bytes: 1024,
            values: ValueKind::Random,
            seed: 1,
        }
    }
}

impl DataOptions {
    /// Its keys.
    pub const fn keys(&self) -> Keys {
        Keys::new(self.seed, self.key_space, self.key_bytes)
    }

    /// Its values.
    pub fn make_values(&self) -> Values {
        Values::new(self.seed, self.value_bytes, self.values)
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn check(&self) -> Result<(), String> {
        if self.key_space == 0 {
            return Err("a key space of 0 keys: expected at least 1".into());
        }
        if !(8..=1024).contains(&self.key_bytes) {
            return Err(format!("keys of {} bytes: expected 8 to 1,024", self.key_bytes));
        }
        if self.value_bytes > 16 << 20 {
            return Err(format!("values of {} bytes: expected at most 16 MiB", self.value_bytes));
        }
        Ok(())
    }

    /// Adds its options to those of a header.
    pub fn describe(&self, options: &mut BTreeMap<String, Value>) {
        let pairs: [(&str, Value); 5] = [
            ("key-space", self.key_space.into()),
            ("key-size", self.key_bytes.into()),
            ("value-size", self.value_bytes.into()),
            ("values", self.values.name().into()),
            ("seed", self.seed.into()),
        ];
        options.extend(pairs.map(|(name, value)| (name.to_owned(), value)));
    }
}

/// The options of a trial from an empty store by their long names.
pub(super) fn describe(store: &StoreOptions, data: &DataOptions, pace: &Pace) -> Described {
    let mut options = Described::new();
    store.describe(&mut options);
    data.describe(&mut options);
    pace.describe(&mut options);
    options
}

/// The options of a trial over a store that is filled with `records` first, whose keys are their
/// numbers: the key space does not matter.
pub(super) fn describe_filled(
    store: &StoreOptions,
    data: &DataOptions,
    pace: &Pace,
    records: u64,
) -> Described {
    let mut options = describe(store, data, pace);
    options.remove("key-space");
    options.insert("records".into(), records.into());
    options
}

/// Refuses records that cannot be filled into a store.
///
/// # Errors
/// What is wrong, for people.
pub(super) fn check_filled(data: &DataOptions, records: u64) -> Result<(), String> {
    data.check()?;
    if records == 0 {
        return Err("a store of 0 records: expected at least 1".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_described_by_their_long_names_as_numbers() {
        let mut options = BTreeMap::new();
        StoreOptions::default().describe(&mut options);
        DataOptions::default().describe(&mut options);
        assert_eq!(options["partitions"], 4);
        assert_eq!(options["memtable-bytes"], Value::Null);
        assert_eq!(options["durability"], "buffered");
        assert_eq!(options["key-space"], 100_000_000);
        assert_eq!(options["values"], "random");
    }
}
