//! Queries that an index covers, and documents that are read because its entries do not prove
//! enough.

use crate::support::{hashed, small};
use flagstone::doc::JsonMode;
use flagstone::query::{Actual, Hint};
use flagstone::{Collection, Expires, Find, Group, Index, Json, Patch, Result, Space, Value, doc};
use flagstone_testkit::{Session, World};
use std::time::Duration;

fn opened(world: &World) -> (Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("comments").options(hashed(2)).collection().unwrap();
    (session, collection)
}

fn fill(collection: &Collection, count: i64) {
    for n in 0..count {
        let document = doc!({"text": "x".repeat(40), "kind": format!("k{}", n % 7), "n": n,
            "by": {"name": format!("user {}", n % 5)}});
        collection.put(n, &document).unwrap();
    }
}

fn actual(find: &Find<'_>) -> Actual {
    find.clone().analyze().explain().unwrap().actual.unwrap()
}

fn lines(find: &Find<'_>) -> Vec<String> {
    let (mut cursor, mut lines) = (find.run().unwrap(), Vec::new());
    while cursor.advance().unwrap() {
        let mut json = Vec::new();
        cursor.append_json(JsonMode::Plain, &mut json).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert_eq!(cursor.document().unwrap().to_json().unwrap(), json);
        lines.push(json);
    }
    lines
}

