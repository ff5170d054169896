//! Servers of a cluster, any number of them side by side. Its store is in memory.

use super::{Fixture, check_with};
use flagstone::{Document, Value, doc};
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::{Faults, Mem};
use flagstone_server::access::{Role, RoleKind};
use flagstone_server::bson::{BsonReader, BsonWriter};
use flagstone_server::command::{Service, ServiceOptions};
use flagstone_server::wire::{Request, put_message};
use std::sync::Arc;
use std::time::Duration;

/// A server of a store, as another process would be.
pub(crate) fn served(mem: &Arc<Mem>) -> Arc<Service> {
    let cluster = Cluster::over(Arc::clone(mem) as _).unwrap();
    Service::over(Arc::new(cluster), ServiceOptions::default()).unwrap()
}

pub(super) fn there(mem: &Arc<Mem>) -> Fixture {
    Fixture::of(served(mem))
}

/// Two servers of one store.
fn two() -> (Arc<Mem>, Fixture, Fixture) {
    let mem = Arc::new(Mem::new());
    let (one, other) = (there(&mem), there(&mem));
    (mem, one, other)
}

#[track_caller]
fn done(fixture: &mut Fixture, command: &str) -> Document {
    let reply = fixture.run("shop", command);
    assert_eq!(reply.float("ok"), Some(1.0), "{command}: {reply}");
    assert!(reply.get("writeErrors").is_none(), "{command}: {reply}");
    reply
}

fn value_of(reply: &Document, path: &str) -> Value {
    reply.get(path).unwrap_or_else(|| panic!("{path}: {reply}")).to_value().unwrap()
}

/// Returns what a command finds first.
#[track_caller]
fn first_of(fixture: &mut Fixture, command: &str) -> String {
    let reply = done(fixture, command);
    value_of(&reply, "cursor.firstBatch").to_string()
}

macro_rules! texts {
    ($($name:ident $file:literal)*) => {
        $(#[test] fn $name() {
            check_with(&mut there(&Arc::new(Mem::new())), include_str!($file), true);
        })*
    };
}

texts! {
    what_a_cluster_does_and_what_it_refuses "cluster.txt"
    documents_are_inserted_found_and_removed "documents.txt"
    keys_come_back_as_they_were_sent "keys.txt"
    indexes_of_the_key_and_of_arrays_are_taken_as_given "indexes.txt"
    pipelines_and_expressions_are_run "pipelines.txt"
    documents_are_changed_and_upserted "updates.txt"
    arguments_of_drivers_are_ignored_or_refused_by_name "fields.txt"
    several_collections_are_written_by_one_command "bulk.txt"
    what_is_malformed_is_refused_by_name "refused.txt"
}

#[test]
fn drivers_take_the_server_for_one_that_is_alone() {
    let Fixture { service, mut client, .. } = there(&Arc::new(Mem::new()));
    for command in [r#"{"hello":1,"$db":"admin"}"#, r#"{"isMaster":1,"$db":"admin"}"#] {
        let (mut message, mut answer) = (Vec::new(), Vec::new());
        let bson = |out: &mut Vec<u8>| BsonWriter::new(out).document(&super::parse(command).root());
        put_message(&mut message, (1, 0), false, false, bson).unwrap();
        service.answer(&mut client, &message, &mut answer).unwrap();
        let (_, Request::Message(reply)) = Request::parse(&answer).unwrap() else { panic!() };
        let mut bytes = Vec::new();
        BsonReader::new().read(reply.command, None, &mut bytes).unwrap();
        let reply = Document::from_bytes(bytes, None).unwrap();
        assert_eq!(reply.int("maxWireVersion"), Some(21), "{reply}");
        for field in ["msg", "setName", "hosts", "operationTime", "$clusterTime"] {
            assert!(reply.get(field).is_none(), "{field}: {reply}");
        }
    }
}

