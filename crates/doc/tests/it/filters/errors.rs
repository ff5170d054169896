//! Filters that are refused: by the builder, and by limits.

use flagstone_doc::{Arrays, Document, FILTER_NESTING_MAX, FieldPath, Filter, View, doc, validate};

#[test]
fn the_first_error_of_a_builder_is_kept() {
    let wrong = Filter::field("a").eq(1).and(Filter::field("$.b[*]").gt(5));
    let wrong = Filter::any([wrong, Filter::field("c").matches("(")]);
    assert_eq!(
        wrong.check().unwrap_err().to_string(),
        "filter: expected a path (field path, character 5: expected names and indexes from 0 on \
         alone; a path passes through arrays by itself, found '*')"
    );
    assert_eq!(wrong.compile().unwrap_err(), wrong.check().unwrap_err());
    for (filter, expected) in [
        (Filter::field("c").matches("("), "filter, at c: expected a regular expression"),
        (Filter::field("c").modulo(0, 1), "filter, at c: expected a divisor other than 0"),
        (!Filter::field("$x").exists(), "filter: expected a path"),
        (Filter::field("$x").elem_match(Filter::everything()), "filter: expected a path"),
        (Filter::field("a").elem_match(Filter::field("$x").eq(1)), "filter: expected a path"),
        (Filter::field("a").elem_match(Filter::everything()).and(wrong), "filter: expected a path"),
    ] {
        let error = filter.check().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn conditions_are_nested_to_a_limit() {
    let not = |depth: usize| {
        let open = r#"{"$nor":[{"x":1},"#.repeat(depth);
        format!("{open}{{\"a\":1}}{}", "]}".repeat(depth))
    };
    assert!(Filter::parse(&not(FILTER_NESTING_MAX)).is_ok());
    let error = Filter::parse(&not(FILTER_NESTING_MAX + 1)).unwrap_err();
    assert_eq!(error.expected, "conditions at most 100 deep");
    let elements = |depth: usize| {
        (0..depth).fold(Filter::value().gt(1), |inner, _| Filter::field("a").elem_match(inner))
    };
    let deepest = elements(FILTER_NESTING_MAX);
    assert_eq!(Filter::parse(&deepest.to_string()).unwrap(), deepest);
    let document = (0..FILTER_NESTING_MAX).fold(doc!(2), |inner, _| doc!({ "a": [inner] }));
    let matcher = deepest.compile().unwrap();
    let document = Document::from_value(&document).unwrap();
    assert_eq!(matcher.matches(&document.root()), Ok(true));
    assert!(elements(FILTER_NESTING_MAX + 1).check().is_err());
    assert!(elements(100_000).check().is_err(), "no nesting that cannot be dropped");
    let negated = (0..1000).fold(Filter::field("a").eq(1), |filter, _| !filter);
    assert_eq!(negated, Filter::field("a").eq(1));
    let either = (0..1000).map(|i| Filter::field("a").eq(i));
    assert!(either.fold(Filter::field("a").eq(0), Filter::or).check().is_ok());
}

#[test]
fn hostile_text_is_refused_in_short_time() {
    let many = |part: &str, count: usize| vec![part; count].join(",");
    for (text, expected) in [
        (format!("{{\"$or\":[{}]}}", many("{}", 100_000)), "at most 10000 conditions in a filter"),
        (format!("{{\"$and\":[{}]}}", many(r#"{"$or":[{"a":1},{"b":1}]}"#, 9000)), "at most 10000"),
        // Each takes a hundred kilobytes and more.
        (
            format!("{{\"$or\":[{}]}}", many(r#"{"a":{"$regex":"\\pL{5}"}}"#, 101)),
            "at most 100 patterns in a filter",
        ),
        ("[".repeat(100_000), ""),
        (format!("{{\"a\":{}", "[".repeat(100_000)), ""),
        (format!("{{\"a\":{{\"$regex\":\"{}\"}}}}", "(".repeat(4000)), "a regular expression"),
        (format!("{{\"a\":{{\"$regex\":\"{}\"}}}}", "a{1000}".repeat(400)), "a pattern that takes"),
        (format!("{{\"a\":{{\"$regex\":\"{}\"}}}}", "a".repeat(5000)), "a pattern of at most"),
        (format!("{{\"{}\":1}}", "a.".repeat(600)), "a path (field path"),
        (format!("{{\"{}\":1}}", "a".repeat(70_000)), "a path (field path"),
        (" ".repeat(17 << 20), "a document of at most 16 MiB"),
    ] {
        let error = Filter::parse(&text).unwrap_err();
        let shown: String = text.chars().take(40).collect();
        assert!(error.expected.starts_with(expected), "{shown}: {error}");
    }
}

#[test]
fn many_conditions_are_written_and_analysed_in_short_time() {
    let ors: Vec<_> =
        (0..1300).map(|i| format!(r#"{{"$or":[{{"a":{i}}},{{"p{i}":1}}]}}"#)).collect();
    let filter = Filter::parse(&format!("{{\"$and\":[{}]}}", ors[..1000].join(","))).unwrap();
    assert_eq!(Filter::parse(&filter.to_string()).unwrap(), filter);
    assert_eq!(filter.paths().len(), 1001);
    let path = FieldPath::parse("a").unwrap();
    for arrays in [Arrays::NONE, Arrays::ANY] {
        assert!(filter.bounds(&path, arrays).is_everything());
    }
    let other = Filter::parse(&format!("{{\"$and\":[{}]}}", ors[1..1001].join(","))).unwrap();
    let _certain_or_not = filter.implies(&other);
    let pairs: Vec<String> = (0..100_000).map(|key| format!("[{key},1]")).collect();
    let pairs = Filter::parse(&format!(r#"{{"a":{{"$pairs":[{}]}}}}"#, pairs.join(","))).unwrap();
    assert!(pairs.to_string().ends_with("[99999,1]]}}}"));
}

#[test]
fn malformed_documents_are_an_error_or_a_result_but_no_panic() {
    let json = r#"{"a":[{"b":[1,"text",null]},{"b":{"c":1.5}}],"x":[[],{}],"t":"abc"}"#;
    let filters = [
        r#"{"a.b":{"$gt":[0]},"x":{"$lt":{"y":1}}}"#,
        r#"{"$or":[{"a":{"$elemMatch":{"b":{"$size":3}}}},{"t":{"$regex":"b"}}]}"#,
        r#"{"a.b.c":{"$mod":[2,1]},"a.b":{"$in":[null,"x",[1]]}}"#,
        r#"{"$":{"$eq":{"a":1}},"a":[{"b":1}]}"#,
    ];
    let matchers = filters.map(|text| Filter::parse(text).unwrap().compile().unwrap());
    let mut refused = 0;
    for document in super::both(json) {
        let names = document.names().map(|names| &**names);
        for at in 0..document.as_bytes().len() {
            for flip in [1, 0x10, 0x80, 0xFF] {
                let mut bytes = document.as_bytes().to_vec();
                bytes[at] ^= flip;
                let Ok(root) = View::of(&bytes, names) else { continue };
                let is_valid = validate(&bytes, names).is_ok();
                for matcher in &matchers {
                    let result = matcher.matches(&root);
                    assert!(result.is_ok() || !is_valid, "byte {at} flipped");
                    refused += usize::from(result.is_err());
                }
            }
        }
    }
    assert!(refused > 0, "malformed bytes that a filter reads are an error");
}
