//! Memory: groups and sorts that spill give what they give in memory, against a model of a few
//! lines; what cannot spill is refused.

use flagstone::doc::Map;
use flagstone::{Collection, Database, Space, Value, doc};
use flagstone_pipeline::Aggregated;
use flagstone_testkit::rng::Rng;
use std::collections::BTreeMap;

fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("data")).unwrap();
    (dir, db)
}

/// Random documents: `g` of few values and types, `n` of any number.
fn fill(collection: &Collection, rng: &mut Rng, count: u64) -> Vec<Value> {
    let mut documents = Vec::new();
    for key in 0..count {
        let group = match rng.below(6) {
            0 => Value::Null,
            1 => Value::from(format!("text {}", rng.below(20))),
            2 => Value::Float(rng.below(10) as f64),
            3 => doc!({ "x": (rng.below(5)) }),
            _ => Value::from(rng.below(40)),
        };
        let number = match rng.below(4) {
            0 => Value::from(rng.number() as i32),
            1 => Value::number(&format!("{}.{}", rng.below(1_000), rng.below(100))).unwrap(),
            2 => Value::from(rng.number() >> 20),
            _ => Value::from("none"),
        };
        let mut map = Map::new();
        map.insert("_id", key);
        if !rng.percent(10) {
            map.insert("g", group);
        }
        map.insert("n", number);
        map.insert("pad", "x".repeat(rng.index(60)));
        let row = Value::Map(map.clone());
        map.remove("_id");
        collection.put(key, Value::Map(map)).unwrap();
        documents.push(row);
    }
    documents
}

fn run(
    collection: &Collection,
    pipeline: &str,
    memory: usize,
) -> Result<Vec<Value>, (i32, String)> {
    let failed = |error: flagstone_pipeline::PipelineError| (error.code(), error.to_string());
    let aggregate = collection.aggregate(pipeline).map_err(failed)?.memory(memory);
    let rows = aggregate.run().map_err(failed)?;
    rows.map(|row| row.map(|row| row.to_value()).map_err(failed)).collect()
}

const ENOUGH: usize = 64 << 20;

#[test]
fn groups_agree_with_a_model_in_memory_and_from_files() {
    let mut rng = Rng::new(flagstone_testkit::seed("pipeline groups", 5));
    for _ in 0..6 {
        let (_dir, db) = open();
        let posts = db.collection("posts").unwrap();
        let count = 200 + rng.below(3_000);
        let documents = fill(&posts, &mut rng, count);
        let mut model: BTreeMap<Value, (i64, Vec<Value>, Option<Value>)> = BTreeMap::new();
        for document in &documents {
            let group = document.get("g").cloned().unwrap_or_default();
            let (count, ids, most) = model.entry(group).or_default();
            *count += 1;
            ids.push(document.get("_id").cloned().unwrap());
            let number = document.get("n").cloned().unwrap();
            *most = (*most).clone().max(Some(number));
        }
        let pipeline = r#"[
            {"$sort":{"_id":1}},
            {"$group":{"_id":"$g","c":{"$sum":1},"ids":{"$push":"$_id"},
                "m":{"$max":"$n"},"s":{"$sum":"$n"},"a":{"$avg":"$n"},"u":{"$addToSet":"$n"}}},
            {"$sort":{"_id":1}}
        ]"#;
        let whole = run(&posts, pipeline, ENOUGH).unwrap();
        assert_eq!(whole.len(), model.len());
        for (row, (group, (count, ids, most))) in whole.iter().zip(&model) {
            assert_eq!(row.get("_id"), Some(group));
            assert_eq!(row.get("c"), Some(&Value::from(*count)));
            assert_eq!(row.get("ids").and_then(Value::as_array), Some(ids.as_slice()));
            assert_eq!(row.get("m"), most.as_ref());
        }
        // 64 KiB for each stage: the groups and the sorts spill.
        let spilled = run(&posts, pipeline, 400 << 10).unwrap();
        assert_eq!(spilled, whole);
    }
}

