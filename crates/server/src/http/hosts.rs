//! Which names a request may give the server, and from which pages it may come.
//!
//! A page of the web can make its visitor's browser send requests to the visitor's own machine. The
//! browser says from where the page is (`Origin`), and a page that has given its own name this
//! machine's address still says that name (`Host`).

use super::head::Head;
use super::response::Response;
use std::net::IpAddr;

/// Refuses a request from a page of another origin, and, where nobody has to log in, one to a name
/// that is neither this machine's own nor in `allowed`.
///
/// # Errors
/// The answer to it.
pub fn check_hosts(
    head: &Head,
    allowed: &[String],
    has_users: bool,
) -> Result<(), Response<'static>> {
    let forbidden = |text: String| Err(Response::refused(403, &text));
    let host = head.field("host").map_err(|bad| Response::from(&bad))?.unwrap_or_default();
    match head.field("origin") {
        Ok(None) => {}
        Ok(Some(origin)) if is_of(origin, host) => {}
        _ => return forbidden(format!("expected an Origin of this server, {host:?}")),
    }
    let name = name_of(host);
    let is_listed = || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name));
    // Only old clients, which are no browsers, leave it out.
    if has_users || host.is_empty() || is_own(name) || is_listed() {
        return Ok(());
    }
    forbidden(format!("expected a Host such as localhost, found {host:?} (--http-host)"))
}

/// Returns the name in `name:port`.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Returns whether an origin is that of a page which this server has sent.
fn is_of(origin: &str, host: &str) -> bool {
    let of_scheme = |scheme: &str, port: &str| {
        origin.strip_prefix(scheme).is_some_and(|origin| {
            let plain = |host: &str| host.strip_suffix(port).unwrap_or(host).to_ascii_lowercase();
            !origin.is_empty() && plain(origin) == plain(host)
        })
    };
    of_scheme("http://", ":80") || of_scheme("https://", ":443")
}

/// Returns whether a name means this machine, or is an address, which no page can give a name.
fn is_own(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_local =
        name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
    is_local || bare.unwrap_or(name).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(fields: &str, has_users: bool) -> bool {
        let text = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        let (head, _) = Head::parse(text.as_bytes()).unwrap().unwrap();
        let found = check_hosts(&head, &["db.example".to_owned()], has_users);
        found.map_err(|response| assert_eq!(response.status, 403)).is_ok()
    }

    #[test]
    fn a_name_that_a_page_could_have_is_refused_without_users() {
        for own in [
            "localhost",
            "LOCALHOST:27017",
            "a.localhost:1",
            "127.0.0.1:1",
            "10.0.0.1",
            "[::1]:27017",
            "[::1]",
            "db.example:80",
            "DB.example",
            "localhost.",
            "localhost:",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(is_allowed(&format!("Host: {own}\r\n"), false), "{own}");
        }
        for foreign in [
            "evil.example",
            "evil.example:27017",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "db.example.evil",
            "[::1",
            "[::1]x",
            "[::1]:1:2",
            "::1",
            "localhost:1:2",
            "localhost:x",
            "localhost@evil.example",
            "0x7f.1",
            "127.1",
            "[localhost]",
            ".",
        ] {
            assert!(!is_allowed(&format!("Host: {foreign}\r\n"), false), "{foreign}");
            assert!(is_allowed(&format!("Host: {foreign}\r\n"), true), "{foreign}");
        }
    }

    #[test]
    fn a_page_of_another_origin_is_refused_with_users_as_well() {
        for (host, origin, is_same) in [
            ("localhost:27017", "http://localhost:27017", true),
            ("localhost:27017", "https://LOCALHOST:27017", true),
            ("localhost", "http://localhost:80", true),
            ("localhost:443", "https://localhost", true),
            ("[::1]:27017", "http://[::1]:27017", true),
            ("[::1]", "http://[::1]:80", true),
            ("[::1]:27017", "http://[::1]", false),
            ("localhost:443", "http://localhost", false),
            ("localhost:27017", "http://localhost:27017/", false),
            ("localhost:27017", "http://user@localhost:27017", false),
            ("localhost:27017", "http://localhost:8080", false),
            ("localhost:27017", "http://localhost", false),
            ("localhost:27017", "http://evil.example", false),
            ("localhost:27017", "null", false),
            ("localhost:27017", "", false),
            ("localhost:27017", "localhost:27017", false),
            ("localhost:27017", "file://", false),
            ("localhost:27017", "http://localhost:27017\r\nOrigin: http://localhost:27017", false),
        ] {
            let fields = format!("Host: {host}\r\nOrigin: {origin}\r\n");
            assert_eq!(is_allowed(&fields, true), is_same, "{fields}");
            assert_eq!(is_allowed(&fields, false), is_same, "{fields}");
        }
    }
}
