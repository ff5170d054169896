//! Change streams.

use super::{Fixture, operation, stored};
use flagstone::{Document, Space, Value, doc};

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
    // Of all collections of the database, and of all databases: inserts were told as replacements.
    let every = r#"{"aggregate":1,"pipeline":[{"$changeStream":{}}],"cursor":{}}"#;
    let all = every
        .replace(r#"{"$changeStream":{}}"#, r#"{"$changeStream":{"allChangesForCluster":true}}"#);
    for (database, stream) in [("test", every), ("admin", &all)] {
        let refused = fixture.run(database, stream);
        assert_eq!(refused.int("code"), Some(20), "{refused}");
        assert!(refused.str("errmsg").unwrap().contains("a change stream of test.s "), "{refused}");
    }
    let others = run(
        &mut fixture,
        r#"{"aggregate":1,"$db":"other","pipeline":[{"$changeStream":{}}],"cursor":{}}"#,
    );
    assert!(others.int("cursor.id").unwrap() > 0);
    let refused = fixture.run("test", &watch("t", r#""resumeAfter":{"_data":"x"}"#));
    assert_eq!(refused.int("code"), Some(260));
}

/// From then on whether a document is new is not known.
#[test]
fn a_stream_ends_when_a_collection_stops_to_keep_old_documents() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    run(&mut fixture, r#"{"create":"s"}"#);
    let opened = run(&mut fixture, &watch("s", ""));
    let id = opened.int("cursor.id").unwrap();
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1}]}"#);
    run(&mut fixture, r#"{"collMod":"s","changeStreamPreAndPostImages":{"enabled":false}}"#);
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":2}]}"#);
    let more = format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"s"}}"#);
    let reply = run(&mut fixture, &more);
    assert_eq!(reply.str("cursor.nextBatch.0.operationType"), Some("insert"), "{reply}");
    assert!(reply.get("cursor.nextBatch.1").is_none(), "{reply}");
    let ended = fixture.run("test", &more);
    assert_eq!(ended.int("code"), Some(20), "{ended}");
}

