//! Pages and their tokens.

use super::model;
use crate::support::{hashed, small};
use flagstone::query::{Hint, Page, PageToken};
use flagstone::{Collection, ErrorKind, Find, Index, Space, Value, doc};
use flagstone_testkit::Rng;
use flagstone_testkit::{World, seed};

fn texts(page: &Page) -> Vec<String> {
    page.documents.iter().map(|(key, document)| format!("{key} {document}")).collect()
}

/// Reads all pages, each token through its text.
fn paged<'t>(find: impl Fn() -> Find<'t>, length: u64) -> Vec<String> {
    let (mut all, mut token) = (Vec::new(), None::<String>);
    loop {
        let find = match &token {
            Some(token) => find().after(&token.parse().unwrap()),
            None => find(),
        };
        let page = find.page(length).unwrap();
        assert!(page.documents.len() as u64 <= length);
        all.extend(texts(&page));
        match page.next {
            Some(next) => token = Some(next.to_string()),
            None => return all,
        }
    }
}

fn filled(world: &World) -> (flagstone_testkit::Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("documents").options(hashed(3)).collection().unwrap();
    let rng = &mut Rng::new(seed("pages", 5));
    for key in 0..400_i64 {
        collection.put(key, model::document(rng)).unwrap();
    }
    (session, collection)
}

#[test]
fn pages_together_are_the_whole_query() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    for filter in ["{}", r#"{"n":{"$gte":2}}"#, r#"{"tags":"a"}"#] {
        for sort in ["", "n", "-n", "a,-n", "-tags", "$key", "-$key", "-n,$key", "n,-$key"] {
            let find = || match sort {
                "" => collection.find(filter),
                sort => collection.find(filter).sort(sort),
            };
            let whole = texts(&find().page(1000).unwrap());
            assert!(!whole.is_empty());
            for length in [1, 7, whole.len() as u64] {
                assert_eq!(paged(find, length), whole, "{filter} {sort} {length}");
            }
        }
    }
}

#[test]
fn a_count_after_a_token_is_that_of_the_documents_after_it() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    for sort in ["", "-n", "$key", "-$key", "-n,$key"] {
        let find = || match sort {
            "" => collection.find("{}"),
            sort => collection.find("{}").sort(sort),
        };
        let token = find().page(150).unwrap().next.unwrap();
        assert_eq!(find().after(&token).count().unwrap(), 250, "{sort}");
        assert_eq!(find().after(&token).skip(20).limit(500).count().unwrap(), 230, "{sort}");
    }
}

#[test]
fn pages_continue_after_a_reopen_and_after_their_document_is_gone() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    let whole = texts(&collection.find("{}").sort("n").page(1000).unwrap());
    let page = collection.find("{}").sort("n").page(10).unwrap();
    collection.delete(page.documents[9].0.clone()).unwrap();
    let token = page.next.unwrap().to_string();
    drop(collection);
    session.db.close().unwrap();
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("documents").options(hashed(3)).collection().unwrap();
    let rest = collection.find("{}").sort("n").after(&token.parse().unwrap()).page(1000).unwrap();
    assert_eq!(texts(&rest), whole[10..]);
    // A projection is free to change.
    let rest = collection
        .find("{}")
        .sort("n")
        .project("n")
        .after(&token.parse().unwrap())
        .page(2)
        .unwrap();
    assert_eq!(rest.documents.len(), 2);
}

