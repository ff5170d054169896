//! `backup`: adds a generation to the backups of a database; lists, checks and drops generations.

use super::{open, source};
use crate::args::BackupArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Output};
use crate::units::{counted, show_bytes};
use flagstone::Database;
use flagstone::admin::Backups;
use flagstone::doc::DateTime;
use flagstone::internal::interruptible;
use flagstone::report::{BackupInfo, BackupReport, KeepReport};
#[cfg(all(feature = "server", unix))]
use flagstone_server::bson::BsonWriter;
use std::path::Path;

pub(super) fn run(args: &BackupArgs) -> Result<(), Failure> {
    if args.rate.is_some() && args.paths.len() < 2 {
        return Err(Failure::Usage("--rate is for a new generation: expected DB and DIR".into()));
    }
    if args.memory.memory.is_some() && args.paths.len() < 2 {
        let text = "--memory is for a new generation: expected DB and DIR";
        return Err(Failure::Usage(text.into()));
    }
    let dir = match &args.paths[..] {
        [server] if source::is_url(server) => return of_server(server, args),
        [database, dir] => {
            make(database, dir, args)?;
            dir
        }
        [dir] if args.list || args.verify || args.keep.is_some() => dir,
        _ => {
            let text = "expected DB and DIR, or DIR with --list, --verify or --keep";
            return Err(Failure::Usage(text.to_owned()));
        }
    };
    let backups = Backups::in_dir(dir);
    if let Some(newest) = args.keep {
        let dropped = backups.keep(usize::try_from(newest).unwrap_or(usize::MAX))?;
        tell_dropped(&dropped);
    }
    if args.list {
        list(&backups)?;
    }
    if args.verify {
        verify(&backups)?;
    }
    Ok(())
}

fn make(database: &Path, dir: &Path, args: &BackupArgs) -> Result<(), Failure> {
    let options = open::options(args.memory.memory);
    let options = options.copy_bytes_per_second(args.rate.unwrap_or(0)).create_if_missing(false);
    let builder = || Database::builder(database).options(options.clone());
    interrupt::listen()?;
    // After a clean close everything is in tables, and nothing has to be written.
    let mut source = builder().open_read_only()?;
    if source.stats().memtable_bytes > 0 {
        source.close()?;
        source = builder().open()?;
    }
    let made = interruptible(interrupt::is_asked, || source.backup(dir));
    source.close()?;
    let made = made?;
    tell_made(&made, made.seqno.get());
    Ok(())
}

/// Lets a server that has the database open add a generation to its backups.
#[cfg(all(feature = "server", unix))]
fn of_server(server: &Path, args: &BackupArgs) -> Result<(), Failure> {
    if args.list || args.verify {
        let text = "--list and --verify read the directory of the backups: expected it, not a URL";
        return Err(Failure::Usage(text.to_owned()));
    }
    let link = source::connect(server, args.memory.memory)?;
    let put = |out: &mut BsonWriter<'_>| match args.keep {
        Some(newest) => out.long("keep", i64::try_from(newest).unwrap_or(i64::MAX)),
        None => Ok(()),
    };
    let (made, seqno, dropped) = link.operate("backup", None, put, |reply| {
        let count = |name: &str| reply.int(name).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let made = BackupReport {
            generation: count("generation"),
            tables: count("tables"),
            bytes: count("bytes"),
            tables_copied: count("tablesCopied"),
            bytes_copied: count("bytesCopied"),
            ..BackupReport::default()
        };
        let dropped = KeepReport {
            generations: count("generationsDropped"),
            tables: count("tablesDropped"),
            bytes: count("bytesDropped"),
        };
        Ok((made, count("seqno"), dropped))
    })?;
    tell_made(&made, seqno);
    tell_dropped(&dropped);
    Ok(())
}

#[cfg(not(all(feature = "server", unix)))]
fn of_server(server: &Path, _args: &BackupArgs) -> Result<(), Failure> {
    source::refuse_url("backup", server, "this build knows no servers")
}

fn tell_made(made: &BackupReport, seqno: u64) {
    output::note(&format!(
        "generation {}: {} tables of {} at #{}, {} tables of {} copied",
        made.generation,
        made.tables,
        show_bytes(made.bytes),
        seqno,
        made.tables_copied,
        show_bytes(made.bytes_copied)
    ));
}

fn tell_dropped(dropped: &KeepReport) {
    if dropped.generations > 0 {
        output::note(&format!(
            "dropped {}, {} of {}",
            counted(dropped.generations, "generation"),
            counted(dropped.tables, "table"),
            show_bytes(dropped.bytes)
        ));
    }
}

fn list(backups: &Backups) -> Result<(), Failure> {
    let all = backups.list()?;
    let mut output = Output::new();
    output.line("generation  created               tables       bytes         new  seqno")?;
    for info in all {
        output.line(&line(&info))?;
    }
    output.flush()
}

fn line(info: &BackupInfo) -> String {
    if let Some(error) = &info.damage {
        return format!("{:>10}  DAMAGED: {error}", info.generation);
    }
    let seconds = i64::try_from(info.made_at.as_secs()).unwrap_or_default();
    let made = DateTime::from_micros(seconds.saturating_mul(1_000_000)).to_string();
    format!(
        "{:>10}  {made:<20}  {:>6}  {:>10}  {:>10}  {}",
        info.generation,
        info.tables,
        show_bytes(info.bytes),
        show_bytes(info.bytes_new),
        info.seqno.get()
    )
}

fn verify(backups: &Backups) -> Result<(), Failure> {
    let report = backups.verify()?;
    let mut output = Output::new();
    for damage in &report.damage {
        output.line(&damage.to_string())?;
    }
    output.line(&report.to_string())?;
    output.flush()?;
    report.check().map_err(|error| Failure::Damage(error.to_string()))
}
