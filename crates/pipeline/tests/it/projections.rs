//! Projections of `find`, by examples.

use flagstone::Value;
use flagstone::doc::json;
use flagstone_pipeline::FindProjection;

fn parse(text: &str) -> Value {
    json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A document, its projection, and the result or the code of the error.
type Case = (&'static str, &'static str, Result<&'static str, i32>);

#[track_caller]
fn check(cases: &[Case], position: Option<usize>) {
    for (document, text, expected) in cases {
        let projected = FindProjection::parse(&parse(text))
            .and_then(|one| one.apply(&parse(document), position, Default::default()));
        let found = projected.map(|value| value.to_string()).map_err(|error| error.code());
        assert_eq!(found, expected.map(str::to_owned), "{text} of {document}");
    }
}

const POST: &str =
    r#"{"_id":7,"a":1,"b":{"c":2,"d":3},"e":[{"f":4,"g":5},6,[{"f":7}]],"h":[1,2,3,4]}"#;

#[test]
fn fields_are_kept_or_removed() {
    check(
        &[
            (POST, "{}", Ok(POST)),
            (POST, r#"{"a":1}"#, Ok(r#"{"_id":7,"a":1}"#)),
            (POST, r#"{"a":true,"_id":0}"#, Ok(r#"{"a":1}"#)),
            (POST, r#"{"_id":1}"#, Ok(r#"{"_id":7}"#)),
            (POST, r#"{"a":2.5,"x":1}"#, Ok(r#"{"_id":7,"a":1}"#)),
            (POST, r#"{"b.c":1,"a":1}"#, Ok(r#"{"_id":7,"a":1,"b":{"c":2}}"#)),
            (POST, r#"{"b":{"c":1}}"#, Ok(r#"{"_id":7,"b":{"c":2}}"#)),
            (POST, r#"{"e.f":1}"#, Ok(r#"{"_id":7,"e":[{"f":4},[{"f":7}]]}"#)),
            (POST, r#"{"a.x":1}"#, Ok(r#"{"_id":7}"#)),
            (POST, r#"{"e":0,"h":0}"#, Ok(r#"{"_id":7,"a":1,"b":{"c":2,"d":3}}"#)),
            (POST, r#"{"_id":0,"e":0,"h":0,"b.c":0}"#, Ok(r#"{"a":1,"b":{"d":3}}"#)),
            (POST, r#"{"_id":1,"e":0,"h":0,"b":0}"#, Ok(r#"{"_id":7,"a":1}"#)),
            (r#"{"_id":7,"a":1}"#, r#"{"_id":0}"#, Ok(r#"{"a":1}"#)),
            (POST, r#"{"a":1,"b":0}"#, Err(31254)),
            (POST, r#"{"a":0,"b":1}"#, Err(31253)),
            (POST, r#"{"b":1,"b.c":1}"#, Err(31249)),
            (POST, r#"{"b.c":1,"b":1}"#, Err(31250)),
            (POST, r#"{"b":{}}"#, Err(51270)),
            (POST, r#"{"":1}"#, Err(40352)),
            (POST, r#"{"b.":1}"#, Err(40353)),
            (POST, r#"{"b..c":1}"#, Err(15998)),
            (POST, r#"{"b.$x":1}"#, Err(16410)),
            (POST, r#"{"b.$.c":1}"#, Err(31394)),
            (POST, r#"{"b.$":"x"}"#, Err(31308)),
            (POST, r#"{"b.$":{"$minKey":1}}"#, Err(31308)),
            (POST, r#"{"b.$":{"x":1}}"#, Err(31271)),
            (POST, "[1]", Err(14)),
        ],
        None,
    );
}

#[test]
fn parts_of_arrays_are_kept() {
    let short = r#"{"_id":7,"a":1,"h":[1,2,3,4]}"#;
    check(
        &[
            (short, r#"{"h":{"$slice":2}}"#, Ok(r#"{"_id":7,"a":1,"h":[1,2]}"#)),
            (short, r#"{"h":{"$slice":-3}}"#, Ok(r#"{"_id":7,"a":1,"h":[2,3,4]}"#)),
            (short, r#"{"h":{"$slice":0}}"#, Ok(r#"{"_id":7,"a":1,"h":[]}"#)),
            (short, r#"{"h":{"$slice":[1,2]}}"#, Ok(r#"{"_id":7,"a":1,"h":[2,3]}"#)),
            (short, r#"{"h":{"$slice":[-2,1]}}"#, Ok(r#"{"_id":7,"a":1,"h":[3]}"#)),
            (short, r#"{"h":{"$slice":[-9,2]}}"#, Ok(r#"{"_id":7,"a":1,"h":[1,2]}"#)),
            (short, r#"{"h":{"$slice":[9,2]},"_id":0}"#, Ok(r#"{"a":1,"h":[]}"#)),
            (short, r#"{"h":{"$slice":1},"_id":1}"#, Ok(r#"{"_id":7,"h":[1]}"#)),
            (short, r#"{"h":{"$slice":1},"x":1}"#, Ok(r#"{"_id":7,"h":[1]}"#)),
            (short, r#"{"h":{"$slice":1},"a":0}"#, Ok(r#"{"_id":7,"h":[1]}"#)),
            (short, r#"{"a":{"$slice":1}}"#, Ok(short)),
            (short, r#"{"h":{"$slice":[1,0]}}"#, Err(28724)),
            (short, r#"{"h":{"$slice":[1]}}"#, Err(28667)),
            (short, r#"{"h":{"$slice":"x"}}"#, Err(28667)),
            (short, r#"{"h":{"$elemMatch":{"$gt":2}}}"#, Ok(r#"{"_id":7,"h":[3]}"#)),
            (short, r#"{"h":{"$elemMatch":{"$gt":9}}}"#, Ok(r#"{"_id":7}"#)),
            (short, r#"{"h":{"$elemMatch":{"$gt":2}},"_id":0}"#, Ok(r#"{"h":[3]}"#)),
            (short, r#"{"h":{"$elemMatch":5}}"#, Err(31274)),
            (short, r#"{"a.$":1,"h":{"$elemMatch":{"$gt":2}}}"#, Err(31255)),
            (short, r#"{"h":{"$elemMatch":{"$gt":2}},"a.$":1}"#, Err(31256)),
            (short, r#"{"a":{"$elemMatch":{"$gt":0}}}"#, Ok(r#"{"_id":7}"#)),
            (
                POST,
                r#"{"e":{"$elemMatch":{"f":4}},"_id":0,"a":1}"#,
                Ok(r#"{"a":1,"e":[{"f":4,"g":5}]}"#),
            ),
            (POST, r#"{"b.c":{"$elemMatch":{"f":4}}}"#, Err(31275)),
            (short, r#"{"h":{"$elemMatch":{"$frob":9}}}"#, Err(2)),
        ],
        None,
    );
}

#[test]
fn the_element_that_the_filter_matched_is_kept() {
    let short = r#"{"_id":7,"a":1,"h":[1,2,3],"b":{"c":[4,5,6]}}"#;
    check(
        &[
            (short, r#"{"h.$":1}"#, Ok(r#"{"_id":7,"h":[3]}"#)),
            (short, r#"{"h.$":1,"a":1,"_id":0}"#, Ok(r#"{"a":1,"h":[3]}"#)),
            (short, r#"{"b.c.$":1}"#, Ok(r#"{"_id":7,"b":{"c":[6]}}"#)),
            (short, r#"{"a.$":1}"#, Ok(r#"{"_id":7,"a":1}"#)),
            (short, r#"{"h.$":1,"b.c.$":1}"#, Err(31276)),
            (short, r#"{"a":0,"h.$":1}"#, Err(31395)),
            (short, r#"{"h.$":1,"a":0}"#, Err(31254)),
            (short, r#"{"h.$":1,"h":1}"#, Err(31250)),
        ],
        Some(2),
    );
    check(&[(short, r#"{"h.$":1}"#, Err(51246))], None);
    check(&[(short, r#"{"h.$":1}"#, Err(51247))], Some(9));
    let projection = FindProjection::parse(&parse(r#"{"a":1,"b.c.$":1}"#)).unwrap();
    assert_eq!(projection.matched_array(), Some("b.c"));
}

#[test]
fn a_projection_that_the_library_can_do_is_plain() {
    for (text, plain, keeps_id) in [
        (r#"{"a":1,"b.c":1}"#, Some(r#"{"a":1,"b.c":1,"_id":1}"#), true),
        (r#"{"a":1,"_id":0}"#, Some(r#"{"a":1}"#), false),
        (r#"{"_id":1}"#, Some(r#"{"_id":1}"#), true),
        (r#"{"a":0}"#, Some(r#"{"a":0}"#), true),
        (r#"{"a":0,"_id":0}"#, Some(r#"{"a":0,"_id":0}"#), false),
        ("{}", Some("{}"), true),
        (r#"{"a":1,"h":{"$slice":1}}"#, None, true),
        (r#"{"h.$":1}"#, None, true),
    ] {
        let projection = FindProjection::parse(&parse(text)).unwrap();
        let found = projection.plain().map(|plain| plain.to_string());
        assert_eq!((found.as_deref(), projection.keeps_id()), (plain, keeps_id), "{text}");
        // What the library returns is the same.
        if let Some(plain) = projection.plain() {
            let document = flagstone::Document::from_json(POST).unwrap();
            let mut out = Vec::new();
            let mut projector = flagstone::query::Projector::new();
            let mode = flagstone::doc::JsonMode::Plain;
            projector.json(&plain, &document.root(), mode, &mut out).unwrap();
            let applied = projection.apply(&parse(POST), None, Default::default()).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), applied.to_string(), "{text}");
        }
    }
}
