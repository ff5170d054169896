//! Indexes while the wall clock is far ahead by mistake. Documents that count as expired then are
//! back once the clock is right and the database is opened again, and so are their entries.

use crate::support::{open, small};
use flagstone::{
    Collection, Database, ErrorKind, Expires, Filter, Index, Patch, Space, Value, doc, internal,
};
use flagstone_testkit::{Session, World};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// Puts a document that expires in an hour.
fn put(db: &Database, documents: &Collection, key: &str, value: &Value) {
    let in_an_hour = db.now().after(Duration::from_secs(3600));
    documents.put(key, value.expires(in_an_hour)).unwrap();
}

/// A world whose clock was set ahead, with documents `a` to `e` that count as expired.
fn ahead(indexes: &[(&str, Index)]) -> (World, Session, Collection) {
    let world = World::new(1);
    world.clock.set_wall(100 * DAY);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    for (name, index) in indexes {
        documents.create_index(name, index.clone()).unwrap();
    }
    for (n, key) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        put(&session.db, &documents, key, &doc!({ "n": (n as i64), "u": (key) }));
    }
    world.clock.set_wall(200 * DAY);
    assert_eq!(documents.count().unwrap(), 0);
    (world, session, documents)
}

/// Sets the clock right and opens the database again. Compares the indexes with the documents.
fn set_right(world: &World, session: Session) -> (Session, Collection) {
    session.db.close().unwrap();
    world.clock.set_wall(100 * DAY);
    let session = open(world, &small());
    let documents = session.db.collection("documents").unwrap();
    documents.verify_indexes().unwrap();
    (session, documents)
}

fn keys(documents: &Collection) -> Vec<String> {
    documents.scan(..).map(|entry| entry.unwrap().0.to_string().replace('"', "")).collect()
}

fn by_n() -> Index {
    Index::on("n").then("u")
}

fn by_u() -> Index {
    Index::on("u").unique()
}

#[test]
fn an_index_that_is_built_then_has_the_entries_of_what_comes_back() {
    let (world, session, documents) = ahead(&[]);
    documents.create_index("by_n", by_n()).unwrap();
    documents.create_index("by_u", by_u()).unwrap();
    drop(documents);
    let (_session, documents) = set_right(&world, session);
    assert_eq!(keys(&documents), ["a", "b", "c", "d", "e"]);
    assert_eq!(internal::index_entries(&documents, "by_n").unwrap().len(), 5);
    assert_eq!(documents.find(Filter::field("u").eq("c")).count().unwrap(), 1);
}

#[test]
fn what_is_written_over_it_then_takes_its_entries_away() {
    let (world, session, documents) = ahead(&[("by_n", by_n()), ("by_u", by_u())]);
    documents.put("a", doc!({ "n": 10, "u": "new a" })).unwrap();
    documents.delete("b").unwrap();
    documents.patch("c", &Patch::new().upsert().set("n", 12)).unwrap();
    let mut transaction = session.db.begin().unwrap();
    transaction.put(&documents, "d", doc!({ "n": 13, "u": "new d" })).unwrap();
    transaction.commit().unwrap();
    documents.delete_range("e".."f").unwrap();
    assert!(!documents.update("e", |_| Ok(())).unwrap());
    drop(documents);
    let (_session, documents) = set_right(&world, session);
    assert_eq!(keys(&documents), ["a", "c", "d"]);
    let old = Filter::field("n").lt(10);
    assert_eq!(documents.find(old).count().unwrap(), 0);
}

#[test]
fn a_unique_value_that_is_given_to_another_document_then_stays_there() {
    let (world, session, documents) = ahead(&[("by_u", by_u()), ("by_n", Index::on("n").unique())]);
    documents.put("x", doc!({ "n": 20, "u": "a" })).unwrap();
    let mut batch = session.db.batch();
    batch.put(&documents, "y", doc!({ "n": 21, "u": "b" })).unwrap();
    batch.put(&documents, "c", doc!({ "n": 2, "u": "new c" })).unwrap();
    // It takes a value that "c" gives up, and "c" stays.
    batch.put(&documents, "v", doc!({ "n": 23, "u": "c" })).unwrap();
    session.db.commit(batch).unwrap();
    let mut transaction = session.db.begin().unwrap();
    transaction.put(&documents, "z", doc!({ "n": 22, "u": "d" })).unwrap();
    transaction.commit().unwrap();
    let refused = documents.put("w", doc!({ "n": 30, "u": "b" }));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Duplicate);
    drop(documents);
    let (_session, documents) = set_right(&world, session);
    // Only "e" comes back: nothing else has its values.
    assert_eq!(keys(&documents), ["c", "e", "v", "x", "y", "z"]);
    let refused = documents.put("w", doc!({ "n": 30, "u": "e" }));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Duplicate);
    documents.put("w", doc!({ "n": 0, "u": "w" })).unwrap();
}

#[test]
fn a_document_that_has_expired_gives_way_to_a_new_index() {
    let (world, session, documents) = ahead(&[]);
    // They have the values of "a" and "b"; an index of two arrays cannot hold "f".
    documents.put("0", doc!({ "n": 7, "u": "a" })).unwrap();
    documents.put("z", doc!({ "n": 8, "u": "b" })).unwrap();
    world.clock.set_wall(100 * DAY);
    let (session, documents) = {
        drop((session, documents));
        let session = open(&world, &small());
        let documents = session.db.collection("documents").unwrap();
        (session, documents)
    };
    put(&session.db, &documents, "f", &doc!({ "n": [1, 2], "u": [1, 2] }));
    world.clock.set_wall(200 * DAY);
    documents.create_index("by_u", by_u()).unwrap();
    documents.create_index("by_n", by_n()).unwrap();
    drop(documents);
    let (_session, documents) = set_right(&world, session);
    assert_eq!(keys(&documents), ["0", "c", "d", "e", "z"]);
    assert_eq!(internal::index_entries(&documents, "by_u").unwrap().len(), 5);
}

#[test]
fn an_index_by_date_that_is_built_then_brings_nothing_back_that_has_expired() {
    let world = World::new(1);
    world.clock.set_wall(100 * DAY);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    // By their dates both last until the day 103.
    let document = doc!({ "at": (102 * DAY.as_secs()) });
    put(&session.db, &documents, "over", &document);
    let later = session.db.now().after(2 * DAY);
    documents.put("hidden", (&document).expires(later)).unwrap();
    world.clock.advance(DAY);
    assert_eq!(keys(&documents), ["hidden"]);
    world.clock.set_wall(200 * DAY);
    assert_eq!(documents.count().unwrap(), 0);
    documents.create_index("by_at", Index::on("at").expire_after(DAY)).unwrap();
    drop(documents);
    session.db.close().unwrap();
    world.clock.set_wall(101 * DAY);
    let session = open(&world, &small());
    let documents = session.db.collection("documents").unwrap();
    documents.verify_indexes().unwrap();
    assert_eq!(keys(&documents), ["hidden"]);
    world.clock.advance(DAY);
    assert_eq!(keys(&documents), [""; 0]);
}
