//! Which plan is chosen, what it reads, and which indexes may not be used.

use super::found::{analyzed, keys};
use crate::support::{hashed, small};
use flagstone::query::Hint;
use flagstone::{Collection, ErrorKind, Filter, Group, Index, Patch, Space, Value, doc};
use flagstone_testkit::{Session, World};

fn filled(world: &World) -> (Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("comments").options(hashed(2)).collection().unwrap();
    for n in 0..3000_i64 {
        let tags: Value = [n % 7, n % 5].into_iter().collect();
        let mut document = doc!({"n": n, "kind": n % 3, "group": n % 300, "tags": tags});
        if n % 10 == 0
            && let Value::Map(map) = &mut document
        {
            map.insert("rare", n);
        }
        collection.put(n, &document).unwrap();
    }
    (session, collection)
}

#[test]
fn a_rare_value_is_found_by_its_index_and_a_popular_one_by_a_scan() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_group", Index::on("group")).unwrap();
    collection.create_index("by_kind", Index::on("kind")).unwrap();
    let find = collection.find(r#"{"group":7,"kind":1}"#);
    let (explain, actual) = analyzed(&find);
    assert_eq!(explain.plans[0].access, "index \"by_group\"", "{explain}");
    assert_eq!((actual.documents, actual.rows), (10, 10), "{explain}");
    let (explain, actual) = analyzed(&collection.find(r#"{"kind":{"$gte":0}}"#));
    assert_eq!(explain.plans[0].access, "scan of all documents", "{explain}");
    assert_eq!((actual.documents, actual.rows), (3000, 3000));
    let names: Vec<&str> = explain.plans.iter().map(|plan| plan.access.as_str()).collect();
    assert!(names.contains(&"index \"by_kind\""), "alternatives are shown: {explain}");
}

#[test]
fn an_index_gives_the_order_of_a_sort_in_both_directions() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_kind_n", Index::on("kind").then("-n")).unwrap();
    for (sort, first) in [("-n", 2998), ("n", 1), ("kind,-n", 2998), ("-kind,n", 1)] {
        let find = collection.find(r#"{"kind":1}"#).sort(sort).limit(5);
        let (explain, actual) = analyzed(&find);
        assert!(!explain.sorts, "{sort}: {explain}");
        assert!(actual.documents <= 6, "{sort}: {explain}");
        let step = if first == 1 { 3 } else { -3 };
        assert_eq!(keys(&find), (0..5).map(|i| first + i * step).collect::<Vec<_>>(), "{sort}");
    }
    // Another order is sorted.
    assert!(collection.find(r#"{"kind":1}"#).sort("group").explain().unwrap().sorts);
    // Arrays on a path of the index: a document is where its least value is, or its greatest.
    let numbers: Value = [5000, -5].into_iter().collect();
    collection.put(9000, doc!({"kind": 1, "n": numbers})).unwrap();
    let find = collection.find(r#"{"kind":1}"#).sort("-n").limit(2);
    assert!(find.explain().unwrap().sorts);
    assert_eq!(keys(&find), [9000, 2998]);
    assert_eq!(keys(&collection.find(r#"{"kind":1}"#).sort("n").limit(2)), [9000, 1]);
}

#[test]
fn a_count_by_an_exact_index_reads_no_document() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_kind", Index::on("kind")).unwrap();
    let reads = || collection.find(r#"{"kind":2}"#).hint(Hint::index("by_kind"));
    assert_eq!(reads().count().unwrap(), 1000);
    let notes = reads().explain().unwrap().plans[0].notes.join("; ");
    assert!(notes.contains("a count reads no document"), "{notes}");
    // Another condition must be checked.
    let both = collection.find(r#"{"kind":2,"n":{"$lt":30}}"#).hint(Hint::index("by_kind"));
    assert_eq!(both.count().unwrap(), 10);
    assert!(!both.explain().unwrap().to_string().contains("a count reads no document"));
}

#[test]
fn a_count_by_an_index_heeds_conditions_that_read_no_path() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_group", Index::on("group")).unwrap();
    collection.create_index("rare", Index::on("n").only(Filter::field("n").lt(5))).unwrap();
    for never in [r#"{"n":{"$all":[]}}"#, r#"{"$nor":[{}]}"#] {
        assert_eq!(collection.find(never).count().unwrap(), 0, "{never}");
        let both = format!(r#"{{"$and":[{{"group":7}},{never}]}}"#);
        assert_eq!(collection.find(both.as_str()).count().unwrap(), 0, "{both}");
        assert!(keys(&collection.find(both.as_str())).is_empty(), "{both}");
    }
}

#[test]
fn a_document_with_several_matching_elements_is_found_once() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    collection.create_index("by_tag", Index::on("tags")).unwrap();
    for filter in [r#"{"tags":{"$gte":0}}"#, r#"{"tags":{"$in":[1,2,3]}}"#] {
        let (scan, index) = (Hint::Scan, Hint::index("by_tag"));
        let expected = collection.find(filter).hint(scan).count().unwrap();
        let find = collection.find(filter).hint(index).memory(1);
        assert_eq!(find.count().unwrap(), expected);
        let mut found = keys(&find);
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len() as u64, expected);
        let done = collection.update_many(filter, &Patch::new().inc("seen", 1));
        assert_eq!(done.hint(Hint::index("by_tag")).run().unwrap().modified, expected);
    }
    drop(session);
}

#[test]
fn a_partial_or_sparse_index_serves_only_filters_that_imply_it() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("sparse", Index::on("rare").sparse()).unwrap();
    let low = Index::on("n").only(Filter::field("n").lt(100));
    collection.create_index("low", low).unwrap();
    let refused = |filter: &str, name: &str| {
        let refused = collection.find(filter).hint(Hint::index(name)).count().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        refused.to_string()
    };
    assert!(refused("{}", "sparse").contains("it is sparse"));
    assert!(refused(r#"{"rare":null}"#, "sparse").contains("it is sparse"));
    assert!(refused(r#"{"n":{"$lt":200}}"#, "low").contains("it is partial"));
    let count = |filter, name| collection.find(filter).hint(Hint::index(name)).count().unwrap();
    assert_eq!(count(r#"{"rare":{"$gte":0}}"#, "sparse"), 300);
    assert_eq!(count(r#"{"n":{"$lt":50}}"#, "low"), 50);
    // Without a hint such an index is left out, and the whole sort is right.
    let all = collection.find("{}").sort("rare").limit(1);
    assert_eq!(all.count().unwrap(), 1);
    assert_eq!(keys(&collection.find("{}").sort("rare")).len(), 3000);
}

#[test]
fn a_sparse_index_of_lengths_lacks_values_without_a_length() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("length", Index::on("length(n)").sparse()).unwrap();
    collection.create_index("lower", Index::on("lower(rare)").sparse()).unwrap();
    assert_eq!(collection.find(r#"{"n":{"$exists":true}}"#).count().unwrap(), 3000);
    let hinted = collection.find(r#"{"n":{"$gte":0}}"#).hint(Hint::index("length"));
    assert!(hinted.count().unwrap_err().to_string().contains("it is sparse"));
    let hinted = collection.find(r#"{"rare":{"$gte":0}}"#).hint(Hint::index("lower"));
    assert_eq!(hinted.count().unwrap(), 300);
}

#[test]
fn an_index_that_is_newer_than_the_snapshot_is_not_used() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    let (before, tx) = (session.db.snapshot(), session.db.begin().unwrap());
    collection.create_index("by_group", Index::on("group")).unwrap();
    collection.delete_many(r#"{"group":7}"#).run().unwrap();
    assert_eq!(collection.find(r#"{"group":7}"#).count().unwrap(), 0);
    assert_eq!(before.find(&collection, r#"{"group":7}"#).count().unwrap(), 10);
    assert_eq!(tx.find(&collection, r#"{"group":7}"#).count().unwrap(), 10);
    let hinted = before.find(&collection, r#"{"group":7}"#).hint(Hint::index("by_group"));
    assert!(hinted.count().unwrap_err().to_string().contains("newer than the snapshot"));
}

#[test]
fn a_transaction_finds_its_own_documents_by_an_index() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    collection.create_index("by_group", Index::on("group").then("n")).unwrap();
    let mut tx = session.db.begin().unwrap();
    tx.put(&collection, 7000, doc!({"group": 7, "n": [1, 2, 9999]})).unwrap();
    tx.delete(&collection, 7).unwrap();
    let find = tx.find(&collection, r#"{"group":7}"#).hint(Hint::index("by_group"));
    assert_eq!(find.count().unwrap(), 10);
    assert_eq!(keys(&find.clone().sort("-n").limit(2)), [7000, 2707]);
    assert!(!keys(&find).contains(&7));
}

#[test]
fn a_filter_that_nothing_can_match_reads_nothing() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_n", Index::on("n")).unwrap();
    let (explain, actual) = analyzed(&collection.find(r#"{"n":{"$gt":5,"$lt":3}}"#).sort("n"));
    assert_eq!((explain.plans[0].access.as_str(), actual.rows), ("nothing", 0), "{explain}");
    assert_eq!(actual.documents, 0);
}

#[test]
fn pages_by_an_index_are_those_of_a_scan() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_group", Index::on("group")).unwrap();
    for sort in ["", "-n"] {
        let find = |hint| {
            let find = collection.find(r#"{"group":{"$lt":9}}"#).hint(hint);
            if sort.is_empty() { find } else { find.sort(sort) }
        };
        let paged = |hint: Hint| {
            let (mut all, mut token) = (Vec::new(), None);
            loop {
                let find = find(hint.clone());
                let find = match &token {
                    Some(token) => find.after(token),
                    None => find,
                };
                let page = find.page(13).unwrap();
                all.extend(page.documents.iter().map(|(key, _)| key.as_i64().unwrap()));
                token = page.next;
                if token.is_none() {
                    return all;
                }
            }
        };
        let scanned = paged(Hint::Scan);
        assert_eq!(scanned.len(), 90);
        assert_eq!(paged(Hint::index("by_group")), scanned);
    }
}

#[test]
fn an_estimate_follows_the_values_that_the_tables_have() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    let skewed = |from: i64| {
        for n in from..from + 6000 {
            let value = if n % 20 == 0 { n } else { 7 };
            collection.put(10_000 + n, doc!({"s": value, "t": n % 4})).unwrap();
        }
    };
    skewed(0);
    collection.create_index("s_t", Index::on("s").then("t")).unwrap();
    let rows = |filter: &str| {
        let find = collection.find(filter).hint(Hint::index("s_t"));
        let explain = find.explain().unwrap();
        assert!(explain.to_string().contains("sampled ones"), "{explain}");
        explain.plans[0].rows
    };
    // Nine in ten of these documents have one value. A rule of thumb would say one in ten.
    let popular = rows(r#"{"s":7}"#);
    assert!((5000..6400).contains(&popular), "{popular}");
    let half = rows(r#"{"s":7,"t":{"$lt":2}}"#);
    assert!((1800..3900).contains(&half), "{half}");
    let statistics = collection.index_statistics("s_t").unwrap();
    assert!(statistics.entries.abs_diff(9000) < 100, "{statistics:?}");
    assert_eq!(statistics.distinct.len(), 2, "{statistics:?}");
    assert_eq!(statistics.first, [None, None]);
    assert_eq!(statistics.last[0], Some(Value::from(5980)));
    assert!(statistics.to_string().contains(" distinct values"), "{statistics}");
    // What is deleted counts no more when the tables have changed.
    collection.delete_many(r#"{"s":7}"#).run().unwrap();
    session.db.flush().unwrap();
    session.db.compact().unwrap();
    skewed(20_001);
    let explain = collection.find(r#"{"s":{"$gt":7}}"#).hint(Hint::index("s_t")).explain().unwrap();
    assert!(explain.plans[0].rows < 1500, "{explain}");
    let refused = collection.index_statistics("none").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[test]
fn queries_plan_again_when_their_index_is_dropped_meanwhile() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.collection("documents").unwrap();
    for n in 0..300 {
        collection.put(n, doc!({ "kind": (n % 3), "n": n })).unwrap();
    }
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..150 {
                collection.create_index("by_kind", Index::on("kind").then("n")).unwrap();
                collection.drop_index("by_kind").unwrap();
            }
            is_done.store(true, std::sync::atomic::Ordering::Release);
        });
        while !is_done.load(std::sync::atomic::Ordering::Acquire) {
            let find = collection.find(r#"{"kind":1}"#).sort("n");
            assert_eq!(find.count().unwrap(), 100);
            assert_eq!(find.page(10).unwrap().documents.len(), 10);
            assert_eq!(find.first().unwrap().unwrap().0, 1.into());
            assert_eq!(find.clone().distinct("kind").unwrap().count(), 1);
        }
    });
}

/// A hint with a filter that nothing can match was refused: "no complete index of that name".
#[test]
fn a_hint_with_a_filter_that_nothing_matches_finds_nothing() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    let before = session.db.snapshot();
    collection.create_index("by_kind", Index::on("kind")).unwrap();
    collection.create_index("sparse", Index::on("rare").sparse()).unwrap();
    let low = Index::on("n").only(Filter::field("n").lt(100));
    collection.create_index("low", low).unwrap();
    let by_tag = Index::on("tags").then("n");
    collection.create_index("by_tag", by_tag).unwrap();
    let impossible = [
        r#"{"kind":{"$in":[]}}"#,
        r#"{"kind":{"$all":[]}}"#,
        r#"{"$nor":[{}]}"#,
        r#"{"$or":[{"other":{"$in":[]}},{"kind":1,"n":{"$in":[]}}]}"#,
        r#"{"$and":[{"n":1},{"$nor":[{"kind":{"$nin":[]}}]}]}"#,
        r#"{"tags":{"$elemMatch":{"$in":[]}}}"#,
        r#"{"kind":{"$gt":5,"$lt":1}}"#,
        r#"{"$and":[{"kind":1},{"kind":2}]}"#,
        r#"{"kind":{"$eq":1,"$ne":1}}"#,
        r#"{"kind":{"$lt":null}}"#,
        r#"{"$key":{"$in":[]},"kind":1}"#,
        r#"{"$key":{"$gt":5,"$lt":3}}"#,
    ];
    for name in ["by_kind", "sparse", "low", "by_tag"] {
        for filter in impossible {
            let hint = || Hint::index(name);
            let find = collection.find(filter).hint(hint());
            assert_eq!(find.run().unwrap().count(), 0, "{filter} by {name}");
            assert_eq!(find.clone().sort("kind").run().unwrap().count(), 0, "{filter} by {name}");
            assert_eq!(find.count().unwrap(), 0, "{filter} by {name}");
            assert_eq!(find.distinct("kind").unwrap().count(), 0);
            assert_eq!(find.group(&Group::by("kind")).unwrap().count(), 0);
            assert_eq!(find.page(5).unwrap().documents.len(), 0);
            assert!(find.explain().unwrap().to_string().contains("no document can match"));
            let old = before.find(&collection, filter).hint(hint());
            match old.count() {
                Ok(found) => assert_eq!(found, 0, "{filter} by {name}, which is newer"),
                // Only an index could tell that the values contradict each other.
                Err(refused) => assert!(refused.to_string().contains("newer"), "{refused}"),
            }
            let tx = session.db.begin().unwrap();
            assert_eq!(tx.find(&collection, filter).hint(hint()).count().unwrap(), 0);
            let patch = Patch::new().set("kind", 9);
            let updated = collection.update_many(filter, &patch).hint(hint()).run().unwrap();
            let deleted = collection.delete_many(filter).hint(hint()).run().unwrap();
            assert_eq!((updated.matched, deleted.matched), (0, 0), "{filter} by {name}");
        }
    }
    // An index that does not exist is an error as before.
    for filter in impossible {
        let missing = || Hint::index("missing");
        let refused = collection.find(filter).hint(missing()).count().unwrap_err();
        assert!(refused.to_string().contains("has no complete index of that name"), "{refused}");
        assert!(collection.delete_many(filter).hint(missing()).run().is_err(), "{filter}");
    }
    // What nothing matches but may be matched is looked for.
    let none = collection.find(r#"{"kind":{"$in":["x",true]}}"#).hint(Hint::index("by_kind"));
    assert_eq!(none.count().unwrap(), 0);
    assert_eq!(collection.count().unwrap(), 3000);
}

/// Each alternative of each `$or` was planned with all of the filter: 800 `$or`s took half a
/// minute. The test would not end.
#[test]
fn a_plan_of_many_alternatives_ends_soon() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_n", Index::on("n")).unwrap();
    collection.create_index("by_group", Index::on("group").then("n")).unwrap();
    collection.create_index("by_tag", Index::on("tags")).unwrap();
    let list =
        |count: u64, of: &dyn Fn(u64) -> String| (0..count).map(of).collect::<Vec<_>>().join(",");
    let or = |n: u64| format!(r#"{{"$or":[{{"n":{n}}},{{"group":{n}}},{{"tags":{n}}}]}}"#);
    let wide = |n: u64| {
        let each = list(60, &|m| format!(r#"{{"n":{}}}"#, n * 60 + m));
        format!(r#"{{"$or":[{each}]}}"#)
    };
    let lists = |n: u64| {
        let values = list(2000, &|m| (n + m).to_string());
        format!(r#"{{"$or":[{{"n":{{"$in":[{values}]}}}},{{"group":{{"$in":[{values}]}}}}]}}"#)
    };
    let ranges = |n: u64| format!(r#"{{"$key":{{"$gt":{n},"$lt":{}}}}}"#, 2 * n + 1);
    for filter in [
        format!(r#"{{"$and":[{}]}}"#, list(1240, &or)),
        format!(r#"{{"$and":[{}]}}"#, list(80, &wide)),
        format!(r#"{{"$and":[{}]}}"#, list(200, &lists)),
        format!(r#"{{"$or":[{}]}}"#, list(1240, &or)),
        format!(r#"{{"$nor":[{}]}}"#, list(1240, &or)),
        format!(r#"{{"$or":[{}]}}"#, list(2400, &ranges)),
    ] {
        let plans = collection.find(filter.as_str()).explain().unwrap();
        assert!(!plans.plans.is_empty());
    }
    // Few are planned as before, also beside a long list.
    let few = format!(
        r#"{{"$or":[{{"n":7}},{{"group":8}}],"kind":{{"$in":[{}]}}}}"#,
        list(5000, &|n| n.to_string())
    );
    let explain = collection.find(few.as_str()).explain().unwrap();
    assert_eq!(explain.plans[0].access, "union of 2 plans", "{explain}");
    let hinted = collection.find(few.as_str()).hint(Hint::Union);
    assert_eq!(
        hinted.count().unwrap(),
        collection.find(few.as_str()).hint(Hint::Scan).count().unwrap()
    );
}
