//! `watch`: what was committed, in order.
//!
//! A database is open in one process that writes, or in several that read. So to follow it means to
//! open it, print what is new, close it, and look again when its files have changed. In a shell,
//! which has it open, a reader waits.

use super::open;
use crate::args::WatchArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{Output, note};
use flagstone::changes::{
    Change, ChangeKind, ChangeRetention, ChangeToken, Changes, ChangesFrom, Delivery, Happened,
};
use flagstone::doc::{JsonMode, json};
use flagstone::{Database, ErrorKind};
use serde_json::Value as Json;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// The time between two looks at a database that others may have open.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// File systems have time stamps of two seconds at most.
const SETTLED: Duration = Duration::from_secs(3);

pub(super) fn run(args: &WatchArgs) -> Result<(), Failure> {
    if let Some(bytes) = args.keep {
        return keep(args, bytes);
    }
    let mut from = match &args.from[..] {
        "start" => ChangesFrom::Start,
        "now" => ChangesFrom::Now,
        token => ChangesFrom::After(token.parse()?),
    };
    interrupt::listen()?;
    let mut watch = Watch {
        output: Output::in_mode(args.json_mode.mode()),
        left: args.limit.unwrap_or(u64::MAX),
    };
    let mut changed = Instant::now();
    let mut seen = None;
    while watch.left > 0 && !interrupt::is_asked() {
        let is_over = args.timeout.is_some_and(|timeout| changed.elapsed() >= timeout);
        let files = Files::of(&args.database);
        if files.is_some() && files == seen {
            if is_over {
                break;
            }
            std::thread::sleep(LOOK_EVERY.min(args.timeout.unwrap_or(LOOK_EVERY)));
            continue;
        }
        let database = match open::to_read(&args.database, args.memory) {
            Ok(database) => database,
            Err(Failure::Engine(error)) if args.follow && error.kind() == ErrorKind::Busy => {
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            Err(error) => return Err(error),
        };
        if database.stats().changes.is_none() {
            let name = args.database.display();
            return Err(Failure::Usage(format!(
                "{name} keeps no changes: flagstone watch {name} --keep 1GiB makes it keep those \
                 from then on"
            )));
        }
        let changes = database.changes(from)?;
        let mut changes = match &args.name {
            Some(name) => changes.only([name.clone()]),
            None => changes,
        };
        if watch.print_all(&mut changes, args.follow)? {
            changed = Instant::now();
        } else if !args.follow {
            open::check_keyspace(&database, args)?;
        }
        from = ChangesFrom::After(changes.token());
        drop(changes);
        open::close(database)?;
        seen = files;
        let is_over = args.timeout.is_some_and(|timeout| changed.elapsed() >= timeout);
        if !args.follow || is_over {
            break;
        }
        std::thread::sleep(LOOK_EVERY.min(args.timeout.unwrap_or(LOOK_EVERY)));
    }
    watch.output.flush()?;
    // With --follow only a signal ends it.
    if args.follow { Ok(()) } else { interrupt::check() }
}

/// Makes the database keep changes.
fn keep(args: &WatchArgs, bytes: u64) -> Result<(), Failure> {
    let retention = ChangeRetention::bytes(bytes);
    let retention = args.keep_for.map_or(retention, |age| retention.and_age(age));
    if open::is_shell() {
        let name = args.database.display();
        let text = format!("--keep works outside of the shell: flagstone watch {name} --keep 1GiB");
        return Err(Failure::Usage(text));
    }
    let options = open::options(args.memory.memory).create_if_missing(false);
    let options = options.change_retention(retention);
    Database::builder(&args.database).options(options).open()?.close()?;
    note(&format!("changes kept: {retention}"));
    Ok(())
}

/// The files of a database as they were before it was opened, if all had been left alone for a
/// while: as long as they are the same, there is nothing new, and no need to open it.
#[derive(PartialEq, Eq)]
struct Files(Vec<(OsString, u64, SystemTime)>);

impl Files {
    /// `None` if a file was written just now: a later write could have the same time stamp.
    fn of(database: &Path) -> Option<Self> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(database).ok()? {
            let entry = entry.ok()?;
            let metadata = entry.metadata().ok()?;
            files.push((entry.file_name(), metadata.len(), metadata.modified().ok()?));
        }
        files.sort_unstable();
        let now = SystemTime::now();
        let is_old = |time: &SystemTime| now.duration_since(*time).is_ok_and(|age| age > SETTLED);
        files.iter().all(|(_, _, time)| is_old(time)).then_some(Self(files))
    }
}

struct Watch {
    output: Output,
    left: u64,
}

impl Watch {
    /// Prints what is delivered, until there is nothing more. Returns whether there was anything.
    fn print_all(&mut self, changes: &mut Changes, waits: bool) -> Result<bool, Failure> {
        let mut any = false;
        while self.left > 0 && !interrupt::is_asked() {
            let delivery = if waits { changes.wait(LOOK_EVERY)? } else { changes.poll()? };
            let Some(delivery) = delivery else { break };
            any = true;
            self.print(&delivery)?;
        }
        self.output.flush()?;
        Ok(any)
    }

