//! Commands as a client may send them: each has a reply that says whether it succeeded, and leaves
//! a collection that agrees with its index.

use super::served::with_service;
use super::{bounded, note};
use flagstone::query::Hint;
use flagstone::{Document, Value, doc};
use flagstone_server::bson::{BsonReader, BsonWriter};
use flagstone_server::command::{Client, Service};
use flagstone_server::wire::{Request, put_message};

/// The most commands of an input.
const COMMANDS_MAX: usize = 12;
/// What a command may take beyond its bytes: an array may get a million and a half of elements.
const MEMORY: usize = 400 << 20;

/// Reads documents of BSON, one after the other, each of which is a command.
pub(super) fn body(bytes: &[u8]) {
    with_service(|service, collection| {
        let mut client = service.client("fuzz".to_owned(), "fuzz".to_owned(), true);
        client.become_root();
        let mut rest = bytes;
        for _ in 0..COMMANDS_MAX {
            let Some(len) = rest.first_chunk::<4>() else { break };
            let len = (u32::from_le_bytes(*len) as usize).clamp(5, rest.len().max(5));
            // The last one may be cut.
            let (command, after) = rest.split_at(len.min(rest.len()));
            rest = after;
            answer(service, &mut client, command);
        }
        // What is left of the collection, if it was not dropped, agrees with its index.
        let hint = Hint::index("a_1");
        let has_index = collection.indexes().iter().any(|index| index.name == "a_1");
        if let (true, Ok(all)) = (has_index, collection.find("{}").hint(Hint::Scan).count()) {
            let by_index = collection.find("{}").hint(hint).count().expect("the index is there");
            assert_eq!(by_index, all, "the index has every document");
        }
        service.tick().unwrap();
    });
}