/// Its token was behind the event that a stage could not take, which no client saw then.
#[test]
fn who_resumes_before_a_failure_meets_it_again() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    run(&mut fixture, r#"{"create":"s"}"#);
    let stream = |after: &str| {
        let stage = r#"{"$addFields":{"x":{"$divide":[1,"$fullDocument.n"]}}}"#;
        let stream = format!(r#"{{"$changeStream":{{{after}}}}},{stage}"#);
        format!(r#"{{"aggregate":"s","pipeline":[{stream}],"cursor":{{}}}}"#)
    };
    let more = |id| format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"s"}}"#);
    let id = run(&mut fixture, &stream("")).int("cursor.id").unwrap();
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1,"n":2},{"_id":2,"n":0}]}"#);
    let batch = run(&mut fixture, &more(id));
    assert_eq!(batch.float("cursor.nextBatch.0.x"), Some(0.5), "{batch}");
    assert!(batch.get("cursor.nextBatch.1").is_none(), "{batch}");
    let failed = fixture.run("test", &more(id));
    let code = failed.int("code").unwrap_or_else(|| panic!("{failed}"));
    let token = batch.str("cursor.postBatchResumeToken._data").unwrap();
    let resumed = stream(&format!(r#""resumeAfter":{{"_data":{token:?}}}"#));
    let again = fixture.run("test", &resumed);
    assert_eq!(again.int("code"), Some(code), "{again}");
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

/// A stream had an update of each document when an index by date was dropped, and of replacements
/// by the same document.
#[test]
fn what_changes_nothing_has_no_event() {
    let mut fixture = kept();
    let document = r#"{"_id":1,"at":{"$date":"2300-01-01T00:00:00Z"}}"#;
    run(&mut fixture, r#"{"drop":"s"}"#);
    run(&mut fixture, r#"{"create":"s","changeStreamPreAndPostImages":{"enabled":true}}"#);
    run(&mut fixture, &format!(r#"{{"insert":"s","documents":[{document}]}}"#));
    let id = run(&mut fixture, &watch("s", "")).int("cursor.id").unwrap();
    let index = r#"{"key":{"at":1},"name":"at_1","expireAfterSeconds":5}"#;
    run(&mut fixture, &format!(r#"{{"createIndexes":"s","indexes":[{index}]}}"#));
    run(&mut fixture, r#"{"dropIndexes":"s","index":"at_1"}"#);
    run(
        &mut fixture,
        &format!(r#"{{"update":"s","updates":[{{"q":{{"_id":1}},"u":{document}}}]}}"#),
    );
    assert_eq!(kinds(&events(&mut fixture, id)), []);
    run(&mut fixture, r#"{"update":"s","updates":[{"q":{"_id":1},"u":{"$set":{"n":1}}}]}"#);
    assert_eq!(kinds(&events(&mut fixture, id)), [("update", "1")]);
}

/// A service that keeps changes, with a collection.
fn kept() -> Fixture {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    run(&mut fixture, r#"{"create":"s"}"#);
    fixture
}

/// Opens a stream of a database.
fn watch_database(fixture: &mut Fixture, options: &str) -> i64 {
    let command = format!(
        r#"{{"aggregate":1,"pipeline":[{{"$changeStream":{{{options}}}}}],
            "cursor":{{"batchSize":0}}}}"#
    );
    run(fixture, &command).int("cursor.id").unwrap()
}

/// Returns the events of a stream of a database until `last` comes.
fn until(fixture: &mut Fixture, id: i64, last: &str) -> Vec<Document> {
    let mut events = Vec::new();
    let more = format!(
        r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"$cmd.aggregate","maxTimeMS":1000}}"#
    );
    loop {
        let reply = run(fixture, &more);
        let batch = reply.get("cursor.nextBatch").unwrap();
        assert!(batch.items().unwrap().next().is_some(), "{last} did not come: {events:?}");
        for event in batch.items().unwrap() {
            let event = event.unwrap().to_value().unwrap();
            events.push(Document::from_value(&event).unwrap());
        }
        if events.last().unwrap().str("operationType") == Some(last) {
            return events;
        }
    }
}

fn types(events: &[Document]) -> Vec<&str> {
    events.iter().map(|event| event.str("operationType").unwrap()).collect()
}

#[test]
fn clients_that_drop_the_same_at_once_all_succeed() {
    let mut fixture = kept();
    for _ in 0..20 {
        run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1}]}"#);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let service = &fixture.service;
                    let mut at = service.client("there".to_owned(), "here".to_owned(), true);
                    let reply = service.run(&mut at, "test", &super::parse(r#"{"drop":"s"}"#));
                    assert_eq!(reply.unwrap().float("ok"), Some(1.0));
                });
            }
        });
    }
}

#[test]
fn arguments_of_streams_are_checked() {
    let mut fixture = kept();
    for (options, code) in [
        (r#""fullDocument":"off""#, 0),
        (r#""fullDocument":"always""#, 2),
        (r#""fullDocumentBeforeChange":"updateLookup""#, 2),
        (r#""showExpandedEvents":1"#, 14),
        (r#""allChangesForCluster":0"#, 14),
        (r#""allChangesForCluster":true"#, 72),
        (r#""startAtOperationTime":1"#, 14),
        (r#""resumeAfter":{}"#, 40_647),
        (r#""resumeAfter":{"_data":7}"#, 40_647),
        (r#""resumeAfter":{"_data":"7/"}"#, 260),
        (r#""resumeAfter":{"_data":"a"},"startAfter":{"_data":"a"}"#, 50_865),
    ] {
        let reply = fixture.run("test", &watch("s", options));
        assert_eq!(reply.int("code").unwrap_or(0), code, "{options}: {reply}");
    }
    let reply = fixture.run("admin", &watch("s", ""));
    assert_eq!(reply.int("code"), Some(73), "{reply}");
    let local = r#"{"aggregate":"s","pipeline":[{"$changeStream":{}}],"cursor":{},
        "readConcern":{"level":"local"}}"#;
    assert_eq!(fixture.run("test", local).int("code"), Some(72));
    let no_document = r#"{"aggregate":"s","pipeline":[{"$changeStream":1}],"cursor":{}}"#;
    assert_eq!(fixture.run("test", no_document).int("code"), Some(6_188_500));
}

/// The feed has nothing of a collection that is gone, so a stream that had not read as far gave
/// `drop` alone.
#[test]
fn changes_before_a_drop_are_read_after_it() {
    let mut fixture = kept();
    let id = watch_database(&mut fixture, "");
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1}]}"#);
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":2}]}"#);
    run(&mut fixture, r#"{"drop":"s"}"#);
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":3}]}"#);
    run(&mut fixture, r#"{"create":"t"}"#);
    run(&mut fixture, r#"{"dropDatabase":1}"#);
    let seen = until(&mut fixture, id, "invalidate");
    let mut kinds = types(&seen);
    // In the order of the catalog.
    kinds[4..6].sort_unstable();
    let expected = ["insert", "insert", "drop", "insert", "drop", "drop", "dropDatabase"];
    assert_eq!(kinds[..7], expected);
    assert_eq!(seen[1].int("documentKey._id"), Some(2));
    assert_eq!((seen[2].str("ns.coll"), seen[6].str("ns.db")), (Some("s"), Some("test")));
    assert_eq!(seen[6].get("ns.coll").map(|coll| coll.to_string()), None);
    // Also by who begins again.
    let after = format!(r#""resumeAfter":{{"_data":"{}"}}"#, seen[0].str("_id._data").unwrap());
    let id = watch_database(&mut fixture, &after);
    assert_eq!(types(&until(&mut fixture, id, "invalidate")), types(&seen[1..]));
    // A stream goes on after its end if it is told so.
    let last = seen.last().unwrap().str("_id._data").unwrap();
    let refused =
        fixture.run("test", &watch("s", &format!(r#""resumeAfter":{{"_data":"{last}"}}"#)));
    assert_eq!(refused.int("code"), Some(260), "{refused}");
    let id = watch_database(&mut fixture, &format!(r#""startAfter":{{"_data":"{last}"}}"#));
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":4}]}"#);
    assert_eq!(types(&until(&mut fixture, id, "insert")), ["insert"]);
    // What was dropped is not listed, and its name is free.
    let listed = run(&mut fixture, r#"{"listCollections":1,"nameOnly":true}"#);
    assert_eq!(listed.get("cursor.firstBatch").unwrap().items().unwrap().count(), 1, "{listed}");
}

/// Dropped collections are there for readers alone, as long as the log has their changes.
#[test]
fn what_is_dropped_takes_no_space_for_ever() {
    let mut fixture = kept();
    let hidden = |fixture: &Fixture| {
        let all = fixture.service.database().keyspaces();
        all.iter().filter(|keyspace| keyspace.name.contains("system.dropped.")).count()
    };
    for n in 0..260 {
        run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1}]}"#);
        run(&mut fixture, r#"{"drop":"s"}"#);
        assert_eq!(hidden(&fixture), n + 1);
    }
    fixture.service.tick().unwrap();
    assert_eq!(hidden(&fixture), 256);
    // A transaction that has written does not commit into what is dropped.
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1}]}"#);
    let transaction = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}},
        "txnNumber":{"$numberLong":"1"},"autocommit":false"#;
    let update = format!(
        r#"{{"update":"s","updates":[{{"q":{{"_id":1}},"u":{{"$set":{{"a":1}}}}}}],
            "startTransaction":true,{transaction}}}"#
    );
    run(&mut fixture, &update);
    run(&mut fixture, r#"{"drop":"s"}"#);
    let refused = fixture.run("test", &format!(r#"{{"commitTransaction":1,{transaction}}}"#));
    assert_eq!(refused.int("code"), Some(112), "{refused}");
}

/// A crash, or an error, may come between the name that hides a dropped collection and its removal:
/// what was left kept its space until other changes had filled the log.
#[test]
fn a_drop_that_was_interrupted_is_ended_later() {
    let mut fixture = kept();
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1},{"_id":2}]}"#);
    let db = fixture.service.database().clone();
    let hidden = "test.system.dropped.000000000000000000000001";
    db.rename_keyspace("test.s", hidden).unwrap();
    let collection = db.space(hidden).existing().collection().unwrap().unwrap();
    assert_eq!(collection.scan(..).count(), 2);
    // Of the name before there is another collection now.
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":3}]}"#);
    fixture.service.tick().unwrap();
    assert_eq!(collection.scan(..).count(), 0);
    assert_eq!(run(&mut fixture, r#"{"count":"s"}"#).int("n"), Some(1));
    run(&mut fixture, r#"{"drop":"s"}"#);
    assert_eq!(run(&mut fixture, r#"{"count":"s"}"#).int("n"), Some(0));
}

#[test]
fn replacements_and_changes_of_the_catalog_have_events_of_their_own() {
    let mut fixture = kept();
    let id = watch_database(&mut fixture, r#""showExpandedEvents":true"#);
    run(&mut fixture, r#"{"insert":"t","documents":[{"_id":1,"n":1}]}"#);
    for update in [r#"{"n":2}"#, r#"{"$set":{"n":3}}"#] {
        let update = format!(r#"{{"update":"t","updates":[{{"q":{{"_id":1}},"u":{update}}}]}}"#);
        run(&mut fixture, &update);
    }
    run(&mut fixture, r#"{"findAndModify":"t","query":{"_id":1},"update":{"n":4}}"#);
    let upsert = r#"{"update":"t","updates":[{"q":{"_id":2},"u":{"n":5},"upsert":true}]}"#;
    run(&mut fixture, upsert);
    let create = r#"{"createIndexes":"t","indexes":[{"key":{"n":-1},"name":"n_-1"}]}"#;
    run(&mut fixture, create);
    run(&mut fixture, create);
    run(&mut fixture, r#"{"dropIndexes":"t","index":"*"}"#);
    let merge = |row: &str, how: &str| {
        format!(
            r#"{{"aggregate":1,"pipeline":[{{"$documents":[{row}]}},
                {{"$merge":{{"into":"t","whenMatched":"{how}"}}}}],"cursor":{{}}}}"#
        )
    };
    run(&mut fixture, &merge(r#"{"_id":2,"n":6}"#, "replace"));
    // It is that already.
    run(&mut fixture, &merge(r#"{"_id":2,"n":6}"#, "replace"));
    run(&mut fixture, &merge(r#"{"_id":2,"m":7}"#, "merge"));
    run(&mut fixture, &merge(r#"{"_id":3,"m":7}"#, "replace"));
    // Paths that their text does not tell.
    let insert = r#"{"insert":"t","documents":[{"_id":4,"f":{"a.b":1,"0":1},"g":1}]}"#;
    run(&mut fixture, insert);
    let change = r#"{"$set":{"f":{"a.b":2},"g":2}}"#;
    run(&mut fixture, &format!(r#"{{"update":"t","updates":[{{"q":{{"_id":4}},"u":{change}}}]}}"#));
    run(&mut fixture, r#"{"collMod":"t","validationLevel":"off"}"#);
    let seen = until(&mut fixture, id, "modify");
    let expected = [
        "create",
        "insert",
        "replace",
        "update",
        "replace",
        "insert",
        "createIndexes",
        "dropIndexes",
        "replace",
        "update",
        "insert",
        "insert",
        "update",
        "modify",
    ];
    assert_eq!(types(&seen), expected);
    assert_eq!(seen[8].int("fullDocument.n"), Some(6));
    assert_eq!(seen[9].int("updateDescription.updatedFields.m"), Some(7));
    let described = seen[12].get("updateDescription").unwrap();
    assert_eq!(
        described.get("disambiguatedPaths").unwrap().unwrap().to_string(),
        r#"{"f.a.b":["f","a.b"],"f.0":["f","0"]}"#
    );
    assert_eq!(seen[9].get("updateDescription.disambiguatedPaths").unwrap().to_string(), "{}");
    assert_eq!(seen[2].int("fullDocument.n"), Some(2));
    assert!(seen[2].get("updateDescription").is_none());
    assert_eq!(seen[3].int("updateDescription.updatedFields.n"), Some(3));
    assert_eq!(seen[6].int("operationDescription.indexes.0.key.n"), Some(-1));
    assert_eq!(seen[7].str("operationDescription.indexes.0.name"), Some("n_-1"));
    let id = watch_database(&mut fixture, "");
    run(&mut fixture, r#"{"create":"u"}"#);
    run(&mut fixture, r#"{"insert":"u","documents":[{"_id":1}]}"#);
    assert_eq!(types(&until(&mut fixture, id, "insert")), ["insert"]);
}

/// Events had the time of the moment at which they were read.
#[test]
fn events_have_the_times_of_their_commits() {
    let mut fixture = kept();
    let id = watch_database(&mut fixture, "");
    let transaction = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}},
        "txnNumber":{"$numberLong":"7"},"autocommit":false"#;
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1}]}"#);
    let first = format!(
        r#"{{"insert":"s","documents":[{{"_id":2}}],"startTransaction":true,{transaction}}}"#
    );
    run(&mut fixture, &first);
    run(&mut fixture, &format!(r#"{{"insert":"s","documents":[{{"_id":3}}],{transaction}}}"#));
    run(&mut fixture, &format!(r#"{{"commitTransaction":1,{transaction}}}"#));
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":4}]}"#);
    run(&mut fixture, r#"{"drop":"s"}"#);
    let seen = until(&mut fixture, id, "drop");
    let time = |event: &Document| {
        let part = |name| event.int(&format!("clusterTime.$timestamp.{name}")).unwrap();
        (part("t"), part("i"))
    };
    let times: Vec<_> = seen.iter().map(time).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(times[1], times[2], "one commit");
    assert!(times[0] < times[1] && times[2] < times[3], "{times:?}");
    let numbers: Vec<_> = seen.iter().map(|event| event.int("txnNumber")).collect();
    assert_eq!(numbers, [None, Some(7), Some(7), None, None]);
    assert!(seen[1].get("lsid.uid").is_some() && seen[0].get("lsid").is_none());
    let walls: Vec<_> =
        seen.iter().map(|event| event.get("wallTime").unwrap().to_string()).collect();
    std::thread::sleep(std::time::Duration::from_millis(20));
    // The same ones for who reads them again, or begins at a time.
    let after = format!(r#""resumeAfter":{{"_data":"{}"}}"#, seen[0].str("_id._data").unwrap());
    let (t, i) = times[1];
    let at = format!(r#""startAtOperationTime":{{"$timestamp":{{"t":{t},"i":{i}}}}}"#);
    for options in [after, at] {
        let id = watch_database(&mut fixture, &options);
        let again = until(&mut fixture, id, "drop");
        assert_eq!(again.iter().map(time).collect::<Vec<_>>(), times[1..], "{options}");
        let again: Vec<_> =
            again.iter().map(|event| event.get("wallTime").unwrap().to_string()).collect();
        assert_eq!(again, walls[1..]);
    }
    let later = r#""startAtOperationTime":{"$timestamp":{"t":4294967295,"i":1}}"#;
    let id = watch_database(&mut fixture, later);
    let more = format!(
        r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"$cmd.aggregate","maxTimeMS":100}}"#
    );
    let reply = run(&mut fixture, &more);
    assert!(reply.get("cursor.nextBatch.0").is_none(), "{reply}");
    let both = format!(r#"{later},"resumeAfter":{{"_data":"x"}}"#);
    assert_eq!(fixture.run("test", &watch("s", &both)).int("code"), Some(40_674));
}

/// What the tool replaced through a server was told as an update.
#[test]
fn what_the_tool_replaces_has_events_of_replacements() {
    let mut fixture = kept();
    let id = watch_database(&mut fixture, "");
    run(&mut fixture, r#"{"insert":"s","documents":[{"_id":1,"n":1}]}"#);
    let mut ask = |name: &str, arguments: Vec<(&str, Value)>| {
        let command = operation(name, "s", arguments);
        let reply = fixture.service.run(&mut fixture.client, "test", &command).unwrap();
        assert_eq!(reply.float("ok"), Some(1.0), "{reply}");
    };
    let one = || ("key", stored(1.into()));
    let document = |n: i64| stored(doc!({ "n": n }));
    let loaded = |n: i64| doc!([{ "k": (stored(1.into())), "d": (document(n)) }]);
    let load = |mode: &'static str, n| vec![("mode", mode.into()), ("documents", loaded(n))];
    ask("put", vec![one(), ("document", document(2))]);
    ask("patch", vec![one(), ("update", document(3))]);
    ask("patch", vec![one(), ("update", stored(doc!({ "$inc": { "n": 1 } })))]);
    ask("patch", vec![one(), ("mergePatch", document(5))]);
    let inc = stored(doc!({ "$inc": { "n": 1 } }));
    ask("updateMany", vec![("filter", "{}".into()), ("update", inc)]);
    ask("load", load("upsert", 7));
    ask("load", load("merge", 8));
    ask("put", vec![("key", stored(2.into())), ("document", document(9))]);
    let expected =
        ["insert", "replace", "replace", "update", "update", "update", "replace", "update"];
    let mut seen = until(&mut fixture, id, "insert");
    while seen.len() <= expected.len() {
        seen.extend(until(&mut fixture, id, "insert"));
    }
    assert_eq!(types(&seen), [&expected[..], &["insert"]].concat());
}
