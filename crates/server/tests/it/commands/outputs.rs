//! What commands leave of what they have written.

use super::Fixture;
use flagstone::{Compression, Document, Index, KeyspaceOptions, Routing, Space, doc};
use flagstone_server::command::{Service, ServiceOptions};
use std::time::Duration;

/// `$out` gave the collection the options of a new one.
#[test]
fn out_keeps_the_options_and_indexes_of_its_target() {
    let mut fixture = Fixture::new();
    let database = fixture.service.database().clone();
    let options = KeyspaceOptions::new()
        .routing(Routing::Hash(3))
        .bottom_compression(Compression::Zstd(9))
        .block_bytes(8192);
    let target = database.space("shop.to").options(options).collection().unwrap();
    target.create_index("by_n", Index::on("n").sparse()).unwrap();
    target.put("old", doc!({ "n": 0 })).unwrap();
    let info = || database.keyspaces().into_iter().find(|info| info.name == "shop.to").unwrap();
    let before = info();
    fixture.run("shop", r#"{"insert":"from","documents":[{"_id":1,"n":1},{"_id":2,"n":2}]}"#);
    for _ in 0..2 {
        let out = r#"{"aggregate":"from","pipeline":[{"$out":"to"}],"cursor":{}}"#;
        let reply = fixture.run("shop", out);
        assert_eq!(reply.float("ok"), Some(1.0), "{reply}");
        let after = info();
        assert_eq!((&after.routing, &after.options), (&before.routing, &before.options));
        let target = database.collection("shop.to").unwrap();
        assert_eq!(target.count().unwrap(), 2);
        let indexes = target.indexes();
        assert!(indexes.len() == 1 && indexes[0].name == "by_n" && indexes[0].is_sparse);
    }
}

/// The command committed its writes, and failed when there was no place for the rest of its
/// results: the client was told nothing of them.
#[test]
fn a_bulk_write_without_a_place_for_its_results_writes_nothing() {
    let mut fixture = Fixture::new();
    let mut options = ServiceOptions::default();
    options.cursors_max = 1;
    let database = fixture.service.database().clone();
    fixture.service = Service::new(database, options).unwrap();
    let insert = r#"{"insert":0,"document":{}}"#;
    let bulk = |ops: usize| {
        let ops = vec![insert; ops].join(",");
        format!(
            r#"{{"bulkWrite":1,"ops":[{ops}],"nsInfo":[{{"ns":"shop.c"}}],
                "cursor":{{"batchSize":2}}}}"#
        )
    };
    let done = fixture.run("admin", &bulk(3));
    assert_eq!((done.int("nInserted"), done.float("ok")), (Some(3), Some(1.0)), "{done}");
    let id = done.int("cursor.id").unwrap();
    let refused = fixture.run("admin", &bulk(3));
    assert!(refused.str("errmsg").unwrap().contains("--max-cursors"), "{refused}");
    // What needs no place is written.
    assert_eq!(fixture.run("admin", &bulk(2)).int("nInserted"), Some(2));
    let count = |fixture: &mut Fixture| fixture.run("shop", r#"{"count":"c"}"#).int("n").unwrap();
    assert_eq!(count(&mut fixture), 5);
    let kill =
        format!(r#"{{"killCursors":"$cmd.bulkWrite","cursors":[{{"$numberLong":"{id}"}}]}}"#);
    fixture.run("admin", &kill);
    // A place that was not needed in the end is free again.
    for _ in 0..2 {
        let done = fixture.run(
            "admin",
            &bulk(3).replace(r#""bulkWrite":1"#, r#""bulkWrite":1,"errorsOnly":true"#),
        );
        assert_eq!((done.int("nInserted"), done.int("cursor.id")), (Some(3), Some(0)), "{done}");
    }
}

/// A document with keys as names filled the table of names of its collection, also if it was
/// refused: those of all later documents were stored in the documents.
#[test]
fn a_refused_insert_leaves_room_for_the_names_of_others() {
    let mut fixture = Fixture::new();
    fixture.run("shop", r#"{"insert":"c","documents":[{"_id":1}]}"#);
    let fields = |from: usize, to: usize| {
        (from..to).map(|n| format!(r#""field {n}":1"#)).collect::<Vec<_>>().join(",")
    };
    // One key is there, the other documents of the command are not reached.
    let documents: Vec<_> =
        (0..60).map(|n| format!(r#"{{"_id":1,{}}}"#, fields(n * 2000, n * 2000 + 2000))).collect();
    let insert = format!(r#"{{"insert":"c","documents":[{}]}}"#, documents.join(","));
    let refused = fixture.run("shop", &insert);
    assert_eq!(refused.int("writeErrors.0.code"), Some(11000));
    let collection = fixture.service.database().collection("shop.c").unwrap();
    let names = || flagstone::internal::names(&collection).unwrap().len();
    assert!(names() < 4096, "{}", names());
    // Those of a wide document that comes again are defined.
    for n in 2..5 {
        let insert = format!(r#"{{"insert":"c","documents":[{{"_id":{n},{}}}]}}"#, fields(0, 3000));
        assert_eq!(fixture.run("shop", &insert).int("n"), Some(1));
    }
    assert!(names() >= 3000, "{}", names());
    let found = fixture.run("shop", r#"{"find":"c","filter":{"_id":4}}"#);
    assert_eq!(found.int("cursor.firstBatch.0.field 2999"), Some(1));
    let _: Document = found;
}

/// `collMod` was refused: the seconds of an index could not be changed without dropping it.
#[test]
fn the_seconds_of_an_index_are_changed_and_a_change_that_was_interrupted_is_completed() {
    let mut fixture = Fixture::new();
    let database = fixture.service.database().clone();
    let mut run = |command: &str| fixture.run("shop", command);
    run(r#"{"createIndexes":"c","indexes":[{"key":{"at":1},"name":"at","sparse":true,
            "expireAfterSeconds":60}]}"#);
    run(
        r#"{"insert":"c","documents":[{"_id":1,"at":{"$date":"2100-01-01T00:00:00Z"}},{"_id":2}]}"#,
    );
    let collection = database.collection("shop.c").unwrap();
    let begin = 4_102_444_800_000;
    let expiry = |key: i64| collection.expiry(key).unwrap().map(|at| at.millis() - begin);
    assert_eq!((expiry(1), expiry(2)), (Some(60_000), None));
    let mut set = |seconds: u64, old: Option<i64>| {
        let index = format!(r#"{{"name":"at","expireAfterSeconds":{seconds}}}"#);
        let reply = run(&format!(r#"{{"collMod":"c","index":{index}}}"#));
        assert_eq!(reply.int("expireAfterSeconds_new"), Some(seconds as i64), "{reply}");
        assert_eq!(reply.int("expireAfterSeconds_old"), old);
        assert_eq!((expiry(1), expiry(2)), (Some(seconds * 1000), None));
        let indexes = collection.indexes();
        let [index] = &indexes[..] else { panic!("{indexes:?}") };
        assert_eq!((index.name.as_str(), index.is_sparse, index.is_ready), ("at", true, true));
        collection.verify_indexes().unwrap();
    };
    set(3600, Some(60));
    set(1, Some(3600));
    // A change was interrupted: the temporary index is there, with or without the old one.
    let stands_in = |seconds| {
        let index = Index::on("at").sparse().expire_after(Duration::from_secs(seconds));
        collection.create_index("at.collMod", index).unwrap();
    };
    stands_in(7);
    set(7, Some(1));
    stands_in(8);
    set(9, Some(7));
    stands_in(10);
    collection.drop_index("at").unwrap();
    assert_eq!(expiry(1), Some(10_000));
    set(11, Some(10));
    // One without seconds gets some.
    collection.drop_index("at").unwrap();
    collection.create_index("at", Index::on("at").sparse()).unwrap();
    set(5, None);
}

/// All collections of all databases were compacted, by whoever may write in one.
#[test]
fn one_collection_is_compacted_with_its_indexes() {
    let mut fixture = Fixture::new();
    let database = fixture.service.database().clone();
    for name in ["shop", "stock"] {
        fixture.run(name, r#"{"insert":"c","documents":[{"_id":1,"n":1},{"_id":2,"n":2}]}"#);
        let index = r#"{"createIndexes":"c","indexes":[{"key":{"n":1},"name":"n_1"}]}"#;
        fixture.run(name, index);
    }
    database.flush().unwrap();
    for name in ["shop", "stock"] {
        let removed = fixture.run(name, r#"{"delete":"c","deletes":[{"q":{},"limit":0}]}"#);
        assert_eq!(removed.int("n"), Some(2), "{removed}");
    }
    let reply = fixture.run("shop", r#"{"compact":"c"}"#);
    assert_eq!(reply.float("ok"), Some(1.0), "{reply}");
    let bytes = |wanted: &str| -> Vec<u64> {
        let all = database
            .stats()
            .keyspaces
            .into_iter()
            .filter(|one| one.info.name == wanted || one.info.owner.as_deref() == Some(wanted));
        all.map(|one| one.levels.iter().map(|level| level.bytes).sum()).collect()
    };
    assert_eq!(bytes("shop.c"), [0, 0]);
    let other = bytes("stock.c");
    assert!(other.len() == 2 && other.iter().all(|bytes| *bytes > 0), "{other:?}");
}
