//! Every stage by a table: a pipeline over a few documents, and the rows that it gives.

use flagstone::doc::json::{append_relaxed_json, parse};
use flagstone::doc::{JsonMode, JsonOptions};
use flagstone::query::Hint;
use flagstone::{Collection, Database, Document, Filter, Index, Json, Space};
use flagstone_pipeline::{Aggregate, Aggregated};

struct Shop {
    db: Database,
    orders: Collection,
    _dir: tempfile::TempDir,
}

/// Orders and customers.
fn shop() -> Shop {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("data")).unwrap();
    let orders = db.collection("orders").unwrap();
    for (key, order) in [
        (1, r#"{"who":"ada","city":"Oslo","n":3,"tags":["a","b"],"at":{"y":2020}}"#),
        (2, r#"{"who":"bob","city":"Rome","n":5,"tags":[]}"#),
        (3, r#"{"who":"ada","city":"Oslo","n":7,"tags":null,"at":{"y":2021}}"#),
        (4, r#"{"who":"eve","city":null,"n":2.5,"tags":"c"}"#),
    ] {
        orders.put(key, Json(order)).unwrap();
    }
    let customers = db.collection("customers").unwrap();
    customers.put("ada", Json(r#"{"age":36,"langs":["no","en"]}"#)).unwrap();
    customers.put("bob", Json(r#"{"age":41,"langs":["it"]}"#)).unwrap();
    customers.create_index("by_langs", Index::on("langs")).unwrap();
    Shop { db, orders, _dir: dir }
}

fn rows(orders: &Collection, pipeline: &str) -> Vec<String> {
    shown(orders.aggregate(pipeline))
}

/// Runs a pipeline: rows as Extended JSON, or an error with its code.
pub(crate) fn shown(aggregate: flagstone_pipeline::Result<Aggregate<'_>>) -> Vec<String> {
    let failed =
        |error: flagstone_pipeline::PipelineError| format!("error {} {error}", error.code());
    let found = match aggregate.and_then(Aggregate::run) {
        Ok(found) => found,
        Err(error) => return vec![failed(error)],
    };
    found
        .map(|row| match row {
            Ok(row) => {
                let mut out = Vec::new();
                append_relaxed_json(&row.root(), &mut out).unwrap();
                String::from_utf8(out).unwrap()
            }
            Err(error) => failed(error),
        })
        .collect()
}

/// Returns whether these are the rows, or the error whose code and text begin and contain what is
/// expected.
pub(crate) fn is_expected(found: &[String], expected: &[&str]) -> bool {
    let [error] = expected else { return found == expected };
    let Some(error) = error.strip_prefix("error ") else { return found == expected };
    let (code, part) = error.split_once(' ').unwrap_or((error, ""));
    let begin = format!("error {code} ");
    found.last().is_some_and(|last| last.starts_with(&begin) && last.contains(part))
}

#[track_caller]
fn check(cases: &[(&str, &[&str])]) {
    let shop = shop();
    let mut wrong = Vec::new();
    for (pipeline, expected) in cases {
        let found = rows(&shop.orders, pipeline);
        if !is_expected(&found, expected) {
            wrong.push(format!("{pipeline}\n    gave     {found:#?}\n    expected {expected:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

const ID: &str = r#"{"$sort":{"_id":1}},{"$project":{"_id":1}}"#;

#[test]
fn matches() {
    let ids = |filter: &str| {
        let shop = shop();
        rows(&shop.orders, &format!("[{{\"$match\":{filter}}},{ID}]"))
            .iter()
            .map(|row| row.trim_matches(|c: char| !c.is_ascii_digit()).to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(ids("{}"), "1 2 3 4");
    assert_eq!(ids(r#"{"_id":{"$gte":2,"$lt":4}}"#), "2 3");
    assert_eq!(ids(r#"{"$or":[{"_id":1},{"n":5}]}"#), "1 2");
    assert_eq!(ids(r#"{"$expr":{"$gt":["$n",3]}}"#), "2 3");
    assert_eq!(ids(r#"{"who":"ada","$expr":{"$gt":["$n",{"$multiply":["$_id",2]}]}}"#), "1 3");
    assert_eq!(ids(r#"{"$and":[{"who":"ada"},{"$expr":{"$eq":["$at.y",2021]}}]}"#), "3");
    assert_eq!(ids(r#"{"$or":[{"$expr":{"$eq":["$n",5]}},{"who":"eve"}]}"#), "2 4");
    assert_eq!(ids(r#"{"$nor":[{"$expr":{"$eq":["$n",5]}},{"who":"eve"}]}"#), "1 3");
    assert_eq!(ids(r#"{"$expr":"$tags"}"#), "1 2 4");
    check(&[
        (r#"[{"$match":{"n":{"$nope":1}}}]"#, &["error 2 $nope"]),
        (r#"[{"$match":1}]"#, &["error 15959"]),
        (r#"[{"$match":{"$expr":{"$nope":1}}}]"#, &["error 168 pipeline[0].$match.$expr.$nope"]),
        (
            r#"[{"$match":{"$expr":{"$divide":["$n",0]}}}]"#,
            &["error 2 pipeline[0].$match.$expr.$divide"],
        ),
    ]);
}

#[test]
fn fields() {
    check(&[
        (r#"[{"$match":{"_id":1}},{"$project":{"n":1}}]"#, &[r#"{"_id":1,"n":3}"#]),
        (r#"[{"$match":{"_id":1}},{"$project":{"_id":0,"at.y":true}}]"#, &[r#"{"at":{"y":2020}}"#]),
        (
            r#"[{"$match":{"_id":1}},{"$project":{"tags":0,"at":0,"_id":0}}]"#,
            &[r#"{"who":"ada","city":"Oslo","n":3}"#],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$project":{"_id":0}},{"$project":{"who":1}}]"#,
            &[r#"{"who":"ada"}"#],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$project":{"_id":0,"d":{"$add":["$n",1]},"city":1,
                "x":"$none"}}]"#,
            &[r#"{"city":"Oslo","d":4}"#],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$project":{"_id":0,"a":{"b":"$n","c":1}}}]"#,
            &[r#"{"a":{"b":3}}"#],
        ),
        (r#"[{"$project":{"a":1,"b":0}}]"#, &["error 31254 pipeline[0].$project.b"]),
        (r#"[{"$project":{"a":0,"b":1}}]"#, &["error 31253"]),
        (r#"[{"$project":{"a":1,"a.b":1}}]"#, &["error 31249"]),
        (r#"[{"$project":{}}]"#, &["error 51272"]),
        (r#"[{"$project":{"a":{}}}]"#, &["error 51270"]),
        (
            r#"[{"$match":{"_id":1}},{"$addFields":{"n":"$who","at.z":1,"new":{"x":2}}},
                {"$unset":["tags","city"]}]"#,
            &[r#"{"_id":1,"who":"ada","n":"ada","at":{"y":2020,"z":1},"new":{"x":2}}"#],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$set":{"n":"$$REMOVE","tags.k":1}},{"$project":{"n":1,
                "tags":1}}]"#,
            &[r#"{"_id":1,"tags":[{"k":1},{"k":1}]}"#],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$unset":"at.y"},{"$project":{"at":1,"_id":0}}]"#,
            &[r#"{"at":{}}"#],
        ),
        (r#"[{"$addFields":5}]"#, &["error 40272"]),
        (r#"[{"$match":{"$sampleRate":1}},{"$count":"n"}]"#, &[r#"{"n":4}"#]),
        (r#"[{"$match":{"$sampleRate":0.0,"_id":1}},{"$count":"n"}]"#, &[]),
        (r#"[{"$match":{"$sampleRate":2}}]"#, &["error 2"]),
        (r#"[{"$addFields":{}},{"$count":"n"}]"#, &[r#"{"n":4}"#]),
        (r#"[{"$set":{"a":{"$abs":1,"$add":1}}}]"#, &["error 40181"]),
        (r#"[{"$set":{"":1}}]"#, &["error 40352"]),
        (r#"[{"$unset":["a","a"]}]"#, &["error 31250"]),
        (r#"[{"$unset":["$a","b\u0000"]}]"#, &["error 9527900"]),
        (r#"[{"$project":{"a":0,"b":{"$add":[1]}}}]"#, &["error 31252"]),
        (r#"[{"$project":{"a":0,"b":"$c"}}]"#, &["error 31310"]),
        (r#"[{"$project":{"a":{"$abs":1,"b":1}}}]"#, &["error 16410"]),
        (r#"[{"$unwind":{"$code":"a"}}]"#, &["error 15981"]),
        (r#"[{"$unwind":"$"}]"#, &["error 40352"]),
        (r#"[{"$replaceRoot":{"root":1}}]"#, &["error 40415"]),
        (r#"[{"$replaceRoot":{}}]"#, &["error 40414"]),
        (r#"[{"$sample":{"size":-1,"more":1}}]"#, &["error 28748"]),
        (r#"[{"$sample":{"size":1e300}},{"$count":"n"}]"#, &[r#"{"n":4}"#]),
        (r#"[{"$sort":{"_id":-1.5}},{"$limit":1},{"$project":{"_id":1}}]"#, &[r#"{"_id":4}"#]),
        (r#"[{"$unset":[]}]"#, &["error 31119"]),
        (r#"[{"$addFields":{"a":1,"a.b":2}}]"#, &["error 40176"]),
        (r#"[{"$match":{"_id":3}},{"$replaceRoot":{"newRoot":"$at"}}]"#, &[r#"{"y":2021}"#]),
        (
            r#"[{"$match":{"_id":3}},{"$replaceWith":{"$mergeObjects":[{"z":1},"$at"]}}]"#,
            &[r#"{"z":1,"y":2021}"#],
        ),
        (r#"[{"$match":{"_id":2}},{"$replaceRoot":{"newRoot":"$at"}}]"#, &["error 40228 missing"]),
    ]);
}

#[test]
fn sorts_and_limits() {
    check(&[
        (
            r#"[{"$sort":{"n":-1}},{"$limit":2},{"$project":{"n":1}}]"#,
            &[r#"{"_id":3,"n":7}"#, r#"{"_id":2,"n":5}"#],
        ),
        (
            r#"[{"$sort":{"n":-1}},{"$skip":1},{"$limit":1},{"$project":{"n":1}}]"#,
            &[r#"{"_id":2,"n":5}"#],
        ),
        (r#"[{"$sort":{"_id":-1}},{"$limit":1},{"$project":{"n":1}}]"#, &[r#"{"_id":4,"n":2.5}"#]),
        (
            r#"[{"$addFields":{"m":{"$mod":["$_id",2]}}},{"$sort":{"m":1,"n":1}},{"$limit":3},
                {"$project":{"m":1}}]"#,
            &[r#"{"_id":4,"m":0}"#, r#"{"_id":2,"m":0}"#, r#"{"_id":1,"m":1}"#],
        ),
        (r#"[{"$match":{"who":"ada"}},{"$count":"orders"}]"#, &[r#"{"orders":2}"#]),
        (r#"[{"$match":{"who":"nobody"}},{"$count":"orders"}]"#, &[]),
        (r#"[{"$limit":0}]"#, &["error 15958"]),
        (r#"[{"$skip":-1}]"#, &["error 5107200"]),
        (r#"[{"$sort":{"a":2}}]"#, &["error 15975"]),
        (r#"[{"$sort":{}}]"#, &["error 15976"]),
        (r#"[{"$count":"a.b"}]"#, &["error 40160"]),
        (r#"[{"$count":"_id"}]"#, &["error 9039800"]),
        (r#"[{"$match":{"$comment":"why","who":"bob"}},{"$count":"n"}]"#, &[r#"{"n":1}"#]),
        (r#"[{"$sample":{"size":10}},{"$count":"n"}]"#, &[r#"{"n":4}"#]),
        (r#"[{"$sample":{"size":2}},{"$count":"n"}]"#, &[r#"{"n":2}"#]),
        (r#"[{"$sample":{"size":0}}]"#, &["error 28747"]),
    ]);
}

#[test]
fn groups() {
    check(&[
        (
            r#"[{"$group":{"_id":"$who","n":{"$sum":"$n"},"c":{"$count":{}},"a":{"$avg":"$n"},
                "low":{"$min":"$n"},"high":{"$max":"$n"}}},{"$sort":{"_id":1}}]"#,
            &[
                r#"{"_id":"ada","n":10,"c":2,"a":5.0,"low":3,"high":7}"#,
                r#"{"_id":"bob","n":5,"c":1,"a":5.0,"low":5,"high":5}"#,
                r#"{"_id":"eve","n":2.5,"c":1,"a":2.5,"low":2.5,"high":2.5}"#,
            ],
        ),
        (
            r#"[{"$sort":{"_id":1}},{"$group":{"_id":null,"f":{"$first":"$who"},
                "l":{"$last":"$who"},"p":{"$push":"$at.y"},"s":{"$addToSet":"$city"},
                "m":{"$mergeObjects":"$at"}}}]"#,
            &[concat!(
                r#"{"_id":null,"f":"ada","l":"eve","p":[2020,2021],"s":["Oslo","Rome","#,
                r#"null],"m":{"y":2021}}"#,
            )],
        ),
        (
            r#"[{"$group":{"_id":{"w":"$who","y":"$at.y"}}},{"$sort":{"_id":1}},{"$limit":2}]"#,
            &[r#"{"_id":{"w":"ada","y":2020}}"#, r#"{"_id":{"w":"ada","y":2021}}"#],
        ),
        (
            r#"[{"$group":{"_id":"$at.y","n":{"$sum":1}}},{"$sort":{"_id":1}}]"#,
            &[r#"{"_id":null,"n":2}"#, r#"{"_id":2020,"n":1}"#, r#"{"_id":2021,"n":1}"#],
        ),
        (
            r#"[{"$group":{"_id":null,"d":{"$stdDevPop":"$_id"},"x":{"$stdDevSamp":"$nope"}}},
                {"$project":{"d":{"$round":["$d",3]},"x":1}}]"#,
            &[r#"{"_id":null,"x":null,"d":1.118}"#],
        ),
        // Maps of other orders are other groups, as they are to $eq and $addToSet.
        (
            r#"[{"$sort":{"_id":1}},{"$limit":2},{"$group":{"_id":{"$cond":[{"$eq":["$_id",1]},
                {"$literal":{"a":1,"b":2}},{"$literal":{"b":2,"a":1}}]},"n":{"$sum":1}}},
                {"$group":{"_id":null,"g":{"$sum":1},"n":{"$sum":"$n"}}}]"#,
            &[r#"{"_id":null,"g":2,"n":2}"#],
        ),
        (r#"[{"$group":{"n":{"$sum":1}}}]"#, &["error 15955"]),
        (r#"[{"$group":{"_id":1,"n":{"$nope":1}}}]"#, &["error 15952 $nope"]),
        (r#"[{"$group":{"_id":1,"n":1}}]"#, &["error 40234 pipeline[0].$group.n"]),
        (r#"[{"$group":{"_id":1,"n":{"$sum":1,"$max":1}}}]"#, &["error 40238"]),
        (r#"[{"$group":{"_id":1,"n":{}}}]"#, &["error 40234"]),
        (r#"[{"$group":{"_id":1,"n":{"sum":1}}}]"#, &["error 40234"]),
        (r#"[{"$group":{"_id":1,"n":{"$nope":[1]}}}]"#, &["error 40237"]),
        (r#"[{"$group":{"_id":{"a":1}}}]"#, &["error 17390"]),
        (r#"[{"$group":{"_id":{"":"$a"}}}]"#, &["error 15998"]),
        (r#"[{"$group":{"_id":1,"n":{"$sum":{"$divide":[1,0]}}}}]"#, &["error 4848401"]),
        (r#"[{"$group":{"_id":1,"n":{"$sum":{"$mod":[1,0]}}}}]"#, &["error 4848403"]),
        (r#"[{"$group":{"_id":"$$CLUSTER_TIME"}}]"#, &["error 10071200"]),
        (r#"[{"$group":{"_id":1,"n":{"$sum":[1,2]}}}]"#, &["error 40237"]),
        (r#"[{"$group":{"_id":1,"n.x":{"$sum":1}}}]"#, &["error 40235"]),
        (r#"[{"$group":{"_id":1,"n":{"$mergeObjects":"$n"}}}]"#, &["error 5911200 $mergeObjects"]),
        (r#"[{"$sortByCount":"$who"},{"$limit":1}]"#, &[r#"{"_id":"ada","count":2}"#]),
        (
            r#"[{"$bucket":{"groupBy":"$n","boundaries":[0,3,6],"default":"more"}}]"#,
            &[r#"{"_id":0,"count":1}"#, r#"{"_id":3,"count":2}"#, r#"{"_id":"more","count":1}"#],
        ),
        (
            r#"[{"$bucket":{"groupBy":"$n","boundaries":[0,3],"output":{"w":{"$push":"$who"}}}}]"#,
            &["error 40066"],
        ),
        (r#"[{"$bucket":{"groupBy":"$n","boundaries":[3,0]}}]"#, &["error 40194"]),
        (r#"[{"$bucket":{"groupBy":"$n","boundaries":[3,"x"]}}]"#, &["error 40193"]),
        (
            r#"[{"$bucketAuto":{"groupBy":"$n","buckets":2}}]"#,
            &[r#"{"_id":{"min":2.5,"max":5},"count":2}"#, r#"{"_id":{"min":5,"max":7},"count":2}"#],
        ),
        (
            r#"[{"$bucketAuto":{"groupBy":"$who","buckets":3,"output":{"n":{"$sum":"$n"}}}}]"#,
            &[
                r#"{"_id":{"min":"ada","max":"bob"},"n":10}"#,
                r#"{"_id":{"min":"bob","max":"eve"},"n":5}"#,
                r#"{"_id":{"min":"eve","max":"eve"},"n":2.5}"#,
            ],
        ),
        // Maps of another order of fields are other values.
        (
            r#"[{"$documents":[{"k":{"a":1,"b":2}},{"k":{"b":2,"a":1}},{"k":{"a":1,"b":2}}]},
                {"$bucketAuto":{"groupBy":"$k","buckets":2}}]"#,
            &[
                r#"{"_id":{"min":{"a":1,"b":2},"max":{"b":2,"a":1}},"count":2}"#,
                r#"{"_id":{"min":{"b":2,"a":1},"max":{"b":2,"a":1}},"count":1}"#,
            ],
        ),
    ]);
}

#[test]
fn unwinds() {
    check(&[
        (
            r#"[{"$sort":{"_id":1}},{"$unwind":"$tags"},{"$project":{"tags":1}}]"#,
            &[r#"{"_id":1,"tags":"a"}"#, r#"{"_id":1,"tags":"b"}"#, r#"{"_id":4,"tags":"c"}"#],
        ),
        (
            r#"[{"$sort":{"_id":1}},{"$unwind":{"path":"$tags","includeArrayIndex":"i",
                "preserveNullAndEmptyArrays":true}},{"$project":{"tags":1,"i":1}}]"#,
            &[
                r#"{"_id":1,"tags":"a","i":0}"#,
                r#"{"_id":1,"tags":"b","i":1}"#,
                r#"{"_id":2,"i":null}"#,
                r#"{"_id":3,"tags":null,"i":null}"#,
                r#"{"_id":4,"tags":"c","i":null}"#,
            ],
        ),
        (r#"[{"$unwind":"tags"}]"#, &["error 28818"]),
        (r#"[{"$unwind":{"x":1}}]"#, &["error 28811"]),
        (r#"[{"$unwind":{}}]"#, &["error 28812"]),
        (r#"[{"$unwind":1}]"#, &["error 15981"]),
    ]);
}

#[test]
fn joins() {
    check(&[
        (
            r#"[{"$match":{"_id":{"$in":[1,4]}}},{"$sort":{"_id":1}},
                {"$lookup":{"from":"customers","localField":"who","foreignField":"_id",
                "as":"c"}},{"$project":{"c":1}}]"#,
            &[
                r#"{"_id":1,"c":[{"_id":"ada","age":36,"langs":["no","en"]}]}"#,
                r#"{"_id":4,"c":[]}"#,
            ],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$addFields":{"l":["it","en","xx"]}},
                {"$lookup":{"from":"customers","localField":"l","foreignField":"langs",
                "pipeline":[{"$sort":{"_id":-1}},{"$project":{"age":1}}],"as":"x.c"}},
                {"$project":{"x":1}}]"#,
            &[r#"{"_id":1,"x":{"c":[{"_id":"bob","age":41},{"_id":"ada","age":36}]}}"#],
        ),
        (
            r#"[{"$match":{"_id":2}},{"$lookup":{"from":"customers","let":{"w":"$who","k":5},
                "pipeline":[{"$match":{"$expr":{"$eq":["$_id","$$w"]}}},{"$project":{"_id":0,
                "older":{"$add":["$age","$$k"]}}}],"as":"c"}},{"$project":{"c":1}}]"#,
            &[r#"{"_id":2,"c":[{"older":46}]}"#],
        ),
        (
            r#"[{"$match":{"_id":{"$lte":2}}},{"$sort":{"_id":1}},
                {"$lookup":{"from":"customers","pipeline":[{"$count":"n"}],"as":"c"}},
                {"$project":{"c":1}}]"#,
            &[r#"{"_id":1,"c":[{"n":2}]}"#, r#"{"_id":2,"c":[{"n":2}]}"#],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$lookup":{"from":"nowhere","localField":"who",
                "foreignField":"x","as":"c"}},{"$project":{"c":1}}]"#,
            &[r#"{"_id":1,"c":[]}"#],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$lookup":{"from":"customers","localField":"who",
                "foreignField":"_id.x","as":"c"}},{"$project":{"c":1}}]"#,
            &[r#"{"_id":1,"c":[]}"#],
        ),
        (
            r#"[{"$match":{"_id":2}},{"$project":{"who":1}},{"$unionWith":"customers"},
                {"$project":{"age":1}}]"#,
            &[r#"{"_id":2}"#, r#"{"_id":"ada","age":36}"#, r#"{"_id":"bob","age":41}"#],
        ),
        (
            r#"[{"$match":{"_id":9}},{"$unionWith":{"coll":"customers",
                "pipeline":[{"$match":{"age":41}},{"$project":{"age":1}}]}}]"#,
            &[r#"{"_id":"bob","age":41}"#],
        ),
        (
            r#"[{"$match":{"_id":9}},{"$unionWith":{"pipeline":[{"$documents":[{"a":1}]}]}}]"#,
            &[r#"{"a":1}"#],
        ),
        (
            r#"[{"$documents":[{"a":{"$add":[1,1]}},{"a":3}]},{"$match":{"a":{"$gt":2}}}]"#,
            &[r#"{"a":3}"#],
        ),
        (r#"[{"$documents":[1]}]"#, &["error 5858203"]),
        (
            r#"[{"$facet":{"n":[{"$count":"n"}],"top":[{"$sort":{"n":-1}},{"$limit":1},
                {"$project":{"n":1}}]}}]"#,
            &[r#"{"n":[{"n":4}],"top":[{"_id":3,"n":7}]}"#],
        ),
        (
            r#"[{"$facet":{"a":[{"$facet":{"b":[]}}]}}]"#,
            &["error 40600 pipeline[0].$facet.a[0].$facet"],
        ),
        (r#"[{"$facet":{}}]"#, &["error 40169"]),
        (
            r#"[{"$match":{"_id":1}},{"$lookup":{"localField":"who","foreignField":"f","pipeline":[
                {"$documents":[{"f":"ada","x":1},{"f":"bob"}]},{"$set":{"y":2}}],"as":"j"}},
                {"$project":{"j":1}}]"#,
            &[r#"{"_id":1,"j":[{"f":"ada","x":1,"y":2}]}"#],
        ),
        (
            r#"[{"$match":{"_id":1}},{"$lookup":{"localField":"tags.1","foreignField":"f",
                "pipeline":[{"$documents":[{"f":"a"},{"f":"b"}]}],"as":"j"}},
                {"$project":{"j":1}}]"#,
            &[r#"{"_id":1,"j":[{"f":"b"}]}"#],
        ),
        (
            r#"[{"$match":{"_id":2}},{"$lookup":{"localField":"tags","foreignField":"f","pipeline":[
                {"$documents":[{"f":null},{"f":1},{"g":1}]}],"as":"j"}},{"$project":{"j":1}}]"#,
            &[r#"{"_id":2,"j":[{"f":null},{"g":1}]}"#],
        ),
        (r#"[{"$lookup":{"from":"customers","as":"x"}}]"#, &["error 9"]),
        (r#"[{"$lookup":{"From":"customers","pipeline":[],"as":"x"}}]"#, &["error 9"]),
        (r#"[{"$lookup":{"from":"c","pipeline":[],"as":"x","y":1}}]"#, &["error 40415"]),
        (r#"[{"$lookup":{"from":"customers","localField":"a","as":"x"}}]"#, &["error 9"]),
        (r#"[{"$lookup":{"localField":"a","foreignField":"b","as":"x"}}]"#, &["error 9 from"]),
        (
            r#"[{"$lookup":{"from":"c","pipeline":[{"$match":{"$expr":"$$w"}}],"as":"x"}}]"#,
            &["error 17276 pipeline[0].$lookup.pipeline[0].$match.$expr"],
        ),
    ]);
}

#[test]
fn documents_are_reached_step_by_step() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("data")).unwrap();
    let staff = db.collection("staff").unwrap();
    for (key, one) in [
        (1, r#"{"name":"ada"}"#),
        (2, r#"{"name":"bob","boss":"ada","in":{"y":2}}"#),
        (3, r#"{"name":"eve","boss":"bob"}"#),
        (4, r#"{"name":"max","boss":["eve","ada"]}"#),
        (5, r#"{"name":"tom","boss":"tom"}"#),
    ] {
        staff.put(key, Json(one)).unwrap();
    }
    let graph = |more: &str| {
        format!(
            r#"[{{"$match":{{"name":"max"}}}},{{"$graphLookup":{{"from":"staff",
                "startWith":"$boss","connectFromField":"boss","connectToField":"name",
                "as":"up"{more}}}}},{{"$project":{{"_id":0,"up._id":1,"up.d.n":1}}}}]"#
        )
    };
    let all = r#"{"up":[{"_id":1},{"_id":3},{"_id":2}]}"#;
    let deep = [(1, 0), (3, 0), (2, 1)]
        .map(|(key, depth)| format!(r#"{{"_id":{key},"d":{{"n":{depth}}}}}"#));
    let deep = format!(r#"{{"up":[{}]}}"#, deep.join(","));
    for has_index in [false, true] {
        if has_index {
            staff.create_index("by_name", Index::on("name")).unwrap();
        }
        for (more, expected) in [
            ("", all),
            (r#","maxDepth":0"#, r#"{"up":[{"_id":1},{"_id":3}]}"#),
            (r#","depthField":"d.n""#, &deep),
            (r#","restrictSearchWithMatch":{"_id":{"$lt":3}}"#, r#"{"up":[{"_id":1}]}"#),
            (
                r#","restrictSearchWithMatch":{"$expr":{"$ne":["$name","bob"]}}"#,
                r#"{"up":[{"_id":1},{"_id":3}]}"#,
            ),
            (r#","maxDepth":-1"#, "error 40101"),
            (r#","maxDepth":0.5"#, "error 40102"),
            (r#","maxDepth":"x""#, "error 40100"),
            (r#","restrictSearchWithMatch":1"#, "error 40185"),
            (r#","nonsense":1"#, "error 40104"),
            (r#","as":1"#, "error 40103"),
        ] {
            let found = rows(&staff, &graph(more));
            assert!(is_expected(&found, &[expected]), "{more}: {found:?}");
        }
    }
    // A document that leads to itself, the primary key, and fields inside of it.
    let pipeline = r#"[{"$match":{"_id":{"$gte":4}}},{"$sort":{"_id":1}},
        {"$graphLookup":{"from":"staff","startWith":"$_id","connectFromField":"boss",
        "connectToField":"CONNECT","as":"x"}},{"$project":{"x._id":1}}]"#;
    let found = |to: &str| rows(&staff, &pipeline.replace("CONNECT", to));
    assert_eq!(found("_id"), [r#"{"_id":4,"x":[{"_id":4}]}"#, r#"{"_id":5,"x":[{"_id":5}]}"#]);
    assert_eq!(found("_id.y"), [r#"{"_id":4,"x":[]}"#, r#"{"_id":5,"x":[]}"#]);
    // What no query finds.
    for (pipeline, expected) in [
        (r#"[{"$graphLookup":1}]"#, "error 40327"),
        (r#"[{"$graphLookup":{"from":"staff"}}]"#, "error 40105"),
        (
            r#"[{"$limit":1},{"$graphLookup":{"from":"none","startWith":"$_id","as":"x",
                "connectFromField":"a","connectToField":"b"}},{"$project":{"x":1}}]"#,
            r#"{"_id":1,"x":[]}"#,
        ),
    ] {
        assert!(is_expected(&rows(&staff, pipeline), &[expected]), "{pipeline}");
    }
}

/// A query counts once for each index that it reads, and reads by the primary key count for none.
#[test]
fn uses_of_indexes_are_counted() {
    let Shop { db, orders, _dir } = shop();
    orders.create_index("by_n", Index::on("n").then("-who")).unwrap();
    orders.create_index("by_who", Index::on("who")).unwrap();
    let uses = |name: &str| {
        let pipeline = format!(
            r#"[{{"$indexStats":{{}}}},{{"$match":{{"name":"{name}"}}}},{{"$project":{{"key":1,
                "uses":{{"$toInt":"$accesses.ops"}}}}}}]"#
        );
        rows(&orders, &pipeline).concat()
    };
    assert_eq!(uses("by_n"), r#"{"key":{"n":1,"who":-1},"uses":0}"#);
    orders.get(1).unwrap();
    orders.find(r#"{"_id":1}"#).count().unwrap();
    for (filter, hint) in
        [(r#"{"n":3}"#, "by_n"), (r#"{"n":{"$gt":3}}"#, "by_n"), (r#"{"who":"bob"}"#, "by_who")]
    {
        assert!(orders.find(filter).hint(Hint::index(hint)).count().unwrap() > 0);
    }
    assert_eq!(uses("by_n"), r#"{"key":{"n":1,"who":-1},"uses":2}"#);
    assert_eq!(uses("by_who"), r#"{"key":{"who":1},"uses":1}"#);
    assert_eq!(uses("by_none"), "");
    let indexes = orders.indexes();
    assert_eq!(indexes.iter().map(|index| index.uses).collect::<Vec<_>>(), [2, 1]);
    for (pipeline, expected) in [
        (r#"[{"$indexStats":1}]"#, "error 28803"),
        (r#"[{"$indexStats":{"x":1}}]"#, "error 28803"),
        (r#"[{"$limit":1},{"$indexStats":{}}]"#, "error 40602"),
        (r#"[{"$facet":{"a":[{"$indexStats":{}}]}}]"#, "error 40600"),
    ] {
        assert!(is_expected(&rows(&orders, pipeline), &[expected]), "{pipeline}");
    }
    drop(db);
}

/// The values of a text are read before they are compared with the condition of an index.
#[test]
fn a_match_in_a_text_uses_a_partial_index_of_dates() {
    let Shop { orders, db, _dir } = shop();
    for day in 0..400 {
        let date = format!(r#"{{"at":{{"$date":"20{:02}-01-01T00:00:00Z"}}}}"#, 10 + day % 60);
        let options = JsonOptions::new().mode(JsonMode::Extended);
        orders.put(100 + day, &Document::from_json_with(date, options).unwrap()).unwrap();
    }
    let late = Filter::parse(r#"{"at":{"$gte":{"$date":"2065-01-01T00:00:00Z"}}}"#).unwrap();
    orders.create_index("late", Index::on("at").only(late)).unwrap();
    let pipeline = |year: u32| {
        format!(
            r#"[{{"$match":{{"at":{{"$gte":{{"$date":"{year}-01-01T00:00:00Z"}}}}}}}},
            {{"$count":"n"}}]"#
        )
    };
    let uses = || orders.indexes().iter().map(|index| index.uses).sum::<u64>();
    assert_eq!(rows(&orders, &pipeline(2067)), [r#"{"n":18}"#]);
    assert_eq!(uses(), 1);
    assert_eq!(rows(&orders, &pipeline(2064)), [r#"{"n":36}"#]);
    assert_eq!(uses(), 1, "it lacks one year");
    drop(db);
}

/// An error of a stage told what was wrong, and not in which of a million documents.
#[test]
fn errors_name_the_document() {
    check(&[
        (
            r#"[{"$match":{"n":{"$gte":5}}},{"$project":{"x":{"$add":["$who",1]}}}]"#,
            &["error 14 , in the document with _id 2"],
        ),
        (
            r#"[{"$sort":{"n":-1}},{"$match":{"$expr":{"$gt":[0,
                {"$divide":[1,{"$subtract":["$n",3]}]}]}}}]"#,
            &["error 2 , in the document with _id 1"],
        ),
        (r#"[{"$group":{"_id":{"$toInt":"$who"}}}]"#, &["error 241 , in the document with _id 1"]),
        (
            r#"[{"$group":{"_id":"$who","n":{"$sum":{"$size":"$tags"}}}}]"#,
            &["error 17124 , in the document with _id 3"],
        ),
        (
            r#"[{"$setWindowFields":{"sortBy":{"n":-1},
                "output":{"x":{"$sum":{"$size":"$tags"}}}}}]"#,
            &["error 17124 , in the document with _id 3"],
        ),
        // The window of another document is where it fails.
        (
            r#"[{"$match":{"n":{"$gte":3}}},{"$setWindowFields":{"sortBy":{"n":1},
                "output":{"x":{"$sum":{"$size":"$tags"}}}}}]"#,
            &["error 17124 , in the document with _id 3"],
        ),
        (
            r#"[{"$match":{"n":{"$gte":3}}},{"$setWindowFields":{"sortBy":{"n":1},"output":{
                "x":{"$sum":{"$size":"$tags"},"window":{"documents":[0,2]}}}}}]"#,
            &["error 17124 , in the document with _id 3"],
        ),
        (
            r#"[{"$documents":[{"_id":1,"n":1,"v":1},{"_id":2,"n":2,"v":"x"}]},
                {"$setWindowFields":{"sortBy":{"n":1},"output":{
                "x":{"$shift":{"output":{"$abs":"$v"},"by":1}}}}}]"#,
            &["error 28765 , in the document with _id 2"],
        ),
        (
            r#"[{"$documents":[{"_id":1,"n":1,"v":1},{"_id":2,"n":2,"v":"x"}]},
                {"$setWindowFields":{"sortBy":{"n":1},"output":{"x":{
                "$derivative":{"input":"$v"},"window":{"documents":[0,1]}}}}}]"#,
            &["error 14 , in the document with _id 2"],
        ),
        (
            r#"[{"$documents":[{"_id":1,"n":1,"v":1},{"_id":2,"n":2},{"_id":3,"n":3,"v":"x"}]},
                {"$setWindowFields":{"sortBy":{"n":1},"output":{"x":{"$linearFill":{
                "$abs":"$v"}}}}}]"#,
            &["error 28765 , in the document with _id 3"],
        ),
        (
            r#"[{"$limit":1},{"$lookup":{"from":"customers","as":"x","pipeline":[
                {"$addFields":{"x":{"$size":"$age"}}}]}}]"#,
            &["error 17124 , in the document with _id \"ada\""],
        ),
        (
            r#"[{"$densify":{"field":"who","range":{"step":1,"bounds":"full"}}}]"#,
            &["error 5733201 , in the document with _id 1"],
        ),
        (r#"[{"$replaceRoot":{"newRoot":"$at"}}]"#, &["error 40228 , in the document with _id 2"]),
    ]);
}

/// MongoDB allows conditions 100 deep; 64 were.
#[test]
fn conditions_nest_100_deep() {
    let nested = |depth: usize, inner: &str| {
        (0..depth).fold(inner.to_owned(), |inner, at| {
            let name = ["$and", "$or"][at % 2];
            format!(r#"{{"{name}":[{inner}]}}"#)
        })
    };
    let found = |filter: &str| {
        let shop = shop();
        rows(&shop.orders, &format!(r#"[{{"$match":{filter}}},{{"$count":"n"}}]"#))
    };
    for inner in [r#"{"n":3}"#, r#"{"$expr":{"$eq":["$n",3]}}"#] {
        assert_eq!(found(&nested(99, inner)), [r#"{"n":1}"#]);
        assert_eq!(found(&nested(100, inner)), [r#"{"n":1}"#]);
        let deep = found(&nested(101, inner));
        assert!(is_expected(&deep, &["error 2 at most 100 deep"]), "{deep:?}");
    }
}

#[test]
fn malformed_pipelines_are_refused_before_anything_is_read() {
    check(&[
        ("{}", &["error 14"]),
        ("[1]", &["error 14 pipeline[0]"]),
        ("[{}]", &["error 40323"]),
        (r#"[{"$match":{},"$sort":{}}]"#, &["error 40323"]),
        (r#"[{"$nope":1}]"#, &["error 40324 $nope"]),
        (r#"[{"$limit":1},{"$documents":[]}]"#, &["error 40602"]),
        (r#"[{"$out":"x"}]"#, &["error 40601 $out"]),
        (r#"[{"$changeStream":{}}]"#, &["error 115 $changeStream"]),
        ("[", &["error 9 line 1"]),
    ]);
}

#[test]
fn all_collections_are_read_as_of_one_moment() {
    let Shop { db, orders, _dir } = shop();
    let pipeline = r#"[{"$match":{"_id":1}},{"$lookup":{"from":"customers","localField":"who",
        "foreignField":"_id","as":"c"}},{"$project":{"age":{"$first":"$c.age"}}}]"#;
    let aggregate = orders.aggregate(pipeline).unwrap();
    let customers = db.collection("customers").unwrap();
    customers.put("ada", Json(r#"{"age":1}"#)).unwrap();
    let row = aggregate.run().unwrap().next().unwrap().unwrap();
    assert_eq!(row.int("age"), Some(36));
    // A transaction sees its own writes.
    let mut tx = db.begin().unwrap();
    tx.put(&customers, "ada", Json(r#"{"age":2}"#)).unwrap();
    let aggregate = orders.aggregate(pipeline).unwrap().transaction(&tx);
    assert_eq!(aggregate.run().unwrap().next().unwrap().unwrap().int("age"), Some(2));
    let aggregate = orders.aggregate(pipeline).unwrap();
    assert_eq!(aggregate.run().unwrap().next().unwrap().unwrap().int("age"), Some(1));
    let renamed = orders.aggregate(pipeline).unwrap().collections(move |name| {
        assert_eq!(name, "customers");
        Ok(None)
    });
    assert_eq!(renamed.run().unwrap().next().unwrap().unwrap().int("age"), None);
}

#[test]
fn a_field_id_keeps_its_type_if_it_equals_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("data")).unwrap();
    let posts = db.collection("posts").unwrap();
    posts.put(1, Json(r#"{"a":1,"_id":1.0}"#)).unwrap();
    posts.put(2, Json(r#"{"_id":"other","a":2}"#)).unwrap();
    let found = rows(&posts, r#"[{"$sort":{"_id":1}}]"#);
    assert_eq!(found, [r#"{"_id":1.0,"a":1}"#, r#"{"_id":2,"a":2}"#]);
    let value = parse(r#"[{"$match":{"_id":{"$type":"nonsense"}}}]"#).unwrap();
    assert!(posts.aggregate(&value).is_err(), "there is no such type");
    posts.put(3, Json("[1]")).unwrap();
    assert!(rows(&posts, "[]").last().unwrap().contains("maps, found an array with the key 3"));
}

#[test]
fn accumulators_that_keep_some_values() {
    let shop = shop();
    for (accumulator, expected) in [
        (r#"{"$firstN":{"n":2,"input":"$n"}}"#, "[3,5]"),
        (r#"{"$lastN":{"n":2,"input":"$n"}}"#, "[7,2.5]"),
        (r#"{"$minN":{"n":2,"input":"$n"}}"#, "[2.5,3]"),
        (r#"{"$maxN":{"n":9,"input":"$n"}}"#, "[7,5,3,2.5]"),
        (r#"{"$top":{"sortBy":{"n":1},"output":"$who"}}"#, r#""eve""#),
        (r#"{"$topN":{"n":2,"sortBy":{"n":-1},"output":"$who"}}"#, r#"["ada","bob"]"#),
        (r#"{"$bottom":{"sortBy":{"n":1},"output":["$who","$n"]}}"#, r#"["ada",7]"#),
        (r#"{"$bottomN":{"n":3,"sortBy":{"n":1},"output":"$n"}}"#, "[3,5,7]"),
        (r#"{"$median":{"input":"$n","method":"approximate"}}"#, "3.0"),
        (r#"{"$percentile":{"input":"$n","p":[1],"method":"approximate"}}"#, "[7.0]"),
        (r#"{"$concatArrays":{"$cond":[{"$isArray":"$tags"},"$tags",[]]}}"#, r#"["a","b"]"#),
        (r#"{"$setUnion":["$who"]}"#, "error 40237"),
        (r#"{"$setUnion":"$who"}"#, "error 14"),
        (r#"{"$topN":{"n":2,"output":"$n"}}"#, "error 5788005"),
        (r#"{"$firstN":{"n":"x","input":"$n"}}"#, "error 7548606"),
        (r#"{"$firstN":{"n":2}}"#, "error 5787907"),
    ] {
        let pipeline =
            format!(r#"[{{"$sort":{{"_id":1}}}},{{"$group":{{"_id":1,"x":{accumulator}}}}}]"#);
        let found = rows(&shop.orders, &pipeline);
        let wanted = format!(r#"{{"_id":1,"x":{expected}}}"#);
        let is_it = if expected.starts_with("error") {
            found[0].starts_with(expected)
        } else {
            found == [wanted]
        };
        assert!(is_it, "{accumulator}: {found:?}, expected {expected}");
    }
}

/// The row itself is `$$ROOT`, also deep inside; fields are those of the map that is looked at.
#[test]
fn redact_looks_into_maps_and_arrays_of_maps() {
    const WHOLE: &str =
        r#"{"_id":1,"open":1,"a":{"open":0,"x":1},"b":[{"open":1,"y":2},{"open":0}],"c":5}"#;
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("data")).unwrap();
    let notes = db.collection("notes").unwrap();
    notes
        .put(1, Json(r#"{"open":1,"a":{"open":0,"x":1},"b":[{"open":1,"y":2},{"open":0}],"c":5}"#))
        .unwrap();
    notes.put(2, Json(r#"{"open":0}"#)).unwrap();
    for (expression, expected) in [
        (
            r#"{"$cond":["$open","$$DESCEND","$$PRUNE"]}"#,
            vec![r#"{"_id":1,"open":1,"b":[{"open":1,"y":2}],"c":5}"#],
        ),
        (r#"{"$cond":["$$ROOT.open","$$DESCEND","$$PRUNE"]}"#, vec![WHOLE]),
        (r#"{"$cond":["$c","$$KEEP","$$PRUNE"]}"#, vec![WHOLE]),
        (r#""$open""#, vec!["error 17053"]),
    ] {
        let found = rows(&notes, &format!(r#"[{{"$redact":{expression}}}]"#));
        let is_it = found.len() == expected.len()
            && found.iter().zip(&expected).all(|(found, expected)| found.starts_with(expected));
        assert!(is_it, "{expression}: {found:?}");
    }
}
