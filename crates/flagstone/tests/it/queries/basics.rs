//! What single queries return, and how bad input is refused.

use crate::support::{hashed, small};
use flagstone::doc::JsonMode;
use flagstone::query::{Hint, PageToken};
use flagstone::{
    Collection, Database, Document, ErrorKind, Expires, Filter, Patch, Space, Value, doc,
};
use flagstone_testkit::{Session, World};

fn opened(world: &World) -> (Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.space("comments").options(hashed(2)).collection().unwrap();
    (session, collection)
}

fn fill(collection: &Collection, count: i64) {
    for n in 0..count {
        let document = doc!({"n": n, "even": n % 2 == 0, "text": format!("text {n}")});
        collection.put(n, &document).unwrap();
    }
}

fn keys(entries: impl Iterator<Item = flagstone::Result<(Value, Document)>>) -> Vec<i64> {
    entries.map(|entry| entry.unwrap().0.as_i64().unwrap()).collect()
}

#[test]
fn a_cursor_reads_one_snapshot_whatever_happens_to_the_collection() {
    for sort in [false, true] {
        let world = World::new(1);
        let (session, collection) = opened(&world);
        fill(&collection, 2000);
        let find = collection.find(r#"{"even":true}"#);
        let mut cursor = if sort { find.sort("n").memory(1) } else { find }.run().unwrap();
        let mut found = Vec::new();
        for step in 0.. {
            if step % 100 == 0 {
                cursor.park();
            }
            match step {
                10 => collection.clear().unwrap(),
                20 => fill(&collection, 300),
                30 => session.db.flush().unwrap(),
                40 => session.db.compact().unwrap(),
                _ => {}
            }
            let Some(entry) = cursor.next() else { break };
            found.push(entry.unwrap().0.as_i64().unwrap());
        }
        found.sort_unstable();
        assert_eq!(found, (0..2000).filter(|n| n % 2 == 0).collect::<Vec<_>>());
        assert_eq!(collection.find("{}").count().unwrap(), 300);
    }
}

#[test]
fn a_cursor_keeps_the_database_open() {
    let world = World::new(1);
    let (session, collection) = opened(&world);
    fill(&collection, 10);
    let cursor = collection.find("{}").sort("-n").run().unwrap();
    drop((session, collection));
    assert_eq!(keys(cursor), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn a_projection_returns_its_fields_alone_sorted_or_not() {
    let world = World::new(1);
    let (_session, collection) = opened(&world);
    fill(&collection, 3);
    for find in [
        collection.find(r#"{"n":2}"#),
        collection.find(r#"{"n":2}"#).sort("n"),
        collection.find(r#"{"n":2}"#).sort("n").limit(1),
    ] {
        let find = find.project("n,text");
        let (key, document) = find.first().unwrap().unwrap();
        assert_eq!(key, Value::from(2));
        assert_eq!(document.to_json().unwrap(), r#"{"n":2,"text":"text 2"}"#);
        let mut cursor = find.run().unwrap();
        let mut json = Vec::new();
        assert!(
            cursor.append_json(JsonMode::Plain, &mut json).is_err()
                && cursor.key_bytes().is_empty()
        );
        assert!(cursor.advance().unwrap());
        cursor.append_json(JsonMode::Plain, &mut json).unwrap();
        assert_eq!(json, br#"{"n":2,"text":"text 2"}"#);
        let text = cursor.view().unwrap().path("text").unwrap().unwrap().as_str().unwrap();
        assert_eq!(text, "text 2");
        assert!(!cursor.advance().unwrap());
        assert_eq!(cursor.document().unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn documents_that_expire_are_found_until_then() {
    let world = World::new(1);
    let (session, collection) = opened(&world);
    fill(&collection, 4);
    let soon = session.db.now().after(std::time::Duration::from_secs(60));
    let moment = soon;
    collection.put(1, doc!({"n": 1}).expires(moment)).unwrap();
    let (all, some) = (collection.find("{}"), collection.find(r#"{"n":{"$gte":0}}"#));
    let before = session.db.snapshot();
    assert_eq!((all.count().unwrap(), some.count().unwrap()), (4, 4));
    world.clock.advance(std::time::Duration::from_secs(61));
    assert_eq!((all.count().unwrap(), some.count().unwrap()), (3, 3));
    assert_eq!(before.find(&collection, "{}").count().unwrap(), 4);
}

#[test]
fn what_is_malformed_is_refused_when_the_query_runs() {
    let world = World::new(1);
    let (session, collection) = opened(&world);
    fill(&collection, 3);
    let kind = |error: flagstone::Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        error.to_string()
    };
    let bad = collection.find(r#"{"n":{"$gt":}}"#);
    assert!(kind(bad.run().unwrap_err()).contains("byte 12"), "{}", bad.run().unwrap_err());
    kind(bad.count().unwrap_err());
    kind(bad.first().unwrap_err());
    kind(bad.page(1).unwrap_err());
    kind(bad.distinct("n").err().unwrap());
    kind(collection.find("{}").distinct("$..n").err().unwrap());
    kind("?".parse::<PageToken>().unwrap_err());
    kind(collection.find("{}").hint(Hint::index("none")).run().unwrap_err());
    kind(collection.update_many("{", &Patch::new().inc("n", 1)).run().unwrap_err().error);
    kind(collection.update_many("{}", &Patch::new()).run().unwrap_err().error);
    kind(session.db.begin().unwrap().delete_many(&collection, "[]").unwrap_err());
    assert_eq!(collection.count().unwrap(), 3);
    // A collection that was dropped, and one of another database.
    let cursor = collection.find("{}").run().unwrap();
    let elsewhere = World::new(2);
    let (other, _) = opened(&elsewhere);
    kind(other.db.snapshot().find(&collection, "{}").run().unwrap_err());
    session.db.drop_keyspace("comments").unwrap();
    kind(collection.find("{}").count().unwrap_err());
    kind(collection.find(r#"{"n":1}"#).count().unwrap_err());
    kind(cursor.last().unwrap().unwrap_err());
}

#[test]
fn a_query_in_a_transaction_conflicts_with_a_write_to_what_it_has_read() {
    use flagstone::{Isolation, TransactionOptions};
    let world = World::new(1);
    let (session, collection) = opened(&world);
    fill(&collection, 3);
    let options = TransactionOptions::new().isolation(Isolation::Serializable);
    let mut tx = options.begin(&session.db).unwrap();
    assert_eq!(tx.find(&collection, r#"{"even":true}"#).count().unwrap(), 2);
    tx.put(&collection, 100, doc!({"count": 2})).unwrap();
    collection.put(50, doc!({"even": true})).unwrap();
    assert_eq!(tx.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_database_open_for_reading_sorts_in_memory_or_says_how_much_it_needs() {
    let world = World::new(1);
    let (session, collection) = opened(&world);
    fill(&collection, 3000);
    drop(collection);
    session.db.close().unwrap();
    let open = |scratch: Option<&str>| -> Database {
        let builder = Database::builder(World::dir()).options(small());
        let builder = builder.environment(world.environment().0);
        match scratch {
            Some(dir) => builder.scratch_dir(dir),
            None => builder,
        }
        .open_read_only()
        .unwrap()
    };
    let db = open(None);
    let sorted = |db: &Database, memory| {
        let collection = db.collection("comments").unwrap();
        collection.find("{}").sort("-n").memory(memory).run().map(keys)
    };
    let refused = sorted(&db, 1 << 15).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let text = refused.to_string();
    let needed = text.split("needs ").nth(1).and_then(|rest| rest.split(',').next());
    let needed: usize = needed.and_then(|needed| needed.parse().ok()).expect(&text);
    let expected: Vec<i64> = (0..3000).rev().collect();
    assert_eq!(sorted(&db, needed).unwrap(), expected);
    // Whatever fits is answered: a small limit, a count.
    let few = db.collection("comments").unwrap().find("{}").sort("-n").limit(3).memory(1 << 15);
    assert_eq!(keys(few.run().unwrap()), [2999, 2998, 2997]);
    db.close().unwrap();
    assert_eq!(sorted(&open(Some("scratch")), 1 << 15).unwrap(), expected);
}

#[test]
fn a_filter_can_be_given_in_several_forms() {
    let world = World::new(1);
    let (_session, collection) = opened(&world);
    fill(&collection, 10);
    let filter = Filter::field("n").gte(7);
    let text = filter.to_string();
    let value = doc!({"n": {"$gte": 7}});
    for find in [
        collection.find(&filter),
        collection.find(filter.clone()),
        collection.find(&text),
        collection.find(&value),
        collection.find(value.clone()),
    ] {
        assert_eq!(find.count().unwrap(), 3);
    }
}

#[test]
fn an_explanation_says_what_was_read_and_spilled() {
    let world = World::new(1);
    let (_session, collection) = opened(&world);
    fill(&collection, 3000);
    let find = collection.find(r#"{"even":true}"#).sort("-n").memory(1);
    let planned = find.explain().unwrap();
    assert!(planned.actual.is_none() && planned.sorts);
    let explain = find.analyze().explain().unwrap();
    let actual = explain.actual.unwrap();
    assert_eq!((actual.rows, actual.matched, actual.documents), (1500, 1500, 3000));
    assert!(actual.spilled_bytes > 10_000 && actual.spilled_runs > 1, "{explain}");
    let text = explain.to_string();
    assert!(text.contains("plan: scan of all documents") && text.contains("rows 1500"), "{text}");
    let value = explain.to_value();
    assert_eq!(value.path("actual.documents"), Some(&Value::from(3000)));
    let group = flagstone::Group::by("even").count("n");
    let grouped = collection.find("{}").analyze().explain_group(&group).unwrap();
    assert_eq!(grouped.actual.map(|actual| (actual.rows, actual.documents)), Some((2, 3000)));
}

#[test]
fn a_sort_leaves_writers_the_space_that_they_need() {
    let world = World::new(1);
    let session = world.open(&small().memory_budget(64 << 20)).unwrap();
    let collection = session.db.space("comments").options(hashed(2)).collection().unwrap();
    fill(&collection, 3000);
    let sorted = || collection.find("{}").sort("-n").memory(1).run().map(keys);
    let expected = sorted().unwrap();
    // Much is free, but no more than writers may need to flush their memtables.
    world.disk.set_room(Some(30 << 20));
    let refused = sorted().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
    assert!(refused.to_string().contains("are kept back for writers"), "{refused}");
    fill(&collection, 3001);
    session.db.flush().unwrap();
    assert_eq!(collection.count().unwrap(), 3001);
    // What fits into memory is sorted.
    assert_eq!(keys(collection.find("{}").sort("-n").limit(2).run().unwrap()), [3000, 2999]);
    world.disk.set_room(None);
    assert_eq!(sorted().unwrap()[1..], expected);
}
