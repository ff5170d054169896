//! Sorts by the primary key: alone, and after fields.

use super::found::keys;
use crate::support::{hashed, small};
use flagstone::query::{Actual, Direction, Hint, SortSpec};
use flagstone::{
    Collection, Document, ErrorKind, Find, Group, Index, KeyspaceOptions, Routing, Space, Value,
    doc,
};
use flagstone_doc::sort_key;
use flagstone_testkit::{Session, World};

const COUNT: i64 = 1000;

/// A collection of which some is in tables and some is not.
fn filled(world: &World, options: KeyspaceOptions) -> (Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("posts").options(options).collection().unwrap();
    for n in 0..COUNT {
        if n == 700 {
            session.db.flush().unwrap();
        }
        // Not in the order of the keys.
        let key = n * 37 % COUNT;
        let document = doc!({"n": (key * 7 % 100), "kind": (key % 4), "t": [(key % 3), 9]});
        collection.put(key, &document).unwrap();
    }
    (session, collection)
}

/// By hash in one partition and in several, and by ranges of the key.
fn routings() -> Vec<KeyspaceOptions> {
    let bound = |key: i64| {
        let mut bound = Vec::new();
        sort_key::encode(&key.into(), Direction::Ascending, &mut bound);
        bound
    };
    let ranges = Routing::Range(vec![bound(250), bound(251), bound(800)]);
    vec![hashed(1), hashed(5), KeyspaceOptions::new().routing(ranges), KeyspaceOptions::new()]
}

fn paged(find: &Find<'_>, length: u64) -> Vec<i64> {
    let (mut keys, mut token) = (Vec::new(), None::<String>);
    loop {
        let find = match &token {
            Some(token) => find.clone().after(&token.parse().unwrap()),
            None => find.clone(),
        };
        let page = find.page(length).unwrap();
        keys.extend(page.documents.iter().map(|(key, _)| key.as_i64().unwrap()));
        match page.next {
            Some(next) => token = Some(next.to_string()),
            None => return keys,
        }
    }
}

fn analyzed(find: &Find<'_>) -> (String, Actual) {
    let explain = find.clone().analyze().explain().unwrap();
    (explain.to_string(), explain.actual.unwrap())
}

/// Compares a query in both orders of the key, by each plan, whole and in parts.
fn compare(find: &Find<'_>, hints: &[Option<Hint>], context: &str) {
    let mut expected = keys(find);
    expected.sort_unstable();
    for (sort, is_reverse) in [("$key", false), ("-$key", true)] {
        if is_reverse {
            expected.reverse();
        }
        for hint in hints {
            let find = find.clone().sort(sort).memory(1);
            let find = hint.clone().map_or(find.clone(), |hint| find.hint(hint));
            let context = format!("{context} by {hint:?} sorted by {sort}");
            let found = match find.run() {
                Ok(_) => keys(&find),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.starts_with("the hint asks for"), "{context}: {text}");
                    continue;
                }
            };
            assert_eq!(found, expected, "{context}");
            let (explain, actual) = analyzed(&find);
            let order =
                format!("order: primary key{}\n", ["", ", descending"][usize::from(is_reverse)]);
            assert!(explain.contains(&order), "{context}: {explain}");
            assert_eq!(actual.rows, expected.len() as u64, "{context}");
            let part: Vec<i64> = expected.iter().copied().skip(3).take(5).collect();
            assert_eq!(keys(&find.clone().skip(3).limit(5)), part, "{context}");
            let first = find.first().unwrap().map(|(key, _)| key.as_i64().unwrap());
            assert_eq!(first, expected.first().copied(), "{context}");
            assert_eq!(keys(&find.clone().project("kind,n")), expected, "{context}");
            assert_eq!(paged(&find, 1 + expected.len() as u64 / 3), expected, "{context}");
            assert_eq!(find.count().unwrap(), expected.len() as u64, "{context}");
        }
    }
}

