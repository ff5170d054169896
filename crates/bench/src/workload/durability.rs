//! What durability costs: put-heavy under each, against none; and writers that wait for the device.

use super::mix::run_mix_as;
use super::{DataOptions, Mix, MixOptions, Stage, StoreOptions};
use crate::engine::{Outcome, durability_name};
use crate::record::Summary;
use crate::run::Pace;
use flagstone::Durability;
use std::path::PathBuf;
use std::time::Duration;

/// Which durabilities over which partitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Durabilities {
    /// What all have in common; its mix, partitions and durability do not matter.
    pub base: MixOptions,
    /// Hash partitions.
    pub partitions: Vec<u16>,
    /// Durabilities. The first is what the others are compared with.
    pub durabilities: Vec<Durability>,
}

impl Default for Durabilities {
    /// None, Buffered, Interval of 10, 100 and 1000 ms, Group, Each; 1, 4, 16 partitions.
    fn default() -> Self {
        let interval = |ms| Durability::Interval(Duration::from_millis(ms));
        Self {
            base: MixOptions::new(Mix::PUT_HEAVY),
            partitions: vec![1, 4, 16],
            durabilities: vec![
                Durability::None,
                Durability::Buffered,
                interval(10),
                interval(100),
                interval(1000),
                Durability::Group,
                Durability::Each,
            ],
        }
    }
}

/// One finished cell.
#[derive(Clone, Debug, PartialEq)]
pub struct DurabilityCell {
    /// Hash partitions.
    pub partitions: u16,
    /// Its durability.
    pub durability: Durability,
    /// How it went.
    pub summary: Summary,
}

/// Runs put-heavy under each durability, workload `durability`, one result file a cell as `out` names
/// it. Every cell but the first of its partitions has the figure `against_first`: by how much its
/// rate is above (or below, negative) the first's, 0.1 for a tenth.
///
/// # Errors
/// As [`run_mix`](super::run_mix); the first error ends it.
pub fn run_durabilities(
    stage: &Stage<'_>,
    what: &Durabilities,
    out: &dyn Fn(&str) -> Option<PathBuf>,
) -> Outcome<Vec<DurabilityCell>> {
    let mut cells = Vec::new();
    for &partitions in &what.partitions {
        let mut first = None;
        for &durability in &what.durabilities {
            let store = StoreOptions { partitions, durability, ..what.base.store.clone() };
            let options = MixOptions { mix: Mix::PUT_HEAVY, store, ..what.base.clone() };
            let name = durability_name(durability).replace(':', "-");
            let out = out(&format!("durability-{}-p{partitions}-{name}", stage.engine));
            let stage = Stage { out: out.as_deref(), ..*stage };
            let summary = run_mix_as(&stage, "durability", &options, |recorder, _, worked| {
                let rate = worked.ops_per_s();
                if let Some(first) = first {
                    recorder.figure("against_first", rate / first - 1.0);
                }
                first.get_or_insert(rate);
                Ok(())
            })?;
            cells.push(DurabilityCell { partitions, durability, summary });
        }
    }
    Ok(cells)
}

/// Writers that wait for the device.
#[derive(Clone, Debug, PartialEq)]
pub struct DurableWriters {
    /// What all have in common; its threads do not matter, its durability and values do.
    pub base: MixOptions,
    /// Threads of each trial.
    pub writers: Vec<usize>,
}

impl Default for DurableWriters {
    /// 1, 8 and 32 writers of 128-byte values that share syncs.
    fn default() -> Self {
        let base = MixOptions::new(Mix::PUTS);
        Self {
            base: MixOptions {
                store: StoreOptions { durability: Durability::Group, ..base.store },
                data: DataOptions { value_bytes: 128, ..base.data },
                ..base
            },
            writers: vec![1, 8, 32],
        }
    }
}

/// Runs puts alone with each number of writers, workload `durable-writers`, one result file each as
/// `out` names it. Figures, where the engine tells its syncs: `commits_per_sync`, `syncs_per_s`.
///
/// # Errors
/// As [`run_mix`](super::run_mix); the first error ends it.
pub fn run_durable_writers(
    stage: &Stage<'_>,
    what: &DurableWriters,
    out: &dyn Fn(&str) -> Option<PathBuf>,
) -> Outcome<Vec<(usize, Summary)>> {
    let mut done = Vec::new();
    for &threads in &what.writers {
        let pace = Pace { threads, ..what.base.pace };
        let options = MixOptions { mix: Mix::PUTS, pace, ..what.base.clone() };
        let name = durability_name(options.store.durability).replace(':', "-");
        let out = out(&format!("durable-writers-{}-t{threads}-{name}", stage.engine));
        let stage = Stage { out: out.as_deref(), ..*stage };
        let summary = run_mix_as(&stage, "durable-writers", &options, |recorder, _, worked| {
            if let Some(syncs) = recorder.wal_syncs().filter(|syncs| *syncs > 0) {
                recorder.figure("commits_per_sync", worked.ops as f64 / syncs as f64);
                recorder.figure("syncs_per_s", syncs as f64 / worked.seconds);
            }
            Ok(())
        })?;
        done.push((threads, summary));
    }
    Ok(done)
}
