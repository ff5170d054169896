//! Commands about the connection: what the server is, and who the client is.

use super::run::Run;
use super::service::{now_millis, session_key};
use crate::access::{ADMIN, Refused, User};
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::session::sessions::{SESSION_MINUTES, SessionKey};
use crate::watch::Cause;
use crate::wire::{DOCUMENT_BYTES_MAX, MESSAGE_BYTES_MAX};
use flagstone::View;
use flagstone::doc::DateTime;
use flagstone::doc::ValueType;

/// The version of the protocol: that of MongoDB 7.0.
const WIRE_VERSION_MAX: i32 = 21;

/// The version that the server says to be: features of drivers and tools depend on it.
pub(super) const VERSION: &str = "7.0.0";

pub(super) fn ping(_run: &mut Run<'_, '_>) -> Outcome {
    Ok(())
}

pub(super) fn hello(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    // All users have this one; whether there is such a user is not told.
    let supported = args.text("saslSupportedMechs")?.map(|_name| ["SCRAM-SHA-256"]);
    let speculative = match args.map("speculativeAuthenticate")? {
        // A client that guessed wrong is told so when it authenticates for good.
        Some(start) => sasl_begin(run, &start).ok(),
        None => None,
    };
    if let Some(client) = args.map("client")?
        && let Some(name) = client.path("application.name")?.and_then(|name| name.as_str())
    {
        run.client.registration.set_application(name);
    }
    let is_hello = run.command.name == "hello";
    let set = run.service.options.replica_set.clone();
    let is_there = run.service.home.cluster().is_some();
    let reply = &mut run.reply;
    if args.is("helloOk")? {
        reply.bool("helloOk", true)?;
    }
    reply.bool(if is_hello { "isWritablePrimary" } else { "ismaster" }, true)?;
    match &set {
        // As a server that is alone: drivers then begin no transactions, and repeat no writes.
        _ if is_there => {}
        None => reply.text("msg", "isdbgrid")?,
        Some(name) => {
            let me = run.client.local_address();
            reply.text("setName", name)?;
            reply.int("setVersion", 1)?;
            reply.bool("secondary", false)?;
            reply.begin_array("hosts")?;
            reply.text("", &me)?;
            reply.end()?;
            reply.text("primary", &me)?;
            reply.text("me", &me)?;
        }
    }
    reply.int("maxBsonObjectSize", DOCUMENT_BYTES_MAX as i32)?;
    let message_bytes = run.service.options.message_bytes.min(MESSAGE_BYTES_MAX);
    reply.int("maxMessageSizeBytes", message_bytes as i32)?;
    reply.int("maxWriteBatchSize", super::run::STATEMENTS_MAX as i32)?;
    reply.datetime("localTime", DateTime::from_micros(now_millis().saturating_mul(1000)))?;
    reply.int("logicalSessionTimeoutMinutes", SESSION_MINUTES as i32)?;
    reply
        .int("connectionId", i32::try_from(run.client.registration.number()).unwrap_or(i32::MAX))?;
    reply.int("minWireVersion", 0)?;
    reply.int("maxWireVersion", WIRE_VERSION_MAX)?;
    reply.bool("readOnly", false)?;
    if let Some(mechanisms) = supported {
        reply.begin_array("saslSupportedMechs")?;
        for mechanism in mechanisms {
            reply.text("", mechanism)?;
        }
        reply.end()?;
    }
    if let Some(payload) = speculative {
        reply.begin_document("speculativeAuthenticate")?;
        put_step(reply, Login::Open, &payload)?;
        reply.end()?;
    }
    Ok(())
}

/// Begins a conversation that tells who the client is. Returns the first answer.
fn sasl_begin(run: &mut Run<'_, '_>, start: &View<'_>) -> Outcome<Vec<u8>> {
    let args = super::args::Args::new(*start, "saslStart");
    let mechanism = args.required_text("mechanism")?;
    let payload = payload(&args)?;
    run.client.conversation = None;
    let (conversation, answer) = run.service.users.begin_scram(mechanism, &payload)?;
    let options = args.map("options")?;
    let skips = match options {
        Some(options) => super::args::Args::new(options, "options").is("skipEmptyExchange")?,
        None => false,
    };
    run.client.conversation = Some((conversation, skips));
    Ok(answer)
}

fn payload(args: &super::args::Args<'_>) -> Outcome<Vec<u8>> {
    let expected = || Failure::new(Code::TypeMismatch, "payload: expected bytes or text");
    let payload = args.get("payload")?.ok_or_else(expected)?;
    match payload.value_type() {
        ValueType::Bytes => Ok(payload.as_bytes().unwrap_or_default().to_vec()),
        ValueType::Text => Ok(payload.as_str().unwrap_or_default().as_bytes().to_vec()),
        _ => Err(expected()),
    }
}

/// Whether messages of a login follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Login {
    Open,
    Done,
}

fn put_step(reply: &mut BsonWriter<'_>, login: Login, payload: &[u8]) -> Outcome {
    reply.int("conversationId", 1)?;
    reply.bool("done", login == Login::Done)?;
    Ok(reply.bytes("payload", payload)?)
}

pub(super) fn sasl_start(run: &mut Run<'_, '_>) -> Outcome {
    let start = run.command.body.root();
    let answer = sasl_begin(run, &start)?;
    put_step(&mut run.reply, Login::Open, &answer)
}

