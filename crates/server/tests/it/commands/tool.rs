//! What the command-line tool asks for may come from anybody: any bytes are answered.

use super::Fixture;
use crate::{mutate, random};
use flagstone::admin::Backups;
use flagstone::doc::JsonMode;
use flagstone::{Document, Value, doc};
use flagstone_server::access::{Role, RoleKind, User};
use flagstone_server::command::{Service, ServiceOptions};

/// All operations, and texts of arguments that they take.
const OPERATIONS: [&str; 28] = [
    "open",
    "create",
    "collections",
    "stats",
    "indexes",
    "createIndex",
    "dropIndex",
    "drop",
    "rename",
    "find",
    "page",
    "count",
    "explain",
    "group",
    "distinct",
    "scan",
    "aggregate",
    "get",
    "put",
    "patch",
    "delete",
    "writeMany",
    "updateMany",
    "load",
    "watch",
    "backup",
    "none",
    "",
];

#[test]
fn operations_take_any_bytes() {
    let mut random = random("operations_take_any_bytes");
    let mut fixture = Fixture::new();
    let (mut done, mut refused) = (0, 0);
    for _ in 0..flagstone_testkit::rounds(600, 20_000) {
        let value = doc!({ "a": 1, "b": [(1.5), "text", null], "c": { "d": true } });
        let whole = Document::from_value(&value).unwrap().as_bytes().to_vec();
        let mut bytes = |damage: bool| {
            let mut bytes = whole.clone();
            if damage {
                mutate(&mut random, &mut bytes);
            }
            Value::Bytes(bytes)
        };
        let mut command = flagstone::doc::Map::new();
        let mut arguments: Vec<(&str, Value)> = Vec::new();
        let damaged = done % 3 > 0;
        for name in ["key", "document", "patch", "jsonPatch", "mergePatch", "update", "from", "to"]
        {
            arguments.push((name, bytes(damaged)));
        }
        let part = doc!({ "k": (bytes(damaged)), "d": (bytes(false)) });
        arguments.push(("documents", Value::Array(vec![part])));
        let texts = [
            ("filter", "{\"a\":{\"$gte\":0}}"),
            ("sort", "-a"),
            ("group", "a: count"),
            ("path", "b"),
            ("pipeline", "[{\"$limit\":1}]"),
            ("name", "by_a"),
            ("mode", "insert"),
            ("toDatabase", "test"),
        ];
        for (name, text) in texts {
            let mut text = text.as_bytes().to_vec();
            if random.index(8) == 0 {
                mutate(&mut random, &mut text);
            }
            arguments.push((name, String::from_utf8_lossy(&text).into_owned().into()));
        }
        arguments.push(("fields", doc!(["a", "-c.d"])));
        command.insert("flagstone", *random.pick(&OPERATIONS));
        command.insert("collection", *random.pick(&["c", "d", "$", "system.users", ""]));
        for (name, value) in arguments {
            if random.index(3) > 0 {
                command.insert(name, value);
            }
        }
        let command = Document::from_value(&Value::Map(command)).unwrap();
        let reply = fixture.service.run(&mut fixture.client, "test", &command).unwrap();
        match reply.float("ok") {
            Some(1.0) => done += 1,
            _ => {
                refused += 1;
                let text = reply.to_json_as(JsonMode::Extended).unwrap();
                assert!(!reply.str("errmsg").unwrap().is_empty(), "{text}");
            }
        }
    }
    assert!(done > 50 && refused > 50, "{done} done, {refused} refused");
    // The database is whole, and goes on.
    fixture.service.database().verify().unwrap();
}

