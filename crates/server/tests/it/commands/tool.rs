//! What the command-line tool asks for may come from anybody: any bytes are answered.

use super::Fixture;
use crate::{mutate, random};
use flagstone::admin::Backups;
use flagstone::doc::JsonMode;
use flagstone::{Document, Value, doc};
use flagstone_server::access::{Role, RoleKind, User};
use flagstone_server::command::{Service, ServiceOptions};

/// All operations, and texts of arguments that they take.
const OPERATIONS: [&str; 27] = [
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
        for name in ["key", "document", "patch", "jsonPatch", "mergePatch", "from", "to"] {
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
