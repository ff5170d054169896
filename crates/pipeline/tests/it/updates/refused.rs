//! Updates that are refused, with the codes that drivers know.

use super::{applied, update};
use flagstone_pipeline::update::Context;

#[test]
fn malformed_updates_are_refused_when_they_are_read() {
    for (text, filters, code) in [
        (r#"{"$frob":{"a":1}}"#, "[]", 9),
        (r#"{"$set":{"a":1},"b":2}"#, "[]", 9),
        (r#"{"b":2,"$set":{"a":1}}"#, "[]", 52),
        (r#"{"$set":5}"#, "[]", 9),
        ("[1]", "[]", 14),
        (r#"[{"$match":{"a":1}}]"#, "[]", 72),
        (r#"[{"$set":{"a":{"$frob":1}}}]"#, "[]", 168),
        (r#"[{"$set":{"a":1}}]"#, r#"[{"x":1}]"#, 9),
        ("5", "[]", 9),
        (r#"{"$set":{"":1}}"#, "[]", 56),
        (r#"{"$set":{"a..b":1}}"#, "[]", 56),
        (r#"{"$set":{"$x":1}}"#, "[]", 52),
        (r#"{"$set":{"a.$[x":1}}"#, "[]", 52),
        (r#"{"$rename":{"a":"b\u0000"}}"#, "[]", 9_867_600),
        (r#"{"$set":{"$":1}}"#, "[]", 2),
        (r#"{"$set":{"a.$.b.$":1}}"#, "[]", 2),
        (r#"{"$inc":{"a":"1"}}"#, "[]", 14),
        (r#"{"$mul":{"a":null}}"#, "[]", 14),
        (r#"{"$pop":{"a":2}}"#, "[]", 9),
        (r#"{"$pop":{"a":"1"}}"#, "[]", 9),
        (r#"{"$pull":{"a":{"$frob":1}}}"#, "[]", 2),
        (r#"{"$pullAll":{"a":1}}"#, "[]", 2),
        (r#"{"$push":{"a":{"$each":1}}}"#, "[]", 2),
        (r#"{"$push":{"a":{"$each":[1],"$slice":1.5}}}"#, "[]", 2),
        (r#"{"$push":{"a":{"$each":[1],"$position":"x"}}}"#, "[]", 2),
        (r#"{"$push":{"a":{"$each":[1],"$sort":2}}}"#, "[]", 2),
        (r#"{"$push":{"a":{"$each":[1],"$sort":{}}}}"#, "[]", 2),
        (r#"{"$push":{"a":{"$each":[1],"$frob":2}}}"#, "[]", 2),
        (r#"{"$addToSet":{"a":{"$each":1}}}"#, "[]", 14),
        (r#"{"$addToSet":{"a":{"$each":[1],"x":1}}}"#, "[]", 2),
        (r#"{"$bit":{"a":5}}"#, "[]", 2),
        (r#"{"$bit":{"a":{}}}"#, "[]", 2),
        (r#"{"$bit":{"a":{"not":1}}}"#, "[]", 2),
        (r#"{"$bit":{"a":{"or":1.5}}}"#, "[]", 2),
        (r#"{"$currentDate":{"a":1}}"#, "[]", 2),
        (r#"{"$currentDate":{"a":{"$type":"day"}}}"#, "[]", 2),
        (r#"{"$rename":{"a":1}}"#, "[]", 2),
        (r#"{"$rename":{"a":"a"}}"#, "[]", 2),
        (r#"{"$rename":{"a":"a.b"}}"#, "[]", 2),
        (r#"{"$rename":{"a.$":"b"}}"#, "[]", 2),
        (r#"{"$rename":{"a":"b.$[]"}}"#, "[]", 2),
        (r#"{"$set":{"a":1,"a.b":2}}"#, "[]", 40),
        (r#"{"$set":{"a.b":1},"$inc":{"a":2}}"#, "[]", 40),
        (r#"{"$set":{"a":1},"$unset":{"a":2}}"#, "[]", 40),
        (r#"{"$set":{"a.$[]":1,"a.0":2}}"#, "[]", 40),
        (r#"{"$rename":{"a":"b"},"$set":{"a":1}}"#, "[]", 40),
        (r#"{"$rename":{"a":"b"},"$set":{"b.c":1}}"#, "[]", 40),
        (r#"{"$set":{"a.$[x]":1}}"#, "[]", 2),
        (r#"{"$set":{"a":1}}"#, r#"[{"x":1}]"#, 9),
        (r#"{"a":1}"#, r#"[{"x":1}]"#, 9),
        (r#"{"$set":{"a.$[x]":1}}"#, r#"[{"x":1},{"x":2}]"#, 9),
        (r#"{"$set":{"a.$[x]":1}}"#, r#"[{"x":1,"y":2}]"#, 9),
        (r#"{"$set":{"a.$[x]":1}}"#, "[{}]", 9),
        (r#"{"$set":{"a.$[x]":1}}"#, "[5]", 9),
        (r#"{"$set":{"a.$[X]":1}}"#, r#"[{"X":1}]"#, 2),
        (r#"{"$set":{"a.$[x]":1}}"#, r#"[{"x":{"$frob":1}}]"#, 2),
    ] {
        let error = update(text, filters).map(|_| ()).unwrap_err();
        assert_eq!(error.code(), code, "{text}: {error}");
    }
}

#[test]
fn updates_that_do_not_fit_a_document_are_refused_and_leave_it() {
    for (document, text, code) in [
        (r#"{"a":"x"}"#, r#"{"$set":{"c":0},"$inc":{"a":1}}"#, 14),
        (r#"{"a":null}"#, r#"{"$inc":{"a":1}}"#, 14),
        (r#"{"a":9223372036854775807}"#, r#"{"$inc":{"a":1}}"#, 2),
        (r#"{"a":9223372036854775807}"#, r#"{"$mul":{"a":2}}"#, 2),
        (r#"{"a":5}"#, r#"{"$set":{"a.b":1}}"#, 28),
        (r#"{"a":null}"#, r#"{"$set":{"a.b":1}}"#, 28),
        (r#"{"a":[1]}"#, r#"{"$set":{"a.b":1}}"#, 28),
        (r#"{"a":[1]}"#, r#"{"$set":{"a.0.b":1}}"#, 28),
        (r#"{"a":[1]}"#, r#"{"$set":{"a.01":1}}"#, 28),
        (r#"{"a":[1]}"#, r#"{"$set":{"a.1500002":1}}"#, 2),
        (r#"{"a":[]}"#, r#"{"$set":{"a.18446744073709551615":1}}"#, 2),
        (r#"{"a":5}"#, r#"{"$push":{"a":1}}"#, 2),
        (r#"{"a":5}"#, r#"{"$addToSet":{"a":1}}"#, 2),
        (r#"{"a":5}"#, r#"{"$pop":{"a":1}}"#, 14),
        (r#"{"a":5}"#, r#"{"$pull":{"a":1}}"#, 2),
        (r#"{"a":{}}"#, r#"{"$pullAll":{"a":[1]}}"#, 2),
        (r#"{"a":1.5}"#, r#"{"$bit":{"a":{"or":1}}}"#, 2),
        (r#"{"a":[{"b":1}]}"#, r#"{"$rename":{"a.0.b":"c"}}"#, 2),
        (r#"{"a":[1],"b":1}"#, r#"{"$rename":{"b":"a.0"}}"#, 2),
        (r#"{"a":1}"#, r#"{"$rename":{"a.b":"c"}}"#, 28),
        (r#"{"a":1,"b":1}"#, r#"{"$rename":{"b":"a.c"}}"#, 28),
        (r#"{"a":"x"}"#, r#"{"$pop":{"a.b":1}}"#, 28),
        (r#"{"a":[{"b":[1]}]}"#, r#"{"$pop":{"a.b":1}}"#, 28),
        (r#"{"_id":1}"#, r#"{"$set":{"_id":2}}"#, 66),
        (r#"{"_id":1}"#, r#"{"$unset":{"_id":2}}"#, 66),
        (r#"{"_id":1}"#, r#"{"$inc":{"_id":1}}"#, 66),
        (r#"{"_id":1}"#, r#"{"$rename":{"_id":"a"}}"#, 66),
        (r#"{"_id":1,"a":1}"#, r#"{"$rename":{"a":"_id"}}"#, 66),
        (r#"{"_id":{"a":1}}"#, r#"{"$set":{"_id.a":2}}"#, 66),
        (r#"{"a":1}"#, r#"{"$set":{"_id":2}}"#, 66),
        (r#"{"_id":1}"#, r#"{"_id":2}"#, 66),
        (r#"{"_id":1}"#, r#"[{"$set":{"_id":2}}]"#, 66),
        (r#"{"_id":1,"a":5}"#, r#"[{"$replaceWith":"$a"}]"#, 40228),
    ] {
        let change = update(text, "[]").unwrap();
        let error = applied(document, &change, &Context::default()).unwrap_err();
        assert_eq!(error.code(), code, "{text} of {document}: {error}");
    }
    // To set the same is no change, and neither is an equal number.
    for text in [r#"{"$set":{"_id":1}}"#, r#"{"$set":{"_id":1.0}}"#, r#"{"_id":1.0,"a":1}"#] {
        let change = update(text, "[]").unwrap();
        let found = applied(r#"{"_id":1,"a":1}"#, &change, &Context::default()).unwrap();
        assert_eq!(found, r#"{"_id":1,"a":1}"#, "{text}");
    }
}

#[test]
fn an_error_names_operator_path_expectation_and_what_was_found() {
    let change = update(r#"{"$inc":{"a.b":1}}"#, "[]").unwrap();
    let error = applied(r#"{"a":{"b":"x"}}"#, &change, &Context::default()).unwrap_err();
    assert_eq!(error.to_string(), "update.$inc.a.b: expected a number there, found text");
    assert_eq!((error.code(), error.code_name()), (14, "TypeMismatch".to_owned()));
    let error = update(r#"{"$set":{"a":1},"$push":{"a.b":2}}"#, "[]").unwrap_err();
    let expected =
        "update.$push.a.b: expected a path that nothing else changes, found $set of \"a\"";
    assert_eq!(error.to_string(), expected);
}
