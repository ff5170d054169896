//! Conditions on the primary key.

use crate::support::{hashed, small};
use flagstone::query::{Actual, Hint};
use flagstone::{Collection, ErrorKind, Filter, Find, Index, Json, Patch, Space, Value, doc};
use flagstone_testkit::{Session, World};

fn filled(world: &World) -> (Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("posts").options(hashed(3)).collection().unwrap();
    for n in 0..1000_i64 {
        collection.put(n, doc!({"n": n, "kind": n % 4})).unwrap();
    }
    (session, collection)
}

fn keys(find: &Find<'_>) -> Vec<i64> {
    let found = find.run().unwrap().map(|entry| entry.unwrap().0.as_i64().unwrap());
    let mut found: Vec<i64> = found.collect();
    found.sort_unstable();
    found
}

fn analyzed(find: &Find<'_>) -> (String, Actual) {
    let explain = find.clone().analyze().explain().unwrap();
    (explain.plans[0].access.clone(), explain.actual.unwrap())
}

#[test]
fn keys_are_read_by_gets_and_ranges_by_scans() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    for (filter, access, found, documents) in [
        (r#"{"$key":7}"#, "get of one key", vec![7], 1),
        (r#"{"$key":7.0,"kind":3}"#, "get of one key", vec![7], 1),
        (r#"{"$key":-7}"#, "get of one key", vec![], 0),
        (r#"{"$key":{"$in":[3,"x",5,5000]}}"#, "gets of 4 keys", vec![3, 5], 2),
        (r#"{"$key":{"$gte":990,"$lt":995}}"#, "scan of a range of keys", (990..995).collect(), 5),
        (r#"{"$key":{"$gt":990,"$lte":992},"kind":3}"#, "scan of a range of keys", vec![991], 2),
        (
            r#"{"$or":[{"$key":{"$lt":2}},{"$key":{"$gt":998}}]}"#,
            "scan of 2 ranges of keys",
            vec![0, 1, 999],
            3,
        ),
        (r#"{"$key":{"$gt":5,"$lt":3}}"#, "nothing", vec![], 0),
        (r#"{"$key":{"$gte":996,"$mod":[2,1]}}"#, "scan of a range of keys", vec![997, 999], 4),
    ] {
        let find = collection.find(filter);
        let (plan, actual) = analyzed(&find);
        assert_eq!(plan, access, "{filter}");
        assert_eq!(keys(&find), found, "{filter}");
        assert_eq!(actual.documents, documents, "{filter}");
        assert_eq!(find.count().unwrap(), found.len() as u64, "{filter}");
        let first = find.clone().sort("-n").first().unwrap();
        let first = first.map(|(key, _)| key.as_i64().unwrap());
        assert_eq!(first, found.last().copied(), "{filter}");
    }
    // Negated, and beside conditions on the document, it is checked on what is read.
    let odd = collection.find(r#"{"$key":{"$ne":7},"n":{"$lt":9},"$nor":[{"$key":3},{"n":4}]}"#);
    assert_eq!(keys(&odd), [0, 1, 2, 5, 6, 8]);
    let either = collection.find(r#"{"$or":[{"$key":{"$lt":3}},{"n":700}]}"#);
    assert_eq!(keys(&either), [0, 1, 2, 700]);
}

#[test]
fn a_key_is_one_value_whatever_its_type() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.collection("mixed").unwrap();
    let keys = [
        Value::Null,
        true.into(),
        7.into(),
        Value::number("7.25").unwrap(),
        "ab".into(),
        "abc\0d".into(),
        doc!([1, "ab"]),
        doc!([]),
        doc!({"a": 1}),
    ];
    for key in &keys {
        collection.put(key.clone(), doc!({"n": 1})).unwrap();
    }
    for (filter, expected) in [
        (r#"{"$key":null}"#, vec![0]),
        (r#"{"$key":7}"#, vec![2]),
        (r#"{"$key":{"$gte":7}}"#, vec![2, 3]),
        (r#"{"$key":{"$prefix":"ab"}}"#, vec![4, 5]),
        (r#"{"$key":{"$contains":"b"}}"#, vec![4, 5]),
        (r#"{"$key":{"$regex":"c"}}"#, vec![5]),
        (r#"{"$key":"ab"}"#, vec![4]),
        (r#"{"$key":[1,"ab"]}"#, vec![6]),
        (r#"{"$key":{"$size":2}}"#, vec![6]),
        (r#"{"$key":{"$elemMatch":{"$gt":0}}}"#, vec![6]),
        (r#"{"$key":{"$type":"array"}}"#, vec![6, 7]),
        (r#"{"$key":{"$type":["map","bool"]}}"#, vec![1, 8]),
        (r#"{"$key":{"$exists":true}}"#, (0..9).collect()),
        (r#"{"$key":{"$exists":false}}"#, vec![]),
        (r#"{"$key":{"$not":{"$gte":7}}}"#, vec![0, 1, 4, 5, 6, 7, 8]),
        (r#"{"$key":{"$nin":[null,"ab",[]]}}"#, vec![1, 2, 3, 5, 6, 8]),
    ] {
        let found = collection.find(filter).run().unwrap().map(|entry| entry.unwrap().0);
        let mut found: Vec<Value> = found.collect();
        found.sort();
        let mut expected: Vec<Value> =
            expected.iter().map(|at: &usize| keys[*at].clone()).collect();
        expected.sort();
        assert_eq!(found, expected, "{filter}");
    }
}

#[test]
fn writes_by_filter_and_pages_begin_at_their_keys() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    let range = r#"{"$key":{"$gte":100,"$lt":200}}"#;
    let done = collection.update_many(range, &Patch::new().set("seen", true)).run().unwrap();
    assert_eq!((done.matched, done.modified), (100, 100));
    let (mut token, mut paged) = (None, Vec::new());
    loop {
        let find = collection.find(range);
        let find = match &token {
            Some(token) => find.after(token),
            None => find,
        };
        let page = find.page(7).unwrap();
        paged.extend(page.documents.iter().map(|(key, _)| key.as_i64().unwrap()));
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(paged, (100..200).collect::<Vec<_>>());
    let points = collection.find(r#"{"$key":{"$in":[5,1,3]}}"#);
    let page = points.clone().page(2).unwrap();
    let rest = points.after(&page.next.unwrap()).page(2).unwrap();
    assert_eq!(rest.documents[0].0, Value::from(5));
    let mut tx = session.db.begin().unwrap();
    tx.put(&collection, 150, doc!({"own": 1})).unwrap();
    tx.delete(&collection, 151).unwrap();
    assert_eq!(tx.find(&collection, range).count().unwrap(), 99);
    assert_eq!(tx.find(&collection, r#"{"$key":{"$in":[150,151]}}"#).count().unwrap(), 1);
    drop(tx);
    let gone = collection.delete_many(r#"{"$key":{"$in":[1,2,4000]}}"#).run().unwrap();
    assert_eq!(gone.modified, 2);
    assert_eq!(collection.delete_many(range).run().unwrap().modified, 100);
    assert_eq!(collection.count().unwrap(), 898);
}

#[test]
fn the_keys_bound_the_entries_of_one_value_in_an_index() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_kind", Index::on("kind")).unwrap();
    let find = collection.find(r#"{"kind":2,"$key":{"$gte":400,"$lt":440}}"#);
    let hinted = find.clone().hint(Hint::index("by_kind"));
    let (_, actual) = analyzed(&hinted);
    assert_eq!((actual.rows, actual.documents), (10, 10));
    assert_eq!(keys(&hinted), keys(&find.hint(Hint::Scan)));
    let explain = hinted.explain().unwrap().to_string();
    assert!(explain.contains("10 entries, counted") && explain.contains("exact"), "{explain}");
}

#[test]
fn a_condition_on_the_key_is_refused_where_there_is_no_key() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    let filter = Filter::key().gt(5);
    assert!(filter.compile().unwrap_err().to_string().contains("only queries know"));
    let index = Index::on("n").only(filter.clone());
    let refused = collection.create_index("some", index).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let inside = Filter::parse(r#"{"a":{"$elemMatch":{"$key":1}}}"#).unwrap_err();
    assert!(inside.to_string().contains("an element has no key"), "{inside}");
    assert!(Filter::field("a").elem_match(filter).check().is_err());
    // A name of a document is no key.
    collection.put("x", Json(r#"{"_id":5,"key":5}"#)).unwrap();
    assert_eq!(collection.find(r#"{"_id":5}"#).count().unwrap(), 1);
}
