//! JSON Pointer: the examples of RFC 6901, errors, and texts that come back.

use flagstone_doc::{Document, Pointer, doc};

const EXAMPLE: &str = r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,
                          "k\"l":6," ":7,"m~n":8}"#;

fn found(document: &Document, pointer: &str) -> Option<String> {
    let pointer = Pointer::parse(pointer).map_err(|error| format!("{pointer}: {error}")).unwrap();
    document.pointer(&pointer).map(|view| view.to_string())
}

#[test]
fn the_examples_of_rfc_6901() {
    let document = Document::from_json(EXAMPLE).unwrap();
    assert_eq!(found(&document, "").unwrap(), document.to_string());
    for (pointer, expected) in [
        ("/foo", r#"["bar","baz"]"#),
        ("/foo/0", r#""bar""#),
        ("/", "0"),
        ("/a~1b", "1"),
        ("/c%d", "2"),
        ("/e^f", "3"),
        ("/g|h", "4"),
        (r"/i\j", "5"),
        ("/k\"l", "6"),
        ("/ ", "7"),
        ("/m~0n", "8"),
    ] {
        assert_eq!(found(&document, pointer).as_deref(), Some(expected), "{pointer}");
        assert_eq!(Pointer::parse(pointer).unwrap().to_string(), pointer);
    }
}

#[test]
fn an_index_is_digits_without_leading_zeros() {
    let document =
        Document::from_json(r#"{"a":[[1],2],"m":{"0":"name","01":"other","-":5}}"#).unwrap();
    for (pointer, expected) in [
        ("/a/0/0", Some("1")),
        ("/a/1", Some("2")),
        ("/a/2", None),
        ("/a/01", None),
        ("/a/00", None),
        ("/a/+1", None),
        ("/a/-1", None),
        ("/a/-", None),
        ("/a/", None),
        ("/a/1/0", None),
        ("/a/18446744073709551617", None),
        ("/a/length", None),
        ("/m/0", Some("\"name\"")),
        ("/m/01", Some("\"other\"")),
        ("/m/-", Some("5")),
        ("/m/", None),
        ("/none", None),
    ] {
        assert_eq!(found(&document, pointer).as_deref(), expected, "{pointer}");
    }
}

#[test]
fn tokens_are_escaped_and_come_back() {
    for (text, tokens) in [
        ("", &[][..]),
        ("/", &[""][..]),
        ("//", &["", ""][..]),
        ("/~01", &["~1"][..]),
        ("/~10", &["/0"][..]),
        ("/~0~1/é~1", &["~/", "é/"][..]),
    ] {
        let pointer = Pointer::parse(text).unwrap();
        assert_eq!(pointer.tokens().collect::<Vec<_>>(), tokens);
        assert_eq!(pointer.to_string(), text);
        assert_eq!(Pointer::from_iter(tokens.iter().copied()), pointer);
    }
    let document = Document::from_value(&doc!({ "~1": { "/": true } })).unwrap();
    assert_eq!(found(&document, "/~01/~1").as_deref(), Some("true"));
}

#[test]
fn an_error_names_the_position_in_characters() {
    for (text, position, expected) in [
        ("a", 1, "'/' before each token, found 'a'"),
        ("#/a", 1, "'/' before each token, found '#'"),
        ("/é~", 4, "0 or 1 after '~', found the end"),
        ("/é~2", 4, "0 or 1 after '~', found '2'"),
        ("/~~0", 3, "0 or 1 after '~', found '~'"),
    ] {
        let error = Pointer::parse(text).unwrap_err();
        assert_eq!(error.position, position, "{error}");
        assert_eq!(
            error.to_string(),
            format!("JSON Pointer, character {position}: expected {expected}")
        );
    }
}
