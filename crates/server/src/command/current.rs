//! What runs now, what ends it, and how much collections were used.

use super::args::{Args, COMMON};
use super::name::Namespace;
use super::read::put_count;
use super::run::Run;
use super::service::{Service, now_millis};
use crate::access::{ADMIN, Need};
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::session::operations::{ListedConnection, MESSAGE, Running, Use, UseKind};
use crate::session::sessions::SessionKey;
use crate::watch::Cause;
use flagstone::doc::{DateTime, FieldKey, Map};
use flagstone::query::Matcher;
use flagstone::{Filter, Value};

/// Returns whether the client sees what other users run.
fn sees_all(run: &Run<'_, '_>) -> bool {
    run.require(Need::Root, ADMIN).is_ok()
}

/// Which operations are wanted.
struct WantedOperations {
    /// Those of all users, or of the own one alone.
    all_users: bool,
    /// Connections without a command, too.
    idle: bool,
    matcher: Option<Matcher>,
}

pub(super) fn current_op(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let mut rest = Map::new();
    for field in run.command.body.root().fields()? {
        let (FieldKey::Name(name), value) = field? else { continue };
        let is_known = name == run.command.name || COMMON.contains(&name) || name.starts_with('$');
        if !is_known {
            rest.insert(name, value.to_value()?);
        }
    }
    let matcher = if rest.is_empty() {
        None
    } else {
        Some(Filter::of_driver(&Value::Map(rest), None)?.compile()?)
    };
    let all_users = !args.is("$ownOps")?;
    let rows = rows(run, &WantedOperations { all_users, idle: args.is("$all")?, matcher })?;
    run.reply.begin_array("inprog")?;
    for row in rows {
        run.reply.raw_document("", &row)?;
    }
    Ok(run.reply.end()?)
}

/// Returns the rows of the stage `$currentOp`.
pub(super) fn rows_of_stage(run: &mut Run<'_, '_>, stage: &Args<'_>) -> Outcome<Vec<Value>> {
    stage.check(&[
        "allUsers",
        "idleConnections",
        "idleCursors",
        "idleSessions",
        "localOps",
        "truncateOps",
        "backtrace",
        "targetAllNodes",
    ])?;
    if run.command.database != ADMIN {
        let text = "$currentOp: expected aggregate: 1 on the database admin";
        return Err(Failure::new(Code::InvalidNamespace, text));
    }
    let (all_users, idle) = (stage.is("allUsers")?, stage.is("idleConnections")?);
    let rows = rows(run, &WantedOperations { all_users, idle, matcher: None })?;
    rows.iter().map(|row| Ok(run.incoming.any(row)?.to_value())).collect()
}

