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
    let refused =
        fixture.run("test", r#"{"aggregate":"s","pipeline":[{"$changeStream":{}}],"cursor":{}}"#);
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
    assert_eq!(refused.int("code"), Some(260));
}

#[test]
fn stages_choose_and_change_events() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    run(&mut fixture, r#"{"create":"s","changeStreamPreAndPostImages":{"enabled":true}}"#);
    let open = |fixture: &mut Fixture, stages: &str| {
        let command = format!(
            r#"{{"aggregate":"s","pipeline":[{{"$changeStream":{{}}}},{stages}],
                "cursor":{{"batchSize":0}},"let":{{"low":2}}}}"#
        );
        fixture.run("test", &command)
    };
    let stages = r#"{"$match":{"operationType":"insert",
            "$expr":{"$gte":["$fullDocument.n","$$low"]}}},
        {"$addFields":{"double":{"$multiply":["$fullDocument.n",2]}}},{"$unset":"fullDocument"}"#;
    let id = open(&mut fixture, stages).int("cursor.id").unwrap();
    let gone = open(&mut fixture, r#"{"$project":{"_id":0}}"#).int("cursor.id").unwrap();
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1,"n":1},{"_id":2,"n":2}]}"#);
    run(&mut fixture, r#"{"delete":"s","deletes":[{"q":{"_id":1},"limit":1}]}"#);
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":3,"n":3}]}"#);
    let more = |id: i64| {
        format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"s","maxTimeMS":300}}"#)
    };
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let reply = run(&mut fixture, &more(id));
        for event in reply.get("cursor.nextBatch").unwrap().items().unwrap() {
            let event = event.unwrap();
            assert!(event.get("fullDocument").unwrap().is_none());
            seen.push(event.get("double").unwrap().unwrap().as_i64());
        }
    }
    assert_eq!(seen, [Some(4), Some(6)]);
    let refused = loop {
        let reply = fixture.run("test", &more(gone));
        if reply.float("ok") == Some(0.0) {
            break reply;
        }
    };
    assert_eq!(refused.int("code"), Some(280), "{refused}");
    let redact =
        r#"{"$redact":{"$cond":[{"$eq":["$operationType","insert"]},"$$KEEP","$$PRUNE"]}}"#;
    let id = open(&mut fixture, redact).int("cursor.id").unwrap();
    run(&mut fixture, r#"{"delete":"s","deletes":[{"q":{"_id":2},"limit":1}]}"#);
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":4}]}"#);
    let kept = loop {
        let reply = run(&mut fixture, &more(id));
        if let Some(kind) = reply.str("cursor.nextBatch.0.operationType") {
            break kind.to_owned();
        }
    };
    assert_eq!(kept, "insert");
    let refused = open(&mut fixture, r#"{"$group":{"_id":1}}"#);
    assert!(refused.str("errmsg").unwrap().contains("found $group"), "{refused}");
}

/// A stream made the events of a whole commit at once, which could take all memory.
#[test]
fn a_stream_stops_and_goes_on_within_a_commit() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    run(&mut fixture, r#"{"create":"s","changeStreamPreAndPostImages":{"enabled":true}}"#);
    let id = run(&mut fixture, &watch("s", "")).int("cursor.id").unwrap();
    let documents: Vec<_> = (0..900).map(|n| format!(r#"{{"_id":{n}}}"#)).collect();
    let insert = format!(r#"{{"insert":"s","documents":[{}]}}"#, documents.join(","));
    run(&mut fixture, &insert);
    let mut token = String::new();
    let mut seen = 0;
    while seen < 300 {
        let more = format!(
            r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"s","batchSize":100,
                "maxTimeMS":200}}"#
        );
        let reply = run(&mut fixture, &more);
        for event in reply.get("cursor.nextBatch").unwrap().items().unwrap() {
            let event = event.unwrap();
            assert_eq!(event.path("documentKey._id").unwrap().unwrap().as_i64(), Some(seen));
            seen += 1;
        }
        token = reply.str("cursor.postBatchResumeToken._data").unwrap().to_owned();
    }
    let after = format!(r#""resumeAfter":{{"_data":"{token}"}}"#);
    let resumed = run(&mut fixture, &watch("s", &after));
    let rest = events(&mut fixture, resumed.int("cursor.id").unwrap());
    assert_eq!((rest.len() as i64, rest[0].1.as_str()), (900 - seen, "300"));
    // No token that a stream has given out.
    let (position, _) = token.split_once('/').unwrap();
    for forged in [format!("{position}/900"), format!("{position}/99999999"), "x/1".to_owned()] {
        let after = format!(r#""resumeAfter":{{"_data":"{forged}"}}"#);
        let refused = fixture.run("test", &watch("s", &after));
        assert_eq!(refused.int("code"), Some(260), "{forged}: {refused}");
    }
}

/// `$out` puts a hidden collection into the place of another one: a follower saw no event, or the
/// drop alone, and kept an empty copy.
#[test]
fn what_out_writes_ends_streams() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    run(&mut fixture, r#"{"create":"s","changeStreamPreAndPostImages":{"enabled":true}}"#);
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1}]}"#);
    for target in ["fresh", "fresh"] {
        let stream = r#"{"aggregate":1,"pipeline":[{"$changeStream":{}}],"cursor":{}}"#;
        let id = run(&mut fixture, stream).int("cursor.id").unwrap();
        let out =
            format!(r#"{{"aggregate":"s","pipeline":[{{"$out":"{target}"}}],"cursor":{{}}}}"#);
        run(&mut fixture, &out);
        let more = format!(
            r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"$cmd.aggregate",
                "maxTimeMS":200}}"#
        );
        let mut kinds = Vec::new();
        while kinds.last().is_none_or(|kind| kind != "invalidate") {
            let reply = run(&mut fixture, &more);
            for event in reply.get("cursor.nextBatch").unwrap().items().unwrap() {
                let kind = event.unwrap().get("operationType").unwrap().unwrap().to_value();
                kinds.push(kind.unwrap().as_str().unwrap().to_owned());
            }
        }
    }
}

/// The values were compared without regard to their types.
#[test]
fn another_type_of_a_number_is_a_change() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    run(&mut fixture, r#"{"create":"s","changeStreamPreAndPostImages":{"enabled":true}}"#);
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1,"n":1}]}"#);
    let id = run(&mut fixture, &watch("s", "")).int("cursor.id").unwrap();
    let update = r#"{"update":"s","updates":[{"q":{"_id":1},"u":{"$set":{"n":1.0}}}]}"#;
    run(&mut fixture, update);
    let more = format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"s"}}"#);
    let reply = run(&mut fixture, &more);
    let updated = reply.float("cursor.nextBatch.0.updateDescription.updatedFields.n");
    assert_eq!(updated, Some(1.0), "{reply}");
}
