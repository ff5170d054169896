//! Windows of rows, values that are filled in, and gaps that are closed: a stage over a few rows,
//! and what it makes of them.

use crate::stages::{is_expected, shown};
use flagstone::Database;
use flagstone::doc::Map;
use flagstone::doc::json::parse;
use flagstone_pipeline::Aggregate;

/// Runs a stage over rows.
fn run(db: &Database, documents: &str, stages: &str) -> Vec<String> {
    let pipeline = format!(r#"[{{"$documents":{documents}}},{stages}]"#);
    shown(Aggregate::new(db, None, pipeline.as_str()))
}

#[track_caller]
fn check(cases: &[(&str, &str, &[&str])]) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("data")).unwrap();
    let mut wrong = Vec::new();
    for (documents, stages, expected) in cases {
        let found = run(&db, documents, stages);
        if !is_expected(&found, expected) {
            wrong.push(format!("{stages}\n    gave     {found:#?}\n    expected {expected:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Computes the field `x` of rows with `t` from 1 to 5 and `v` 4, 2, null, 8, 1, and returns it.
#[track_caller]
fn functions(cases: &[(&str, &str)]) {
    const ROWS: &str =
        r#"[{"t":3,"v":null},{"t":1,"v":4},{"t":2,"v":2},{"t":5,"v":1},{"t":4,"v":8}]"#;
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("data")).unwrap();
    let mut wrong = Vec::new();
    for (function, expected) in cases {
        let stages = format!(
            r#"{{"$setWindowFields":{{"sortBy":{{"t":1}},"output":{{"x":{function}}}}}}},
                {{"$group":{{"_id":null,"x":{{"$push":"$x"}}}}}},{{"$project":{{"_id":0}}}}"#
        );
        let found = run(&db, ROWS, &stages);
        let wanted = format!(r#"{{"x":{expected}}}"#);
        let wanted = if expected.starts_with("error") { expected } else { &*wanted };
        if !is_expected(&found, &[wanted]) {
            wrong.push(format!("{function}\n    gave     {found:?}\n    expected {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn windows_of_rows_and_of_values() {
    functions(&[
        (r#"{"$sum":"$v"}"#, "[15,15,15,15,15]"),
        (r#"{"$sum":"$v","window":{}}"#, "[15,15,15,15,15]"),
        (r#"{"$sum":"$v","window":{"documents":["unbounded","current"]}}"#, "[4,6,6,14,15]"),
        (r#"{"$sum":"$v","window":{"documents":["current","unbounded"]}}"#, "[15,11,9,9,1]"),
        (r#"{"$sum":"$v","window":{"documents":[-1,1]}}"#, "[6,6,10,9,9]"),
        (r#"{"$sum":"$v","window":{"documents":[-3,-2]}}"#, "[0,0,4,6,2]"),
        (r#"{"$sum":"$v","window":{"documents":[2,3]}}"#, "[8,9,1,0,0]"),
        (r#"{"$sum":"$v","window":{"documents":["unbounded",-1]}}"#, "[0,4,6,6,14]"),
        (r#"{"$push":"$v","window":{"documents":[-1,0]}}"#, "[[4],[4,2],[2,null],[null,8],[8,1]]"),
        (r#"{"$push":"$v","window":{"range":[0,1]}}"#, "[[4,2],[2,null],[null,8],[8,1],[1]]"),
        (r#"{"$push":"$t","window":{"range":[-1.5,"current"]}}"#, "[[1],[1,2],[2,3],[3,4],[4,5]]"),
        (r#"{"$push":"$t","window":{"range":["unbounded",-2]}}"#, "[[],[],[1],[1,2],[1,2,3]]"),
        (r#"{"$push":"$t","window":{"range":[2,"unbounded"]}}"#, "[[3,4,5],[4,5],[5],[],[]]"),
        (r#"{"$sum":"$v","window":{"documents":[1,-1]}}"#, "error 5339900"),
        (r#"{"$sum":"$v","window":{"range":[1,-1]}}"#, "error 5339900"),
        (r#"{"$sum":"$v","window":{"documents":[0.5,1]}}"#, "error 9"),
        (r#"{"$sum":"$v","window":{"documents":[0]}}"#, "error 9"),
        (r#"{"$sum":"$v","window":{"documents":["all",1]}}"#, "error 9"),
        (r#"{"$sum":"$v","window":{"documents":[0,1],"unit":"day"}}"#, "error 9"),
        (r#"{"$sum":"$v","window":{"documents":[0,1],"range":[0,1]}}"#, "error 9"),
        (r#"{"$sum":"$v","window":{"range":[0,1],"unit":"eon"}}"#, "error 9"),
        (r#"{"$sum":"$v","window":{"range":[0,1],"unit":"day"}}"#, "error 5429513"),
        (r#"{"$sum":"$v","other":1}"#, "error 9"),
        (r#"{"$nope":"$v"}"#, "error 9 $nope"),
        (r#"{"window":{}}"#, "error 9"),
    ]);
}

#[test]
fn functions_of_windows() {
    let sliding = |function: &str| format!(r#"{{{function},"window":{{"documents":[-1,1]}}}}"#);
    for (function, expected) in [
        (r#""$avg":"$v""#, "[3.0,3.0,5.0,4.5,4.5]"),
        (r#""$min":"$v""#, "[2,2,2,1,1]"),
        (r#""$max":"$v""#, "[4,4,8,8,8]"),
        (r#""$count":{}"#, "[2,3,3,3,2]"),
        (r#""$first":"$v""#, "[4,4,2,null,8]"),
        (r#""$last":"$v""#, "[2,null,8,1,1]"),
        (r#""$addToSet":{"$lt":["$t",3]}"#, "[[true],[true,false],[true,false],[false],[false]]"),
        (r#""$firstN":{"n":1,"input":"$v"}"#, "[[4],[4],[2],[null],[8]]"),
        (r#""$maxN":{"n":2,"input":"$v"}"#, "[[4,2],[4,2],[8,2],[8,1],[8,1]]"),
        (r#""$top":{"sortBy":{"t":-1},"output":"$t"}"#, "[2,3,4,5,5]"),
        (r#""$stdDevPop":"$v""#, "[1.0,1.0,3.0,3.5,3.5]"),
        (
            r#""$covariancePop":["$t","$t"]"#,
            "[0.25,0.6666666666666666,0.6666666666666666,\
            0.6666666666666666,0.25]",
        ),
        (r#""$covarianceSamp":["$t",{"$multiply":["$t",-2]}]"#, "[-1.0,-2.0,-2.0,-2.0,-1.0]"),
        (r#""$integral":{"input":"$t"}"#, "[1.5,4.0,6.0,8.0,4.5]"),
        (r#""$derivative":{"input":{"$multiply":["$t",3]}}"#, "[3.0,3.0,3.0,3.0,3.0]"),
        (r#""$minMaxScaler":{"input":"$t","max":10}"#, "[0.0,5.0,5.0,5.0,10.0]"),
    ] {
        functions(&[(&sliding(function), expected)]);
    }
    functions(&[
        (r#"{"$documentNumber":{}}"#, "[1,2,3,4,5]"),
        (r#"{"$rank":{}}"#, "[1,2,3,4,5]"),
        (r#"{"$rank":{},"window":{}}"#, "error 5371601"),
        (r#"{"$rank":1}"#, "error 5371603"),
        (r#"{"$shift":{"output":"$v","by":-1}}"#, "[null,4,2,null,8]"),
        (r#"{"$shift":{"output":"$v","by":2,"default":{"$add":[3,4]}}}"#, "[null,8,1,7,7]"),
        (r#"{"$shift":{"output":"$v"}}"#, "error 9"),
        (r#"{"$locf":"$v"}"#, "[4,2,2,8,1]"),
        (r#"{"$linearFill":"$v"}"#, "[4,2,5.0,8,1]"),
        (r#"{"$expMovingAvg":{"input":"$v","N":3}}"#, "[4.0,3.0,3.0,5.5,3.25]"),
        (r#"{"$expMovingAvg":{"input":"$v","alpha":0.5}}"#, "[4.0,3.0,3.0,5.5,3.25]"),
        (r#"{"$expMovingAvg":{"input":"$v","alpha":1}}"#, "error 9"),
        (r#"{"$derivative":{"input":"$v"}}"#, "error 9"),
        (r#"{"$integral":{"input":"$v"}}"#, "error 5423900"),
        (r#"{"$integral":{"input":"$t","unit":"day"}}"#, "error 5423901"),
        (r#"{"$integral":{"input":"$t","unit":"month"}}"#, "error 5490704"),
    ]);
}

#[test]
fn partitions_are_apart_and_rows_that_windows_read_stay_as_they_were() {
    const ROWS: &str = r#"[{"p":"b","n":1},{"n":2},{"p":"a","n":3},{"p":null,"n":4},{"p":"b","n":5},
        {"p":"b","n":5}]"#;
    check(&[
        (
            ROWS,
            r#"{"$setWindowFields":{"partitionBy":"$p","sortBy":{"n":1},"output":{
                "n":{"$sum":"$n","window":{"documents":[-1,0]}},"at.r":{"$rank":{}},
                "at.d":{"$denseRank":{}}}}}"#,
            &[
                r#"{"n":2,"at":{"r":1,"d":1}}"#,
                r#"{"p":null,"n":6,"at":{"r":2,"d":2}}"#,
                r#"{"p":"a","n":3,"at":{"r":1,"d":1}}"#,
                r#"{"p":"b","n":1,"at":{"r":1,"d":1}}"#,
                r#"{"p":"b","n":6,"at":{"r":2,"d":2}}"#,
                r#"{"p":"b","n":10,"at":{"r":2,"d":2}}"#,
            ],
        ),
        ("[]", r#"{"$setWindowFields":{"output":{"x":{"$sum":1}}}}"#, &[]),
        (r#"[{"a":1}]"#, r#"{"$setWindowFields":{"output":{}}}"#, &[r#"{"a":1}"#]),
        (r#"[{"a":1}]"#, r#"{"$setWindowFields":{}}"#, &["error 40414"]),
        (r#"[{"a":1}]"#, r#"{"$setWindowFields":{"output":{},"x":1}}"#, &["error 40415"]),
        (r#"[{"a":1}]"#, r#"{"$setWindowFields":{"output":1}}"#, &["error 14"]),
        (r#"[{"a":1}]"#, r#"{"$setWindowFields":{"output":{},"sortBy":1}}"#, &["error 14"]),
        (
            r#"[{"a":[1]}]"#,
            r#"{"$setWindowFields":{"partitionBy":"$a","output":{}}}"#,
            &["error 14 arrays"],
        ),
        (
            r#"[{"a":1}]"#,
            r#"{"$setWindowFields":{"output":{"x":{"$sum":1,"window":{"documents":[0,0]}}}}}"#,
            &["error 5339901"],
        ),
        (
            r#"[{"a":1}]"#,
            r#"{"$setWindowFields":{"sortBy":{"a":-1},"output":{"x":{"$sum":1,
                "window":{"range":[0,0]}}}}}"#,
            &["error 8947401"],
        ),
        (
            r#"[{"a":1}]"#,
            r#"{"$setWindowFields":{"output":{"x":{"$sum":1,"window":{"range":[0,0]}}}}}"#,
            &["error 5339902"],
        ),
        (
            r#"[{"a":null}]"#,
            r#"{"$setWindowFields":{"sortBy":{"a":1},"output":{"x":{"$sum":1,
                "window":{"range":[0,0]}}}}}"#,
            &["error 5429414"],
        ),
    ]);
}

#[test]
fn windows_of_time() {
    const ROWS: &str = r#"[{"t":{"$date":"2024-01-31T00:00:00Z"},"v":1},
        {"t":{"$date":"2024-02-29T00:00:00Z"},"v":2},
        {"t":{"$date":"2024-03-01T00:00:00Z"},"v":4}]"#;
    let stage = |function: &str| {
        format!(
            r#"{{"$setWindowFields":{{"sortBy":{{"t":1}},"output":{{"x":{function}}}}}}},
                {{"$group":{{"_id":null,"x":{{"$push":"$x"}}}}}},{{"$project":{{"_id":0}}}}"#
        )
    };
    for (function, expected) in [
        (r#"{"$sum":"$v","window":{"range":[-1,0],"unit":"month"}}"#, r#"{"x":[1,3,6]}"#),
        (r#"{"$sum":"$v","window":{"range":[0,1],"unit":"month"}}"#, r#"{"x":[3,6,4]}"#),
        (r#"{"$sum":"$v","window":{"range":[-24,0],"unit":"hour"}}"#, r#"{"x":[1,2,6]}"#),
        (r#"{"$sum":"$v","window":{"range":[-1,0]}}"#, "error 5429413"),
        (
            r#"{"$derivative":{"input":"$v","unit":"hour"},"window":{"documents":[-1,0]}}"#,
            r#"{"x":[null,0.0014367816091954023,0.08333333333333333]}"#,
        ),
        (r#"{"$derivative":{"input":"$v"},"window":{"documents":[-1,0]}}"#, "error 5624901"),
        (
            r#"{"$integral":{"input":"$v","unit":"day"},"window":{"documents":["unbounded",0]}}"#,
            r#"{"x":[0.0,43.5,46.5]}"#,
        ),
        (r#"{"$linearFill":{"$cond":[{"$eq":["$v",2]},null,"$v"]}}"#, r#"{"x":[1,3.9,4]}"#),
    ] {
        check(&[(ROWS, &stage(function), &[expected])]);
    }
}

#[test]
fn null_is_filled() {
    const ROWS: &str = r#"[{"p":1,"t":1,"a":1},{"p":2,"t":1},{"p":1,"t":2,"a":null},
        {"p":1,"t":3,"a":4},{"p":2,"t":2,"a":7},{"p":2,"t":3}]"#;
    check(&[
        (
            ROWS,
            r#"{"$fill":{"partitionByFields":["p"],"sortBy":{"t":1},"output":{
                "a":{"method":"linear"}}}},{"$project":{"a":1}}"#,
            &[
                r#"{"a":1}"#,
                r#"{"a":2.5}"#,
                r#"{"a":4}"#,
                r#"{"a":null}"#,
                r#"{"a":7}"#,
                r#"{"a":null}"#,
            ],
        ),
        (
            ROWS,
            r#"{"$fill":{"partitionBy":"$p","sortBy":{"t":1},"output":{"a":{"method":"locf"},
                "b":{"value":{"$add":["$t",1]}}}}},{"$project":{"a":1,"b":1}}"#,
            &[
                r#"{"a":1,"b":2}"#,
                r#"{"a":1,"b":3}"#,
                r#"{"a":4,"b":4}"#,
                r#"{"a":null,"b":2}"#,
                r#"{"a":7,"b":3}"#,
                r#"{"a":7,"b":4}"#,
            ],
        ),
        (
            r#"[{"a":null},{"a":1}]"#,
            r#"{"$fill":{"output":{"a":{"value":0}}}}"#,
            &[r#"{"a":0}"#, r#"{"a":1}"#],
        ),
        ("[]", r#"{"$fill":1}"#, &["error 9"]),
        ("[]", r#"{"$fill":{}}"#, &["error 40414"]),
        ("[]", r#"{"$fill":{"output":{}}}"#, &["error 6050203"]),
        ("[]", r#"{"$fill":{"output":{"a":1}}}"#, &["error 6050200"]),
        ("[]", r#"{"$fill":{"output":{"a":{"method":"locf","value":1}}}}"#, &["error 6050201"]),
        ("[]", r#"{"$fill":{"output":{"a":{"method":"best"}}}}"#, &["error 6050202"]),
        ("[]", r#"{"$fill":{"output":{"a":{"method":"linear"}}}}"#, &["error 605001"]),
        (
            "[]",
            r#"{"$fill":{"partitionBy":"$a","partitionByFields":["a"],
                "output":{"a":{"value":1}}}}"#,
            &["error 6050204"],
        ),
        (
            r#"[{"t":1,"a":1},{"t":1}]"#,
            r#"{"$fill":{"sortBy":{"t":1},"output":{"a":{"method":"linear"}}}}"#,
            &["error 6050106"],
        ),
    ]);
}

/// Bounds were read as texts also from drivers, whose maps stand for themselves.
#[test]
fn bounds_of_drivers_are_no_texts() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path().join("data")).unwrap();
    let pipeline = parse(
        r#"[{"$documents":[{"t":1}]},{"$setWindowFields":{"sortBy":{"t":1},"output":{"x":{
            "$sum":"$t","window":{"documents":[{"$numberInt":"-1"},0]}}}}}]"#,
    );
    let pipeline = pipeline.unwrap();
    let of_text = shown(Aggregate::new(&db, None, &pipeline));
    assert_eq!(of_text, [r#"{"t":1,"x":1}"#]);
    let of_driver = shown(Aggregate::with_variables(&db, None, &pipeline, &Map::new()));
    assert!(is_expected(&of_driver, &["error 168 $numberInt"]), "{of_driver:?}");
}

#[test]
fn gaps_are_closed() {
    const ROWS: &str =
        r#"[{"p":"a","t":5},{"p":"b","t":2},{"p":"a","t":1},{"p":"b","t":4.5},{"t":null}]"#;
    let stage = |range: &str| format!(r#"{{"$densify":{{"field":"t","range":{range}}}}}"#);
    let split = |range: &str| {
        format!(r#"{{"$densify":{{"field":"t","partitionByFields":["p"],"range":{range}}}}}"#)
    };
    check(&[
        (
            ROWS,
            &stage(r#"{"step":2,"bounds":"full"}"#),
            &[
                r#"{"t":null}"#,
                r#"{"p":"a","t":1}"#,
                r#"{"p":"b","t":2}"#,
                r#"{"t":3}"#,
                r#"{"p":"b","t":4.5}"#,
                r#"{"p":"a","t":5}"#,
            ],
        ),
        (
            ROWS,
            &split(r#"{"step":2,"bounds":"full"}"#),
            &[
                r#"{"t":null}"#,
                r#"{"p":"a","t":1}"#,
                r#"{"p":"a","t":3}"#,
                r#"{"p":"a","t":5}"#,
                r#"{"p":"b","t":1}"#,
                r#"{"p":"b","t":2}"#,
                r#"{"p":"b","t":3}"#,
                r#"{"p":"b","t":4.5}"#,
                r#"{"p":"b","t":5}"#,
            ],
        ),
        (
            ROWS,
            &split(r#"{"step":2,"bounds":"partition"}"#),
            &[
                r#"{"t":null}"#,
                r#"{"p":"a","t":1}"#,
                r#"{"p":"a","t":3}"#,
                r#"{"p":"a","t":5}"#,
                r#"{"p":"b","t":2}"#,
                r#"{"p":"b","t":4}"#,
                r#"{"p":"b","t":4.5}"#,
            ],
        ),
        (
            r#"[{"t":2},{"t":9}]"#,
            &stage(r#"{"step":1,"bounds":[1,4]}"#),
            &[r#"{"t":1}"#, r#"{"t":2}"#, r#"{"t":3}"#, r#"{"t":9}"#],
        ),
        ("[]", &stage(r#"{"step":1,"bounds":[1,3]}"#), &[r#"{"t":1}"#, r#"{"t":2}"#]),
        ("[]", &stage(r#"{"step":1,"bounds":"full"}"#), &[]),
        (
            r#"[{"t":{"$date":"2024-01-31T00:00:00Z"}},{"t":{"$date":"2024-03-29T00:00:00Z"}}]"#,
            &stage(r#"{"step":1,"unit":"month","bounds":"full"}"#),
            &[
                r#"{"t":{"$date":"2024-01-31T00:00:00Z"}}"#,
                r#"{"t":{"$date":"2024-02-29T00:00:00Z"}}"#,
                r#"{"t":{"$date":"2024-03-29T00:00:00Z"}}"#,
            ],
        ),
        (
            r#"[{"t":{"$date":"2024-01-02T00:00:00Z"}}]"#,
            &stage(
                r#"{"step":1,"unit":"day","bounds":[{"$date":"2024-01-01T00:00:00Z"},
                    {"$date":"2024-01-03T00:00:00Z"}]}"#,
            ),
            &[
                r#"{"t":{"$date":"2024-01-01T00:00:00Z"}}"#,
                r#"{"t":{"$date":"2024-01-02T00:00:00Z"}}"#,
            ],
        ),
        (
            r#"[{"t":1e300},{"t":2e300}]"#,
            &stage(r#"{"step":1,"bounds":"full"}"#),
            &["error 5897900"],
        ),
        (r#"[{"t":"x"}]"#, &stage(r#"{"step":1,"bounds":"full"}"#), &["error 5733201"]),
        (r#"[{"t":1}]"#, &stage(r#"{"step":1,"unit":"day","bounds":"full"}"#), &["error 6053600"]),
        ("[]", &stage(r#"{"step":0,"bounds":"full"}"#), &["error 5733401"]),
        ("[]", &stage(r#"{"step":0.5,"unit":"day","bounds":"full"}"#), &["error 6586400"]),
        ("[]", &stage(r#"{"step":1,"bounds":[2,1]}"#), &["error 5733402"]),
        ("[]", &stage(r#"{"step":1,"bounds":[1]}"#), &["error 5733403"]),
        ("[]", &stage(r#"{"step":1,"bounds":1}"#), &["error 5733404"]),
        ("[]", &stage(r#"{"step":1,"bounds":[1,2],"unit":"day"}"#), &["error 5733409"]),
        ("[]", &stage(r#"{"step":1.5,"bounds":[1,2]}"#), &["error 5876900"]),
        ("[]", &stage(r#"{"step":1,"bounds":"partition"}"#), &["error 5733408"]),
        ("[]", &stage(r#"{"step":1,"bounds":"all"}"#), &["error 5946802"]),
        ("[]", r#"{"$densify":{"field":"t"}}"#, &["error 40414"]),
    ]);
}
