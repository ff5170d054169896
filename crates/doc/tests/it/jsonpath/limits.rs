//! Queries at their limits, and queries whose work must not multiply.

use super::{path, places, selected};
use flagstone_doc::{Document, JSONPATH_BYTES_MAX, JSONPATH_NESTING_MAX, JsonPath, Value, View};

/// Arrays in one another, `depth` of them.
fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

#[test]
fn the_length_of_a_query_has_a_limit() {
    let longest = format!("${}", ".a".repeat(JSONPATH_BYTES_MAX / 2 - 1));
    assert_eq!(selected(&longest, r#"{"a":{"a":1}}"#), "");
    let error = JsonPath::parse(&format!("{longest}.bc")).unwrap_err();
    assert!(error.expected.contains("65,536"), "{error}");
}

#[test]
fn the_nesting_of_a_query_has_a_limit() {
    let filters = |depth: usize| format!("${}{}", "[?@".repeat(depth), "]".repeat(depth));
    let groups = |depth: usize| {
        let (open, close) = ("(".repeat(depth - 1), ")".repeat(depth - 1));
        format!("$[?{open}@{close}]")
    };
    let negations = |depth: usize| {
        let (open, close) = ("!(".repeat(depth - 1), ")".repeat(depth - 1));
        format!("$[?{open}@{close}]")
    };
    let calls = |depth: usize| {
        let (open, close) = ("length(".repeat(depth - 1), ")".repeat(depth - 1));
        format!("$[?{open}@{close} == 1]")
    };
    let deep = nested(JSONPATH_NESTING_MAX + 2);
    for form in [&filters as &dyn Fn(usize) -> String, &groups, &negations, &calls] {
        let _some = selected(&form(JSONPATH_NESTING_MAX), &deep);
        for depth in [JSONPATH_NESTING_MAX + 1, 5000] {
            let error = JsonPath::parse(&form(depth)).unwrap_err();
            assert!(error.expected.contains("64 deep"), "{error}");
        }
        let cut = form(5000);
        assert!(JsonPath::parse(&cut[..cut.len() / 2]).is_err());
    }
}

#[test]
fn indexes_and_slices_beyond_an_array_select_nothing_or_end_with_it() {
    let document = "[0,1,2]";
    let (max, min) = ((1_i64 << 53) - 1, 1 - (1_i64 << 53));
    for (query, expected) in [
        (format!("$[{max}]"), ""),
        (format!("$[{min}]"), ""),
        (format!("$[{min}:{max}]"), "0 1 2"),
        (format!("$[{max}:{min}:-1]"), "2 1 0"),
        (format!("$[::{max}]"), "0"),
        (format!("$[::{min}]"), "2"),
        (format!("$[1:{max}:{max}]"), "1"),
        ("$[3:]".into(), ""),
        ("$[:-3]".into(), ""),
        ("$[-1:0]".into(), ""),
        ("$[0:3:0]".into(), ""),
    ] {
        assert_eq!(selected(&query, document), expected, "{query}");
        assert_eq!(selected(&query, "[]"), "", "{query}");
        assert_eq!(selected(&query, r#"{"0":1}"#), "", "{query}");
    }
}

#[test]
fn a_query_that_finds_nothing_by_many_ways_ends_soon() {
    // Without a memory of what was in vain, each of these takes 2^60 steps or more.
    let document = nested(100);
    for query in [
        format!("${}.x", "[0,0]".repeat(80)),
        format!("${}.x", "..*".repeat(40)),
        format!("${}.x", "..[0][*,0]".repeat(20)),
        format!("$..*..[?@.x]{}", "..*".repeat(40)),
    ] {
        assert_eq!(places(&query, &document), "", "{query}");
    }
}

#[test]
fn filters_in_filters_multiply_no_work() {
    let document = nested(100);
    for part in ["[?@..", "[?$.."] {
        let query = format!("$..{}[?@.x]{}", part.repeat(30), "]".repeat(30));
        assert_eq!(places(&query, &document), "", "{query}");
    }
    // The inner filter is asked for each pair of a container and one below it.
    let query = "$..[?count(@..[?@..[?count(@..*) == 0]]) == 97]";
    assert_eq!(places(query, &document), "$[0]");
}

/// Returns the number of ways to choose `k` of `n`.
fn choices(n: u128, k: u128) -> u128 {
    (0..k).fold(1, |choices, i| choices * (n - i) / (i + 1))
}

#[test]
fn nodes_are_counted_without_a_visit_of_each() {
    // `$[0]` has 63 arrays below it, and each `..*` chooses one below the last.
    let document = nested(65);
    for steps in [1, 2, 3, 30] {
        let count = choices(63, steps);
        let query = format!("$[?count(@{}) == {count}]", "..*".repeat(steps as usize));
        assert_eq!(places(&query, &document), "$[0]", "{query}");
    }
    let beyond = format!("$[?count(@{}) == {}]", "..*".repeat(50), i64::MAX);
    assert_eq!(places(&beyond, &nested(102)), "$[0]");
}

#[test]
fn nodes_that_are_selected_again_come_again_in_order() {
    let document = Document::from_json(nested(14)).unwrap();
    for steps in 1..5 {
        let path = path(&format!("${}", "..*".repeat(steps)));
        assert_eq!(document.query(&path).count() as u128, choices(13, steps as u128));
    }
    assert_eq!(
        places("$..*..*", &nested(4)),
        "$[0][0] $[0][0][0] $[0][0][0]",
        "first below $[0], then below $[0][0]"
    );
    let many = path(&format!("${}", "..*".repeat(12)));
    assert_eq!(document.query(&many).take(3).count(), 3);
}

#[test]
fn a_document_may_be_as_deep_as_documents_may_be_and_no_deeper() {
    let deep = (0..512).fold(Value::from(1), |inner, _| Value::Array(vec![inner]));
    let document = Document::from_value(&deep).unwrap();
    assert_eq!(document.query(&path("$..*")).count(), 512);
    let last = document.query(&path("$..*")).last().unwrap();
    assert_eq!(last.location().unwrap().steps().len(), 512);
    assert_eq!(document.query(&path("$[?@ == $[0]]")).count(), 1);

    // Bytes that nobody has validated: arrays in one another, each with its length of 16 bits.
    let mut bytes = vec![0_u8, 1, 3];
    for _ in 0..600 {
        let mut outer = vec![0, 1, 0x17];
        outer.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        outer.extend_from_slice(&bytes);
        bytes = outer;
    }
    bytes[0] = 0x10;
    let view = View::of(&bytes, None).unwrap();
    for query in ["$..*", "$[?count(@..*) == 1]", "$[?@ == @]"] {
        let last = path(query).nodes(&view).last().unwrap();
        assert!(last.unwrap_err().expected.contains("512"), "{query}");
    }
}
