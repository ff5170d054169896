//! Clients and pages that mean harm, or are broken.

use super::{Connection, Serving};
use crate::net::limits;
use flagstone::Document;
use flagstone_server::net::ServeOptions;
use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

#[test]
fn a_page_of_another_origin_changes_nothing() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    for origin in ["http://evil.example", "null", "http://localhost:1", "https://localhost.evil"] {
        let fields = format!("Origin: {origin}\r\n");
        assert_eq!(connection.ask("DELETE /v1/a/b/c", &fields, "").status, 403, "{origin}");
        assert_eq!(serving.ask("PUT /v1/a/b/c", &fields, "{}").status, 403, "{origin}");
    }
    assert_eq!(connection.ask("GET /v1/a/b/c", "", "").status, 404);
    let own = connection.ask("PUT /v1/a/b/c", "Origin: http://localhost\r\n", "{}");
    assert_eq!(own.status, 201);
    assert!(own.field("access-control-allow-origin").is_none());
}

/// A page of the web that gives its own name the address of this machine.
#[test]
fn a_foreign_host_is_refused_while_nobody_logs_in() {
    let options =
        ServeOptions { http_hosts: vec!["db.example".to_owned()], ..ServeOptions::default() };
    let serving = Serving::new(options);
    let request = |host: &str, path: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for (host, status) in [("evil.example", 403), ("db.example:27017", 200), ("[::1]", 200)] {
        assert_eq!(serving.status_of(request(host, "/metrics").as_bytes()), status, "{host}");
    }
    assert_eq!(serving.status_of(request("evil.example", "/healthz").as_bytes()), 200);
    let serving = Serving::with_users();
    assert_eq!(serving.status_of(request("evil.example", "/metrics").as_bytes()), 401);
}

/// What a proxy could take for other requests than the server does ends the connection.
#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    let serving = Serving::new(ServeOptions::default());
    let smuggled = "GET /v1/a/b/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (fields, body, status) in [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", 400),
        ("Content-Length: 4\r\nContent-Length: 4\r\n", "{}  ", 400),
        ("Content-Length: 4\r\nContent-Length: 5\r\n", "{}  ", 400),
        ("Content-Length: 4,4\r\n", "{}  ", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", "0\r\n\r\n", 400),
        ("Transfer-Encoding: x\r\n", "0\r\n\r\n", 501),
        ("Transfer-Encoding : chunked\r\n", "0\r\n\r\n", 400),
        ("X: y\n\r\n", "", 400),
        ("Host: other\r\n", "", 400),
        ("Transfer-Encoding: chunked\r\n", "2\r\n{}x\r\n0\r\n\r\n", 400),
        ("Transfer-Encoding: chunked\r\n", "-1\r\n{}\r\n0\r\n\r\n", 400),
        ("Transfer-Encoding: chunked\r\n", "fffffffffffffff\r\n{}\r\n0\r\n\r\n", 413),
        ("Content-Length: 99999999\r\n", "", 413),
    ] {
        let mut connection = serving.connect();
        let text =
            format!("PUT /v1/a/b/c HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{body}{smuggled}");
        let _ended = connection.stream.write_all(text.as_bytes());
        assert_eq!(connection.reply(false).unwrap().status, status, "{fields:?} {body:?}");
        connection.ended();
    }
    // Each is counted when its thread ends.
    for _ in 0..1000 {
        if serving.count("bad_messages") == 13 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(serving.count("bad_messages"), 13);
    assert_eq!(serving.ask("GET /v1/a/b/c", "", "").status, 404, "nothing was written");
}