#[test]
fn every_plan_has_the_order_of_the_primary_key() {
    for (at, options) in routings().into_iter().enumerate() {
        let world = World::new(1);
        let (session, collection) = filled(&world, options);
        collection.create_index("kind", Index::on("kind")).unwrap();
        collection.create_index("n", Index::on("-n").then("kind")).unwrap();
        collection.create_index("t", Index::on("t")).unwrap();
        let hints = [
            None,
            Some(Hint::Scan),
            Some(Hint::index("kind")),
            Some(Hint::index("n")),
            Some(Hint::index("t")),
            Some(Hint::Union),
            Some(Hint::Intersection),
        ];
        let before = session.db.snapshot();
        collection.delete(5).unwrap();
        collection.put(2000, doc!({"kind": 2, "n": 3, "t": [1]})).unwrap();
        let mut tx = session.db.begin().unwrap();
        tx.delete(&collection, 6).unwrap();
        tx.put(&collection, 2001, doc!({"kind": 2, "n": 3, "t": [2]})).unwrap();
        for filter in [
            "{}",
            r#"{"kind":2}"#,
            r#"{"kind":2,"$key":{"$gte":100,"$lt":400}}"#,
            r#"{"n":{"$gte":10,"$lt":40}}"#,
            r#"{"n":{"$gte":90},"kind":{"$in":[1,3]}}"#,
            r#"{"t":{"$gte":1}}"#,
            r#"{"$key":{"$in":[7,900,5,2000,3000]}}"#,
            r#"{"$or":[{"$key":{"$lt":20}},{"$key":{"$gt":980}}]}"#,
            r#"{"$or":[{"kind":1},{"n":{"$lt":5}},{"$key":8}]}"#,
            r#"{"$key":{"$gt":5,"$lt":3}}"#,
        ] {
            // Each routing has other ones of each.
            let source = (at + filter.len()) % 3;
            let find = match source {
                0 => collection.find(filter),
                1 => before.find(&collection, filter),
                _ => tx.find(&collection, filter),
            };
            compare(&find, &hints, &format!("{filter} in {at}, {source}"));
        }
    }
}

