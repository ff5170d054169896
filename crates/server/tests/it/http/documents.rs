//! Documents by their keys, and the export of a collection.

use super::{BOB, Connection, Serving};
use flagstone::Space;
use flagstone_server::net::ServeOptions;
use std::io::{Read, Write};

const MERGE: &str = "Content-Type: application/merge-patch+json; charset=utf-8\r\n";
const JSON: &str = "Content-Type: application/json-patch+json\r\n";

fn get(connection: &mut Connection, path: &str) -> String {
    connection.ask(&format!("GET {path}"), "", "").body
}

#[test]
fn a_document_is_put_read_patched_and_removed() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let path = "/v1/shop/users/ada";
    assert_eq!(connection.ask(&format!("GET {path}"), "", "").status, 404);
    assert_eq!(connection.ask(&format!("DELETE {path}"), "", "").status, 404);
    let made = connection.ask(&format!("PUT {path}"), "", r#"{"n":1,"a":[1]}"#);
    assert_eq!(made.status, 201);
    let read = connection.ask(&format!("GET {path}"), "", "");
    assert_eq!(read.body, "{\"_id\":\"ada\",\"n\":1,\"a\":[1]}\n");
    assert_eq!(read.etag(), made.etag());
    let same = format!("If-None-Match: {}\r\n", read.etag());
    assert_eq!(connection.ask(&format!("GET {path}"), &same, "").status, 304);

    let replaced = connection.ask(&format!("PUT {path}"), "", r#"{"_id":"ada","n":2,"m":0}"#);
    assert_eq!(replaced.status, 204);
    assert_ne!(replaced.etag(), made.etag());
    let merged = connection.ask(&format!("PATCH {path}"), MERGE, r#"{"m":null,"o":{"p":1}}"#);
    assert_eq!(merged.status, 204);
    assert_eq!(get(&mut connection, path), "{\"_id\":\"ada\",\"n\":2,\"o\":{\"p\":1}}\n");
    let patch = r#"[{"op":"test","path":"/n","value":2},{"op":"add","path":"/q","value":true}]"#;
    assert_eq!(connection.ask(&format!("PATCH {path}"), JSON, patch).status, 204);
    let refused = connection.ask(&format!("PATCH {path}"), JSON, &patch.replace(":2}", ":3}"));
    assert_eq!(refused.status, 412);
    assert!(get(&mut connection, path).contains(r#""q":true"#));
    let other = connection.ask(&format!("PATCH {path}"), "Content-Type: text/plain\r\n", patch);
    assert_eq!(other.status, 415);
    assert!(other.field("accept-patch").unwrap().contains("merge-patch"));
    assert_eq!(connection.ask("PATCH /v1/shop/users/none", MERGE, "{}").status, 404);

    let head = connection.ask(&format!("HEAD {path}"), "", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(connection.ask(&format!("DELETE {path}"), "", "").status, 204);
    assert_eq!(connection.ask(&format!("GET {path}"), "", "").status, 404);
}

/// A patch stored a map whose names had a zero as the array of pairs that a reply shows.
#[test]
fn no_write_stores_names_that_drivers_do_not_have() {
    let serving = Serving::new(ServeOptions::default());
    let things = serving.service.database().collection("shop.things").unwrap();
    things.put(1, flagstone::Json(r#"{"a":{"b\u0000":1},"n":1}"#)).unwrap();
    things.put(2, flagstone::Json(r#"{"n":1}"#)).unwrap();
    let mut connection = serving.connect();
    let before = [1, 2].map(|key| things.get(key).unwrap());
    for (start, fields, body) in [
        ("PATCH /v1/shop/things/1", MERGE, r#"{"n":2}"#),
        ("PATCH /v1/shop/things/2", MERGE, r#"{"a":{"$pairs":[["b\u0000",1]]}}"#),
        ("PATCH /v1/shop/things/2", MERGE, r#"{"a":{"$pairs":[[1,1]]}}"#),
        ("PATCH /v1/shop/things/2", JSON, r#"[{"op":"add","path":"/b\u0000","value":1}]"#),
        ("PUT /v1/shop/things/2", "", r#"{"a":{"$pairs":[["b\u0000",1]]}}"#),
        ("PUT /v1/shop/things/2", "", r#"{"a":[{"$pairs":[[1,1]]}]}"#),
        ("PUT /v1/shop/things/2", "", r#"{"a":1,"b":{"c":1,"c":2}}"#),
    ] {
        let refused = connection.ask(start, fields, body);
        assert_eq!(refused.status, 400, "{start} {body} {refused:?}");
        let text = match body {
            body if body.contains("[1,1]") => "names are text",
            body if body.contains("\"c\"") => "a name that is new in its map",
            _ => "a name without",
        };
        assert!(refused.body.contains(text), "{start} {body} {refused:?}");
    }
    assert_eq!([1, 2].map(|key| things.get(key).unwrap()), before);
    // It is read, and can be replaced.
    assert!(get(&mut connection, "/v1/shop/things/1").contains("b\\u0000"));
    assert_eq!(connection.ask("PUT /v1/shop/things/1", "", "{}").status, 204);
}

#[test]
fn a_write_with_a_condition_happens_if_it_holds() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let path = "/v1/shop/users/1";
    let mut status = |start: &str, fields: &str, body: &str| {
        let reply = connection.ask(&format!("{start} {path}"), fields, body);
        (reply.status, reply.field("etag").unwrap_or_default().to_owned())
    };
    assert_eq!(status("PUT", "If-Match: *\r\n", "{}").0, 412);
    assert_eq!(status("DELETE", "If-Match: \"x\"\r\n", "").0, 412);
    let (made, first) = status("PUT", "If-None-Match: *\r\n", r#"{"n":1}"#);
    assert_eq!(made, 201);
    assert_eq!(status("PUT", "If-None-Match: *\r\n", "{}").0, 412);
    let of_first = format!("If-Match: \"x\", {first}\r\n");
    let (changed, second) = status("PUT", &of_first, r#"{"n":2}"#);
    assert_eq!(changed, 204);
    for (start, fields, body) in
        [("PUT", "", r#"{"n":3}"#), ("PATCH", MERGE, r#"{"n":3}"#), ("DELETE", "", "")]
    {
        assert_eq!(status(start, &format!("{of_first}{fields}"), body).0, 412, "{start}");
    }
    assert_eq!(status("PUT", &format!("If-Match: W/{second}\r\n"), "{}").0, 412, "a weak tag");
    assert_eq!(status("DELETE", &format!("If-Match: {second}\r\n"), "").0, 204);
}

/// Two clients that read, add one and write with the version lose nothing.
#[test]
fn versions_keep_writers_apart() {
    let serving = Serving::new(ServeOptions::default());
    serving.ask("PUT /v1/shop/counters/c", "", r#"{"n":0}"#);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let mut connection = serving.connect();
                let mut done = 0;
                while done < 25 {
                    let read = connection.ask("GET /v1/shop/counters/c", "", "");
                    let n = read.document().int("n").unwrap() + 1;
                    let fields = format!("If-Match: {}\r\n", read.etag());
                    let body = format!("{{\"n\":{n}}}");
                    match connection.ask("PUT /v1/shop/counters/c", &fields, &body).status {
                        204 => done += 1,
                        status => assert_eq!(status, 412),
                    }
                }
            });
        }
    });
    assert_eq!(serving.ask("GET /v1/shop/counters/c", "", "").document().int("n"), Some(100));
}

#[test]
fn a_key_is_extended_json_or_text() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    for (path, id) in [
        ("7", "7"),
        ("%227%22", "\"7\""),
        ("ada", "\"ada\""),
        ("a%2Fb%20c", "\"a/b c\""),
        ("true", "true"),
        (
            "%7B%22$oid%22:%22507f1f77bcf86cd799439011%22%7D",
            "{\"$oid\":\"507f1f77bcf86cd799439011\"}",
        ),
        ("%7B%22a%22:1,%22b%22:%22c%22%7D", "{\"a\":1,\"b\":\"c\"}"),
        ("%22export%22", "\"export\""),
        ("1.5", "1.5"),
        ("2026-11-29", "\"2026-11-29\""),
    ] {
        let put = connection.ask(&format!("PUT /v1/shop/keys/{path}"), "", r#"{"x":1}"#);
        assert_eq!(put.status, 201, "{path} {put:?}");
        let body = get(&mut connection, &format!("/v1/shop/keys/{path}"));
        assert_eq!(body, format!("{{\"_id\":{id},\"x\":1}}\n"), "{path}");
        let deleted = connection.ask(&format!("DELETE /v1/shop/keys/{path}"), "", "");
        assert_eq!(deleted.status, 204, "{path}");
    }
    for (path, body) in [
        ("[1]", "{}"),
        ("1", r#"{"_id":2}"#),
        ("1", "[]"),
        ("1", "1"),
        ("1", "{"),
        ("1", r#"{"$set":{"a":1}}"#),
        ("1", r#"{"_id":[1]}"#),
    ] {
        let reply = connection.ask(&format!("PUT /v1/shop/keys/{path}"), "", body);
        assert_eq!(reply.status, 400, "{path} {body} {reply:?}");
    }
    connection.ask("PUT /v1/shop/keys/1", "", "{}");
    for patch in [r#"{"_id":2}"#, r#"{"_id":null}"#, "[]", "1"] {
        let reply = connection.ask("PATCH /v1/shop/keys/1", MERGE, patch);
        assert_eq!(reply.status, 400, "{patch} {reply:?}");
    }
    for patch in [
        r#"[{"op":"remove","path":"/_id"}]"#,
        r#"[{"op":"replace","path":"","value":{}}]"#,
        r#"[{"op":"remove","path":"/none"}]"#,
        "{}",
    ] {
        let reply = connection.ask("PATCH /v1/shop/keys/1", JSON, patch);
        assert_eq!(reply.status, 400, "{patch} {reply:?}");
        // The error told of an ObjectId that nobody had sent.
        assert!(!reply.body.contains("found"), "{patch} {reply:?}");
    }
    assert_eq!(get(&mut connection, "/v1/shop/keys/1"), "{\"_id\":1}\n");
}

#[test]
fn an_export_has_all_documents_and_takes_a_query() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    assert_eq!(get(&mut connection, "/v1/shop/none/export"), "");
    let mut batch = String::new();
    for n in 0..2500 {
        batch.push_str(&format!(
            "{}{{\"_id\":{n},\"n\":{},\"t\":\"x\"}}",
            if n == 0 { "" } else { "," },
            n % 10
        ));
    }
    let insert = format!(
        "{{\"db\":\"shop\",\"command\":{{\"insert\":\"things\",\"documents\":[{batch}]}}}}"
    );
    assert_eq!(connection.ask("POST /v1/command", "", &insert).status, 200);
    let all = connection.ask("GET /v1/shop/things/export", "", "");
    assert_eq!(all.field("content-type"), Some("application/x-ndjson"));
    assert_eq!(all.body.lines().count(), 2500);
    assert_eq!(all.body.lines().nth(1234), Some(r#"{"_id":1234,"n":4,"t":"x"}"#));
    let path =
        "/v1/shop/things/export?filter=%7B%22n%22:3%7D&fields=t&sort=%7B%22_id%22:-1%7D&limit=2";
    assert_eq!(
        get(&mut connection, path),
        "{\"_id\":2493,\"t\":\"x\"}\n{\"_id\":2483,\"t\":\"x\"}\n"
    );
    let path = "/v1/shop/things/export?fields=%7B%22_id%22:0,%22n%22:1%7D&limit=1";
    assert_eq!(get(&mut connection, path), "{\"n\":0}\n");
    let path = "/v1/shop/things/export?fields=n&sort=-n,_id&limit=2";
    assert_eq!(get(&mut connection, path), "{\"_id\":9,\"n\":9}\n{\"_id\":19,\"n\":9}\n");
    for bad in [
        "filter=%7B",
        "limit=0",
        "limit=x",
        "limit=1&limit=2",
        "more=1",
        "filter=%7B%22$x%22:1%7D",
        "sort=-",
        "sort=%7B%22n%22:%22x%22%7D",
    ] {
        let reply = connection.ask(&format!("GET /v1/shop/things/export?{bad}"), "", "");
        assert_eq!(reply.status, 400, "{bad} {reply:?}");
    }
    assert_eq!(connection.ask("HEAD /v1/shop/things/export", "", "").status, 200);
    // An old client gets the lines up to the end of the connection.
    connection.stream.write_all(b"GET /v1/shop/things/export HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    connection.reader.read_to_string(&mut text).unwrap();
    assert_eq!(text.split_once("\r\n\r\n").unwrap().1, all.body);
    let metrics = serving.ask("GET /metrics", "", "").body;
    assert!(metrics.contains("flagstone_open_cursors 0\n"), "{metrics}");
}

/// A comma within a version separated two, so that `"a,*,b"` was a star: a write that expected a
/// version nobody has replaced any document. A weak version counted for If-Match, and none for a
/// write with If-None-Match (RFC 9110, 13.1).
#[test]
fn conditions_are_lists_of_versions_or_a_star() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let path = "/v1/shop/users/1";
    let tag = connection.ask(&format!("PUT {path}"), "", "{}").etag().to_owned();
    let mut status = |method: &str, fields: &str| {
        let body = if method == "PUT" { "{}" } else { "" };
        connection.ask(&format!("{method} {path}"), fields, body).status
    };
    for (fields, read) in [
        (format!("If-Match: \"x\", W/{tag},{tag}\r\n"), 200),
        (format!("If-Match: \"x,*,y\" ,  {tag}\r\n"), 200),
        (format!("If-Match: \"x\"\r\nIf-Match: {tag}\r\n"), 200),
        ("If-Match: \"a,*,b\"\r\n".to_owned(), 412),
        (format!("If-Match: W/{tag}\r\n"), 412),
        ("If-Match: *\r\n".to_owned(), 200),
        (format!("If-None-Match: W/{tag}\r\n"), 304),
        (format!("If-None-Match: \"x\",{tag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"a,*,b\"\r\n".to_owned(), 200),
        (format!("If-Match: {tag}\r\nIf-None-Match: \"x\"\r\n"), 200),
        (format!("If-Match: \"x\"\r\nIf-None-Match: {tag}\r\n"), 412),
        ("If-Match: \r\n".to_owned(), 400),
        (format!("If-Match: {}\r\n", tag.trim_matches('"')), 400),
        (format!("If-Match: {tag} {tag}\r\n"), 400),
        (format!("If-Match: {tag},\r\n"), 400),
        ("If-Match: \"x\r\n".to_owned(), 400),
        ("If-None-Match: *, \"x\"\r\n".to_owned(), 400),
        (format!("If-None-Match: *\r\nIf-None-Match: {tag}\r\n"), 400),
        ("If-None-Match: w/\"x\"\r\n".to_owned(), 400),
    ] {
        assert_eq!(status("GET", &fields), read, "{fields}");
        if read >= 304 {
            let write = if read == 304 { 412 } else { read };
            assert_eq!(status("PUT", &fields), write, "{fields}");
            assert_eq!(status("DELETE", &fields), write, "{fields}");
        }
    }
    assert_eq!(status("PUT", &format!("If-Match: {tag}\r\n")), 204);
}

/// Patches and replacements dropped the expiry of a document, which stayed for ever then.
#[test]
fn what_is_changed_expires_when_it_would_have() {
    use flagstone::{Expires, Space};
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    let db = serving.service.database();
    let users = db.collection("shop.users").unwrap();
    let later = db.now().after(std::time::Duration::from_secs(3600));
    users.put("ada", flagstone::doc!({ "n": 1 }).expires(later)).unwrap();
    let path = "/v1/shop/users/ada";
    assert_eq!(connection.ask(&format!("PATCH {path}"), MERGE, "{\"n\":2}").status, 204);
    assert_eq!(users.expiry("ada").unwrap(), Some(later));
    assert_eq!(connection.ask(&format!("PUT {path}"), "", "{\"n\":3}").status, 204);
    assert_eq!(users.expiry("ada").unwrap(), Some(later));
    // What has expired is not there: neither for conditions nor for what is put in its place.
    let before = db.now();
    let tag = connection.ask(&format!("PUT {path}"), "", "{}").etag().to_owned();
    users.put("ada", flagstone::doc!({ "n": 4 }).expires(before)).unwrap();
    for method in ["GET", "DELETE"] {
        let mut status =
            |fields: &str| connection.ask(&format!("{method} {path}"), fields, "").status;
        assert_eq!(status(""), 404, "{method}");
        assert_eq!(status(&format!("If-Match: {tag}\r\n")), 412, "{method}");
        assert_eq!(status("If-Match: *\r\n"), 412, "{method}");
        assert_eq!(status("If-None-Match: *\r\n"), 404, "{method}");
    }
    let made = connection.ask(&format!("PUT {path}"), "If-None-Match: *\r\n", "{}");
    assert_eq!(made.status, 201);
    assert_eq!(users.expiry("ada").unwrap(), None);
}

#[test]
fn keys_of_every_type_are_read_as_they_are_put() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    for (key, shown) in [
        ("7", "7"),
        ("-0", "0"),
        ("1.5", "1.5"),
        ("\"7\"", "\"7\""),
        ("true", "true"),
        ("null", "null"),
        ("\"\"", "\"\""),
        ("\"a\\u0000b\"", "\"a\\u0000b\""),
        ("a/b", "\"a/b\""),
        ("a\0b", "\"a\\u0000b\""),
        ("export", "\"export\""),
        ("..", "\"..\""),
        ("%", "\"%\""),
        ("é😀", "\"é😀\""),
        ("{\"$oid\":\"0123456789abcdef01234567\"}", "{\"$oid\":\"0123456789abcdef01234567\"}"),
        ("{\"$date\":\"1970-01-01T00:00:00Z\"}", "{\"$date\":\"1970-01-01T00:00:00Z\"}"),
        ("{\"$uuid\":\"01234567-89ab-cdef-0123-456789abcdef\"}", "\"$uuid\""),
        ("{\"a\":1,\"b\":[2]}", "{\"a\":1,\"b\":[2]}"),
        ("{\"$numberDecimal\":\"1.10\"}", "1.10"),
    ] {
        let key = if key == "export" { "\"export\"" } else { key };
        let path: String = key.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let path = format!("/v1/shop/keys/{path}");
        let made = connection.ask(&format!("PUT {path}"), "", "{\"n\":1}");
        assert_eq!(made.status, 201, "{key} {made:?}");
        let read = connection.ask(&format!("GET {path}"), "", "");
        assert_eq!(read.etag(), made.etag(), "{key}");
        assert!(read.body.contains(shown), "{key} {}", read.body);
        // What was read can be put there, and found by its key.
        assert_eq!(connection.ask(&format!("PUT {path}"), "", &read.body).status, 204, "{key}");
        assert_eq!(connection.ask(&format!("PATCH {path}"), MERGE, "{\"n\":2}").status, 204);
        assert!(get(&mut connection, &path).contains("\"n\":2"), "{key}");
        assert_eq!(connection.ask(&format!("DELETE {path}"), "", "").status, 204, "{key}");
        assert_eq!(connection.ask(&format!("GET {path}"), "", "").status, 404, "{key}");
    }
    for key in [
        "%5B1%5D",
        "%7B%22$regularExpression%22:%7B%22pattern%22:%22a%22,%22options%22:%22%22%7D%7D",
    ] {
        let reply = connection.ask(&format!("PUT /v1/shop/keys/{key}"), "", "{}");
        assert_eq!(reply.status, 400, "{key} {reply:?}");
    }
}

/// A PUT made the collection before its body was read, and one without what change streams need.
#[test]
fn only_a_request_that_is_done_creates_a_collection() {
    let serving = Serving::new(ServeOptions::default());
    let mut connection = serving.connect();
    for (fields, body) in [("", "{"), ("", "[]"), ("", "{\"_id\":2}"), ("If-Match: *\r\n", "{}")] {
        let reply = connection.ask("PUT /v1/shop/new/1", fields, body);
        assert!(matches!(reply.status, 400 | 412), "{body} {reply:?}");
    }
    assert_eq!(connection.ask("GET /v1/shop/new/1", "", "").status, 404);
    connection.ask("DELETE /v1/shop/new/1", "", "");
    connection.ask("GET /v1/shop/new/export", "", "");
    connection.ask("PATCH /v1/shop/new/1", MERGE, "{}");
    let names = serving.service.database().keyspaces();
    assert!(names.iter().all(|info| !info.name.contains("new")), "{names:?}");
}

/// A collection that is dropped while it is exported is exported to its end, or the last line says
/// that it was not.
#[test]
fn an_export_of_what_is_dropped_says_how_it_ends() {
    let serving = Serving::new(ServeOptions::default());
    let lines: String =
        (0..100_000).map(|n| format!("{{\"id\":{n},\"text\":\"{n:0200}\"}}\n")).collect();
    assert_eq!(serving.ask("POST /v1/shop/things/load", "", &lines).status, 200);
    let mut connection = serving.connect();
    connection.send("GET /v1/shop/things/export", "", "");
    let mut first = String::new();
    std::io::BufRead::read_line(&mut connection.reader, &mut first).unwrap();
    let drop = r#"{"db":"shop","command":{"drop":"things"}}"#;
    assert_eq!(serving.ask("POST /v1/command", "", drop).status, 200);
    let mut rest = String::new();
    connection.stream.shutdown(std::net::Shutdown::Write).unwrap();
    connection.reader.read_to_string(&mut rest).unwrap();
    let is_whole = rest.contains("\"id\":99999,") && rest.ends_with("\r\n0\r\n\r\n");
    assert!(is_whole || rest.contains("{\"$error\":"), "{}", &rest[rest.len() - 300..]);
}

/// An export went on with the rights that its user had when it began.
#[test]
fn an_export_ends_with_the_rights_of_its_user() {
    let serving = Serving::with_users();
    let things = serving.service.database().collection("shop.things").unwrap();
    let text = "x".repeat(20_000);
    for n in 0..2000_i64 {
        things.put(n, flagstone::doc!({ "text": (text.as_str()) })).unwrap();
    }
    let mut connection = serving.connect();
    connection.send("GET /v1/shop/things/export", BOB, "");
    assert!(connection.line().unwrap().starts_with("HTTP/1.1 200 "));
    serving.service.users().update("bob", None, Some(Vec::new())).unwrap();
    let mut rest = Vec::new();
    let _reset = std::io::Read::read_to_end(&mut connection.reader, &mut rest);
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.len() < 30_000_000, "all of it was sent: {} bytes", rest.len());
    let end = &rest[rest.len().saturating_sub(400)..];
    assert!(end.contains("\"$error\"") && end.contains("\"code\":13"), "{end}");
    assert_eq!(serving.service.database().stats().keyspaces.len(), 2);
}

/// To read a document and to put it back changed the types of its numbers.
#[test]
fn numbers_keep_their_types_when_a_document_is_put_back() {
    let serving = Serving::new(ServeOptions::default());
    let command = |command: &str| {
        let body = format!(r#"{{"db":"shop","command":{command}}}"#);
        serving.ask("POST /v1/command", "", &body).body
    };
    let typed = concat!(
        r#"{"_id":1,"price":{"$numberDecimal":"100"},"qty":{"$numberLong":"5"},"#,
        r#""r":{"$numberDecimal":"0.5"},"n":7,"x":1.5,"exact":1.10}"#
    );
    command(&format!(r#"{{"insert":"c","documents":[{typed}]}}"#));
    let types = || {
        let type_of = |name: &str| format!(r#""{name}":{{"$type":"${name}"}}"#);
        let fields = ["price", "qty", "r", "n", "x", "exact"].map(type_of).join(",");
        let reply = command(&format!(
            r#"{{"aggregate":"c","pipeline":[{{"$project":{{"_id":0,{fields}}}}}],"cursor":{{}}}}"#
        ));
        let found = flagstone::Document::from_json(&reply).unwrap();
        found.get("cursor.firstBatch.0").unwrap().to_string()
    };
    let before = types();
    let expected = concat!(
        r#"{"price":"decimal","qty":"long","r":"decimal","#,
        r#""n":"int","x":"double","exact":"decimal"}"#
    );
    assert_eq!(before, expected);
    let read = serving.ask("GET /v1/shop/c/1", "", "");
    assert_eq!(read.body.trim_end(), typed);
    assert_eq!(serving.ask("PUT /v1/shop/c/1", "", &read.body).status, 204);
    assert_eq!(types(), before);
    let exported = serving.ask("GET /v1/shop/c/export", "", "").body;
    assert_eq!(exported.trim_end(), typed);
    // Programs count with the integers of replies.
    let found = command(r#"{"find":"c","projection":{"_id":0,"qty":1,"price":1}}"#);
    assert!(found.contains(r#"{"price":{"$numberDecimal":"100"},"qty":5}"#), "{found}");
}
