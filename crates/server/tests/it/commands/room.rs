//! The memory of what commands are parsed into.

use super::Fixture;
use flagstone_server::command::{Service, ServiceOptions};
use std::time::{Duration, Instant};

/// Returns a service with this room.
fn fixture(bytes: usize) -> Fixture {
    let mut fixture = Fixture::new();
    let mut options = ServiceOptions::default();
    options.parsed_bytes = bytes;
    let database = fixture.service.database().clone();
    fixture.service = Service::new(database, options).unwrap();
    fixture
}

fn list(n: usize) -> String {
    vec!["1"; n].join(",")
}

/// A message of 16 MB was parsed into 220 MB of values that no limit knew of, and sixteen clients
/// had 3 GB.
#[test]
fn a_command_that_is_parsed_into_more_than_there_is_room_for_is_refused() {
    let mut fixture = fixture(1 << 20);
    let many = list(10_000);
    let refused = |fixture: &mut Fixture, command: &str| {
        let reply = fixture.run("shop", command);
        let text = reply.str("errmsg").unwrap_or_default();
        assert!(text.contains("at most 1048576 bytes"), "{reply}");
        assert!(text.contains("(--message-memory)"), "{reply}");
        assert_eq!(reply.int("code"), Some(146));
    };
    refused(&mut fixture, &format!(r#"{{"find":"c","filter":{{"n":{{"$in":[{many}]}}}}}}"#));
    let stage = format!(r#"{{"$project":{{"z":[{many}]}}}}"#);
    let update = format!(r#"{{"q":{{}},"u":{{"$set":{{"z":[{many}]}}}}}}"#);
    for command in [
        format!(r#"{{"aggregate":"c","pipeline":[{stage}],"cursor":{{}}}}"#),
        format!(r#"{{"update":"c","updates":[{{"q":{{}},"u":{{}}}},{update}]}}"#),
        format!(r#"{{"flagstone":"count","collection":"c","filter":"{{\"n\":[{many}]}}"}}"#),
    ] {
        refused(&mut fixture, &command);
    }
    // Documents that are inserted, and small statements, are not parsed at the same time.
    let documents = vec![format!(r#"{{"z":[{many}]}}"#); 3].join(",");
    let inserted = fixture.run("shop", &format!(r#"{{"insert":"c","documents":[{documents}]}}"#));
    assert_eq!(inserted.int("n"), Some(3), "{inserted}");
    let ops = format!(r#"{{"insert":0,"document":{{"z":[{many}]}}}}"#);
    let bulk = format!(r#"{{"bulkWrite":1,"ops":[{ops}],"nsInfo":[{{"ns":"shop.c"}}]}}"#);
    assert_eq!(fixture.run("admin", &bulk).int("nInserted"), Some(1));
    let some = list(2000);
    let update = format!(r#"{{"q":{{}},"u":{{"$set":{{"z":[{some}]}}}},"multi":true}}"#);
    let updates = vec![update; 5].join(",");
    let updated = fixture.run("shop", &format!(r#"{{"update":"c","updates":[{updates}]}}"#));
    assert_eq!(updated.int("n"), Some(20), "{updated}");
}

/// What is left of a query holds its filter. The next command of the same client waited half a
/// minute for that, and failed.
#[test]
fn a_cursor_keeps_the_memory_of_its_command_and_no_command_waits_for_it() {
    let mut fixture = fixture(1 << 20);
    fixture.run("shop", r#"{"insert":"c","documents":[{"n":1},{"n":1},{"n":1}]}"#);
    let many = list(6000);
    let find = |rest: &str| {
        format!(r#"{{"find":"c","filter":{{"n":{{"$in":[{many}]}}}},"batchSize":1{rest}}}"#)
    };
    // The rows that a transaction or a list of writes has made hold none.
    let op = format!(
        r#"{{"update":0,"filter":{{"n":{{"$in":[{many}]}}}},"updateMods":{{"$set":{{"m":1}}}}}}"#
    );
    let rest = r#""nsInfo":[{"ns":"shop.c"}],"cursor":{"batchSize":1}"#;
    let bulk = format!(r#"{{"bulkWrite":1,"ops":[{op},{op}],{rest}}}"#);
    for _ in 0..2 {
        let done = fixture.run("admin", &bulk);
        assert_ne!((done.int("nMatched"), done.int("cursor.id")), (Some(2), Some(0)), "{done}");
        assert_eq!(done.float("ok"), Some(1.0), "{done}");
    }
    let found = fixture.run("shop", &find(""));
    let id = found.int("cursor.id").filter(|id| *id != 0).unwrap_or_else(|| panic!("{found}"));
    // Another is refused at once: it may be the same client that has the first open.
    let began = Instant::now();
    let late = fixture.run("shop", &find(""));
    assert_eq!((late.int("code"), began.elapsed() < Duration::from_secs(20)), (Some(146), true));
    assert!(late.str("errmsg").unwrap().contains("the open cursors of all clients"), "{late}");
    // What leaves no cursor has room.
    let found = fixture.run("shop", &find(r#","singleBatch":true,"maxTimeMS":60000"#));
    assert_eq!(found.float("ok"), Some(1.0), "{found}");
    let kill = format!(r#"{{"killCursors":"c","cursors":[{{"$numberLong":"{id}"}}]}}"#);
    fixture.run("shop", &kill);
    let found = fixture.run("shop", &find(r#","maxTimeMS":60000"#));
    assert!(found.int("cursor.id").is_some_and(|id| id != 0), "{found}");
}