pub(super) fn sasl_continue(run: &mut Run<'_, '_>) -> Outcome {
    let payload = payload(&run.args())?;
    let Some((mut conversation, skips)) = run.client.conversation.take() else {
        let text = "no authentication is under way: begin with saslStart";
        return Err(Failure::new(Code::ProtocolError, text));
    };
    if let Some(user) = conversation.user() {
        // The empty message that ends the exchange.
        run.client.user = Some(known(run, user)?);
        return put_step(&mut run.reply, Login::Done, &[]);
    }
    let (is_proved, answer) = conversation.step(&payload).inspect_err(|refused| {
        if matches!(refused, Refused::Wrong | Refused::Malformed(_)) {
            run.client.fail_login(conversation.claimed());
        }
    })?;
    if let (true, true, Some(user)) = (is_proved, skips, conversation.user()) {
        run.client.user = Some(known(run, user)?);
        return put_step(&mut run.reply, Login::Done, &answer);
    }
    run.client.conversation = Some((conversation, skips));
    put_step(&mut run.reply, Login::Open, &answer)
}

/// Returns a user with the roles of now, which may have changed since the conversation began.
fn known(run: &Run<'_, '_>, user: &User) -> Outcome<User> {
    run.service.users.get(&user.name).ok_or_else(|| crate::access::Refused::Wrong.into())
}

pub(super) fn logout(run: &mut Run<'_, '_>) -> Outcome {
    // Users belong to one database: to log out of another one changes nothing.
    if run.command.database == ADMIN {
        run.client.user = None;
        run.client.conversation = None;
    }
    Ok(())
}

pub(super) fn connection_status(run: &mut Run<'_, '_>) -> Outcome {
    let shows_privileges = run.args().is("showPrivileges")?;
    let reply = &mut run.reply;
    reply.begin_document("authInfo")?;
    reply.begin_array("authenticatedUsers")?;
    if let Some(user) = &run.client.user {
        reply.begin_document("")?;
        reply.text("user", &user.name)?;
        reply.text("db", ADMIN)?;
        reply.end()?;
    }
    reply.end()?;
    reply.begin_array("authenticatedUserRoles")?;
    if let Some(user) = &run.client.user {
        for role in &user.roles {
            super::users::put_role(reply, role)?;
        }
    }
    reply.end()?;
    if shows_privileges {
        reply.begin_array("authenticatedUserPrivileges")?;
        for role in run.client.user.iter().flat_map(|user| &user.roles) {
            super::users::put_privilege(reply, role)?;
        }
        reply.end()?;
    }
    Ok(reply.end()?)
}

pub(super) fn my_uri(run: &mut Run<'_, '_>) -> Outcome {
    Ok(run.reply.text("you", run.client.registration.peer())?)
}

pub(super) fn build_info(run: &mut Run<'_, '_>) -> Outcome {
    let reply = &mut run.reply;
    reply.text("version", VERSION)?;
    reply.text("gitVersion", "flagstone")?;
    reply.text("flagstoneVersion", env!("CARGO_PKG_VERSION"))?;
    reply.begin_array("modules")?;
    reply.end()?;
    reply.begin_array("versionArray")?;
    for part in VERSION.split('.').map(|part| part.parse().unwrap_or(0)).chain([0]) {
        reply.int("", part)?;
    }
    reply.end()?;
    reply.int("bits", i32::try_from(usize::BITS).unwrap_or(64))?;
    reply.bool("debug", false)?;
    reply.int("maxBsonObjectSize", DOCUMENT_BYTES_MAX as i32)?;
    reply.begin_array("storageEngines")?;
    reply.text("", "flagstone")?;
    Ok(reply.end()?)
}

/// Returns the sessions that a command lists under its name.
fn sessions(run: &Run<'_, '_>) -> Outcome<Vec<SessionKey>> {
    let listed = run.args().required_list(run.command.name)?;
    listed.iter().map(|lsid| session_key(lsid, run.client)).collect()
}

pub(super) fn kill_sessions(run: &mut Run<'_, '_>) -> Outcome {
    let (killed, own) = (sessions(run)?, Some(run.client.registration.number()));
    run.service.operations.kill_others(own, Cause::Killed, |running| {
        running.session.as_ref().is_some_and(|session| killed.contains(session))
    });
    end_sessions(run)
}

pub(super) fn end_sessions(run: &mut Run<'_, '_>) -> Outcome {
    for key in sessions(run)? {
        run.service.sessions.end(&key);
        run.service.cursors.end_session(&key);
    }
    Ok(())
}

pub(super) fn refresh_sessions(run: &mut Run<'_, '_>) -> Outcome {
    for key in sessions(run)? {
        run.service.sessions.refresh(&key);
        run.service.cursors.refresh(&key);
    }
    Ok(())
}

pub(super) fn start_session(run: &mut Run<'_, '_>) -> Outcome {
    // An identifier that no other client can guess is made of two random ones.
    let mut bson = *b"\x26\0\0\0\x05id\0\x10\0\0\0\x04................\0";
    let mut random = [0; 16];
    if getrandom::fill(&mut random).is_err() {
        return Err(Failure::new(Code::InternalError, "the system has no random numbers"));
    }
    // Version 4, variant 1, as RFC 9562 has it.
    random[6] = random[6] & 0x0F | 0x40;
    random[8] = random[8] & 0x3F | 0x80;
    let len = bson.len();
    bson[..4].copy_from_slice(&(len as u32).to_le_bytes());
    bson[len - 17..len - 1].copy_from_slice(&random);
    run.reply.raw_document("id", &bson)?;
    Ok(run.reply.int("timeoutMinutes", SESSION_MINUTES as i32)?)
}
