//! What users may do.

use super::Fixture;
use flagstone_server::access::{Role, RoleKind};

#[test]
fn a_role_in_one_database_gives_nothing_in_others() {
    let mut fixture = Fixture::new();
    fixture.run("shop", r#"{"insert":"c","documents":[{"_id":1}]}"#);
    fixture.run("stock", r#"{"insert":"c","documents":[{"_id":1}]}"#);
    let users = fixture.service.users();
    for (name, kind, database) in [
        ("root", RoleKind::Root, None),
        ("shopkeeper", RoleKind::Root, Some("shop")),
        ("reader", RoleKind::Read, Some("admin")),
        ("clerk", RoleKind::Read, Some("shop")),
    ] {
        let database = database.map(str::to_owned);
        users.create(name, "secret", vec![Role { kind, database }]).unwrap();
    }
    let code = |fixture: &mut Fixture, name: &str, database: &str, command: &str| {
        fixture.client.log_in(fixture.service.users().get(name).unwrap());
        let reply = fixture.run(database, command);
        if reply.float("ok") == Some(1.0) { 0 } else { reply.int("code").unwrap() }
    };
    let cases = [
        ("shopkeeper", "shop", r#"{"find":"c"}"#, 0),
        ("shopkeeper", "stock", r#"{"find":"c"}"#, 13),
        ("shopkeeper", "shop", r#"{"createUser":"eve","pwd":"x","roles":["root"]}"#, 13),
        ("shopkeeper", "shop", r#"{"updateUser":"root","pwd":"x"}"#, 13),
        ("shopkeeper", "shop", r#"{"dropUser":"root"}"#, 13),
        ("shopkeeper", "shop", r#"{"renameCollection":"stock.c","to":"shop.x"}"#, 13),
        ("shopkeeper", "shop", r#"{"renameCollection":"shop.c","to":"stock.x"}"#, 13),
        ("shopkeeper", "admin", r#"{"renameCollection":"shop.c","to":"shop.d"}"#, 0),
        ("reader", "admin", r#"{"renameCollection":"shop.d","to":"shop.e"}"#, 13),
        (
            "reader",
            "admin",
            r#"{"aggregate":1,"pipeline":[{"$changeStream":{"allChangesForCluster":true}}],
                "cursor":{}}"#,
            13,
        ),
        ("clerk", "shop", r#"{"explain":{"find":"c"}}"#, 0),
        ("clerk", "shop", r#"{"explain":{"find":"c","$db":"stock"}}"#, 73),
        ("clerk", "shop", r#"{"explain":{"delete":"c","deletes":[{"q":{},"limit":0}]}}"#, 13),
        ("clerk", "shop", r#"{"explain":{"findAndModify":"c","remove":true}}"#, 13),
        (
            "clerk",
            "admin",
            r#"{"aggregate":1,"pipeline":[{"$currentOp":{}},{"$limit":1}],"cursor":{}}"#,
            0,
        ),
        (
            "clerk",
            "admin",
            r#"{"aggregate":1,"pipeline":[{"$currentOp":{"allUsers":true}}],"cursor":{}}"#,
            13,
        ),
        (
            "clerk",
            "admin",
            r#"{"aggregate":1,"pipeline":[{"$currentOp":{}},{"$unionWith":{"coll":"c"}}],
                "cursor":{}}"#,
            13,
        ),
        ("reader", "admin", r#"{"find":"system.users"}"#, 13),
        ("root", "shop", r#"{"createUser":"eve","pwd":"x","roles":["read"]}"#, 0),
        ("root", "stock", r#"{"renameCollection":"stock.c","to":"shop.x"}"#, 0),
    ];
    for (name, database, command, expected) in cases {
        let found = code(&mut fixture, name, database, command);
        assert_eq!(found, expected, "{name} on {database}: {command}");
    }
}

#[test]
fn a_cursor_belongs_to_the_user_who_has_opened_it() {
    let mut fixture = Fixture::new();
    fixture.run("shop", r#"{"insert":"c","documents":[{"_id":1},{"_id":2},{"_id":3}]}"#);
    let users = fixture.service.users();
    for name in ["ada", "eve"] {
        let roles = vec![Role { kind: RoleKind::Read, database: Some("shop".to_owned()) }];
        users.create(name, "secret", roles).unwrap();
    }
    let mut as_user = |name: &str, database: &str, command: &str| {
        fixture.client.log_in(fixture.service.users().get(name).unwrap());
        fixture.run(database, command)
    };
    let found = as_user("ada", "shop", r#"{"find":"c","batchSize":1}"#);
    let id = found.int("cursor.id").unwrap();
    let more = format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"c","batchSize":1}}"#);
    let refused = as_user("eve", "shop", &more);
    assert_eq!(refused.int("code"), Some(13), "{refused}");
    let kill = format!(r#"{{"killCursors":"c","cursors":[{{"$numberLong":"{id}"}}]}}"#);
    let killed = as_user("eve", "shop", &kill);
    assert_eq!(killed.int("cursorsNotFound.0"), Some(id), "{killed}");
    // Nor is it one of another collection, or of a database that is not to be read.
    let other = more.replace(r#""c""#, r#""d""#);
    assert_eq!(as_user("ada", "shop", &other).int("code"), Some(13));
    assert_eq!(as_user("ada", "stock", &more).int("code"), Some(13));
    let rest = as_user("ada", "shop", &more);
    assert_eq!(rest.int("cursor.nextBatch.0._id"), Some(2), "{rest}");
}

#[test]
fn a_bulk_write_needs_the_right_to_write_to_each_collection() {
    let mut fixture = Fixture::new();
    let users = fixture.service.users();
    let roles = vec![Role { kind: RoleKind::ReadWrite, database: Some("shop".to_owned()) }];
    users.create("ada", "secret", roles).unwrap();
    fixture.client.log_in(users.get("ada").unwrap());
    let bulk = |namespaces: &str| {
        let insert = r#"{"insert":0,"document":{}}"#;
        format!(
            r#"{{"bulkWrite":1,"ops":[{insert},{insert}],"nsInfo":[{namespaces}],
                "cursor":{{"batchSize":1}}}}"#
        )
    };
    let refused = fixture.run("admin", &bulk(r#"{"ns":"shop.c"},{"ns":"stock.c"}"#));
    assert_eq!(refused.int("code"), Some(13), "{refused}");
    let done = fixture.run("admin", &bulk(r#"{"ns":"shop.c"}"#));
    assert_eq!(done.int("nInserted"), Some(2), "{done}");
    let id = done.int("cursor.id").unwrap();
    let more = format!(r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"$cmd.bulkWrite"}}"#);
    let rest = fixture.run("admin", &more);
    assert_eq!(rest.int("cursor.nextBatch.0.idx"), Some(1), "{rest}");
}

/// The rights of a user were those of the moment when a cursor was opened: of a stream of all
/// databases only `admin` was looked at again, and the tool's feed went on with the old roles.
#[test]
fn what_is_followed_ends_with_the_rights_of_its_user() {
    let keep = flagstone::changes::ChangeRetention::bytes(64 << 20);
    let mut fixture = Fixture::with(flagstone::Options::new().change_retention(keep));
    let service = std::sync::Arc::clone(&fixture.service);
    let read = |databases: &[Option<&str>]| -> Vec<Role> {
        let role = |database: &Option<&str>| Role {
            kind: RoleKind::Read,
            database: database.map(str::to_owned),
        };
        databases.iter().map(role).collect()
    };
    let users = service.users();
    users.create("root", "r", vec![Role { kind: RoleKind::Root, database: None }]).unwrap();
    let mut root = service.client("here".to_owned(), "here".to_owned(), true);
    root.log_in(users.get("root").unwrap());
    let mut write = |database: &str, command: &str| {
        let reply = service.run(&mut root, database, &super::parse(command)).unwrap();
        assert_eq!(reply.float("ok"), Some(1.0), "{command}: {reply}");
    };
    users.create("ada", "a", read(&[None])).unwrap();
    fixture.client.log_in(users.get("ada").unwrap());
    let stream = r#"{"aggregate":1,"pipeline":[{"$changeStream":{"allChangesForCluster":true}}],
        "cursor":{"batchSize":0}}"#;
    let stream = fixture.run("admin", stream).int("cursor.id").unwrap();
    let feed = r#"{"flagstone":"watch","from":"now","follow":true,"whole":true}"#;
    let feed = fixture.run("main", feed).int("cursor.id").unwrap();
    let more = |id: i64, collection: &str| {
        format!(
            r#"{{"getMore":{{"$numberLong":"{id}"}},"collection":"{collection}","maxTimeMS":500}}"#
        )
    };
    let insert = r#"{"insert":"c","documents":[{"x":1}]}"#;
    write("stock", insert);
    let seen = fixture.run("admin", &more(stream, "$cmd.aggregate"));
    assert_eq!(seen.str("cursor.nextBatch.0.ns.db"), Some("stock"), "{seen}");
    let seen = fixture.run("main", &more(feed, "$cmd.watch"));
    assert_eq!(seen.str("cursor.nextBatch.0.keyspace"), Some("stock.c"), "{seen}");

    // What is left is shown, to a user who may not read `main` either.
    users.update("ada", None, Some(read(&[Some("admin"), Some("shop")]))).unwrap();
    let refused = fixture.run("admin", &more(stream, "$cmd.aggregate"));
    assert_eq!(refused.int("code"), Some(13), "{refused}");
    let gone = fixture.run("admin", &more(stream, "$cmd.aggregate"));
    assert_eq!(gone.int("code"), Some(43), "{gone}");
    write("stock", insert);
    write("shop", insert);
    write("stock", r#"{"renameCollection":"stock.c","to":"shop.d"}"#);
    let (mut keyspaces, mut renamed) = (Vec::new(), None);
    while renamed.is_none() {
        let seen = fixture.run("main", &more(feed, "$cmd.watch"));
        for event in seen.get("cursor.nextBatch").unwrap().items().unwrap() {
            let event = event.unwrap();
            let text = |name: &str| event.get(name).unwrap().map(|name| name.to_string());
            match text("kind").as_deref() {
                Some("\"renamed\"") => renamed = Some((text("keyspace"), text("to"))),
                _ => keyspaces.extend(text("keyspace")),
            }
        }
    }
    assert_eq!(keyspaces, ["\"shop.c\""]);
    assert_eq!(renamed, Some((None, Some("\"shop.d\"".to_owned()))), "a name that is hidden");

    users.remove("ada").unwrap();
    let refused = fixture.run("main", &more(feed, "$cmd.watch"));
    assert_eq!(refused.int("code"), Some(13), "{refused}");
}

#[test]
fn the_database_of_users_is_listed_where_there_are_some() {
    let mut fixture = Fixture::new();
    let list = r#"{"listDatabases":1,"filter":{"$expr":{"$eq":["$name","admin"]}}}"#;
    assert!(fixture.run("admin", list).get("databases.0").is_none());
    let roles = vec![Role { kind: RoleKind::Root, database: None }];
    fixture.service.users().create("ada", "secret", roles).unwrap();
    fixture.client.log_in(fixture.service.users().get("ada").unwrap());
    let reply = fixture.run("admin", list);
    assert_eq!(reply.str("databases.0.name"), Some("admin"), "{reply}");
}

/// A client logged out of `shop`, a database that has no users, and lost the user that it was on
/// `admin`.
#[test]
fn to_log_out_of_a_database_without_users_changes_nothing() {
    let mut fixture = Fixture::new();
    fixture.service.users().create("ada", "secret", Vec::new()).unwrap();
    fixture.client.log_in(fixture.service.users().get("ada").unwrap());
    assert_eq!(fixture.run("shop", r#"{"logout":1}"#).float("ok"), Some(1.0));
    assert_eq!(fixture.client.user(), Some("ada"));
    assert_eq!(fixture.run("admin", r#"{"logout":1}"#).float("ok"), Some(1.0));
    assert_eq!(fixture.client.user(), None);
}

/// Who may do everything saw no database once there were users.
#[test]
fn root_without_a_user_sees_all_databases() {
    let mut fixture = Fixture::new();
    fixture.run("shop", r#"{"insert":"c","documents":[{"_id":1}]}"#);
    fixture.run("admin", r#"{"createUser":"ada","pwd":"p","roles":["root"]}"#);
    fixture.client.become_root();
    let listed = fixture.run("admin", r#"{"listDatabases":1,"nameOnly":true}"#);
    let expected = r#"{"databases":[{"name":"admin"},{"name":"shop"}],"ok":1.0}"#;
    assert_eq!(listed.to_json().unwrap(), expected);
}
