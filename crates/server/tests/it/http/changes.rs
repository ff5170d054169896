//! Changes as server-sent events.

use super::{ADA, BOB, Connection, Serving};
use flagstone::changes::ChangeRetention;
use flagstone::{Document, Options};
use flagstone_server::net::ServeOptions;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An event: what it is, its id, and its data.
#[derive(Debug, Default, PartialEq)]
struct Event {
    kind: String,
    id: String,
    data: String,
}

impl Event {
    fn document(&self) -> Document {
        Document::from_json(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Begins a stream, and returns its status.
fn begin(connection: &mut Connection, query: &str, fields: &str) -> u16 {
    connection.send(&format!("GET /v1/changes{query}"), fields, "");
    let status = connection.line().unwrap();
    let mut is_events = false;
    loop {
        let line = connection.line().unwrap();
        is_events |= line == "Content-Type: text/event-stream";
        if line.is_empty() {
            break;
        }
    }
    let status = status.split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(is_events, status == 200);
    status
}

/// Returns the next block of a stream; `None` at its end.
fn block(connection: &mut Connection) -> Option<Event> {
    let mut event = Event::default();
    let size = connection.line()?;
    if size == "0" {
        return None;
    }
    loop {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut connection.reader, &mut line).ok()?;
        match line.trim_end_matches('\n').split_once(": ") {
            Some(("event", kind)) => kind.clone_into(&mut event.kind),
            Some(("id", id)) => id.clone_into(&mut event.id),
            Some(("data", data)) => data.clone_into(&mut event.data),
            Some(("retry", _)) => {}
            _ => break,
        }
    }
    assert_eq!(connection.line().as_deref(), Some(""), "the end of the chunk");
    Some(event)
}

/// Returns the next event.
fn event(connection: &mut Connection) -> Event {
    loop {
        let event = block(connection).unwrap();
        if !event.kind.is_empty() {
            return event;
        }
    }
}

fn keeping() -> Options {
    Options::new().change_retention(ChangeRetention::bytes(64 << 20))
}

#[test]
fn a_stream_is_resumed_by_the_id_of_any_event_and_after_a_restart() {
    let serving = Serving::of(keeping(), ServeOptions::default());
    let mut connection = serving.connect();
    assert_eq!(begin(&mut connection, "?db=shop", ""), 200);
    let first = block(&mut connection).unwrap();
    assert!(first.kind.is_empty() && first.id.contains('/'), "where it begins: {first:?}");
    for n in 0..3 {
        assert_eq!(serving.ask(&format!("PUT /v1/shop/things/{n}"), "", "{\"n\":1}").status, 201);
    }
    serving.ask("PUT /v1/other/things/1", "", "{}");
    serving.ask("PUT /v1/shop/things/1", "", "{\"n\":2}");
    serving.ask("DELETE /v1/shop/things/2", "", "");
    let seen: Vec<_> = (0..5).map(|_| event(&mut connection)).collect();
    let kinds: Vec<_> = seen.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["insert", "insert", "insert", "replace", "delete"]);
    for event in &seen {
        let document = event.document();
        assert_eq!(document.str("operationType"), Some(event.kind.as_str()));
        assert_eq!(document.str("_id._data"), Some(event.id.as_str()));
        assert_eq!(document.str("ns.db"), Some("shop"));
    }
    assert_eq!(seen[3].document().int("fullDocument.n"), Some(2));
    let resumed = |serving: &Serving| {
        let begins = std::iter::once(&first).chain(&seen);
        for (n, after) in begins.enumerate() {
            let mut connection = serving.connect();
            let field = format!("Last-Event-ID: {}\r\n", after.id);
            assert_eq!(begin(&mut connection, "?db=shop&after=x", &field), 200);
            for expected in &seen[n..] {
                let found = event(&mut connection);
                assert_eq!((&found.kind, &found.id), (&expected.kind, &expected.id), "after {n}");
            }
        }
        let after = seen[3].id.replace('/', "%2F");
        let mut connection = serving.connect();
        begin(&mut connection, &format!("?db=shop&collection=things&after={after}"), "");
        assert_eq!(event(&mut connection).kind, "delete");
    };
    resumed(&serving);
    drop(connection);
    resumed(&serving.restarted(keeping(), ServeOptions::default()));
}

/// All events of a commit were decoded before the first was sent: 16 MiB of documents took many
/// times that, for each client that watched.
#[test]
fn a_large_commit_is_sent_in_parts_and_resumed_within() {
    let serving = Serving::of(keeping(), ServeOptions::default());
    let mut connection = serving.connect();
    begin(&mut connection, "?db=shop", "");
    let start = block(&mut connection).unwrap();
    let things = serving.service.database().collection("shop.things").unwrap();
    things.keep_old_documents(true).unwrap();
    let mut batch = serving.service.database().batch();
    for n in 0..5000_i64 {
        let text = "x".repeat(1000);
        batch.put(&things, n, flagstone::doc!({ "text": (text.as_str()) })).unwrap();
    }
    serving.service.database().commit(batch).unwrap();
    let mut ids = Vec::new();
    for n in 0..5000 {
        let event = event(&mut connection);
        assert_eq!(event.document().int("documentKey._id"), Some(n), "{n}");
        ids.push(event.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 5000);
    for n in [0, 999, 1000, 4998] {
        let mut connection = serving.connect();
        begin(&mut connection, "?db=shop", &format!("Last-Event-ID: {}\r\n", ids[n]));
        let event = event(&mut connection);
        assert_eq!(event.document().int("documentKey._id"), Some(n as i64 + 1));
        assert_eq!(event.id, ids[n + 1]);
    }
    let _start = start;
}

#[test]
fn a_stream_is_refused_to_those_who_may_not_read_and_where_nothing_is_kept() {
    let serving = Serving::new(ServeOptions::default());
    let refused = serving.ask("GET /v1/changes", "", "");
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("--keep"), "{refused:?}");
    let serving = Serving::of(keeping(), ServeOptions::default());
    for (query, fields) in [
        ("?collection=a", ""),
        ("?db=a.b", ""),
        ("?db=a&collection=$b", ""),
        ("?db=a&x=1", ""),
        ("?fullDocument=x", ""),
        ("", "Last-Event-ID: x\r\n"),
        ("", "Last-Event-ID: 1/x\r\n"),
    ] {
        let reply = serving.ask(&format!("GET /v1/changes{query}"), fields, "");
        assert_eq!(reply.status, 400, "{query} {fields} {reply:?}");
    }
    assert_eq!(serving.ask("GET /v1/changes?db=a&collection=system.users", "", "").status, 403);
    let serving = serving.peopled();
    let status = |query: &str, user: &str| begin(&mut serving.connect(), query, user);
    assert_eq!((status("", ADA), status("?db=shop", ADA)), (200, 200));
    assert_eq!((status("", BOB), status("?db=shop", BOB), status("?db=a", BOB)), (403, 200, 403));
    assert_eq!(status("", ""), 401);
}

#[test]
fn a_stream_ends_with_the_rights_of_its_user_and_with_the_server() {
    let serving = Serving::of(keeping(), ServeOptions::default()).peopled();
    let mut ada = serving.connect();
    let mut bob = serving.connect();
    assert_eq!((begin(&mut ada, "", ADA), begin(&mut bob, "?db=shop", BOB)), (200, 200));
    serving.service.users().remove("ada").unwrap();
    let end = event(&mut ada);
    assert_eq!(end.kind, "error");
    assert_eq!(end.document().int("$error.code"), Some(13), "{end:?}");
    ada.ended();
    serving.ask("PUT /v1/shop/things/1", BOB, "{}");
    assert_eq!(event(&mut bob).kind, "insert");
    assert_eq!(serving.server.stop(Duration::from_secs(30)), 0);
    while block(&mut bob).is_some() {}
}

/// A client that goes away leaves nothing behind.
#[test]
fn a_stream_of_nobody_ends() {
    let serving = Serving::of(keeping(), ServeOptions::default());
    let mut connection = serving.connect();
    begin(&mut connection, "", "");
    block(&mut connection).unwrap();
    assert_eq!(serving.server.connections(), 1);
    drop(connection);
    let ended = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        serving.server.connections() == 0
    });
    assert!(ended);
}

