//! How many distinct values an index has: counted, or estimated within the error that is told.
//!
//! The sample of an index has a million values that are all different about once each, and so it
//! has 100,000 of them: the number was estimated ten times too low, and said to be "about" right.

use crate::support::{hashed, small};
use flagstone::report::IndexStatistics;
use flagstone::{Collection, Index, Json, Space, Value, doc};
use flagstone_testkit::{Session, World};
use std::collections::HashSet;

const DOCUMENTS: i64 = 20_000;

/// A field, and its value in document `n`.
type Field = (&'static str, fn(i64) -> i64);

const FIELDS: [Field; 7] = [
    ("unique", |n| n * 7919 % 20_011),
    ("three", |n| n * 7919 % 20_011 / 3),
    ("ten", |n| n / 10),
    // Half of the documents have one value, and half one of their own.
    ("half", |n| if n % 2 == 0 { -1 } else { n }),
    // One value in ten documents, the others by the inverse of their rank.
    ("skewed", |n| if n % 10 < 7 { n % 50 } else { 1_000_000 / (n + 1) * 100 + n % 97 }),
    ("few", |n| n % 40),
    ("one", |_| 7),
];

fn filled(world: &World) -> (Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("c").options(hashed(2)).collection().unwrap();
    for (name, _) in FIELDS {
        collection.create_index(name, Index::on(name)).unwrap();
    }
    collection.create_index("few_ten", Index::on("few").then("ten")).unwrap();
    for n in 0..DOCUMENTS {
        let fields = FIELDS.map(|(name, value)| (name, Value::from(value(n))));
        collection.put(n, Value::Map(fields.into_iter().collect())).unwrap();
    }
    session.db.flush().unwrap();
    (session, collection)
}

#[track_caller]
fn check(statistics: &IndexStatistics, at: usize, expected: usize) {
    let (found, error) = (statistics.distinct[at], statistics.distinct_error[at]);
    let apart = found.abs_diff(expected as u64) as f64;
    // Once in a while an estimate may be beyond its error, but not these.
    assert!(apart <= error * found as f64 + 1.0, "{expected} expected: {statistics}");
    assert!(error < 0.3, "{expected} expected: {statistics}");
    assert!(expected > 4000 || error == 0.0, "few are counted: {statistics}");
}

#[test]
fn distinct_values_are_known_within_the_error_that_is_told() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    let all = || {
        for (name, value) in FIELDS {
            let expected = (0..DOCUMENTS).map(value).collect::<HashSet<_>>().len();
            check(&collection.index_statistics(name).unwrap(), 0, expected);
        }
        let both = (0..DOCUMENTS).map(|n| (n % 40, n / 10)).collect::<HashSet<_>>().len();
        let compound = collection.index_statistics("few_ten").unwrap();
        check(&compound, 0, 40);
        check(&compound, 1, both);
    };
    all();
    let text = collection.index_statistics("unique").unwrap().to_string();
    assert!(text.contains("about 20000 (within 1 %) distinct values, by "), "{text}");
    let text = collection.index_statistics("few").unwrap().to_string();
    assert!(text.ends_with("40 distinct values, counted"), "{text}");
    // Compacted tables, then newer entries in memtables.
    session.db.compact().unwrap();
    all();
    for n in 0..500 {
        collection.remove(n).unwrap();
    }
    let statistics = collection.index_statistics("unique").unwrap();
    assert!(statistics.distinct[0].abs_diff(19_500) < 1500, "{statistics}");
}

/// An index that was never flushed has no sample, but few values are counted.
#[test]
fn values_of_a_small_index_are_counted_in_memory() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.collection("c").unwrap();
    collection.create_index("a_b", Index::on("a").then("-b")).unwrap();
    let statistics = |collection: &Collection| collection.index_statistics("a_b").unwrap();
    assert_eq!(statistics(&collection).distinct, [0, 0]);
    let rows =
        [r#"{"a":1}"#, r#"{"a":1.0,"b":2}"#, r#"{"a":[1,2],"b":"x"}"#, r#"{"a":null}"#, "{}"];
    for (n, row) in rows.iter().enumerate() {
        collection.put(n, Json(row)).unwrap();
    }
    // 1, 2, null and what is missing.
    let found = statistics(&collection);
    assert_eq!((found.distinct, found.distinct_error), (vec![4, 6], vec![0.0, 0.0]));
    let long = |n: i64| doc!({ "a": "x".repeat(200), "b": n });
    (10..1200).for_each(|n| collection.put(n, long(n)).unwrap());
    let found = statistics(&collection);
    check(&found, 0, 5);
    // There may be no sample of many.
    if found.distinct.len() > 1 {
        check(&found, 1, 1196);
    }
}