#[test]
fn a_projection_of_the_fields_of_an_index_reads_no_document() {
    let world = World::new(1);
    let (_session, collection) = opened(&world);
    fill(&collection, 2000);
    collection.create_index("by_kind", Index::on("kind").then("-n").then("by.name")).unwrap();
    for (filter, project, sort, first) in [
        (r#"{"kind":"k3"}"#, "kind,n", "", r#"{"kind":"k3","n":1998}"#),
        (r#"{"kind":"k3"}"#, "n", "n", r#"{"n":3}"#),
        (r#"{"kind":"k3"}"#, "n,by.name", "-n", r#"{"n":1998,"by":{"name":"user 3"}}"#),
        (r#"{"kind":"k3","n":{"$mod":[2,0]}}"#, "kind", "", r#"{"kind":"k3"}"#),
        (r#"{"kind":"k3","by.name":"user 1"}"#, "n", "", r#"{"n":1991}"#),
        // A sort that the index does not have is done in memory.
        (r#"{"kind":{"$gte":"k3"}}"#, "n", "by.name,n", r#"{"n":5}"#),
    ] {
        let find = collection.find(filter).project(project).hint(Hint::index("by_kind"));
        let find = if sort.is_empty() { find } else { find.sort(sort) };
        let read = actual(&find);
        assert_eq!(read.documents, 0, "{filter} {project} {sort}");
        let found = lines(&find);
        assert_eq!(found[0], first, "{filter} {project} {sort}");
        assert_eq!(read.rows, found.len() as u64);
        let scanned = lines(&find.clone().hint(Hint::Scan));
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        assert_eq!(sorted(found), sorted(scanned), "{filter} {project} {sort}");
    }
    // The planner sees that nothing but entries is read, and prefers it to a scan.
    let explain = collection.find("{}").project("kind,n").explain().unwrap();
    assert_eq!(explain.plans[0].access, "index \"by_kind\"", "{explain}");
    assert!(explain.to_string().contains("covers the query, so no document is read"), "{explain}");
    let whole = actual(&collection.find(r#"{"kind":"k3"}"#).project("kind,text"));
    assert!(whole.documents > 0);
}

#[test]
fn documents_that_an_entry_does_not_prove_are_read() {
    let long = "y".repeat(3000);
    // (document, what is projected, whether the document is read)
    for (json, projected, is_read) in [
        (r#"{"k":1,"o":{"x":2},"z":3}"#.to_owned(), r#"{"k":1,"o":{"x":2}}"#.to_owned(), false),
        (r#"{"k":1.5,"o":{"x":null}}"#.into(), r#"{"k":1.5,"o":{"x":null}}"#.into(), false),
        // The text of a number is kept, and so are the fields of a map.
        (r#"{"k":1.50,"o":{"x":2}}"#.into(), r#"{"k":1.50,"o":{"x":2}}"#.into(), true),
        (r#"{"k":1e3,"o":{"x":2}}"#.into(), r#"{"k":1e3,"o":{"x":2}}"#.into(), true),
        (
            r#"{"k":{"b":1,"a":2},"o":{"x":2}}"#.into(),
            r#"{"k":{"b":1,"a":2},"o":{"x":2}}"#.into(),
            true,
        ),
        // A missing field of a map is not a missing map.
        (r#"{"k":1,"o":{"y":2}}"#.into(), r#"{"k":1,"o":{}}"#.into(), true),
        (r#"{"k":1,"o":7}"#.into(), r#"{"k":1}"#.into(), true),
        (r#"{"k":1}"#.into(), r#"{"k":1}"#.into(), true),
        (r#"{"o":{"x":2}}"#.into(), r#"{"o":{"x":2}}"#.into(), false),
        // A document that is no map is kept as it is.
        ("5".into(), "5".into(), true),
        (r#""text""#.into(), r#""text""#.into(), true),
        (r#"{"z":1}"#.into(), "{}".into(), true),
        // A value over a kilobyte is cut in the index.
        (
            format!(r#"{{"k":"{long}","o":{{"x":2}}}}"#),
            format!(r#"{{"k":"{long}","o":{{"x":2}}}}"#),
            true,
        ),
    ] {
        let world = World::new(1);
        let (_session, collection) = opened(&world);
        collection.put(1, Json(&json)).unwrap();
        collection.create_index("k_o", Index::on("k").then("-o.x")).unwrap();
        let find = collection.find("{}").project("k,o.x").hint(Hint::index("k_o"));
        assert_eq!(lines(&find), [projected], "{json}");
        assert_eq!(actual(&find).documents, u64::from(is_read), "{json}");
        assert_eq!(actual(&find).entries, 1, "{json}");
    }
}

#[test]
fn an_index_whose_documents_have_arrays_covers_no_projection() {
    let world = World::new(1);
    let (session, collection) = opened(&world);
    fill(&collection, 20);
    collection.create_index("by_kind", Index::on("kind").then("n")).unwrap();
    let find = || collection.find(r#"{"kind":"k1"}"#).project("n").hint(Hint::index("by_kind"));
    assert_eq!(actual(&find()).documents, 0);
    // In a transaction with own writes it is not known what these are like.
    let mut tx = session.db.begin().unwrap();
    tx.put(&collection, 1, doc!({"kind": "k1", "n": [1, 2]})).unwrap();
    let own = tx.find(&collection, r#"{"kind":"k1"}"#).project("n").hint(Hint::index("by_kind"));
    assert!(lines(&own).contains(&r#"{"n":[1,2]}"#.to_owned()));
    drop(tx);
    collection.put(1, doc!({"kind": "k1", "n": [1, 2]})).unwrap();
    let mut found = lines(&find());
    found.sort();
    assert_eq!(found, [r#"{"n":15}"#, r#"{"n":8}"#, r#"{"n":[1,2]}"#]);
    assert_eq!(actual(&find()).documents, 3);
}

#[test]
fn groups_and_distinct_values_of_an_index_read_no_document() {
    let world = World::new(1);
    let (_session, collection) = opened(&world);
    fill(&collection, 1000);
    collection.create_index("by_kind", Index::on("kind").then("-n").then("by.name")).unwrap();
    let all = || collection.find(r#"{"n":{"$lt":700}}"#).hint(Hint::index("by_kind"));
    for text in [
        "kind: count as c, sum(n) as s, min(n) as lo, max(by.name) as hi, avg(n) as mean",
        "by.name, kind: count as c",
        "n: max(kind) as k",
        ": count as c, min(by.name) as lo",
    ] {
        let group = Group::parse(text).unwrap();
        let found: Result<Vec<Value>> = all().memory(1).group(&group).unwrap().collect();
        let scan = all().hint(Hint::Scan);
        let scanned: Result<Vec<Value>> = scan.group(&group).unwrap().collect();
        assert_eq!(found.unwrap(), scanned.unwrap(), "{text}");
        let read = all().analyze().explain_group(&group).unwrap().actual.unwrap();
        assert_eq!((read.documents, read.entries, read.matched), (0, 1000, 700), "{text}");
    }
    // Another field needs the documents.
    let group = Group::parse("kind: max(text) as t").unwrap();
    let read = all().analyze().explain_group(&group).unwrap().actual.unwrap();
    assert_eq!(read.documents, 1000);
    let names: Result<Vec<Value>> = all().distinct("by.name").unwrap().collect();
    assert_eq!(
        names.unwrap(),
        (0..5).map(|n| Value::from(format!("user {n}"))).collect::<Vec<_>>()
    );
}

#[test]
fn what_accumulates_keeps_the_text_of_numbers() {
    let world = World::new(1);
    let (_session, collection) = opened(&world);
    for (key, json) in [
        (1, r#"{"k":"a","n":1.10}"#),
        (2, r#"{"k":"a","n":2}"#),
        (3, r#"{"k":"b","n":null}"#),
        (4, r#"{"k":"b"}"#),
        (5, r#"{"n":"text"}"#),
        (6, r#"{"k":null,"n":1e400}"#),
    ] {
        collection.put(key, Json(json)).unwrap();
    }
    collection.create_index("k_n", Index::on("k").then("n")).unwrap();
    let group = Group::parse("k: count as c, sum(n) as s, min(n) as lo, max(n) as hi").unwrap();
    let texts = |hint: Hint| -> Vec<String> {
        let groups = collection.find("{}").hint(hint).group(&group).unwrap();
        groups.map(|group| group.unwrap().to_string()).collect()
    };
    assert_eq!(texts(Hint::index("k_n")), texts(Hint::Scan));
    assert_eq!(texts(Hint::index("k_n"))[1], r#"{"k":"a","c":2,"s":3.10,"lo":1.10,"hi":2}"#);
    let find = collection.find("{}").hint(Hint::index("k_n"));
    let read = find.clone().analyze().explain_group(&group).unwrap().actual.unwrap();
    assert_eq!(read.documents, 2, "1.10 and 1e400 differ from their keys");
    let counts = find.analyze().explain_group(&Group::by("n").count("c")).unwrap();
    assert_eq!(counts.actual.unwrap().documents, 0, "groups have the shortest numbers anyway");
}

#[test]
fn distinct_values_come_from_elements_of_arrays_too() {
    let world = World::new(1);
    let (session, collection) = opened(&world);
    let long = "z".repeat(2000);
    for (key, tags) in [
        (1, doc!(["a", "b", 1.50])),
        (2, doc!([])),
        (3, doc!("b")),
        (4, Value::Null),
        (5, doc!([{"x": 1}, null, (long.clone())])),
    ] {
        collection.put(key, doc!({"tags": tags, "n": key})).unwrap();
    }
    collection.put(6, Json("{}")).unwrap();
    collection.create_index("tags", Index::on("-tags")).unwrap();
    collection.create_index("n_tags", Index::on("n").then("tags")).unwrap();
    let values = |find: Find<'_>| -> Vec<Value> {
        find.distinct("tags").unwrap().map(Result::unwrap).collect()
    };
    let expected = values(collection.find("{}").hint(Hint::Scan));
    assert_eq!(expected.len(), 7);
    for name in ["tags", "n_tags"] {
        assert_eq!(values(collection.find("{}").hint(Hint::index(name))), expected, "{name}");
    }
    // Of the documents with one element all elements count.
    for filter in [r#"{"tags":"b"}"#, r#"{"n":{"$in":[1,2]}}"#, r#"{"n":1,"tags":"a"}"#] {
        let expected = values(collection.find(filter).hint(Hint::Scan));
        let found = values(collection.find(filter).hint(Hint::index("n_tags")));
        assert_eq!(found, expected, "{filter}");
    }
    let mut tx = session.db.begin().unwrap();
    tx.put(&collection, 7, doc!({"tags": ["own"]})).unwrap();
    tx.delete(&collection, 5).unwrap();
    let own = values(tx.find(&collection, "{}").hint(Hint::index("tags")));
    assert_eq!(own, values(tx.find(&collection, "{}").hint(Hint::Scan)));
    assert!(own.contains(&Value::from("own")) && !own.contains(&Value::from(long)));
}

#[test]
fn entries_of_gone_changed_and_expired_documents_cover_nothing() {
    let world = World::new(1);
    let (session, collection) = opened(&world);
    fill(&collection, 50);
    collection.create_index("by_n", Index::on("n").then("kind")).unwrap();
    let soon = session.db.now().after(Duration::from_secs(60));
    let moment = soon;
    collection.put(1, doc!({"n": 1, "kind": "soon"}).expires(moment)).unwrap();
    let find = || collection.find("{}").project("n,kind").hint(Hint::index("by_n"));
    let before = session.db.snapshot();
    collection.delete(2).unwrap();
    collection.patch(3, &Patch::new().set("text", "blind")).unwrap();
    collection.patch(4, &Patch::new().set("kind", "new")).unwrap();
    world.clock.advance(Duration::from_secs(61));
    let now = lines(&find());
    assert_eq!(now.len(), 48);
    assert!(now.contains(&r#"{"n":3,"kind":"k3"}"#.to_owned()));
    assert!(now.contains(&r#"{"n":4,"kind":"new"}"#.to_owned()));
    let then = before.find(&collection, "{}").project("n,kind").hint(Hint::index("by_n"));
    assert_eq!(lines(&then).len(), 50);
    assert_eq!((actual(&find()).documents, actual(&then).documents), (0, 0));
    let group = Group::all().count("c");
    let count = |find: Find<'_>| find.group(&group).unwrap().next().unwrap().unwrap();
    let counted = |n: u64| doc!({"c": n});
    assert_eq!((count(find()), count(then)), (counted(48), counted(50)));
}

#[test]
fn a_count_whose_filter_reads_only_fields_of_an_index_reads_no_document() {
    let world = World::new(1);
    let (_session, collection) = opened(&world);
    fill(&collection, 500);
    collection.create_index("by_kind", Index::on("kind").then("n")).unwrap();
    let find = collection.find(r#"{"kind":"k3","n":{"$mod":[2,1]}}"#);
    let expected = find.clone().hint(Hint::Scan).count().unwrap();
    assert_eq!(find.clone().hint(Hint::index("by_kind")).count().unwrap(), expected);
    let done = collection.delete_many(r#"{"kind":"k3","n":{"$mod":[2,1]}}"#);
    assert_eq!(done.hint(Hint::index("by_kind")).run().unwrap().modified, expected);
    assert_eq!(find.count().unwrap(), 0);
}
