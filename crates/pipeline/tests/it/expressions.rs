//! Every operator by a table: a document, an expression, and what it gives.
//!
//! A result is Extended JSON, `missing`, or `error` with a code and a part of the text.

use flagstone::Value;
use flagstone::doc::json::{append_value_json_as, parse};
use flagstone::doc::{DateTime, JsonMode};
use flagstone::internal::document::{decimal, extended_scalar, long};
use flagstone_pipeline::Expression;

/// The document of the cases: what the operators read.
const DOCUMENT: &str = r#"{
    "i": 7, "n": -3, "z": 0, "f": 2.5, "t": "Hello", "u": "héllo", "e": "",
    "yes": true, "nil": null,
    "a": [3, 1, 2], "m": {"x": 1, "y": {"z": 2}}, "l": [{"b": 1}, {"b": [2, 3]}, {"c": 4}, 5,
    [{"b": 6}]],
    "w": ["a", "b", "a"], "$odd": 1
}"#;

fn value(text: &str) -> Value {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Reads the forms of Extended JSON, as a driver would before it sends an expression.
fn typed(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(typed).collect()),
        Value::Map(map) => {
            let text = |name: &str| map.get(name).and_then(Value::as_str);
            let number = text("$numberLong").and_then(|text| text.parse().ok()).map(long);
            let number = number.or_else(|| text("$numberDecimal").and_then(decimal));
            match number.or_else(|| extended_scalar(&map)?.ok()) {
                Some(value) => value,
                None => Value::Map(map.into_iter().map(|(key, it)| (key, typed(it))).collect()),
            }
        }
        other => other,
    }
}

/// Numbers as their digits: types have tests of their own.
fn untyped(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::number(number.as_str()).unwrap(),
        Value::Array(items) => Value::Array(items.into_iter().map(untyped).collect()),
        Value::Map(map) => {
            Value::Map(map.into_iter().map(|(name, value)| (name, untyped(value))).collect())
        }
        other => other,
    }
}

fn shown(value: Option<Value>) -> String {
    let Some(value) = value else { return "missing".to_owned() };
    let mut out = Vec::new();
    append_value_json_as(&untyped(value), JsonMode::Extended, &mut out);
    String::from_utf8(out).unwrap()
}

fn evaluated(expression: &str, document: &Value) -> String {
    let now = DateTime::parse_rfc3339("2024-05-06T07:08:09Z").unwrap();
    let found = Expression::parse(&typed(value(expression)));
    match found.and_then(|expression| expression.evaluate(document, now)) {
        Ok(found) => shown(found),
        Err(error) => format!("error {} {error}", error.code()),
    }
}

