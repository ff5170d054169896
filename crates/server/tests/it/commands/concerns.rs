//! What writes and their failures may cost.

use super::Fixture;
use flagstone::changes::ChangeRetention;
use flagstone::{Durability, Options};

#[test]
fn a_majority_saves_what_the_database_does_not_log() {
    let mut fixture = Fixture::with(Options::new().durability(Durability::None));
    let flushes = |fixture: &Fixture| fixture.service.database().stats().flushes;
    fixture.run("test", r#"{"insert":"c","documents":[{"_id":1},{"_id":2}]}"#);
    assert_eq!(flushes(&fixture), 0);
    let insert =
        r#"{"insert":"c","documents":[{"_id":3},{"_id":4}],"writeConcern":{"w":"majority"}}"#;
    assert_eq!(fixture.run("test", insert).int("n"), Some(2));
    assert!(flushes(&fixture) > 0);
}

#[test]
fn the_texts_of_many_failures_are_bounded() {
    let mut fixture = Fixture::new();
    let id = |n: usize| format!("{n:05}{}", "x".repeat(2000));
    let documents: Vec<_> = (0..2000).map(|n| format!(r#"{{"_id":"{}"}}"#, id(n))).collect();
    let insert =
        format!(r#"{{"insert":"c","ordered":false,"documents":[{}]}}"#, documents.join(","));
    assert_eq!(fixture.run("test", &insert).int("n"), Some(2000));
    let refused = fixture.run("test", &insert);
    assert_eq!(refused.int("n"), Some(0));
    assert_eq!(refused.int("writeErrors.1999.code"), Some(11000));
    assert!(refused.as_bytes().len() < 2 << 20, "{} bytes", refused.as_bytes().len());
}

/// Two programs that began at once failed: one was told that the other was building the index, or,
/// where changes are kept, that the collection kept its old documents already.
#[test]
fn clients_that_create_the_same_at_once_all_succeed() {
    let fixture = Fixture::with(Options::new().change_retention(ChangeRetention::bytes(1 << 20)));
    for round in 0..20 {
        std::thread::scope(|scope| {
            for client in 0..4 {
                let service = &fixture.service;
                scope.spawn(move || {
                    let mut at = service.client("there".to_owned(), "here".to_owned(), true);
                    let index = r#"{"key":{"a":1},"name":"a"}"#;
                    let create = format!(r#"{{"createIndexes":"c{round}","indexes":[{index}]}}"#);
                    let insert =
                        format!(r#"{{"insert":"c{round}","documents":[{{"_id":{client}}}]}}"#);
                    for command in [create, insert] {
                        let reply = service.run(&mut at, "test", &super::parse(&command)).unwrap();
                        assert_eq!(reply.int("ok"), Some(1), "{command}: {reply:?}");
                    }
                });
            }
        });
    }
}