#[test]
fn a_token_of_another_query_collection_or_database_is_refused() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    let token = collection.find(r#"{"n":{"$gte":2}}"#).sort("n").page(2).unwrap().next.unwrap();
    let refused = |find: Find<'_>| {
        let refused = find.after(&token).page(2).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        refused.to_string()
    };
    assert!(refused(collection.find("{}").sort("n")).contains("another query"));
    assert!(refused(collection.find(r#"{"n":{"$gte":2}}"#)).contains("another query"));
    for sort in ["-n", "$key", "n,-$key"] {
        let other = collection.find(r#"{"n":{"$gte":2}}"#).sort(sort);
        assert!(refused(other).contains("another query"), "{sort}");
    }
    let other = session.db.collection("other").unwrap();
    other.put(1, doc!({"n": 3})).unwrap();
    assert!(refused(other.find(r#"{"n":{"$gte":2}}"#).sort("n")).contains("another query"));
    let elsewhere = World::new(2);
    let (_session, copy) = filled(&elsewhere);
    assert!(refused(copy.find(r#"{"n":{"$gte":2}}"#).sort("n")).contains("is of history"));
}

#[test]
fn a_page_has_neither_limit_nor_skip_and_values_have_no_pages() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    let token: PageToken = collection.find("{}").page(1).unwrap().next.unwrap();
    let kind = |error: flagstone::Error| assert_eq!(error.kind(), ErrorKind::InvalidInput);
    kind(collection.find("{}").limit(3).page(1).unwrap_err());
    kind(collection.find("{}").skip(3).page(1).unwrap_err());
    kind(collection.find("{}").after(&token).distinct("n").err().unwrap());
    kind(collection.find("{}").after(&token).group(&flagstone::Group::by("n")).err().unwrap());
    // It would have no position after it, as if there were no documents.
    let empty = collection.find("{}").page(0).unwrap_err();
    assert_eq!(empty.to_string(), "a page of 0 documents: expected at least 1");
    assert_eq!(collection.find("{}").limit(0).run().unwrap().count(), 0);
    assert_eq!(collection.find("{}").limit(0).count().unwrap(), 0);
    // A cursor and a count may begin after a token, too.
    assert_eq!(collection.find("{}").after(&token).count().unwrap(), 399);
    let rest = collection.find("{}").after(&token).skip(398).run().unwrap();
    assert_eq!(rest.map(|entry| entry.unwrap().0).collect::<Vec<_>>(), [Value::from(399)]);
}

#[test]
fn a_query_that_is_explained_takes_only_its_own_tokens() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    let token = collection.find("{}").sort("n").page(1).unwrap().next.unwrap();
    assert!(collection.find("{}").sort("n").after(&token).explain().is_ok());
    let other = collection.find("{}").sort("-n").after(&token);
    for refused in [other.explain(), other.clone().analyze().explain()] {
        assert!(refused.unwrap_err().to_string().contains("another query"));
    }
    let group = flagstone::Group::by("n").count("count");
    let grouped = other.explain_group(&group).unwrap_err();
    assert!(grouped.to_string().contains("cannot begin after a page token"), "{grouped}");
}

#[test]
fn groups_are_explained_by_what_they_take() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    collection.create_index("by_n", Index::on("n")).unwrap();
    let (find, group) = (collection.find("{}"), flagstone::Group::by("n").count("count"));
    assert_eq!(find.explain().unwrap().plans[0].access, "scan of all documents");
    let explain = find.explain_group(&group).unwrap();
    assert_eq!(explain.plans[0].access, r#"index "by_n""#, "{explain}");
    assert!(explain.actual.is_none());
    let analyzed = find.analyze().explain_group(&group).unwrap();
    assert_eq!(analyzed.actual.unwrap().documents, 0, "{analyzed}");
}

/// A page token of a sort key of a mebibyte and more.
#[test]
fn pages_of_a_sort_by_long_texts_go_on_after_their_tokens() {
    let world = World::new(1);
    let session = world.open(&small().memory_budget(64 << 20)).unwrap();
    let collection = session.db.collection("long").unwrap();
    for n in 0..3 {
        let text = format!("{}{n}", "x".repeat(1 << 20));
        collection.put(n, doc!({ "text": text, "n": n })).unwrap();
    }
    let all = paged(|| collection.find("{}").sort("text").project("n"), 1);
    assert_eq!(all.len(), 3);
}

/// Documents of which many have one sort key.
fn tied(world: &World) -> (flagstone_testkit::Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("documents").options(hashed(3)).collection().unwrap();
    for key in 0..500_i64 {
        let document = doc!({"k": key % 7, "s": key % 3, "pad": "x".repeat(30)});
        collection.put(key, &document).unwrap();
    }
    (session, collection)
}

#[test]
fn a_page_in_the_order_of_an_index_reads_its_documents_alone() {
    let world = World::new(1);
    let (_session, collection) = tied(&world);
    collection.create_index("s_k", Index::on("s").then("-k")).unwrap();
    for (filter, sort, total) in [
        (r#"{"s":1}"#, "-k", 167),
        (r#"{"s":1}"#, "k", 167),
        (r#"{"s":1}"#, "s,-k", 167),
        ("{}", "s,-k", 500),
        ("{}", "-s,k", 500),
        (r#"{"s":2,"k":{"$gte":2,"$lt":5}}"#, "k", 71),
    ] {
        let find = || collection.find(filter).sort(sort).hint(Hint::index("s_k"));
        let whole = texts(&find().page(1000).unwrap());
        assert_eq!(whole.len(), total, "{filter} {sort}");
        assert_eq!(paged(find, 9), whole, "{filter} {sort}");
        // Far from the beginning as near to it.
        let page = find().page(total as u64 - 9).unwrap();
        let after = find().after(&page.next.unwrap()).limit(5);
        let explain = after.analyze().explain().unwrap();
        let actual = explain.actual.unwrap();
        assert!(!explain.sorts && actual.rows == 5, "{filter} {sort}: {explain}");
        assert!(actual.documents <= 6 && actual.entries <= 9, "{filter} {sort}: {explain}");
        assert_eq!(
            find().after(&find().page(total as u64 - 9).unwrap().next.unwrap()).count().unwrap(),
            9
        );
        // Without the index the rest is sorted in memory, and is the same.
        let page = find().page(100.min(total as u64 / 2)).unwrap();
        let rest = collection.find(filter).sort(sort).hint(Hint::Scan);
        let rest = texts(&rest.after(&page.next.unwrap()).page(1000).unwrap());
        assert_eq!(rest, whole[page.documents.len()..], "{filter} {sort}");
    }
}

#[test]
fn pages_that_were_sorted_in_memory_continue_in_an_index() {
    let world = World::new(1);
    let (_session, collection) = tied(&world);
    let find = || collection.find("{}").sort("k");
    let whole = texts(&find().page(1000).unwrap());
    let page = find().page(77).unwrap();
    collection.create_index("k", Index::on("k")).unwrap();
    let after = find().after(page.next.as_ref().unwrap());
    assert_eq!(texts(&after.page(1000).unwrap()), whole[77..]);
    let actual = after.limit(3).analyze().explain().unwrap().actual.unwrap();
    assert!(actual.documents <= 4, "{actual:?}");
    // The other direction has the keys of one value in reverse, and goes on so without the index.
    let find = || collection.find("{}").sort("-k");
    let page = find().page(77).unwrap();
    let rest = find().after(page.next.as_ref().unwrap()).page(1000).unwrap();
    assert_eq!(rest.documents.len(), 500 - 77);
    collection.drop_index("k").unwrap();
    let again = find().after(page.next.as_ref().unwrap()).page(1000).unwrap();
    assert_eq!(texts(&again), texts(&rest));
}

#[test]
fn a_position_that_only_an_index_has_is_refused_without_it() {
    let world = World::new(1);
    let (_session, collection) = tied(&world);
    collection.create_index("k_s", Index::on("k").then("s")).unwrap();
    let find = || collection.find("{}").sort("-k").hint(Hint::index("k_s"));
    let whole = texts(&find().page(1000).unwrap());
    assert_eq!(paged(find, 31), whole);
    let token = find().page(31).unwrap().next.unwrap();
    let kind = |find: Find<'_>| {
        let refused = find.after(&token).page(5).unwrap_err();
        assert!(refused.to_string().contains("the order of an index that is gone"), "{refused}");
        refused.kind()
    };
    assert_eq!(kind(collection.find("{}").sort("-k").hint(Hint::Scan)), ErrorKind::InvalidInput);
    // An array on a path ends the order.
    collection.put(1000, doc!({"k": [1, 2]})).unwrap();
    assert_eq!(kind(collection.find("{}").sort("-k")), ErrorKind::InvalidInput);
    collection.drop_index("k_s").unwrap();
    assert_eq!(kind(collection.find("{}").sort("-k")), ErrorKind::InvalidInput);
}

#[test]
fn a_unique_index_and_missing_values_have_positions_too() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.collection("documents").unwrap();
    for key in 0..60_i64 {
        let value = match key % 4 {
            0 => Value::from(key),
            1 => Value::from(format!("text {key}")),
            2 => Value::number(&format!("{key}.5")).unwrap(),
            _ => doc!({"m": key}),
        };
        collection.put(key, doc!({"u": value, "v": 1})).unwrap();
    }
    collection.put(100, doc!({"v": 1})).unwrap();
    collection.put(101, doc!({"u": null, "v": 1})).unwrap();
    collection.create_index("u", Index::on("-u").unique()).unwrap();
    for sort in ["u", "-u"] {
        let find = || collection.find("{}").sort(sort).project("u").hint(Hint::index("u"));
        let scanned = collection.find("{}").sort(sort).project("u").hint(Hint::Scan);
        let whole = texts(&scanned.page(1000).unwrap());
        assert_eq!(paged(find, 4), whole, "{sort}");
    }
}

#[test]
fn a_page_without_a_sort_has_the_order_of_keys_through_an_index_in_another_order() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("documents").options(hashed(3)).collection().unwrap();
    for key in 0..500_i64 {
        collection.put(key, doc!({ "n": (499 - key), "s": "x" })).unwrap();
    }
    collection.create_index("n", Index::on("n")).unwrap();
    let filter = r#"{"n":{"$gte":100}}"#;
    // With its documents, and covered.
    for paths in [None, Some("n")] {
        let find = |hint: Hint| {
            let find = collection.find(filter).hint(hint);
            paths.map_or(find.clone(), |paths| find.project(paths))
        };
        let by_index = || find(Hint::index("n"));
        assert!(by_index().explain().unwrap().plans[0].access.starts_with("index \"n\""));
        let page = by_index().page(1000).unwrap();
        let keys: Vec<i64> = page.documents.iter().map(|(key, _)| key.as_i64().unwrap()).collect();
        assert!(keys.iter().copied().eq(0..400), "{paths:?}: {keys:?}");
        let whole = texts(&page);
        for length in [1, 7, 399] {
            assert_eq!(paged(by_index, length), whole, "{paths:?} {length}");
        }
        // A page of the scan continues in the index, and the other way round.
        for (first, then) in [(Hint::Scan, Hint::index("n")), (Hint::index("n"), Hint::Scan)] {
            let token = find(first).page(150).unwrap().next.unwrap();
            let rest = find(then).after(&token).page(1000).unwrap();
            assert_eq!(texts(&rest), whole[150..], "{paths:?}");
        }
    }
}

/// Its length as 16 bits was 0 when it was turned for a page that goes back.
#[test]
fn a_page_goes_on_at_a_document_with_the_longest_key_by_any_plan() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let collection = session.db.collection("documents").unwrap();
    collection.create_index("n", Index::on("n").unique()).unwrap();
    // The sort key has one byte before the text and one after it.
    let longest = "k".repeat(65_533);
    assert!(collection.put("k".repeat(65_534), doc!({ "n": 9 })).is_err());
    collection.put(&longest, doc!({ "n": 0 })).unwrap();
    collection.put("a", doc!({ "n": 1 })).unwrap();
    collection.put("b", doc!({ "n": 2 })).unwrap();
    let find = || collection.find("{}").sort("-n");
    let first = find().page(2).unwrap();
    let token = first.next.unwrap();
    for hint in [Hint::Scan, Hint::index("n")] {
        let rest = find().after(&token).hint(hint).page(10).unwrap();
        let keys: Vec<_> = rest.documents.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(keys, [Value::from(longest.as_str())]);
    }
}
