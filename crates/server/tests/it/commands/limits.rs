//! Limits of time: what takes too long, and what reads too old a state of the database.

use super::{Fixture, operation, stored};
use flagstone::changes::ChangeRetention;
use flagstone::{Document, Expires, Json, Options, Space, Value, doc};
use flagstone_server::command::{Service, ServiceOptions};
use std::time::Duration;

/// Returns a service whose options `change` has changed, over documents `{_id: n}`.
fn fixture(documents: i64, change: impl FnOnce(&mut ServiceOptions)) -> Fixture {
    let keep = ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(Options::new().change_retention(keep));
    let database = fixture.service.database().clone();
    let collection = database.collection("shop.c").unwrap();
    collection.keep_old_documents(true).unwrap();
    for n in 0..documents {
        collection.put(n, Json("{}")).unwrap();
    }
    let mut options = ServiceOptions::default();
    change(&mut options);
    fixture.service = Service::new(database, options).unwrap();
    fixture.client = fixture.service.client("here".to_owned(), "here".to_owned(), true);
    fixture
}

#[track_caller]
fn refused(reply: &Document, code: i64, option: &str) {
    assert_eq!(reply.int("code"), Some(code), "{reply}");
    assert!(reply.str("errmsg").unwrap().contains(option), "{reply}");
}

const SESSION: &str =
    r#""lsid":{"id":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAQ==","subType":"04"}}}"#;

fn more(id: i64) -> String {
    format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"c","batchSize":1}}"#)
}

