//! Who sends a request, and whether it may be answered. Both are settled by the head.

use super::body::Takes;
use super::head::Head;
use super::response::Response;
use super::routes;
use super::target::RequestTarget;
use crate::access::Need;
use crate::command::{Client, Service};
use crate::failure::{Code, Failure};
use flagstone::internal::document::base64;

/// What a client is asked for that has to log in.
const CHALLENGE: &str = r#"Basic realm="flagstone", charset="UTF-8""#;

/// Decides on a request by its head, and says who the client is. Returns how the body is taken.
pub(crate) fn admit(
    service: &Service,
    client: &mut Client,
    head: &Head,
) -> Result<Takes, Response<'static>> {
    if head.method == "OPTIONS" {
        return Ok(Takes::Nothing);
    }
    let target = RequestTarget::parse(&head.target).map_err(|bad| Response::from(&bad))?;
    let route = routes::find(head, &target);
    if route.is_some_and(|route| route.need == Need::Nothing) {
        return Ok(Takes::Nothing);
    }
    log_in(service, client, head)?;
    // What there is not is said later.
    let Some(route) = route else { return Ok(Takes::Nothing) };
    route.check(service, client, &target)?;
    Ok(route.takes)
}

fn log_in(service: &Service, client: &mut Client, head: &Head) -> Result<(), Response<'static>> {
    client.user = None;
    if !service.users.exist() {
        if client.is_local {
            return Ok(());
        }
        let text = "without users the server answers clients of its own machine only";
        return Err(Response::refused(403, text));
    }
    let credentials = head.field("authorization").map_err(|bad| Response::from(&bad))?;
    let given = credentials.and_then(password);
    let given = given.as_deref().and_then(|given| given.split_once(':'));
    let checked =
        given.and_then(|(name, password)| service.users.check_password(name, password).transpose());
    client.user = checked
        .transpose()
        .map_err(|busy| Response::refused(503, &busy.to_string()).with("Retry-After", "1"))?;
    if client.user.is_some() {
        return Ok(());
    }
    if let Some((name, _)) = given {
        client.fail_login(name);
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
