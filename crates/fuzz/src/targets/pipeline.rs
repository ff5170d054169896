//! Pipelines: the rows are documents, the same each time, and a match by the planner is one by the
//! stage.

use super::served::with_service;
use super::{bounded, note};
use flagstone::{Collection, Document, Value};
use flagstone_doc::json;
use flagstone_pipeline::{Aggregated, PipelineError};

/// The memory that a pipeline is given, and what it takes at most.
const GIVEN: usize = 4 << 20;
const MEMORY: usize = 64 << 20;

/// Names of what may give other rows the second time.
const CHANGING: [&str; 4] = ["$sample", "$rand", "NOW", "$currentDate"];

/// The most rows that are read.
const ROWS_MAX: usize = 20_000;

/// Reads the JSON of a pipeline.
pub(super) fn body(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(pipeline) = json::parse(text.as_bytes()) else { return note("no JSON") };
    with_service(|_, collection| {
        let rows = bounded(MEMORY, 1, "a pipeline", || rows(collection, &pipeline));
        match &rows {
            Ok(rows) => note(rows.len()),
            Err(error) => {
                assert!(error.code() != 0 && !error.to_string().is_empty(), "{error}");
                note(error.code());
                note(error.to_string().split('"').next().unwrap_or_default());
            }
        }
        if CHANGING.iter().any(|name| text.contains(name)) {
            return;
        }
        let again = self::rows(collection, &pipeline);
        match (&rows, &again) {
            (Ok(rows), Ok(again)) => assert_eq!(shown(rows), shown(again), "{text}"),
            (Err(error), Err(again)) => assert_eq!(error.to_string(), again.to_string()),
            (one, other) => panic!("{text}: {:?}, then {:?}", one.is_ok(), other.is_ok()),
        }
        let Some([only]) = pipeline.as_array() else { return };
        if let (Ok(rows), Some(_)) = (rows, only.get("$match")) {
            // After another stage the planner has no part in it.
            let stage = json::parse(r#"{"$unset":"no such field"}"#).expect("JSON");
            let behind = Value::Array(vec![stage, only.clone()]);
            let others = self::rows(collection, &behind).unwrap_or_else(|e| panic!("{text}: {e}"));
            let (mut one, mut other) = (shown(&rows), shown(&others));
            one.sort();
            other.sort();
            assert_eq!(one, other, "{text}");
        }
    });
}

fn rows(collection: &Collection, pipeline: &Value) -> Result<Vec<Document>, PipelineError> {
    collection.aggregate(pipeline)?.memory(GIVEN).run()?.take(ROWS_MAX).collect()
}

fn shown(rows: &[Document]) -> Vec<String> {
    rows.iter().map(|row| format!("{:?}", row.as_bytes())).collect()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let pipelines = [
        r#"[{"$match":{"a":{"$gte":1},"$or":[{"b":"text"},{"c.x":{"$in":[1,2]}}]}}]"#,
        r#"[{"$match":{"$expr":{"$gt":[{"$size":{"$ifNull":["$c",[]]}},1]}}}]"#,
        r#"[{"$unwind":{"path":"$c","includeArrayIndex":"i","preserveNullAndEmptyArrays":true}},
            {"$sort":{"i":-1,"_id":1}},{"$skip":1},{"$limit":3}]"#,
        r#"[{"$group":{"_id":{"$type":"$a"},"n":{"$sum":1},"all":{"$push":"$$ROOT"},
            "set":{"$addToSet":"$b"},"first":{"$first":"$a"},"avg":{"$avg":"$a"},
            "dev":{"$stdDevPop":"$a"}}}]"#,
        r#"[{"$project":{"x":{"$map":{"input":"$c","as":"e","in":{"$mergeObjects":[{"k":"$$e"},
            {"j":1}]}}},"y":{"$filter":{"input":"$c","cond":{"$ne":["$$this",2]}}},
            "z":{"$reduce":{"input":"$c","initialValue":"","in":{"$concat":["$$value","x"]}}}}}]"#,
        r#"[{"$addFields":{"d":{"$dateToString":{"date":"$t","format":"%Y-%m-%dT%H:%M:%S.%L"}},
            "e":{"$dateTrunc":{"date":"$t","unit":"month"}},"f":{"$dateAdd":{"startDate":"$t",
            "unit":"day","amount":3}}}}]"#,
        r#"[{"$lookup":{"from":"shop.c","localField":"a","foreignField":"c","as":"m"}},
            {"$facet":{"one":[{"$count":"n"}],"two":[{"$sortByCount":"$a"}]}}]"#,
        r#"[{"$lookup":{"from":"shop.c","let":{"v":"$a"},
            "pipeline":[{"$match":{"$expr":{"$eq":["$$v","$a"]}}}],"as":"m"}},{"$unset":["m.b",
            "c"]}]"#,
        r#"[{"$bucket":{"groupBy":"$a","boundaries":[0,2,5],"default":"other",
            "output":{"n":{"$sum":1}}}}]"#,
        r#"[{"$bucketAuto":{"groupBy":"$_id","buckets":2}}]"#,
        r#"[{"$replaceRoot":{"newRoot":{"$arrayToObject":{"$objectToArray":"$$ROOT"}}}},
            {"$unionWith":{"coll":"shop.c","pipeline":[{"$limit":1}]}}]"#,
        r#"[{"$set":{"n":{"$switch":{"branches":[{"case":{"$isNumber":"$a"},
            "then":{"$round":[{"$divide":["$a",3]},2]}}],"default":{"$toString":"$a"}}},
            "s":{"$substrCP":["$b",0,2]},"r":{"$regexFind":{"input":"text","regex":"t(.)x"}}}}]"#,
        r#"[{"$documents":[{"a":1},{"a":{"$add":[1,2]}}]},{"$sample":{"size":2}}]"#,
        r#"[{"$setWindowFields":{"partitionBy":{"$type":"$a"},"sortBy":{"_id":1},"output":{
            "s":{"$sum":"$a","window":{"documents":[-1,1]}},"r":{"$rank":{}},
            "c":{"$covariancePop":["$a","$_id"],"window":{"range":["unbounded",2]}},
            "d":{"$derivative":{"input":"$_id"},"window":{"documents":[-1,0]}},
            "x":{"$shift":{"output":"$b","by":-1}},"e":{"$expMovingAvg":{"input":"$a","N":2}}}}},
            {"$fill":{"sortBy":{"_id":1},"output":{"a":{"method":"locf"},"b":{"value":1}}}}]"#,
        r#"[{"$graphLookup":{"from":"shop.c","startWith":"$a","connectFromField":"c",
            "connectToField":"a","maxDepth":3,"depthField":"d","as":"g"}},
            {"$densify":{"field":"_id","range":{"step":2,"bounds":[0,9]}}}]"#,
        r#"[{"$set":{"c":{"$convert":{"input":"$a","to":"decimal","onError":null}},
            "z":{"$zip":{"inputs":["$c",[1,2]],"useLongestLength":true}},"g":{"$range":[0,10,
            3]},"u":{"$setUnion":["$c",[9]]}}}]"#,
    ];
    pipelines.iter().map(|pipeline| pipeline.as_bytes().to_vec()).collect()
}
