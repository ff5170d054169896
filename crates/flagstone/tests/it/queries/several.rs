//! Plans that read several indexes.

use super::found::{analyzed, keys};
use crate::support::{hashed, small};
use flagstone::query::Hint;
use flagstone::{Collection, Filter, Index, Space, Value, doc};
use flagstone_testkit::{Session, World};

fn filled(world: &World) -> (Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("comments").options(hashed(2)).collection().unwrap();
    for n in 0..6000_i64 {
        let tags: Value = [n % 7, n % 5].into_iter().collect();
        let document = doc!({"n": n, "kind": n % 30, "group": n % 31, "tags": tags,
            "rare": n % 700, "pad": "x".repeat(50)});
        collection.put(n, &document).unwrap();
    }
    (session, collection)
}

#[test]
fn alternatives_on_different_paths_are_found_by_their_indexes_each_document_once() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_rare", Index::on("rare")).unwrap();
    collection.create_index("by_n", Index::on("n")).unwrap();
    let find = collection.find(r#"{"$or":[{"rare":3},{"n":{"$lt":5}},{"$key":4000},{"n":-1}]}"#);
    let (explain, actual) = analyzed(&find);
    assert_eq!(explain.plans[0].access, "union of 4 plans", "{explain}");
    // Nine documents with 3, of which one is below 5, too.
    assert_eq!((actual.documents, actual.rows), (14, 14), "{explain}");
    assert_eq!(keys(&find), [0, 1, 2, 3, 4, 703, 1403, 2103, 2803, 3503, 4000, 4203, 4903, 5603]);
    assert_eq!(find.count().unwrap(), 14);
    // One alternative without an index needs a scan, which finds the others, too.
    let one = collection.find(r#"{"$or":[{"rare":3},{"pad":"x"}]}"#);
    let explain = one.explain().unwrap();
    assert_eq!(explain.plans[0].access, "scan of all documents");
    let refused = one.hint(Hint::Union).run().unwrap_err().to_string();
    assert!(refused.contains("the hint asks for several indexes"), "{refused}");
}

#[test]
fn the_other_conditions_count_for_every_alternative() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    let low = Index::on("rare").only(Filter::field("n").lt(3000));
    collection.create_index("low", low).unwrap();
    collection.create_index("by_tag", Index::on("tags").then("group")).unwrap();
    // Each alternative implies the condition of the partial index only with the other one.
    let find = collection.find(r#"{"n":{"$lt":2000},"$or":[{"rare":7},{"tags":3,"group":8}]}"#);
    let (explain, actual) = analyzed(&find);
    assert_eq!(explain.plans[0].access, "union of 2 plans", "{explain}");
    assert!(actual.documents < 80, "{explain}");
    assert_eq!(keys(&find), keys(&find.clone().hint(Hint::Scan).sort("n")));
    let all = keys(&find);
    let last = [all[all.len() - 1], all[all.len() - 2]];
    assert_eq!(keys(&find.clone().sort("-n").limit(2)), last);
    let done = collection.delete_many(r#"{"$or":[{"rare":7},{"tags":3,"group":8}]}"#);
    let scanned = collection.find(r#"{"$or":[{"rare":7},{"tags":3,"group":8}]}"#).hint(Hint::Scan);
    let expected = scanned.count().unwrap();
    assert_eq!(done.run().unwrap().modified, expected);
}

#[test]
fn a_count_by_exact_alternatives_reads_no_document() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_rare", Index::on("rare")).unwrap();
    collection.create_index("by_n", Index::on("n")).unwrap();
    let find = collection.find(r#"{"$or":[{"rare":{"$lt":30}},{"n":{"$lt":500}}]}"#);
    let expected = find.clone().hint(Hint::Scan).count().unwrap();
    assert_eq!(find.clone().hint(Hint::Union).memory(1).count().unwrap(), expected);
    let mut found = keys(&find.clone().hint(Hint::Union).memory(1));
    assert!(found.is_sorted() && found.len() as u64 == expected);
    found.dedup();
    assert_eq!(found.len() as u64, expected);
}

#[test]
fn two_conditions_with_many_documents_each_are_intersected() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_kind", Index::on("kind")).unwrap();
    collection.create_index("by_group", Index::on("group")).unwrap();
    collection.create_index("by_tag", Index::on("tags")).unwrap();
    let find = collection.find(r#"{"kind":4,"group":7}"#);
    let expected = keys(&find.clone().hint(Hint::Scan).sort("n"));
    assert_eq!(expected.len(), 6);
    let (explain, actual) = analyzed(&find);
    assert_eq!(explain.plans[0].access, "intersection of 2 indexes", "{explain}");
    assert_eq!((actual.documents, actual.rows), (6, 6), "{explain}");
    assert_eq!(keys(&find), expected);
    assert_eq!(find.count().unwrap(), 6);
    // Another condition is checked on the documents; arrays repeat none.
    for filter in [
        r#"{"kind":4,"group":7,"n":{"$lt":3000}}"#,
        r#"{"kind":4,"tags":{"$in":[2,3]}}"#,
        r#"{"group":{"$gte":20},"tags":{"$gt":2}}"#,
    ] {
        let find = collection.find(filter);
        let both = find.clone().hint(Hint::Intersection).memory(1);
        assert_eq!(keys(&both), keys(&find.clone().hint(Hint::Scan).sort("n")), "{filter}");
        assert_eq!(both.count().unwrap(), find.hint(Hint::Scan).count().unwrap(), "{filter}");
    }
    // The index with the fewest entries has the fields of the others: they are intersected.
    collection.create_index("both", Index::on("kind").then("group")).unwrap();
    let both = collection.find(r#"{"kind":4,"group":7}"#).hint(Hint::Intersection);
    assert_eq!(keys(&both), expected);
    // With one index there is nothing to intersect.
    let one = collection.find(r#"{"kind":4}"#).hint(Hint::Intersection);
    assert!(one.count().unwrap_err().to_string().contains("asks for several indexes"));
}
