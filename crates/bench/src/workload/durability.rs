//! What durability costs: put-heavy under each, against none; and writers that wait for the device.

use super::options::Workload;
use super::stage::NameFile;
use super::{Mix, MixOptions, Stage};
use crate::engine::Outcome;
use crate::options::{defaults, partitions, refuse, threads};
use crate::record::{OpKind, Summary};
use clap::Args;
use flagstone::Durability;

/// What trials of put-heavy under several durabilities are.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct Durabilities {
    /// Hash partitions, separated by commas
    #[arg(long, default_value = "1,4,16", value_delimiter = ',', value_parser = partitions())]
    pub partitions: Vec<u16>,
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value = "4", value_parser = threads())]
    pub threads: usize,
    /// What an acknowledged write survives, separated by commas; the others are compared with the
    /// first
    #[arg(
        long,
        value_name = "WHAT,..",
        default_value = "none,buffered,interval:10ms,interval:100ms,interval:1000ms,group,each",
        value_delimiter = ','
    )]
    pub durabilities: Vec<Durability>,
    #[command(flatten)]
    pub base: MixOptions,
}

impl Durabilities {
    /// Refuses options that would do nothing. The error is for people.
    pub fn check(&self) -> Result<(), String> {
        let is_given = self.base.setup.store.durability != Durability::Buffered;
        refuse(is_given, "--durability", "other workloads: durability takes --durabilities")?;
        self.base.check()
    }

    /// Runs a trial for each number of partitions and durability, workload `durability`, one result
    /// file each. Every trial but the first of its partitions has the figure `against_first`: by
    /// how much its rate is above (or below, negative) the first's, 0.1 for a tenth.
    pub fn run(
        &self,
        stage: &Stage<'_>,
        out: NameFile<'_>,
    ) -> Outcome<Vec<(u16, Durability, Summary)>> {
        let mut done = Vec::new();
        for &partitions in &self.partitions {
            let mut first = None;
            for &durability in &self.durabilities {
                let mut options = MixOptions { mix: Mix::PUT_HEAVY, ..self.base.clone() };
                options.setup.pace.threads = self.threads;
                let store = &mut options.setup.store;
                (store.partitions, store.durability) = (partitions, durability);
                let name = durability.to_string().replace(':', "-");
                let out = out(&format!("durability-{}-p{partitions}-{name}", stage.engine));
                let stage = Stage { out: out.as_deref(), ..*stage };
                let summary = options.run_as(&stage, "durability", |recorder, _, worked| {
                    let rate = worked.ops_per_s();
                    if let Some(first) = first {
                        recorder.figure("against_first", rate / first - 1.0);
                    }
                    first.get_or_insert(rate);
                    Ok(())
                })?;
                done.push((partitions, durability, summary));
            }
        }
        Ok(done)
    }

    /// A line a durability, a column a number of partitions: operations a second and the change.
    pub fn table(&self, done: &[(u16, Durability, Summary)]) -> String {
        let heads = self.partitions.iter().map(|count| match count {
            1 => format!("{:>24}", "1 partition"),
            _ => format!("{:>24}", format!("{count} partitions")),
        });
        let mut text = format!("{:<18}{}\n", "ops/s", heads.collect::<String>());
        for &durability in &self.durabilities {
            text += &format!("{durability:<18}");
            for (_, _, summary) in done.iter().filter(|(_, of, _)| *of == durability) {
                let change = summary.figures.get("against_first");
                let change = change.map_or(String::new(), |by| format!("{:+.0}%", by * 100.0));
                text += &format!("{:>16.0}{change:>8}", summary.ops_per_s);
            }
            text.push('\n');
        }
        text
    }
}

/// What trials of writers that wait for the device are.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(
    mut_arg("value_bytes", |arg| arg.default_value("128")),
    mut_arg("durability", |arg| arg.default_value("group")),
    mut_arg("known_keys", |arg| arg.hide(true)),
    mut_arg("telling_deletes", |arg| arg.hide(true))
)]
pub struct DurableWriters {
    /// Threads of each trial, separated by commas
    #[arg(
        long = "threads",
        value_name = "N,..",
        default_value = "1,8,32",
        value_delimiter = ',',
        value_parser = threads()
    )]
    pub writers: Vec<usize>,
    #[command(flatten)]
    pub base: MixOptions,
}

impl Default for DurableWriters {
    fn default() -> Self {
        defaults()
    }
}

impl DurableWriters {
    /// Runs a trial of puts with each number of writers, workload `durable-writers`, one result
    /// file each. Figures, where the engine tells its syncs: `commits_per_sync`, `syncs_per_s`.
    pub fn run(&self, stage: &Stage<'_>, out: NameFile<'_>) -> Outcome<Vec<(usize, Summary)>> {
        let mut done = Vec::new();
        for &threads in &self.writers {
            let mut options = MixOptions { mix: Mix::PUTS, ..self.base.clone() };
            options.setup.pace.threads = threads;
            let name = options.setup.store.durability.to_string().replace(':', "-");
            let out = out(&format!("durable-writers-{}-t{threads}-{name}", stage.engine));
            let stage = Stage { out: out.as_deref(), ..*stage };
            let summary = options.run_as(&stage, "durable-writers", |recorder, _, worked| {
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

    /// A line a trial.
    pub fn table(done: &[(usize, Summary)]) -> String {
        let mut text = format!(
            "{:>8}{:>12}{:>12}{:>16}{:>12}{:>12}\n",
            "writers", "puts/s", "syncs/s", "commits/sync", "p50 us", "p99.9 us"
        );
        for (writers, summary) in done {
            let latency = summary.latency.get(&OpKind::Put).copied().unwrap_or_default();
            text += &format!(
                "{writers:>8}{:>12.0}{:>12.0}{:>16.2}{:>12.0}{:>12.0}\n",
                summary.ops_per_s,
                summary.figure("syncs_per_s"),
                summary.figure("commits_per_sync"),
                latency.p50,
                latency.p999,
            );
        }
        text
    }
}
