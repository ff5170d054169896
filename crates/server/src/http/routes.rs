//! Which request does what, and who may send it.

use super::asked::{Asked, Request, parse};
use super::head::Head;
use super::refusal;
use super::response::{JSON, Response};
use super::target::Target;
use super::{documents, export, metrics, page};
use crate::command::{Client, Service};
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{FieldKey, JsonMode};
use flagstone::internal::document::base64;
use std::fmt;
use subtle::ConstantTimeEq;

/// What a client is asked for that has to log in.
const CHALLENGE: &str = r#"Basic realm="flagstone", charset="UTF-8""#;

/// The password that a connection has proved last: finding out whether one is right is slow.
#[derive(Default)]
pub struct Proved(Option<(String, u64)>);

impl fmt::Debug for Proved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Proved(..)" } else { "Proved" })
    }
}

/// Decides on a request by its head, and says who the client is.
pub(crate) fn admit(
    service: &Service,
    (client, proved): (&mut Client, &mut Proved),
    head: &Head,
) -> Result<(), Response<'static>> {
    let path = head.target.split('?').next().unwrap_or_default();
    if head.method == "OPTIONS" || matches!(path, "/healthz" | "/readyz") {
        return Ok(());
    }
    if !service.users.exist() {
        client.user = None;
        return if client.is_local {
            Ok(())
        } else {
            let text = "without users the server answers clients of its own machine only";
            Err(Response::refused(403, text))
        };
    }
    // The page has no data. It asks for a password, and gives it to what has.
    if page::file(head).is_some() {
        return Ok(());
    }
    let credentials = head.field("authorization").map_err(|bad| Response::from(&bad))?;
    let changes = service.users.changes();
    if let (Some(credentials), Some((known, seen)), Some(_)) =
        (credentials, &proved.0, &client.user)
        && *seen == changes
        && bool::from(known.as_bytes().ct_eq(credentials.as_bytes()))
    {
        return Ok(());
    }
    *proved = Proved::default();
    let checked = credentials.and_then(password).and_then(|credentials| {
        let (name, password) = credentials.split_once(':')?;
        service.users.check_password(name, password).transpose()
    });
    client.user = checked
        .transpose()
        .map_err(|busy| Response::refused(503, &busy.to_string()).with("Retry-After", "1"))?;
    if client.user.is_some() {
        proved.0 = credentials.map(|credentials| (credentials.to_owned(), changes));
        return Ok(());
    }
    let text = match credentials {
        None => "expected a user and a password (Authorization: Basic)",
        Some(_) => "expected the name and the password of a user (Authorization: Basic)",
    };
    let refused = Response::from(Failure::new(Code::AuthenticationFailed, text));
    Err(refused.with("WWW-Authenticate", CHALLENGE))
}

/// Returns `name:password`.
fn password(credentials: &str) -> Option<String> {
    let (scheme, text) = credentials.split_once(' ')?;
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    String::from_utf8(base64(text.trim()).filter(|_| is_basic)?).ok()
}

/// Answers a request that was admitted.
pub(crate) fn respond<'a>(
    service: &'a Service,
    client: &'a mut Client,
    request: &Request<'_>,
) -> Response<'a> {
    let head = request.head;
    if head.method == "OPTIONS" && head.target == "*" {
        return Response::new(204);
    }
    let target = match Target::parse(&head.target) {
        Ok(target) => target,
        Err(bad) => return Response::from(&bad),
    };
    let segments: Vec<_> = target.segments.iter().map(String::as_str).collect();
    let route = match segments[..] {
        [""] | ["page", _] => Route::Page,
        ["healthz"] => Route::Health,
        ["readyz"] => Route::Ready,
        ["metrics"] => Route::Metrics,
        ["v1", "command"] => Route::Command,
        ["v1", _, _, "export"] => Route::Export,
        ["v1", _, _, key] if !key.is_empty() => Route::Document,
        _ => {
            let text = "expected /v1/command, /v1/DATABASE/COLLECTION/KEY, \
                        /v1/DATABASE/COLLECTION/export, /metrics, /healthz or /readyz";
            return Response::refused(404, text);
        }
    };
    let methods = route.methods();
    let method = if head.method == "HEAD" { "GET" } else { head.method.as_str() };
    let allowed = || {
        let get = if methods.contains(&"GET") { "HEAD, " } else { "" };
        format!("{get}{}, OPTIONS", methods.join(", "))
    };
    if method == "OPTIONS" {
        return Response::new(204).with("Allow", allowed());
    }
    if !methods.contains(&method) {
        let text = format!("expected one of the methods {}", allowed());
        return Response::refused(405, &text).with("Allow", allowed());
    }
    let asked = Asked { method, target: &target, request };
    route.answer(service, client, &asked).unwrap_or_else(Response::from)
}

/// What a path means.
#[derive(Clone, Copy)]
enum Route {
    Page,
    Health,
    Ready,
    Metrics,
    Command,
    Export,
    Document,
}

impl Route {
    const fn methods(self) -> &'static [&'static str] {
        match self {
            Self::Page | Self::Health | Self::Ready | Self::Metrics | Self::Export => &["GET"],
            Self::Command => &["POST"],
            Self::Document => &["GET", "PUT", "PATCH", "DELETE"],
        }
    }

    fn answer<'a>(
        self,
        service: &'a Service,
        client: &'a mut Client,
        asked: &Asked<'_>,
    ) -> Outcome<Response<'a>> {
        match self {
            Self::Page => Ok(page::respond(asked.request.head)),
            Self::Health => Ok(plain("ok\n")),
            Self::Ready => service.check_open().map(|()| plain("ready\n")),
            Self::Metrics => metrics::respond(service, client, &(asked.request.counted)()),
            Self::Command => command(service, client, asked.request.body),
            Self::Export => {
                export::respond(service, client, &asked.namespace()?, &asked.target.parameters)
            }
            Self::Document => documents::respond(service, client, asked),
        }
    }
}

fn plain(text: &str) -> Response<'static> {
    Response::of(200, "text/plain; charset=utf-8", text)
}

/// Runs a command: `{"db": "shop", "command": {..}}`.
fn command(service: &Service, client: &mut Client, body: &[u8]) -> Outcome<Response<'static>> {
    const EXPECTED: &str = r#"the body: expected {"db": "..", "command": {..}}"#;
    let malformed = |found: &str| Failure::new(Code::FailedToParse, format!("{EXPECTED}{found}"));
    let body = parse(body, "the body")?;
    let root = body.root();
    if !root.is_map() {
        return Err(malformed(""));
    }
    for field in root.fields()? {
        match field? {
            (FieldKey::Name("db" | "command"), _) => {}
            (FieldKey::Name(name), _) => return Err(malformed(&format!(", found {name:?}"))),
            (FieldKey::Value(_), _) => return Err(malformed("")),
        }
    }
    let (database, command) = (root.get("db")?, root.get("command")?);
    let (Some(database), Some(command)) = (
        database.and_then(|name| name.as_str().map(str::to_owned)),
        command.filter(|it| it.is_map()),
    ) else {
        return Err(malformed(""));
    };
    let reply = service.run_view(client, &database, &command)?;
    let mut text = reply.to_json_as(JsonMode::Extended)?;
    text.push('\n');
    Ok(Response::of(refusal::status_of_reply(&reply), JSON, text))
}
