//! Arguments of the workloads.

use super::shared::{DurableArgs, SetupArgs, TrialArgs, partition_count, thread_count};
use crate::units;
use clap::{Args, ValueEnum};
use flagstone::Durability;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of a mix.
#[derive(Args, Clone, Debug)]
pub(crate) struct MixArgs {
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = thread_count())]
    pub(crate) threads: u16,
    #[command(flatten)]
    pub(crate) shares: ShareArgs,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
    #[command(flatten)]
    pub(crate) durable: DurableArgs,
    /// With the engine noop: burn as much CPU an operation as the trial of this result file took
    #[arg(long, value_name = "FILE", conflicts_with = "burn_ns", help_heading = "Places")]
    pub(crate) burn_like: Option<PathBuf>,
}

/// What gets and deletes of a mix do.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ShareArgs {
    /// The share of gets and deletes that use a key put before, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = units::share)]
    pub(crate) known_keys: f64,
    /// Deletes tell whether the key was there, at the cost of a get
    #[arg(long)]
    pub(crate) telling_deletes: bool,
}

/// Arguments of YCSB.
#[derive(Args, Clone, Debug)]
pub(crate) struct YcsbArgs {
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = thread_count())]
    pub(crate) threads: u16,
    /// Records loaded before the clock starts
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) records: u64,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
    #[command(flatten)]
    pub(crate) durable: DurableArgs,
}

/// Put-heavy under every durability, and the change against none
#[derive(Args, Clone, Debug)]
pub(crate) struct DurabilityArgs {
    /// Hash partitions, parted by commas
    #[arg(long, value_name = "N,..", default_value = "1,4,16", value_delimiter = ',', value_parser = partition_count())]
    pub(crate) partitions: Vec<u16>,
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = thread_count())]
    pub(crate) threads: u16,
    /// What an acknowledged write survives, parted by commas; the others are compared with the first
    #[arg(
        long,
        value_name = "WHAT,..",
        default_value = "none,buffered,interval:10ms,interval:100ms,interval:1000ms,group,each",
        value_delimiter = ',',
        value_parser = units::durability
    )]
    pub(crate) durabilities: Vec<Durability>,
    #[command(flatten)]
    pub(crate) shares: ShareArgs,
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
}

/// Threads that put small values and wait for the device, and how many share a sync
#[derive(Args, Clone, Debug)]
pub(crate) struct DurableWritersArgs {
    /// Threads of each trial, parted by commas
    #[arg(long, value_name = "N,..", default_value = "1,8,32", value_delimiter = ',', value_parser = thread_count())]
    pub(crate) threads: Vec<u16>,
    /// What an acknowledged write survives: group, each, ...
    #[arg(long, value_name = "WHAT", default_value = "group", value_parser = units::durability)]
    pub(crate) durability: Durability,
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
}

/// One workload over many numbers of partitions and threads, unattended, a result file each
///
/// A cell that fails is told at the end and the others still run. Give --out a directory.
#[derive(Args, Clone, Debug)]
pub(crate) struct MatrixArgs {
    /// Which workload
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) workload: MatrixWorkload,
    /// Pass over cells measured by this program, so at its commit, with the same options
    #[arg(long)]
    pub(crate) resume: bool,
    /// Hash partitions, parted by commas
    #[arg(long, value_name = "N,..", default_value = "1,4,8,16", value_delimiter = ',', value_parser = partition_count())]
    pub(crate) partitions: Vec<u16>,
    /// Threads, parted by commas
    #[arg(long, value_name = "N,..", default_value = "1,4,8,16,32", value_delimiter = ',', value_parser = thread_count())]
    pub(crate) threads: Vec<u16>,
    #[command(flatten)]
    pub(crate) shares: ShareArgs,
    #[command(flatten)]
    pub(crate) durable: DurableArgs,
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
}

/// Workloads that a matrix can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatrixWorkload {
    PutHeavy,
    GetHeavy,
    DeleteHeavy,
    Balanced,
    /// The four mixes, one after another.
    Mixes,
}

/// Every workload for a moment on a small store, and a check of what it wrote
#[derive(Args, Clone, Debug)]
pub(crate) struct SmokeArgs {
    /// Keep the results in this directory; otherwise they go to a temporary one
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Seconds of a workload of one trial; trials of one command take a fifth of it each
    #[arg(long, value_name = "S", default_value = "1", value_parser = units::seconds)]
    pub(crate) seconds: Duration,
}
