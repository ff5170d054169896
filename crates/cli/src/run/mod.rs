//! The commands: one file each.

mod aggregate;
mod backup;
mod checkpoint;
mod collections;
mod columnar;
#[cfg(all(feature = "server", unix))]
mod command;
mod compact;
mod compare;
mod completions;
mod confirm;
mod copy;
mod count;
mod delete;
mod demo;
mod describe;
mod distinct;
mod end;
mod expiry;
mod export;
mod find;
mod generate;
mod get;
mod index;
mod inspect;
mod keys;
mod load;
mod lookup;
mod man;
mod many;
mod more;
mod open;
#[cfg(all(feature = "server", unix))]
mod password;
mod put;
mod query;
mod rebalance;
mod repair;
mod restore;
mod scan;
mod scratch;
mod scrub;
#[cfg(all(feature = "server", unix))]
mod serve;
#[cfg(all(feature = "server", unix))]
mod served;
mod shell;
mod source;
mod stats;
mod table;
mod target;
mod update;
#[cfg(all(feature = "server", unix))]
mod user;
mod verify;
mod watch;

use crate::args::{Command, VerifyArgs};
use crate::failure::Failure;

/// Runs a command. One that fails leaves no empty database.
pub(crate) fn run(command: Command) -> Result<(), Failure> {
    scratch::remove_abandoned();
    refuse_url(&command)?;
    run_checked(command).inspect_err(|_| open::remove_unused())
}

fn run_checked(command: Command) -> Result<(), Failure> {
    match command {
        Command::Load(args) => load::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Put(args) => put::run(&args),
        Command::Delete(args) => delete::run(&args),
        Command::Update(args) => update::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Find(args) => find::run(&args),
        Command::Aggregate(args) => aggregate::run(&args),
        Command::Distinct(args) => distinct::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Index(args) => index::run(&args),
        Command::Collections(args) => collections::list(&args),
        Command::Describe(args) => describe::run(&args),
        Command::Alter(args) => collections::alter(&args),
        Command::Rename(args) => collections::rename(&args),
        Command::Drop(args) => collections::drop_one(&args),
        Command::Count(args) => count::run(&args),
        Command::Keys(args) => keys::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Checkpoint(args) => checkpoint::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Rebalance(args) => rebalance::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Scrub(args) => scrub::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Demo(args) => demo::run(&args),
        #[cfg(all(feature = "server", unix))]
        Command::Serve(args) => serve::run(&args),
        #[cfg(all(feature = "server", unix))]
        Command::Driver(args) => command::run(&args),
        #[cfg(all(feature = "server", unix))]
        Command::User(args) => user::run(&args),
        Command::Shell(args) => shell::run(&args, run),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Refuses the URL of a server where a command needs files, and says what works instead.
fn refuse_url(command: &Command) -> Result<(), Failure> {
    const STOP: &str = "stop the server first";
    let (name, database, instead) = match command {
        Command::Backup(args) => {
            let directory = args.paths.first().filter(|_| args.paths.len() > 1);
            let instead = "without DIR, the server adds to those of flagstone serve --backups";
            ("backup", directory.map(|path| &**path), instead)
        }
        Command::Restore(args) => ("restore", Some(&*args.target), STOP),
        Command::Checkpoint(args) => ("checkpoint", Some(&*args.database), STOP),
        Command::Compact(args) => {
            ("compact", Some(&*args.database), "flagstone command URL '{\"compact\":\"NAME\"}'")
        }
        // Directories and clusters can be compared.
        Command::Verify(VerifyArgs { against: Some(_), .. }) => return Ok(()),
        Command::Verify(args) => {
            ("verify", Some(&*args.database), "flagstone command URL '{\"validate\":\"NAME\"}'")
        }
        Command::Scrub(args) => ("scrub", Some(&*args.database), STOP),
        Command::Repair(args) => ("repair", Some(&*args.database), STOP),
        Command::Inspect(args) => ("inspect", Some(&*args.file), STOP),
        #[cfg(all(feature = "server", unix))]
        Command::Serve(args) if !source::is_cluster(&args.database) => {
            ("serve", Some(&*args.database), "name what is to be served")
        }
        #[cfg(all(feature = "server", unix))]
        Command::User(args) if !source::is_cluster(args.database()) => {
            let instead = "flagstone command URL '{\"createUser\":\"NAME\",..}', or usersInfo, \
                           updateUser, dropUser";
            ("user", Some(args.database()), instead)
        }
        Command::Shell(args) => {
            ("shell", Some(&*args.database), "give the URL to the other commands, or use mongosh")
        }
        _ => return Ok(()),
    };
    database.map_or(Ok(()), |database| source::refuse_url(name, database, instead))
}
