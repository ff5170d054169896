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
        ("shopkeeper", "shop", r#"{"renameCollection":"shop.c","to":"shop.d"}"#, 0),
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
