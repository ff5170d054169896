//! JSONTestSuite: the files that must be accepted or refused, and cases that the suite leaves open.

use flagstone_doc::{
    Document, Duplicates, JsonOptions, JsonParser, Names, Surrogates, Value, View, json,
};

#[test]
fn the_json_test_suite_passes() {
    let Some(dir) = super::shared("FLAGSTONE_SUITES", "suites") else {
        println!("skipped: no shared/suites above here, and FLAGSTONE_SUITES is not set");
        return;
    };
    let mut counts = [0; 3];
    for file in std::fs::read_dir(dir.join("json-parsing")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read(&path).unwrap();
        let names = Names::new();
        let mut out = Vec::new();
        let parsed = JsonParser::default().parse(&text, Some(&names), &mut out);
        match name.as_bytes()[0] {
            b'y' => {
                assert!(parsed.is_ok(), "{name}: {parsed:?}");
                counts[0] += 1;
            }
            b'n' => {
                assert!(parsed.is_err(), "{name}");
                assert!(out.is_empty(), "{name}");
                counts[1] += 1;
            }
            b'i' => counts[2] += 1,
            _ => {}
        }
        if parsed.is_ok() {
            flagstone_doc::validate(&out, Some(&names)).unwrap();
        }
    }
    println!("{} accepted, {} refused, {} either", counts[0], counts[1], counts[2]);
    assert!(counts[0] >= 90 && counts[1] >= 180, "the suite is there: {counts:?}");
}

#[test]
fn numbers_come_out_as_they_went_in() {
    for number in [
        "1.10",
        "1e400",
        "-0",
        "1.0e+05",
        "1E5",
        "0",
        "-1",
        "27",
        "28",
        "-4",
        "-5",
        "0.10",
        "-0.5",
        "-0.0",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551617",
        "1e1000000000",
        "-1e-1000000000",
        "123456789012345678901234567890.12345678901234567890",
        "3.6028797018963967",
        "3.6028797018963968",
        "0.00000000000000000001",
        "999999999999999999",
        "1000000000000000000",
    ] {
        let document = Document::from_json(number).unwrap();
        assert_eq!(document.to_json().unwrap(), number);
        let value = json::parse(number).unwrap();
        let again = Document::from_value(&value).unwrap();
        assert_eq!(again.to_json().unwrap(), number);
        assert_eq!(again.as_bytes(), document.as_bytes(), "{number}");
        assert_eq!(value.to_string(), number);
    }
}

#[test]
fn small_values_print_the_same_wherever_they_stand() {
    let words = ["null", "false", "true", "[]", "{}"].map(str::to_owned);
    for value in words.into_iter().chain((-30..300).map(|int: i32| int.to_string())) {
        for text in
            [value.clone(), format!("[{value},\"x\"]"), format!("{{\"a\":{value},\"b\":{value}}}")]
        {
            for names in [None, Some(&Names::new())] {
                let mut bytes = Vec::new();
                JsonParser::default().parse(text.as_bytes(), names, &mut bytes).unwrap();
                let mut printed = Vec::new();
                json::append_json(&View::of(&bytes, names).unwrap(), &mut printed).unwrap();
                assert_eq!(String::from_utf8(printed).unwrap(), text);
            }
        }
    }
}

#[test]
fn an_error_names_the_position_and_what_was_expected() {
    let error = json::parse("{\"a\":1,\n \"é\": x}").unwrap_err();
    assert_eq!((error.offset, error.line, error.column), (15, 2, 7));
    assert_eq!((error.expected, error.found), ("a value", Some('x')));
    let text = error.to_string();
    assert_eq!(text, "JSON, line 2, column 7 (byte 15): expected a value, found 'x'");
    assert_eq!(json::parse(b"[\"\xFF\"]").unwrap_err().expected, "text in UTF-8");
    assert_eq!(json::parse("[1").unwrap_err().found, None);
    assert_eq!(json::parse("").unwrap_err().expected, "a value");
    assert_eq!(json::parse("{}x").unwrap_err().offset, 2);
}

