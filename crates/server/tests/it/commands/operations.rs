//! Commands that run: they are listed, ended, counted.

use super::{Fixture, parse};
use flagstone::Document;
use flagstone_server::command::Service;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Never ends by itself.
const ENDLESS: &str = r#""pipeline":[{"$documents":[{"a":1}]},{"$project":{"x":{"$reduce":{
    "input":{"$range":[0,1000000]},"initialValue":0,"in":{"$reduce":{
    "input":{"$range":[0,1000000]},"initialValue":0,"in":{"$add":["$$this",1]}}}}}}}],"cursor":{}"#;

/// Runs a command as a client of its own.
fn run(service: &Arc<Service>, database: &str, command: &str) -> Document {
    let mut client = service.client("there".to_owned(), "here".to_owned(), true);
    service.run(&mut client, database, &parse(command)).unwrap()
}

/// Waits until a command of this name runs, and returns its number.
fn running(service: &Arc<Service>, name: &str) -> i64 {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let filter = format!(r#"{{"currentOp":1,"command.{name}":{{"$exists":true}}}}"#);
        let listed = run(service, "admin", &filter);
        assert_eq!(listed.float("ok"), Some(1.0), "{listed}");
        if let Some(id) = listed.int("inprog.0.opid") {
            return id;
        }
        assert!(Instant::now() < deadline, "no {name} runs");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Begins a command in another thread, ends it when it runs, and returns its reply.
fn ended(service: &Arc<Service>, database: &'static str, name: &str, command: String) -> Document {
    let other = Arc::clone(service);
    let thread = std::thread::spawn(move || run(&other, database, &command));
    let id = running(service, name);
    let told = run(service, "admin", &format!(r#"{{"killOp":1,"op":{id}}}"#));
    assert_eq!(told.float("ok"), Some(1.0), "{told}");
    thread.join().unwrap()
}

#[track_caller]
fn is_interrupted(reply: &Document) {
    assert_eq!((reply.float("ok"), reply.int("code")), (Some(0.0), Some(11601)), "{reply}");
    assert_eq!(reply.str("codeName"), Some("Interrupted"));
}

#[test]
fn a_command_that_runs_is_listed_without_its_values_and_ended() {
    let fixture = Fixture::new();
    let service = &fixture.service;
    let command = format!(r#"{{"aggregate":1,{ENDLESS}}}"#);
    let other = Arc::clone(service);
    let thread = std::thread::spawn(move || run(&other, "shop", &command));
    let id = running(service, "aggregate");
    let stage = r#"{"aggregate":1,"cursor":{},"pipeline":[{"$currentOp":{"allUsers":true}},
        {"$match":{"ns":"shop.$cmd"}}]}"#;
    let listed = run(service, "admin", stage);
    assert_eq!(listed.int("cursor.firstBatch.0.opid"), Some(id), "{listed}");
    assert_eq!(listed.str("cursor.firstBatch.0.client"), Some("there"));
    assert_eq!(listed.int("cursor.firstBatch.0.command.aggregate"), Some(1));
    assert!(!listed.to_string().contains("$range"), "{listed}");
    assert!(listed.int("cursor.firstBatch.0.microsecs_running").is_some());
    run(service, "admin", &format!(r#"{{"killOp":1,"op":{id}}}"#));
    is_interrupted(&thread.join().unwrap());
    // One that has ended already.
    let told = run(service, "admin", &format!(r#"{{"killOp":1,"op":{id}}}"#));
    assert_eq!(told.float("ok"), Some(1.0));
}

#[test]
fn a_wait_for_events_is_ended() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    let service = &fixture.service;
    let watch = r#"{"aggregate":"s","pipeline":[{"$changeStream":{}}],"cursor":{}}"#;
    let cursor = run(service, "test", watch).int("cursor.id").unwrap();
    let more =
        format!(r#"{{"getMore":{{"$numberLong":"{cursor}"}},"collection":"s","maxTimeMS":5000}}"#);
    is_interrupted(&ended(service, "test", "getMore", more));
}

#[test]
fn a_wait_for_another_command_of_the_session_is_ended() {
    let fixture = Fixture::new();
    let service = &fixture.service;
    let session = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}},
        "txnNumber":{"$numberLong":"1"},"autocommit":false"#;
    let holds = format!(r#"{{"aggregate":1,{ENDLESS},{session},"startTransaction":true}}"#);
    let other = Arc::clone(service);
    let thread = std::thread::spawn(move || run(&other, "shop", &holds));
    let id = running(service, "aggregate");
    let waits = format!(r#"{{"find":"orders",{session}}}"#);
    is_interrupted(&ended(service, "shop", "find", waits));
    run(service, "admin", &format!(r#"{{"killOp":1,"op":{id}}}"#));
    is_interrupted(&thread.join().unwrap());
}

#[test]
fn an_index_build_is_ended_and_leaves_nothing() {
    let mut fixture = Fixture::new();
    for from in [0, 1000, 2000] {
        let documents: Vec<_> =
            (from..from + 1000).map(|n| format!(r#"{{"_id":{n},"n":{n}}}"#)).collect();
        let insert = format!(r#"{{"insert":"c","documents":[{}]}}"#, documents.join(","));
        fixture.run("test", &insert);
    }
    let create = r#"{"createIndexes":"c","indexes":[{"key":{"n":1},"name":"n_1"}]"#;
    let ended = fixture.run("test", &format!(r#"{create},"maxTimeMS":1}}"#));
    assert_eq!(ended.int("code"), Some(50), "{ended}");
    let listed = fixture.run("test", r#"{"listIndexes":"c"}"#);
    assert!(listed.get("cursor.firstBatch.1").is_none(), "{listed}");
    // One that the tool has asked for was built to its end.
    let of_tool = r#"{"flagstone":"createIndex","collection":"c","name":"n","fields":["n"]"#;
    let ended = fixture.run("test", &format!(r#"{of_tool},"maxTimeMS":1}}"#));
    assert_eq!(ended.int("code"), Some(50), "{ended}");
    // Its time may be over before it begins to build.
    let text = ended.str("errmsg").unwrap();
    assert!(
        ["stopped: there is no index n", "the call was interrupted"].contains(&text),
        "{ended}"
    );
    let listed = fixture.run("test", r#"{"listIndexes":"c"}"#);
    assert!(listed.get("cursor.firstBatch.1").is_none(), "{listed}");
    let created = fixture.run("test", &format!("{create}}}"));
    assert_eq!(created.int("numIndexesAfter"), Some(2), "{created}");
}

#[test]
fn commands_of_a_session_end_with_it() {
    let fixture = Fixture::new();
    let service = &fixture.service;
    for kill in [
        r#"{"killSessions":[{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}}]}"#,
        r#"{"killAllSessions":[]}"#,
    ] {
        let command = format!(
            r#"{{"aggregate":1,{ENDLESS},
                "lsid":{{"id":{{"$uuid":"00000000-0000-4000-8000-000000000001"}}}}}}"#
        );
        let other = Arc::clone(service);
        let thread = std::thread::spawn(move || run(&other, "shop", &command));
        running(service, "aggregate");
        assert_eq!(run(service, "admin", kill).float("ok"), Some(1.0));
        is_interrupted(&thread.join().unwrap());
    }
}

#[test]
fn commands_that_run_end_when_the_server_closes() {
    let fixture = Fixture::new();
    let service = &fixture.service;
    let (other, command) = (Arc::clone(service), format!(r#"{{"aggregate":1,{ENDLESS}}}"#));
    let thread = std::thread::spawn(move || run(&other, "shop", &command));
    running(service, "aggregate");
    service.close();
    let reply = thread.join().unwrap();
    assert_eq!(reply.str("codeName"), Some("InterruptedAtShutdown"), "{reply}");
}

#[test]
fn users_see_and_end_their_own_commands() {
    let fixture = Fixture::new();
    let service = &fixture.service;
    let (command, other) = (format!(r#"{{"aggregate":1,{ENDLESS}}}"#), Arc::clone(service));
    let thread = std::thread::spawn(move || run(&other, "shop", &command));
    let id = running(service, "aggregate");
    let role = |kind, database: Option<&str>| {
        vec![flagstone_server::access::Role { kind, database: database.map(str::to_owned) }]
    };
    use flagstone_server::access::RoleKind::{Read, Root};
    service.users().create("eve", "secret", role(Read, None)).unwrap();
    service.users().create("ada", "secret", role(Root, None)).unwrap();
    let mut client = service.client("there".to_owned(), "here".to_owned(), true);
    let mut as_user = |name: &str, command: &str| {
        client.log_in(service.users().get(name).unwrap());
        service.run(&mut client, "admin", &parse(command)).unwrap()
    };
    let seen = as_user("eve", r#"{"currentOp":1,"$all":true}"#);
    assert_eq!(seen.int("inprog.0.command.currentOp"), Some(1), "{seen}");
    assert!(seen.get("inprog.1").is_none(), "{seen}");
    let kill = format!(r#"{{"killOp":1,"op":{id}}}"#);
    assert_eq!(as_user("eve", &kill).float("ok"), Some(1.0));
    assert!(as_user("ada", r#"{"currentOp":1}"#).to_string().contains(&format!("\"opid\":{id}")));
    as_user("ada", &kill);
    is_interrupted(&thread.join().unwrap());
}

#[test]
fn use_and_traffic_are_counted() {
    let mut fixture = Fixture::new();
    fixture.run("shop", r#"{"insert":"orders","documents":[{"_id":1}]}"#);
    fixture.run("shop", r#"{"find":"orders"}"#);
    fixture.run("shop", r#"{"find":"orders"}"#);
    let top = fixture.run("admin", r#"{"top":1}"#);
    let totals = top.get("totals").unwrap();
    let orders = totals.get("shop.orders").unwrap().unwrap();
    let count = |kind: &str| orders.path(&format!("{kind}.count")).unwrap().unwrap().as_i64();
    let counts = ["total", "writeLock", "queries", "insert", "remove"].map(count);
    assert_eq!(counts, [3, 1, 2, 1, 0].map(Some), "{top}");
    let status = fixture.run("admin", r#"{"serverStatus":1}"#);
    assert_eq!(status.int("connections.current"), Some(1));
    assert_eq!(status.int("connections.active"), Some(1));
    assert!(status.int("network.bytesIn").is_some() && status.int("mem.resident").is_some());
}
