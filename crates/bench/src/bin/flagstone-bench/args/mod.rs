//! The arguments: one struct a command. What they mean stands here, once.

mod shared;

mod documents;
mod report;
mod stores;
mod workloads;

pub(crate) use documents::{
    BenchGetArgs, BenchLoadArgs, BenchUpdateArgs, DocumentMatrixArgs, DocumentTrialArgs,
    DocumentWorkload, How, LoadThreads, SourceArgs,
};
pub(crate) use report::ReportArgs;
pub(crate) use shared::{DataArgs, EngineName, Kind, PaceArgs, PlaceArgs, StoreArgs};
pub(crate) use stores::{
    DeviceArgs, FullScanArgs, GetsArgs, LargerArgs, OverwriteArgs, OverwritePattern,
    SequentialArgs, SequentialBytes, ShortScanArgs, SizesArgs,
};
pub(crate) use workloads::{
    DurabilityArgs, DurableWritersArgs, MatrixArgs, MatrixWorkload, MixArgs, SmokeArgs, YcsbArgs,
};

use clap::{Parser, Subcommand};

/// The benchmarks of flagstone: workloads over a store of their own, a row an interval, a result file a trial.
///
/// A trial creates its store, lets threads work on it in a closed loop, prints a summary and writes a
/// file of JSON lines: a header, a row an interval, events of the engine, the summary. Keys and values
/// are created outside the timed calls, and every value read is checked. Exit codes: 0 done, 1 a check
/// failed, 2 used wrongly, 3 input, output or corruption.
#[derive(Debug, Parser)]
#[command(name = "flagstone-bench", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One variant a command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// 90 puts, 5 deletes, 5 gets in a hundred, over random keys, from an empty store
    PutHeavy(MixArgs),
    /// 10 puts, 5 deletes, 85 gets in a hundred, over random keys, from an empty store
    GetHeavy(MixArgs),
    /// 45 puts, 45 deletes, 10 gets in a hundred, over random keys, from an empty store
    DeleteHeavy(MixArgs),
    /// 33 puts, 33 deletes, 34 gets in a hundred, over random keys, from an empty store
    Balanced(MixArgs),
    /// YCSB A: 50 reads, 50 updates, zipfian
    YcsbA(YcsbArgs),
    /// YCSB B: 95 reads, 5 updates, zipfian
    YcsbB(YcsbArgs),
    /// YCSB C: reads, zipfian
    YcsbC(YcsbArgs),
    /// YCSB D: 95 reads of the latest records, 5 inserts
    YcsbD(YcsbArgs),
    /// YCSB E: 95 scans of 1 to 100 records, 5 inserts
    YcsbE(YcsbArgs),
    /// YCSB F: 50 reads, 50 read-modify-writes, zipfian
    YcsbF(YcsbArgs),
    Durability(DurabilityArgs),
    DurableWriters(DurableWritersArgs),
    Sequential(SequentialArgs),
    /// Gets of records that are all in memory: compacted, and read once before
    CachedGet(GetsArgs),
    /// Gets of keys that never were, over a compacted store
    AbsentGet(GetsArgs),
    Larger(LargerArgs),
    Sizes(SizesArgs),
    FullScan(FullScanArgs),
    ShortScan(ShortScanArgs),
    Overwrite(OverwriteArgs),
    Load(BenchLoadArgs),
    Get(BenchGetArgs),
    Update(BenchUpdateArgs),
    DocumentMatrix(DocumentMatrixArgs),
    Device(DeviceArgs),
    Matrix(MatrixArgs),
    Report(ReportArgs),
    Smoke(SmokeArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Args::command().debug_assert();
    }
}