#[test]
fn depth_has_a_limit() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(json::parse(nested(128)).is_ok());
    assert_eq!(json::parse(nested(129)).unwrap_err().offset, 128);
    assert!(json::parse(nested(100_000)).is_err());
    assert!(json::parse("[".repeat(100_000)).is_err());
    assert!(json::parse("{\"a\":".repeat(100_000)).is_err());
    let deep = JsonOptions::new().depth_max(512);
    let value = JsonParser::new(deep).parse_value(nested(512).as_bytes()).unwrap();
    assert!(Document::from_value(&value).is_ok());
    assert!(Document::from_value(&Value::Array(vec![value])).is_err());
    assert!(deep.depth_max(513).check().is_err());
}

#[test]
fn length_has_a_limit() {
    let options = JsonOptions::new().bytes_max(10);
    assert!(JsonParser::new(options).parse_value(b"\"12345678\"").is_ok());
    assert!(JsonParser::new(options).parse_value(b"\"123456789\"").is_err());
}

#[test]
fn duplicate_keys_follow_the_option() {
    let text = br#"{"a":1,"b":{"a":[1,"x"],"a":"long"},"a":{"c":"d"},"e":5}"#;
    let parse = |duplicates| {
        let options = JsonOptions::new().duplicates(duplicates);
        JsonParser::new(options).parse_value(text)
    };
    let last = parse(Duplicates::Last).unwrap();
    assert_eq!(last.to_string(), r#"{"a":{"c":"d"},"b":{"a":"long"},"e":5}"#);
    let first = parse(Duplicates::First).unwrap();
    assert_eq!(first.to_string(), r#"{"a":1,"b":{"a":[1,"x"]},"e":5}"#);
    let error = parse(Duplicates::Error).unwrap_err();
    assert_eq!(error.offset, 25);
    let many = (0..300).map(|i| format!("\"k{i}\":{i}")).collect::<Vec<_>>().join(",");
    let twice = json::parse(format!("{{{many},\"k7\":\"x\"}}")).unwrap();
    assert_eq!(
        (twice.as_map().unwrap().len(), twice.get("k7").unwrap().as_str()),
        (300, Some("x"))
    );
}

#[test]
fn half_surrogate_pairs_follow_the_option() {
    let replace = JsonOptions::new().surrogates(Surrogates::Replace);
    for (text, expected) in [
        (r#""\ud83d\ude00""#, "😀"),
        (r#""a\ud83d""#, "a\u{FFFD}"),
        (r#""\ude00b""#, "\u{FFFD}b"),
        (r#""\ud83d\u0041""#, "\u{FFFD}A"),
    ] {
        let value = JsonParser::new(replace).parse_value(text.as_bytes()).unwrap();
        assert_eq!(value.as_str(), Some(expected));
        assert_eq!(json::parse(text).is_ok(), expected == "😀", "{text}");
    }
}

#[test]
fn names_with_escapes_are_names_like_others() {
    let names = Names::new();
    let mut parser = JsonParser::default();
    for text in [r#"{"a\"b":1,"c":2}"#, r#"{"a\"b":3,"c":4}"#, r#"{"\u0063":5, "a\"b" : 6}"#] {
        let mut out = Vec::new();
        assert_eq!(parser.parse(text.as_bytes(), Some(&names), &mut out).unwrap(), 2);
        let view = View::of(&out, Some(&names)).unwrap();
        assert!(view.get("a\"b").unwrap().is_some() && view.get("c").unwrap().is_some());
    }
    assert_eq!(names.len(), 2);
    assert!(parser.parse(br#"{"a"b":1}"#, Some(&names), &mut Vec::new()).is_err());
}

#[test]
fn more_names_than_a_table_holds_are_stored_in_the_document() {
    let names = Names::new();
    for id in 0..flagstone_doc::NAMES_MAX {
        names.intern(&format!("n{id}"));
    }
    let mut parser = JsonParser::default();
    let mut out = Vec::new();
    parser.parse(br#"{"n5":{"n300":1},"new":{"x":2}}"#, Some(&names), &mut out).unwrap();
    let view = flagstone_doc::validate(&out, Some(&names)).unwrap();
    assert_eq!(view.path("n5.n300").unwrap().unwrap().as_i64(), Some(1));
    assert_eq!(view.path("new.x").unwrap().unwrap().as_i64(), Some(2));
    assert!(View::of(&out, None).is_err(), "it needs its names table");
    let document = Document::from_bytes(out, Some(names.into())).unwrap();
    let alone = document.self_contained().unwrap();
    assert_eq!(alone.to_json().unwrap(), r#"{"n5":{"n300":1},"new":{"x":2}}"#);
    assert!(alone.names().is_none());
}
