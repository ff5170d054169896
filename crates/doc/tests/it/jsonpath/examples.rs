//! The examples of RFC 9535.

use super::{path, places, selected};
use flagstone_doc::JsonPath;

const STORE: &str = r#"{"store":{"book":[
    {"category":"reference","author":"Nigel Rees","title":"Sayings of the Century","price":8.95},
    {"category":"fiction","author":"Evelyn Waugh","title":"Sword of Honour","price":12.99},
    {"category":"fiction","author":"Herman Melville","title":"Moby Dick",
     "isbn":"0-553-21311-3","price":8.99},
    {"category":"fiction","author":"J. R. R. Tolkien","title":"The Lord of the Rings",
     "isbn":"0-395-19395-8","price":22.99}],
    "bicycle":{"color":"red","price":399}}}"#;

#[test]
fn the_bookstore() {
    let authors = r#""Nigel Rees" "Evelyn Waugh" "Herman Melville" "J. R. R. Tolkien""#;
    for (query, expected) in [
        ("$.store.book[*].author", authors),
        ("$..author", authors),
        ("$.store..price", "8.95 12.99 8.99 22.99 399"),
        ("$..book[2].author", r#""Herman Melville""#),
        ("$..book[2].publisher", ""),
        ("$..book[?@.price<10].title", r#""Sayings of the Century" "Moby Dick""#),
    ] {
        assert_eq!(selected(query, STORE), expected, "{query}");
    }
    for (query, expected) in [
        ("$.store.*", "$['store']['book'] $['store']['bicycle']"),
        ("$..book[2]", "$['store']['book'][2]"),
        ("$..book[-1]", "$['store']['book'][3]"),
        ("$..book[0,1]", "$['store']['book'][0] $['store']['book'][1]"),
        ("$..book[:2]", "$['store']['book'][0] $['store']['book'][1]"),
        ("$..book[?@.isbn]", "$['store']['book'][2] $['store']['book'][3]"),
        ("$..book[?@.price<10]", "$['store']['book'][0] $['store']['book'][2]"),
    ] {
        assert_eq!(places(query, STORE), expected, "{query}");
    }
    assert_eq!(places("$..*", STORE).split(' ').count(), 27);
}

#[test]
fn names_wildcards_indexes_and_slices() {
    let names = r#"{"o":{"j j":{"k.k":3}},"'":{"@":2}}"#;
    let wild = r#"{"o":{"j":1,"k":2},"a":[5,3]}"#;
    let letters = r#"["a","b","c","d","e","f","g"]"#;
    for (query, document, expected) in [
        ("$.o['j j']", names, r#"{"k.k":3}"#),
        ("$.o['j j']['k.k']", names, "3"),
        (r#"$.o["j j"]["k.k"]"#, names, "3"),
        (r#"$["'"]["@"]"#, names, "2"),
        ("$[*]", wild, r#"{"j":1,"k":2} [5,3]"#),
        ("$.o[*]", wild, "1 2"),
        ("$.o[*, *]", wild, "1 2 1 2"),
        ("$.a[*]", wild, "5 3"),
        ("$[1]", r#"["a","b"]"#, r#""b""#),
        ("$[-2]", r#"["a","b"]"#, r#""a""#),
        ("$[1:3]", letters, r#""b" "c""#),
        ("$[5:]", letters, r#""f" "g""#),
        ("$[1:5:2]", letters, r#""b" "d""#),
        ("$[5:1:-2]", letters, r#""f" "d""#),
        ("$[::-1]", letters, r#""g" "f" "e" "d" "c" "b" "a""#),
        ("$[0, 3]", letters, r#""a" "d""#),
        ("$[0:2, 5]", letters, r#""a" "b" "f""#),
        ("$[0, 0]", letters, r#""a" "a""#),
    ] {
        assert_eq!(selected(query, document), expected, "{query}");
    }
}

#[test]
fn comparisons() {
    let document = r#"{"obj":{"x":"y"},"arr":[2,3]}"#;
    for (comparison, holds) in [
        ("$.absent1 == $.absent2", true),
        ("$.absent1 <= $.absent2", true),
        ("$.absent == 'g'", false),
        ("$.absent1 != $.absent2", false),
        ("$.absent != 'g'", true),
        ("1 <= 2", true),
        ("1 > 2", false),
        ("13 == '13'", false),
        ("'a' <= 'b'", true),
        ("'a' > 'b'", false),
        ("$.obj == $.arr", false),
        ("$.obj != $.arr", true),
        ("$.obj == $.obj", true),
        ("$.obj != $.obj", false),
        ("$.arr == $.arr", true),
        ("$.arr != $.arr", false),
        ("$.obj == 17", false),
        ("$.obj != 17", true),
        ("$.obj <= $.arr", false),
        ("$.obj < $.arr", false),
        ("$.obj <= $.obj", true),
        ("$.arr <= $.arr", true),
        ("1 <= $.arr", false),
        ("1 >= $.arr", false),
        ("1 > $.arr", false),
        ("1 < $.arr", false),
        ("true <= true", true),
        ("true > true", false),
    ] {
        let expected = if holds { "$['obj'] $['arr']" } else { "" };
        assert_eq!(places(&format!("$[?{comparison}]"), document), expected, "{comparison}");
    }
}

#[test]
fn filters() {
    let document = r#"{"a":[3,5,1,2,4,6,{"b":"j"},{"b":"k"},{"b":{}},{"b":"kilo"}],
                       "o":{"p":1,"q":2,"r":3,"s":5,"t":{"u":6}},"e":"f"}"#;
    let all = r#"3 5 1 2 4 6 {"b":"j"} {"b":"k"} {"b":{}} {"b":"kilo"}"#;
    for (query, expected) in [
        ("$.a[?@.b == 'kilo']", r#"{"b":"kilo"}"#),
        ("$.a[?(@.b == 'kilo')]", r#"{"b":"kilo"}"#),
        ("$.a[?@>3.5]", "5 4 6"),
        ("$.a[?@.b]", r#"{"b":"j"} {"b":"k"} {"b":{}} {"b":"kilo"}"#),
        ("$.o[?@<3, ?@<3]", "1 2 1 2"),
        (r#"$.a[?@<2 || @.b == "k"]"#, r#"1 {"b":"k"}"#),
        (r#"$.a[?match(@.b, "[jk]")]"#, r#"{"b":"j"} {"b":"k"}"#),
        (r#"$.a[?search(@.b, "[jk]")]"#, r#"{"b":"j"} {"b":"k"} {"b":"kilo"}"#),
        ("$.o[?@>1 && @<4]", "2 3"),
        ("$.o[?@.u || @.x]", r#"{"u":6}"#),
        ("$.a[?@.b == $.x]", "3 5 1 2 4 6"),
        ("$.a[?@ == @]", all),
    ] {
        assert_eq!(selected(query, document), expected, "{query}");
    }
    assert_eq!(places("$[?@.*]", document), "$['a'] $['o']");
    assert_eq!(places("$[?@[?@.b]]", document), "$['a']");
}

#[test]
fn types_of_functions_and_arguments() {
    for (query, is_valid) in [
        ("$[?length(@) < 3]", true),
        ("$[?length(@.*) < 3]", false),
        ("$[?count(@.*) == 1]", true),
        ("$[?count(1) == 1]", false),
        ("$[?count(foo(@.*)) == 1]", false),
        ("$[?match(@.timezone, 'Europe/.*')]", true),
        ("$[?match(@.timezone, 'Europe/.*') == true]", false),
        (r#"$[?value(@..color) == "red"]"#, true),
        ("$[?value(@..color)]", false),
        ("$[?bar(@.a)]", false),
    ] {
        assert_eq!(JsonPath::parse(query).is_ok(), is_valid, "{query}");
    }
}

#[test]
fn descendants() {
    let document = r#"{"o":{"j":1,"k":2},"a":[5,3,[{"j":4},{"k":6}]]}"#;
    for (query, expected) in [
        ("$..j", "1 4"),
        ("$..[0]", r#"5 {"j":4}"#),
        ("$..o", r#"{"j":1,"k":2}"#),
        ("$.o..[*, *]", "1 2 1 2"),
        ("$.a..[0, 1]", r#"5 3 {"j":4} {"k":6}"#),
    ] {
        assert_eq!(selected(query, document), expected, "{query}");
    }
    let all =
        r#"{"j":1,"k":2} [5,3,[{"j":4},{"k":6}]] 1 2 5 3 [{"j":4},{"k":6}] {"j":4} {"k":6} 4 6"#;
    assert_eq!(selected("$..*", document), all);
    assert_eq!(selected("$..[*]", document), all);
    assert_eq!(places("$..j", document), "$['o']['j'] $['a'][2][0]['j']");
}

#[test]
fn null_is_a_value() {
    let document = r#"{"a":null,"b":[null],"c":[{}],"null":1}"#;
    for (query, expected) in [
        ("$.a", "null"),
        ("$.a[0]", ""),
        ("$.a.d", ""),
        ("$.b[0]", "null"),
        ("$.b[*]", "null"),
        ("$.b[?@]", "null"),
        ("$.b[?@==null]", "null"),
        ("$.c[?@.d==null]", ""),
        ("$.null", "1"),
    ] {
        assert_eq!(selected(query, document), expected, "{query}");
    }
}

#[test]
fn normalized_paths() {
    for (query, document, expected) in [
        ("$.a", r#"{"a":1}"#, "$['a']"),
        ("$[1]", "[0,1]", "$[1]"),
        ("$[-3]", "[0,1,2,3,4]", "$[2]"),
        ("$.a.b[1:2]", r#"{"a":{"b":[0,1]}}"#, "$['a']['b'][1]"),
        (r#"$["\u000B"]"#, r#"{"\u000b":1}"#, r"$['\u000b']"),
        (r#"$["\u0061"]"#, r#"{"a":1}"#, "$['a']"),
        ("$.*", r#"{"'\\\"\b\f\n\r\t\u007f/":1}"#, "$['\\'\\\\\"\\b\\f\\n\\r\\t\u{7f}/']"),
        ("$", "5", "$"),
    ] {
        assert_eq!(places(query, document), expected, "{query}");
        let place = path(expected);
        assert_eq!(places(place.as_str(), document), expected);
    }
}