fn answer(service: &Service, client: &mut Client, command: &[u8]) {
    let mut message = Vec::new();
    let put = |out: &mut Vec<u8>| {
        out.extend_from_slice(command);
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = put_message(&mut message, (7, 0), false, false, put);
    let mut out = Vec::new();
    let answered = bounded(MEMORY, 1, "a command", || service.answer(client, &message, &mut out));
    if let Err(error) = answered {
        assert!(error.offset <= message.len(), "{error}");
        return note(error.expected);
    }
    let Ok((header, Request::Message(reply))) = Request::parse(&out) else {
        panic!("a reply is a message")
    };
    assert_eq!(header.response_to, 7);
    let mut stored = Vec::new();
    BsonReader::new().read(reply.command, None, &mut stored).expect("a reply is BSON");
    let reply = Document::from_bytes(stored, None).expect("what was read is a document");
    match reply.float("ok") {
        Some(1.0) => {
            let names: Vec<String> = reply
                .root()
                .fields()
                .unwrap()
                .flatten()
                .map(|(name, _)| format!("{name:?}"))
                .collect();
            note(names.concat());
        }
        Some(0.0) => {
            let text = reply.str("errmsg").expect("an error has a text");
            let code = reply.int("code").expect("an error has a code");
            assert!(reply.str("codeName").is_some() || text.contains("too large"), "{text}");
            // Code 1 is an error of the server itself.
            assert!(code != 1 || text.contains("too large"), "{text}");
            note(code);
            note(text.split(['"', '\'', ':']).next().unwrap_or_default());
        }
        other => panic!("ok is {other:?}"),
    }
}

fn bson_of(value: &Value) -> Vec<u8> {
    let mut bson = Vec::new();
    let document = Document::from_value(value).expect("a small document");
    BsonWriter::new(&mut bson).document(&document.root()).expect("what BSON has");
    bson
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let command = |command: Value| {
        let mut command = command;
        if let Value::Map(map) = &mut command {
            map.insert("$db", "shop");
        }
        bson_of(&command)
    };
    let session = |more: Value, number: i64| {
        let mut command = more;
        if let Value::Map(map) = &mut command {
            map.insert("lsid", doc!({ "id": (Value::Uuid([1; 16])) }));
            map.insert("txnNumber", number);
        }
        command
    };
    let inc =
        || doc!({ "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "a": 1 } } }] });
    let part = |mut command: Value, is_first: bool| {
        if let Value::Map(map) = &mut command {
            map.insert("autocommit", false);
            if is_first {
                map.insert("startTransaction", true);
            }
        }
        session(command, 2)
    };
    let mut seeds = Vec::new();
    for all in [
        vec![
            doc!({ "insert": "c", "documents": [{ "_id": 9, "a": 1 }, { "_id": 1 }, { "b": {} }],
                "ordered": false, "writeConcern": { "w": "majority" } }),
            doc!({ "find": "c", "filter": { "a": { "$gte": 1 } }, "sort": { "a": -1, "_id": 1 },
                "skip": 1, "limit": 5, "batchSize": 1, "projection": { "c": { "$slice": 1 } } }),
        ],
        vec![doc!({ "update": "c", "updates": [
                { "q": { "c": 2 }, "u": { "$set": { "c.$": 7 },
                    "$push": { "e": { "$each": [1], "$slice": -2 } } } },
                { "q": { "c.x": 1 }, "u": { "$inc": { "c.$[k].x": 1 } },
                    "arrayFilters": [{ "k.x": 1 }] },
                { "q": { "_id": "new" }, "u": { "$setOnInsert": { "a": 1 } }, "upsert": true },
                { "q": {}, "u": [{ "$set": { "s": { "$add": ["$a", 1] } } }], "multi": true },
            ] })],
        vec![
            doc!({ "findAndModify": "c", "query": { "a": { "$gt": 0 } }, "sort": { "a": -1 },
                "update": { "$unset": { "b": 1 } }, "new": true, "fields": { "a": 1 } }),
            doc!({ "findAndModify": "c", "query": { "_id": 2 }, "remove": true }),
            doc!({ "delete": "c", "deletes": [{ "q": { "a": { "$exists": true } }, "limit": 0 }] }),
        ],
        vec![
            doc!({ "aggregate": "c", "pipeline": [{ "$match": { "a": { "$ne": null } } },
                { "$unwind": "$c" }, { "$group": { "_id": "$a", "n": { "$sum": 1 } } },
                { "$sort": { "n": -1 } }], "cursor": { "batchSize": 1 } }),
            doc!({ "count": "c", "query": { "$expr": { "$gt": ["$a", 1] } }, "limit": 3 }),
            doc!({ "distinct": "c", "key": "c.x", "query": { "$or": [{ "a": 1 }, { "b": -7 }] } }),
        ],
        vec![
            doc!({ "createIndexes": "c", "indexes": [{ "key": { "c.x": 1, "b": -1 }, "name": "x",
                "unique": true, "partialFilterExpression": { "a": { "$gt": 0 } } },
                { "key": { "t": 1 }, "name": "t", "expireAfterSeconds": 60 }] }),
            doc!({ "listIndexes": "c" }),
            doc!({ "dropIndexes": "c", "index": ["x"] }),
            doc!({ "collMod": "c", "changeStreamPreAndPostImages": { "enabled": true } }),
            doc!({ "renameCollection": "shop.c", "to": "shop.d", "dropTarget": true }),
            doc!({ "listCollections": 1, "filter": { "name": "d" }, "nameOnly": true }),
            doc!({ "drop": "d" }),
        ],
        vec![session(inc(), 1), session(inc(), 1), session(inc(), 3)],
        vec![
            part(inc(), true),
            part(doc!({ "find": "c", "filter": { "_id": 1 } }), false),
            part(doc!({ "commitTransaction": 1 }), false),
            part(doc!({ "commitTransaction": 1 }), false),
        ],
        vec![
            doc!({ "hello": 1, "saslSupportedMechs": "admin.ada" }),
            doc!({ "explain": { "find": "c", "filter": { "a": 1 } },
                "verbosity": "executionStats" }),
            doc!({ "collStats": "c", "scale": 1 }),
            doc!({ "serverStatus": 1 }),
            doc!({ "listDatabases": 1 }),
            doc!({ "validate": "c" }),
            doc!({ "getMore": 5, "collection": "c" }),
            doc!({ "killCursors": "c", "cursors": [5] }),
        ],
        vec![
            doc!({ "usersInfo": 1 }),
            doc!({ "saslStart": 1, "mechanism": "SCRAM-SHA-256",
                "payload": (b"n,,n=ada,r=x".to_vec()) }),
            doc!({ "saslContinue": 1, "conversationId": 1, "payload": (Vec::<u8>::new()) }),
            doc!({ "endSessions": [{ "id": (Value::Uuid([1; 16])) }] }),
        ],
    ] {
        seeds.push(all.into_iter().map(command).collect::<Vec<_>>().concat());
    }
    seeds
}
