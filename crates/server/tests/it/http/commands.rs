//! Commands, health and metrics.

use super::{ADA, BOB, Serving};
use flagstone_server::net::ServeOptions;
use std::io::Write;
use std::time::Duration;

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

/// Who guessed passwords over HTTP, or asked for what is not his, left no trace.
#[test]
fn refusals_are_counted_by_their_reason_and_failed_logins_are_logged() {
    let serving = Serving::with_users();
    let wrong = "Authorization: Basic YWRhOmJ5cm9u\r\n";
    let insert = command("shop", r#"{"insert":"things","documents":[{}]}"#);
    for (start, fields, body, status) in [
        ("GET /metrics", "", "", 401),
        ("GET /metrics", "Authorization: Bearer x\r\n", "", 401),
        ("GET /metrics", wrong, "", 401),
        ("GET /metrics", BOB, "", 403),
        (COMMAND, ADA, &insert, 403),
        ("GET /metrics", "Origin: http://evil.example\r\n", "", 403),
    ] {
        assert_eq!(serving.ask(start, fields, body).status, status, "{start} {fields}");
    }
    for (name, count) in [
        ("http_without_login", 2),
        ("failed_logins", 1),
        ("http_forbidden", 2),
        ("http_foreign", 1),
    ] {
        assert_eq!(serving.count(name), count, "{name}");
    }
    let log = serving.lines.text();
    let line = log.lines().find(|line| line.contains(" login failed ")).unwrap();
    assert!(line.contains(" peer=127.0.0.1:") && line.ends_with(" user=ada"), "{line}");
    assert!(!log.contains("byron") && !log.contains("YWRh"), "{log}");
}

#[test]
fn slow_requests_are_logged_with_their_bodies_by_what_they_are_about() {
    let slow = Some(Duration::ZERO);
    let serving = Serving::new(ServeOptions { slow, ..ServeOptions::default() });
    let find = command("shop", r#"{"find":"things","filter":{"x":"secret"}}"#);
    let tool = command("shop", r#"{"flagstone":"get","collection":"things"}"#);
    let cases = [
        ("PUT /v1/shop/things/secret", "{}", "\"PUT /v1/{db}/{collection}/{key}\"", true),
        (COMMAND, &find, "find", true),
        (COMMAND, &tool, "flagstone.get", true),
        (
            "POST /v1/shop/things/load",
            "{\"id\":1,\"x\":\"secret\"}",
            "\"POST /v1/{db}/{collection}/load\"",
            true,
        ),
        (
            "GET /v1/shop/things/export?fields=secret",
            "",
            "\"GET /v1/{db}/{collection}/export\"",
            true,
        ),
        (COMMAND, "secret", "\"POST /v1/command\"", false),
    ];
    for (at, (start, body, named, has_collection)) in cases.into_iter().enumerate() {
        // Its answer may come before its line.
        serving.connect().ask(start, "Connection: close\r\n", body);
        let is_slow = |line: &&str| line.contains(" slow command ");
        let lines = || serving.lines.text().lines().filter(is_slow).count();
        crate::net::eventually("the line", || lines() == at + 1);
        let log = serving.lines.text();
        let line = log.lines().rfind(|line| line.contains(" slow command ")).unwrap();
        let about = if has_collection { "shop collection=things" } else { "\"\"" };
        let end = format!(" command={named} database={about}");
        assert!(line.ends_with(&end), "{end}\n{line}");
    }
    assert!(!serving.lines.text().contains("secret"));
}

/// Nothing showed what a limit had refused, nor how much sessions and transactions take.
#[test]
fn metrics_show_limits_and_what_they_limit() {
    let serving = Serving::new(ServeOptions::default());
    let metric = |name: &str| {
        let text = serving.ask("GET /metrics", "", "").body;
        let prefix = format!("flagstone_{name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("{name}: {text}")).parse::<f64>().unwrap()
    };
    let run = |text: &str| serving.ask(COMMAND, "", &command("shop", text)).document();
    let expired = "limit_errors_total{limit=\"maxTimeMS\"}";
    assert_eq!((metric("sessions"), metric("open_transactions"), metric(expired)), (0.0, 0.0, 0.0));
    let text = "x".repeat(1000);
    let insert = format!(
        r#"{{"insert":"things","documents":[{{"_id":1,"t":"{text}"}}],
        "txnNumber":{{"$numberLong":"1"}},
        "lsid":{{"id":{{"$binary":{{"base64":"AAAAAAAAAAAAAAAAAAAAAQ==","subType":"04"}}}}}},
        "autocommit":false,"startTransaction":true}}"#
    );
    assert_eq!(run(r#"{"create":"things"}"#).float("ok"), Some(1.0));
    assert_eq!(run(&insert).int("n"), Some(1));
    assert_eq!((metric("sessions"), metric("open_transactions")), (1.0, 1.0));
    assert!(metric("transaction_bytes") >= 1000.0);
    let documents: Vec<_> = (0..3000).map(|n| format!("{{\"_id\":{n}}}")).collect();
    run(&format!(r#"{{"insert":"many","documents":[{}]}}"#, documents.join(",")));
    assert!(metric("oldest_snapshot_seconds") > 0.0, "the transaction sees an older state");
    let build = r#"{"createIndexes":"many","indexes":[{"key":{"n":1},"name":"n"}],"maxTimeMS":1}"#;
    assert_eq!(run(build).int("code"), Some(50));
    assert_eq!(metric(expired), 1.0);
    for name in ["message_bytes", "command_bytes", "cursor_command_bytes"] {
        assert_eq!(metric(name), 0.0, "{name}");
    }
}