#[test]
fn heads_and_bodies_have_bounds() {
    let serving = Serving::new(ServeOptions::default());
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(17 << 10));
    assert_eq!(serving.status_of(long.as_bytes()), 431);
    let endless = format!("GET / HTTP/1.1\r\n{}", "A: b\r\n".repeat(4000));
    assert_eq!(serving.status_of(endless.as_bytes()), 431);
    for (bytes, status) in [
        (&b"GET / HTTP/3.0\r\nHost: x\r\n\r\n"[..], 505),
        (b"GET /\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET http://localhost/healthz HTTP/1.1\r\nHost: a proxy\r\n\r\n", 200),
        (b"GET http://evil.example/v1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 403),
        (b"\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        // It had no answer, as no line of it had an end.
        (b"GET / HTTP/1.1\nHost: localhost\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\x01: y\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nExpect: x\r\nContent-Length: 1\r\n\r\n", 417),
    ] {
        assert_eq!(serving.status_of(bytes), status, "{}", bytes.escape_ascii());
    }
    // Deep, and larger than a document may be.
    let deep = "[".repeat(10_000);
    assert_eq!(serving.ask("POST /v1/command", "", &deep).status, 400);
    let deep = "{\"a\":".repeat(10_000);
    assert_eq!(serving.ask("PUT /v1/a/b/c", "", &deep).status, 400);
    let key = "%5B".repeat(5_000);
    assert_eq!(serving.ask(&format!("GET /v1/a/b/{key}"), "", "").status, 404, "it is text");
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(16 << 20));
    let status = serving.ask("PUT /v1/a/b/c", "", &large).status;
    assert!(matches!(status, 400 | 413), "{status}");
    assert_eq!(serving.count("panics"), 0);
}

#[test]
fn a_request_has_a_limit_of_time() {
    let options = limits(|limits| limits.message = Duration::from_millis(300));
    let serving = Serving::new(options);
    let mut connection = serving.connect();
    assert_eq!(connection.ask("GET /healthz", "", "").status, 200);
    connection.stream.write_all(b"GET /heal").unwrap();
    let told = connection.reply(false).unwrap();
    assert_eq!(told.status, 408);
    assert!(told.body.contains("--message-timeout"), "{}", told.body);
    connection.ended();
    // A body that does not come.
    let mut connection = serving.connect();
    let head = b"PUT /v1/a/b/c HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{";
    connection.stream.write_all(head).unwrap();
    assert_eq!(connection.reply(false).unwrap().status, 408);
    // One that ends early.
    let mut connection = serving.connect();
    connection.stream.write_all(head).unwrap();
    connection.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(connection.reply(false).unwrap().status, 400);
    let options = limits(|limits| limits.idle = Some(Duration::from_millis(300)));
    let serving = Serving::new(options);
    let mut connection = serving.connect();
    assert_eq!(connection.ask("GET /healthz", "", "").status, 200);
    connection.ended();
}

#[test]
fn garbage_does_no_harm() {
    let serving = Serving::new(limits(|limits| limits.message = Duration::from_millis(300)));
    let mut random = crate::random("garbage_of_http_does_no_harm");
    let whole =
        b"PUT /v1/a/b/%7B%7D?x=%20 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\
                  If-Match: \"x\"\r\n\r\n8\r\n{\"a\":1}\n\r\n0\r\n\r\n";
    for _ in 0..100 {
        let mut bytes = whole.to_vec();
        crate::mutate(&mut random, &mut bytes);
        let mut connection = serving.connect();
        let _ended = connection
            .stream
            .write_all(&bytes)
            .and_then(|()| connection.stream.shutdown(Shutdown::Write));
        let _ended = std::io::Read::read_to_end(&mut connection.reader, &mut Vec::new());
    }
    assert_eq!(serving.count("panics"), 0);
    assert_eq!(serving.ask("GET /healthz", "", "").status, 200);
}

/// A client of HTTP/1.0 waits for the end of the connection unless it is told that it goes on.
#[test]
fn an_old_client_is_told_that_the_connection_goes_on() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let old = b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    for _ in 0..2 {
        connection.stream.write_all(old).unwrap();
        let reply = connection.reply(false).unwrap();
        assert_eq!((reply.status, reply.field("connection")), (200, Some("keep-alive")));
    }
    connection.stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(connection.reply(false).unwrap().field("connection"), Some("close"));
    connection.ended();
}

/// OPTIONS and `/healthz` are for everybody, and so were 16 MiB of memory for each connection.
#[test]
fn a_body_that_nothing_wants_is_not_read() {
    let serving = Serving::with_users();
    for start in ["OPTIONS *", "OPTIONS /v1/a/b/c", "GET /healthz", "GET /v1/a/b/c", "POST /x"] {
        let mut connection = serving.connect();
        let text = format!(
            "{start} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\nsome of it"
        );
        connection.stream.write_all(text.as_bytes()).unwrap();
        let reply = connection.reply(false).unwrap();
        assert_eq!(reply.field("connection"), Some("close"), "{start} {reply:?}");
        connection.ended();
    }
}

