//! The concerns of commands: what a read may see, and what an acknowledged write survives.

use super::args::{Args, is_document, whole};
use crate::failure::{Code, Failure, Outcome};
use crate::home::Cluster;
use crate::session::clock::Time;
use flagstone::doc::{FieldKey, ValueType};
use flagstone::remote::unsupported;
use flagstone::{Value, View};

/// The level that everything has.
const LOCAL: &str = "local";
/// What a read may see.
const LEVELS: [&str; 5] = [LOCAL, "available", "majority", "linearizable", "snapshot"];
/// Where a concern comes from.
const ORIGINS: [&str; 5] = [
    "clientSupplied",
    "implicitDefault",
    "customDefault",
    "getLastErrorDefaults",
    "internalWriteDefault",
];
/// The most members of a set.
const MEMBERS_MAX: f64 = 50.0;

/// Refuses what every command may have, if it is malformed. `reads`: the command takes a level of
/// its own for what it reads. Returns the time up to which it is to see everything.
pub(super) fn check(args: &Args<'_>, reads: bool) -> Outcome<Option<Time>> {
    args.bool("bypassDocumentValidation")?;
    args.bool("allowDiskUse")?;
    let mut after = None;
    if let Some(concern) = args.map("readConcern")? {
        check_read(&concern)?;
        let level = concern.get("level")?;
        let level = level.and_then(|level| level.as_str()).unwrap_or(LOCAL);
        if !reads && level != LOCAL {
            let text = format!("readConcern.level: expected {LOCAL} here, found {level}");
            return Err(Failure::new(Code::InvalidOptions, text));
        }
        let is_snapshot = level == "snapshot";
        if is_snapshot && args.get("autocommit")?.is_none() {
            let what = "readConcern.level: snapshot outside of a transaction";
            return Err(Failure::unsupported(what));
        }
        // A moment that nothing keeps.
        Args::new(concern, "readConcern").refuse_if("atClusterTime", |_time| true)?;
        if let Some(value) = concern.get("afterClusterTime")? {
            after = Some(time("readConcern.afterClusterTime", &value)?);
        }
    }
    if let Some(concern) = args.map("writeConcern")? {
        check_write(&concern)?;
    }
    Ok(after)
}

/// Refuses what a command may ask of one database, and a cluster cannot promise.
pub(super) fn check_there(args: &Args<'_>, cluster: &Cluster) -> Outcome {
    for name in ["txnNumber", "startTransaction", "autocommit"] {
        if args.get(name)?.is_some() {
            let text = "Transaction numbers, which are for transactions and for writes that \
                        drivers repeat, need an embedded database: on a cluster use \
                        retryWrites=false, and commands that change one document";
            return Err(Failure::new(Code::IllegalOperation, text));
        }
    }
    let level = match args.map("readConcern")? {
        Some(concern) => concern.get("level")?.and_then(|level| level.as_str()),
        None => None,
    };
    if let Some(level @ ("snapshot" | "linearizable")) = level {
        let error = unsupported(&format!("readConcern.level {level}"), "majority");
        return Err(Failure::new(Code::NotAReplicaSet, error.to_string()));
    }
    let asks_sync = match args.map("writeConcern")? {
        Some(concern) => {
            let concern = Args::new(concern, "writeConcern");
            concern.is("j")? || concern.is("fsync")?
        }
        None => false,
    };
    if asks_sync { check_syncs("writeConcern.j", cluster) } else { Ok(()) }
}

/// Refuses `what`, which asks for a write that survives a power cut, if it may not.
pub(super) fn check_syncs(what: &str, cluster: &Cluster) -> Outcome {
    if cluster.syncs()? {
        return Ok(());
    }
    let text = format!(
        "{what}: expected nodes that write to their disks before they acknowledge: give all of \
         them commitlog_sync group or batch, or leave it out"
    );
    Err(Failure::new(Code::BadValue, text))
}

/// Calls `check` with the name and the value of each field.
fn each(concern: &View<'_>, check: impl Fn(&str, &View<'_>) -> Outcome) -> Outcome {
    for field in concern.fields()? {
        if let (FieldKey::Name(name), value) = field? {
            check(name, &value)?;
        }
    }
    Ok(())
}

fn mistyped(what: &str, expected: &str, found: &View<'_>) -> Failure {
    Failure::new(Code::TypeMismatch, format!("{what}: expected {expected}, found {found}"))
}

fn unknown(what: &str, name: &str) -> Failure {
    Failure::numbered(40415, format!("{what}: expected a field that exists, found {name:?}"))
}