#[test]
fn sorts_agree_with_a_model_in_memory_and_from_files() {
    let mut rng = Rng::new(flagstone_testkit::seed("pipeline sorts", 6));
    let (_dir, db) = open();
    let posts = db.collection("posts").unwrap();
    let mut documents = fill(&posts, &mut rng, 4_000);
    documents.sort_by(|a, b| b.get("n").cmp(&a.get("n")).then(a.get("_id").cmp(&b.get("_id"))));
    let ids = |rows: &[Value]| rows.iter().map(|row| row.get("_id").cloned()).collect::<Vec<_>>();
    // The computed field keeps the sort in the pipeline.
    let pipeline = r#"[{"$addFields":{"k":"$n"}},{"$sort":{"k":-1,"_id":1}}]"#;
    for memory in [ENOUGH, 128 << 10] {
        assert_eq!(ids(&run(&posts, pipeline, memory).unwrap()), ids(&documents));
    }
    let few = r#"[{"$addFields":{"k":"$n"}},{"$sort":{"k":-1,"_id":1}},{"$skip":5},{"$limit":20}]"#;
    assert_eq!(ids(&run(&posts, few, 128 << 10).unwrap()), ids(&documents)[5..25]);
    let planned =
        r#"[{"$match":{"n":{"$gte":100}}},{"$sort":{"n":-1}},{"$limit":50},{"$project":{"n":1}}]"#;
    let numbers = |rows: &[Value]| rows.iter().map(|row| row.get("n").cloned()).collect::<Vec<_>>();
    let expected: Vec<Value> = documents
        .iter()
        .filter(|document| {
            document.get("n") >= Some(&100.into()) && document.get("n").unwrap().as_str().is_none()
        })
        .take(50)
        .cloned()
        .collect();
    assert_eq!(numbers(&run(&posts, planned, ENOUGH).unwrap()), numbers(&expected));
    let buckets = r#"[{"$bucketAuto":{"groupBy":"$_id","buckets":7,"output":{"c":{"$sum":1},
        "ids":{"$push":"$_id"}}}}]"#;
    let whole = run(&posts, buckets, ENOUGH).unwrap();
    let sum: i64 = whole.iter().filter_map(|row| row.get("c")?.as_i64()).sum();
    assert_eq!((whole.len(), sum), (7, 4_000));
}

#[test]
fn what_cannot_spill_is_refused_with_the_drivers_code() {
    let (_dir, db) = open();
    let posts = db.collection("posts").unwrap();
    for key in 0..3_000 {
        posts.put(key, doc!({ "pad": ("x".repeat(200)) })).unwrap();
    }
    for pipeline in [
        r#"[{"$group":{"_id":null,"all":{"$push":"$$ROOT"}}}]"#,
        r#"[{"$group":{"_id":null,"all":{"$addToSet":"$$ROOT"}}}]"#,
        r#"[{"$facet":{"a":[]}}]"#,
        r#"[{"$setWindowFields":{"output":{"all":{"$sum":1}}}}]"#,
        r#"[{"$limit":1},{"$lookup":{"from":"posts","pipeline":[],"as":"all"}}]"#,
        r#"[{"$bucketAuto":{"groupBy":"$_id","buckets":1,"output":{"all":{"$push":"$$ROOT"}}}}]"#,
    ] {
        let (code, text) = run(&posts, pipeline, 256 << 10).unwrap_err();
        assert_eq!(code, 146, "{pipeline}: {text}");
        assert!(text.contains("at most the 262144 bytes of memory"), "{text}");
        assert!(run(&posts, pipeline, ENOUGH).is_ok(), "{pipeline}");
    }
    // Rows that pass through take no more memory than one.
    let doubled =
        r#"[{"$addFields":{"twice":["$pad","$pad"]}},{"$unwind":"$twice"},{"$count":"n"}]"#;
    assert_eq!(run(&posts, doubled, 256 << 10).unwrap(), [doc!({ "n": 6_000 })]);
}