fn check(cases: &[(&str, &str)]) {
    let document = value(DOCUMENT);
    let mut wrong = Vec::new();
    for (expression, expected) in cases {
        let found = evaluated(expression, &document);
        let is_right = match expected.strip_prefix("error ") {
            Some(expected) => {
                let (code, part) = expected.split_once(' ').unwrap_or((expected, ""));
                found.starts_with(&format!("error {code} ")) && found.contains(part)
            }
            None => found == *expected,
        };
        if !is_right {
            wrong.push(format!("{expression}\n    gave     {found}\n    expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn paths_and_literals() {
    check(&[
        (r#""$i""#, "7"),
        (r#""$none""#, "missing"),
        (r#""$m.y.z""#, "2"),
        (r#""$m.x.z""#, "missing"),
        (r#""$l.b""#, "[1,[2,3]]"),
        (r#""$a.b""#, "[]"),
        (r#""$a.0""#, "[]"),
        (r#""$$ROOT.i""#, "7"),
        (r#""$$CURRENT.m.x""#, "1"),
        (r#""$$NOW""#, r#"{"$date":"2024-05-06T07:08:09Z"}"#),
        (r#""$$REMOVE""#, "missing"),
        (r#"{"a":"$i","b":"$none","c":{"d":1}}"#, r#"{"a":7,"c":{"d":1}}"#),
        (r#"["$i","$none",null]"#, "[7,null,null]"),
        (r#"{"$literal":{"$add":["$i",1]}}"#, r#"{"$add":["$i",1]}"#),
        (r#"{"$literal":"$i"}"#, r#""$i""#),
        (r#"{"$date":"2019-08-01T00:00:00Z"}"#, r#"{"$date":"2019-08-01T00:00:00Z"}"#),
        (r#""$""#, "error 16872"),
        (r#""$a.""#, "error 40353"),
        (r#""$a..b""#, "error 15998"),
        (r#""$a.$b""#, "error 16410"),
        (r#""$$unknown.x""#, "error 17276 $$unknown"),
        (r#"{"$nope":1}"#, "error 168 $nope"),
        (r#"{"$add":[1],"x":1}"#, "error 15983"),
        (r#"{"a.b":1}"#, "error 16412"),
        (r#"{"x":{"$eq":[1]}}"#, "error 16020 x.$eq"),
        (r#"{"$round":[1,2,3]}"#, "error 28667"),
    ]);
}

#[test]
fn comparisons_and_logic() {
    check(&[
        (r#"{"$eq":["$i",7]}"#, "true"),
        (r#"{"$eq":["$none",null]}"#, "false"),
        (r#"{"$eq":["$nil",null]}"#, "true"),
        (r#"{"$eq":[1,1.0]}"#, "true"),
        (r#"{"$ne":["$i","7"]}"#, "true"),
        (r#"{"$gt":["$t",100]}"#, "true"),
        (r#"{"$lt":["$none",null]}"#, "true"),
        (r#"{"$gte":["$i",7]}"#, "true"),
        (r#"{"$lte":["$a","$m"]}"#, "false"),
        (r#"{"$cmp":["$i",8]}"#, "-1"),
        (r#"{"$cmp":[2,1]}"#, "1"),
        (r#"{"$and":[]}"#, "true"),
        (r#"{"$or":[]}"#, "false"),
        (r#"{"$and":["$i","$t",true]}"#, "true"),
        (r#"{"$and":["$i","$z"]}"#, "false"),
        (r#"{"$or":["$z","$nil","$none","$e"]}"#, "true"),
        (r#"{"$or":["$z","$nil","$none",false]}"#, "false"),
        (r#"{"$and":[false,{"$divide":[1,0]}]}"#, "false"),
        (r#"{"$not":["$none"]}"#, "true"),
        (r#"{"$not":[[false]]}"#, "false"),
        (r#"{"$in":[2,"$a"]}"#, "true"),
        (r#"{"$in":["$none","$a"]}"#, "false"),
        (r#"{"$in":[2,"$i"]}"#, "error 40081 array"),
    ]);
}

#[test]
fn choices() {
    check(&[
        (r#"{"$cond":["$yes",1,2]}"#, "1"),
        (r#"{"$cond":{"if":"$none","then":1,"else":2}}"#, "2"),
        (r#"{"$cond":[true,"$none",2]}"#, "missing"),
        (r#"{"$cond":[true,1]}"#, "error 16020"),
        (r#"{"$cond":{"if":1,"then":2}}"#, "error 17082 else"),
        (r#"{"$cond":{"if":1,"then":2,"else":3,"more":4}}"#, "error 17083"),
        (r#"{"$cond":[true,1,{"$divide":[1,0]}]}"#, "1"),
        (r#"{"$ifNull":["$none","$nil",5]}"#, "5"),
        (r#"{"$ifNull":["$nil","$none"]}"#, "missing"),
        (r#"{"$ifNull":["$i",5]}"#, "7"),
        (r#"{"$ifNull":[1]}"#, "error 1257300"),
        (r#"{"$switch":{"branches":[{"case":"$z","then":1},{"case":"$i","then":2}]}}"#, "2"),
        (r#"{"$switch":{"branches":[{"case":"$z","then":1}],"default":3}}"#, "3"),
        (r#"{"$switch":{"branches":[{"case":"$z","then":1}]}}"#, "error 40069"),
        (r#"{"$switch":{"branches":[]}}"#, "error 40068"),
        (r#"{"$let":{"vars":{"x":2,"y":"$i"},"in":{"$multiply":["$$x","$$y"]}}}"#, "14"),
        (
            r#"{"$let":{"vars":{"x":1},"in":{"$let":{"vars":{"x":2,"y":"$$x"},"in":["$$x",
                "$$y"]}}}}"#,
            "[2,1]",
        ),
        (r#"{"$let":{"vars":{"X":1},"in":1}}"#, "error 9"),
        (r#"{"$let":{"vars":{"x":"$none"},"in":"$$x"}}"#, "missing"),
        (r#"{"$let":{"vars":{"x":1}}}"#, "error 16877"),
    ]);
}

#[test]
fn arithmetic() {
    check(&[
        (r#"{"$add":["$i",1]}"#, "8"),
        (r#"{"$add":[]}"#, "0"),
        (r#"{"$add":["$i","$none"]}"#, "null"),
        (r#"{"$add":["$i","$t"]}"#, "error 14 string"),
        (r#"{"$add":[2147483647,1]}"#, "2147483648"),
        (r#"{"$type":{"$add":[2147483647,1]}}"#, r#""long""#),
        (r#"{"$type":{"$add":[9223372036854775807,1]}}"#, r#""double""#),
        (r#"{"$add":[0.1,0.2]}"#, "0.3"),
        (r#"{"$type":{"$add":["$f",{"$numberDecimal":"1"}]}}"#, r#""decimal""#),
        (
            r#"{"$add":[{"$date":"2020-01-01T00:00:00Z"},1500]}"#,
            r#"{"$date":"2020-01-01T00:00:01.500Z"}"#,
        ),
        (
            r#"{"$add":[{"$date":"2020-01-01T00:00:00Z"},{"$date":"2020-01-01T00:00:00Z"}]}"#,
            "error 16612",
        ),
        (r#"{"$add":[{"$date":"2020-01-01T00:00:00Z"},1e300]}"#, "error 15"),
        (r#"{"$subtract":["$i",10]}"#, "-3"),
        (r#"{"$subtract":["$nil",10]}"#, "null"),
        (
            r#"{"$subtract":[{"$date":"2020-01-01T00:00:02Z"},{"$date":"2020-01-01T00:00:00Z"}]}"#,
            "2000",
        ),
        (r#"{"$subtract":[1,{"$date":"2020-01-01T00:00:00Z"}]}"#, "error 14 date"),
        (r#"{"$multiply":["$i","$f"]}"#, "17.5"),
        (r#"{"$multiply":["$i","x"]}"#, "error 14"),
        (r#"{"$divide":["$i",2]}"#, "3.5"),
        (r#"{"$divide":[4,2]}"#, "2.0"),
        (r#"{"$divide":[1,0]}"#, "error 2 zero"),
        (r#"{"$divide":[{"$numberDecimal":"1"},8]}"#, "0.125"),
        (r#"{"$mod":["$i",4]}"#, "3"),
        (r#"{"$mod":["$n",2]}"#, "-1"),
        (r#"{"$mod":[7.5,2]}"#, "1.5"),
        (r#"{"$mod":[1,0]}"#, "error 16610"),
        (r#"{"$abs":"$n"}"#, "3"),
        (r#"{"$abs":"$t"}"#, "error 28765"),
        (r#"{"$abs":-9223372036854775808}"#, "error 28680"),
        (r#"{"$ceil":2.1}"#, "3.0"),
        (r#"{"$ceil":"$i"}"#, "7"),
        (r#"{"$floor":-2.1}"#, "-3.0"),
        (r#"{"$round":[2.5]}"#, "2.0"),
        (r#"{"$round":[2.345,2]}"#, "2.35"),
        (r#"{"$trunc":[0.29,2]}"#, "0.28"),
        (r#"{"$round":[1250,-2]}"#, "1200"),
        (r#"{"$round":["$nil",2]}"#, "null"),
        (r#"{"$round":[1,101]}"#, "error 51083"),
        (r#"{"$round":[1,0.5]}"#, "error 51082"),
        (r#"{"$trunc":[7.89,1]}"#, "7.8"),
        (r#"{"$trunc":-7.89}"#, "-7.0"),
        (r#"{"$pow":[2,10]}"#, "1024"),
        (r#"{"$pow":[0,-1]}"#, "error 28764"),
        (r#"{"$pow":[2,-1]}"#, "0.5"),
        (r#"{"$sqrt":16}"#, "4.0"),
        (r#"{"$sqrt":-1}"#, "error 28714"),
        (r#"{"$exp":0}"#, "1.0"),
        (r#"{"$ln":1}"#, "0.0"),
        (r#"{"$ln":0}"#, "error 28766"),
        (r#"{"$log10":100}"#, "2.0"),
        (r#"{"$log":[8,2]}"#, "3.0"),
        (r#"{"$log":[8,1]}"#, "error 28759"),
        (r#"{"$sum":"$a"}"#, "6"),
        (r#"{"$sum":["$a",1,"x"]}"#, "1"),
        (r#"{"$avg":"$a"}"#, "2.0"),
        (r#"{"$avg":"$t"}"#, "null"),
        (r#"{"$min":["$i","$nil",3]}"#, "3"),
        (r#"{"$max":"$a"}"#, "3"),
        (r#"{"$max":"$none"}"#, "null"),
    ]);
}

#[test]
fn arrays() {
    check(&[
        (r#"{"$arrayElemAt":["$a",0]}"#, "3"),
        (r#"{"$arrayElemAt":["$a",-1]}"#, "2"),
        (r#"{"$arrayElemAt":["$a",9]}"#, "missing"),
        (r#"{"$arrayElemAt":["$nil",0]}"#, "null"),
        (r#"{"$arrayElemAt":["$i",0]}"#, "error 28689"),
        (r#"{"$arrayElemAt":["$a","x"]}"#, "error 28690"),
        (r#"{"$arrayElemAt":["$a",1.5]}"#, "error 28691"),
        (r#"{"$first":"$a"}"#, "3"),
        (r#"{"$last":"$a"}"#, "2"),
        (r#"{"$first":[[]]}"#, "missing"),
        (r#"{"$slice":["$a",2]}"#, "[3,1]"),
        (r#"{"$slice":["$a",-2]}"#, "[1,2]"),
        (r#"{"$slice":["$a",1,5]}"#, "[1,2]"),
        (r#"{"$slice":["$a",-9,2]}"#, "[3,1]"),
        (r#"{"$slice":["$a",9,2]}"#, "[]"),
        (r#"{"$slice":["$a",1,0]}"#, "error 28729"),
        (r#"{"$slice":["$nil",1]}"#, "null"),
        (r#"{"$size":"$a"}"#, "3"),
        (r#"{"$size":"$none"}"#, "error 17124 missing"),
        (r#"{"$concatArrays":["$a",[9]]}"#, "[3,1,2,9]"),
        (r#"{"$concatArrays":["$a","$none"]}"#, "null"),
        (r#"{"$concatArrays":["$a",1]}"#, "error 28664"),
        (r#"{"$reverseArray":"$a"}"#, "[2,1,3]"),
        (r#"{"$range":[0,5]}"#, "[0,1,2,3,4]"),
        (r#"{"$range":[5,0,-2]}"#, "[5,3,1]"),
        (r#"{"$range":[0,5,-1]}"#, "[]"),
        (r#"{"$range":[0,5,0]}"#, "error 34449"),
        (r#"{"$range":[0,2147483647]}"#, "error 146"),
        (r#"{"$range":[0,1000000000000]}"#, "error 34446"),
        (r#"{"$isArray":["$a"]}"#, "true"),
        (r#"{"$isArray":"$i"}"#, "false"),
        (r#"{"$indexOfArray":["$a",2]}"#, "2"),
        (r#"{"$indexOfArray":["$a",3,1]}"#, "-1"),
        (r#"{"$indexOfArray":["$nil",3]}"#, "null"),
        (r#"{"$zip":{"inputs":["$a","$w"]}}"#, r#"[[3,"a"],[1,"b"],[2,"a"]]"#),
        (
            r#"{"$zip":{"inputs":["$a",[9]],"useLongestLength":true,"defaults":[0,"-"]}}"#,
            r#"[[3,9],[1,"-"],[2,"-"]]"#,
        ),
        (r#"{"$zip":{"inputs":["$a","$nil"]}}"#, "null"),
        (r#"{"$zip":{"inputs":["$a",1]}}"#, "error 34468"),
        (r#"{"$zip":{"inputs":["$a"],"defaults":[1]}}"#, "error 34466"),
        (r#"{"$sortArray":{"input":"$a","sortBy":-1}}"#, "[3,2,1]"),
        (
            r#"{"$sortArray":{"input":[{"x":2},{"x":1},{}],"sortBy":{"x":1}}}"#,
            r#"[{},{"x":1},{"x":2}]"#,
        ),
        (r#"{"$sortArray":{"input":"$nil","sortBy":1}}"#, "null"),
        (r#"{"$sortArray":{"input":"$i","sortBy":1}}"#, "error 2942504"),
        (r#"{"$sortArray":{"input":"$a","sortBy":2}}"#, "error 2942506"),
        (r#"{"$setUnion":["$w",["c"]]}"#, r#"["a","b","c"]"#),
        (r#"{"$setIntersection":["$w",["a","x"]]}"#, r#"["a"]"#),
        (r#"{"$setDifference":["$w",["a"]]}"#, r#"["b"]"#),
        (r#"{"$setIsSubset":[["a"],"$w"]}"#, "true"),
        (r#"{"$setEquals":["$w",["b","a"]]}"#, "true"),
        (r#"{"$setUnion":["$w",1]}"#, "error 17043"),
        (r#"{"$anyElementTrue":[[0,false]]}"#, "false"),
        (r#"{"$allElementsTrue":[[1,"x"]]}"#, "true"),
        (r#"{"$map":{"input":"$a","in":{"$add":["$$this",1]}}}"#, "[4,2,3]"),
        (
            r#"{"$map":{"input":"$a","as":"x","in":{"$map":{"input":[10],"in":{"$add":["$$x",
                "$$this"]}}}}}"#,
            "[[13],[11],[12]]",
        ),
        (r#"{"$map":{"input":"$none","in":1}}"#, "null"),
        (r#"{"$map":{"input":"$i","in":1}}"#, "error 16883"),
        (r#"{"$map":{"input":"$a","in":"$none"}}"#, "[null,null,null]"),
        (r#"{"$filter":{"input":"$a","cond":{"$gt":["$$this",1]}}}"#, "[3,2]"),
        (r#"{"$filter":{"input":"$a","as":"x","cond":{"$gt":["$$x",0]},"limit":2}}"#, "[3,1]"),
        (r#"{"$filter":{"input":"$a","cond":true,"limit":0}}"#, "error 327392"),
        (r#"{"$filter":{"input":"$a"}}"#, "error 28650"),
        (r#"{"$reduce":{"input":"$a","initialValue":0,"in":{"$add":["$$value","$$this"]}}}"#, "6"),
        (
            r#"{"$reduce":{"input":"$w","initialValue":"","in":{"$concat":["$$value","$$this"]}}}"#,
            r#""aba""#,
        ),
        (r#"{"$reduce":{"input":"$nil","initialValue":0,"in":1}}"#, "null"),
        (r#"{"$reduce":{"input":"$i","initialValue":0,"in":1}}"#, "error 40080"),
    ]);
}

#[test]
fn text() {
    check(&[
        (r#"{"$concat":["$t","-","$u"]}"#, r#""Hello-héllo""#),
        (r#"{"$concat":["$t","$nil"]}"#, "null"),
        (r#"{"$concat":["$t",1]}"#, "error 16702 int"),
        (r#"{"$toUpper":"$t"}"#, r#""HELLO""#),
        (r#"{"$toLower":"$t"}"#, r#""hello""#),
        (r#"{"$toUpper":"$none"}"#, r#""""#),
        (r#"{"$toUpper":2.0}"#, r#""2""#),
        (r#"{"$toUpper":"$a"}"#, "error 16007"),
        (r#"{"$substrCP":["$u",1,2]}"#, r#""él""#),
        (r#"{"$substrCP":["$u",9,2]}"#, r#""""#),
        (r#"{"$substrBytes":["$u",0,1]}"#, r#""h""#),
        (r#"{"$substrBytes":["$u",2,1]}"#, "error 28656"),
        (r#"{"$substrBytes":["$u",0,2]}"#, "error 28657"),
        (r#"{"$substr":["$t",1,-1]}"#, r#""ello""#),
        (r#"{"$split":["a-b-","-"]}"#, r#"["a","b",""]"#),
        (r#"{"$split":["$t",""]}"#, "error 40087"),
        (r#"{"$split":["$nil","-"]}"#, "null"),
        (r#"{"$strLenCP":"$u"}"#, "5"),
        (r#"{"$strLenBytes":"$u"}"#, "6"),
        (r#"{"$strLenCP":"$nil"}"#, "error 34471"),
        (r#"{"$strcasecmp":["$t","hELLO"]}"#, "0"),
        (r#"{"$indexOfCP":["$u","l"]}"#, "2"),
        (r#"{"$indexOfBytes":["$u","l"]}"#, "3"),
        (r#"{"$indexOfCP":["$u","l",3]}"#, "3"),
        (r#"{"$indexOfCP":["$u","l",4]}"#, "-1"),
        (r#"{"$indexOfCP":["$u","l",-1]}"#, "error 40097"),
        (r#"{"$indexOfCP":["$nil","l"]}"#, "null"),
        (r#"{"$trim":{"input":"  x "}}"#, r#""x""#),
        (r#"{"$ltrim":{"input":"xxhix","chars":"x"}}"#, r#""hix""#),
        (r#"{"$rtrim":{"input":"xxhix","chars":"x"}}"#, r#""xxhi""#),
        (r#"{"$trim":{"input":"$t","chars":"$none"}}"#, "null"),
        (r#"{"$trim":{"input":1}}"#, "error 50699"),
        (r#"{"$trim":{}}"#, "error 50695"),
        (r#"{"$regexMatch":{"input":"$t","regex":"^h","options":"i"}}"#, "true"),
        (
            r#"{"$regexMatch":{"input":"$t","regex":{"$regularExpression":{"pattern":"^h",
                "options":""}}}}"#,
            "false",
        ),
        (r#"{"$regexMatch":{"input":"$none","regex":"x"}}"#, "false"),
        (r#"{"$regexMatch":{"input":"$t","regex":"("}}"#, "error 51111"),
        (r#"{"$regexMatch":{"input":1,"regex":"x"}}"#, "error 51104"),
        (
            r#"{"$regexFind":{"input":"$u","regex":"(l+)(x)?"}}"#,
            r#"{"match":"ll","idx":2,"captures":["ll",null]}"#,
        ),
        (r#"{"$size":{"$regexFindAll":{"input":"$t","regex":"l"}}}"#, "2"),
        (r#"{"$replaceOne":{"input":"$t","find":"l","replacement":"L"}}"#, r#""HeLlo""#),
        (r#"{"$replaceAll":{"input":"$t","find":"l","replacement":""}}"#, r#""Heo""#),
        (r#"{"$replaceOne":{"input":"$nil","find":"l","replacement":""}}"#, "null"),
        (r#"{"$replaceOne":{"input":1,"find":"l","replacement":""}}"#, "error 10503904"),
    ]);
}

#[test]
fn objects() {
    check(&[
        (r#"{"$mergeObjects":["$m",{"x":2,"k":3}]}"#, r#"{"x":2,"y":{"z":2},"k":3}"#),
        (r#"{"$mergeObjects":["$nil","$none"]}"#, "{}"),
        (r#"{"$mergeObjects":[1]}"#, "error 40400"),
        (r#"{"$mergeObjects":[[{"a":1},{"b":2}]]}"#, r#"{"a":1,"b":2}"#),
        (r#"{"$objectToArray":{"a":1}}"#, r#"[{"k":"a","v":1}]"#),
        (r#"{"$objectToArray":"$nil"}"#, "null"),
        (r#"{"$objectToArray":"$i"}"#, "error 40390"),
        (r#"{"$arrayToObject":{"$literal":[["a",1],["b",2],["a",3]]}}"#, r#"{"a":3,"b":2}"#),
        (r#"{"$arrayToObject":{"$literal":[{"k":"a","v":1}]}}"#, r#"{"a":1}"#),
        (r#"{"$arrayToObject":{"$literal":[{"k":1,"v":1}]}}"#, "error 40394"),
        (r#"{"$arrayToObject":{"$literal":[["a"]]}}"#, "error 40397"),
        (r#"{"$arrayToObject":{"$literal":[{"k":1}]}}"#, "error 40392"),
        (r#"{"$arrayToObject":"$i"}"#, "error 40386"),
        (r#"{"$getField":"i"}"#, "7"),
        (r#"{"$getField":{"$literal":"$odd"}}"#, "1"),
        (r#"{"$getField":{"field":"x","input":"$m"}}"#, "1"),
        (r#"{"$getField":{"field":"x","input":"$nil"}}"#, "null"),
        (r#"{"$getField":{"field":"x","input":"$i"}}"#, "missing"),
        (r#"{"$setField":{"field":"x","input":"$m","value":5}}"#, r#"{"x":5,"y":{"z":2}}"#),
        (r#"{"$setField":{"field":"x","input":"$m","value":"$$REMOVE"}}"#, r#"{"y":{"z":2}}"#),
        (r#"{"$unsetField":{"field":"y","input":"$m"}}"#, r#"{"x":1}"#),
        (r#"{"$setField":{"field":"$t","input":"$m","value":1}}"#, "error 4161108"),
        (r#"{"$setField":{"field":{"$concat":["$t"]},"input":1,"value":1}}"#, "error 4161106"),
        (r#"{"$setField":{"field":{},"input":"$m","value":1}}"#, "error 4161107"),
        (r#"{"$setField":{"field":"a\u0000","input":"$m","value":1}}"#, "error 9534700"),
        (r#"{"$setField":{"field":"a"}}"#, "error 4161103"),
    ]);
}

#[test]
fn types() {
    check(&[
        (r#"{"$type":"$none"}"#, r#""missing""#),
        (r#"{"$type":"$i"}"#, r#""int""#),
        (r#"{"$type":3000000000}"#, r#""long""#),
        (r#"{"$type":"$f"}"#, r#""double""#),
        (r#"{"$type":1.10}"#, r#""decimal""#),
        (r#"{"$type":{"$numberLong":"1"}}"#, r#""long""#),
        (r#"{"$type":{"$timestamp":{"t":1,"i":2}}}"#, r#""timestamp""#),
        (r#"{"$type":"$m"}"#, r#""object""#),
        (r#"{"$isNumber":"$f"}"#, "true"),
        (r#"{"$isNumber":"$t"}"#, "false"),
        (r#"{"$toString":2.5}"#, r#""2.5""#),
        (r#"{"$toString":true}"#, r#""true""#),
        (r#"{"$toString":{"$date":"2020-01-02T03:04:05.006Z"}}"#, r#""2020-01-02T03:04:05.006Z""#),
        (r#"{"$toString":{"$oid":"5d422b800123456789abcdef"}}"#, r#""5d422b800123456789abcdef""#),
        (r#"{"$toString":"$a"}"#, "error 241"),
        (r#"{"$toString":"$nil"}"#, "null"),
        (r#"{"$toInt":"12"}"#, "12"),
        (r#"{"$toInt":2.9}"#, "2"),
        (r#"{"$toInt":"2.5"}"#, "error 241"),
        (r#"{"$toInt":3000000000}"#, "error 241"),
        (r#"{"$type":{"$toLong":"12"}}"#, r#""long""#),
        (r#"{"$toLong":{"$date":"1970-01-01T00:00:01Z"}}"#, "1000"),
        (r#"{"$toDouble":"1.5e2"}"#, "150.0"),
        (r#"{"$toDouble":"x"}"#, "error 241"),
        (r#"{"$type":{"$toDecimal":"1.5"}}"#, r#""decimal""#),
        (r#"{"$toDecimal":"0.10"}"#, "0.10"),
        (r#"{"$toDecimal":"+007.50"}"#, "7.50"),
        (r#"{"$toDecimal":"-.5"}"#, "-0.5"),
        (r#"{"$toDecimal":"."}"#, "error 241"),
        (r#"{"$toBool":"false"}"#, "true"),
        (r#"{"$toBool":0}"#, "false"),
        (r#"{"$toDate":"2020-01-02"}"#, r#"{"$date":"2020-01-02T00:00:00Z"}"#),
        (r#"{"$toDate":{"$numberLong":"1000"}}"#, r#"{"$date":"1970-01-01T00:00:01Z"}"#),
        (r#"{"$toDate":1}"#, "error 241"),
        (r#"{"$toObjectId":"5d422b800123456789abcdef"}"#, r#"{"$oid":"5d422b800123456789abcdef"}"#),
        (r#"{"$toObjectId":"x"}"#, "error 241"),
        (r#"{"$convert":{"input":"x","to":"int","onError":-1}}"#, "-1"),
        (r#"{"$convert":{"input":"$none","to":"int","onNull":"none"}}"#, r#""none""#),
        (r#"{"$convert":{"input":"12","to":16}}"#, "12"),
        (r#"{"$convert":{"input":"12","to":"text"}}"#, "error 2"),
        (r#"{"$convert":{"input":"12"}}"#, "error 9"),
    ]);
}

#[test]
fn dates() {
    let at = |expression: &str| expression.replace('@', r#"{"$date":"2021-03-20T11:30:05.123Z"}"#);
    for (expression, expected) in [
        (r#"{"$year":@}"#, "2021"),
        (r#"{"$month":@}"#, "3"),
        (r#"{"$dayOfMonth":[@]}"#, "20"),
        (r#"{"$dayOfWeek":@}"#, "7"),
        (r#"{"$dayOfYear":@}"#, "79"),
        (r#"{"$hour":{"date":@,"timezone":"+02:00"}}"#, "13"),
        (r#"{"$hour":{"date":@,"timezone":"$none"}}"#, "null"),
        (r#"{"$minute":@}"#, "30"),
        (r#"{"$second":@}"#, "5"),
        (r#"{"$millisecond":@}"#, "123"),
        (r#"{"$week":@}"#, "11"),
        (r#"{"$isoWeek":@}"#, "11"),
        (r#"{"$isoDayOfWeek":@}"#, "6"),
        (r#"{"$year":"$none"}"#, "null"),
        (r#"{"$dateToString":{"date":@}}"#, r#""2021-03-20T11:30:05.123Z""#),
        (r#"{"$dateToString":{"date":@,"format":"%d/%m/%Y"}}"#, r#""20/03/2021""#),
        (r#"{"$dateToString":{"date":"$nil","onNull":"-"}}"#, r#""-""#),
        (
            r#"{"$dateFromString":{"dateString":"20/03/2021","format":"%d/%m/%Y"}}"#,
            r#"{"$date":"2021-03-20T00:00:00Z"}"#,
        ),
        (r#"{"$dateFromString":{"dateString":"x","onError":"bad"}}"#, r#""bad""#),
        (r#"{"$dateTrunc":{"date":@,"unit":"month"}}"#, r#"{"$date":"2021-03-01T00:00:00Z"}"#),
        (
            r#"{"$dateTrunc":{"date":@,"unit":"hour","binSize":2}}"#,
            r#"{"$date":"2021-03-20T10:00:00Z"}"#,
        ),
        (
            r#"{"$dateDiff":{"startDate":@,"endDate":{"$date":"2022-01-01T00:00:00Z"},
                "unit":"year"}}"#,
            "1",
        ),
        (
            r#"{"$dateAdd":{"startDate":@,"unit":"day","amount":1}}"#,
            r#"{"$date":"2021-03-21T11:30:05.123Z"}"#,
        ),
        (
            r#"{"$dateSubtract":{"startDate":@,"unit":"month","amount":1}}"#,
            r#"{"$date":"2021-02-20T11:30:05.123Z"}"#,
        ),
        (
            r#"{"$dateToParts":{"date":@,"iso8601":true}}"#,
            concat!(
                r#"{"isoWeekYear":2021,"isoWeek":11,"isoDayOfWeek":6,"hour":11,"minute":30,"#,
                r#""second":5,"millisecond":123}"#,
            ),
        ),
        (
            r#"{"$dateFromParts":{"year":2021,"month":14,"day":0,"hour":1}}"#,
            r#"{"$date":"2022-01-31T01:00:00Z"}"#,
        ),
        (r#"{"$dateFromParts":{"isoWeekYear":2020}}"#, r#"{"$date":"2019-12-30T00:00:00Z"}"#),
        (r#"{"$dateFromParts":{"year":"$nil"}}"#, "null"),
        (r#"{"$dateFromParts":{"year":0}}"#, "error 40523"),
        (r#"{"$dateFromParts":{"month":1}}"#, "error 40516"),
        (r#"{"$dateFromParts":{"year":1,"hour":9223372036854775807}}"#, "error 5976500"),
        (r#"{"$year":1}"#, "error 16006"),
        (r#"{"$hour":{"date":@,"timezone":"europe/berlin"}}"#, "error 40485 Europe/Berlin"),
        (r#"{"$dateTrunc":{"date":@,"unit":"eon"}}"#, "error 9 eon"),
        (
            r#"{"$dateAdd":{"startDate":@,"unit":"day","amount":9223372036854775807}}"#,
            "error 5976500",
        ),
        (r#"{"$dateToString":{"date":@,"format":"%q"}}"#, "error 18536"),
    ] {
        check(&[(&at(expression), expected)]);
    }
}

#[test]
fn hostile_expressions_are_refused() {
    let deep = |open: &str, close: &str, depth: usize| {
        (0..depth).fold(Value::from(1), |inner, _| {
            let inner = serde(&inner);
            value(&format!("{open}{inner}{close}"))
        })
    };
    fn serde(value: &Value) -> String {
        let mut out = Vec::new();
        flagstone::doc::json::append_value_json(value, &mut out);
        String::from_utf8(out).unwrap()
    }
    for (open, close) in [("[", "]"), (r#"{"$abs":"#, "}"), (r#"{"a":"#, "}")] {
        let refused = Expression::parse(&deep(open, close, 120)).err().unwrap();
        assert_eq!(refused.code(), 2, "{refused}");
        let kept = Expression::parse(&deep(open, close, 99)).unwrap();
        kept.evaluate(&Value::Null, DateTime::default()).unwrap();
    }
    // Nested in Rust, where no parser limits it.
    let nested = (0..10_000).fold(Value::from(1), |inner, _| Value::Array(vec![inner]));
    assert_eq!(Expression::parse(&nested).err().unwrap().code(), 15);
    let literal = Value::Map([("$literal", nested)].into_iter().collect());
    assert_eq!(Expression::parse(&literal).err().unwrap().code(), 15);
    let document = value(DOCUMENT);
    let doubling = r#"{"$reduce":{"input":{"$range":[0,60]},"initialValue":"x",
        "in":{"$concat":["$$value","$$value"]}}}"#;
    assert!(
        evaluated(doubling, &document).starts_with("error 16493 $reduce.in.$concat: expected text")
    );
    let growing =
        r#"{"$reduce":{"input":{"$range":[0,60]},"initialValue":[1],"in":["$$value","$$value"]}}"#;
    assert!(evaluated(growing, &document).starts_with("error 146 "));
    let nesting =
        r#"{"$reduce":{"input":{"$range":[0,100000]},"initialValue":1,"in":["$$value"]}}"#;
    assert!(evaluated(nesting, &document).starts_with("error 146 "));
    let wide = r#"{"$map":{"input":{"$range":[0,100000]},"in":{"$range":[0,100000]}}}"#;
    assert!(evaluated(wide, &document).starts_with("error 146 "));
    let replaced = r#"{"$reduce":{"input":{"$range":[0,60]},"initialValue":"aa",
        "in":{"$replaceAll":{"input":"$$value","find":"a","replacement":"aa"}}}}"#;
    assert!(evaluated(replaced, &document).starts_with("error 16493 "));
    let pattern = format!(r#"{{"$regexMatch":{{"input":"x","regex":"{}"}}}}"#, "(a{1000}){1000}");
    assert!(evaluated(&pattern, &document).starts_with("error 51111 "));
}

/// A day of a region may have 23 or 25 hours; hours are hours.
#[test]
fn regions_have_their_clocks() {
    check(&[
        (
            r#"{"$dateToString":{"date":{"$date":"2021-07-01T12:00:00Z"},"timezone":"Asia/Kolkata",
                "format":"%H:%M %z"}}"#,
            r#""17:30 +0530""#,
        ),
        (
            r#"{"$dateToString":{"date":{"$dateAdd":{"startDate":{"$date":"2021-03-13T12:00:00Z"},
                "unit":"day","amount":1,"timezone":"America/New_York"}},"format":"%d %H"}}"#,
            r#""14 11""#,
        ),
        (
            r#"{"$dateToString":{"date":{"$dateAdd":{"startDate":{"$date":"2021-03-13T12:00:00Z"},
                "unit":"hour","amount":24,"timezone":"America/New_York"}},"format":"%d %H"}}"#,
            r#""14 12""#,
        ),
        (
            r#"{"$dateDiff":{"startDate":{"$date":"2021-03-14T06:00:00Z"},"unit":"hour",
                "endDate":{"$date":"2021-03-14T08:00:00Z"},"timezone":"America/New_York"}}"#,
            "2",
        ),
        (
            r#"{"$dateToString":{"date":{"$dateTrunc":{"date":{"$date":"2021-11-07T06:30:00Z"},
                "unit":"day","timezone":"America/New_York"}},"format":"%d %H"}}"#,
            r#""07 04""#,
        ),
        (
            r#"{"$hour":{"$dateFromParts":{"year":2021,"month":7,"hour":12,
                "timezone":"Europe/London"}}}"#,
            "11",
        ),
    ]);
}

#[test]
fn functions_of_numbers_and_bits() {
    check(&[
        (r#"{"$cos":0}"#, "1.0"),
        (r#"{"$atan2":[0,1]}"#, "0.0"),
        (r#"{"$acos":2}"#, "error 50989"),
        (r#"{"$sin":"x"}"#, "error 28765"),
        (r#"{"$sin":"$nil"}"#, "null"),
        (r#"{"$sigmoid":0}"#, "0.5"),
        (r#"{"$bitAnd":[7,12]}"#, "4"),
        (r#"{"$bitOr":[1,"$none"]}"#, "null"),
        (r#"{"$bitXor":[7,2]}"#, "5"),
        (r#"{"$bitNot":0}"#, "-1"),
        (r#"{"$bitAnd":[1.5]}"#, "error 14"),
        (r#"{"$rand":1}"#, "error 10065"),
        (r#"{"$rand":{"a":1}}"#, "error 3040501"),
        (r#"{"$lt":[{"$rand":{}},1]}"#, "true"),
        (r#"{"$tsSecond":{"$timestamp":{"t":7,"i":3}}}"#, "7"),
        (r#"{"$tsIncrement":{"$timestamp":{"t":7,"i":3}}}"#, "3"),
        (r#"{"$tsSecond":1}"#, "error 5687301"),
        (r#"{"$lt":[{"$timestamp":{"t":7,"i":9}},{"$timestamp":{"t":8,"i":1}}]}"#, "true"),
        (r#"{"$firstN":{"n":2,"input":[3,1,2]}}"#, "[3,1]"),
        (r#"{"$lastN":{"n":2,"input":[3,1,2]}}"#, "[1,2]"),
        (r#"{"$minN":{"n":2,"input":[3,null,1,2]}}"#, "[1,2]"),
        (r#"{"$maxN":{"n":2,"input":[3,1,2]}}"#, "[3,2]"),
        (r#"{"$maxN":{"n":0,"input":[3,1,2]}}"#, "error 5787908"),
        (r#"{"$median":{"input":[3,1,2,"x"],"method":"approximate"}}"#, "2.0"),
        (
            r#"{"$percentile":{"input":[10,20,30,40],"p":[0,0.5,1],"method":"approximate"}}"#,
            "[10.0,20.0,40.0]",
        ),
        (r#"{"$median":{"input":[1],"method":"exact"}}"#, "error 2"),
        (r#"{"$stdDevPop":[[1,3]]}"#, "1.0"),
        (r#"{"$stdDevSamp":[1]}"#, "null"),
    ]);
}

/// Binary data converts by its bytes; what is stored as a map of one name is no map of arguments.
#[test]
fn binary_data_converts() {
    check(&[
        (
            r#"{"$convert":{"input":"aGk=","to":"binData","format":"base64"}}"#,
            r#"{"$binary":{"base64":"aGk=","subType":"00"}}"#,
        ),
        (r#"{"$convert":{"input":"aGk=","to":"binData"}}"#, "error 4341115"),
        (r#"{"$convert":{"input":1,"to":"regex"}}"#, "error 241 regex"),
        (r#"{"$convert":{"input":1,"to":"nothing"}}"#, "error 2"),
        (r#"{"$convert":{"input":"x","to":"binData","format":"zip"}}"#, "error 4341125"),
        (
            r#"{"$convert":{"input":{"$convert":{"input":258,"to":"binData","byteOrder":"big"}},
                "to":"int","byteOrder":"big"}}"#,
            "258",
        ),
        (
            r#"{"$convert":{"input":{"$convert":{"input":"0aff","to":"binData","format":"hex"}},
                "to":"string","format":"hex"}}"#,
            r#""0AFF""#,
        ),
        (r#"{"$trim":{"$code":"x","$scope":{}}}"#, "error 50696"),
        (r#"{"$let":{"vars":{"$minKey":1},"in":1}}"#, "error 10065"),
    ]);
}

/// Before, expressions had the order of documents, where a bool is less than a number, and maps are
/// equal in any order of their fields.
#[test]
fn values_stand_in_the_order_of_bson() {
    check(&[
        (r#"{"$gt":[true,5]}"#, "true"),
        (r#"{"$gt":[[],{}]}"#, "true"),
        (r#"{"$lt":[{"$minKey":1},null]}"#, "true"),
        (r#"{"$cmp":[{"$maxKey":1},{"$regularExpression":{"pattern":"a","options":""}}]}"#, "1"),
        (r#"{"$eq":[{"a":1,"b":2},{"b":2,"a":1}]}"#, "false"),
        (r#"{"$in":[{"a":1,"b":2},[{"b":2,"a":1}]]}"#, "false"),
        (r#"{"$max":[[1,true,"x",{"$literal":{"a":1}}]]}"#, "true"),
        (r#"{"$min":[[true,"x",{"$minKey":1}]]}"#, r#"{"$minKey":1}"#),
        (r#"{"$maxN":{"n":2,"input":[1,true,"x"]}}"#, r#"[true,"x"]"#),
        (
            r#"{"$sortArray":{"input":[true,[1],{"a":1},"x",2],"sortBy":1}}"#,
            r#"[2,"x",{"a":1},[1],true]"#,
        ),
        (
            r#"{"$sortArray":{"input":[{"v":[3,1]},{"v":[2]},{"v":null},{}],"sortBy":{"v":1}}}"#,
            r#"[{"v":null},{},{"v":[2]},{"v":[3,1]}]"#,
        ),
        (r#"{"$sortArray":{"input":[],"sortBy":{}}}"#, "error 2942505"),
        (r#"{"$setUnion":[[1.0,1],[{"$numberLong":"1"}]]}"#, "[1.0]"),
        (r#"{"$setUnion":[[{"a":1,"b":2}],[{"b":2,"a":1}]]}"#, r#"[{"a":1,"b":2},{"b":2,"a":1}]"#),
        (r#"{"$setUnion":["$i",null]}"#, "error 17043"),
        (r#"{"$setEquals":["$i",[1]]}"#, "error 17044"),
        (r#"{"$setEquals":[1,[1]]}"#, "error 5887502"),
        (r#"{"$setEquals":[[1],{"a":1}]}"#, "error 5887502"),
    ]);
}

#[test]
fn decimals_have_34_digits_and_doubles_beside_them_15() {
    let decimal = |text: &str| format!(r#"{{"$numberDecimal":"{text}"}}"#);
    for (expression, expected) in [
        (r#"{"$add":[2.5,@1.5@]}"#, "4.00000000000000"),
        (r#"{"$multiply":[@2@,1.5]}"#, "3.00000000000000"),
        (r#"{"$multiply":[@-0@,3]}"#, "-0"),
        (r#"{"$divide":[10.0,@2@]}"#, "5.0000000000000"),
        (r#"{"$sqrt":@2@}"#, "1.414213562373095048801688724209698"),
        (r#"{"$exp":@1@}"#, "2.718281828459045235360287471352662"),
        (r#"{"$ln":@10@}"#, "2.302585092994045684017991454684364"),
        (r#"{"$log10":@0.001@}"#, "-3"),
        (r#"{"$log":[@64@,2]}"#, "5.999999999999999999999999999999999"),
        (r#"{"$pow":[2,@3@]}"#, "8.000000000000000000000000000000000"),
        (r#"{"$sigmoid":@-1@}"#, "0.2689414213699951207488407581781638"),
        (r#"{"$sum":[@9E+6144@,@-9E+6144@,@1@]}"#, "1"),
        (r#"{"$avg":[@1E-6143@,@1E-6143@]}"#, "1E-6143"),
        (r#"{"$round":[@1E-6143@,0]}"#, "0"),
        (r#"{"$toDecimal":1.1}"#, "1.10000000000000"),
        (
            r#"{"$toDecimal":"12345678901234567890123456789012345"}"#,
            "1.234567890123456789012345678901234E+34",
        ),
    ] {
        let parts: Vec<&str> = expression.split('@').collect();
        let whole: String = parts
            .iter()
            .enumerate()
            .map(|(at, part)| if at % 2 == 1 { decimal(part) } else { (*part).to_owned() })
            .collect();
        let text = format!(r#"{{"$toString":{whole}}}"#);
        check(&[(&text, &format!("{expected:?}"))]);
    }
    check(&[
        (r#"{"$sum":[0.1,0.2,0.3]}"#, "0.6"),
        (r#"{"$sigmoid":[1]}"#, "error 14"),
        (r#"{"$toDecimal":"1E+6145"}"#, "error 241"),
        (r#"{"$toDecimal":"1E-6177"}"#, "error 241"),
        (r#"{"$pow":[0,{"$numberLong":"9223372036854775807"}]}"#, "0"),
        (
            r#"{"$add":[{"$date":"2020-01-01T00:00:00Z"},2.5]}"#,
            r#"{"$date":"2020-01-01T00:00:00.003Z"}"#,
        ),
    ]);
}

#[test]
fn text_is_made_of_more_than_text() {
    check(&[
        (r#"{"$toUpper":1000000.0}"#, r#""1E+06""#),
        (r#"{"$toLower":{"$code":"F()"}}"#, r#""f()""#),
        (r#"{"$toLower":{"$timestamp":{"t":1721500800,"i":7}}}"#, r#""jul 20 18:40:00:7""#),
        (r#"{"$toUpper":{"$timestamp":{"t":1,"i":1}}}"#, r#""JAN  1 00:00:01:1""#),
        (r#"{"$strcasecmp":[{"$numberDouble":"Infinity"},"INF"]}"#, "0"),
        (r#"{"$substrBytes":["hello",{"$numberDecimal":"1.5"},2]}"#, r#""ll""#),
        (r#"{"$substrBytes":["hello",0,1e20]}"#, "error 31109"),
        (r#"{"$substrBytes":["hello",{"$numberDecimal":"1E+30"},1]}"#, "error 50752"),
        (r#"{"$substrCP":["hello",-1,-2]}"#, "error 34454"),
        (r#"{"$substrCP":["hello",-1,2]}"#, "error 34455"),
        (r#"{"$substrCP":["hello",{"$numberLong":"3000000000"},2]}"#, "error 34451"),
        (r#"{"$indexOfCP":["hello","",5]}"#, "-1"),
        (r#"{"$indexOfCP":["hello","llo",0,4]}"#, "2"),
        (r#"{"$indexOfBytes":["hello","l",{"$numberLong":"3000000000"}]}"#, "error 40096"),
        (r#"{"$replaceAll":{"input":"ab","find":"","replacement":"-"}}"#, r#""-a-b-""#),
        (r#"{"$trim":{"input":1,"chars":null}}"#, "error 50699"),
        (r#"{"$regexMatch":{"input":1,"regex":"a","options":"q"}}"#, "error 51108"),
        (r#"{"$regexMatch":{"input":null,"regex":"("}}"#, "error 51111"),
        (r#"{"$regexMatch":{"input":null,"regex":"a\u0000"}}"#, "error 51109"),
        (
            r#"{"$regexMatch":{"input":"a","options":"",
                "regex":{"$regularExpression":{"pattern":"a","options":"i"}}}}"#,
            "error 51107",
        ),
        (
            r#"{"$map":{"input":{"$regexFindAll":{"input":"héa","regex":"a*"}},
                "in":"$$this.idx"}}"#,
            "[0,1,2]",
        ),
    ]);
    let long = Expression::parse(&Value::from("a".repeat(16 << 20)));
    assert_eq!(long.err().unwrap().code(), 16493);
}

#[test]
fn conversions_are_as_strict_as_those_of_drivers() {
    check(&[
        (r#"{"$toDouble":"0x1.8p1"}"#, "3.0"),
        (r#"{"$toDouble":"1e309"}"#, "error 241"),
        (r#"{"$toDouble":"-inf"}"#, r#"{"$numberDouble":"-Infinity"}"#),
        (r#"{"$convert":{"input":1,"to":99}}"#, "error 9"),
        (r#"{"$convert":{"input":1,"to":0}}"#, "error 241"),
        (r#"{"$convert":{"input":1,"to":{"type":null}}}"#, "error 9"),
        (r#"{"$convert":{"input":1,"to":{"type":"string","more":1}}}"#, r#""1""#),
        (r#"{"$convert":{"input":1,"to":null,"format":5}}"#, "null"),
        (r#"{"$convert":{"input":"x","to":"binData","format":"auto"}}"#, "error 241"),
        (
            r#"{"$convert":{"input":{"$date":{"$numberLong":"253402300800000"}},"to":"string"}}"#,
            "error 18537",
        ),
        // Only a failure of the conversion itself counts for onError.
        (r#"{"$convert":{"input":{"$toInt":"x"},"to":"int","onError":1}}"#, "error 241"),
        (r#"{"$convert":{"input":"x","to":"int","onError":"$i"}}"#, "7"),
        (r#"{"$toInt":{"$binary":{"base64":"AAAAAAAAAAA=","subType":"00"}}}"#, "error 241"),
        (r#"{"$toString":{"$binary":{"base64":"aGVsbG8=","subType":"02"}}}"#, r#""BQAAAGhlbGxv""#),
        (
            r#"{"$toUUID":"12345678-1234-1234-1234-123456789012"}"#,
            r#"{"$uuid":"12345678-1234-1234-1234-123456789012"}"#,
        ),
        (r#"{"$toUUID":"1234"}"#, "error 241"),
        (r#"{"$type":{"$code":"a","$scope":{}}}"#, r#""javascriptWithScope""#),
        (r#"{"$rand":[1]}"#, "error 3040501"),
        (r#"{"$rand":"$i"}"#, "error 10065"),
        (r#"{"$zip":{"inputs":[]}}"#, "error 34465"),
        (r#"{"$let":{"vars":[],"in":1}}"#, "error 9"),
        (r#""$$$x""#, "error 9"),
        (r#""$$ROOT.""#, "error 40353"),
        (r#""$m.$ref""#, "missing"),
        (r#"{"$dateFromParts":{"isoWeekYear":2020,"month":1}}"#, "error 40525"),
        (r#"{"$dateFromString":{"dateString":"2020","format":"%Q"}}"#, "error 18536"),
    ]);
}

/// The sizes are those of the BSON library of drivers.
#[test]
fn objects_have_the_size_of_their_bson() {
    check(&[
        (r#"{"$bsonSize":{}}"#, "5"),
        (r#"{"$bsonSize":{"x":10,"y":"$t"}}"#, "25"),
        (r#"{"$bsonSize":{"a":[1,{"$numberLong":"2"},2.5,null,true]}}"#, "49"),
        (
            r#"{"$bsonSize":{"d":{"$date":"2020-01-01T00:00:00Z"},"m":{"$minKey":1},
                "t":{"$timestamp":{"t":1,"i":1}},"n":{"$numberDecimal":"1.5"},
                "r":{"$regularExpression":{"pattern":"ab","options":"i"}},
                "c":{"$code":"f"},"b":{"$binary":{"base64":"AQI=","subType":"80"}}}}"#,
            "76",
        ),
        (r#"{"$bsonSize":"$none"}"#, "null"),
        (r#"{"$bsonSize":"$i"}"#, "error 31393"),
    ]);
}
