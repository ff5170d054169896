//! What a session was told is known after a restart.

use super::Fixture;
use flagstone::{Database, Space};
use flagstone_server::command::{Service, ServiceOptions};

const SESSION: &str = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}}"#;

/// An older write that was sent again was taken for the last one of its session. Then the last one,
/// sent again, was taken for a new one: it was done twice.
#[test]
fn a_write_is_done_once_though_an_older_one_comes_first_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let db = Database::open(dir.path()).unwrap();
        Fixture::of(Service::new(db, ServiceOptions::default()).unwrap())
    };
    let add = |fixture: &mut Fixture, number: i64| {
        let update = format!(
            r#"{{"update":"c","updates":[{{"q":{{"_id":1}},"u":{{"$inc":{{"n":1}}}},
            "upsert":true}}],{SESSION},"txnNumber":{{"$numberLong":"{number}"}}}}"#
        );
        fixture.run("shop", &update)
    };
    let count = |fixture: &Fixture| {
        let counted = fixture.service.database().collection("shop.c").unwrap().get(1).unwrap();
        counted.unwrap().int("n").unwrap()
    };
    let mut fixture = start();
    for number in [1, 2] {
        assert_eq!(add(&mut fixture, number).int("n"), Some(1));
    }
    for restarts in [true, false] {
        if restarts {
            drop(fixture);
            fixture = start();
        } else {
            let end =
                r#"{"endSessions":[{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}}]}"#;
            assert_eq!(fixture.run("admin", end).float("ok"), Some(1.0));
        }
        assert_eq!(add(&mut fixture, 1).int("code"), Some(225), "{restarts}");
        assert_eq!(add(&mut fixture, 2).int("nModified"), Some(1), "{restarts}");
        assert_eq!(count(&fixture), 2, "{restarts}");
    }
    assert_eq!(add(&mut fixture, 3).int("nModified"), Some(1));
    assert_eq!(count(&fixture), 3);
    // A transaction has none of the numbers that were used, either.
    drop(fixture);
    let mut fixture = start();
    let begin = format!(
        r#"{{"insert":"c","documents":[{{"_id":2}}],{SESSION},
        "txnNumber":{{"$numberLong":"3"}},"autocommit":false,"startTransaction":true}}"#
    );
    assert_eq!(fixture.run("shop", &begin).int("code"), Some(117));
    let next = begin.replace(r#""3""#, r#""4""#);
    assert_eq!(fixture.run("shop", &next).int("n"), Some(1));
}