/// A cursor that was read from now and then kept everything that others overwrote, for ever, and
/// nothing showed it.
#[test]
fn what_a_cursor_or_a_transaction_reads_becomes_too_old() {
    const AGE: Duration = Duration::from_secs(5);
    let mut fixture = fixture(9, |options| options.snapshot_age = AGE);
    let age = |fixture: &mut Fixture| {
        let status = fixture.run("admin", r#"{"serverStatus":1}"#);
        let open = status.int("metrics.cursor.open.total").unwrap();
        (status.int("flagstone.oldestSnapshotSecs").unwrap(), open)
    };
    assert_eq!(age(&mut fixture), (0, 0));
    let find = r#"{"find":"c","batchSize":1,"noCursorTimeout":true}"#;
    let id = |reply: &Document| reply.int("cursor.id").unwrap();
    let ids = [find, find].map(|find| id(&fixture.run("shop", find)));
    let stream = r#"{"aggregate":"c","pipeline":[{"$changeStream":{}}],"cursor":{}}"#;
    let stream = id(&fixture.run("shop", stream));
    let numbered = |command: &str, more: &str| {
        format!(r#"{{{command},{SESSION},"txnNumber":1,"autocommit":false{more}}}"#)
    };
    let read = numbered(r#""find":"c","filter":{"_id":1}"#, r#","startTransaction":true"#);
    assert_eq!(fixture.run("shop", &read).float("ok"), Some(1.0));
    // What others overwrite is kept for them from here on.
    let written = fixture.run("shop", r#"{"insert":"c","documents":[{"_id":100}]}"#);
    assert_eq!(written.int("n"), Some(1));
    std::thread::sleep(Duration::from_secs(2));
    assert!(age(&mut fixture).0 >= 1);
    for _ in 0..2 {
        let found = fixture.run("shop", &more(ids[0]));
        assert!(found.get("cursor.nextBatch.0").is_some(), "{found}");
    }
    std::thread::sleep(AGE);
    fixture.service.tick().unwrap();
    assert_eq!(age(&mut fixture), (0, 1), "the change stream keeps nothing");
    for id in ids {
        refused(&fixture.run("shop", &more(id)), 43, "(--snapshot-age)");
    }
    let ended = fixture.run("admin", &numbered(r#""commitTransaction":1"#, ""));
    refused(&ended, 251, "(--snapshot-age)");
    assert_eq!(ended.str("errorLabels.0"), Some("TransientTransactionError"));
    let next =
        format!(r#"{{"getMore":{{"$numberLong":"{stream}"}},"collection":"c","maxTimeMS":5000}}"#);
    let event = fixture.run("shop", &next);
    assert_eq!(event.int("cursor.nextBatch.0.documentKey._id"), Some(100), "{event}");
}

/// They went on with what was rolled back, could be read by others, and held memory for minutes.
#[test]
fn cursors_of_a_transaction_end_with_it_and_are_read_within_it() {
    let mut fixture = fixture(9, |_| {});
    let other = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-0000000000ff"}}"#;
    let id = |reply: &Document| reply.int("cursor.id").unwrap_or_else(|| panic!("{reply}"));
    let get = |id: i64, within: &str| {
        format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"c","batchSize":1{within}}}"#)
    };
    let within = |number: u32| format!(r#",{SESSION},"txnNumber":{number},"autocommit":false"#);
    let find = |number: u32| {
        let more = within(number);
        format!(r#"{{"find":"c","batchSize":1{more},"startTransaction":true}}"#)
    };
    for (number, end) in [(1, "commitTransaction"), (2, "abortTransaction"), (3, "fails")] {
        let cursor = id(&fixture.run("shop", &find(number)));
        for (within, code) in
            [(String::new(), 50737), (format!(",{other}"), 50738), (format!(",{SESSION}"), 50740)]
        {
            assert_eq!(fixture.run("shop", &get(cursor, &within)).int("code"), Some(code));
        }
        let next = fixture.run("shop", &get(cursor, &within(number)));
        assert!(next.get("cursor.nextBatch.0").is_some(), "{next}");
        match end {
            "fails" => {
                let more = within(number);
                let insert = format!(r#"{{"insert":"c","documents":[{{"_id":1}}]{more}}}"#);
                refused(&fixture.run("shop", &insert), 11000, "dup key");
            }
            end => {
                let ended = fixture.run("admin", &format!(r#"{{"{end}":1{}}}"#, within(number)));
                assert_eq!(ended.float("ok"), Some(1.0), "{ended}");
            }
        }
        let ended = fixture.run("shop", &get(cursor, &format!(",{SESSION}")));
        assert_eq!(ended.int("code"), Some(43), "{end}: {ended}");
    }
    // One that another transaction, or a write, takes the place of.
    let insert = format!(r#"{{"insert":"c","documents":[{{"_id":77}}],{SESSION},"txnNumber":6}}"#);
    let mut last = 0;
    for command in [find(4), find(5), insert] {
        let reply = fixture.run("shop", &command);
        assert_eq!(reply.float("ok"), Some(1.0), "{reply}");
        if last != 0 {
            let ended = fixture.run("shop", &get(last, &format!(",{SESSION}")));
            assert_eq!(ended.int("code"), Some(43), "{ended}");
        }
        last = reply.int("cursor.id").unwrap_or(0);
    }
    // One of no transaction is not read in one.
    let plain = id(&fixture.run("shop", &format!(r#"{{"find":"c","batchSize":1,{SESSION}}}"#)));
    let begun = id(&fixture.run("shop", &find(7)));
    assert_eq!(fixture.run("shop", &get(plain, &within(7))).int("code"), Some(50739));
    // The error has ended the transaction.
    assert_eq!(fixture.run("shop", &get(begun, &format!(",{SESSION}"))).int("code"), Some(43));
    let next = fixture.run("shop", &get(plain, &format!(",{SESSION}")));
    assert!(next.get("cursor.nextBatch.0").is_some(), "{next}");
}

/// The new document vanished: it got the expiry of the one that the transaction had removed.
#[test]
fn what_a_transaction_puts_again_keeps_no_expiry_of_what_it_removed() {
    let mut fixture = fixture(0, |_| {});
    let database = fixture.service.database().clone();
    let collection = database.collection("shop.c").unwrap();
    let soon = database.now().after(Duration::from_secs(3600));
    collection.put(1, Json("{}").expires(soon)).unwrap();
    collection.put(2, Json("{}").expires(soon)).unwrap();
    let mut run = |database: &str, command: &str, more: &str| {
        let command = format!(r#"{{{command},{SESSION},"txnNumber":1,"autocommit":false{more}}}"#);
        let reply = fixture.run(database, &command);
        assert_eq!(reply.float("ok"), Some(1.0), "{reply}");
    };
    let update = |id: i64| {
        format!(r#""update":"c","updates":[{{"q":{{"_id":{id}}},"u":{{"$set":{{"x":1}}}}}}]"#)
    };
    let delete = r#""delete":"c","deletes":[{"q":{"_id":1},"limit":1}]"#;
    run("shop", delete, r#","startTransaction":true"#);
    run("shop", r#""insert":"c","documents":[{"_id":1}]"#, "");
    run("shop", &update(1), "");
    run("shop", &update(2), "");
    run("admin", r#""commitTransaction":1"#, "");
    assert_eq!(collection.expiry(1).unwrap(), None);
    assert_eq!(collection.expiry(2).unwrap(), Some(soon), "an update keeps it");
    let found = collection.find(r#"{"x":1}"#).count().unwrap();
    assert_eq!(found, 2);
}

/// The rows of a query in a transaction were all in memory, and at most 64 MiB.
#[test]
fn a_query_in_a_transaction_returns_more_than_memory_holds() {
    let mut fixture = fixture(0, |_| {});
    let collection = fixture.service.database().collection("shop.c").unwrap();
    let text = "x".repeat(1 << 20);
    for n in 0..80 {
        collection.put(n, doc!({ "n": (n), "t": (text.as_str()) })).unwrap();
    }
    for (number, command) in
        [(1, r#""find":"c""#), (2, r#""aggregate":"c","pipeline":[],"cursor":{}"#)]
    {
        let within = format!(r#"{SESSION},"txnNumber":{number},"autocommit":false"#);
        let begun = format!(r#"{{{command},{within},"startTransaction":true}}"#);
        let mut reply = fixture.run("shop", &begun);
        // What others write meanwhile is not in it.
        collection.put(100 + number, Json("{}")).unwrap();
        let (mut batch, mut found) = ("cursor.firstBatch", Vec::new());
        loop {
            let rows = reply.get(batch).unwrap_or_else(|| panic!("{batch}"));
            let of_row = |row: flagstone::View<'_>| row.get("n").unwrap().unwrap().as_i64();
            found.extend(rows.items().unwrap().map(|row| of_row(row.unwrap()).unwrap()));
            let id = reply.int("cursor.id").unwrap();
            if id == 0 {
                break;
            }
            let more = r#""collection":"c""#;
            let next = format!(r#"{{"getMore":{{"$numberLong":"{id}"}},{more},{within}}}"#);
            (reply, batch) = (fixture.run("shop", &next), "cursor.nextBatch");
        }
        assert!(found.into_iter().eq(0..80));
        collection.delete(100 + number).unwrap();
        fixture.run("admin", &format!(r#"{{"commitTransaction":1,{within}}}"#));
    }
}

/// Bytes of BSON count: numbers of one byte have up to eighteen there. No driver could read them.
#[test]
fn documents_that_no_driver_could_read_are_not_written_and_named() {
    let mut fixture = fixture(0, |_| {});
    let collection = fixture.service.database().collection("shop.c").unwrap();
    fixture.run("shop", r#"{"insert":"c","documents":[{"_id":1,"a":[]}]}"#);
    let ones = vec!["1"; 500_000].join(",");
    let push = format!(
        r#"{{"update":"c","updates":[{{"q":{{"_id":1}},
        "u":{{"$push":{{"a":{{"$each":[{ones}]}}}}}}}}]}}"#
    );
    for _ in 0..2 {
        assert_eq!(fixture.run("shop", &push).int("nModified"), Some(1));
    }
    let refused = fixture.run("shop", &push);
    assert_eq!(refused.int("writeErrors.0.code"), Some(10334), "{:?}", refused.str("errmsg"));
    let merge = r#"{"aggregate":"c","pipeline":[{"$set":{"a":{"$concatArrays":["$a","$a"]}}},
        {"$merge":{"into":"d"}}],"cursor":{}}"#;
    let out = merge.replace(r#"{"$merge":{"into":"d"}}"#, r#"{"$out":"d"}"#);
    for write in [merge, &out] {
        assert_eq!(fixture.run("shop", write).int("code"), Some(10334));
    }
    assert_eq!(fixture.run("shop", r#"{"count":"d"}"#).int("n"), Some(0));
    // What the tool sends.
    let many: Value = (0..2_000_000_i64).map(|n| n % 100).collect();
    let (key, large) = (stored(1.into()), stored(doc!({ "a": (many) })));
    let push = doc!({ "$push": { "a": { "$each": (vec![Value::from(1); 500_000]) } } });
    let json = doc!([{ "op": "add", "path": "/b", "value": (vec![Value::from(1); 500_000]) }]);
    let loaded = doc!([{ "k": (stored(3.into())), "d": (large.clone()) }]);
    for (name, arguments) in [
        ("put", vec![("key", stored(3.into())), ("document", large.clone())]),
        ("patch", vec![("key", key.clone()), ("update", stored(push.clone()))]),
        ("patch", vec![("key", key.clone()), ("mergePatch", large.clone())]),
        ("patch", vec![("key", key.clone()), ("jsonPatch", stored(json))]),
        ("updateMany", vec![("filter", "{}".into()), ("update", stored(push))]),
        ("load", vec![("mode", "upsert".into()), ("documents", loaded.clone())]),
        ("load", vec![("mode", "insert".into()), ("documents", loaded)]),
    ] {
        let command = operation(name, "c", arguments);
        let reply = fixture.service.run(&mut fixture.client, "shop", &command).unwrap();
        assert!(reply.to_string().contains("(the most that drivers take)"), "{name}: {reply}");
        if name == "put" {
            assert_eq!(reply.int("code"), Some(10334));
        }
    }
    let read = fixture.run("shop", r#"{"find":"c","projection":{"n":{"$size":"$a"}}}"#);
    assert_eq!(read.int("cursor.firstBatch.0.n"), Some(1_000_000));
    assert!(read.get("cursor.firstBatch.1").is_none(), "{read}");
    // One that was put otherwise, and a row that a pipeline makes.
    let many: Value = (0..2_000_000_i64).collect();
    collection.put(2, doc!({ "a": (many) })).unwrap();
    let stage = r#"{"$project":{"b":"$a"}}"#;
    for read in [
        r#"{"find":"c","filter":{"_id":2}}"#,
        r#"{"find":"c","filter":{"_id":{"$gt":1}}}"#,
        &format!(r#"{{"aggregate":"c","pipeline":[{stage}],"cursor":{{}}}}"#),
    ] {
        let reply = fixture.run("shop", read);
        assert_eq!(reply.int("code"), Some(10334), "{read}");
        assert!(reply.str("errmsg").unwrap().contains("return less of it by a projection"));
    }
    let less = r#"{"find":"c","filter":{"_id":2},"projection":{"a":{"$slice":1}}}"#;
    assert_eq!(fixture.run("shop", less).int("cursor.firstBatch.0.a.0"), Some(0));
}

#[test]
fn a_transaction_that_outgrows_its_memory_names_the_option() {
    let mut fixture = Fixture::with(Options::new().memory_budget(64 << 20));
    fixture.run("shop", r#"{"insert":"c","documents":[{"_id":0}]}"#);
    let text = "x".repeat(6 << 20);
    let insert = |n: u32, more: &str| {
        let within = format!(r#"{SESSION},"txnNumber":1,"autocommit":false{more}"#);
        format!(r#"{{"insert":"c","documents":[{{"_id":{n},"t":{text:?}}}],{within}}}"#)
    };
    let mut reply = fixture.run("shop", &insert(1, r#","startTransaction":true"#));
    for n in 2..6 {
        if reply.int("n") == Some(1) {
            reply = fixture.run("shop", &insert(n, ""));
        }
    }
    refused(&reply, 146, "(--memory)");
    let errors = |fixture: &mut Fixture| {
        let status = fixture.run("admin", r#"{"serverStatus":1}"#);
        let errors = status.get("flagstone.limitErrors").unwrap().to_value().unwrap();
        errors.get("--memory").and_then(Value::as_i64).unwrap()
    };
    assert_eq!(errors(&mut fixture), 1);
    // Also of one statement among others.
    let mut small = Fixture::with(Options::new().memory_budget(32 << 20));
    let text = "x".repeat(10 << 20);
    let insert = format!(r#"{{"insert":"c","documents":[{{"_id":1}},{{"_id":2,"t":{text:?}}}]}}"#);
    let reply = small.run("shop", &insert);
    assert_eq!((reply.int("n"), reply.int("writeErrors.0.code")), (Some(1), Some(146)));
    assert_eq!(errors(&mut small), 1);
}

/// What is used all the time ends as well, before the server looks at it again.
#[test]
fn what_is_too_old_ends_when_it_is_used() {
    const AGE: Duration = Duration::from_secs(1);
    let mut fixture = fixture(9, |options| options.snapshot_age = AGE);
    let found = fixture.run("shop", r#"{"find":"c","batchSize":1}"#);
    let id = found.int("cursor.id").unwrap();
    let update = format!(
        r#"{{"update":"c","updates":[{{"q":{{"_id":1}},"u":{{"$set":{{"x":1}}}}}}],{SESSION},
        "txnNumber":1,"autocommit":false,"startTransaction":true}}"#
    );
    assert_eq!(fixture.run("shop", &update).int("n"), Some(1));
    std::thread::sleep(AGE);
    refused(&fixture.run("shop", &more(id)), 43, "(--snapshot-age)");
    let again = update.replace(r#","startTransaction":true"#, "");
    refused(&fixture.run("shop", &again), 251, "(--snapshot-age)");
    let read = fixture.run("shop", r#"{"find":"c","filter":{"x":{"$exists":true}}}"#);
    assert!(read.get("cursor.firstBatch.0").is_none(), "{read}");
}

/// Each open cursor of a pipeline kept what it had sorted or grouped, up to 64 MiB.
#[test]
fn open_cursors_of_pipelines_give_their_memory_up() {
    let mut fixture = fixture(0, |_| {});
    let collection = fixture.service.database().collection("shop.c").unwrap();
    let text = "x".repeat(400);
    for n in 0..4000 {
        collection.put(n, Json(&format!(r#"{{"n":{n},"t":"{text}"}}"#))).unwrap();
    }
    let bytes = |fixture: &mut Fixture| {
        fixture.run("admin", r#"{"serverStatus":1}"#).int("flagstone.queryBytes").unwrap()
    };
    let mut open = Vec::new();
    for stages in [
        r#"{"$addFields":{"m":{"$add":["$n",1]}}},{"$sort":{"m":-1}}"#,
        r#"{"$group":{"_id":"$n","t":{"$first":"$t"}}},{"$sort":{"_id":-1}}"#,
        r#"{"$group":{"_id":"$n","t":{"$first":"$t"}}}"#,
        r#"{"$sort":{"t":1,"n":-1}}"#,
        r#"{"$setWindowFields":{"sortBy":{"n":-1},"output":{"s":{"$sum":"$n",
            "window":{"documents":[-1,0]}}}}}"#,
    ] {
        let aggregate =
            format!(r#"{{"aggregate":"c","pipeline":[{stages}],"cursor":{{"batchSize":1}}}}"#);
        let first = fixture.run("shop", &aggregate);
        open.push((stages, first.int("cursor.id").unwrap_or_else(|| panic!("{first}"))));
        assert_eq!(bytes(&mut fixture), 0, "{stages}");
    }
    for (stages, id) in open {
        let (mut id, mut count) = (id, 1);
        while id != 0 {
            let more = more(id).replace("1}", "1500}");
            let found = fixture.run("shop", &more);
            let batch = found.get("cursor.nextBatch").unwrap_or_else(|| panic!("{found}"));
            count += batch.to_value().unwrap().as_array().unwrap().len();
            id = found.int("cursor.id").unwrap();
            assert_eq!(bytes(&mut fixture), 0, "{stages}");
        }
        assert_eq!(count, 4000, "{stages}");
    }
    let facet = r#"{"$facet":{"all":[]}}"#;
    let large = r#"{"$lookup":{"from":"c","pipeline":[],"as":"all"}}"#;
    let twice = format!(r#"{large},{{"$unwind":"$all"}},{facet}"#);
    let refusal =
        fixture.run("shop", &format!(r#"{{"aggregate":"c","pipeline":[{twice}],"cursor":{{}}}}"#));
    refused(&refusal, 146, "(--memory)");
}

/// So did those of groups and of distinct values that the tool reads.
#[test]
fn open_cursors_of_the_tool_give_their_memory_up() {
    let mut fixture = fixture(0, |_| {});
    let collection = fixture.service.database().collection("shop.c").unwrap();
    let text = "x".repeat(400);
    for n in 0..4000 {
        collection.put(n, Json(&format!(r#"{{"n":{n},"t":"{text}{n}"}}"#))).unwrap();
    }
    let bytes = |fixture: &mut Fixture| {
        fixture.run("admin", r#"{"serverStatus":1}"#).int("flagstone.queryBytes").unwrap()
    };
    let mut open = Vec::new();
    for operation in [
        r#""flagstone":"group","group":"t: count""#,
        r#""flagstone":"group","group":"t: min(n) as n","sort":"-n""#,
        r#""flagstone":"distinct","path":"t""#,
    ] {
        let first = fixture.run("shop", &format!(r#"{{{operation},"collection":"c"}}"#));
        let id = first.int("cursor.id").unwrap_or_else(|| panic!("{first}"));
        let batch = first.get("cursor.firstBatch").unwrap().to_value().unwrap();
        open.push((operation, id, batch.as_array().unwrap().len()));
        assert_eq!(bytes(&mut fixture), 0, "{operation}");
    }
    for (operation, mut id, mut count) in open {
        while id != 0 {
            let found = fixture.run("shop", &more(id).replace("1}", "1500}"));
            let batch = found.get("cursor.nextBatch").unwrap_or_else(|| panic!("{found}"));
            count += batch.to_value().unwrap().as_array().unwrap().len();
            id = found.int("cursor.id").unwrap();
            assert_eq!(bytes(&mut fixture), 0, "{operation}");
        }
        assert_eq!(count, 4000, "{operation}");
    }
}

/// Each document takes some time.
fn slow(more: &str) -> String {
    let sum = r#"{"$reduce":{"input":{"$range":[0,100000]},"initialValue":0,
        "in":{"$add":["$$value","$$this"]}}}"#;
    format!(
        r#"{{"aggregate":"c","pipeline":[{{"$project":{{"s":{sum}}}}}],"cursor":{{"batchSize":1}}
        {more}}}"#
    )
}

/// The time of a query counted for its first batch alone.
#[test]
fn all_batches_of_a_query_share_the_time_that_it_may_take() {
    let mut fixture = fixture(2000, |_| {});
    let first = fixture.run("shop", &slow(r#","maxTimeMS":1000"#));
    let id = first.int("cursor.id").unwrap_or_else(|| panic!("{first}"));
    let (mut batches, mut reply) = (0, fixture.run("shop", &more(id)));
    while reply.float("ok") == Some(1.0) {
        // Time in which nobody reads does not count.
        std::thread::sleep(Duration::from_millis(2));
        batches += 1;
        reply = fixture.run("shop", &more(id));
    }
    refused(&reply, 50, "maxTimeMS");
    assert!(batches > 1, "{batches}");
    let id = fixture.run("shop", &slow("")).int("cursor.id").unwrap();
    let timed = more(id).replace(r#""batchSize":1"#, r#""maxTimeMS":9"#);
    refused(&fixture.run("shop", &timed), 2, "getMore.maxTimeMS: expected none");
}

#[test]
fn the_server_limits_the_time_of_commands_that_set_none() {
    let mut fixture =
        fixture(2000, |options| options.command_time = Some(Duration::from_millis(300)));
    let id = fixture.run("shop", &slow(r#","maxTimeMS":99999"#)).int("cursor.id").unwrap();
    let all = more(id).replace(r#","batchSize":1"#, "");
    refused(&fixture.run("shop", &all), 50, "(--command-timeout)");
    let grouped = slow("").replace(r#""cursor""#, r#""maxTimeMS":99999,"cursor""#);
    let grouped = grouped.replace("}}],", r#"}},{"$group":{"_id":"$s"}}],"#);
    refused(&fixture.run("shop", &grouped), 50, "(--command-timeout)");
    // A time of the client that is shorter is the one that it is told of.
    let own = grouped.replace("99999", "20");
    refused(&fixture.run("shop", &own), 50, "its maxTimeMS");
}
