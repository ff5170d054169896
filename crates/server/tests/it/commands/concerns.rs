//! What writes and their failures may cost.

use super::Fixture;
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
    assert_eq!(flushes(&fixture), 1);
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
