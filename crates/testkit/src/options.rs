//! Random options, which must not change results.

use crate::rng::Rng;
use flagstone::changes::ChangeRetention;
use flagstone::{Compression, Durability, KeyspaceOptions, Options, Routing};
use std::time::Duration;

/// Returns options of a small database: 1 to 4 MiB of memory, so that memtables are tiny.
pub fn random_options(rng: &mut Rng) -> Options {
    let durabilities = [
        Durability::None,
        Durability::Buffered,
        Durability::Buffered,
        Durability::Interval(Duration::from_millis(10)),
        Durability::Group,
        Durability::Each,
    ];
    let retentions = [
        None,
        None,
        Some(ChangeRetention::OFF),
        Some(ChangeRetention::bytes(64 << 10)),
        Some(ChangeRetention::bytes(4 << 20)),
    ];
    Options::new()
        .memory_budget(rng.between(1 << 20, 4 << 20))
        .memtable_bytes(rng.percent(30).then(|| rng.between(64 << 10, 128 << 10)))
        .split_bytes(*rng.pick(&[0, 1 << 10, 16 << 10]))
        .direct_reads(rng.percent(20))
        .durability(*rng.pick(&durabilities))
        .compaction_workers(rng.between(1, 3) as usize)
        .entry_checks(rng.percent(80))
        .change_retention(*rng.pick(&retentions))
}

/// Returns options of a keyspace: 1 to 8 partitions by hash or range, any compression and block
/// size.
pub fn random_keyspace(rng: &mut Rng, fold: Option<&str>) -> KeyspaceOptions {
    let compressions =
        [Compression::None, Compression::Lz4, Compression::Zstd(1), Compression::Zstd(3)];
    let mut options = KeyspaceOptions::new()
        .routing(random_routing(rng))
        .compression(*rng.pick(&compressions))
        .bottom_compression(*rng.pick(&compressions))
        .block_bytes(1 << rng.between(10, 16))
        .filter_bits(*rng.pick(&[0, 1, 5, 10, 10, 20]))
        .bottom_dictionary(rng.percent(50));
    options.fold = fold.map(str::to_owned);
    options
}

fn random_routing(rng: &mut Rng) -> Routing {
    let partitions = rng.between(1, 8) as u16;
    if rng.percent(50) {
        return Routing::Hash(partitions);
    }
    let mut bounds: Vec<Vec<u8>> = (1..partitions)
        .map(|_| match rng.below(4) {
            0 => vec![rng.below(256) as u8],
            1 => format!("k{:03}", rng.below(400)).into_bytes(),
            2 => format!("k{}", rng.below(10)).into_bytes(),
            _ => vec![0xFF; rng.between(1, 3) as usize],
        })
        .collect();
    bounds.sort();
    bounds.dedup();
    Routing::Range(bounds)
}