/// All rows were held in memory, and once more for each branch.
#[test]
fn the_branches_of_a_facet_read_more_than_the_memory() {
    let (_dir, db) = open();
    let posts = db.collection("posts").unwrap();
    for key in 0..3_000_i64 {
        posts.put(key, doc!({ "n": (key % 7), "pad": ("x".repeat(200)) })).unwrap();
    }
    let branches = [
        r#"[{"$sort":{"pad":1,"_id":-1}},{"$limit":2},{"$project":{"n":1}}]"#,
        r#"[{"$count":"n"}]"#,
        r#"[{"$limit":1},{"$project":{"_id":1}}]"#,
        r#"[{"$group":{"_id":"$n","c":{"$sum":1}}},{"$sort":{"_id":1}}]"#,
        r#"[{"$skip":2998},{"$project":{"n":1}}]"#,
        r#"[{"$match":{"n":9}}]"#,
    ];
    let facets = branches.iter().enumerate().map(|(n, branch)| format!(r#""b{n}":{branch}"#));
    let facets = facets.collect::<Vec<_>>().join(",");
    let pipeline = format!(r#"[{{"$match":{{}}}},{{"$facet":{{{facets}}}}}]"#);
    let found = run(&posts, &pipeline, 256 << 10).unwrap();
    assert_eq!(found.len(), 1);
    for (n, branch) in branches.iter().enumerate() {
        let alone: Value = run(&posts, branch, ENOUGH).unwrap().into_iter().collect();
        assert_eq!(found[0].get(format!("b{n}").as_str()), Some(&alone), "{branch}");
    }
    // Of no rows each branch finds none.
    let none =
        run(&posts, r#"[{"$match":{"n":9}},{"$facet":{"a":[],"b":[{"$count":"n"}]}}]"#, ENOUGH);
    assert_eq!(none.unwrap(), [doc!({ "a": [], "b": [] })]);
}

/// A sample held all of its rows in memory, and was refused where a sort spills.
#[test]
fn samples_spill() {
    let (_dir, db) = open();
    let posts = db.collection("posts").unwrap();
    for key in 0..3_000_i64 {
        posts.put(key, doc!({ "pad": ("x".repeat(200)) })).unwrap();
    }
    for (size, count) in [(1, 1), (40, 40), (2_900, 2_900), (70_000, 3_000)] {
        let pipeline = format!(r#"[{{"$sample":{{"size":{size}}}}}]"#);
        let rows = run(&posts, &pipeline, 256 << 10).unwrap();
        let keys = rows.iter().map(|row| row.get("_id").and_then(Value::as_i64).unwrap());
        let mut keys: Vec<i64> = keys.collect();
        assert!(count < 40 || !keys.is_sorted(), "the order is random, too");
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count, "each row once");
        assert!(keys.iter().all(|key| (0..3_000).contains(key)));
    }
    // Every row is as likely as the others: each of ten is among three of them about 300 times.
    let ten = r#"[{"$limit":10},{"$sample":{"size":3}}]"#;
    let mut times = [0; 10];
    for _ in 0..1_000 {
        for row in run(&posts, ten, ENOUGH).unwrap() {
            times[row.get("_id").and_then(Value::as_i64).unwrap() as usize] += 1;
        }
    }
    assert!(times.iter().all(|times| (200..400).contains(times)), "{times:?}");
}

#[test]
fn hostile_pipelines_end_with_an_error() {
    let (_dir, db) = open();
    let posts = db.collection("posts").unwrap();
    posts.put(1, doc!({ "a": 1 })).unwrap();
    // Each stage nests the row once more, and doubles it.
    for stage in [
        r#"{"$addFields":{"a":"$$ROOT"}}"#,
        r#"{"$addFields":{"a":["$a","$a"]}}"#,
        r#"{"$replaceWith":{"a":{"b":{"c":"$$ROOT"}}}}"#,
    ] {
        let stages = vec![stage; 900].join(",");
        let (code, text) = run(&posts, &format!("[{stages}]"), 4 << 20).unwrap_err();
        assert_eq!(code, 146, "{text}");
    }
    let many = vec![r#"{"$limit":1}"#; 1_001].join(",");
    assert_eq!(run(&posts, &format!("[{many}]"), ENOUGH).unwrap_err().0, 7749501);
    for stage in [r#"{"$sort":{"a":1}}"#, r#"{"$unwind":"$a"}"#, r#"{"$group":{"_id":"$_id"}}"#] {
        let many = vec![stage; 100].join(",");
        assert_eq!(run(&posts, &format!("[{many}]"), ENOUGH).unwrap().len(), 1);
        let (code, text) = run(&posts, &format!("[{many},{stage}]"), ENOUGH).unwrap_err();
        assert_eq!((code, text.contains("at most 100 stages")), (9, true), "{text}");
    }
    let nested = (0..30).fold(r#"[]"#.to_owned(), |inner, _| {
        format!(r#"[{{"$lookup":{{"from":"posts","pipeline":{inner},"as":"x"}}}}]"#)
    });
    assert_eq!(run(&posts, &nested, ENOUGH).unwrap_err().0, 232);
    let deep = (0..10_000).fold(Value::from(1), |inner, _| Value::Array(vec![inner]));
    let error = posts.aggregate(&deep).unwrap_err();
    assert_eq!((error.code(), error.code_name().as_str()), (15, "Overflow"));
    let wide = format!(
        r#"[{{"$project":{{{}}}}}]"#,
        (0..5_000).map(|n| format!(r#""f{n}":1"#)).collect::<Vec<_>>().join(",")
    );
    assert_eq!(run(&posts, &wide, ENOUGH).unwrap().len(), 1);
}
