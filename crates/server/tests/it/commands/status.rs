//! What `serverStatus` says of work that is done, and of work that goes on.

use super::{Fixture, parse};
use flagstone::{Document, Json, Space};
use std::sync::Arc;

#[test]
fn latencies_are_counted_by_what_operations_do() {
    let mut fixture = Fixture::new();
    for command in [
        r#"{"insert":"a","documents":[{"_id":1},{"_id":2}]}"#,
        r#"{"update":"a","updates":[{"q":{"_id":1},"u":{"$set":{"x":1}}}]}"#,
        r#"{"find":"a"}"#,
        r#"{"aggregate":"a","pipeline":[],"cursor":{}}"#,
        r#"{"count":"a"}"#,
        r#"{"find":"a","filter":{"$bad":1}}"#,
        r#"{"ping":1}"#,
    ] {
        fixture.run("test", command);
    }
    let status = fixture.run("admin", r#"{"serverStatus":1,"opLatencies":{"histograms":true}}"#);
    for (kind, ops) in [("reads", 4), ("writes", 2), ("commands", 1)] {
        assert_eq!(status.int(&format!("opLatencies.{kind}.ops")), Some(ops), "{kind}");
        let histogram = status.get(&format!("opLatencies.{kind}.histogram")).unwrap();
        let counts = histogram.to_value().unwrap();
        let counts = counts.as_array().unwrap().iter().map(|bucket| bucket.get("count").unwrap());
        assert_eq!(counts.map(|count| count.as_i64().unwrap()).sum::<i64>(), ops, "{kind}");
    }
    let status = fixture.run("admin", r#"{"serverStatus":1}"#);
    assert!(!status.to_json().unwrap().contains("histogram"));
}

/// Returns the builds that run, as `client` sees them.
fn builds(fixture: &mut Fixture) -> Vec<Document> {
    let status = fixture.run("admin", r#"{"serverStatus":1}"#);
    let builds = status.get("flagstone.indexBuilds").unwrap().to_value().unwrap();
    builds.as_array().unwrap().iter().map(|build| Document::from_value(build).unwrap()).collect()
}

#[test]
fn the_builds_of_indexes_are_listed_while_they_run() {
    let mut fixture = Fixture::new();
    let collection = fixture.service.database().collection("shop.orders").unwrap();
    for n in 0..20_000 {
        collection.put(n, Json(&format!("{{\"n\":{n}}}"))).unwrap();
    }
    assert!(builds(&mut fixture).is_empty());
    let service = Arc::clone(&fixture.service);
    let thread = std::thread::spawn(move || {
        let mut client = service.client("there".to_owned(), "here".to_owned(), true);
        let create =
            parse(r#"{"createIndexes":"orders","indexes":[{"key":{"n":1},"name":"n_1"}]}"#);
        service.run(&mut client, "shop", &create).unwrap()
    });
    let mut seen = Vec::new();
    while !thread.is_finished() {
        seen.extend(builds(&mut fixture));
    }
    assert_eq!(thread.join().unwrap().float("ok"), Some(1.0));
    assert!(builds(&mut fixture).is_empty());
    let last = seen.last().expect("the build was seen");
    assert_eq!((last.str("ns"), last.str("index")), (Some("shop.orders"), Some("n_1")));
    assert_eq!(last.int("documentsTotal"), Some(20_000));
    let read: Vec<_> = seen.iter().map(|build| build.int("documents").unwrap()).collect();
    assert!(read.is_sorted() && *read.last().unwrap() > 0, "{read:?}");
    // One that fails leaves none behind.
    let unique =
        r#"{"createIndexes":"orders","indexes":[{"key":{"x":1},"name":"x","unique":true}]}"#;
    fixture.run("shop", r#"{"insert":"orders","documents":[{"x":1},{"x":1}]}"#);
    assert_eq!(fixture.run("shop", unique).float("ok"), Some(0.0));
    assert!(builds(&mut fixture).is_empty());
}
