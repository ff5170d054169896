//! The arguments: one struct a command. Its comments are the help texts.

/// The end of a command's help: what its exit codes mean. Those that all commands share are said
/// in one place.
macro_rules! exit_codes {
    ($($own:literal)?) => {
        concat!(
            "Exit codes: 0 done, ",
            $("1 ", $own, ", ",)?
            "2 used wrongly, 3 input or output failed, 4 damaged data, 130 interrupted"
        )
    };
}

mod backup;
mod copy;
mod demo;
mod document;
mod generate;
mod index;
mod load;
mod query;
mod rebalance;
mod scan;
#[cfg(all(feature = "server", unix))]
mod serve;
mod shell;
mod upkeep;
mod watch;

pub(crate) use backup::{BackupArgs, RestoreArgs};
pub(crate) use copy::CopyArgs;
pub(crate) use demo::DemoArgs;
pub(crate) use document::{
    ConditionArgs, DeleteArgs, GetArgs, KeyArgs, PutArgs, TargetArgs, UpdateArgs,
};
pub(crate) use generate::{CommentsArgs, Generate, GenerateArgs};
pub(crate) use index::{
    CreateIndexArgs, DropIndexArgs, IndexArgs, IndexCommand, IndexOptions, ListIndexesArgs,
};
pub(crate) use load::{FormatArg, LoadArgs, ModeArg, ProgressForm};
pub(crate) use query::{AggregateArgs, DistinctArgs, ExportArgs, FindArgs, FormArg};
pub(crate) use rebalance::RebalanceArgs;
pub(crate) use scan::{
    AlterArgs, CollectionArgs, CollectionsArgs, CountArgs, DescribeArgs, DropArgs, JsonArgs,
    KeysArgs, MemoryArgs, RenameArgs, ScanArgs,
};
#[cfg(all(feature = "server", unix))]
pub(crate) use serve::{
    AddUserArgs, CommandArgs, ListUsersArgs, LogArg, PasswordArgs, RemoveUserArgs, ServeArgs,
    TlsArgs, UserArgs, UserCommand, UserName,
};
pub(crate) use shell::{CompletionsArgs, ManArgs, ShellArgs};
pub(crate) use upkeep::{
    CheckpointArgs, CompactArgs, InspectArgs, RepairArgs, ScrubArgs, StatsArgs, VerifyArgs,
};
pub(crate) use watch::WatchArgs;

use clap::{Parser, Subcommand};

/// An embedded storage engine for documents, from the command line.
///
/// Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 not found or not as
/// required, 2 used wrongly, 3 input or output failed, 4 damaged data, 130 interrupted. The help of
/// a command says what its code 1 means.
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
    Update(Box<UpdateArgs>),
    Scan(ScanArgs),
    Find(Box<FindArgs>),
    Aggregate(AggregateArgs),
    Count(CountArgs),
    Distinct(DistinctArgs),
    Keys(KeysArgs),
    Export(ExportArgs),
    Watch(WatchArgs),
    Index(IndexArgs),
    Collections(CollectionsArgs),
    Describe(DescribeArgs),
    Alter(AlterArgs),
    Rename(RenameArgs),
    Drop(DropArgs),
    Backup(BackupArgs),
    Restore(RestoreArgs),
    Checkpoint(CheckpointArgs),
    Copy(CopyArgs),
    Compact(CompactArgs),
    Rebalance(RebalanceArgs),
    Stats(StatsArgs),
    Verify(VerifyArgs),
    Scrub(ScrubArgs),
    Repair(RepairArgs),
    Inspect(InspectArgs),
    Generate(GenerateArgs),
    Demo(DemoArgs),
    #[cfg(all(feature = "server", unix))]
    Serve(Box<ServeArgs>),
    #[cfg(all(feature = "server", unix))]
    #[command(name = "command")]
    Driver(CommandArgs),
    #[cfg(all(feature = "server", unix))]
    User(UserArgs),
    Shell(ShellArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "test code")]
mod tests {
    use clap::{CommandFactory, Parser};
    use std::path::Path;

    #[test]
    fn the_arguments_are_consistent() {
        super::Args::command().debug_assert();
    }

    /// The words of a command in a shell, up to its end: `|`, `;`, `>` or a comment.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in line.chars() {
            match (quote, c) {
                (Some(open), _) if open == c => quote = None,
                (None, '"' | '\'') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, ' ') => words.extend(word.take()),
                (None, '#') if word.is_none() => break,
                (None, '|' | ';' | '>' | '<') => break,
                _ => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }

    #[test]
    fn a_line_is_split_as_a_shell_does() {
        assert_eq!(words("a 'b  \"c' d\"e\" '' > f"), ["a", "b  \"c", "de", ""]);
        assert_eq!(words("a b#c # d"), ["a", "b#c"]);
    }

    /// Calls `found` with every command of the tool in the blocks of a shell in the documents.
    fn each_command(path: &Path, found: &mut dyn FnMut(&str)) {
        if path.is_dir() {
            for entry in std::fs::read_dir(path).unwrap() {
                each_command(&entry.unwrap().path(), found);
            }
        } else if path.extension().is_some_and(|end| end == "md") {
            let text = std::fs::read_to_string(path).unwrap();
            let blocks = text.split("```").skip(1).step_by(2);
            for block in blocks.filter_map(|block| block.strip_prefix("sh\n")) {
                let block = block.replace("\\\n", " ");
                block.lines().filter(|line| line.starts_with("flagstone ")).for_each(&mut *found);
            }
        }
    }

    #[test]
    fn every_command_in_the_documents_is_one_of_the_tool() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let mut count = 0;
        for path in [root.join("README.md"), root.join("docs")] {
            each_command(&path, &mut |line| {
                count += 1;
                if let Err(error) = super::Args::try_parse_from(words(line)) {
                    panic!("{line}: {error}");
                }
            });
        }
        assert!(count > 20, "{count} commands found");
    }
}
