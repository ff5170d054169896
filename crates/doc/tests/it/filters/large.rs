//! Filters that are as large as the limits allow, of documents with long arrays.
//!
//! `$all` of 50,000 values compared each with each of 100,000 elements, for minutes, and so did an
//! `$or` of many values of one path. A filter is printed to be hashed and compared, which took a
//! time that grew with the square of its conditions. Each test here does its work in a second or
//! two; with such a square in it, it would not end.

use super::both;
use flagstone_doc::{Document, Filter, Value};

const ELEMENTS: u64 = 100_000;

fn texts(range: std::ops::Range<u64>, of: impl Fn(u64) -> String) -> String {
    range.map(of).collect::<Vec<_>>().join(",")
}

fn numbers(range: std::ops::Range<u64>) -> String {
    texts(range, |n| n.to_string())
}

/// A document with an array of numbers, one of texts, and one of maps.
fn long() -> Document {
    let [numbers, names] = [numbers(0..ELEMENTS), texts(0..ELEMENTS, |n| format!("\"{n:06}\""))];
    let maps = texts(0..ELEMENTS, |n| format!(r#"{{"x":{n}}}"#));
    let json = format!(r#"{{"n":[{numbers}],"t":[{names}],"m":[{maps}],"one":7}}"#);
    let [document, _] = both(&json);
    document
}

#[track_caller]
fn holds(document: &Document, filter: &str) -> bool {
    document.matches(&Filter::parse(filter).unwrap().compile().unwrap())
}

#[test]
fn lists_of_many_values_of_a_long_array() {
    let document = long();
    let (present, beyond) = (numbers(0..50_000), numbers(50_000..ELEMENTS + 1));
    assert!(holds(&document, &format!(r#"{{"n":{{"$all":[{present}]}}}}"#)));
    assert!(!holds(&document, &format!(r#"{{"n":{{"$all":[{beyond}]}}}}"#)));
    assert!(holds(&document, &format!(r#"{{"n":{{"$not":{{"$all":[{beyond}]}}}}}}"#)));
    assert!(!holds(&document, &format!(r#"{{"n":{{"$nin":[{beyond}]}}}}"#)));
    // The last element alone is in the list.
    assert!(holds(&document, &format!(r#"{{"n":{{"$in":[-1,{}]}}}}"#, numbers(99_999..150_000))));
    let of_text = texts(0..50_000, |n| format!("\"{n:06}\""));
    assert!(holds(&document, &format!(r#"{{"t":{{"$all":[{of_text}]}}}}"#)));
    assert!(!holds(&document, &format!(r#"{{"t":{{"$all":[{of_text},null]}}}}"#)));
    let of_maps = texts(0..20_000, |n| format!(r#"{{"x":{n}.0}}"#));
    assert!(holds(&document, &format!(r#"{{"m":{{"$all":[{of_maps}]}}}}"#)));
    assert!(holds(&document, &format!(r#"{{"m.x":{{"$all":[{present},{present}]}}}}"#)));
    assert!(!holds(&document, &format!(r#"{{"one":{{"$all":[{present}]}}}}"#)));
}

#[test]
fn many_conditions_on_a_long_array() {
    let document = long();
    let each = |of: &dyn Fn(u64) -> String| texts(ELEMENTS - 3000..ELEMENTS, of);
    let equal = each(&|n| format!(r#"{{"n":{n}}}"#));
    assert!(holds(&document, &format!(r#"{{"$and":[{equal}]}}"#)));
    assert!(!holds(&document, &format!(r#"{{"$and":[{equal},{{"n":-1}}]}}"#)));
    let other = texts(ELEMENTS..ELEMENTS + 4500, |n| format!(r#"{{"n":{n}}}"#));
    assert!(!holds(&document, &format!(r#"{{"$or":[{other}]}}"#)));
    assert!(holds(&document, &format!(r#"{{"$nor":[{other}]}}"#)));
    assert!(holds(&document, &format!(r#"{{"$nor":[{{"$and":[{other}]}}]}}"#)));
    let unequal = texts(ELEMENTS..ELEMENTS + 3000, |n| format!(r#"{{"n":{{"$ne":{n}}}}}"#));
    assert!(holds(&document, &format!(r#"{{"$and":[{unequal}]}}"#)));
    assert!(holds(&document, &format!(r#"{{"$or":[{{"one":8}},{unequal}]}}"#)));
    let lists = texts(ELEMENTS..ELEMENTS + 3000, |n| format!(r#"{{"n":{{"$nin":[{n},"x"]}}}}"#));
    assert!(holds(&document, &format!(r#"{{"$and":[{lists}]}}"#)));
    let elements =
        texts(ELEMENTS..ELEMENTS + 2400, |n| format!(r#"{{"m":{{"$elemMatch":{{"x":{n}}}}}}}"#));
    assert!(!holds(&document, &format!(r#"{{"$or":[{elements}]}}"#)));
    let present = texts(0..2400, |n| format!(r#"{{"m":{{"$elemMatch":{{"x":{n}}}}}}}"#));
    assert!(holds(&document, &format!(r#"{{"$and":[{present}]}}"#)));
    let one_more = texts(0..2300, |n| format!(r#"{{"m":{{"$elemMatch":{{"x":{n}}}}}}}"#));
    let one_more = format!(r#"{one_more},{{"m":{{"$elemMatch":{{"x":-1}}}}}}"#);
    assert!(!holds(&document, &format!(r#"{{"$and":[{one_more}]}}"#)));
    let ranges = texts(0..2400, |n| format!(r#"{{"n":{{"$gt":{},"$lt":{n}}}}}"#, ELEMENTS - 1 - n));
    assert!(!holds(&document, &format!(r#"{{"$and":[{ranges}]}}"#)));
    assert!(holds(&document, &format!(r#"{{"$or":[{ranges}]}}"#)));
    let beyond = texts(ELEMENTS..ELEMENTS + 3200, |n| format!(r#"{{"n":{{"$gt":{n}}}}}"#));
    assert!(!holds(&document, &format!(r#"{{"$or":[{beyond}]}}"#)));
    assert!(holds(&document, &format!(r#"{{"$nor":[{elements}]}}"#)));
    assert!(holds(
        &document,
        &format!(r#"{{"$or":[{elements},{{"m":{{"$elemMatch":{{"x":5}}}}}}]}}"#)
    ));
}

#[test]
fn a_filter_of_many_conditions_is_joined_and_printed_in_linear_time() {
    let many = 400_000;
    let field = |n: u64| Filter::field(format!("f{n}").as_str()).eq(n);
    let all = Filter::all((0..many).map(field));
    let text = all.to_string();
    assert_eq!(text.matches(':').count(), many as usize);
    assert!(all == Filter::all((0..many).map(field)));
    let ranges = (0..many).map(|n| Filter::field("a").gt(n));
    let ranges = ranges.fold(Filter::everything(), Filter::and);
    assert_eq!(ranges.to_string().matches("$gt").count(), many as usize);
    let lists = (0..many).map(|n| Filter::field("a").eq(n).or(Filter::field("b").eq(n)));
    assert_eq!(Filter::all(lists).to_string().matches("$or").count(), many as usize);
    let any = (0..many).map(field).reduce(Filter::or).unwrap();
    assert!(any.to_string().starts_with(r#"{"$or":[{"f0":0},{"f1":1},"#));
}

#[test]
fn a_long_list_is_compared_with_few_conditions_of_another_filter() {
    let list = |n: u64| Filter::field("a").one_of((0..n).map(Value::from));
    let positive = Filter::field("a").gte(0).and(Filter::field("a").exists());
    assert!(list(50_000).implies(&positive));
    let ranges = |n: u64| Filter::any((1..n).map(|n| Filter::field("a").gt(n)));
    // It gives up: 10,000 pairs of a list of 50,000 values would take minutes.
    assert!(!list(50_000).implies(&ranges(10_000)));
}
