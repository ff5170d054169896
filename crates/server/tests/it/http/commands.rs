//! Commands, health and metrics.

use super::{ADA, BOB, Serving};
use flagstone_server::net::ServeOptions;
use std::io::Write;

const COMMAND: &str = "POST /v1/command";

fn command(database: &str, command: &str) -> String {
    format!(r#"{{"db":"{database}","command":{command}}}"#)
}

#[test]
fn a_command_is_answered_with_the_status_of_its_code() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    for (text, status, code) in [
        (r#"{"ping":1}"#, 200, None),
        (
            r#"{"insert":"users","documents":[{"_id":1,"at":{"$date":"1970-01-01T00:00:00Z"}}]}"#,
            200,
            None,
        ),
        (r#"{"insert":"users","documents":[{"_id":1}]}"#, 409, None),
        (r#"{"find":"users","filter":{"$bad":1}}"#, 400, Some(2)),
        (r#"{"nothing":1}"#, 404, Some(59)),
        (r#"{"getMore":{"$numberLong":"7"},"collection":"users"}"#, 404, Some(43)),
        (r#"{"drop":"none","unknown":1}"#, 400, Some(40415)),
        (r#"{"create":"users"}"#, 200, None),
        (r#"{"create":"users","changeStreamPreAndPostImages":{"enabled":true}}"#, 409, Some(48)),
    ] {
        let reply = connection.ask(COMMAND, "", &command("shop", text));
        assert_eq!(
            (reply.status, reply.document().int("code")),
            (status, code),
            "{text} {reply:?}"
        );
    }
    let found = connection.ask(COMMAND, "", &command("shop", r#"{"find":"users"}"#));
    assert!(
        found.body.contains(r#"{"_id":1,"at":{"$date":"1970-01-01T00:00:00Z"}}"#),
        "{}",
        found.body
    );
    assert_eq!(found.field("content-type"), Some("application/json"));
    for bad in [
        "",
        "{",
        "[]",
        "1",
        r#"{"db":"shop"}"#,
        r#"{"command":{"ping":1}}"#,
        r#"{"db":1,"command":{}}"#,
        r#"{"db":"shop","command":1}"#,
        r#"{"db":"shop","command":{}}"#,
        r#"{"db":"a.b","command":{"ping":1}}"#,
        r#"{"db":"shop","command":{"ping":1},"more":1}"#,
    ] {
        let reply = connection.ask(COMMAND, "", bad);
        assert_eq!(reply.status, 400, "{bad} {reply:?}");
        assert!(reply.document().str("errmsg").is_some(), "{bad}");
    }
}

#[test]
fn requests_are_answered_in_their_order_over_one_connection() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let mut all = Vec::new();
    for n in 0..50 {
        let body = format!("{{\"n\":{n}}}");
        let chunks = format!(
            "1\r\n{}\r\n{:x};x\r\n{}\r\n0\r\nT: t\r\n\r\n",
            &body[..1],
            body.len() - 1,
            &body[1..]
        );
        all.extend_from_slice(
            format!(
                "PUT /v1/shop/things/{n} HTTP/1.1\r\nHost: localhost\r\n\
            Transfer-Encoding: chunked\r\n\r\n{chunks}\
            GET /v1/shop/things/{n} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            .as_bytes(),
        );
    }
    connection.stream.write_all(&all).unwrap();
    for n in 0..50 {
        assert_eq!(connection.reply(false).unwrap().status, 201);
        let reply = connection.reply(false).unwrap();
        assert_eq!(reply.body, format!("{{\"_id\":{n},\"n\":{n}}}\n"));
    }
    let last = connection.ask("GET /healthz", "Connection: close\r\n", "");
    assert_eq!((last.status, last.field("connection")), (200, Some("close")));
    connection.ended();
}

#[test]
fn a_client_that_waits_is_told_to_go_on() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let text = "PUT /v1/a/b/c HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
                Content-Length: 2\r\n\r\n";
    connection.stream.write_all(text.as_bytes()).unwrap();
    assert_eq!(connection.reply(false).unwrap().status, 100);
    connection.stream.write_all(b"{}").unwrap();
    assert_eq!(connection.reply(false).unwrap().status, 201);
    // One who may not write is told so before the body.
    let serving = Serving::with_users();
    let mut connection = serving.connect();
    connection.stream.write_all(text.as_bytes()).unwrap();
    assert_eq!(connection.reply(false).unwrap().status, 401);
    connection.ended();
}

#[test]
fn each_request_has_the_rights_of_the_user_that_it_names() {
    let serving = Serving::with_users();
    let mut connection = serving.connect();
    let insert = r#"{"insert":"things","documents":[{}]}"#;
    let find = r#"{"find":"things"}"#;
    let mut status = |fields: &str, database: &str, text: &str| {
        connection.ask(COMMAND, fields, &command(database, text)).status
    };
    assert_eq!((status(ADA, "shop", find), status(ADA, "shop", insert)), (200, 403));
    assert_eq!((status(BOB, "shop", insert), status(BOB, "stock", find)), (200, 403));
    // The password was proved, and the next request names nobody.
    let refused = connection.ask("GET /v1/shop/things/1", "", "");
    assert_eq!(refused.status, 401);
    assert!(refused.field("www-authenticate").unwrap().starts_with("Basic realm="));
    for wrong in ["Basic YWRhOnd4b25n", "Basic !", "Bearer x", "Basic", "", "Basic YWRh"] {
        let fields = format!("Authorization: {wrong}\r\n");
        assert_eq!(connection.ask("GET /metrics", &fields, "").status, 401, "{wrong}");
    }
    let twice = format!("{ADA}{ADA}");
    assert_eq!(connection.ask("GET /metrics", &twice, "").status, 400);
    assert_eq!(connection.ask("GET /metrics", BOB, "").status, 403);
    assert_eq!(connection.ask("GET /metrics", ADA, "").status, 200);
    // What was proved ends with the user.
    serving.service.users().remove("ada").unwrap();
    assert_eq!(connection.ask("GET /metrics", ADA, "").status, 401);
    assert_eq!(connection.ask("GET /healthz", "", "").status, 200);
    assert_eq!(connection.ask("GET /readyz", "", "").status, 200);
}

#[test]
fn a_server_that_recovers_is_alive_and_not_ready() {
    let serving = Serving::recovering(ServeOptions::default());
    assert_eq!(serving.ask("GET /healthz", "", "").status, 200);
    let reply = serving.ask("GET /readyz", "", "");
    assert_eq!(reply.status, 503);
    assert!(reply.body.contains("being recovered"), "{}", reply.body);
    assert_eq!(serving.ask(COMMAND, "", "").status, 503);
    serving.server.ready(std::sync::Arc::clone(&serving.service));
    assert_eq!(serving.ask("GET /readyz", "", "").status, 200);
    serving.service.close();
    let reply = serving.ask(COMMAND, "", &command("shop", r#"{"ping":1}"#));
    assert_eq!((reply.status, reply.document().int("code")), (503, Some(91)));
}

#[test]
fn metrics_are_lines_with_help_and_type() {
    let serving = Serving::new(ServeOptions::default());
    serving.ask("PUT /v1/shop/things/1", "", "{}");
    let reply = serving.ask("GET /metrics", "", "");
    assert!(reply.field("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let mut known = std::collections::HashSet::new();
    for line in reply.body.lines() {
        let words: Vec<_> = line.split(' ').collect();
        if let ["#", "TYPE", name, kind] = words[..] {
            let ends: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            for end in ends {
                assert!(known.insert(format!("{name}{end}")), "{name} comes twice");
            }
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} {kind}");
        } else if words[0] != "#" {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(known.contains(name.split('{').next().unwrap()), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    for line in [
        "flagstone_operations_total{operation=\"insert\"} 1\n",
        "flagstone_connection_events_total{event=\"http\"} 2\n",
        "flagstone_table_bytes{keyspace=\"shop.things\"} ",
        "flagstone_operation_seconds_bucket{operation=\"writes\",le=\"+Inf\"} 1\n",
        "flagstone_operation_seconds_count{operation=\"writes\"} 1\n",
        "flagstone_operation_seconds_count{operation=\"reads\"} 0\n",
        "flagstone_open_cursors 0\n",
        "flagstone_memtable_bytes ",
    ] {
        assert!(reply.body.contains(line), "{line}\n{}", reply.body);
    }
}

#[test]
fn paths_and_methods_that_there_are_not_are_named() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    for path in [
        "/page",
        "/v1",
        "/v1/",
        "/v2/command",
        "/v1/a",
        "/v1/a/b",
        "/v1/a/b/",
        "/v1/a/b/c/d",
        "/../../etc/passwd",
        "/v1/../../etc/passwd/x",
        "//healthz",
    ] {
        let reply = connection.ask(&format!("GET {path}"), "", "");
        assert_eq!(reply.status, 404, "{path} {reply:?}");
    }
    for path in [
        "/v1/../b/c",
        "/v1/%2e%2e/b/c",
        "/v1/a%2Fb/c/d",
        "/v1/a/system.users/x",
        "/v1/a/b%00/c",
        "/v1/a/$b/c",
        "/%",
        "/v1/a/b/%zz",
        "/v1/a/b/%ff",
    ] {
        let reply = connection.ask(&format!("GET {path}"), "", "");
        assert!(matches!(reply.status, 400 | 403), "{path} {reply:?}");
    }
    let reply = connection.ask("DELETE /v1/command", "", "");
    assert_eq!((reply.status, reply.field("allow")), (405, Some("POST, OPTIONS")));
    let reply = connection.ask("OPTIONS /v1/a/b/c", "", "");
    let allowed = Some("HEAD, GET, PUT, PATCH, DELETE, OPTIONS");
    assert_eq!((reply.status, reply.field("allow")), (204, allowed));
    assert_eq!(connection.ask("OPTIONS *", "", "").status, 204);
    let head = connection.ask("HEAD /healthz", "", "");
    assert_eq!((head.status, head.field("content-length")), (200, Some("3")));
    assert_eq!(connection.ask("GET /healthz", "", "").body, "ok\n");
}
