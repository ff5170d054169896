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
            r#"{"aggregate":1,"pipeline":[{"$changeStream":{"allChangesForCluster":true}}]}"#,
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