#[test]
fn a_sort_by_the_primary_key_reads_no_more_than_its_documents() {
    for options in routings() {
        let world = World::new(1);
        let (session, collection) = filled(&world, options);
        let tx = session.db.begin().unwrap();
        for find in [collection.find("{}"), tx.find(&collection, "{}")] {
            for (sort, expected) in [("-$key,n", vec![999, 998, 997]), ("$key,n", vec![0, 1, 2])] {
                let find = find.clone().sort(sort).limit(3);
                assert_eq!(keys(&find), expected);
                let (explain, actual) = analyzed(&find);
                assert_eq!((actual.documents, actual.entries), (3, 0), "{explain}");
                assert!(explain.contains("plan: scan of all documents"), "{explain}");
            }
            let page = find.clone().sort("-$key").page(500).unwrap();
            let rest = find.clone().sort("-$key").after(&page.next.unwrap()).limit(4);
            assert_eq!(keys(&rest), [499, 498, 497, 496]);
            assert_eq!(analyzed(&rest).1.documents, 4);
        }
        let bounded = collection.find(r#"{"$key":{"$gte":300,"$lt":600}}"#).sort("-$key").limit(2);
        assert_eq!(keys(&bounded), [599, 598]);
        let (explain, actual) = analyzed(&bounded);
        assert_eq!(actual.documents, 2, "{explain}");
        assert!(explain.contains("plan: scan of a range of keys"), "{explain}");
    }
}

#[test]
fn an_index_of_one_value_is_read_in_either_order_of_the_key() {
    let world = World::new(1);
    let (_session, collection) = filled(&world, hashed(3));
    collection.create_index("kind", Index::on("kind")).unwrap();
    for (sort, expected) in [("-$key", [998, 994, 990]), ("$key", [2, 6, 10])] {
        let find = || collection.find(r#"{"kind":2}"#).sort(sort).hint(Hint::index("kind"));
        assert_eq!(keys(&find().limit(3)), expected);
        let (explain, actual) = analyzed(&find().limit(3));
        assert!(explain.contains("has the order of the primary key"), "{explain}");
        assert_eq!((actual.documents, actual.entries), (3, 3), "{explain}");
        // Far from the beginning, and covered.
        let page = find().project("kind").page(200).unwrap();
        let rest = find().project("kind").after(&page.next.unwrap()).limit(5);
        let (explain, actual) = analyzed(&rest);
        assert_eq!((actual.rows, actual.documents, actual.entries), (5, 0, 5), "{explain}");
        assert!(explain.contains("covers the query"), "{explain}");
    }
    // Of a range the keys are sorted, and only the first documents are read.
    let find = collection.find(r#"{"kind":{"$gte":2}}"#).sort("-$key").hint(Hint::index("kind"));
    assert_eq!(keys(&find.clone().limit(3)), [999, 998, 995]);
    let (explain, actual) = analyzed(&find.limit(3));
    assert!(explain.contains("its keys are sorted"), "{explain}");
    assert_eq!((actual.documents, actual.entries), (3, 500), "{explain}");
}

/// Few keys that an index finds are sorted; for many, the collection is read in the order of the
/// keys until there are enough.
#[test]
fn the_planner_sorts_few_keys_and_scans_for_many() {
    let world = World::new(1);
    let (_session, collection) = filled(&world, hashed(3));
    collection.create_index("n", Index::on("n")).unwrap();
    for (filter, sort, access) in [
        (r#"{"n":{"$gte":98}}"#, "-$key", r#"plan: index "n""#),
        (r#"{"n":{"$gte":98}}"#, "$key", r#"plan: index "n""#),
        (r#"{"n":{"$gte":10}}"#, "-$key", "plan: scan of all documents"),
        (r#"{"n":{"$gte":10}}"#, "$key", "plan: scan of all documents"),
    ] {
        let find = collection.find(filter).sort(sort).limit(10);
        let (explain, actual) = analyzed(&find);
        assert!(explain.starts_with(access), "{filter} {sort}: {explain}");
        assert!(actual.documents <= 20, "{filter} {sort}: {explain}");
    }
}

/// The entries of one key are in the order of the primary keys, so an index that is read in reverse
/// has them descending. It was used whatever the sort says of them.
#[test]
fn an_index_has_the_order_if_its_ties_have_the_direction_of_the_key() {
    let world = World::new(1);
    let (_session, collection) = filled(&world, hashed(3));
    collection.create_index("n", Index::on("n")).unwrap();
    collection.create_index("kind_n", Index::on("kind").then("-n")).unwrap();
    for (filter, sort, index, sorts) in [
        ("{}", "n,$key", "n", false),
        ("{}", "n,-$key", "n", true),
        ("{}", "-n,-$key", "n", false),
        ("{}", "-n,$key", "n", true),
        (r#"{"kind":1}"#, "-n,$key", "kind_n", false),
        (r#"{"kind":1}"#, "n,-$key", "kind_n", false),
        (r#"{"kind":1}"#, "n,$key", "kind_n", true),
        (r#"{"kind":1}"#, "kind,-n,$key", "kind_n", false),
        // Its second field decides before the key.
        ("{}", "kind,$key", "kind_n", true),
        ("{}", "kind", "kind_n", false),
        (r#"{"kind":1,"n":7}"#, "n,-$key", "kind_n", false),
        (r#"{"kind":1,"n":7}"#, "n,$key", "kind_n", false),
    ] {
        let find = collection.find(filter).sort(sort);
        let hinted = find.clone().hint(Hint::index(index));
        let explain = hinted.explain().unwrap();
        assert_eq!(explain.sorts, sorts, "{filter} {sort}: {explain}");
        let scanned = keys(&find.clone().hint(Hint::Scan));
        let whole = paged(&hinted, 400);
        if sort.contains("$key") {
            // The whole order is told, so plans agree.
            assert_eq!(keys(&find), scanned, "{filter} {sort}");
            assert_eq!(keys(&hinted), scanned, "{filter} {sort}");
            assert_eq!(whole, scanned, "{filter} {sort}");
            let page = hinted.page(9).unwrap();
            if let Some(token) = page.next {
                let rest = keys(&find.after(&token).hint(Hint::Scan));
                assert_eq!(rest, scanned[9..], "{filter} {sort}");
            }
        } else {
            assert_eq!(whole.len(), scanned.len());
        }
    }
}

/// Documents with a unique value have no ties.
#[test]
fn a_unique_index_has_the_order_whatever_the_direction_of_the_key() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.collection("unique").unwrap();
    for key in 0..200_i64 {
        collection.put(key, doc!({ "u": (key * 77 % 200) })).unwrap();
    }
    collection.create_index("u", Index::on("u").unique()).unwrap();
    for sort in ["u,$key", "u,-$key", "-u,$key", "-u,-$key"] {
        let find = collection.find("{}").sort(sort);
        let hinted = find.clone().hint(Hint::index("u"));
        let explain = hinted.explain().unwrap();
        assert!(!explain.sorts, "{sort}: {explain}");
        let whole = keys(&find.clone().hint(Hint::Scan));
        assert_eq!(paged(&hinted, 7), whole, "{sort}");
        // A page of one plan continues in another one.
        let token = hinted.page(50).unwrap().next.unwrap();
        assert_eq!(keys(&find.clone().hint(Hint::Scan).after(&token)), whole[50..], "{sort}");
        let token = find.clone().hint(Hint::Scan).page(50).unwrap().next.unwrap();
        assert_eq!(keys(&hinted.after(&token)), whole[50..], "{sort}");
    }
}

#[test]
fn keys_of_all_types_are_read_in_their_order() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("mixed").options(hashed(3)).collection().unwrap();
    let mut expected = vec![
        Value::Null,
        true.into(),
        (-7).into(),
        Value::number("7.25").unwrap(),
        "".into(),
        "ab".into(),
        "abc\0d".into(),
        // About the longest key that an index has.
        "k".repeat(65_500).into(),
        doc!([1, "ab"]),
        doc!({"a": 1}),
    ];
    for key in &expected {
        collection.put(key.clone(), doc!({"n": 1})).unwrap();
    }
    collection.create_index("n", Index::on("n")).unwrap();
    collection.create_index("m", Index::on("m")).unwrap();
    expected.sort();
    expected.reverse();
    for (filter, hint) in [
        ("{}", Hint::Scan),
        (r#"{"n":1}"#, Hint::index("n")),
        (r#"{"n":{"$gte":0}}"#, Hint::index("n")),
        (r#"{"m":null}"#, Hint::index("m")),
        (r#"{"$or":[{"n":1},{"m":2}]}"#, Hint::Union),
    ] {
        let find = collection.find(filter).hint(hint).sort("-$key");
        let found: Vec<Value> = find.run().unwrap().map(|entry| entry.unwrap().0).collect();
        assert_eq!(found, expected, "{filter}");
        let page = find.page(3).unwrap();
        let rest = find.after(&page.next.unwrap()).run().unwrap();
        let rest: Vec<Value> = rest.map(|entry| entry.unwrap().0).collect();
        assert_eq!(rest, expected[3..], "{filter}");
    }
}

#[test]
fn a_sort_is_given_as_a_value_too_and_groups_have_no_key() {
    let world = World::new(1);
    let (_session, collection) = filled(&world, hashed(3));
    let built = SortSpec::new([
        (flagstone::doc::FieldPath::parse("kind").unwrap(), Direction::Descending),
        (flagstone::doc::FieldPath::primary_key(), Direction::Descending),
    ]);
    let built = collection.find("{}").sort(built.unwrap()).limit(3);
    assert_eq!(keys(&built), [999, 995, 991]);
    let text = collection.find("{}").sort(r#"{"kind":-1,"$key":-1,"n":1}"#).limit(3);
    assert_eq!(keys(&text), [999, 995, 991]);
    let plan = collection.find("{}").sort("-$key").explain().unwrap().to_value();
    let order = plan.get("order").and_then(Value::as_str);
    assert_eq!(order, Some("primary key, descending"), "{plan}");
    let group = Group::by("kind").count("$key");
    for sort in ["$key", "-count,$key"] {
        let find = collection.find("{}").sort(sort);
        for refused in [find.group(&group).err(), find.explain_group(&group).err()] {
            let refused = refused.unwrap();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
            assert!(refused.to_string().contains("groups have no primary key"), "{refused}");
        }
    }
    // A field of this name is another one.
    let field = collection.find("{}").sort("-$['$key'],kind");
    assert_eq!(field.group(&group).unwrap().count(), 4);
    let document = Document::from_json(r#"{"$key":-1,"kind":9}"#).unwrap();
    collection.put(500, &document).unwrap();
    assert_eq!(keys(&collection.find("{}").sort("-$['$key']").limit(1)), [500]);
    assert_eq!(keys(&collection.find("{}").sort("-$key").limit(1)), [999]);
}

/// Small skips read an index on `status` backwards, so documents of one value came by descending
/// keys; large ones were cheaper as a scan with a sort, which had them by ascending keys. So the
/// pages of 20,000 documents had 18,000 of them, and others twice.
#[test]
fn pages_by_skip_have_every_document_whatever_the_plan_of_each() {
    let dir = tempfile::tempdir().unwrap();
    let db = flagstone::Database::open(dir.path()).unwrap();
    let all = db.collection("all").unwrap();
    for n in 0..2000 {
        let text = format!(r#"{{"status":{},"kind":{},"pad":"xxxx"}}"#, n % 5, n % 7);
        all.put(n, flagstone::Json(text)).unwrap();
    }
    let indexes = [
        ("status", Index::on("status")),
        ("kind_status", Index::on("-kind").then("status")),
        ("lengths", Index::on("status").then("-length(pad)").then("kind")),
    ];
    let sorts = ["status", "-status", "kind", "-kind", "-kind,-status", "kind,status"];
    for (name, index) in indexes {
        all.create_index(name, index).unwrap();
        let mut plans = std::collections::BTreeSet::new();
        for (sort, project) in sorts.iter().flat_map(|sort| [(sort, ""), (sort, "kind,status")]) {
            let find = || {
                let find = all.find("{}").sort(*sort);
                if project.is_empty() { find } else { find.project(project) }
            };
            let keys = |find: flagstone::Find<'_>| -> Vec<Value> {
                find.run().unwrap().map(|entry| entry.unwrap().0).collect()
            };
            let mut found = Vec::new();
            for skip in (0..2000).step_by(100) {
                let page = find().skip(skip).limit(100);
                plans.insert(page.explain().unwrap().sorts);
                found.extend(keys(page));
            }
            assert_eq!(found, keys(find()), "{sort} {project} with {name}");
            assert_eq!(found, keys(find().hint(Hint::Scan)), "{sort} {project} with {name}");
            found.sort();
            assert_eq!(found, (0..2000).map(Value::from).collect::<Vec<_>>());
        }
        assert_eq!(plans.len(), 2, "both an index and a sort served");
    }
}
