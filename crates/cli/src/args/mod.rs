//! The arguments: one struct a command. Its comments are the help texts.

mod backup;
mod demo;
mod document;
mod generate;
mod load;
mod scan;
mod upkeep;

pub(crate) use backup::{BackupArgs, RestoreArgs};
pub(crate) use demo::DemoArgs;
pub(crate) use document::{DeleteArgs, GetArgs, KeyArgs, PutArgs, UpdateArgs};
pub(crate) use generate::{CommentsArgs, Generate, GenerateArgs};
pub(crate) use load::{LoadArgs, ProgressForm};
pub(crate) use scan::{CollectionArgs, CountArgs, KeysArgs, ScanArgs};
pub(crate) use upkeep::{
    CheckpointArgs, CompactArgs, InspectArgs, RepairArgs, StatsArgs, VerifyArgs,
};

use clap::{Parser, Subcommand};

/// An embedded storage engine for documents, from the command line.
///
/// Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 not found or a check
/// failed, 2 used wrongly, 3 input, output or corruption, 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "flagstone", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One variant a command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Load(LoadArgs),
    Get(GetArgs),
    Put(PutArgs),
    Delete(DeleteArgs),
    Update(UpdateArgs),
    Scan(ScanArgs),
    Count(CountArgs),
    Keys(KeysArgs),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Checkpoint(CheckpointArgs),
    Compact(CompactArgs),
    Stats(StatsArgs),
    Verify(VerifyArgs),
    Repair(RepairArgs),
    Inspect(InspectArgs),
    Generate(GenerateArgs),
    Demo(DemoArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Args::command().debug_assert();
    }
}
