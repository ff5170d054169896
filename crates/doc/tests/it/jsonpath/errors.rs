//! Errors of queries: the position in characters, and what was expected.

use flagstone_doc::JsonPath;

#[test]
fn an_error_names_the_position_in_characters_and_what_was_expected() {
    for (query, position, expected, found) in [
        ("", 1, "'$'", None),
        (" $", 1, "'$'", Some(' ')),
        ("$ ", 2, "the end", Some(' ')),
        ("$.é.[", 5, "a name or '*'", Some('[')),
        ("$[", 3, "a name in quotes, an index, a slice", None),
        ("$['é', x]", 8, "a name in quotes", Some('x')),
        ("$['a' 'b']", 7, "',' or ']'", Some('\'')),
        ("$['a", 5, "the quote", None),
        (r"$['\x']", 5, "after '\\'", Some('x')),
        (r"$['\uD800']", 5, "a whole surrogate pair", Some('u')),
        (r"$['\u12']", 6, "four hexadecimal digits", Some('1')),
        ("$['\n']", 4, "to be escaped", Some('\n')),
        ("$[01]", 3, "without leading zeros", Some('0')),
        ("$[-]", 4, "an integer", Some(']')),
        ("$[9007199254740992]", 3, "within ±(2^53-1)", Some('9')),
        ("$[?1.]", 6, "a digit after the point", Some(']')),
        ("$[?]", 4, "a query, a function", Some(']')),
        ("$[?true]", 8, "a comparison", Some(']')),
        ("$[?@.a == ]", 11, "a query, a function", Some(']')),
        ("$[?@.a = 1]", 8, "',' or ']'", Some('=')),
        ("$[?@.* == 1]", 4, "names and indexes alone", Some('@')),
        ("$[?1 == @[ 0 ]]", 9, "without blanks in brackets", Some('@')),
        ("$[?!@.a == 1]", 9, "',' or ']'", Some('=')),
        ("$[?(@.a]", 8, "'&&', '||' or ')'", Some(']')),
        ("$[?size(@) == 1]", 4, "one of the functions", Some('s')),
        ("$[?length(@.*) == 1]", 11, "names and indexes alone", Some('@')),
        ("$[?length(@, 1) == 1]", 12, "')' after the last argument", Some(',')),
        ("$[?count(1) == 1]", 10, "a query as the argument", Some('1')),
        ("$[?match(@) == 1]", 11, "',' and a pattern", Some(')')),
        ("$[?match(@, 'a') == true]", 4, "a value", Some('m')),
        ("$[?search(@, 'a{1000000000}')]", 14, "a pattern of at most 4,096 bytes", Some('\'')),
    ] {
        let error = JsonPath::parse(query).expect_err(query);
        assert!(error.expected.contains(expected), "{query}: {error}");
        assert_eq!((error.position, error.found), (position, found), "{query}: {error}");
    }
}

#[test]
fn an_error_is_a_sentence_and_becomes_invalid_input() {
    let error = JsonPath::parse("$.a[x]").unwrap_err();
    let text = "JSONPath, character 5: expected a name in quotes, an index, a slice, '*' or a \
                filter, found 'x'";
    assert_eq!(error.to_string(), text);
    let error = flagstone_base::Error::from(error);
    assert_eq!(error.kind(), flagstone_base::ErrorKind::InvalidInput);
    let error = JsonPath::parse("$['a'").unwrap_err();
    assert_eq!(error.to_string(), "JSONPath, character 6: expected ',' or ']', found the end");
}
