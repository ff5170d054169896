//! Commands that change and list users.

use super::args::Args;
use super::run::Run;
use crate::access::{ADMIN, Need, Role, RoleKind, User};
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use flagstone::{ErrorKind, View};

/// Parses roles: `"readWrite"` holds for the database of the command, `{role, db}` for another. On
/// `admin`, and by the names that end with `AnyDatabase`, they hold for all.
fn roles(roles: &[View<'_>], database: &str) -> Outcome<Vec<Role>> {
    roles.iter().map(|role| self::role(role, database)).collect()
}

fn role(role: &View<'_>, database: &str) -> Outcome<Role> {
    let (name, on) = match role.as_str() {
        Some(name) => (name, database),
        None if role.is_map() => {
            let args = Args::new(*role, "roles");
            args.check(&["role", "db"])?;
            (args.required_text("role")?, args.required_text("db")?)
        }
        None => {
            let text = format!("roles: expected names or {{role, db}}, found {role}");
            return Err(Failure::new(Code::TypeMismatch, text));
        }
    };
    let of_all = name.strip_suffix("AnyDatabase");
    let Some(kind) = RoleKind::parse(of_all.unwrap_or(name)) else {
        let text = format!("role {name}: expected read, readWrite or root");
        return Err(Failure::new(Code::BadValue, text));
    };
    let is_all = of_all.is_some() || kind == RoleKind::Root && on == ADMIN;
    Ok(Role { kind, database: (!is_all).then(|| on.to_owned()) })
}

/// Appends a role as an element of the array that is open.
pub(super) fn put_role(reply: &mut BsonWriter<'_>, role: &Role) -> Outcome {
    reply.begin_document("")?;
    match &role.database {
        Some(database) => {
            reply.text("role", role.kind.name())?;
            reply.text("db", database)?;
        }
        None => {
            let name = match role.kind {
                RoleKind::Root => role.kind.name().to_owned(),
                kind => format!("{kind}AnyDatabase"),
            };
            reply.text("role", &name)?;
            reply.text("db", ADMIN)?;
        }
    }
    Ok(reply.end()?)
}

/// What users with a role may do, in the words of MongoDB.
const READ: &[&str] = &[
    "changeStream",
    "collStats",
    "dbStats",
    "find",
    "killCursors",
    "listCollections",
    "listIndexes",
];
const WRITE: &[&str] = &[
    "collMod",
    "createCollection",
    "createIndex",
    "dropCollection",
    "dropDatabase",
    "dropIndex",
    "insert",
    "remove",
    "renameCollectionSameDB",
    "update",
];

/// Appends what a role allows as an element of the array that is open.
pub(super) fn put_privilege(reply: &mut BsonWriter<'_>, role: &Role) -> Outcome {
    reply.begin_document("")?;
    reply.begin_document("resource")?;
    match (&role.database, role.kind) {
        (None, RoleKind::Root) => reply.bool("anyResource", true)?,
        (database, _) => {
            reply.text("db", database.as_deref().unwrap_or_default())?;
            reply.text("collection", "")?;
        }
    }
    reply.end()?;
    let (reads, writes, all): (&[&str], &[&str], &[&str]) = match role.kind {
        RoleKind::Read => (READ, &[], &[]),
        RoleKind::ReadWrite => (READ, WRITE, &[]),
        RoleKind::Root => (READ, WRITE, &["anyAction"]),
    };
    reply.begin_array("actions")?;
    for action in reads.iter().chain(writes).chain(all) {
        reply.text("", action)?;
    }
    reply.end()?;
    Ok(reply.end()?)
}

/// Refuses mechanisms other than the one there is.
fn check_mechanisms(args: &Args<'_>) -> Outcome {
    for mechanism in args.list("mechanisms")?.unwrap_or_default() {
        if mechanism.as_str() != Some("SCRAM-SHA-256") {
            let text = format!("mechanisms: expected SCRAM-SHA-256, found {mechanism}");
            return Err(Failure::new(Code::BadValue, text));
        }
    }
    if args.bool("digestPassword")? == Some(false) {
        let text = "digestPassword: expected true, for SCRAM-SHA-256";
        return Err(Failure::new(Code::BadValue, text));
    }
    Ok(())
}

/// What an error about users means to a driver.
fn failure(error: flagstone::Error) -> Failure {
    match error.kind() {
        ErrorKind::Duplicate => Failure::new(Code::UserAlreadyExists, error.to_string()),
        _ => error.into(),
    }
}

fn not_found(name: &str) -> Failure {
    Failure::new(Code::UserNotFound, format!("could not find user {name:?}"))
}

pub(super) fn create(run: &mut Run<'_, '_>) -> Outcome {
    run.require(Need::Root, ADMIN)?;
    let args = run.args();
    check_mechanisms(&args)?;
    let (name, password) = (args.required_text("createUser")?, args.required_text("pwd")?);
    let roles = roles(&args.required_list("roles")?, &run.command.database)?;
    run.service.users.create(name, password, roles).map_err(failure)
}

pub(super) fn update(run: &mut Run<'_, '_>) -> Outcome {
    run.require(Need::Root, ADMIN)?;
    let args = run.args();
    check_mechanisms(&args)?;
    let (name, password) = (args.required_text("updateUser")?, args.text("pwd")?);
    let roles = match args.list("roles")? {
        Some(list) => Some(roles(&list, &run.command.database)?),
        None => None,
    };
    if password.is_none() && roles.is_none() {
        return Err(Failure::new(Code::BadValue, "updateUser: expected pwd or roles"));
    }
    let is_there = run.service.users.update(name, password, roles).map_err(failure)?;
    if is_there { Ok(()) } else { Err(not_found(name)) }
}

pub(super) fn drop(run: &mut Run<'_, '_>) -> Outcome {
    run.require(Need::Root, ADMIN)?;
    let name = run.args().required_text("dropUser")?;
    let is_there = run.service.users.remove(name).map_err(failure)?;
    if is_there { Ok(()) } else { Err(not_found(name)) }
}

pub(super) fn info(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let asked = args.get("usersInfo")?;
    let name_of = |view: &View<'_>| -> Outcome<Option<String>> {
        Ok(match view.as_str() {
            Some(name) => Some(name.to_owned()),
            None if view.is_map() => Args::new(*view, "usersInfo").text("user")?.map(str::to_owned),
            None => None,
        })
    };
    let mut names: Option<Vec<String>> = None;
    if let Some(asked) = asked {
        if asked.is_array() {
            let mut listed = Vec::new();
            for item in asked.items()? {
                listed.extend(name_of(&item?)?);
            }
            names = Some(listed);
        } else if asked.as_f64() != Some(1.0) {
            names = name_of(&asked)?.map(|name| vec![name]);
        }
    }
    let may_all = match &run.client.user {
        Some(user) => user.may(Need::Root, ADMIN),
        None => true,
    };
    run.reply.begin_array("users")?;
    for user in run.service.users.list() {
        let is_asked = names.as_ref().is_none_or(|names| names.contains(&user.name));
        let is_self = run.client.user().is_some_and(|name| name == user.name);
        if is_asked && (may_all || is_self) {
            put(&mut run.reply, &user)?;
        }
    }
    Ok(run.reply.end()?)
}

fn put(reply: &mut BsonWriter<'_>, user: &User) -> Outcome {
    reply.begin_document("")?;
    reply.text("_id", &format!("{ADMIN}.{}", user.name))?;
    reply.text("user", &user.name)?;
    reply.text("db", ADMIN)?;
    reply.begin_array("roles")?;
    for role in &user.roles {
        put_role(reply, role)?;
    }
    reply.end()?;
    reply.begin_array("mechanisms")?;
    reply.text("", "SCRAM-SHA-256")?;
    reply.end()?;
    Ok(reply.end()?)
}
