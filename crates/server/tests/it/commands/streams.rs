//! Change streams.

use super::Fixture;
use flagstone::Document;

/// Runs a command that must succeed.
fn run(fixture: &mut Fixture, command: &str) -> Document {
    let reply = fixture.run("test", command);
    assert_eq!(reply.float("ok"), Some(1.0), "{command}: {reply}");
    reply
}

/// Returns the command that begins a stream with these options.
fn watch(collection: &str, options: &str) -> String {
    let pipeline = format!(r#"[{{"$changeStream":{{{options}}}}}]"#);
    let cursor = r#""cursor":{"batchSize":0}"#;
    format!(r#"{{"aggregate":"{collection}","pipeline":{pipeline},{cursor}}}"#)
}

/// Returns the events that are there, as their type, key and token.
fn events(fixture: &mut Fixture, id: i64) -> Vec<(String, String, String)> {
    let mut events = Vec::new();
    loop {
        let more =
            format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"s","maxTimeMS":200}}"#);
        let reply = run(fixture, &more);
        let batch = reply.get("cursor.nextBatch").unwrap();
        let before = events.len();
        for event in batch.items().unwrap() {
            let event = event.unwrap();
            let text = |path: &str| {
                event.path(path).unwrap().map_or_else(String::new, |value| value.to_string())
            };
            events.push((text("operationType"), text("documentKey._id"), text("_id._data")));
        }
        if events.len() == before {
            return events;
        }
    }
}

fn kinds(events: &[(String, String, String)]) -> Vec<(&str, &str)> {
    events.iter().map(|(kind, key, _)| (kind.trim_matches('"'), key.as_str())).collect()
}

#[test]
fn a_stream_has_every_change_once_and_is_resumed_at_any_event() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    let refused = fixture.run("test", r#"{"aggregate":"s","pipeline":[{"$changeStream":{}}]}"#);
    assert_eq!(refused.float("ok"), Some(1.0), "a collection that is not there yet");
    run(&mut fixture, r#"{"create":"s","changeStreamPreAndPostImages":{"enabled":true}}"#);
    let opened = run(&mut fixture, &watch("s", r#""fullDocument":"updateLookup""#));
    let id = opened.int("cursor.id").unwrap();
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1,"n":1},{"_id":2,"n":1}]}"#);
    run(&mut fixture, r#"{"insert":"other","documents":[{"_id":1}]}"#);
    run(&mut fixture, r#"{"update":"s","updates":[{"q":{"_id":1},"u":{"$set":{"n":2,"m.a":1}}}]}"#);
    run(&mut fixture, r#"{"delete":"s","deletes":[{"q":{"_id":2},"limit":1}]}"#);
    let seen = events(&mut fixture, id);
    let expected = [("insert", "1"), ("insert", "2"), ("update", "1"), ("delete", "2")];
    assert_eq!(kinds(&seen), expected);
    for n in 0..seen.len() {
        let after = format!(r#""resumeAfter":{{"_data":{}}}"#, seen[n].2);
        let resumed = run(&mut fixture, &watch("s", &after));
        let rest = events(&mut fixture, resumed.int("cursor.id").unwrap());
        assert_eq!(kinds(&rest), expected[n + 1..], "after event {n}");
    }
    run(&mut fixture, r#"{"drop":"s"}"#);
    let reply =
        run(&mut fixture, &format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"s"}}"#));
    assert_eq!(reply.str("cursor.nextBatch.0.operationType"), Some("drop"));
    assert_eq!(reply.str("cursor.nextBatch.1.operationType"), Some("invalidate"));
    assert_eq!(reply.int("cursor.id"), Some(0));
}

#[test]
fn a_stream_is_refused_where_nothing_is_kept() {
    let mut fixture = Fixture::new();
    let stream = r#"{"aggregate":"s","pipeline":[{"$changeStream":{}}],"cursor":{}}"#;
    let refused = fixture.run("test", stream);
    assert_eq!(refused.int("code"), Some(20));
    assert!(refused.str("errmsg").unwrap().contains("--keep"));
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    fixture.service.database().collection("test.s").unwrap();
    let refused = fixture.run("test", stream);
    assert!(refused.str("errmsg").unwrap().contains("changeStreamPreAndPostImages"));
    let refused = fixture.run("test", &watch("t", r#""resumeAfter":{"_data":"x"}"#));
    assert_eq!(refused.int("code"), Some(2));
}
