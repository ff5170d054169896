//! What statistics say of documents, of work that is done, and of work that goes on.

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

#[test]
fn sections_are_left_out_if_the_client_says_so() {
    let mut fixture = Fixture::new();
    fixture.run("shop", r#"{"insert":"c","documents":[{"_id":1}]}"#);
    fixture.run("shop", r#"{"find":"c","filter":{"$bad":1}}"#);
    let all = fixture.run("admin", r#"{"serverStatus":1}"#);
    assert_eq!(all.int("asserts.user"), Some(1));
    assert_eq!(all.int("catalogStats.collections"), Some(1));
    assert!(all.int("globalLock.totalTime").is_some() && all.int("uptimeEstimate").is_some());
    for name in ["asserts", "catalogStats", "connections", "globalLock", "metrics", "flagstone"] {
        assert!(all.get(name).is_some(), "{name}");
        for value in ["0", "false", "null"] {
            let without = format!(r#"{{"serverStatus":1,"{name}":{value}}}"#);
            assert!(fixture.run("admin", &without).get(name).is_none(), "{without}");
        }
        let with = format!(r#"{{"serverStatus":1,"{name}":1}}"#);
        assert!(fixture.run("admin", &with).get(name).is_some(), "{with}");
    }
}

#[test]
fn explains_of_queries_of_one_shape_have_one_hash() {
    let mut fixture = Fixture::new();
    let mut hashes = |query: &str| {
        let explain = format!(r#"{{"explain":{query},"verbosity":"queryPlanner"}}"#);
        let reply = fixture.run("shop", &explain);
        let text = |path: &str| reply.str(path).map(str::to_owned);
        let of_plan = text("queryPlanner.planCacheShapeHash")
            .or_else(|| text("stages.0.$cursor.queryPlanner.planCacheShapeHash"));
        (text("queryShapeHash").unwrap(), of_plan.unwrap())
    };
    let one = hashes(r#"{"find":"c","filter":{"a":1,"b":2},"sort":{"a":1}}"#);
    assert_eq!((one.0.len(), one.1.len()), (64, 8));
    assert_eq!(one, hashes(r#"{"find":"c","filter":{"a":3,"b":4},"sort":{"a":1}}"#));
    let turned = hashes(r#"{"find":"c","filter":{"b":4,"a":3},"sort":{"a":1}}"#);
    assert!(one.0 != turned.0 && one.1 == turned.1);
    for other in [
        r#"{"find":"c","filter":{"a":1,"b":2},"sort":{"a":-1}}"#,
        r#"{"find":"c","filter":{"a":1,"b":2},"sort":{"a":1},"projection":{"a":1}}"#,
        r#"{"find":"c","filter":{"a":1},"sort":{"a":1}}"#,
    ] {
        let other = hashes(other);
        assert!(one.0 != other.0 && one.1 != other.1);
    }
    assert_ne!(one.0, hashes(r#"{"find":"d","filter":{"a":1,"b":2},"sort":{"a":1}}"#).0);
    // Of stages those count for plans that say what is read.
    let matched = hashes(r#"{"aggregate":"c","pipeline":[{"$match":{"a":1}}],"cursor":{}}"#);
    for (stage, is_planned_alike) in [
        (r#"{"$unwind":"$a"}"#, true),
        (r#"{"$limit":5}"#, true),
        (r#"{"$group":{"_id":"$b"}}"#, false),
        (r#"{"$project":{"a":1}}"#, false),
    ] {
        let query = format!(
            r#"{{"aggregate":"c","pipeline":[{{"$match":{{"a":1}}}},{stage}],"cursor":{{}}}}"#
        );
        let more = hashes(&query);
        assert_ne!(matched.0, more.0, "{stage}");
        assert_eq!(matched.1 == more.1, is_planned_alike, "{stage}");
    }
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

/// Statistics counted documents that were overwritten once more, and those that had expired.
#[test]
fn statistics_count_few_documents_as_they_are() {
    let mut fixture = Fixture::new();
    let mut run = |command: &str| fixture.run("shop", command);
    run(r#"{"createIndexes":"c","indexes":[{"key":{"at":1},"name":"at","expireAfterSeconds":1}]}"#);
    run(
        r#"{"insert":"c","documents":[{"_id":1},{"_id":2,"at":{"$date":"2000-01-01T00:00:00Z"}}]}"#,
    );
    for n in 0..5 {
        let update = format!(r#"{{"q":{{"_id":1}},"u":{{"$set":{{"n":{n}}}}}}}"#);
        run(&format!(r#"{{"update":"c","updates":[{update}]}}"#));
    }
    assert_eq!(run(r#"{"count":"c"}"#).int("n"), Some(1));
    assert_eq!(run(r#"{"collStats":"c"}"#).int("count"), Some(1));
    assert_eq!(run(r#"{"dbStats":1}"#).int("objects"), Some(1));
    let stage = r#"{"$collStats":{"count":{},"storageStats":{}}}"#;
    let row = run(&format!(r#"{{"aggregate":"c","pipeline":[{stage}],"cursor":{{}}}}"#));
    for path in ["count", "storageStats.count"] {
        assert_eq!(row.int(&format!("cursor.firstBatch.0.{path}")), Some(1), "{row}");
    }
    let documents = vec!["{}"; 5000].join(",");
    for _ in 0..3 {
        run(&format!(r#"{{"insert":"c","documents":[{documents}]}}"#));
    }
    // These are too many to be read.
    let about = run(r#"{"collStats":"c"}"#).int("count").unwrap();
    assert!((15_001..=15_020).contains(&about), "{about}");
    assert_eq!(run(r#"{"count":"c"}"#).int("n"), Some(15_001));
}

#[test]
fn sizes_of_documents_are_those_before_compression() {
    let mut fixture = Fixture::new();
    let mut run = |command: &str| fixture.run("shop", command);
    let text = "x".repeat(1_000);
    let documents = vec![format!(r#"{{"t":"{text}"}}"#); 500].join(",");
    run(&format!(r#"{{"insert":"c","documents":[{documents}]}}"#));
    run(r#"{"compact":"c"}"#);
    let of = |reply: &Document, name: &str| reply.get(name).unwrap().as_f64().unwrap();
    for (stats, size, average) in [
        (run(r#"{"collStats":"c"}"#), "size", "avgObjSize"),
        (run(r#"{"dbStats":1}"#), "dataSize", "avgObjSize"),
    ] {
        assert!((1_000.0..1_100.0).contains(&of(&stats, average)), "{stats}");
        assert!(of(&stats, size) >= 500_000.0, "{stats}");
        let on_disk = of(&stats, "storageSize");
        assert!((1.0..100_000.0).contains(&on_disk), "{stats}");
    }
}