/// A generation has the documents of all databases, and the users.
#[test]
fn only_who_may_do_everything_adds_a_backup() {
    let dir = tempfile::tempdir().unwrap();
    let db = flagstone::Database::open(dir.path().join("data")).unwrap();
    let mut options = ServiceOptions::default();
    options.backups = Some(dir.path().join("backups"));
    let service = Service::new(db, options).unwrap();
    let command = Document::from_json(r#"{"flagstone":"backup"}"#).unwrap();
    let role = |kind, database: &str| Role { kind, database: Some(database.to_owned()) };
    for (roles, may) in [
        (vec![], false),
        (vec![Role { kind: RoleKind::ReadWrite, database: None }], false),
        (vec![role(RoleKind::Root, "shop"), role(RoleKind::Root, "admin")], false),
        (vec![Role { kind: RoleKind::Root, database: None }], true),
    ] {
        let mut client = service.client("here".to_owned(), "here".to_owned(), false);
        let roles_text = format!("{roles:?}");
        client.log_in(User { name: "ada".to_owned(), roles });
        let reply = service.run(&mut client, "shop", &command).unwrap();
        let code = (!may).then_some(13);
        assert_eq!(reply.int("code"), code, "{roles_text}: {}", reply.to_json().unwrap());
        assert_eq!(reply.int("generation"), may.then_some(1), "{roles_text}");
    }
    assert_eq!(Backups::in_dir(dir.path().join("backups")).list().unwrap().len(), 1);
}

#[test]
fn the_server_keeps_what_is_its_own() {
    let mut fixture = Fixture::new();
    let users = r#"{"createUser":"ada","pwd":"p","roles":["root"]}"#;
    fixture.run("admin", users);
    fixture.client.become_root();
    for command in [
        r#"{"flagstone":"find","collection":"system.users"}"#,
        r#"{"flagstone":"scan","collection":"system.users"}"#,
        r#"{"flagstone":"drop","collection":"system.users"}"#,
        r#"{"flagstone":"open","collection":"system.users"}"#,
        r#"{"flagstone":"watch","collection":"system.users","from":"start"}"#,
    ] {
        let reply = fixture.run("admin", command);
        assert_eq!(reply.float("ok"), Some(0.0), "{command}");
    }
    fixture.run("shop", r#"{"insert":"c","documents":[{"_id":1}]}"#);
    let names = r#"{"flagstone":"collections","whole":true,"namesOnly":true}"#;
    assert_eq!(fixture.run("admin", names).to_json().unwrap(), r#"{"names":["shop.c"],"ok":1.0}"#);
    let stats = fixture.run("admin", r#"{"flagstone":"stats","whole":true}"#);
    let stats = stats.get("d").unwrap().as_bytes().unwrap().to_vec();
    let stats = Document::from_bytes(stats, None).unwrap().to_json().unwrap();
    assert!(stats.contains("shop.c") && !stats.contains("system.users"), "{stats}");
}

/// All events of a commit were made at once, which could take all memory.
#[test]
fn the_feed_stops_and_goes_on_within_a_commit() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    let database = fixture.service.database().clone();
    let [shown, hidden] =
        ["shop.c", "shop.system.x"].map(|name| database.collection(name).unwrap());
    let mut batch = database.batch();
    for n in 0..300_i64 {
        batch.put(&shown, n, doc!({ "n": n })).unwrap();
        batch.put(&hidden, n, doc!({ "n": n })).unwrap();
    }
    database.commit(batch).unwrap();
    let mut reply = fixture.run("shop", r#"{"flagstone":"watch","from":"start"}"#);
    let (mut name, mut seen, mut last) = ("cursor.firstBatch", 0, Vec::new());
    loop {
        for event in reply.get(name).unwrap().items().unwrap() {
            let event = event.unwrap();
            let field = |name: &str| event.get(name).unwrap();
            assert_eq!(field("keyspace").unwrap().as_str(), Some("shop.c"));
            seen += 1;
            let is_last = field("isLast").unwrap().as_bool() == Some(true);
            assert_eq!(field("token").is_some(), is_last);
            last.extend(is_last.then_some(seen));
        }
        let id = reply.int("cursor.id").unwrap();
        if id == 0 {
            break;
        }
        let more = format!(
            r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"$cmd.watch","batchSize":50}}"#
        );
        (name, reply) = ("cursor.nextBatch", fixture.run("shop", &more));
    }
    assert_eq!((seen, last), (300, vec![300]));
}

/// A collection with partitions was created without what change streams need, and a load that
/// merges was as durable as the database, whatever it had asked for.
#[test]
fn a_load_creates_what_streams_need_and_merges_as_durably_as_it_is_asked() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    let database = fixture.service.database().clone();
    let mut load = |collection: &str, mode: &str, durability: &str, n: i64| {
        let bytes = |value: Value| {
            let document = Document::from_value(&value).unwrap();
            Value::Bytes(document.as_bytes().to_vec())
        };
        let part = doc!({ "k": (bytes(doc!(1))), "d": (bytes(doc!({ "n": n }))) });
        let command = doc!({ "flagstone": "load", "collection": collection, "mode": mode,
            "durability": durability, "partitions": 3, "documents": [part] });
        let command = Document::from_value(&command).unwrap();
        let reply = fixture.service.run(&mut fixture.client, "shop", &command).unwrap();
        assert_eq!(reply.int("done"), Some(1), "{reply}");
    };
    load("a", "upsert", "buffered", 0);
    let collection = database.collection("shop.a").unwrap();
    assert!(collection.keeps_old_documents());
    let info = database.keyspaces().into_iter().find(|info| info.name == "shop.a").unwrap();
    assert_eq!(info.routing, flagstone::Routing::Hash(3));
    // What is not synced is not delivered.
    let durabilities = [("buffered", false), ("group", true), ("each", true)];
    for (n, (durability, is_synced)) in (0..).zip(durabilities) {
        database.sync().unwrap();
        let from = flagstone::changes::ChangesFrom::Now;
        let mut changes = database.changes(from).unwrap().only(["shop.b".to_owned()]);
        load("b", "merge", durability, n);
        assert_eq!(changes.poll().unwrap().is_some(), is_synced, "{durability}");
    }
}