    fn print(&mut self, delivery: &Delivery) -> Result<(), Failure> {
        let token = delivery.token;
        match &delivery.happened {
            Happened::Commit(batch) => {
                let changes = batch.changes();
                let last = changes.len() - 1;
                for (at, change) in changes.enumerate() {
                    // Within a batch there is no place to continue.
                    let token = Some(token).filter(|_| at == last);
                    let printed =
                        self.output.json(|mode, out| put_change(token, &change, mode, out));
                    printed.map_err(|failure| named(&change, failure))?;
                }
                self.left -= 1;
                return Ok(());
            }
            Happened::Ingested { keyspace, start, end } => self.line(&[
                ("token", Json::from(token.to_string())),
                ("kind", "ingested".into()),
                ("keyspace", keyspace.as_str().into()),
                ("from", text(start)),
                ("to", text(end)),
            ])?,
            Happened::Dropped { keyspace } => self.line(&[
                ("token", Json::from(token.to_string())),
                ("kind", "dropped".into()),
                ("keyspace", keyspace.as_str().into()),
            ])?,
            Happened::Renamed { from, to } => self.line(&[
                ("token", Json::from(token.to_string())),
                ("kind", "renamed".into()),
                ("keyspace", from.as_str().into()),
                ("to", to.as_str().into()),
            ])?,
            _ => self.line(&[("token", Json::from(token.to_string())), ("kind", "gap".into())])?,
        }
        self.left -= 1;
        Ok(())
    }

    fn line(&mut self, fields: &[(&str, Json)]) -> Result<(), Failure> {
        self.output.json(|_, out| {
            put_fields(fields, out);
            out.push(b'}');
            Ok(())
        })
    }
}

/// Names the document of a change in a failure.
fn named(change: &Change<'_>, failure: Failure) -> Failure {
    match change.key() {
        Ok(Some(key)) => failure.of_document(&key),
        _ => failure,
    }
}

/// Appends `{"a":1,"b":2`, without the end.
fn put_fields(fields: &[(&str, Json)], out: &mut Vec<u8>) {
    for (at, (name, value)) in fields.iter().enumerate() {
        let start = if at == 0 { '{' } else { ',' };
        out.extend_from_slice(format!("{start}\"{name}\":{value}").as_bytes());
    }
}

fn put_change(
    token: Option<ChangeToken>,
    change: &Change<'_>,
    mode: JsonMode,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let kind = match change.kind() {
        ChangeKind::Put => "put",
        ChangeKind::Merge if change.patch()?.is_some() => "patch",
        ChangeKind::Merge => "merge",
        ChangeKind::Delete => "delete",
        _ => "delete_range",
    };
    put_fields(
        &[
            ("token", token.map_or(Json::Null, |token| token.to_string().into())),
            ("seqno", change.seqno().get().into()),
            ("kind", kind.into()),
            ("keyspace", change.keyspace().into()),
        ],
        out,
    );
    out.extend_from_slice(b",\"key\":");
    match change.key()? {
        Some(key) => json::append_value_json_as(&key, mode, out),
        None => out.extend_from_slice(text(change.key_bytes()).to_string().as_bytes()),
    }
    if let Some(end) = change.end_bytes() {
        out.extend_from_slice(format!(",\"to\":{}", text(end)).as_bytes());
    }
    if let Some(expires) = change.expiry() {
        let moment = Json::from(crate::units::show_moment(expires));
        out.extend_from_slice(format!(",\"expires\":{moment}").as_bytes());
    }
    if let Some(old) = change.old_document()? {
        out.extend_from_slice(b",\"old\":");
        json::append_json_as(&old.root(), mode, out)?;
    }
    if let Some(document) = change.document()? {
        out.extend_from_slice(b",\"document\":");
        json::append_json_as(&document.root(), mode, out)?;
    } else if let Some(patch) = change.patch()? {
        out.extend_from_slice(format!(",\"patch\":{}", Json::from(patch.to_string())).as_bytes());
    } else if !change.value_bytes().is_empty() {
        out.extend_from_slice(format!(",\"value\":{}", text(change.value_bytes())).as_bytes());
    }
    out.push(b'}');
    Ok(())
}

/// Bytes as text, or in hexadecimal digits after `0x` if they are none.
fn text(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => text.into(),
        _ => bytes.iter().fold(String::from("0x"), |hex, byte| format!("{hex}{byte:02x}")).into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn files_are_the_same_until_one_is_written() {
        let dir = std::env::temp_dir().join(format!("flagstone-watch-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let write = |name: &str, seconds: u64| {
            fs::write(dir.join(name), name).unwrap();
            let file = File::options().write(true).open(dir.join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        };
        let seen = || Files::of(&dir);
        write("a.wal", 100);
        assert!(seen().is_some() && seen() == seen());
        let before = seen();
        write("a.wal", 50);
        assert!(seen().is_some() && seen() != before, "the same length, written later");
        let before = seen();
        write("b.wal", 100);
        assert!(seen().is_some() && seen() != before);
        // A write that follows could leave the same time stamp.
        write("b.wal", 0);
        assert!(seen().is_none());
        fs::remove_dir_all(&dir).unwrap();
    }
}