#[test]
fn what_one_server_makes_and_drops_another_sees_at_once() {
    let (_mem, mut one, mut other) = two();
    assert_eq!(first_of(&mut other, r#"{"find":"c"}"#), "[]");
    done(&mut one, r#"{"insert":"c","documents":[{"_id":1,"n":1},{"_id":2,"n":2}]}"#);
    let by_n = r#"{"find":"c","filter":{"n":{"$gte":2}},"hint":"n_1"}"#;
    assert_eq!(first_of(&mut other, r#"{"find":"c","filter":{"_id":1}}"#), r#"[{"_id":1,"n":1}]"#);
    assert_eq!(other.run("shop", by_n).int("code"), Some(2));
    done(&mut one, r#"{"createIndexes":"c","indexes":[{"key":{"n":1},"name":"n_1"}]}"#);
    let listed = done(&mut other, r#"{"listIndexes":"c"}"#);
    assert_eq!(listed.str("cursor.firstBatch.1.name"), Some("n_1"), "{listed}");
    assert_eq!(first_of(&mut other, by_n), r#"[{"_id":2,"n":2}]"#);
    // The other one writes its entries, too.
    done(&mut other, r#"{"insert":"c","documents":[{"_id":3,"n":3}]}"#);
    let entries = r#"{"find":"c","filter":{"n":3},"hint":"n_1"}"#;
    assert_eq!(first_of(&mut one, entries), r#"[{"_id":3,"n":3}]"#);
    done(&mut other, r#"{"dropIndexes":"c","index":"n_1"}"#);
    let listed = done(&mut one, r#"{"listIndexes":"c"}"#);
    assert!(listed.get("cursor.firstBatch.1").is_none(), "{listed}");
    // A server with a handle of what was dropped goes on with what has the name now.
    done(&mut one, r#"{"drop":"c"}"#);
    for command in [
        r#"{"insert":"c","documents":[{"_id":7}]}"#,
        r#"{"update":"c","updates":[{"q":{"_id":8},"u":{"$set":{"n":1}},"upsert":true}]}"#,
    ] {
        assert_eq!(done(&mut other, command).int("n"), Some(1), "{command}");
    }
    assert_eq!(done(&mut one, r#"{"count":"c"}"#).int("n"), Some(2));
    done(&mut other, r#"{"drop":"c"}"#);
    done(&mut other, r#"{"insert":"c","documents":[{"_id":9}]}"#);
    for command in [r#"{"find":"c"}"#, r#"{"find":"c","filter":{"_id":9}}"#] {
        assert_eq!(first_of(&mut one, command), r#"[{"_id":9}]"#, "{command}");
    }
    done(&mut one, r#"{"dropDatabase":1}"#);
    assert!(done(&mut other, r#"{"listCollections":1}"#).get("cursor.firstBatch.0").is_none());
}

#[test]
fn servers_side_by_side_lose_no_change() {
    const CHANGES: i64 = 60;
    let (mem, mut one, mut other) = two();
    mem.set_faults(Faults { refused: 30, unanswered: 30, pauses: 200, ..Faults::default() });
    let work = |server: &mut Fixture| {
        for n in 0..CHANGES {
            let inc = r#"{"update":"c","updates":[
                {"q":{"_id":"count"},"u":{"$inc":{"n":1}},"upsert":true}]}"#;
            done(server, inc);
            let push = format!(
                r#"{{"findAndModify":"c","query":{{"_id":"list"}},"upsert":true,"new":true,
                    "update":{{"$push":{{"n":{n}}}}}}}"#
            );
            assert_eq!(done(server, &push).str("value._id"), Some("list"));
            let stages = r#"{"update":"c","updates":[{"q":{"kind":"sum"},"upsert":true,"u":[
                {"$set":{"_id":"sum","n":{"$add":[{"$ifNull":["$n",0]},2]}}}]}]}"#;
            let reply = server.run("shop", stages);
            // Both may find none, and one is told that the other was faster.
            assert!(reply.get("writeErrors").is_none() || n == 0, "{reply}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(&mut one));
        work(&mut other);
    });
    mem.set_faults(Faults::default());
    let n = |server: &mut Fixture, id: &str| {
        let found = done(server, &format!(r#"{{"find":"c","filter":{{"_id":"{id}"}}}}"#));
        value_of(&found, "cursor.firstBatch.0.n")
    };
    assert_eq!(n(&mut one, "count").as_i64(), Some(2 * CHANGES));
    let list = n(&mut other, "list");
    for value in 0..CHANGES {
        let is_it = |one: &&Value| one.as_i64() == Some(value);
        assert_eq!(list.as_array().unwrap().iter().filter(is_it).count(), 2, "{value}: {list}");
    }
}

#[test]
fn each_job_is_claimed_by_one_server() {
    const JOBS: usize = 60;
    let (mem, mut one, mut other) = two();
    let jobs = (0..JOBS).map(|n| format!(r#"{{"_id":{n},"at":{}}}"#, JOBS - n));
    let jobs = jobs.collect::<Vec<_>>().join(",");
    done(&mut one, &format!(r#"{{"insert":"jobs","documents":[{jobs}]}}"#));
    done(&mut one, r#"{"createIndexes":"jobs","indexes":[{"key":{"at":1},"name":"at_1"}]}"#);
    mem.set_faults(Faults { pauses: 300, ..Faults::default() });
    let claim = |server: &mut Fixture| {
        let mut claimed = Vec::new();
        loop {
            let command = r#"{"findAndModify":"jobs","query":{"by":null},"sort":{"at":1},
                "update":{"$set":{"by":1}}}"#;
            let reply = done(server, command);
            let Some(id) = reply.int("value._id") else {
                // There was one, if another server was faster with the one that was found.
                let left = done(server, r#"{"count":"jobs","query":{"by":null}}"#);
                assert_eq!(left.int("n"), Some(0));
                return claimed;
            };
            claimed.push(id);
        }
    };
    let mut all = std::thread::scope(|scope| {
        let first = scope.spawn(|| claim(&mut one));
        let mut all = claim(&mut other);
        all.extend(first.join().unwrap());
        all
    });
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..JOBS as i64), "{all:?}");
}

/// A query in the order of the index found again, further on, what the update had moved there.
#[test]
fn an_update_of_what_an_index_orders_changes_each_document_once() {
    // More than the first pages of all buckets have.
    const COUNT: usize = 4_000;
    let mut server = there(&Arc::new(Mem::new()));
    done(&mut server, r#"{"createIndexes":"c","indexes":[{"key":{"n":1},"name":"n_1"}]}"#);
    let documents = (0..COUNT).map(|n| format!(r#"{{"_id":{n},"n":{n}}}"#));
    let documents = documents.collect::<Vec<_>>().join(",");
    done(&mut server, &format!(r#"{{"insert":"c","documents":[{documents}]}}"#));
    let update = r#"{"update":"c","updates":[
        {"q":{"n":{"$gte":0}},"u":{"$inc":{"n":10000,"times":1}},"multi":true,"hint":"n_1"}]}"#;
    assert_eq!(done(&mut server, update).int("nModified"), Some(COUNT as i64));
    let twice = r#"{"count":"c","query":{"times":{"$ne":1}}}"#;
    assert_eq!(done(&mut server, twice).int("n"), Some(0));
    let moved = r#"{"count":"c","query":{"n":{"$gte":10000}},"hint":"n_1"}"#;
    assert_eq!(done(&mut server, moved).int("n"), Some(COUNT as i64));
    let delete = r#"{"delete":"c","deletes":[{"q":{"n":{"$lt":10100}},"limit":0}]}"#;
    assert_eq!(done(&mut server, delete).int("n"), Some(100));
    assert_eq!(done(&mut server, r#"{"count":"c"}"#).int("n"), Some(COUNT as i64 - 100));
}

#[test]
fn a_cursor_returns_all_in_its_order() {
    const COUNT: usize = 1_000;
    let (_mem, mut one, mut other) = two();
    let documents = (0..COUNT).map(|n| format!(r#"{{"_id":{n},"n":{}}}"#, (n * 7) % COUNT));
    let documents = documents.collect::<Vec<_>>().join(",");
    done(&mut one, &format!(r#"{{"insert":"c","documents":[{documents}]}}"#));
    let find = r#"{"find":"c","sort":{"n":1},"skip":10,"limit":900,"batchSize":300}"#;
    let mut reply = done(&mut one, find);
    let id = reply.int("cursor.id").unwrap();
    let more =
        format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"c","batchSize":300}}"#);
    // A cursor belongs to the server that has opened it.
    assert_eq!(other.run("shop", &more).int("code"), Some(43));
    let (mut found, mut batch) = (Vec::new(), "firstBatch");
    loop {
        let rows = value_of(&reply, &format!("cursor.{batch}"));
        let rows = rows.as_array().unwrap();
        found.extend(rows.iter().map(|row| row.get("n").unwrap().as_i64().unwrap()));
        if reply.int("cursor.id") == Some(0) {
            break;
        }
        reply = done(&mut one, &more);
        batch = "nextBatch";
    }
    assert!(found.iter().copied().eq(10..910), "{found:?}");
}

#[test]
fn ordered_inserts_end_at_the_first_key_that_is_there() {
    let mut server = there(&Arc::new(Mem::new()));
    done(&mut server, r#"{"insert":"c","documents":[{"_id":2,"old":1}]}"#);
    let insert = |server: &mut Fixture, ordered: bool| {
        let command = format!(
            r#"{{"insert":"c","ordered":{ordered},"documents":[
                {{"_id":0}},{{"_id":1}},{{"_id":2}},{{"_id":3}},{{"_id":0}},{{"_id":4}}]}}"#
        );
        let reply = server.run("shop", &command);
        let errors = value_of(&reply, "writeErrors");
        let index = |error: &Value| {
            assert_eq!(error.get("code").unwrap().as_i64(), Some(11000));
            error.get("index").unwrap().as_i64().unwrap()
        };
        let errors: Vec<_> = errors.as_array().unwrap().iter().map(index).collect();
        (reply.int("n").unwrap(), errors)
    };
    assert_eq!(insert(&mut server, true), (2, vec![2]));
    assert_eq!(done(&mut server, r#"{"count":"c"}"#).int("n"), Some(3));
    assert_eq!(insert(&mut server, false), (2, vec![0, 1, 2, 4]));
    assert_eq!(done(&mut server, r#"{"count":"c"}"#).int("n"), Some(5));
    let old = r#"{"find":"c","filter":{"_id":2}}"#;
    assert_eq!(first_of(&mut server, old), r#"[{"_id":2,"old":1}]"#);
}

/// What drivers send again by themselves. 64 is not among these.
const RETRIED: [i64; 13] = [6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436];

#[test]
fn an_unknown_outcome_is_told_and_never_to_be_repeated() {
    let mem = Arc::new(Mem::new());
    let mut server = there(&mem);
    let list = |from: i64| {
        let documents = (from..from + 40).map(|n| format!(r#"{{"_id":{n}}}"#));
        documents.collect::<Vec<_>>().join(",")
    };
    done(&mut server, &format!(r#"{{"insert":"c","documents":[{}]}}"#, list(0)));
    let commands = [
        r#"{"insert":"c","documents":[{"_id":100}]}"#.to_owned(),
        format!(r#"{{"insert":"c","documents":[{}]}}"#, list(200)),
        format!(r#"{{"insert":"c","documents":[{}],"ordered":false}}"#, list(300)),
        r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}"#.to_owned(),
        r#"{"update":"c","updates":[{"q":{},"u":{"$inc":{"n":1}},"multi":true}]}"#.to_owned(),
        r#"{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]}"#.to_owned(),
        r#"{"delete":"c","deletes":[{"q":{"_id":{"$lt":9}},"limit":0}]}"#.to_owned(),
        r#"{"findAndModify":"c","query":{"_id":20},"update":{"$inc":{"n":1}}}"#.to_owned(),
    ];
    for command in commands {
        mem.set_faults(Faults { late: 1000, ..Faults::default() });
        let reply = server.run("shop", &command);
        mem.set_faults(Faults::default());
        mem.deliver();
        let code = reply.int("code").unwrap_or_else(|| panic!("{command}: {reply}"));
        assert!(code == 64 && !RETRIED.contains(&code), "{command}: {reply}");
        assert!(reply.get("errorLabels").is_none(), "{command}: {reply}");
        let text = reply.str("errmsg").unwrap();
        assert!(text.contains("may still happen"), "{command}: {text}");
    }
}

#[test]
fn of_inserts_out_of_order_each_unknown_one_is_told() {
    let mem = Arc::new(Mem::new());
    let mut server = there(&mem);
    done(&mut server, r#"{"insert":"c","documents":[{"_id":-1}]}"#);
    // Some of the batches do not come in time, and of some of these that can be told.
    let (mut seen, mut tries) = (0, 0);
    while seen < 2 {
        tries += 1;
        assert!(tries < 500, "no insert with several unknown ones: expected other faults");
        let documents = (0..60).map(|n| format!(r#"{{"_id":"{tries} {n}"}}"#));
        let documents = documents.collect::<Vec<_>>().join(",");
        let insert = format!(r#"{{"insert":"c","ordered":false,"documents":[{documents}]}}"#);
        mem.set_faults(Faults { late: 900, ..Faults::default() });
        let reply = server.run("shop", &insert);
        mem.set_faults(Faults::default());
        let Some(n) = reply.int("n") else { continue };
        let errors = reply.get("writeErrors").map_or(0, |errors| {
            let errors = errors.to_value().unwrap();
            let errors = errors.as_array().unwrap();
            let codes = errors.iter().map(|error| error.get("code").unwrap().as_i64().unwrap());
            let codes: Vec<_> = codes.collect();
            assert!(codes.iter().all(|code| [6, 64].contains(code)), "{codes:?}");
            seen = seen.max(codes.iter().filter(|code| **code == 64).count());
            codes.len() as i64
        });
        assert_eq!(n + errors, 60, "{reply}");
    }
}

/// Those behind the last one that failed had no result.
#[test]
fn each_insert_of_a_bulk_write_out_of_order_has_a_result() {
    let mem = Arc::new(Mem::new());
    let mut server = there(&mem);
    done(&mut server, r#"{"insert":"c","documents":[{"_id":-1}]}"#);
    let (mut ends_well, mut tries) = (false, 0);
    while !ends_well {
        tries += 1;
        assert!(tries < 500, "no failure before the last insert: expected other faults");
        let op = |n| format!(r#"{{"insert":0,"document":{{"_id":"{tries} {n}"}}}}"#);
        let ops = (0..60).map(op).collect::<Vec<_>>().join(",");
        let bulk = r#""ordered":false,"nsInfo":[{"ns":"shop.c"}]"#;
        mem.set_faults(Faults { late: 900, ..Faults::default() });
        let reply = server.run("admin", &format!(r#"{{"bulkWrite":1,{bulk},"ops":[{ops}]}}"#));
        mem.set_faults(Faults::default());
        let Some(inserted) = reply.int("nInserted") else { continue };
        let rows = value_of(&reply, "cursor.firstBatch");
        let rows = rows.as_array().unwrap();
        let is_ok = |row: &&Value| row.get("ok").unwrap().as_f64() == Some(1.0);
        assert_eq!(rows.len(), 60, "{reply}");
        assert_eq!(rows.iter().filter(is_ok).count() as i64, inserted, "{reply}");
        ends_well = inserted < 60 && rows.last().as_ref().is_some_and(is_ok);
    }
}

#[test]
fn a_cluster_that_does_not_answer_is_told() {
    let mem = Arc::new(Mem::new());
    let mut server = there(&mem);
    done(&mut server, r#"{"insert":"c","documents":[{"_id":1}]}"#);
    mem.set_faults(Faults { unavailable: 1000, ..Faults::default() });
    for command in [
        r#"{"find":"c"}"#,
        r#"{"insert":"c","documents":[{"_id":2}]}"#,
        r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}"#,
        r#"{"listCollections":1}"#,
        r#"{"create":"d"}"#,
    ] {
        let reply = server.run("shop", command);
        let found = (reply.int("code"), reply.str("codeName"));
        assert_eq!(found, (Some(6), Some("HostUnreachable")), "{command}: {reply}");
        assert!(reply.get("errorLabels").is_none(), "{command}: {reply}");
    }
    // What is known of this process needs no cluster.
    done(&mut server, r#"{"ping":1}"#);
    assert!(done(&mut server, r#"{"serverStatus":1}"#).get("opcounters.command").is_some());
    mem.set_faults(Faults::default());
    assert_eq!(first_of(&mut server, r#"{"find":"c"}"#), r#"[{"_id":1}]"#);
}

#[test]
fn a_document_that_is_too_large_is_refused_as_drivers_know_it() {
    let mut server = there(&Arc::new(Mem::new()));
    let text = "x".repeat(5 << 20);
    let insert = |n: usize| {
        let texts = vec![format!("{text:?}"); n].join(",");
        format!(r#"{{"insert":"c","documents":[{{"_id":0}},{{"_id":{n},"a":[{texts}]}}]}}"#)
    };
    let reply = server.run("shop", &insert(2));
    assert_eq!((reply.int("n"), reply.int("writeErrors.0.code")), (Some(1), Some(10334)));
    assert!(reply.str("writeErrors.0.errmsg").unwrap().contains("at most 8388608"), "{reply}");
    done(&mut server, &insert(1).replace(r#"{"_id":0},"#, ""));
    let push = format!(
        r#"{{"update":"c","updates":[{{"q":{{"_id":1}},"u":{{"$push":{{"a":{text:?}}}}}}}]}}"#
    );
    let reply = server.run("shop", &push);
    assert_eq!((reply.int("n"), reply.int("writeErrors.0.code")), (Some(0), Some(10334)));
}

#[test]
fn the_tool_loads_into_a_cluster() {
    let mut server = there(&Arc::new(Mem::new()));
    let mut load = |mode: &str, keys: &[i64], value: i64, more: Value| {
        let bytes = |value: Value| {
            let document = Document::from_value(&value).unwrap();
            Value::Bytes(document.as_bytes().to_vec())
        };
        let part = |key: &i64| {
            let mut fields = flagstone::doc::Map::new();
            fields.insert(mode, value);
            doc!({ "k": (bytes(Value::from(*key))), "d": (bytes(Value::Map(fields))) })
        };
        let mut command = doc!({ "flagstone": "load", "collection": "c", "mode": mode,
            "documents": (keys.iter().map(part).collect::<Value>()) });
        if let (Value::Map(command), Value::Map(more)) = (&mut command, &more) {
            more.iter().for_each(|(name, value)| drop(command.insert(name.clone(), value.clone())));
        }
        let command = Document::from_value(&command).unwrap();
        let Fixture { service, client, .. } = &mut server;
        service.run(client, "shop", &command).unwrap()
    };
    let none = || doc!({});
    let done = |reply: Document| {
        let at = |problem: &Value| problem.get("at").unwrap().as_i64().unwrap();
        let problems = reply.get("problems").map(|problems| problems.to_value().unwrap());
        let problems = problems.as_ref().and_then(Value::as_array).unwrap_or_default();
        let exist = |problem: &Value| problem.get("exists") == Some(&Value::from(true));
        assert!(problems.iter().all(exist), "{reply}");
        (reply.int("done").unwrap(), problems.iter().map(at).collect::<Vec<_>>())
    };
    assert_eq!(done(load("upsert", &[1, 2], 0, none())), (2, vec![]));
    assert_eq!(done(load("upsert", &[2, 3, 3], 1, none())), (3, vec![]));
    assert_eq!(done(load("insert", &[3, 4, 4, 5], 2, none())), (2, vec![0, 2]));
    let stops = doc!({ "stopsAtExisting": true });
    assert_eq!(done(load("insert", &[6, 4, 7], 3, stops)), (1, vec![1]));
    assert_eq!(done(load("merge", &[1, 8], 4, none())), (2, vec![]));
    let refused = load("upsert", &[9], 5, doc!({ "durability": "group" }));
    let text = refused.str("errmsg").unwrap_or_default();
    assert!(text.contains("commitlog_sync group or batch"), "{refused}");
    let found = first_of(&mut server, r#"{"find":"c","sort":{"_id":1}}"#);
    let expected = r#"[{"_id":1,"upsert":0,"merge":4},{"_id":2,"upsert":1},{"_id":3,"upsert":1},
        {"_id":4,"insert":2},{"_id":5,"insert":2},{"_id":6,"insert":3},{"_id":8,"merge":4}]"#;
    assert_eq!(found, expected.replace("\n        ", ""));
}

#[test]
fn users_belong_to_the_cluster() {
    let (mem, mut one, other) = two();
    let create = r#"{"createUser":"ada","pwd":"lovelace","roles":["root"]}"#;
    let reply = one.run("admin", create);
    assert_eq!(reply.float("ok"), Some(1.0), "{reply}");
    one.client.log_in(one.service.users().get("ada").unwrap());
    let again = one.run("admin", create);
    assert_eq!(again.int("code"), Some(51003), "{again}");
    // A server that reads them begins with them, and one that has not looks before it refuses.
    std::thread::sleep(Duration::from_millis(1100));
    let check = |service: &Service, password: &str| {
        service.users().check_password("ada", password).unwrap().is_some()
    };
    assert!(check(&other.service, "lovelace"));
    assert!(!check(&other.service, "byron"));
    let third = there(&mem);
    assert!(third.service.users().exist() && check(&third.service, "lovelace"));
    // Another server changes the password, and the old one ends with the next look.
    let role = |kind| vec![Role { kind, database: None }];
    let users = other.service.users();
    assert!(users.update("ada", Some("byron"), Some(role(RoleKind::Read))).unwrap());
    // A driver sends a proof of the new password once, and no other try.
    std::thread::sleep(Duration::from_millis(1100));
    let proved = crate::access::log_in(third.service.users(), "ada", "byron").unwrap();
    assert_eq!(proved.roles, role(RoleKind::Read));
    assert!(!check(&third.service, "lovelace"));
    assert!(check(&one.service, "lovelace"), "it has not looked yet");
    one.service.tick().unwrap();
    assert!(check(&one.service, "byron") && !check(&one.service, "lovelace"));
    let mut client = third.service.client("there".to_owned(), "here".to_owned(), false);
    client.log_in(third.service.users().get("ada").unwrap());
    let insert = super::parse(r#"{"insert":"c","documents":[{"_id":1}]}"#);
    let reply = third.service.run(&mut client, "shop", &insert).unwrap();
    assert_eq!(reply.int("code"), Some(13), "{reply}");
    // Their collection is hidden, and no one's to read.
    let mut root = there(&mem);
    root.client.become_root();
    let listed = root.run("admin", r#"{"listCollections":1,"nameOnly":true}"#);
    assert!(listed.get("cursor.firstBatch.0").is_none(), "{listed}");
    let found = root.run("admin", r#"{"find":"system.users"}"#);
    assert_eq!(found.float("ok"), Some(0.0), "{found}");
    // Of two that create the same user at once one does.
    let made = std::thread::scope(|scope| {
        let create = |service: Arc<Service>, password: &'static str| {
            move || service.users().create("eve", password, role(RoleKind::Read)).is_ok()
        };
        let first = scope.spawn(create(Arc::clone(&one.service), "1"));
        let second = create(Arc::clone(&other.service), "2")();
        [first.join().unwrap(), second]
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    let right = if made[0] { "1" } else { "2" };
    third.service.tick().unwrap();
    assert!(third.service.users().check_password("eve", right).unwrap().is_some());
    assert!(users.remove("eve").unwrap() && !users.remove("eve").unwrap());
    one.service.tick().unwrap();
    assert!(one.service.users().get("eve").is_none());
}

#[test]
fn ordered_inserts_into_a_fresh_handle_look_at_all_keys() {
    let list = |from: i64, to: i64| {
        let documents = (from..to).map(|n| format!(r#"{{"_id":{n}}}"#));
        documents.collect::<Vec<_>>().join(",")
    };
    let insert = |documents: String| format!(r#"{{"insert":"c","documents":[{documents}]}}"#);
    let (mem, mut one, mut other) = two();
    done(&mut one, r#"{"insert":"c","documents":[{"_id":20}]}"#);
    let reply = other.run("shop", &insert(list(0, 1000)));
    let found = (reply.int("n"), reply.int("writeErrors.0.index"));
    assert_eq!(found, (Some(20), Some(20)), "{reply}");
    assert_eq!(done(&mut one, r#"{"count":"c"}"#).int("n"), Some(21));
    // The same key twice, far behind the first keys that are looked up.
    let reply = there(&mem).run("shop", &insert(format!("{},{{\"_id\":100}}", list(100, 400))));
    let found = (reply.int("n"), reply.int("writeErrors.0.index"));
    assert_eq!(found, (Some(300), Some(300)), "{reply}");
    let tool = |keys: &[i64]| {
        let bytes = |value: &Value| {
            let document = Document::from_value(value).unwrap();
            Value::Bytes(document.as_bytes().to_vec())
        };
        let part =
            |key: &i64| doc!({ "k": (bytes(&Value::from(*key))), "d": (bytes(&doc!({ "n": 1 }))) });
        let command = doc!({ "flagstone": "load", "collection": "c", "mode": "insert",
            "stopsAtExisting": true, "documents": (keys.iter().map(part).collect::<Value>()) });
        let Fixture { service, mut client, .. } = there(&mem);
        let reply = service.run(&mut client, "shop", &Document::from_value(&command).unwrap());
        let reply = reply.unwrap();
        (reply.int("done"), reply.int("problems.0.at"))
    };
    let mut keys: Vec<i64> = (500..600).collect();
    keys[50] = 20;
    assert_eq!(tool(&keys), (Some(50), Some(50)));
    assert_eq!(done(&mut one, r#"{"count":"c"}"#).int("n"), Some(371));
}

#[test]
fn update_documents_of_the_tool_change_documents_of_a_cluster() {
    use flagstone::{ErrorKind, Expires, Filter, Moment, Patched, Space};
    use flagstone_pipeline::update::Update;
    let cluster = Cluster::over(Arc::new(Mem::new())).unwrap();
    let c = cluster.collection("c").unwrap();
    let later = Moment::from_millis(4_000_000_000_000);
    c.put(1, doc!({ "tags": ["a", "b"] }).expires(Some(later))).unwrap();
    let text = |key: i64| c.get(key).unwrap().unwrap().to_json().unwrap();
    let push = Update::parse(&doc!({ "$push": { "tags": "c" } }), &[]).unwrap();
    assert_eq!(push.run(&c, 1).unwrap(), Patched::Changed);
    let filter = Filter::parse(r#"{"tags":"b"}"#).unwrap();
    let matched = Update::parse(&doc!({ "$set": { "tags.$": "B" } }), &[]).unwrap();
    let done = c.update_many(&filter, matched.change(&filter).unwrap()).run().unwrap();
    assert_eq!((done.matched, done.modified), (1, 1));
    assert_eq!(
        (text(1).as_str(), c.expiry(1).unwrap()),
        (r#"{"tags":["a","B","c"]}"#, Some(later))
    );
    assert_eq!(push.run(&c, 2).unwrap(), Patched::NoDocument);
    let push = push.upsert();
    assert_eq!(push.run(&c, 2).unwrap(), Patched::Changed);
    assert_eq!(push.run(&c, 2).unwrap(), Patched::Changed);
    assert_eq!(text(2), r#"{"tags":["c","c"]}"#);
    let filter = Filter::parse(r#"{"$key":3,"at.city":"Oslo"}"#).unwrap();
    assert_eq!(push.insert(&c, &filter).unwrap(), Some(Value::from(3)));
    assert_eq!(text(3), r#"{"at":{"city":"Oslo"},"tags":["c"]}"#);
    assert_eq!(push.insert(&c, &filter).unwrap(), None, "it matches now");
    let other = Filter::parse(r#"{"$key":3,"at.city":"Rome"}"#).unwrap();
    assert_eq!(push.insert(&c, &other).unwrap_err().kind(), ErrorKind::Duplicate);
}