fn rows(run: &mut Run<'_, '_>, wanted: &WantedOperations) -> Outcome<Vec<Vec<u8>>> {
    let (all, user) = (wanted.all_users && sees_all(run), run.user());
    let mut rows = Vec::new();
    for listed in run.service.operations.list() {
        let is_wanted = match &listed.running {
            Some(running) => all || running.user == user,
            None => wanted.idle && all,
        };
        if !is_wanted {
            continue;
        }
        let mut row = Vec::new();
        let mut out = BsonWriter::new(&mut row);
        out.begin();
        put(&mut out, &listed)?;
        out.end()?;
        if let Some(matcher) = &wanted.matcher
            && !matcher.matches(&run.incoming.any(&row)?.root())?
        {
            continue;
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Appends what is known of a connection, without values that its command carries.
fn put(out: &mut BsonWriter<'_>, listed: &ListedConnection) -> Outcome {
    out.text("type", "op")?;
    out.text("host", &super::operation::host())?;
    out.text("desc", &format!("conn{}", listed.client))?;
    out.long("connectionId", i64::try_from(listed.client).unwrap_or(i64::MAX))?;
    out.text("client", &listed.peer)?;
    if let Some(application) = &listed.application {
        out.text("appName", application)?;
    }
    out.bool("active", listed.running.is_some())?;
    let now = DateTime::from_micros(now_millis().saturating_mul(1000));
    out.text("currentOpTime", &now.to_string())?;
    let Some(running) = &listed.running else { return Ok(()) };
    put_running(out, running)
}

fn put_running(out: &mut BsonWriter<'_>, running: &Running) -> Outcome {
    let Running { id, name, database, collection, user, session, since, waits } = running;
    out.int("opid", *id)?;
    let took = since.elapsed();
    out.long("secs_running", i64::try_from(took.as_secs()).unwrap_or(i64::MAX))?;
    out.long("microsecs_running", i64::try_from(took.as_micros()).unwrap_or(i64::MAX))?;
    out.text("op", operation_of(name))?;
    out.text("ns", &format!("{database}.{}", collection.as_deref().unwrap_or("$cmd")))?;
    out.begin_document("command")?;
    match collection {
        Some(collection) => out.text(name, collection)?,
        None => out.int(name, 1)?,
    }
    out.text("$db", database)?;
    out.end()?;
    if let Some(SessionKey { id, .. }) = session {
        out.begin_document("lsid")?;
        super::id::write_value(out, "id", &Value::Uuid(*id))?;
        out.end()?;
    }
    if let Some(user) = user {
        out.begin_array("effectiveUsers")?;
        out.begin_document("")?;
        out.text("user", user)?;
        out.text("db", ADMIN)?;
        out.end()?;
        out.end()?;
    }
    if *waits {
        out.text("msg", "waits for room (--message-memory)")?;
    }
    Ok(out.bool("waitingForLock", false)?)
}

/// Returns the kind of operation that tools show.
fn operation_of(command: &str) -> &'static str {
    match command {
        "find" => "query",
        "getMore" => "getmore",
        "insert" => "insert",
        "update" => "update",
        "delete" => "remove",
        MESSAGE => "none",
        _ => "command",
    }
}

pub(super) fn kill_op(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let Some(id) = args.int("op")? else { return Err(args.missing("op")) };
    let (all, user) = (sees_all(run), run.user());
    let is_it = |running: &Running| i64::from(running.id) == id && (all || running.user == user);
    // One that has ended meanwhile is what was wanted.
    run.service.operations.kill(Cause::Killed, is_it);
    Ok(run.reply.text("info", "attempting to kill op")?)
}

pub(super) fn top(run: &mut Run<'_, '_>) -> Outcome {
    if run.command.database != ADMIN {
        let text = "top may only be run against the admin database";
        return Err(Failure::new(Code::Unauthorized, text));
    }
    run.reply.begin_document("totals")?;
    run.reply.text("note", "all times in microseconds")?;
    for (namespace, used) in run.service.operations.used() {
        let database = namespace.split('.').next().unwrap_or_default();
        if run.require(Need::Read, database).is_ok() {
            put_use(&mut run.reply, &namespace, &used)?;
        }
    }
    Ok(run.reply.end()?)
}

fn put_use(reply: &mut BsonWriter<'_>, namespace: &str, used: &Use) -> Outcome {
    let sum = |is_in: fn(UseKind) -> bool| {
        let kinds = UseKind::ALL.iter().filter(|(kind, _)| is_in(*kind));
        kinds
            .map(|(kind, _)| used.of(*kind))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let mut rows = vec![
        ("total", sum(|_kind| true)),
        ("readLock", sum(|kind| !kind.writes())),
        ("writeLock", sum(UseKind::writes)),
    ];
    rows.extend(UseKind::ALL.iter().map(|(kind, name)| (*name, used.of(*kind))));
    reply.begin_document(namespace)?;
    for (name, (count, micros)) in rows {
        reply.begin_document(name)?;
        put_count(reply, "time", micros)?;
        put_count(reply, "count", count)?;
        reply.end()?;
    }
    Ok(reply.end()?)
}

/// Appends how often a collection was read and written, and how long that took.
pub(super) fn put_latencies(
    out: &mut BsonWriter<'_>,
    service: &Service,
    namespace: &Namespace,
) -> Outcome {
    let used = service.operations.used().remove(&namespace.to_string());
    let is_of = |kind: UseKind, name: &str| match name {
        "reads" => matches!(kind, UseKind::Query | UseKind::GetMore),
        "writes" => kind.writes(),
        "commands" => kind == UseKind::Other,
        // Commands in transactions count as what they do.
        _ => false,
    };
    for name in ["reads", "writes", "commands", "transactions"] {
        let kinds = UseKind::ALL.iter().map(|(kind, _)| *kind).filter(|kind| is_of(*kind, name));
        let counts = kinds.filter_map(|kind| Some(used.as_ref()?.of(kind)));
        let (ops, micros) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        out.begin_document(name)?;
        out.long("latency", i64::try_from(micros).unwrap_or(i64::MAX))?;
        out.long("ops", i64::try_from(ops).unwrap_or(i64::MAX))?;
        out.end()?;
    }
    Ok(())
}

/// Ends all sessions of the users that are named, or of all.
pub(super) fn kill_all_sessions(run: &mut Run<'_, '_>) -> Outcome {
    run.require(Need::Root, ADMIN)?;
    let mut users = Vec::new();
    for user in run.args().required_list("killAllSessions")? {
        if !user.is_map() {
            let text = format!("killAllSessions: expected {{user, db}}, found {user}");
            return Err(Failure::new(Code::TypeMismatch, text));
        }
        let user = Args::new(user, "killAllSessions");
        user.check(&["user", "db"])?;
        users.push(user.required_text("user")?);
    }
    let is_named = |key: &SessionKey| users.is_empty() || users.contains(&key.user.as_str());
    let own = Some(run.client.registration.number());
    run.service
        .operations
        .kill_others(own, Cause::Killed, |running| running.session.as_ref().is_some_and(is_named));
    run.service.sessions.end_all(is_named);
    run.service.cursors.end_sessions(is_named);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::super::service::ServiceOptions;
    use super::*;
    use flagstone::{Database, Document, doc};
    use std::time::{Duration, Instant};

    /// A command that waited for room was listed nowhere, and nothing but its time ended it: not
    /// killOp, and no stop of the server.
    #[test]
    fn what_waits_for_room_is_listed_and_ends_when_it_is_killed_or_the_server_stops() {
        let dir = tempfile::tempdir().unwrap();
        let options = ServiceOptions { parsed_bytes: 1 << 20, ..ServiceOptions::default() };
        let service = Service::new(Database::open(dir.path()).unwrap(), options).unwrap();
        let run = |database: &str, command: Value| {
            let mut client = service.client("here".to_owned(), "there".to_owned(), true);
            let command = Document::from_value(&command).unwrap();
            service.run(&mut client, database, &command).unwrap()
        };
        let all = 1 << 20;
        let held = service.parsed.take(all, Instant::now(), || true).unwrap();
        let many: Vec<Value> = (0..6000).map(Value::from).collect();
        let find = doc!({ "find": "c", "filter": { "n": { "$in": (Value::Array(many)) } } });
        let find = || run("shop", find.clone());
        let waiting = || loop {
            let found = run("admin", doc!({ "currentOp": 1, "msg": { "$exists": true } }));
            if found.get("inprog.0").is_some() {
                return found;
            }
        };
        std::thread::scope(|threads| {
            let killed = threads.spawn(find);
            let found = waiting();
            let text = |path: &str| found.str(path).unwrap();
            assert_eq!((text("inprog.0.op"), text("inprog.0.ns")), ("query", "shop.c"));
            assert!(text("inprog.0.msg").contains("(--message-memory)"), "{found}");
            run("admin", doc!({ "killOp": 1, "op": (found.int("inprog.0.opid").unwrap()) }));
            assert_eq!(killed.join().unwrap().int("code"), Some(11_601));
            let began = Instant::now();
            let stopped = threads.spawn(find);
            waiting();
            service.operations.end_waits();
            let stopped = stopped.join().unwrap();
            assert_eq!(stopped.str("codeName"), Some("ShutdownInProgress"), "{stopped}");
            assert!(began.elapsed() < Duration::from_secs(20));
        });
        drop(held);
        assert_eq!(find().float("ok"), Some(1.0));
    }
}
