//! Values and documents at the limits of an index.

use crate::support::{open, small, small_with};
use flagstone::query::Hint;
use flagstone::{
    Batch, Collection, Durability, ErrorKind, Filter, Find, Index, Json, Patch, Space, Value, doc,
    internal,
};
use flagstone_testkit::{Session, World};

fn world() -> (World, Session) {
    let world = World::new(1);
    let session = open(&world, &small());
    (world, session)
}

/// Creates the collection `documents` with the index `a`.
fn indexed(session: &Session, index: Index) -> Collection {
    let documents = session.db.collection("documents").unwrap();
    documents.create_index("a", index).unwrap();
    documents
}

fn texts(documents: &Collection) -> Vec<String> {
    let entries = internal::index_entries(documents, "a").unwrap();
    let shown = entries.into_iter().map(|(values, key)| {
        let values: Vec<String> = values
            .into_iter()
            .map(|value| value.map_or("missing".to_owned(), |value| value.to_string()))
            .collect();
        format!("{} -> {key}", values.join(", "))
    });
    shown.collect()
}

#[test]
fn each_distinct_element_of_an_array_has_one_entry() {
    let (_world, session) = world();
    let documents = indexed(&session, Index::on("$.tags"));
    documents.put(1, Json(r#"{"tags":["b","a","b",null,["a"],{"x":1},1,1.0]}"#)).unwrap();
    documents.put(2, Json(r#"{"tags":[]}"#)).unwrap();
    documents.put(3, Json(r#"{"tags":null}"#)).unwrap();
    documents.put(4, Json("{}")).unwrap();
    documents.put(5, Json(r#"{"tags":"a"}"#)).unwrap();
    let expected = [
        "missing -> 4",
        "null -> 1",
        "null -> 3",
        "1 -> 1",
        "\"a\" -> 1",
        "\"a\" -> 5",
        "\"b\" -> 1",
        "[] -> 2",
        "[\"a\"] -> 1",
        "{\"x\":1} -> 1",
    ];
    assert_eq!(texts(&documents), expected);
    documents.patch(1, &Patch::new().set("tags", "z")).unwrap();
    assert_eq!(texts(&documents)[1..], ["null -> 3", "\"a\" -> 5", "\"z\" -> 1", "[] -> 2"]);
    documents.verify_indexes().unwrap();
}

#[test]
fn values_of_all_types_under_one_path_are_in_their_total_order() {
    let (_world, session) = world();
    let documents = indexed(&session, Index::on("-$.v").sparse());
    for (key, json) in ["null", "true", "-1.5", "1e400", "\"x\"", "{\"a\":[]}"].iter().enumerate() {
        documents.put(key, Json(format!(r#"{{"v":{json}}}"#))).unwrap();
    }
    documents.put(9, Json(r#"{"w":1}"#)).unwrap();
    let expected =
        ["{\"a\":[]} -> 5", "\"x\" -> 4", "1e400 -> 3", "-1.5 -> 2", "true -> 1", "null -> 0"];
    let found = texts(&documents);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    let keys = |texts: &[String]| -> Vec<String> {
        texts.iter().map(|text| text.rsplit(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&found), ["5", "4", "3", "2", "1", "0"]);
}

#[test]
fn a_document_has_at_most_ten_thousand_entries() {
    let (_world, session) = world();
    let documents = indexed(&session, Index::on("$.v"));
    let array = |distinct: i64| -> Value { (0..20_000_i64).map(|n| n % distinct).collect() };
    documents.put(1, doc!({ "v": (array(10_000)) })).unwrap();
    let refused = documents.put(2, doc!({ "v": (array(10_001)) })).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        refused.to_string(),
        "the document has 10001 entries in index \"a\": expected at most 10000"
    );
    assert_eq!(documents.count().unwrap(), 1);
    let patch = Patch::new().push("v", "one more");
    assert_eq!(documents.patch(1, &patch).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(documents.indexes()[0].entries, 10_000);
    documents.verify_indexes().unwrap();
}

#[test]
fn arrays_on_two_paths_of_an_index_are_refused() {
    let (_world, session) = world();
    let documents = indexed(&session, Index::on("$.a.x").then("$.b"));
    documents.put(1, Json(r#"{"a":[{"x":1},{"x":2}],"b":3}"#)).unwrap();
    documents.put(2, Json(r#"{"a":{"x":1},"b":[3,4]}"#)).unwrap();
    let refused = documents.put(3, Json(r#"{"a":[{"x":1}],"b":[3]}"#)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        refused.to_string(),
        "index \"a\" cannot hold a document with arrays at both a.x and b: the paths of an \
         index may pass through one array"
    );
    assert_eq!(texts(&documents), ["1, 3 -> 1", "1, 3 -> 2", "1, 4 -> 2", "2, 3 -> 1"]);
}

#[test]
fn values_longer_than_the_limit_are_cut_and_stay_apart() {
    let (_world, session) = world();
    let documents = indexed(&session, Index::on("$.v").then("$.n"));
    let long = |end: &str| format!("{}{end}", "x".repeat(3000));
    for (key, end) in ["", "a", "b", "a"].iter().enumerate() {
        documents.put(key, doc!({ "v": (long(end)), "n": (key as u64 % 2) })).unwrap();
    }
    documents.verify_indexes().unwrap();
    // With one component cut, the others decide.
    let entries = internal::index_entries(&documents, "a").unwrap();
    let keys: Vec<i64> = entries.iter().map(|(_, key)| key.as_i64().unwrap()).collect();
    assert_eq!(keys, [0, 2, 1, 3]);
    documents.update(1, |document| document.set("v", long("c")).map(drop)).unwrap();
    documents.delete(3).unwrap();
    documents.verify_indexes().unwrap();
    assert_eq!(internal::index_entries(&documents, "a").unwrap().len(), 3);
}

#[test]
fn a_primary_key_that_leaves_no_room_for_an_entry_is_refused() {
    let (_world, session) = world();
    let documents = session.db.collection("documents").unwrap();
    let key = "k".repeat(65_000);
    documents.put(key.as_str(), Json(r#"{"v":1}"#)).unwrap();
    documents.create_index("short", Index::on("$.v")).unwrap();
    let refused = documents.put(key.as_str(), doc!({ "v": ("x".repeat(2000)) })).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(
        refused.to_string().starts_with("an index entry with a key of 66026 bytes"),
        "{refused}"
    );
    documents.verify_indexes().unwrap();
}

#[test]
fn a_million_documents_have_one_value() {
    const ALL: i64 = 1_000_000;
    let world = World::new(1);
    let session = open(&world, &small().memory_budget(64 << 20));
    let documents = indexed(&session, Index::on("$.subreddit"));
    let keys = |find: Find<'_>| -> Vec<i64> {
        find.run().unwrap().map(|entry| entry.unwrap().0.as_i64().unwrap()).collect()
    };
    // Of one value the entries are in the order of the keys.
    let all = || documents.find(r#"{"subreddit":"rust"}"#).hint(Hint::index("a"));
    let rust = || all().sort("subreddit");
    for first in (0..ALL).step_by(10_000) {
        let mut batch = Batch::default();
        for key in first..first + 10_000 {
            batch.put(&documents, key, doc!({ "subreddit": "rust" })).unwrap();
        }
        session.db.commit(batch).unwrap();
    }
    assert_eq!(all().count().unwrap(), ALL as u64);
    assert_eq!(keys(rust().limit(3)), [0, 1, 2]);
    assert_eq!(keys(rust().skip(ALL as u64 - 2)), [ALL - 2, ALL - 1]);
    // One document more, less and moved: each is one entry among a million.
    documents.put(ALL, Json(r#"{"subreddit":"rust"}"#)).unwrap();
    documents.delete(500_000).unwrap();
    documents.patch(500_001, &Patch::new().set("subreddit", "go")).unwrap();
    assert_eq!(all().count().unwrap(), ALL as u64 - 1);
    documents.delete_range(100..ALL - 100).unwrap();
    assert!(keys(rust()).into_iter().eq((0..100).chain(ALL - 100..=ALL)));
    assert!(keys(documents.find(r#"{"subreddit":"go"}"#)).is_empty());
    documents.verify_indexes().unwrap();
}

#[test]
fn a_range_of_documents_with_more_entries_than_a_batch_takes_is_removed() {
    let (_world, session) = world();
    let documents = indexed(&session, Index::on("$.v"));
    for key in 0..60 {
        let array: Value = (0..300).map(|n| key * 1000 + n).collect();
        documents.put(key, doc!({ "v": (array) })).unwrap();
    }
    documents.delete_range(5..55).unwrap();
    assert_eq!(documents.count().unwrap(), 10);
    documents.verify_indexes().unwrap();
}

#[test]
fn a_malformed_definition_is_refused_with_its_place() {
    let (_world, session) = world();
    let documents = session.db.collection("documents").unwrap();
    let refused = |name: &str, index: Index| {
        let error = documents.create_index(name, index).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(refused("a", Index::on("lower($.a")).contains("character 10: expected ')'"));
    assert!(refused("a", Index::on("$.a").then("a")).contains("has the field a twice"));
    assert!(refused("", Index::on("$.a")).contains("the name of an index"));
    let many = (0..32).fold(Index::on("$.x"), |index, n| index.then(format!("$.f{n}")));
    assert!(refused("a", many).contains("has 33 fields: expected 1 to 32"));
    assert!(
        refused("a", Index::on("$.a").only(Filter::field("$.a[").eq(1))).contains("index \"a\"")
    );
    assert!(documents.indexes().is_empty());
    documents.create_index("a", Index::on("$.a")).unwrap();
    documents.create_index("a", Index::on("a")).unwrap();
    let positive = Filter::field("b").gt(0);
    let other = Index::on("-$.a").then("lower($['b.c'])").unique().sparse().only(positive);
    assert_eq!(
        refused("a", other),
        "there is an index \"a\" already, with another definition: on a; asked for: on -a, \
         lower($['b.c']), unique, sparse, only {\"b\":{\"$gt\":0}}"
    );
}

#[test]
fn a_patch_that_adds_an_element_may_bring_a_document_into_a_partial_index() {
    let (_world, session) = world();
    let without_x = Filter::field("a.x").eq(Value::Null);
    let documents = indexed(&session, Index::on("k").only(without_x));
    documents.put(1, Json(r#"{"k":7,"a":[]}"#)).unwrap();
    assert!(texts(&documents).is_empty(), "nothing is reached in an empty array");
    documents.patch(1, &Patch::new().set("a.0.b", 1)).unwrap();
    assert_eq!(texts(&documents), ["7 -> 1"]);
    documents.verify_indexes().unwrap();
}

#[test]
fn the_name_of_a_field_may_look_like_a_direction_or_a_function() {
    let (world, session) = world();
    let documents = session.db.collection("documents").unwrap();
    for name in ["-a", "length(x)", "f(x)"] {
        documents.create_index(name, Index::on(format!("$['{name}']")).unique().sparse()).unwrap();
    }
    drop((documents, session));
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    for (key, name) in ["-a", "length(x)", "f(x)"].iter().enumerate() {
        documents.put(key, Json(format!(r#"{{"{name}":1,"a":1,"x":"y"}}"#))).unwrap();
        let twin = documents.put(9, Json(format!(r#"{{"{name}":1}}"#))).unwrap_err();
        assert_eq!(twin.kind(), ErrorKind::Duplicate, "{name}");
    }
    documents.verify_indexes().unwrap();
}

#[test]
fn a_filter_that_the_catalog_cannot_keep_is_refused() {
    let (_world, session) = world();
    let documents = session.db.collection("documents").unwrap();
    // Each level has two alternatives beside each other, which the text joins by one level more.
    let pair = |n: i32| Filter::field("x").eq(n).or(Filter::field("y").eq(n));
    let deep = (0..60).fold(pair(0), |inner, n| pair(n).and(inner.or(Filter::field("z").eq(n))));
    deep.check().unwrap();
    let refused = documents.create_index("a", Index::on("a").only(deep)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("conditions at most 100 deep"), "{refused}");
    assert!(documents.indexes().is_empty());
}

#[test]
fn a_dropped_or_renamed_collection_takes_its_indexes_along() {
    let (world, session) = world();
    let documents = indexed(&session, Index::on("$.v"));
    documents.put(1, Json(r#"{"v":7}"#)).unwrap();
    session.db.rename_keyspace("documents", "renamed").unwrap();
    assert_eq!(texts(&documents), ["7 -> 1"]);
    drop((documents, session));
    let session = open(&world, &small());
    let documents = session.db.collection("renamed").unwrap();
    assert_eq!(documents.indexes()[0].to_string(), "a on v, about 1 entries");
    documents.put(2, Json(r#"{"v":8}"#)).unwrap();
    assert_eq!(texts(&documents), ["7 -> 1", "8 -> 2"]);
    assert!(session.db.drop_keyspace("renamed").unwrap());
    let documents = session.db.collection("renamed").unwrap();
    assert!(documents.indexes().is_empty());
}

#[test]
fn a_collection_without_logged_writes_keeps_its_indexes_whole() {
    let world = World::new(2);
    let session = open(&world, &small_with(Durability::None));
    let documents = indexed(&session, Index::on("$.v"));
    for key in 0..200 {
        documents.put(key, doc!({ "v": (key % 7) })).unwrap();
        if key % 50 == 49 {
            session.db.flush().unwrap();
        }
    }
    let world = world.after_power_cut(3);
    drop(session);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    documents.verify_indexes().unwrap();
    assert_eq!(documents.count().unwrap(), 200);
}

/// The build took entries that no commit could remove: the document could not be deleted any more.
#[test]
fn a_build_refuses_a_document_that_no_commit_could_remove() {
    let world = World::new(1);
    let options = small().memory_budget(16 << 20);
    let session = open(&world, &options);
    let documents = session.db.collection("documents").unwrap();
    let key = "k".repeat(60_000);
    let numbers = |count: i64| doc!({ "t": ((0..count).collect::<Value>()) });
    documents.put(&key, numbers(100)).unwrap();
    let refused = documents.create_index("a", Index::on("t")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("a quarter of the memory budget"), "{refused}");
    assert!(documents.indexes().is_empty());
    // Each of two indexes alone could hold this one.
    let two =
        doc!({ "t": ((0..40_i64).collect::<Value>()), "u": ((0..40_i64).collect::<Value>()) });
    documents.put(&key, two).unwrap();
    documents.create_index("a", Index::on("t")).unwrap();
    let refused = documents.create_index("b", Index::on("u")).unwrap_err();
    assert!(refused.to_string().contains("in all indexes"), "{refused}");
    documents.verify_indexes().unwrap();
    // A put of as many entries is refused as well, and what is there can be removed.
    let refused = documents.put(&key, numbers(9_000)).unwrap_err();
    assert!(refused.to_string().contains("take more than"), "{refused}");
    documents.delete(&key).unwrap();
    assert_eq!(internal::index_entries(&documents, "a").unwrap().len(), 0);
}

/// The catalog had no room for what the index learned of its documents: the first array on its path
/// was refused.
#[test]
fn a_definition_leaves_room_for_what_an_index_learns() {
    let (_world, session) = world();
    let documents = session.db.collection("documents").unwrap();
    let only = |bytes: usize| {
        Index::on("tags").only(Filter::field("x").gte(Value::from("x".repeat(bytes))))
    };
    let refused = documents.create_index("a", only(65_000)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("expected at most 61440"), "{refused}");
    documents.create_index("a", only(61_000)).unwrap();
    documents.put(1, doc!({ "x": ("y"), "tags": [1, 2] })).unwrap();
    documents.verify_indexes().unwrap();
}

/// It ended the verification of everything with an error.
#[test]
fn an_index_may_be_dropped_while_it_is_verified() {
    let world = World::new(1);
    let db = crate::support::threaded(&world, small());
    let documents = db.collection("documents").unwrap();
    for key in 0..500 {
        documents.put(key, doc!({ "a": (key), "b": (key) })).unwrap();
    }
    std::thread::scope(|threads| {
        let dropper = threads.spawn(|| {
            for _ in 0..20 {
                documents.create_index("a", Index::on("a")).unwrap();
                assert!(documents.drop_index("a").unwrap());
            }
        });
        while !dropper.is_finished() {
            documents.verify_indexes().unwrap();
            db.verify().unwrap();
        }
    });
}