/// Refuses a text that is none of `known`.
fn check_text(what: &str, value: &View<'_>, known: &[&str]) -> Outcome {
    let Some(text) = value.as_str() else { return Err(mistyped(what, "text", value)) };
    if known.contains(&text) {
        return Ok(());
    }
    let text = format!("{what}: expected one of {}, found {text:?}", known.join(" "));
    Err(Failure::new(Code::BadValue, text))
}

fn is_number(value: &View<'_>) -> bool {
    value.value_type() == ValueType::Number
}

/// Returns a timestamp.
pub(super) fn any_time(what: &str, value: &View<'_>) -> Outcome<Time> {
    let whole = value.to_value()?;
    let part = |name| -> Option<u32> {
        let part = whole.get("$timestamp").and_then(|inner| inner.get(name)?.as_i64())?;
        u32::try_from(part).ok()
    };
    let time = part("t").zip(part("i")).ok_or_else(|| mistyped(what, "a timestamp", value))?;
    Ok(Time { seconds: time.0, increment: time.1 })
}

/// Returns a timestamp that is not zero.
fn time(what: &str, value: &View<'_>) -> Outcome<Time> {
    let time = any_time(what, value)?;
    if time == Time::default() {
        let text = format!("{what}: expected a timestamp that is not zero");
        return Err(Failure::new(Code::InvalidOptions, text));
    }
    Ok(time)
}

fn check_read(concern: &View<'_>) -> Outcome {
    each(concern, |name, value| {
        let what = format!("readConcern.{name}");
        match name {
            "level" | "provenance" if value.is_null() => Ok(()),
            "level" => check_text(&what, value, &LEVELS),
            "provenance" => check_text(&what, value, &ORIGINS),
            "afterClusterTime" => time(&what, value).map(|_time| ()),
            "atClusterTime" => {
                let time = time(&what, value)?;
                let level = concern.get("level")?;
                let is_snapshot = level.is_some_and(|level| level.as_str() == Some("snapshot"));
                if is_snapshot && time.seconds > 0 {
                    return Ok(());
                }
                let text = format!("{what}: expected a time beside the level snapshot");
                Err(Failure::new(Code::InvalidOptions, text))
            }
            "afterOpTime" | "allowTransactionTableSnapshot" => Ok(()),
            _ => Err(unknown("readConcern", name)),
        }
    })
}

fn check_write(concern: &View<'_>) -> Outcome {
    each(concern, |name, value| {
        let what = format!("writeConcern.{name}");
        match name {
            "w" => check_members(&what, value),
            "j" | "fsync" => {
                let is_taken = value.as_bool().is_some() || is_number(value) || value.is_null();
                if is_taken { Ok(()) } else { Err(mistyped(&what, "true or false", value)) }
            }
            "wtimeout" => match value.as_f64() {
                Some(millis) if millis > f64::from(i32::MAX) => {
                    let text = format!("{what}: expected at most {} ms, found {value}", i32::MAX);
                    Err(Failure::new(Code::FailedToParse, text))
                }
                _ => Ok(()),
            },
            "provenance" if value.is_null() => Ok(()),
            "provenance" => check_text(&what, value, &ORIGINS),
            _ => Err(unknown("writeConcern", name)),
        }
    })
}

/// Checks how many members are to have a write, `majority`, or a map of tags.
fn check_members(what: &str, value: &View<'_>) -> Outcome {
    let refuse = |code| {
        let text = format!("{what}: expected a number from 0 to 50 or majority, found {value}");
        Err(Failure::new(code, text))
    };
    let refuse_alone = || {
        let text = format!("{what}: expected 0, 1 or majority, found {value}: the server is alone");
        Err(Failure::new(Code::BadValue, text))
    };
    if is_number(value) {
        let count = whole(value)?;
        return match count {
            _ if !(0.0..=MEMBERS_MAX).contains(&count) => refuse(Code::FailedToParse),
            _ if count > 1.0 => refuse_alone(),
            _ => Ok(()),
        };
    }
    match value.to_value()? {
        Value::Text(text) if text == "majority" => Ok(()),
        Value::Text(_) => refuse_alone(),
        Value::Null => refuse(Code::BadValue),
        Value::Map(tags) => {
            // A value of another type that is stored as a map is no map of tags.
            let has_counts = !tags.is_empty()
                && is_document(value)?
                && tags.iter().all(|(_, n)| n.as_f64().is_some());
            if has_counts { Ok(()) } else { refuse(Code::FailedToParse) }
        }
        _ => refuse(Code::FailedToParse),
    }
}