#[test]
fn a_dropped_collection_ends_its_stream() {
    let serving = Serving::of(keeping(), ServeOptions::default());
    serving.ask("PUT /v1/shop/things/1", "", "{}");
    let mut connection = serving.connect();
    begin(&mut connection, "?db=shop&collection=things", "");
    block(&mut connection).unwrap();
    let body = r#"{"db":"shop","command":{"drop":"things"}}"#;
    assert_eq!(serving.ask("POST /v1/command", "", body).status, 200);
    assert_eq!(event(&mut connection).kind, "drop");
    assert_eq!(event(&mut connection).kind, "invalidate");
    assert_eq!(block(&mut connection), None);
}

/// Only commands of drivers wrote the marks by which events have times: those of other writes had
/// the time of the last such command, and a stream from a later time on left them out.
#[test]
fn writes_of_requests_have_the_time_at_which_they_are_done() {
    let serving = Serving::of(keeping(), ServeOptions::default());
    let create = r#"{"db":"shop","command":{"insert":"things","documents":[{"_id":0}]}}"#;
    assert_eq!(serving.ask("POST /v1/command", "", create).status, 200);
    let now = || {
        // Times may be ahead of the clock by a second.
        std::thread::sleep(Duration::from_millis(2200));
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
    };
    let inserted_since = |seconds: u64| {
        let stream = format!(
            r#"{{"db":"shop","command":{{"aggregate":"things","cursor":{{"batchSize":0}},
                "pipeline":[{{"$changeStream":{{"startAtOperationTime":
                {{"$timestamp":{{"t":{seconds},"i":1}}}}}}}}]}}}}"#
        );
        let reply = serving.ask("POST /v1/command", "", &stream).document();
        let more = format!(
            r#"{{"db":"shop","command":{{"getMore":{{"$numberLong":"{}"}},
                "collection":"things","maxTimeMS":1000}}}}"#,
            reply.int("cursor.id").unwrap()
        );
        let reply = serving.ask("POST /v1/command", "", &more).document();
        reply.int("cursor.nextBatch.0.documentKey._id")
    };
    let since = now();
    assert_eq!(serving.ask("PUT /v1/shop/things/1", "", r#"{"n":1}"#).status, 201);
    assert_eq!(inserted_since(since), Some(1));
    // A load has the time at which its documents come, not that of its begin.
    let mut connection = serving.connect();
    connection.send("POST /v1/shop/things/load", "Transfer-Encoding: chunked\r\n", "");
    let since = now();
    connection.stream.write_all(b"8\r\n{\"id\":2}\r\n0\r\n\r\n").unwrap();
    assert_eq!(connection.reply(false).unwrap().status, 200);
    assert_eq!(inserted_since(since), Some(2));
}