/// Who has logged in by a command of drivers was that user for the requests after it, whatever
/// they said.
#[test]
fn each_request_is_of_the_user_in_its_head() {
    let serving = Serving::with_users();
    let mut connection = serving.connect();
    let payload = r#"{"$binary":{"base64":"bixzLG49Ym9iLHI9YWJj","subType":"00"}}"#;
    let start = format!(r#"{{"saslStart":1,"mechanism":"SCRAM-SHA-256","payload":{payload}}}"#);
    let text = format!(r#"{{"db":"admin","command":{start}}}"#);
    connection.ask("POST /v1/command", super::ADA, &text);
    let insert = r#"{"db":"shop","command":{"insert":"a","documents":[{}]}}"#;
    assert_eq!(connection.ask("POST /v1/command", super::ADA, insert).status, 403);
    assert_eq!(connection.ask("POST /v1/command", super::BOB, insert).status, 200);
    let logout = r#"{"db":"admin","command":{"logout":1}}"#;
    assert_eq!(connection.ask("POST /v1/command", super::BOB, logout).status, 200);
    assert_eq!(connection.ask("POST /v1/command", super::ADA, insert).status, 403);
    assert_eq!(connection.ask("POST /v1/command", "", insert).status, 401);
}

#[test]
fn a_client_that_does_not_read_an_export_is_ended() {
    let options = limits(|limits| limits.reply = Duration::from_millis(500));
    let serving = Serving::new(options);
    let lines: String =
        (0..50_000).map(|n| format!("{{\"id\":{n},\"text\":\"{n:0500}\"}}\n")).collect();
    assert_eq!(serving.ask("POST /v1/shop/things/load", "", &lines).status, 200);
    let mut connection = serving.connect();
    connection.send("GET /v1/shop/things/export", "", "");
    let ended = (0..4000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        serving.count("reply_timeouts") == 1
    });
    assert!(ended);
    let metrics = serving.ask("GET /metrics", "", "").body;
    assert!(metrics.contains("flagstone_open_cursors 0\n"), "{metrics}");
}

/// A stream of requests means the same however it is cut, and to its end: where a proxy and the
/// server saw different ends, one could hide a request from the other.
#[test]
fn requests_are_the_same_however_they_are_cut() {
    use flagstone_server::http::{BodyReader, Head, Takes};
    let mut random = crate::random("requests_are_the_same_however_they_are_cut");
    let whole = b"PUT /v1/a/b/%7B%7D?x=%20 HTTP/1.1\r\nHost: [::1]:1\r\nOrigin: http://[::1]:1\r\n\
                  Transfer-Encoding: chunked\r\n\r\n\
                  8;a=\"b\"\r\n{\"a\":1}\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n\
                  POST / HTTP/1.0\r\nContent-Length: 3\r\nConnection: keep-alive, x\r\n\r\nabc\
                  GET / HTTP/1.1\r\nHost: x\r\nIf-Match: \"a,b\" , *\r\n\r\n";
    let read = |bytes: &[u8], step: usize, takes: Takes| {
        let (mut rest, mut seen) = (bytes, Vec::new());
        while let Ok(Some((head, len))) = Head::parse(rest) {
            assert!(matches!(Head::parse(&rest[..len - 1]), Ok(None)), "its end is needed");
            rest = &rest[len..];
            let Ok(mut reader) = BodyReader::new(&head, takes) else { break };
            let mut body = Vec::new();
            while reader.missing() > 0 && !rest.is_empty() {
                let piece = &rest[..step.min(rest.len())];
                let Ok(used) = reader.take(piece, &mut body) else {
                    return (seen, "bad chunks", false);
                };
                assert!(used == piece.len() || reader.missing() == 0, "a body takes what is its");
                rest = &rest[used..];
            }
            let is_whole = reader.missing() == 0;
            seen.push((head.method.clone(), head.target.clone(), head.closes(), body, is_whole));
            if !is_whole {
                break;
            }
        }
        let end = if Head::parse(rest).is_err() { "a bad head" } else { "the end" };
        (seen, end, rest.is_empty())
    };
    let (seen, end, is_done) = read(whole, 1, Takes::Whole);
    assert_eq!((seen.len(), end, is_done), (3, "the end", true));
    assert_eq!(seen[0].3, b"{\"a\":1}\nx");
    for _ in 0..20_000 {
        let mut bytes = whole.to_vec();
        crate::mutate(&mut random, &mut bytes);
        let takes = *random.pick(&[Takes::Whole, Takes::Stream]);
        let all = read(&bytes, usize::MAX, takes);
        for step in [1, 2, 7, 64] {
            assert_eq!(read(&bytes, step, takes), all, "{step} {}", bytes.escape_ascii());
        }
    }
}

#[test]
fn a_connection_above_the_limit_is_told_so() {
    let serving = Serving::new(limits(|limits| limits.connections = 1));
    let mut first = serving.connect();
    assert_eq!(first.ask("GET /healthz", "", "").status, 200);
    let mut second = serving.connect();
    let refused = second.ask("GET /healthz", "", "");
    assert_eq!((refused.status, refused.field("connection")), (503, Some("close")));
    assert!(refused.body.contains("--max-connections"), "{refused:?}");
    second.ended();
    assert_eq!(first.ask("GET /healthz", "", "").status, 200);
}

/// Bodies that waited for room were listed nowhere, and had to wait until their time was over.
#[test]
fn a_body_that_waits_for_room_is_listed_and_may_be_killed() {
    let serving = Serving::new(limits(|limits| limits.messages = 1 << 20));
    let begin = || {
        let mut connection = serving.connect();
        let head = "POST /v1/command HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n";
        connection.stream.write_all(head.as_bytes()).unwrap();
        connection
    };
    let command = |command: &str| {
        let body = format!(r#"{{"db":"admin","command":{command}}}"#);
        Document::from_json(&serving.ask("POST /v1/command", "", &body).body).unwrap()
    };
    let mut both = [begin(), begin()];
    let id = loop {
        let found = command(r#"{"currentOp":1,"op":"none"}"#);
        if let Some(id) = found.int("inprog.0.opid") {
            break id;
        }
    };
    command(&format!(r#"{{"killOp":1,"op":{id}}}"#));
    // The other one has room, and waits for its body.
    let told = loop {
        let has_reply = |connection: &&mut Connection| {
            connection.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            connection.stream.peek(&mut [0]).is_ok()
        };
        if let Some(connection) = both.iter_mut().find(has_reply) {
            break connection.reply(false).unwrap();
        }
    };
    assert_eq!(told.status, 503);
    assert!(told.body.contains("ended by another client"), "{told:?}");
}

/// Commands over HTTP ran on when their clients had left: only those of drivers ended.
#[test]
fn what_reads_ends_when_its_client_leaves() {
    let serving = Serving::new(ServeOptions::default());
    let command = |command: &str| {
        let body = format!(r#"{{"db":"shop","command":{command}}}"#);
        Document::from_json(&serving.ask("POST /v1/command", "", &body).body).unwrap()
    };
    let documents: Vec<String> = (0..5_000).map(|n| format!(r#"{{"_id":{n}}}"#)).collect();
    command(&format!(r#"{{"insert":"c","documents":[{}]}}"#, documents.join(",")));
    // Much to do for each document.
    let slow = r#"{"$expr":{"$lt":[{"$size":{"$range":[0,300000]}},0]}}"#;
    let aggregate = format!(
        r#"{{"db":"shop","command":
            {{"aggregate":"c","pipeline":[{{"$match":{slow}}}],"cursor":{{}}}}}}"#
    );
    let escaped: String = slow.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for (start, body) in [
        ("POST /v1/command".to_owned(), aggregate.as_str()),
        (format!("GET /v1/shop/c/export?filter={escaped}"), ""),
    ] {
        let mut connection = serving.connect();
        connection.send(&start, "", body);
        let runs = || command(r#"{"currentOp":1,"ns":"shop.c"}"#).int("inprog.0.opid").is_some();
        while !runs() {}
        drop(connection);
        while runs() {}
    }
}
