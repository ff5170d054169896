//! `watch`: what was committed, in order.
//!
//! A database is open in one process that writes, or in several that read. So to follow it means to
//! open it, print what is new, close it, and look again when its files have changed. In a shell,
//! which has it open, a reader waits.

use super::{lookup, open, source};
use crate::args::WatchArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{Output, note};
use flagstone::changes::{ChangeRetention, Changes, ChangesFrom, Delivery, Happened};
use flagstone::doc::{JsonMode, json};
use flagstone::internal::document::sort_key;
use flagstone::internal::summary::Event;
use flagstone::{Database, ErrorKind, Value};
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
        let instead = "start the server with --keep";
        source::refuse_url("watch --keep", &args.database, instead)?;
        return keep(args, bytes);
    }
    #[cfg(all(feature = "server", unix))]
    if source::is_url(&args.database) {
        return there(args);
    }
    source::refuse_url("watch", &args.database, "this build knows no servers")?;
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
            lookup::check_keyspace(&database, args)?;
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
        let token = Some(delivery.token.to_string());
        if let Happened::Commit(batch) = &delivery.happened {
            let changes = batch.changes();
            let last = changes.len() - 1;
            for (at, change) in changes.enumerate() {
                // Within a batch there is no place to continue.
                let token = token.clone().filter(|_| at == last);
                self.show(&Event { token, ..Event::of_change(&change)? })?;
            }
        } else if let Some(event) = Event::of(&delivery.happened, |_keyspace| true) {
            self.show(&Event { token, ..event })?;
        }
        self.left -= 1;
        Ok(())
    }

    /// Prints a line.
    fn show(&mut self, event: &Event) -> Result<(), Failure> {
        let printed = self.output.json(|mode, out| put(event, mode, out));
        printed.map_err(|failure| match document_key(event) {
            Ok(Some(key)) => failure.of_document(&key),
            _ => failure,
        })
    }
}

/// Returns the key of the document that an event is about.
fn document_key(event: &Event) -> Result<Option<Value>, Failure> {
    let key = event.key.as_deref().filter(|_| event.is_document);
    Ok(key.map(|key| sort_key::decode(key, sort_key::Direction::Ascending)).transpose()?)
}

/// Appends the line of an event.
fn put(event: &Event, mode: JsonMode, out: &mut Vec<u8>) -> Result<(), Failure> {
    let token = event.token.as_deref().map_or(Json::Null, Json::from);
    out.extend_from_slice(format!("{{\"token\":{token}").as_bytes());
    let mut put = |name: &str, value: Json| {
        out.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
    };
    if let Some(seqno) = event.seqno {
        put("seqno", seqno.into());
    }
    put("kind", (&*event.kind).into());
    if let Some(keyspace) = &event.keyspace {
        put("keyspace", keyspace.as_str().into());
    }
    // A range that was not committed has no number.
    let key = if event.seqno.is_some() { "key" } else { "from" };
    match (document_key(event)?, &event.key) {
        (Some(value), _) => {
            out.extend_from_slice(b",\"key\":");
            json::append_value_json_as(&value, mode, out);
        }
        (None, Some(bytes)) => put(key, text(bytes)),
        (None, None) => {}
    }
    let mut put = |name: &str, value: Json| {
        out.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
    };
    if let Some(end) = &event.end {
        put("to", text(end));
    }
    if let Some(to) = &event.to {
        put("to", to.as_str().into());
    }
    if let Some(expires) = event.expires {
        put("expires", crate::units::show_moment(expires).into());
    }
    if let Some(old) = &event.old {
        out.extend_from_slice(b",\"old\":");
        json::append_json_as(&old.root(), mode, out)?;
    }
    if let Some(document) = &event.document {
        out.extend_from_slice(b",\"document\":");
        json::append_json_as(&document.root(), mode, out)?;
    } else if let Some(patch) = &event.patch {
        out.extend_from_slice(format!(",\"patch\":{}", Json::from(patch.as_str())).as_bytes());
    } else if let Some(value) = &event.value {
        out.extend_from_slice(format!(",\"value\":{}", text(value)).as_bytes());
    }
    out.push(b'}');
    Ok(())
}

/// Reads an event of a server, and whether it is the last of its commit.
#[cfg(all(feature = "server", unix))]
fn event(row: flagstone_server::client::Reply<'_>) -> Result<(Event, bool), Failure> {
    let text = |name| row.text(name).map(str::to_owned);
    let bytes = |name| row.bytes(name).map(<[u8]>::to_vec);
    let number = |name| row.int(name).and_then(|n| u64::try_from(n).ok());
    let document = |name| row.bytes(name).map(source::document).transpose();
    let event = Event {
        token: text("token"),
        seqno: number("seqno"),
        kind: text("kind").unwrap_or_default().into(),
        keyspace: text("keyspace"),
        key: bytes("k"),
        is_document: row.bool("isDocument") == Some(true),
        end: bytes("end"),
        to: text("to"),
        expires: number("expires").map(flagstone::Moment::from_millis),
        old: document("old")?,
        document: document("d")?,
        patch: text("patch"),
        value: bytes("value"),
    };
    Ok((event, row.bool("isLast") == Some(true)))
}

/// Prints what happens in the database of a server.
#[cfg(all(feature = "server", unix))]
fn there(args: &WatchArgs) -> Result<(), Failure> {
    use super::source::{Received, Source, There};
    interrupt::listen()?;
    let link = source::connect(&args.database, args.memory.memory)?;
    let mut watch = Watch {
        output: Output::in_mode(args.json_mode.mode()),
        left: args.limit.unwrap_or(u64::MAX),
    };
    let mut events = Received::begin(
        &link,
        "watch",
        args.name.as_deref(),
        |out| {
            out.text("from", &args.from)?;
            out.bool("follow", args.follow)
        },
        event,
    )?;
    let (mut any, mut changed) = (false, Instant::now());
    while watch.left > 0 && !interrupt::is_asked() {
        if let Some((event, is_last)) = events.received() {
            (any, changed) = (true, Instant::now());
            watch.show(&event)?;
            watch.left -= u64::from(is_last);
            continue;
        }
        watch.output.flush()?;
        let is_over = args.timeout.is_some_and(|timeout| changed.elapsed() >= timeout);
        if is_over || !events.more()? {
            break;
        }
    }
    watch.output.flush()?;
    if let Some(name) = args.name.as_deref().filter(|_| !any && !args.follow) {
        let source = There::new(link);
        if source.existing(name)?.is_none() {
            return Err(lookup::no_keyspace(args, name, &source.names()?));
        }
    }
    if args.follow { Ok(()) } else { interrupt::check() }
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
