//! Which filters imply which.

use flagstone_doc::Filter;

#[test]
fn a_narrower_filter_implies_a_wider_one() {
    for (narrow, wide, expected) in [
        (r#"{"a":5}"#, "{}", true),
        ("{}", r#"{"a":5}"#, false),
        (r#"{"a":5,"b":1}"#, r#"{"a":5}"#, true),
        (r#"{"a":5}"#, r#"{"a":{"$gt":4}}"#, true),
        (r#"{"a":5}"#, r#"{"a":{"$exists":true}}"#, true),
        (r#"{"a":null}"#, r#"{"a":{"$exists":true}}"#, false),
        (r#"{"a":{"$gt":4}}"#, r#"{"a":{"$gte":4}}"#, true),
        (r#"{"a":{"$gte":4}}"#, r#"{"a":{"$gt":4}}"#, false),
        (r#"{"a":{"$in":[1,2]}}"#, r#"{"a":{"$lt":3}}"#, true),
        (r#"{"a":{"$in":[1,"x"]}}"#, r#"{"a":{"$type":["number","text"]}}"#, true),
        (r#"{"a":{"$prefix":"abc"}}"#, r#"{"a":{"$prefix":"ab"}}"#, true),
        (r#"{"a":{"$prefix":"abc"}}"#, r#"{"a":{"$contains":"bc"}}"#, true),
        (r#"{"a":{"$contains":"abc"}}"#, r#"{"a":{"$contains":"bc"}}"#, true),
        (r#"{"a":{"$regex":"x"}}"#, r#"{"a":{"$type":"text"}}"#, true),
        (r#"{"a":[1,2]}"#, r#"{"a":{"$exists":true}}"#, true),
        (r#"{"a":{"$size":1}}"#, r#"{"a":{"$exists":true}}"#, true),
        (r#"{"a":{"$gt":5}}"#, r#"{"a":{"$ne":5}}"#, false),
        (r#"{"a":{"$nin":[1,2]}}"#, r#"{"a":{"$ne":1}}"#, true),
        (r#"{"a":{"$ne":1}}"#, r#"{"a":{"$nin":[1,2]}}"#, false),
        (r#"{"$or":[{"a":1},{"a":2}]}"#, r#"{"a":{"$in":[1,2,3]}}"#, true),
        (r#"{"$or":[{"a":1},{"b":2}]}"#, r#"{"a":1}"#, false),
        (r#"{"a":1}"#, r#"{"$or":[{"a":1},{"b":2}]}"#, true),
        (r#"{"$or":[{"a":1},{"b":2}]}"#, r#"{"$or":[{"b":2},{"a":1}]}"#, true),
        (r#"{"$nor":[{}]}"#, r#"{"a":1}"#, true),
        (r#"{"a":{"$elemMatch":{"$gt":5,"$lt":7}}}"#, r#"{"a":{"$gt":4}}"#, true),
        (r#"{"a":{"$elemMatch":{"$gt":5}}}"#, r#"{"a":{"$elemMatch":{"$gt":4}}}"#, true),
        (r#"{"a":{"$elemMatch":{"x":5}}}"#, r#"{"a":{"$elemMatch":{"x":{"$gt":4}}}}"#, true),
        (r#"{"a":{"$elemMatch":{"x":null}}}"#, r#"{"a":{"$elemMatch":{"$exists":true}}}"#, false),
        (r#"{"a":5}"#, r#"{"a":{"$elemMatch":{"$eq":5}}}"#, false),
        (r#"{"a.b":5}"#, r#"{"a":{"$exists":true}}"#, false),
    ] {
        let of = |text| Filter::parse(text).unwrap();
        assert_eq!(of(narrow).implies(&of(wide)), expected, "{narrow} implies {wide}");
    }
}

#[test]
fn a_search_that_would_take_too_long_gives_up() {
    let nested = |leaf: i64| {
        (0..30).fold(Filter::field("a").eq(leaf), |inner, i| {
            let other = Filter::field(&format!("p{i}")).eq(leaf);
            inner.and(other.clone()).or(other)
        })
    };
    assert!(!nested(1).implies(&nested(2)));
    assert!(nested(1).implies(&nested(1)));
    let faulty = Filter::field("$x").eq(1);
    assert!(!faulty.implies(&Filter::everything()) && !Filter::nothing().implies(&faulty));
}
